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
    ~ClientCore() override;

    /// A call, and its answer. Its way, once the server is known and the ring has room: a load of the server's epoch, the
    /// request, looks at where the reply will be, the reply, the gate.
    inline void call(Bytes request, std::int32_t type, Nanoseconds timeout, Answer& into);

    /// Publishes the request of a call. `credit` above 0: of a stream.
    inline CallState& start(Bytes request, std::int32_t type, Nanoseconds timeout, std::uint32_t credit,
                            Callback&& callback);
    inline int poll(Nanoseconds timeout);

    // Of calls.
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
    /// Behind a close: tells callbacks of the calls that ended by it.
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
        if (replaced) idle_.look_next();  // and tells it
        ask_gone_ = true;
        return replaced || is_ready() || !server_is_there();
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
    /// Of the server that lives; nothing if none does.
    inline std::optional<std::pair<std::string, std::int64_t>> server();

  private:
    /// What a wait waits for.
    enum class For { reply, server, room };
    /// How often a wait looks before it looks at the clock.
    static constexpr int eager_looks = 32;
    static constexpr int brief_looks = 200;
    static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

    /// One verb: nobody closes the object meanwhile. Inside of a callback of this thread it may start calls.
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

    /// Waits within a verb.
    class CallWait {
      public:
        CallWait(ClientCore& core, Nanoseconds timeout)
            : core_(core), wait_(core), turns_(core, timeout, core.spin_) {}
        CallWait(const CallWait&) = delete;
        CallWait& operator=(const CallWait&) = delete;
        ~CallWait() {
            core_.waits_for_ = For::reply;
            wait_.end(trying);  // the verb goes on
        }
        /// Ends when it is time to look again. False: the deadline has passed.
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

    inline CallState& admit();
    inline void begin(CallState& call, Bytes request, std::int32_t type, Nanoseconds timeout, bool may_wait);
    bool find_server();
    bool publish(CallState& call, std::uint16_t operation, std::uint32_t credit, Bytes request, std::int32_t type);

    // Drain, and what else a poll does.
    int drain();
    void received(const std::byte* payload, std::size_t size, std::int32_t type, std::int64_t position);
    void store_gate();
    int step();
    void expire();
    void ask_gone();
    void send_due();
    void run_callbacks();
    void finish(CallState& call, CallEnd how);
    void end_all(CallEnd how) noexcept;
    void tell(CallState& call);
    void set_outstanding() const noexcept {
        store_relaxed(outstanding_beside(gate_), static_cast<std::int32_t>(calls_.size()));
    }
    bool server_is_there() const noexcept {
        return known_ == 0 || (load_acquire(server_epoch_) == known_ &&
                               is_locked_by_another(lock_.description(), state_->file.subscriber_lock(0)));
    }
    std::int64_t now() const noexcept { return service_clock(state_->file, clock_offset_); }
    bool is_time(std::int64_t deadline) const noexcept { return deadline <= now(); }
    inline void give_up_slot() noexcept;
    void take_back() noexcept;
    [[noreturn, gnu::noinline, gnu::cold]] inline void lose_slot();
    [[noreturn, gnu::noinline, gnu::cold]] inline void set_corrupt(const char* reason);
    inline void look_for(CallState& call, CallWait& wait);

    SlotWriter writer_;            // of ring k
    Ring ring_;                    // N + k, read-only
    std::int64_t cursor_ = 0;
    std::int64_t stored_ = 0;      // what the gate holds
    std::int64_t count_ = 0;       // messages before the cursor
    std::int64_t* gate_ = nullptr;
    const std::int64_t* server_epoch_ = nullptr;  // of slot 0
    std::int64_t known_ = 0;
    Waker data_;
    Waker room_;
    CallTable calls_;
    std::uint32_t number_ = 0;     // k
    For waits_for_ = For::reply;
    bool least_ = false;           // at least once
    bool in_callback_ = false;
    bool corrupt_ = false;
    bool ask_gone_ = false;        // with the next step
    std::uint32_t empty_drains_ = 0;  // in a row
    std::uint32_t due_ = 0;        // calls that have cancel to send
    std::uint32_t streams_ = 0;    // that are under way
    std::uint32_t deadlines_ = 0;  // calls that have one
    std::int64_t next_deadline_ = never;
    std::int64_t looked_epoch_ = -1;  // what was seen of a server that does not live
    std::int64_t looked_serving_ = -1;
    std::int64_t expired_ = 0;
    std::int64_t late_ = 0;
    std::int64_t clock_offset_ = 0;
    std::int64_t corrupt_at_ = 0;
    const char* corrupt_why_ = "";
    std::vector<CallState*> events_;  // to tell of
    std::size_t told_ = 0;            // of these
    IdlePolls idle_;
    std::string server_name_;  // of the one that is known
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
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the death of an owner wakes nobody
    }
}

