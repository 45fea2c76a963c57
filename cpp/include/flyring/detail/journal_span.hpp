// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "flyring/detail/journal_segment.hpp"

// Reading a journal cold (spec/journal.md 3.3): span by span, with pread into private memory. A bad sector is an error
// then, and no signal.

namespace flyring::detail {

/// What lies at the end of a span.
enum class SpanEnd {
    check,    // a check that is right: own crc, position, and the CRC of the span
    cut,      // a cut that is right
    nothing,  // all records are sound, and behind them nothing is here yet
    wrong,    // a record that is not sound, or a check or cut that is not right
    missing,  // the segment is missing, or the next one
};

/// The records from the end of one check up to and with the next. An object of this class reads one after the other.
class SpanReader {
  public:
    /// `strict`, for a resume and a recovery: bytes that cannot be read are an IoError. For a reader they are wrong.
    explicit SpanReader(const JournalFile& file, bool strict = false) noexcept : file_(&file), strict_(strict) {}

    /// Reads the span that begins at `start`. `limit`: bytes from there on are not read (a multiple of 64).
    SpanEnd read(std::int64_t start, std::int64_t limit = layout::MAX_POSITION) {
        const JournalHeader& header = file_->header;
        start_ = end_ = start;
        limit_ = limit;
        filled_ = 0;
        messages = 0;
        time = 0;
        crc = 0;
        std::int64_t summed = start;  // up to here the bytes are in `crc`
        const std::int64_t segment = header.segment_of(start);
        const std::int64_t longest = static_cast<std::int64_t>(layout::JOURNAL_CHECK_EVERY) + header.longest();
        const auto sum = [&](std::int64_t to) {
            if (to > summed) crc = crc32c(at(summed), static_cast<std::size_t>(to - summed), crc);
            summed = to;
        };
        while (end_ < segment + header.size()) {
            if (end_ >= limit_) {
                sum(end_);
                return SpanEnd::nothing;
            }
            if (!open(segment)) return SpanEnd::missing;
            if (!fill(end_ + journal_unit)) return SpanEnd::wrong;
            const RecordHead head = read_head(at(end_));
            if (head.length == 0) {
                sum(end_);
                return SpanEnd::nothing;
            }
            if (!head.is_sound(header, end_) || end_ - start > longest) return SpanEnd::wrong;
            if (head.type == layout::JOURNAL_TYPE_CHECK || head.type == layout::JOURNAL_TYPE_CUT) {
                sum(end_);
                return take_end();
            }
            if (end_ + head.size() > limit_) return SpanEnd::wrong;
            if (head.is_message()) {
                if (!fill(end_ + head.size())) return SpanEnd::wrong;
                ++messages;
                time = std::max(time, get<std::int64_t>(at(end_) + layout::JOURNAL_RECORD_TIME));
            } else {
                sum(end_);
                crc = crc32c(at(end_), layout::RECORD_HEADER_LENGTH, crc);
                summed = end_ + head.size();
            }
            end_ += head.size();
        }
        sum(std::max(summed, end_));
        // The check of this span is the first record of the next segment.
        if (end_ >= limit_) return SpanEnd::nothing;
        std::byte bytes[journal_check_length];
        if (!open(end_)) return SpanEnd::missing;
        if (!read_at(end_, bytes, sizeof bytes)) return SpanEnd::wrong;
        return read_head(bytes).length == 0 ? SpanEnd::nothing : take_end(bytes);
    }

    /// The bytes at a position of the span.
    const std::byte* at(std::int64_t position) const noexcept { return buffer_.get() + (position - start_); }
    RecordHead head_at(std::int64_t position) const noexcept { return read_head(at(position)); }
    std::int64_t start() const noexcept { return start_; }
    /// Where the records end: at the check or cut, or where nothing is here, or where it is wrong.
    std::int64_t records_end() const noexcept { return end_; }
    /// Where the next span begins, behind a check or cut.
    std::int64_t next() const noexcept { return cut_ ? cut_->next : end_ + journal_check_length; }
    /// What was found there; only of the kind that read() returned.
    const JournalCheck& check() const noexcept { return *check_; }
    const JournalCut& cut() const noexcept { return *cut_; }
    std::int64_t count() const noexcept { return cut_ ? cut_->count : check_->count; }

    /// Forgets the open file: it may have been replaced.
    void close() noexcept { fd_.reset(); }
    const JournalFile& file() const noexcept { return *file_; }

    std::int64_t messages = 0;  // in this span
    std::int64_t time = 0;      // the largest of them
    std::uint32_t crc = 0;      // of the records up to records_end, unless it is wrong

    /// Reads bytes of the segment that is open. False: they cannot be read.
    bool read_at(std::int64_t position, std::byte* to, std::size_t length) const {
        const auto offset = static_cast<std::int64_t>(layout::HEADER_LENGTH) + file_->header.in_segment(position);
        const ssize_t got = detail::read_at(fd_, to, length, offset);
        if (got < 0 && strict_) throw_errno("pread", file_->segment_path(file_->header.segment_of(position)));
        return got == static_cast<ssize_t>(length);
    }
    /// Opens the segment at `position`. False: it is missing.
    bool open(std::int64_t position) {
        if (fd_ && opened_ == position) return true;
        fd_ = open_segment(*file_, position);
        opened_ = position;
        return static_cast<bool>(fd_);
    }

  private:
    static constexpr std::int64_t chunk = 65536 + 4096;  // a usual span in one read

