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

/// A time-out that never passes.
inline constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();

/// Ring numbers, from 0. Ring k belongs to publisher slot k.
using Rings = std::vector<std::uint32_t>;

enum class Kind : std::uint32_t {
    /// Not given. create refuses this value.
    none = 0,
    /// One subscriber slot, which is kept: messages that arrive while nothing reads wait for the next subscriber.
    inbox = layout::KIND_INBOX,
    /// Up to 1024 subscribers. Each gets the messages that are published after it joins, unless its slot is kept.
    broadcast = layout::KIND_BROADCAST,
    /// Each message is a job, which goes to exactly one worker: any free one (spec/queue.md).
    queue = layout::KIND_QUEUE,
    /// Request and reply: clients call one server (spec/service.md).
    service = layout::KIND_SERVICE,
};

/// What happens to a call whose server dies; only for a service (spec/service.md 8).
enum class Delivery : std::int32_t {
    /// The call ends with ServerGone. Its handler ran at most once.
    at_most_once = layout::DELIVERY_AT_MOST_ONCE,
    /// The next server answers the call. If a handler may already have got the request, Request::repeat() says so.
    at_least_once = layout::DELIVERY_AT_LEAST_ONCE,
};

/// Whether a stock Agrona OneToOneRingBuffer is at one end of the channel (spec/channel.md 6.15).
enum class Foreign : std::uint64_t {
    none = 0,
    /// The Agrona process writes ring 0. The channel then has no Flyring publishers and no lossy subscribers.
    publisher = layout::FEATURE_FOREIGN_PUBLISHER,
    /// The Agrona process reads as subscriber slot 0. The channel then has no Flyring subscribers except lossy ones.
    subscriber = layout::FEATURE_FOREIGN_SUBSCRIBER,
};

/// Where a lossy subscriber starts to read.
enum class Start {
    /// At the next message that is published.
    now,
    /// At the oldest message that is still in the ring.
    oldest,
};

/// Where a lossy subscriber continues after publishers have overwritten its next message.
enum class WhenLapped {
    /// At the oldest message that leaves it at least a quarter of the ring before it is lapped again.
    oldest,
    /// At the next message that is published.
    newest,
};

/// The properties of a new channel (spec/api.md, options).
struct Options {
    Kind kind = Kind::none;
    /// Bytes of one ring: a power of two, 4 KiB to 1 GiB. Default: 1 MiB; for a service 64 KiB.
    std::optional<std::uint32_t> capacity{};
    /// Number of rings, 1 to 1024. Default: 4. Not for a queue or a service.
    std::optional<std::uint32_t> publishers{};
    /// Number of subscriber slots, 0 to 1024. Default: 4; an inbox always has 1. Not for a queue or a service.
    std::optional<std::uint32_t> subscribers{};
    /// How many producers may be attached at once, 1 to 1023. Default: 4. Only for a queue.
    std::optional<std::uint32_t> producers{};
    /// How many workers may be attached at once, 1 to 1023. Default: 4. Only for a queue.
    std::optional<std::uint32_t> workers{};
    /// How many clients may be attached at once, 1 to 512. Default: 16. Only for a service.
    std::optional<std::uint32_t> clients{};
    /// Default: at most once. Only for a service.
    std::optional<Delivery> delivery{};
    /// How many calls one client may have under way at once, 1 to 65535. Default: 64. Only for a service.
    std::optional<std::uint32_t> max_outstanding{};
    /// Records start at multiples of this many bytes: 64, or 8 for a compact ring.
    std::uint32_t alignment = layout::DEFAULT_ALIGNMENT;
    /// Any value but `none` needs an inbox with 1 publisher, 1 subscriber and alignment 8.
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
    /// True: do not require a file system from the allow-list of spec/channel.md 3.1.
    bool any_file_system = false;
    /// True: this process wakes sleeping peers when it publishes a message or makes room. False: it wakes no peer, so
    /// each waiting peer looks every millisecond. If all channels of the process have it false, no sleeping peer
    /// interrupts the process. (spec/channel.md 6.16)
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
    /// Opens and maps the file for reading only; needs no write permission. Lossy subscribers and reading counters
    /// work; any call that would write throws AccessDenied.
    bool read_only = false;
    bool any_file_system = false;
    /// True: this process wakes sleeping peers when it publishes a message or makes room. False: it wakes no peer, so
    /// each waiting peer looks every millisecond. If all channels of the process have it false, no sleeping peer
    /// interrupts the process. (spec/channel.md 6.16)
    bool wake = true;
    /// The channel must have a schema with the same id (spec/messages.md 2).
    std::optional<Schema> schema{};
    /// The channel's schema must have at least this version, 0 to 65535; 0: any.
    std::uint32_t min_schema_version = 0;
};

}  // namespace flyring
