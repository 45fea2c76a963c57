// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "flyring/detail/ring.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/waiting.hpp"

// How subscribers, publishers and the other members wait (spec/channel.md 6.16).

namespace flyring::detail {

/// Whether every publisher that owns one of these rings wakes readers.
inline bool publishers_wake(const ChannelFile& file, const Rings& rings) noexcept {
    if (file.header.foreign == Foreign::publisher) return false;
    return std::all_of(rings.begin(), rings.end(), [&](std::uint32_t ring) {
        const SlotWords slot = publisher_slot(file, ring);
        const std::int64_t epoch = load_acquire(slot.epoch());  // pairs with take
        return !is_epoch(epoch) || load_relaxed(slot.closed()) != 0 || load_relaxed(slot.wakes()) == epoch;
    });
}

/// Whether every live worker of a queue, except the one of slot `own`, wakes sleepers. Workers make room, and release
/// jobs.
inline bool workers_wake(const ChannelFile& file, std::uint32_t own = 0) noexcept {
    for (std::uint32_t slot = 1; slot < file.header.subscribers; ++slot) {
        if (slot == own) continue;
        const SlotWords words = subscriber_slot(file, slot);
        const std::int64_t epoch = load_acquire(words.epoch());  // pairs with take
        if (!is_epoch(epoch) || load_relaxed(words.wakes()) == epoch) continue;
        if (is_locked_by_another(file.fd, file.subscriber_lock(slot))) return false;
    }
    return true;
}

/// Whether every subscriber that gates the ring wakes the ring's publisher.
inline bool subscribers_wake(const ChannelFile& file, const Ring& ring) noexcept {
    if (file.header.foreign == Foreign::subscriber) return false;
    if (file.is_queue()) return workers_wake(file);
    for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
        if (!file.has_gate(ring.index, slot)) continue;
        if (load_acquire(file.gate(ring, slot)) < 0) continue;  // pairs with join 4
        const SlotWords words = subscriber_slot(file, slot);
        const std::int64_t epoch = load_acquire(words.epoch());  // pairs with take
        if (load_relaxed(words.wakes()) != epoch) return false;
    }
    return true;
}

/// The mask of all these rings.
inline std::uint32_t mask_of(const Rings& rings) noexcept {
    std::uint32_t mask = 0;
    for (const std::uint32_t ring : rings) mask |= waiting_bit(ring);
    return mask;
}

/// Spins until `ready()` is true or CLOCK_MONOTONIC reaches `time`. Returns whether it is ready. `yields`: offers the
/// core to other threads between the looks. `stood_back`: 0, or the size of a queue's ring in bytes; then it pauses
/// after each look (spec/queue.md 4).
template <typename Ready>
bool spin_until(std::int64_t time, bool yields, std::int64_t stood_back, Ready&& ready) {
    const int looks = stood_back != 0 ? 1 : 16;  // between two reads of the clock
    do {
        for (int i = 0; i < looks; ++i) {
            if (ready()) return true;
            if (stood_back != 0) {
                stand_back(stood_back);
            } else {
                cpu_relax();
            }
        }
        if (yields) sched_yield();
    } while (clock_ns(CLOCK_MONOTONIC) < time);
    return false;
}

/// How long a queue's producer rests before it looks for room (spec/queue.md 4). Without a rest, each finished job
/// wakes the producer while jobs take long. It publishes one message, finds no room, and waits again.
class RoomRest {
  public:
    /// A wait for room begins. `end`: the end of what was published; `capacity`: bytes of the ring. Returns ns; 0: no
    /// rest.
    std::int64_t begin(std::int64_t now, std::int64_t end, std::int64_t capacity) noexcept {
        const std::int64_t time = now - since_;
        if (time < shortest) return rest_;  // too short to measure
        const std::int64_t bytes = end - from_;
        since_ = now;
        from_ = end;
        rest_ = 0;
        if (time <= longest && bytes > 0) {
            // The ring was full at both times. So workers made room for as many bytes as were published.
            const std::int64_t quarter = time * (capacity / 4) / bytes;
            if (quarter >= least) rest_ = std::min(quarter, short_cap);
        }
        return rest_;
    }

  private:
    static constexpr std::int64_t shortest = 100'000;    // ns
    static constexpr std::int64_t longest = 10'000'000;  // ns
    static constexpr std::int64_t least = 200'000;       // ns: a timer may be late by half of it

    std::int64_t since_ = 0;  // the time at the last measurement
    std::int64_t from_ = 0;   // `end` at the last measurement
    std::int64_t rest_ = 0;
};

/// The turns of one wait. After each turn the caller tries its verb again.
class Turns {
  public:
    /// `yields` is true for a wait for room: while it spins, it offers the core to others, because a reader that must
    /// make room may need it. `stood_back`: as for spin_until.
    Turns(const Member& member, Nanoseconds timeout, Nanoseconds spin, bool yields = false,
          std::int64_t stood_back = 0) noexcept
        : member_(member),
          yields_(yields),
          stood_back_(stood_back),
          start_(clock_ns(CLOCK_MONOTONIC)),
          deadline_(later(start_, timeout.count())),
          spin_end_(std::min(deadline_, later(start_, spin.count()))) {}

    std::int64_t start() const noexcept { return start_; }
    /// Makes the first turn a sleep of at most this time, in ns, which no worker ends. Does nothing if the wait spins
    /// for longer.
    void rest(std::int64_t time) noexcept {
        if (later(start_, time) > spin_end_) rest_ = time;
    }

    /// One turn: rests; or spins while spin time is left, then sleeps once. Returns whether the caller should try its
    /// verb again. After the deadline, it returns true at most once more, and only if `ready()`.
    template <typename Ready>
    bool next(Ready&& ready) {
        if (over_) return false;
        const ChannelFile& file = member_.state().file;
        const auto look = [&] { return ready() || load_relaxed(file.successor()) != successor_; };
        std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        bool again = false;
        if (rest_ > 0) {
            const std::int64_t end = std::min(deadline_, later(now, std::exchange(rest_, 0)));
            sleep_once(member_.words(), member_.mask(), false, end, look, [] { return short_cap; });
            again = true;
        } else if (now < spin_end_) {
            const std::int64_t end = std::min(spin_end_, later(now, spin_turn));
            again = spin_until(end, yields_, stood_back_, look) || end < spin_end_;
            if (!again) now = clock_ns(CLOCK_MONOTONIC);
        }
        if (!again) {
            over_ = now >= deadline_;
            if (over_) return ready();
            if (!look()) {
                slept_ = true;
                sleep_once(member_.words(), member_.mask(), !file.read_only, deadline_, look,
                           [&] { return member_.cap(now - start_); });
            }
        }
        successor_ = load_relaxed(file.successor());  // the caller checks next whether the channel was replaced
        return true;
    }

    /// Whether any turn slept. A worker that slept may have used up a wake that was meant for one worker.
    bool slept() const noexcept { return slept_; }

  private:
    const Member& member_;
    const bool yields_;
    const std::int64_t stood_back_;
    std::int32_t successor_ = 0;  // the channel's successor word at the last turn
    std::int64_t start_;
    std::int64_t deadline_;
    std::int64_t spin_end_;
    std::int64_t rest_ = 0;  // ns
    bool over_ = false;      // the deadline has passed
    bool slept_ = false;
};

}  // namespace flyring::detail
