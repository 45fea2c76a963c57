// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "flyring/detail/crc32c.hpp"
#include "flyring/detail/journal_header.hpp"
#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"

// The records of a journal (spec/journal.md 3).

namespace flyring::detail {

/// Records start at multiples of this.
inline constexpr std::int64_t journal_unit = 64;
/// Length, type and time of a message.
inline constexpr std::int64_t journal_message_header = static_cast<std::int64_t>(layout::JOURNAL_RECORD_PAYLOAD);
/// A check or a cut.
inline constexpr std::int64_t journal_check_length = static_cast<std::int64_t>(layout::JOURNAL_CHECK_SIZE);

/// A record's length, rounded up.
constexpr std::int64_t journal_align(std::int64_t length) noexcept {
    return (length + journal_unit - 1) & ~(journal_unit - 1);
}

/// Whether a value from the file can be a position (spec/channel.md 9).
constexpr bool is_journal_position(std::int64_t position) noexcept {
    return position >= 0 && position < layout::MAX_POSITION && (position & (journal_unit - 1)) == 0;
}

/// Whether a value from the file can be a number of messages.
constexpr bool is_count(std::int64_t count) noexcept {
    return count >= 0 && count < layout::MAX_POSITION;
}

/// Length and type of a record.
struct RecordHead {
    std::int32_t length = 0;
    std::int32_t type = 0;

