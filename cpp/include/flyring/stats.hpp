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

// A snapshot of a channel, for people and monitoring programs (spec/api.md, Stats). It is read without a lock and
// without a write, so two numbers may be of different moments; each one alone was in the file. -1 means: not known.

namespace flyring {

enum class SlotState {
    unused,
    live,
    /// Only for a publisher: its owner closed it properly.
    closed,
    /// The owner died; of a subscriber, the owner died or left.
    away,
    /// The slot belongs to a stock Agrona process, which holds no lock (spec/channel.md 6.15).
    foreign,
    /// Only for a queue's last publisher slot, which no process owns: its ring holds the released jobs.
    returns,
    /// Only for a queue's subscriber slot 0, which no process owns: its gates separate taken jobs from untaken ones.
    shared,
};

/// How far a subscriber slot has read one ring.
struct GateStats {
    std::uint32_t ring = 0;
    std::int64_t position = 0;
    /// Bytes from this position to the end of what is published, padding and owner records included.
    std::int64_t lag = 0;
    /// Messages. For slot 0 of a queue, the jobs that no worker has taken; for a queue's workers -1.
    std::int64_t lag_messages = 0;
};

/// The job that a worker of a queue has in hand (spec/queue.md 2).
struct InHandStats {
    std::uint32_t ring = 0;
    /// The position at which the job's record starts.
    std::int64_t position = 0;
    /// The position at which the worker's batch ends.
    std::int64_t end = 0;
    /// How often the job's present record was handed out before. A released job carries further attempts in its own
    /// prefix, which are not counted here.
    std::int32_t attempts = 0;
    /// Nanoseconds of CLOCK_MONOTONIC (spec/channel.md 10); 0: not known yet.
    std::int64_t busy_since = 0;
    /// Nanoseconds.
    std::int64_t busy_for = 0;
};

/// The fields that publisher slots and subscriber slots share.
struct SlotStats {
    std::uint32_t slot = 0;
    SlotState state = SlotState::unused;
    /// Grows with each new owner; of a subscriber slot, also with each retire and evict. -1: the slot's fields are
    /// changing, or their owner died while it changed them.
    std::int64_t epoch = 0;
    std::string name;
    std::int32_t pid = 0;
    /// Nanoseconds since 1970-01-01 UTC.
    std::int64_t attached_at = 0;
};

struct SubscriberStats : SlotStats {
    bool kept = false;
    /// The slot was evicted and has had no new owner since.
    bool evicting = false;
    /// Messages that this slot's owners lost by evictions.
    std::int64_t discarded = 0;
    /// Only for a worker that has a job in hand.
    std::optional<InHandStats> in_hand;
    /// Only for a client of a service: its calls without a final reply, and its calls that expired. Otherwise -1.
    std::int32_t outstanding = -1;
    std::int64_t expired = -1;
    /// One entry for each ring that this slot gates.
    std::vector<GateStats> gates;
};

/// A publisher slot and its ring, which has the same number.
struct PublisherStats : SlotStats {
    /// The position of the owner's first record.
    std::int64_t start = 0;
    std::int64_t published = 0;
    std::int64_t claimed = 0;
    /// Messages published since the ring's creation; -1 with a foreign publisher.
    std::int64_t messages = 0;
    /// Nanoseconds of CLOCK_MONOTONIC (spec/channel.md 10); 0: not held back.
    std::int64_t blocked_since = 0;
    /// Nanoseconds.
    std::int64_t blocked_for = 0;
    /// The size of the record that found no room, in bytes.
    std::int64_t blocked_length = 0;
    /// The subscriber slots that hold it back.
    std::vector<std::uint32_t> blocked_by;
    /// How many subscribers with an owner read the ring; in a queue, how many workers live.
    std::int32_t readers = 0;
};

struct CounterStats {
    std::int32_t id = 0;
    std::string label;
    std::int32_t type_id = 0;
    /// Always 112 bytes.
    std::vector<std::byte> key;
    std::int64_t value = 0;
};

/// A heartbeat: a counter by which a thread shows that it runs (spec/channel.md 8.1).
struct HeartbeatStats {
    /// The id of its counter.
    std::int32_t id = 0;
    std::string name;
    /// In the thread's own pid namespace.
    std::int32_t pid = 0;
    /// The longest time between two beats that the thread promises, in nanoseconds; 0: none.
    std::int64_t interval = 0;
    /// Nanoseconds since 1970-01-01 UTC.
    std::int64_t started_at = 0;
    std::int64_t beats = 0;
};

struct Stats {
    std::string path;
    Uuid id{};
    Kind kind = Kind::none;
    /// The size of one ring in bytes.
    std::uint32_t capacity = 0;
    /// Bytes.
    std::uint32_t alignment = 0;
    Foreign foreign = Foreign::none;
    /// Nanoseconds since 1970-01-01 UTC.
    std::int64_t created_at = 0;
    /// 0: the channel has its name; 1: it was replaced; 2: its name was removed.
    std::int32_t successor = 0;
    /// Only for a service; otherwise 0.
    std::uint32_t clients = 0;
    Delivery delivery = Delivery::at_most_once;
    std::uint32_t max_outstanding = 0;
    /// Only for a service: the epoch of the server that serves. No server serves if slot 0 has another epoch.
    std::int64_t serving = 0;
    std::vector<PublisherStats> publishers;
    std::vector<SubscriberStats> subscribers;
    std::vector<CounterStats> counters;

