// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "flyring/claim.hpp"
#include "flyring/errors.hpp"
#include "flyring/replaced.hpp"
#include "flyring/ring.hpp"
#include "flyring/slots.hpp"
#include "flyring/span.hpp"
#include "flyring/state.hpp"

namespace flyring {

/// Who holds a publisher back.
struct Holder {
    /// Subscriber slot.
    std::uint32_t slot;
    std::string name;
    /// As its owner saw it, in its own pid namespace.
    std::int32_t pid;
    /// Whether somebody owns the slot now.
    bool live;
    /// A kept slot holds the publisher back without an owner, too.
    bool kept;
    /// Its gate in this ring, bytes.
    std::int64_t position;
};

}  // namespace flyring

namespace flyring::detail {

/// The one writer of a ring: the steps of spec/channel.md 6.1 to 6.3, 6.7 and 6.11. Has one address for life; a
/// Publisher owns it.
class PublisherCore final : public Member {
  public:
    PublisherCore(std::shared_ptr<ChannelState> state, const std::string& name, std::uint64_t max_lag);
    PublisherCore(const PublisherCore&) = delete;
    PublisherCore& operator=(const PublisherCore&) = delete;
    ~PublisherCore() override { state_->leave(*this); }

    // The hot path.

    [[gnu::always_inline]] inline std::int64_t offer(const std::byte* payload, std::size_t length, std::int32_t type) {
        if (__builtin_expect(static_cast<long>(use() != idle || !usable() || type < 1), 0) != 0) refuse(type);
        set_use(in_use);
        const Ring ring = ring_;  // a copy, so that the compiler may keep it in registers across the atomic stores
        const std::int64_t t = t_;
        const std::uint64_t end = static_cast<std::uint64_t>(t) + aligned(length);
        if (__builtin_expect(static_cast<long>(end > fast_end_), 0) != 0 && !clear_next(length)) {
            return offer_slowly(payload, length, type);
        }
        const auto to = static_cast<std::int64_t>(end);
        copy(ring.payload_at(t), payload, length);  // 5; 3 and 4 are not due below fast_end_
        store_relaxed(ring.type_at(t), type);       // 5
        commit(ring, t, length);
        finish(ring, to, next(count_));
        set_use(idle);
        return to;
    }

    /// Publish 1 to 4. Null: back-pressured.
    [[gnu::always_inline]] inline std::byte* claim(std::size_t length, std::int32_t type, Claim* claim) {
        if (__builtin_expect(static_cast<long>(use() != idle || !usable() || type < 1), 0) != 0) refuse(type);
        std::uint64_t end = static_cast<std::uint64_t>(t_) + aligned(length);
        if (__builtin_expect(static_cast<long>(end > fast_end_ || length > max_length_), 0) != 0 &&
            !clear_next(length)) {
            if (!make_room_in_use(length)) return nullptr;
            end = static_cast<std::uint64_t>(t_) + aligned(length);
            begin(static_cast<std::int64_t>(end));
        }
        set_use(claim_open);
        claim_ = claim;
        claim_length_ = length;
        const Ring ring = ring_;
        const std::int64_t t = t_;
        store_relaxed(ring.type_at(t), type);  // 5
        return ring.payload_at(t);
    }

    /// Publish 6 to 9 for the open claim.
    [[gnu::always_inline]] inline std::int64_t commit_claim() {
        if (__builtin_expect(static_cast<long>(!usable()), 0) != 0) throw_unusable();
        return end_claim(next(count_));
    }

    std::int64_t abort_claim() {
        if (!usable()) throw_unusable();
        return pad_claim();
    }

    /// The Claim object moved, or (null) gave up its part in the claim.
    void set_claim(Claim* claim) noexcept { claim_ = claim; }

    /// Harms nobody, be the file mapped or not.
    void prefetch() const noexcept { prefetch_to_write(ring_.length_at(t_)); }

    // The rest.

    std::size_t offer_batch(span<const Bytes> messages, std::int32_t type);
    std::optional<Holder> held_by();
    void close() noexcept override;
    [[noreturn, gnu::cold]] void throw_unusable() override;

    void check_idle() {
        if (use() == in_use) throw TwoThreads("publisher of ring " + std::to_string(ring_.index));
    }

