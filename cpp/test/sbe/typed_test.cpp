// SPDX-License-Identifier: Apache-2.0
#include <prices/Book.h>
#include <prices/PriceUpdate.h>
#include <prices/Trade.h>

#include <array>
#include <chrono>
#include <flyring/sbe.hpp>
#include <limits>
#include <prices/schema.hpp>

#include "../allocations.hpp"
#include "../support.hpp"

// spec/messages.md, with the messages of spec/sbe/prices.xml.

namespace {

using flyring::sbe::dispatch;
using flyring::sbe::on;
using flyring::sbe::otherwise;
using prices::Book;
using prices::PriceUpdate;
using prices::Trade;

constexpr std::size_t header = 8;
constexpr auto nothing = [](auto&&) {};

class Typed : public support::ChannelTest {
  protected:
    flyring::Options options() {
        flyring::Options options = support::broadcast(1, 1, 65536);
        options.use(prices::schema);
        return options;
    }

    /// Publishes raw bytes with a message header in front.
    void publish(std::int32_t type, std::array<std::uint16_t, 4> words, std::size_t rest = 62) {
        published = publisher.position();
        std::vector<std::byte> payload(header + rest);
        std::memcpy(payload.data(), words.data(), header);
        ASSERT_GT(publisher.offer({payload.data(), payload.size()}, type), 0);
    }

    template <typename T, typename Handler>
    int poll(Handler&& handler) {
        return subscriber.poll(dispatch(on<T>(handler)));
    }

    flyring::Channel channel = flyring::Channel::create("c", options());
    flyring::Publisher publisher = channel.publisher("feed");
    flyring::Subscriber subscriber = channel.subscriber();
    std::int64_t published = 0;
};

void write(PriceUpdate& update, std::uint32_t sequence) {
    update.instrument().id(42).putSymbol(std::string_view("FLYR")).putExchange(std::string_view("XFLY"));
    update.instrument().putCurrency(std::string_view("EUR")).kind(prices::InstrumentKind::FUTURE);
    update.timestamp(7).bid(-1).ask(std::numeric_limits<std::int64_t>::max()).bidSize(3).askSize(4).sequence(sequence);
    update.flags().clear().closing(true);
    update.lastSide(prices::Side::SELL);
}

void expect(PriceUpdate& update, std::uint32_t sequence) {
    EXPECT_EQ(update.instrument().id(), 42U);
    EXPECT_EQ(update.instrument().getSymbolAsStringView(), "FLYR");
    EXPECT_EQ(update.instrument().getExchangeAsStringView(), "XFLY");
    EXPECT_EQ(update.instrument().getCurrencyAsStringView(), "EUR");
    EXPECT_EQ(update.instrument().kind(), prices::InstrumentKind::FUTURE);
    EXPECT_EQ(update.timestamp(), 7U);
    EXPECT_EQ(update.bid(), -1);
    EXPECT_EQ(update.ask(), std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(update.bidSize(), 3U);
    EXPECT_EQ(update.askSize(), 4U);
    EXPECT_EQ(update.sequence(), sequence);
    EXPECT_FALSE(update.flags().opening());
    EXPECT_TRUE(update.flags().closing());
    EXPECT_EQ(update.lastSide(), prices::Side::SELL);
}

TEST_F(Typed, a_fixed_message_goes_over_as_its_header_and_its_block) {
    auto claim = publisher.claim<PriceUpdate>();
    ASSERT_TRUE(claim);
    write(*claim, 5);
    const std::int64_t end = claim.commit();
    EXPECT_EQ(end, publisher.position());
    EXPECT_FALSE(claim);
    int seen = 0;
    EXPECT_EQ(poll<PriceUpdate>([&](PriceUpdate& update, const flyring::Message& message) {
                  expect(update, 5);
                  EXPECT_EQ(message.size(), header + 62);
                  EXPECT_EQ(message.type(), 1);
                  EXPECT_EQ(message.sender().name, "feed");
                  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message.data()) % 64, 8U);  // messages.md 1, 4
                  std::uint16_t words[4];
                  std::memcpy(words, message.data(), header);
                  EXPECT_EQ(std::vector<std::uint16_t>(words, words + 4), (std::vector<std::uint16_t>{62, 1, 7, 1}));
                  EXPECT_EQ(update.buffer(), reinterpret_cast<const char*>(message.data()));  // in place
                  ++seen;
              }),
              1);
    EXPECT_EQ(seen, 1);
}

