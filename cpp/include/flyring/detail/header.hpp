// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "flyring/detail/crc32c.hpp"
#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/errors.hpp"
#include "flyring/options.hpp"

// The header page of a channel file: spec/channel.md 3.3, 4.1 and 4.2.

namespace flyring::detail {

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
    return (value + unit - 1) / unit * unit;
}

inline const char* kind_name(Kind kind) noexcept {
    switch (kind) {
        case Kind::inbox:
            return "inbox";
        case Kind::broadcast:
            return "broadcast";
        case Kind::queue:
            return "queue";
        case Kind::service:
            return "service";
        case Kind::none:
            break;
    }
    return "none";
}

/// The fields of a header, copied from the file and checked.
struct Header {
    Uuid channel_id{};
    std::int64_t created_at = 0;
    Kind kind = Kind::none;
    std::uint32_t alignment = 0;
    std::uint32_t capacity = 0;
    std::uint32_t publishers = 0;
    std::uint32_t subscribers = 0;
    Foreign foreign = Foreign::none;
    std::uint32_t counters = 0;
    std::uint32_t schema_id = 0;
    std::uint32_t schema_version = 0;
    std::uint64_t schema_length = 0;
    Delivery delivery = Delivery::at_most_once;  // only for a service
    std::uint32_t max_outstanding = 0;           // only for a service

    /// Whether a foreign process can be at one end: the ring must be one Agrona ring buffer (6.15).
    bool may_be_foreign() const noexcept {
        return kind == Kind::inbox && alignment == 8 && publishers == 1 && subscribers == 1;
    }

    /// The publisher slots, and rings, that publishers may take: all, except a queue's last one, its returns ring.
    std::uint32_t producers() const noexcept { return kind == Kind::queue ? publishers - 1 : publishers; }
    /// Only for a queue: its worker slots, which follow slot 0.
    std::uint32_t workers() const noexcept { return kind == Kind::queue ? subscribers - 1 : 0; }

    /// Only for a service: its clients (spec/service.md 1).
    std::uint32_t clients() const noexcept { return kind == Kind::service ? publishers / 2 : 0; }

    // Offsets and lengths of the sections (4.1); they follow from the dimensions.
    std::uint64_t control_offset() const noexcept { return layout::HEADER_LENGTH; }
    std::uint64_t control_length() const noexcept {
        return section(layout::CONTROL_SLOTS + layout::CONTROL_SLOT_LENGTH * (std::uint64_t{publishers} + subscribers));
    }
    std::uint64_t counter_metadata_offset() const noexcept { return control_offset() + control_length(); }
    std::uint64_t counter_metadata_length() const noexcept { return layout::COUNTER_METADATA_STRIDE * counters; }
    std::uint64_t counter_values_offset() const noexcept {
        return section(counter_metadata_offset() + counter_metadata_length());
    }
    std::uint64_t counter_values_length() const noexcept { return layout::COUNTER_VALUE_STRIDE * counters; }
    std::uint64_t rings_offset() const noexcept { return section(counter_values_offset() + counter_values_length()); }
    std::uint64_t ring_stride() const noexcept {
        // In a service, each ring has one gate.
        const std::uint64_t more_gates = subscribers > 1 && kind != Kind::service ? subscribers - 1 : 0;
        return capacity + section(layout::TRAILER_LENGTH + layout::TRAILER_GATE_STRIDE * more_gates);
    }
    std::uint64_t schema_offset() const noexcept { return rings_offset() + publishers * ring_stride(); }
    std::uint64_t file_length() const noexcept { return section(schema_offset() + schema_length); }

  private:
    static constexpr std::uint64_t section(std::uint64_t offset) noexcept {
        return round_up(offset, layout::SECTION_ALIGNMENT);
    }
};

