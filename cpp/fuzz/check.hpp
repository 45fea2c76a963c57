// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <flyring/flyring.hpp>
#include <string>
#include <vector>

#include "file.hpp"

// The checks that accompany everything that a fuzz program does.

namespace fuzz {

[[noreturn]] inline void found(const char* what) {
    std::fprintf(stderr, "FOUND: %s\n", what);
    std::abort();
}

/// Reads every byte, so that a byte outside the mapping causes a fault or a report of AddressSanitizer.
inline void read_all(const std::byte* data, std::size_t size) {
    std::byte sum{};
    for (std::size_t at = 0; at < size; ++at) sum ^= data[at];
    asm volatile("" : : "r"(sum));  // keeps the compiler from removing the reads
}

/// Calls action(), which may throw a FlyringError. Other tests check which one; here only those are wrong that no
/// content of the file can cause.
template <typename Action>
void attempt(Action&& action) {
    try {
        action();
    } catch (const flyring::FlyringError& error) {
        for (const char* never : {"io", "two-threads", "exists", "no-such-channel"}) {
            if (error.code() == never) {
                std::fprintf(stderr, "%s\n", error.what());
                found("an error that this file cannot have led to");
            }
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        found("an exception that is not a FlyringError");
    }
}

/// Calls action(), and checks that it changes the data only of rings with may_write(ring). `otherwise`: what is
/// reported if not.
template <typename MayWrite, typename Action>
void writes_no_other(const File& file, const MayWrite& may_write, const char* otherwise, Action&& action) {
    const flyring::detail::Header shape = file.shape();
    const std::uint32_t pokes = file.pokes();
    std::vector<std::vector<std::byte>> before(shape.publishers);
    for (std::uint32_t ring = 0; ring < shape.publishers; ++ring) {
        const std::byte* const data = file.ring(ring).data;
        if (!may_write(ring)) before[ring].assign(data, data + shape.capacity);
    }
    const auto compare = [&] {
        for (std::uint32_t ring = 0; ring < shape.publishers && file.pokes() == pokes; ++ring) {
            const auto& bytes = before[ring];
            if (!bytes.empty() && std::memcmp(bytes.data(), file.ring(ring).data, bytes.size()) != 0) {
                found(otherwise);
            }
        }
    };
    try {
        action();
    } catch (...) {
        compare();
        throw;
    }
    compare();
}

}  // namespace fuzz
