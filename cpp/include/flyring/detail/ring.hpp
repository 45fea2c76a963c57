// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/errors.hpp"
#include "flyring/options.hpp"

// One ring of a channel: its data and its trailer (spec/channel.md 4.6, 4.7, 6.8, 9).

namespace flyring::detail {

/// The addresses of one ring's words in this process. Cheap to copy; valid as long as the mapping.
struct Ring {
    std::byte* data = nullptr;
    std::uint32_t index = 0;

    Ring() noexcept = default;
    Ring(std::byte* to, std::uint32_t capacity, std::uint32_t alignment, std::uint32_t number) noexcept
        : data(to), index(number), units_(-static_cast<std::int32_t>(alignment)), mask_(std::int64_t{capacity} - 1) {}

    std::uint32_t capacity() const noexcept { return static_cast<std::uint32_t>(mask_ + 1); }
    std::uint32_t alignment() const noexcept { return static_cast<std::uint32_t>(-units_); }
    std::int64_t mask() const noexcept { return mask_; }
    /// The size of a record of this length: rounded up to the alignment.
    std::int64_t align(std::int64_t length) const noexcept { return (length - 1 - units_) & units_; }
    /// A mask of all bits except those below the alignment.
    std::uint64_t units() const noexcept { return static_cast<std::uint64_t>(std::int64_t{units_}); }
    /// log2(capacity / 8).
    unsigned eighth_shift() const noexcept { return static_cast<unsigned>(__builtin_ctz(capacity())) - 3; }
    std::int64_t start() const noexcept {
        return static_cast<std::int64_t>(layout::START_STRIDE * index % layout::START_MODULUS);
    }

    /// W: how far a publisher clears ahead (6.1).
    std::int64_t window() const noexcept {
        if (alignment() != layout::DEFAULT_ALIGNMENT) return 0;
        return std::min<std::int64_t>(layout::CLEAR_AHEAD, capacity() / layout::CLEAR_AHEAD_DIVISOR);
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
        return word_at<std::int64_t>(data + mask_ + 1, offset);
    }
    std::int64_t* claimed() const noexcept { return trailer_word(layout::TRAILER_CLAIMED); }
    /// Only for a stock Agrona writer (6.15).
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
    /// The count word beside that gate: messages before the gate's position.
    std::int64_t* gate_count(std::uint32_t slot) const noexcept { return count_beside(gate(slot)); }
    static std::int64_t* count_beside(std::int64_t* gate) noexcept {
        return gate + layout::GATE_COUNT / sizeof(std::int64_t);
    }

    /// Whether a value from the file is a valid position (section 9).
    bool is_position(std::int64_t position) const noexcept {
        return position >= 0 && position < layout::MAX_POSITION && (position & ~units_) == 0;
    }

  private:
    // In the form that the hot path needs.
    std::int32_t units_ = 0;  // minus the alignment: all bits except those below it
    std::int64_t mask_ = -1;  // capacity - 1
};

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_corrupt(const std::string& path, const Ring& ring,
                                                                 std::int64_t position, const char* reason) {
    throw CorruptRing(path, ring.index, position, reason);
}

/// Writes the words of a new ring into zeroed memory (4.7). `kept_slot_0`: subscriber slot 0 is kept from creation.
inline void init_ring(const Ring& ring, std::uint32_t subscribers, bool kept_slot_0, Foreign foreign) noexcept {
    *ring.claimed() = ring.start();
    *ring.published() = ring.start();
    for (std::int64_t eighth = 0; eighth < static_cast<std::int64_t>(layout::BOUNDARIES); ++eighth) {
        *ring.boundary(eighth) = eighth == ring.start() >> ring.eighth_shift() ? ring.start() : -1;
    }
    for (std::uint32_t slot = 0; slot < subscribers; ++slot) *ring.gate(slot) = layout::NOT_GATING;
    if (kept_slot_0) *ring.gate(0) = ring.start();
    if (foreign != Foreign::none) *ring.gate_count(0) = layout::COUNT_UNKNOWN;  // a foreign end stores no counts
    if (foreign == Foreign::subscriber) *ring.boundary(0) = -1;                 // stays -1 (6.1, 8)
}

/// A position and its count: the messages that end at or before it.
struct Counted {
    std::int64_t position;
    std::int64_t count;
};

/// Reads `published` and its count so that they belong together (6.10, consistent count). False: the publisher stopped
/// or died between the stores of publish 7; then only the position is right.
inline bool consistent_count(const Ring& ring, Counted& found) noexcept {
    for (std::int32_t attempt = 0; attempt < layout::LOSSY_TRIES; ++attempt) {
        found.count = load_acquire(ring.messages_done());  // pairs with publish 7, which stores it last
        found.position = load_acquire(ring.published());   // pairs with publish 7
        if (load_relaxed(ring.messages_begun()) == found.count) return true;
    }
    return false;
}

/// The boundaries of a ring, each with its count (6.10).
struct Boundaries {
    Counted found[layout::BOUNDARIES];
    std::size_t size = 0;
    std::optional<std::int64_t> bad;  // a boundary that is no position, or above `published`
};

inline Boundaries read_boundaries(const Ring& ring) noexcept {
    constexpr std::int64_t none = -1;
    Boundaries read;
    for (std::int64_t eighth = 0; eighth < static_cast<std::int64_t>(layout::BOUNDARIES); ++eighth) {
        const std::int64_t position = load_acquire(ring.boundary(eighth));  // pairs with publish 8
        const std::int64_t count = load_relaxed(ring.boundary_count(eighth));
        acquire_fence();  // pairs with publish 8: -1 before the new count
        if (position == none || load_relaxed(ring.boundary(eighth)) != position) continue;
        read.found[read.size++] = {position, count};
    }
    const std::int64_t published = load_acquire(ring.published());  // pairs with publish 7, which comes before 8
    for (std::size_t i = 0; i < read.size; ++i) {
        const std::int64_t position = read.found[i].position;
        if (!ring.is_position(position) || position > published) read.bad = position;
    }
    return read;
}

/// The count of a gate's position (6.5): walks the records from the gate to the next boundary. The gate keeps these
/// records from being overwritten. -1: not known.
inline std::int64_t count_at(const Ring& ring, std::int64_t gate) noexcept {
    const Boundaries boundaries = read_boundaries(ring);
    if (boundaries.bad || !ring.is_position(gate)) return layout::COUNT_UNKNOWN;
    const Counted* next = nullptr;
    for (std::size_t i = 0; i < boundaries.size; ++i) {
        const Counted& one = boundaries.found[i];
        if (one.position >= gate && (next == nullptr || one.position < next->position)) next = &one;
    }
    Counted to{};
    if (next != nullptr) {
        to = *next;
    } else if (!consistent_count(ring, to)) {
        return layout::COUNT_UNKNOWN;
    }
    std::int64_t messages = 0;
    std::int64_t at = gate;
    while (at < to.position) {
        const std::int32_t length = load_acquire(ring.length_at(at));  // pairs with publish 6
        const std::int64_t size = ring.align(length);
        if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) ||
            (at & ring.mask()) + size > ring.capacity()) {
            return layout::COUNT_UNKNOWN;
        }
        const std::int32_t type = load_relaxed(ring.type_at(at));
        if (type <= 0 && type != layout::TYPE_PADDING && type != layout::TYPE_OWNER) return layout::COUNT_UNKNOWN;
        messages += type > 0 ? 1 : 0;
        at += size;
        if (at - gate > ring.capacity()) return layout::COUNT_UNKNOWN;
    }
    return at == to.position && to.count >= messages ? to.count - messages : layout::COUNT_UNKNOWN;
}

