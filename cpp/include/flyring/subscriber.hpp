// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flyring/detail/subscriber_core.hpp"
#include "flyring/message.hpp"

namespace flyring {

/// A reader of chosen rings that loses nothing: publishers wait for it. Made by Channel::subscriber. Not thread-safe.
/// Concurrent use is detected on a best-effort basis and throws TwoThreads. A moved-from object may only be destroyed
/// or assigned to.
class Subscriber {
  public:
    /// Calls handler(const Message&) for up to `limit` messages and returns how many were consumed. Does not wait. A
    /// message is valid until its handler returns. The handler may return an Action. If it throws, its message counts
    /// as consumed, and the exception leaves poll. Throws Closed, SlotLost, TwoThreads, CorruptRing (the other rings go
    /// on with the next poll). A long run of empty polls may throw ChannelReplaced. (spec/channel.md 6.9)
    template <typename Handler>
    int poll(Handler&& handler, int limit = layout::DEFAULT_POLL_LIMIT) {
        return core_->poll(handler, limit);
    }

    /// Like poll above, but waits for the first message until the time-out, then returns 0. A close by another thread
    /// ends the wait with Closed, an evict with SlotLost, another channel of this name with ChannelReplaced, each
    /// within 100 ms. Throws InvalidArgument for a time-out below 0. (spec/channel.md 6.16)
    template <typename Handler>
    int poll(Handler&& handler, int limit, std::chrono::nanoseconds timeout) {
        return core_->poll(handler, limit, timeout);
    }

    /// The next message, with its own copy of the bytes; empty if there is none at the time-out. Throws as poll does.
    std::optional<OwnedMessage> take(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        std::optional<OwnedMessage> taken;
        poll([&](const Message& message) { taken.emplace(message); }, 1, timeout);
        return taken;
    }

    /// Whether the publisher of ring `ring` has closed and all its messages are consumed. Becomes false again when the
    /// ring gets a new publisher. Throws InvalidArgument if the ring was not chosen, Closed, SlotLost. (spec/channel.md
    /// 6.14)
    bool ended(std::uint32_t ring) const { return core_->ended(ring); }

    /// How far this subscriber has read ring `ring`, in bytes since the ring's creation. Throws InvalidArgument if the
    /// ring was not chosen.
    std::int64_t position(std::uint32_t ring) const { return core_->position(ring); }
    const std::vector<std::uint32_t>& rings() const noexcept { return core_->rings(); }
    std::uint32_t slot() const noexcept { return core_->slot(); }
    const std::string& name() const noexcept { return core_->name(); }
    /// Whether the slot is kept: messages wait for the slot's next owner after this subscriber has gone.
    bool kept() const noexcept { return core_->kept(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }

    /// Sets how long a wait spins before it sleeps; 20 microseconds by default. With 0 it sleeps at once. Throws
    /// InvalidArgument for a time below 0.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// Gives the slot back. A kept slot keeps its position; any other stops holding publishers back. Does nothing if
    /// closed already. Throws ViewAlive from inside a handler.
    void close() {
        core_->state().close(*core_, [this] { core_->check_idle(); });
    }

    /// Closes, and ends the keeping of a kept slot. Throws as close does, also Closed, SlotLost.
    void forget() { core_->forget(); }

  private:
    friend class Channel;
    friend class WaitSet;
    explicit Subscriber(std::unique_ptr<detail::SubscriberCore> core) noexcept : core_(std::move(core)) {}

    std::unique_ptr<detail::SubscriberCore> core_;
};

}  // namespace flyring
