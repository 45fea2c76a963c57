// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "flyring/detail/crc32c.hpp"
#include "flyring/detail/header.hpp"
#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/errors.hpp"
#include "flyring/journal_options.hpp"

// The header pages of a journal's control file and of its segments: spec/journal.md 2.1 and 2.3, checked as
// spec/channel.md 3.3 says.

namespace flyring::detail {

/// The fields of the control file's header, copied from the file and checked.
struct JournalHeader {
    Uuid journal_id{};
    std::int64_t created_at = 0;
    JournalContent content = JournalContent::messages;
    std::uint32_t consumers = 0;
    std::uint64_t segment_size = 0;
    std::uint64_t schema_length = 0;
    std::uint32_t schema_id = 0;
    std::uint32_t schema_version = 0;

    // What follows from these fields (spec/journal.md 2.1).
    std::uint64_t control_offset() const noexcept { return layout::HEADER_LENGTH; }
    std::uint64_t control_length() const noexcept {
        return round_up(layout::JOURNAL_CONTROL_CONSUMERS + layout::JOURNAL_CONSUMER_SIZE * consumers,
                        layout::SECTION_ALIGNMENT);
    }
    std::uint64_t schema_offset() const noexcept { return control_offset() + control_length(); }
    std::uint64_t file_length() const noexcept {
        return round_up(schema_offset() + schema_length, layout::SECTION_ALIGNMENT);
    }

    // Positions.
    std::int64_t size() const noexcept { return static_cast<std::int64_t>(segment_size); }
    /// The segment in which a position lies. `position` must not be negative.
    std::int64_t segment_of(std::int64_t position) const noexcept { return position & ~(size() - 1); }
    std::int64_t in_segment(std::int64_t position) const noexcept { return position & (size() - 1); }
    /// The longest record of a message, and of a batch.
    std::int64_t longest() const noexcept { return size() / static_cast<std::int64_t>(layout::MAX_MESSAGE_DIVISOR); }
    std::uint64_t segment_file_length() const noexcept { return layout::HEADER_LENGTH + segment_size; }
};

/// Writes `header` to the `HEADER_LENGTH` zero bytes at `page`.
inline void write_header(std::byte* page, const JournalHeader& header) noexcept {
    using namespace layout;
    put(page + JOURNAL_HEADER_MAGIC, JOURNAL_MAGIC);
    put(page + JOURNAL_HEADER_MAJOR, MAJOR);
    put(page + JOURNAL_HEADER_MINOR, MINOR);
    put(page + JOURNAL_HEADER_HEADER_LENGTH, static_cast<std::int32_t>(HEADER_LENGTH));
    put(page + JOURNAL_HEADER_FILE_LENGTH, header.file_length());
    std::copy(header.journal_id.begin(), header.journal_id.end(), page + JOURNAL_HEADER_JOURNAL_ID);
    put(page + JOURNAL_HEADER_CREATED_AT, header.created_at);
    put(page + JOURNAL_HEADER_CONTENT, static_cast<std::int32_t>(header.content));
    put(page + JOURNAL_HEADER_CONSUMERS, header.consumers);
    put(page + JOURNAL_HEADER_SEGMENT_SIZE, header.segment_size);
    put(page + JOURNAL_HEADER_CONTROL_OFFSET, header.control_offset());
    put(page + JOURNAL_HEADER_CONTROL_LENGTH, header.control_length());
    put(page + JOURNAL_HEADER_SCHEMA_OFFSET, header.schema_offset());
    put(page + JOURNAL_HEADER_SCHEMA_LENGTH, header.schema_length);
    put(page + JOURNAL_HEADER_SCHEMA_ID, header.schema_id);
    put(page + JOURNAL_HEADER_SCHEMA_VERSION, header.schema_version);
    put(page + JOURNAL_HEADER_CRC, crc32c(page, HEADER_CRC_LENGTH));
}

/// Checks the header of a control file of `file_size` bytes, whose first `size` bytes (at most a page) are at `page`.
/// The order is that of spec/channel.md 3.3; the first failure is the error.
class JournalHeaderReader {
  public:
    JournalHeaderReader(const std::byte* page, std::uint64_t size, std::uint64_t file_size, const std::string& path)
        : page_(page), size_(size), file_size_(file_size), path_(path) {}

