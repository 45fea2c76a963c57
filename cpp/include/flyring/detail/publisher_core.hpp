// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flyring/detail/replaced.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/ring_writer.hpp"
#include "flyring/detail/slot_writer.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/wait_for.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/holder.hpp"
#include "flyring/span.hpp"

namespace flyring::detail {

/// The one writer of a ring: a SlotWriter (spec/channel.md 5.2, 6.1, 6.2) with open claims, batches (6.3), waits and
/// argument checks. Its address never changes. A Publisher owns it.
class PublisherCore final : public Member {
  public:
    PublisherCore(std::shared_ptr<ChannelState> state, const std::string& name, std::uint64_t max_lag);
    PublisherCore(const PublisherCore&) = delete;
    PublisherCore& operator=(const PublisherCore&) = delete;
    ~PublisherCore() override { state_->leave(*this); }

    /// The deleter of a Publisher. If a claim is open, the claim owns this object from then on.
    struct EndPublisher {
        void operator()(PublisherCore* core) const noexcept {
            if (core->use() != claim_open) {
                delete core;
                return;
            }
            core->state_->leave(*core);
            core->publisher_ended_ = true;
        }
    };

    /// Stands for the default type of raw bytes. It is always valid, and is read only where it is stored: read earlier,
    /// it would occupy a register.
    struct Raw {};

    // The hot path.

    /// Publishes one message (6.1, all steps). `type`: an int32_t, or Raw.
    template <typename Type>
    [[gnu::always_inline]] inline std::int64_t offer(const std::byte* payload, std::size_t length, Type type) {
        if (FLYRING_UNLIKELY(use() != idle || !usable() || !is_valid(type))) refuse(length, number_of(type));
        set_use(in_use);
        // Local copies, so that compilers keep these words in registers across the atomic stores.
        const Ring ring = writer_.ring;
        const std::int64_t at = writer_.end;
        const std::uint64_t end = writer_.end_of(length);
        if (FLYRING_UNLIKELY(end > writer_.fast_end) && !announce_long(length)) {
            return offer_reserving(payload, length, number_of(type));
        }
        std::byte* const to = ring.payload_at(at);
        if (length <= small) {
            copy_small(to, payload, length);  // publish 5
        } else if (FLYRING_LIKELY(length <= writer_.max_payload)) {
            std::memcpy(to, payload, length);  // publish 5
        } else {
            return offer_reserving(payload, length, number_of(type));  // refuses lengths for which `end` wraps
        }
        RingWriter::set_type(ring, at, number_of(type));
        RingWriter::commit(to, length + header_length);
        const auto new_end = static_cast<std::int64_t>(end);
        writer_.advance(ring, new_end, wrapping_add(writer_.count, 1));
        set_use(idle);
        wake_readers();
        FLYRING_ASSUME(new_end > 0);  // lets compilers drop the caller's test for back_pressured
        return new_end;
    }

    /// Publish 1 to 4, and the type of 5: opens a claim and returns its payload. Null: back-pressured, and no claim is
    /// open.
    template <typename Type>
    [[gnu::always_inline]] inline std::byte* claim(std::size_t length, Type type) {
        if (FLYRING_UNLIKELY(use() != idle || !usable() || !is_valid(type))) refuse(length, number_of(type));
        if (FLYRING_UNLIKELY(!writer_.is_announced(length)) && !announce_long(length)) {
            if (!reserve_in_use(length)) return nullptr;
            writer_.announce(static_cast<std::int64_t>(writer_.end_of(length)));
        }
        return open_claim(length, type);
    }

    /// Publish 6 to 10 for the open claim; the caller passes its payload and length.
    [[gnu::always_inline]] inline std::int64_t commit_claim(std::byte* payload, std::size_t length) {
        if (FLYRING_UNLIKELY(!usable())) lose_claim();
        const std::int64_t end = close_claim(payload, length, wrapping_add(writer_.count, 1));
        wake_readers();
        return end;
    }

    /// Publishes the open claim as padding (6.1, abort).
    std::int64_t abort_claim() {
        if (!usable()) lose_claim();
        return abort_open_claim();
    }

    /// Ends the open claim when its handle is destroyed without commit or abort.
    [[gnu::noinline, gnu::cold]] static void drop_claim(PublisherCore* core) noexcept {
        if (core->usable()) {
            core->abort_open_claim();
        } else {
            core->end_lost_claim();
        }
    }

