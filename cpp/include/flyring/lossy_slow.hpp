// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>

#include "flyring/lossy_core.hpp"

// What a lossy subscriber does now and then: begin, jump, skip, peek. Included by lossy_core.hpp.

namespace flyring::detail {

/// A position, and how many messages were published before it.
struct Counted {
    std::int64_t position;
    std::int64_t messages;
};

/// {published, count} that belong together (6.10, consistent count). False: its publisher stopped or died between the
/// stores of publish 7; the position alone is right then.
inline bool read_published(const Ring& ring, Counted& found) noexcept {
    for (std::int32_t attempt = 0; attempt < layout::LOSSY_TRIES; ++attempt) {
        found.messages = load_acquire(ring.messages_done());  // pairs with publish 7, stored last there
        found.position = load_acquire(ring.published());      // pairs with publish 7
        if (load_relaxed(ring.messages_begun()) == found.messages) return true;
    }
    return false;
}

inline LossyCore::LossyCore(std::shared_ptr<ChannelState> state, const std::vector<std::uint32_t>& rings, Start start)
    : rings_(sorted_rings(state->file, rings)), state_(std::move(state)), start_(start) {
    const ChannelFile& file = state_->file;
    if (rings_.empty()) {
        rings_.resize(file.header.publishers);
        std::iota(rings_.begin(), rings_.end(), 0U);
    }
    state_->enter(*this, [&] {
        longest_ = static_cast<std::int64_t>(file.header.capacity / layout::MAX_MESSAGE_DIVISOR);
        // Not cleared: pages that no message needs are never touched.
        buffer_.reset(new std::byte[static_cast<std::size_t>(longest_)]);
        for (const std::uint32_t ring : rings_) {
            readers_.push_back({file.readable_ring(ring), unknown_sender(ring)});
            Reader& reader = readers_.back();
            file.readable.prefault(reader.ring.data, reader.ring.capacity);
            try {
                this->start(reader);
            } catch (const CorruptRing&) {
                reader.corrupt = false;  // the first poll says so; the other rings go on
            }
        }
        own({}, 0, const_cast<std::int64_t*>(&no_epoch), no_epoch);
    });
}

/// Sets the first cursor. False: not possible now.
inline bool LossyCore::start(Reader& reader) {
    std::int64_t bad = 0;
    if (start_ == Start::oldest && start_at_oldest(reader, bad)) {
        if (bad != 0) set_corrupt(reader, bad, "a boundary is no position");
        reader.started = true;
    } else {
        Counted found{};
        const bool consistent = read_published(reader.ring, found);
        if (!reader.ring.believable(found.position)) {
            set_corrupt(reader, found.position, "published is no position");
        }
        reader.cursor = found.position;
        reader.messages = found.messages;
        reader.started = consistent;
    }
    if (reader.started) set_sender(reader.sender, state_->file, reader.cursor);
    return reader.started;
}

/// 6.10, start at what is still there. False: nothing is.
inline bool LossyCore::start_at_oldest(Reader& reader, std::int64_t& bad) {
    const Ring& ring = reader.ring;
    std::optional<Counted> oldest;
    for (std::int64_t eighth = 0; eighth < static_cast<std::int64_t>(layout::BOUNDARIES); ++eighth) {
        const std::int64_t position = load_acquire(ring.boundary(eighth));  // pairs with publish 8
        const std::int64_t messages = load_relaxed(ring.boundary_count(eighth));
        acquire_fence();  // pairs with publish 8: -1 before the new count
        if (position < 0 || load_relaxed(ring.boundary(eighth)) != position) continue;
        if (!ring.believable(position) || position > load_acquire(ring.published())) {
            bad = position;
            return true;
        }
        Reader there{ring, {}, position};
        if (lapped(there) || (oldest && oldest->position < position)) continue;
        oldest = Counted{position, messages};
    }
    if (!oldest) return false;
    reader.cursor = oldest->position;
    reader.messages = oldest->messages;
    return true;
}

/// Lossy 5: goes to what is published next, and counts what is lost. False: this ring's turn in this poll is over.
bool LossyCore::jump(Reader& reader, Turn& turn) {
    Counted found{};
    if (!read_published(reader.ring, found)) return false;
    if (found.position <= reader.cursor || !reader.ring.believable(found.position)) {
        set_corrupt(reader, found.position, "published is behind what was claimed, or no position");
    }
    const auto difference = [](std::int64_t to, std::int64_t from) {
        return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);  // counts may be anything
    };
    reader.lost_bytes += found.position - reader.cursor;
    reader.lost_messages = static_cast<std::int64_t>(static_cast<std::uint64_t>(reader.lost_messages) +
                                                     difference(found.messages, reader.messages));
    reader.cursor = turn.begin = found.position;
    reader.messages = found.messages;
    set_sender(reader.sender, state_->file, reader.cursor);
    return --turn.jumps > 0;
}

