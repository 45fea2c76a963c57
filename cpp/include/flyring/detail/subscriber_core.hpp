// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "flyring/detail/readers.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/sender.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/wait_for.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/message.hpp"

namespace flyring::detail {

/// A reliable reader of chosen rings: poll (spec/channel.md 6.9), and join, resume and leave (6.4 to 6.6). A Subscriber
/// owns it.
class SubscriberCore final : public Member {
  public:
    /// `timeout`: how long to wait for a free slot.
    SubscriberCore(std::shared_ptr<ChannelState> state, const std::string& name, bool kept,
                   const std::optional<Rings>& rings, Nanoseconds timeout);
    SubscriberCore(const SubscriberCore&) = delete;
    SubscriberCore& operator=(const SubscriberCore&) = delete;
    ~SubscriberCore() override { state_->leave(*this); }

    /// Polls without a wait (6.9).
    template <typename Handler>
    int poll(Handler& handler, int limit) {
        if (FLYRING_UNLIKELY(use() != idle || !usable())) refuse(Nanoseconds::zero());
        const InUse guard(*this);
        return poll_in_use(handler, limit);
    }

    /// Polls, and waits for the first message until the time-out.
    template <typename Handler>
    int poll(Handler& handler, int limit, Nanoseconds timeout) {
        if (FLYRING_UNLIKELY(use() != idle || !usable() || timeout.count() < 0)) refuse(timeout);
        set_use(in_use);
        Wait wait(*this);
        int done = poll_in_use(handler, limit);
        if (FLYRING_LIKELY(done != 0) || is_over<Handler>(limit) || timeout.count() == 0) return done;
        Turns turns(*this, timeout, spin_);
        while (done == 0 && wait_for_message(wait, turns)) {
            done = poll_in_use(handler, limit);
            if (is_over<Handler>(limit)) break;
        }
        return done;
    }

    void set_spin(Nanoseconds time) { spin_ = checked_spin(time); }
    void forget();
    inline void give_back(bool owned) noexcept override;
    [[noreturn, gnu::cold]] inline void throw_unusable() override;
    [[noreturn, gnu::cold]] void throw_in_use() override {
        throw TwoThreads("subscriber slot " + std::to_string(slot_));
    }
    void check_idle() const {
        if (use() != idle) {
            throw ViewAlive("subscriber slot " + std::to_string(slot_) +
                            " is at work, in its handler or in another thread; close it after the poll");
        }
    }

    // Waiting (6.16).
    WaitingWords words() const noexcept override { return state_->file.data(); }
    std::uint32_t mask() const noexcept override { return mask_of(rings_); }
    bool is_ready() const noexcept override {
        if (!usable()) return true;
        return std::any_of(readers_.begin(), readers_.end(), [](const Reader& reader) {
            return load_acquire(reader.ring.length_at(reader.cursor)) > 0;  // poll 1; pairs with publish 6
        });
    }
    std::int64_t cap(std::int64_t) const noexcept override {
        return publishers_wake(state_->file, rings_) ? data_cap : short_cap;
    }

    bool look_after() override {
        const bool replaced = is_replaced(state_->file);
        if (replaced) idle_polls_.look_next();  // the next poll throws it
        return replaced || is_ready();
    }

    ChannelState& state() const noexcept override { return *state_; }
    std::int64_t position(std::uint32_t ring) const { return reader_of(readers_, ring).cursor; }
    bool ended(std::uint32_t ring);
    const std::vector<std::uint32_t>& rings() const noexcept { return rings_; }
    std::uint32_t slot() const noexcept { return slot_; }
    const std::string& name() const noexcept { return name_; }
    bool kept() const noexcept { return kept_; }
    std::int64_t epoch() const noexcept { return epoch_; }

  private:
    /// The state of this subscriber in one ring.
    struct Reader {
        Ring ring;
        std::int64_t* gate;
        std::int64_t cursor;
        std::int64_t store_due;  // a cursor at or above this is stored at once
        Sender* sender;          // null: the ring is corrupt
        std::int64_t count;      // messages before the gate's position (6.5); COUNT_UNKNOWN: not known

