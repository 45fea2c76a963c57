// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "flyring/detail/server_core.hpp"
#include "flyring/request.hpp"

namespace flyring {

/// Answers the requests of a service; there is one at a time. From Channel::server. For one thread at a time, but
/// stop() and requests that were kept. A moved-from object may only be destroyed or assigned to.
class Server {
  public:
    /// How many requests have no final reply yet, and how many replies wait for room.
    struct Held {
        std::uint32_t in_hand;
        std::uint32_t waiting;
    };

    /// Calls handler(Request&) for up to `limit` requests. Returns how many. While there is none, it waits, until the
    /// time-out. What the handler throws ends that call with ServiceError, and the poll goes on. Throws Closed,
    /// SlotLost, TwoThreads, ChannelReplaced, InvalidArgument (a time-out below 0). (spec/service.md 5)
    template <typename Handler>
    int poll(Handler&& handler, int limit = layout::DEFAULT_POLL_LIMIT,
             std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return core_->poll(handler, limit, timeout);
    }

    /// Polls until stop(), or until another thread closes it. Throws as poll does.
    template <typename Handler>
    void serve(Handler&& handler) {
        core_->serve(handler);
    }
    /// Ends the serve that is under way, or the next one. From any thread.
    void stop() { core_->stop(); }

    Held held() const noexcept { return {core_->in_hand(), core_->waiting_replies()}; }
    /// Counts since the start: replies to clients that have gone, requests that came too late, requests to an earlier
    /// server, clients evicted for what they wrote.
    std::int64_t client_gone() const noexcept { return core_->counts().client_gone; }
    std::int64_t expired() const noexcept { return core_->counts().expired; }
    std::int64_t not_run() const noexcept { return core_->counts().not_run; }
    std::int64_t damaged() const noexcept { return core_->counts().damaged; }

    /// How long a wait looks before it sleeps; 20 microseconds. 0: it looks once. Throws InvalidArgument for less.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// Of the subscriber slots.
    std::uint32_t slot() const noexcept { return 0; }
    const std::string& name() const noexcept { return core_->name(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }
    /// The largest answer, bytes.
    std::size_t max_message_length() const noexcept { return core_->max_length(); }

    /// Gives the place back. Calls in hand end as *server gone*; at least once they go to the next server. Does nothing
    /// if closed already. Throws ViewAlive from inside a handler.
    void close() {
        core_->state().close(*core_, [this] { core_->check_idle(); });
    }

  private:
    friend class Channel;
    friend class WaitSet;
    explicit Server(std::unique_ptr<detail::ServerCore> core) noexcept : core_(std::move(core)) {}

    std::unique_ptr<detail::ServerCore> core_;
};

}  // namespace flyring
