// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/detail/journal_clock.hpp"
#include "flyring/detail/journal_helper.hpp"
#include "flyring/detail/journal_recover.hpp"
#include "flyring/detail/journal_state.hpp"
#include "flyring/detail/journal_sync.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/span.hpp"

// The writer of a journal (spec/journal.md 3.1, 3.2). Numbers in parentheses are sections of that page; 'append 5' is
// step 5 of its operation append.

namespace flyring::detail {

/// The owner of the writer's slot. Its address never changes.
class JournalWriterCore final : public JournalMember {
  public:
    /// `name`: null for a push, which leaves the slot's name. `helper`: starts a thread that keeps `ahead` segments
    /// ready.
    JournalWriterCore(std::shared_ptr<JournalState> state, const std::string* name, bool helper, std::uint32_t ahead,
                      std::chrono::nanoseconds timeout)
        : clock_(state->file.environment),
          state_(std::move(state)),
          file_(state_->file),
          syncer_(file_),
          over_(std::make_shared<JournalHandOver>()) {
        state_->check_open();
        if (name != nullptr && !name->empty()) check_name("name", *name);
        if (name != nullptr && (ahead < 1 || ahead > 16)) throw InvalidArgument("ahead", "it must be 1 to 16");
        check_timeout(timeout);
        state_->check_writable();
        if (name != nullptr) name_ = *name;
        holds_ = name != nullptr;
        waker_ = Waker(file_.data(), file_.wakes);
        worker_ = Waker(file_.work(), file_.wakes);
        state_->enter(*this);
        try {
            take(name, later(clock_ns(CLOCK_MONOTONIC), timeout.count()));
            if (helper) {
                state_->with_lock([&] { helper_ = std::make_shared<JournalHelper>(state_, ahead, over_); });
                JournalHelper::start(helper_);
            }
        } catch (...) {
            if (open()) {
                state_->close(*this, [] {});
            } else {
                lock_.release();
            }
            state_->leave(*this);
            throw;
        }
    }
    JournalWriterCore(const JournalWriterCore&) = delete;
    JournalWriterCore& operator=(const JournalWriterCore&) = delete;
    ~JournalWriterCore() override { state_->leave(*this); }

    /// The deleter of a JournalWriter. If a claim is open, the claim owns this object from then on.
    struct EndWriter {
        void operator()(JournalWriterCore* core) const noexcept {
            if (core->use() != claim_open) {
                try {
                    core->close_synced(true);
                } catch (const std::exception&) {
                    // What is not durable stays so: the next sync, or a recovery, finds it.
                }
                delete core;
                return;
            }
            core->state_->leave(*core);
            core->writer_ended_ = true;
        }
    };

    // The hot path.

    /// Appends one message (append 1 to 9). `time`: the caller's, or `now`. Returns the record's position.
    static constexpr std::int64_t now = std::numeric_limits<std::int64_t>::min();
    [[gnu::always_inline]] inline std::int64_t append(const std::byte* payload, std::size_t length, std::int32_t type,
                                                      std::int64_t time) {
        if (FLYRING_UNLIKELY(use() != idle || !usable() || type < 1 || length > max_payload_)) refuse(length, type);
        const InUse guard(*this);
        const auto size = journal_align(journal_message_header + static_cast<std::int64_t>(length));
        if (FLYRING_UNLIKELY(end_ + size > claimed_)) reserve(size);
        const std::int64_t position = end_;
        std::byte* const to = at(position);
        if (length <= small) {
            copy_small(to + journal_message_header, payload, length);  // append 4
        } else {
            std::memcpy(to + journal_message_header, payload, length);
        }
        publish_message(to, length, type, time == now ? clock_.now() : time, size);
        return position;
    }

    /// A push (5): an append, and what a helper would do. Returns the record's position. Throws IoError if its sync
    /// fails: the message is appended.
    std::int64_t push(const std::byte* payload, std::size_t length, std::int32_t type) {
        std::int64_t position = 0;
        try {
            position = append(payload, length, type, now);  // push 1
        } catch (const NoSpace&) {
            if (!makes_room()) throw;
            position = append(payload, length, type, now);
        }
        const InUse guard(*this);
        const bool syncs = sync_is_due();
        const bool trims = file_.header.in_segment(position) == journal_check_length;
        if ((!syncs && !trims) || has_helper()) return position;
        if (!usable()) throw_unusable();
        if (syncs) sync_in_use();  // push 2
        if (trims) trim();         // push 3
        return position;
    }

