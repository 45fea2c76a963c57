// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace bench {

inline constexpr std::uint64_t factor = 0x9E3779B97F4A7C15;
inline constexpr std::uint64_t end_word = ~std::uint64_t{0};

[[noreturn, gnu::cold, gnu::noinline]] inline void wrong(std::uint64_t number, std::uint64_t tag, std::uint64_t found) {
    std::ostringstream text;
    text << "message " << number << " of this slice, tag " << tag << ", begins with word " << std::hex << found
         << " or has wrong bytes";
    throw std::runtime_error(text.str());
}

/// Writes and checks the words of messages (bench/PEER.md, messages).
template <std::size_t Size, bool Whole>
struct Message {
    static constexpr std::size_t words = Size / 8;
    static constexpr std::size_t rest = Size % 8;  // bytes after the last whole word

    static std::uint64_t tag(unsigned producer, std::uint64_t number) { return producer * 64 + number % 64; }

    static void write(std::byte* to, std::uint64_t tag) {
        std::memcpy(to, &tag, 8);
        if constexpr (Whole) {
            const std::uint64_t first = tag * factor;
            for (std::size_t i = 1; i < words; ++i) {
                const std::uint64_t word = first + i * factor;
                std::memcpy(to + 8 * i, &word, 8);
            }
            if constexpr (rest != 0) {
                const std::uint64_t word = first + words * factor;
                std::memcpy(to + 8 * words, &word, rest);
            }
        }
    }

    static void write_end(std::byte* to) { std::memset(to, 0xff, Whole ? Size : 8); }

    static bool is(const std::byte* from, std::uint64_t tag) {
        std::uint64_t word;
        std::memcpy(&word, from, 8);
        std::uint64_t difference = word ^ tag;
        if constexpr (Whole) {
            const std::uint64_t first = tag * factor;
            for (std::size_t i = 1; i < words; ++i) {
                std::memcpy(&word, from + 8 * i, 8);
                difference |= word ^ (first + i * factor);
            }
            if constexpr (rest != 0) {
                const std::uint64_t last = first + words * factor;
                word = 0;
                std::memcpy(&word, from + 8 * words, rest);
                difference |= word ^ (last & ((std::uint64_t{1} << 8 * rest) - 1));
            }
        }
        return difference == 0;
    }

    static std::uint64_t word0(const std::byte* from) {
        std::uint64_t word;
        std::memcpy(&word, from, 8);
        return word;
    }

    /// After is() returned false: returns if the message is the end marker, otherwise throws.
    [[gnu::cold, gnu::noinline]] static void must_be_end(const std::byte* from, std::uint64_t number,
                                                         std::uint64_t expected) {
        for (std::size_t i = 0; i < (Whole ? Size : 8); ++i) {
            if (from[i] != std::byte{0xff}) wrong(number, expected, word0(from));
        }
    }
};

}  // namespace bench
