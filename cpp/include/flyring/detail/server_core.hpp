// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/detail/readers.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/sender.hpp"
#include "flyring/detail/service.hpp"
#include "flyring/detail/slot_writer.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/wait_for.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/request.hpp"

namespace flyring::detail {

/// The counts of Server, since it was made.
struct ServerCounts {
    std::int64_t client_gone = 0;
    std::int64_t expired = 0;
    std::int64_t not_run = 0;
    std::int64_t damaged = 0;
};

/// The server of a service: the steps of spec/service.md 4, 5 and 7, in their order. A Server owns it. Another thread
/// may use a kept request; the link's lock guards what it touches. Without kept requests the lock is never taken.
class ServerCore final : public Member {
  public:
    /// `timeout`: how long to wait while another server lives.
    ServerCore(std::shared_ptr<ChannelState> state, const std::string& name, Nanoseconds timeout);
    ServerCore(const ServerCore&) = delete;
    ServerCore& operator=(const ServerCore&) = delete;
    inline ~ServerCore() override;

    /// Polls, and waits for the first request until the time-out.
    template <typename Handler>
    int poll(Handler& handler, int limit, Nanoseconds timeout) {
        if (FLYRING_UNLIKELY(use() != idle || !usable() || timeout.count() < 0)) refuse(timeout);
        set_use(in_use);
        Wait wait(*this);
        int done = poll_in_use(handler, limit);
        if (FLYRING_LIKELY(done != 0) || limit <= 0 || timeout.count() == 0) return done;
        Turns turns(*this, timeout, spin_);
        while (done == 0 && turn(wait, turns)) done = poll_in_use(handler, limit);
        return done;
    }

    /// Polls until the server is closed, or stop() is called.
    template <typename Handler>
    void serve(Handler& handler) {
        while (__atomic_exchange_n(&stopping_, 0U, __ATOMIC_ACQUIRE) == 0) {
            try {
                poll(handler, layout::DEFAULT_POLL_LIMIT, Nanoseconds::max());
            } catch (const Closed&) {
                if (open()) throw;
                return;
            }
        }
    }
    inline void stop();

    using NextItem = std::function<bool(std::vector<std::byte>&)>;

    // Operations of Request. For kept requests: from any thread, with the lock.
    inline void reply(RequestState& request, std::int32_t status, Bytes payload, std::int32_t type);
    inline void keep(RequestState& request);
    inline void begin_stream(RequestState& request, NextItem&& next, std::int32_t type);
    template <typename Lock>
    static void go_on(RequestState& request, Lock&& lock);
    static void ref(RequestState& request) noexcept {
        if (FLYRING_UNLIKELY(request.kept)) {
            __atomic_fetch_add(&request.refs, 1U, __ATOMIC_RELAXED);
        } else {
            ++request.refs;  // a locked instruction would wait until the stores of the reply before have left the core
        }
    }
    inline void release(RequestState& request) noexcept;
    static inline void release_kept(RequestState& request) noexcept;
    inline void settle(RequestState& request);

    /// For the polling thread: holds the lock if another thread may have a kept request.
    class Access {
      public:
        explicit Access(ServerCore& core_of) : core(&core_of) {
            if (FLYRING_UNLIKELY(load_acquire(&core->kept_) != 0)) lock_ = std::unique_lock(core->link_->mutex);
        }
        Access(const Access&) = delete;
        Access& operator=(const Access&) = delete;
        ~Access() {
            if (FLYRING_UNLIKELY(core->unkept_ != 0)) core->forget_kept();
        }
        ServerCore* core;

      private:
        std::unique_lock<std::mutex> lock_;
    };
    /// For other threads: always holds the lock. `core` is null if the server is gone.
    class KeptAccess {
      public:
        explicit KeptAccess(std::shared_ptr<ServerLink> link) : link_(std::move(link)), lock_(link_->mutex) {
            core = link_->core;
        }
        KeptAccess(const KeptAccess&) = delete;
        KeptAccess& operator=(const KeptAccess&) = delete;
        ~KeptAccess() {
            if (core != nullptr && core->unkept_ != 0) core->forget_kept();
        }
        ServerCore* core;

