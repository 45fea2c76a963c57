// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/detail/file.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/system.hpp"
#include "flyring/errors.hpp"

// What the client and the server of a service share (spec/service.md): words, prefixes, locks, clock.

namespace flyring::detail {

// Words beside a gate (2).
inline std::int64_t* taken_end_of(const Ring& ring) noexcept {
    return ring.gate(0) + layout::GATE_TAKEN_END / sizeof(std::int64_t);
}
inline std::int32_t* outstanding_beside(std::int64_t* gate) noexcept {
    return reinterpret_cast<std::int32_t*>(reinterpret_cast<std::byte*>(gate) + layout::GATE_OUTSTANDING);
}
inline std::int64_t* expired_beside(std::int64_t* gate) noexcept {
    return gate + layout::GATE_EXPIRED / sizeof(std::int64_t);
}

/// The prefix of a request (2).
struct RequestPrefix {
    std::uint32_t sequence;
    std::uint16_t operation;
    std::uint16_t credit;
    std::int64_t deadline;
    std::uint32_t client_epoch;
    std::uint32_t server_epoch;
};
static_assert(sizeof(RequestPrefix) == layout::REQUEST_LENGTH);
static_assert(offsetof(RequestPrefix, sequence) == layout::REQUEST_SEQUENCE);
static_assert(offsetof(RequestPrefix, operation) == layout::REQUEST_OPERATION);
static_assert(offsetof(RequestPrefix, credit) == layout::REQUEST_CREDIT);
static_assert(offsetof(RequestPrefix, deadline) == layout::REQUEST_DEADLINE);
static_assert(offsetof(RequestPrefix, client_epoch) == layout::REQUEST_CLIENT_EPOCH);
static_assert(offsetof(RequestPrefix, server_epoch) == layout::REQUEST_SERVER_EPOCH);

/// Writes the prefix field by field: a copy of a struct just made would load it in vectors, which must wait until its
/// fields have left the store buffer.
[[gnu::always_inline]] inline void write(std::byte* to, const RequestPrefix& prefix) noexcept {
    put(to + layout::REQUEST_SEQUENCE, prefix.sequence);
    put(to + layout::REQUEST_OPERATION, prefix.operation);
    put(to + layout::REQUEST_CREDIT, prefix.credit);
    put(to + layout::REQUEST_DEADLINE, prefix.deadline);
    put(to + layout::REQUEST_CLIENT_EPOCH, prefix.client_epoch);
    put(to + layout::REQUEST_SERVER_EPOCH, prefix.server_epoch);
}

/// The prefix of a reply (2).
struct ReplyPrefix {
    std::uint32_t client_epoch;
    std::uint32_t sequence;
    std::int32_t status;
    std::int32_t flags;
};
static_assert(sizeof(ReplyPrefix) == layout::REPLY_LENGTH);
static_assert(offsetof(ReplyPrefix, client_epoch) == layout::REPLY_CLIENT_EPOCH);
static_assert(offsetof(ReplyPrefix, sequence) == layout::REPLY_SEQUENCE);
static_assert(offsetof(ReplyPrefix, status) == layout::REPLY_STATUS);
static_assert(offsetof(ReplyPrefix, flags) == layout::REPLY_FLAGS);

[[gnu::always_inline]] inline void write(std::byte* to, const ReplyPrefix& prefix) noexcept {
    put(to + layout::REPLY_CLIENT_EPOCH, prefix.client_epoch);
    put(to + layout::REPLY_SEQUENCE, prefix.sequence);
    put(to + layout::REPLY_STATUS, prefix.status);
    put(to + layout::REPLY_FLAGS, prefix.flags);
}

/// Fetches the start of the record that is three records ahead, so that the misses of several calls under way overlap.
/// With 16 under way, that gives a tenth more calls a second. The next records are taken to be as long as the last one:
/// it has `size` bytes and ends at `end`. A prefetch cannot fault, so a hostile length does no harm.
inline void prefetch_records(const Ring& ring, std::int64_t end, std::int64_t size) noexcept {
    constexpr std::int64_t ahead = 3;  // the very next record is often being written
    __builtin_prefetch(ring.length_at(end + ahead * size));
}

/// An epoch as it is in a prefix.
inline std::uint32_t low_bits(std::int64_t epoch) noexcept {
    return static_cast<std::uint32_t>(epoch & 0xFFFFFFFF);
}

/// The clock of deadlines (channel.md 10) in ns, above 0. `offset`: that of this process's time namespace.
inline std::int64_t service_clock(const ChannelFile& file, std::int64_t offset) noexcept {
    if (file.environment.monotonic) return *file.environment.monotonic;
    return std::max<std::int64_t>(clock_ns(CLOCK_MONOTONIC) - offset, 1);
}

/// How many bytes of `text` to send: at most `most`, without cutting a UTF-8 character.
inline std::size_t whole_letters(const char* text, std::size_t length, std::size_t most) noexcept {
    if (length <= most) return length;
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
    return most;
}

/// The lock bytes of one place, in the order in which they are tried. The first one is unlocked last.
using PlaceLocks = std::vector<std::uint64_t>;

/// The locks of client k (3, 2).
inline PlaceLocks client_locks(const ChannelFile& file, std::uint32_t k) {
    return {file.publisher_lock(k), file.subscriber_lock(1 + k)};
}

/// The locks of the server (4, 2).
inline PlaceLocks server_locks(const ChannelFile& file) {
    PlaceLocks locks = {file.subscriber_lock(0)};
    for (std::uint32_t ring = file.header.clients(); ring < file.header.publishers; ++ring) {
        locks.push_back(file.publisher_lock(ring));
    }
    return locks;
}

/// Locks taken through one description: unlocked by the destructor unless keep() was called.
class PlaceGuard {
  public:
    explicit PlaceGuard(const Fd& description) noexcept : description_(description) {}
    PlaceGuard(const PlaceGuard&) = delete;
    PlaceGuard& operator=(const PlaceGuard&) = delete;
    ~PlaceGuard() { give_back(); }