/// The count of the position of a gate that its subscriber may move meanwhile (6.5). -1: not gating, or not known.
inline std::int64_t count_of_gate(const Ring& ring, std::uint32_t slot) noexcept {
    for (int attempt = 0; attempt < 10; ++attempt) {
        const std::int64_t gate = load_acquire(ring.gate(slot));  // pairs with poll 4
        const std::int64_t count = count_at(ring, gate);
        acquire_fence();
        if (load_relaxed(ring.gate(slot)) == gate) return count;
    }
    return layout::COUNT_UNKNOWN;
}

/// Recover 1: throws CorruptRing if p = `published` and q = `claimed` are out of range.
inline void check_claim(const Ring& ring, std::int64_t p, std::int64_t q, const std::string& path) {
    if (!ring.is_position(p)) throw_corrupt(path, ring, p, "published is no position");
    if (!ring.is_position(q)) throw_corrupt(path, ring, q, "claimed is no position");
    if (q < p || (p & ring.mask()) + (q - p) > ring.capacity()) throw_corrupt(path, ring, p, "claimed is out of reach");
    if (q - p > static_cast<std::int64_t>(ring.capacity() / layout::MAX_MESSAGE_DIVISOR) + ring.window()) {
        throw_corrupt(path, ring, p, "claimed is too far ahead of published");
    }
}

/// Recover 3: the size of the committed record at `at`, which must end at or before q = `claimed`. 0: none is committed
/// there.
inline std::int64_t committed_size(const Ring& ring, std::int64_t at, std::int64_t q, const std::string& path) {
    const auto length = load_acquire(ring.length_at(at));  // pairs with publish 6
    if (length <= 0) return 0;
    if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) || ring.align(length) > q - at) {
        throw_corrupt(path, ring, at, "a committed record has no valid length");
    }
    return ring.align(length);
}

/// Does the checks of recover, without a store.
inline void check_ring(const Ring& ring, const std::string& path) {
    const auto p = load_acquire(ring.published());  // pairs with publish 7
    const auto q = load_acquire(ring.claimed());    // pairs with publish 3
    check_claim(ring, p, q, path);
    for (std::int64_t at = p, size = 0; at < q; at += size) {
        size = committed_size(ring, at, q, path);
        if (size == 0) return;
    }
}

/// Repairs the ring after its last owner (6.8), and returns the new end and count. The caller holds the slot's lock.
inline Counted recover(const Ring& ring, const std::string& path) {
    const auto p = load_acquire(ring.published());  // pairs with publish 7
    const auto q = load_acquire(ring.claimed());    // pairs with publish 3
    check_claim(ring, p, q, path);
    auto count = load_acquire(ring.messages_done());
    if (p == q || load_acquire(ring.length_at(p)) <= 0) {  // pairs with publish 6
        count = load_relaxed(ring.messages_begun());
        store_release(ring.messages_done(), count);  // before the length at p changes
    }
    std::int64_t at = p;
    while (at < q) {
        const std::int64_t size = committed_size(ring, at, q, path);
        if (size == 0) break;
        if (*ring.type_at(at) > 0) count = wrapping_add(count, 1);
        at += size;
    }
    if (at < q) {
        store_relaxed(ring.length_at(q), 0);  // before the length at `at`, which leads poll 1 to q
        store_relaxed(ring.type_at(at), layout::TYPE_PADDING);
        store_release(ring.length_at(at), static_cast<std::int32_t>(q - at));  // pairs with poll 1
    }
    store_relaxed(ring.messages_begun(), count);
    store_release(ring.published(), q);  // pairs with join 2 and 4, lossy 5
    store_release(ring.messages_done(), count);
    return {q, count};
}

}  // namespace flyring::detail
