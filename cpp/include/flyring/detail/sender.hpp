// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "flyring/detail/file.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/message.hpp"

// The sender of a ring's messages, and the ring's end (spec/channel.md 6.14).

namespace flyring::detail {

/// An unknown sender of `ring`. Reserves room for any name, so that a poll allocates nothing.
inline Sender unknown_sender(std::uint32_t ring) {
    Sender sender;
    sender.ring = ring;
    sender.name.reserve(layout::MAX_NAME_LENGTH);
    return sender;
}

/// Sets the sender from the publisher slot, for a subscriber that has just set its cursor.
inline void set_sender(Sender& sender, const ChannelFile& file, std::int64_t cursor) {
    SlotFields fields;
    const bool known = file.header.foreign != Foreign::publisher &&
                       read_fields(publisher_slot(file, sender.ring), fields) && fields.epoch != 0 &&
                       file.ring(sender.ring).is_position(fields.start) && fields.start <= cursor;
    sender.epoch = known ? fields.epoch : 0;
    sender.name.assign(fields.letters, known ? fields.name_length : 0);
}

/// Sets the sender from an owner record's payload of `length` bytes (4.6). The bytes may hold anything, and may change
/// during the read.
inline void set_sender(Sender& sender, const std::byte* payload, std::size_t length) {
    const bool has_both = length >= layout::OWNER_RECORD_NAME;
    const std::int32_t letters =
        has_both ? load_relaxed(word_at<std::int32_t>(payload, layout::OWNER_RECORD_NAME_LENGTH)) : -1;
    const std::int64_t epoch = has_both ? load_relaxed(word_at<std::int64_t>(payload, layout::OWNER_RECORD_EPOCH)) : 0;
    const bool known = is_epoch(epoch) && letters >= 0 &&
                       static_cast<std::uint64_t>(letters) <= layout::MAX_NAME_LENGTH &&
                       layout::OWNER_RECORD_NAME + static_cast<std::uint64_t>(letters) <= length;
    sender.epoch = known ? epoch : 0;
    sender.name.assign(reinterpret_cast<const char*>(payload + layout::OWNER_RECORD_NAME),
                       known ? static_cast<std::size_t>(letters) : 0);
}

/// The senders of a queue's jobs: the owner of the publisher slot, unless the job is older than its ownership
/// (spec/queue.md 9).
class JobSenders {
  public:
    void reserve(std::uint32_t rings) {
        senders_.clear();
        for (std::uint32_t ring = 0; ring <= rings; ++ring) senders_.push_back(unknown_sender(ring));
        starts_.assign(rings, 0);
    }

    /// The sender of the job at `position` of a producer's ring. The reference is valid until the next call.
    const Sender& of(const ChannelFile& file, const Ring& ring, std::int64_t position) {
        Sender& owner = senders_[ring.index];
        const SlotWords words = publisher_slot(file, ring.index);
        if (FLYRING_UNLIKELY(load_relaxed(words.epoch()) != owner.epoch)) note_owner(words, ring, owner);
        return FLYRING_LIKELY(starts_[ring.index] <= position) ? owner : unknown(ring.index);
    }
    const Sender& unknown(std::uint32_t ring) noexcept {
        senders_.back().ring = ring;
        return senders_.back();
    }

  private:
    [[gnu::cold, gnu::noinline]] void note_owner(const SlotWords& words, const Ring& ring, Sender& owner) {
        SlotFields fields;
        const bool known = read_fields(words, fields) && is_epoch(fields.epoch) && ring.is_position(fields.start);
        owner.epoch = known ? fields.epoch : 0;
        owner.name.assign(fields.letters, known ? fields.name_length : 0);
        starts_[ring.index] = known ? fields.start : 0;
    }

    std::vector<Sender> senders_;       // one for each ring; the last one is the unknown sender
    std::vector<std::int64_t> starts_;  // position of that sender's first record
};

/// Whether the publisher of `ring` has closed and `cursor` is at the end of what it published.
inline bool ring_ended(const ChannelFile& file, std::uint32_t ring, std::int64_t cursor) noexcept {
    return file.header.foreign != Foreign::publisher &&                   // a foreign publisher never closes
           load_acquire(publisher_slot(file, ring).closed()) != 0 &&      // pairs with close, after the last record
           load_acquire(file.readable_ring(ring).published()) == cursor;  // pairs with publish 7
}

}  // namespace flyring::detail
