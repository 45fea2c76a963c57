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
    answer,  // of a stream: its end
    error,
    expired,
    server_gone,
    cancelled,
    closed,
    slot_lost,
    corrupt_ring,
};

/// One call: under way, or ended and still in somebody's hand. Of the client's thread, but `end`.
struct CallState {
    std::uint32_t end_word = static_cast<std::uint32_t>(CallEnd::none);
    std::uint32_t sequence = 0;
    ClientCore* core = nullptr;  // null: it is gone
    CallTable* table = nullptr;  // the same
    int refs = 0;                // the client, while it is outstanding; its handle; an event
    bool outstanding = false;
    bool of_call = false;  // the caller waits for it: nobody is told
    bool cancel_due = false;
    bool may_have_run = false;
    std::uint32_t credit = 0;    // of a stream
    std::uint32_t consumed = 0;  // items since credit was sent last
    std::int64_t position = 0;   // of its request
    std::int64_t deadline = 0;   // 0: none
    std::int32_t pid = 0;        // of the server that has gone
    std::uint32_t slot = 0;      // that was lost; of a corrupt ring: its number
    const char* reason = "";     // why it is corrupt
    std::size_t next_item = 0;
    CallState* before = nullptr;  // among those that are outstanding, in the order of their start
    CallState* behind = nullptr;
    CallState* next_of_bucket = nullptr;
    Answer answer;
    std::string text;  // of an error; the name of the server that has gone; the path of a channel with a corrupt ring
    std::vector<Answer> items;
    std::function<void(Call&)> callback;

    CallEnd end() const noexcept { return static_cast<CallEnd>(load_relaxed(&end_word)); }
    bool ended() const noexcept { return end() != CallEnd::none; }
    void set_end(CallEnd how) noexcept { store_relaxed(&end_word, static_cast<std::uint32_t>(how)); }
    bool has_item() const noexcept { return next_item < items.size(); }

    /// As new; what memory it has it keeps.
    void reset() noexcept {
        end_word = static_cast<std::uint32_t>(CallEnd::none);
        outstanding = of_call = cancel_due = may_have_run = false;
        credit = consumed = 0;
        deadline = 0;
        next_item = 0;
        if (!items.empty()) items.clear();
        if (callback) callback = nullptr;
    }
};

/// Throws how a call ended, if not by an answer.
[[noreturn, gnu::cold]] inline void throw_end(const CallState& call);

}  // namespace detail

/// A call that is under way, or has ended. From Client::start and Client::stream. For the client's thread; it may
/// outlive its client. One that is dropped goes on, and nobody hears of its end.
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

    /// Whether it has ended.
    bool done() const noexcept { return state_->ended(); }

    /// The answer (of a stream: nothing, at its end); waits for it. Valid as long as this object is. Throws
    /// ServiceError, Expired, ServerGone, Cancelled, Closed, SlotLost, CorruptRing: how the call ended; TimedOut at the
    /// time-out, and ChannelReplaced: the call goes on. (spec/service.md 6)
    const Answer& result(std::chrono::nanoseconds timeout = forever);

    /// Of a stream: the next item; waits for it. Nothing at its end, or at the time-out: done() tells which. Throws as
    /// result does, behind the last item that came.
    std::optional<Answer> next(std::chrono::nanoseconds timeout = forever);

    /// Ends it as cancelled, at once, and tells the server. Does nothing if it has ended.
    void cancel();

    /// Of an answer: a handler was given the request more than once.
    bool repeat() const noexcept { return state_->answer.repeat(); }

  private:
    friend class Client;
    friend class detail::ClientCore;
    explicit Call(detail::CallState& state) noexcept : state_(&state) { ++state.refs; }
    inline void drop() noexcept;

    detail::CallState* state_;
};

}  // namespace flyring