inline ClientCore::~ClientCore() {
    state_->leave(*this);
    tell_rest();
    while (told_ != events_.size()) CallTable::release(*events_[told_++]);
}

/// 3
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

/// channel.md 6.4, of ring N + k.
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

// --- calls ---------------------------------------------------------------------------------------------------------

/// In the order of spec/api.md, errors.
void ClientCore::refuse(std::size_t length, std::int32_t type, Nanoseconds timeout) {
    if (!open()) throw_unusable();
    if (use() != idle && !may_nest()) throw_in_use();
    if (type < 1) throw InvalidArgument("type", std::to_string(type) + " is not 1 to 2147483647");
    check_timeout(timeout);
    if (length > max_length()) throw MessageTooLarge(length, max_length());
    if (!usable()) throw_unusable();
    if (corrupt_) throw_corrupt(state_->file.path, ring_, corrupt_at_, corrupt_why_);
    throw_in_use();  // the other thread is done by now
}

/// Call 1: a new call, if there may be one more.
CallState& ClientCore::admit() {
    const std::uint32_t most = state_->file.header.max_outstanding;
    if (FLYRING_UNLIKELY(calls_.size() >= most)) {
        step();
        if (calls_.size() >= most) throw Busy(calls_.size());
    }
    return calls_.make(*this);
}

/// Call 2 and 3. Throws Expired at the time-out; the call was not made then, as with every error.
void ClientCore::begin(CallState& call, Bytes request, std::int32_t type, Nanoseconds timeout, bool may_wait) {
    const bool timed = timeout != forever;
    call.deadline = timed ? later(now(), timeout.count()) : 0;
    if (FLYRING_LIKELY(find_server() && publish(call, layout::REQUEST_OPERATION_CALL, call.credit, request, type))) {
        return;
    }
    if (!may_wait) throw_in_use();  // in a callback
    CallWait wait(*this, timeout);
    for (;;) {
        const bool there = find_server();
        if (there && publish(call, layout::REQUEST_OPERATION_CALL, call.credit, request, type)) return;
        const bool again = wait.turn(there ? For::room : For::server);
        step();
        check_replaced(state_->file);
        if (!again) {
            store_relaxed(expired_beside(gate_), ++expired_);
            throw Expired(false);
        }
    }
}

/// Call 2. False: wait for one.
inline bool ClientCore::find_server() {
    const std::int64_t e = load_acquire(server_epoch_);  // pairs with take, evict
    if (FLYRING_LIKELY(e == known_ && e != 0)) return true;
    ask_gone();
    looked_epoch_ = e;
    looked_serving_ = load_acquire(state_->file.serving());  // pairs with take server 7
    if (!server_lives(state_->file, e)) return false;
    SlotFields fields;
    if (!read_fields(subscriber_slot(state_->file, 0), fields)) fields = {};
    server_name_.assign(fields.letters, fields.name_length);
    server_pid_ = fields.pid;
    known_ = e;
    return true;
}

/// Call 3, and cancel and credit. False: no room.
inline bool ClientCore::publish(CallState& call, std::uint16_t operation, std::uint32_t credit, Bytes request,
                                std::int32_t type) {
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();
    const bool is_call = operation == layout::REQUEST_OPERATION_CALL;
    const RequestPrefix prefix = {call.sequence,
                                  operation,
                                  static_cast<std::uint16_t>(credit),
                                  is_call ? call.deadline : 0,
                                  low_bits(epoch_),
                                  low_bits(known_)};
    const std::size_t length = sizeof prefix + request.size();
    const bool published = writer_.try_publish(length, type, [&](std::byte* to) {
        std::memcpy(to, &prefix, sizeof prefix);
        if (request.size() <= small) {
            copy_small(to + sizeof prefix, request.data(), request.size());
        } else {
            std::memcpy(to + sizeof prefix, request.data(), request.size());
        }
    });
    if (!published) return false;
    if (is_call) {
        call.position = writer_.end - static_cast<std::int64_t>(writer_.size_of(length));
        calls_.add(call);
        if (call.credit != 0) ++streams_;
        if (call.deadline != 0) {
            ++deadlines_;
            next_deadline_ = std::min(next_deadline_, call.deadline);
        }
        set_outstanding();
    }
    if (data_.is_due()) data_.wake(waiting_bit(number_));
    return true;
}

