// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>

#include "flyring/detail/journal_seek.hpp"
#include "flyring/detail/journal_segment.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"

// Making durable what was appended (spec/journal.md 5). Numbers in parentheses are sections of that page; 'sync 3' is
// step 3 of its operation sync.

namespace flyring::detail {

/// A sync has failed: ends the writer. It must not be tried again, because the kernel may mark pages as clean that it
/// could not write.
inline void note_failed_sync(const JournalFile& file) noexcept {
    store_release(file.failed(), std::int32_t{1});
    raise_epoch(file.slot());
}

/// Syncs of one thread. It keeps the last segment open.
class JournalSyncer {
  public:
    explicit JournalSyncer(const JournalFile& file) noexcept : file_(&file) {}

    /// Syncs up to the last check, and raises `synced` (sync 2 to 4). Any process may do so. False: a sync has failed
    /// before, so this one would prove nothing. Throws IoError if this one fails: then the writer has ended.
    bool make_durable() {
        if (load_acquire(file_->failed()) != 0) return false;
        const std::int64_t to = load_acquire(file_->checked());  // pairs with check
        const std::int64_t from = load_acquire(file_->synced());
        check(to, from);
        if (to <= from) return true;
        if (const int error = sync_segments(from, to); error != 0) {
            note_failed_sync(*file_);
            throw IoError("fdatasync", error, file_->path);
        }
        if (load_acquire(file_->failed()) != 0) return false;
        note_synced(to);
        return true;
    }
    void note_synced(std::int64_t to) noexcept {
        raise(file_->synced(), to);  // sync 4; pairs with durable readers
        store_relaxed(file_->synced_at(), wall_clock(file_->environment));
        wake_all(file_->data());
    }

    /// Syncs each segment from that of one position to that of another, in this order. Returns 0, or the errno of a
    /// sync. Throws IoError if one was removed by hand; `synced` stays then, and the writer goes on.
    int sync_segments(std::int64_t from, std::int64_t to) {
        const JournalHeader& header = file_->header;
        std::int64_t at = header.segment_of(from);
        while (at <= to) {
            if (open(at)) {
                if (const int error = sync_open(); error != 0) return error;
                at += header.size();
            } else {
                // Another process may have synced it, and a trim removed it. Loaded after it was not found.
                const std::int64_t synced = header.segment_of(load_acquire(file_->synced()));
                if (synced <= at) throw IoError("open", ENOENT, file_->segment_path(at));
                at = synced;
            }
        }
        return 0;
    }
    /// Syncs a segment that is there. Returns 0, or the errno.
    int sync_segment(std::int64_t position) { return open(position) ? sync_open() : 0; }
    /// Closes the segment that is open; the next sync opens it again.
    void close() noexcept { fd_.reset(); }

  private:
    bool open(std::int64_t position) {
        if (!fd_.ours() || position != opened_) {
            fd_ = open_segment(*file_, position);
            if (!fd_) return false;
            fd_.mark(file_->segment_path(position));
            opened_ = position;
        }
        return true;
    }
    int sync_open() { return ::fdatasync(fd_.get()) == 0 ? 0 : errno; }
    void check(std::int64_t to, std::int64_t from) const {
        if (!is_journal_position(to)) file_->corrupt(to, "checked is no position");
        if (!is_journal_position(from)) file_->corrupt(from, "synced is no position");
    }

    const JournalFile* file_;
    Fd fd_;
    std::int64_t opened_ = -1;
};

}  // namespace flyring::detail
