// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <set>

#include "tables.hpp"

// What a power loss leaves of a table, and the recovery (spec/table.md 9).

namespace {

using flyring::Table;
using flyring::TableWriter;
using support::code_of;
using tables::content;
using tables::options;
namespace layout = flyring::layout;

flyring::TableOptions checked(std::uint64_t capacity = 50) {
    flyring::TableOptions made = options(capacity);
    made.checked = true;
    return made;
}

/// The machine's next boot.
flyring::detail::TableInEnvironment boot(std::uint8_t number) {
    flyring::detail::TableInEnvironment made;
    made.environment.boot_id = flyring::Uuid{};
    made.environment.boot_id->fill(static_cast<std::byte>(number));
    return made;
}

class TableRecovery : public tables::TableTest {
  protected:
    std::string path() const { return table_file("t"); }
};

TEST_F(TableRecovery, another_boot_needs_recovery_which_a_writer_does) {
    {
        Table table = boot(1).create("t", checked());
        for (int i = 0; i < 20; ++i) table.put(std::to_string(i), tables::numbered(static_cast<std::uint64_t>(i)));
        for (int i = 0; i < 20; i += 2) table.remove(std::to_string(i));
    }
    const auto before = content(boot(1).open("t"));
    flyring::OpenTableOptions opening;
    opening.read_only = true;
    Table reader = boot(2).open("t", opening);
    EXPECT_EQ(code_of([&] { reader.get("1"); }), "needs-recovery");
    EXPECT_EQ(code_of([&] { reader.size(); }), "needs-recovery");
    std::uint64_t reported = 0;
    std::uint64_t cells = 0;
    opening.read_only = false;
    opening.recovery_progress = [&](std::uint64_t done, std::uint64_t of) { reported = done, cells = of; };
    Table table = boot(2).open("t", opening);
    EXPECT_EQ(code_of([&] { table.get("1"); }), "needs-recovery");
    EXPECT_EQ(table.put("new", "x") >> 1, 30 + (std::int64_t{1} << 44) + 1);
    EXPECT_EQ(reported, 50U);
    EXPECT_EQ(cells, 50U);
    EXPECT_EQ(table.remove("new"), true);
    EXPECT_EQ(content(table), before);
    EXPECT_EQ(content(reader), before);
    EXPECT_EQ(table.size(), 10U);
    EXPECT_EQ(table.stats().damaged, 0);
    for (int i = 100; i < 140; ++i) table.put(std::to_string(i), "all cells are there");
    EXPECT_EQ(code_of([&] { table.put("x", "x"); }), "no-space");
}

TEST_F(TableRecovery, a_synced_close_needs_none) {
    boot(1).create("t", checked()).put("a", "1");
    {
        Table table = boot(1).open("t");
        table.put("a", "2");
        table.close(true);
    }
    Table table = boot(2).open("t");
    EXPECT_EQ(table.get("a"), "2");
    EXPECT_EQ(support::peek<std::int32_t>(path(), tables::control(layout::TABLE_CONTROL_CLEAN)), 1);
    EXPECT_EQ(table.put("a", "3") >> 1, 3);
    EXPECT_EQ(support::peek<std::int32_t>(path(), tables::control(layout::TABLE_CONTROL_CLEAN)), 0);
    EXPECT_EQ(code_of([&] { boot(3).open("t").get("a"); }), "needs-recovery");
    TableWriter writer = table.writer();
    writer.put("a", "4");
    table.close(true);  // under the slot of its own writer
    EXPECT_EQ(boot(3).open("t").get("a"), "4");
}

TEST_F(TableRecovery, a_synced_close_beside_another_writer_leaves_the_mark_to_that_one) {
    Table table = boot(1).create("t", checked());
    Table other = boot(1).open("t");
    TableWriter writer = other.writer();
    writer.put("a", "1");
    table.close(true);
    EXPECT_EQ(support::peek<std::int32_t>(path(), tables::control(layout::TABLE_CONTROL_CLEAN)), 0);
    other.close(true);
    EXPECT_EQ(support::peek<std::int32_t>(path(), tables::control(layout::TABLE_CONTROL_CLEAN)), 1);
}

TEST_F(TableRecovery, a_table_without_crcs_stays_lost_until_it_is_replaced) {
    flyring::TableOptions unchecked = options();
    unchecked.checked = false;
    boot(1).create("t", unchecked).put("a", "1");
    Table table = boot(2).open("t");
    EXPECT_EQ(code_of([&] { table.get("a"); }), "needs-recovery");
    EXPECT_EQ(code_of([&] { table.put("a", "2"); }), "needs-recovery");
    EXPECT_EQ(code_of([&] { table.writer(); }), "needs-recovery");
    EXPECT_EQ(code_of([&] { boot(2).open("t").put("a", "2"); }), "needs-recovery");  // the slot is free again
    Table::unlink("t");
}

TEST_F(TableRecovery, a_torn_value_falls_back_to_the_one_before_or_is_counted_as_damaged) {
    boot(1).create("t", checked());
    {
        Table table = boot(1).open("t");
        table.put("two bodies", "first");
        table.put("two bodies", "second");
        table.put("one body", "only");
    }
    const flyring::detail::TableFile file = tables::raw("t");
    const auto damage = [&](std::uint64_t cell) {
        const auto version = support::peek<std::int64_t>(path(), tables::cell_offset(file, cell));
        const std::uint64_t body = tables::cell_offset(file, cell) + file.header.body_offset() +
                                   ((version & 1) != 0 ? file.header.body_length() : 0);
        support::poke<std::uint8_t>(path(), body + layout::TABLE_BODY_VALUE, 0x5a);
    };
    damage(0);
    damage(1);
    Table table = boot(2).open("t");
    table.put("c", "x");
    EXPECT_EQ(table.get("two bodies"), "first");
    EXPECT_EQ(table.get("one body"), std::nullopt);
    EXPECT_EQ(table.stats().damaged, 1);
    EXPECT_EQ(table.size(), 2U);
}

/// A disk that writes pages in any order. It holds the file as it was at the last sync, and each state of each page
/// since then may have reached the disk; a page may be torn at a sector.
class Disk {
  public:
    explicit Disk(std::string path) : path_(std::move(path)) { sync(); }
    void sync() {
        synced_ = support::read_file(path_);
        states_.clear();
    }
    /// To be called after each change.
    void note() { states_.push_back(support::read_file(path_)); }
    /// What is left after the power was lost.
    std::vector<std::byte> lose(std::mt19937& random) const {
        std::vector<std::byte> left = synced_;
        for (std::size_t sector = 0; sector < left.size(); sector += 512) {
            if (sector % 4096 == 0 || random() % 64 == 0) from_ = pick(random);  // rarely, a page is torn
            std::copy_n(from_->begin() + static_cast<std::ptrdiff_t>(sector), 512,
                        left.begin() + static_cast<std::ptrdiff_t>(sector));
        }
        return left;
    }