      private:
        std::shared_ptr<ServerLink> link_;  // keeps the mutex alive
        std::unique_lock<std::mutex> lock_;
    };
    std::int32_t raw_type() const noexcept { return raw_type_; }

    void set_spin(Nanoseconds time) { spin_ = checked_spin(time); }
    inline void give_back(bool owned) noexcept override;
    void abandon() noexcept override {
        Member::abandon();
        new (&link_->mutex) std::mutex;  // its owner may be a thread that is not in the child
    }
    [[noreturn, gnu::cold]] inline void throw_unusable() override;
    [[noreturn, gnu::cold]] void throw_in_use() override { throw TwoThreads("the server"); }
    void check_idle() const {
        if (use() != idle) {
            throw ViewAlive("the server is at work, in its handler or in another thread; close it after the poll");
        }
    }

    // Waiting (6).
    WaitingWords words() const noexcept override { return state_->file.data(); }
    std::uint32_t mask() const noexcept override { return mask_; }
    inline bool is_ready() const noexcept override;
    inline std::int64_t cap(std::int64_t waited) const noexcept override;
    bool look_after() override {
        const bool replaced = is_replaced(state_->file);
        if (replaced) idle_.look_next();                                // the next poll throws it
        return replaced || is_ready() || load_relaxed(&in_hand_) != 0;  // its poll works on requests in hand
    }

    ChannelState& state() const noexcept override { return *state_; }
    const std::string& name() const noexcept { return name_; }
    std::int64_t epoch() const noexcept { return epoch_; }
    std::size_t max_length() const noexcept { return max_length_; }
    std::uint32_t in_hand() const noexcept { return load_relaxed(&in_hand_); }
    std::uint32_t waiting_replies() const noexcept { return load_relaxed(&waiting_); }
    ServerCounts counts() const noexcept {
        return {load_relaxed(&counts_.client_gone), counts_.expired, counts_.not_run, counts_.damaged};
    }

  private:
    /// A reply that waits for room.
    struct WaitingReply {
        RequestState* request;
        std::int32_t status;
        std::int32_t type;
        std::vector<std::byte> payload;
    };

    /// The server's state for one client.
    struct Side {
        Ring ring;  // ring k, read-only
        std::int64_t cursor = 0;
        std::int64_t stored = 0;  // position in the gate
        std::int64_t count = 0;   // messages before the cursor
        std::int64_t repeat_end = 0;
        std::int64_t* gate = nullptr;
        std::int64_t* taken_end = nullptr;
        const std::int64_t* client_epoch = nullptr;   // epoch word of slot 1 + k
        const std::int32_t* client_closed = nullptr;  // closed word of publisher slot k
        std::uint32_t hand = 0;                       // requests in hand
        std::uint32_t streams = 0;                    // those of them that are streams and have begun
        bool full = false;                            // a call waits at the cursor because max_outstanding are in hand
        bool damaged = false;                         // its ring waits to be mended (10)
        bool evicted = false;                         // evicted because of the damage
        RequestState* first = nullptr;                // list of requests in hand, by position
        RequestState* last = nullptr;
        Sender sender;
        std::vector<WaitingReply> waiting;
        SlotWriter writer;  // for ring N + k
    };

    static constexpr std::int64_t look_interval = 100'000'000;  // ns between two looks for dead clients

    /// The body of poll; the object is marked as in use.
    template <typename Handler>
    int poll_in_use(Handler& handler, int limit) {
        if (FLYRING_UNLIKELY(!usable())) throw_unusable();
        try {
            if (FLYRING_UNLIKELY(load_relaxed(&in_hand_) != 0 || damaged_sides_ != 0)) look_after_hand();
            int done = 0;
            std::size_t at = next_side_;
            const std::size_t sides = sides_.size();
            for (std::size_t visited = 0; visited < sides && done < limit; ++visited) {
                const int before = done;
                Side& side = sides_[at];
                at = at + 1 < sides ? at + 1 : 0;
                // Poll 1; pairs with publish 6. A damaged ring is not read until it is mended.
                if (load_acquire(side.ring.length_at(side.cursor)) > 0 && !side.damaged) {
                    done = poll_side(side, handler, limit, done);
                }
                if (done != before) next_side_ = at;
            }
            if (done == 0) {
                idle_.found_nothing(state_->file);
            } else {
                idle_.found_something();
            }
            return done;
        } catch (const SlotLost&) {
            give_up_slot();
            throw;
        }
    }