    /// The counters that are heartbeats.
    std::vector<HeartbeatStats> heartbeats() const {
        std::vector<HeartbeatStats> found;
        for (const CounterStats& one : counters) {
            if (one.type_id != static_cast<std::int32_t>(layout::COUNTER_METADATA_TYPE_HEARTBEAT)) continue;
            const std::byte* key = one.key.data();
            found.push_back({one.id, one.label, detail::get<std::int32_t>(key + layout::HEARTBEAT_KEY_PID),
                             detail::get<std::int64_t>(key + layout::HEARTBEAT_KEY_INTERVAL),
                             detail::get<std::int64_t>(key + layout::HEARTBEAT_KEY_STARTED_AT), one.value});
        }
        return found;
    }
};

namespace detail {

/// What one call of stats() looks up only once: which slots have an owner, and the time.
class StatsLook {
  public:
    explicit StatsLook(const ChannelFile& file) : locked_(file.header.publishers + file.header.subscribers) {
        check_ours(file.fd, "fcntl(F_OFD_GETLK)", file.path);
        test(file, 0, locked_.size());
    }
    bool publisher_lives(std::uint32_t k) const { return locked_[k]; }
    bool subscriber_lives(const ChannelFile& file, std::uint32_t j) const {
        return locked_[file.header.publishers + j];
    }
    /// Nanoseconds since `since`, on the clock of blocked_since; at least 0.
    std::int64_t age(std::int64_t since) {
        if (now_ == 0) now_ = clock_ns(CLOCK_MONOTONIC) - monotonic_offset();
        return std::max<std::int64_t>(0, now_ - since);
    }

  private:
    /// Tests the slots from `begin` up to `end`. The kernel names one lock of a range, so a call finds an owner, or
    /// that a whole run of slots has none. That takes a call for each owner, and at most one for each run without.
    void test(const ChannelFile& file, std::size_t begin, std::size_t end) {
        while (begin < end) {
            constexpr std::uint64_t stride = layout::CONTROL_SLOT_LENGTH;
            const std::uint64_t at = file.publisher_lock(0) + begin * stride;
            const struct flock found = lock_in(file.fd, at, (end - begin - 1) * stride + 1, file.path);
            if (found.l_type == F_UNLCK) return;
            const auto start = static_cast<std::uint64_t>(found.l_start);
            std::size_t slot = begin;
            if (start >= at && (start - at) % stride == 0 && found.l_len == 1) {
                slot += (start - at) / stride;
                locked_[slot] = true;
            } else {  // a program that is no Flyring has locked something else: only a test of the byte tells
                locked_[slot] = lock_in(file.fd, at, 1, file.path).l_type != F_UNLCK;
            }
            if (slot - begin > end - slot - 1) {  // the longer part in this loop, so that the stack stays small
                test(file, slot + 1, end);
                end = slot;
            } else {
                test(file, begin, slot);
                begin = slot + 1;
            }
        }
    }

