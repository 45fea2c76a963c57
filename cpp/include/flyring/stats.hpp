// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "flyring/detail/file.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/options.hpp"

namespace flyring {

/// Whose a slot is.
enum class SlotState {
    /// Nobody's ever.
    unused,
    /// A living process has it.
    live,
    /// Its owner died or went.
    away,
    /// Its publisher closed properly.
    closed,
    /// It is for stock Agrona, which holds no lock.
    foreign,
};

/// What a channel holds at one moment, for those who look after it (spec/api.md, Stats). Nothing is locked or written:
/// two fields may be of different moments. A number that is not known is -1.
struct Stats {
    /// A publisher slot and its ring, which has the same number.
    struct PublisherSlot {
        std::uint32_t slot;
        SlotState state;
        std::string name;
        std::int32_t pid;
        std::int64_t epoch;
        /// ns since 1970.
        std::int64_t attached_at;
        /// Positions, bytes.
        std::int64_t published;
        std::int64_t claimed;
        std::int64_t messages;
        /// ns of CLOCK_MONOTONIC; 0: not held back.
        std::int64_t blocked_since;
        /// ns.
        std::int64_t blocked_for;
        /// Of the record that found no room, bytes.
        std::int64_t blocked_length;
        /// The subscriber slots that hold it back.
        std::vector<std::uint32_t> blocked_by;
    };

    /// How far a subscriber slot has read one ring.
    struct Gate {
        std::uint32_t ring;
        std::int64_t position;
        /// Bytes from there to what is published.
        std::int64_t lag;
        std::int64_t lag_messages;
    };

    struct SubscriberSlot {
        std::uint32_t slot;
        SlotState state;
        std::string name;
        std::int32_t pid;
        std::int64_t epoch;
        /// ns since 1970.
        std::int64_t attached_at;
        bool kept;
        bool evicting;
        /// Messages that evictions of this kept slot lost.
        std::int64_t discarded;
        /// Of the rings that it holds back.
        std::vector<Gate> gates;
    };

    struct OneCounter {
        std::int32_t id;
        std::string label;
        std::int32_t type_id;
        std::vector<std::byte> key;
        std::int64_t value;
    };

    std::string path;
    Uuid id;
    Kind kind;
    std::uint32_t capacity;
    std::uint32_t alignment;
    Foreign foreign;
    /// ns since 1970.
    std::int64_t created_at;
    /// 0; 1: it was replaced; 2: its name was removed.
    std::int32_t successor;
    std::vector<PublisherSlot> publishers;
    std::vector<SubscriberSlot> subscribers;
    std::vector<OneCounter> counters;
};

}  // namespace flyring

namespace flyring::detail {

/// Reads all of a Stats but the counters.
class Look {
  public:
    explicit Look(const ChannelFile& file) noexcept : file_(file), foreign_(file.header.foreign) {}

    Stats stats() const {
        const Header& header = file_.header;
        Stats made{file_.path,
                   header.channel_id,
                   header.kind,
                   header.capacity,
                   header.alignment,
                   foreign_,
                   header.created_at,
                   load_relaxed(file_.successor()),
                   {},
                   {},
                   {}};
        for (std::uint32_t slot = 0; slot < header.publishers; ++slot) made.publishers.push_back(publisher(slot));
        for (std::uint32_t slot = 0; slot < header.subscribers; ++slot) made.subscribers.push_back(subscriber(slot));
        return made;
    }

  private:
    static constexpr std::int64_t not_known = -1;

    /// Agrona's writer stores its tail alone (6.15).
    std::int64_t published(const Ring& ring) const noexcept {
        return load_acquire(foreign_ == Foreign::publisher ? ring.claimed() : ring.published());  // publish 7
    }

    SlotState state(const SlotFields& fields, std::uint64_t lock) const {
        if (byte_is_locked(file_.fd, lock, file_.path)) return SlotState::live;
        return fields.epoch == 0 ? SlotState::unused : SlotState::away;
    }

