// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/call.hpp"
#include "flyring/detail/call_table.hpp"
#include "flyring/detail/readers.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/service.hpp"
#include "flyring/detail/slot_writer.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/wait_for.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"

namespace flyring::detail {

/// Calls the server of a service: the steps of spec/service.md 3, 6 and 7, in their order. A Client owns it.
class ClientCore final : public Member {
  public:
    using Callback = std::function<void(Call&)>;

    /// `timeout`: how long to wait for a free place.
    ClientCore(std::shared_ptr<ChannelState> state, const std::string& name, Nanoseconds timeout);
    ClientCore(const ClientCore&) = delete;
    ClientCore& operator=(const ClientCore&) = delete;
    inline ~ClientCore() override;

    /// Makes a call and waits for its answer. The fast path is taken if the server is known and the ring has room. It
    /// loads the server's epoch, publishes the request, looks at the reply's place until the reply is there, and stores
    /// the gate.
    inline void call(Bytes request, std::int32_t type, Nanoseconds timeout, Answer& into);

    /// Publishes the request of a call. `credit` above 0 makes it a stream.
    template <typename F>
    CallState& start(Bytes request, std::int32_t type, Nanoseconds timeout, std::uint32_t credit, F&& callback) {
        check(request.size(), type, timeout);
        if (FLYRING_UNLIKELY(credit != 0)) check_credit(credit);
        const Verb verb(*this);
        CallState& call = admit();
        const CallTable::Hold hold(call);
        call.credit = credit;
        // Made in its place: a move would load in vectors what was stored just now.
        if constexpr (!std::is_same_v<std::decay_t<F>, std::nullptr_t>)
            call.callback.emplace(std::forward<F>(callback));
        begin(call, request, type, timeout, !verb.nested());
        return call;  // it is outstanding, so the table holds a reference
    }
    inline int poll(Nanoseconds timeout);

    // Operations of Call.
    inline void await(CallState& call, Nanoseconds timeout);
    inline bool next(CallState& call, Nanoseconds timeout, std::optional<Answer>& into);
    inline void cancel(CallState& call);

    void set_spin(Nanoseconds time) { spin_ = checked_spin(time); }
    inline void give_back(bool owned) noexcept override;
    [[noreturn, gnu::cold]] inline void throw_unusable() override;
    [[noreturn, gnu::cold]] void throw_in_use() override { throw TwoThreads("client " + std::to_string(number_)); }
    void check_idle() const {
        if (use() != idle) {
            throw ViewAlive("client " + std::to_string(number_) +
                            " is at work, in a callback or in another thread; close it after that");
        }
    }
    void abandon() noexcept override {
        Member::abandon();
        abandoned_ = true;  // its callbacks run in the parent only
        calls_.for_each([](CallState& call) {
            if (!call.ended()) call.set_end(CallEnd::closed);
        });
    }
    /// After a close: runs the callbacks of the calls that the close has ended.
    inline void tell_rest() noexcept;

    // Waiting (6).
    WaitingWords words() const noexcept override {
        return waits_for_ == For::room ? state_->file.room() : state_->file.data();
    }
    std::uint32_t mask() const noexcept override {
        return waiting_bit(waits_for_ == For::room ? number_ : ring_.index);
    }
    inline bool is_ready() const noexcept override;
    inline std::int64_t cap(std::int64_t waited) const noexcept override;
    bool look_after() override {
        const bool replaced = is_replaced(state_->file);
        if (replaced) idle_.look_next();  // the next verb throws it
        ask_gone_ = true;
        return replaced || is_ready() || unsent_ || !server_is_there();
    }

    ChannelState& state() const noexcept override { return *state_; }
    std::uint32_t number() const noexcept { return number_; }
    std::uint32_t slot() const noexcept { return slot_; }
    const std::string& name() const noexcept { return name_; }
    std::int64_t epoch() const noexcept { return epoch_; }
    std::uint32_t outstanding() const noexcept { return calls_.size(); }
    std::int64_t late() const noexcept { return late_; }
    std::int32_t raw_type() const noexcept { return writer_.raw_type; }
    std::size_t max_length() const noexcept { return writer_.max_payload - layout::REQUEST_LENGTH; }
    /// Name and epoch of the live server; empty if there is none.
    inline std::optional<std::pair<std::string, std::int64_t>> server();

  private:
    /// What a wait waits for.
    enum class For { reply, server, room };
    /// How often `call` looks for the reply before it begins a wait, which reads the clock.
    static constexpr int eager_looks = 32;
    static constexpr int brief_looks = 200;
    static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

    /// Marks the object as trying for one verb, so that it cannot be closed meanwhile. Inside a callback of this
    /// thread, a nested verb may start calls.
    class Verb {
      public:
        explicit Verb(ClientCore& core) noexcept : core_(core), was_(core.use()) { core.set_use(trying); }
        Verb(const Verb&) = delete;
        Verb& operator=(const Verb&) = delete;
        ~Verb() { core_.set_use(was_); }
        bool nested() const noexcept { return was_ != idle; }

