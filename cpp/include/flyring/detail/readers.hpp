// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "flyring/errors.hpp"

// What a subscriber and a lossy subscriber do alike with their rings. A Reader says where a subscriber is in one ring.

namespace flyring::detail {

/// Calls poll_ring(reader, done) for each ring, from `next` on, until `limit` messages were handed out. It gets how
/// many there were before, and returns how many there are then. The next poll starts after the ring that last gave a
/// message (spec/channel.md 6.9).
template <typename Reader, typename PollRing>
[[gnu::always_inline]] inline int poll_rings(std::vector<Reader>& readers, std::size_t& next, int limit,
                                             PollRing&& poll_ring) {
    int done = 0;
    const std::size_t rings = readers.size();
    std::size_t at = next;
    for (std::size_t visited = 0; visited < rings && done < limit; ++visited) {
        const int before = done;
        done = poll_ring(readers[at], done);
        at = at + 1 < rings ? at + 1 : 0;
        if (done != before) next = at;
    }
    return done;
}

/// Throws InvalidArgument if there is none of that ring.
template <typename Reader>
const Reader& reader_of(const std::vector<Reader>& readers, std::uint32_t ring) {
    for (const Reader& reader : readers) {
        if (reader.ring.index == ring) return reader;
    }
    throw InvalidArgument("ring", "ring " + std::to_string(ring) + " was not chosen by this subscriber");
}

}  // namespace flyring::detail
