// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "flyring/detail/replaced.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/waiting.hpp"

// What subscribers and publishers do until a message or room is there (spec/channel.md 6.16).

namespace flyring::detail {

/// Whether the owners of these rings, if they have one, wake readers.
inline bool publishers_wake(const ChannelFile& file, const Rings& rings) noexcept {
    if (file.header.foreign != Foreign::none) return false;
    return std::all_of(rings.begin(), rings.end(), [&](std::uint32_t ring) {
        const SlotWords slot = publisher_slot(file, ring);
        const std::int64_t epoch = load_acquire(slot.epoch());  // pairs with take
        return epoch <= 0 || load_relaxed(slot.closed()) != 0 || load_relaxed(slot.wakes()) == epoch;
    });
}

/// Whether the subscribers that gate a ring wake its publisher.
inline bool subscribers_wake(const ChannelFile& file, const Ring& ring) noexcept {
    if (file.header.foreign != Foreign::none) return false;
    for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
        if (load_acquire(ring.gate(slot)) < 0) continue;
        const SlotWords words = subscriber_slot(file, slot);
        const std::int64_t epoch = load_acquire(words.epoch());  // pairs with take
        if (load_relaxed(words.wakes()) != epoch) return false;
    }
    return true;
}

/// Looks until `ready()` or the time has come. Whether it is ready.
template <typename Ready>
bool spin_until(std::int64_t time, Ready&& ready) {
    constexpr int looks = 16;  // between two at the clock
    do {
        for (int i = 0; i < looks; ++i) {
            if (ready()) return true;
            cpu_relax();
        }
    } while (clock_ns(CLOCK_MONOTONIC) < time);
    return false;
}

/// Waits until `ready()`, the cap or the deadline: then it is time to poll again. False: the deadline has passed.
/// Throws ChannelReplaced.
template <typename Ready>
bool wait_for_data(const ChannelFile& file, const Rings& rings, std::int64_t deadline, std::int64_t spin,
                   Ready&& ready) {
    const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (spin_until(std::min(deadline, now + spin), ready)) return true;
    if (clock_ns(CLOCK_MONOTONIC) >= deadline) return false;
    std::uint32_t mask = 0;
    for (const std::uint32_t ring : rings) mask |= waiting_bit(ring);
    sleep_once(file.data(), mask, !file.read_only, deadline, data_cap, ready,
               [&] { return publishers_wake(file, rings); });
    if (ready()) return true;
    check_replaced(file);
    return clock_ns(CLOCK_MONOTONIC) < deadline;
}

}  // namespace flyring::detail
