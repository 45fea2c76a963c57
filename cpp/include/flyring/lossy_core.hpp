// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "flyring/errors.hpp"
#include "flyring/message.hpp"
#include "flyring/replaced.hpp"
#include "flyring/ring.hpp"
#include "flyring/sender.hpp"
#include "flyring/state.hpp"

namespace flyring {

/// Where a lossy subscriber begins.
enum class Start {
    /// With what is published from now on.
    now,
    /// With the oldest message that is still there.
    oldest,
};

}  // namespace flyring

namespace flyring::detail {

/// A reader without a slot: the steps of spec/channel.md 6.10. Reads through a mapping that cannot be written. A
/// LossySubscriber owns it.
class LossyCore final : public Member {
  public:
    /// Where this subscriber is in one ring.
    struct Reader {
        Ring ring;
        Sender sender;
        std::int64_t cursor = 0;
        std::int64_t messages = 0;  // published before the cursor
        std::int64_t lost_messages = 0;
        std::int64_t lost_bytes = 0;
        bool started = false;  // cursor and messages belong together
        bool corrupt = false;
    };

    LossyCore(std::shared_ptr<ChannelState> state, const std::vector<std::uint32_t>& rings, Start start);
    LossyCore(const LossyCore&) = delete;
    LossyCore& operator=(const LossyCore&) = delete;
    ~LossyCore() override { state_->leave(*this); }

    template <typename Handler>
    int poll(Handler& handler, int limit) {
        if (__builtin_expect(static_cast<long>(use() != idle || !usable()), 0) != 0) refuse();
        const InUse guard(*this);
        peeked_ = nullptr;
        int done = 0;
        const std::size_t rings = readers_.size();
        std::size_t at = next_;
        for (std::size_t looked_at = 0; looked_at < rings && done < limit; ++looked_at) {
            const int before = done;
            drain(readers_[at], handler, limit, done);
            at = at + 1 < rings ? at + 1 : 0;
            if (done != before) next_ = at;
        }
        done == 0 ? idle_polls_.one_more(state_->file) : idle_polls_.end();
        return done;
    }

    std::optional<Message> peek();
    bool valid();
    bool ended(std::uint32_t ring);
    void close() noexcept override { mark("closed"); }
    [[noreturn, gnu::cold]] void throw_unusable() override;
    void check_idle() const {
        if (use() != idle) {
            throw ViewAlive(
                "a lossy subscriber is at work, in its handler or in another thread; close it after the poll");
        }
    }

    ChannelState& state() const noexcept { return *state_; }
    const Reader& reader_of(std::uint32_t ring) const;
    const std::vector<std::uint32_t>& rings() const noexcept { return rings_; }

  private:
    /// What one poll may still do in one ring besides handing out messages, whatever a hostile publisher writes there:
    /// skip a capacity of padding, and jump this often. Then it goes on with the next ring.
    struct Turn {
        std::int64_t begin;
        int jumps = 8;
    };

    /// A record that may be a message; its type and payload are to be believed only if the reader is not lapped then.
    struct Found {
        std::int32_t length = 0;  // with its header; 0: nothing was found
        std::int32_t type = 0;
        std::size_t size() const noexcept { return static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH; }
    };

    template <typename Handler>
    void drain(Reader& reader, Handler& handler, int limit, int& done) {
        if (!may_read(reader)) return;
        Turn turn{reader.cursor};
        while (done < limit) {
            const Found found = find(reader, turn);
            if (found.length == 0) return;
            copy_words(buffer_.get(), reader.ring.payload_at(reader.cursor), found.size());  // lossy 4
            if (lapped(reader)) {
                if (!jump(reader, turn)) return;
                continue;
            }
            const std::int64_t position = reader.cursor;
            consume(reader, found);  // before the handler: consumed even if that throws
            ++done;
            handler(Message(buffer_.get(), found.size(), found.type, position, reader.sender));
        }
    }

    /// Lossy 1 to 3, and 4 for what is no message: goes to the next message.
    Found find(Reader& reader, Turn& turn) {
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
                (cursor & ring.mask()) + size > ring.capacity || (found.type > 0 && size > longest_)) {
                if (!lapped(reader)) set_corrupt(reader, cursor, "a record's length is out of range");
                if (!jump(reader, turn)) return {};  // lossy 3
                continue;
            }
            if (__builtin_expect(static_cast<long>(found.type > 0), 1) != 0) return found;
            if (!skip(reader, turn, found)) return {};
        }
    }

    /// Whether what was read at the cursor may belong to a later lap.
    static bool lapped(const Reader& reader) noexcept {
        acquire_fence();  // pairs with publish 3 and 9: claimed before any byte changes
        const std::int64_t claimed = load_acquire(reader.ring.claimed());  // before the load of published in the jump
        return claimed > reader.cursor + reader.ring.capacity - static_cast<std::int64_t>(layout::RECORD_HEADER_LENGTH);
    }

    static void consume(Reader& reader, const Found& found) noexcept {
        reader.cursor += reader.ring.align(found.length);
        reader.messages = next(reader.messages);
    }

    /// Copies `length` bytes of a payload, rounded up to 8, which its record always has. Relaxed: a publisher may be
    /// writing there.
    static void copy_words(std::byte* to, const std::byte* from, std::size_t length) noexcept {
        for (std::size_t at = 0; at < length; at += sizeof(std::uint64_t)) {
            put(to + at, load_relaxed(word_at<std::uint64_t>(from, at)));
        }
    }

    bool may_read(Reader& reader) {
        if (__builtin_expect(static_cast<long>(reader.started && !reader.corrupt), 1) != 0) return true;
        return !reader.corrupt && start(reader);
    }

    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse();
    [[noreturn, gnu::noinline, gnu::cold]] inline void set_corrupt(Reader& reader, std::int64_t position,
                                                                   const char* reason);
    [[gnu::noinline]] inline bool skip(Reader& reader, Turn& turn, const Found& found);
    [[gnu::noinline]] inline bool jump(Reader& reader, Turn& turn);
    bool start(Reader& reader);
    static bool start_at_oldest(Reader& reader, std::int64_t& bad);

    std::size_t next_ = 0;
    std::vector<Reader> readers_;
    std::unique_ptr<std::byte[]> buffer_;  // of the message that is handed out
    std::int64_t longest_ = 0;             // record of a message, bytes; the buffer has room for it
    IdlePolls idle_polls_;
    Reader* peeked_ = nullptr;  // whose next message was peeked at
    Found peeked_at_;
    std::vector<std::uint32_t> rings_;
    std::shared_ptr<ChannelState> state_;
    Start start_;
};

}  // namespace flyring::detail

#include "flyring/lossy_slow.hpp"