    /// Opens a claim, and returns its payload.
    std::byte* claim(std::size_t length, std::int32_t type) {
        if (FLYRING_UNLIKELY(use() != idle || !usable() || type < 1 || length > max_payload_)) refuse(length, type);
        InUse guard(*this);
        const auto size = journal_align(journal_message_header + static_cast<std::int64_t>(length));
        if (end_ + size > claimed_) reserve(size);
        claim_type_ = type;
        guard.set_after(claim_open);
        return at(end_) + journal_message_header;
    }
    std::int64_t commit_claim(std::size_t length) {
        if (FLYRING_UNLIKELY(!usable())) lose_claim();
        const InUse guard(*this);
        const std::int64_t position = end_;
        publish_message(at(position), length, claim_type_, clock_.now(),
                        journal_align(journal_message_header + static_cast<std::int64_t>(length)));
        return position;
    }
    /// Publishes the open claim as padding (3.1): it wakes no reader, and no sync is due by it.
    std::int64_t abort_claim(std::size_t length) {
        if (!usable()) lose_claim();
        const std::int64_t position = end_;
        pad(journal_message_header + static_cast<std::int64_t>(length));
        if (end_ - span_ >= static_cast<std::int64_t>(layout::JOURNAL_CHECK_EVERY)) check();
        set_due();
        set_use(idle);
        return position;
    }
    /// Ends the open claim when its handle is destroyed without commit or abort.
    static void drop_claim(JournalWriterCore* core, std::size_t length) noexcept {
        if (core->usable()) core->abort_claim(length);
        core->set_use(idle);
        if (core->writer_ended_) delete core;
    }
    // Other verbs.

    std::size_t append_many(span<const Bytes> messages, std::int32_t type, std::int64_t time);

    /// Makes durable what was appended (5, sync 1 to 4). Throws IoError, which ends the writer.
    void sync() {
        check_usable();
        const InUse guard(*this);
        sync_in_use();
    }
    /// Checks, syncs if `sync`, and gives the slot back. An error of the sync comes after the close.
    void close_synced(bool sync) {
        if (!open()) return;
        std::exception_ptr failed;
        if (sync && usable() && (use() == idle || use() == claim_open)) {
            try {
                finish();
            } catch (...) {
                failed = std::current_exception();
            }
        }
        state_->close(*this, [this] {
            if (use() == in_use) throw_in_use();
        });
        if (failed) std::rethrow_exception(failed);
    }

    std::int64_t position() const noexcept { return end_; }
    std::int64_t number() const noexcept { return count_; }
    const std::string& name() const noexcept { return name_; }
    std::int64_t unprepared() const noexcept { return unprepared_; }
    std::size_t max_length() const noexcept { return max_payload_; }
    const std::optional<JournalRecovery>& recovery() const noexcept { return recovery_; }
    std::int32_t raw_type() const noexcept { return raw_type_; }
    JournalState& state() const noexcept { return *state_; }

    // JournalMember.

    bool holds_writer() const noexcept override { return holds_; }
    /// Aborts an open claim, and syncs: before a close.
    void finish() override {
        if (!open() || !usable()) return;
        if (use() == claim_open) {
            pad_claim();
            sync_in_use();
        } else {
            const InUse guard(*this, use());
            sync_in_use();
        }
    }
    void give_back(bool owned) noexcept override {
        if (helper_) helper_->stop();
        if (owned && use() == claim_open) pad_claim();
        if (owned) {
            store_release(file_.slot().closed(), std::int32_t{1});
            wake_all(file_.data());
        }
        segment_.detach();
        syncer_.close();  // a closed writer may live on
    }
    void abandon() noexcept override {
        if (helper_) helper_->abandon();
        syncer_.close();
        segment_.detach();
        JournalMember::abandon();
    }
    [[noreturn, gnu::cold]] void throw_unusable() override {
        if (!open()) throw Closed("a writer of journal " + file_.path + " is used " + why_closed());
        if (load_acquire(file_.failed()) != 0) {
            const int of_helper = helper_ ? helper_->error() : 0;
            throw IoError("fdatasync", sync_error_ != 0 ? sync_error_ : of_helper != 0 ? of_helper : EIO, file_.path);
        }
        throw SlotLost("writer", 0);
    }
    [[noreturn, gnu::cold]] void throw_in_use() override {
        if (use() == claim_open) {
            throw ViewAlive("a claim of the writer of journal " + file_.path + " is open; commit or abort it first");
        }
        throw TwoThreads("the writer of journal " + file_.path);
    }

