// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <filesystem>
#include <thread>

#include "faults.hpp"
#include "tables.hpp"

// Whole copies: snapshot and grow (spec/table.md 7 and 9).

namespace {

using flyring::Table;
using flyring::TableWriter;
using support::code_of;
using tables::content;
using tables::options;
using namespace std::chrono_literals;

class TableCopies : public tables::TableTest {};

TEST_F(TableCopies, a_snapshot_holds_every_key_with_its_version) {
    Table table = Table::create("t", options());
    for (int i = 0; i < 60; ++i) table.put(std::to_string(i), tables::numbered(static_cast<std::uint64_t>(i)));
    for (int i = 0; i < 60; i += 3) table.remove(std::to_string(i));
    EXPECT_EQ(table.snapshot("copy"), 40U);
    Table copy = Table::open("copy");
    EXPECT_EQ(content(copy), content(table));
    EXPECT_EQ(copy.size(), 40U);
    EXPECT_EQ(copy.version(), table.version());
    EXPECT_EQ(copy.get_versioned("1")->version, table.get_versioned("1")->version);
    EXPECT_NE(copy.id(), table.id());
    EXPECT_GT(copy.put("0", "goes on"), table.get_versioned("59")->version);
    EXPECT_EQ(table.get("0"), std::nullopt);
    EXPECT_EQ(code_of([&] { table.snapshot("t"); }), "invalid-argument");
    EXPECT_EQ(table.snapshot("copy"), 40U);  // in the place of the older one
    EXPECT_EQ(Table::open("copy").get("0"), std::nullopt);
    EXPECT_EQ(code_of([&] { copy.put("0", "too late"); }), "replaced");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder()), {}), 2);
}

TEST_F(TableCopies, a_snapshot_is_clean_and_needs_no_recovery_after_another_boot) {
    flyring::TableOptions asked = options();
    asked.checked = true;
    Table table = Table::create("t", asked);
    table.put("a", "1");
    table.snapshot("copy");
    flyring::detail::TableInEnvironment later;
    later.environment.boot_id = flyring::detail::new_uuid();
    EXPECT_EQ(code_of([&] { later.open("t").get("a"); }), "needs-recovery");
    Table copy = later.open("copy");
    EXPECT_EQ(copy.get("a"), "1");
    EXPECT_EQ(copy.put("a", "2") >> 1, 2);  // no jump of the stamp
    EXPECT_EQ(copy.stats().damaged, 0);
}

TEST_F(TableCopies, a_snapshot_beside_a_writer_has_each_value_whole_and_each_key_once) {
    Table table = Table::create("t", options(200));
    std::atomic<bool> end{false};
    for (std::uint64_t i = 0; i < 50; ++i) table.put("kept " + std::to_string(i), tables::numbered(i));
    std::thread feed([&] {
        TableWriter writer = table.writer();
        for (std::uint64_t i = 0; !end.load(); ++i) {
            writer.put("comes and goes " + std::to_string(i % 100), tables::numbered(i));
            writer.remove("comes and goes " + std::to_string((i + 50) % 100));
            writer.put("kept " + std::to_string(i % 50), tables::numbered(i));
        }
    });
    for (int i = 0; i < 30; ++i) {
        table.snapshot("copy");
        const auto found = content(Table::open("copy"));
        int kept = 0;
        for (const auto& [key, value] : found) {
            ASSERT_GE(tables::number_of(value), 0) << key;
            if (key.rfind("kept", 0) == 0) ++kept;
        }
        ASSERT_EQ(kept, 50);
    }
    end = true;
    feed.join();
}

TEST_F(TableCopies, a_writer_takes_a_snapshot_of_one_instant) {
    Table table = Table::create("t", options());
    TableWriter writer = table.writer();
    writer.put("a", "1");
    EXPECT_EQ(writer.snapshot("copy"), 1U);
    EXPECT_EQ(Table::open("copy").get("a"), "1");
    EXPECT_GT(writer.put("a", "2"), 0);
}