    void prefetch() const noexcept { writer_.prefetch(); }

    // The same verbs, waiting for room. At the time-out, send and claim throw BackPressured.

    inline std::int64_t send(const std::byte* payload, std::size_t length, std::int32_t type, Nanoseconds timeout);
    template <typename Type>
    [[gnu::cold, gnu::noinline]] std::byte* claim_waiting(std::size_t length, Type type, Nanoseconds timeout);
    inline std::size_t send_batch(span<const Bytes> messages, std::int32_t type, Nanoseconds timeout);
    inline void flush(Nanoseconds timeout);
    void set_spin(Nanoseconds time) { spin_ = checked_spin(time); }
    /// Checks the time-out of a claim that may wait.
    template <typename Type>
    [[gnu::always_inline]] inline PublisherCore& accept(Type type, Nanoseconds timeout) {
        if (FLYRING_UNLIKELY(timeout.count() < 0)) refuse(0, number_of(type), timeout);
        return *this;
    }

    // Other verbs.

    std::size_t offer_batch(span<const Bytes> messages, std::int32_t type);
    std::optional<Holder> held_by();
    std::uint32_t readers();
    [[noreturn, gnu::cold, gnu::noinline]] inline void throw_back_pressured();
    /// The default type of raw bytes.
    std::int32_t raw_type() const noexcept { return writer_.raw_type; }
    inline void close() noexcept override;
    inline void give_back(bool owned) noexcept override;
    [[noreturn, gnu::cold]] inline void throw_unusable() override;

    void check_idle() const {
        if (use() != idle && use() != claim_open) throw_two_threads();
    }
    [[noreturn, gnu::cold]] void throw_in_use() override { throw_two_threads(); }
    [[noreturn, gnu::cold]] void throw_two_threads() const {
        throw TwoThreads("publisher of ring " + std::to_string(ring()));
    }

    // Waiting (6.16).
    WaitingWords words() const noexcept override { return state_->file.room(); }
    std::uint32_t mask() const noexcept override { return waker_bit_; }
    bool is_ready() const noexcept override { return !usable() || writer_.gates_allow(writer_.needed_last); }
    inline std::int64_t cap(std::int64_t waited) const noexcept override;
    inline bool look_after() override;

    ChannelState& state() const noexcept override { return *state_; }
    std::int64_t position() const noexcept { return writer_.end; }
    std::uint32_t ring() const noexcept { return writer_.ring.index; }
    const std::string& name() const noexcept { return name_; }
    std::int64_t epoch() const noexcept { return epoch_; }
    std::size_t max_length() const noexcept { return writer_.max_payload; }

  private:
    static constexpr std::uint64_t header_length = layout::RECORD_HEADER_LENGTH;

    static constexpr bool is_valid(Raw) noexcept { return true; }
    static constexpr bool is_valid(std::int32_t type) noexcept { return type >= 1; }
    std::int32_t number_of(Raw) const noexcept { return writer_.raw_type; }
    static constexpr std::int32_t number_of(std::int32_t type) noexcept { return type; }

    /// Publish 6 to 9 for the open claim, after which the ring has `count` messages.
    [[gnu::always_inline]] inline std::int64_t close_claim(std::byte* payload, std::size_t length, std::int64_t count,
                                                           std::uint32_t next_use = idle) noexcept {
        const Ring ring = writer_.ring;
        // Computed again instead of kept from the claim: a word in memory between the two would add its latency.
        const auto end = static_cast<std::int64_t>(writer_.end_of(length));
        RingWriter::commit(payload, length + header_length);
        writer_.advance(ring, end, count);
        set_use(next_use);
        return end;
    }

    /// Ends the open claim without publishing it, and throws Closed or SlotLost.
    [[noreturn, gnu::noinline, gnu::cold]] inline void lose_claim();
    /// Ends the open claim of an object that is closed or has lost its slot. May delete this object.
    void end_lost_claim() noexcept {
        set_use(idle);
        if (publisher_ended_) delete this;
    }

