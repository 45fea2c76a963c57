// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "flyring/answer.hpp"
#include "flyring/call.hpp"
#include "flyring/detail/client_core.hpp"
#include "flyring/detail/encoder.hpp"
#include "flyring/span.hpp"

namespace flyring {

/// The server that lives: from Client::server.
struct ServerInfo {
    std::string name;
    std::int64_t epoch;
};

/// Calls the server of a service. From Channel::client. For one thread at a time. A moved-from object may only be
/// destroyed or assigned to.
class Client {
  public:
    /// Is called with a call that got an item, once for each, and when it has ended. In the client's verbs; it may
    /// start calls, but not wait. What it throws comes out of the verb.
    using Callback = std::function<void(Call&)>;

    /// The answer. Waits for a server, for room, and for the answer. `type`: left out, 1, or 65536 on a channel with a
    /// schema. `timeout`: the request's deadline. Throws ServiceError, Expired, ServerGone (how the call ended); Busy,
    /// MessageTooLarge, InvalidArgument, TwoThreads (it was not made); Closed, SlotLost, CorruptRing, and
    /// ChannelReplaced: it may go on, but nobody waits for it. (spec/service.md 6)
    Answer call(Bytes request, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        Answer answer;
        core_->call(request, type, timeout, answer);
        return answer;
    }
    Answer call(Bytes request, std::chrono::nanoseconds timeout = forever) {
        return call(request, core_->raw_type(), timeout);
    }
    /// The same, for a message in an encoder of sbe-tool's, which wrapAndApplyHeader was called on. (spec/messages.md)
    template <typename T, detail::IfEncoder<T> = 0>
    Answer call(const T& request, std::chrono::nanoseconds timeout = forever) {
        return call(detail::encoded(request), detail::type_of<T>, timeout);
    }
    /// The same; uses the memory that `into` has: then long answers take none from the heap either.
    void call_into(Answer& into, Bytes request, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        core_->call(request, type, timeout, into);
    }

    /// Publishes a request, waiting as call does if there is no server or no room; does not wait for the answer. Throws
    /// Expired (nothing was published), else as call does.
    Call start(Bytes request, std::int32_t type, std::chrono::nanoseconds timeout = forever, Callback callback = {}) {
        return Call(core_->start(request, type, timeout, 0, std::move(callback)));
    }
    Call start(Bytes request, std::chrono::nanoseconds timeout = forever, Callback callback = {}) {
        return start(request, core_->raw_type(), timeout, std::move(callback));
    }

    template <typename T, detail::IfEncoder<T> = 0>
    Call start(const T& request, std::chrono::nanoseconds timeout = forever, Callback callback = {}) {
        return start(detail::encoded(request), detail::type_of<T>, timeout, std::move(callback));
    }

    /// The same, for a request that is answered by a sequence of items: Call::next. `credit`: how many may lie between
    /// the server and the one who reads them, 1 to 65535. Throws InvalidArgument (credit) also at least once.
    /// (spec/service.md 7)
    Call stream(Bytes request, std::int32_t type, std::uint32_t credit = 64, std::chrono::nanoseconds timeout = forever,
                Callback callback = {}) {
        if (credit == 0) throw InvalidArgument("credit", "it must be 1 to 65535");
        return Call(core_->start(request, type, timeout, credit, std::move(callback)));
    }

    template <typename T, detail::IfEncoder<T> = 0>
    Call stream(const T& request, std::uint32_t credit = 64, std::chrono::nanoseconds timeout = forever,
                Callback callback = {}) {
        return stream(detail::encoded(request), detail::type_of<T>, credit, timeout, std::move(callback));
    }

    /// Takes replies, ends calls, runs callbacks, notices that the server has gone. While nothing happens, it waits.
    /// Returns how many calls ended, or got an item. Throws Closed, SlotLost, CorruptRing, ChannelReplaced, TwoThreads,
    /// InvalidArgument (a time-out below 0).
    int poll(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) { return core_->poll(timeout); }

    /// Calls under way, those that expired or were cancelled included until the server answered them.
    std::uint32_t outstanding() const noexcept { return core_->outstanding(); }
    /// Replies that nobody waited for any more.
    std::int64_t late() const noexcept { return core_->late(); }
    /// The server that lives. Asks the kernel about a lock: not for a hot path.
    std::optional<ServerInfo> server() {
        auto found = core_->server();
        if (!found) return std::nullopt;
        return ServerInfo{std::move(found->first), found->second};
    }

    /// How long a wait looks before it sleeps; 20 microseconds. 0: it looks once. Throws InvalidArgument for less.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// Of the clients, from 0.
    std::uint32_t number() const noexcept { return core_->number(); }
    /// Of the subscriber slots.
    std::uint32_t slot() const noexcept { return core_->slot(); }
    const std::string& name() const noexcept { return core_->name(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }
    /// The largest request, bytes.
    std::size_t max_message_length() const noexcept { return core_->max_length(); }

    /// Gives the place back. Calls under way end as closed; what was published is run all the same. Does nothing if
    /// closed already. Throws ViewAlive from inside a callback.
    void close() {
        core_->state().close(*core_, [this] { core_->check_idle(); });
        core_->tell_rest();
    }

  private:
    friend class Channel;
    friend class WaitSet;
    explicit Client(std::unique_ptr<detail::ClientCore> core) noexcept : core_(std::move(core)) {}

    std::unique_ptr<detail::ClientCore> core_;
};

}  // namespace flyring
