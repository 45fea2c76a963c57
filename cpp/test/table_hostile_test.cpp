// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <random>
#include <thread>

#include "tables.hpp"

// Broken and hostile memory (spec/table.md 10).

namespace {

using flyring::Table;
using support::code_of;
using support::peek;
using support::poke;
using tables::content;
using tables::options;
using namespace std::chrono_literals;
namespace layout = flyring::layout;

class TableHostile : public tables::TableTest {
  protected:
    TableHostile() {
        for (int i = 0; i < 6; ++i) table.put(std::to_string(i), "value " + std::to_string(i));
        table.remove("4");
        table.remove("5");  // cell 5 is on top of the stack, cell 4 below it
    }
    std::string path() const { return table_file("t"); }
    template <typename T>
    void set(std::uint64_t word, T value) {
        poke<T>(path(), tables::control(word), value);
    }
    std::uint64_t cell(std::uint64_t number) const { return tables::cell_offset(file, number); }
    std::uint64_t body(std::uint64_t number) const {
        return cell(number) + file.header.body_offset() +
               ((peek<std::int64_t>(path(), cell(number)) & 1) != 0 ? file.header.body_length() : 0);
    }
    /// The code and the cell of what a call throws.
    template <typename Call>
    static std::string corrupt(Call&& call) {
        try {
            call();
        } catch (const flyring::CorruptTable& error) {
            return std::to_string(error.cell());
        }
        return "none";
    }

