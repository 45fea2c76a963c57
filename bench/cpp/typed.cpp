// SPDX-License-Identifier: Apache-2.0
#include <prices/PriceUpdate.h>

#include <flyring/sbe.hpp>
#include <limits>

#include "contenders.hpp"
#include "flyring.hpp"
#include "harness.hpp"

// The PriceUpdate message of spec/sbe/prices.xml, encoded and decoded in place, field by field: 70 bytes with its
// header. To be compared with flyring-claim of the same size.

namespace bench {

namespace {

using prices::PriceUpdate;

/// The tag is the instrument's id, the first field. The other fields follow from the tag, or are constant.
template <bool Whole>
struct TypedMessage {
    static std::uint64_t tag(unsigned producer, std::uint64_t number) { return producer * 64 + number % 64; }

    // Inlined, like a program's own code for its messages.
    [[gnu::always_inline]] static void write(PriceUpdate& update, std::uint64_t tag) {
        prices::Instrument& instrument = update.instrument();
        instrument.id(tag);
        if constexpr (Whole) {
            instrument.putSymbol(texts).putExchange(texts + 8).putCurrency(texts + 12).kind(kind(tag));
            update.timestamp(timestamp(tag)).bid(bid(tag)).ask(bid(tag) + 1000);
            update.bidSize(low(tag + 1)).askSize(low(tag + 2)).sequence(low(tag)).lastSide(side(tag));
            update.flags().clear().opening((tag & 1) == 0).closing((tag & 2) == 0);
        }
    }

    static void write_end(PriceUpdate& update) {
        write(update, 0);
        update.instrument().id(end_word);
    }

    [[gnu::always_inline]] static bool is(PriceUpdate& update, std::uint64_t tag) {
        prices::Instrument& instrument = update.instrument();
        bool same = instrument.id() == tag;
        if constexpr (Whole) {
            // Compared as words, because compilers turn a memcmp without a branch into a call.
            std::uint64_t symbol, same_symbol;
            std::uint32_t exchange, same_exchange;
            instrument.getSymbol(reinterpret_cast<char*>(&symbol), sizeof symbol);
            instrument.getExchange(reinterpret_cast<char*>(&exchange), sizeof exchange);
            std::memcpy(&same_symbol, texts, sizeof same_symbol);
            std::memcpy(&same_exchange, texts + 8, sizeof same_exchange);
            same &= symbol == same_symbol;
            same &= exchange == same_exchange;
            for (std::size_t i = 0; i < 3; ++i) same &= instrument.currency(i) == texts[12 + i];
            same &= instrument.kind() == kind(tag);
            same &= update.timestamp() == timestamp(tag);
            same &= update.bid() == bid(tag);
            same &= update.ask() == bid(tag) + 1000;
            same &= update.bidSize() == low(tag + 1);
            same &= update.askSize() == low(tag + 2);
            same &= update.sequence() == low(tag);
            prices::PriceFlags& flags = update.flags();
            same &= flags.opening() == ((tag & 1) == 0);
            same &= flags.closing() == ((tag & 2) == 0);
            same &= !flags.halted();
            same &= update.lastSide() == side(tag);
        }
        return same;
    }

    static std::uint64_t word0(PriceUpdate& update) { return update.instrument().id(); }

    /// Word 0 marks the end. Takes a copy, so that the decoder need not be in memory for this cold call.
    [[gnu::cold, gnu::noinline]] static void must_be_end(PriceUpdate update, std::uint64_t number,
                                                         std::uint64_t expected) {
        if (word0(update) != end_word) wrong(number, expected, word0(update));
    }

  private:
    static constexpr char texts[] = "FLYR\0\0\0\0XFLYEUR";  // symbol, exchange, currency

    static prices::InstrumentKind::Value kind(std::uint64_t tag) {
        return (tag & 1) == 0 ? prices::InstrumentKind::STOCK : prices::InstrumentKind::FUTURE;
    }
    static prices::Side::Value side(std::uint64_t tag) {
        return (tag & 4) == 0 ? prices::Side::BUY : prices::Side::SELL;
    }
    static std::uint64_t timestamp(std::uint64_t tag) { return 1'700'000'000'000'000'000 + tag; }
    static std::int64_t bid(std::uint64_t tag) { return 100'000'000 + static_cast<std::int64_t>(tag); }
    static std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
};

constexpr std::size_t typed_length = PriceUpdate::messageHeader::encodedLength() + PriceUpdate::sbeBlockLength();
static_assert(typed_length == 70);

template <std::size_t Size>
class FlyringTyped : public Flyring {
  public:
    using Flyring::Flyring;

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        for (;;) {
            if (auto update = publisher_->try_claim<PriceUpdate>(Size - typed_length)) {
                write(*update);
                update.commit();
                return;
            }
        }
    }

    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        idle(subscriber_->poll(
            flyring::sbe::dispatch(flyring::sbe::on<PriceUpdate>([&](PriceUpdate& update) { read(update); }))));
    }
};

}  // namespace

template <std::size_t Size>
static void run_typed(const Setup& setup) {
    if (setup.whole) {
        Runner<FlyringTyped<Size>, Size, true, TypedMessage<true>>(setup).run();
    } else {
        Runner<FlyringTyped<Size>, Size, false, TypedMessage<false>>(setup).run();
    }
}

// The payload has --size bytes: 70, or 72, a multiple of 8 that raw programs can use, too.
void run_flyring_typed(const Setup& setup) {
    if (setup.size != 70 && setup.size != 72) throw std::runtime_error("--size is 70 or 72");
    setup.size == 70 ? run_typed<70>(setup) : run_typed<72>(setup);
}

}  // namespace bench
