// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flyring/publisher_core.hpp"

// What a publisher does now and then: room, padding, batches, getting rid of the dead and the slow. Included by
// publisher_core.hpp.

namespace flyring::detail {

inline PublisherCore::PublisherCore(std::shared_ptr<ChannelState> state, const std::string& name, std::uint64_t max_lag)
    : max_lag_(static_cast<std::int64_t>(max_lag)), state_(std::move(state)), name_(name) {
    if (!name.empty()) check_name("name", name);
    const std::uint64_t capacity = state_->file.header.capacity;
    if (max_lag != 0 && (max_lag < capacity / layout::MIN_LAG_DIVISOR || max_lag > capacity)) {
        throw InvalidArgument("max_lag", std::to_string(max_lag) +
                                             " is neither 0 nor from half the capacity to all of " +
                                             std::to_string(capacity) + " bytes");
    }
    state_->enter(*this, [&] { take(); });
}

/// 5.2, and what follows from it for this object.
inline void PublisherCore::take() {
    const ChannelFile& file = state_->file;
    std::uint32_t taken = 0;
    std::int64_t epoch = 0;
    SlotLock lock = take_slot(
        file, "publisher", file.header.publishers, name_,
        [](const ChannelFile& channel, const std::string& name) { return publisher_candidates(channel, name); },
        [&](std::uint32_t slot) { return file.publisher_slot_offset(slot) + layout::CONTROL_SLOT_LOCK; },
        [&](std::uint32_t slot, const Fd&) {
            ring_ = file.ring(slot);
            const RingState found = recover(ring_, file.path);
            const SlotWords words = publisher_slot(file, slot);
            epoch = words.take(name_, file.environment, [&] {
                store_relaxed(words.start(), found.published);
                store_relaxed(words.closed(), 0);
            });
            t_ = cleared_ = found.published;
            owner_record_pending_ = file.header.foreign == Foreign::none;  // Agrona knows no such record
            window_ = ring_.window();
            next_boundary_ = ((t_ >> ring_.eighth_shift()) + 1) << ring_.eighth_shift();
            count_ = found.messages;
            taken = slot;
        });
    max_length_ = ring_.capacity / layout::MAX_MESSAGE_DIVISOR - header_length;
    set_fast_end();
    state_->file.mapping.prefault(ring_.data, ring_.capacity);
    own(std::move(lock), taken, publisher_slot(file, taken).epoch(), epoch);
}

void PublisherCore::refuse(std::int32_t type) {
    if (!usable()) throw_unusable();
    check_idle();
    if (use() == claim_open) throw ViewAlive("a claim of this publisher is open; commit or abort it first");
    throw InvalidArgument("type", std::to_string(type) + " is not 1 to 2147483647");
}

inline void PublisherCore::throw_unusable() {
    if (open()) throw SlotLost("publisher", slot_);
    throw Closed("publisher of ring " + std::to_string(slot_) + " of channel " + state_->file.path +
                 " is used after it was " + why_unusable_);
}

std::int64_t PublisherCore::offer_slowly(const std::byte* payload, std::size_t length, std::int32_t type) {
    if (!make_room_in_use(length)) return layout::BACK_PRESSURED;
    publish(aligned(length), length, type, next(count_), [&](std::byte* to) { copy(to, payload, length); });
    set_use(idle);
    return t_;
}

/// make_room, with the object marked as in use; idle again unless there is room.
bool PublisherCore::make_room_in_use(std::size_t length) {
    set_use(in_use);
    bool room = false;
    try {
        room = make_room(length);
    } catch (...) {
        set_use(idle);
        throw;
    }
    if (!room) set_use(idle);
    return room;
}

/// Publish 1 and 2: afterwards a record for `length` bytes may be written at t, unless back-pressured (false).
inline bool PublisherCore::make_room(std::size_t length) {
    if (length > max_length_) throw MessageTooLarge(length, max_length_);
    if (owner_record_pending_ && !publish_owner_record()) return false;
    const std::uint64_t n = aligned(length);
    if (static_cast<std::uint64_t>(t_ & ring_.mask()) + n > ring_.capacity && !publish_padding()) return false;
    return room_for(n);
}

/// Publish 2 and recompute 3 and 4.
inline bool PublisherCore::room_for(std::uint64_t n) {
    if (static_cast<std::uint64_t>(t_) + n >= static_cast<std::uint64_t>(layout::MAX_POSITION)) {
        throw_corrupt(state_->file.path, ring_, t_, "it has reached the last position");
    }
    if (held_back(n)) {
        recompute();
        if (held_back(n) && max_lag_ != 0 && evict_lagging(n)) recompute();
        if (held_back(n)) {
            const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
            if (held_back_since_ == 0) held_back_since_ = now;
            if (now - held_back_since_ < retire_interval) return false;
            held_back_since_ = now;
            retire(n);
            check_replaced(state_->file);
            recompute();
            if (held_back(n)) return false;
        }
    }
    held_back_since_ = 0;
    return true;
}

/// Recompute 1 and 2.
inline void PublisherCore::recompute() noexcept {
    full_fence();  // recompute 1; pairs with join 3
    const std::int64_t capacity = ring_.capacity;
    std::int64_t limit = t_ + capacity;
    for (std::uint32_t slot = 0; slot < state_->file.header.subscribers; ++slot) {
        const std::int64_t gate = load_acquire(ring_.gate(slot));  // pairs with poll 4, join 2 and 4, leave
        // A stock writer that has the ring later computes with it in 32 bits.
        if (state_->file.header.foreign != Foreign::none) store_relaxed(ring_.head_cache(), gate);
        if (gate < 0 || gate >= limit) continue;                                // or it would overflow below
        limit = std::min(limit, gate + (max_lag_ != 0 ? max_lag_ : capacity));  // max_lag is at most the capacity
    }
    limit_ = std::max(limit_, limit);  // what was granted stays good
}

/// Publish 1: a record of the rest up to the ring's end, so that the next one starts at its beginning.
inline bool PublisherCore::publish_padding() {
    const std::uint64_t n = ring_.capacity - static_cast<std::uint64_t>(t_ & ring_.mask());
    if (!room_for(n)) return false;
    publish(n, n - header_length, layout::TYPE_PADDING, count_, [](std::byte*) {});
    return true;
}

/// The first record of a new owner says who writes what follows (4.6).
inline bool PublisherCore::publish_owner_record() {
    std::byte payload[layout::OWNER_RECORD_NAME + layout::MAX_NAME_LENGTH];
    put(payload + layout::OWNER_RECORD_EPOCH, epoch_);
    put(payload + layout::OWNER_RECORD_NAME_LENGTH, static_cast<std::int32_t>(name_.size()));
    std::memcpy(payload + layout::OWNER_RECORD_NAME, name_.data(), name_.size());
    const std::size_t length = layout::OWNER_RECORD_NAME + name_.size();

    const std::uint64_t n = aligned(length);
    if (static_cast<std::uint64_t>(t_ & ring_.mask()) + n > ring_.capacity && !publish_padding()) return false;
    if (!room_for(n)) return false;
    owner_record_pending_ = false;
    publish(n, length, layout::TYPE_OWNER, count_, [&](std::byte* to) { std::memcpy(to, payload, length); });
    set_fast_end();
    return true;
}

/// 6.3
inline std::size_t PublisherCore::offer_batch(span<const Bytes> messages, std::int32_t type) {
    if (use() != idle || !usable() || type < 1) refuse(type);
    for (const Bytes& message : messages) {
        if (message.size() > max_length_) throw MessageTooLarge(message.size(), max_length_);
    }
    set_use(in_use);
    std::size_t taken = 0;
    try {
        while (taken < messages.size()) {
            std::uint64_t n = 0;
            const std::size_t together = take_together(messages.subspan(taken), n);
            if (together == 0) break;
            write_together(messages.subspan(taken, together), n, type);
            taken += together;
        }
    } catch (...) {
        set_use(idle);
        if (taken == 0) throw;  // else the caller must learn how many went; what is wrong is found again
    }
    set_use(idle);
    return taken;
}

/// How many of `messages`, n bytes, go into the ring as one claim now.
inline std::size_t PublisherCore::take_together(span<const Bytes> messages, std::uint64_t& n) {
    if (owner_record_pending_ && !publish_owner_record()) return 0;
    const std::uint64_t first = aligned(messages[0].size());
    if (static_cast<std::uint64_t>(t_ & ring_.mask()) + first > ring_.capacity && !publish_padding()) return 0;

    const std::uint64_t before_end = ring_.capacity - static_cast<std::uint64_t>(t_ & ring_.mask());
    const auto count_within = [&](std::uint64_t most) {
        std::size_t count = 0;
        n = 0;
        while (count < messages.size() && n + aligned(messages[count].size()) <= most) {
            n += aligned(messages[count++].size());
        }
        return count;
    };
    const std::uint64_t most = std::min<std::uint64_t>(before_end, ring_.capacity / layout::MAX_MESSAGE_DIVISOR);
    std::size_t count = count_within(most);
    if (!held_back(n)) return count;
    if (!held_back(first)) {
        recompute();
    } else if (!room_for(first)) {
        return 0;
    }
    return held_back(n) ? count_within(static_cast<std::uint64_t>(limit_ - t_) - header_length) : count;
}

inline void PublisherCore::write_together(span<const Bytes> messages, std::uint64_t n, std::int32_t type) noexcept {
    const Bytes first = messages[0];
    const auto count = static_cast<std::int64_t>(static_cast<std::uint64_t>(count_) + messages.size());
    publish(n, first.size(), type, count, [&](std::byte* to) {
        std::int64_t at = t_ + static_cast<std::int64_t>(aligned(first.size()));
        for (const Bytes& message : messages.subspan(1)) {
            // Plain: nobody can reach these records before the first one's length is there.
            store_relaxed(ring_.length_at(at), static_cast<std::int32_t>(message.size() + header_length));
            store_relaxed(ring_.type_at(at), type);
            if (!message.empty()) std::memcpy(ring_.payload_at(at), message.data(), message.size());
            at += static_cast<std::int64_t>(aligned(message.size()));
        }
        if (!first.empty()) std::memcpy(to, first.data(), first.size());
    });
}

/// Recompute 3: whether a slot was evicted for being too far behind for n bytes more.
inline bool PublisherCore::evict_lagging(std::uint64_t n) {
    const ChannelFile& file = state_->file;
    const std::uint64_t needed = static_cast<std::uint64_t>(t_) + n + header_length;
    const auto lags = [&](std::uint32_t slot) {
        const std::int64_t gate = load_acquire(ring_.gate(slot));  // pairs with poll 4
        return gate >= 0 && static_cast<std::uint64_t>(gate) + static_cast<std::uint64_t>(max_lag_) < needed;
    };
    std::uint32_t first = 0;
    while (first < file.header.subscribers && !lags(first)) ++first;
    if (first == file.header.subscribers) return false;
    const TryControlLock control(lock_.description(), file);
    if (!control) return false;  // not this time
    bool evicted = false;
    for (std::uint32_t slot = first; slot < file.header.subscribers; ++slot) {
        if (!lags(slot)) continue;  // looked at again: the slot may have another owner since
        evict_slot(file, slot);
        evicted = true;
    }
    return evicted;
}

/// 6.7, for the slots that keep n bytes from being written.
inline void PublisherCore::retire(std::uint64_t n) {
    const ChannelFile& file = state_->file;
    if (file.header.foreign != Foreign::none) return;  // its lock says nothing
    const std::uint64_t needed = static_cast<std::uint64_t>(t_) + n + header_length;
    const auto holds_back = [&](std::uint32_t slot) {
        const std::int64_t gate = load_acquire(ring_.gate(slot));  // pairs with poll 4
        return gate >= 0 && static_cast<std::uint64_t>(gate) + ring_.capacity < needed &&
               (load_acquire(subscriber_slot(file, slot).kept()) == 0 ||
                load_acquire(subscriber_slot(file, slot).evicting()) != 0);
    };
    Fd description;
    for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
        if (!holds_back(slot)) continue;
        if (!description) description = open_description(file.fd, file.path);
        const std::uint64_t lock = file.subscriber_slot_offset(slot) + layout::CONTROL_SLOT_LOCK;
        if (!lock_byte(description, lock, file.path)) continue;  // its owner lives
        if (holds_back(slot)) {
            const SlotWords words = subscriber_slot(file, slot);
            store_release(words.epoch(), next(load_relaxed(words.epoch())));
            clear_gates(file, slot);
        }
        unlock_byte(description, lock);
    }
}