        std::int64_t eighth() const noexcept {
            return ring.capacity() / static_cast<std::int64_t>(layout::GATE_STORE_DIVISOR);
        }
        /// The position in the gate.
        std::int64_t stored() const noexcept { return store_due - eighth(); }
        void set_stored(std::int64_t position) noexcept { store_due = position + eighth(); }
    };
    static_assert(sizeof(Reader) == 64);  // one cache line: a poll of many rings reads each

    /// The body of poll; the object is marked as in use.
    template <typename Handler>
    [[gnu::always_inline]] int poll_in_use(Handler& handler, int limit) {
        if constexpr (returns_action<Handler>) last_action_ = Action::CONTINUE;
        // `limit` is captured by value: by reference, compilers do not see that it is a constant, and each message pays
        // for it.
        const int done = poll_rings<returns_action<Handler>>(
            readers_, next_ring_, limit, last_action_,
            [this, &handler, limit](Reader& reader, int before)
                __attribute__((always_inline)) { return poll_ring(reader, handler, limit, before); });
        if constexpr (returns_action<Handler>) {  // an aborted first message stores no gate, so nothing was checked
            if (FLYRING_UNLIKELY(last_action_ == Action::ABORT && !open())) throw_unusable();  // in a forked child
        }
        if (done == 0) {
            idle_polls_.found_nothing(state_->file);
            return 0;
        }
        idle_polls_.found_something();
        return done;
    }

    /// Whether a poll that handed out nothing is the last one of this call.
    template <typename Handler>
    bool is_over(int limit) const noexcept {
        if constexpr (returns_action<Handler>) return limit <= 0 || last_action_ == Action::ABORT;
        return limit <= 0;
    }

