// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flyring/answer.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/options.hpp"

namespace flyring {

class Call;

namespace detail {

class CallTable;

/// How a call ended.
enum class CallEnd : std::uint32_t {
    none,
    answer,  // also the regular end of a stream
    error,
    expired,
    server_gone,
    cancelled,
    closed,
    slot_lost,
    corrupt_ring,
};

/// The state of one call that is under way, or that ended while a handle still refers to it. Used by the client's
/// thread alone, except `end_word`.
struct CallState {
    std::uint32_t end_word = static_cast<std::uint32_t>(CallEnd::none);
    std::uint32_t sequence = 0;
    ClientCore* core = nullptr;  // null once the client is gone
    CallTable* table = nullptr;  // as `core`
    int refs = 0;                // one each: the client while the call is outstanding, its Call, a pending event
    bool outstanding = false;
    bool of_call = false;  // Client::call waits for it: no callback, no event
    bool cancel_due = false;
    bool may_have_run = false;
    std::uint32_t credit = 0;    // the credit of a stream; 0: not a stream
    std::uint32_t consumed = 0;  // items taken since the client last sent credit
    std::int64_t position = 0;   // of the request's record
    std::int64_t deadline = 0;   // 0: none
    std::int32_t pid = 0;        // of the server that has gone
    std::uint32_t slot = 0;      // the lost slot; for a corrupt ring the ring's number
    const char* reason = "";     // why the ring is corrupt
    std::size_t next_item = 0;
    CallState* before = nullptr;  // list of the outstanding calls, in start order
    CallState* behind = nullptr;
    CallState* next_of_bucket = nullptr;
    Answer answer;
    std::string text;  // error text, name of the gone server, or path of the channel with a corrupt ring
    std::vector<Answer> items;
    std::optional<std::function<void(Call&)>> callback;

    CallEnd end() const noexcept { return static_cast<CallEnd>(load_relaxed(&end_word)); }
    bool ended() const noexcept { return end() != CallEnd::none; }
    void set_end(CallEnd how) noexcept { store_relaxed(&end_word, static_cast<std::uint32_t>(how)); }
    bool has_item() const noexcept { return next_item < items.size(); }

    /// Prepares the state for a new call; keeps the memory it has.
    void reset() noexcept {
        end_word = static_cast<std::uint32_t>(CallEnd::none);
        outstanding = of_call = cancel_due = may_have_run = false;
        credit = consumed = 0;
        deadline = 0;
        next_item = 0;
        if (!items.empty()) items.clear();
        callback.reset();
    }
};

/// Throws the error with which the call ended. The call ended without an answer.
[[noreturn, gnu::cold]] inline void throw_end(const CallState& call);

}  // namespace detail

/// A call that is under way, or has ended. Made by Client::start and Client::stream. To be used by the client's thread
/// only; it may outlive its client. If a Call is destroyed before its end, the call goes on, and its result is dropped.
class Call {
  public:
    Call(Call&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Call& operator=(Call&& other) noexcept {
        if (this != &other) {
            drop();
            state_ = std::exchange(other.state_, nullptr);
        }
        return *this;
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { drop(); }

    /// Whether the call has ended.
    bool done() const noexcept { return state_->ended(); }

    /// Waits for the answer; for a stream, for its end (the answer is then empty). The reference is valid as long as
    /// this object. Throws ServiceError, Expired, ServerGone, Cancelled, Closed, SlotLost, CorruptRing if the call
    /// ended so. Throws TimedOut at the time-out and ChannelReplaced; the call then goes on. (spec/service.md 6)
    const Answer& result(std::chrono::nanoseconds timeout = forever);

    /// Only for a stream: waits for the next item. Empty at the stream's end, or at the time-out; done() tells which.
    /// If the call ended with an error, throws it after the last item, as result does.
    std::optional<Answer> next(std::chrono::nanoseconds timeout = forever);

    /// Ends the call as cancelled, at once, and tells the server. Does nothing if the call has ended.
    void cancel();

    /// Whether a handler got the request more than once; valid once there is an answer.
    bool repeat() const noexcept { return state_->answer.repeat(); }

  private:
    friend class Client;
    friend class detail::ClientCore;
    explicit Call(detail::CallState& state) noexcept : state_(&state) { ++state.refs; }
    inline void drop() noexcept;

    detail::CallState* state_;
};

}  // namespace flyring
