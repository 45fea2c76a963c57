// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "flyring/detail/file.hpp"
#include "flyring/detail/held_back.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/ring_writer.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/errors.hpp"

namespace flyring::detail {

/// A RingWriter with its publisher slot: takes the slot (spec/channel.md 5.2), publishes the owner record, and finds
/// room (6.2). A publisher owns one, the server of a service one for each client.
struct SlotWriter : RingWriter {
    /// Recovers the ring and writes the slot's fields (5.2, 3 and 4), under both locks. Returns the new epoch. Throws
    /// CorruptRing.
    std::int64_t take(const ChannelFile& of, std::uint32_t slot, const std::string& own_name) {
        file = &of;
        name = &own_name;
        ring = of.ring(slot);
        const Counted found = recover(ring, of.path);
        const SlotWords words = publisher_slot(of, slot);
        epoch = words.take(own_name, of.environment, of.wakes, [&] {
            store_relaxed(words.start(), found.position);
            store_relaxed(words.closed(), 0);
            store_relaxed(words.blocked_since(), std::int64_t{0});
        });
        end = cleared = found.position;
        count = found.count;
        return epoch;
    }

    /// Sets up this object after take(). `lock`: the description through which the locks of other slots are tried.
    void begin(const Fd& lock, std::int64_t offset_of_clock, std::int64_t lag_limit = 0) {
        description = &lock;
        clock_offset = offset_of_clock;
        max_lag = lag_limit;
        foreign = file->header.foreign != Foreign::none;
        owner_pending = !foreign;  // a stock reader does not know owner records
        raw_type = file->header.schema_length != 0 ? layout::TYPE_RAW : 1;
        window = ring.window();
        subscribers = file->is_service() ? 1 : file->header.subscribers;  // in a service, each ring has one gate
        max_payload = ring.capacity() / layout::MAX_MESSAGE_DIVISOR - header_length;
        if (file->is_queue()) {
            max_payload -= layout::RELEASED_LENGTH;  // the prefix of a job on the returns ring
            handovers = file->handovers();
        }
        lag = max_lag != 0 ? max_lag : ring.capacity();  // max_lag is at most the capacity
        set_next_boundary();
        set_fast_end();
        file->mapping.prefault(ring.data, ring.capacity());
    }

    /// Publishes a message of `length` bytes, which write(to) writes. False: back-pressured.
    template <typename Write>
    [[gnu::always_inline]] inline bool try_publish(std::size_t length, std::int32_t type, Write&& write) {
        if (FLYRING_UNLIKELY(!is_announced(length)) && !reserve(length)) return false;
        publish(size_of(length), length + header_length, type, wrapping_add(count, 1), write);
        return true;
    }

    /// Publish 1 and 2: reserves room for a message of `length` bytes. False: back-pressured.
    bool reserve(std::size_t length) {
        if (length > max_payload) throw MessageTooLarge(length, max_payload);
        if (owner_pending && !publish_owner_record()) return false;
        return reserve_size(size_of(length));
    }

    /// Publish 1 and 2 for a record of `size` bytes.
    bool reserve_size(std::uint64_t size) { return pad_to_fit(size) && find_room(size); }

    /// Publish 1: pads if the record does not fit before the ring's end. False: the padding is back-pressured.
    bool pad_to_fit(std::uint64_t size) {
        if (size <= to_ring_end()) return true;
        if (!find_room(to_ring_end())) return false;
        pad();
        return true;
    }

    bool find_room(std::uint64_t size) { return find_room(size, size); }
    inline bool find_room(std::uint64_t size, std::uint64_t first);

    /// Publishes the owner record, which tells readers the sender of the records that follow (4.6). False:
    /// back-pressured.
    inline bool publish_owner_record();

    /// Whether it is time to test the locks of slots (6.2, 4): this publisher is held back for 1 ms or more, or the
    /// last test was 1 ms or more ago. If so, notes the time of this test.
    bool is_time_to_test() noexcept {
        if (held_back_since == 0) return false;
        const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        if (now - held_back_since < retire_interval) return false;
        held_back_since = now;
        return true;
    }

