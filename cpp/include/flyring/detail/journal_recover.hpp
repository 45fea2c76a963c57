// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "flyring/detail/journal_seek.hpp"
#include "flyring/detail/journal_span.hpp"
#include "flyring/detail/journal_sync.hpp"
#include "flyring/errors.hpp"

// What the next writer does before it goes on: after a kill (spec/journal.md 3.4), after a sync that failed (5), and
// after a power loss (7). All under the writer's lock. Numbers in parentheses are sections of spec/journal.md;
// 'resume 2' is step 2 of its operation resume.

namespace flyring {

/// What a recovery has done.
struct JournalRecovery {
    enum class Reason : std::int32_t {
        power_loss = layout::JOURNAL_CUT_POWER_LOSS,
        failed_sync = layout::JOURNAL_CUT_FAILED_SYNC,
    };
    Reason reason = Reason::power_loss;
    /// Up to here all messages are there.
    std::int64_t position = 0;
    /// Where the journal goes on.
    std::int64_t next = 0;
    /// How many messages there are.
    std::int64_t messages = 0;
    /// How far the records reached that were found and not proven: reached - position bytes were cut off, which may be
    /// none.
    std::int64_t reached = 0;
};

namespace detail {

/// Where a writer begins.
struct WriterStart {
    std::int64_t end = 0;    // of what is published
    std::int64_t count = 0;  // messages before it
    std::int64_t span = 0;   // the end of the last check
    std::uint32_t crc = 0;   // of the bytes since then
    std::int64_t time = 0;   // the largest of a message
    std::optional<JournalRecovery> recovery{};
};

/// Writes zeros, or bytes, to a segment's file.
inline void write_at(const JournalFile& file, const Fd& fd, std::int64_t position, const std::byte* from,
                     std::size_t length) {
    auto offset = static_cast<std::int64_t>(layout::HEADER_LENGTH) + file.header.in_segment(position);
    while (length != 0) {
        const ssize_t done = ::pwrite(fd.get(), from, length, offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) throw IoError("pwrite", done == 0 ? EIO : errno, file.segment_path(position));
        from += done;
        offset += done;
        length -= static_cast<std::size_t>(done);
    }
}
inline Fd open_to_write(const JournalFile& file, std::int64_t position) {
    Fd fd = open_segment(file, file.header.segment_of(position), O_RDWR);
    if (!fd) throw IoError("open", ENOENT, file.segment_path(file.header.segment_of(position)));
    return fd;
}

/// Mends a journal for its next writer.
class JournalMend {
  public:
    JournalMend(const JournalFile& file, const Fd& description, const JournalProgress& progress)
        : file_(file), header_(file.header), description_(description), progress_(progress), syncer_(file) {}

    WriterStart run() {
        if (!file_.is_of_this_boot()) return recover(JournalRecovery::Reason::power_loss);
        return load_acquire(file_.failed()) == 0 ? resume() : after_failed_sync();
    }

  private:
    // ---- after a kill (3.4) ----

    WriterStart resume() {
        const std::int64_t p = load_acquire(file_.published());
        const std::int64_t q = load_relaxed(file_.claimed());
        const std::int64_t x = load_acquire(file_.checked());
        if (!is_journal_position(p)) file_.corrupt(p, "published is no position");  // resume 1
        if (!is_journal_position(q) || q < p || q > header_.segment_of(p) + header_.size() ||
            q - p > header_.longest() + static_cast<std::int64_t>(layout::JOURNAL_ANNOUNCE_AHEAD) + journal_unit) {
            file_.corrupt(p, "claimed does not fit published");
        }
        if (!is_journal_position(x) || x > p) file_.corrupt(p, "checked lies behind published");
        std::int64_t r = p;
        if (p < q) {
            const Fd fd = open_to_write(file_, p);
            std::vector<std::byte> bytes(static_cast<std::size_t>(q - p));
            const std::int64_t offset = static_cast<std::int64_t>(layout::HEADER_LENGTH) + header_.in_segment(p);
            acquire_fence();  // the dead writer's stores
            const ssize_t got = read_at(fd, bytes.data(), bytes.size(), offset);
            if (got < 0) throw_errno("pread", file_.segment_path(header_.segment_of(p)));
            if (got != q - p) file_.corrupt(p, "its segment ends before claimed");
            while (r < q) {  // resume 2
                const RecordHead head = read_head(bytes.data() + (r - p));
                if (head.length == 0) break;
                if (!head.is_sound(header_, r) || r + head.size() > q) {
                    file_.corrupt(r, "a record that was being written is not sound");
                }
                r += head.size();
            }
            std::fill(bytes.begin(), bytes.end(), std::byte{0});
            if (r < q) write_at(file_, fd, r, bytes.data(), static_cast<std::size_t>(q - r));  // resume 3
        }
        store_release(file_.published(), r);
        store_release(file_.claimed(), r);
        return walk(x, r);
    }

