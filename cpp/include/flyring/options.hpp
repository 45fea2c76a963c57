// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flyring/detail/layout.hpp"
#include "flyring/schema.hpp"

namespace flyring {

/// 16 bytes in the order of RFC 9562.
using Uuid = std::array<std::byte, 16>;

/// The time-out of a wait that has none.
inline constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();

/// Numbers of rings: of publisher slots, from 0.
using Rings = std::vector<std::uint32_t>;

enum class Kind : std::uint32_t {
    /// Not given: create refuses it.
    none = 0,
    /// One subscriber slot, which is kept: what comes while nobody reads waits for the next subscriber.
    inbox = layout::KIND_INBOX,
    /// Nothing is kept: a subscriber gets what is published after it came.
    broadcast = layout::KIND_BROADCAST,
    /// Each message is a job: one of the workers gets it, whichever is free (spec/queue.md).
    queue = layout::KIND_QUEUE,
    /// Question and answer: clients call one server (spec/service.md).
    service = layout::KIND_SERVICE,
};

/// Of a service: what becomes of a call whose server dies (spec/service.md 8).
enum class Delivery : std::int32_t {
    /// It ends as *server gone*; its handler ran at most once.
    at_most_once = layout::DELIVERY_AT_MOST_ONCE,
    /// The next server answers; a handler that was given the request before is told so.
    at_least_once = layout::DELIVERY_AT_LEAST_ONCE,
};

/// Whether a stock Agrona OneToOneRingBuffer is at one end of the channel (spec/channel.md 6.15).
enum class Foreign : std::uint64_t {
    none = 0,
    /// It writes ring 0: there are no publishers and no lossy subscribers of ours.
    publisher = layout::FEATURE_FOREIGN_PUBLISHER,
    /// It reads as subscriber slot 0: there are no subscribers of ours but lossy ones.
    subscriber = layout::FEATURE_FOREIGN_SUBSCRIBER,
};

/// Where a lossy subscriber begins.
enum class Start {
    /// With what is published from now on.
    now,
    /// With the oldest message that is still there.
    oldest,
};

/// Where a lossy subscriber goes on after publishers have overwritten what it would have read next.
enum class WhenLapped {
    /// At the oldest message that leaves it a quarter of the ring before it is lapped again.
    oldest,
    /// With what is published from then on.
    newest,
};

/// What a new channel is made of (spec/api.md, options).
struct Options {
    Kind kind = Kind::none;
    /// Bytes of one ring: a power of two, 4 KiB to 1 GiB.
    /// Left out: 1 MiB, of a service 64 KiB.
    std::optional<std::uint32_t> capacity{};
    /// Number of rings, 1 to 1024; left out: 4. Not of a queue or a service.
    std::optional<std::uint32_t> publishers{};
    /// Number of subscriber slots, 0 to 1024; left out: 4. An inbox has 1. Not of a queue or a
    /// service.
    std::optional<std::uint32_t> subscribers{};
    /// How many may publish into a queue at once, 1 to 1023; left out: 4. Only of a queue.
    std::optional<std::uint32_t> producers{};
    /// How many may take jobs from it at once, 1 to 1023; left out: 4. Only of a queue.
    std::optional<std::uint32_t> workers{};
    /// How many may call at once, 1 to 512; left out: 16. Only of a service.
    std::optional<std::uint32_t> clients{};
    /// Left out: at most once. Only of a service.
    std::optional<Delivery> delivery{};
    /// Calls of one client that are under way at once, 1 to 65535; left out: 64. Only of a service.
    std::optional<std::uint32_t> max_outstanding{};
    /// Bytes: 64, or 8 for a compact ring.
    std::uint32_t alignment = layout::DEFAULT_ALIGNMENT;
    /// Needs an inbox with 1 publisher, 1 subscriber and alignment 8.
    Foreign foreign = Foreign::none;
    /// Number of counters, 0 to 65536.
    std::uint32_t counters = layout::DEFAULT_COUNTERS;
    /// UTF-8 text, at most 16 MiB.
    std::string schema;
    /// 0 to 65535; 0 without a schema.
    std::uint32_t schema_id = 0;
    std::uint32_t schema_version = 0;
    /// Permission bits of the file.
    mode_t mode = 0600;
    /// Do not insist on the allow-list of file systems of spec/channel.md 3.1.
    bool any_file_system = false;
    /// Publishers and subscribers of this channel wake those who sleep until a message or room is there. False: they do
    /// not, no sleeper ever interrupts this process (if each of its channels has it so), and those who wait for it look
    /// every millisecond. (spec/channel.md 6.16)
    bool wake = true;

    /// Sets schema, schema_id and schema_version.
    Options& use(const Schema& one) {
        schema = one.text;
        schema_id = one.id;
        schema_version = one.version;
        return *this;
    }
};

struct OpenOptions {
    /// The file is opened and mapped for reading: lossy subscribers and the reading of counters work, what would write
    /// throws AccessDenied. Needs no write permission.
    bool read_only = false;
    bool any_file_system = false;
    /// Publishers and subscribers of this channel wake those who sleep until a message or room is there. False: they do
    /// not, no sleeper ever interrupts this process (if each of its channels has it so), and those who wait for it look
    /// every millisecond. (spec/channel.md 6.16)
    bool wake = true;
    /// The channel must have a schema with the same id (spec/messages.md 2).
    std::optional<Schema> schema{};
    /// The channel's schema must have at least this version, 0 to 65535; 0: any.
    std::uint32_t min_schema_version = 0;
};

}  // namespace flyring
