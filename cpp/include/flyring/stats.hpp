// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flyring/detail/adopt.hpp"
#include "flyring/detail/file.hpp"
#include "flyring/detail/service.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/options.hpp"

// What a channel holds at one moment, for people and programs that look after it (spec/api.md, Stats). Nothing is
// locked or written, so two numbers may be of different moments; each alone is what the file said. -1: not known.

namespace flyring {

enum class SlotState {
    unused,
    live,
    /// Of a publisher: its owner closed it properly.
    closed,
    /// Its owner died, or a subscriber's went.
    away,
    /// It is for stock Agrona, which holds no lock (spec/channel.md 6.15).
    foreign,
    /// Of a queue's last publisher slot, which nobody owns: its ring has the jobs that were released.
    returns,
    /// Of a queue's subscriber slot 0, which nobody owns: its gates say which jobs nobody has taken.
    shared,
};

/// How far a subscriber slot has read one ring.
struct GateStats {
    std::uint32_t ring = 0;
    std::int64_t position = 0;
    /// Bytes from here to what is published; messages, padding and owner records.
    std::int64_t lag = 0;
    /// Of a queue's slot 0: the jobs that nobody has taken; of its workers -1.
    std::int64_t lag_messages = 0;
};

/// What a worker of a queue has in hand (spec/queue.md 2).
struct InHandStats {
    std::uint32_t ring = 0;
    /// Where its job begins.
    std::int64_t position = 0;
    /// Where its batch ends.
    std::int64_t end = 0;
    /// How often the job was handed out before, but for what a released one carries along.
    std::int32_t attempts = 0;
    /// ns of CLOCK_MONOTONIC (spec/channel.md 10); 0: not known yet.
    std::int64_t busy_since = 0;
    /// ns.
    std::int64_t busy_for = 0;
};

/// What slots of publishers and of subscribers have.
struct SlotStats {
    std::uint32_t slot = 0;
    SlotState state = SlotState::unused;
    /// -1: the slot's fields are changing, or its owner died while it changed them.
    std::int64_t epoch = 0;
    std::string name;
    std::int32_t pid = 0;
    /// ns since 1970.
    std::int64_t attached_at = 0;
};

struct SubscriberStats : SlotStats {
    bool kept = false;
    /// It was evicted, and nobody has joined since.
    bool evicting = false;
    /// Messages that evictions of this slot lost.
    std::int64_t discarded = 0;
    /// Of a worker that has a job.
    std::optional<InHandStats> in_hand;
    /// Of a client of a service: its calls without a final reply, and those that expired; -1 of others.
    std::int32_t outstanding = -1;
    std::int64_t expired = -1;
    /// Of the rings that it holds back.
    std::vector<GateStats> gates;
};

/// A publisher slot and its ring, which has the same number.
struct PublisherStats : SlotStats {
    /// Where this owner's first record lies.
    std::int64_t start = 0;
    std::int64_t published = 0;
    std::int64_t claimed = 0;
    /// Ever published; -1 with a foreign publisher.
    std::int64_t messages = 0;
    /// ns of CLOCK_MONOTONIC (spec/channel.md 10); 0: not held back.
    std::int64_t blocked_since = 0;
    /// ns.
    std::int64_t blocked_for = 0;
    /// Bytes of the record that found no room.
    std::int64_t blocked_length = 0;
    /// The subscriber slots that hold it back.
    std::vector<std::uint32_t> blocked_by;
};

struct CounterStats {
    std::int32_t id = 0;
    std::string label;
    std::int32_t type_id = 0;
    /// 112 bytes.
    std::vector<std::byte> key;
    std::int64_t value = 0;
};

struct Stats {
    std::string path;
    Uuid id{};
    Kind kind = Kind::none;
    /// Bytes of one ring.
    std::uint32_t capacity = 0;
    /// Bytes.
    std::uint32_t alignment = 0;
    Foreign foreign = Foreign::none;
    /// ns since 1970.
    std::int64_t created_at = 0;
    /// 0; 1: the channel was replaced; 2: its name was removed.
    std::int32_t successor = 0;
    /// Of a service; 0 of others.
    std::uint32_t clients = 0;
    Delivery delivery = Delivery::at_most_once;
    std::uint32_t max_outstanding = 0;
    /// Of a service: the epoch of the server that serves; another one than slot 0's: none does.
    std::int64_t serving = 0;
    std::vector<PublisherStats> publishers;
    std::vector<SubscriberStats> subscribers;
    std::vector<CounterStats> counters;
};

namespace detail {

/// Of the slot `index` with its lock on the byte `lock`.
inline SlotStats slot_stats(const ChannelFile& file, const SlotWords& words, std::uint32_t index, std::uint64_t lock,
                            bool foreign) {
    SlotStats stats;
    stats.slot = index;
    SlotFields fields;
    const bool known = read_fields(words, fields);
    stats.epoch = known ? fields.epoch : -1;
    if (known) {
        stats.name.assign(fields.letters, fields.name_length);
        stats.pid = fields.pid;
        stats.attached_at = load_relaxed(words.attached_at());
    }
    stats.state = foreign                                    ? SlotState::foreign
                  : byte_is_locked(file.fd, lock, file.path) ? SlotState::live
                  : stats.epoch == 0                         ? SlotState::unused
                                                             : SlotState::away;
    return stats;
}

inline std::int64_t published_of(const ChannelFile& file, const Ring& ring) noexcept {
    return load_acquire(file.header.foreign == Foreign::publisher ? ring.claimed() : ring.published());
}

inline PublisherStats publisher_stats(const ChannelFile& file, std::uint32_t k) {
    const bool foreign = file.header.foreign == Foreign::publisher;
    const SlotWords words = publisher_slot(file, k);
    PublisherStats stats;
    static_cast<SlotStats&>(stats) = slot_stats(file, words, k, file.publisher_lock(k), foreign);
    const bool live = stats.state == SlotState::live || foreign;
    if (stats.state == SlotState::away && load_acquire(words.closed()) != 0) stats.state = SlotState::closed;
    if (k >= file.header.producers()) stats.state = SlotState::returns;
    const Ring ring = file.ring(k);
    stats.start = load_relaxed(words.start());
    stats.claimed = load_relaxed(ring.claimed());
    stats.messages = foreign ? -1 : load_relaxed(ring.messages_done());
    const std::int64_t since = load_acquire(words.blocked_since());  // pairs with recompute 5
    const std::int64_t wanted = load_relaxed(words.blocked_length());
    std::vector<std::int64_t> gates(file.header.subscribers);
    for (std::uint32_t j = 0; j < file.header.subscribers; ++j) {
        gates[j] = file.has_gate(k, j) ? load_acquire(file.gate(ring, j)) : layout::NOT_GATING;
    }
    stats.published = published_of(file, ring);
    if (!live || since <= 0) return stats;
    const auto needed = static_cast<std::uint64_t>(stats.published) +
                        static_cast<std::uint64_t>(std::max<std::int64_t>(0, wanted)) + layout::RECORD_HEADER_LENGTH;
    for (std::uint32_t j = 0; j < file.header.subscribers; ++j) {
        if (gates[j] >= 0 && static_cast<std::uint64_t>(gates[j]) + ring.capacity() < needed)
            stats.blocked_by.push_back(j);
    }
    if (stats.blocked_by.empty()) return stats;  // they have made room; the publisher has not looked yet
    stats.blocked_since = since;
    stats.blocked_length = std::max<std::int64_t>(0, wanted);
    stats.blocked_for = std::max<std::int64_t>(0, clock_ns(CLOCK_MONOTONIC) - monotonic_offset() - since);
    return stats;
}

/// The jobs of `ring` that nobody has taken (spec/channel.md 6.5); -1: not known.
inline std::int64_t untaken_jobs(const Ring& ring) noexcept {
    const std::int64_t taken = count_of_gate(ring, 0);
    const std::int64_t done = load_relaxed(ring.messages_done());
    return taken < 0 ? -1 : std::max<std::int64_t>(0, done - taken);
}

inline std::optional<InHandStats> in_hand_stats(const ChannelFile& file, std::uint32_t slot, const SlotWords& words) {
    const std::optional<Batch> batch = in_hand_of(file, slot);
    if (!batch) return std::nullopt;
    InHandStats stats{batch->ring, batch->position, batch->end, batch->attempts, 0, 0};
    stats.busy_since = std::max<std::int64_t>(0, load_relaxed(words.busy_since()));
    if (stats.busy_since == 0) return stats;
    stats.busy_for = std::max<std::int64_t>(0, clock_ns(CLOCK_MONOTONIC) - monotonic_offset() - stats.busy_since);
    return stats;
}

inline SubscriberStats subscriber_stats(const ChannelFile& file, std::uint32_t j) {
    const bool foreign = file.header.foreign == Foreign::subscriber;
    const SlotWords words = subscriber_slot(file, j);
    SubscriberStats stats;
    static_cast<SlotStats&>(stats) = slot_stats(file, words, j, file.subscriber_lock(j), foreign);
    stats.kept = load_acquire(words.kept()) != 0;
    stats.evicting = load_acquire(words.evicting()) != 0;
    stats.discarded = std::max<std::int64_t>(0, load_relaxed(words.discarded()));
    const bool queue = file.is_queue();
    if (queue && j == 0) stats.state = SlotState::shared;
    if (queue && j != 0) stats.in_hand = in_hand_stats(file, j, words);
    if (file.is_service() && j != 0) {
        std::int64_t* const own = file.ring(file.header.clients() + j - 1).gate(0);
        stats.outstanding = std::max(0, load_relaxed(outstanding_beside(own)));
        stats.expired = std::max<std::int64_t>(0, load_relaxed(expired_beside(own)));
    }
    for (std::uint32_t k = 0; k < file.header.publishers; ++k) {
        if (!file.has_gate(k, j)) continue;
        const Ring ring = file.ring(k);
        std::int64_t* const word = file.gate(ring, j);
        const std::int64_t gate = load_acquire(word);  // first, so that the lag is never too small
        const std::int64_t count = load_relaxed(Ring::count_beside(word));
        if (gate < 0) continue;
        const std::int64_t published = published_of(file, ring);
        const std::int64_t done = load_relaxed(ring.messages_done());
        const bool known = count >= 0 && file.header.foreign == Foreign::none && !queue;
        stats.gates.push_back({k, gate, published < gate ? 0 : published - gate,
                               queue && j == 0 ? untaken_jobs(file.readable_ring(k))
                               : !known        ? -1
                               : done < count  ? 0
                                               : done - count});
    }
    return stats;
}

/// All but the counters.
inline Stats stats_of(const ChannelFile& file) {
    Stats stats;
    stats.path = file.path;
    stats.id = file.header.channel_id;
    stats.kind = file.header.kind;
    stats.capacity = file.header.capacity;
    stats.alignment = file.header.alignment;
    stats.foreign = file.header.foreign;
    stats.created_at = file.header.created_at;
    stats.successor = load_relaxed(file.successor());
    stats.clients = file.header.clients();
    stats.delivery = file.header.delivery;
    stats.max_outstanding = file.header.max_outstanding;
    stats.serving = file.is_service() ? load_acquire(file.serving()) : 0;
    for (std::uint32_t k = 0; k < file.header.publishers; ++k) stats.publishers.push_back(publisher_stats(file, k));
    for (std::uint32_t j = 0; j < file.header.subscribers; ++j) stats.subscribers.push_back(subscriber_stats(file, j));
    return stats;
}

}  // namespace detail
}  // namespace flyring