    /// Walks from the check at `x` to `end`: finds count, CRC and largest time, and stores each check met (resume 4).
    WriterStart walk(std::int64_t x, std::int64_t end) {
        SpanReader reader(file_, true);
        const auto first = landmark_at(reader, x);
        if (!first || !first->time) file_.corrupt(x, "there is no check where checked says");
        WriterStart start{end, first->count, first->next, 0, *first->time, {}};
        for (;;) {
            const SpanEnd found = reader.read(start.span, end);
            if (found == SpanEnd::check) {
                start = {end, reader.check().count, reader.next(), 0, reader.check().time, {}};
                store_release(file_.checked(), reader.records_end());
                continue;
            }
            // The next segment need not be there yet.
            const bool whole = found == SpanEnd::nothing || found == SpanEnd::missing;
            if (!whole || reader.records_end() != end) {
                file_.corrupt(reader.records_end(), "the records since the last check do not reach published");
            }
            start.count += reader.messages;
            start.crc = reader.crc;
            start.time = std::max(start.time, reader.time);
            store_relaxed(file_.messages(), start.count);
            return start;
        }
    }

    // ---- after a sync that failed (5) ----

    WriterStart after_failed_sync() {
        std::optional<WriterStart> start;
        try {
            start = resume();
            if (!proves(start->end)) start.reset();
        } catch (const CorruptJournal&) {
            start.reset();  // the kernel has dropped pages
        }
        if (!start) return recover(JournalRecovery::Reason::failed_sync);
        const std::int64_t synced = end_of_reading(file_, true);
        write_again(synced, start->end);
        if (start->end != start->span) write_check(*start);
        const std::int64_t to = load_relaxed(file_.checked());
        if (const int error = syncer_.sync_segments(synced, to); error != 0) {
            throw IoError("fdatasync", error, file_.path);  // `failed` stays
        }
        syncer_.note_synced(to);
        store_release(file_.failed(), std::int32_t{0});
        return *start;
    }

    /// Whether each check from that at `synced` on is right, and the records reach `end`.
    bool proves(std::int64_t end) {
        SpanReader reader(file_, true);
        const auto first = landmark_at(reader, end_of_reading(file_, true));
        if (!first) return false;
        for (std::int64_t at = first->next;;) {
            const SpanEnd found = reader.read(at, end);
            if (found != SpanEnd::check && found != SpanEnd::cut) {
                return reader.records_end() == end && found != SpanEnd::wrong;
            }
            at = reader.next();
        }
    }

    /// Writes bytes once more, as they are: so the kernel must write their pages.
    void write_again(std::int64_t from, std::int64_t to) {
        constexpr std::int64_t piece = 1 << 20;
        std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(piece, header_.size())));
        SpanReader reader(file_, true);
        for (std::int64_t at = from; at < to;) {
            const std::int64_t segment = header_.segment_of(at);
            const auto length =
                std::min({to - at, segment + header_.size() - at, static_cast<std::int64_t>(bytes.size())});
            if (reader.open(segment)) {
                if (!reader.read_at(at, bytes.data(), static_cast<std::size_t>(length))) {
                    throw IoError("pread", EIO, file_.segment_path(segment));
                }
                const Fd fd = open_to_write(file_, segment);
                write_at(file_, fd, at, bytes.data(), static_cast<std::size_t>(length));
            }
            at += length;
        }
    }

