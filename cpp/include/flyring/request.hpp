// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flyring/detail/encoder.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/message.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace detail {

class ServerCore;

/// Shared by a server and its kept requests, so that either may outlive the other.
struct ServerLink {
    std::mutex mutex;            // protects the server and its requests (spec/service.md 5)
    ServerCore* core = nullptr;  // null once the server is gone
};

/// The state of one request in a server's hand. Used by the polling thread alone until the request is kept. From then
/// on changes happen under the server's lock, except those to the fields marked atomic.
struct RequestState {
    std::uint32_t client = 0;
    std::uint32_t sequence = 0;
    std::uint32_t client_epoch = 0;
    std::int32_t type = 0;
    std::int64_t deadline = 0;
    std::int64_t position = 0;
    std::int64_t count = 0;  // count of messages in front of its record
    const std::byte* payload = nullptr;
    std::size_t size = 0;
    const Sender* sender = nullptr;
    std::int64_t clock_offset = 0;
    bool repeat = false;
    bool is_stream = false;
    bool kept = false;
    bool in_hand = false;
    std::uint32_t refs = 0;       // atomic: one for being in hand, one for each Request object
    std::uint32_t handles = 0;    // kept Request objects
    std::uint32_t answered = 0;   // atomic: 1 once there is a final reply
    std::uint32_t cancelled = 0;  // atomic
    RequestState* before = nullptr;
    RequestState* behind = nullptr;

    // Only for a stream that has begun.
    std::uint32_t credit = 0;
    bool streaming = false;
    bool pulling = false;  // `next` is running, without the lock
    bool has_item = false;
    bool exhausted = false;
    std::int32_t item_type = 0;
    std::vector<std::byte> item;
    std::function<bool(std::vector<std::byte>&)> next;

    // Only for a kept request.
    std::vector<std::byte> copy;
    Sender copied_sender;
    std::shared_ptr<ServerLink> link;
};

}  // namespace detail

/// One request in a server's hand (spec/service.md 5). The one passed to the handler of Server::poll is valid until the
/// handler returns. One made by keep() is valid as long as it lives, and any thread may answer it.
class Request {
  public:
    Request(Request&& other) noexcept
        : core_(other.core_), state_(std::exchange(other.state_, nullptr)), owns_(other.owns_) {}
    Request& operator=(Request&& other) noexcept {
        if (this != &other) {
            drop();
            core_ = other.core_;
            state_ = std::exchange(other.state_, nullptr);
            owns_ = other.owns_;
        }
        return *this;
    }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    /// A kept request that was not answered fails with `no answer`.
    ~Request() { drop(); }

    const std::byte* data() const noexcept { return state_->payload; }
    /// Payload length in bytes.
    std::size_t size() const noexcept { return state_->size; }
    bool empty() const noexcept { return state_->size == 0; }
    Bytes payload() const noexcept { return {state_->payload, state_->size}; }
    Message message() const noexcept {
        return {state_->payload, state_->size, state_->type, state_->position, *state_->sender};
    }
    /// A copy of the first sizeof(T) payload bytes. Throws InvalidArgument if there are fewer.
    template <typename T>
    T as() const {
        return message().as<T>();
    }
    /// The type that the caller gave the request, at least 1.
    std::int32_t type() const noexcept { return state_->type; }
    /// The number of the client that made the call.
    std::uint32_t client() const noexcept { return state_->client; }
    const Sender& sender() const noexcept { return *state_->sender; }

    /// How much longer the caller waits, at least 0; empty if the caller set no time-out.
    inline std::optional<std::chrono::nanoseconds> remaining() const noexcept;
    /// Whether the caller has stopped waiting, or is gone.
    bool cancelled() const noexcept { return detail::load_relaxed(&state_->cancelled) != 0; }
    /// Whether a handler may have got this request before; only with at-least-once delivery.
    bool repeat() const noexcept { return state_->repeat; }
    /// Whether the caller asked for a stream.
    bool is_stream() const noexcept { return state_->is_stream; }
    /// Whether the request has its final reply.
    bool answered() const noexcept { return detail::load_acquire(&state_->answered) != 0; }

    /// Answers the request. `type` is the message's type: by default 1, or 65536 on a channel with a schema. Throws
    /// InvalidArgument (the request was answered before, or type is below 1), MessageTooLarge (nothing was sent),
    /// SlotLost, Closed.
    inline void reply(Bytes answer, std::int32_t type);
    inline void reply(Bytes answer);
    /// The same for an SBE message: `answer` is an encoder that sbe-tool generated, after its wrapAndApplyHeader.
    /// (spec/messages.md)
    template <typename T, detail::IfEncoder<T> = 0>
    void reply(const T& answer) {
        reply(detail::encoded(answer), detail::type_of<T>);
    }

    /// Ends the call with ServiceError and this text, of which at most 1024 bytes are sent. Throws as reply does.
    inline void fail(std::string_view text);

    /// Returns the request as an object with its own copy of the payload, so that any thread can answer it later. The
    /// handler may then return without an answer.
    inline Request keep();

    /// Answers a stream. next() returns the next item as an optional of bytes (a string, a vector of bytes), empty at
    /// the end. It runs inside this function and inside the server's polls, at most one item ahead of what the caller's
    /// credit and the ring's room allow. If it throws, the stream ends with ServiceError. Throws as reply does, and
    /// InvalidArgument if the caller did not ask for a stream.
    template <typename Next>
    void stream(Next next, std::int32_t type) {
        begin_stream(
            [next = std::move(next)](std::vector<std::byte>& into) mutable {
                auto item = next();
                if (!item) return false;
                const auto* const bytes = reinterpret_cast<const std::byte*>(item->data());
                into.assign(bytes, bytes + item->size());
                return true;
            },
            type);
    }
    template <typename Next>
    void stream(Next next) {
        stream(std::move(next), raw_type());
    }

  private:
    friend class detail::ServerCore;
    Request(detail::ServerCore* core, detail::RequestState& state, bool owns) noexcept
        : core_(core), state_(&state), owns_(owns) {}

    inline void drop() noexcept;
    inline std::int32_t raw_type() const;
    inline void begin_stream(std::function<bool(std::vector<std::byte>&)> next, std::int32_t type);

    detail::ServerCore* core_;  // used while the handler runs; a kept request asks its link
    detail::RequestState* state_;
    bool owns_;
};

}  // namespace flyring
