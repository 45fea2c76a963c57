// SPDX-License-Identifier: Apache-2.0
#include <prices/Book.h>
#include <prices/PriceUpdate.h>
#include <prices/Trade.h>

#include <filesystem>
#include <flyring/sbe.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <prices/schema.hpp>

#include "../support.hpp"

// The golden file with typed messages (spec/golden/README.md, "Typed").

namespace {

using Json = nlohmann::ordered_json;
using flyring::sbe::on;
using prices::Book;
using prices::Instrument;
using prices::InstrumentKind;
using prices::PriceFlags;
using prices::PriceUpdate;
using prices::Side;
using prices::Trade;

Json side(Side::Value value) {
    return value == Side::NULL_VALUE ? Json(nullptr) : Json(Side::c_str(value));
}
Side::Value side(const Json& name) {
    return name.is_null() ? Side::NULL_VALUE : name == "BUY" ? Side::BUY : Side::SELL;
}

Json decoded(Instrument& instrument) {
    return {{"id", instrument.id()},
            {"symbol", instrument.getSymbolAsString()},
            {"exchange", instrument.getExchangeAsString()},
            {"currency", instrument.getCurrencyAsString()},
            {"kind", InstrumentKind::c_str(instrument.kind())}};
}
void encode(Instrument& instrument, const Json& body) {
    const auto text = [&](const char* name) { return body.at(name).get<std::string>(); };
    instrument.id(body.at("id")).putSymbol(text("symbol")).putExchange(text("exchange")).putCurrency(text("currency"));
    instrument.kind(text("kind") == "STOCK" ? InstrumentKind::STOCK : InstrumentKind::OPTION);
}

Json decoded(PriceUpdate& update) {
    PriceFlags& flags = update.flags();
    return {{"instrument", decoded(update.instrument())},
            {"timestamp", update.timestamp()},
            {"bid", update.bid()},
            {"ask", update.ask()},
            {"bidSize", update.bidSize()},
            {"askSize", update.askSize()},
            {"sequence", update.sequence()},
            {"flags", {{"opening", flags.opening()}, {"closing", flags.closing()}, {"halted", flags.halted()}}},
            {"lastSide", side(update.lastSide())}};
}
void encode(PriceUpdate& update, const Json& body) {
    encode(update.instrument(), body.at("instrument"));
    update.timestamp(body.at("timestamp")).bid(body.at("bid")).ask(body.at("ask")).sequence(body.at("sequence"));
    update.bidSize(body.at("bidSize")).askSize(body.at("askSize")).lastSide(side(body.at("lastSide")));
    const auto flag = [&](const char* name) { return body.at("flags").at(name).get<bool>(); };
    update.flags().clear().opening(flag("opening")).closing(flag("closing")).halted(flag("halted"));
}

Json decoded(Trade& trade) {
    const std::int32_t fee = trade.venueFee();
    return {{"instrument", decoded(trade.instrument())},
            {"timestamp", trade.timestamp()},
            {"price", trade.price()},
            {"size", trade.size()},
            {"side", side(trade.side())},
            {"venueFee", fee == Trade::venueFeeNullValue() ? Json(nullptr) : Json(fee)}};
}
void encode(Trade& trade, const Json& body) {
    encode(trade.instrument(), body.at("instrument"));
    const Json& fee = body.at("venueFee");
    trade.timestamp(body.at("timestamp")).price(body.at("price")).size(body.at("size")).side(side(body.at("side")));
    trade.venueFee(fee.is_null() ? Trade::venueFeeNullValue() : fee.get<std::int32_t>());
}

Json decoded(Book& book) {
    Json levels = Json::array();
    book.levels().forEach([&](Book::Levels& level) {
        levels.push_back({{"price", level.price()}, {"size", level.size()}, {"side", side(level.side())}});
    });
    Json whole = {{"instrument", decoded(book.instrument())}, {"timestamp", book.timestamp()}, {"levels", levels}};
    whole["remark"] = book.getRemarkAsString();
    return whole;
}
void encode(Book& book, const Json& body) {
    encode(book.instrument(), body.at("instrument"));
    book.timestamp(body.at("timestamp"));
    const Json& levels = body.at("levels");
    Book::Levels& group = book.levelsCount(static_cast<std::uint16_t>(levels.size()));
    for (const Json& level : levels) {
        group.next().price(level.at("price")).size(level.at("size")).side(side(level.at("side")));
    }
    book.putRemark(body.at("remark").get<std::string>());
}

class GoldenTyped : public support::ChannelTest {
  protected:
    /// A handler that notes a message's content, and encodes the message again if it has the codec's own version.
    template <typename T>
    auto noting(const char* name) {
        return on<T>([this, name](T& message, const flyring::Message& raw) {
            const Json body = decoded(message);
            found.push_back({{"position", raw.position()}, {"message", name}, {"body", body}});
            if (message.actingVersion() != T::sbeSchemaVersion()) return;
            std::vector<char> bytes(raw.size() + 64);
            T encoder;
            encode(encoder.wrapAndApplyHeader(bytes.data(), 0, bytes.size()), body);
            const std::size_t length = T::messageHeader::encodedLength() + encoder.encodedLength();
            ASSERT_LE(length, raw.size());
            EXPECT_EQ(std::memcmp(bytes.data(), raw.data(), length), 0) << name << " at " << raw.position();
            ++encoded;
        });
    }

    Json found = Json::array();
    int encoded = 0;
};

TEST_F(GoldenTyped, MessagesDecodeAndEncodeAgain) {
    const std::string golden = support::spec_folder() + "/golden/1.0/typed";
    const Json expected = Json::parse(std::ifstream(golden + ".json")).at("typed");
    std::filesystem::copy_file(golden + ".ring", file("typed"));
    flyring::OpenOptions required;
    required.schema = prices::schema;
    auto channel = flyring::Channel::open(file("typed"), required);
    EXPECT_EQ(channel.schema(), prices::schema.text);
    auto subscriber = channel.subscriber("reader", true);
    subscriber.poll(flyring::sbe::dispatch(
        noting<PriceUpdate>("PriceUpdate"), noting<Trade>("Trade"), noting<Book>("Book"),
        flyring::sbe::otherwise([this](const flyring::Message& raw) {
            found.push_back({{"position", raw.position()}, {"message", nullptr}, {"body", nullptr}});
        })));
    EXPECT_EQ(found, expected);
    EXPECT_EQ(found.size(), 9u);
    EXPECT_EQ(encoded, 6);
}

}  // namespace