  private:
    static constexpr std::int64_t crc_piece = 4096;  // the CRC of a span is computed in pieces of this many bytes

    std::byte* at(std::int64_t position) const noexcept { return base_ + (position & mask_); }
    std::int64_t segment_end() const noexcept { return segment_position_ + file_.header.size(); }

    void take(const std::string* name, std::int64_t deadline);
    void begin(const WriterStart& start);

    /// Throws the first error that applies, in the order of spec/api.md.
    [[noreturn, gnu::noinline, gnu::cold]] void refuse(std::size_t length, std::int32_t type) {
        if (open() && use() != idle) throw_in_use();
        if (!open()) throw_unusable();
        if (type < 1) throw InvalidArgument("type", std::to_string(type) + " is not 1 or more");
        if (length > max_payload_) throw MessageTooLarge::in_journal(length, max_payload_);
        JournalMember::refuse();
    }
    [[noreturn, gnu::noinline, gnu::cold]] void lose_claim() {
        const bool ended = writer_ended_;
        set_use(idle);
        if (ended) {
            delete this;
            throw Closed("the writer of this claim was closed");
        }
        throw_unusable();
    }

    /// Completes a message whose payload is written (append 4 to 9): stores time and type, commits it, and does what
    /// follows.
    [[gnu::always_inline]] inline void publish_message(std::byte* to, std::size_t length, std::int32_t type,
                                                       std::int64_t time, std::int64_t size) {
        store_relaxed(word_at<std::int64_t>(to, layout::JOURNAL_RECORD_TIME), time);
        store_relaxed(word_at<std::int32_t>(to, layout::RECORD_TYPE), type);
        store_release(word_at<std::int32_t>(to, layout::RECORD_LENGTH),
                      static_cast<std::int32_t>(journal_message_header + static_cast<std::int64_t>(length)));  // step 5
        largest_ = std::max(largest_, time);
        advance(end_ + size, count_ + 1);
        if (FLYRING_UNLIKELY(end_ >= due_ || load_relaxed(file_published_ + sync_offset) != 0)) after_append();
        wake_readers();  // append 8; if each append syncs, after_append has woken them already
    }
    /// Publishes what was committed, and moves the end behind it (append 6).
    [[gnu::always_inline]] inline void advance(std::int64_t end, std::int64_t count) noexcept {
        store_release(file_published_, end);
        store_relaxed(file_published_ + messages_offset, count);
        compiler_fence();
        end_ = end;
        count_ = count;
    }
    // Words that are read or written with `published`, from there.
    static constexpr std::uint64_t messages_offset =
        (layout::JOURNAL_CONTROL_MESSAGES - layout::JOURNAL_CONTROL_PUBLISHED) / sizeof(std::int64_t);
    static constexpr std::uint64_t sync_offset =
        (layout::JOURNAL_CONTROL_SYNC_EVERY - layout::JOURNAL_CONTROL_PUBLISHED) / sizeof(std::int64_t);

    /// Stores `claimed` before any byte up to `end` changes (append 3).
    void announce(std::int64_t end) noexcept {
        if (end <= claimed_) return;
        claimed_ = end;
        store_relaxed(file_.claimed(), end);
        release_fence();
    }

    /// Makes room for a record, or a batch, of `size` bytes: enters the next segment if need be, with its first check,
    /// and announces the bytes (append 1 to 3).
    [[gnu::noinline]] void reserve(std::int64_t size) {
        const JournalHeader& header = file_.header;
        std::int64_t in = header.in_segment(end_);
        if (in != 0 && in + size > header.size() - journal_unit) {  // append 1
            const std::int64_t next = segment_end();
            Mapping mapping = map_ready(next);  // before the first store: if it fails, nothing is changed
            pad(next - end_);
            enter(next, std::move(mapping));
            in = 0;
        }
        if (in == 0) {  // append 2
            if (segment_position_ != end_) enter(end_, map_ready(end_));
            check();
            wake_helper();
        }
        if (end_ + size > claimed_) {  // append 3
            announce(std::min(end_ + size + static_cast<std::int64_t>(layout::JOURNAL_ANNOUNCE_AHEAD),
                              segment_end() - journal_unit));
        }
        set_due();
    }