    JournalHeader read() const {
        using namespace layout;
        check_identity();
        if (size_ < HEADER_LENGTH) throw Truncated(path_, HEADER_LENGTH, file_size_);
        const auto file_length = field<std::int64_t>(JOURNAL_HEADER_FILE_LENGTH);
        if (file_length > 0 && static_cast<std::uint64_t>(file_length) > file_size_) {
            throw Truncated(path_, static_cast<std::uint64_t>(file_length), file_size_);
        }
        require(file_length > 0 && static_cast<std::uint64_t>(file_length) == file_size_, "file_length");
        if (crc32c(page_, HEADER_CRC_LENGTH) != field<std::uint32_t>(JOURNAL_HEADER_CRC)) {
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
        if (!good) throw CorruptHeader(path_, name, "breaks the rule of spec/journal.md 2.1");
    }
    template <typename T>
    std::uint64_t ranged(std::uint64_t offset, const char* name, T least, std::uint64_t most) const {
        const T value = field<T>(offset);
        require(value >= least && static_cast<std::uint64_t>(value) <= most, name);
        return static_cast<std::uint64_t>(value);
    }
    std::uint32_t small(std::uint64_t offset, const char* name, std::uint64_t most) const {
        return static_cast<std::uint32_t>(ranged<std::int32_t>(offset, name, 0, most));
    }
    void exactly(std::uint64_t offset, const char* name, std::uint64_t expected) const {
        require(field<std::uint64_t>(offset) == expected, name);
    }

    void check_identity() const {
        using namespace layout;
        if (!readable<std::uint64_t>(JOURNAL_HEADER_MAGIC) ||
            field<std::uint64_t>(JOURNAL_HEADER_MAGIC) != JOURNAL_MAGIC) {
            throw NotAChannel(path_, "its control file does not begin with the magic bytes of a journal");
        }
        if (readable<std::uint16_t>(JOURNAL_HEADER_MAJOR)) {
            const auto major = field<std::uint16_t>(JOURNAL_HEADER_MAJOR);
            if (major > MAJOR) throw VersionTooNew(path_, "major", major, MAJOR);
            require(major == MAJOR, "major");
        }
        if (readable<std::uint64_t>(JOURNAL_HEADER_REQUIRED_FEATURES)) {
            const auto features = field<std::uint64_t>(JOURNAL_HEADER_REQUIRED_FEATURES);
            if (features != 0) throw VersionTooNew(path_, "required_features", features, 0);
        }
    }

    JournalHeader read_fields() const {
        using namespace layout;
        JournalHeader header;
        require(field<std::int32_t>(JOURNAL_HEADER_HEADER_LENGTH) == static_cast<std::int32_t>(HEADER_LENGTH),
                "header_length");
        std::copy_n(page_ + JOURNAL_HEADER_JOURNAL_ID, header.journal_id.size(), header.journal_id.begin());
        header.created_at = field<std::int64_t>(JOURNAL_HEADER_CREATED_AT);
        header.content =
            static_cast<JournalContent>(small(JOURNAL_HEADER_CONTENT, "content", JOURNAL_CONTENT_RECORDING));
        header.consumers = small(JOURNAL_HEADER_CONSUMERS, "consumers", JOURNAL_MAX_CONSUMERS);
        header.segment_size =
            ranged<std::int64_t>(JOURNAL_HEADER_SEGMENT_SIZE, "segment_size",
                                 static_cast<std::int64_t>(JOURNAL_MIN_SEGMENT_SIZE), JOURNAL_MAX_SEGMENT_SIZE);
        require((header.segment_size & (header.segment_size - 1)) == 0, "segment_size");
        exactly(JOURNAL_HEADER_CONTROL_OFFSET, "control_offset", header.control_offset());
        exactly(JOURNAL_HEADER_CONTROL_LENGTH, "control_length", header.control_length());
        exactly(JOURNAL_HEADER_SCHEMA_OFFSET, "schema_offset", header.schema_offset());
        header.schema_length =
            ranged<std::int64_t>(JOURNAL_HEADER_SCHEMA_LENGTH, "schema_length", 0, MAX_SCHEMA_LENGTH);
        header.schema_id = small(JOURNAL_HEADER_SCHEMA_ID, "schema_id", 65535);
        header.schema_version = small(JOURNAL_HEADER_SCHEMA_VERSION, "schema_version", 65535);
        require(header.file_length() <= file_size_, "file_length");
        return header;
    }

    const std::byte* page_;
    std::uint64_t size_;
    std::uint64_t file_size_;
    const std::string& path_;
};

// Segments (2.3).

/// The file name of the segment at `position`.
inline std::string segment_name(std::int64_t position) {
    char name[32];
    std::snprintf(name, sizeof name, "%019lld.seg", static_cast<long long>(position));
    return name;
}

/// The position in a segment's file name; empty if the name is none.
inline std::optional<std::int64_t> position_in_name(std::string_view name) noexcept {
    constexpr std::size_t digits = 19;
    if (name.size() != digits + 4 || name.substr(digits) != ".seg") return std::nullopt;
    std::int64_t position = 0;
    for (const char letter : name.substr(0, digits)) {
        if (letter < '0' || letter > '9') return std::nullopt;
        if (__builtin_mul_overflow(position, std::int64_t{10}, &position) ||
            __builtin_add_overflow(position, std::int64_t{letter - '0'}, &position)) {
            return std::nullopt;
        }
    }
    return position;
}

/// Writes a segment's header to the `HEADER_LENGTH` zero bytes at `page`.
inline void write_segment_header(std::byte* page, const JournalHeader& header, std::int64_t position,
                                 std::int64_t created_at) noexcept {
    using namespace layout;
    put(page + JOURNAL_SEGMENT_MAGIC, JOURNAL_SEGMENT_MAGIC_WORD);
    put(page + JOURNAL_SEGMENT_MAJOR, MAJOR);
    put(page + JOURNAL_SEGMENT_MINOR, MINOR);
    put(page + JOURNAL_SEGMENT_HEADER_LENGTH, static_cast<std::int32_t>(HEADER_LENGTH));
    std::copy(header.journal_id.begin(), header.journal_id.end(), page + JOURNAL_SEGMENT_JOURNAL_ID);
    put(page + JOURNAL_SEGMENT_POSITION, position);
    put(page + JOURNAL_SEGMENT_SIZE, header.size());
    put(page + JOURNAL_SEGMENT_CREATED_AT, created_at);
    put(page + JOURNAL_SEGMENT_CRC, crc32c(page, HEADER_CRC_LENGTH));
}

/// Whether a page is the header of this journal's segment at `position`.
inline bool is_segment_header(const std::byte* page, const JournalHeader& header, std::int64_t position) noexcept {
    using namespace layout;
    return get<std::uint64_t>(page + JOURNAL_SEGMENT_MAGIC) == JOURNAL_SEGMENT_MAGIC_WORD &&
           get<std::uint16_t>(page + JOURNAL_SEGMENT_MAJOR) == MAJOR &&
           get<std::int32_t>(page + JOURNAL_SEGMENT_HEADER_LENGTH) == static_cast<std::int32_t>(HEADER_LENGTH) &&
           std::equal(header.journal_id.begin(), header.journal_id.end(), page + JOURNAL_SEGMENT_JOURNAL_ID) &&
           get<std::int64_t>(page + JOURNAL_SEGMENT_POSITION) == position &&
           get<std::int64_t>(page + JOURNAL_SEGMENT_SIZE) == header.size() &&
           get<std::uint32_t>(page + JOURNAL_SEGMENT_CRC) == crc32c(page, HEADER_CRC_LENGTH);
}

}  // namespace flyring::detail