    SpanEnd take_end() { return take_end(at(end_)); }
    SpanEnd take_end(const std::byte* bytes) {
        cut_.reset();
        check_ = read_check(bytes, end_);
        if (check_) {
            // The check at a segment's start is of a span in the segment before, unless that was read.
            const bool first = end_ == start_ && file_->header.in_segment(end_) == 0;
            return first || check_->span_crc == crc ? SpanEnd::check : SpanEnd::wrong;
        }
        cut_ = read_cut(bytes, file_->header, end_);
        // A cut lies right behind a check, so no record is in front of it.
        return cut_ && end_ == start_ ? SpanEnd::cut : SpanEnd::wrong;
    }

    /// Reads on, until the buffer has all bytes before `position`.
    bool fill(std::int64_t position) {
        if (position - start_ <= filled_) return true;
        const JournalHeader& header = file_->header;
        const std::int64_t segment_end = header.segment_of(start_) + header.size();
        const std::int64_t from = start_ + filled_;
        const std::int64_t to = std::min({std::max(position, from + chunk), segment_end, std::max(limit_, position)});
        const std::int64_t needed = to - start_;
        if (needed > capacity_) {
            const std::int64_t larger = std::max(needed, 2 * capacity_);
            std::unique_ptr<std::byte[]> buffer(new std::byte[static_cast<std::size_t>(larger)]);
            if (filled_ != 0) std::memcpy(buffer.get(), buffer_.get(), static_cast<std::size_t>(filled_));
            buffer_ = std::move(buffer);
            capacity_ = larger;
        }
        if (!read_at(from, buffer_.get() + filled_, static_cast<std::size_t>(to - from))) return false;
        filled_ = needed;
        return true;
    }

    const JournalFile* file_;
    bool strict_;
    Fd fd_;
    std::int64_t opened_ = -1;
    std::unique_ptr<std::byte[]> buffer_;
    std::int64_t capacity_ = 0;
    std::int64_t filled_ = 0;
    std::int64_t start_ = 0;
    std::int64_t end_ = 0;
    std::int64_t limit_ = 0;
    std::optional<JournalCheck> check_;
    std::optional<JournalCut> cut_;
};

/// A place where reading can go on, found by its own crc.
struct JournalPlace {
    std::int64_t position = 0;  // of the check or cut
    std::int64_t next = 0;      // where the span behind it begins
    std::int64_t count = 0;     // messages before it
};

/// The first check or cut at or behind `from`, and below `limit`, that is right by its own crc: at each multiple of 64
/// of the segment, and at the start of each later one (3.3, damaged).
inline std::optional<JournalPlace> find_right_check(const JournalFile& file, std::int64_t from, std::int64_t limit) {
    const JournalHeader& header = file.header;
    const auto look = [&](const std::byte* at, std::int64_t position) -> std::optional<JournalPlace> {
        const RecordHead head = read_head(at);
        if (head.type == layout::JOURNAL_TYPE_CHECK) {
            if (const auto check = read_check(at, position)) {
                return JournalPlace{position, position + journal_check_length, check->count};
            }
        } else if (head.type == layout::JOURNAL_TYPE_CUT) {
            if (const auto cut = read_cut(at, header, position)) return JournalPlace{position, cut->next, cut->count};
        }
        return std::nullopt;
    };
    SpanReader reader(file);
    const std::int64_t segment = header.segment_of(from);
    if (reader.open(segment)) {
        constexpr std::size_t piece = 65536;
        const std::unique_ptr<std::byte[]> bytes(new std::byte[piece]);
        for (std::int64_t at = from; at < std::min(segment + header.size(), limit);) {
            const auto length = std::min<std::size_t>(piece, static_cast<std::size_t>(segment + header.size() - at));
            if (!reader.read_at(at, bytes.get(), length)) {
                // A bad sector: look at the next page.
                at = (at / 4096 + 1) * 4096;
                continue;
            }
            for (std::size_t i = 0; i < length; i += static_cast<std::size_t>(journal_unit)) {
                const std::int64_t position = at + static_cast<std::int64_t>(i);
                if (position >= limit) break;
                if (auto found = look(bytes.get() + i, position)) return found;
            }
            at += static_cast<std::int64_t>(length);
        }
    }
    for (const std::int64_t later : list_segments(file)) {
        if (later <= segment || later >= limit) continue;
        std::byte bytes[journal_check_length];
        if (!reader.open(later) || !reader.read_at(later, bytes, sizeof bytes)) continue;
        if (auto found = look(bytes, later)) return found;
    }
    return std::nullopt;
}

/// A check or a cut that is right by its own crc: what it says about the messages before it.
struct Landmark {
    std::int64_t count = 0;
    std::optional<std::int64_t> time;  // empty: it is a cut, which does not say
    std::int64_t next = 0;             // where reading goes on
};
/// The one at a position; empty if there is none.
inline std::optional<Landmark> landmark_at(SpanReader& reader, std::int64_t position) {
    const JournalHeader& header = reader.file().header;
    std::byte bytes[journal_check_length];
    if (!reader.open(header.segment_of(position)) || !reader.read_at(position, bytes, sizeof bytes)) {
        return std::nullopt;
    }
    if (const auto check = read_check(bytes, position)) {
        return Landmark{check->count, check->time, position + journal_check_length};
    }
    if (const auto cut = read_cut(bytes, header, position)) return Landmark{cut->count, std::nullopt, cut->next};
    return std::nullopt;
}

}  // namespace flyring::detail
