// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flyring/detail/server_core.hpp"

// The parts of ServerCore apart from poll: taking the place, requests in hand, replies (spec/service.md 4, 5).

namespace flyring::detail {

inline ServerCore::ServerCore(std::shared_ptr<ChannelState> state, const std::string& name, Nanoseconds timeout)
    : link_(std::make_shared<ServerLink>()), state_(std::move(state)), name_(name) {
    if (!name.empty()) check_name("name", name);
    check_timeout(timeout);
    const std::int64_t deadline = later(clock_ns(CLOCK_MONOTONIC), timeout.count());
    for (;;) {
        try {
            state_->enter(*this, [&] { take_places(name); });
            break;
        } catch (const NoFreeSlot&) {
            if (clock_ns(CLOCK_MONOTONIC) >= deadline) throw;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the death of an owner wakes no waiter
    }
    link_->core = this;
}

inline ServerCore::~ServerCore() {
    state_->leave(*this);
    {
        const std::lock_guard<std::mutex> lock(link_->mutex);
        link_->core = nullptr;  // kept requests then throw Closed
        for (Side& side : sides_) {
            while (side.first != nullptr) remove(side, *side.first);
        }
    }
    for (RequestState* request : free_) delete request;
}

// --- 4: the server takes its place --------------------------------------------------------------------------------

inline void ServerCore::take_places(const std::string& name) {
    const ChannelFile& file = state_->file;
    const std::uint32_t clients = file.header.clients();
    std::int64_t epoch = 0;
    clock_offset_ = monotonic_offset();
    least_ = file.header.delivery == Delivery::at_least_once;
    most_ = file.header.max_outstanding;
    raw_type_ = file.header.schema_length != 0 ? layout::TYPE_RAW : 1;
    max_length_ =
        file.header.capacity / layout::MAX_MESSAGE_DIVISOR - layout::RECORD_HEADER_LENGTH - layout::REPLY_LENGTH;
    data_ = Waker(file.data(), file.wakes);  // before the locks: the kernel may take some milliseconds
    room_ = Waker(file.room(), file.wakes);
    // All allocations come before the first store, so that a failure leaves the file unchanged.
    sides_.clear();  // of an earlier try
    sides_.resize(clients);
    requests_.clear();
    damaged_sides_ = 0;
    for (std::uint32_t k = 0; k < clients; ++k) {
        sides_[k].sender = unknown_sender(k);
        requests_.push_back(k);
    }
    mask_ = mask_of(requests_);
    SlotLock lock = detail::take_place(
        file, 1,
        [](const ChannelFile& of, std::uint32_t) {
            // Take server 2, before the locks, or callers could believe that the last server lives. Pairs with gone? 1.
            if (!byte_is_locked(of.fd, of.subscriber_lock(0), of.path)) store_release(of.serving(), std::int64_t{0});
            return server_locks(of);
        },
        [&](std::uint32_t) {
            for (std::uint32_t k = 0; k < clients; ++k) check_ring(file.ring(clients + k), file.path);
            epoch = subscriber_slot(file, 0).take(name, file.environment, file.wakes, [] {});
            for (std::uint32_t k = 0; k < clients; ++k) sides_[k].writer.take(file, clients + k, name_);
            for (std::uint32_t k = 0; k < clients; ++k) resume(sides_[k], k);
            store_release(file.serving(), epoch);  // take server 7; pairs with server_lives
            wake_all(file.data());
            wake_all(file.room());
        },
        [&](const Fd&) { throw_no_free_server(file); });
    set_owner(std::move(lock), 0, subscriber_slot(file, 0).epoch(), epoch);
    for (Side& side : sides_) {
        side.writer.begin(lock_.description(), clock_offset_);
        side.writer.tells_replaced = false;
        set_sender(side.sender, file, side.cursor);
        file.readable.prefault(side.ring.data, side.ring.capacity());
    }
}

/// Resumes at the last server's place in ring k (4, resume).
inline void ServerCore::resume(Side& side, std::uint32_t k) {
    const ChannelFile& file = state_->file;
    const Ring ring = file.ring(k);
    side.ring = file.readable_ring(k);
    side.gate = ring.gate(0);
    side.taken_end = taken_end_of(ring);
    side.client_epoch = subscriber_slot(file, 1 + k).epoch();
    side.client_closed = publisher_slot(file, k).closed();
    const std::int64_t gate = load_acquire(side.gate);              // pairs with poll 8 of the last server
    const std::int64_t published = load_acquire(ring.published());  // pairs with publish 7
    const std::int64_t claimed = load_acquire(ring.claimed());      // publish 3
    side.cursor = side.stored = side.repeat_end = gate;
    if (!ring.is_position(published) || !ring.is_position(claimed) || !ring.is_position(gate) || gate > claimed ||
        gate < published - static_cast<std::int64_t>(ring.capacity())) {  // resume a
        side.cursor = side.stored = side.repeat_end = 0;
        side.damaged = true;
        ++damaged_sides_;
        ++counts_.damaged;
        return;
    }
    const std::int64_t taken_end = load_acquire(side.taken_end);  // pairs with poll 6 of the last server
    if (ring.is_position(taken_end) && taken_end >= gate && taken_end <= claimed) side.repeat_end = taken_end;
    if (!least_) side.cursor = side.repeat_end;  // resume b
    side.count = count_at(side.ring, side.cursor);
    store_gate_locked(side);  // resume c
}

// --- 5: poll -------------------------------------------------------------------------------------------------------

/// Poll 3 to 6: takes a request in hand. Null: the request stays on the ring, or was answered already.
inline RequestState* ServerCore::take_in_hand(Side& side, const RequestPrefix& prefix, std::int64_t at,
                                              std::int64_t end) {
    const Access access(*this);
    if (FLYRING_UNLIKELY(side.hand >= most_)) {
        side.full = true;
        return nullptr;
    }
    side.full = false;
    side.writer.prefetch();  // the line of the reply, at which its client waits
    RequestState& request = make_request();
    request.client = side.ring.index;
    request.sequence = prefix.sequence;
    request.client_epoch = prefix.client_epoch;
    request.deadline = prefix.deadline;
    request.position = at;
    request.count = side.count;
    request.sender = &side.sender;
    request.clock_offset = clock_offset_;
    request.credit = least_ ? 0 : prefix.credit;
    request.is_stream = request.credit != 0;
    request.repeat = least_ && at < side.repeat_end;
    request.before = side.last;
    request.behind = nullptr;
    (side.last != nullptr ? side.last->behind : side.first) = &request;
    side.last = &request;
    store_relaxed(&side.hand, side.hand + 1);
    store_relaxed(&in_hand_, in_hand_ + 1);
    move_cursor(side, end);  // before the handler, so that the request is handed out once
    if (FLYRING_UNLIKELY(!least_ && prefix.server_epoch != low_bits(epoch_))) {  // poll 4
        ++counts_.not_run;
        finish(request, layout::REPLY_STATUS_NOT_RUN, {}, layout::TYPE_RAW);
        return nullptr;
    }
    if (FLYRING_UNLIKELY(request.deadline > 0) && now() >= request.deadline) {  // poll 5
        ++counts_.expired;
        finish(request, layout::REPLY_STATUS_EXPIRED, {}, layout::TYPE_RAW);
        return nullptr;
    }
    throw_if_lost();  // poll 6
    return &request;
}

inline RequestState& ServerCore::make_request() {
    if (FLYRING_UNLIKELY(free_.empty())) {
        if (free_.capacity() < in_hand_ + 2) free_.reserve(2 * in_hand_ + 4);  // so that release needs no memory
        free_.push_back(new RequestState);
    }
    RequestState& request = *free_.back();
    free_.pop_back();
    request.refs = 1;
    request.answered = 0;
    request.cancelled = 0;
    request.in_hand = true;
    request.streaming = request.pulling = request.has_item = request.exhausted = false;
    return request;
}

/// Applies a cancel or a credit to the request in hand that it names (7, apply).
inline void ServerCore::apply(Side& side, const RequestPrefix& prefix) {
    RequestState* found = nullptr;
    {
        const Access access(*this);
        found = side.first;
        while (found != nullptr && (found->client_epoch != prefix.client_epoch || found->sequence != prefix.sequence)) {
            found = found->behind;
        }
        if (found == nullptr) return;
        if (prefix.operation == layout::REQUEST_OPERATION_CANCEL) {
            store_relaxed(&found->cancelled, 1U);
        } else if (prefix.operation == layout::REQUEST_OPERATION_CREDIT) {
            found->credit = std::min<std::uint32_t>(65535, found->credit + (least_ ? 0 : prefix.credit));
        }
        if (!found->streaming) return;
        ref(*found);
    }
    const Drop drop{*this, *found};
    go_on(*found, [this] { return Access(*this); });
}

/// Stores the gate of ring k (poll 8), if it has moved.
inline void ServerCore::store_gate_locked(Side& side) noexcept {
    std::int64_t position = side.cursor;
    std::int64_t count = side.count;
    if (least_ && side.first != nullptr) {
        position = side.first->position;
        count = side.first->count;
    }
    if (position == side.stored || side.damaged) return;
    store_relaxed(Ring::count_beside(side.gate), count);
    store_release(side.gate, position);  // pairs with recompute 2: all reads below it come first
    side.stored = position;
    if (room_.is_due()) room_.wake(waiting_bit(side.ring.index));
}

/// The start of a poll: retries waiting replies, continues streams, mends damaged rings, and looks for dead clients
/// every 100 ms.
inline void ServerCore::look_after_hand() {
    const std::int64_t time = clock_ns(CLOCK_MONOTONIC_COARSE);
    if (time - looked_at_ >= look_interval) {
        looked_at_ = time;
        look_for_clients();
    }
    if (load_relaxed(&waiting_) != 0) {
        const Access access(*this);
        for (Side& side : sides_) {
            if (!side.waiting.empty()) retry(side);
        }
    }
    store_relaxed(&held_back_, 0U);
    if (load_relaxed(&streams_) != 0) {
        struct Streams {  // the streams under way, each with a reference while it goes on
            ServerCore& core;
            ~Streams() {
                for (RequestState* one : core.scratch_) core.release(*one);
                core.scratch_.clear();
            }
        } const streams{*this};
        {
            const Access access(*this);
            for (Side& side : sides_) {
                for (RequestState* one = side.streams != 0 ? side.first : nullptr; one != nullptr; one = one->behind) {
                    if (!one->streaming || one->answered != 0) continue;
                    scratch_.push_back(one);
                    ref(*one);
                }
            }
        }
        for (RequestState* one : scratch_) go_on(*one, [this] { return Access(*this); });
    }
    if (damaged_sides_ != 0) {
        for (Side& side : sides_) {
            if (side.damaged) mend(side);
        }
    }
}

/// Marks the requests of dead clients as cancelled (7, the client of a stream has died).
inline void ServerCore::look_for_clients() {
    const ChannelFile& file = state_->file;
    const Access access(*this);
    for (std::uint32_t k = 0; k < sides_.size(); ++k) {
        Side& side = sides_[k];
        if (side.hand == 0) continue;
        const bool lives = is_locked_by_another(lock_.description(), file.subscriber_lock(1 + k));
        const std::uint32_t epoch = low_bits(load_acquire(side.client_epoch));
        for (RequestState* one = side.first; one != nullptr; one = one->behind) {
            if (!lives || one->client_epoch != epoch) store_relaxed(&one->cancelled, 1U);
        }
    }
}

// --- 5: reply ------------------------------------------------------------------------------------------------------

/// Reply 2: whether the request's client is still there. Not by its gate, whose line the client writes at each call.
inline bool ServerCore::client_is_there(const Side& side, const RequestState& request) const noexcept {
    return low_bits(load_acquire(side.client_epoch)) == request.client_epoch &&  // pairs with take, evict
           load_relaxed(side.client_closed) == 0;
}

/// Reply 3: publishes a reply. False: there is no room.
inline bool ServerCore::send(Side& side, const RequestState& request, std::int32_t status, std::int32_t flags,
                             Bytes payload, std::int32_t type) {
    const bool repeat = request.repeat || (status == layout::REPLY_STATUS_EXPIRED && request.streaming);
    const ReplyPrefix prefix = {request.client_epoch, request.sequence, status,
                                flags | (repeat ? layout::REPLY_FLAG_REPEAT : 0)};
    const bool sent = side.writer.try_publish(sizeof prefix + payload.size(), type, [&](std::byte* to) {
        write(to, prefix);
        if (payload.size() <= small) {
            copy_small(to + sizeof prefix, payload.data(), payload.size());
        } else {
            std::memcpy(to + sizeof prefix, payload.data(), payload.size());
        }
    });
    if (FLYRING_LIKELY(sent) && data_.is_due()) data_.wake(waiting_bit(side.writer.ring.index));
    return sent;
}

/// Sends a final reply, or lets it wait for room (reply 1 to 4).
inline void ServerCore::finish(RequestState& request, std::int32_t status, Bytes payload, std::int32_t type) {
    throw_if_lost();  // reply 1
    Side& side = sides_[request.client];
    if (FLYRING_UNLIKELY(!client_is_there(side, request))) {  // reply 2
        store_relaxed(&counts_.client_gone, counts_.client_gone + 1);
    } else if (!side.waiting.empty() || !send(side, request, status, 0, payload, type)) {  // reply 3
        side.waiting.push_back({&request, status, type, {payload.begin(), payload.end()}});
        store_relaxed(&waiting_, waiting_ + 1);
        store_release(&request.answered, 1U);
        return;
    }
    store_release(&request.answered, 1U);
    remove(side, request);  // reply 4
}

/// Retries the replies that wait for room, in their order.
inline void ServerCore::retry(Side& side) {
    std::size_t gone = 0;
    while (gone < side.waiting.size()) {
        WaitingReply& reply = side.waiting[gone];
        RequestState& request = *reply.request;
        if (!client_is_there(side, request)) {
            store_relaxed(&counts_.client_gone, counts_.client_gone + 1);
        } else if (!send(side, request, reply.status, 0, reply.payload, reply.type)) {
            break;
        }
        ++gone;
        remove(side, request);
    }
    side.waiting.erase(side.waiting.begin(), side.waiting.begin() + static_cast<std::ptrdiff_t>(gone));
    store_relaxed(&waiting_, waiting_ - static_cast<std::uint32_t>(gone));
    if (gone != 0) store_gate_locked(side);
}

/// Reply 4: removes a request from those in hand.
inline void ServerCore::remove(Side& side, RequestState& request) noexcept {
    (request.before != nullptr ? request.before->behind : side.first) = request.behind;
    (request.behind != nullptr ? request.behind->before : side.last) = request.before;
    request.in_hand = false;
    store_relaxed(&side.hand, side.hand - 1);
    store_relaxed(&in_hand_, in_hand_ - 1);
    if (request.streaming) {
        --side.streams;
        store_relaxed(&streams_, streams_ - 1);
    }
    if (request.kept) ++unkept_;
    release(request);
}

inline void ServerCore::finish_with_text(RequestState& request, const char* text) {
    const std::size_t most = std::min<std::size_t>(layout::REPLY_MAX_TEXT, max_length_);
    const std::size_t length = whole_letters(text, std::strlen(text), most);
    finish(request, layout::REPLY_STATUS_ERROR, {reinterpret_cast<const std::byte*>(text), length}, layout::TYPE_RAW);
}

inline void ServerCore::fail(RequestState& request, const char* text) {
    const Access access(*this);
    if (request.answered == 0) finish_with_text(request, text);
}

/// Checks and sends the final reply of Request::reply; with the lock if the request is kept.
inline void ServerCore::reply(RequestState& request, std::int32_t status, Bytes payload, std::int32_t type) {
    if (FLYRING_UNLIKELY(load_acquire(&request.answered) != 0 || request.streaming)) {
        throw InvalidArgument("reply", "this request was answered before; answer each once");
    }
    if (FLYRING_UNLIKELY(type < 1)) {
        throw InvalidArgument("type", std::to_string(type) + " is not 1 to 2147483647");
    }
    if (FLYRING_UNLIKELY(payload.size() > max_length_)) throw MessageTooLarge(payload.size(), max_length_);
    finish(request, status, payload, type);
}

/// After another thread's operation on a kept request: stores the gate, and wakes the polling thread if it has
/// something to do.
inline void ServerCore::settle(RequestState& request) {
    Side& side = sides_[request.client];
    if (usable()) {
        if (least_) store_gate_locked(side);
        // Wake the polling thread, which may be asleep: a full client's ring can be read again, and while a reply waits
        // for room its cap is shorter.
        if (side.full || is_held_back()) wake_all(state_->file.data());
    }
}

inline void ServerCore::keep(RequestState& request) {
    if (!request.kept) {
        if (load_acquire(&request.answered) != 0) {
            throw InvalidArgument("keep", "this request was answered; there is nothing to keep it for");
        }
        request.copy.assign(request.payload, request.payload + request.size);
        request.copied_sender = *request.sender;
        request.link = link_;
        request.payload = request.copy.data();
        request.sender = &request.copied_sender;
        request.kept = true;
        __atomic_fetch_add(&kept_, 1U, __ATOMIC_RELAXED);
    }
    ++request.handles;
    ref(request);
}

/// Gives back a reference of a kept request; any thread may give back the last one.
inline void ServerCore::release_kept(RequestState& request) noexcept {
    if (__atomic_sub_fetch(&request.refs, 1U, __ATOMIC_ACQ_REL) == 0) delete &request;
}

inline void ServerCore::release(RequestState& request) noexcept {
    if (FLYRING_UNLIKELY(request.kept)) return release_kept(request);
    if (--request.refs != 0) return;
    if (request.next) request.next = nullptr;
    free_.push_back(&request);  // make_request has reserved the room
}

}  // namespace flyring::detail
