// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "flyring/detail/worker_core.hpp"
#include "flyring/job.hpp"

namespace flyring {

/// Takes the jobs of a queue: each goes to one worker, whichever is free. From Channel::worker. For one thread at a
/// time. A moved-from object may only be destroyed or assigned to.
class Worker {
  public:
    /// The next job; nothing if there is none until the time-out. It stays in hand until it is done or released. Throws
    /// ViewAlive (the last job of take is not finished), Closed, SlotLost, TwoThreads, CorruptRing (the other rings go
    /// on with the next one), ChannelReplaced, InvalidArgument (a time-out below 0). (spec/queue.md 3)
    std::optional<Job> take(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return core_->take(timeout);
    }

    /// Calls handler(Job&) for up to `limit` jobs, which it takes at once, as far as they lie within an eighth of the
    /// ring: so each waits for those before it. Returns how many were consumed. While there is none, it waits until the
    /// time-out. What its handler has not finished is done when that returns. A job whose handler throws is released,
    /// and the exception comes out here. An Action that the handler returns: CONTINUE, COMMIT: done; BREAK: done, and
    /// the poll ends; ABORT: released, and the poll ends: it does not count. A release that finds no room ends the
    /// poll. What was taken and not handed out comes with the next take or poll. Throws as take does, and
    /// InvalidArgument (the handler returned none of Action; the job is done).
    template <typename Handler>
    int poll(Handler&& handler, int limit = 1, std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return core_->poll(handler, limit, timeout);
    }

    /// From any thread: the worker hands out what it has taken already, and then nothing more: take returns nothing and
    /// poll 0, at once. Throws Closed, SlotLost.
    void drain() { core_->drain(); }

    /// Whether all producers have closed and every job is done. False before the first producer came. Throws Closed,
    /// SlotLost. (spec/queue.md 9)
    bool ended() const { return core_->ended(); }

    /// Of the subscriber slots.
    std::uint32_t slot() const noexcept { return core_->slot(); }
    const std::string& name() const noexcept { return core_->name(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }

    /// How long a wait looks before it sleeps; 20 microseconds. 0: it looks once. Throws InvalidArgument for less.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// Releases what is in hand and gives the slot back; what cannot be released goes to another worker all the same.
    /// Does nothing if closed already. Throws ViewAlive from inside a handler.
    void close() {
        core_->state().close(*core_, [this] { core_->check_idle(); });
    }

  private:
    friend class Channel;
    friend class WaitSet;
    explicit Worker(std::unique_ptr<detail::WorkerCore> core) noexcept : core_(std::move(core)) {}

    std::unique_ptr<detail::WorkerCore> core_;
};

}  // namespace flyring
