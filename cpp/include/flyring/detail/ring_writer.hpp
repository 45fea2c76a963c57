// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/detail/ring.hpp"

namespace flyring::detail {

/// A queue's producer pauses so before it looks for room again (spec/queue.md 4): each look takes from a worker the
/// cache lines that the worker is about to write. A pause takes about four microseconds; one, if the ring is small, so
/// that workers do not empty it meanwhile. `capacity`: bytes of the ring.
inline void stand_back(std::int64_t capacity) noexcept {
    constexpr std::int64_t least = 32;  // a microsecond, about
    constexpr std::int64_t most = 128;
    constexpr std::int64_t bytes = 8192;  // of the ring, for each turn of the loop
    for (std::int64_t left = std::clamp(capacity / bytes, least, most); left > 0; --left) cpu_relax();
}

/// The writer of one ring: the steps of spec/channel.md 6.1 and 6.2, in their order. It has no slot, no claims and no
/// thread checks; SlotWriter and PublisherCore add them.
struct RingWriter {
    static constexpr std::uint64_t header_length = layout::RECORD_HEADER_LENGTH;

    static constexpr int looks_for_room = 3;  // looks at the gates in one recompute of a queue, at most

    // Every record uses the first five members; the later ones serve steps 1 to 4, 8 and 9.
    std::uint64_t fast_end = 0;  // a record that ends here or before needs only steps 5 to 7, perhaps 8 and 9
    std::int64_t end = 0;        // t: end of what was published
    std::int64_t next_due = 0;   // from here on step 8 or 9 is due
    std::int64_t count = 0;      // messages published
    Ring ring;
    std::int32_t raw_type = 1;                // default type of raw bytes
    bool owner_pending = true;                // an owner record comes first, so no record is fast
    bool foreign = false;                     // stock Agrona reads this ring (6.15)
    std::size_t max_payload = 0;              // largest payload of one message, bytes
    std::int64_t cleared = 0;                 // each place for a length up to here holds 0, or a committed record
    std::int64_t window = 0;                  // W: how far to clear ahead
    std::int64_t next_boundary = 0;           // position at which the next eighth of the ring begins
    std::int64_t limit = 0;                   // no byte at or above this position may be written
    std::int64_t lag = 0;                     // how far ahead of a gate the end may be: the capacity, or the lag limit
    std::uint32_t subscribers = 0;            // slots
    std::uint32_t holder = 0;                 // of a queue: the slot with the smallest gate at the last recompute
    const std::int64_t* handovers = nullptr;  // of a queue (spec/queue.md 2); null in other kinds

    /// n: the size in bytes of a record with this payload. Wraps for a length that no memory holds.
    std::uint64_t size_of(std::size_t payload_length) const noexcept {
        return (payload_length + header_length - 1 - ring.units()) & ring.units();
    }

    /// The position at which the next record would end if it had this payload.
    std::uint64_t end_of(std::size_t payload_length) const noexcept {
        // end + size_of(payload_length), with one instruction less.
        return static_cast<std::uint64_t>(end) - (-(payload_length + header_length) & ring.units());
    }

    /// Whether the next record, if it had this payload, is announced already. Correct for any length: unlike end_of,
    /// this never wraps.
    bool is_announced(std::size_t payload_length) const noexcept {
        const std::int64_t room = static_cast<std::int64_t>(fast_end) - end - static_cast<std::int64_t>(header_length);
        return room >= 0 && payload_length <= static_cast<std::uint64_t>(room);
    }

    /// Publishes a record of `size` bytes, for which room is reserved. `write(to)` writes its payload.
    template <typename Write>
    void publish(std::uint64_t size, std::uint64_t length, std::int32_t type, std::int64_t new_count, Write&& write) {
        const std::int64_t new_end = end + static_cast<std::int64_t>(size);
        announce(new_end);
        const Ring words = ring;
        const std::int64_t at = end;
        std::byte* const payload = words.payload_at(at);
        write(payload);  // 5
        set_type(words, at, type);
        commit(payload, length);
        advance(words, new_end, new_count);
    }

    // Steps 1 and 2, reserve: SlotWriter calls these in turn.

    /// Bytes from the end of what is published to the ring's end.
    std::uint64_t to_ring_end() const noexcept {
        return ring.capacity() - static_cast<std::uint64_t>(end & ring.mask());
    }

    /// Whether a record of `size` bytes fits before the limit.
    bool has_room(std::uint64_t size) const noexcept { return needed(size) <= static_cast<std::uint64_t>(limit); }

    /// The least gate + lag with which there is room for `size` bytes.
    std::uint64_t needed(std::uint64_t size) const noexcept {
        return static_cast<std::uint64_t>(end) + size + header_length;
    }

