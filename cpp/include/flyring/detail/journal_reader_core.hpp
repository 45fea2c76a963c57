// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "flyring/detail/journal_seek.hpp"
#include "flyring/detail/journal_span.hpp"
#include "flyring/detail/journal_state.hpp"
#include "flyring/detail/readers.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/journal_message.hpp"
#include "flyring/journal_options.hpp"

// Reading a journal (spec/journal.md 3.3): at its end in the mapped segment, below it span by span.

namespace flyring::detail {

template <typename Handler>
inline constexpr bool journal_returns_action =
    std::is_same_v<std::decay_t<std::invoke_result_t<Handler&, const JournalMessage&>>, Action>;

/// A cursor in a journal. The bytes at the cursor are found at `base_`, which is either a mapped segment, or a span
/// that was read and proven; they end at `stop_`.
class JournalReaderCore : public JournalMember {
  public:
    JournalReaderCore(std::shared_ptr<JournalState> state, bool durable, bool skip)
        : state_(std::move(state)), file_(state_->file), span_reader_(file_), durable_(durable), skip_(skip) {}
    JournalReaderCore(const JournalReaderCore&) = delete;
    JournalReaderCore& operator=(const JournalReaderCore&) = delete;

    /// Polls without a wait.
    template <typename Handler>
    int poll(Handler& handler, int limit) {
        check_usable();
        const InUse guard(*this);
        return poll_in_use(handler, limit);
    }
    /// Polls, and waits for the first message until the time-out.
    template <typename Handler>
    int poll(Handler& handler, int limit, std::chrono::nanoseconds timeout) {
        if (FLYRING_UNLIKELY(use() != idle || !open())) refuse();
        check_timeout(timeout);
        check_usable();
        const InUse guard(*this);
        int done = poll_in_use(handler, limit);
        if (FLYRING_LIKELY(done != 0) || limit <= 0 || stopped_ || timeout.count() == 0) return done;
        const std::int64_t start = clock_ns(CLOCK_MONOTONIC);
        const std::int64_t deadline = later(start, timeout.count());
        bool over = false;
        while (done == 0 && !stopped_ && !over) {
            over = !sleep(start, deadline);
            done = poll_in_use(handler, limit);
        }
        return done;
    }
    void set_spin(std::chrono::nanoseconds time) { spin_ = checked_spin(time); }
    std::int64_t position() const noexcept { return cursor_; }
    std::int64_t number() const noexcept { return number_; }
    std::int64_t lost() const noexcept { return lost_; }
    std::int64_t cuts() const noexcept { return cuts_; }
    JournalState& state() const noexcept { return *state_; }

    // For a wait set.

    bool is_ready_in_set() noexcept {
        if (use() == closing) return false;
        if (mapped_ && cursor_ != stop_) return is_ready();
        return more_ || is_ready();
    }
    /// After each sleep: whether the next verb has something to do or to report.
    bool look_in_set() noexcept {
        if (!usable()) return true;
        if (!mapped_ || load_acquire(file_.published()) <= cursor_) return false;
        look_behind_next();
        return true;
    }
    /// How long to sleep at most: the writer does not wake if `wakes` is not the epoch.
    std::int64_t cap() const noexcept {
        const SlotWords slot = file_.slot();
        const std::int64_t epoch = load_acquire(slot.epoch());  // pairs with take
        const bool owned = is_epoch(epoch) && load_relaxed(slot.closed()) == 0;
        return owned && load_relaxed(slot.wakes()) != epoch ? short_cap : data_cap;
    }

    void seek(const JournalStart& start) {
        check_usable();
        const InUse guard(*this);
        set_cursor(JournalSeek(file_, durable_, skip_).to(start));
    }
    /// Whether the writer has closed and all is read.
    bool ended() {
        if (!usable()) throw_unusable();
        if (load_acquire(file_.slot().closed()) == 0) return false;  // pairs with close, after the last record
        return !file_.is_of_this_boot() ? false : cursor_ >= load_acquire(file_.published()) || only_check_is_left();
    }
    void close_checked() {
        state_->close(*this, [this] {
            throw ViewAlive("a reader of journal " + file_.path +
                            " is at work, in its handler or in another thread; close it after the poll");
        });
    }