    /// The segment at `position`, ready and mapped. Throws NoSpace, IoError.
    Mapping map_ready(std::int64_t position) {
        const bool ready = is_ready(file_, position);
        const bool removed = ready && !has_segment(file_, position);  // by hand; the helper may have it mapped
        if (!ready || removed) {
            ++unprepared_;
            prepare_segment(file_, position);
        }
        JournalHandOver::Segment made = over_->take(position);
        if (made.position == position && !removed) return std::move(made.mapping);
        if (made.position == position) over_->retire(std::move(made.mapping));
        const Fd fd = open_to_write(file_, position);
        return map_segment(file_, fd, position, Access::write);
    }
    void enter(std::int64_t position, Mapping mapping) {
        if (helper_) {
            over_->retire(std::exchange(segment_, std::move(mapping)));
        } else {
            segment_ = Mapping();
            segment_ = std::move(mapping);
        }
        segment_position_ = position;
        base_ = segment_.data() + layout::HEADER_LENGTH;
    }

    /// Publishes padding of `length` bytes, unrounded.
    void pad(std::int64_t length) noexcept {
        const std::int64_t size = journal_align(length);
        sum(end_);
        announce(end_ + size);
        std::byte* const to = at(end_);
        store_relaxed(word_at<std::int32_t>(to, layout::RECORD_TYPE), layout::TYPE_PADDING);
        store_release(word_at<std::int32_t>(to, layout::RECORD_LENGTH), static_cast<std::int32_t>(length));
        crc_ = crc32c(to, layout::RECORD_HEADER_LENGTH, crc_);
        advance(end_ + size, count_);
        summed_ = end_;
    }
    /// Pads an open claim at a close.
    void pad_claim() noexcept {
        if (claimed_ > end_) pad(std::min(claimed_, segment_end() - journal_unit) - end_);
    }

    /// Adds the bytes up to `end` to the span's CRC.
    void sum(std::int64_t end) noexcept {
        if (end > summed_) crc_ = crc32c(at(summed_), static_cast<std::size_t>(end - summed_), crc_);
        summed_ = std::max(summed_, end);
    }

    /// Makes a check at the end (3.2).
    void check() noexcept {
        sum(end_);
        const std::int64_t t = end_;
        announce(t + journal_check_length);
        std::byte* const to = at(t);
        write_check_body(to, {t, count_, largest_, crc_});
        constexpr auto length = static_cast<std::int32_t>(journal_check_length);
        store_release(word_at<std::int32_t>(to, layout::RECORD_LENGTH), length);
        advance(t + journal_check_length, count_);
        store_release(file_.checked(), t);
        span_ = summed_ = end_;
        crc_ = 0;
        if (load_relaxed(file_.sync_every()) > 0) checked_at_ = wall_clock(file_.environment);
    }

    void set_due() noexcept {
        due_ = std::min(summed_ + crc_piece, span_ + static_cast<std::int64_t>(layout::JOURNAL_CHECK_EVERY));
    }

    /// Adds what was appended to the CRC, and makes a check that is due (append 7). If each append syncs, wakes the
    /// readers and syncs (append 8 and 9).
    [[gnu::noinline]] void after_append() {
        if (end_ - summed_ >= crc_piece) sum(end_);
        if (end_ - span_ >= static_cast<std::int64_t>(layout::JOURNAL_CHECK_EVERY)) check();
        set_due();
        const std::int64_t every = file_.valid_sync_every();
        if (every == layout::JOURNAL_SYNC_EACH) {
            wake_readers();  // append 8: they do not wait for the disk
            sync_in_use();   // append 9
        } else if (every > 0 && span_ != end_) {
            const std::int64_t time = wall_clock(file_.environment);
            if (time - checked_at_ < every && time >= checked_at_) return;
            check();
            set_due();
            wake_helper();
        }
    }

    // Of a push.

