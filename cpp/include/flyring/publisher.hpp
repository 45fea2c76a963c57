// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "flyring/claim.hpp"
#include "flyring/detail/publisher_core.hpp"
#include "flyring/holder.hpp"
#include "flyring/options.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace sbe {
template <typename T>
class TypedClaim;
}

/// offer returns it when subscribers have not made room yet.
inline constexpr std::int64_t back_pressured = layout::BACK_PRESSURED;

/// The one writer of one ring, from Channel::publisher. For one thread at a time. Everything throws Closed after close
/// and SlotLost if the slot was taken away; what is held back for a millisecond may throw ChannelReplaced; a moved-from
/// object may only be destroyed or assigned to.
class Publisher {
    using Core = detail::PublisherCore;

  public:
    /// Copies one message into the ring. `type`: left out, 1, or 65536 on a channel with a schema, which no message of
    /// that has. Returns the ring's new end position in bytes, or back_pressured. Throws MessageTooLarge,
    /// InvalidArgument (type below 1), ViewAlive (a claim is open), TwoThreads. (spec/channel.md 6.1)
    [[gnu::always_inline]] inline std::int64_t offer(Bytes message, std::int32_t type) {
        return core_->offer(message.data(), message.size(), type);
    }
    [[gnu::always_inline]] inline std::int64_t offer(Bytes message) {
        return core_->offer(message.data(), message.size(), Core::Raw{});
    }

    /// The same, but waits until there is room. Throws BackPressured at the time-out, InvalidArgument (a time-out below
    /// 0), else as offer does; a close by another thread ends the wait with Closed, within 100 ms. (6.16)
    std::int64_t send(Bytes message, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        return core_->send(message.data(), message.size(), type, timeout);
    }
    std::int64_t send(Bytes message, std::chrono::nanoseconds timeout = forever) {
        return send(message, core_->raw_type(), timeout);
    }

    /// Space for a message of `length` bytes to be written in place; waits until there is room. Until its commit or
    /// abort everything else on this publisher throws ViewAlive. Throws as send does.
    [[gnu::always_inline]] inline Claim claim(std::size_t length, std::int32_t type,
                                              std::chrono::nanoseconds timeout = forever) {
        return {*core_, length, type, timeout};
    }
    [[gnu::always_inline]] inline Claim claim(std::size_t length, std::chrono::nanoseconds timeout = forever) {
        return {*core_, length, Core::Raw{}, timeout};
    }

    /// The same, but an empty claim, which is false, if there is no room.
    [[gnu::always_inline]] inline Claim try_claim(std::size_t length, std::int32_t type) {
        return {*core_, length, type};
    }
    [[gnu::always_inline]] inline Claim try_claim(std::size_t length) { return {*core_, length, Core::Raw{}}; }

    /// Space for a message of the SBE codec T: an encoder over it, its header written. `variable_length`: bytes for
    /// groups and data. Throws as claim does. Include flyring/sbe.hpp. (spec/messages.md, part 3)
    template <typename T>
    [[gnu::always_inline]] inline sbe::TypedClaim<T> claim(std::size_t variable_length = 0,
                                                           std::chrono::nanoseconds timeout = forever);

    /// The same, but an empty claim, which is false, if there is no room.
    template <typename T>
    [[gnu::always_inline]] inline sbe::TypedClaim<T> try_claim(std::size_t variable_length = 0);

    /// Copies as many of the messages as there is room for, in order, all of type `type` (left out: as in offer).
    /// Returns how many. Throws as offer does; MessageTooLarge means that none was taken. (6.3)
    std::size_t offer_batch(span<const Bytes> messages, std::int32_t type) {
        return core_->offer_batch(messages, type);
    }
    std::size_t offer_batch(span<const Bytes> messages) { return offer_batch(messages, core_->raw_type()); }

    /// The same, but waits until there is room for all of them, or the time-out: returns how many were taken until
    /// then. What was taken before it throws stays published: position() says how far.
    std::size_t send_batch(span<const Bytes> messages, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        return core_->send_batch(messages, type, timeout);
    }
    std::size_t send_batch(span<const Bytes> messages, std::chrono::nanoseconds timeout = forever) {
        return send_batch(messages, core_->raw_type(), timeout);
    }

    /// Waits until every subscriber has read what was published: the gates of slots that somebody owns. A claim may be
    /// open meanwhile. Throws TimedOut, ChannelReplaced, else as offer does. (6.16)
    void flush(std::chrono::nanoseconds timeout = forever) { core_->flush(timeout); }

    /// How long a wait looks for room before it sleeps; 20 microseconds. 0: it looks once. Throws
    /// InvalidArgument for less.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// A hint, for the start of a handler that will answer through this publisher. Fetches the cache line in which the
    /// next message will start, which a waiting reader has taken: it is here when that message is written. No other
    /// process sees it. (spec/channel.md 6.1)
    [[gnu::always_inline]] inline void prefetch() const noexcept { core_->prefetch(); }

    /// The subscriber whose gate is furthest behind; nothing if none is gating.
    std::optional<Holder> held_by() { return core_->held_by(); }

    /// How many subscribers read this ring. Asks the kernel about each slot's lock: not for a hot path.
    std::uint32_t readers() { return core_->readers(); }

    /// End of what was published, bytes since the ring's start.
    std::int64_t position() const noexcept { return core_->position(); }
    std::uint32_t ring() const noexcept { return core_->ring(); }
    const std::string& name() const noexcept { return core_->name(); }
    /// How often the slot has been taken.
    std::int64_t epoch() const noexcept { return core_->epoch(); }
    /// The largest payload, bytes.
    std::size_t max_message_length() const noexcept { return core_->max_length(); }

    /// Aborts an open claim and gives the slot back. Does nothing if closed already. Throws TwoThreads.
    void close() {
        core_->state().close(*core_, [this] { core_->check_idle(); });
    }

  private:
    friend class Channel;
    friend class WaitSet;
    template <typename T>
    friend class sbe::TypedClaim;
    explicit Publisher(std::unique_ptr<Core> core) : core_(core.release()) {}

    std::unique_ptr<Core, Core::EndPublisher> core_;
};

}  // namespace flyring
