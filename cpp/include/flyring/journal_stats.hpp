// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "flyring/detail/journal_segment.hpp"
#include "flyring/detail/journal_span.hpp"
#include "flyring/detail/journal_state.hpp"
#include "flyring/journal_options.hpp"

namespace flyring {

/// One consumer of a journal, part of JournalStats.
struct JournalConsumerStats {
    std::uint32_t slot = 0;
    std::string name;
    /// Its gate: the position of the first message that it has not consumed.
    std::int64_t position = 0;
    /// How many messages it has not consumed; -1: not known.
    std::int64_t behind = -1;
    /// How many bytes of the journal lie behind its gate.
    std::int64_t behind_bytes = 0;
    /// How many messages it lost: trimmed before it consumed them, or skipped as damaged; -1: not known.
    std::int64_t lost = -1;
    /// Whether a process has it now.
    bool live = false;
    /// Of its last owner, in that process's own pid namespace.
    std::int32_t pid = 0;
    /// When that owner took it: ns since 1970.
    std::int64_t attached_at = 0;
};

/// A journal at one moment, made by Journal::stats. Times are ns since 1970, and 0 if there is none. Positions are
/// bytes since the journal's creation.
struct JournalStats {
    /// Of the journal's folder.
    std::string path;
    Uuid id{};
    /// Bytes of one segment.
    std::uint64_t segment_size = 0;
    JournalContent content = JournalContent::messages;
    /// 0: never; -1: each append; else an interval in ns.
    std::int64_t sync = 0;
    /// ns; 0: no limit.
    std::int64_t max_age = 0;
    /// Bytes; 0: no limit.
    std::int64_t max_size = 0;
    bool trim_consumed = false;
    /// The position of the end.
    std::int64_t published = 0;
    /// How many messages were ever appended, those that were trimmed included.
    std::int64_t messages = 0;
    /// The position up to which all is durable, and when it became so.
    std::int64_t synced = 0;
    std::int64_t synced_at = 0;
    /// The time of the oldest message that is not durable; 0: all are.
    std::int64_t unsynced_since = 0;
    /// The position where the journal begins now.
    std::int64_t trimmed = 0;
    /// The end of the last segment that is made.
    std::int64_t ready = 0;
    /// How many segments there are, and how many bytes they take on the disk.
    std::uint32_t segments = 0;
    std::uint64_t bytes = 0;
    /// The time of the oldest message, and the largest time of a message.
    std::int64_t oldest = 0;
    std::int64_t newest = 0;
    /// The last JournalWriter's name, which may be empty, its process, and when it took the slot. A push leaves them.
    std::string writer;
    std::int32_t pid = 0;
    std::int64_t attached_at = 0;
    /// How often the writer's slot was taken.
    std::int64_t epoch = 0;
    /// Whether a process has the writer's slot.
    bool writing = false;
    /// Whether a process makes segments, syncs and trims for the writer.
    bool helping = false;
    /// Whether a sync has failed, and no writer has come since.
    bool failed = false;
    /// Whether the journal is of another boot, and a writer must mend it.
    bool needs_recovery = false;
    /// 2: the journal was unlinked; else 0.
    std::int32_t successor = 0;
    /// In the order of their slots.
    std::vector<JournalConsumerStats> consumers;
};

namespace detail {

/// The time of the first message in [from, to); 0 if there is none, or if that cannot be told.
inline std::int64_t first_time(const JournalFile& file, std::int64_t from, std::int64_t to) {
    SpanReader reader(file);
    const auto mark = landmark_at(reader, from);
    std::int64_t at = mark ? mark->next : from;
    for (int spans = 0; spans < 16 && at < to; ++spans) {
        const SpanEnd end = reader.read(at, to);
        for (std::int64_t p = reader.start(); p < reader.records_end();) {
            const RecordHead head = reader.head_at(p);
            if (head.is_message()) return get<std::int64_t>(reader.at(p) + layout::JOURNAL_RECORD_TIME);
            p += head.size();
        }
        if (end != SpanEnd::check && end != SpanEnd::cut) return 0;
        at = reader.next();
    }
    return 0;
}
/// The largest time of a message before `to`, from the check at `from` on.
inline std::int64_t last_time(const JournalFile& file, std::int64_t from, std::int64_t to) {
    SpanReader reader(file);
    const auto mark = landmark_at(reader, from);
    if (!mark) return 0;
    std::int64_t time = mark->time.value_or(0);
    std::int64_t at = mark->next;
    for (int spans = 0; spans < 16 && at < to; ++spans) {
        const SpanEnd end = reader.read(at, to);
        time = std::max(time, reader.time);
        if (end != SpanEnd::check && end != SpanEnd::cut) break;
        at = reader.next();
    }
    return time;
}

inline JournalStats stats_of(const JournalFile& file) {
    const auto position = [](const std::int64_t* word) {
        const std::int64_t value = load_acquire(word);
        return is_journal_position(value) ? value : 0;
    };
    const auto positive = [](const std::int64_t* word) { return std::max<std::int64_t>(load_relaxed(word), 0); };
    JournalStats stats;
    stats.path = file.path;
    stats.id = file.header.journal_id;
    stats.segment_size = file.header.segment_size;
    stats.content = file.header.content;
    stats.sync = file.valid_sync_every();
    stats.max_age = positive(file.max_age());
    stats.max_size = positive(file.max_size());
    stats.trim_consumed = load_relaxed(file.trim_consumed()) == 1;
    stats.published = position(file.published());
    stats.messages = positive(file.messages());
    stats.synced = position(file.synced());
    stats.synced_at = positive(file.synced_at());
    stats.trimmed = position(file.trimmed());
    stats.ready = position(file.ready());
    const auto segments = list_segments(file);
    stats.segments = static_cast<std::uint32_t>(segments.size());
    stats.bytes = segments.size() * file.header.segment_file_length();
    stats.needs_recovery = !file.is_of_this_boot();
    const std::int64_t end = stats.needs_recovery ? stats.synced : stats.published;
    stats.oldest = first_time(file, stats.trimmed, end);
    if (!stats.needs_recovery) {
        stats.unsynced_since = first_time(file, stats.synced, end);
        stats.newest = last_time(file, position(file.checked()), end);
    } else {
        stats.newest = last_time(file, stats.synced, end);
    }
    const SlotWords slot = file.slot();
    SlotFields fields;
    if (!read_fields(slot, fields)) fields = {};
    stats.writer.assign(fields.letters, fields.name_length);
    stats.pid = fields.pid;
    stats.attached_at = load_relaxed(slot.attached_at());
    stats.epoch = fields.epoch;
    stats.writing = byte_is_locked(file.fd, file.writer_lock(), file.control);
    stats.helping = byte_is_locked(file.fd, file.helper_lock(), file.control);
    stats.failed = load_acquire(file.failed()) != 0;
    stats.successor = load_relaxed(file.successor());
    for (std::uint32_t number = 0; number < file.header.consumers; ++number) {
        const ConsumerWords words = file.consumer(number);
        if (!words.kept()) continue;
        JournalConsumerStats one;
        one.slot = number;
        if (!read_fields(words.slot(), fields)) fields = {};
        one.name.assign(fields.letters, fields.name_length);
        one.pid = fields.pid;
        one.attached_at = load_relaxed(words.slot().attached_at());
        one.position = load_acquire(words.gate());
        if (const int proves = words.proves(one.position); proves >= 0) {
            if (const auto pair = words.pair(proves)) {
                one.behind = std::max<std::int64_t>(stats.messages - pair->count, 0);
                one.lost = pair->lost;
            }
        }
        one.behind_bytes =
            is_journal_position(one.position) ? std::max<std::int64_t>(stats.published - one.position, 0) : 0;
        one.live = byte_is_locked(file.fd, file.consumer_lock(number), file.control);
        stats.consumers.push_back(std::move(one));
    }
    return stats;
}

}  // namespace detail
}  // namespace flyring
