// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "flyring/detail/readers.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/sender.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/wait_for.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/message.hpp"
#include "flyring/options.hpp"

namespace flyring::detail {

/// A reader without a slot: the steps of spec/channel.md 6.10. It reads through a read-only mapping. A LossySubscriber
/// owns it.
class LossyCore final : public Member {
  public:
    /// The state of this subscriber in one ring.
    struct Reader {
        Ring ring;
        Sender sender;
        std::int64_t cursor = 0;
        std::int64_t count = 0;  // messages published before the cursor
        std::int64_t lost_messages = 0;
        std::int64_t lost_bytes = 0;
        std::int64_t gave_up = -1;  // messages_begun at the last start or jump that found no consistent count
        bool started = false;       // the cursor and its count are set
        bool corrupt = false;
    };

    LossyCore(std::shared_ptr<ChannelState> state, const std::optional<Rings>& rings, Start start,
              WhenLapped when_lapped);
    LossyCore(const LossyCore&) = delete;
    LossyCore& operator=(const LossyCore&) = delete;
    ~LossyCore() override { state_->leave(*this); }

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
    std::optional<Message> peek();
    bool valid();
    bool ended(std::uint32_t ring);
    void give_back(bool) noexcept override {}
    [[noreturn, gnu::cold]] inline void throw_unusable() override;
    [[noreturn, gnu::cold]] void throw_in_use() override { throw TwoThreads("a lossy subscriber"); }
    void check_idle() const {
        if (use() != idle) {
            throw ViewAlive(
                "a lossy subscriber is at work, in its handler or in another thread; close it after the poll");
        }
    }

    // Waiting (6.16).
    WaitingWords words() const noexcept override { return state_->file.data(); }
    std::uint32_t mask() const noexcept override { return mask_of(rings_); }
    bool is_ready() const noexcept override {
        return !usable() || std::any_of(readers_.begin(), readers_.end(), may_have_message);
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
    const Reader& reader_of(std::uint32_t ring) const { return detail::reader_of(readers_, ring); }
    const std::vector<std::uint32_t>& rings() const noexcept { return rings_; }

  private:
    /// Bounds what one poll does in one ring besides handing out messages, whatever a hostile publisher writes: it
    /// skips at most one capacity of padding, and jumps at most `jumps` times. Then it goes on with the next ring.
    struct Turn {
        std::int64_t start;
        int jumps = 8;
    };

    /// A record that may be a message. Its fields count only if the reader is not lapped after reading them.
    struct Found {
        std::int32_t length = 0;  // with its header; 0: no record
        std::int32_t type = 0;
        std::size_t size() const noexcept { return static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH; }
    };

    /// The body of poll; the object is marked as in use.
    template <typename Handler>
    [[gnu::always_inline]] int poll_in_use(Handler& handler, int limit) {
        peeked_ = nullptr;
        if constexpr (returns_action<Handler>) last_action_ = Action::CONTINUE;
        // `limit` is captured by value: by reference, compilers do not see that it is a constant, and each message pays
        // for it.
        const int done = poll_rings<returns_action<Handler>>(
            readers_, next_ring_, limit, last_action_,
            [this, &handler, limit](Reader& reader, int before)
                __attribute__((always_inline)) { return poll_ring(reader, handler, limit, before); });
        if constexpr (returns_action<Handler>) {  // no epoch was compared since
            if (FLYRING_UNLIKELY(last_action_ == Action::ABORT && !open())) throw_unusable();  // in a forked child
        }
        if (done == 0) {
            idle_polls_.found_nothing(state_->file);
            return 0;
        }
        idle_polls_.found_something();
        if (FLYRING_UNLIKELY(!usable())) throw_unusable();  // a child forked in the handler
        return done;
    }

    /// Whether a poll that handed out nothing is the last one of this call.
    template <typename Handler>
    bool is_over(int limit) const noexcept {
        if constexpr (returns_action<Handler>) return limit <= 0 || last_action_ == Action::ABORT;
        return limit <= 0;
    }

    /// Whether a poll of this ring may find something. A reader that must start or jump needs a consistent count
    /// (6.10). If the publisher died between its stores of the two counts, the reader tries once for each value of
    /// messages_begun.
    static bool may_have_message(const Reader& reader) noexcept {
        if (reader.corrupt) return false;
        if (reader.started && !lapped(reader)) {
            return load_acquire(reader.ring.length_at(reader.cursor)) > 0;  // lossy 1; pairs with publish 6
        }
        const std::int64_t done = load_acquire(reader.ring.messages_done());
        const std::int64_t begun = load_relaxed(reader.ring.messages_begun());
        return begun == done || begun != reader.gave_up;
    }

    /// Polls one ring. `done`: messages handed out before; returns their number afterwards.
    template <typename Handler>
    int poll_ring(Reader& reader, Handler& handler, int limit, int done) {
        if (!is_ready(reader)) return done;
        Turn turn{reader.cursor};
        while (done < limit) {
            const Found found = find_message(reader, turn);
            if (found.length == 0) return done;
            copy_words(buffer_.get(), reader.ring.payload_at(reader.cursor), found.size());  // lossy 4
            if (lapped(reader)) {
                if (!jump(reader, turn)) return done;
                continue;
            }
            const std::int64_t position = reader.cursor;
            consume(reader, found);  // before the handler: consumed even if the handler throws
            ++done;
            const Message message(buffer_.get(), found.size(), found.type, position, reader.sender);
            if constexpr (returns_action<Handler>) {
                last_action_ = checked(handler(message));
                if (last_action_ == Action::ABORT) {
                    reader.cursor = position;
                    reader.count = wrapping_subtract(reader.count, 1);
                    --done;
                }
                if (ends_poll(last_action_)) return done;
            } else {
                handler(message);
            }
        }
        return done;
    }

    /// Lossy 1 to 3: finds the next message, and skips padding and owner records (4).
    Found find_message(Reader& reader, Turn& turn) {
        const Ring ring = reader.ring;
        for (;;) {
            const std::int64_t cursor = reader.cursor;
            const std::int32_t length = load_acquire(ring.length_at(cursor));  // lossy 1; pairs with publish 6
            if (length <= 0) {
                if (lapped(reader) && jump(reader, turn)) continue;  // lossy 2
                return {};
            }
            const Found found{length, load_relaxed(ring.type_at(cursor))};  // lossy 3
            const std::int64_t size = ring.align(length);
            if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) ||
                (cursor & ring.mask()) + size > ring.capacity() || (found.type > 0 && size > longest_)) {
                if (!lapped(reader)) set_corrupt(reader, cursor, "a record's length is out of range");
                if (!jump(reader, turn)) return {};  // lossy 3
                continue;
            }
            if (FLYRING_LIKELY(found.type > 0)) return found;
            if (!skip(reader, turn, found)) return {};
        }
    }