    /// Polls one ring (6.9, 1 to 6). `done`: messages handed out before; returns their number afterwards.
    template <typename Handler>
    int poll_ring(Reader& reader, Handler& handler, int limit, int done) {
        const Ring ring = reader.ring;
        const std::int64_t first = reader.cursor;
        std::int64_t cursor = first;
        const std::int64_t capacity = ring.capacity();
        std::int64_t stride = ring.alignment();  // of the last record
        const Sender* const sender = reader.sender;
        int counted = done;  // value of `done` at the last gate store
        try {
            do {
                const std::int32_t length = load_acquire(ring.length_at(cursor));  // poll 1; pairs with publish 6
                if (length <= 0) break;
                const std::int64_t end = next_record(cursor, ring.align(length), stride);
                if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) ||
                    (cursor & ring.mask()) + ring.align(length) > capacity) {
                    set_corrupt(reader, cursor, done - counted, "a record's length is out of range");
                }
                const std::int32_t type = load_relaxed(ring.type_at(cursor));
                const std::int64_t start = cursor;
                if (FLYRING_LIKELY(type > 0)) {
                    cursor = end;  // before the handler: consumed even if the handler throws
                    ++done;
                    const Message message(ring.payload_at(start),
                                          static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH, type, start,
                                          *sender);
                    if constexpr (returns_action<Handler>) {
                        last_action_ = checked(handler(message));
                        if (last_action_ == Action::ABORT) {
                            cursor = start;
                            --done;
                        }
                        if (ends_poll(last_action_)) break;
                        if (last_action_ == Action::COMMIT) {
                            store_gate(reader, cursor, done - counted);
                            counted = done;
                        }
                    } else {
                        handler(message);
                    }
                } else if (type == layout::TYPE_PADDING || type == layout::TYPE_OWNER) {
                    if (type == layout::TYPE_OWNER) note_sender(reader, cursor, length);
                    cursor = end;
                    if (cursor - first >= capacity) break;  // a hostile ring may hold nothing but padding
                } else {
                    set_corrupt(reader, cursor, done - counted, "a record has an unknown type");
                }
                if (cursor >= reader.store_due) {
                    store_gate(reader, cursor, done - counted);
                    counted = done;
                }
            } while (done < limit);
        } catch (...) {
            end_throwing(reader, cursor, done - counted);
            throw;
        }
        if (cursor != first) store_gate(reader, cursor, done - counted);
        return done;
    }

    /// Poll 4 to 6: stores the gate; `messages` were consumed since the last store. Throws SlotLost if the slot is
    /// lost.
    void store_gate(Reader& reader, std::int64_t cursor, int messages) {
        if (FLYRING_UNLIKELY(!store_own_gate(reader, cursor, messages))) end_lost();
    }

    /// Poll 4 to 6 without the error. False: this object has lost its slot; or it is closed or in a forked child, and
    /// nothing is stored. Not inlined: inlined, it takes registers from the loop over the messages, and slows the loop
    /// by a fifth.
    [[gnu::noinline]] bool store_own_gate(Reader& reader, std::int64_t cursor, int messages) noexcept {
        std::int64_t* const gate = reader.gate;
        const std::int64_t due = cursor + reader.eighth();
        reader.cursor = cursor;
        if (due == reader.store_due) return true;  // the gate has this position already
        if (!open()) return false;
        std::int64_t count = reader.count;
        if (count != layout::COUNT_UNKNOWN) count = wrapping_add(count, messages);
        reader.count = count;
        reader.store_due = due;
        store_relaxed(Ring::count_beside(gate), count);
        store_release(gate, cursor);  // pairs with recompute 2: all reads below it come first
        if (waker_.is_due()) waker_.wake(waiting_bit(reader.ring.index));  // poll 6
        // Poll 5; pairs with evict, which raises the epoch before it takes the gates and bytes are overwritten.
        acquire_fence();
        return usable();
    }

    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse(Nanoseconds timeout);
    [[noreturn, gnu::noinline, gnu::cold]] inline void set_corrupt(Reader& reader, std::int64_t position, int messages,
                                                                   const char* reason);
    [[gnu::noinline, gnu::cold]] inline void end_throwing(Reader& reader, std::int64_t cursor, int messages) noexcept;
    [[gnu::noinline, gnu::cold]] inline static void note_sender(Reader& reader, std::int64_t cursor,
                                                                std::int32_t length);
    void take_slot(const std::string& name, bool kept, const Rings& rings);
    void check_published(const Rings& rings) const;
    void join(std::uint32_t slot, const Rings& rings);
    void resume(std::uint32_t slot, const Rings& asked);
    void add_reader(std::uint32_t slot, std::uint32_t ring, std::int64_t cursor, std::int64_t count);
    void take_back_gates() noexcept;
    void give_up_slot() noexcept;
    [[noreturn, gnu::noinline, gnu::cold]] inline void lose_slot();
    [[noreturn, gnu::noinline, gnu::cold]] inline void end_lost();

    [[gnu::noinline]] inline bool wait_for_message(Wait& wait, Turns& turns);

    std::size_t next_ring_ = 0;  // index of the reader with which the next poll starts
    Waker waker_;
    std::vector<Reader> readers_;
    IdlePolls idle_polls_;
    Action last_action_ = Action::CONTINUE;  // only for a handler that returns actions
    std::vector<Sender> senders_;            // one for each reader, in the same order
    std::vector<std::uint32_t> rings_;
    std::shared_ptr<ChannelState> state_;
    std::string name_;
    Nanoseconds spin_ = default_spin;
    bool kept_ = false;
};

