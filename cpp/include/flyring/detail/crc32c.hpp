// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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

/// CRC-32C (Castagnoli) of `size` bytes. `before`: the CRC of the bytes in front of them, if there are any.
inline std::uint32_t crc32c(const std::byte* data, std::size_t size, std::uint32_t before = 0) noexcept {
    static constexpr std::array<std::uint32_t, 256> table = crc32c_table();
    std::uint32_t crc = ~before;
    for (std::size_t i = 0; i < size; ++i) {
        crc = (crc >> 8) ^ table[(crc ^ static_cast<std::uint32_t>(data[i])) & 0xff];
    }
    return ~crc;
}

}  // namespace flyring::detail
