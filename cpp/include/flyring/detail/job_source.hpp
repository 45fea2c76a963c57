// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "flyring/detail/adopt.hpp"
#include "flyring/detail/readers.hpp"
#include "flyring/detail/ring.hpp"

// One ring of a queue, as a worker takes jobs from it (spec/queue.md 3). A comment like "take 2" names a step there;
// "publish 6" is a step of spec/channel.md 6.1.

namespace flyring::detail {

/// The result of looking for jobs in a ring.
enum class Found {
    nothing,
    jobs,
    bad,  // the record is invalid; the caller throws
};

struct JobSource {
    Ring ring;             // read-only
    std::int64_t* shared;  // gate[0]
    std::int64_t* gate;    // this worker's gate
    std::int32_t least;    // the shortest valid record of a job; includes the prefix that the returns ring adds
    bool returns;          // whether this is the returns ring
    bool corrupt;          // an invalid record was found, so the ring is skipped

    /// The most attempts of one take(). An attempt fails at padding, or if another worker takes the job.
    static constexpr int tries = layout::LOSSY_TRIES;

    JobSource(const Ring& readable, std::int64_t* shared_gate, std::int64_t* own_gate, bool returns_ring) noexcept
        : ring(readable),
          shared(shared_gate),
          gate(own_gate),
          least(static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH + (returns_ring ? layout::RELEASED_LENGTH : 0))),
          returns(returns_ring),
          corrupt(false) {}

    /// Whether there may be a job, or an error to report.
    bool is_ready() const noexcept {
        if (corrupt) return false;
        const std::int64_t p = load_acquire(shared);                         // take 1; pairs with take 3
        return !ring.is_position(p) || load_acquire(ring.length_at(p)) > 0;  // pairs with publish 6
    }

    /// Takes up to `limit` jobs (take 1 to 3), and sets `position` and `end` to where they lie. On `bad`, `reason` says
    /// what is wrong at `position`. Calls made_room(), which wakes producers, where it frees space without a job.
    template <typename MadeRoom>
    [[gnu::always_inline]] inline Found take(int limit, std::int64_t& position, std::int64_t& end, const char*& reason,
                                             MadeRoom&& made_room) const {
        std::int64_t passed = 0;
        for (int attempt = 0; attempt < tries; ++attempt) {
            // Take 1, before the look at the record; pairs with take 3.
            const std::int64_t p = position = load_acquire(shared);
            if (FLYRING_UNLIKELY(!ring.is_position(p))) {
                if (is_refused(p, reason, "gate[0] is no position")) return Found::bad;
                continue;
            }
            const std::int32_t length = load_acquire(ring.length_at(p));  // take 1; pairs with publish 6
            if (length <= 0) return Found::nothing;
            const std::int64_t size = ring.align(length);
            const std::int32_t type = load_relaxed(ring.type_at(p));
            if (FLYRING_UNLIKELY(length < least || type <= 0 || (p & ring.mask()) + size > ring.capacity())) {
                if (const char* wrong = what_is_wrong(p, length, type)) {
                    if (is_refused(p, reason, wrong)) return Found::bad;
                    continue;
                }
                // Take 1: a plain store could move gate[0] back over jobs that others took meanwhile.
                if (!exchange_gate(shared, p, p + size)) continue;
                made_room();
                passed += size;
                if (passed >= ring.capacity()) return Found::nothing;  // a hostile ring may hold nothing but padding
                continue;
            }
            const std::int64_t e = limit == 1 ? p + size : end_of_batch(p, p + size, limit);
            store_relaxed(attempts_beside(gate), 0);   // take 2: not the number of an earlier job
            store_release(taken_end_beside(gate), e);  // take 2; pairs with adopt 2
            store_release(gate, p);                    // take 2; pairs with room 2b, adopt 2
            // Take 3; pairs with take 1, room 2b, adopt 2: a process that sees gate[0] after the job sees the stores
            // above.
            if (FLYRING_LIKELY(exchange_gate(shared, p, e))) {
                end = e;
                return Found::jobs;
            }
            store_release(gate, layout::NOT_GATING);  // take 3: withdraws the announcement before the next one
            made_room();
        }
        return Found::nothing;
    }

  private:
    /// Why the record is invalid; null if it is padding or an owner record.
    [[gnu::cold, gnu::noinline]] const char* what_is_wrong(std::int64_t position, std::int32_t length,
                                                           std::int32_t type) const noexcept {
        if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) ||
            (position & ring.mask()) + ring.align(length) > ring.capacity()) {
            return "a record's length is out of range";
        }
        if (type > 0) return "a released job has no origin";
        return type == layout::TYPE_PADDING || type == layout::TYPE_OWNER ? nullptr : "a record has an unknown type";
    }

    /// Returns whether the record is really invalid, and sets `reason` (take 1). False: another worker took the job
    /// meanwhile, and a producer wrote over its place.
    [[gnu::cold, gnu::noinline]] bool is_refused(std::int64_t position, const char*& reason,
                                                 const char* wrong) const noexcept {
        acquire_fence();  // the loads of the record come before this one of gate[0]
        reason = wrong;
        return load_acquire(shared) == position;
    }

    /// The end of a batch of up to `limit` jobs from `position` on, the first of which ends at `end`. They lie directly
    /// behind one another, and end within an eighth of the ring, except a single longer job.
    std::int64_t end_of_batch(std::int64_t position, std::int64_t end, int limit) const noexcept {
        const Ring words = ring;
        const std::int64_t lap_end = (position | words.mask()) + 1;
        const std::int64_t eighth = position + words.capacity() / static_cast<std::int64_t>(layout::BATCH_DIVISOR);
        const std::int64_t last = eighth < lap_end ? eighth : lap_end;
        std::int64_t stride = end - position;
        for (int jobs = 1; jobs < limit && end < last; ++jobs) {
            const std::int32_t length = load_acquire(words.length_at(end));  // pairs with publish 6
            const std::int32_t type = load_relaxed(words.type_at(end));
            const std::int64_t next = next_record(end, words.align(length), stride);
            // No record, or not a job. An invalid record is reported by the take that begins with it.
            if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) || next > last || type <= 0) break;
            end = next;
        }
        return end;
    }
};

}  // namespace flyring::detail