    /// What take did with the record at the cursor.
    enum class Took { nothing, handed_out, stays };

    /// Polls one client's ring. `done`: requests handed out before; returns their number afterwards.
    template <typename Handler>
    int poll_side(Side& side, Handler& handler, int limit, int done) {
        const std::int64_t capacity = side.ring.capacity();
        const std::int64_t eighth = capacity / static_cast<std::int64_t>(layout::GATE_STORE_DIVISOR);
        std::int64_t passed = 0;                      // bytes of records that went to no handler
        std::int64_t stride = side.ring.alignment();  // of the last record
        while (done < limit && passed < capacity) {
            const std::int64_t at = side.cursor;
            const std::int32_t length = load_acquire(side.ring.length_at(at));  // poll 1; pairs with publish 6
            if (length <= 0) break;
            const Took took = take(side, at, length, stride, handler);
            if (took == Took::stays) break;
            if (took == Took::handed_out) {
                ++done;
            } else {
                passed += side.cursor - at;
            }
            if (side.cursor - side.stored >= eighth) store_gate(side);
        }
        if (!side.damaged) store_gate(side);
        return done;
    }

    /// Poll 1 to 8 for one record.
    template <typename Handler>
    Took take(Side& side, std::int64_t at, std::int32_t length, std::int64_t& stride, Handler& handler) {
        const Ring ring = side.ring;
        const std::int64_t size = ring.align(length);
        constexpr auto header = static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH);
        const std::int32_t type = load_relaxed(ring.type_at(at));
        const bool is_message = type > 0;
        const bool good = length >= header + (is_message ? static_cast<std::int32_t>(layout::REQUEST_LENGTH) : 0) &&
                          (at & ring.mask()) + size <= ring.capacity() &&
                          (is_message || type == layout::TYPE_PADDING || type == layout::TYPE_OWNER);
        if (FLYRING_UNLIKELY(!good)) {
            set_damaged(side);
            return Took::stays;
        }
        const std::byte* const payload = ring.payload_at(at);
        const std::int64_t end = next_record(at, size, stride);
        prefetch_records(ring, end, size);
        if (FLYRING_UNLIKELY(!is_message)) {
            if (type == layout::TYPE_OWNER) {
                set_sender(side.sender, payload, static_cast<std::size_t>(length - header));
            }
            side.cursor = end;
            return Took::nothing;
        }
        RequestPrefix prefix{};
        std::memcpy(&prefix, payload, sizeof prefix);
        if (FLYRING_UNLIKELY(prefix.operation != layout::REQUEST_OPERATION_CALL)) {
            move_cursor(side, end);
            apply(side, prefix);
            return Took::nothing;
        }
        RequestState* const made = take_in_hand(side, prefix, at, end);  // poll 3 to 5
        if (made == nullptr) return side.cursor == at ? Took::stays : Took::nothing;
        RequestState& request = *made;
        request.type = type;
        request.payload = payload + sizeof prefix;
        request.size = static_cast<std::size_t>(length - header) - sizeof prefix;
        if (at >= side.repeat_end) {  // poll 6
            store_release(side.taken_end, end);
            __atomic_signal_fence(__ATOMIC_SEQ_CST);  // before the handler begins
        }
        hand_out(request, handler);
        return Took::handed_out;
    }

    /// Hands a request to its handler (poll 7), and answers for the handler if it throws or does not answer.
    template <typename Handler>
    void hand_out(RequestState& request, Handler& handler) {
        ref(request);  // until the handler returns
        Request handle(this, request, false);
        const Drop drop{*this, request};
        try {
            handler(handle);
        } catch (const abi::__forced_unwind&) {  // pthread_cancel: must be rethrown
            fail(request, "the handler's thread was cancelled");
            throw;
        } catch (const std::exception& error) {
            throw_if_lost();
            fail(request, error.what());
        } catch (...) {
            fail(request, "the handler threw something");
        }
        if (FLYRING_LIKELY(load_acquire(&request.answered) != 0)) return;
        if (!open()) throw_unusable();  // a child forked in the handler
        if (!request.kept && !request.streaming) fail(request, "no answer");
    }
    struct Drop {
        ServerCore& core;
        RequestState& request;
        ~Drop() { core.release(request); }
    };