    /// Makes a check at the end (3.2).
    void write_check(WriterStart& start) {
        const std::int64_t t = start.end;
        make_ready(file_, header_.segment_of(t));
        const Fd fd = open_to_write(file_, t);
        if (load_relaxed(file_.claimed()) < t + journal_check_length) {
            store_relaxed(file_.claimed(), t + journal_check_length);
        }
        release_fence();
        std::byte bytes[journal_check_length];
        detail::write_check(bytes, {t, start.count, start.time, start.crc});
        write_record(fd, t, bytes);
        store_release(file_.published(), t + journal_check_length);
        store_release(file_.checked(), t);
        start = {t + journal_check_length, start.count, t + journal_check_length, 0, start.time, start.recovery};
    }
    /// Writes a check or a cut: all bytes but its length, then the length.
    void write_record(const Fd& fd, std::int64_t position, const std::byte (&bytes)[journal_check_length]) const {
        const auto offset = static_cast<off_t>(layout::HEADER_LENGTH) + header_.in_segment(position);
        constexpr std::size_t head = sizeof(std::int32_t);
        constexpr std::size_t rest = sizeof bytes - head;
        if (::pwrite(fd.get(), bytes + head, rest, offset + static_cast<off_t>(head)) != static_cast<ssize_t>(rest) ||
            ::pwrite(fd.get(), bytes, head, offset) != static_cast<ssize_t>(head)) {
            throw IoError("pwrite", errno, file_.segment_path(header_.segment_of(position)));
        }
    }

    // ---- after a power loss (7) ----

    struct Walked {
        std::int64_t begin = 0;
        std::int64_t end = 0;    // c: of the last right check
        std::int64_t count = 0;  // k
        std::int64_t time = 0;
        std::int64_t reached = 0;
        std::set<std::int64_t> passed;  // segments
    };

    /// Walks cold from the last durable check to the first check that is not right (recover 1). `all`: the bytes to
    /// walk, for the progress.
    Walked walk_cold(std::uint64_t all) {
        Walked walked;
        walked.begin = std::max(end_of_reading(file_, true), beginning(file_));
        SpanReader reader(file_, true);
        const auto first = landmark_at(reader, walked.begin);
        if (!first) file_.corrupt(walked.begin, "there is no check where the walk of a recovery begins");
        const bool cut = !first->time;
        walked.end = cut ? walked.begin : first->next;
        walked.count = first->count;
        walked.time = first->time.value_or(0);
        walked.passed.insert(header_.segment_of(walked.begin));
        std::int64_t at = first->next;
        std::int64_t reported = walked.begin;
        for (;;) {
            const SpanEnd end = reader.read(at);
            if (reader.open(header_.segment_of(at))) walked.passed.insert(header_.segment_of(at));
            walked.reached = std::max(walked.end, reader.records_end());
            if (end != SpanEnd::check && end != SpanEnd::cut) return walked;
            at = reader.next();
            if (end == SpanEnd::cut) continue;  // c stays in front of it
            walked.passed.insert(header_.segment_of(reader.records_end()));
            walked.end = at;
            walked.count = reader.check().count;
            walked.time = reader.check().time;
            constexpr std::int64_t between = 1 << 24;  // bytes between two reports
            if (progress_ && at - reported >= between) {
                reported = at;
                const auto done = static_cast<std::uint64_t>(at - walked.begin);
                progress_(done, std::max(done, all));
            }
        }
    }