    static constexpr std::int64_t retire_interval = 1'000'000;  // ns
    static constexpr std::int64_t little_room = 8;              // stands back below 1/8 of a queue's ring

    const ChannelFile* file = nullptr;
    const Fd* description = nullptr;
    const std::string* name = nullptr;  // the slot owner's name
    std::int64_t epoch = 0;
    std::int64_t max_lag = 0;          // bytes; 0: wait for every subscriber
    std::int64_t held_back_since = 0;  // monotonic ns of the start, or of the last test of locks; 0: not held back
    std::int64_t clock_offset = 0;     // offset of CLOCK_MONOTONIC in this process, ns
    std::uint64_t needed_last = 0;     // needed() of the last record that found no room
    bool stands_back = false;          // of a queue: pauses before the next look for room (spec/queue.md 4)
    bool tells_replaced = true;        // throws ChannelReplaced; false in a service, where waits throw it
    SuccessorWatch successor;

  private:
    /// Notes in the slot that a record of `size` bytes finds no room (6.2, 5).
    void note_held_back(std::uint64_t size) noexcept {
        const std::int64_t now = held_back_since = clock_ns(CLOCK_MONOTONIC);
        const SlotWords words = publisher_slot(*file, ring.index);
        store_relaxed(words.blocked_length(), static_cast<std::int64_t>(size));
        const std::int64_t since = std::max<std::int64_t>(now - clock_offset, 1);
        store_release(words.blocked_since(), file->environment.monotonic.value_or(since));
    }

    /// Notes in the slot that there is room again (6.2, 5).
    void note_room() noexcept {
        if (held_back_since == 0) return;
        held_back_since = 0;
        store_release(publisher_slot(*file, ring.index).blocked_since(), std::int64_t{0});
    }
};

/// Publish 2: finds room by all steps of 6.2. `size`: bytes of the whole batch; `first`: bytes of its first message.
/// Returns whether the first message has room.
bool SlotWriter::find_room(std::uint64_t size, std::uint64_t first) {
    if (static_cast<std::uint64_t>(end) + first >= static_cast<std::uint64_t>(layout::MAX_POSITION)) {
        throw_corrupt(file->path, ring, end, "it has reached the last position");
    }
    if (has_room(size)) return true;
    const std::uint64_t wanted = needed(size);
    if (tells_replaced) successor.look(*file);  // 6.2, 0
    if (stands_back) stand_back(ring.capacity());
    if (!is_still_held(needed(first))) recompute();
    if (!has_room(size) && max_lag != 0 && evict_lagging(*file, ring, *description, max_lag, wanted)) recompute();
    if (!has_room(size) && is_time_to_test()) {
        retire(*file, ring, *description, wanted);
        take_back_evicted(*file, ring, *description, wanted);
        if (tells_replaced) check_replaced(*file);
        recompute();
    }
    stands_back = handovers != nullptr && limit - end < ring.capacity() / little_room;
    if (has_room(first)) {
        note_room();
        return true;
    }
    if (held_back_since == 0) note_held_back(first);
    needed_last = needed(first);
    return false;
}

bool SlotWriter::publish_owner_record() {
    std::byte payload[layout::OWNER_RECORD_NAME + layout::MAX_NAME_LENGTH];
    put(payload + layout::OWNER_RECORD_EPOCH, epoch);
    put(payload + layout::OWNER_RECORD_NAME_LENGTH, static_cast<std::int32_t>(name->size()));
    std::memcpy(payload + layout::OWNER_RECORD_NAME, name->data(), name->size());
    const std::size_t length = layout::OWNER_RECORD_NAME + name->size();

    const std::uint64_t size = size_of(length);
    if (!reserve_size(size)) return false;
    owner_pending = false;
    publish(size, length + header_length, layout::TYPE_OWNER, count,
            [&](std::byte* to) { std::memcpy(to, payload, length); });
    set_fast_end();
    return true;
}

}  // namespace flyring::detail