    /// Takes all of the locks, or none.
    bool take(const PlaceLocks& locks, const std::string& path) {
        taken_.reserve(locks.size());
        for (const std::uint64_t byte : locks) {
            if (!lock_byte(description_, byte, path)) {
                give_back();
                return false;
            }
            taken_.push_back(byte);
        }
        return true;
    }
    PlaceLocks keep() noexcept { return std::exchange(taken_, {}); }

  private:
    void give_back() noexcept {
        for (const std::uint64_t byte : taken_) unlock_byte(description_, byte);
        taken_.clear();
    }

    const Fd& description_;
    PlaceLocks taken_;
};

/// Takes the first free one of `count` places, all of its locks on one description, and calls use(place) while the
/// control lock is also held. Tries for 10 ms, then calls refuse(description), which throws NoFreeSlot.
template <typename Locks, typename Use, typename Refuse>
SlotLock take_place(const ChannelFile& file, std::uint32_t count, Locks&& locks_of, Use&& use, Refuse&& refuse) {
    constexpr std::int64_t patience = 10'000'000;  // ns
    Fd description = open_description(file.fd, file.path);
    std::int64_t give_up = 0;  // counted from the first look, because the control lock may take long
    for (;;) {
        PlaceLocks taken;
        {
            const ControlLock control(description, file);
            for (std::uint32_t place = 0; place < count && taken.empty(); ++place) {
                PlaceGuard guard(description);
                if (!guard.take(locks_of(file, place), file.path)) continue;
                note_boot(file);
                use(place);
                taken = guard.keep();
            }
        }
        if (!taken.empty()) {
            const std::uint64_t first = taken.front();
            taken.erase(taken.begin());
            return {std::move(description), first, std::move(taken)};
        }
        const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        if (give_up == 0) give_up = now + patience;
        if (now > give_up) refuse(description);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

/// Throws NoFreeSlot: all places of clients are taken (3, 2).
[[noreturn]] inline void throw_no_free_client(const ChannelFile& file, const Fd& description) {
    const SlotKind clients = {
        "subscriber", 1, file.header.clients(), false, subscriber_slot, &ChannelFile::subscriber_lock, nullptr};
    throw_no_free_slot(file, clients, description, std::nullopt);
}

/// Throws NoFreeSlot: another server lives, or a process holds one of the server's slots (4, 2).
[[noreturn]] inline void throw_no_free_server(const ChannelFile& file) {
    SlotFields fields;
    if (!read_fields(subscriber_slot(file, 0), fields)) fields = {};
    const std::string name(fields.letters, fields.name_length);
    std::vector<SlotOwner> owners = {{0, name, fields.pid}};
    throw NoFreeSlot(file.path, "subscriber", 1, std::move(owners),
                     "there is a server" + (name.empty() ? "" : " '" + name + "'") + ", pid " +
                         std::to_string(fields.pid) + "; a service has one: close that one, or evict slot 0");
}

/// Evicts the server (9). The control lock must be held. The gates stay, or requests would be lost.
inline void evict_server(const ChannelFile& file) noexcept {
    raise_epoch(subscriber_slot(file, 0));
    wake_all(file.data());
    wake_all(file.room());
}

/// Whether a server lives at epoch `e` of slot 0 (6).
inline bool server_lives(const ChannelFile& file, std::int64_t e) {
    return is_epoch(e) && byte_is_locked(file.fd, file.subscriber_lock(0), file.path) &&
           load_acquire(file.serving()) == e;  // pairs with take server 2 and 7
}

}  // namespace flyring::detail