  private:
    const std::vector<std::byte>* pick(std::mt19937& random) const {
        const std::size_t which = random() % (states_.size() + 1);
        return which == states_.size() ? &synced_ : &states_[which];
    }

    std::string path_;
    std::vector<std::byte> synced_;
    std::vector<std::vector<std::byte>> states_;
    mutable const std::vector<std::byte>* from_ = nullptr;
};

TEST_F(TableRecovery, any_mix_of_old_and_new_pages_gives_whole_values_and_keeps_what_was_synced) {
    constexpr int keys = 30;
    int damaged = 0;
    int lost = 0;
    for (unsigned round = 0; round < 60; ++round) {
        std::mt19937 random(round);
        if (round != 0) Table::unlink("t");
        boot(1).create("t", checked(40));
        std::map<std::string, std::set<std::int64_t>> put;  // of each key, by number
        std::map<std::string, std::int64_t> synced;         // of keys that were not changed since; -1: removed
        std::uint64_t number = 1;
        std::int64_t version = 0;
        for (std::uint8_t life = 1; life <= 3; ++life) {
            Disk disk(path());
            {
                Table table = boot(life).open("t");
                for (int i = 0; i < 40; ++i) {
                    const std::string key = std::to_string(random() % keys);
                    if (random() % 4 == 0) {
                        table.remove(key);
                    } else {
                        const std::int64_t made = table.put(key, tables::numbered(number));
                        ASSERT_GT(made, version) << "a version is used again";
                        version = made;
                        put[key].insert(static_cast<std::int64_t>(number++));
                    }
                    synced.erase(key);
                    if (i == 25) {
                        disk.sync();
                        for (int k = 0; k < keys; ++k) {
                            const auto value = table.get(std::to_string(k));
                            synced[std::to_string(k)] = value ? tables::number_of(*value) : -1;
                        }
                    } else {
                        disk.note();
                    }
                }
            }
            support::write_file(path(), disk.lose(random));
            Table table = boot(static_cast<std::uint8_t>(life + 1)).open("t");
            table.writer();
            for (const auto& [key, value] : content(table)) {
                const std::int64_t found = tables::number_of(value);
                ASSERT_GE(found, 0) << "torn: key " << key << ", round " << round;
                ASSERT_EQ(put[key].count(found), 1U) << "another key's value: key " << key << ", round " << round;
                ASSERT_EQ(table.get(key), value);
            }
            for (const auto& [key, wanted] : synced) {
                const auto value = table.get(key);
                ASSERT_EQ(value ? tables::number_of(*value) : -1, wanted) << "key " << key << ", round " << round;
            }
            damaged += static_cast<int>(table.stats().damaged);
            lost += 40 - static_cast<int>(synced.size());
            for (int k = 0; k < keys; ++k) synced.erase(std::to_string(k));
        }
    }
    EXPECT_GT(damaged, 0) << "no page was torn: the disk is too kind";
    EXPECT_GT(lost, 0);
}

}  // namespace
