// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "flyring/detail/adopt.hpp"
#include "flyring/detail/file.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/ring_writer.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/waiting.hpp"

// Releasing a job: it is copied to the end of the returns ring, for any worker (spec/queue.md 8).

namespace flyring::detail {

/// Copies exactly `length` bytes of a payload. Relaxed, because a producer may be writing there.
inline void copy_job(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    std::size_t at = 0;
    for (; at + sizeof(std::uint64_t) <= length; at += sizeof(std::uint64_t)) {
        put(to + at, load_relaxed(word_at<std::uint64_t>(from, at)));
    }
    for (; at < length; ++at) to[at] = static_cast<std::byte>(load_relaxed(word_at<std::uint8_t>(from, at)));
}

/// The parts of one job, as a worker hands it out.
struct JobRecord {
    const std::byte* payload = nullptr;
    std::size_t size = 0;
    std::int32_t type = 0;
    std::int32_t attempts = 0;
    std::uint32_t ring = 0;     // ring of the first publication
    std::int64_t position = 0;  // position of the first publication
};

/// The result of a release.
enum class Released {
    yes,
    no,    // no room, or another worker is releasing: the job stays in hand
    lost,  // the slot is lost: the job belongs to another worker
};

/// The writer of the returns ring during one release. Each worker owns such an object.
class Returns {
  public:
    Returns() noexcept = default;
    explicit Returns(const ChannelFile& file) noexcept {
        const std::uint32_t last = file.header.publishers - 1;
        writer_.ring = file.ring(last);
        writer_.owner_pending = false;  // the returns ring has no owner records
        // Nothing is cleared ahead, so that the next release has nothing to recover.
        writer_.window = 0;
        writer_.subscribers = file.header.subscribers;
        writer_.handovers = file.handovers();
        writer_.max_payload = writer_.ring.capacity() / layout::MAX_MESSAGE_DIVISOR - layout::RECORD_HEADER_LENGTH;
        writer_.lag = writer_.ring.capacity();
        lock_ = file.publisher_lock(last);
    }

    /// Copies the job to the end of the returns ring (release 1 to 5). The caller then does `done` for the original.
    /// `description` is the open file description through which the worker holds its slot's lock; no two workers
    /// share one. lost() returns whether the worker's epoch has changed. Throws CorruptRing.
    template <typename Lost>
    Released release(const std::string& path, const Fd& description, const JobRecord& job, Lost&& lost) {
        if (try_lock_byte(description, lock_) != 0) return Released::no;  // release 1
        const SlotGuard guard(description, lock_);
        const Counted found = recover(writer_.ring, path);  // release 2: in case the last owner died
        writer_.end = writer_.cleared = found.position;
        writer_.count = found.count;
        writer_.set_next_boundary();
        writer_.set_fast_end();
        const std::size_t length = layout::RELEASED_LENGTH + job.size;
        const std::uint64_t size = writer_.size_of(length);
        if (length > writer_.max_payload) return Released::no;  // only a hostile record is so long
        if (size > writer_.to_ring_end()) {
            if (!find_room(writer_.to_ring_end())) return Released::no;
            writer_.pad();
        }
        if (!find_room(size)) return Released::no;
        writer_.announce(static_cast<std::int64_t>(writer_.end_of(length)));
        std::byte* const to = writer_.ring.payload_at(writer_.end);
        put(to + layout::RELEASED_ORIGIN_RING, static_cast<std::int32_t>(job.ring));  // release 3
        put(to + layout::RELEASED_ATTEMPTS, more_attempts(job.attempts, 1));
        put(to + layout::RELEASED_ORIGIN_POSITION, job.position);
        copy_job(to + layout::RELEASED_LENGTH, job.payload, job.size);
        acquire_fence();  // release 4: after the copy; pairs with evict, which raises the epoch before an overwrite
        const bool gone = lost();
        RingWriter::set_type(writer_.ring, writer_.end, gone ? layout::TYPE_PADDING : job.type);
        RingWriter::commit(to, length + layout::RECORD_HEADER_LENGTH);  // release 5
        writer_.advance(writer_.ring, static_cast<std::int64_t>(writer_.end_of(length)),
                        gone ? writer_.count : wrapping_add(writer_.count, 1));
        return gone ? Released::lost : Released::yes;
    }

    std::uint32_t ring() const noexcept { return writer_.ring.index; }

  private:
    /// Release 2: never waits, because the workers that would make room may be waiting for this one.
    bool find_room(std::uint64_t size) noexcept {
        if (writer_.needed(size) >= static_cast<std::uint64_t>(layout::MAX_POSITION)) return false;
        if (!writer_.has_room(size)) writer_.recompute();
        return writer_.has_room(size);
    }

    RingWriter writer_;
    std::uint64_t lock_ = 0;
};

}  // namespace flyring::detail