    Table table = Table::create("t", options(20));
    flyring::detail::TableFile file = tables::raw("t");
};

TEST_F(TableHostile, lengths_out_of_range_are_corrupt_table_with_the_cell) {
    for (const std::int32_t length :
         {49, -2, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
        poke<std::int32_t>(path(), body(2) + layout::TABLE_BODY_LENGTH, length);
        EXPECT_EQ(corrupt([&] { table.get("2"); }), "2") << length;
        EXPECT_EQ(corrupt([&] { table.for_each([](const auto&) {}); }), "2") << length;
    }
    poke<std::int32_t>(path(), body(2) + layout::TABLE_BODY_LENGTH, 7);
    EXPECT_EQ(table.get("2"), "value 2");
    for (const std::int32_t length : {33, -1, std::numeric_limits<std::int32_t>::max()}) {
        poke<std::int32_t>(path(), cell(2) + layout::TABLE_CELL_KEY_LENGTH, length);
        EXPECT_EQ(corrupt([&] { table.get("2"); }), "2") << length;
    }
    EXPECT_EQ(table.get("3"), "value 3");
}

TEST_F(TableHostile, negative_versions_and_seqs_are_not_live_and_a_seq_that_never_fits_is_busy) {
    const auto version = peek<std::int64_t>(path(), cell(1));
    poke<std::int64_t>(path(), cell(1), -version);
    EXPECT_EQ(table.get("1"), std::nullopt);
    poke<std::int64_t>(path(), cell(1), version);
    poke<std::int64_t>(path(), body(1), -5);
    EXPECT_EQ(table.get("1"), std::nullopt);
    poke<std::int64_t>(path(), body(1), version + 2);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(code_of([&] { table.get("1"); }), "busy");
    EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
    EXPECT_EQ(table.stats().busy, 1U);
}

TEST_F(TableHostile, a_body_that_never_fits_its_version_is_corrupt_table_for_the_writer) {
    const auto version = peek<std::int64_t>(path(), cell(1));
    poke<std::int64_t>(path(), body(1), version + 2);
    EXPECT_EQ(code_of([&] { table.get("1"); }), "busy");
    EXPECT_EQ(corrupt([&] { table.put("1", "x"); }), "1");
    EXPECT_EQ(corrupt([&] { table.remove("1"); }), "1");
    EXPECT_EQ(corrupt([&] { table.clear(); }), "1");
    EXPECT_EQ(corrupt([&] { table.grow(1000); }), "1");
    EXPECT_EQ(code_of([&] { table.snapshot("copy"); }), "busy");
    EXPECT_EQ(corrupt([&] { table.writer().snapshot("copy"); }), "1");
    EXPECT_EQ(table.stats().busy, 2U);
}

TEST_F(TableHostile, the_length_of_another_keys_value_is_not_looked_at) {
    poke<std::int32_t>(path(), body(2) + layout::TABLE_BODY_LENGTH, 49);
    const flyring::detail::HashedKey absent(support::bytes("absent").data(), 6);
    auto* entries = flyring::detail::word_at<std::uint64_t>(file.mapping.data(), file.header.index_offset());
    for (std::uint64_t at = 0; at < file.header.entries(); ++at) {
        if (entries[at] == 0) entries[at] = absent.entry(2);
    }
    EXPECT_EQ(table.get("absent"), std::nullopt);
    EXPECT_EQ(corrupt([&] { table.get("2"); }), "2");
    poke<std::int32_t>(path(), cell(2) + layout::TABLE_CELL_KEY_LENGTH, 33);
    EXPECT_EQ(corrupt([&] { table.get("absent"); }), "2");
}

TEST_F(TableHostile, a_search_while_the_generation_never_stands_still_is_busy) {
    constexpr std::uint64_t cells = 150;
    Table other = Table::create("other", options(cells));
    for (std::uint64_t at = 0; at < cells; ++at) other.put(std::to_string(at), "x");
    const flyring::detail::TableFile raw = tables::raw("other");
    const flyring::detail::TableView view(raw, raw.mapping.data());
    const flyring::detail::HashedKey key(support::bytes("a").data(), 1);
    for (std::uint64_t at = 0; at < cells; ++at) {  // each cell holds this key, and one entry leads to the first
        flyring::detail::put(view.cell(at) + layout::TABLE_CELL_KEY_LENGTH, 1);
        flyring::detail::put(view.cell(at) + layout::TABLE_CELL_KEY, 'a');
    }
    std::memset(view.copy(0), 0, 8 * view.entries());
    std::uint64_t* const entry = view.copy(0) + view.home(key.fingerprint);
    *entry = key.entry(0);
    std::uint64_t lost = 0;
    const auto lose = [&](flyring::Bytes) {  // the cell that is being read, in the middle of it
        *flyring::detail::word_at<std::int64_t>(view.body(lost, *view.version(lost)), layout::TABLE_BODY_SEQ) = 0;
        *view.version(lost) = 0;
        *entry = key.entry(++lost);
        *view.generation() += 2;
        std::this_thread::sleep_for(20us);
    };
    EXPECT_EQ(code_of([&] { other.read("a", lose); }), "busy");
    EXPECT_LT(lost, cells);
    EXPECT_EQ(other.stats().busy, 1U);
    EXPECT_TRUE(other.contains("a"));
}

TEST_F(TableHostile, entries_that_lead_nowhere_are_skipped) {
    const std::uint64_t home = flyring::detail::TableView(file, file.mapping.data())
                                   .home(flyring::detail::HashedKey(support::bytes("1").data(), 1).fingerprint);
    (void)home;
    auto* entries = flyring::detail::word_at<std::uint64_t>(file.mapping.data(), file.header.index_offset());
    for (std::uint64_t at = 0; at < file.header.entries(); ++at) {
        if (entries[at] == 0) entries[at] = std::uint64_t{0xfedcba98} << 32 | (at % 2 == 0 ? 0xfffffff0 : 0);
    }
    EXPECT_EQ(table.get("1"), "value 1");
    EXPECT_EQ(table.get("none"), std::nullopt);  // after N entries
    EXPECT_GT(table.put("1", "x"), 0);
    for (std::uint64_t at = 0; at < file.header.entries(); ++at) {
        if (entries[at] == layout::TABLE_TOMBSTONE) entries[at] = 0xfffffff0;
    }
    EXPECT_EQ(corrupt([&] { table.put("no place", "x"); }), "-1");
    EXPECT_EQ(table.get("1"), "x");
}

TEST_F(TableHostile, a_top_next_or_fresh_that_is_no_free_cell_is_corrupt_table_for_the_writer) {
    const auto top = peek<std::uint32_t>(path(), tables::control(layout::TABLE_CONTROL_TOP));
    EXPECT_EQ(top, 6U);
    for (const std::uint32_t wrong : {7U, 21U, 0xffffffffU}) {
        set<std::uint32_t>(layout::TABLE_CONTROL_TOP, wrong);
        EXPECT_EQ(corrupt([&] { table.put("new", "x"); }), "-1") << wrong;
        EXPECT_EQ(corrupt([&] { table.remove("1"); }), "-1") << wrong;
    }
    set<std::uint32_t>(layout::TABLE_CONTROL_TOP, 2);
    EXPECT_EQ(corrupt([&] { table.put("new", "x"); }), "1");  // it holds a key
    set<std::uint32_t>(layout::TABLE_CONTROL_TOP, top);
    poke<std::uint32_t>(path(), cell(5) + layout::TABLE_CELL_NEXT, 99);
    EXPECT_EQ(corrupt([&] { table.put("new", "x"); }), "-1");
    set<std::uint32_t>(layout::TABLE_CONTROL_TOP, 0);
    for (const std::uint32_t wrong : {21U, 0xffffffffU}) {
        set<std::uint32_t>(layout::TABLE_CONTROL_FRESH, wrong);
        EXPECT_EQ(corrupt([&] { table.put("new", "x"); }), "-1") << wrong;
    }
    set<std::uint32_t>(layout::TABLE_CONTROL_FRESH, 2);
    EXPECT_EQ(corrupt([&] { table.put("new", "x"); }), "2");
    EXPECT_EQ(table.get("1"), "value 1");
    EXPECT_GT(table.put("1", "still"), 0);
}

TEST_F(TableHostile, a_stamp_out_of_range_is_corrupt_table_for_the_writer) {
    for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min()}) {
        set<std::int64_t>(layout::TABLE_CONTROL_STAMP, wrong);
        EXPECT_EQ(corrupt([&] { table.put("1", "x"); }), "-1") << wrong;
        EXPECT_EQ(corrupt([&] { table.remove("1"); }), "-1") << wrong;
    }
    EXPECT_EQ(table.get("1"), "value 1");
    set<std::int64_t>(layout::TABLE_CONTROL_STAMP, 100);
    EXPECT_EQ(table.put("1", "x") >> 1, 101);
}