    // JournalMember.
    void give_back(bool) noexcept override { let_go(); }
    void abandon() noexcept override {
        let_go();
        JournalMember::abandon();
    }
    [[noreturn, gnu::cold]] void throw_in_use() override { throw TwoThreads("a reader of journal " + file_.path); }
    [[noreturn, gnu::cold]] void throw_unusable() override {
        if (!open()) throw Closed("a reader of journal " + file_.path + " is used " + why_closed());
        throw SlotLost("consumer", slot());
    }

  protected:
    virtual std::uint32_t slot() const noexcept { return 0; }
    /// Stores a consumer's gate.
    virtual void store_gate() {}
    /// Called when the reader has lost messages, and its cursor is behind them.
    virtual void note_lost() {}

    void set_cursor(const JournalCursor& at) {
        cursor_ = at.position;
        number_ = at.number;
        span_ = at.span;
        span_count_ = at.span_count;
        lost_ = wrapping_add(lost_, at.lost);
        following_ = false;
        more_ = true;
        leave();
    }

    /// The body of poll; the object is in use.
    template <typename Handler>
    int poll_in_use(Handler& handler, int limit) {
        int done = 0;
        done_ = 0;
        stopped_ = false;
        try {
            while (done < limit) {
                if (FLYRING_UNLIKELY(cursor_ == stop_)) {
                    done_ = done;
                    if (!find_more()) break;
                }
                const std::byte* const at = base_ + (cursor_ - origin_);
                const RecordHead head{load_acquire(word_at<std::int32_t>(at, layout::RECORD_LENGTH)),
                                      load_relaxed(word_at<std::int32_t>(at, layout::RECORD_TYPE))};
                if (FLYRING_UNLIKELY(head.type <= 0 || !head.is_sound(file_.header, cursor_))) {
                    done_ = done;
                    if (!find_more()) break;
                    continue;
                }
                const std::int64_t start = cursor_;
                const std::int64_t number = number_;
                cursor_ = start + head.size();  // before the handler: consumed even if it throws
                ++number_;
                ++done;
                const auto size = static_cast<std::size_t>(head.length - journal_message_header);
                const auto time = load_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_RECORD_TIME));
                const JournalMessage message(at + journal_message_header, size, head.type, start, time, number,
                                             sender_);
                if constexpr (journal_returns_action<Handler>) {
                    const Action action = checked(handler(message));
                    if (action == Action::ABORT) {
                        cursor_ = start;
                        number_ = number;
                        --done;
                    }
                    if (action == Action::ABORT || action == Action::BREAK) {
                        stopped_ = true;
                        break;
                    }
                    if (action == Action::COMMIT) store_gate();
                } else {
                    handler(message);
                }
                if (cursor_ >= store_due_) store_gate();
            }
        } catch (...) {
            end_throwing();
            throw;
        }
        done_ = 0;
        store_gate();
        return done;
    }

    bool find_more() {
        more_ = true;
        return more_ = find();
    }
    /// Goes over what is no message. False: nothing is there now. Throws what the cursor has met, unless this poll has
    /// handed out something: then the next one does.
    [[gnu::noinline]] bool find() {
        for (;;) {
            if (cursor_ == stop_) {
                if (!(mapped_ ? end_of_segment() : end_of_span())) return false;
                continue;
            }
            const std::byte* const at = base_ + (cursor_ - origin_);
            const RecordHead head{load_acquire(word_at<std::int32_t>(at, layout::RECORD_LENGTH)),
                                  load_relaxed(word_at<std::int32_t>(at, layout::RECORD_TYPE))};
            if (head.length == 0) {
                if (!nothing_here()) return false;
                continue;
            }
            if (!head.is_sound(file_.header, cursor_)) return corrupt("a record is not sound");
            if (head.is_message()) return true;
            if (head.type == layout::TYPE_PADDING) {
                cursor_ += head.size();
            } else if (head.type == layout::JOURNAL_TYPE_CHECK) {
                if (!pass_check(at)) return false;
            } else {
                const auto cut = read_cut(at, file_.header, cursor_);
                if (!cut) return corrupt("a cut is not right");
                if (cut->count != number_) return corrupt("a cut's count is not the reader's");
                follow(*cut);
            }
        }
    }

    const JournalFile& file() const noexcept { return file_; }

    static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

    std::int64_t cursor_ = 0;
    std::int64_t stop_ = 0;  // where the bytes at base_ end; the cursor: there are none
    const std::byte* base_ = nullptr;
    std::int64_t origin_ = 0;  // the position of base_
    std::int64_t number_ = 0;
    std::int64_t store_due_ = never;  // a cursor at or above it stores the gate
    const Sender& sender_ = no_sender();
    std::shared_ptr<JournalState> state_;
    const JournalFile& file_;
    std::int64_t lost_ = 0;
    bool skip() const noexcept { return skip_; }

  private:
    /// A reader that follows the writer goes cold when it is further behind than this.
    static constexpr std::int64_t far_behind = 1 << 20;
    static constexpr std::uint32_t looks_to_publish = 1024;

    void end_throwing() noexcept {
        try {
            if (usable()) store_gate();
        } catch (const std::exception&) {
            // The exception that is under way goes first.
        }
    }
    /// Gives back the mapping and the descriptor of a segment: a closed reader may live on.
    void let_go() noexcept {
        mapping_.detach();
        span_reader_.close();
    }
    /// Leaves the mapped segment, or the span: the next look chooses again.
    void leave() noexcept {
        stop_ = cursor_;
        mapped_ = false;
        in_span_ = false;
    }
    /// Whether only a check lies between the cursor and `published`.
    bool only_check_is_left() {
        if (use() != idle) return false;
        const InUse guard(*this);
        done_ = 0;
        return !find() && cursor_ >= load_acquire(file_.published());
    }

    // ---- the mapped segment ----

    bool end_of_segment() {
        leave();
        return choose();
    }
    /// Nothing is at the cursor in the mapped segment. True: look again.
    bool nothing_here() {
        if (!is_left_behind()) return false;
        // Now the record must be seen, unless the journal was recovered.
        const std::byte* const at = base_ + (cursor_ - origin_);
        if (load_acquire(word_at<std::int32_t>(at, layout::RECORD_LENGTH)) != 0) return true;
        leave();
        return look_for_cut() || damaged(cursor_);
    }
    /// Counts a look that finds nothing at the cursor. Only one of many loads `published`: a load takes its cache line
    /// from the writer. Whether `published` lies in a later segment then.
    bool is_left_behind() noexcept {
        if (++empty_looks_ % looks_to_publish != 0) return false;
        const std::int64_t published = load_acquire(file_.published());
        seen_published_ = published;
        return published > cursor_ && file_.header.segment_of(cursor_) < file_.header.segment_of(published - 1);
    }
    /// Makes the next look that finds nothing load `published`: the journal may have been recovered.
    void look_behind_next() noexcept { empty_looks_ = looks_to_publish - 1; }
    bool pass_check(const std::byte* at) {
        const auto count = load_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_CHECK_COUNT));
        const auto position = load_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_CHECK_POSITION));
        if (position != cursor_) return corrupt("a check has another position");
        if (count != number_) return corrupt("a check's count is not the reader's");
        cursor_ += journal_check_length;
        span_ = cursor_;
        span_count_ = number_;
        if (wrapping_subtract(load_acquire(file_.published()), cursor_) > far_behind) leave();
        return true;
    }
    /// Throws CorruptJournal. False: not now, because this poll has handed out something.
    bool corrupt(const char* reason) const {
        if (done_ == 0) file_.corrupt(cursor_, reason);
        return false;
    }
    void follow(const JournalCut& cut) {
        ++cuts_;
        go_to(cut.next, cut.count);
    }
    void go_to(std::int64_t position, std::int64_t count) noexcept {
        cursor_ = position;
        number_ = count;
        span_ = position;
        span_count_ = count;
        leave();
    }

    // ---- below the end ----

    /// The cursor is at the end of the span's records: passes its check.
    bool end_of_span() {
        if (!in_span_) return choose();
        if (durable_) {  // never ahead of `synced`, which is this check's position
            seen_synced_ = end_of_reading(file_, true);
            if (cursor_ >= seen_synced_) return false;
        }
        go_to(span_reader_.next(), span_reader_.check().count);
        return choose();
    }

    /// Chooses how to read at the cursor. False: nothing is there now.
    bool choose() {
        const JournalHeader& header = file_.header;
        if (!whole_) whole_ = file_.is_of_this_boot();
        if (!whole_ && !durable_) return read_span(layout::MAX_POSITION);
        const std::int64_t end = end_of_reading(file_, durable_);
        (durable_ ? seen_synced_ : seen_published_) = end;
        if (durable_) return cursor_ < end && read_span(end + journal_check_length);
        const std::int64_t checked = load_acquire(file_.checked());  // pairs with check
        const bool near = following_ ? end - cursor_ <= far_behind : cursor_ > checked;
        const std::int64_t segment = header.segment_of(cursor_);
        const bool last = segment >= header.segment_of(end) || (end > 0 && segment == header.segment_of(end - 1));
        if (near && last && map(segment)) return true;
        following_ = false;
        if (cursor_ >= end) return false;
        return read_span(end);
    }

    bool map(std::int64_t segment) {
        if (mapping_position_ != segment || mapping_.data() == nullptr) {
            const Fd fd = open_segment(file_, segment);
            if (!fd) return false;
            Mapping mapped = map_segment(file_, fd, segment, Access::read);
            mapping_ = Mapping();
            mapping_ = std::move(mapped);
            mapping_position_ = segment;
        }
        base_ = mapping_.data() + layout::HEADER_LENGTH;
        origin_ = segment;
        stop_ = segment + file_.header.size();
        mapped_ = following_ = true;
        return true;
    }

    /// Reads the span at the cursor, and proves it.
    bool read_span(std::int64_t limit) {
        const SpanEnd end = span_reader_.read(span_, limit);
        const std::int64_t records_end = span_reader_.records_end();
        switch (end) {
            case SpanEnd::check: {
                const std::int64_t count = span_reader_.check().count;
                if (count != wrapping_add(span_count_, span_reader_.messages)) return miscounted();
                base_ = span_reader_.at(span_reader_.start());
                origin_ = span_reader_.start();
                stop_ = records_end;
                in_span_ = true;
                mapped_ = false;
                if (cursor_ > stop_) go_to(span_reader_.next(), count);
                return true;
            }
            case SpanEnd::cut:
                if (span_reader_.cut().count != number_) return miscounted();
                follow(span_reader_.cut());
                return true;
            case SpanEnd::nothing:
                if (!whole_) return unproven() ? false : damaged(records_end);
                if (records_end >= limit) return false;  // the end, without a check: the tail's rules are for it
                break;
            case SpanEnd::wrong:
                if (!whole_ && unproven()) return false;
                break;
            case SpanEnd::missing:
                span_reader_.close();
                if (!whole_ && unproven()) return false;
                break;
        }
        return look_for_cut() || damaged(records_end);
    }
    /// In another boot: whether the span lies behind `synced`. It was not durable then, so it is no damage if it is not
    /// whole.
    bool unproven() const { return span_ > end_of_reading(file_, true); }

    /// Where nothing is, although something should be: what was trimmed, or what a recovery has cut off. True: the
    /// cursor is behind it.
    bool look_for_cut() {
        const std::int64_t trimmed = beginning(file_);  // loaded after the segment was not found
        // A cursor at `trimmed` lies behind the span that ended there: it is gone, and no message of it is missing.
        if (cursor_ < trimmed || (cursor_ == trimmed && span_ < trimmed)) return skip_trimmed();
        if (file_.is_unlinked()) throw NoSuchChannel(file_.path);
        const JournalHeader& header = file_.header;
        std::int64_t segment = header.segment_of(cursor_);
        if (!open_segment(file_, segment)) {
            const auto below = segment_below(file_, segment);
            if (!below || *below < trimmed) return false;
            segment = *below;
        }
        SpanReader walk(file_);
        std::int64_t at = segment;
        for (;;) {
            const SpanEnd end = walk.read(at);
            if (end == SpanEnd::cut && walk.cut().position <= cursor_ && walk.next() > cursor_) {
                ++cuts_;
                go_to(walk.next(), walk.cut().count);
                return true;
            }
            if (end != SpanEnd::check || walk.next() > cursor_) return false;
            at = walk.next();
        }
    }
    /// Goes on at `trimmed`, and counts what lies between as lost.
    bool skip_trimmed() {
        const JournalCursor at = JournalSeek(file_, durable_, skip_).oldest();
        if (at.position < cursor_) return false;
        const std::int64_t gone = at.number - number_;
        set_cursor({at.position, at.number, at.span, at.span_count, std::max<std::int64_t>(gone, 0)});
        note_lost();
        return true;
    }

    /// A check whose count is not the reader's.
    bool miscounted() { return damaged_to({span_reader_.records_end(), span_reader_.next(), span_reader_.count()}); }
    /// What lies between the cursor and the next right check is lost.
    bool damaged(std::int64_t from) {
        if (done_ > 0) return false;  // what was handed out is returned first
        const std::int64_t limit = end_of_spans(file_, durable_);
        const auto place = find_right_check(file_, std::max(from, span_), limit);
        if (place) return damaged_to(*place);
        if (skip_) return false;  // until there is a check
        throw Damaged(file_.path, cursor_, end_of_reading(file_, durable_ || !whole_), -1);
    }
    bool damaged_to(const JournalPlace& place) {
        if (done_ > 0) return false;
        const std::int64_t gone = place.count - number_;
        if (!skip_) throw Damaged(file_.path, cursor_, place.position, gone);
        lost_ = wrapping_add(lost_, std::max<std::int64_t>(gone, 0));
        go_to(place.next, place.count);
        note_lost();
        return true;
    }

    // ---- waiting (channel.md 6.16) ----

    bool is_ready() noexcept {
        if (!usable()) return true;
        if (mapped_ && cursor_ != stop_) {
            const std::byte* const at = base_ + (cursor_ - origin_);
            if (load_acquire(word_at<std::int32_t>(at, layout::RECORD_LENGTH)) != 0) return true;
            if (!is_left_behind()) return false;
            look_behind_next();  // the next poll must see it, too
            return true;
        }
        if (!whole_ && file_.is_of_this_boot()) return true;
        if (durable_) return load_acquire(file_.synced()) != seen_synced_;
        return whole_ && load_acquire(file_.published()) != seen_published_;
    }
    /// One turn of a wait. False: the deadline has passed.
    bool sleep(std::int64_t start, std::int64_t deadline) {
        put_back();
        const bool again = sleep_put_back(start, deadline);
        take_again();
        if (!usable()) throw_unusable();
        return again;
    }
    bool sleep_put_back(std::int64_t start, std::int64_t deadline) noexcept {
        const std::int64_t spin_end = std::min(deadline, later(start, spin_.count()));
        std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        while (now < spin_end) {
            for (int i = 0; i < 16; ++i) {
                if (is_ready()) return true;
                cpu_relax();
            }
            now = clock_ns(CLOCK_MONOTONIC);
        }
        if (now >= deadline) return false;
        sleep_once(
            file_.data(), waiting_bit(0), !file_.read_only, deadline, [&] { return is_ready(); },
            [&] { return cap(); });
        look_behind_next();
        return true;
    }

    Mapping mapping_;
    std::int64_t mapping_position_ = -1;
    SpanReader span_reader_;
    std::int64_t span_ = 0;        // where the cursor's span begins
    std::int64_t span_count_ = 0;  // messages before that
    std::int64_t cuts_ = 0;
    std::int64_t seen_published_ = -1;  // when the last look found nothing
    std::int64_t seen_synced_ = -1;
    std::chrono::nanoseconds spin_ = default_spin;
    std::uint32_t empty_looks_ = 0;
    int done_ = 0;            // messages that this poll has handed out
    bool mapped_ = false;     // base_ is the mapped segment
    bool in_span_ = false;    // base_ is a span
    bool following_ = false;  // it has reached the writer, and is not far behind
    bool whole_ = false;      // the journal is of this boot
    bool more_ = true;        // the last look has found something, or there was none
    bool stopped_ = false;    // the handler has ended the poll
    const bool durable_;
    const bool skip_;
};

/// A reader without a slot.
class JournalPlainReader final : public JournalReaderCore {
  public:
    JournalPlainReader(std::shared_ptr<JournalState> state, const JournalStart& start, bool durable, bool skip)
        : JournalReaderCore(std::move(state), durable, skip) {
        state_->check_open();
        file_.check_linked();
        set_cursor(JournalSeek(file_, durable, skip).to(start));
        set_open();
        state_->enter(*this);
    }
    ~JournalPlainReader() override { state_->leave(*this); }
};

}  // namespace flyring::detail
