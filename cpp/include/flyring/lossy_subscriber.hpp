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

/// A reader of chosen rings that owns nothing and holds no publisher back: publishers may overwrite what it has not
/// read yet, and it counts what it lost. From Channel::lossy_subscriber, also of a read-only channel. For one thread at
/// a time. A moved-from object may only be destroyed or assigned to.
class LossySubscriber {
  public:
    /// Calls handler(const Message&) for up to `limit` messages, each a private copy that was whole when it was made.
    /// Returns how many. A message is valid until its handler returns; one whose handler throws counts as consumed, and
    /// the exception comes out here. Throws Closed, TwoThreads, CorruptRing (the other rings go on with the next poll),
    /// and now and then, when there was nothing for long, ChannelReplaced. (spec/channel.md 6.10)
    template <typename Handler>
    int poll(Handler&& handler, int limit = layout::DEFAULT_POLL_LIMIT) {
        return core_->poll(handler, limit);
    }

    /// The same; while there is nothing, it waits: until the time-out (then 0), a message, or one of the errors. A
    /// close by another thread ends it with Closed, another channel of this name with ChannelReplaced, each within 100
    /// ms. InvalidArgument: a time-out below 0. (6.16)
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

    /// How long a wait looks before it sleeps; 20 microseconds. 0: it looks once. Throws
    /// InvalidArgument for less.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// For experts: the next message where it lies, or nothing. It is not consumed, and its publisher may overwrite it
    /// while it is read: what was read counts only if valid() says so afterwards. Throws as poll does.
    std::optional<Message> peek() { return core_->peek(); }

    /// Whether the message peeked at was whole until now. True: it is consumed. False: the loss is counted, and reading
    /// goes on with what is published next. Throws InvalidArgument if nothing was peeked at since the last valid, poll
    /// or take; else as poll does.
    bool valid() { return core_->valid(); }

    /// Messages of ring `ring` that were overwritten before they were read, since the start. Throws InvalidArgument if
    /// the ring was not chosen.
    std::int64_t lost_messages(std::uint32_t ring) const { return core_->reader_of(ring).lost_messages; }
    /// Bytes of ring `ring` that were overwritten before they were read, since the start. Throws InvalidArgument if the
    /// ring was not chosen.
    std::int64_t lost_bytes(std::uint32_t ring) const { return core_->reader_of(ring).lost_bytes; }
    /// What was consumed or lost of ring `ring`, bytes since its start. Throws InvalidArgument if the ring was not
    /// chosen.
    std::int64_t position(std::uint32_t ring) const { return core_->reader_of(ring).cursor; }
    /// Whether the publisher of ring `ring` closed and everything of it was consumed or lost; untrue again when the
    /// ring has a new publisher. Throws InvalidArgument if the ring was not chosen, Closed. (6.14)
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