    /// Aborts the open claim of a usable object.
    std::int64_t abort_open_claim(std::uint32_t next_use = idle) noexcept {
        RingWriter::set_type(writer_.ring, writer_.end, layout::TYPE_PADDING);
        return close_claim(writer_.ring.payload_at(writer_.end), claim_length_, writer_.count, next_use);
    }

    /// Throws the first error that applies, in the order of spec/api.md.
    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse(std::size_t length, std::int32_t type,
                                                              Nanoseconds timeout = Nanoseconds::zero());
    /// Publish 5 for a claim: stores the type; the caller writes the payload.
    template <typename Type>
    [[gnu::always_inline]] inline std::byte* open_claim(std::size_t length, Type type) noexcept {
        set_use(claim_open);
        claim_length_ = length;
        const Ring ring = writer_.ring;
        const std::int64_t at = writer_.end;
        RingWriter::set_type(ring, at, number_of(type));
        std::byte* const payload = ring.payload_at(at);
        FLYRING_ASSUME(payload != nullptr);  // lets compilers drop the caller's test
        return payload;
    }
    /// A call through this object's address: with the writer's address the hot path would need one register more.
    [[gnu::noinline]] bool announce_long(std::size_t length) noexcept { return writer_.announce_long(length); }
    [[gnu::noinline, gnu::cold]] inline std::int64_t offer_reserving(const std::byte* payload, std::size_t length,
                                                                     std::int32_t type);
    [[gnu::noinline, gnu::cold]] inline bool reserve_in_use(std::size_t length);
    /// Publish 10: wakes sleeping readers, if there are any.
    [[gnu::always_inline]] inline void wake_readers() const noexcept {
        if (waker_.is_due() || jobs_.is_due()) wake_readers_now();
    }
    /// A call through this object's address, as above.
    [[gnu::noinline, gnu::cold]] void wake_readers_now() const noexcept {
        if (jobs_.is_due()) jobs_.wake_one();
        if (waker_.is_due()) waker_.wake(waker_bit_);
    }
    void publish_reserved(const std::byte* payload, std::size_t length, std::int32_t type) {
        writer_.publish(writer_.size_of(length), length + header_length, type, wrapping_add(writer_.count, 1),
                        [&](std::byte* to) {
                            if (length != 0) std::memcpy(to, payload, length);
                        });
    }
    inline bool lags_behind(std::uint32_t slot, std::int64_t position) const noexcept;

    /// A wait for room. It marks the object as in use, except during a turn.
    class RoomWait {
      public:
        RoomWait(PublisherCore& core, Nanoseconds timeout, Use rest = idle)
            : core_(core),
              wait_((core.take_for_wait(rest), core), rest),
              turns_(core, timeout, core.spin_, true, core.state_->file.is_queue() ? core.writer_.ring.capacity() : 0) {
        }
        /// Of a queue: the wait may begin with a rest, and it ends with Busy if only the calling thread itself could
        /// make room.
        void for_room(Nanoseconds timeout) noexcept {
            unless_busy(timeout);
            if (looks_for_own_) {
                turns_.rest(core_.room_rest_.begin(turns_.start(), core_.writer_.end, core_.writer_.ring.capacity()));
            }
        }
        void unless_busy(Nanoseconds timeout) noexcept {
            looks_for_own_ = core_.state_->file.is_queue() && timeout.count() > 0;
        }
        /// The same for a flush, which waits until no gate lies below `end`.
        void unless_busy(Nanoseconds timeout, std::int64_t end) noexcept {
            unless_busy(timeout);
            flushed_ = static_cast<std::uint64_t>(end) + core_.writer_.ring.capacity();
        }
        /// Returns when it is time to try again. False: the deadline has passed.
        template <typename Ready>
        bool turn(Ready&& ready) {
            wait_.put_back();
            if (looks_for_own_) core_.check_busy(flushed_ != 0 ? flushed_ : core_.writer_.needed_last);
            const bool again = turns_.next(ready);
            wait_.take(trying);
            core_.writer_.stands_back = false;  // the wait was a pause
            if (!core_.usable()) core_.throw_unusable();
            return again;
        }
        bool turn() {
            return turn([this] { return core_.is_ready(); });
        }
        void end(Use as) noexcept { wait_.end(as); }

