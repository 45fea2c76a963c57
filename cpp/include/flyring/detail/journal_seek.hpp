// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "flyring/detail/journal_span.hpp"
#include "flyring/errors.hpp"
#include "flyring/journal_options.hpp"

// Where a reader begins (spec/journal.md 3.3): a position is walked to, never believed.

namespace flyring::detail {

/// A place in a journal, and what a reader must know of it.
struct JournalCursor {
    std::int64_t position = 0;
    std::int64_t number = 0;      // messages before it
    std::int64_t span = 0;        // where its span begins, and ...
    std::int64_t span_count = 0;  // ... how many messages lie before that
    std::int64_t lost = 0;        // messages that the walk had to leave out
};

/// How far a reader may read, from words that are believed: `published`, or `synced` where `published` does not count.
/// A `published` that cannot be is taken for the end of the last whole segment (10).
inline std::int64_t end_of_reading(const JournalFile& file, bool durable) {
    const JournalHeader& header = file.header;
    if (durable || !file.is_of_this_boot()) {
        const std::int64_t synced = load_acquire(file.synced());  // pairs with sync 4
        if (!is_journal_position(synced)) {
            file.corrupt(synced, "synced is no position");
        }
        return synced;
    }
    const std::int64_t published = load_acquire(file.published());  // pairs with append 6
    if (is_journal_position(published)) return published;
    const std::optional<std::int64_t> last = segment_below(file, layout::MAX_POSITION);
    return last ? *last + header.size() : 0;
}

/// The end of what is committed. Records may lie above `published` for a moment, or until there is another writer (3.1,
/// 5 and 6), and a tail hands them out: so a start that a reader has from a message may lie there (3.3).
inline std::int64_t end_of_committed(const JournalFile& file, bool durable) {
    const std::int64_t published = end_of_reading(file, durable);
    if (durable || !file.is_of_this_boot()) return published;
    const std::int64_t segment = file.header.segment_of(published);
    const Fd fd = open_segment(file, segment);
    if (!fd) return published;
    const Mapping mapping = map_segment(file, fd, segment, Access::read);
    std::int64_t end = published;
    while (end < segment + file.header.size()) {
        std::byte* at = mapping.data() + layout::HEADER_LENGTH + file.header.in_segment(end);
        const RecordHead head{load_acquire(word_at<std::int32_t>(at, layout::RECORD_LENGTH)),  // pairs with append 5
                              load_relaxed(word_at<std::int32_t>(at, layout::RECORD_TYPE))};
        if (!head.is_sound(file.header, end)) break;
        end += head.size();
    }
    return end;
}

/// Up to where spans may be read: all of `published`, or to the end of the check at `synced`. In another boot no word
/// says it, and the CRCs must.
inline std::int64_t end_of_spans(const JournalFile& file, bool durable) {
    if (durable) return end_of_reading(file, true) + journal_check_length;
    return file.is_of_this_boot() ? end_of_reading(file, false) : layout::MAX_POSITION;
}

/// The first position that the journal holds.
inline std::int64_t beginning(const JournalFile& file) {
    const std::int64_t trimmed = load_acquire(file.trimmed());  // pairs with trim 4
    if (!is_journal_position(trimmed) || file.header.in_segment(trimmed) != 0) {
        file.corrupt(trimmed, "trimmed is no segment's position");
    }
    return trimmed;
}

/// Walks to places of a journal.
class JournalSeek {
  public:
    /// `skip`: goes on behind what is damaged.
    JournalSeek(const JournalFile& file, bool durable, bool skip)
        : file_(file), reader_(file), durable_(durable), skip_(skip) {}

    JournalCursor to(const JournalStart& start) {
        switch (start.kind()) {
            case JournalStart::Kind::oldest:
                return oldest();
            case JournalStart::Kind::newest:
                return newest();
            case JournalStart::Kind::position:
                return position(start.value());
            case JournalStart::Kind::number:
                return number(start.value());
            case JournalStart::Kind::time:
                break;
        }
        return time(start.value());
    }

    /// At `trimmed`. It may be trimmed meanwhile, so this looks more than once.
    JournalCursor oldest() {
        for (int tries = 0; tries < 1000; ++tries) {
            const std::int64_t trimmed = beginning(file_);
            if (const auto first = landmark_at(reader_, trimmed)) {
                return {trimmed, first->count, trimmed, first->count, 0};
            }
            if (beginning(file_) == trimmed) {
                reader_.close();
                // In another boot no check behind the one at `synced` counts.
                const std::int64_t end = std::min(end_of_bytes(), limit() + journal_check_length);
                const auto place = find_right_check(file_, trimmed, end);
                if (!skip_ || !place) throw_damaged(trimmed, place);
                return behind(place->next, place->count, 0);
            }
        }
        file_.corrupt(beginning(file_), "trimmed keeps changing");
    }

