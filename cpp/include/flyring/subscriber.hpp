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

/// A reader of chosen rings that loses nothing: publishers wait for it. From Channel::subscriber. For one thread at a
/// time. A moved-from object may only be destroyed or assigned to.
class Subscriber {
  public:
    /// Calls handler(const Message&) for up to `limit` messages. Returns how many. A message is valid until its handler
    /// returns; one whose handler throws counts as consumed, and the exception comes out here. Throws Closed, SlotLost,
    /// TwoThreads, CorruptRing (the other rings go on with the next poll), and now and then, when there was nothing for
    /// long, ChannelReplaced. (spec/channel.md 6.9)
    template <typename Handler>
    int poll(Handler&& handler, int limit = layout::DEFAULT_POLL_LIMIT) {
        return core_->poll(handler, limit);
    }

    /// The same; while there is nothing, it waits: until the time-out (then 0), a message, or one of the errors. A
    /// close by another thread ends it with Closed, an evict with SlotLost, another channel of this name with
    /// ChannelReplaced, each within 100 ms. InvalidArgument: a time-out below 0. (6.16)
    template <typename Handler>
    int poll(Handler&& handler, int limit, std::chrono::nanoseconds timeout) {
        return core_->poll(handler, limit, timeout);
    }

    /// The next message, with its own copy of the bytes; nothing if there is none. Throws as poll does.
    std::optional<OwnedMessage> take(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        std::optional<OwnedMessage> taken;
        poll([&](const Message& message) { taken.emplace(message); }, 1, timeout);
        return taken;
    }

    /// Whether the publisher of ring `ring` closed and everything of it was consumed; untrue again when the ring has a
    /// new publisher. Throws InvalidArgument if the ring was not chosen, Closed, SlotLost. (6.14)
    bool ended(std::uint32_t ring) const { return core_->ended(ring); }

    /// What was consumed of ring `ring`, bytes since its start. Throws InvalidArgument if the ring was not chosen.
    std::int64_t position(std::uint32_t ring) const { return core_->position(ring); }
    const std::vector<std::uint32_t>& rings() const noexcept { return core_->rings(); }
    std::uint32_t slot() const noexcept { return core_->slot(); }
    const std::string& name() const noexcept { return core_->name(); }
    /// Whether messages wait for this subscriber's name when it is gone.
    bool kept() const noexcept { return core_->kept(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }

    /// How long a wait looks before it sleeps; 20 microseconds. 0: it looks once. Throws
    /// InvalidArgument for less.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// Gives the slot back: a kept one stays where it is, any other stops gating. Does nothing if closed already.
    /// Throws ViewAlive from inside a handler.
    void close() {
        core_->state().close(*core_, [this] { core_->check_idle(); });
    }

    /// Closes, and gives up a kept slot for good. Throws as close does, and Closed, SlotLost.
    void forget() { core_->forget(); }

  private:
    friend class Channel;
    friend class WaitSet;
    explicit Subscriber(std::unique_ptr<detail::SubscriberCore> core) noexcept : core_(std::move(core)) {}

    std::unique_ptr<detail::SubscriberCore> core_;
};

}  // namespace flyring
