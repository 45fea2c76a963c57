// SPDX-License-Identifier: Apache-2.0
#include <prices/Book.h>
#include <prices/PriceUpdate.h>
#include <prices/Trade.h>

#include <array>
#include <flyring/sbe.hpp>
#include <prices/schema.hpp>

#include "../services.hpp"

// Typed requests and answers: spec/messages.md, spec/api.md "Call".

namespace {

using namespace services;
using flyring::sbe::dispatch;
using flyring::sbe::on;
using flyring::sbe::otherwise;
using flyring::sbe::respond;
using prices::PriceUpdate;
using prices::Trade;

Options typed() {
    Options options = service(1, 65536);
    options.use(prices::schema);
    return options;
}

class TypedService : public support::ChannelTest {};

TEST_F(TypedService, a_request_chooses_its_handler_and_the_answer_is_decoded_by_its_type) {
    Pair pair(typed());
    std::array<char, 256> memory{};
    Trade ask;
    ask.wrapAndApplyHeader(memory.data(), 0, memory.size());
    ask.timestamp(42);
    auto handler = respond(on<Trade>([](Trade& trade, Request& request) {
                               std::array<char, 256> room{};
                               PriceUpdate update;
                               update.wrapAndApplyHeader(room.data(), 0, room.size());
                               update.timestamp(trade.timestamp() + 1).bid(-1).sequence(5);
                               request.reply(update);
                           }),
                           otherwise([](Request& request) { request.reply(request.payload(), 3); }));
    Call call = pair.client.start(ask);
    pair.server.poll(handler);
    pair.client.poll();
    const Answer& answer = call.result();
    EXPECT_EQ(answer.type(), static_cast<std::int32_t>(PriceUpdate::sbeTemplateId()));
    std::uint64_t seen = 0;
    dispatch(on<PriceUpdate>([&](PriceUpdate& update) { seen = update.timestamp(); }))(answer);
    EXPECT_EQ(seen, 43U);

    Call raw = pair.client.start(bytes("no message"));
    std::int32_t type = 0;
    pair.server.poll(respond(on<Trade>([](Trade&, Request&) {}), otherwise([&](Request& request) {
                                 type = request.type();
                                 request.reply(bytes("raw"));
                             })));
    EXPECT_EQ(type, 65536);
    EXPECT_EQ(text(raw.result(1s)), "raw");
    EXPECT_EQ(raw.result().type(), 65536);
}

TEST_F(TypedService, a_request_that_is_none_fails) {
    Pair pair(typed());
    const auto text_of = [&](Call call) -> std::string {
        pair.server.poll(respond(on<Trade>([](Trade&, Request& request) { request.reply(bytes("never")); })));
        pair.client.poll();
        try {
            call.result();
        } catch (const flyring::ServiceError& error) {
            return error.text();
        }
        return "none";
    };
    EXPECT_EQ(text_of(pair.client.start(bytes("x"), 3)), "no handler for messages of type 3");
    const std::string bad = text_of(pair.client.start(bytes("x"), static_cast<std::int32_t>(Trade::sbeTemplateId())));
    EXPECT_NE(bad.find("is bad: the payload of 1 bytes holds no message header"), std::string::npos) << bad;
}

}  // namespace
