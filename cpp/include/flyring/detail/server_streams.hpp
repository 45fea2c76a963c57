// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flyring/detail/server_core.hpp"

// Streams, damaged rings, waits, and the end of a server (spec/service.md 7, 10, 4).

namespace flyring::detail {

// --- 7: streams ----------------------------------------------------------------------------------------------------

inline void ServerCore::begin_stream(RequestState& request, NextItem&& next, std::int32_t type) {
    if (load_acquire(&request.answered) != 0 || request.streaming) {
        throw InvalidArgument("reply", "this request was answered before; answer each once");
    }
    if (type < 1) throw InvalidArgument("type", std::to_string(type) + " is not 1 to 2147483647");
    if (!request.is_stream) {
        throw InvalidArgument("stream", "the caller of this request takes one answer, no stream; see is_stream");
    }
    throw_if_lost();
    request.next = std::move(next);
    request.item_type = type;
    request.streaming = true;
    ++sides_[request.client].streams;
    store_relaxed(&streams_, streams_ + 1);
}

/// Sends items of a stream until credit or room is used up. lock() returns a guard that holds the lock and the server.
/// Its `core` is null if the server is gone.
template <typename Lock>
void ServerCore::go_on(RequestState& request, Lock&& lock) {
    for (;;) {
        {
            const auto held = lock();
            if (held.core == nullptr || held.core->stream_step(request) == StreamStep::done) return;
        }
        bool has = false;
        std::string error;
        bool failed = false;
        try {
            has = request.next(request.item);
        } catch (const std::exception& thrown) {
            failed = true;
            error = thrown.what();
        } catch (const abi::__forced_unwind&) {
            const auto held = lock();
            if (held.core != nullptr) held.core->set_item(request, false, "the thread that makes items was cancelled");
            throw;
        } catch (...) {
            failed = true;
            error = "the sequence of items threw something";
        }
        const auto held = lock();
        if (held.core == nullptr) return;
        held.core->set_item(request, has, failed ? error.c_str() : nullptr);
    }
}

/// With the lock: sends the item that was made, or the end. `pull`: the caller makes the next item, without the lock.
inline ServerCore::StreamStep ServerCore::stream_step(RequestState& request) {
    if (request.answered != 0 || request.pulling) return StreamStep::done;
    throw_if_lost();
    Side& side = sides_[request.client];
    const bool cancelled = load_relaxed(&request.cancelled) != 0;
    if (request.has_item && request.credit > 0 && !cancelled && side.waiting.empty()) {
        if (!client_is_there(side, request)) {
            store_relaxed(&counts_.client_gone, counts_.client_gone + 1);
            store_relaxed(&request.cancelled, 1U);
        } else if (request.item.size() > max_length_) {
            finish_with_text(request, MessageTooLarge(request.item.size(), max_length_).what());
            return StreamStep::done;
        } else if (send(side, request, layout::REPLY_STATUS_OK, layout::REPLY_FLAG_MORE, request.item,
                        request.item_type)) {
            --request.credit;
            request.has_item = false;
        }
    }
    if (request.has_item && request.credit > 0 && load_relaxed(&request.cancelled) == 0) {
        store_relaxed(&held_back_, 1U);  // the item waits for room
    }
    if (!request.has_item && !request.exhausted && load_relaxed(&request.cancelled) == 0) {
        request.pulling = true;
        return StreamStep::pull;
    }
    const bool over = request.deadline > 0 && now() >= request.deadline;
    if (request.has_item && over) {
        finish(request, layout::REPLY_STATUS_EXPIRED, {}, layout::TYPE_RAW);
    } else if (!request.has_item || load_relaxed(&request.cancelled) != 0) {
        finish(request, layout::REPLY_STATUS_OK, {}, layout::TYPE_RAW);
    }
    return StreamStep::done;
}

/// With the lock: notes that the next item was made, or that there is none (`has` false), or that making it failed
/// (`error`).
inline void ServerCore::set_item(RequestState& request, bool has, const char* error) {
    request.pulling = false;
    request.has_item = has;
    request.exhausted = !has;
    if (error != nullptr) finish_with_text(request, error);
}

// --- 10: damaged ---------------------------------------------------------------------------------------------------

/// Marks ring k as damaged: its client wrote something invalid (10).
inline void ServerCore::set_damaged(Side& side) {
    acquire_fence();  // as in channel.md 6.9, 2
    throw_if_lost();
    side.damaged = true;
    side.evicted = false;
    ++damaged_sides_;
    ++counts_.damaged;
    mend(side);
}

/// Mends a damaged ring: evicts its client, and goes on at `published` (10).
inline void ServerCore::mend(Side& side) {
    const ChannelFile& file = state_->file;
    const std::uint32_t k = side.ring.index;
    throw_if_lost();
    if (!side.evicted) {
        const ControlLock control(lock_.description(), file, std::try_to_lock);
        if (!control) return;  // again with the next poll
        evict_slot(file, 1 + k);
        side.evicted = true;
    }
    const std::int64_t published = load_acquire(file.ring(k).published());  // pairs with publish 7
    if (!side.ring.is_position(published)) return;
    const Access access(*this);
    side.count = layout::COUNT_UNKNOWN;
    for (RequestState* one = side.first; one != nullptr; one = one->behind) {
        store_relaxed(&one->cancelled, 1U);
        one->position = published;  // keeps the gate from going back to them
        one->count = layout::COUNT_UNKNOWN;
    }
    side.cursor = side.repeat_end = side.stored = published;
    store_relaxed(Ring::count_beside(side.gate), layout::COUNT_UNKNOWN);
    store_release(side.taken_end, published);
    store_release(side.gate, published);  // pairs with recompute 2
    side.damaged = false;
    --damaged_sides_;
    if (room_.is_due()) room_.wake(waiting_bit(k));
}

// --- ends, and waiting ---------------------------------------------------------------------------------------------

inline void ServerCore::stop() {
    store_release(&stopping_, 1U);
    state_->with_lock([this] {
        if (open()) wake_all(state_->file.data());  // among them this server's own wait
    });
}

/// What a close stores (4, close). Requests in hand are not answered.
void ServerCore::give_back(bool owned) noexcept {
    const std::lock_guard<std::mutex> lock(link_->mutex);
    const ChannelFile& file = state_->file;
    if (!owned) return;
    try {
        for (Side& side : sides_) {
            if (!side.waiting.empty()) retry(side);
        }
    } catch (const std::exception&) {
        // The calls of waiting replies end as *server gone*.
    }
    for (std::uint32_t ring = file.header.clients(); ring < file.header.publishers; ++ring) {
        store_release(publisher_slot(file, ring).closed(), 1);  // after the last record
    }
    wake_all(file.data());
    wake_all(file.room());
}

void ServerCore::throw_lost() const {
    if (open()) throw SlotLost("subscriber", slot_);
    throw Closed("the server of channel " + state_->file.path + " is used after it was " + why_unusable_);
}

void ServerCore::refuse(Nanoseconds timeout) {
    if (!open()) throw_unusable();
    if (use() != idle) throw_in_use();
    check_timeout(timeout);
    if (!usable()) throw_unusable();
    throw_in_use();  // another thread used the server just now
}

void ServerCore::throw_unusable() {
    if (open()) give_up_slot();
    throw_lost();
}

/// Gives up the lost slots, without another store.
inline void ServerCore::give_up_slot() noexcept {
    state_->with_lock([this] {
        const std::lock_guard<std::mutex> lock(link_->mutex);
        if (open() && !usable()) Member::release();
    });
}

bool ServerCore::is_ready() const noexcept {
    if (!usable() || load_relaxed(&stopping_) != 0) return true;
    return std::any_of(sides_.begin(), sides_.end(), [this](const Side& side) {
        if (side.damaged || load_acquire(side.ring.length_at(side.cursor)) <= 0) return false;  // pairs with publish 6
        return !side.full || load_relaxed(&side.hand) < most_;
    });
}

std::int64_t ServerCore::cap(std::int64_t waited) const noexcept {
    constexpr std::int64_t second = 1'000'000'000;  // ns
    if (!publishers_wake(state_->file, requests_)) return short_cap;
    if (!is_held_back()) return data_cap;
    return waited < second ? first_room_cap : room_cap;
}

/// Waits until there is something to poll. False: the deadline has passed, or stop() was called.
inline bool ServerCore::turn(Wait& wait, Turns& turns) {
    wait.put_back();
    const bool again = turns.next([this] { return is_ready(); });
    wait.take(in_use);
    if (!usable()) {
        wait.end(idle);
        throw_unusable();
    }
    if (turns.slept()) looked_at_ = 0;
    if (load_relaxed(&stopping_) != 0) return false;
    if (!is_ready()) check_replaced(state_->file);
    return again;
}

}  // namespace flyring::detail