    /// Behind the newest message. In another boot: behind the last check that is proven.
    JournalCursor newest() {
        if (durable_ || file_.is_of_this_boot()) {
            return walk(end_of_reading(file_, durable_), [](std::int64_t, std::int64_t) { return false; });
        }
        JournalCursor at = walk_start();
        for (;;) {
            const SpanEnd end = reader_.read(at.span);
            if (end != SpanEnd::check && end != SpanEnd::cut) return at;
            at.position = at.span = reader_.next();
            at.number = at.span_count = reader_.count();
        }
    }

    /// A position: of a message, or the end. Below `trimmed`: there, and what lies between is lost.
    JournalCursor position(std::int64_t wanted) {
        if (!is_journal_position(wanted)) throw InvalidArgument("start", "a position is a multiple of 64, 0 or above");
        if (file_.is_of_this_boot() && wanted > std::max(end_of_reading(file_, durable_), committed_)) {
            committed_ = end_of_committed(file_, durable_);
            if (wanted > committed_) {
                throw InvalidArgument("start", "position " + std::to_string(wanted) + " lies beyond the journal's end");
            }
        }
        if (wanted < beginning(file_)) return oldest();
        from_ = wanted;
        JournalCursor found = walk(wanted, [](std::int64_t, std::int64_t) { return false; });
        if (within_) throw InvalidArgument("start", "position " + std::to_string(wanted) + " lies within a record");
        return found;
    }

    /// The gate of a consumer. It may lie above `published`: records are committed up to it (3.1, append 5 and 6).
    JournalCursor gate(std::int64_t wanted) {
        committed_ = wanted;
        return position(wanted);
    }

    /// The message before which there are `wanted` others.
    JournalCursor number(std::int64_t wanted) {
        if (wanted < 0) throw InvalidArgument("start", "a number is 0 or above");
        const JournalCursor first = oldest();
        if (wanted <= first.number) {
            JournalCursor at = first;
            at.lost = first.number - wanted;
            return at;
        }
        JournalCursor found = search(
            first, [&](const Landmark& start) { return start.count <= wanted; },
            [&](std::int64_t count, std::int64_t) { return count >= wanted; });
        if (found.number < wanted) {
            throw InvalidArgument("start", "message " + std::to_string(wanted) + " is not there yet; there are " +
                                               std::to_string(found.number));
        }
        found.lost = std::max(found.lost, found.number - wanted);  // it lies in what is damaged
        return found;
    }

    /// The first message whose time is not below `wanted`; none: the end.
    JournalCursor time(std::int64_t wanted) {
        return search(
            oldest(), [&](const Landmark& start) { return start.time && *start.time < wanted; },
            [&](std::int64_t, std::int64_t at) { return at >= wanted; });
    }

    /// Walks from the first record of its segment to `wanted`, or to the first message of which found(number, time) is
    /// true.
    template <typename Found>
    JournalCursor walk(std::int64_t wanted, Found&& found) {
        return walk_from(file_.header.segment_of(wanted), wanted, found);
    }

  private:
    std::int64_t limit() const { return end_of_reading(file_, durable_); }

    /// Where a recovery would begin (7, 1).
    JournalCursor walk_start() {
        const std::int64_t from = std::max(end_of_reading(file_, true), beginning(file_));
        const auto first = landmark_at(reader_, from);
        if (!first) file_.corrupt(from, "there is no check where its durable part ends");
        return behind(first->next, first->count, 0);
    }

    /// The last segment for which before(its first record) is true, and from there a walk to the first message of which
    /// found is true.
    template <typename Before, typename Found>
    JournalCursor search(const JournalCursor& first, Before&& before, Found&& found) {
        committed_ = end_of_committed(file_, durable_);
        const std::int64_t end = std::max(limit(), committed_);
        const std::int64_t low = file_.header.segment_of(first.position);
        std::vector<std::int64_t> all = list_segments(file_);
        all.erase(std::remove_if(all.begin(), all.end(), [&](std::int64_t one) { return one < low || one > end; }),
                  all.end());
        std::size_t begin = 0;  // before() is true for all below; for a segment that cannot be read it is false
        for (std::size_t step = all.size(); step != 0;) {
            const std::size_t half = step / 2;
            const auto start = landmark_at(reader_, all[begin + half]);
            if (start && before(*start)) {
                begin += half + 1;
                step -= half + 1;
            } else {
                step = half;
            }
        }
        const std::int64_t from = begin == 0 ? low : all[begin - 1];
        return walk_from(from, end, found);
    }