/// Lossy 4 for a record that is no message. False: this ring's turn in this poll is over.
bool LossyCore::skip(Reader& reader, Turn& turn, const Found& found) {
    const Ring& ring = reader.ring;
    alignas(std::uint64_t) std::byte payload[80];
    static_assert(sizeof payload >= layout::OWNER_RECORD_NAME + layout::MAX_NAME_LENGTH);
    const std::size_t size = std::min(found.size(), sizeof payload);
    if (found.type == layout::TYPE_OWNER) copy_words(payload, ring.payload_at(reader.cursor), size);
    if (lapped(reader)) return jump(reader, turn);
    if (found.type == layout::TYPE_OWNER) {
        set_sender(reader.sender, payload, size);
    } else if (found.type != layout::TYPE_PADDING) {
        set_corrupt(reader, reader.cursor, "a record has an unknown type");
    }
    reader.cursor += ring.align(found.length);
    return reader.cursor - turn.begin < ring.capacity;
}

inline std::optional<Message> LossyCore::peek() {
    if (use() != idle || !usable()) refuse();
    const InUse guard(*this);
    peeked_ = nullptr;
    for (std::size_t looked_at = 0; looked_at < readers_.size(); ++looked_at) {
        Reader& reader = readers_[(next_ + looked_at) % readers_.size()];
        if (!may_read(reader)) continue;
        Turn turn{reader.cursor};
        const Found found = find(reader, turn);
        if (found.length == 0) continue;
        idle_polls_.end();
        peeked_ = &reader;
        peeked_at_ = found;
        return Message(reader.ring.payload_at(reader.cursor), found.size(), found.type, reader.cursor, reader.sender);
    }
    idle_polls_.one_more(state_->file);
    return std::nullopt;
}

inline bool LossyCore::valid() {
    if (use() != idle || !usable()) refuse();
    const InUse guard(*this);
    if (peeked_ == nullptr) throw InvalidArgument("valid", "no message was peeked at; call peek first");
    Reader& reader = *std::exchange(peeked_, nullptr);
    if (lapped(reader)) {
        Turn turn{reader.cursor};
        jump(reader, turn);
        return false;
    }
    consume(reader, peeked_at_);
    next_ = (static_cast<std::size_t>(&reader - readers_.data()) + 1) % readers_.size();
    return true;
}

inline bool LossyCore::ended(std::uint32_t ring) {
    if (!usable()) throw_unusable();
    const Reader& reader = reader_of(ring);
    return reader.started && ring_ended(state_->file, ring, reader.cursor);
}

void LossyCore::refuse() {
    if (!usable()) throw_unusable();
    throw TwoThreads("a lossy subscriber");
}

inline void LossyCore::throw_unusable() {
    throw Closed("a lossy subscriber of channel " + state_->file.path + " is used after it was " + why_unusable_);
}

void LossyCore::set_corrupt(Reader& reader, std::int64_t position, const char* reason) {
    reader.corrupt = true;
    throw_corrupt(state_->file.path, reader.ring, position, reason);
}

inline const LossyCore::Reader& LossyCore::reader_of(std::uint32_t ring) const {
    for (const Reader& reader : readers_) {
        if (reader.ring.index == ring) return reader;
    }
    throw InvalidArgument("ring", "ring " + std::to_string(ring) + " was not chosen by this subscriber");
}

}  // namespace flyring::detail
