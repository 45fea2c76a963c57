// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>

#include "flyring/detail/file.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/waiting.hpp"

// The words beside a queue's gates, and the operations on jobs of a dead or evicted worker: adopt, inherit, evict, and
// the test for the queue's end (spec/queue.md 2, 5 to 7, 9).

namespace flyring::detail {

/// The word beside a worker's gate with the end of its batch.
inline std::int64_t* taken_end_beside(std::int64_t* gate) noexcept {
    return gate + layout::GATE_TAKEN_END / sizeof(std::int64_t);
}
/// The word beside a worker's gate with the job's attempts since its record was published.
inline std::int32_t* attempts_beside(std::int64_t* gate) noexcept {
    return reinterpret_cast<std::int32_t*>(gate + layout::GATE_ATTEMPTS / sizeof(std::int64_t));
}

/// The sum of two numbers of attempts: never negative and without overflow, whatever a hostile file contains.
inline std::int32_t more_attempts(std::int32_t attempts, std::int32_t more) noexcept {
    const std::int64_t sum = std::max<std::int64_t>(attempts, 0) + std::max<std::int64_t>(more, 0);
    return static_cast<std::int32_t>(std::min<std::int64_t>(sum, std::numeric_limits<std::int32_t>::max()));
}

/// A batch: the jobs in [position, end) of a ring, taken by a worker at once.
struct Batch {
    std::uint32_t ring = 0;
    std::int64_t position = 0;
    std::int64_t end = 0;
    std::int32_t attempts = 0;  // the number beside the gate
};

/// Whether a gate at `position` with this `end` beside it stands for jobs that were taken: gate[0] (`handed_out`) has
/// passed them. A batch is never longer than the longest job.
inline bool is_taken(const Ring& ring, std::int64_t position, std::int64_t end, std::int64_t handed_out) noexcept {
    return ring.is_position(position) && ring.is_position(end) && position < end && end <= handed_out &&
           end - position <= static_cast<std::int64_t>(ring.capacity() / layout::MAX_MESSAGE_DIVISOR);
}

/// Whether the bytes read at `position` may belong to a later lap (channel.md 6.10).
inline bool is_lapped(const Ring& ring, std::int64_t position) noexcept {
    acquire_fence();  // pairs with publish 3 and 9: claimed before any byte changes
    return load_acquire(ring.claimed()) >
           position + ring.capacity() - static_cast<std::int64_t>(layout::RECORD_HEADER_LENGTH);
}

inline bool exchange_gate(std::int64_t* gate, std::int64_t was, std::int64_t position) noexcept {
    return __atomic_compare_exchange_n(gate, &was, position, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/// Adopts the jobs of slot `it` on one ring for slot `me` (adopt 1 to 6). Tries the control lock through `description`,
/// that of slot `me`. lost() returns whether the caller has lost its own slot; made_room(ring) wakes producers. Returns
/// nothing if there is no job to adopt, or if another process has the control lock.
template <typename Lost, typename MadeRoom>
std::optional<Batch> adopt_from(const ChannelFile& file, const Fd& description, std::uint32_t me, std::uint32_t it,
                                std::uint32_t index, Lost&& lost, MadeRoom&& made_room) {
    const ControlLock control(description, file, std::try_to_lock);  // adopt 1: also if the owner is dead
    if (!control || lost()) return std::nullopt;
    // Test again under the lock: the slot may have a new owner. Test before the load of gate[0]: an owner that took the
    // job and died in between would look as if it had never taken the job.
    const bool lives = is_locked_by_another(description, file.subscriber_lock(it));
    if (lives && load_acquire(subscriber_slot(file, it).evicting()) == 0) return std::nullopt;  // pairs with evict
    const Ring ring = file.ring(index);
    std::int64_t* const gate = ring.gate(it);
    std::int64_t* const own = ring.gate(me);
    const std::int64_t p = load_acquire(gate);                    // adopt 2; pairs with take 2
    const std::int64_t e = load_acquire(taken_end_beside(gate));  // adopt 2, after the gate; pairs with take 2
    const std::int64_t g = load_acquire(ring.gate(0));            // adopt 2; pairs with take 3
    if (p < 0 || (lives && p >= g)) return std::nullopt;  // adopt 3: a live owner may still take what it announced
    if (!is_taken(ring, p, e, g)) {                       // adopt 4: never taken, so the job is still on the ring
        exchange_gate(gate, p, layout::NOT_GATING);
        made_room(index);
        return std::nullopt;
    }
    const std::int32_t attempts = more_attempts(load_relaxed(attempts_beside(gate)), 1);
    store_relaxed(attempts_beside(own), attempts);  // adopt 5, in this order: the adopter may die after each store
    store_release(taken_end_beside(own), e);        // adopt 5; pairs with adopt 2
    store_release(own, p);                          // adopt 5; pairs with room 2b, adopt 2
    // Adopt 5; pairs with room 2a, 2c.
    store_release(file.handovers(), wrapping_add(load_relaxed(file.handovers()), 1));
    if (!exchange_gate(gate, p, layout::NOT_GATING)) {  // adopt 5: its owner has gone on to the next job
        store_release(own, layout::NOT_GATING);
        return std::nullopt;
    }
    return Batch{index, p, e, attempts};
}

/// Adopts jobs of the first dead or evicted worker that has some (5).
template <typename Lost, typename MadeRoom>
std::optional<Batch> adopt(const ChannelFile& file, const Fd& description, std::uint32_t me, Lost&& lost,
                           MadeRoom&& made_room) {
    for (std::uint32_t it = 1; it < file.header.subscribers; ++it) {
        const SlotWords words = subscriber_slot(file, it);
        if (it == me || load_relaxed(words.epoch()) == 0) continue;  // 0: it never had an owner
        for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
            if (load_acquire(file.ring(ring).gate(it)) < 0) continue;
            const bool left =
                load_acquire(words.evicting()) != 0 || !is_locked_by_another(description, file.subscriber_lock(it));
            if (!left) break;  // of its gates at most one is >= 0
            if (std::optional<Batch> found = adopt_from(file, description, me, it, ring, lost, made_room)) {
                return found;
            }
        }
    }
    return std::nullopt;
}

/// Takes over what the last owner of slot `me` had in hand (6). To be called by the slot's new owner under the control
/// lock.
inline std::optional<Batch> inherit(const ChannelFile& file, std::uint32_t me) noexcept {
    std::optional<Batch> found;
    for (std::uint32_t index = 0; index < file.header.publishers; ++index) {
        const Ring ring = file.ring(index);
        std::int64_t* const gate = ring.gate(me);
        const std::int64_t p = load_acquire(gate);
        if (p < 0) continue;
        const std::int64_t e = load_acquire(taken_end_beside(gate));  // after the gate, as adopt 2
        const std::int64_t g = load_acquire(ring.gate(0));
        if (found || !is_taken(ring, p, e, g)) {
            store_release(gate, layout::NOT_GATING);  // never taken
            continue;
        }
        const std::int32_t attempts = more_attempts(load_relaxed(attempts_beside(gate)), 1);
        store_relaxed(attempts_beside(gate), attempts);
        found = Batch{index, p, e, attempts};
    }
    return found;
}

/// The batch that worker slot `slot` has in hand; empty if it has none.
inline std::optional<Batch> in_hand_of(const ChannelFile& file, std::uint32_t slot) noexcept {
    for (std::uint32_t index = 0; index < file.header.publishers; ++index) {
        const Ring ring = file.ring(index);
        std::int64_t* const gate = ring.gate(slot);
        const std::int64_t p = load_acquire(gate);
        if (p < 0) continue;
        const std::int64_t e = load_acquire(taken_end_beside(gate));
        if (!is_taken(ring, p, e, load_acquire(ring.gate(0)))) continue;
        return Batch{index, p, e, std::max(load_relaxed(attempts_beside(gate)), 0)};
    }
    return std::nullopt;
}

/// Evicts a worker (7). The control lock must be held, or a new owner could be marked as evicted without a changed
/// epoch.
inline void evict_worker(const ChannelFile& file, std::uint32_t slot) noexcept {
    const SlotWords words = subscriber_slot(file, slot);
    std::int64_t epoch = load_relaxed(words.epoch());
    while (!__atomic_compare_exchange_n(words.epoch(), &epoch, next_epoch(epoch), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {  // first; pairs with take 4 and done 5
    }
    store_release(words.evicting(), 1);  // pairs with adopt 1
    wake_all(file.jobs());               // the victim, if it sleeps, and the adopters
}

/// Whether the queue has ended (9): all producers have closed, every job was handed out, and none is in hand. False
/// before the first producer comes.
inline bool queue_ended(const ChannelFile& file) noexcept {
    const std::int64_t before = load_acquire(file.handovers());  // ended 1; pairs with adopt 5
    bool any = false;
    for (std::uint32_t k = 0; k < file.header.producers(); ++k) {
        const SlotWords words = publisher_slot(file, k);
        if (!is_epoch(load_acquire(words.epoch()))) continue;  // pairs with take
        if (load_acquire(words.closed()) == 0) return false;   // ended 1; pairs with close, after the last record
        any = true;
    }
    if (!any) return false;
    std::int64_t returned = 0;
    for (std::uint32_t k = 0; k < file.header.publishers; ++k) {  // ended 2: the returns ring last
        const Ring ring = file.ring(k);
        const std::int64_t handed_out = load_acquire(ring.gate(0));  // pairs with take 3
        returned = load_acquire(ring.published());                   // pairs with publish 7
        if (handed_out != returned) return false;
    }
    for (std::uint32_t slot = 1; slot < file.header.subscribers; ++slot) {  // ended 3: after 2
        for (std::uint32_t k = 0; k < file.header.publishers; ++k) {
            if (load_acquire(file.ring(k).gate(slot)) >= 0) return false;  // pairs with done 5
        }
    }
    // Ended 4: a job that was released or changed hands meanwhile may have been missed.
    return load_acquire(file.ring(file.header.producers()).published()) == returned &&
           load_acquire(file.handovers()) == before;
}

}  // namespace flyring::detail
