// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

#include "flyring/detail/crc32c.hpp"
#include "flyring/detail/header.hpp"
#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/errors.hpp"
#include "flyring/table_options.hpp"

// The header page of a table's file: spec/table.md 2.1, checked as spec/channel.md 3.3 says.

namespace flyring::detail {

inline const char* key_type_name(KeyType type) noexcept {
    return type == KeyType::bytes ? "bytes" : type == KeyType::text ? "text" : "integer";
}

/// The fields of a header, copied from the file and checked.
struct TableHeader {
    Uuid table_id{};
    std::int64_t created_at = 0;
    KeyType key_type = KeyType::none;
    std::uint32_t key_bytes = 0;
    std::uint32_t value_bytes = 0;
    bool checked = false;
    std::uint64_t capacity = 0;
    std::uint64_t schema_length = 0;
    std::uint32_t schema_id = 0;
    std::uint32_t schema_version = 0;
    std::uint32_t value_template = 0;

    // What follows from these fields (spec/table.md 2).
    std::uint64_t body_offset() const noexcept {
        return round_up(layout::TABLE_CELL_KEY + key_bytes, layout::TABLE_BODY_ALIGNMENT);
    }
    std::uint64_t body_length() const noexcept {
        return round_up(layout::TABLE_BODY_VALUE + value_bytes, layout::TABLE_BODY_ALIGNMENT);
    }
    std::uint64_t cell_stride() const noexcept { return body_offset() + 2 * body_length(); }
    /// How many places for cells the section has: the smallest number of which `capacity` do not cross a boundary, a
    /// multiple of 1 GiB. The others are never used.
    std::uint64_t cells() const noexcept {
        const std::uint64_t stride = cell_stride();
        // Of the boundaries, each one with a number that is a multiple of this lies between two cells.
        const std::uint64_t aligned = stride / std::gcd(layout::TABLE_PIECE, stride);
        std::uint64_t cells = capacity;
        for (;;) {
            const std::uint64_t boundaries = (cells * stride - 1) / layout::TABLE_PIECE;
            const std::uint64_t enough = capacity + boundaries - boundaries / aligned;
            if (enough == cells) return cells;
            cells = enough;
        }
    }
    std::uint64_t entries() const noexcept {
        return std::max(round_up(capacity + capacity / 2, 8), layout::TABLE_MIN_ENTRIES);
    }
    std::uint64_t control_offset() const noexcept { return layout::HEADER_LENGTH; }
    std::uint64_t index_offset() const noexcept { return control_offset() + layout::TABLE_CONTROL_LENGTH; }
    std::uint64_t index_stride() const noexcept { return section(8 * entries()); }
    std::uint64_t cells_offset() const noexcept { return index_offset() + 2 * index_stride(); }
    std::uint64_t schema_offset() const noexcept { return section(cells_offset() + cells() * cell_stride()); }
    std::uint64_t file_length() const noexcept { return section(schema_offset() + schema_length); }

  private:
    static constexpr std::uint64_t section(std::uint64_t offset) noexcept {
        return round_up(offset, layout::SECTION_ALIGNMENT);
    }
};

/// Writes `header` to the `HEADER_LENGTH` zero bytes at `page`.
inline void write_header(std::byte* page, const TableHeader& header) noexcept {
    using namespace layout;
    put(page + TABLE_HEADER_MAGIC, TABLE_MAGIC);
    put(page + TABLE_HEADER_MAJOR, MAJOR);
    put(page + TABLE_HEADER_MINOR, MINOR);
    put(page + TABLE_HEADER_HEADER_LENGTH, static_cast<std::int32_t>(HEADER_LENGTH));
    put(page + TABLE_HEADER_FILE_LENGTH, header.file_length());
    std::copy(header.table_id.begin(), header.table_id.end(), page + TABLE_HEADER_TABLE_ID);
    put(page + TABLE_HEADER_CREATED_AT, header.created_at);
    put(page + TABLE_HEADER_KEY_TYPE, header.key_type);
    put(page + TABLE_HEADER_KEY_BYTES, header.key_bytes);
    put(page + TABLE_HEADER_VALUE_BYTES, header.value_bytes);
    put(page + TABLE_HEADER_CHECKED, std::int32_t{header.checked});
    put(page + TABLE_HEADER_CAPACITY, header.capacity);
    put(page + TABLE_HEADER_CELLS, header.cells());
    put(page + TABLE_HEADER_CELL_STRIDE, header.cell_stride());
    put(page + TABLE_HEADER_ENTRIES, header.entries());
    put(page + TABLE_HEADER_CONTROL_OFFSET, header.control_offset());
    put(page + TABLE_HEADER_INDEX_OFFSET, header.index_offset());
    put(page + TABLE_HEADER_INDEX_STRIDE, header.index_stride());
    put(page + TABLE_HEADER_CELLS_OFFSET, header.cells_offset());
    put(page + TABLE_HEADER_SCHEMA_OFFSET, header.schema_offset());
    put(page + TABLE_HEADER_SCHEMA_LENGTH, header.schema_length);
    put(page + TABLE_HEADER_SCHEMA_ID, header.schema_id);
    put(page + TABLE_HEADER_SCHEMA_VERSION, header.schema_version);
    put(page + TABLE_HEADER_VALUE_TEMPLATE, header.value_template);
    put(page + TABLE_HEADER_CRC, crc32c(page, HEADER_CRC_LENGTH));
}

/// Checks the header of a file of `file_size` bytes, whose first `size` bytes (at most a page) are at `page`. The order
/// is that of spec/channel.md 3.3; the first failure is the error.
class TableHeaderReader {
  public:
    TableHeaderReader(const std::byte* page, std::uint64_t size, std::uint64_t file_size, const std::string& path)
        : page_(page), size_(size), file_size_(file_size), path_(path) {}

