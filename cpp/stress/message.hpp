// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <flyring/flyring.hpp>
#include <string>
#include <thread>

#include "private_folder.hpp"

// Messages that can be checked one by one: length, type and every byte follow from the sequence.

namespace stress {

[[noreturn]] inline void fail(const char* what, std::uint64_t wanted = 0, std::uint64_t got = 0) {
    std::fprintf(stderr, "FOUND: %s (wanted %llu, got %llu)\n", what, static_cast<unsigned long long>(wanted),
                 static_cast<unsigned long long>(got));
    std::fflush(nullptr);
    if (const char* folder = std::getenv("FLYRING_DIR")) std::filesystem::remove_all(folder);  // made by Folder
    std::_Exit(1);
}

/// Sleeps instead of yielding: on a busy machine, a yield may take very long.
inline void pause() {
    std::this_thread::sleep_for(std::chrono::microseconds(10));
}

/// A private folder in shared memory, to which FLYRING_DIR points.
class Folder {
  public:
    Folder() {
        if (path_.empty()) fail("no folder can be made in /dev/shm");
        ::setenv("FLYRING_DIR", path_.c_str(), 1);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }

  private:
    std::string path_ = private_folder::make("flyring-stress");
};

inline flyring::Options one_ring(std::uint32_t capacity) {
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    options.publishers = 1;
    options.subscribers = 1;
    options.capacity = capacity;
    options.counters = 0;
    return options;
}

inline std::uint64_t mix(std::uint64_t value) {  // SplitMix64
    value += 0x9E3779B97F4A7C15;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
}

constexpr std::size_t longest = 300;
constexpr std::size_t most_at_once = 8;  // messages of one publish()

inline std::size_t length_of(std::uint64_t sequence) {
    return 8 + mix(sequence) % (sequence % 4 == 0 ? longest - 8 : 48);
}
/// Equal for eight messages in a row, because a batch has one type.
inline std::int32_t type_of(std::uint64_t sequence) {
    return 1 + static_cast<std::int32_t>(sequence / 8 % 1000);
}
inline std::byte byte_of(std::uint64_t sequence, std::size_t at) {
    return static_cast<std::byte>(mix(sequence + 1) >> (at % 8 * 8)) ^ static_cast<std::byte>(at);
}

/// Writes a message; its first 8 bytes are the sequence.
inline void write(std::byte* to, std::uint64_t sequence) {
    std::memcpy(to, &sequence, 8);
    for (std::size_t at = 8; at < length_of(sequence); ++at) to[at] = byte_of(sequence, at);
}

/// What is wrong with a message; null if it is whole.
inline const char* what_is_wrong(const flyring::Message& message) {
    if (message.size() < 8) return "a message is too short";
    const auto sequence = message.as<std::uint64_t>();
    if (message.size() != length_of(sequence)) return "a message has not its length";
    if (message.type() != type_of(sequence)) return "a message has not its type";
    for (std::size_t at = 8; at < message.size(); ++at) {
        if (message.data()[at] != byte_of(sequence, at)) return "a message is torn";
    }
    return nullptr;
}

inline void check(const flyring::Message& message, std::uint64_t expected) {
    if (const char* wrong = what_is_wrong(message)) fail(wrong, expected);
    const auto sequence = message.as<std::uint64_t>();
    if (sequence != expected) fail("a message out of order", expected, sequence);
}

/// Publishes message `sequence`, and perhaps some after it, in one of several ways. Returns how many; 0: no room.
inline std::uint64_t publish(flyring::Publisher& publisher, std::uint64_t sequence) {
    std::array<std::array<std::byte, longest>, most_at_once> buffers;
    const std::size_t length = length_of(sequence);
    const std::int32_t type = type_of(sequence);
    const auto fill = [&] {
        flyring::Claim claim = publisher.try_claim(length, type);
        if (claim) write(claim.data(), sequence);
        return claim;
    };
    if (sequence % 7 == 0) {
        if (flyring::Claim given_up = fill()) given_up.abort();
    }
    if (sequence % 7 <= 1) {
        flyring::Claim claim = fill();
        return claim && claim.commit() > 0 ? 1 : 0;
    }
    if (sequence % 7 == 2) {
        std::array<flyring::Bytes, most_at_once> messages;
        std::size_t count = 0;
        for (std::uint64_t each = sequence; type_of(each) == type; ++each, ++count) {
            write(buffers[count].data(), each);
            messages[count] = {buffers[count].data(), length_of(each)};
        }
        return publisher.offer_batch({messages.data(), count}, type);
    }
    write(buffers[0].data(), sequence);
    return publisher.offer({buffers[0].data(), length}, type) == flyring::back_pressured ? 0 : 1;
}

}  // namespace stress
