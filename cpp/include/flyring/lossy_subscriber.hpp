// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "flyring/detail/lossy_core.hpp"
#include "flyring/message.hpp"

namespace flyring {

/// A reader of chosen rings that owns no slot and holds no publisher back. Publishers may overwrite what it has not
/// read yet; it counts what it lost. Made by Channel::lossy_subscriber, also from a read-only channel. Not thread-safe.
/// Concurrent use is detected on a best-effort basis and throws TwoThreads. A moved-from object may only be destroyed
/// or assigned to.
class LossySubscriber {
  public:
    /// Calls handler(const Message&) for up to `limit` messages and returns how many were consumed. Does not wait. Each
    /// message is a private copy, checked after copying, and valid until its handler returns. The handler may return an
    /// Action. If it throws, its message counts as consumed, and the exception leaves poll. Throws Closed, TwoThreads,
    /// CorruptRing (the other rings go on with the next poll). A long run of empty polls may throw ChannelReplaced.
    /// (spec/channel.md 6.10)
    template <typename Handler>
    int poll(Handler&& handler, int limit = layout::DEFAULT_POLL_LIMIT) {
        return core_->poll(handler, limit);
    }

    /// Like poll above, but waits for the first message until the time-out, then returns 0. A close by another thread
    /// ends the wait with Closed, another channel of this name with ChannelReplaced, each within 100 ms. Throws
    /// InvalidArgument for a time-out below 0. (spec/channel.md 6.16)
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

    /// Sets how long a wait spins before it sleeps; 20 microseconds by default. With 0 it sleeps at once. Throws
    /// InvalidArgument for a time below 0.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// For experts: a view of the next message in place, or nothing. Does not consume the message. Its publisher may
    /// overwrite the bytes while they are read: what was read counts only if valid() returns true afterwards. Throws as
    /// poll does.
    std::optional<Message> peek() { return core_->peek(); }

    /// Whether the message of the last peek was intact until now. True: the message is consumed. False: the loss is
    /// counted, and reading continues as after any loss. Throws InvalidArgument if there was no peek since the last
    /// valid, poll or take; otherwise as poll does.
    bool valid() { return core_->valid(); }

    /// How many messages of ring `ring` were overwritten before they were read, since this subscriber was made. Throws
    /// InvalidArgument if the ring was not chosen.
    std::int64_t lost_messages(std::uint32_t ring) const { return core_->reader_of(ring).lost_messages; }
    /// How many bytes of ring `ring` were overwritten before they were read, since this subscriber was made. Throws
    /// InvalidArgument if the ring was not chosen.
    std::int64_t lost_bytes(std::uint32_t ring) const { return core_->reader_of(ring).lost_bytes; }
    /// How far ring `ring` is read or lost, in bytes since the ring's creation. Throws InvalidArgument if the ring was
    /// not chosen.
    std::int64_t position(std::uint32_t ring) const { return core_->reader_of(ring).cursor; }
    /// Whether the publisher of ring `ring` has closed and all its messages are consumed or lost. Becomes false again
    /// when the ring gets a new publisher. Throws InvalidArgument if the ring was not chosen, Closed. (spec/channel.md
    /// 6.14)
    bool ended(std::uint32_t ring) const { return core_->ended(ring); }
    const std::vector<std::uint32_t>& rings() const noexcept { return core_->rings(); }

    /// Does nothing if closed already. Throws ViewAlive from inside a handler.
    void close() {
        core_->state().close(*core_, [this] { core_->check_idle(); });
    }

  private:
    friend class Channel;
    friend class WaitSet;
    explicit LossySubscriber(std::unique_ptr<detail::LossyCore> core) noexcept : core_(std::move(core)) {}

    std::unique_ptr<detail::LossyCore> core_;
};

}  // namespace flyring
