// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "flyring/detail/file.hpp"
#include "flyring/detail/waiting.hpp"

// Whom a worker wakes (spec/queue.md 3, 8 and 10).

namespace flyring::detail {

class WorkerWakers {
  public:
    WorkerWakers() noexcept = default;
    explicit WorkerWakers(const ChannelFile& file) noexcept
        : room_(file.room(), file.wakes), jobs_(file.jobs(), file.wakes), data_(file.data(), file.wakes) {}

    /// What a change of a gate leaves for producers: as poll 6.
    void made_room(std::uint32_t ring) const noexcept {
        if (room_.is_due()) room_.wake(waiting_bit(ring));
    }
    /// A job lies on the returns ring: as a publish.
    void released(std::uint32_t ring) const noexcept {
        if (jobs_.is_due()) jobs_.wake_one();
        if (data_.is_due()) data_.wake(waiting_bit(ring));
    }

    /// Sleep 2 and 3 again, of one that was woken: so the next publish wakes another. It then owes one a wake.
    void say_asleep(const WaitingWords& words) noexcept {
        __atomic_fetch_or(words.asleep, layout::JOBS_BIT, __ATOMIC_RELAXED);
        reach_wakers();
        owes_ = true;
    }
    /// Whether it was woken, and has not woken one more since.
    bool owes() const noexcept { return owes_; }
    /// Behind it, and behind this worker's own take. `there()`: whether another job is.
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