TEST_F(Typed, groups_and_data_are_written_into_the_variable_length) {
    const std::string remark = "a remark, \u20ac 5";
    const std::size_t length = 4 + 2 * 13 + 2 + remark.size();
    for (const std::size_t spare : {std::size_t{0}, std::size_t{100}}) {
        auto book = publisher.claim<Book>(length + spare);
        ASSERT_TRUE(book);
        book->instrument().id(1);
        book->timestamp(2);
        auto& levels = book->levelsCount(2);
        levels.next().price(10).size(11).side(prices::Side::BUY);
        levels.next().price(20).size(21).side(prices::Side::SELL);
        book->putRemark(remark);
        EXPECT_EQ(book->sbePosition(), header + Book::sbeBlockLength() + length);
        book.commit();
    }
    int seen = 0;
    poll<Book>([&](Book& book) {
        EXPECT_EQ(book.timestamp(), 2U);
        auto& levels = book.levels();
        ASSERT_EQ(levels.count(), 2U);
        EXPECT_EQ(levels.next().price(), 10);
        EXPECT_EQ(levels.side(), prices::Side::BUY);
        EXPECT_EQ(levels.next().size(), 21U);
        EXPECT_EQ(book.getRemarkAsString(), remark);
        ++seen;
    });
    EXPECT_EQ(seen, 2);

    auto book = publisher.claim<Book>(length - 1);
    book->levelsCount(2).next().next();
    EXPECT_THROW(book->putRemark(remark), std::runtime_error);  // the codec's own
    book.abort();
}