    /// Step 1: publishes padding up to the ring's end; room for it is reserved. The next record starts at the ring's
    /// beginning.
    void pad() noexcept {
        const std::uint64_t size = to_ring_end();
        publish(size, size, layout::TYPE_PADDING, count, [](std::byte*) {});
    }

    /// Finds the limit from the gates (6.2, 1 and 2).
    void recompute() noexcept {
        if (handovers != nullptr) return recompute_queue();
        full_fence();  // recompute 1; pairs with join 3
        // Never beyond the last position, so that no record and no cleared word lies at 2^62 or above.
        const std::int64_t last = layout::MAX_POSITION - ring.alignment() + static_cast<std::int64_t>(header_length);
        std::int64_t found = std::min(end + ring.capacity(), last);
        for (std::uint32_t slot = 0; slot < subscribers; ++slot) {
            const std::int64_t gate = load_acquire(ring.gate(slot));  // pairs with poll 4, join 2 and 4, leave
            if (foreign) store_relaxed(ring.head_cache(), gate);      // for a later stock writer (6.15)
            if (gate < 0 || gate >= found) continue;                  // also keeps the sum below from overflowing
            found = std::min(found, gate + lag);
        }
        limit = std::max(limit, found);  // the limit never goes back
    }

    /// In a queue: whether the gate that was the smallest at the last recompute still leaves no room. If so, the lines
    /// of the other gates, which workers write, need not be fetched.
    bool is_still_held(std::uint64_t needed) const noexcept {
        if (handovers == nullptr) return false;
        const std::int64_t gate = load_acquire(ring.gate(holder));
        return gate >= 0 && static_cast<std::uint64_t>(gate) + ring.capacity() < needed;
    }

    /// Finds the limit in a queue (spec/queue.md 4).
    [[gnu::cold, gnu::noinline]] void recompute_queue() noexcept {
        const std::int64_t last = layout::MAX_POSITION - ring.alignment() + static_cast<std::int64_t>(header_length);
        for (int look = 0; look < looks_for_room; ++look) {
            const std::int64_t before = load_acquire(handovers);  // room 2a; pairs with adopt 5
            std::int64_t found = std::min(end + ring.capacity(), last);
            holder = 0;
            for (std::uint32_t slot = 0; slot < subscribers; ++slot) {
                // Room 2b: gate[0] first, so that a producer that sees a take's step 3 there sees its step 2 in
                // gate[w]. Each load is acquire, so that none is made before the ones in front of it. Pairs with take 2
                // and 3, done 5, adopt 5.
                const std::int64_t gate = load_acquire(ring.gate(slot));
                if (gate < 0 || gate >= found || gate + lag >= found) continue;  // gate + lag: no overflow then
                found = gate + lag;
                holder = slot;
            }
            // Room 2c: after the acquire loads above. If the number differs, a job changed hands, and may have been
            // missed in both places.
            if (load_acquire(handovers) != before) continue;
            limit = std::max(limit, found);  // the limit never goes back
            return;
        }
    }

    /// Whether the current gates leave the room that `needed` demands. A hint: recompute decides.
    bool gates_allow(std::uint64_t needed) const noexcept {
        for (std::uint32_t slot = 0; slot < subscribers; ++slot) {
            const std::int64_t gate = load_acquire(ring.gate(slot));
            if (gate >= 0 && static_cast<std::uint64_t>(gate) + static_cast<std::uint64_t>(lag) < needed) return false;
        }
        return true;
    }

    // Steps 3 and 4, announce.

    /// Announces that bytes up to `to` are about to be written, unless they are announced already.
    void announce(std::int64_t to) noexcept {
        if (to > cleared) announce_and_clear(to, ahead(to - end));
    }

    /// The stores of steps 3 and 4, or of 9: announces and clears up to `ahead` bytes beyond `first`, as far as the lap
    /// and the limit allow.
    [[gnu::noinline]] void announce_and_clear(std::int64_t first, std::int64_t ahead) noexcept {
        const Ring words = ring;
        const std::int64_t unit = words.alignment();
        const std::int64_t lap_end = (end | words.mask()) + 1;
        const std::int64_t room = (limit - static_cast<std::int64_t>(header_length)) & -unit;
        const std::int64_t q = std::min({first + ahead, lap_end, room});
        if (q <= cleared) return;
        compiler_fence();                   // after publish 7 of the record before
        store_relaxed(words.claimed(), q);  // publish 3, read by lossy 2 to 4 and recover
        release_fence();                    // publish 3: claimed before any byte changes; pairs with lossy 2 to 4
        for (std::int64_t at = std::max(first, cleared + unit); at <= q; at += unit) {
            store_relaxed(words.length_at(at), 0);  // publish 4: before the length of the record in front (6)
        }
        for (std::int64_t at = std::max(q, cleared + ahead) + unit; at <= q + ahead; at += unit) {
            prefetch_to_write(words.length_at(at));  // fetches what the next call clears, beyond cleared + W
        }
        cleared = q;
        set_fast_end();
    }

