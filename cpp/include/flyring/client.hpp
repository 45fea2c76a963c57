// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "flyring/answer.hpp"
#include "flyring/call.hpp"
#include "flyring/detail/client_core.hpp"
#include "flyring/detail/encoder.hpp"
#include "flyring/span.hpp"

namespace flyring {

/// The live server of a service, as Client::server returns it.
struct ServerInfo {
    std::string name;
    std::int64_t epoch;
};

/// Calls the server of a service. Made by Channel::client. Not thread-safe. Concurrent use is detected on a best-effort
/// basis and throws TwoThreads. A moved-from object may only be destroyed or assigned to.
class Client {
  public:
    /// Runs inside the client's verbs: once for each item that a call gets, and once when the call has ended. It may
    /// start calls, but must not wait. An exception from it leaves the verb.
    using Callback = std::function<void(Call&)>;

    /// Whether an F can be the callback of a call.
    template <typename F>
    using IfCallback = std::enable_if_t<std::is_constructible_v<Callback, F>, int>;

    /// Calls the server and returns its answer; waits for a server, for room, and for the answer. `type` is the
    /// message's type: by default 1, or 65536 on a channel with a schema. `timeout` limits the whole call. If the call
    /// ends without an answer, throws ServiceError, Expired or ServerGone. If the call was not made, throws Busy,
    /// MessageTooLarge, InvalidArgument or TwoThreads. After Closed, SlotLost, CorruptRing or ChannelReplaced the
    /// server may still run the request, but its answer is dropped. (spec/service.md 6)
    Answer call(Bytes request, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        Answer answer;
        core_->call(request, type, timeout, answer);
        return answer;
    }
    Answer call(Bytes request, std::chrono::nanoseconds timeout = forever) {
        return call(request, core_->raw_type(), timeout);
    }
    /// The same for an SBE message: `request` is an encoder that sbe-tool generated, after its wrapAndApplyHeader.
    /// (spec/messages.md)
    template <typename T, detail::IfEncoder<T> = 0>
    Answer call(const T& request, std::chrono::nanoseconds timeout = forever) {
        return call(detail::encoded(request), detail::type_of<T>, timeout);
    }
    /// The same, into an existing object. Reuses the memory of `into`, so that long answers need no heap allocation
    /// either.
    void call_into(Answer& into, Bytes request, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        core_->call(request, type, timeout, into);
    }

    /// Publishes a request and returns without waiting for the answer. Like call, it waits for a server and for room.
    /// Throws Expired (nothing was published), otherwise as call does.
    template <typename F = std::nullptr_t, IfCallback<F> = 0>
    Call start(Bytes request, std::int32_t type, std::chrono::nanoseconds timeout = forever, F&& callback = {}) {
        return Call(core_->start(request, type, timeout, 0, std::forward<F>(callback)));
    }
    template <typename F = std::nullptr_t, IfCallback<F> = 0>
    Call start(Bytes request, std::chrono::nanoseconds timeout = forever, F&& callback = {}) {
        return start(request, core_->raw_type(), timeout, std::forward<F>(callback));
    }

    template <typename T, typename F = std::nullptr_t, detail::IfEncoder<T> = 0, IfCallback<F> = 0>
    Call start(const T& request, std::chrono::nanoseconds timeout = forever, F&& callback = {}) {
        return start(detail::encoded(request), detail::type_of<T>, timeout, std::forward<F>(callback));
    }

    /// Like start, for a request that is answered by a sequence of items: see Call::next. `credit`: how many items the
    /// server may send ahead of the reader, 1 to 65535. With at-least-once delivery it throws InvalidArgument (credit).
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

    /// Takes replies, ends calls, runs callbacks, and detects a server that is gone. Waits until something happens or
    /// the time-out passes. Returns how many calls ended, or got an item. Throws Closed, SlotLost, CorruptRing,
    /// ChannelReplaced, TwoThreads, InvalidArgument (a time-out below 0).
    int poll(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) { return core_->poll(timeout); }

    /// The number of calls under way. Calls that expired or were cancelled count until the server answers them.
    std::uint32_t outstanding() const noexcept { return core_->outstanding(); }
    /// The number of replies that came after their call had ended.
    std::int64_t late() const noexcept { return core_->late(); }
    /// The live server; empty if there is none. Makes a system call to test a lock: not for a hot path.
    std::optional<ServerInfo> server() {
        auto found = core_->server();
        if (!found) return std::nullopt;
        return ServerInfo{std::move(found->first), found->second};
    }

    /// Sets how long a wait spins before it sleeps; 20 microseconds by default. With 0 it sleeps at once. Throws
    /// InvalidArgument for a time below 0.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// The client's number, from 0.
    std::uint32_t number() const noexcept { return core_->number(); }
    /// The number of the client's subscriber slot.
    std::uint32_t slot() const noexcept { return core_->slot(); }
    const std::string& name() const noexcept { return core_->name(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }
    /// The largest request payload, in bytes.
    std::size_t max_message_length() const noexcept { return core_->max_length(); }

    /// Gives the client's place back. Calls under way end as closed; the server still runs requests that were
    /// published. Does nothing if closed already. Throws ViewAlive from inside a callback.
    void close() {
        const bool waited = core_->state().close(*core_, [this] { core_->check_idle(); });
        if (!waited) core_->tell_rest();  // otherwise the thread that waits does, which uses the calls
    }

  private:
    friend class Channel;
    friend class WaitSet;
    explicit Client(std::unique_ptr<detail::ClientCore> core) noexcept : core_(std::move(core)) {}

    std::unique_ptr<detail::ClientCore> core_;
};

}  // namespace flyring