      private:
        ClientCore& core_;
        std::uint32_t was_;
    };

    /// A wait within a verb.
    class CallWait {
      public:
        CallWait(ClientCore& core, Nanoseconds timeout) : core_(core), wait_(core), turns_(core, timeout, core.spin_) {}
        CallWait(const CallWait&) = delete;
        CallWait& operator=(const CallWait&) = delete;
        ~CallWait() {
            core_.waits_for_ = For::reply;
            wait_.end(trying);  // the rest of the verb follows
        }
        /// Returns when it is time to look again. False: the deadline has passed.
        bool turn(For what) {
            core_.waits_for_ = what;
            wait_.put_back();
            const bool again = turns_.next([this] { return core_.is_ready(); });
            wait_.take(trying);
            core_.waits_for_ = For::reply;
            if (!core_.usable()) core_.throw_unusable();
            return again;
        }

      private:
        ClientCore& core_;
        Wait wait_;
        Turns turns_;
    };

    /// Whether the caller is a callback of this client, in its thread.
    bool may_nest() const noexcept { return in_callback_ && use() == in_use; }
    [[noreturn, gnu::cold, gnu::noinline]] inline void refuse(std::size_t length, std::int32_t type,
                                                              Nanoseconds timeout);
    void check(std::size_t length, std::int32_t type, Nanoseconds timeout) {
        const bool free = use() == idle || may_nest();
        if (FLYRING_UNLIKELY(!free || !usable() || corrupt_ || type < 1 || timeout.count() < 0 ||
                             length > max_length())) {
            refuse(length, type, timeout);
        }
    }
    void take_place(const std::string& name);
    void join(std::uint32_t k);

    inline void check_credit(std::uint32_t credit) const;
    inline CallState& admit();
    inline void begin(CallState& call, Bytes request, std::int32_t type, Nanoseconds timeout, bool may_wait);
    bool find_server();
    bool publish(CallState& call, std::uint16_t operation, std::uint32_t credit, Bytes request, std::int32_t type);

    // Drain, and the other steps of a poll.
    bool drain();
    void received(const std::byte* payload, std::size_t size, std::int32_t type, std::int64_t position);
    void store_gate();
    void step();
    void expire();
    void ask_gone();
    void send_due();
    void run_callbacks();
    void finish(CallState& call, CallEnd how);
    void end_all(CallEnd how) noexcept;
    void tell(CallState& call);
    void tell_ended();
    /// The number of events whose callbacks have not run yet.
    int pending() const noexcept { return static_cast<int>(events_.size() - told_); }
    void run_pending() {
        if (FLYRING_UNLIKELY(pending() != 0)) run_callbacks();
    }
    void set_outstanding() const noexcept {
        store_relaxed(outstanding_beside(gate_), static_cast<std::int32_t>(calls_.size()));
    }
    bool server_is_there() const noexcept {
        return known_ == 0 ||
               (load_acquire(server_epoch_) == known_ &&
                is_locked_by_another(lock_.description(), state_->file.subscriber_lock(0)) && is_serving());
    }
    /// Whether the known server serves.
    bool is_serving() const noexcept {
        return load_acquire(state_->file.serving()) == known_;  // pairs with take server 2 and 7
    }
    std::int64_t now() const noexcept { return service_clock(state_->file, clock_offset_); }
    bool is_time(std::int64_t deadline) const noexcept { return deadline <= now(); }
    inline void give_up_slot() noexcept;
    void take_back() noexcept;
    [[noreturn, gnu::noinline, gnu::cold]] inline void lose_slot();
    [[noreturn, gnu::noinline, gnu::cold]] inline void set_corrupt(const char* reason);
    inline void look_for(CallState& call, CallWait& wait);