    /// Announces one long record that needs neither padding nor a new limit: a short form of announce for records that
    /// clear nothing ahead. False: the next record is not of this kind.
    [[gnu::always_inline]] inline bool announce_long(std::size_t payload_length) noexcept {
        if (payload_length > max_payload) return false;
        const auto size = static_cast<std::int64_t>(size_of(payload_length));
        const std::int64_t to = end + size;
        const bool fits =
            to + static_cast<std::int64_t>(header_length) <= limit && ((end ^ (to - 1)) & ~ring.mask()) == 0;
        if (!fits || to <= cleared || ahead(size) != 0 || owner_pending) return false;
        compiler_fence();                                  // after publish 7 of the record before
        store_relaxed(ring.claimed(), to);                 // publish 3, read by lossy 2 to 4 and recover
        release_fence();                                   // publish 3: claimed before any byte changes
        store_relaxed(ring.length_at(to), 0);              // publish 4
        prefetch_to_write(ring.length_at(to + 3 * size));  // such records often follow one another
        cleared = to;
        fast_end = static_cast<std::uint64_t>(to);
        next_due = next_boundary;
        return true;
    }

    // Steps 5 and 6.

    static void set_type(const Ring& words, std::int64_t at, std::int32_t type) noexcept {
        store_relaxed(words.type_at(at), type);  // publish 5
    }

    /// Makes the record of this payload visible. `length` includes the header.
    static void commit(std::byte* payload, std::uint64_t length) noexcept {
        auto* const word = word_at<std::int32_t>(payload - layout::RECORD_PAYLOAD, layout::RECORD_LENGTH);
        store_release(word, static_cast<std::int32_t>(length));  // publish 6; pairs with poll 1, lossy 1
    }

    // Steps 7 to 9.

    /// Moves the end over a committed record (7), and does 8 and 9 if they are due. Inlined: a call would pass the
    /// ring's words through memory for each message.
    [[gnu::always_inline]] inline void advance(const Ring& words, std::int64_t new_end,
                                               std::int64_t new_count) noexcept {
        compiler_fence();                                  // after publish 6
        store_relaxed(words.messages_begun(), new_count);  // publish 7; the consistent count reads it last
        store_release(words.published(), new_end);         // publish 7; pairs with join 2 and 4
        store_release(words.messages_done(), new_count);   // publish 7; the consistent count reads it first
        count = new_count;
        if (FLYRING_UNLIKELY(new_end >= next_due)) return do_due(new_end);
        end = new_end;
    }

    /// The rest of advance: does step 8 and step 9, each if it is due.
    [[gnu::noinline]] void do_due(std::int64_t new_end) noexcept {
        const std::int64_t size = new_end - end;
        end = new_end;
        if (end >= next_boundary) note_boundary();
        if (cleared - end < ahead(size) / 2) clear_ahead();
        set_fast_end();
    }

    /// Step 8: notes a boundary, because the end has entered another eighth of the ring.
    void note_boundary() noexcept {
        set_next_boundary();
        const std::int64_t eighth = (end >> ring.eighth_shift()) & (static_cast<std::int64_t>(layout::BOUNDARIES) - 1);
        if (foreign && eighth == 0) return;  // a stock reader takes this word for a record's length (6.15)
        store_relaxed(ring.boundary(eighth), std::int64_t{-1});  // publish 8; pairs with "start at what is still there"
        release_fence();                                         // publish 8: -1 before the new count
        store_relaxed(ring.boundary_count(eighth), count);       // publish 8
        store_release(ring.boundary(eighth), end);               // publish 8
    }

    /// Step 9: announces and clears up to W bytes beyond the end.
    void clear_ahead() noexcept { announce_and_clear(end, window); }

    /// w(n): how many bytes are cleared ahead of a record of `size` bytes.
    std::int64_t ahead(std::int64_t size) const noexcept {
        return size <= window / layout::CLEAR_AHEAD_RECORDS ? window : 0;
    }

    /// Fetches the line of the next record (6.1, prefetch). A prefetch cannot fault, so this is safe after unmapping.
    void prefetch() const noexcept { prefetch_to_write(ring.length_at(end)); }

    // Members that follow from the others.

    void set_next_boundary() noexcept { next_boundary = ((end >> ring.eighth_shift()) + 1) << ring.eighth_shift(); }

    void set_fast_end() noexcept {
        fast_end = owner_pending ? 0 : static_cast<std::uint64_t>(cleared);
        next_due = std::min(next_boundary, cleared - window / 2 + 1);
    }
};

}  // namespace flyring::detail
