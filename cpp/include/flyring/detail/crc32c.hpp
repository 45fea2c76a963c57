// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace flyring::detail {

constexpr std::array<std::uint32_t, 256> crc32c_table() noexcept {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
        table[byte] = crc;
    }
    return table;
}

inline std::uint32_t crc32c_by_table(const std::byte* data, std::size_t size, std::uint32_t crc) noexcept {
    static constexpr std::array<std::uint32_t, 256> table = crc32c_table();
    for (std::size_t i = 0; i < size; ++i) {
        crc = (crc >> 8) ^ table[(crc ^ static_cast<std::uint32_t>(data[i])) & 0xff];
    }
    return crc;
}

#if defined(__x86_64__) || defined(__aarch64__)
#define FLYRING_CRC32C_INSTRUCTION 1
#if defined(__x86_64__)
#define FLYRING_CRC32C_TARGET gnu::target("sse4.2")
inline bool has_crc32c_instruction() noexcept {
    return __builtin_cpu_supports("sse4.2") != 0;
}
#elif defined(__clang__)
#define FLYRING_CRC32C_TARGET gnu::target("crc")
#else
#define FLYRING_CRC32C_TARGET gnu::target("+crc")
#endif
#if defined(__aarch64__)
inline bool has_crc32c_instruction() noexcept {
    constexpr unsigned long crc = 1 << 7;  // HWCAP_CRC32
    return (::getauxval(AT_HWCAP) & crc) != 0;
}
#endif

/// A CRC (not inverted) after `crc32c_block` more zero bytes, as four tables of the CRC's four bytes.
inline constexpr std::size_t crc32c_block = 512;
constexpr std::array<std::array<std::uint32_t, 256>, 4> crc32c_shift_table() noexcept {
    std::array<std::uint32_t, 32> after{};  // what bit i becomes
    for (std::size_t bit = 0; bit < 32; ++bit) {
        std::uint32_t crc = std::uint32_t{1} << bit;
        for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
        after[bit] = crc;
    }
    for (std::size_t bytes = 1; bytes < crc32c_block; bytes *= 2) {
        std::array<std::uint32_t, 32> twice{};
        for (std::size_t bit = 0; bit < 32; ++bit) {
            for (std::size_t i = 0; i < 32; ++i) twice[bit] ^= ((after[bit] >> i) & 1) != 0 ? after[i] : 0;
        }
        after = twice;
    }
    std::array<std::array<std::uint32_t, 256>, 4> table{};
    for (std::size_t byte = 0; byte < 4; ++byte) {
        for (std::uint32_t value = 0; value < 256; ++value) {
            for (std::size_t bit = 0; bit < 8; ++bit) {
                if (((value >> bit) & 1) != 0) table[byte][value] ^= after[8 * byte + bit];
            }
        }
    }
    return table;
}
inline std::uint32_t crc32c_shift(std::uint32_t crc) noexcept {
    static constexpr std::array<std::array<std::uint32_t, 256>, 4> table = crc32c_shift_table();
    return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^ table[3][crc >> 24];
}

/// With the processor's instruction. It takes 3 cycles for 8 bytes, but three can be under way: so three blocks are
/// computed beside each other, and then put together.
[[FLYRING_CRC32C_TARGET]] inline std::uint32_t crc32c_by_instruction(const std::byte* data, std::size_t size,
                                                                     std::uint32_t crc) noexcept {
    const auto word = [](const std::byte* at) {
        std::uint64_t value = 0;
        std::memcpy(&value, at, sizeof value);
        return value;
    };
#if defined(__x86_64__)
#define FLYRING_CRC32C_WORD(crc, value) static_cast<std::uint32_t>(__builtin_ia32_crc32di(crc, value))
#define FLYRING_CRC32C_BYTE(crc, value) __builtin_ia32_crc32qi(crc, value)
#elif defined(__clang__)
#define FLYRING_CRC32C_WORD(crc, value) __builtin_arm_crc32cd(crc, value)
#define FLYRING_CRC32C_BYTE(crc, value) __builtin_arm_crc32cb(crc, value)
#else
#define FLYRING_CRC32C_WORD(crc, value) __builtin_aarch64_crc32cx(crc, value)
#define FLYRING_CRC32C_BYTE(crc, value) __builtin_aarch64_crc32cb(crc, value)
#endif
    for (; size >= 3 * crc32c_block; size -= 3 * crc32c_block, data += 3 * crc32c_block) {
        std::uint32_t second = 0;
        std::uint32_t third = 0;
        for (std::size_t i = 0; i < crc32c_block; i += 8) {
            crc = FLYRING_CRC32C_WORD(crc, word(data + i));
            second = FLYRING_CRC32C_WORD(second, word(data + i + crc32c_block));
            third = FLYRING_CRC32C_WORD(third, word(data + i + 2 * crc32c_block));
        }
        crc = crc32c_shift(crc32c_shift(crc) ^ second) ^ third;
    }
    for (; size >= 8; size -= 8, data += 8) crc = FLYRING_CRC32C_WORD(crc, word(data));
    for (; size != 0; --size, ++data) crc = FLYRING_CRC32C_BYTE(crc, static_cast<std::uint8_t>(*data));
    return crc;
#undef FLYRING_CRC32C_WORD
#undef FLYRING_CRC32C_BYTE
}
#endif

/// CRC-32C (Castagnoli) of `size` bytes. `before`: the CRC of the bytes in front of them, if there are any.
inline std::uint32_t crc32c(const std::byte* data, std::size_t size, std::uint32_t before = 0) noexcept {
#if defined(FLYRING_CRC32C_INSTRUCTION)
    if (has_crc32c_instruction()) return ~crc32c_by_instruction(data, size, ~before);
#endif
    return ~crc32c_by_table(data, size, ~before);
}

}  // namespace flyring::detail