/// Writes `header` to the `HEADER_LENGTH` zero bytes at `page`.
inline void write_header(std::byte* page, const Header& header) noexcept {
    using namespace layout;
    put(page + HEADER_MAGIC, MAGIC);
    put(page + HEADER_MAJOR, MAJOR);
    put(page + HEADER_MINOR, MINOR);
    put(page + HEADER_HEADER_LENGTH, static_cast<std::int32_t>(HEADER_LENGTH));
    put(page + HEADER_REQUIRED_FEATURES, header.foreign);
    put(page + HEADER_FILE_LENGTH, header.file_length());
    std::copy(header.channel_id.begin(), header.channel_id.end(), page + HEADER_CHANNEL_ID);
    put(page + HEADER_CREATED_AT, header.created_at);
    put(page + HEADER_KIND, header.kind);
    put(page + HEADER_ALIGNMENT, header.alignment);
    put(page + HEADER_CAPACITY, header.capacity);
    put(page + HEADER_PUBLISHERS, header.publishers);
    put(page + HEADER_SUBSCRIBERS, header.subscribers);
    put(page + HEADER_COUNTERS, header.counters);
    put(page + HEADER_CONTROL_OFFSET, header.control_offset());
    put(page + HEADER_CONTROL_LENGTH, header.control_length());
    put(page + HEADER_COUNTER_METADATA_OFFSET, header.counter_metadata_offset());
    put(page + HEADER_COUNTER_METADATA_LENGTH, header.counter_metadata_length());
    put(page + HEADER_COUNTER_VALUES_OFFSET, header.counter_values_offset());
    put(page + HEADER_COUNTER_VALUES_LENGTH, header.counter_values_length());
    put(page + HEADER_RINGS_OFFSET, header.rings_offset());
    put(page + HEADER_RING_STRIDE, header.ring_stride());
    put(page + HEADER_SCHEMA_OFFSET, header.schema_offset());
    put(page + HEADER_SCHEMA_LENGTH, header.schema_length);
    put(page + HEADER_SCHEMA_ID, header.schema_id);
    put(page + HEADER_SCHEMA_VERSION, header.schema_version);
    put(page + HEADER_DELIVERY, header.delivery);
    put(page + HEADER_MAX_OUTSTANDING, header.max_outstanding);
    put(page + HEADER_CRC, crc32c(page, HEADER_CRC_LENGTH));
}

/// Checks the header of a file of `file_size` bytes, whose first `size` bytes (at most a page) are at `page`. The order
/// is that of 3.3; the first failure is the error.
class HeaderReader {
  public:
    HeaderReader(const std::byte* page, std::uint64_t size, std::uint64_t file_size, const std::string& path)
        : page_(page), size_(size), file_size_(file_size), path_(path) {}

