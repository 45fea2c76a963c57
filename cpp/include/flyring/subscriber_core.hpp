// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flyring/errors.hpp"
#include "flyring/message.hpp"
#include "flyring/replaced.hpp"
#include "flyring/ring.hpp"
#include "flyring/sender.hpp"
#include "flyring/slots.hpp"
#include "flyring/state.hpp"

namespace flyring::detail {

/// A reliable reader of chosen rings: the steps of spec/channel.md 6.4 to 6.6 and 6.9. A Subscriber owns it.
class SubscriberCore final : public Member {
  public:
    SubscriberCore(std::shared_ptr<ChannelState> state, const std::string& name, bool kept,
                   const std::vector<std::uint32_t>& rings);
    SubscriberCore(const SubscriberCore&) = delete;
    SubscriberCore& operator=(const SubscriberCore&) = delete;
    ~SubscriberCore() override { state_->leave(*this); }

    /// 6.9
    template <typename Handler>
    int poll(Handler& handler, int limit) {
        if (__builtin_expect(static_cast<long>(use() != idle || !usable()), 0) != 0) refuse();
        const InUse guard(*this);
        int done = 0;
        const std::size_t rings = readers_.size();
        std::size_t at = next_;
        for (std::size_t looked_at = 0; looked_at < rings && done < limit; ++looked_at) {
            const int before = done;
            drain(readers_[at], handler, limit, done);
            at = at + 1 < rings ? at + 1 : 0;
            if (done != before) next_ = at;
        }
        if (done == 0) {
            idle_polls_.one_more(state_->file);
            return 0;
        }
        idle_polls_.end();
        acquire_fence();  // poll 5; pairs with evict: its epoch before its gates, before anybody overwrites
        if (__builtin_expect(static_cast<long>(!usable()), 0) != 0 && open()) lose();
        return done;
    }

    void forget();
    void close() noexcept override;
    [[noreturn, gnu::cold]] void throw_unusable() override;
    void check_idle() const {
        if (use() != idle) {
            throw ViewAlive("subscriber slot " + std::to_string(slot_) +
                            " is at work, in its handler or in another thread; close it after the poll");
        }
    }

    ChannelState& state() const noexcept { return *state_; }
    std::int64_t position(std::uint32_t ring) const { return reader_of(ring).cursor; }
    bool ended(std::uint32_t ring);
    const std::vector<std::uint32_t>& rings() const noexcept { return rings_; }
    std::uint32_t slot() const noexcept { return slot_; }
    const std::string& name() const noexcept { return name_; }
    bool kept() const noexcept { return kept_; }
    std::int64_t epoch() const noexcept { return epoch_; }

  private:
    /// Where this subscriber is in one ring.
    struct Reader {
        Ring ring;
        std::int64_t* gate;
        std::int64_t cursor;
        std::int64_t stored;     // what the gate holds
        std::int64_t store_due;  // a cursor from here on is stored at once
        Sender* sender;          // null: the ring is corrupt
    };

    template <typename Handler>
    void drain(Reader& reader, Handler& handler, int limit, int& done) {
        const Ring ring = reader.ring;
        const std::int64_t begin = reader.cursor;
        std::int64_t cursor = begin;
        std::int64_t stride = ring.alignment;  // of the last record
        const Sender* const sender = reader.sender;
        int handed_out = done;
        try {
            do {
                const std::int32_t length = load_acquire(ring.length_at(cursor));  // poll 1; pairs with publish 6
                if (length <= 0) break;
                const std::int64_t end = next_record(cursor, ring.align(length), stride);
                if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) ||
                    (cursor & ring.mask()) + ring.align(length) > ring.capacity) {
                    set_corrupt(reader, cursor, "a record's length is out of range");
                }
                const std::int32_t type = load_relaxed(ring.type_at(cursor));
                const std::int64_t start = cursor;
                if (__builtin_expect(static_cast<long>(type > 0), 1) != 0) {
                    cursor = end;  // before the handler: consumed even if that throws
                    handler(Message(ring.payload_at(start),
                                    static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH, type, start,
                                    *sender));
                    ++handed_out;
                } else if (type == layout::TYPE_PADDING || type == layout::TYPE_OWNER) {
                    if (type == layout::TYPE_OWNER) note_sender(reader, cursor, length);
                    cursor = end;
                    if (cursor - begin >= ring.capacity) break;  // a hostile ring may hold nothing else
                } else {
                    set_corrupt(reader, cursor, "a record has an unknown type");
                }
                if (cursor >= reader.store_due) store_gate(reader, cursor);
            } while (handed_out < limit);
        } catch (...) {
            if (reader.sender != nullptr) store_gate(reader, cursor);
            throw;
        }
        done = handed_out;
        store_gate(reader, cursor);
    }

    /// cursor + size. As long as records keep their size, that of the last one is taken: then the processor can fetch
    /// the next records before it has this one's length, which is often still in the publisher's cache.
    static std::int64_t next_record(std::int64_t cursor, std::int64_t size, std::int64_t& stride) noexcept {
        if (__builtin_expect(static_cast<long>(size == stride), 1) != 0) return opaque(cursor + opaque(stride));
        stride = size;
        return opaque(cursor + size);
    }

    /// Poll 4. Nothing in a child that was forked in the handler.
    void store_gate(Reader& reader, std::int64_t cursor) noexcept {
        reader.cursor = cursor;
        if (cursor == reader.stored || !open()) return;
        store_release(reader.gate, cursor);  // pairs with recompute 2: what lies before it was read
        reader.stored = cursor;
        reader.store_due = cursor + reader.ring.capacity / static_cast<std::int64_t>(layout::GATE_STORE_DIVISOR);
    }

    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse();
    [[noreturn, gnu::noinline, gnu::cold]] inline void set_corrupt(Reader& reader, std::int64_t position,
                                                                   const char* reason);
    [[gnu::noinline, gnu::cold]] inline static void note_sender(Reader& reader, std::int64_t cursor,
                                                                std::int32_t length);
    void take(const std::string& name, bool kept, const std::vector<std::uint32_t>& rings);
    void join(std::uint32_t slot, const std::vector<std::uint32_t>& rings);
    void resume(std::uint32_t slot, const std::vector<std::uint32_t>& asked);
    void add_reader(std::uint32_t slot, std::uint32_t ring, std::int64_t cursor);
    void take_back_gates();
    [[noreturn, gnu::noinline, gnu::cold]] inline void lose();
    const Reader& reader_of(std::uint32_t ring) const;

    std::size_t next_ = 0;
    std::vector<Reader> readers_;
    IdlePolls idle_polls_;
    std::vector<Sender> senders_;  // of the readers, in their order
    std::vector<std::uint32_t> rings_;
    std::shared_ptr<ChannelState> state_;
    std::string name_;
    bool kept_ = false;
};

}  // namespace flyring::detail

#include "flyring/subscriber_slow.hpp"