void ClientCore::call(Bytes request, std::int32_t type, Nanoseconds timeout, Answer& into) {
    check(request.size(), type, timeout);
    if (in_callback_) throw_in_use();
    const Verb verb(*this);
    CallState& call = admit();
    const CallTable::Hold hold(call);  // whatever comes: nobody waits for it then
    call.of_call = true;
    begin(call, request, type, timeout, true);
    const int looks = spin_.count() == 0 ? 1 : eager_looks + brief_looks;
    for (int look = 0; look < looks && !call.ended(); ++look) {
        if (load_acquire(ring_.length_at(cursor_)) > 0) {  // poll 1; pairs with publish 6
            drain();
        } else if (look >= eager_looks) {
            cpu_relax();
        }
    }
    if (FLYRING_UNLIKELY(!call.ended())) {
        CallWait wait(*this, timeout);
        look_for(call, wait);
    }
    if (FLYRING_UNLIKELY(told_ != events_.size())) run_callbacks();
    if (FLYRING_UNLIKELY(call.end() != CallEnd::answer)) throw_end(call);
    into = std::move(call.answer);
}

/// Until the call has ended.
void ClientCore::look_for(CallState& call, CallWait& wait) {
    for (;;) {
        const bool again = wait.turn(For::reply);
        step();
        if (call.ended()) return;
        if (!again && call.deadline != 0) {
            finish(call, CallEnd::expired);  // its time is over by the clock of the wait
            return;
        }
        ask_gone_ = true;
        step();
        if (call.ended()) return;
        check_replaced(state_->file);
        if (!again) throw TimedOut("the end of a call");
    }
}

CallState& ClientCore::start(Bytes request, std::int32_t type, Nanoseconds timeout, std::uint32_t credit,
                             Callback&& callback) {
    check(request.size(), type, timeout);
    if (credit != 0 && (least_ || credit > 65535)) {
        throw InvalidArgument("credit", least_ ? "a service of at-least-once delivery has no streams"
                                               : "it must be 1 to 65535");
    }
    const Verb verb(*this);
    CallState& call = admit();
    CallTable::Hold hold(call);
    call.credit = credit;
    call.callback = std::move(callback);
    begin(call, request, type, timeout, !verb.nested());
    return call;  // outstanding: the table has it
}

int ClientCore::poll(Nanoseconds timeout) {
    check(0, 1, timeout);
    if (in_callback_) throw_in_use();
    const Verb verb(*this);
    int found = step();
    if (found == 0 && timeout.count() != 0) {
        CallWait wait(*this, timeout);
        for (;;) {
            const bool again = wait.turn(For::reply);
            found = step();
            if (found != 0) break;
            ask_gone_ = true;
            found = step();
            if (found != 0) break;
            check_replaced(state_->file);
            if (!again) break;
        }
    }
    found == 0 ? idle_.found_nothing(state_->file) : idle_.found_something();
    if (told_ != events_.size()) run_callbacks();
    send_due();
    return found;
}

/// Waits for the end of a call.
void ClientCore::await(CallState& call, Nanoseconds timeout) {
    if (call.ended()) return;
    check(0, 1, timeout);
    if (in_callback_) throw_in_use();
    const Verb verb(*this);
    step();
    if (!call.ended()) {
        CallWait wait(*this, timeout);
        while (!call.ended()) {
            const bool again = wait.turn(For::reply);
            step();
            if (call.ended()) break;
            ask_gone_ = true;
            step();
            if (call.ended()) break;
            check_replaced(state_->file);
            if (!again) throw TimedOut("the end of a call");
        }
    }
    if (told_ != events_.size()) run_callbacks();
    send_due();
}