    /// Whether the bytes read at the cursor may belong to a later lap.
    static bool lapped(const Reader& reader) noexcept {
        acquire_fence();  // pairs with publish 3 and 9: claimed before any byte changes
        const std::int64_t claimed = load_acquire(reader.ring.claimed());  // before the load of published in the jump
        return claimed >
               reader.cursor + reader.ring.capacity() - static_cast<std::int64_t>(layout::RECORD_HEADER_LENGTH);
    }

    /// Remembers that no consistent count was found at the present value of messages_begun.
    static void give_up(Reader& reader) noexcept { reader.gave_up = load_relaxed(reader.ring.messages_begun()); }

    /// Moves the cursor behind a message.
    static void consume(Reader& reader, const Found& found) noexcept {
        reader.cursor += reader.ring.align(found.length);
        reader.count = wrapping_add(reader.count, 1);
    }

    /// Copies `length` bytes of a payload, rounded up to 8; a record always has these bytes. Relaxed, because a
    /// publisher may be writing there.
    static void copy_words(std::byte* to, const std::byte* from, std::size_t length) noexcept {
        for (std::size_t at = 0; at < length; at += sizeof(std::uint64_t)) {
            put(to + at, load_relaxed(word_at<std::uint64_t>(from, at)));
        }
    }

    /// Whether this ring can be read. Sets its first cursor, if that was not possible before.
    bool is_ready(Reader& reader) {
        if (FLYRING_LIKELY(reader.started && !reader.corrupt)) return true;
        return !reader.corrupt && start(reader);
    }

    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse(Nanoseconds timeout = Nanoseconds::zero());
    [[noreturn, gnu::noinline, gnu::cold]] inline void set_corrupt(Reader& reader, std::int64_t position,
                                                                   const char* reason);
    [[gnu::noinline]] inline bool skip(Reader& reader, Turn& turn, const Found& found);
    [[gnu::noinline]] inline bool jump(Reader& reader, Turn& turn);
    bool start(Reader& reader);
    [[gnu::noinline]] inline bool wait_for_message(Wait& wait, Turns& turns);
    bool find_oldest(Reader& reader, std::int64_t after, std::int64_t keep, Counted& found);