    std::vector<bool> locked_;
    std::int64_t now_ = 0;
};

/// Reads the shared fields of slot `index`.
inline void read_slot_stats(SlotStats& stats, const SlotWords& words, std::uint32_t index, bool live, bool foreign) {
    stats.slot = index;
    SlotFields fields;
    const bool known = read_fields(words, fields);
    stats.epoch = known ? fields.epoch : -1;
    if (known) {
        stats.name.assign(fields.letters, fields.name_length);
        stats.pid = fields.pid;
        stats.attached_at = load_relaxed(words.attached_at());
    }
    stats.state = foreign            ? SlotState::foreign
                  : live             ? SlotState::live
                  : stats.epoch == 0 ? SlotState::unused
                                     : SlotState::away;
}

inline std::int64_t published_of(const ChannelFile& file, const Ring& ring) noexcept {
    return load_acquire(file.header.foreign == Foreign::publisher ? ring.claimed() : ring.published());
}

/// The number of subscribers with an owner that read ring `k`; in a queue, the number of workers that live.
inline std::int32_t readers_of(const ChannelFile& file, const StatsLook& look, const Ring& ring, std::uint32_t k) {
    std::int32_t count = 0;
    for (std::uint32_t j = file.is_queue() ? 1 : 0; j < file.header.subscribers; ++j) {
        const bool live = look.subscriber_lives(file, j) || file.header.foreign == Foreign::subscriber;
        if (!live || !file.has_gate(k, j)) continue;
        if (file.is_queue() || load_acquire(file.gate(ring, j)) >= 0) ++count;
    }
    return count;
}

inline void read_publisher_stats(PublisherStats& stats, const ChannelFile& file, StatsLook& look, std::uint32_t k) {
    const bool foreign = file.header.foreign == Foreign::publisher;
    const SlotWords words = publisher_slot(file, k);
    read_slot_stats(stats, words, k, look.publisher_lives(k), foreign);
    const bool live = stats.state == SlotState::live || foreign;
    if (stats.state == SlotState::away && load_acquire(words.closed()) != 0) stats.state = SlotState::closed;
    if (k >= file.header.producers()) stats.state = SlotState::returns;
    const Ring ring = file.ring(k);
    stats.start = load_relaxed(words.start());
    stats.claimed = load_relaxed(ring.claimed());
    stats.messages = foreign ? -1 : load_relaxed(ring.messages_done());
    stats.readers = readers_of(file, look, ring, k);
    const std::int64_t since = live ? load_acquire(words.blocked_since()) : 0;  // pairs with recompute 5
    if (since <= 0) {
        stats.published = published_of(file, ring);
        return;
    }
    const std::int64_t wanted = std::max<std::int64_t>(0, load_relaxed(words.blocked_length()));
    std::vector<std::int64_t> gates(file.header.subscribers);
    for (std::uint32_t j = 0; j < file.header.subscribers; ++j) {
        gates[j] = file.has_gate(k, j) ? load_acquire(file.gate(ring, j)) : layout::NOT_GATING;
    }
    stats.published = published_of(file, ring);
    const auto needed =
        static_cast<std::uint64_t>(stats.published) + static_cast<std::uint64_t>(wanted) + layout::RECORD_HEADER_LENGTH;
    for (std::uint32_t j = 0; j < file.header.subscribers; ++j) {
        if (gates[j] >= 0 && static_cast<std::uint64_t>(gates[j]) + ring.capacity() < needed)
            stats.blocked_by.push_back(j);
    }
    if (stats.blocked_by.empty()) return;  // the gates have moved since; the publisher has not looked yet
    stats.blocked_since = since;
    stats.blocked_length = wanted;
    stats.blocked_for = look.age(since);
}

/// The number of jobs of `ring` that no worker has taken (spec/channel.md 6.5); -1: not known.
inline std::int64_t untaken_jobs(const Ring& ring) noexcept {
    const std::int64_t taken = count_of_gate(ring, 0);
    const std::int64_t done = load_relaxed(ring.messages_done());
    return taken < 0 ? -1 : std::max<std::int64_t>(0, done - taken);
}

inline std::optional<InHandStats> in_hand_stats(const ChannelFile& file, StatsLook& look, std::uint32_t slot,
                                                const SlotWords& words) {
    const std::optional<Batch> batch = in_hand_of(file, slot);
    if (!batch) return std::nullopt;
    InHandStats stats{batch->ring, batch->position, batch->end, batch->attempts, 0, 0};
    stats.busy_since = std::max<std::int64_t>(0, load_relaxed(words.busy_since()));
    if (stats.busy_since == 0) return stats;
    stats.busy_for = look.age(stats.busy_since);
    return stats;
}

inline void read_subscriber_stats(SubscriberStats& stats, const ChannelFile& file, StatsLook& look, std::uint32_t j) {
    const bool foreign = file.header.foreign == Foreign::subscriber;
    const SlotWords words = subscriber_slot(file, j);
    read_slot_stats(stats, words, j, look.subscriber_lives(file, j), foreign);
    stats.kept = load_acquire(words.kept()) != 0;
    stats.evicting = load_acquire(words.evicting()) != 0;
    stats.discarded = std::max<std::int64_t>(0, load_relaxed(words.discarded()));
    const bool queue = file.is_queue();
    if (queue && j == 0) stats.state = SlotState::shared;
    if (queue && j != 0) stats.in_hand = in_hand_stats(file, look, j, words);
    if (file.is_service() && j != 0) {
        std::int64_t* const own = file.ring(file.header.clients() + j - 1).gate(0);
        stats.outstanding = std::max(0, load_relaxed(outstanding_beside(own)));
        stats.expired = std::max<std::int64_t>(0, load_relaxed(expired_beside(own)));
    }
    stats.gates.reserve(file.is_service() && j != 0 ? 1 : file.header.publishers);
    for (std::uint32_t k = 0; k < file.header.publishers; ++k) {
        if (!file.has_gate(k, j)) continue;
        const Ring ring = file.ring(k);
        std::int64_t* const word = file.gate(ring, j);
        const std::int64_t gate = load_acquire(word);  // loaded first, so that the lag is never too small
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
}

/// The channel's stats except its counters.
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
    StatsLook look(file);
    stats.publishers.resize(file.header.publishers);
    stats.subscribers.resize(file.header.subscribers);
    for (std::uint32_t k = 0; k < file.header.publishers; ++k) read_publisher_stats(stats.publishers[k], file, look, k);
    for (std::uint32_t j = 0; j < file.header.subscribers; ++j) {
        read_subscriber_stats(stats.subscribers[j], file, look, j);
    }
    return stats;
}

}  // namespace detail
}  // namespace flyring
