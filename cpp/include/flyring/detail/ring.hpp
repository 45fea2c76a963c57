// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/errors.hpp"

// One ring of a channel: its data and its trailer (spec/channel.md 4.6, 4.7, 6.8, 9).

namespace flyring::detail {

/// Where the words of one ring are in this process. Cheap to copy; valid as long as the mapping is.
struct Ring {
    std::byte* data = nullptr;
    std::uint32_t capacity = 0;
    std::uint32_t alignment = 0;
    std::uint32_t index = 0;

    std::int64_t mask() const noexcept { return static_cast<std::int64_t>(capacity) - 1; }
    std::int64_t align(std::int64_t length) const noexcept {
        const auto unit = static_cast<std::int64_t>(alignment);
        return (length + unit - 1) & -unit;
    }
    /// log2 of an eighth of the capacity.
    unsigned eighth_shift() const noexcept { return static_cast<unsigned>(__builtin_ctz(capacity)) - 3; }
    std::int64_t start() const noexcept {
        return static_cast<std::int64_t>(layout::START_STRIDE * index % layout::START_MODULUS);
    }

    /// W: how far a publisher clears ahead (6.1).
    std::int64_t window() const noexcept {
        if (alignment != layout::DEFAULT_ALIGNMENT) return 0;
        return std::min<std::int64_t>(layout::CLEAR_AHEAD, capacity / layout::CLEAR_AHEAD_DIVISOR);
    }

    std::byte* record(std::int64_t position) const noexcept { return data + (position & mask()); }
    std::int32_t* length_at(std::int64_t position) const noexcept {
        return word_at<std::int32_t>(record(position), layout::RECORD_LENGTH);
    }
    std::int32_t* type_at(std::int64_t position) const noexcept {
        return word_at<std::int32_t>(record(position), layout::RECORD_TYPE);
    }
    std::byte* payload_at(std::int64_t position) const noexcept { return record(position) + layout::RECORD_PAYLOAD; }

    std::int64_t* trailer_word(std::uint64_t offset) const noexcept {
        return word_at<std::int64_t>(data + capacity, offset);
    }
    std::int64_t* claimed() const noexcept { return trailer_word(layout::TRAILER_CLAIMED); }
    /// Agrona's.
    std::int64_t* head_cache() const noexcept { return trailer_word(layout::TRAILER_HEAD_CACHE); }
    std::int64_t* published() const noexcept { return trailer_word(layout::TRAILER_PUBLISHED); }
    std::int64_t* messages_begun() const noexcept { return trailer_word(layout::TRAILER_MESSAGES_BEGUN); }
    std::int64_t* messages_done() const noexcept { return trailer_word(layout::TRAILER_MESSAGES_DONE); }
    std::int64_t* boundary(std::int64_t eighth) const noexcept {
        return trailer_word(layout::TRAILER_BOUNDARY +
                            layout::TRAILER_BOUNDARY_STRIDE * static_cast<std::uint64_t>(eighth));
    }
    std::int64_t* boundary_count(std::int64_t eighth) const noexcept {
        return trailer_word(layout::TRAILER_BOUNDARY_COUNT +
                            layout::TRAILER_BOUNDARY_STRIDE * static_cast<std::uint64_t>(eighth));
    }
    /// The gate word of subscriber slot `slot`.
    std::int64_t* gate(std::uint32_t slot) const noexcept {
        return trailer_word(slot == 0 ? layout::TRAILER_GATE
                                      : layout::TRAILER_MORE_GATES + (slot - 1) * layout::TRAILER_GATE_STRIDE);
    }

    /// Whether what a file says may be a position (section 9).
    bool is_position(std::int64_t position) const noexcept {
        return position >= 0 && position < layout::MAX_POSITION &&
               (position & (static_cast<std::int64_t>(alignment) - 1)) == 0;
    }
};

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_corrupt(const std::string& path, const Ring& ring,
                                                                 std::int64_t position, const char* reason) {
    throw CorruptRing(path, ring.index, position, reason);
}

/// Writes the words of a new ring into zeroed memory (4.7). `kept_slot_0`: subscriber slot 0 is kept from creation.
inline void init_ring(const Ring& ring, std::uint32_t subscribers, bool kept_slot_0) noexcept {
    *ring.claimed() = ring.start();
    *ring.published() = ring.start();
    for (std::int64_t eighth = 0; eighth < static_cast<std::int64_t>(layout::BOUNDARIES); ++eighth) {
        *ring.boundary(eighth) = eighth == ring.start() >> ring.eighth_shift() ? ring.start() : -1;
    }
    for (std::uint32_t slot = 0; slot < subscribers; ++slot) *ring.gate(slot) = layout::NOT_GATING;
    if (kept_slot_0) *ring.gate(0) = ring.start();
}

/// A position, and how many messages were published before it.
struct Counted {
    std::int64_t position;
    std::int64_t count;
};

/// Repairs what the ring's last owner left in the middle of a claim (6.8). The caller holds the slot's lock.
inline Counted recover(const Ring& ring, const std::string& path) {
    const auto p = load_acquire(ring.published());  // owner: publish 7
    const auto q = load_acquire(ring.claimed());    // owner: publish 3
    if (!ring.is_position(p)) throw_corrupt(path, ring, p, "published is no position");
    if (!ring.is_position(q)) throw_corrupt(path, ring, q, "claimed is no position");
    if (q < p || (p & ring.mask()) + (q - p) > ring.capacity) throw_corrupt(path, ring, p, "claimed is out of reach");
    if (q - p > static_cast<std::int64_t>(ring.capacity / layout::MAX_MESSAGE_DIVISOR) + ring.window()) {
        throw_corrupt(path, ring, p, "claimed is too far ahead of published");
    }
    auto count = load_acquire(ring.messages_done());
    if (p == q || load_acquire(ring.length_at(p)) <= 0) {  // owner: publish 6
        count = load_relaxed(ring.messages_begun());
        store_release(ring.messages_done(), count);  // before the length at p says otherwise
    }
    std::int64_t at = p;
    while (at < q) {
        const auto length = load_acquire(ring.length_at(at));  // owner: publish 6
        if (length <= 0) break;
        if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) || ring.align(length) > q - at) {
            throw_corrupt(path, ring, at, "a committed record has no valid length");
        }
        if (*ring.type_at(at) > 0) count = wrapping_add(count, 1);
        at += ring.align(length);
    }
    if (at < q) {
        store_relaxed(ring.length_at(q), 0);  // before the length at `at`: poll 1 goes on to q
        store_relaxed(ring.type_at(at), layout::TYPE_PADDING);
        store_release(ring.length_at(at), static_cast<std::int32_t>(q - at));  // pairs with poll 1
    }
    store_relaxed(ring.messages_begun(), count);
    store_release(ring.published(), q);  // pairs with join 2 and 4, lossy 5
    store_release(ring.messages_done(), count);
    return {q, count};
}

}  // namespace flyring::detail
