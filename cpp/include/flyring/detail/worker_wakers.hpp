// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "flyring/detail/file.hpp"
#include "flyring/detail/waiting.hpp"

// The wakes that a worker owes to other processes (spec/queue.md 3, 8 and 10).

namespace flyring::detail {

class WorkerWakers {
  public:
    WorkerWakers() noexcept = default;
    explicit WorkerWakers(const ChannelFile& file) noexcept
        : room_(file.room(), file.wakes), jobs_(file.jobs(), file.wakes), data_(file.data(), file.wakes) {}

    /// Wakes producers after a gate of the ring has moved, as poll 6 does.
    void made_room(std::uint32_t ring) const noexcept {
        if (room_.is_due()) room_.wake(waiting_bit(ring));
    }
    /// Wakes a worker and readers after a job was put on the returns ring, as a publish does.
    void released(std::uint32_t ring) const noexcept {
        if (jobs_.is_due()) jobs_.wake_one();
        if (data_.is_due()) data_.wake(waiting_bit(ring));
    }

    /// Does steps 2 and 3 of a sleep (channel.md 6.16) again, after this worker was woken. So the next publish wakes
    /// another worker. From then on this worker owes one wake.
    void say_asleep(const WaitingWords& words) noexcept {
        __atomic_fetch_or(words.asleep, layout::JOBS_BIT, __ATOMIC_RELAXED);
        reach_wakers();
        owes_ = true;
    }
    /// Whether this worker was woken and still owes another worker a wake.
    bool owes() const noexcept { return owes_; }
    /// Pays the wake that is owed, after this worker's own take: wakes one more worker if there() finds another job.
    template <typename There>
    void wake_one_more(There&& there) noexcept {
        owes_ = false;
        if (jobs_.is_due() && there()) jobs_.wake_one();
    }

  private:
    Waker room_;
    Waker jobs_;
    Waker data_;
    bool owes_ = false;
};

}  // namespace flyring::detail
