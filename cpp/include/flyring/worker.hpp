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

/// Takes jobs from a queue. Each job goes to one free worker, and to another one if that worker dies or gives it back.
/// Made by Channel::worker. Not thread-safe, except drain(). Other concurrent use is detected on a best-effort basis
/// and throws TwoThreads. A moved-from object may only be destroyed or assigned to.
class Worker {
  public:
    /// Takes the next job; empty if there is none at the time-out. The job stays in hand until it is done or released.
    /// Throws ViewAlive (the job of the last take is not finished), Closed, SlotLost, TwoThreads, CorruptRing (the
    /// other rings go on with the next call), ChannelReplaced, InvalidArgument (a time-out below 0). (spec/queue.md 3)
    std::optional<Job> take(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return core_->take(timeout);
    }

    /// Calls handler(Job&) for up to `limit` jobs and returns how many were consumed. Waits for the first job until the
    /// time-out.
    /// All jobs of a poll are taken before the first is handled, as far as they lie within an eighth of the ring. So
    /// each job waits for those before it. If the handler returns without finishing its job, the job is done. If it
    /// throws, the job is released, and the exception leaves poll. Jobs that were taken and not handed out come with
    /// the next take or poll.
    /// The handler may return an Action. CONTINUE and COMMIT: the job is done. BREAK: the job is done, and the poll
    /// ends. ABORT: the job is released and does not count, and the poll ends. A release that finds no room ends the
    /// poll, too.
    /// Throws as take does, and InvalidArgument if the handler returns an invalid Action; that job is done.
    template <typename Handler>
    int poll(Handler&& handler, int limit = 1, std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return core_->poll(handler, limit, timeout);
    }

    /// Makes the worker hand out the jobs that it has taken already, and no others: from then on take returns nothing
    /// and poll returns 0, at once. May be called by any thread. Throws Closed. (spec/queue.md 7)
    void drain() { core_->drain(); }

    /// Whether all producers have closed and every job is done. False before the first producer comes. Throws Closed,
    /// SlotLost. (spec/queue.md 9)
    bool ended() const { return core_->ended(); }

    /// The number of the worker's subscriber slot.
    std::uint32_t slot() const noexcept { return core_->slot(); }
    const std::string& name() const noexcept { return core_->name(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }

    /// Sets how long a wait spins before it sleeps; 20 microseconds by default. With 0 it sleeps at once. Throws
    /// InvalidArgument for a time below 0.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// Releases the jobs in hand and gives the slot back. Another worker adopts a job that cannot be released. Does
    /// nothing if closed already. Throws ViewAlive from inside a handler.
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
