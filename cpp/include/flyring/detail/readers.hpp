// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "flyring/detail/memory.hpp"
#include "flyring/errors.hpp"
#include "flyring/message.hpp"

// What subscribers and lossy subscribers have in common. A Reader is the state of a subscriber in one ring.

namespace flyring::detail {

/// Whether a handler returns an Action. A result of another type is ignored.
template <typename Handler>
inline constexpr bool returns_action =
    std::is_same_v<std::decay_t<std::invoke_result_t<Handler&, const Message&>>, Action>;

constexpr bool ends_poll(Action action) noexcept {
    return action == Action::BREAK || action == Action::ABORT;
}

/// Returns an action, or throws InvalidArgument if the value is no Action.
inline Action checked(Action action) {
    if (FLYRING_UNLIKELY(action < Action::CONTINUE || action > Action::ABORT)) {
        throw InvalidArgument("action", std::to_string(static_cast<int>(action)) + " is none of Action");
    }
    return action;
}

/// cursor + size. As long as all records have one size, it is computed from the last record's size. So the processor
/// can fetch the next records before it has this record's length, which is often still in the publisher's cache.
inline std::int64_t next_record(std::int64_t cursor, std::int64_t size, std::int64_t& stride) noexcept {
    if (FLYRING_LIKELY(size == stride)) return opaque(cursor + opaque(stride));
    stride = size;
    return opaque(cursor + size);
}

/// Calls poll_ring(reader, done) for each ring, starting with the reader at `next`, until `limit` messages were handed
/// out. poll_ring gets the number so far and returns the new one. Sets `next` behind the ring that last gave a message
/// (spec/channel.md 6.9). With `Actions`, `last` is the handler's last action, which may end the poll.
template <bool Actions, typename Reader, typename PollRing>
[[gnu::always_inline]] inline int poll_rings(std::vector<Reader>& readers, std::size_t& next, int limit,
                                             const Action& last, PollRing&& poll_ring) {
    int done = 0;
    const std::size_t rings = readers.size();
    std::size_t at = next;
    for (std::size_t visited = 0; visited < rings && done < limit; ++visited) {
        const int before = done;
        done = poll_ring(readers[at], done);
        if constexpr (Actions) {
            if (last == Action::ABORT) next = at;  // the next poll begins with that message
            if (last == Action::ABORT) return done;
            if (last == Action::BREAK) limit = done;
        }
        at = at + 1 < rings ? at + 1 : 0;
        if (done != before) next = at;
    }
    return done;
}

/// The reader of a ring. Throws InvalidArgument if the ring was not chosen.
template <typename Reader>
const Reader& reader_of(const std::vector<Reader>& readers, std::uint32_t ring) {
    for (const Reader& reader : readers) {
        if (reader.ring.index == ring) return reader;
    }
    throw InvalidArgument("ring", "ring " + std::to_string(ring) + " was not chosen by this subscriber");
}

}  // namespace flyring::detail