    std::size_t next_ring_ = 0;  // index of the reader with which the next poll starts
    std::vector<Reader> readers_;
    std::unique_ptr<std::byte[]> buffer_;  // the copy of the message that is handed out
    std::int64_t longest_ = 0;             // longest record of a message, bytes; the size of the buffer
    IdlePolls idle_polls_;
    Reader* peeked_ = nullptr;  // the reader of the last peek; null: none
    Found peeked_at_;
    std::vector<std::uint32_t> rings_;
    std::shared_ptr<ChannelState> state_;
    Start start_;
    WhenLapped when_lapped_;
    Nanoseconds spin_ = default_spin;
    Action last_action_ = Action::CONTINUE;  // only for a handler that returns actions
};

inline LossyCore::LossyCore(std::shared_ptr<ChannelState> state, const std::optional<Rings>& rings, Start start,
                            WhenLapped when_lapped)
    : rings_(sorted_rings(state->file, rings)), state_(std::move(state)), start_(start), when_lapped_(when_lapped) {
    const ChannelFile& file = state_->file;
    if (rings_.empty()) {
        rings_.resize(file.header.producers());
        std::iota(rings_.begin(), rings_.end(), 0U);
    }
    state_->enter(*this, [&] {
        longest_ = static_cast<std::int64_t>(file.header.capacity / layout::MAX_MESSAGE_DIVISOR);
        // Not cleared, so that unused pages are never touched.
        buffer_.reset(new std::byte[static_cast<std::size_t>(longest_)]);
        for (const std::uint32_t ring : rings_) {
            readers_.push_back({file.readable_ring(ring), unknown_sender(ring)});
            Reader& reader = readers_.back();
            file.readable.prefault(reader.ring.data, reader.ring.capacity());
            try {
                this->start(reader);
            } catch (const CorruptRing&) {
                reader.corrupt = false;  // the first poll throws it; the other rings go on
            }
        }
        set_owner({}, 0, const_cast<std::int64_t*>(&no_epoch), no_epoch);
    });
}

/// Sets the first cursor (6.10, start). False: there is no consistent count now.
inline bool LossyCore::start(Reader& reader) {
    const auto claimed_at_most = static_cast<std::int64_t>(reader.ring.capacity() - layout::RECORD_HEADER_LENGTH);
    Counted found{};
    if (start_ == Start::oldest && find_oldest(reader, -1, claimed_at_most, found)) {
        reader.cursor = found.position;
        reader.count = found.count;
        reader.started = true;
    } else {
        const bool consistent = consistent_count(reader.ring, found);
        if (!reader.ring.is_position(found.position)) {
            set_corrupt(reader, found.position, "published is no position");
        }
        reader.cursor = found.position;
        reader.count = found.count;
        reader.started = consistent;
        if (!consistent) give_up(reader);
    }
    if (reader.started) set_sender(reader.sender, state_->file, reader.cursor);
    return reader.started;
}

/// Finds the oldest boundary above `after` that lies at most `keep` bytes below `claimed`. False: there is none.
inline bool LossyCore::find_oldest(Reader& reader, std::int64_t after, std::int64_t keep, Counted& found) {
    const Ring ring = reader.ring;
    const Boundaries boundaries = read_boundaries(ring);
    if (boundaries.bad) set_corrupt(reader, *boundaries.bad, "a boundary is no position");
    acquire_fence();                                            // as in lapped
    const std::int64_t claimed = load_acquire(ring.claimed());  // before the load of published in the jump
    bool any = false;
    for (std::size_t i = 0; i < boundaries.size; ++i) {
        const Counted& one = boundaries.found[i];
        if (one.position <= after || one.position + keep < claimed || (any && found.position < one.position)) continue;
        found = one;
        any = true;
    }
    return any;
}

