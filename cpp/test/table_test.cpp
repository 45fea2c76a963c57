// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>
#include <unordered_map>

#include "tables.hpp"

// The verbs of a table, its options and errors (spec/table.md, spec/api.md "Table").

namespace {

using flyring::KeyType;
using flyring::Table;
using flyring::TableItem;
using flyring::TableWriter;
using support::code_of;
using tables::content;
using tables::options;
using namespace std::chrono_literals;

class TableVerbs : public tables::TableTest {};
class TableFiles : public tables::TableTest {};

TEST_F(TableFiles, create_and_open_show_the_same_table) {
    flyring::TableOptions made = options(1000, KeyType::bytes, 100);
    made.key_bytes = 20;
    made.schema = "<messageSchema/>";
    made.schema_id = 17;
    made.schema_version = 3;
    made.value_template = 5;
    const Table table = Table::create("made", made);
    const Table opened = Table::open("made");
    EXPECT_EQ(opened.path(), table_file("made"));
    EXPECT_EQ(opened.id(), table.id());
    EXPECT_EQ(opened.capacity(), 1000U);
    EXPECT_EQ(opened.key_type(), KeyType::bytes);
    EXPECT_EQ(opened.key_bytes(), 20U);
    EXPECT_EQ(opened.value_bytes(), 100U);
    EXPECT_FALSE(opened.checked());  // in shared memory
    EXPECT_EQ(opened.schema(), "<messageSchema/>");
    EXPECT_EQ(opened.schema_id(), 17U);
    EXPECT_EQ(opened.schema_version(), 3U);
    EXPECT_EQ(opened.value_template(), 5U);
    EXPECT_EQ(opened.file_length(), std::filesystem::file_size(table_file("made")));
    // 4096 header, 4096 control, 2 x 12288 index (1504 entries), 1000 cells of 64 + 2 * 128, 4096 schema
    EXPECT_EQ(opened.file_length(), 4096U + 4096 + 2 * 12288 + 323584 + 4096);
}

TEST_F(TableFiles, bad_options_name_the_argument) {
    const auto argument = [](auto change) -> std::string {
        flyring::TableOptions asked = options();
        change(asked);
        try {
            Table::create("bad", asked);
        } catch (const flyring::InvalidArgument& error) {
            return error.argument();
        }
        return "none";
    };
    EXPECT_EQ(argument([](auto& asked) { asked.capacity.reset(); }), "capacity");
    EXPECT_EQ(argument([](auto& asked) { asked.capacity = 0; }), "capacity");
    EXPECT_EQ(argument([](auto& asked) { asked.capacity = (1U << 30) + 1; }), "capacity");
    EXPECT_EQ(argument([](auto& asked) { asked.key = KeyType::none; }), "key");
    EXPECT_EQ(argument([](auto& asked) { asked.key_bytes = 0; }), "key_bytes");
    EXPECT_EQ(argument([](auto& asked) { asked.key_bytes = 1025; }), "key_bytes");
    EXPECT_EQ(argument([](auto& asked) { asked.key = KeyType::integer, asked.key_bytes = 4; }), "key_bytes");
    EXPECT_EQ(argument([](auto& asked) { asked.value_bytes.reset(); }), "value_bytes");
    EXPECT_EQ(argument([](auto& asked) { asked.value_bytes = (1U << 24) + 1; }), "value_bytes");
    EXPECT_EQ(argument([](auto& asked) { asked.schema_id = 1; }), "schema_id");
    EXPECT_EQ(argument([](auto& asked) { asked.value_template = 1; }), "message");
    EXPECT_EQ(argument([](auto& asked) { asked.mode = 01777; }), "mode");
    EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(TableFiles, open_or_create_names_the_first_field_that_differs) {
    const Table made = Table::open_or_create("one", options());
    EXPECT_EQ(Table::open_or_create("one", options()).id(), made.id());
    const auto field = [&](auto change) -> std::string {
        flyring::TableOptions asked = options();
        change(asked);
        try {
            Table::open_or_create("one", asked);
        } catch (const flyring::ChannelDiffers& error) {
            return error.field() + " " + error.expected() + " " + error.actual();
        }
        return "none";
    };
    EXPECT_EQ(field([](auto& asked) { asked.key = KeyType::bytes; }), "key_type bytes text");
    EXPECT_EQ(field([](auto& asked) { asked.key_bytes = 31, asked.value_bytes = 1; }), "key_bytes 31 32");
    EXPECT_EQ(field([](auto& asked) { asked.value_bytes = 47, asked.capacity = 200; }), "value_bytes 47 48");
    EXPECT_EQ(field([](auto& asked) { asked.capacity = 101, asked.checked = true; }), "capacity 101 100");
    EXPECT_EQ(field([](auto& asked) { asked.capacity = 99; }), "none");  // it may have grown
    EXPECT_EQ(field([](auto& asked) { asked.checked = true; }), "checked true false");
    EXPECT_EQ(field([](auto& asked) { asked.schema = "a", asked.schema_id = 5; }), "schema_id 5 0");
    EXPECT_EQ(field([](auto& asked) { asked.schema = "a", asked.schema_version = 5; }), "schema_version 5 0");
}

TEST_F(TableFiles, names_that_are_there_are_missing_or_are_something_else) {
    Table::create("there", options());
    EXPECT_EQ(code_of([] { Table::create("there", options()); }), "exists");
    EXPECT_EQ(code_of([] { Table::open("gone"); }), "no-such-channel");
    EXPECT_EQ(code_of([] { Table::unlink("gone"); }), "no-such-channel");
    EXPECT_EQ(code_of([] { Table::wait_for("gone", 2ms); }), "timed-out");
    EXPECT_EQ(code_of([] { Table::open("bad name"); }), "invalid-argument");
    flyring::Channel::create("ring", support::broadcast());
    EXPECT_EQ(code_of([&] { Table::open(file("ring")); }), "not-a-channel");
    EXPECT_EQ(code_of([&] { Table::unlink(file("ring")); }), "not-a-channel");
    EXPECT_EQ(code_of([&] { flyring::Channel::open(table_file("there")); }), "not-a-channel");
    Table::unlink("there");
    EXPECT_EQ(code_of([] { Table::open("there"); }), "no-such-channel");
}

TEST_F(TableFiles, a_value_is_there_after_a_restart) {
    Table::create("t", options()).put("key", "value");
    EXPECT_EQ(Table::open("t").get("key"), "value");
    {
        support::Child child([](const auto&) { return Table::open("t").put("child", "was here") > 0; });
        EXPECT_EQ(child.wait(), 0);
    }
    Table again = Table::open("t");
    EXPECT_EQ(again.get("child"), "was here");
    EXPECT_EQ(again.size(), 2U);
    EXPECT_EQ(again.version(), 2);
}

TEST_F(TableFiles, a_replaced_table_goes_on_for_readers_and_refuses_writers) {
    Table old = Table::create("t", options());
    old.put("key", "old");
    TableWriter writer = old.writer();
    Table fresh = Table::replace("t", options());
    EXPECT_EQ(fresh.get("key"), std::nullopt);
    EXPECT_EQ(old.get("key"), "old");
    EXPECT_EQ(code_of([&] { writer.put("key", "x"); }), "replaced");  // once
    EXPECT_GT(writer.put("key", "y"), 0);
    writer.close();
    EXPECT_EQ(code_of([&] { old.put("key", "x"); }), "replaced");
    EXPECT_EQ(code_of([&] { old.wait_changed("none", 0, 1s); }), "replaced");
    EXPECT_EQ(old.get("key"), "y");
    EXPECT_EQ(Table::open("t").get("key"), std::nullopt);
}

TEST_F(TableFiles, a_read_only_table_reads_and_writes_nothing) {
    Table table = Table::create("t", options());
    table.put("key", "value");
    flyring::OpenTableOptions opening;
    opening.read_only = true;
    Table reader = Table::open("t", opening);
    const auto before = support::read_file(table_file("t"));
    EXPECT_EQ(reader.get("key"), "value");
    EXPECT_EQ(content(reader).size(), 1U);
    EXPECT_EQ(reader.stats().size, 1);
    EXPECT_EQ(code_of([&] { reader.wait_changed("key", reader.get_versioned("key")->version, 3ms); }), "timed-out");
    EXPECT_EQ(code_of([&] { reader.put("key", "x"); }), "access-denied");
    EXPECT_EQ(code_of([&] { reader.remove("key"); }), "access-denied");
    EXPECT_EQ(code_of([&] { reader.clear(); }), "access-denied");
    EXPECT_EQ(code_of([&] { reader.writer(); }), "access-denied");
    EXPECT_EQ(code_of([&] { reader.grow(1000); }), "access-denied");
    EXPECT_EQ(code_of([&] { reader.sync(); }), "access-denied");
    EXPECT_EQ(support::read_file(table_file("t")), before);
    table.put("key", "later");
    EXPECT_EQ(reader.get("key"), "later");
}

TEST_F(TableVerbs, put_get_remove) {
    Table table = Table::create("t", options());
    EXPECT_EQ(table.get("a"), std::nullopt);
    const std::int64_t first = table.put("a", "one");
    EXPECT_EQ(table.put("b", "two") >> 1, (first >> 1) + 1);
    EXPECT_EQ(table.get("a"), "one");
    const std::int64_t second = table.put("a", "");
    EXPECT_GT(second, first);
    EXPECT_EQ(table.get("a"), "");
    EXPECT_EQ(table.get_versioned("a")->version, second);
    EXPECT_EQ(table.get_versioned("a")->value, "");
    EXPECT_EQ(table.size(), 2U);
    EXPECT_EQ(table.version(), second >> 1);
    EXPECT_TRUE(table.remove("a"));
    EXPECT_FALSE(table.remove("a"));
    EXPECT_EQ(table.get("a"), std::nullopt);
    EXPECT_FALSE(table.contains("a"));
    EXPECT_TRUE(table.contains("b"));
    EXPECT_EQ(table.size(), 1U);
    EXPECT_EQ(table.version(), (second >> 1) + 1);
    EXPECT_GT(table.put("a", "again"), second + 2);
    EXPECT_EQ(table.get("a"), "again");
}

TEST_F(TableVerbs, keys_and_values_of_each_length_come_back) {
    flyring::TableOptions asked = options(400, KeyType::bytes, 200);
    asked.key_bytes = 77;
    Table table = Table::create("t", asked);
    std::map<std::string, std::string> put;
    for (std::size_t length = 0; length <= 200; ++length) {
        std::string value(length, static_cast<char>(length));
        std::string key(length % 78, static_cast<char>('a' + length / 78));
        table.put(key, value);
        put[key] = value;
    }
    EXPECT_EQ(content(table), put);
    std::byte buffer[200];
    for (const auto& [key, value] : put) {
        ASSERT_EQ(table.get(key), value);
        ASSERT_EQ(table.get(key, flyring::MutableBytes(buffer)), value.size());
        ASSERT_EQ(std::memcmp(buffer, value.data(), value.size()), 0);
    }
    EXPECT_EQ(code_of([&] { table.get(put.rbegin()->first, flyring::MutableBytes(buffer, 3)); }), "too-large");
}

TEST_F(TableVerbs, integer_keys_are_signed_numbers) {
    Table table = Table::create("t", options(10, KeyType::integer));
    for (const std::int64_t key : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()}) {
        table.put(key, std::to_string(key));
    }
    EXPECT_EQ(table.get(-1), "-1");
    EXPECT_EQ(table.get(0U), "0");
    std::map<std::int64_t, std::string> met;
    table.for_each([&](const TableItem& item) { met[item.integer()] = item.value; });
    EXPECT_EQ(met.size(), 4U);
    EXPECT_EQ(met.begin()->second, "-9223372036854775808");
}

TEST_F(TableVerbs, wrong_keys_and_long_values_are_refused) {
    Table text = Table::create("text", options());
    Table integers = Table::create("integers", options(10, KeyType::integer));
    EXPECT_EQ(code_of([&] { text.get(5); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { integers.put("five", "5"); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { text.put("\xff", "5"); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { text.put("\xed\xa0\x80", "a surrogate"); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { text.put("Müller 東京 😀", "5"); }), "none");
    EXPECT_EQ(code_of([&] { text.put(std::string(33, 'a'), "5"); }), "too-large");
    EXPECT_EQ(code_of([&] { text.get(std::string(33, 'a')); }), "too-large");
    EXPECT_EQ(code_of([&] { text.put("a", std::string(49, 'a')); }), "too-large");
    EXPECT_EQ(code_of([&] { text.put("a", "x", -1ns); }), "invalid-argument");
    EXPECT_EQ(text.size(), 1U);
}

TEST_F(TableVerbs, put_if_absent_and_compare_and_put_change_only_what_they_expect) {
    Table table = Table::create("t", options());
    const std::int64_t first = table.put_if_absent("a", "1");
    EXPECT_GT(first, 0);
    EXPECT_EQ(table.put_if_absent("a", "2"), 0);
    EXPECT_EQ(table.compare_and_put("a", first + 2, "2"), 0);
    EXPECT_EQ(table.compare_and_put("b", first, "2"), 0);
    EXPECT_EQ(table.get("a"), "1");
    const std::int64_t second = table.compare_and_put("a", first, "2");
    EXPECT_GT(second, first);
    EXPECT_EQ(table.get("a"), "2");
    EXPECT_GT(table.compare_and_put("b", 0, "3"), second);
    EXPECT_EQ(table.version(), 3);
}

TEST_F(TableVerbs, update_changes_a_copy_and_puts_it) {
    Table table = Table::create("t", options());
    EXPECT_EQ(table.update("a", [](std::string& value) { value += "!"; }), 0);
    table.put("a", "hi");
    EXPECT_GT(table.update("a", [](std::string& value) { value += "!"; }), 0);
    EXPECT_EQ(table.get("a"), "hi!");
    EXPECT_THROW(table.update("a", [](std::string&) { throw std::runtime_error("no"); }), std::runtime_error);
    EXPECT_EQ(code_of([&] { table.update("a", [](std::string& value) { value.resize(100); }); }), "too-large");
    EXPECT_EQ(table.get("a"), "hi!");
    EXPECT_EQ(table.version(), 2);
    EXPECT_GT(table.writer().update("a", [](std::string& value) { value = "by the writer"; }), 0);
    EXPECT_EQ(table.get("a"), "by the writer");
}

TEST_F(TableVerbs, a_change_or_close_inside_a_handler_of_an_update_is_view_alive) {
    Table table = Table::create("t", options());
    table.put("a", "1");
    int tried = 0;
    const auto inside = [&](auto verb) {
        ++tried;
        EXPECT_EQ(code_of(verb), "view-alive") << tried;
    };
    const auto try_all = [&](std::string& value) {
        EXPECT_EQ(table.get("a"), value);
        inside([&] { table.put("a", "x"); });
        inside([&] { table.put(5, "of a wrong type"); });  // checked before the arguments
        inside([&] { table.compare_and_put("a", 0, "x"); });
        inside([&] { table.remove("a"); });
        inside([&] { table.clear(); });
        inside([&] { table.update("a", [](std::string&) {}); });
        inside([&] { table.writer(); });
        inside([&] { table.grow(1000); });
        inside([&] { table.close(); });
        inside([&] { table.close(true); });
        value += "!";
    };
    EXPECT_GT(table.update("a", try_all), 0);
    EXPECT_EQ(table.get("a"), "1!");
    TableWriter writer = table.writer();
    const auto by_writer = [&](std::string& value) {
        try_all(value);
        inside([&] { writer.put("a", "x"); });
        inside([&] { writer.close(); });
    };
    EXPECT_GT(writer.update("a", by_writer), 0);
    EXPECT_EQ(tried, 22);
    EXPECT_EQ(table.get("a"), "1!!");
    EXPECT_EQ(table.version(), 3);
    // Another thread is not inside a handler, so it gets no ViewAlive; but it may not use this thread's writer.
    std::string code;
    writer.update("a",
                  [&](std::string&) { std::thread([&] { code = code_of([&] { writer.put("a", "2"); }); }).join(); });
    EXPECT_EQ(code, "two-threads");
    EXPECT_GT(writer.put("a", "3"), 0);
}

TEST_F(TableVerbs, a_change_that_would_wait_for_the_own_writer_is_busy) {
    Table table = Table::create("t", options());
    table.put("a", "1");
    TableWriter writer = table.writer("feed");
    EXPECT_EQ(code_of([&] { table.put("a", "2"); }), "busy");  // at once, not at the time-out
    EXPECT_EQ(code_of([&] { table.put_if_absent("b", "2"); }), "busy");
    EXPECT_EQ(code_of([&] { table.remove("a"); }), "busy");
    EXPECT_EQ(code_of([&] { table.update("a", [](std::string&) {}); }), "busy");
    EXPECT_EQ(code_of([&] { table.clear(); }), "busy");
    EXPECT_EQ(code_of([&] { table.grow(1000); }), "busy");
    EXPECT_EQ(code_of([&] { table.put("a", std::string(49, 'x')); }), "too-large");  // checked before busy
    EXPECT_EQ(code_of([&] { table.writer(); }), "no-free-slot");
    EXPECT_EQ(table.snapshot("copy"), 1U);
    table.sync();
    EXPECT_EQ(table.get("a"), "1");
    EXPECT_EQ(table.stats().busy, 0U);  // of reads
    Table other = Table::open("t");
    EXPECT_EQ(code_of([&] { other.put("a", "2", 1ms); }), "no-free-slot");
    writer.close();
    EXPECT_GT(table.put("a", "2"), 0);
}

TEST_F(TableVerbs, read_hands_the_value_in_place) {
    Table table = Table::create("t", options());
    table.put("a", "hello");
    EXPECT_EQ(table.read("a", [](flyring::Bytes value) { return value.size(); }), 5U);
    EXPECT_EQ(table.read("b", [](flyring::Bytes value) { return value.size(); }), std::nullopt);
    int calls = 0;
    EXPECT_TRUE(table.read("a", [&](flyring::Bytes) { ++calls; }));
    EXPECT_FALSE(table.read("b", [&](flyring::Bytes) { ++calls; }));
    EXPECT_EQ(calls, 1);
    EXPECT_THROW(table.read("a", [](flyring::Bytes) { throw std::runtime_error("whole"); }), std::runtime_error);
}

TEST_F(TableVerbs, a_read_begins_again_if_its_body_was_written_meanwhile) {
    Table table = Table::create("t", options());
    table.put("a", "first");
    std::string seen;
    table.read("a", [&](flyring::Bytes value) {
        seen = std::string(reinterpret_cast<const char*>(value.data()), value.size());
        if (seen != "first") return;
        table.put("a", "second");
        table.put("a", "third");  // into the body that is being read
        throw std::runtime_error("a torn value, which does not count");
    });
    EXPECT_EQ(seen, "third");
    // Each of its calls is overtaken
    EXPECT_EQ(code_of([&] {
                  table.read("a", [&](flyring::Bytes) {
                      table.put("a", "x");
                      table.put("a", "y");
                  });
              }),
              "busy");
    EXPECT_EQ(table.stats().busy, 1U);
}

TEST_F(TableVerbs, a_search_begins_again_if_the_index_was_rebuilt_meanwhile) {
    Table table = Table::create("t", options(8));
    table.put("a", "1");
    const auto generation = [&] {
        return support::peek<std::int64_t>(table_file("t"), tables::control(flyring::layout::TABLE_CONTROL_GENERATION));
    };
    std::string seen;
    const bool found = table.read("a", [&](flyring::Bytes value) {
        seen = std::string(reinterpret_cast<const char*>(value.data()), value.size());
        if (seen != "1") return;
        table.remove("a");
        table.put("takes its cell", "x");
        for (int i = 0; generation() == 0; ++i) {
            table.put(std::to_string(i), "x");
            table.remove(std::to_string(i));
        }
        table.put("a", "2");  // only in the new copy of the index
    });
    EXPECT_TRUE(found);
    EXPECT_EQ(seen, "2");
    EXPECT_EQ(generation(), 1);
}

TEST_F(TableVerbs, an_entry_finds_its_key_wherever_it_lies) {
    Table table = Table::create("t", options(3));
    EXPECT_FALSE(table.entry("a").has_value());
    table.put("a", "1");
    auto entry = table.entry("a");
    ASSERT_TRUE(entry.has_value());
    EXPECT_EQ(entry->get(), "1");
    table.put("a", "2");
    EXPECT_EQ(entry->get(), "2");
    EXPECT_EQ(entry->version(), table.get_versioned("a")->version);
    table.remove("a");
    EXPECT_EQ(entry->get(), std::nullopt);
    EXPECT_EQ(entry->version(), 0);
    table.put("b", "in its cell");
    EXPECT_EQ(entry->get(), std::nullopt);
    table.put("a", "elsewhere");
    EXPECT_EQ(entry->get_versioned()->value, "elsewhere");
    EXPECT_EQ(entry->read([](flyring::Bytes value) { return value.size(); }), 9U);
    TableWriter writer = table.writer();
    EXPECT_GT(writer.put(*entry, "by entry"), 0);
    EXPECT_EQ(table.get("a"), "by entry");
    writer.remove("a");
    EXPECT_GT(writer.put(*entry, "inserted"), 0);
    EXPECT_EQ(table.get("a"), "inserted");
    EXPECT_EQ(table.get("b"), "in its cell");
}

TEST_F(TableVerbs, a_removed_key_leaves_no_older_value_in_its_cell) {
    Table table = Table::create("t", options());
    const flyring::detail::TableFile file = tables::raw("t");
    const flyring::detail::TableChanges changes(file);
    const auto seq = [&](std::int64_t version) {
        return flyring::detail::word_at<std::int64_t>(changes.view().body(0, version), flyring::layout::TABLE_BODY_SEQ);
    };
    const std::int64_t first = table.put("a", "1");
    const std::int64_t second = table.put("a", "2");
    EXPECT_EQ(*seq(first), first);
    table.remove("a");
    EXPECT_EQ(*changes.view().version(0) >> 1, 3);
    EXPECT_EQ(*seq(first), *changes.view().version(0));
    EXPECT_EQ(*seq(second), 0);
    // The state that a writer leaves if it is killed between the tombstone and the stack. The next writer does the
    // rest.
    const flyring::detail::HashedKey key(support::bytes("a").data(), 1);
    *seq(second) = second;
    *changes.top() = 0;
    *changes.intent() = key.entry(0);
    *changes.intent_size() = 1;
    table.remove("none");
    EXPECT_EQ(*seq(second), 0);
    EXPECT_EQ(*changes.top(), 1U);
    EXPECT_EQ(table.size(), 0U);
    // A writer that is killed after the store to the stack has freed the cell. The next one does not free it again.
    *changes.intent() = key.entry(0);
    *changes.intent_size() = 1;
    table.remove("none");
    EXPECT_EQ(*changes.top(), 1U);
    EXPECT_EQ(*changes.next(0), 0U);
}

TEST_F(TableVerbs, a_full_table_is_no_space_until_a_key_is_removed) {
    Table table = Table::create("t", options(5));
    for (int i = 0; i < 5; ++i) table.put(std::to_string(i), "x");
    try {
        table.put("one more", "x");
        FAIL();
    } catch (const flyring::NoSpace& error) {
        EXPECT_EQ(error.needed(), 1U);
        EXPECT_EQ(error.free(), 0U);
    }
    EXPECT_GT(table.put("3", "again"), 0);
    table.remove("0");
    EXPECT_GT(table.put("one more", "y"), 0);
    EXPECT_EQ(table.get("one more"), "y");
    EXPECT_EQ(table.size(), 5U);
}

TEST_F(TableVerbs, clear_removes_each_key) {
    Table table = Table::create("t", options());
    for (int i = 0; i < 50; ++i) table.put(std::to_string(i), "x");
    EXPECT_EQ(table.clear(), 50U);
    EXPECT_EQ(table.size(), 0U);
    EXPECT_TRUE(content(table).empty());
    EXPECT_EQ(table.get("7"), std::nullopt);
    EXPECT_EQ(table.clear(), 0U);
}

TEST_F(TableVerbs, a_writer_holds_the_slot_until_it_is_closed) {
    Table table = Table::create("t", options());
    Table other = Table::open("t");
    TableWriter writer = table.writer("feed");
    EXPECT_EQ(writer.epoch(), 1);
    EXPECT_GT(writer.put("a", "1"), 0);
    try {
        other.put("a", "2", 5ms);
        FAIL();
    } catch (const flyring::NoFreeSlot& error) {
        EXPECT_EQ(error.kind(), "writer");
        ASSERT_EQ(error.owners().size(), 1U);
        EXPECT_EQ(error.owners()[0].name, "feed");
        EXPECT_EQ(error.owners()[0].pid, ::getpid());
    }
    EXPECT_EQ(code_of([&] { other.writer(); }), "no-free-slot");
    EXPECT_TRUE(other.stats().writing);
    EXPECT_EQ(other.stats().writer, "feed");
    EXPECT_EQ(other.get("a"), "1");
    writer.close();
    EXPECT_FALSE(other.stats().writing);
    EXPECT_EQ(code_of([&] { writer.put("a", "3"); }), "closed");
    EXPECT_GT(other.put("a", "2"), 0);
    EXPECT_EQ(table.writer("feed").epoch(), 3);
}

TEST_F(TableVerbs, a_writer_whose_slot_another_one_took_is_slot_lost) {
    Table table = Table::create("t", options());
    TableWriter writer = table.writer();
    support::poke<std::int64_t>(table_file("t"), tables::control(flyring::layout::TABLE_CONTROL_SLOT), 7);
    EXPECT_EQ(code_of([&] { writer.put("a", "1"); }), "slot-lost");
    EXPECT_EQ(code_of([&] { writer.remove("a"); }), "slot-lost");
    EXPECT_EQ(code_of([&] { writer.clear(); }), "slot-lost");
    EXPECT_EQ(table.version(), 0);
}

TEST_F(TableVerbs, everything_is_closed_after_close_and_in_a_forked_child) {
    Table table = Table::create("t", options());
    table.put("a", "1");
    TableWriter writer = table.writer();
    auto entry = table.entry("a");
    support::Child child([&](const auto&) {
        return code_of([&] { table.get("a"); }) == "closed" && code_of([&] { writer.put("a", "2"); }) == "closed" &&
               code_of([&] { entry->get(); }) == "closed" && code_of([&] { table.put("a", "2"); }) == "closed";
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_GT(writer.put("a", "still ours"), 0);
    table.close();
    table.close();
    EXPECT_EQ(code_of([&] { table.get("a"); }), "closed");
    EXPECT_EQ(code_of([&] { table.put("a", "x"); }), "closed");
    EXPECT_EQ(code_of([&] { writer.put("a", "x"); }), "closed");
    EXPECT_EQ(code_of([&] { entry->get(); }), "closed");
    EXPECT_EQ(Table::open("t").put("a", "free again", 0ns) > 0, true);
}

TEST_F(TableVerbs, random_changes_are_those_of_a_map) {
    // Few keys that come and go: tombstones pile up, and the index is rebuilt again and again.
    for (const std::uint64_t capacity : {1U, 7U, 60U, 500U}) {
        const std::string name = "t" + std::to_string(capacity);
        Table table = Table::create(name, options(capacity));
        std::map<std::string, std::string> model;
        std::mt19937 random(static_cast<unsigned>(capacity));
        TableWriter writer = table.writer();
        std::int64_t last = 0;
        for (int i = 0; i < 30'000; ++i) {
            const std::string key = std::to_string(random() % (4 * capacity + 40));
            if (random() % 3 == 0) {
                ASSERT_EQ(writer.remove(key), model.erase(key) == 1);
            } else if (model.size() < capacity || model.count(key) != 0) {
                model[key] = std::to_string(i);
                const std::int64_t version = writer.put(key, model[key]);
                ASSERT_GT(version, last);
                last = version;
            } else {
                ASSERT_EQ(code_of([&] { writer.put(key, "x"); }), "no-space");
            }
            const std::string other = std::to_string(random() % (4 * capacity + 40));
            const auto found = model.find(other);
            ASSERT_EQ(table.get(other), found == model.end() ? std::nullopt : std::optional(found->second));
        }
        EXPECT_EQ(content(table), model);
        EXPECT_EQ(table.size(), model.size());
        EXPECT_EQ(content(Table::open(name)), model);
        const auto generation =
            support::peek<std::int64_t>(table_file(name), tables::control(flyring::layout::TABLE_CONTROL_GENERATION));
        // The homes of these keys fill just 12 of the 16 entries of the smallest table.
        EXPECT_GT(generation, capacity == 1 ? -1 : 10) << "the index was hardly ever rebuilt";
    }
}

TEST_F(TableVerbs, random_changes_of_integer_keys_are_those_of_a_map) {
    // Their get into a buffer has a way of its own, for keys that are there and for keys that are not.
    for (const std::uint64_t capacity : {9U, 60U, 500U}) {
        Table table = Table::create("t" + std::to_string(capacity), options(capacity, KeyType::integer, 8));
        std::map<std::int64_t, std::int64_t> model;
        std::mt19937 random(static_cast<unsigned>(capacity));
        TableWriter writer = table.writer();
        const auto bytes = [](std::int64_t& value) {
            return flyring::MutableBytes(reinterpret_cast<std::byte*>(&value), sizeof value);
        };
        for (std::int64_t i = 0; i < 30'000; ++i) {
            const auto key = static_cast<std::int64_t>(random() % (4 * capacity));
            if (random() % 3 == 0) {
                ASSERT_EQ(writer.remove(key), model.erase(key) == 1);
            } else if (model.size() < capacity || model.count(key) != 0) {
                model[key] = i;
                std::int64_t value = i;
                writer.put(key, bytes(value));
            }
            const auto other = static_cast<std::int64_t>(random() % (4 * capacity));
            const auto found = model.find(other);
            std::int64_t value = -1;
            const std::optional<std::size_t> length = table.get(other, bytes(value));
            ASSERT_EQ(length.has_value(), found != model.end()) << other;
            ASSERT_EQ(value, found == model.end() ? -1 : found->second);
        }
    }
}

TEST_F(TableVerbs, two_threads_put_through_one_table) {
    Table table = Table::create("t", options());
    const auto count = [&] {
        for (int i = 0; i < 500; ++i) {
            table.update("n", [](std::string& value) { value = std::to_string(std::stoi(value) + 1); });
        }
    };
    table.put("n", "0");
    support::race(count, count);
    EXPECT_EQ(table.get("n"), "1000");
}

TEST_F(TableVerbs, stats_tell_of_the_index_and_its_rebuild) {
    Table table = Table::create("t", options(10));  // 16 entries
    for (int i = 0; i < 10; ++i) table.put(std::to_string(i), "x");
    EXPECT_EQ(table.stats().entries, 16);
    EXPECT_EQ(table.stats().filled, 10);
    EXPECT_EQ(table.stats().rebuild, 0);
    TableWriter writer = table.writer();
    for (int i = 0; i < 10 && table.stats().rebuild == 0; ++i) {
        writer.remove(std::to_string(i));
        writer.put("new " + std::to_string(i), "x");
    }
    EXPECT_GT(table.stats().rebuild, 0);
    EXPECT_GT(table.stats().filled, 12);
    EXPECT_EQ(table.stats().size, 10);
    EXPECT_EQ(table.stats().capacity, 10U);
    for (int i = 0; i < 10 && table.stats().rebuild != 0; ++i) writer.put("new 0", "x");
    EXPECT_EQ(table.stats().rebuild, 0);
    EXPECT_EQ(table.stats().filled, 10);
}

TEST_F(TableVerbs, stats_need_read_permission_only_and_work_before_a_recovery) {
    flyring::TableOptions asked = options(10);
    asked.checked = true;
    Table table = Table::create("t", asked);
    table.put("a", "1");
    TableWriter writer = table.writer("feed");
    const flyring::detail::TableFile file = tables::raw("t");
    std::filesystem::permissions(table_file("t"), std::filesystem::perms::owner_read);
    flyring::detail::TableInEnvironment later;
    later.environment.boot_id = flyring::detail::new_uuid();
    flyring::OpenTableOptions opening;
    opening.read_only = true;
    const Table reader = later.open("t", opening);
    EXPECT_EQ(code_of([&] { reader.get("a"); }), "needs-recovery");
    EXPECT_EQ(reader.stats().size, 1);
    EXPECT_EQ(reader.stats().capacity, 10U);
    EXPECT_EQ(reader.stats().writer, "feed");
    EXPECT_EQ(reader.stats().pid, ::getpid());
    EXPECT_TRUE(reader.stats().writing);
    EXPECT_FALSE(reader.stats().closed);
    EXPECT_GT(reader.stats().attached_at, 0);
    EXPECT_EQ(reader.stats().epoch, 2);
    EXPECT_EQ(reader.stats().version, 1);
    EXPECT_TRUE(reader.stats().needs_recovery);
    EXPECT_FALSE(reader.stats().clean);
    EXPECT_FALSE(table.stats().needs_recovery);
    EXPECT_EQ(reader.stats().id, table.id());
    EXPECT_EQ(reader.stats().path, table.path());
    auto* const stamp = flyring::detail::word_at<std::int64_t>(file.control(), flyring::layout::TABLE_CONTROL_STAMP);
    ++*stamp;  // a change is under way
    EXPECT_FALSE(reader.stats().unfinished);
    writer.close();
    EXPECT_TRUE(reader.stats().unfinished);
    EXPECT_FALSE(reader.stats().writing);
    EXPECT_TRUE(reader.stats().closed);
    table.put("a", "2");
    EXPECT_FALSE(reader.stats().unfinished);
    EXPECT_FALSE(reader.stats().closed);
    EXPECT_EQ(reader.stats().writer, "feed");
    table.close(true);
    EXPECT_TRUE(reader.stats().clean);
    EXPECT_FALSE(reader.stats().needs_recovery);
    for (const std::uint64_t word : {flyring::layout::TABLE_CONTROL_SIZE, flyring::layout::TABLE_CONTROL_FILLED,
                                     flyring::layout::TABLE_CONTROL_REBUILD, flyring::layout::TABLE_CONTROL_DAMAGED}) {
        *flyring::detail::word_at<std::int64_t>(file.control(), word) = -7;
    }
    EXPECT_EQ(reader.stats().size + reader.stats().filled + reader.stats().rebuild + reader.stats().damaged, 0);
}

TEST(TableCells, a_cell_that_would_cross_1_gib_is_never_used) {
    for (const std::uint32_t value_bytes : {0U, 48U, 1'000'000U, 12'345'678U, 1U << 24}) {
        for (const std::uint64_t capacity : {1U, 7U, 31U, 32U, 33U, 64U, 100U, 1000U, 12'345U}) {
            flyring::detail::TableFile file;
            file.header.key_bytes = 8;
            file.header.value_bytes = value_bytes;
            file.header.capacity = capacity;
            std::byte anywhere{};
            const flyring::detail::TableView view(file, &anywhere);
            const std::uint64_t stride = file.header.cell_stride();
            std::uint64_t usable = 0;
            std::uint64_t cells = 0;
            for (; usable < capacity; ++cells) {
                const bool crosses = cells * stride >> 30 != (cells * stride + stride - 1) >> 30;
                if (!crosses) ++usable;
                ASSERT_TRUE(cells >= file.header.cells() || view.usable(cells) != crosses) << cells;
            }
            ASSERT_EQ(file.header.cells(), cells) << capacity << " of " << stride;
            ASSERT_FALSE(view.usable(cells));
        }
    }
}

TEST(TableHash, the_hash_is_xxhash64) {
    std::ifstream vectors(support::spec_folder() + "/../examples/routing/vectors.txt");
    std::string line;
    int checked = 0;
    while (std::getline(vectors, line)) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream words(line);
        std::string hash, inbox, kind, key;
        words >> hash >> inbox >> kind;
        std::getline(words, key);
        key.erase(0, 1);
        const std::int64_t number = kind == "text" ? 0 : std::stoll(key);
        const flyring::Bytes bytes = kind == "text" ? support::bytes(key) : flyring::bytes_of(number);
        EXPECT_EQ(flyring::detail::xxhash64(bytes.data(), bytes.size()), std::stoull(hash, nullptr, 16)) << line;
        ++checked;
    }
    EXPECT_GT(checked, 10);
}

}  // namespace