      private:
        PublisherCore& core_;
        Wait wait_;
        Turns turns_;
        bool looks_for_own_ = false;  // for workers of the calling thread
        std::uint64_t flushed_ = 0;   // for a flush: the least gate + capacity; 0: waits for room
    };
    [[gnu::cold, gnu::noinline]] inline void check_busy(std::uint64_t needed);
    [[gnu::cold, gnu::noinline]] inline void flush_queue(Nanoseconds timeout);
    inline void take_for_wait(Use rest);

    inline void check_batch(span<const Bytes> messages, std::int32_t type, Nanoseconds timeout = Nanoseconds::zero());
    inline void publish_batches(span<const Bytes> messages, std::int32_t type, std::size_t& taken);
    std::size_t reserve_batch(span<const Bytes> messages, std::uint64_t& size);
    void publish_batch(span<const Bytes> messages, std::uint64_t size, std::int32_t type) noexcept;
    void take_slot();

    SlotWriter writer_;
    Waker waker_;
    Waker jobs_;  // for a queue's workers; in other kinds never due
    std::uint32_t waker_bit_ = 0;
    std::size_t claim_length_ = 0;  // bytes of payload
    bool publisher_ended_ = false;  // the open claim owns this object
    Nanoseconds spin_ = default_spin;
    RoomRest room_rest_;
    std::int64_t max_lag_ = 0;
    std::shared_ptr<ChannelState> state_;
    std::string name_;
};

inline PublisherCore::PublisherCore(std::shared_ptr<ChannelState> state, const std::string& name, std::uint64_t max_lag)
    : max_lag_(static_cast<std::int64_t>(max_lag)), state_(std::move(state)), name_(name) {
    if (!name.empty()) check_name("name", name);
    const std::uint64_t capacity = state_->file.header.capacity;
    if (max_lag != 0 && (max_lag < capacity / layout::MIN_LAG_DIVISOR || max_lag > capacity)) {
        throw InvalidArgument("max_lag", std::to_string(max_lag) +
                                             " is neither 0 nor from half the capacity to all of " +
                                             std::to_string(capacity) + " bytes");
    }
    state_->enter(*this, [&] { take_slot(); });
}

/// Takes a publisher slot (5.2), and sets up this object.
inline void PublisherCore::take_slot() {
    const ChannelFile& file = state_->file;
    std::uint32_t taken = 0;
    std::int64_t epoch = 0;
    const std::int64_t clock_offset = monotonic_offset();
    waker_ = Waker(file.data(), file.wakes);  // before the locks: the kernel may take some milliseconds
    if (file.is_queue()) jobs_ = Waker(file.jobs(), file.wakes);
    SlotLock lock = detail::take_slot(file, publisher_slots(file), name_, [&](std::uint32_t slot) {
        epoch = writer_.take(file, slot, name_);
        waker_bit_ = waiting_bit(slot);
        wake_all(file.data());
        if (file.is_queue()) wake_all(file.jobs());
        taken = slot;
    });
    set_owner(std::move(lock), taken, publisher_slot(file, taken).epoch(), epoch);
    writer_.begin(lock_.description(), clock_offset, max_lag_);
}

/// The order of the checks is that of spec/api.md, "Which error comes first".
void PublisherCore::refuse(std::size_t length, std::int32_t type, Nanoseconds timeout) {
    if (!open()) throw_unusable();
    check_idle();
    if (use() == claim_open) throw ViewAlive("a claim of this publisher is open; commit or abort it first");
    if (type < 1) throw InvalidArgument("type", std::to_string(type) + " is not 1 to 2147483647");
    check_timeout(timeout);
    if (length > writer_.max_payload) throw MessageTooLarge(length, writer_.max_payload);
    if (!usable()) throw_unusable();
    throw_two_threads();  // another thread used the object just now
}

inline void PublisherCore::throw_unusable() {
    if (open()) throw SlotLost("publisher", slot_);
    throw Closed("publisher of ring " + std::to_string(slot_) + " of channel " + state_->file.path +
                 " is used after it was " + why_unusable_);
}

void PublisherCore::lose_claim() {
    try {
        throw_unusable();
    } catch (...) {
        end_lost_claim();  // may delete this object
        throw;
    }
}

/// All steps of 6.1, for the cases that offer's fast path does not cover.
std::int64_t PublisherCore::offer_reserving(const std::byte* payload, std::size_t length, std::int32_t type) {
    if (!reserve_in_use(length)) return layout::BACK_PRESSURED;
    publish_reserved(payload, length, type);
    set_use(idle);
    wake_readers();
    return writer_.end;
}

/// Reserves room with the object marked as in use. Marks it as idle again if there is no room.
bool PublisherCore::reserve_in_use(std::size_t length) {
    set_use(in_use);
    bool room = false;
    try {
        room = writer_.reserve(length);
    } catch (...) {
        set_use(idle);
        throw;
    }
    if (!room) set_use(idle);
    return room;
}

void PublisherCore::check_batch(span<const Bytes> messages, std::int32_t type, Nanoseconds timeout) {
    std::size_t longest = 0;
    for (const Bytes& message : messages) longest = std::max(longest, message.size());
    const bool wrong = type < 1 || timeout.count() < 0 || longest > writer_.max_payload;
    if (use() != idle || !usable() || wrong) refuse(longest, type, timeout);
}

/// Publishes as many messages as there is room for (6.3). An error after the first batch is not thrown.
inline std::size_t PublisherCore::offer_batch(span<const Bytes> messages, std::int32_t type) {
    check_batch(messages, type);
    const InUse guard(*this);
    std::size_t taken = 0;
    try {
        publish_batches(messages, type, taken);
    } catch (...) {
        if (taken == 0) throw;  // otherwise return the number; the next call finds the error again
    }
    return taken;
}

/// Publishes as many of `messages` as there is room for (6.3), from index `taken` on, and raises `taken`.
void PublisherCore::publish_batches(span<const Bytes> messages, std::int32_t type, std::size_t& taken) {
    struct Wake {  // wakes readers for what was published, also if a later step throws
        PublisherCore& core;
        const std::size_t& taken;
        const std::size_t before = taken;
        ~Wake() {
            if (taken > before) core.wake_readers();
        }
    } const wake{*this, taken};
    while (taken < messages.size()) {
        std::uint64_t size = 0;
        const std::size_t together = reserve_batch(messages.subspan(taken), size);
        if (together == 0) return;
        publish_batch(messages.subspan(taken, together), size, type);
        taken += together;
    }
}

/// Returns how many of `messages` can be published together now (6.3), and their total in `size`.
inline std::size_t PublisherCore::reserve_batch(span<const Bytes> messages, std::uint64_t& size) {
    if (writer_.owner_pending && !writer_.publish_owner_record()) return 0;
    const std::uint64_t first = writer_.size_of(messages[0].size());
    if (!writer_.pad_to_fit(first)) return 0;

    const auto count_within = [&](std::uint64_t most) {
        std::size_t count = 0;
        size = 0;
        while (count < messages.size() && size + writer_.size_of(messages[count].size()) <= most) {
            size += writer_.size_of(messages[count++].size());
        }
        return count;
    };
    const std::size_t count = count_within(
        std::min<std::uint64_t>(writer_.to_ring_end(), writer_.ring.capacity() / layout::MAX_MESSAGE_DIVISOR));
    if (!writer_.find_room(size, first)) return 0;
    if (writer_.has_room(size)) return count;
    return count_within(static_cast<std::uint64_t>(writer_.limit - writer_.end) - header_length);
}

/// Publishes `messages`, for which there is room, so that all become visible with the first one's length (6.3).
inline void PublisherCore::publish_batch(span<const Bytes> messages, std::uint64_t size, std::int32_t type) noexcept {
    const Bytes first = messages[0];
    const std::int64_t count = wrapping_add(writer_.count, static_cast<std::int64_t>(messages.size()));
    writer_.publish(size, first.size() + header_length, type, count, [&](std::byte* to) {
        const Ring ring = writer_.ring;
        std::int64_t at = static_cast<std::int64_t>(writer_.end_of(first.size()));
        for (const Bytes& message : messages.subspan(1)) {
            // No ordering: readers reach these records only through the first one's length, which is stored last.
            store_relaxed(ring.length_at(at), static_cast<std::int32_t>(message.size() + header_length));
            store_relaxed(ring.type_at(at), type);
            if (!message.empty()) std::memcpy(ring.payload_at(at), message.data(), message.size());
            at += static_cast<std::int64_t>(writer_.size_of(message.size()));
        }
        if (!first.empty()) std::memcpy(to, first.data(), first.size());
    });
}

/// The cap of a wait for room (6.16).
std::int64_t PublisherCore::cap(std::int64_t waited) const noexcept {
    constexpr std::int64_t second = 1'000'000'000;  // ns
    if (!subscribers_wake(state_->file, writer_.ring)) return short_cap;
    return waited < second ? first_room_cap : room_cap;
}

/// In a wait set: evicts, retires and takes back as an offer without room does (6.2, 3 and 4).
bool PublisherCore::look_after() {
    const ChannelFile& file = state_->file;
    if (!is_ready() && writer_.is_time_to_test()) {
        const Fd& description = lock_.description();
        if (max_lag_ != 0) evict_lagging(file, writer_.ring, description, max_lag_, writer_.needed_last);
        retire(file, writer_.ring, description, writer_.needed_last);
        take_back_evicted(file, writer_.ring, description, writer_.needed_last);
    }
    if (is_ready()) return true;
    if (!is_replaced(file)) return false;
    writer_.successor.look_soon();
    return true;
}

/// Takes the object for a wait. If another thread closes it, waits for that, which ends soon.
void PublisherCore::take_for_wait(Use rest) {
    while (!exchange_use(rest, trying)) {
        if (use() != closing && use() != rest) throw_two_threads();
        sched_yield();
    }
}

inline std::int64_t PublisherCore::send(const std::byte* payload, std::size_t length, std::int32_t type,
                                        Nanoseconds timeout) {
    if (timeout.count() < 0) refuse(length, type, timeout);
    const std::int64_t position = offer(payload, length, type);
    if (FLYRING_LIKELY(position != layout::BACK_PRESSURED)) return position;
    RoomWait wait(*this, timeout);
    wait.for_room(timeout);
    while (wait.turn()) {
        if (!writer_.reserve(length)) continue;
        publish_reserved(payload, length, type);
        const std::int64_t end = writer_.end;
        wait.end(idle);
        wake_readers();
        return end;
    }
    throw_back_pressured();
}

/// The rest of a claim that has found no room: waits for it.
template <typename Type>
std::byte* PublisherCore::claim_waiting(std::size_t length, Type type, Nanoseconds timeout) {
    RoomWait wait(*this, timeout);
    wait.for_room(timeout);
    while (wait.turn()) {
        if (!writer_.reserve(length)) continue;
        writer_.announce(static_cast<std::int64_t>(writer_.end_of(length)));
        wait.end(claim_open);
        return open_claim(length, type);
    }
    throw_back_pressured();
}

/// Publishes `messages`, waiting for room. Returns how many were published before the time-out.
inline std::size_t PublisherCore::send_batch(span<const Bytes> messages, std::int32_t type, Nanoseconds timeout) {
    check_batch(messages, type, timeout);
    std::size_t taken = 0;
    {
        const InUse guard(*this);
        publish_batches(messages, type, taken);
    }
    if (taken == messages.size()) return taken;
    RoomWait wait(*this, timeout);
    wait.for_room(timeout);
    while (taken < messages.size() && wait.turn()) publish_batches(messages, type, taken);
    return taken;
}

/// Whether the gate of a subscriber slot is >= 0 and below `position`.
bool PublisherCore::lags_behind(std::uint32_t slot, std::int64_t position) const noexcept {
    const std::int64_t gate = load_acquire(writer_.ring.gate(slot));  // pairs with poll 4
    return gate >= 0 && gate < position;
}

/// Waits until every subscriber with an owner has read what was published. It publishes nothing, so a claim may be
/// open.
void PublisherCore::flush(Nanoseconds timeout) {
    if (!open()) throw_unusable();
    check_idle();
    check_timeout(timeout);
    if (!usable()) throw_unusable();
    const ChannelFile& file = state_->file;
    if (file.is_queue()) return flush_queue(timeout);
    const std::int64_t end = writer_.end;
    std::vector<std::uint32_t> behind;
    const auto lags = [&](std::uint32_t slot) { return lags_behind(slot, end); };
    RoomWait wait(*this, timeout, use() == claim_open ? claim_open : idle);
    for (;;) {
        behind.clear();
        for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
            if (!lags(slot)) continue;
            const bool owned = file.header.foreign != Foreign::none ||
                               is_locked_by_another(lock_.description(), file.subscriber_lock(slot));
            if (owned) behind.push_back(slot);
        }
        if (behind.empty()) return;
        if (!wait.turn([&] { return !usable() || std::none_of(behind.begin(), behind.end(), lags); })) break;
        check_replaced(file);
    }
    throw TimedOut("subscriber slot " + std::to_string(behind.front()) + " to read what was published on ring " +
                   std::to_string(ring()) + " of channel " + file.path);
}