/// The next item of a stream. False: there is none any more, or not yet.
bool ClientCore::next(CallState& call, Nanoseconds timeout, std::optional<Answer>& into) {
    check_timeout(timeout);
    const auto take = [&] {
        if (!call.has_item()) return false;
        into = std::move(call.items[call.next_item++]);
        if (call.next_item == call.items.size()) {
            call.items.clear();
            call.next_item = 0;
        }
        ++call.consumed;
        return true;
    };
    if (take()) {
        if (use() == idle && usable() && !corrupt_ && 2 * call.consumed >= call.credit) {
            const Verb verb(*this);
            send_due();
        }
        return true;
    }
    if (call.ended() || may_nest()) return false;
    check(0, 1, timeout);
    const Verb verb(*this);
    step();
    send_due();
    if (!call.has_item() && !call.ended() && timeout.count() != 0) {
        CallWait wait(*this, timeout);
        for (;;) {
            const bool again = wait.turn(For::reply);
            step();
            if (call.has_item() || call.ended()) break;
            ask_gone_ = true;
            step();
            send_due();
            if (call.has_item() || call.ended()) break;
            check_replaced(state_->file);
            if (!again) break;
        }
    }
    const bool found = take();
    if (told_ != events_.size()) run_callbacks();
    send_due();
    return found;
}

/// 7
void ClientCore::cancel(CallState& call) {
    if (call.ended()) return;
    check(0, 1, Nanoseconds::zero());
    const Verb verb(*this);
    finish(call, CallEnd::cancelled);
    call.cancel_due = true;
    ++due_;
    send_due();
}

// --- drain ---------------------------------------------------------------------------------------------------------

/// 6, drain. How many calls ended, or got an item.
inline int ClientCore::drain() {
    const Ring ring = ring_;
    const std::size_t before = events_.size();
    const std::int64_t first = cursor_;
    const std::int64_t capacity = ring.capacity();
    const std::int64_t eighth = capacity / static_cast<std::int64_t>(layout::GATE_STORE_DIVISOR);
    for (;;) {
        const std::int64_t at = cursor_;
        const std::int32_t length = load_acquire(ring.length_at(at));  // poll 1; pairs with publish 6
        if (length <= 0) break;
        const std::int64_t size = ring.align(length);
        if (FLYRING_UNLIKELY(length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) ||
                             (at & ring.mask()) + size > capacity)) {
            set_corrupt("a record's length is out of range");
        }
        const std::int32_t type = load_relaxed(ring.type_at(at));
        if (FLYRING_LIKELY(type > 0)) {
            received(ring.payload_at(at), static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH, type, at);
            if (count_ != layout::COUNT_UNKNOWN) count_ = wrapping_add(count_, 1);
        } else if (FLYRING_UNLIKELY(type != layout::TYPE_PADDING && type != layout::TYPE_OWNER)) {
            set_corrupt("a record has an unknown type");
        }
        cursor_ = at + size;  // behind what may find no memory: then the record is looked at again
        if (cursor_ - stored_ >= eighth) store_gate();
        if (cursor_ - first >= capacity) break;
    }
    if (cursor_ != stored_) store_gate();
    return static_cast<int>(events_.size() - before);
}

/// Poll 4 to 6.
inline void ClientCore::store_gate() {
    store_relaxed(Ring::count_beside(gate_), count_);
    store_release(gate_, cursor_);  // pairs with recompute 2: what lies before it was read
    stored_ = cursor_;
    if (room_.is_due()) room_.wake(waiting_bit(ring_.index));
    acquire_fence();  // poll 5; pairs with evict
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();
}