    SlotWriter writer_;  // writes ring k
    Ring ring_;          // ring N + k, read-only
    std::int64_t cursor_ = 0;
    std::int64_t stored_ = 0;  // position in the gate
    std::int64_t count_ = 0;   // messages before the cursor
    std::int64_t* gate_ = nullptr;
    const std::int64_t* server_epoch_ = nullptr;  // epoch word of slot 0
    std::int64_t known_ = 0;
    Waker data_;
    Waker room_;
    CallTable calls_;
    std::uint32_t number_ = 0;  // k
    For waits_for_ = For::reply;
    bool least_ = false;  // at least once
    bool in_callback_ = false;
    bool abandoned_ = false;  // in a forked child
    bool corrupt_ = false;
    bool ask_gone_ = false;           // call ask_gone in the next step
    std::uint32_t empty_drains_ = 0;  // in a row
    std::int64_t asked_at_ = 0;       // coarse time at which ask_gone was last due
    std::uint32_t due_ = 0;           // calls whose cancel is not sent yet
    bool unsent_ = false;             // a cancel or credit found no room
    std::uint32_t streams_ = 0;       // streams under way
    std::uint32_t deadlines_ = 0;     // calls under way that have a deadline
    std::int64_t next_deadline_ = never;
    std::int64_t looked_epoch_ = -1;  // epoch and `serving` at the last look that found no live server
    std::int64_t looked_serving_ = -1;
    std::int64_t expired_ = 0;
    std::int64_t late_ = 0;
    std::int64_t clock_offset_ = 0;
    std::int64_t corrupt_at_ = 0;
    const char* corrupt_why_ = "";
    std::vector<CallState*> events_;  // calls with something to tell their callback
    std::size_t told_ = 0;            // of events_, already told
    IdlePolls idle_;
    std::string server_name_;  // of the known server
    std::int32_t server_pid_ = 0;
    Rings own_rings_;  // N + k
    std::shared_ptr<ChannelState> state_;
    std::string name_;
    Nanoseconds spin_ = default_spin;
};

inline ClientCore::ClientCore(std::shared_ptr<ChannelState> state, const std::string& name, Nanoseconds timeout)
    : state_(std::move(state)), name_(name) {
    if (!name.empty()) check_name("name", name);
    check_timeout(timeout);
    const std::int64_t deadline = later(clock_ns(CLOCK_MONOTONIC), timeout.count());
    for (;;) {
        try {
            state_->enter(*this, [&] { take_place(name); });
            return;
        } catch (const NoFreeSlot&) {
            if (clock_ns(CLOCK_MONOTONIC) >= deadline) throw;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the death of an owner wakes no waiter
    }
}

inline ClientCore::~ClientCore() {
    state_->leave(*this);
    tell_rest();
    while (told_ != events_.size()) CallTable::release(*events_[told_++]);
}

/// Takes the first free client place (3).
inline void ClientCore::take_place(const std::string& name) {
    const ChannelFile& file = state_->file;
    const std::uint32_t clients = file.header.clients();
    std::int64_t epoch = 0;
    clock_offset_ = monotonic_offset();
    least_ = file.header.delivery == Delivery::at_least_once;
    data_ = Waker(file.data(), file.wakes);  // before the locks: the kernel may take some milliseconds
    room_ = Waker(file.room(), file.wakes);
    own_rings_.assign(1, 0);
    server_name_.reserve(layout::MAX_NAME_LENGTH);
    SlotLock lock = detail::take_place(
        file, clients, client_locks,
        [&](std::uint32_t k) {
            const Ring replies = file.ring(clients + k);
            const std::int64_t published = load_acquire(replies.published());  // publish 7
            check_ring(file.ring(k), file.path);
            if (!replies.is_position(published)) {
                throw_corrupt(file.path, replies, published, "published is no position");
            }
            number_ = k;
            writer_.take(file, k, name_);
            const SlotWords words = subscriber_slot(file, 1 + k);
            epoch = words.take(name, file.environment, file.wakes, [] {});
            join(k);
            store_relaxed(outstanding_beside(gate_), 0);
            store_relaxed(expired_beside(gate_), std::int64_t{0});
            if (load_acquire(words.evicting()) != 0) store_release(words.evicting(), 0);
            wake_all(file.data());
            wake_all(file.room());
        },
        [&](const Fd& description) { throw_no_free_client(file, description); });
    ring_ = file.readable_ring(clients + number_);
    own_rings_[0] = ring_.index;
    server_epoch_ = subscriber_slot(file, 0).epoch();
    file.readable.prefault(ring_.data, ring_.capacity());
    set_owner(std::move(lock), 1 + number_, subscriber_slot(file, 1 + number_).epoch(), epoch);
    writer_.begin(lock_.description(), clock_offset_);
    writer_.tells_replaced = false;
}

/// Joins ring N + k (channel.md 6.4).
inline void ClientCore::join(std::uint32_t k) {
    const ChannelFile& file = state_->file;
    const Ring replies = file.ring(file.header.clients() + k);
    gate_ = replies.gate(0);
    const auto checked = [&](std::int64_t published) {
        if (replies.is_position(published)) return published;
        store_release(gate_, layout::NOT_GATING);
        throw_corrupt(file.path, replies, published, "published is no position");
    };
    store_release(gate_, checked(load_acquire(replies.published())));  // join 2; pairs with publish 7, recompute 2
    full_fence();                                                      // join 3; pairs with recompute 1
    Counted found{};
    if (!consistent_count(replies, found)) {
        found = {load_acquire(replies.published()), layout::COUNT_UNKNOWN};  // pairs with publish 7
    }
    store_release(gate_, checked(found.position));  // join 4; pairs with recompute 2
    store_relaxed(Ring::count_beside(gate_), found.count);
    cursor_ = stored_ = found.position;
    count_ = found.count;
}

}  // namespace flyring::detail

#include "flyring/detail/client_calls.hpp"
#include "flyring/detail/client_drain.hpp"
