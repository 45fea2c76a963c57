// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "flyring/errors.hpp"
#include "flyring/message.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace detail {
class WorkerCore;
}

/// One message of a queue, in the hand of one worker until it is done or released (spec/queue.md). Worker::take
/// returns it, or Worker::poll passes it to a handler. The destructor releases an unfinished job. Use it only in the
/// worker's thread. Access to its bytes throws Closed after the job is finished or its worker closed.
class Job {
  public:
    Job(Job&& other) noexcept;
    Job& operator=(Job&& other) noexcept;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    // Inlined everywhere, for the reason given at Claim's destructor.
    [[gnu::always_inline]] inline ~Job() {
        if (core_ != nullptr) drop();
    }

    const std::byte* data() const { return message().data(); }
    /// Payload length in bytes.
    std::size_t size() const noexcept { return message_.size(); }
    bool empty() const noexcept { return message_.empty(); }
    Bytes payload() const { return message().payload(); }
    /// The message in its ring, or a copy if the job was adopted from another worker. Valid until the job is finished.
    const Message& message() const {
        check_open();
        return message_;
    }
    /// A copy of the first sizeof(T) payload bytes. Throws InvalidArgument if there are fewer.
    template <typename T>
    T as() const {
        return message().as<T>();
    }
    /// The message type that the producer gave, at least 1.
    std::int32_t type() const noexcept { return message_.type(); }
    /// The job's producer. Epoch 0: not known, because the job was released, or its producer's slot has a new owner.
    const Sender& sender() const { return message().sender(); }
    /// Ring and position of the job's first publication: its identity in this channel, however often it is handed out.
    std::uint32_t ring() const noexcept { return ring_; }
    std::int64_t position() const noexcept { return message_.position(); }
    /// How often the job was handed out before, as far as that could be counted; never 0 if it was handed out before.
    std::int32_t attempts() const noexcept { return attempts_; }
    bool repeat() const noexcept { return attempts_ > 0; }

    /// Finishes the job and gives its bytes back. Throws SlotLost (the worker was evicted, and the job now belongs to
    /// another worker) and Closed (the job is finished already, or the worker is closed).
    void done();

    /// Gives the job back to the end of the queue, with `attempts` raised by 1. Returns false if there is no room, or
    /// if another worker is releasing at this moment: the job stays in hand, and this worker's next take or poll hands
    /// it out again. Throws as done does, and CorruptRing (the job stays in hand).
    bool release();

    /// Whether the job is in hand, that is, not finished.
    [[gnu::always_inline]] explicit inline operator bool() const noexcept;

  private:
    friend class detail::WorkerCore;

    /// Not a job yet; the worker's core fills it in.
    Job() noexcept : message_(nullptr, 0, 0, 0, nobody()) {}
    static const Sender& nobody() noexcept {
        static const Sender none;
        return none;
    }
    [[gnu::cold, gnu::noinline]] inline void drop() noexcept;
    [[gnu::always_inline]] inline void check_open() const {
        if (FLYRING_UNLIKELY(!static_cast<bool>(*this))) throw_closed();
    }
    [[noreturn, gnu::cold, gnu::noinline]] void throw_closed() const {
        throw Closed("the job at position " + std::to_string(position()) + " of ring " + std::to_string(ring_) +
                     " is not in hand: it was finished, or its worker was closed; copy what you need of it before");
    }

    Message message_;
    detail::WorkerCore* core_ = nullptr;  // null: finished
    std::uint32_t ring_ = 0;
    std::int32_t attempts_ = 0;
};

}  // namespace flyring
