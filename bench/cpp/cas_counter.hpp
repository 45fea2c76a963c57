// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "raw.hpp"
#include "support.hpp"

namespace bench {

/// One mapped 64-bit counter that the two sides raise in turn by compare-and-set: the client from even to odd, the
/// server from odd to even. There is no payload: the receiver derives word 0 from the counter, and the sender's word 0
/// is checked against the same value. One bit of the counter marks the end of a slice. Round trips only.
class CasCounter {
  public:
    explicit CasCounter(const Setup& setup) : client_(setup.client()) {
        if (setup.scenario == Scenario::stream) cannot(setup, "round trips only");
        if (setup.size != 32) cannot(setup, "a counter carries 8 bytes; it stands in the 32-byte table only");
        counter_ = reinterpret_cast<std::atomic<std::uint64_t>*>(map_file(setup, "counter", 4096));
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        std::byte message[8];
        write(message);
        std::uint64_t word, next = (value_ & ~end_) + 1;
        std::memcpy(&word, message, 8);
        if (word == end_word) {
            next |= end_;
        } else if (__builtin_expect(word != tag(next), 0)) {
            wrong(round_trip(next), tag(next), word);
        }
        if (__builtin_expect(!counter_->compare_exchange_strong(value_, next, std::memory_order_acq_rel), 0)) {
            throw std::runtime_error("the counter was raised out of turn");
        }
        value_ = next;
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const std::uint64_t now = counter_->load(std::memory_order_acquire);
        if (((now & 1) != 0) == client_) return;  // this side's turn
        if (__builtin_expect((now & ~end_) != (value_ & ~end_) + 1, 0)) throw std::runtime_error("the counter jumped");
        value_ = now;
        const std::uint64_t word = (now & end_) != 0 ? end_word : tag(now);
        std::byte message[8];
        std::memcpy(message, &word, 8);
        read(message);
        if (word == end_word) first_ = (now & ~end_) + (client_ ? 0 : 1);  // start of the next slice
    }
    static std::string version() { return "raw, 8-byte counter without payload"; }

  private:
    static constexpr std::uint64_t end_ = std::uint64_t{1} << 63;

    std::uint64_t round_trip(std::uint64_t value) const { return ((value & ~end_) - first_ - 1) / 2; }
    std::uint64_t tag(std::uint64_t value) const { return round_trip(value) % 64; }

    bool client_;
    std::atomic<std::uint64_t>* counter_;
    std::uint64_t value_ = 0;  // the value that this side last read or wrote
    std::uint64_t first_ = 0;  // the counter at the start of the slice
};

}  // namespace bench