    Header read() const {
        using namespace layout;
        check_identity();
        if (size_ < HEADER_LENGTH) throw Truncated(path_, HEADER_LENGTH, file_size_);
        const auto file_length = field<std::int64_t>(HEADER_FILE_LENGTH);
        if (file_length > 0 && static_cast<std::uint64_t>(file_length) > file_size_) {
            throw Truncated(path_, static_cast<std::uint64_t>(file_length), file_size_);
        }
        require(file_length > 0 && static_cast<std::uint64_t>(file_length) == file_size_, "file_length");
        if (crc32c(page_, HEADER_CRC_LENGTH) != field<std::uint32_t>(HEADER_CRC)) {
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

    [[noreturn]] void corrupt(const char* name) const {
        throw CorruptHeader(path_, name, "breaks the rule of spec/channel.md 3.3");
    }

    void require(bool good, const char* name) const {
        if (!good) corrupt(name);
    }

    std::uint32_t ranged(std::uint64_t offset, const char* name, std::int32_t least, std::uint64_t most) const {
        const auto value = field<std::int32_t>(offset);
        require(value >= least && static_cast<std::uint64_t>(value) <= most, name);
        return static_cast<std::uint32_t>(value);
    }

    void exactly(std::uint64_t offset, const char* name, std::uint64_t expected) const {
        require(field<std::uint64_t>(offset) == expected, name);
    }

    /// Checks 1, 3 and 4 of 3.3, as far as the file reaches.
    void check_identity() const {
        using namespace layout;
        if (!readable<std::uint64_t>(HEADER_MAGIC) || field<std::uint64_t>(HEADER_MAGIC) != MAGIC) {
            throw NotAChannel(path_, "it does not begin with the magic bytes");
        }
        if (readable<std::uint16_t>(HEADER_MAJOR)) {
            const auto major = field<std::uint16_t>(HEADER_MAJOR);
            if (major > MAJOR) throw VersionTooNew(path_, "major", major, MAJOR);
            require(major == MAJOR, "major");
        }
        if (readable<std::uint64_t>(HEADER_REQUIRED_FEATURES)) {
            const auto features = field<std::uint64_t>(HEADER_REQUIRED_FEATURES);
            if ((features & ~SUPPORTED_REQUIRED_FEATURES) != 0) {
                throw VersionTooNew(path_, "required_features", features, SUPPORTED_REQUIRED_FEATURES);
            }
        }
    }

    /// Checks 8 and 9 of 3.3, and returns the fields.
    Header read_fields() const {
        using namespace layout;
        Header header;
        require(field<std::int32_t>(HEADER_HEADER_LENGTH) == static_cast<std::int32_t>(HEADER_LENGTH), "header_length");
        header.foreign = static_cast<Foreign>(field<std::uint64_t>(HEADER_REQUIRED_FEATURES));
        require(field<std::uint64_t>(HEADER_REQUIRED_FEATURES) != SUPPORTED_REQUIRED_FEATURES,
                "required_features");  // at most one of the two bits; check 4 has refused other bits
        std::copy_n(page_ + HEADER_CHANNEL_ID, header.channel_id.size(), header.channel_id.begin());
        header.created_at = field<std::int64_t>(HEADER_CREATED_AT);
        header.kind = static_cast<Kind>(ranged(HEADER_KIND, "kind", KIND_INBOX, KIND_SERVICE));
        header.alignment = field<std::uint32_t>(HEADER_ALIGNMENT);
        require(header.alignment == 8 || header.alignment == 64, "alignment");
        header.capacity = ranged(HEADER_CAPACITY, "capacity", MIN_CAPACITY, MAX_CAPACITY);
        require((header.capacity & (header.capacity - 1)) == 0, "capacity");
        const bool queue = header.kind == Kind::queue;
        const bool service = header.kind == Kind::service;
        const std::int32_t least = queue ? static_cast<std::int32_t>(MIN_QUEUE_SLOTS) : 0;
        header.publishers = ranged(HEADER_PUBLISHERS, "publishers", queue ? least : 1, MAX_PUBLISHERS);
        require(!service || header.publishers % 2 == 0, "publishers");
        header.subscribers = ranged(HEADER_SUBSCRIBERS, "subscribers", least, MAX_SUBSCRIBERS);
        require(header.kind != Kind::inbox || header.subscribers == INBOX_SUBSCRIBERS, "subscribers");
        require(!service || header.subscribers == header.publishers / 2 + 1, "subscribers");
        header.counters = ranged(HEADER_COUNTERS, "counters", 0, MAX_COUNTERS);
        exactly(HEADER_CONTROL_OFFSET, "control_offset", header.control_offset());
        exactly(HEADER_CONTROL_LENGTH, "control_length", header.control_length());
        exactly(HEADER_COUNTER_METADATA_OFFSET, "counter_metadata_offset", header.counter_metadata_offset());
        exactly(HEADER_COUNTER_METADATA_LENGTH, "counter_metadata_length", header.counter_metadata_length());
        exactly(HEADER_COUNTER_VALUES_OFFSET, "counter_values_offset", header.counter_values_offset());
        exactly(HEADER_COUNTER_VALUES_LENGTH, "counter_values_length", header.counter_values_length());
        exactly(HEADER_RINGS_OFFSET, "rings_offset", header.rings_offset());
        exactly(HEADER_RING_STRIDE, "ring_stride", header.ring_stride());
        exactly(HEADER_SCHEMA_OFFSET, "schema_offset", header.schema_offset());
        header.schema_length = field<std::uint64_t>(HEADER_SCHEMA_LENGTH);
        require(header.schema_length <= MAX_SCHEMA_LENGTH, "schema_length");
        header.schema_id = ranged(HEADER_SCHEMA_ID, "schema_id", 0, 65535);
        header.schema_version = ranged(HEADER_SCHEMA_VERSION, "schema_version", 0, 65535);
        if (service) {
            header.delivery = static_cast<Delivery>(ranged(HEADER_DELIVERY, "delivery", 0, DELIVERY_AT_LEAST_ONCE));
            header.max_outstanding = ranged(HEADER_MAX_OUTSTANDING, "max_outstanding", 1, HIGHEST_MAX_OUTSTANDING);
        }
        require(header.foreign == Foreign::none || header.may_be_foreign(), "required_features");  // after all fields
        require(header.file_length() <= file_size_, "file_length");
        return header;
    }

    const std::byte* page_;
    std::uint64_t size_;
    std::uint64_t file_size_;
    const std::string& path_;
};

}  // namespace flyring::detail