inline SubscriberCore::SubscriberCore(std::shared_ptr<ChannelState> state, const std::string& name, bool kept,
                                      const std::optional<Rings>& rings, Nanoseconds timeout)
    : state_(std::move(state)), name_(name), kept_(kept) {
    if (!name.empty()) check_name("name", name);
    if (kept && name.empty() && state_->file.header.kind != Kind::inbox) {
        throw InvalidArgument("name", "a kept subscriber needs one");
    }
    const std::vector<std::uint32_t> asked = sorted_rings(state_->file, rings);
    check_timeout(timeout);
    const std::int64_t deadline = later(clock_ns(CLOCK_MONOTONIC), timeout.count());
    for (;;) {
        try {
            state_->enter(*this, [&] { take_slot(name, kept, asked); });
            return;
        } catch (const NoFreeSlot&) {
            if (clock_ns(CLOCK_MONOTONIC) >= deadline) throw;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the death of an owner wakes no waiter
    }
}

/// Takes a subscriber slot and joins or resumes (5.3).
inline void SubscriberCore::take_slot(const std::string& name, bool kept, const Rings& rings) {
    const ChannelFile& file = state_->file;
    const bool foreign = file.header.foreign != Foreign::none;  // its writer needs a gate >= 0 at all times (6.15)
    std::uint32_t taken = 0;
    std::int64_t epoch = 0;
    bool resumed = false;
    waker_ = Waker(file.room(), file.wakes);  // before the locks: the kernel may take some milliseconds
    // All allocations come before the first store, so that a failure leaves the file unchanged.
    readers_.reserve(file.header.publishers);
    rings_.reserve(file.header.publishers);
    senders_.clear();  // of an earlier try
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) senders_.push_back(unknown_sender(ring));
    SlotLock lock = detail::take_slot(file, subscriber_slots(file), name, [&](std::uint32_t slot) {
        const SlotWords words = subscriber_slot(file, slot);
        bool gating = false;
        for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
            gating = gating || load_acquire(file.ring(ring).gate(slot)) >= 0;
        }
        kept_ = foreign || load_acquire(words.kept()) != 0;
        resumed = foreign || (kept_ && gating && load_acquire(words.evicting()) == 0);
        // All checks come before the first store (5.3, 3).
        resumed ? resume(slot, rings) : check_published(rings);
        epoch = words.take(name, file.environment, file.wakes, [] {});
        if (!resumed) {
            if (kept_) store_release(words.evicting(), 1);  // after a death in join, its gates must not be resumed at
            join(slot, rings);
            if (kept) store_release(words.kept(), 1);  // after its gates; pairs with retire
            if (load_acquire(words.evicting()) != 0) store_release(words.evicting(), 0);
            kept_ = kept_ || kept;
        }
        wake_all(file.room());
        taken = slot;
    });
    senders_.erase(senders_.begin() + static_cast<std::ptrdiff_t>(rings_.size()), senders_.end());
    for (std::size_t i = 0; i < readers_.size(); ++i) {
        senders_[i].ring = rings_[i];
        set_sender(senders_[i], file, readers_[i].cursor);
        readers_[i].sender = &senders_[i];
        if (resumed && !foreign) readers_[i].count = count_at(readers_[i].ring, readers_[i].cursor);
        file.readable.prefault(readers_[i].ring.data, readers_[i].ring.capacity());
    }
    set_owner(std::move(lock), taken, subscriber_slot(file, taken).epoch(), epoch);
}

/// Adds the state of one ring, with the cursor at `cursor`.
inline void SubscriberCore::add_reader(std::uint32_t slot, std::uint32_t ring, std::int64_t cursor,
                                       std::int64_t count) {
    const ChannelFile& file = state_->file;
    readers_.push_back({file.readable_ring(ring), file.ring(ring).gate(slot), cursor, 0, nullptr, count});
    readers_.back().set_stored(cursor);
    rings_.push_back(ring);
}

/// Whether `rings`, which are sorted, contain `ring`; no rings means all.
inline bool is_chosen(const Rings& rings, std::uint32_t ring) {
    return rings.empty() || std::binary_search(rings.begin(), rings.end(), ring);
}

/// Checks `published` of the chosen rings before a join (5.3, 3).
inline void SubscriberCore::check_published(const Rings& rings) const {
    for (std::uint32_t index = 0; index < state_->file.header.publishers; ++index) {
        const Ring ring = state_->file.ring(index);
        if (!is_chosen(rings, index)) continue;
        const std::int64_t published = load_acquire(ring.published());  // publish 7
        if (!ring.is_position(published)) {
            throw_corrupt(state_->file.path, ring, published, "published is no position");
        }
    }
}