inline std::optional<Holder> PublisherCore::held_by() {
    if (use() == in_use || !usable()) refuse(1);
    const ChannelFile& file = state_->file;
    std::optional<Holder> holder;
    for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
        const std::int64_t gate = load_acquire(ring_.gate(slot));  // pairs with poll 4
        if (gate < 0 || (holder && holder->position <= gate)) continue;
        if (file.header.foreign != Foreign::none) return Holder{slot, "", 0, true, true, gate};
        const SlotWords words = subscriber_slot(file, slot);
        SlotFields owner;
        if (!read_fields(words, owner)) owner.name_length = 0;
        const bool live = byte_is_locked(lock_.description(),
                                         file.subscriber_slot_offset(slot) + layout::CONTROL_SLOT_LOCK, file.path);
        holder = Holder{
            slot, std::string(owner.letters, owner.name_length), owner.pid, live, load_acquire(words.kept()) != 0,
            gate};
    }
    return holder;
}

/// 5.2, close. With the channel's mutex held.
inline void PublisherCore::close() noexcept {
    if (usable()) {
        if (use() == claim_open) {
            Claim* claim = claim_;
            pad_claim();
            claim_ = claim;
        }
        store_release(publisher_slot(state_->file, slot_).closed(), 1);  // after the last record
    }
    if (claim_ != nullptr) std::exchange(claim_, nullptr)->core_ = nullptr;
    set_use(idle);
    lock_.release();
    mark("closed");
}

}  // namespace flyring::detail

