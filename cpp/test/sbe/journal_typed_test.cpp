// SPDX-License-Identifier: Apache-2.0
#include <prices/PriceUpdate.h>
#include <prices/Trade.h>

#include <flyring/sbe.hpp>
#include <prices/schema.hpp>

#include "../journals.hpp"

// Messages of a schema in a journal (spec/messages.md, spec/journal.md).

namespace {

using namespace journals;
using prices::PriceUpdate;
using prices::Trade;
using support::code_of;

class JournalTyped : public JournalTest {
  protected:
    static flyring::JournalOptions typed() {
        flyring::JournalOptions made = journals::options();
        made.use(prices::schema);
        return made;
    }

    Journal journal = Journal::create("j", typed());
};

TEST_F(JournalTyped, the_schema_is_in_the_file) {
    EXPECT_EQ(journal.schema(), prices::schema.text);
    EXPECT_EQ(journal.schema_id(), PriceUpdate::sbeSchemaId());
    flyring::OpenJournalOptions opening;
    opening.schema = prices::schema;
    EXPECT_EQ(Journal::open("j", opening).id(), journal.id());
    opening.min_schema_version = 9;
    EXPECT_EQ(code_of([&] { Journal::open("j", opening); }), "differs");
    opening.min_schema_version = 70000;
    EXPECT_EQ(code_of([&] { Journal::open("j", opening); }), "invalid-argument");
    Journal::open_or_create("j", typed());
}

TEST_F(JournalTyped, claims_are_written_and_read_by_the_codec) {
    JournalWriter writer = journals::writer(journal);
    auto claim = writer.claim<PriceUpdate>();
    claim->bid(1).ask(2).sequence(3);
    EXPECT_EQ(claim.commit(), 64);
    EXPECT_EQ(code_of([&] { claim->bid(5); }), "closed");
    writer.append("raw");
    {
        auto dropped = writer.claim<PriceUpdate>();
    }
    JournalReader reader = journal.reader();
    std::int64_t ask = 0;
    std::int32_t raw = 0;
    EXPECT_EQ(reader.poll(flyring::sbe::dispatch(
                  flyring::sbe::on<PriceUpdate>([&](PriceUpdate& update, const flyring::Message& message) {
                      ask = update.ask();
                      EXPECT_EQ(message.position(), 64);
                  }),
                  flyring::sbe::otherwise([&](const flyring::Message& message) { raw = message.type(); }))),
              2);
    EXPECT_EQ(ask, 2);
    EXPECT_EQ(raw, 65536);
    writer.append(support::bytes("short"), static_cast<std::int32_t>(Trade::sbeTemplateId()));
    EXPECT_EQ(code_of([&] { reader.poll(flyring::sbe::dispatch(flyring::sbe::on<Trade>([](Trade&) {}))); }),
              "bad-message");
}

}  // namespace