/// Lossy 5: jumps to a boundary that leaves the reader a quarter of the ring, or to `published`, and counts the loss.
/// False: this ring's turn in this poll is over.
bool LossyCore::jump(Reader& reader, Turn& turn) {
    const std::int64_t keep = std::int64_t{reader.ring.capacity()} / 4 * 3;
    Counted found{};
    const bool boundary = when_lapped_ == WhenLapped::oldest && find_oldest(reader, reader.cursor, keep, found);
    if (!boundary && !consistent_count(reader.ring, found)) {
        give_up(reader);
        return false;
    }
    if (found.position <= reader.cursor || !reader.ring.is_position(found.position)) {
        set_corrupt(reader, found.position, "published is behind what was claimed, or no position");
    }
    reader.lost_bytes += found.position - reader.cursor;
    reader.lost_messages = wrapping_add(reader.lost_messages, wrapping_subtract(found.count, reader.count));
    reader.cursor = turn.start = found.position;
    reader.count = found.count;
    set_sender(reader.sender, state_->file, reader.cursor);
    return --turn.jumps > 0;
}

/// Lossy 4 for padding and owner records: skips them. False: this ring's turn in this poll is over.
bool LossyCore::skip(Reader& reader, Turn& turn, const Found& found) {
    const Ring& ring = reader.ring;
    alignas(std::uint64_t) std::byte payload[80];
    static_assert(sizeof payload >= layout::OWNER_RECORD_NAME + layout::MAX_NAME_LENGTH);
    const std::size_t size = std::min(found.size(), sizeof payload);
    if (found.type == layout::TYPE_OWNER) copy_words(payload, ring.payload_at(reader.cursor), size);
    if (lapped(reader)) return jump(reader, turn);
    if (found.type == layout::TYPE_OWNER) {
        set_sender(reader.sender, payload, size);
    } else if (found.type != layout::TYPE_PADDING) {
        set_corrupt(reader, reader.cursor, "a record has an unknown type");
    }
    reader.cursor += ring.align(found.length);
    return reader.cursor - turn.start < ring.capacity();
}

inline std::optional<Message> LossyCore::peek() {
    if (use() != idle || !usable()) refuse();
    const InUse guard(*this);
    peeked_ = nullptr;
    for (std::size_t visited = 0; visited < readers_.size(); ++visited) {
        Reader& reader = readers_[(next_ring_ + visited) % readers_.size()];
        if (!is_ready(reader)) continue;
        Turn turn{reader.cursor};
        const Found found = find_message(reader, turn);
        if (found.length == 0) continue;
        idle_polls_.found_something();
        peeked_ = &reader;
        peeked_at_ = found;
        return Message(reader.ring.payload_at(reader.cursor), found.size(), found.type, reader.cursor, reader.sender);
    }
    idle_polls_.found_nothing(state_->file);
    return std::nullopt;
}

inline bool LossyCore::valid() {
    if (use() != idle || !usable()) refuse();
    const InUse guard(*this);
    if (peeked_ == nullptr) throw InvalidArgument("valid", "no message was peeked at; call peek first");
    Reader& reader = *std::exchange(peeked_, nullptr);
    if (lapped(reader)) {
        Turn turn{reader.cursor};
        jump(reader, turn);
        return false;
    }
    consume(reader, peeked_at_);
    next_ring_ = (static_cast<std::size_t>(&reader - readers_.data()) + 1) % readers_.size();
    return true;
}

inline bool LossyCore::ended(std::uint32_t ring) {
    if (!usable()) throw_unusable();
    const Reader& reader = reader_of(ring);
    return reader.started && ring_ended(state_->file, ring, reader.cursor);
}

void LossyCore::refuse(Nanoseconds timeout) {
    if (!usable()) throw_unusable();
    if (use() == idle) check_timeout(timeout);
    throw_in_use();
}

inline void LossyCore::throw_unusable() {
    throw Closed("a lossy subscriber of channel " + state_->file.path + " is used after it was " + why_unusable_);
}

/// Waits until there is something to poll (6.16). False: the deadline has passed.
bool LossyCore::wait_for_message(Wait& wait, Turns& turns) {
    for (;;) {
        wait.put_back();
        const bool again = turns.next([this] { return is_ready(); });
        const bool found = again && is_ready();
        wait.take(found ? in_use : trying);
        if (!usable()) throw_unusable();
        if (found) return true;
        check_replaced(state_->file);
        if (!again) return false;
    }
}

/// Marks a ring as corrupt, so that it is not read again, and throws CorruptRing.
void LossyCore::set_corrupt(Reader& reader, std::int64_t position, const char* reason) {
    reader.corrupt = true;
    throw_corrupt(state_->file.path, reader.ring, position, reason);
}

}  // namespace flyring::detail
