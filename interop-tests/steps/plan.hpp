// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <flyring/flyring.hpp>
#include <string>
#include <vector>

// What the tracer and the C++ child agree on; child.py says the same in Python. Message s of ring r has the bytes
// (7 r + 31 s + 3 i) mod 251 and the type 1 + s. What is not said otherwise is 8 + 5 s mod 41 bytes long: such a record
// fills one line of 64 bytes, so that positions are easy to foresee.

namespace steps {

inline std::size_t length_of(std::int64_t sequence) {
    return 8 + static_cast<std::size_t>(5 * sequence % 41);
}

inline std::int32_t type_of(std::int64_t sequence) {
    return static_cast<std::int32_t>(1 + sequence);
}

inline std::vector<std::byte> payload(std::uint32_t ring, std::int64_t sequence, std::size_t length) {
    std::vector<std::byte> bytes(length);
    for (std::size_t i = 0; i < length; ++i) {
        bytes[i] = static_cast<std::byte>((7 * ring + 31 * static_cast<std::uint64_t>(sequence) + 3 * i) % 251);
    }
    return bytes;
}

/// Everything that would differ from run to run.
inline flyring::detail::InEnvironment fixed(std::int32_t pid) {
    flyring::detail::InEnvironment made;
    made.environment.channel_id = flyring::Uuid{std::byte{0x11}};
    made.environment.boot_id = flyring::Uuid{std::byte{0x22}};
    made.environment.created_at = 1'000'000'000;
    made.environment.now = 2'000'000'000;
    made.environment.monotonic = 3'000'000'000;
    made.environment.pid = pid;
    return made;
}

/// Of PATH.done, in which a worker says how often it has finished the job of each type, a byte each: not 0 if the
/// tracer does something while it stops the child.
inline constexpr std::int32_t disturbed_at = 4095;

/// Of PATH.done, of a service: how often a handler was given the request of each type, a byte each; so far behind each
/// the low byte of its server's epoch.
inline constexpr std::int32_t server_at = 2048;

inline constexpr std::int32_t tracer_pid = 1001;
inline constexpr std::int32_t child_pid = 1002;

// Names in the channel: ring 0 is the child's, ring 1 is another publisher's.
inline const std::string publisher_name = "pub";  // ring 0
inline const std::string other_name = "other";    // ring 1
inline const std::string keeper_name = "keeper";  // kept, away, behind
inline const std::string live_name = "live";      // kept, attached in the tracer while the child is killed
inline const std::string reader_name = "reader";  // kept, away: the child's when it reads

}  // namespace steps