/// The flush of a queue: waits until no gate lies below what was published. Each look tests slot 0 first, and counts
/// only if no job changed hands meanwhile (spec/queue.md 4).
void PublisherCore::flush_queue(Nanoseconds timeout) {
    const ChannelFile& file = state_->file;
    const std::int64_t end = writer_.end;
    std::uint32_t behind = 0;
    const auto all_done = [&] {
        const std::int64_t before = load_acquire(file.handovers());  // pairs with adopt 5
        for (behind = 0; behind < file.header.subscribers; ++behind) {
            if (lags_behind(behind, end)) return false;
        }
        return load_acquire(file.handovers()) == before;
    };
    RoomWait wait(*this, timeout, use() == claim_open ? claim_open : idle);
    wait.unless_busy(timeout, end);
    while (!all_done()) {
        if (!wait.turn([&] { return !usable() || all_done(); })) {
            throw TimedOut((behind == 0 ? std::string("workers to take")
                                        : "worker slot " + std::to_string(behind) + " to finish") +
                           " what was published on ring " + std::to_string(ring()) + " of channel " + file.path);
        }
        check_replaced(file);
    }
}

/// Throws Busy if this producer is held back by a job that the calling thread itself works on: that worker's gate plus
/// the capacity is below `needed`. Only this thread can move that gate. Must not be called while this object is trying.
void PublisherCore::check_busy(std::uint64_t needed) {
    if (!usable()) return;
    std::optional<Holder> holder;
    state_->any_member([&](const Member& member) {
        const std::optional<std::uint32_t> slot = member.busy_slot();
        if (!slot) return false;
        const std::int64_t gate = load_acquire(writer_.ring.gate(*slot));
        if (gate < 0 || static_cast<std::uint64_t>(gate) + writer_.ring.capacity() >= needed) return false;
        SlotFields owner;
        if (!read_fields(subscriber_slot(state_->file, *slot), owner)) owner.name_length = 0;
        holder = Holder{*slot, std::string(owner.letters, owner.name_length), owner.pid, true, false, gate};
        return true;
    });
    if (holder) throw Busy(*std::move(holder));
}