/// Drain 2 and 3.
inline void ClientCore::received(const std::byte* payload, std::size_t size, std::int32_t type,
                                 std::int64_t position) {
    ReplyPrefix prefix{};
    if (FLYRING_LIKELY(size >= sizeof prefix)) std::memcpy(&prefix, payload, sizeof prefix);
    CallState* const found = size >= sizeof prefix && prefix.client_epoch == low_bits(epoch_)
                                 ? calls_.find(prefix.sequence)
                                 : nullptr;
    if (FLYRING_UNLIKELY(found == nullptr)) {
        ++late_;
        return;
    }
    CallState& call = *found;
    const Bytes bytes{payload + sizeof prefix, size - sizeof prefix};
    const bool repeat = (prefix.flags & layout::REPLY_FLAG_REPEAT) != 0;
    if (FLYRING_UNLIKELY((prefix.flags & layout::REPLY_FLAG_MORE) != 0)) {
        // More than its credit: a hostile server's.
        if (call.ended() || call.items.size() - call.next_item >= call.credit) {
            ++late_;
            return;
        }
        call.items.emplace_back();
        call.items.back().set(bytes, type, position, repeat, ring_.index);
        tell(call);
        return;
    }
    if (FLYRING_UNLIKELY(call.ended())) {
        ++late_;
    } else if (FLYRING_LIKELY(prefix.status == layout::REPLY_STATUS_OK)) {
        call.answer.set(bytes, type, position, repeat, ring_.index);
        finish(call, CallEnd::answer);
    } else if (prefix.status == layout::REPLY_STATUS_EXPIRED) {
        finish(call, CallEnd::expired);
        call.may_have_run = repeat;
    } else if (prefix.status == layout::REPLY_STATUS_NOT_RUN) {
        finish(call, CallEnd::server_gone);
        call.may_have_run = false;
    } else {
        call.text.assign(reinterpret_cast<const char*>(bytes.data()),
                         std::min<std::size_t>(bytes.size(), layout::REPLY_MAX_TEXT));
        finish(call, CallEnd::error);
    }
    if (call.credit != 0) --streams_;
    if (FLYRING_UNLIKELY(call.cancel_due)) {
        call.cancel_due = false;
        --due_;
    }
    calls_.remove(call);
    set_outstanding();
}

/// A call ends, for its caller; it may be outstanding all the same.
inline void ClientCore::finish(CallState& call, CallEnd how) {
    if (call.deadline != 0) {
        if (--deadlines_ == 0) next_deadline_ = never;
    }
    call.may_have_run = true;
    if (FLYRING_UNLIKELY(how == CallEnd::expired)) store_relaxed(expired_beside(gate_), ++expired_);
    if (FLYRING_UNLIKELY(how == CallEnd::server_gone)) {
        call.text = server_name_;
        call.pid = server_pid_;
    }
    call.set_end(how);
    if (!call.of_call && how != CallEnd::cancelled) tell(call);
}

/// Notes that there is something to tell of.
inline void ClientCore::tell(CallState& call) {
    ++call.refs;
    events_.push_back(&call);
}

/// 6, a poll, but what it sends: drain, the own clock, gone?. How many calls ended, or got an item.
inline int ClientCore::step() {
    const std::size_t before = events_.size();
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();
    if (drain() != 0) empty_drains_ = 0;
    if (FLYRING_UNLIKELY(++empty_drains_ > layout::POLLS_TO_LOOK)) ask_gone_ = true;
    if (FLYRING_UNLIKELY(deadlines_ != 0)) expire();
    if (FLYRING_UNLIKELY(ask_gone_ || (known_ != 0 && load_acquire(server_epoch_) != known_))) ask_gone();
    if (FLYRING_UNLIKELY(due_ != 0)) send_due();
    return static_cast<int>(events_.size() - before);
}

/// What the own clock ends.
inline void ClientCore::expire() {
    const std::int64_t time = now();
    if (time < next_deadline_) return;
    next_deadline_ = never;
    calls_.for_each([&](CallState& call) {
        if (call.ended() || call.deadline == 0) return;
        if (call.deadline <= time) {
            finish(call, CallEnd::expired);
        } else {
            next_deadline_ = std::min(next_deadline_, call.deadline);
        }
    });
}