    /// Whether a process has the helper lock. If that cannot be found out, this push helps: it does no harm if two
    /// processes help at once.
    bool has_helper() const noexcept {
        try {
            return byte_is_locked(file_.fd, file_.helper_lock(), file_.control);
        } catch (const std::exception&) {
            return false;
        }
    }
    /// Whether a trim has made room on a full disk.
    bool makes_room() noexcept {
        if (!exchange_use(idle, in_use)) return false;
        const InUse guard(*this);
        return usable() && !has_helper() && trim() != 0;
    }
    /// Whether a sync is due that a helper would make (5).
    bool sync_is_due() const noexcept {
        const std::int64_t every = file_.valid_sync_every();
        if (every == layout::JOURNAL_SYNC_EACH) return false;  // the append has synced
        const std::int64_t checked = load_relaxed(file_.checked());
        if (file_.header.segment_of(checked) > file_.header.segment_of(load_acquire(file_.synced()))) return true;
        if (every == layout::JOURNAL_SYNC_NEVER) return false;
        const std::int64_t time = wall_clock(file_.environment);
        return time < synced_at() || time - synced_at() >= every;
    }
    std::int64_t synced_at() const noexcept { return std::max<std::int64_t>(load_relaxed(file_.synced_at()), 0); }
    /// Trims by the options. If that fails, nothing is lost: the next push that enters a segment tries again.
    std::uint64_t trim() noexcept {
        try {
            return trim_by_options(file_, lock_.description(), true);
        } catch (const std::exception&) {
            return 0;
        }
    }

    void sync_in_use() {
        if (span_ != end_) {  // sync 1
            if (file_.header.in_segment(end_) == 0 && segment_position_ != end_) enter(end_, map_ready(end_));
            check();
            set_due();
        }
        try {
            if (syncer_.make_durable()) return;
        } catch (const IoError& error) {
            if (load_acquire(file_.failed()) != 0) sync_error_ = error.error();
            throw;
        }
        throw_unusable();
    }
    [[gnu::always_inline]] inline void wake_readers() noexcept {
        if (waker_.is_due()) waker_.wake(waiting_bit(0));
    }
    void wake_helper() noexcept {
        if (worker_.is_due()) worker_.wake(waiting_bit(0));
    }

    // In the order in which the hot path needs them.
    std::int64_t end_ = 0;      // of what is published (t)
    std::int64_t claimed_ = 0;  // as the file's word
    std::int64_t count_ = 0;    // messages before t
    std::byte* base_ = nullptr;
    std::int64_t mask_ = 0;
    std::int64_t* file_published_ = nullptr;
    std::int64_t largest_ = 0;  // time
    std::int64_t due_ = 0;      // from here on after_append has work
    std::size_t max_payload_ = 0;
    Waker waker_;
    JournalClock clock_;