    WriterStart recover(JournalRecovery::Reason reason) {
        const ControlLock lock(description_, file_.control_lock(), file_.control);
        const std::vector<std::int64_t> all = list_segments(file_);
        std::int64_t highest = -1;
        for (auto one = all.rbegin(); one != all.rend() && highest < 0; ++one) {
            if (open_segment(file_, *one)) highest = *one;
        }
        const std::int64_t begin = std::max(end_of_reading(file_, true), beginning(file_));
        const std::int64_t bytes = std::max<std::int64_t>(highest + header_.size() - begin, 0);
        const Walked walked = walk_cold(static_cast<std::uint64_t>(bytes));
        const std::int64_t c = walked.end;
        const bool whole_at_c = static_cast<bool>(open_segment(file_, header_.segment_of(c)));
        const std::int64_t h = whole_at_c ? highest + header_.size() : c;  // recover 2
        prepare_segment(file_, h, JournalCheck{h, walked.count, walked.time, 0});
        if (load_acquire(file_.failed()) != 0) write_again(walked.begin, c);
        mend_gates(c, h, walked.count, reason);  // recover 3
        file_.sync_control();
        if (c < h) {  // recover 4
            const JournalCut cut{c, walked.count, h, walked.reached, static_cast<std::int32_t>(reason)};
            std::byte record[journal_check_length];
            write_cut(record, cut);
            const Fd fd = open_to_write(file_, c);
            write_record(fd, c, record);
        }
        for (const std::int64_t one : walked.passed) {
            const int error = syncer_.sync_segment(one);
            if (error == 0) continue;
            store_release(file_.failed(), std::int32_t{1});
            throw IoError("fdatasync", error, file_.segment_path(one));
        }
        for (const std::int64_t one : all) {  // recover 5
            const bool beyond = one > header_.segment_of(c) || walked.passed.count(one) == 0;
            const bool stray = one > walked.begin && one != h && beyond;
            if (stray || one + header_.size() <= beginning(file_)) unlink_if_there(file_.segment_path(one));
        }
        file_.sync_folder();
        raise(file_.synced(), h);  // recover 6
        store_release(file_.checked(), h);
        store_release(file_.ready(), h + header_.size());
        store_relaxed(file_.claimed(), h + journal_check_length);
        store_relaxed(file_.messages(), walked.count);
        store_release(file_.published(), h + journal_check_length);
        store_release(file_.failed(), std::int32_t{0});
        file_.sync_control();  // recover 7
        file_.store_boot();
        if (progress_) progress_(static_cast<std::uint64_t>(bytes), static_cast<std::uint64_t>(bytes));
        const JournalRecovery report{reason, c, h, walked.count, walked.reached};
        return {h + journal_check_length, walked.count, h + journal_check_length, 0, walked.time, report};
    }

    /// Mends the gates (recover 3). A consumer that has confirmed what is gone goes on at `h`. For the others, the
    /// messages before the gate are counted again, because a pair may be older than its gate.
    void mend_gates(std::int64_t c, std::int64_t h, std::int64_t messages, JournalRecovery::Reason reason) {
        for (std::uint32_t slot = 0; slot < header_.consumers; ++slot) {
            const ConsumerWords words = file_.consumer(slot);
            if (!words.kept()) continue;
            // After a failed sync a consumer may live: it follows the cut by itself.
            if (reason == JournalRecovery::Reason::failed_sync &&
                is_locked_by_another(description_, file_.consumer_lock(slot))) {
                continue;
            }
            const std::int64_t gate = load_acquire(words.gate());
            if (!is_journal_position(gate) || gate < beginning(file_)) continue;
            std::int64_t lost = words.most_lost();
            if (const int number = words.proves(gate); number >= 0) lost = words.pair(number)->lost;
            if (gate > c) {
                words.store_gate({h, messages, lost});
            } else if (gate == c) {
                words.store_gate({gate, messages, lost});
            } else {
                try {
                    JournalSeek seek(file_, false, false);
                    const JournalCursor found = seek.position(gate);
                    words.store_gate({found.position, found.number, lost});
                } catch (const IoError&) {
                    throw;
                } catch (const FlyringError&) {
                    // It leads nowhere: its owner is told.
                }
            }
        }
    }

    const JournalFile& file_;
    const JournalHeader& header_;
    const Fd& description_;
    const JournalProgress& progress_;
    JournalSyncer syncer_;
};

}  // namespace detail
}  // namespace flyring