    std::int64_t size() const noexcept { return journal_align(length); }
    bool is_message() const noexcept { return type > 0; }
    /// Whether it is sound at this position: a known type, a valid length, and an end in the segment (3).
    bool is_sound(const JournalHeader& header, std::int64_t position) const noexcept {
        if (length < 8 || header.in_segment(position) + size() > header.size()) return false;
        if (type > 0) return length >= journal_message_header && size() <= header.longest();
        if (type == layout::TYPE_PADDING) return true;
        if (type != layout::JOURNAL_TYPE_CHECK && type != layout::JOURNAL_TYPE_CUT) return false;
        return length == static_cast<std::int32_t>(journal_check_length);
    }
};

inline RecordHead read_head(const std::byte* at) noexcept {
    return {get<std::int32_t>(at + layout::RECORD_LENGTH), get<std::int32_t>(at + layout::RECORD_TYPE)};
}

/// How many bytes of a record the CRC of its span covers: of padding only the first 8 (3.2).
inline std::int64_t bytes_in_span(const RecordHead& head) noexcept {
    return head.type == layout::TYPE_PADDING ? static_cast<std::int64_t>(layout::RECORD_HEADER_LENGTH) : head.size();
}

/// A check (3.2).
struct JournalCheck {
    std::int64_t position = 0;
    std::int64_t count = 0;  // messages before it
    std::int64_t time = 0;   // the largest of them
    std::uint32_t span_crc = 0;
};

/// Makes the bytes of a check, in memory that no other process reads.
inline void write_check(std::byte* bytes, const JournalCheck& check) noexcept {
    std::memset(bytes, 0, layout::JOURNAL_CHECK_SIZE);
    put(bytes + layout::JOURNAL_CHECK_LENGTH, static_cast<std::int32_t>(journal_check_length));
    put(bytes + layout::JOURNAL_CHECK_TYPE, layout::JOURNAL_TYPE_CHECK);
    put(bytes + layout::JOURNAL_CHECK_POSITION, check.position);
    put(bytes + layout::JOURNAL_CHECK_COUNT, check.count);
    put(bytes + layout::JOURNAL_CHECK_TIME, check.time);
    put(bytes + layout::JOURNAL_CHECK_SPAN_CRC, check.span_crc);
    put(bytes + layout::JOURNAL_CHECK_CRC, crc32c(bytes, layout::JOURNAL_CHECK_CRC));
}
/// Writes the bytes of a check behind its length. A reader may look at the type before there is a length.
inline void write_check_body(std::byte* to, const JournalCheck& check) noexcept {
    std::byte bytes[layout::JOURNAL_CHECK_SIZE];
    write_check(bytes, check);
    store_relaxed(word_at<std::int32_t>(to, layout::JOURNAL_CHECK_TYPE), layout::JOURNAL_TYPE_CHECK);
    std::memcpy(to + layout::JOURNAL_CHECK_POSITION, bytes + layout::JOURNAL_CHECK_POSITION,
                sizeof bytes - layout::JOURNAL_CHECK_POSITION);
}

/// The check at `position`, if its own CRC, type and position are right. Whether its span is, is not looked at.
inline std::optional<JournalCheck> read_check(const std::byte* at, std::int64_t position) noexcept {
    std::byte bytes[layout::JOURNAL_CHECK_SIZE];
    std::memcpy(bytes, at, sizeof bytes);  // once: another process may write there
    const RecordHead head = read_head(bytes);
    const JournalCheck check{get<std::int64_t>(bytes + layout::JOURNAL_CHECK_POSITION),
                             get<std::int64_t>(bytes + layout::JOURNAL_CHECK_COUNT),
                             get<std::int64_t>(bytes + layout::JOURNAL_CHECK_TIME),
                             get<std::uint32_t>(bytes + layout::JOURNAL_CHECK_SPAN_CRC)};
    if (head.type != layout::JOURNAL_TYPE_CHECK || head.length != static_cast<std::int32_t>(journal_check_length) ||
        check.position != position || !is_count(check.count) ||
        get<std::uint32_t>(bytes + layout::JOURNAL_CHECK_CRC) != crc32c(bytes, layout::JOURNAL_CHECK_CRC)) {
        return std::nullopt;
    }
    return check;
}

/// A cut (7.1).
struct JournalCut {
    std::int64_t position = 0;
    std::int64_t count = 0;    // messages before it
    std::int64_t next = 0;     // where reading goes on
    std::int64_t reached = 0;  // how far the records reached that were found and not proven
    std::int32_t reason = 0;
};

inline void write_cut(std::byte (&to)[layout::JOURNAL_CUT_SIZE], const JournalCut& cut) noexcept {
    std::memset(to, 0, sizeof to);
    put(to + layout::JOURNAL_CUT_LENGTH, static_cast<std::int32_t>(journal_check_length));
    put(to + layout::JOURNAL_CUT_TYPE, layout::JOURNAL_TYPE_CUT);
    put(to + layout::JOURNAL_CUT_POSITION, cut.position);
    put(to + layout::JOURNAL_CUT_COUNT, cut.count);
    put(to + layout::JOURNAL_CUT_NEXT, cut.next);
    put(to + layout::JOURNAL_CUT_REACHED, cut.reached);
    put(to + layout::JOURNAL_CUT_REASON, cut.reason);
    put(to + layout::JOURNAL_CUT_CRC, crc32c(to, layout::JOURNAL_CUT_CRC));
}

/// The cut at `position`, if it is right: its CRC, type and position, and a `next` that is a segment above it (10).
inline std::optional<JournalCut> read_cut(const std::byte* at, const JournalHeader& header,
                                          std::int64_t position) noexcept {
    std::byte bytes[layout::JOURNAL_CUT_SIZE];
    std::memcpy(bytes, at, sizeof bytes);
    const RecordHead head = read_head(bytes);
    const JournalCut cut{
        get<std::int64_t>(bytes + layout::JOURNAL_CUT_POSITION), get<std::int64_t>(bytes + layout::JOURNAL_CUT_COUNT),
        get<std::int64_t>(bytes + layout::JOURNAL_CUT_NEXT), get<std::int64_t>(bytes + layout::JOURNAL_CUT_REACHED),
        get<std::int32_t>(bytes + layout::JOURNAL_CUT_REASON)};
    if (head.type != layout::JOURNAL_TYPE_CUT || head.length != static_cast<std::int32_t>(journal_check_length) ||
        cut.position != position || !is_count(cut.count) || cut.next <= position || cut.next >= layout::MAX_POSITION ||
        header.in_segment(cut.next) != 0 ||
        get<std::uint32_t>(bytes + layout::JOURNAL_CUT_CRC) != crc32c(bytes, layout::JOURNAL_CUT_CRC)) {
        return std::nullopt;
    }
    return cut;
}

}  // namespace flyring::detail