namespace flyring {

[[gnu::always_inline]] inline Claim::Claim(detail::PublisherCore& core, std::size_t length, std::int32_t type)
    : data_(core.claim(length, type, this)), size_(length) {
    if (data_ != nullptr) core_ = &core;
}

inline void Claim::take(Claim& other) noexcept {
    core_ = std::exchange(other.core_, nullptr);
    data_ = other.data_;
    size_ = other.size_;
    if (core_ != nullptr) core_->set_claim(this);
}

inline Claim& Claim::operator=(Claim&& other) noexcept {
    if (this != &other) {
        if (core_ != nullptr) give_up();
        take(other);
    }
    return *this;
}

[[gnu::always_inline]] inline std::int64_t Claim::commit() {
    const std::int64_t end = open_core().commit_claim();
    core_ = nullptr;
    return end;
}

inline std::int64_t Claim::abort() {
    const std::int64_t end = open_core().abort_claim();
    core_ = nullptr;
    return end;
}

[[gnu::always_inline]] inline std::byte* detail::TypedSpace::claim(PublisherCore& core, std::size_t length,
                                                                   std::int32_t type) {
    std::byte* const data = core.claim(length, type, &claim_);
    if (data == nullptr) return nullptr;
    claim_.core_ = &core;
    taken_ = true;
    return data;
}

inline void Claim::give_up() noexcept {
    detail::PublisherCore& core = *std::exchange(core_, nullptr);
    if (core.usable()) {
        core.abort_claim();
    } else {
        core.set_claim(nullptr);
    }
}

}  // namespace flyring
