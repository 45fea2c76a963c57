// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prices/PriceUpdate.h>

#include <flyring/sbe.hpp>
#include <optional>
#include <prices/schema.hpp>

#include "side.hpp"

// Ping and pong with --typed: the PriceUpdate message of spec/sbe/prices.xml, encoded and decoded in place. Every field
// is written and compared.

namespace demo {

using prices::PriceUpdate;

// Sequences with a meaning: ping asks whether pong is there; ping has ended.
constexpr std::uint32_t typed_probe = 0;
constexpr std::uint32_t typed_end = 0xffffffff;

/// Writes and compares the message of a sequence. In pong's answer, bid and ask are exchanged, and so are their sizes.
struct Prices {
    std::uint32_t sequence;
    bool answer;

    std::int64_t bid() const { return 100'000'000 + std::int64_t{sequence} + (answer ? 1000 : 0); }
    std::int64_t ask() const { return 100'000'000 + std::int64_t{sequence} + (answer ? 0 : 1000); }
    std::uint32_t bid_size() const { return answer ? sequence % 777 + 1 : sequence % 1000 + 1; }
    std::uint32_t ask_size() const { return answer ? sequence % 1000 + 1 : sequence % 777 + 1; }
    prices::Side::Value last_side() const {
        return sequence % 4 < 2 ? prices::Side::BUY : sequence % 4 == 2 ? prices::Side::SELL : prices::Side::NULL_VALUE;
    }

    void write(PriceUpdate& update, std::uint64_t timestamp) const {
        update.instrument().id(42).putSymbol(std::string_view("FLYR")).putExchange(std::string_view("XFLY"));
        update.instrument().putCurrency(std::string_view("EUR")).kind(prices::InstrumentKind::STOCK);
        update.timestamp(timestamp).bid(bid()).ask(ask()).bidSize(bid_size()).askSize(ask_size()).sequence(sequence);
        update.flags().clear().opening(sequence % 2 == 0).closing(sequence % 3 == 0);
        update.lastSide(last_side());
    }

    /// Throws with the name of the field that differs.
    void check(PriceUpdate& update, std::optional<std::uint64_t> timestamp) const {
        const auto same = [&](bool is, const char* field) {
            if (!is) wrong(answer ? "answer" : "message", field, sequence);
        };
        prices::Instrument& instrument = update.instrument();
        same(instrument.id() == 42, "instrument.id");
        same(instrument.getSymbolAsStringView() == "FLYR", "instrument.symbol");
        same(instrument.getExchangeAsStringView() == "XFLY", "instrument.exchange");
        same(instrument.getCurrencyAsStringView() == "EUR", "instrument.currency");
        same(instrument.kind() == prices::InstrumentKind::STOCK, "instrument.kind");
        same(!timestamp || update.timestamp() == *timestamp, "timestamp");
        same(update.bid() == bid(), "bid");
        same(update.ask() == ask(), "ask");
        same(update.bidSize() == bid_size(), "bidSize");
        same(update.askSize() == ask_size(), "askSize");
        same(update.sequence() == sequence, "sequence");
        prices::PriceFlags& flags = update.flags();
        same(flags.opening() == (sequence % 2 == 0), "flags.opening");
        same(flags.closing() == (sequence % 3 == 0), "flags.closing");
        same(!flags.halted(), "flags.halted");
        same(update.lastSide() == last_side(), "lastSide");
    }
};

template <typename Strategy>
void send(Side<Strategy>& side, const Prices& prices, std::uint64_t timestamp) {
    auto update = side.publisher().template try_claim<PriceUpdate>();
    while (!update) {
        side.waiter().idle();
        update = side.publisher().template try_claim<PriceUpdate>();
    }
    prices.write(*update, timestamp);
    update.commit();
}

template <typename Strategy>
Result typed_ping(const Options& options) {
    Side<Strategy> side(options, prices::schema);
    const Unlink unlink{options.channel};
    connect(side, [&](std::int64_t now) { send(side, Prices{typed_probe, false}, static_cast<std::uint64_t>(now)); });
    Result result = measure(options, [&](std::int64_t number, std::int64_t send_time, auto clock) {
        const auto sequence = static_cast<std::uint32_t>(number);
        const auto timestamp = static_cast<std::uint64_t>(send_time);
        send(side, Prices{sequence, false}, timestamp);
        bool answered = false;
        std::int64_t arrived = 0;
        while (!answered) {
            side.receive(flyring::sbe::dispatch(flyring::sbe::on<PriceUpdate>([&](PriceUpdate& answer) {
                if (answer.sequence() == typed_probe) return;  // the answer to an older probe
                arrived = clock();
                side.publisher().prefetch();  // for the next question
                Prices{sequence, true}.check(answer, timestamp);
                answered = true;
            })));
        }
        return arrived;
    });
    send(side, Prices{typed_end, false}, static_cast<std::uint64_t>(now_ns()));
    return result;
}

template <typename Strategy>
void typed_pong(const Options& options) {
    Side<Strategy> side(options, prices::schema);
    bool ended = false;
    while (!ended) {
        side.receive(flyring::sbe::dispatch(flyring::sbe::on<PriceUpdate>([&](PriceUpdate& update) {
            side.publisher().prefetch();  // for the answer
            const std::uint32_t sequence = update.sequence();
            Prices{sequence, false}.check(update, std::nullopt);
            if (sequence == typed_end) {
                ended = true;
            } else {
                send(side, Prices{sequence, true}, update.timestamp());
            }
        })));
    }
}

}  // namespace demo
