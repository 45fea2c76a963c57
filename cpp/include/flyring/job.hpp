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

/// One message of a queue, in the hand of one worker until it is done or released (spec/queue.md). From Worker::take,
/// or what the handler of Worker::poll gets. The destructor releases a job that is not finished. For the worker's
/// thread alone. What reads its bytes throws Closed once it is finished, or its worker was closed.
class Job {
  public:
    Job(Job&& other) noexcept;
    Job& operator=(Job&& other) noexcept;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    // Inlined wherever it ends, as a claim's.
    [[gnu::always_inline]] inline ~Job() {
        if (core_ != nullptr) drop();
    }

    const std::byte* data() const { return message().data(); }
    /// Payload length, bytes.
    std::size_t size() const noexcept { return message_.size(); }
    bool empty() const noexcept { return message_.empty(); }
    Bytes payload() const { return message().payload(); }
    /// The message, in place; of a job that was taken over from a dead worker: a copy. Valid until the job is finished.
    const Message& message() const {
        check_open();
        return message_;
    }
    /// A copy of the first sizeof(T) payload bytes. Throws InvalidArgument if there are fewer.
    template <typename T>
    T as() const {
        return message().as<T>();
    }
    /// The type that its producer gave it, at least 1.
    std::int32_t type() const noexcept { return message_.type(); }
    /// Epoch 0: not known, since the job was released, or its producer's slot has another owner now.
    const Sender& sender() const { return message().sender(); }
    /// Where it was published first: its identity in this channel, however often it is handed out.
    std::uint32_t ring() const noexcept { return ring_; }
    std::int64_t position() const noexcept { return message_.position(); }
    /// How often it was handed out before, as far as anybody could count: never 0 if it was.
    std::int32_t attempts() const noexcept { return attempts_; }
    bool repeat() const noexcept { return attempts_ > 0; }

    /// Finishes it: its bytes are given back. Throws SlotLost (the worker was evicted meanwhile, and the job is
    /// another's) and Closed, also for a job that is finished.
    void done();

    /// Gives it back, to the end of the queue, with one more of attempts. False: there is no room, or others release
    /// just now; it stays in hand, and this worker's next take or poll hands it out again. Throws as done does, and
    /// CorruptRing (the job stays in hand).
    bool release();

    /// Whether it is in hand.
    [[gnu::always_inline]] explicit inline operator bool() const noexcept;

  private:
    friend class detail::WorkerCore;

    /// Of no job yet: the core says of which.
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
