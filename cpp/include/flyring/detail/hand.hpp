// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "flyring/detail/adopt.hpp"
#include "flyring/detail/job_source.hpp"
#include "flyring/detail/release.hpp"
#include "flyring/detail/ring.hpp"

// What a worker has in hand: the jobs of one take, or those adopted from a dead worker (spec/queue.md 3, 5, 8, 9).

namespace flyring::detail {

/// The result of preparing the next job in hand.
enum class Prepared {
    job,
    none,  // the batch has no more jobs
    bad,   // the record is no valid job: see `reason`
};

/// A batch of jobs; the next one is at `position`.
struct Hand {
    JobSource* source = nullptr;  // null: nothing is in hand
    std::int64_t position = 0;
    std::int64_t end = 0;               // end of the batch
    std::int64_t job_end = 0;           // end of the current job
    std::int32_t attempts = 0;          // the number beside the gate
    std::int32_t first_attempts = 0;    // the same at the start of this batch
    bool copied = false;                // the batch was adopted: its bytes may change
    bool stayed = false;                // the current job is handed out once more
    const char* reason = nullptr;       // why the current record is no job
    std::unique_ptr<std::byte[]> copy;  // the bytes of an adopted job

    /// Allocates the buffer for copies. `length`: bytes of the longest record.
    void reserve(std::size_t length) {
        if (!copy) copy.reset(new std::byte[length]);  // not cleared, so unused pages are never touched
    }

    bool empty() const noexcept { return source == nullptr; }
    /// Whether the batch is of the usual kind: in place, on a producer's ring, handed out for the first time.
    bool is_plain() const noexcept { return !copied && !stayed && attempts == 0 && !source->returns; }

    void hold(JobSource& from, std::int64_t first, std::int64_t last) noexcept {
        source = &from;
        position = job_end = first;
        end = last;
        attempts = first_attempts = 0;
        copied = stayed = false;
    }
    void hold(JobSource& from, const Batch& adopted) noexcept {
        hold(from, adopted.position, adopted.end);
        attempts = first_attempts = adopted.attempts;
        copied = true;
    }
    void drop() noexcept { source = nullptr; }

    /// Finds the next job, to be handed out. If it is handed out once more, raises its number of attempts first (8).
    Prepared prepare(JobRecord& job) noexcept {
        if (FLYRING_UNLIKELY(stayed)) {
            stayed = false;
            attempts = more_attempts(attempts, 1);
            store_relaxed(attempts_beside(source->gate), attempts);
        }
        return find(job);
    }

    /// Finds the next job without counting an attempt.
    Prepared find(JobRecord& job) noexcept {
        if (FLYRING_UNLIKELY(copied)) return find_copy(job);
        const Ring ring = source->ring;
        const std::int64_t p = position;
        const std::int32_t length = load_relaxed(ring.length_at(p));
        const std::int32_t type = load_relaxed(ring.type_at(p));
        const std::int64_t size = ring.align(length);
        if (FLYRING_UNLIKELY(length < source->least || type <= 0 || size > end - p ||
                             (p & ring.mask()) + size > ring.capacity())) {
            return refuse("the record of a job in hand was overwritten with something that is no job");
        }
        job_end = p + size;
        return identify(job, ring.payload_at(p), length, type, p);
    }

    /// Done 5, after the handler: goes on to the batch's next job. False: that was the last one.
    bool go_on() noexcept {
        stayed = false;
        const std::int64_t next = FLYRING_LIKELY(job_end >= end) ? end : next_in_batch(job_end);
        std::int64_t* const gate = source->gate;
        if (FLYRING_LIKELY(next >= end)) {
            store_release(gate, layout::NOT_GATING);  // done 5: after the handler; pairs with room 2b
            source = nullptr;
            return false;
        }
        position = next;
        if (attempts != first_attempts) {
            attempts = first_attempts;
            store_relaxed(attempts_beside(gate), attempts);  // the raised number was the last job's
        }
        store_release(gate, position);  // done 5; pairs with room 2b, adopt 2
        return true;
    }

  private:
    Prepared refuse(const char* why) noexcept {
        reason = why;
        return Prepared::bad;
    }

    /// Adopt 7: finds the next job of a batch whose bytes may change, and copies it.
    [[gnu::cold, gnu::noinline]] Prepared find_copy(JobRecord& job) noexcept {
        const Ring ring = source->ring;
        while (position < end) {
            const std::int64_t p = position;
            const std::int32_t length = load_acquire(ring.length_at(p));  // pairs with publish 6
            const std::int32_t type = load_relaxed(ring.type_at(p));
            const std::int64_t size = ring.align(length);
            const bool is_job = type > 0;
            const std::int32_t least = is_job ? source->least : static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH);
            const bool good = length >= least && size <= end - p && (p & ring.mask()) + size <= ring.capacity() &&
                              (is_job || type == layout::TYPE_PADDING || type == layout::TYPE_OWNER);
            if (good && is_job) {
                copy_job(copy.get(), ring.payload_at(p),
                         static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH);
            }
            if (is_lapped(ring, p)) break;  // it was done; the worker that passed it got the jobs behind it
            if (!good) {
                return refuse("the record of a job that was taken over was overwritten with something that is no job");
            }
            if (is_job) {
                job_end = p + size;
                return identify(job, copy.get(), length, type, p);
            }
            position = p + size;
        }
        job_end = end;
        return Prepared::none;
    }

    /// Fills in `job`, with the identity and attempts that a released job carries in its prefix (9).
    Prepared identify(JobRecord& job, const std::byte* payload, std::int32_t length, std::int32_t type,
                      std::int64_t from) noexcept {
        const std::size_t size = static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH;
        if (FLYRING_LIKELY(!source->returns)) {
            job = {payload, size, type, attempts, source->ring.index, from};
            return Prepared::job;
        }
        const std::int32_t ring = load_relaxed(word_at<std::int32_t>(payload, layout::RELEASED_ORIGIN_RING));
        const std::int32_t before = load_relaxed(word_at<std::int32_t>(payload, layout::RELEASED_ATTEMPTS));
        const std::int64_t origin = load_relaxed(word_at<std::int64_t>(payload, layout::RELEASED_ORIGIN_POSITION));
        if (ring < 0 || ring >= static_cast<std::int32_t>(source->ring.index) || !source->ring.is_position(origin)) {
            return refuse("a released job's origin is none");
        }
        job = {payload + layout::RELEASED_LENGTH,
               size - layout::RELEASED_LENGTH,
               type,
               more_attempts(std::max(before, 1), attempts),
               static_cast<std::uint32_t>(ring),
               origin};
        return Prepared::job;
    }

    /// The position of the batch's next job from `from` on, after padding; the batch's end if there is none.
    std::int64_t next_in_batch(std::int64_t from) const noexcept {
        const Ring ring = source->ring;
        while (from < end) {
            const std::int32_t length = load_acquire(ring.length_at(from));  // pairs with publish 6
            const std::int32_t type = load_relaxed(ring.type_at(from));
            if (type != layout::TYPE_PADDING && type != layout::TYPE_OWNER) return from;
            if (copied && is_lapped(ring, from)) return end;
            if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH)) return from;  // find reports it
            from += ring.align(length);
        }
        return end;
    }
};

}  // namespace flyring::detail