    void move_cursor(Side& side, std::int64_t end) noexcept {
        side.cursor = end;
        if (side.count != layout::COUNT_UNKNOWN) side.count = wrapping_add(side.count, 1);
    }
    /// Counts kept requests as gone, so that the lock is not needed for them. To be called last under the lock.
    void forget_kept() noexcept { __atomic_fetch_sub(&kept_, std::exchange(unkept_, 0), __ATOMIC_RELEASE); }

    void take_places(const std::string& name);
    void resume(Side& side, std::uint32_t k);
    RequestState* take_in_hand(Side& side, const RequestPrefix& prefix, std::int64_t at, std::int64_t end);
    RequestState& make_request();
    void apply(Side& side, const RequestPrefix& prefix);
    void store_gate(Side& side) {
        const Access access(*this);
        store_gate_locked(side);
    }
    void store_gate_locked(Side& side) noexcept;
    void fail(RequestState& request, const char* text);
    void look_after_hand();
    void look_for_clients();
    void set_damaged(Side& side);
    void mend(Side& side);

    // To be called with the lock.
    void finish(RequestState& request, std::int32_t status, Bytes payload, std::int32_t type);
    void finish_with_text(RequestState& request, const char* text);
    bool client_is_there(const Side& side, const RequestState& request) const noexcept;
    bool send(Side& side, const RequestState& request, std::int32_t status, std::int32_t flags, Bytes payload,
              std::int32_t type);
    void retry(Side& side);
    void remove(Side& side, RequestState& request) noexcept;
    /// The next step of a stream: it ends its turn (`done`), or its next item is fetched (`pull`).
    enum class StreamStep { done, pull };
    StreamStep stream_step(RequestState& request);
    void set_item(RequestState& request, bool has, const char* error);
    void throw_if_lost() const {
        if (FLYRING_UNLIKELY(!usable())) throw_lost();
    }
    [[noreturn, gnu::cold, gnu::noinline]] inline void throw_lost() const;

    /// Whether a reply or an item of a stream waits for room. held_back_ may still be set by a stream that has ended.
    bool is_held_back() const noexcept {
        return load_relaxed(&waiting_) != 0 || (load_relaxed(&streams_) != 0 && load_relaxed(&held_back_) != 0);
    }

    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse(Nanoseconds timeout);
    void give_up_slot() noexcept;
    bool turn(Wait& wait, Turns& turns);
    std::int64_t now() const noexcept { return service_clock(state_->file, clock_offset_); }

    std::vector<Side> sides_;
    std::size_t next_side_ = 0;
    Waker data_;
    Waker room_;
    bool least_ = false;
    std::uint32_t most_ = 0;       // max_outstanding
    std::uint32_t in_hand_ = 0;    // requests in hand of all clients; atomic, as the next ones
    std::uint32_t waiting_ = 0;    // replies that wait for room
    std::uint32_t held_back_ = 0;  // 1: an item found no room since the last look_after_hand; see is_held_back
    std::uint32_t streams_ = 0;    // streams that have begun
    std::uint32_t kept_ = 0;       // kept requests, which another thread may have
    std::uint32_t unkept_ = 0;     // those of kept_ that are not in hand any more; under the lock
    std::uint32_t stopping_ = 0;
    std::uint32_t damaged_sides_ = 0;
    std::uint32_t mask_ = 0;
    std::int32_t raw_type_ = 1;
    std::size_t max_length_ = 0;
    std::int64_t looked_at_ = 0;  // time of the last look for dead clients
    std::int64_t clock_offset_ = 0;
    ServerCounts counts_;
    IdlePolls idle_;
    std::vector<RequestState*> free_;     // for reuse, by the polling thread
    std::vector<RequestState*> scratch_;  // the streams of one poll
    Rings requests_;                      // rings 0 to N - 1
    std::shared_ptr<ServerLink> link_;
    std::shared_ptr<ChannelState> state_;
    std::string name_;
    Nanoseconds spin_ = default_spin;
};

}  // namespace flyring::detail

#include "flyring/detail/request_handle.hpp"
#include "flyring/detail/server_hand.hpp"
#include "flyring/detail/server_streams.hpp"