TEST_F(TableHostile, wrong_counts_an_intent_and_a_rebuild_out_of_range_do_no_harm) {
    for (const std::int64_t wrong :
         {std::int64_t{-9}, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
        set<std::int64_t>(layout::TABLE_CONTROL_REBUILD, wrong);
        set<std::int64_t>(layout::TABLE_CONTROL_SIZE, wrong);
        set<std::int64_t>(layout::TABLE_CONTROL_FILLED, wrong);
        set<std::int64_t>(layout::TABLE_CONTROL_DAMAGED, wrong);
        set<std::int64_t>(layout::TABLE_CONTROL_GENERATION, wrong & ~std::int64_t{1});
        set<std::uint64_t>(layout::TABLE_CONTROL_INTENT, static_cast<std::uint64_t>(wrong));
        set<std::int64_t>(layout::TABLE_CONTROL_INTENT_SIZE, wrong);
        for (int i = 0; i < 40; ++i) {
            ASSERT_GT(table.put("more", std::to_string(i)), 0);
            ASSERT_TRUE(table.remove("more"));
        }
        table.size();
        EXPECT_EQ(table.get("1"), "value 1");
        EXPECT_EQ(content(table).size(), 4U);
        EXPECT_EQ(peek<std::uint64_t>(path(), tables::control(layout::TABLE_CONTROL_INTENT)), 0U);
    }
}

TEST_F(TableHostile, any_byte_anywhere_never_crashes_or_hangs) {
    std::mt19937 random(7);
    std::map<std::string, int> codes;
    const std::vector<std::byte> whole = support::read_file(path());
    for (int round = 0; round < 100; ++round) {
        support::write_file(path(), whole);
        Table victim = Table::open("t");
        for (int i = 0; i < 40; ++i) {
            // Mostly words of the control section, the index and the cells, not the header
            const std::uint64_t at = 4096 + random() % (whole.size() - 4096);
            const std::uint64_t near = 4096 + 128 + random() % 256;
            poke<std::uint8_t>(path(), i % 2 == 0 ? at : near, static_cast<std::uint8_t>(random()));
            const std::string key = std::to_string(random() % 8);
            ++codes[code_of([&] { victim.get(key); })];
            ++codes[code_of([&] { victim.put(key, "x", 1ms); })];
            ++codes[code_of([&] { victim.remove(std::to_string(random() % 8), 1ms); })];
            ++codes[code_of([&] { victim.for_each([](const auto&) {}); })];
            ++codes[code_of([&] { victim.stats(); })];
            ++codes[code_of([&] { victim.wait_changed(key, 0, 0ns); })];
        }
        ++codes[code_of([&] { victim.snapshot("copy"); })];
        ++codes[code_of([&] { victim.clear(); })];
    }
    for (const auto& [code, count] : codes) {
        EXPECT_TRUE(code == "none" || code == "corrupt-table" || code == "busy" || code == "no-space" ||
                    code == "timed-out" || code == "needs-recovery")
            << code << " " << count;
    }
    EXPECT_GT(codes["none"], 1000);
    EXPECT_GT(codes["corrupt-table"], 10);
}

}  // namespace
