// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flyring/detail/client_core.hpp"

// How a client takes replies, ends calls, and waits (spec/service.md 6, drain and gone, and 7).

namespace flyring::detail {

/// Takes all replies that are there (6, drain). Returns whether the cursor moved.
inline bool ClientCore::drain() {
    const Ring ring = ring_;
    const std::int64_t first = cursor_;
    const std::int64_t capacity = ring.capacity();
    const std::int64_t eighth = capacity / static_cast<std::int64_t>(layout::GATE_STORE_DIVISOR);
    std::int64_t stride = ring.alignment();  // of the last record
    for (;;) {
        const std::int64_t at = cursor_;
        const std::int32_t length = load_acquire(ring.length_at(at));  // poll 1; pairs with publish 6
        if (length <= 0) break;
        writer_.prefetch();  // the line of the next request, at which the server waits
        const std::int64_t size = ring.align(length);
        const std::int64_t end = next_record(at, size, stride);
        if (calls_.size() > 1) prefetch_records(ring, end, size);
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
        cursor_ = end;  // after calls that may throw bad_alloc, so that the record is then read again
        if (cursor_ - stored_ >= eighth) store_gate();
        if (cursor_ - first >= capacity) break;
    }
    if (cursor_ != stored_) store_gate();
    return cursor_ != first;
}

/// Stores the gate of ring N + k (channel.md 6.9, 4 to 6).
inline void ClientCore::store_gate() {
    store_relaxed(Ring::count_beside(gate_), count_);
    store_release(gate_, cursor_);  // pairs with recompute 2: all reads below it come first
    stored_ = cursor_;
    if (room_.is_due()) room_.wake(waiting_bit(ring_.index));
    acquire_fence();  // poll 5; pairs with evict
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();
}

/// Handles one reply (drain 2 and 3).
inline void ClientCore::received(const std::byte* payload, std::size_t size, std::int32_t type, std::int64_t position) {
    ReplyPrefix prefix{};
    if (FLYRING_LIKELY(size >= sizeof prefix)) std::memcpy(&prefix, payload, sizeof prefix);
    CallState* const found =
        size >= sizeof prefix && prefix.client_epoch == low_bits(epoch_) ? calls_.find(prefix.sequence) : nullptr;
    if (FLYRING_UNLIKELY(found == nullptr)) {
        ++late_;
        return;
    }
    CallState& call = *found;
    const Bytes bytes{payload + sizeof prefix, size - sizeof prefix};
    const bool repeat = (prefix.flags & layout::REPLY_FLAG_REPEAT) != 0;
    if (FLYRING_UNLIKELY((prefix.flags & layout::REPLY_FLAG_MORE) != 0)) {
        // Only a hostile server sends more items than the credit.
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

/// Ends a call for its caller; it may stay outstanding.
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

/// Queues an event for the call's callback.
inline void ClientCore::tell(CallState& call) {
    ++call.refs;
    events_.push_back(&call);
}

/// One step of a poll (6). Drains, ends calls whose deadline has passed, tests whether the server is gone if that is
/// due, and sends the cancels and credits that are due.
inline void ClientCore::step() {
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();
    if (drain()) {
        empty_drains_ = 0;
    } else if (calls_.size() != 0) {
        const std::int64_t time = clock_ns(CLOCK_MONOTONIC_COARSE);
        if (FLYRING_UNLIKELY(time - asked_at_ >= data_cap)) {
            asked_at_ = time;
            ask_gone_ = true;
        }
    }
    if (FLYRING_UNLIKELY(++empty_drains_ > layout::POLLS_TO_LOOK)) ask_gone_ = true;
    if (FLYRING_UNLIKELY(deadlines_ != 0)) expire();
    if (FLYRING_UNLIKELY(ask_gone_ || (known_ != 0 && load_acquire(server_epoch_) != known_))) ask_gone();
    if (FLYRING_UNLIKELY(due_ != 0 || unsent_)) send_due();
}

/// Ends the calls whose deadline has passed by this process's clock (6, expired).
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

/// Tests whether the known server is gone, and if so ends its calls (6, gone?).
[[gnu::cold, gnu::noinline]] inline void ClientCore::ask_gone() {
    ask_gone_ = false;
    empty_drains_ = 0;
    if (known_ == 0) return;
    const std::int64_t e = load_acquire(server_epoch_);  // gone 1; pairs with take, evict
    const bool held = is_locked_by_another(lock_.description(), state_->file.subscriber_lock(0));
    if (e == known_ && held && is_serving()) return;  // gone 2: after the test of the lock
    drain();                                          // gone 3: after 1
    if (!least_) {                                    // gone 4
        const Ring ring = state_->file.ring(number_);
        std::int64_t taken_end = load_acquire(taken_end_of(ring));  // after the test of the lock; pairs with poll 6
        const std::int64_t gate = load_acquire(ring.gate(0));
        if (taken_end < gate || taken_end > writer_.cleared) taken_end = gate;  // out of range: counts as the gate
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
        unsent_ = false;
        set_outstanding();
    }
    known_ = 0;  // gone 5
}

/// Sends cancel and credit that are due, as far as there is room (7).
inline void ClientCore::send_due() {
    unsent_ = false;
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
    unsent_ = !room;
}

/// Runs the callbacks of queued events. A callback may start calls. If a callback throws, the next verb runs the other
/// callbacks.
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
        const CallTable::Hold hold(call, CallTable::Hold::adopt);  // a callback may drop its handle, and start calls
        if (!call.callback || !*call.callback) continue;
        Call handle(call);
        (*call.callback)(handle);
    }
}

// --- ends ----------------------------------------------------------------------------------------------------------

/// Ends all calls that have not ended. They stay in the table, because a close in another thread may run this.
inline void ClientCore::end_all(CallEnd how) noexcept {
    calls_.for_each([&](CallState& call) {
        if (call.ended()) return;
        call.slot = how == CallEnd::corrupt_ring ? ring_.index : slot_;
        call.reason = corrupt_why_;
        if (how == CallEnd::corrupt_ring) call.position = corrupt_at_;
        try {
            call.text = state_->file.path;
        } catch (const std::bad_alloc&) {
            // The error then has no path.
        }
        call.set_end(how);
    });
}

/// What a close stores (3, close), and the end of all calls.
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

/// Takes back the gate and closes the publisher slot (channel.md 5.4). While this object holds the lock, the slot has
/// no other owner.
inline void ClientCore::take_back() noexcept {
    if (!lock_.still_held()) return;
    const ChannelFile& file = state_->file;
    store_release(publisher_slot(file, number_).closed(), 1);
    wake_all(file.data());
    store_release(subscriber_slot(file, slot_).evicting(), 1);
    stop_gating(file, slot_);
}

/// Runs the callbacks of calls that end_all has ended. To be called by the client's thread.
inline void ClientCore::tell_ended() {
    calls_.for_each([&](CallState& call) {
        if (!call.of_call) tell(call);
        calls_.remove(call);
    });
    run_pending();
}

void ClientCore::throw_unusable() {
    if (open()) lose_slot();
    tell_rest();
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
    tell_ended();
    throw SlotLost("subscriber", slot_);
}

/// Marks ring N + k as corrupt, ends all calls, and throws CorruptRing (10). The ring is not read again.
void ClientCore::set_corrupt(const char* reason) {
    acquire_fence();  // as in poll 5
    if (!usable()) throw_unusable();
    corrupt_ = true;
    corrupt_at_ = cursor_;
    corrupt_why_ = reason;
    store_release(gate_, layout::NOT_GATING);  // pairs with recompute 2
    if (room_.is_due()) room_.wake(waiting_bit(ring_.index));
    end_all(CallEnd::corrupt_ring);
    store_relaxed(outstanding_beside(gate_), 0);
    tell_ended();
    throw_corrupt(state_->file.path, ring_, corrupt_at_, reason);
}

void ClientCore::tell_rest() noexcept {
    if (open() || in_callback_ || abandoned_) return;
    try {
        tell_ended();
    } catch (...) {
        // The exception of a callback. All calls have ended anyway.
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
    } else if (unsent_) {
        longest = waited < second ? first_room_cap : room_cap;
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
