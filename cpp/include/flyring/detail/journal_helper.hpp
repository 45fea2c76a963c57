// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/detail/journal_state.hpp"
#include "flyring/detail/journal_sync.hpp"
#include "flyring/detail/journal_trim.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"

// The helper (spec/journal.md 1, 4, 5, 8): a thread of the writer's process that makes segments before the writer needs
// them, syncs, and trims.

namespace flyring::detail {

/// What passes between a writer and its helper: the next segments, mapped and touched, and those that are done.
class JournalHandOver {
  public:
    struct Segment {
        std::int64_t position = -1;
        Mapping mapping;
    };

    /// The segment at `position`, if the helper has mapped it; otherwise its position is -1. Retires the segments below
    /// it, which the writer does not need any more.
    Segment take(std::int64_t position) {
        const std::lock_guard<std::mutex> guard(mutex_);
        Segment taken;
        while (!next_.empty() && next_.front().position <= position) {
            if (next_.front().position == position) {
                taken = std::move(next_.front());
            } else {
                retired_.push_back(std::move(next_.front().mapping));
            }
            next_.pop_front();
        }
        return taken;
    }
    void retire(Mapping done) {
        const std::lock_guard<std::mutex> guard(mutex_);
        retired_.push_back(std::move(done));
    }

    // For the helper, which offers segments in ascending order.
    bool needs(std::int64_t position) noexcept {
        const std::lock_guard<std::mutex> guard(mutex_);
        return next_.empty() || next_.back().position < position;
    }
    void offer(std::int64_t position, Mapping mapping) {
        const std::lock_guard<std::mutex> guard(mutex_);
        next_.push_back({position, std::move(mapping)});
    }
    /// Unmaps all, also segments that the writer did not take. The helper's thread has ended.
    void clear() noexcept {
        const std::lock_guard<std::mutex> guard(mutex_);
        next_.clear();
        retired_.clear();
    }
    /// Unmaps what is done: of large segments this takes milliseconds.
    void unmap_retired() {
        std::vector<Mapping> done;
        const std::lock_guard<std::mutex> guard(mutex_);
        done.swap(retired_);
    }

  private:
    std::mutex mutex_;
    std::deque<Segment> next_;  // in ascending order
    std::vector<Mapping> retired_;
};

/// The helper's thread.
class JournalHelper {
  public:
    /// To be called under the state's lock, so that a forked child knows of the description.
    JournalHelper(std::shared_ptr<JournalState> state, std::uint32_t ahead, std::shared_ptr<JournalHandOver> over)
        : state_(std::move(state)),
          ahead_(ahead),
          over_(std::move(over)),
          syncer_(state_->file),
          description_(open_description(state_->file.fd, state_->file.control)) {}
    JournalHelper(const JournalHelper&) = delete;
    JournalHelper& operator=(const JournalHelper&) = delete;

    /// Starts the thread. It keeps the object, so that a forked child, which has no such thread, never ends it.
    static void start(const std::shared_ptr<JournalHelper>& helper) {
        helper->thread_ = std::thread([helper] { helper->run(); });
    }

    /// Ends the thread. It may be in the middle of a sync, which is waited for.
    void stop() noexcept {
        if (!thread_.joinable()) return;
        store_release(&stopped_, true);
        wake_all(state_->file.work());
        thread_.join();
        thread_ = std::thread();
    }
    /// In a forked child: closes the descriptors that it shares with its parent.
    void abandon() noexcept {
        description_.reset();
        syncer_.close();
    }
    /// The errno of the sync that failed; 0: none has.
    int error() const noexcept { return load_acquire(&error_); }

  private:
    const JournalFile& file() const noexcept { return state_->file; }

    void run() noexcept {
        while (!load_acquire(&stopped_)) {
            const std::int64_t segment = now_in();
            try {
                if (!helps_) helps_ = lock_byte(description_, file().helper_lock(), file().control);
            } catch (const FlyringError&) {
                // Try again later.
            }
            work(segment);
            sleep(segment);
        }
        over_->clear();
        if (helps_) unlock_byte(description_, file().helper_lock());
        description_.reset();
        syncer_.close();
    }

    std::int64_t now_in() const noexcept {
        const std::int64_t published = load_acquire(file().published());
        return is_journal_position(published) ? file().header.segment_of(published) : 0;
    }

    /// What there is to do. A failure is that of this round: the next one tries again.
    void work(std::int64_t segment) noexcept {
        try {
            prepare(segment);
        } catch (const std::exception&) {
            // No space: the writer finds that when it needs the segment.
        }
        over_->unmap_retired();
        if (!helps_) return;
        try {
            sync();
        } catch (const IoError& error) {
            if (load_acquire(file().failed()) != 0) store_release(&error_, error.error());
        } catch (const std::exception&) {
        }
        try {
            trim();
        } catch (const std::exception&) {
        }
    }

    /// Makes the next segments, and touches their pages for the writer. Ends when the writer enters another segment:
    /// the next round begins with the one that the writer needs first.
    void prepare(std::int64_t segment) {
        const std::int64_t size = file().header.size();
        const std::int64_t next =
            file().header.in_segment(load_relaxed(file().published())) == 0 ? segment : segment + size;
        for (std::uint32_t i = 0; i <= ahead_ && !load_acquire(&stopped_) && now_in() == segment; ++i) {
            const std::int64_t position = segment + i * size;
            if (helps_) make_ready(file(), position);
            if (position >= next) touch(position);
        }
    }

    void touch(std::int64_t position) {
        if (!is_ready(file(), position) || !over_->needs(position)) return;
        const Fd fd = open_segment(file(), position, O_RDWR);
        if (!fd) return;
        Mapping mapping = map_segment(file(), fd, position, Access::write);
        mapping.prefault(mapping.data(), mapping.size());
        over_->offer(position, std::move(mapping));
    }

    void sync() {
        const std::int64_t every = file().valid_sync_every();
        const std::int64_t checked = load_acquire(file().checked());
        const std::int64_t synced = load_acquire(file().synced());
        if (!is_journal_position(checked) || !is_journal_position(synced) || checked <= synced) return;
        if (every == layout::JOURNAL_SYNC_EACH) return;  // the writer does
        // Without an interval only segments that the writer has left.
        if (every == layout::JOURNAL_SYNC_NEVER &&
            file().header.segment_of(checked) == file().header.segment_of(synced)) {
            return;
        }
        (void)syncer_.make_durable();
    }

    void trim() {
        const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        const bool by_age = load_relaxed(file().max_age()) > 0 && now >= next_look_;
        if (by_age) next_look_ = now + 1'000'000'000;
        (void)trim_by_options(file(), description_, by_age);
    }

    void sleep(std::int64_t segment) noexcept {
        const std::int64_t every = file().valid_sync_every();
        const std::int64_t cap = every > 0 ? std::min(every, data_cap) : data_cap;
        sleep_once(
            file().work(), waiting_bit(0), true, later(clock_ns(CLOCK_MONOTONIC), data_cap),
            [&] { return load_acquire(&stopped_) || now_in() != segment; }, [&] { return cap; });
    }

    std::shared_ptr<JournalState> state_;
    std::uint32_t ahead_;
    std::shared_ptr<JournalHandOver> over_;
    JournalSyncer syncer_;
    Fd description_;  // of the helper lock, and the control lock
    bool helps_ = false;
    bool stopped_ = false;
    int error_ = 0;
    std::int64_t next_look_ = 0;  // when it looks for segments that are too old
    std::thread thread_;
};

}  // namespace flyring::detail
