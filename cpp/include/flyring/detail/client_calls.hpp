// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flyring/detail/client_core.hpp"

// The verbs of a client and of its calls: spec/service.md 6, call, and 7.

namespace flyring::detail {

/// Throws the first error that applies, in the order of spec/api.md, "Which error comes first".
void ClientCore::refuse(std::size_t length, std::int32_t type, Nanoseconds timeout) {
    if (!open()) throw_unusable();
    if (use() != idle && !may_nest()) throw_in_use();
    if (type < 1) throw InvalidArgument("type", std::to_string(type) + " is not 1 to 2147483647");
    check_timeout(timeout);
    if (length > max_length()) throw MessageTooLarge(length, max_length());
    if (!usable()) throw_unusable();
    if (corrupt_) throw_corrupt(state_->file.path, ring_, corrupt_at_, corrupt_why_);
    throw_in_use();  // another thread used the client just now
}

/// Call 1: returns a new call, or throws Busy.
CallState& ClientCore::admit() {
    const std::uint32_t most = state_->file.header.max_outstanding;
    if (FLYRING_UNLIKELY(calls_.size() >= most)) {
        step();
        if (calls_.size() >= most) throw Busy(calls_.size());
    }
    return calls_.make(*this);
}

/// Call 2 and 3: publishes the request, waiting for a server and for room. Throws Expired at the time-out. After any
/// error the call was not made.
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
        run_pending();
        check_replaced(state_->file);
        if (!again) {
            store_relaxed(expired_beside(gate_), ++expired_);
            throw Expired(false);
        }
    }
}

/// Call 2: whether there is a server to call. False: wait for one.
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

/// Call 3: publishes a call, a cancel or a credit. False: there is no room.
inline bool ClientCore::publish(CallState& call, std::uint16_t operation, std::uint32_t credit, Bytes request,
                                std::int32_t type) {
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();
    const bool is_call = operation == layout::REQUEST_OPERATION_CALL;
    const RequestPrefix prefix = {
        call.sequence,    operation,       static_cast<std::uint16_t>(credit), is_call ? call.deadline : 0,
        low_bits(epoch_), low_bits(known_)};
    const std::size_t length = sizeof prefix + request.size();
    const bool published = writer_.try_publish(length, type, [&](std::byte* to) {
        write(to, prefix);
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
    const CallTable::Hold hold(call);  // keeps the state even if this verb throws
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
    run_pending();
    if (FLYRING_UNLIKELY(call.end() != CallEnd::answer)) throw_end(call);
    into = std::move(call.answer);
}

/// Waits until the call has ended.
void ClientCore::look_for(CallState& call, CallWait& wait) {
    for (;;) {
        const bool again = wait.turn(For::reply);
        step();
        run_pending();
        if (call.ended()) return;
        if (!again && call.deadline != 0) {
            finish(call, CallEnd::expired);  // its deadline has passed by the wait's clock
            return;
        }
        ask_gone_ = true;
        step();
        if (call.ended()) return;
        check_replaced(state_->file);
        if (!again) throw TimedOut("the end of a call");
    }
}

/// Refuses the credit of a stream that cannot be started.
void ClientCore::check_credit(std::uint32_t credit) const {
    if (least_ || credit > 65535) {
        throw InvalidArgument("credit",
                              least_ ? "a service of at-least-once delivery has no streams" : "it must be 1 to 65535");
    }
}

int ClientCore::poll(Nanoseconds timeout) {
    check(0, 1, timeout);
    if (in_callback_) throw_in_use();
    const Verb verb(*this);
    step();
    if (pending() == 0 && timeout.count() != 0) {
        CallWait wait(*this, timeout);
        for (;;) {
            const bool again = wait.turn(For::reply);
            step();
            if (pending() != 0) break;
            ask_gone_ = true;
            step();
            if (pending() != 0) break;
            check_replaced(state_->file);
            if (!again) break;
        }
    }
    const int found = pending();
    found == 0 ? idle_.found_nothing(state_->file) : idle_.found_something();
    run_pending();
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
            run_pending();
            if (call.ended()) break;
            ask_gone_ = true;
            step();
            if (call.ended()) break;
            check_replaced(state_->file);
            if (!again) throw TimedOut("the end of a call");
        }
    }
    run_pending();
    send_due();
}

/// Takes the next item of a stream. False: there is none, or none yet.
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
            run_pending();
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
    run_pending();
    send_due();
    return found;
}

/// Cancels a call (7).
void ClientCore::cancel(CallState& call) {
    if (call.ended()) return;
    check(0, 1, Nanoseconds::zero());
    const Verb verb(*this);
    finish(call, CallEnd::cancelled);
    call.cancel_due = true;
    ++due_;
    send_due();
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
            throw Closed(
                "the client of this call was closed before the call ended; what was published is run all the "
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