inline std::optional<Holder> PublisherCore::held_by() {
    if (!open()) throw_unusable();
    check_idle();
    if (!usable()) throw_unusable();
    return find_holder(state_->file, writer_.ring, lock_.description());
}

/// Throws BackPressured with the current holder. The object must be marked as in use.
void PublisherCore::throw_back_pressured() {
    throw BackPressured(find_holder(state_->file, writer_.ring, lock_.description()));
}

inline std::uint32_t PublisherCore::readers() {
    if (!open()) throw_unusable();
    check_idle();
    if (!usable()) throw_unusable();
    const ChannelFile& file = state_->file;
    struct Mark {  // a close by another thread is refused meanwhile
        PublisherCore& core;
        std::uint32_t before;
        ~Mark() { core.set_use(before); }
    } const mark{*this, use()};
    set_use(in_use);
    std::optional<ControlLock> control;  // so that no join is under way (6.4); a worker gets earlier jobs, too
    if (file.header.foreign == Foreign::none && !file.is_queue()) control.emplace(lock_.description(), file);
    return count_readers(file, writer_.ring, lock_.description());
}

/// Aborts an open claim, then closes (5.2, close).
inline void PublisherCore::close() noexcept {
    const bool claimed = (was_waiting() ? load_relaxed(&rest_) : use()) == claim_open;
    if (claimed && usable()) abort_open_claim(use());  // its use stays: the claim still refers to this object
    Member::close();
}

inline void PublisherCore::give_back(bool owned) noexcept {
    if (!owned) return;
    store_release(publisher_slot(state_->file, slot_).closed(), 1);  // after the last record
    wake_all(state_->file.data());
    if (state_->file.is_queue()) wake_all(state_->file.jobs());
}

}  // namespace flyring::detail