TEST_F(TableCopies, grow_keeps_keys_and_versions_and_everyone_follows) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    flyring::OpenTableOptions opening;
    opening.read_only = true;
    Table reader = Table::open("t", opening);
    for (int i = 0; i < 4; ++i) table.put(std::to_string(i), std::to_string(i));
    auto entry = other.entry("2");
    const auto version = entry->version();
    EXPECT_EQ(code_of([&] { table.grow(3); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { table.grow((1U << 30) + 1); }), "invalid-argument");
    const flyring::detail::TableFile old = tables::raw("t");
    table.grow(4);  // packs it
    EXPECT_EQ(other.get("2"), "2");
    EXPECT_EQ(*old.successor(), flyring::layout::SUCCESSOR_REPLACED);
    table.grow(1000);
    EXPECT_EQ(table.capacity(), 1000U);
    EXPECT_EQ(*old.successor(), flyring::layout::SUCCESSOR_REPLACED);
    EXPECT_EQ(Table::open("t").id(), old.header.table_id);
    EXPECT_EQ(Table::open("t").created_at(), old.header.created_at);
    EXPECT_EQ(table.version(), 4);
    EXPECT_EQ(table.get_versioned("2")->version, version);
    EXPECT_GT(table.put("2", "later"), version);
    EXPECT_EQ(other.get("2"), "later");
    EXPECT_EQ(other.capacity(), 1000U);
    EXPECT_EQ(reader.get("2"), "later");
    EXPECT_EQ(entry->get(), "later");
    for (int i = 4; i < 900; ++i) other.put(std::to_string(i), "x");
    EXPECT_EQ(reader.size(), 900U);
    EXPECT_EQ(Table::open_or_create("t", options(4)).size(), 900U);
    EXPECT_EQ(table.put_if_absent("2", "there"), 0);
}

TEST_F(TableCopies, a_writer_grows_and_goes_on_and_others_put_after_it) {
    Table table = Table::create("t", options(2));
    Table other = Table::open("t");
    TableWriter writer = table.writer("feed");
    writer.put("a", "1");
    writer.put("b", "1");
    EXPECT_EQ(code_of([&] { writer.put("c", "1"); }), "no-space");
    EXPECT_EQ(code_of([&] { other.grow(10, 1ms); }), "no-free-slot");
    writer.grow(10);
    EXPECT_GT(writer.put("c", "1"), 0);
    EXPECT_EQ(code_of([&] { other.put("d", "1", 5ms); }), "no-free-slot");  // it has followed: the new slot is held
    EXPECT_EQ(other.stats().writer, "feed");
    EXPECT_EQ(other.get("c"), "1");
    writer.close();
    EXPECT_GT(other.put("d", "1"), 0);
    EXPECT_EQ(table.get("d"), "1");
}

// The larger file has the name, but the folder cannot be written to the disk.
TEST_F(TableCopies, a_writer_whose_grow_fails_late_is_closed_and_loses_nothing) {
    Table table = Table::create("t", options(2));
    TableWriter writer = table.writer("feed");
    writer.put("a", "1");
    bool renamed = false;
    {
        const faults::Hook hook([&](const faults::Call& call) {
            const bool fails = renamed && std::string(call.name) == "open";
            renamed = renamed || std::string(call.name) == "rename";
            return fails ? EMFILE : 0;
        });
        EXPECT_EQ(code_of([&] { writer.grow(10); }), "io");
    }
    EXPECT_TRUE(renamed);
    EXPECT_EQ(code_of([&] { writer.put("b", "1"); }), "closed");
    EXPECT_GT(table.put("b", "1"), 0);  // the slot is free
    EXPECT_EQ(table.capacity(), 10U);
    EXPECT_EQ(content(Table::open("t")).size(), 2U);
}

TEST_F(TableCopies, a_writer_whose_grow_fails_early_goes_on) {
    Table table = Table::create("t", options(2));
    TableWriter writer = table.writer("feed");
    {
        const faults::Hook hook(
            [](const faults::Call& call) { return std::string(call.name) == "rename" ? EACCES : 0; });
        EXPECT_THROW(writer.grow(10), flyring::FlyringError);
    }
    EXPECT_GT(writer.put("a", "1"), 0);
    EXPECT_EQ(Table::open("t").get("a"), "1");
    writer.grow(10);
    EXPECT_GT(writer.put("b", "1"), 0);
    EXPECT_EQ(content(Table::open("t")).size(), 2U);
}

TEST_F(TableCopies, a_put_that_waits_for_the_slot_goes_into_the_larger_file) {
    Table table = Table::create("t", options(2));
    Table other = Table::open("t");
    TableWriter writer = table.writer();
    std::thread waiter([&] { other.put("waited", "x"); });
    std::this_thread::sleep_for(10ms);
    writer.grow(10);
    writer.close();
    waiter.join();
    EXPECT_EQ(Table::open("t").get("waited"), "x");
}

TEST_F(TableCopies, sleepers_follow_a_table_that_grows) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    const std::int64_t first = table.put("a", "1");
    std::int64_t found = 0;
    std::thread sleeper([&] { found = other.wait_changed("a", first, 10s); });
    std::this_thread::sleep_for(10ms);
    table.grow(10);
    table.put("a", "2");
    sleeper.join();
    EXPECT_EQ(found, table.get_versioned("a")->version);
}

