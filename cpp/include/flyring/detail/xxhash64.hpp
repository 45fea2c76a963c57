// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "flyring/detail/memory.hpp"

namespace flyring::detail {

namespace xxh {
inline constexpr std::uint64_t p1 = 0x9e3779b185ebca87;
inline constexpr std::uint64_t p2 = 0xc2b2ae3d27d4eb4f;
inline constexpr std::uint64_t p3 = 0x165667b19e3779f9;
inline constexpr std::uint64_t p4 = 0x85ebca77c2b2ae63;
inline constexpr std::uint64_t p5 = 0x27d4eb2f165667c5;

constexpr std::uint64_t rotate(std::uint64_t value, int by) noexcept {
    return (value << by) | (value >> (64 - by));
}
constexpr std::uint64_t round(std::uint64_t sum, std::uint64_t lane) noexcept {
    return rotate(sum + lane * p2, 31) * p1;
}
}  // namespace xxh

/// xxHash64 with seed 0, as its specification describes it (spec/table.md 2.4).
inline std::uint64_t xxhash64(const std::byte* data, std::size_t size) noexcept {
    using namespace xxh;
    const std::byte* at = data;
    const std::byte* const end = data + size;
    std::uint64_t hash = p5;
    if (size >= 32) {
        std::uint64_t sums[4] = {p1 + p2, p2, 0, 0 - p1};
        for (; end - at >= 32; at += 32) {
            for (int lane = 0; lane < 4; ++lane) sums[lane] = round(sums[lane], get<std::uint64_t>(at + 8 * lane));
        }
        hash = rotate(sums[0], 1) + rotate(sums[1], 7) + rotate(sums[2], 12) + rotate(sums[3], 18);
        for (const std::uint64_t sum : sums) hash = (hash ^ round(0, sum)) * p1 + p4;
    }
    hash += size;
    for (; end - at >= 8; at += 8) hash = rotate(hash ^ round(0, get<std::uint64_t>(at)), 27) * p1 + p4;
    if (end - at >= 4) {
        hash = rotate(hash ^ get<std::uint32_t>(at) * p1, 23) * p2 + p3;
        at += 4;
    }
    for (; at != end; ++at) hash = rotate(hash ^ static_cast<std::uint64_t>(*at) * p5, 11) * p1;
    hash = (hash ^ (hash >> 33)) * p2;
    hash = (hash ^ (hash >> 29)) * p3;
    return hash ^ (hash >> 32);
}

/// The same of 8 bytes.
[[gnu::always_inline]] inline std::uint64_t xxhash64(std::uint64_t word) noexcept {
    using namespace xxh;
    std::uint64_t hash = rotate((p5 + sizeof word) ^ round(0, word), 27) * p1 + p4;
    hash = (hash ^ (hash >> 33)) * p2;
    hash = (hash ^ (hash >> 29)) * p3;
    return hash ^ (hash >> 32);
}

}  // namespace flyring::detail