    static SlotFields fields_of(const SlotWords& words) noexcept {
        SlotFields fields;
        if (read_fields(words, fields)) return fields;
        fields = {};
        fields.epoch = not_known;  // they keep changing: the owner died while it changed them
        return fields;
    }

    Stats::PublisherSlot publisher(std::uint32_t slot) const {
        const SlotWords words = publisher_slot(file_, slot);
        const Ring ring = file_.readable_ring(slot);
        const SlotFields fields = fields_of(words);
        Stats::PublisherSlot made{
            slot,
            foreign_ == Foreign::publisher ? SlotState::foreign : state(fields, file_.publisher_lock(slot)),
            std::string(fields.letters, fields.name_length),
            fields.pid,
            fields.epoch,
            load_relaxed(words.attached_at()),
            published(ring),
            load_relaxed(ring.claimed()),
            foreign_ == Foreign::publisher ? not_known : load_acquire(ring.messages_done()),
            0,
            0,
            0,
            {}};
        if (made.state == SlotState::away && load_acquire(words.closed()) != 0) made.state = SlotState::closed;
        const std::int64_t since = load_acquire(words.blocked_since());  // pairs with recompute 5
        if (since <= 0 || made.state != SlotState::live) return made;
        const std::int64_t length = std::max<std::int64_t>(load_relaxed(words.blocked_length()), 0);
        for (std::uint32_t reader = 0; reader < file_.header.subscribers; ++reader) {
            const std::int64_t gate = load_acquire(ring.gate(reader));  // pairs with poll 4
            const std::uint64_t needed = static_cast<std::uint64_t>(made.published) +
                                         static_cast<std::uint64_t>(length) + layout::RECORD_HEADER_LENGTH;
            const bool in_the_way = gate >= 0 && static_cast<std::uint64_t>(gate) + ring.capacity < needed;
            if (in_the_way) made.blocked_by.push_back(reader);
        }
        if (made.blocked_by.empty()) return made;  // they have made room; the publisher has not looked yet
        made.blocked_since = since;
        made.blocked_for = std::max<std::int64_t>(blocked_clock() - since, 0);
        made.blocked_length = length;
        return made;
    }

    Stats::SubscriberSlot subscriber(std::uint32_t slot) const {
        const SlotWords words = subscriber_slot(file_, slot);
        const SlotFields fields = fields_of(words);
        Stats::SubscriberSlot made{
            slot,
            foreign_ == Foreign::subscriber ? SlotState::foreign : state(fields, file_.subscriber_lock(slot)),
            std::string(fields.letters, fields.name_length),
            fields.pid,
            fields.epoch,
            load_relaxed(words.attached_at()),
            load_acquire(words.kept()) != 0,
            load_acquire(words.evicting()) != 0,
            std::max<std::int64_t>(load_relaxed(words.discarded()), 0),
            {}};
        for (std::uint32_t index = 0; index < file_.header.publishers; ++index) {
            const Ring ring = file_.readable_ring(index);
            const std::int64_t gate = load_acquire(ring.gate(slot));  // pairs with poll 4
            if (gate < 0) continue;
            const std::int64_t count = load_relaxed(ring.gate_count(slot));
            const std::int64_t lag = std::max<std::int64_t>(wrapping_subtract(published(ring), gate), 0);
            const bool known = count >= 0 && foreign_ == Foreign::none;
            const std::int64_t behind = wrapping_subtract(load_acquire(ring.messages_done()), count);
            made.gates.push_back({index, gate, lag, known ? std::max<std::int64_t>(behind, 0) : not_known});
        }
        return made;
    }

    /// The clock of blocked_since.
    static std::int64_t blocked_clock() { return clock_ns(CLOCK_MONOTONIC) - monotonic_offset(); }

    const ChannelFile& file_;
    Foreign foreign_;
};

}  // namespace flyring::detail
