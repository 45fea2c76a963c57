// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "flyring/detail/file.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/holder.hpp"

// What a publisher without room does with the subscribers that hold it back: find them, retire the dead, evict those
// that lag (spec/channel.md 6.2 steps 3 and 4, 6.7, 6.11). `needed`: the smallest value of gate + capacity (or gate +
// lag limit) with which there is room (RingWriter::needed). Numbers in parentheses are sections of spec/channel.md;
// 'poll 4' is step 4 of its operation poll.

namespace flyring::detail {

/// Checks at most once per millisecond whether the channel was replaced (6.13; recompute 0).
class SuccessorWatch {
  public:
    void look(const ChannelFile& file) {
        if (FLYRING_LIKELY(load_relaxed(file.successor()) == 0)) return;
        if (told_) {  // the caller got ChannelReplaced at its last offer; a repeated offer goes through
            told_ = false;
            return;
        }
        const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        if (now - last_ < interval) return;
        last_ = now;
        told_ = true;
        check_replaced(file);
        told_ = false;
    }
    /// Lets the next look check at whatever time it comes: a wait set has reported that the channel was replaced.
    void look_soon() noexcept {
        last_ = 0;
        told_ = false;
    }

  private:
    static constexpr std::int64_t interval = 1'000'000;  // ns
    std::int64_t last_ = 0;
    bool told_ = false;  // the last look threw ChannelReplaced
};

/// Evicts the slots whose gate + `lag` is below `needed` (recompute 3). Returns whether there was one. `description`:
/// the open file description that holds the lock of the publisher's own slot; the control lock is tried on it. If that
/// lock cannot be taken at once, no slot is evicted this time.
inline bool evict_lagging(const ChannelFile& file, const Ring& ring, const Fd& description, std::int64_t lag,
                          std::uint64_t needed) {
    const auto lags = [&](std::uint32_t slot) {
        const std::int64_t gate = load_acquire(ring.gate(slot));  // pairs with poll 4
        return gate >= 0 && static_cast<std::uint64_t>(gate) + static_cast<std::uint64_t>(lag) < needed;
    };
    std::uint32_t first = 0;
    while (first < file.header.subscribers && !lags(first)) ++first;
    if (first == file.header.subscribers) return false;
    const ControlLock control(description, file, std::try_to_lock);
    if (!control) return false;  // not this time
    bool evicted = false;
    for (std::uint32_t slot = first; slot < file.header.subscribers; ++slot) {
        if (!lags(slot)) continue;  // look again: the slot may have a new owner
        evict_slot(file, slot);
        evicted = true;
    }
    return evicted;
}

/// Frees the slots that are not kept, whose owner is dead, and whose gate + capacity is below `needed` (6.7): raises
/// the epoch and stops the gates. `description`: the open file description that holds the lock of the publisher's own
/// slot. The locks of one description never conflict with each other, so the lock of another slot can be tried on it.
/// No file is opened: this works also if no descriptor is left, or the process may not open the file any more. If a
/// lock cannot be tried, its slot is left alone.
inline void retire(const ChannelFile& file, const Ring& ring, const Fd& description, std::uint64_t needed) noexcept {
    if (file.header.foreign != Foreign::none) return;  // a foreign end holds no lock (6.15)
    // A dead worker's gate shows another worker which job to adopt, and slot 0 has no owner (spec/queue.md 4).
    if (file.is_queue()) return;
    const auto holds_back = [&](std::uint32_t slot) {
        if (!file.has_gate(ring.index, slot) || file.always_kept(slot)) return false;
        const std::int64_t gate = load_acquire(file.gate(ring, slot));  // pairs with poll 4
        return gate >= 0 && static_cast<std::uint64_t>(gate) + ring.capacity() < needed &&
               load_acquire(subscriber_slot(file, slot).kept()) == 0;
    };
    for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
        if (!holds_back(slot)) continue;
        const std::uint64_t lock = file.subscriber_lock(slot);
        if (try_lock_byte(description, lock) != 0) continue;  // its owner is alive
        const SlotGuard guard(description, lock);
        if (!holds_back(slot)) continue;
        const SlotWords words = subscriber_slot(file, slot);
        store_release(words.epoch(), next_epoch(load_relaxed(words.epoch())));
        stop_gating(file, slot);
    }
}

/// Takes back the gates of evicted slots that hold the publisher back (6.11, take back). The evicted subscriber may
/// have stored its gate after the eviction had cleared it, and its handler may never return. So the publisher clears
/// the gate.
inline void take_back_evicted(const ChannelFile& file, const Ring& ring, const Fd& description,
                              std::uint64_t needed) noexcept {
    if (file.header.foreign != Foreign::none) return;  // a foreign end cannot be evicted
    if (file.is_queue()) return;                       // another worker adopts the job at an evicted worker's gate
    for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
        if (!file.has_gate(ring.index, slot) || file.always_kept(slot)) continue;
        const std::int64_t gate = load_acquire(file.gate(ring, slot));  // pairs with poll 4
        if (gate < 0 || static_cast<std::uint64_t>(gate) + ring.capacity() >= needed) continue;
        const SlotWords words = subscriber_slot(file, slot);
        if (load_acquire(words.evicting()) == 0) continue;  // pairs with evict
        const ControlLock control(description, file, std::try_to_lock);
        // Test again under the lock: the slot's next owner may have joined meanwhile, and a joiner holds the control
        // lock.
        if (control && load_acquire(words.evicting()) != 0) stop_gating(file, slot);
    }
}

/// How many subscribers read the ring: gating slots with an owner; in a queue, live workers.
inline std::uint32_t count_readers(const ChannelFile& file, const Ring& ring, const Fd& description) {
    std::uint32_t readers = 0;
    for (std::uint32_t slot = file.is_queue() ? 1 : 0; slot < file.header.subscribers; ++slot) {
        if (!file.is_queue() && load_acquire(ring.gate(slot)) < 0) continue;  // pairs with poll 4
        const bool owned =
            file.header.foreign != Foreign::none || byte_is_locked(description, file.subscriber_lock(slot), file.path);
        readers += owned ? 1 : 0;
    }
    return readers;
}

/// The slot whose gate is furthest behind; empty if no slot gates the ring.
inline std::optional<Holder> find_holder(const ChannelFile& file, const Ring& ring, const Fd& description) {
    std::optional<Holder> holder;
    for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
        const std::int64_t gate = load_acquire(ring.gate(slot));  // pairs with poll 4
        if (gate < 0 || (holder && holder->position <= gate)) continue;
        if (file.header.foreign != Foreign::none) return Holder{slot, "", 0, true, true, gate};
        const SlotWords words = subscriber_slot(file, slot);
        SlotFields owner;
        if (!read_fields(words, owner)) owner.name_length = 0;
        const bool live = byte_is_locked(description, file.subscriber_lock(slot), file.path);
        const bool kept = load_acquire(words.kept()) != 0;
        holder = Holder{slot, std::string(owner.letters, owner.name_length), owner.pid, live, kept, gate};
    }
    return holder;
}

}  // namespace flyring::detail
