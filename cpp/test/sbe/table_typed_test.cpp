// SPDX-License-Identifier: Apache-2.0
#include <prices/Book.h>
#include <prices/PriceUpdate.h>
#include <prices/Trade.h>

#include <flyring/sbe.hpp>
#include <prices/schema.hpp>

#include "../tables.hpp"

// Values that are messages of a schema (spec/messages.md, spec/table.md).

namespace {

using flyring::Table;
using prices::Book;
using prices::PriceUpdate;
using prices::Trade;
using support::code_of;

class TableTyped : public tables::TableTest {
  protected:
    static flyring::TableOptions options() {
        flyring::TableOptions made;
        made.capacity = 100;
        made.key = flyring::KeyType::text;
        made.use<PriceUpdate>(prices::schema);
        return made;
    }
    static auto bid(std::int64_t price) {
        return [price](PriceUpdate& update) { update.bid(price).ask(price + 1).sequence(7); };
    }

    Table table = Table::create("t", options());
};

TEST_F(TableTyped, the_message_fixes_the_length_of_the_values) {
    EXPECT_EQ(table.value_bytes(), 8U + PriceUpdate::sbeBlockLength());
    EXPECT_EQ(table.value_template(), PriceUpdate::sbeTemplateId());
    EXPECT_EQ(table.schema_id(), PriceUpdate::sbeSchemaId());
    EXPECT_EQ(table.schema(), prices::schema.text);
    flyring::OpenTableOptions opening;
    opening.schema = prices::schema;
    EXPECT_EQ(Table::open("t", opening).id(), table.id());
    opening.min_schema_version = 9;
    EXPECT_EQ(code_of([&] { Table::open("t", opening); }), "differs");
}

TEST_F(TableTyped, put_get_read_and_update_use_the_codec) {
    EXPECT_GT(table.put<PriceUpdate>("FLYR", bid(100)), 0);
    EXPECT_EQ(table.get<PriceUpdate>("FLYR", [](PriceUpdate& update) { return update.ask(); }), 101);
    EXPECT_EQ(table.get<PriceUpdate>("none", [](PriceUpdate& update) { return update.ask(); }), std::nullopt);
    EXPECT_EQ(table.read<PriceUpdate>("FLYR", [](PriceUpdate& update) { return update.bid(); }), 100);
    EXPECT_GT(table.update<PriceUpdate>("FLYR", [](PriceUpdate& update) { update.bid(update.bid() + 5); }), 0);
    EXPECT_EQ(table.update<PriceUpdate>("none", [](PriceUpdate&) {}), 0);
    EXPECT_EQ(table.read<PriceUpdate>("FLYR", [](PriceUpdate& update) { return update.bid(); }), 105);
    EXPECT_EQ(table.read<PriceUpdate>("FLYR", [](PriceUpdate& update) { return update.sequence(); }), 7U);
    std::int64_t seen = 0;
    EXPECT_TRUE(table.read<PriceUpdate>("FLYR", [&](PriceUpdate& update) { seen = update.ask(); }));
    EXPECT_EQ(seen, 101);
}

TEST_F(TableTyped, a_writer_and_an_entry_use_the_codec) {
    flyring::TableWriter writer = table.writer("feed");
    EXPECT_GT(writer.put<PriceUpdate>("FLYR", bid(1)), 0);
    auto entry = table.entry("FLYR");
    ASSERT_TRUE(entry.has_value());
    EXPECT_GT(writer.put<PriceUpdate>(*entry, bid(2)), 0);
    EXPECT_EQ(entry->read<PriceUpdate>([](PriceUpdate& update) { return update.bid(); }), 2);
    EXPECT_GT(writer.update<PriceUpdate>("FLYR", [](PriceUpdate& update) { update.bid(3); }), 0);
    EXPECT_EQ(entry->read<PriceUpdate>([](PriceUpdate& update) { return update.bid(); }), 3);
}

TEST_F(TableTyped, what_is_not_the_message_is_refused) {
    EXPECT_EQ(code_of([&] { table.put<Trade>("a", [](Trade&) {}); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { table.get<Trade>("a", [](Trade&) {}); }), "invalid-argument");
    table.put("raw", "no message");
    EXPECT_EQ(code_of([&] { table.get<PriceUpdate>("raw", [](PriceUpdate&) {}); }), "bad-message");
    EXPECT_EQ(code_of([&] { table.read<PriceUpdate>("raw", [](PriceUpdate&) {}); }), "bad-message");
    EXPECT_EQ(code_of([&] { table.update<PriceUpdate>("raw", [](PriceUpdate&) {}); }), "bad-message");
    flyring::TableOptions small = options();
    small.value_bytes = 40;
    Table narrow = Table::create("narrow", small);
    EXPECT_EQ(code_of([&] { narrow.put<PriceUpdate>("a", bid(1)); }), "too-large");
}

TEST_F(TableTyped, values_with_groups_are_as_long_as_they_are) {
    flyring::TableOptions books;
    books.capacity = 10;
    books.key = flyring::KeyType::integer;
    books.value_bytes = 1000;
    books.use<Book>(prices::schema);
    Table shelf = Table::create("books", books);
    shelf.put<Book>(1, [](Book& book) {
        auto& levels = book.levelsCount(2);
        levels.next().price(10).size(1);
        levels.next().price(11).size(2);
        book.putRemark(std::string_view("thin"));
    });
    const auto total = shelf.read<Book>(1, [](Book& book) {
        std::int64_t sum = 0;
        auto& levels = book.levels();
        while (levels.hasNext()) sum += levels.next().price();
        return sum;
    });
    EXPECT_EQ(total, 21);
    EXPECT_LT(shelf.get(1)->size(), 200U);
}

}  // namespace
