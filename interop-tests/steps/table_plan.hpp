// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <flyring/table.hpp>
#include <string>

#include "plan.hpp"

// What the tracer and the child agree on about tables. Keys are integers; the values are those of
// spec/golden/table_files.py, so that what a child stores can be compared with the files of the dead.

namespace steps {

inline constexpr std::uint64_t table_capacity = 12;
inline constexpr std::uint32_t table_value_bytes = 24;

inline std::string table_value(std::int64_t seed, std::size_t length = 20) {
    std::string value(length, '\0');
    for (std::size_t i = 0; i < length; ++i) value[i] = static_cast<char>(seed + 7 * static_cast<std::int64_t>(i));
    return value;
}

/// As fixed(), of a table.
inline flyring::detail::TableInEnvironment fixed_table(std::int32_t pid, std::byte boot = std::byte{0x22}) {
    flyring::detail::Environment environment = fixed(pid).environment;
    environment.channel_id = flyring::Uuid{std::byte{0x33}};
    environment.boot_id = flyring::Uuid{boot};
    return {environment};
}

/// The boot in which a table is recovered.
inline constexpr std::byte next_boot{0x23};

/// A word of the control section.
template <typename T>
T* table_word(std::byte* file, std::uint64_t word) {
    return reinterpret_cast<T*>(file + 4096 + word);
}

}  // namespace steps