    template <typename Found>
    JournalCursor walk_from(std::int64_t from, std::int64_t wanted, Found&& found) {
        within_ = false;
        JournalCursor at{from, 0, from, 0, 0};
        bool known = false;  // whether at.number is right
        bool back = false;   // it began in an earlier segment, because nothing is in the wanted one
        for (;;) {
            if (known && at.position >= wanted) return at;
            const std::int64_t limit = end_of_bytes();
            const SpanEnd end = reader_.read(at.span, limit);
            const std::int64_t records_end = reader_.records_end();
            if (!known && records_end == at.span && (end == SpanEnd::check || end == SpanEnd::cut)) {
                at.number = at.span_count = reader_.count();
                known = true;
            }
            if (end == SpanEnd::cut) {  // a position in it counts as next
                at = behind(reader_.next(), reader_.cut().count, at.lost);
                continue;
            }
            if (known && end != SpanEnd::wrong) {
                if (scan(at, wanted, found) || within_) return at;
                if (at.position == wanted) return at;
                within_ = end == SpanEnd::check && wanted < reader_.next();
                if (within_) return at;
            }
            if (end == SpanEnd::check) {
                at = behind(reader_.next(), reader_.check().count, at.lost);
                known = true;
                continue;
            }
            const std::int64_t trimmed = beginning(file_);  // loaded after a segment was not found
            if (at.span < trimmed) return oldest();
            if (end == SpanEnd::nothing && at.span >= limit && end_of_bytes() > limit) continue;  // it is there by now
            if ((end == SpanEnd::missing || end == SpanEnd::nothing) && !known && !back && at.span > 0) {
                // Nothing is in it yet; or a recovery has removed it, and a cut in front of it leads on.
                const auto below = segment_below(file_, at.span - 1);
                back = true;
                if (below && *below >= trimmed) {
                    at = behind(*below, 0, at.lost);
                    continue;
                }
            }
            if (is_unproven(at.span)) return behind(at.span, at.span_count, at.lost);
            const auto place = find_right_check(file_, std::max(records_end, at.span), end_of_bytes());
            if (!place || (place->next > wanted && !skip_)) throw_damaged(from_.value_or(at.span), place);
            // Otherwise what is damaged lies in front of the wanted place, and is not needed.
            at = behind(place->next, place->count, at.lost);
            known = true;
        }
    }
    static JournalCursor behind(std::int64_t span, std::int64_t count, std::int64_t lost) noexcept {
        return {span, count, span, count, lost};
    }
    /// In another boot: whether the span lies behind `synced`. It was not durable then, so it is no damage if it is not
    /// whole.
    bool is_unproven(std::int64_t span) const { return !file_.is_of_this_boot() && span > end_of_reading(file_, true); }
    std::int64_t end_of_bytes() const { return std::max(end_of_spans(file_, durable_), committed_); }

    /// Goes through the records of the span that was read. True: at.position is the place of a message that is looked
    /// for. Otherwise at.position is the records' end, or `wanted` if a record begins there, or within_ is set.
    template <typename Found>
    bool scan(JournalCursor& at, std::int64_t wanted, Found&& found) {
        while (at.position < reader_.records_end() && at.position != wanted) {
            if (at.position > wanted) {
                within_ = true;
                return false;
            }
            const RecordHead head = reader_.head_at(at.position);
            if (head.is_message()) {
                const auto time = get<std::int64_t>(reader_.at(at.position) + layout::JOURNAL_RECORD_TIME);
                if (found(at.number, time)) return true;
                ++at.number;
            }
            at.position += head.size();
        }
        within_ = at.position > wanted;
        return false;
    }

    /// How many messages lie between is not known: what lies before `from` was not read.
    [[noreturn]] void throw_damaged(std::int64_t from, const std::optional<JournalPlace>& place) {
        throw Damaged(file_.path, from, place ? place->position : std::max(from, limit()), -1);
    }

    const JournalFile& file_;
    SpanReader reader_;
    bool durable_;
    bool skip_;
    bool within_ = false;               // the walk found that the wanted position lies within a record
    std::optional<std::int64_t> from_;  // the position that is wanted: an error names it, not the end of the walk
    std::int64_t committed_ = 0;        // records are committed up to here, whatever the words say
};

}  // namespace flyring::detail
