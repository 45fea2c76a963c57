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

/// What a server and the requests that were kept have in common: whoever outlives the other.
struct ServerLink {
    std::mutex mutex;            // the lock of the server object (spec/service.md 5)
    ServerCore* core = nullptr;  // null: it is gone
};

/// One request that a server was given. Of the poll's thread until it is kept; then what changes is under the server's
/// lock, but the words that say so.
struct RequestState {
    std::uint32_t client = 0;
    std::uint32_t sequence = 0;
    std::uint32_t client_epoch = 0;
    std::int32_t type = 0;
    std::int64_t deadline = 0;
    std::int64_t position = 0;
    std::int64_t count = 0;  // messages before it
    const std::byte* payload = nullptr;
    std::size_t size = 0;
    const Sender* sender = nullptr;
    std::int64_t clock_offset = 0;
    bool repeat = false;
    bool is_stream = false;
    bool kept = false;
    bool in_hand = false;
    std::uint32_t refs = 0;       // atomic: in hand, and each handle
    std::uint32_t handles = 0;    // that own it
    std::uint32_t answered = 0;   // atomic: a final reply was given
    std::uint32_t cancelled = 0;  // atomic
    RequestState* before = nullptr;
    RequestState* behind = nullptr;

    // Of a stream that has begun.
    std::uint32_t credit = 0;
    bool streaming = false;
    bool pulling = false;  // the next item is being made: without the lock
    bool has_item = false;
    bool exhausted = false;
    std::int32_t item_type = 0;
    std::vector<std::byte> item;
    std::function<bool(std::vector<std::byte>&)> next;

    // Of one that was kept.
    std::vector<std::byte> copy;
    Sender copied_sender;
    std::shared_ptr<ServerLink> link;
};

}  // namespace detail

/// One request in a server's hand (spec/service.md 5). What the handler of Server::poll gets: valid until that returns.
/// Or from keep(): valid as long as it lives, and may be answered from any thread.
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
    /// One that was kept, and not answered, fails with `no answer`.
    ~Request() { drop(); }

    const std::byte* data() const noexcept { return state_->payload; }
    /// Payload length, bytes.
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
    /// The type that its caller gave it, at least 1.
    std::int32_t type() const noexcept { return state_->type; }
    /// The number of its caller.
    std::uint32_t client() const noexcept { return state_->client; }
    const Sender& sender() const noexcept { return *state_->sender; }

    /// How long its caller still waits; nothing: as long as it takes. Not below 0.
    inline std::optional<std::chrono::nanoseconds> remaining() const noexcept;
    /// Whether its caller does not wait any more, or has gone.
    bool cancelled() const noexcept { return detail::load_relaxed(&state_->cancelled) != 0; }
    /// At least once: whether a handler was given it before.
    bool repeat() const noexcept { return state_->repeat; }
    /// Whether its caller takes a stream.
    bool is_stream() const noexcept { return state_->is_stream; }
    /// Whether it was answered.
    bool answered() const noexcept { return detail::load_acquire(&state_->answered) != 0; }

    /// Answers it. `type`: left out, 1, or 65536 on a channel with a schema. Throws InvalidArgument (it was answered
    /// before, or type is below 1), MessageTooLarge (nothing was sent), SlotLost, Closed.
    inline void reply(Bytes answer, std::int32_t type);
    inline void reply(Bytes answer);
    /// The same, for a message in an encoder of sbe-tool's, which wrapAndApplyHeader was called on. (spec/messages.md)
    template <typename T, detail::IfEncoder<T> = 0>
    void reply(const T& answer) {
        reply(detail::encoded(answer), detail::type_of<T>);
    }

    /// Its call ends with ServiceError and this text, of which 1024 bytes at most are sent. Throws as reply does.
    inline void fail(std::string_view text);

    /// The request, to be answered later, from any thread: a copy. The handler may return then.
    inline Request keep();

    /// Answers a stream: next() gives an item, as an optional of bytes (a string, a vector of bytes), or nothing at the
    /// end. It is called in this function and in the server's polls, one item ahead of what the caller has credit and
    /// the ring room for. If it throws, the stream ends with ServiceError. Throws as reply does, and InvalidArgument if
    /// the caller takes no stream.
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

    detail::ServerCore* core_;  // of one in its handler; one that was kept asks its link
    detail::RequestState* state_;
    bool owns_;
};

}  // namespace flyring