TEST_F(TableCopies, another_table_of_the_same_name_is_not_this_one_grown) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    const std::int64_t first = table.put("a", "1");
    // The same id in a file of other dimensions: a copy that was made by hand, say
    flyring::detail::TableHeader header = tables::raw("t").header;
    for (int round = 0; round < 2; ++round) {
        header.capacity = 1000;
        header.value_bytes = round == 0 ? 40 : 48;
        header.table_id = round == 0 ? table.id() : flyring::detail::new_uuid();
        flyring::detail::NewTable made(table_file("t"), header, options(1000), {}, true);
        {
            const flyring::detail::TableSuccessor successor("t", flyring::layout::SUCCESSOR_REPLACED);
            made.replace();
        }
        EXPECT_EQ(other.get("a"), "1") << round;  // goes on in the old file
        EXPECT_EQ(other.capacity(), 4U) << round;
        EXPECT_EQ(code_of([&] { other.put("a", "2"); }), "replaced") << round;
        EXPECT_EQ(code_of([&] { other.writer(); }), "replaced") << round;
        EXPECT_EQ(code_of([&] { other.wait_changed("a", first, 1s); }), "replaced") << round;
        EXPECT_EQ(other.get("a"), "1") << round;
    }
}

TEST_F(TableCopies, a_reader_of_a_replaced_table_looks_at_most_each_millisecond) {
    Table table = Table::create("t", options(4));
    table.put("a", "1");
    Table::replace("t", options(4));
    long looks = 0;
    const faults::Hook count([&](const faults::Call& call) {
        looks += std::string(call.name) == "fstat" ? 1 : 0;
        return 0;
    });
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20'000; ++i) ASSERT_EQ(table.get("a"), "1");
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    EXPECT_GE(looks, 1);
    EXPECT_LE(looks, 2 * (time.count() + 2));  // of the old file, and of the one that has its name
}

TEST_F(TableCopies, a_writer_learns_of_a_replace_although_it_took_the_slot_before_the_name_changed) {
    Table table = Table::create("t", options(4));
    const flyring::detail::TableFile old = tables::raw("t");
    {
        const flyring::detail::TableSuccessor successor("t", flyring::layout::SUCCESSOR_REPLACED);
        EXPECT_EQ(*old.successor(), 1);
        EXPECT_GT(table.put("a", "1"), 0);
        EXPECT_EQ(*old.successor(), 0);  // it still has its name
        std::filesystem::remove(table_file("t"));
        Table::create("t", options(4));
    }
    EXPECT_EQ(code_of([&] { table.put("a", "2"); }), "replaced");
}

TEST_F(TableCopies, a_table_that_lost_its_name_does_not_grow) {
    Table table = Table::create("t", options(4));
    TableWriter writer = table.writer();
    const Table other = Table::replace("t", options(8));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(code_of([&] { writer.grow(10); }), "replaced") << i;
    EXPECT_EQ(Table::open("t").id(), other.id());
    EXPECT_GT(writer.put("a", "1"), 0);  // in the old file
    writer.close();
    EXPECT_EQ(code_of([&] { table.grow(10); }), "replaced");
    Table last = Table::open("t");
    Table::unlink("t");
    EXPECT_EQ(code_of([&] { last.grow(10); }), "no-such-channel");
    TableWriter held = last.writer();
    EXPECT_EQ(code_of([&] { held.grow(10); }), "no-such-channel");
    EXPECT_GT(held.put("a", "1"), 0);
    EXPECT_FALSE(std::filesystem::exists(table_file("t")));
}

TEST_F(TableCopies, grow_says_so_before_it_renames_and_takes_it_back_if_it_cannot) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    table.put("a", "1");
    const flyring::detail::TableFile old = tables::raw("t");
    int renames = 0;
    {
        const faults::Hook fail([&](const faults::Call& call) {
            if (std::string(call.name) != "rename") return 0;
            ++renames;
            EXPECT_EQ(*old.successor(), 1);
            std::thread([&] {
                EXPECT_EQ(other.get("a"), "1");
                EXPECT_EQ(code_of([&] { other.put("a", "2", 2ms); }), "no-free-slot");
            }).join();
            return EACCES;
        });
        EXPECT_EQ(code_of([&] { table.grow(10); }), "access-denied");
    }
    EXPECT_EQ(renames, 1);
    EXPECT_EQ(*old.successor(), 0);
    EXPECT_EQ(table.capacity(), 4U);
    EXPECT_GT(other.put("a", "2"), 0);
    EXPECT_EQ(table.get("a"), "2");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder()), {}), 1);
}

TEST_F(TableCopies, a_grow_that_was_killed_before_its_rename_leaves_the_table_as_it_is) {
    Table table = Table::create("t", options(4));
    table.put("a", "1");
    const auto successor = tables::control(flyring::layout::TABLE_CONTROL_SUCCESSOR);
    support::poke<std::int32_t>(table_file("t"), successor, flyring::layout::SUCCESSOR_REPLACED);
    EXPECT_EQ(table.get("a"), "1");
    EXPECT_GT(table.put("a", "2"), 0);
    EXPECT_EQ(support::peek<std::int32_t>(table_file("t"), successor), 0);
    EXPECT_EQ(Table::open("t").get("a"), "2");
}

}  // namespace