    ChannelState& state() const noexcept { return *state_; }
    std::int64_t position() const noexcept { return t_; }
    std::uint32_t ring() const noexcept { return ring_.index; }
    const std::string& name() const noexcept { return name_; }
    std::int64_t epoch() const noexcept { return epoch_; }
    std::size_t max_length() const noexcept { return max_length_; }

  private:
    static constexpr std::uint64_t header_length = layout::RECORD_HEADER_LENGTH;
    static constexpr std::int64_t retire_interval = 1'000'000;  // ns

    std::uint64_t aligned(std::size_t length) const noexcept {
        const std::uint64_t unit = ring_.alignment;
        return (length + header_length + unit - 1) & ~(unit - 1);
    }

    /// How far is cleared ahead of a record of n bytes.
    std::int64_t ahead(std::int64_t n) const noexcept {
        return n <= window_ / layout::CLEAR_AHEAD_RECORDS ? window_ : 0;
    }

    /// Publish 3 and 4, when they are due.
    void begin(std::int64_t end) noexcept {
        if (end > cleared_) clear(end, ahead(end - t_));
    }

    /// The stores of publish 3 and 4, or 9: from `first` so many bytes ahead, or as far as is allowed.
    [[gnu::noinline]] void clear(std::int64_t first, std::int64_t ahead) noexcept {
        const Ring ring = ring_;
        const std::int64_t unit = ring.alignment;
        const std::int64_t lap_end = (t_ | ring.mask()) + 1;
        const std::int64_t room = (limit_ - static_cast<std::int64_t>(header_length)) & -unit;
        const std::int64_t q = std::min({first + ahead, lap_end, room});
        if (q <= cleared_) return;
        store_relaxed(ring.claimed(), q);  // publish 3, read by lossy 2 to 4 and recover
        release_fence();                   // publish 3: claimed before any byte changes; pairs with lossy 2 to 4
        for (std::int64_t at = std::max(first, cleared_ + unit); at <= q; at += unit) {
            store_relaxed(ring.length_at(at), 0);  // publish 4: before the length of the record in front (6)
        }
        for (std::int64_t at = std::max(q, cleared_ + ahead) + unit; at <= q + ahead; at += unit) {
            prefetch_to_write(ring.length_at(at));  // what the next one clears; it has the lines up to cleared_ + W
        }
        cleared_ = q;
        set_fast_end();
    }

    /// Publish 3 and 4 for a long record that needs neither padding nor a new limit; false: for any other.
    [[gnu::noinline]] bool clear_next(std::size_t length) noexcept {
        if (length > max_length_) return false;
        const auto n = static_cast<std::int64_t>(aligned(length));
        const std::int64_t end = t_ + n;
        const bool fits =
            end + static_cast<std::int64_t>(header_length) <= limit_ && ((t_ ^ (end - 1)) & ~ring_.mask()) == 0;
        if (!fits || end <= cleared_ || ahead(n) != 0 || owner_record_pending_) return false;
        store_relaxed(ring_.claimed(), end);              // publish 3, read by lossy 2 to 4 and recover
        release_fence();                                  // publish 3: claimed before any byte changes
        store_relaxed(ring_.length_at(end), 0);           // publish 4
        prefetch_to_write(ring_.length_at(end + 3 * n));  // such records often follow one another
        cleared_ = end;
        fast_end_ = static_cast<std::uint64_t>(end);
        next_care_ = next_boundary_;
        return true;
    }

    /// Publish 6.
    static void commit(const Ring& ring, std::int64_t t, std::size_t length) noexcept {
        store_release(ring.length_at(t), static_cast<std::int32_t>(length + header_length));  // 6; pairs with poll 1
    }

    /// Publish 7 to 9.
    void finish(const Ring& ring, std::int64_t end, std::int64_t count) noexcept {
        store_relaxed(ring.messages_begun(), count);  // publish 7; pairs with the consistent count, read last there
        store_release(ring.published(), end);         // publish 7; pairs with join 2 and 4
        store_release(ring.messages_done(), count);   // publish 7; pairs with the consistent count, read first there
        count_ = count;
        const std::int64_t n = end - t_;
        t_ = end;
        if (__builtin_expect(static_cast<long>(end >= next_care_), 0) != 0) take_care(n);
    }