    TableHeader read() const {
        using namespace layout;
        check_identity();
        if (size_ < HEADER_LENGTH) throw Truncated(path_, HEADER_LENGTH, file_size_);
        const auto file_length = field<std::int64_t>(TABLE_HEADER_FILE_LENGTH);
        if (file_length > 0 && static_cast<std::uint64_t>(file_length) > file_size_) {
            throw Truncated(path_, static_cast<std::uint64_t>(file_length), file_size_);
        }
        require(file_length > 0 && static_cast<std::uint64_t>(file_length) == file_size_, "file_length");
        if (crc32c(page_, HEADER_CRC_LENGTH) != field<std::uint32_t>(TABLE_HEADER_CRC)) {
            throw CorruptHeader(path_, "crc", "does not match the header's bytes");
        }
        return read_fields();
    }

  private:
    template <typename T>
    T field(std::uint64_t offset) const noexcept {
        return get<T>(page_ + offset);
    }
    template <typename T>
    bool readable(std::uint64_t offset) const noexcept {
        return offset + sizeof(T) <= size_;
    }
    void require(bool good, const char* name) const {
        if (!good) throw CorruptHeader(path_, name, "breaks the rule of spec/table.md 2.1");
    }
    template <typename T>
    std::uint64_t ranged(std::uint64_t offset, const char* name, T least, std::uint64_t most) const {
        const T value = field<T>(offset);
        require(value >= least && static_cast<std::uint64_t>(value) <= most, name);
        return static_cast<std::uint64_t>(value);
    }
    std::uint32_t small(std::uint64_t offset, const char* name, std::int32_t least, std::uint64_t most) const {
        return static_cast<std::uint32_t>(ranged<std::int32_t>(offset, name, least, most));
    }
    void exactly(std::uint64_t offset, const char* name, std::uint64_t expected) const {
        require(field<std::uint64_t>(offset) == expected, name);
    }

    void check_identity() const {
        using namespace layout;
        if (!readable<std::uint64_t>(TABLE_HEADER_MAGIC) || field<std::uint64_t>(TABLE_HEADER_MAGIC) != TABLE_MAGIC) {
            throw NotAChannel(path_, "it does not begin with the magic bytes of a table");
        }
        if (readable<std::uint16_t>(TABLE_HEADER_MAJOR)) {
            const auto major = field<std::uint16_t>(TABLE_HEADER_MAJOR);
            if (major > MAJOR) throw VersionTooNew(path_, "major", major, MAJOR);
            require(major == MAJOR, "major");
        }
        if (readable<std::uint64_t>(TABLE_HEADER_REQUIRED_FEATURES)) {
            const auto features = field<std::uint64_t>(TABLE_HEADER_REQUIRED_FEATURES);
            if (features != 0) throw VersionTooNew(path_, "required_features", features, 0);
        }
    }

    TableHeader read_fields() const {
        using namespace layout;
        TableHeader header;
        require(field<std::int32_t>(TABLE_HEADER_HEADER_LENGTH) == static_cast<std::int32_t>(HEADER_LENGTH),
                "header_length");
        std::copy_n(page_ + TABLE_HEADER_TABLE_ID, header.table_id.size(), header.table_id.begin());
        header.created_at = field<std::int64_t>(TABLE_HEADER_CREATED_AT);
        header.key_type = static_cast<KeyType>(small(TABLE_HEADER_KEY_TYPE, "key_type", 1, TABLE_KEY_TYPE_INTEGER));
        header.key_bytes = small(TABLE_HEADER_KEY_BYTES, "key_bytes", 1, TABLE_MAX_KEY_BYTES);
        require(header.key_type != KeyType::integer || header.key_bytes == TABLE_INTEGER_KEY_BYTES, "key_bytes");
        header.value_bytes = small(TABLE_HEADER_VALUE_BYTES, "value_bytes", 0, TABLE_MAX_VALUE_BYTES);
        header.checked = small(TABLE_HEADER_CHECKED, "checked", 0, 1) != 0;
        header.capacity = ranged<std::int64_t>(TABLE_HEADER_CAPACITY, "capacity", 1, TABLE_MAX_CAPACITY);
        exactly(TABLE_HEADER_CELLS, "cells", header.cells());
        exactly(TABLE_HEADER_CELL_STRIDE, "cell_stride", header.cell_stride());
        exactly(TABLE_HEADER_ENTRIES, "entries", header.entries());
        exactly(TABLE_HEADER_CONTROL_OFFSET, "control_offset", header.control_offset());
        exactly(TABLE_HEADER_INDEX_OFFSET, "index_offset", header.index_offset());
        exactly(TABLE_HEADER_INDEX_STRIDE, "index_stride", header.index_stride());
        exactly(TABLE_HEADER_CELLS_OFFSET, "cells_offset", header.cells_offset());
        exactly(TABLE_HEADER_SCHEMA_OFFSET, "schema_offset", header.schema_offset());
        header.schema_length = ranged<std::int64_t>(TABLE_HEADER_SCHEMA_LENGTH, "schema_length", 0, MAX_SCHEMA_LENGTH);
        header.schema_id = small(TABLE_HEADER_SCHEMA_ID, "schema_id", 0, 65535);
        header.schema_version = small(TABLE_HEADER_SCHEMA_VERSION, "schema_version", 0, 65535);
        header.value_template = small(TABLE_HEADER_VALUE_TEMPLATE, "value_template", 0, 65535);
        require(header.file_length() <= file_size_, "file_length");
        return header;
    }

    const std::byte* page_;
    std::uint64_t size_;
    std::uint64_t file_size_;
    const std::string& path_;
};

}  // namespace flyring::detail