/// 6, gone?
[[gnu::cold, gnu::noinline]] inline void ClientCore::ask_gone() {
    ask_gone_ = false;
    empty_drains_ = 0;
    if (known_ == 0) return;
    const std::int64_t e = load_acquire(server_epoch_);  // gone 1; pairs with take, evict
    const bool held = is_locked_by_another(lock_.description(), state_->file.subscriber_lock(0));
    if (e == known_ && held) return;  // gone 2
    drain();                          // gone 3: behind 1
    if (!least_) {                    // gone 4
        const Ring ring = state_->file.ring(number_);
        std::int64_t taken_end = load_acquire(taken_end_of(ring));  // behind the test; pairs with poll 6
        const std::int64_t gate = load_acquire(ring.gate(0));
        if (taken_end < gate || taken_end > writer_.cleared) taken_end = gate;  // 2
        calls_.for_each([&](CallState& call) {
            if (!call.ended()) {
                finish(call, CallEnd::server_gone);
                call.may_have_run = held || call.position < taken_end;
            }
            if (call.credit != 0) --streams_;
            call.cancel_due = false;
            calls_.remove(call);
        });
        due_ = 0;
        set_outstanding();
    }
    known_ = 0;  // gone 5
}

/// 7: cancel and credit that were not sent yet.
inline void ClientCore::send_due() {
    if (FLYRING_LIKELY(due_ == 0 && streams_ == 0)) return;
    bool room = true;
    calls_.for_each([&](CallState& call) {
        if (!room) return;
        if (call.cancel_due) {
            room = publish(call, layout::REQUEST_OPERATION_CANCEL, 0, {}, layout::TYPE_RAW);
            if (!room) return;
            call.cancel_due = false;
            --due_;
        } else if (call.credit != 0 && !call.ended() && call.consumed != 0 && 2 * call.consumed >= call.credit) {
            room = publish(call, layout::REQUEST_OPERATION_CREDIT, call.consumed, {}, layout::TYPE_RAW);
            if (room) call.consumed = 0;
        }
    });
}

/// Tells of what happened. A callback may start calls, and throw: the others are told with the next verb.
[[gnu::cold, gnu::noinline]] inline void ClientCore::run_callbacks() {
    if (in_callback_) return;
    struct In {
        ClientCore& core;
        std::uint32_t was;
        ~In() {
            core.in_callback_ = false;
            core.set_use(was);
        }
    } const in{*this, use()};
    in_callback_ = true;
    set_use(in_use);
    while (told_ != events_.size()) {
        CallState& call = *events_[told_++];
        if (told_ == events_.size()) {
            events_.clear();
            told_ = 0;
        }
        const CallTable::Hold hold(call, CallTable::Hold::adopt);
        if (!call.callback) continue;
        Call handle(call);
        call.callback(handle);
    }
}

// --- ends ----------------------------------------------------------------------------------------------------------

/// Ends what has not ended. The calls stay in the table: this may be another thread's close.
inline void ClientCore::end_all(CallEnd how) noexcept {
    calls_.for_each([&](CallState& call) {
        if (call.ended()) return;
        call.slot = how == CallEnd::corrupt_ring ? ring_.index : slot_;
        call.reason = corrupt_why_;
        if (how == CallEnd::corrupt_ring) call.position = corrupt_at_;
        try {
            call.text = state_->file.path;
        } catch (const std::bad_alloc&) {
            // Then the error has no path.
        }
        call.set_end(how);
    });
}

/// 3, close.
void ClientCore::give_back(bool owned) noexcept {
    if (owned) {
        const ChannelFile& file = state_->file;
        store_release(publisher_slot(file, number_).closed(), 1);  // after the last record
        wake_all(file.data());
        stop_gating(file, slot_);  // channel.md 6.6
    } else {
        take_back();
    }
    end_all(owned ? CallEnd::closed : CallEnd::slot_lost);
}

/// channel.md 5.4. While the lock is ours the slot has no other owner.
inline void ClientCore::take_back() noexcept {
    if (!lock_.still_held()) return;
    const ChannelFile& file = state_->file;
    store_release(publisher_slot(file, number_).closed(), 1);
    wake_all(file.data());
    store_release(subscriber_slot(file, slot_).evicting(), 1);
    stop_gating(file, slot_);
}

void ClientCore::throw_unusable() {
    if (open()) lose_slot();
    throw Closed("client " + std::to_string(number_) + " of channel " + state_->file.path + " is used after it was " +
                 why_unusable_);
}

void ClientCore::lose_slot() {
    state_->with_lock([this] {
        if (!open()) return;
        take_back();
        release();
    });
    end_all(CallEnd::slot_lost);
    throw SlotLost("subscriber", slot_);
}