    /// Publish 6 to 9 for the open claim.
    [[gnu::always_inline]] inline std::int64_t end_claim(std::int64_t count) noexcept {
        const Ring ring = ring_;
        // Not kept from the claim: as a word of memory between one claim and the next it would cost its latency.
        const auto end = static_cast<std::int64_t>(static_cast<std::uint64_t>(t_) + aligned(claim_length_));
        commit(ring, t_, claim_length_);
        finish(ring, end, count);
        claim_ = nullptr;
        set_use(idle);
        return end;
    }

    std::int64_t pad_claim() noexcept {
        store_relaxed(ring_.type_at(t_), layout::TYPE_PADDING);  // 5
        return end_claim(count_);
    }

    /// Publish 3 to 9 for a record of n bytes, its payload written by `write(to)`.
    template <typename Write>
    void publish(std::uint64_t n, std::size_t length, std::int32_t type, std::int64_t count, Write&& write) {
        const std::int64_t end = t_ + static_cast<std::int64_t>(n);
        begin(end);
        write(ring_.payload_at(t_));
        store_relaxed(ring_.type_at(t_), type);  // 5
        commit(ring_, t_, length);
        finish(ring_, end, count);
    }

    /// Publish 8 and 9, when one of them is due.
    [[gnu::noinline]] void take_care(std::int64_t n) noexcept {
        if (t_ >= next_boundary_) note_boundary();
        if (cleared_ - t_ < ahead(n) / 2) clear(t_, window_);
        set_fast_end();
    }

    /// Publish 8: t has just come into another eighth of the ring.
    void note_boundary() noexcept {
        const std::int64_t eighth = (t_ >> ring_.eighth_shift()) & (static_cast<std::int64_t>(layout::BOUNDARIES) - 1);
        store_relaxed(ring_.boundary(eighth), std::int64_t{-1});  // pairs with "start at what is still there"
        release_fence();                                          // -1 before the new count
        store_relaxed(ring_.boundary_count(eighth), count_);
        store_release(ring_.boundary(eighth), t_);
        next_boundary_ = ((t_ >> ring_.eighth_shift()) + 1) << ring_.eighth_shift();
    }

    void set_fast_end() noexcept {
        fast_end_ = owner_record_pending_ ? 0 : static_cast<std::uint64_t>(cleared_);
        next_care_ = std::min(next_boundary_, cleared_ - window_ / 2 + 1);
    }

    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse(std::int32_t type);
    [[gnu::noinline, gnu::cold]] inline std::int64_t offer_slowly(const std::byte* payload, std::size_t length,
                                                                  std::int32_t type);
    [[gnu::noinline, gnu::cold]] inline bool make_room_in_use(std::size_t length);
    bool make_room(std::size_t length);
    bool room_for(std::uint64_t n);
    void recompute() noexcept;
    bool held_back(std::uint64_t n) const noexcept {
        return static_cast<std::uint64_t>(t_) + n + header_length > static_cast<std::uint64_t>(limit_);
    }
    bool publish_padding();
    bool publish_owner_record();
    std::size_t take_together(span<const Bytes> messages, std::uint64_t& n);
    void write_together(span<const Bytes> messages, std::uint64_t n, std::int32_t type) noexcept;
    bool evict_lagging(std::uint64_t n);
    void retire(std::uint64_t n);
    void take();

    // Read or written by every offer, then what the slow path needs.
    std::uint64_t fast_end_ = 0;  // up to here a record needs publish 5 to 7 only, and perhaps 8 and 9
    std::int64_t t_ = 0;
    std::int64_t next_care_ = 0;  // from here on publish 8 or 9 is due
    std::int64_t count_ = 0;
    std::int64_t cleared_ = 0;
    std::int64_t window_ = 0;
    std::int64_t next_boundary_ = 0;
    Ring ring_;
    std::size_t claim_length_ = 0;
    bool owner_record_pending_ = true;
    Claim* claim_ = nullptr;
    std::int64_t limit_ = 0;
    std::size_t max_length_ = 0;
    std::int64_t held_back_since_ = 0;  // monotonic ns; 0: not held back
    std::int64_t max_lag_ = 0;          // bytes; 0: wait for everybody
    std::shared_ptr<ChannelState> state_;
    std::string name_;
};

}  // namespace flyring::detail

#include "flyring/publisher_slow.hpp"
