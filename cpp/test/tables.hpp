// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <flyring/table.hpp>
#include <map>
#include <string>

#include "support.hpp"

// What the tests of tables share.

namespace tables {

using namespace std::chrono_literals;

class TableTest : public support::ChannelTest {
  protected:
    std::string table_file(const std::string& name) const { return folder() + "/" + name + ".table"; }
};

inline flyring::TableOptions options(std::uint64_t capacity = 100, flyring::KeyType key = flyring::KeyType::text,
                                     std::uint32_t value_bytes = 48) {
    flyring::TableOptions made;
    made.capacity = capacity;
    made.key = key;
    made.value_bytes = value_bytes;
    return made;
}

/// Everything that a table holds.
template <typename Any>
std::map<std::string, std::string> content(const Any& table) {
    std::map<std::string, std::string> found;
    table.for_each([&](const flyring::TableItem& item) {
        EXPECT_TRUE(found.emplace(item.key, item.value).second) << "met twice: " << item.key;
    });
    return found;
}

/// The file of a table, mapped, for direct changes.
inline flyring::detail::TableFile raw(const std::string& name) {
    return flyring::detail::open_table(name, {});
}
/// The offset of a word of the control section.
inline std::uint64_t control(std::uint64_t word) {
    return flyring::layout::HEADER_LENGTH + word;
}
inline std::uint64_t cell_offset(const flyring::detail::TableFile& file, std::uint64_t cell) {
    return file.header.cells_offset() + cell * file.header.cell_stride();
}

/// A value of 8 to 48 bytes in which each word tells the same number, so that a torn one shows.
inline std::string numbered(std::uint64_t number) {
    std::string value((1 + number % 6) * sizeof number, '\0');
    for (std::size_t at = 0; at < value.size(); at += sizeof number) std::memcpy(&value[at], &number, sizeof number);
    return value;
}
/// The number of such a value; -1: it is torn.
inline std::int64_t number_of(const std::string& value) {
    std::uint64_t number = 0;
    if (value.size() < sizeof number) return -1;
    std::memcpy(&number, value.data(), sizeof number);
    return value == numbered(number) ? static_cast<std::int64_t>(number) : -1;
}

}  // namespace tables