/// Joins the chosen rings (6.4); no rings means all.
inline void SubscriberCore::join(std::uint32_t slot, const Rings& rings) {
    const ChannelFile& file = state_->file;
    const auto chosen = [&](std::uint32_t ring) { return is_chosen(rings, ring); };
    const auto checked = [&](const Ring& ring, std::int64_t published) {
        if (ring.is_position(published)) return published;
        clear_gates(file, slot);
        throw_corrupt(file.path, ring, published, "published is no position");
    };
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        if (!chosen(ring)) store_release(file.ring(ring).gate(slot), layout::NOT_GATING);  // join 1
    }
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        if (!chosen(ring)) continue;
        const Ring words = file.ring(ring);
        const std::int64_t published = load_acquire(words.published());  // join 2; pairs with publish 7
        store_release(words.gate(slot), checked(words, published));      // join 2; pairs with recompute 2
    }
    full_fence();  // join 3; pairs with recompute 1
    std::int64_t discarded = 0;
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        if (!chosen(ring)) continue;
        const Ring words = file.ring(ring);
        Counted found{};
        if (!consistent_count(words, found)) {
            found = {load_acquire(words.published()), layout::COUNT_UNKNOWN};  // pairs with publish 7
        }
        store_release(words.gate(slot), checked(words, found.position));  // join 4; pairs with recompute 2
        const std::int64_t before = load_relaxed(words.gate_count(slot));
        if (before >= 0 && found.count > before) discarded = wrapping_add(discarded, found.count - before);
        add_reader(slot, ring, found.position, found.count);
    }
    if (kept_ && discarded > 0) {  // join 5
        std::int64_t* const total = subscriber_slot(file, slot).discarded();
        store_relaxed(total, wrapping_add(std::max<std::int64_t>(load_relaxed(total), 0), discarded));
    }
    for (const Reader& reader : readers_) store_relaxed(Ring::count_beside(reader.gate), reader.count);  // join 6
}

/// Resumes at the slot's gates (6.5). Throws ChannelDiffers if the caller asked for other rings than those with a gate.
inline void SubscriberCore::resume(std::uint32_t slot, const Rings& asked) {
    const ChannelFile& file = state_->file;
    const bool foreign = file.header.foreign != Foreign::none;
    for (std::uint32_t index = 0; index < file.header.publishers; ++index) {
        const Ring ring = file.ring(index);
        const std::int64_t gate = load_acquire(ring.gate(slot));  // pairs with poll 4 of the last owner
        if (gate < 0 && !foreign) continue;
        // Pairs with publish 7. A foreign writer stores `claimed` only (6.15).
        const std::int64_t published = load_acquire(foreign ? ring.claimed() : ring.published());
        const std::int64_t claimed = load_acquire(ring.claimed());  // publish 3
        if (!ring.is_position(gate) || !ring.is_position(published) || !ring.is_position(claimed) || gate > claimed ||
            gate < published - static_cast<std::int64_t>(ring.capacity())) {
            throw_corrupt(file.path, ring, gate, "a kept slot's gate is out of reach");
        }
        add_reader(slot, index, gate, layout::COUNT_UNKNOWN);
    }
    if (!asked.empty() && asked != rings_) {
        const auto list = [](const std::vector<std::uint32_t>& rings) {
            std::string text;
            for (const std::uint32_t ring : rings) text += (text.empty() ? "" : ",") + std::to_string(ring);
            return text;
        };
        throw ChannelDiffers(file.path, "rings", list(asked), list(rings_));
    }
}

/// Takes back this slot's gates (5.4): a gate that was stored after an evict would hold publishers back until the slot
/// has a new owner. While this object holds the lock, the slot has no other owner. If the lock cannot be tested,
/// nothing is stored, because the slot may belong to another owner.
inline void SubscriberCore::take_back_gates() noexcept {
    if (!lock_.still_held()) return;
    if (state_->file.header.foreign != Foreign::none) return;           // it cannot be evicted, and the gate stays
    store_release(subscriber_slot(state_->file, slot_).evicting(), 1);  // the next owner must not resume at its gates
    stop_gating(state_->file, slot_);
}

/// What a close stores (5.3, close): a kept slot keeps its gates.
inline void SubscriberCore::give_back(bool owned) noexcept {
    if (!owned) {
        take_back_gates();
    } else if (!kept_) {
        stop_gating(state_->file, slot_);  // 6.6
    }
}

inline void SubscriberCore::forget() {
    if (!open()) throw_unusable();
    check_idle();
    state_->file.check_foreign(state_->file.header.foreign == Foreign::none, "a foreign writer needs the gate");
    if (state_->file.header.kind == Kind::inbox) {
        throw InvalidArgument("kind", "the slot of an inbox is always kept; close it, and evict it to drop what waits");
    }
    if (!usable()) throw_unusable();
    state_->with_lock([this] {
        if (!open()) throw_unusable();  // closed meanwhile
        const ControlLock control(lock_.description(), state_->file);
        const SlotWords words = subscriber_slot(state_->file, slot_);
        store_release(words.kept(), 0);
        clear_gates(state_->file, slot_);
        words.clear_name();
        kept_ = false;
    });
    state_->close(*this, [] {});
}