    std::shared_ptr<JournalState> state_;
    const JournalFile& file_;
    std::int64_t span_ = 0;    // the end of the last check
    std::int64_t summed_ = 0;  // up to here the span's bytes are in crc_
    std::uint32_t crc_ = 0;
    std::int32_t claim_type_ = 0;
    std::int32_t raw_type_ = 1;
    std::int64_t checked_at_ = 0;  // when the last check was made; before the first one, `synced_at`
    std::int64_t segment_position_ = -1;
    Mapping segment_;
    JournalSyncer syncer_;
    Waker worker_;
    std::shared_ptr<JournalHandOver> over_;
    std::shared_ptr<JournalHelper> helper_;
    std::string name_;
    std::optional<JournalRecovery> recovery_;
    std::int64_t unprepared_ = 0;  // segments that were not ready when they were needed
    int sync_error_ = 0;
    bool holds_ = false;
    bool writer_ended_ = false;                 // the open claim owns this object
    std::optional<JournalState::AtWork> work_;  // until the slot is taken; of a push, to its end
};

/// Takes the slot (channel.md 5.2, journal.md 3.4, 5, 7).
inline void JournalWriterCore::take(const std::string* name, std::int64_t deadline) {
    state_->with_lock([&] {  // so that a forked child knows of the description
        lock_ = SlotLock(open_description(file_.fd, file_.control), file_.writer_lock());
    });
    while (!lock_byte(lock_.description(), file_.writer_lock(), file_.control)) {
        const std::int64_t time = clock_ns(CLOCK_MONOTONIC);
        if (time >= deadline) file_.throw_not_free();
        std::this_thread::sleep_for(Nanoseconds(std::min<std::int64_t>(1'000'000, deadline - time)));
        state_->check_stays_open();
    }
    work_.emplace(*state_);
    file_.check_linked();
    const WriterStart start = JournalMend(file_, lock_.description(), state_->progress).run();
    const SlotWords slot = file_.slot();
    std::int64_t epoch = 0;
    if (name != nullptr) {
        epoch =
            slot.take(*name, file_.environment, file_.wakes, [&] { store_relaxed(slot.closed(), std::int32_t{0}); });
    } else {
        epoch = next_epoch(load_relaxed(slot.epoch()));
        store_relaxed(slot.closed(), std::int32_t{0});
        store_relaxed(slot.wakes(), file_.wakes ? epoch : 0);
        compiler_fence();
        store_release(slot.epoch(), epoch);
    }
    begin(start);
    wake_all(file_.data());
    set_owner(std::move(lock_), slot.epoch(), epoch);
    if (name != nullptr) work_.reset();
}

inline void JournalWriterCore::begin(const WriterStart& start) {
    const JournalHeader& header = file_.header;
    mask_ = header.size() - 1;
    max_payload_ = static_cast<std::size_t>(header.longest() - journal_message_header);
    raw_type_ = header.schema_length != 0 ? layout::TYPE_RAW : 1;
    file_published_ = file_.published();
    end_ = claimed_ = start.end;
    claimed_ = load_relaxed(file_.claimed());
    count_ = start.count;
    span_ = start.span;
    summed_ = start.end;
    crc_ = start.crc;
    largest_ = start.time;
    recovery_ = start.recovery;
    checked_at_ = synced_at();
    if (header.in_segment(end_) != 0) {
        make_ready(file_, header.segment_of(end_));
        enter(header.segment_of(end_),
              map_segment(file_, open_to_write(file_, end_), header.segment_of(end_), Access::write));
    }
    set_due();
}

/// Appends messages in batches: of each, the first record's length comes last (channel.md 6.3). Returns how many: all.
/// If there is no space for the rest, what comes before it stays.
inline std::size_t JournalWriterCore::append_many(span<const Bytes> messages, std::int32_t type, std::int64_t time) {
    if (use() != idle || !usable() || type < 1) refuse(0, type);
    for (const Bytes& message : messages) {
        if (message.size() > max_payload_) throw MessageTooLarge::in_journal(message.size(), max_payload_);
    }
    if (messages.empty()) return 0;
    const InUse guard(*this);
    const JournalHeader& header = file_.header;
    if (time == now) time = clock_.now();
    const auto size_of = [](const Bytes& message) {
        return journal_align(journal_message_header + static_cast<std::int64_t>(message.size()));
    };
    const auto write = [&](std::int64_t position, const Bytes& message) {
        std::byte* const to = at(position);
        if (!message.empty()) std::memcpy(to + journal_message_header, message.data(), message.size());
        store_relaxed(word_at<std::int64_t>(to, layout::JOURNAL_RECORD_TIME), time);
        store_relaxed(word_at<std::int32_t>(to, layout::RECORD_TYPE), type);
        return word_at<std::int32_t>(to, layout::RECORD_LENGTH);
    };
    const auto length_of = [](const Bytes& message) {
        return static_cast<std::int32_t>(journal_message_header + static_cast<std::int64_t>(message.size()));
    };
    std::size_t done = 0;
    std::exception_ptr failed;
    while (done < messages.size()) {
        const std::int64_t first = size_of(messages[done]);
        if (end_ + first > claimed_) {
            try {
                reserve(first);
            } catch (...) {
                if (done == 0) throw;
                failed = std::current_exception();
                break;
            }
        }
        const std::int64_t most = std::min(header.longest(), segment_end() - journal_unit - end_);
        std::int64_t size = first;
        std::size_t last = done + 1;
        while (last < messages.size() && size + size_of(messages[last]) <= most) size += size_of(messages[last++]);
        announce(end_ + size);
        std::int64_t position = end_ + first;
        for (std::size_t i = done + 1; i < last; ++i) {
            store_relaxed(write(position, messages[i]), length_of(messages[i]));
            position += size_of(messages[i]);
        }
        store_release(write(end_, messages[done]), length_of(messages[done]));
        largest_ = std::max(largest_, time);
        advance(end_ + size, count_ + static_cast<std::int64_t>(last - done));
        done = last;
        if (end_ - summed_ >= crc_piece) sum(end_);
        if (end_ - span_ >= static_cast<std::int64_t>(layout::JOURNAL_CHECK_EVERY)) check();
        set_due();
    }
    try {
        after_append();
    } catch (...) {
        if (!failed) throw;
    }
    wake_readers();
    if (failed) std::rethrow_exception(failed);
    return done;
}

}  // namespace flyring::detail