TEST_F(Typed, a_claim_is_aborted_by_its_end_and_refuses_what_a_claim_refuses) {
    {
        auto claim = publisher.claim<PriceUpdate>();
        ASSERT_TRUE(claim);
        EXPECT_THROW(publisher.offer(support::bytes("x")), flyring::ViewAlive);
        EXPECT_THROW(publisher.claim<Trade>(), flyring::ViewAlive);
        ASSERT_TRUE(claim);
    }
    auto claim = publisher.claim<PriceUpdate>();
    write(*claim, 1);
    auto moved = std::move(claim);
    EXPECT_FALSE(claim);
    EXPECT_THROW(claim.commit(), flyring::Closed);
    moved->sequence(2);
    moved.commit();
    EXPECT_THROW(moved.commit(), flyring::Closed);
    EXPECT_THROW(moved.abort(), flyring::Closed);
    claim = publisher.claim<PriceUpdate>();
    claim.abort();
    claim = publisher.claim<PriceUpdate>();
    write(*claim, 3);
    claim.commit();
    std::vector<std::uint32_t> seen;
    poll<PriceUpdate>([&](PriceUpdate& update) { seen.push_back(update.sequence()); });
    EXPECT_EQ(seen, (std::vector<std::uint32_t>{2, 3}));
    EXPECT_THROW(publisher.claim<Book>(100'000), flyring::MessageTooLarge);
    EXPECT_THROW(publisher.claim<Book>(std::numeric_limits<std::size_t>::max()), flyring::MessageTooLarge);
}

TEST_F(Typed, a_claim_may_outlive_its_publisher_and_its_channel) {
    auto claim = publisher.claim<PriceUpdate>();
    {
        flyring::Channel other = flyring::Channel::create("other", options());
        flyring::Publisher gone = other.publisher();
        claim.abort();
        claim = gone.claim<PriceUpdate>();
        gone.close();
        EXPECT_THROW(claim.commit(), flyring::Closed);
        claim = publisher.claim<PriceUpdate>();
        claim.commit();
        gone = other.publisher();
        claim = gone.claim<PriceUpdate>();
    }
    EXPECT_TRUE(claim);
    EXPECT_THROW(claim.commit(), flyring::Closed);
    claim = publisher.claim<PriceUpdate>();
    EXPECT_TRUE(claim);
    flyring::Publisher moved = std::move(publisher);
    write(*claim, 1);
    claim.commit();
    EXPECT_EQ(poll<PriceUpdate>(nothing), 2);
}

TEST_F(Typed, a_back_pressured_claim_is_false) {
    int taken = 0;
    while (auto claim = publisher.try_claim<PriceUpdate>()) {
        write(*claim, static_cast<std::uint32_t>(taken++));
        claim.commit();
    }
    EXPECT_GT(taken, 100);
    auto claim = publisher.try_claim<PriceUpdate>();
    EXPECT_FALSE(claim);
    EXPECT_THROW(claim.commit(), flyring::BackPressured);
    EXPECT_THROW((void)claim->bid(), flyring::BackPressured);
    EXPECT_THROW(publisher.claim<PriceUpdate>(0, std::chrono::milliseconds(1)), flyring::BackPressured);
    std::uint32_t next = 0;
    while (poll<PriceUpdate>([&](PriceUpdate& update) { expect(update, next++); }) > 0) {
    }
    EXPECT_EQ(next, static_cast<std::uint32_t>(taken));
    claim = publisher.claim<PriceUpdate>();
    EXPECT_TRUE(claim);
}

TEST_F(Typed, a_handler_of_a_dispatch_may_return_an_action) {
    publisher.claim<PriceUpdate>().commit();
    publisher.claim<Trade>().commit();
    publisher.offer(support::bytes("raw"));
    std::string seen;
    flyring::Action of_trade = flyring::Action::ABORT;
    auto handler = dispatch(on<PriceUpdate>([&](PriceUpdate&) { seen += "p"; }), on<Trade>([&](Trade&) {
                                seen += "t";
                                return of_trade;
                            }),
                            otherwise([&](const flyring::Message&) {
                                seen += "o";
                                return flyring::Action::BREAK;
                            }));
    EXPECT_EQ(subscriber.poll(handler), 1);
    of_trade = flyring::Action::COMMIT;
    EXPECT_EQ(subscriber.poll(handler), 2);
    EXPECT_EQ(seen, "ptto");
}

TEST_F(Typed, dispatch_chooses_by_template_and_hands_the_rest_to_otherwise) {
    publisher.claim<PriceUpdate>().commit();
    publisher.claim<Trade>().commit();
    publisher.offer(support::bytes("raw"), 4);
    publisher.claim<Book>(100).commit();
    std::string seen;
    auto handler = dispatch(
        on<Trade>([&](Trade&) { seen += "trade "; }),
        on<PriceUpdate>([&](PriceUpdate&, const flyring::Message&) { seen += "update "; }),
        otherwise([&](const flyring::Message& message) { seen += "other " + std::to_string(message.type()) + " "; }));
    EXPECT_EQ(subscriber.poll(handler, 1), 1);
    EXPECT_EQ(subscriber.poll(handler), 3);
    EXPECT_EQ(seen, "update trade other 4 other 3 ");
    publisher.claim<Book>(100).commit();
    publisher.claim<Trade>().commit();
    seen.clear();
    EXPECT_EQ(subscriber.poll(dispatch(on<Trade>([&](Trade&) { seen += "trade "; }))), 2);  // the book is skipped
    EXPECT_EQ(seen, "trade ");
    publisher.claim<Trade>().commit();
    EXPECT_EQ(subscriber.poll(dispatch()), 1);
}

TEST_F(Typed, it_dispatches_for_lossy_subscribers_and_taken_messages_too) {
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    EXPECT_EQ(lossy.poll(nothing), 0);
    for (std::uint32_t i = 0; i < 2; ++i) {
        auto claim = publisher.claim<PriceUpdate>();
        write(*claim, i);
        claim.commit();
    }
    std::uint32_t next = 0;
    auto handler = dispatch(on<PriceUpdate>([&](PriceUpdate& update) { expect(update, next++); }));
    EXPECT_EQ(lossy.poll(handler), 2);
    EXPECT_EQ(next, 2U);
    next = 0;
    handler(*subscriber.take());
    const auto taken = subscriber.take();
    handler(*taken);
    EXPECT_EQ(next, 2U);
}

/// The reason of the BadMessage that a bad message leads to; also checks that the next message arrives.
class BadMessage : public Typed {
  protected:
    void SetUp() override {
        publisher.claim<PriceUpdate>().commit();  // with the owner record in front
        ASSERT_EQ(poll<PriceUpdate>(nothing), 1);
    }

    void publish_raw(std::string_view payload) {
        published = publisher.position();
        ASSERT_GT(publisher.offer(support::bytes(payload), 1), 0);
    }

    template <typename T>
    std::string reason() {
        publisher.claim<PriceUpdate>().commit();
        int seen = 0;
        std::string why = "none";
        try {
            subscriber.poll(dispatch(on<T>([&](T&) { ++seen; })));
        } catch (const flyring::BadMessage& error) {
            EXPECT_EQ(error.code(), "bad-message");
            EXPECT_EQ(error.ring(), 0U);
            EXPECT_EQ(error.position(), published);
            EXPECT_EQ(error.type(), static_cast<std::int32_t>(T::sbeTemplateId()));
            EXPECT_NE(std::string(error.what()).find(error.reason()), std::string::npos);
            EXPECT_EQ(seen, 0);
            why = error.reason();
        }
        EXPECT_EQ(poll<PriceUpdate>(nothing), why == "none" ? 0 : 1);
        return why;
    }
};

TEST_F(BadMessage, a_payload_without_a_whole_header_is_one) {
    publish_raw("");
    EXPECT_EQ(reason<PriceUpdate>(), "the payload of 0 bytes holds no message header, which has 8");
    publish_raw("1234567");
    EXPECT_EQ(reason<PriceUpdate>(), "the payload of 7 bytes holds no message header, which has 8");
}

TEST_F(BadMessage, another_schema_id_is_one) {
    publish(1, {62, 1, 8, 1});
    EXPECT_EQ(reason<PriceUpdate>(), "the schema id is 8, the codec's is 7");
    publish(1, {0, 2, 8, 1}, 0);  // the first check that fails
    EXPECT_EQ(reason<PriceUpdate>(), "the schema id is 8, the codec's is 7");
}

TEST_F(BadMessage, a_template_id_that_is_not_the_type_is_one) {
    publish(1, {62, 2, 7, 1});
    EXPECT_EQ(reason<PriceUpdate>(), "the template id is 2, not the message's type");
    publish(1, {63, 2, 7, 1});
    EXPECT_EQ(reason<PriceUpdate>(), "the template id is 2, not the message's type");
}

TEST_F(BadMessage, a_block_that_does_not_fit_is_one) {
    publish(1, {62, 1, 7, 1}, 61);
    EXPECT_EQ(reason<PriceUpdate>(), "the payload of 69 bytes does not hold a block of 62 bytes");
    publish(1, {63, 1, 7, 2}, 62);
    EXPECT_EQ(reason<PriceUpdate>(), "the payload of 70 bytes does not hold a block of 63 bytes");
    publish(1, {65535, 1, 7, 0}, 62);
    EXPECT_EQ(reason<PriceUpdate>(), "the payload of 70 bytes does not hold a block of 65535 bytes");
    publish(1, {1, 1, 7, 0}, 0);
    EXPECT_EQ(reason<PriceUpdate>(), "the payload of 8 bytes does not hold a block of 1 bytes");
}

TEST_F(BadMessage, a_block_too_short_for_its_version_is_one) {
    publish(1, {61, 1, 7, 1}, 62);
    EXPECT_EQ(reason<PriceUpdate>(), "a block of 61 bytes is too short for version 1, which has at least 62");
    publish(2, {0, 2, 7, 2}, 0);
    EXPECT_EQ(reason<Trade>(), "a block of 0 bytes is too short for version 2, which has at least 49");
}

TEST_F(BadMessage, nothing_else_is_one) {
    publish(1, {62, 1, 7, 1}, 62);
    publish(1, {62, 1, 7, 1}, 1000);  // bytes after it are not checked
    publish(1, {62, 1, 7, 0}, 62);
    publish(1, {62, 1, 7, 9}, 62);
    publish(1, {90, 1, 7, 9}, 90);
    publish(1, {0, 1, 7, 0}, 0);
    EXPECT_EQ(poll<PriceUpdate>(nothing), 6);
}

TEST_F(Typed, a_handler_or_codec_that_throws_has_consumed_its_message) {
    publisher.claim<PriceUpdate>().commit();
    auto book = publisher.claim<Book>(6);
    book->levelsCount(0);
    book.commit();  // the length of its data may be any number
    publish(3, {44, 3, 7, 1}, 44);
    publisher.claim<PriceUpdate>().commit();
    int seen = 0;
    auto handler = dispatch(on<PriceUpdate>([&](PriceUpdate&) {
                                if (++seen == 1) throw std::logic_error("mine");
                            }),
                            on<Book>([&](Book& each) { static_cast<void>(each.levels()); }));
    EXPECT_THROW(subscriber.poll(handler), std::logic_error);
    EXPECT_THROW(subscriber.poll(handler), std::runtime_error);  // the third message has no group
    EXPECT_EQ(subscriber.poll(handler), 1);
    EXPECT_EQ(seen, 2);
}

TEST_F(Typed, a_million_typed_messages_allocate_nothing) {
    if (!support::counts_allocations()) GTEST_SKIP() << "a sanitizer has its own malloc";
    std::uint32_t sent = 0;
    std::uint32_t seen = 0;
    std::uint64_t sum = 0;
    auto handler = dispatch(on<PriceUpdate>([&](PriceUpdate& update, const flyring::Message&) {
                                sum += update.sequence() + update.instrument().id();
                                ++seen;
                            }),
                            on<Book>([&](Book& book) {
                                book.levels().forEach([&](Book::Levels& level) { sum += level.size(); });
                                sum += book.getRemarkAsStringView().size();
                                ++seen;
                            }),
                            on<Trade>([&](Trade& trade) { seen += trade.venueFee() == Trade::venueFeeNullValue(); }),
                            otherwise([&](const flyring::Message&) { ++seen; }));
    const auto round = [&] {
        for (;;) {
            auto update = publisher.try_claim<PriceUpdate>();
            if (!update) break;
            write(*update, sent);
            update.commit();
            ++sent;
            if (auto book = publisher.try_claim<Book>(64)) {
                book->levelsCount(1).next().price(1).size(2);
                book->putRemark("four", 4);
                book.commit();
                ++sent;
            }
            const std::uint16_t old[32] = {45, 2, 7, 0};  // a shorter block, of an older version
            if (publisher.offer({reinterpret_cast<const std::byte*>(old), header + 45}, 2) > 0) ++sent;
            if (publisher.offer(support::bytes("raw"), 9) > 0) ++sent;
        }
        while (subscriber.poll(handler) > 0) {
        }
    };
    round();
    const long before = support::allocations();
    while (sent < 1'000'000) round();
    EXPECT_EQ(support::allocations(), before);
    EXPECT_EQ(seen, sent);
    EXPECT_GT(sum, sent);
}

}  // namespace
