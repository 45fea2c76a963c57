// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "flyring/detail/server_core.hpp"
#include "flyring/request.hpp"

namespace flyring {

/// Answers the requests of a service; a service has one server at a time. Made by Channel::server. Not thread-safe,
/// except stop() and kept requests. Other concurrent use is detected on a best-effort basis and throws TwoThreads. A
/// moved-from object may only be destroyed or assigned to.
class Server {
  public:
    /// The number of requests without a final reply, and the number of replies that wait for room.
    struct Held {
        std::uint32_t in_hand;
        std::uint32_t waiting;
    };

    /// Calls handler(Request&) for up to `limit` requests and returns how many. Waits for the first request until the
    /// time-out. With limit 0 it only sends replies that waited for room. If the handler throws, that call ends with
    /// ServiceError, and the poll goes on. Throws Closed, SlotLost, TwoThreads, ChannelReplaced, InvalidArgument (a
    /// time-out below 0). (spec/service.md 5)
    template <typename Handler>
    int poll(Handler&& handler, int limit = layout::DEFAULT_POLL_LIMIT,
             std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return core_->poll(handler, limit, timeout);
    }

    /// Polls until stop(), or until another thread closes the server. Throws as poll does.
    template <typename Handler>
    void serve(Handler&& handler) {
        core_->serve(handler);
    }
    /// Ends the current serve, or the next one. May be called by any thread.
    void stop() { core_->stop(); }

    Held held() const noexcept { return {core_->in_hand(), core_->waiting_replies()}; }

    // Counts since this server was made.

    /// The number of replies that were dropped because their client was gone.
    std::int64_t client_gone() const noexcept { return core_->counts().client_gone; }
    /// The number of requests that came after their deadline.
    std::int64_t expired() const noexcept { return core_->counts().expired; }
    /// The number of requests that were not run because they were addressed to an earlier server.
    std::int64_t not_run() const noexcept { return core_->counts().not_run; }
    /// The number of clients that were evicted because their ring was damaged.
    std::int64_t damaged() const noexcept { return core_->counts().damaged; }

    /// Sets how long a wait spins before it sleeps; 20 microseconds by default. With 0 it sleeps at once. Throws
    /// InvalidArgument for a time below 0.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// The number of the server's subscriber slot, always 0.
    std::uint32_t slot() const noexcept { return 0; }
    const std::string& name() const noexcept { return core_->name(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }
    /// The largest answer payload, in bytes.
    std::size_t max_message_length() const noexcept { return core_->max_length(); }

    /// Gives the server's place back. Calls in hand end with ServerGone; with at-least-once delivery they go to the
    /// next server. Does nothing if closed already. Throws ViewAlive from inside a handler.
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
