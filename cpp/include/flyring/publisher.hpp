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

/// The value that offer returns when the ring has no room.
inline constexpr std::int64_t back_pressured = layout::BACK_PRESSURED;

/// The one writer of one ring, made by Channel::publisher. Not thread-safe. Concurrent use is detected on a best-effort
/// basis and throws TwoThreads. After close, every verb throws Closed; if the slot was taken away, SlotLost. A verb
/// that finds no room for a millisecond may throw ChannelReplaced. A moved-from object may only be destroyed or
/// assigned to.
class Publisher {
    using Core = detail::PublisherCore;

  public:
    /// Copies one message into the ring. `type` is the message's type: by default 1, or on a channel with a schema
    /// 65536, which no message of a schema has. Returns the ring's new end position in bytes, or back_pressured if
    /// there is no room. Throws MessageTooLarge, InvalidArgument (type below 1), ViewAlive (a claim is open),
    /// TwoThreads. (spec/channel.md 6.1)
    [[gnu::always_inline]] inline std::int64_t offer(Bytes message, std::int32_t type) {
        return core_->offer(message.data(), message.size(), type);
    }
    [[gnu::always_inline]] inline std::int64_t offer(Bytes message) {
        return core_->offer(message.data(), message.size(), Core::Raw{});
    }

    /// Like offer, but waits for room. Throws BackPressured at the time-out, InvalidArgument (a time-out below 0), Busy
    /// (in a queue: only the calling thread itself could make room), otherwise as offer does. A close by another thread
    /// ends the wait with Closed within 100 ms. (spec/channel.md 6.16)
    std::int64_t send(Bytes message, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        return core_->send(message.data(), message.size(), type, timeout);
    }
    std::int64_t send(Bytes message, std::chrono::nanoseconds timeout = forever) {
        return send(message, core_->raw_type(), timeout);
    }

    /// Reserves space for a message of `length` bytes, which the caller writes in place; waits for room. Until the
    /// claim's commit or abort, every other verb that publishes throws ViewAlive. Throws as send does.
    [[gnu::always_inline]] inline Claim claim(std::size_t length, std::int32_t type,
                                              std::chrono::nanoseconds timeout = forever) {
        return {*core_, length, type, timeout};
    }
    [[gnu::always_inline]] inline Claim claim(std::size_t length, std::chrono::nanoseconds timeout = forever) {
        return {*core_, length, Core::Raw{}, timeout};
    }

    /// Like claim, but does not wait: without room it returns an empty claim, which converts to false.
    [[gnu::always_inline]] inline Claim try_claim(std::size_t length, std::int32_t type) {
        return {*core_, length, type};
    }
    [[gnu::always_inline]] inline Claim try_claim(std::size_t length) { return {*core_, length, Core::Raw{}}; }

    /// Reserves space for a message of the SBE codec T and returns an encoder over it, with the message header written.
    /// `variable_length`: bytes for groups and variable-length data. Throws as claim does. Include flyring/sbe.hpp.
    /// (spec/messages.md 3)
    template <typename T>
    [[gnu::always_inline]] inline sbe::TypedClaim<T> claim(std::size_t variable_length = 0,
                                                           std::chrono::nanoseconds timeout = forever);

    /// Like claim, but does not wait: without room it returns an empty claim, which converts to false.
    template <typename T>
    [[gnu::always_inline]] inline sbe::TypedClaim<T> try_claim(std::size_t variable_length = 0);

    /// Copies messages in order, as many as there is room for, all with type `type` (default as in offer). Returns how
    /// many were published. Throws as offer does; after MessageTooLarge, none was published. (spec/channel.md 6.3)
    std::size_t offer_batch(span<const Bytes> messages, std::int32_t type) {
        return core_->offer_batch(messages, type);
    }
    std::size_t offer_batch(span<const Bytes> messages) { return offer_batch(messages, core_->raw_type()); }

    /// Like offer_batch, but waits until all messages are published or the time-out passes. Returns how many were
    /// published. If it throws, the messages published before stay published; position() tells how far it came.
    std::size_t send_batch(span<const Bytes> messages, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        return core_->send_batch(messages, type, timeout);
    }
    std::size_t send_batch(span<const Bytes> messages, std::chrono::nanoseconds timeout = forever) {
        return send_batch(messages, core_->raw_type(), timeout);
    }

    /// Waits until every subscriber has read what was published before the call. A kept slot without an owner is not
    /// waited for. In a queue it waits until every job is taken, and done or released. A claim may be open meanwhile.
    /// Throws TimedOut, ChannelReplaced, Busy (in a queue), otherwise as offer does. (spec/channel.md 6.16)
    void flush(std::chrono::nanoseconds timeout = forever) { core_->flush(timeout); }

    /// Sets how long a wait spins before it sleeps; 20 microseconds by default. With 0 it sleeps at once. Throws
    /// InvalidArgument for a time below 0.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }

    /// A hint for the start of a handler that will answer through this publisher. Fetches the cache line of the next
    /// message, which a waiting reader may have taken, so that the line is here when the message is written. Has no
    /// effect that another process can see. (spec/channel.md 6.1)
    [[gnu::always_inline]] inline void prefetch() const noexcept { core_->prefetch(); }

    /// The subscriber whose gate is furthest behind; empty if no slot gates this ring.
    std::optional<Holder> held_by() { return core_->held_by(); }

    /// How many subscribers read this ring, and get each message that is published from now on; in a queue, how many
    /// workers are live. Makes a system call for each gating slot: not for a hot path. Waits while another process
    /// takes a slot. Throws IoError (EAGAIN) after 5 s if that process is stopped. A close by another thread meanwhile
    /// throws TwoThreads there.
    std::uint32_t readers() { return core_->readers(); }

    /// The end of what was published, in bytes since the ring's creation.
    std::int64_t position() const noexcept { return core_->position(); }
    std::uint32_t ring() const noexcept { return core_->ring(); }
    const std::string& name() const noexcept { return core_->name(); }
    /// How often this slot has been taken, this time included.
    std::int64_t epoch() const noexcept { return core_->epoch(); }
    /// The largest payload, in bytes.
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