void SubscriberCore::refuse(Nanoseconds timeout) {
    if (open() && use() == idle) check_timeout(timeout);
    // TwoThreads, also if the other thread has finished just now.
    if (open() && (use() != idle || usable())) throw_in_use();
    throw_unusable();
}

inline void SubscriberCore::throw_unusable() {
    if (open() && use() == idle) lose_slot();
    if (open()) throw SlotLost("subscriber", slot_);  // in a handler: its poll still uses the gates
    throw Closed("subscriber slot " + std::to_string(slot_) + " of channel " + state_->file.path +
                 " is used after it was " + why_unusable_);
}

/// Gives up the lost slot (5.4), and throws SlotLost.
void SubscriberCore::lose_slot() {
    give_up_slot();
    throw SlotLost("subscriber", slot_);
}

/// Takes back the gates and releases the lock, unless the object is closed.
inline void SubscriberCore::give_up_slot() noexcept {
    state_->with_lock([this] {
        if (!open()) return;
        take_back_gates();
        release();
    });
}

/// Ends a poll whose handler threw: its message is consumed. The handler's exception goes first; a lost slot is
/// reported by the next verb.
void SubscriberCore::end_throwing(Reader& reader, std::int64_t cursor, int messages) noexcept {
    if (reader.sender == nullptr) return;  // the ring is corrupt
    if (!store_own_gate(reader, cursor, messages) && open()) give_up_slot();
}

/// Ends a poll that cannot store its gate: the slot is lost, or the handler forked and this is the child.
void SubscriberCore::end_lost() {
    if (open()) lose_slot();
    throw_unusable();
}

/// Marks a ring as corrupt and throws CorruptRing (6.9): from then on it looks empty, and the other rings go on. Throws
/// SlotLost instead if the slot is lost, because an evicted reader may see bytes of a later lap.
void SubscriberCore::set_corrupt(Reader& reader, std::int64_t position, int messages, const char* reason) {
    alignas(layout::RECORD_HEADER_LENGTH) static std::byte nothing[layout::RECORD_HEADER_LENGTH];
    acquire_fence();  // as in poll 5
    if (!usable() && open()) {
        reader.sender = nullptr;  // store nothing more for this ring
        lose_slot();
    }
    const Ring ring = reader.ring;
    if (kept_) {
        if (!store_own_gate(reader, position, messages)) end_lost();
    } else if (open()) {
        store_release(reader.gate, layout::NOT_GATING);             // pairs with recompute 2
        if (waker_.is_due()) waker_.wake(waiting_bit(ring.index));  // as poll 6
    }
    reader.sender = nullptr;
    reader.cursor = position;
    reader.ring = Ring(nothing, sizeof nothing, ring.alignment(), ring.index);
    reader.set_stored(position);
    throw_corrupt(state_->file.path, ring, position, reason);
}

/// Poll 3 for an owner record: notes the sender of the records that follow.
void SubscriberCore::note_sender(Reader& reader, std::int64_t cursor, std::int32_t length) {
    set_sender(*reader.sender, reader.ring.payload_at(cursor),
               static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH);
}

/// Waits until there is something to poll (6.16). False: the deadline has passed.
bool SubscriberCore::wait_for_message(Wait& wait, Turns& turns) {
    for (;;) {
        wait.put_back();
        const bool again = turns.next([this] { return is_ready(); });
        const bool found = again && is_ready();
        wait.take(found ? in_use : trying);
        if (!usable()) {
            wait.end(idle);
            throw_unusable();
        }
        if (found) return true;
        check_replaced(state_->file);
        if (!again) return false;
    }
}

inline bool SubscriberCore::ended(std::uint32_t ring) {
    if (!open()) throw_unusable();
    const Reader& reader = reader_of(readers_, ring);
    if (!usable()) throw_unusable();
    return ring_ended(state_->file, ring, reader.cursor);
}

}  // namespace flyring::detail