/// 10, of ring N + k: it is not looked at again.
void ClientCore::set_corrupt(const char* reason) {
    acquire_fence();  // as in poll 5
    if (!usable()) throw_unusable();
    corrupt_ = true;
    corrupt_at_ = cursor_;
    corrupt_why_ = reason;
    store_release(gate_, layout::NOT_GATING);  // pairs with recompute 2
    if (room_.is_due()) room_.wake(waiting_bit(ring_.index));
    end_all(CallEnd::corrupt_ring);
    throw_corrupt(state_->file.path, ring_, corrupt_at_, reason);
}

void ClientCore::tell_rest() noexcept {
    if (open() || in_callback_) return;
    try {
        calls_.for_each([&](CallState& call) {
            if (call.callback && !call.of_call) tell(call);
            calls_.remove(call);
        });
        run_callbacks();
    } catch (...) {
        // A callback's; the other calls have ended all the same.
    }
}

// --- waiting -------------------------------------------------------------------------------------------------------

bool ClientCore::is_ready() const noexcept {
    if (!usable() || load_acquire(ring_.length_at(cursor_)) > 0) return true;  // poll 1; pairs with publish 6
    const std::int64_t e = load_acquire(server_epoch_);
    if (waits_for_ == For::server) {
        return e != looked_epoch_ || load_acquire(state_->file.serving()) != looked_serving_;
    }
    if (known_ != 0 && e != known_) return true;
    if (waits_for_ == For::room) return writer_.gates_allow(writer_.needed_last);
    return told_ != events_.size() || (deadlines_ != 0 && is_time(next_deadline_));
}

std::int64_t ClientCore::cap(std::int64_t waited) const noexcept {
    constexpr std::int64_t second = 1'000'000'000;  // ns
    const ChannelFile& file = state_->file;
    std::int64_t longest = data_cap;
    if (waits_for_ == For::room) {
        longest = !subscribers_wake(file, writer_.ring) ? short_cap : waited < second ? first_room_cap : room_cap;
    } else if (!publishers_wake(file, own_rings_)) {
        longest = short_cap;
    }
    if (deadlines_ != 0) longest = std::max<std::int64_t>(0, std::min(longest, next_deadline_ - now()));
    return longest;
}

std::optional<std::pair<std::string, std::int64_t>> ClientCore::server() {
    if (!open()) throw_unusable();
    const ChannelFile& file = state_->file;
    const std::int64_t e = load_acquire(subscriber_slot(file, 0).epoch());
    if (!server_lives(file, e)) return std::nullopt;
    SlotFields fields;
    if (!read_fields(subscriber_slot(file, 0), fields) || fields.epoch != e) return std::nullopt;
    return std::make_pair(std::string(fields.letters, fields.name_length), e);
}

}  // namespace flyring::detail

namespace flyring {

void detail::throw_end(const CallState& call) {
    switch (call.end()) {
        case CallEnd::error:
            throw ServiceError(call.text);
        case CallEnd::expired:
            throw Expired(call.may_have_run);
        case CallEnd::server_gone:
            throw ServerGone(call.may_have_run, call.text, call.pid);
        case CallEnd::cancelled:
            throw Cancelled("the end of a call");
        case CallEnd::slot_lost:
            throw SlotLost("subscriber", call.slot);
        case CallEnd::corrupt_ring:
            throw CorruptRing(call.text, call.slot, call.position, call.reason);
        default:
            throw Closed("the client of this call was closed before the call ended; what was published is run all the "
                         "same");
    }
}

inline const Answer& Call::result(std::chrono::nanoseconds timeout) {
    if (!state_->ended() && state_->core != nullptr) state_->core->await(*state_, timeout);
    if (state_->end() == detail::CallEnd::answer) return state_->answer;
    detail::throw_end(*state_);
}

inline std::optional<Answer> Call::next(std::chrono::nanoseconds timeout) {
    std::optional<Answer> item;
    if (state_->core != nullptr && state_->core->next(*state_, timeout, item)) return item;
    if (state_->ended() && state_->end() != detail::CallEnd::answer) detail::throw_end(*state_);
    return std::nullopt;
}

inline void Call::cancel() {
    if (!state_->ended() && state_->core != nullptr) state_->core->cancel(*state_);
}

void Call::drop() noexcept {
    if (state_ != nullptr) detail::CallTable::release(*state_);
}

}  // namespace flyring
