// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "flyring/detail/adopt.hpp"
#include "flyring/detail/readers.hpp"
#include "flyring/detail/release.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/sender.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/wait_for.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/job.hpp"
#include "flyring/message.hpp"

namespace flyring::detail {

template <typename Handler>
inline constexpr bool job_returns_action = std::is_same_v<std::decay_t<std::invoke_result_t<Handler&, Job&>>, Action>;

/// Takes the jobs of a queue: the steps of spec/queue.md 3 to 8, in their order. A Worker owns it.
class WorkerCore final : public Member {
  public:
    /// `timeout`: how long to wait for a free slot.
    WorkerCore(std::shared_ptr<ChannelState> state, const std::string& name, Nanoseconds timeout);
    WorkerCore(const WorkerCore&) = delete;
    WorkerCore& operator=(const WorkerCore&) = delete;
    ~WorkerCore() override {
        state_->leave(*this);
        if (job_ != nullptr) job_->core_ = nullptr;
    }

    /// While there is no job, it waits.
    template <typename Handler>
    int poll(Handler& handler, int limit, Nanoseconds timeout) {
        if (FLYRING_UNLIKELY(use() != idle || !usable() || timeout.count() < 0)) refuse(timeout);
        set_use(in_use);
        Wait wait(*this);
        const PassOn pass_on(*this);
        int done = hand_out(handler, limit);
        if (FLYRING_LIKELY(done != 0) || limit <= 0 || timeout.count() == 0) return done;
        Turns turns(*this, timeout, spin_);
        while (done == 0 && wait_for_job(wait, turns)) done = hand_out(handler, limit);
        return done;
    }
    std::optional<Job> take(Nanoseconds timeout);

    // Of the job in hand: what `job` is the handle of, in its handler or behind take.
    inline void finish(Job& job);
    inline bool give_up(Job& job);
    inline void drop(Job& job) noexcept;
    /// `job` is the handle of the job in hand from now on.
    void set_handle(Job& job) noexcept { job_ = &job; }
    void forget_handle() noexcept { job_ = nullptr; }

    void drain();
    bool ended();
    void set_spin(Nanoseconds time) { spin_ = checked_spin(time); }

    void give_back(bool owned) noexcept override;
    [[noreturn, gnu::cold]] void throw_unusable() override;
    [[noreturn, gnu::cold]] void throw_in_use() override {
        throw TwoThreads("worker slot " + std::to_string(slot_));
    }
    void check_idle() const {
        if (use() == in_use) {
            throw ViewAlive("worker slot " + std::to_string(slot_) +
                            " is at work, in its handler or in another thread; close it after the poll");
        }
    }

    // Waiting (spec/queue.md 10).
    WaitingWords words() const noexcept override { return state_->file.jobs(); }
    std::uint32_t mask() const noexcept override { return layout::JOBS_BIT; }
    bool is_ready() const noexcept override {
        return !usable() || is_draining() || in_hand() || is_job_there();
    }
    std::int64_t cap(std::int64_t) const noexcept override {
        return publishers_wake(state_->file, all_rings_) && workers_wake(state_->file, slot_) ? data_cap : short_cap;
    }
    bool look_after() override {
        const bool replaced = is_replaced(state_->file);
        if (replaced) idle_polls_.look_next();  // and tells it
        return replaced || is_ready() || adopt_if_due(clock_ns(CLOCK_MONOTONIC));
    }
    void pass_on() noexcept override {
        say_asleep();
        wake_one_more();
    }
    std::optional<std::uint32_t> busy_slot() const noexcept override {
        if (load_relaxed(&thread_) != this_thread() || !open()) return std::nullopt;
        return slot_;
    }

    ChannelState& state() const noexcept override { return *state_; }
    std::uint32_t slot() const noexcept { return slot_; }
    const std::string& name() const noexcept { return name_; }
    std::int64_t epoch() const noexcept { return epoch_; }

  private:
    /// One ring, as this worker sees it.
    struct Source {
        Ring ring;            // read-only
        std::int64_t* shared; // gate[0]
        std::int64_t* gate;   // this worker's
        bool returns;         // its jobs carry where they were published first
        bool corrupt;         // it is not looked at again
    };

    /// The batch in hand; its first job is at `position`.
    struct Hand {
        Source* source = nullptr;  // null: nothing is in hand
        std::int64_t position = 0;
        std::int64_t end = 0;       // of the batch
        std::int64_t job_end = 0;   // of the job that was handed out
        std::int32_t attempts = 0;  // what stands beside the gate
        std::int32_t first_attempts = 0;  // the same, at the beginning of this batch
        bool copied = false;        // it was adopted: its bytes may change
        bool begun = false;         // `record` is the job's
        bool stayed = false;        // it was handed out, and comes again
    };

    /// What one turn in a ring may do besides: pass over padding and lose to other workers.
    static constexpr int tries = layout::LOSSY_TRIES;

    static const void* this_thread() noexcept {
        static thread_local const char here = 0;
        return &here;
    }

    bool in_hand() const noexcept { return hand_.source != nullptr; }
    bool is_draining() const noexcept { return load_relaxed(&draining_) != 0; }
    bool is_job_there() const noexcept {
        return std::any_of(sources_.begin(), sources_.end(), [](const Source& source) {
            const std::int64_t p = load_acquire(source.shared);  // take 1; pairs with take 3
            if (source.corrupt) return false;
            return !source.ring.is_position(p) || load_acquire(source.ring.length_at(p)) > 0;  // pairs with publish 6
        });
    }

    template <typename Handler>
    int hand_out(Handler& handler, int limit) {
        int done = 0;
        while (done < limit && next_job(limit - done)) {
            Action action = Action::CONTINUE;
            Job job(*this, message_of(record_), record_.ring, record_.attempts);
            try {
                if constexpr (job_returns_action<Handler>) {
                    action = checked(handler(job));
                } else {
                    handler(job);
                }
            } catch (...) {
                if (job_ != nullptr) drop(*job_);
                throw;
            }
            ++done;
            if (FLYRING_LIKELY(job_ != nullptr)) {  // the handler may have finished it itself, or moved it
                action == Action::ABORT ? static_cast<void>(give_up(*job_)) : finish(*job_);
            } else if (!open()) {
                throw_unusable();  // a forked child
            }
            if (ends_poll(action) || hand_.stayed) break;
        }
        if (done == 0) {
            idle_polls_.found_nothing(state_->file);
        } else {
            idle_polls_.found_something();
        }
        return done;
    }

    /// Whether there is a job to hand out: `record_`. Takes up to `limit`, if nothing is in hand.
    bool next_job(int limit) {
        for (;;) {
            if (!in_hand() && (is_draining() || !take_jobs(limit))) return false;
            if (FLYRING_UNLIKELY(was_asleep_)) wake_one_more();
            if (begin_job()) return true;
        }
    }

    bool take_jobs(int limit);
    bool take_from(Source& source, int limit, std::int64_t now);
    static std::int64_t end_of_batch(const Ring& ring, std::int64_t position, std::int64_t first_end, int limit);
    bool begin_job() {
        if (FLYRING_UNLIKELY(!usable())) throw_unusable();  // take 4; pairs with evict
        return prepare_job();
    }
    bool prepare_job();
    bool begin_copy(Source& source);
    void set_record(const Source& source, const std::byte* payload, std::int32_t length, std::int32_t type,
                    std::int64_t position);
    Message message_of(const JobRecord& record);
    void end_job() noexcept;
    std::int64_t next_in_batch(std::int64_t position) const noexcept;
    void set_hand(Source& source, std::int64_t position, std::int64_t end, std::int32_t attempts, bool copied) noexcept;
    bool release_job();
    void keep_job() noexcept;
    [[gnu::cold]] bool adopt_if_due(std::int64_t now);
    bool lost() const noexcept { return !usable(); }

    /// done or release of a job of take begins: nobody closes the worker meanwhile. In a handler: it is in use anyway.
    void begin_end(Job& job);
    void end_end(std::uint32_t was) noexcept {
        if (was != in_use) set_use(idle);
    }

    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse(Nanoseconds timeout);
    [[gnu::noinline, gnu::cold]] inline bool refuse_record(Source& source, std::int64_t position, const char* reason);
    [[noreturn, gnu::noinline, gnu::cold]] inline void drop_batch(Source& source, const char* reason);
    [[noreturn, gnu::noinline, gnu::cold]] inline void lose_slot();
    void take_slot(const std::string& name);

    /// What a change of a gate leaves for producers: as poll 6.
    void made_room(const Source& source) const noexcept {
        if (room_.is_due()) room_.wake(waiting_bit(source.ring.index));
    }

    bool wait_for_job(Wait& wait, Turns& turns);
    /// Sleep 2 and 3 again, of one that was woken: so the next publish wakes another.
    void say_asleep() noexcept {
        if (!open()) return;
        __atomic_fetch_or(words().asleep, layout::JOBS_BIT, __ATOMIC_RELAXED);
        reach_wakers();
        was_asleep_ = true;
    }
    /// Behind it, and behind this worker's own take.
    [[gnu::cold, gnu::noinline]] void wake_one_more() noexcept {
        was_asleep_ = false;
        if (open() && jobs_.is_due() && is_job_there()) jobs_.wake_one();
    }
    /// One that was woken and takes nothing wakes another on its way out, whatever that is.
    struct PassOn {
        WorkerCore& core;
        explicit PassOn(WorkerCore& of) noexcept : core(of) {}
        PassOn(const PassOn&) = delete;
        PassOn& operator=(const PassOn&) = delete;
        ~PassOn() {
            if (FLYRING_UNLIKELY(core.was_asleep_)) core.wake_one_more();
        }
    };

    /// For `busy_since`, and for when to look for jobs of the dead: some milliseconds do not matter.
    static std::int64_t coarse_now() noexcept { return clock_ns(CLOCK_MONOTONIC_COARSE); }
    std::int64_t busy_time(std::int64_t now) const noexcept {
        return state_->file.environment.monotonic.value_or(std::max<std::int64_t>(now - clock_offset_, 1));
    }

    Hand hand_;
    JobRecord record_;           // of the job that was handed out last
    Job* job_ = nullptr;         // its handle, as long as it is not finished
    std::size_t next_source_ = 0;
    std::vector<Source> sources_;
    Waker room_;
    Waker jobs_;
    Waker data_;
    std::int64_t* busy_since_ = nullptr;
    std::int64_t adopted_at_ = 0;  // when it last looked
    std::int64_t clock_offset_ = 0;
    const void* thread_ = nullptr;  // whose hand the jobs are in
    std::uint32_t draining_ = 0;
    bool was_asleep_ = false;  // and has not woken one more
    IdlePolls idle_polls_;
    Returns returns_;
    std::unique_ptr<std::byte[]> copy_;  // of a job that was adopted
    std::vector<Sender> senders_;        // of the rings; the last one for those who are not known
    std::vector<std::int64_t> starts_;   // where the first record of that sender lies
    Rings all_rings_;
    std::shared_ptr<ChannelState> state_;
    std::string name_;
    Nanoseconds spin_ = default_spin;
};

inline WorkerCore::WorkerCore(std::shared_ptr<ChannelState> state, const std::string& name, Nanoseconds timeout)
    : state_(std::move(state)), name_(name) {
    if (!name.empty()) check_name("name", name);
    check_timeout(timeout);
    const std::int64_t deadline = later(clock_ns(CLOCK_MONOTONIC), timeout.count());
    for (;;) {
        try {
            state_->enter(*this, [&] { take_slot(name); });
            return;
        } catch (const NoFreeSlot&) {
            if (clock_ns(CLOCK_MONOTONIC) >= deadline) throw;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the death of an owner wakes nobody
    }
}

/// channel.md 5.3, without a join (6).
inline void WorkerCore::take_slot(const std::string& name) {
    const ChannelFile& file = state_->file;
    const std::uint32_t rings = file.header.publishers;
    std::uint32_t taken = 0;
    std::int64_t epoch = 0;
    std::optional<Batch> found;
    clock_offset_ = monotonic_offset();
    room_ = Waker(file.room(), file.wakes);  // before the locks: the kernel may take some milliseconds
    jobs_ = Waker(file.jobs(), file.wakes);
    data_ = Waker(file.data(), file.wakes);
    // All memory that it needs, before anything is stored: what fails here leaves nothing behind.
    sources_.reserve(rings);
    senders_.clear();  // of a try before
    all_rings_.clear();
    for (std::uint32_t ring = 0; ring < rings; ++ring) {
        senders_.push_back(unknown_sender(ring));
        all_rings_.push_back(ring);
    }
    senders_.push_back(unknown_sender(0));
    starts_.assign(rings, 0);
    // Not cleared: pages that no copy needs are never touched.
    if (!copy_) copy_.reset(new std::byte[file.header.capacity / layout::MAX_MESSAGE_DIVISOR]);
    returns_ = Returns(file);
    SlotLock lock = detail::take_slot(file, worker_slots(file), name, [&](std::uint32_t slot) {
        const SlotWords words = subscriber_slot(file, slot);
        epoch = words.take(name, file.environment, file.wakes,
                           [&] { store_relaxed(words.busy_since(), std::int64_t{0}); });
        found = inherit(file, slot);
        if (found) store_relaxed(words.busy_since(), busy_time(coarse_now()));
        if (load_acquire(words.evicting()) != 0) store_release(words.evicting(), 0);
        wake_all(file.room());
        taken = slot;
    });
    for (std::uint32_t ring = 0; ring < rings; ++ring) {
        const Ring writable = file.ring(ring);
        sources_.push_back(
            {file.readable_ring(ring), writable.gate(0), writable.gate(taken), ring + 1 == rings, false});
        file.readable.prefault(sources_.back().ring.data, sources_.back().ring.capacity());
    }
    busy_since_ = subscriber_slot(file, taken).busy_since();
    set_owner(std::move(lock), taken, subscriber_slot(file, taken).epoch(), epoch);
    if (found) set_hand(sources_[found->ring], found->position, found->end, found->attempts, true);
}

inline void WorkerCore::set_hand(Source& source, std::int64_t position, std::int64_t end, std::int32_t attempts,
                                 bool copied) noexcept {
    hand_ = {&source, position, end, position, attempts, attempts, copied, false, false};
    store_relaxed(&thread_, this_thread());
}

/// 3, from the rings in turn, or 5. False: there is nothing.
inline bool WorkerCore::take_jobs(int limit) {
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();
    const std::int64_t now = coarse_now();
    if (FLYRING_UNLIKELY(now - adopted_at_ >= layout::ADOPT_INTERVAL) && adopt_if_due(now)) return true;
    const std::size_t rings = sources_.size();
    std::size_t at = next_source_;
    for (std::size_t visited = 0; visited < rings; ++visited) {
        Source& source = sources_[at];
        at = at + 1 < rings ? at + 1 : 0;
        if (FLYRING_UNLIKELY(source.corrupt) || !take_from(source, limit, now)) continue;
        next_source_ = at;
        return true;
    }
    return false;
}

inline bool WorkerCore::take_from(Source& source, int limit, std::int64_t now) {
    const Ring ring = source.ring;
    constexpr auto header = static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH);
    std::int64_t passed = 0;
    for (int attempt = 0; attempt < tries; ++attempt) {
        // Take 1; pairs with take 3: the record is looked at behind it.
        const std::int64_t p = load_acquire(source.shared);
        if (FLYRING_UNLIKELY(!ring.is_position(p)) && refuse_record(source, p, "gate[0] is no position")) continue;
        const std::int32_t length = load_acquire(ring.length_at(p));  // take 1; pairs with publish 6
        if (length <= 0) return false;
        const std::int64_t size = ring.align(length);
        if (FLYRING_UNLIKELY(length < header || (p & ring.mask()) + size > ring.capacity())) {
            if (refuse_record(source, p, "a record's length is out of range")) continue;
        }
        const std::int32_t type = load_relaxed(ring.type_at(p));
        if (FLYRING_UNLIKELY(type <= 0)) {
            if (type != layout::TYPE_PADDING && type != layout::TYPE_OWNER) {
                if (refuse_record(source, p, "a record has an unknown type")) continue;
            }
            // Take 1: a store would take gate[0] back over jobs that others took meanwhile.
            if (!exchange_gate(source.shared, p, p + size)) continue;
            made_room(source);
            passed += size;
            if (passed >= ring.capacity()) return false;  // a hostile ring may hold nothing else
            continue;
        }
        if (source.returns && length < header + static_cast<std::int32_t>(layout::RELEASED_LENGTH)) {
            if (refuse_record(source, p, "a released job has no origin")) continue;
        }
        const std::int64_t e = limit == 1 ? p + size : end_of_batch(ring, p, p + size, limit);
        store_relaxed(attempts_beside(source.gate), 0);   // take 2: an earlier job's number is not this one's
        store_release(taken_end_beside(source.gate), e);  // take 2; pairs with adopt 2
        store_release(source.gate, p);                    // take 2; pairs with room 2b, adopt 2
        // Take 3; pairs with take 1, room 2b, adopt 2: who sees gate[0] behind the job sees the stores above.
        if (FLYRING_UNLIKELY(!exchange_gate(source.shared, p, e))) {
            store_release(source.gate, layout::NOT_GATING);  // take 3: -1 between two announcements
            made_room(source);
            continue;
        }
        set_hand(source, p, e, 0, false);
        store_relaxed(busy_since_, busy_time(now));
        return true;
    }
    return false;
}

/// The end of up to `limit` jobs that begin at `position`, the first of which ends at `end`: they lie directly behind
/// one another, and not more than an eighth of the ring behind `position`, unless that is one job.
inline std::int64_t WorkerCore::end_of_batch(const Ring& ring, std::int64_t position, std::int64_t end, int limit) {
    const std::int64_t last = position + ring.capacity() / static_cast<std::int64_t>(layout::BATCH_DIVISOR);
    for (int jobs = 1; jobs < limit && end < last; ++jobs) {
        const std::int32_t length = load_acquire(ring.length_at(end));  // pairs with publish 6
        const std::int64_t size = ring.align(length);
        if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH) || end + size > last ||
            (end & ring.mask()) + size > ring.capacity() || load_relaxed(ring.type_at(end)) <= 0) {
            break;  // nothing there, or no job; or not good, which is found when it comes first
        }
        end += size;
    }
    return end;
}

/// `record_` is the next job in hand. False: there is none any more.
inline bool WorkerCore::prepare_job() {
    Source& source = *hand_.source;
    store_relaxed(&thread_, this_thread());
    if (FLYRING_UNLIKELY(hand_.stayed)) {
        hand_.stayed = false;
        hand_.attempts = more_attempts(hand_.attempts, 1);
        store_relaxed(attempts_beside(source.gate), hand_.attempts);  // before it is handed out again
    }
    if (FLYRING_UNLIKELY(hand_.copied)) return begin_copy(source);
    const Ring ring = source.ring;
    const std::int64_t p = hand_.position;
    const std::int32_t length = load_relaxed(ring.length_at(p));
    const std::int32_t type = load_relaxed(ring.type_at(p));
    const std::int64_t size = ring.align(length);
    const auto least = static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH +
                                                 (source.returns ? layout::RELEASED_LENGTH : 0));
    if (FLYRING_UNLIKELY(length < least || type <= 0 || size > hand_.end - p ||
                         (p & ring.mask()) + size > ring.capacity())) {
        drop_batch(source, "a job that was taken is none any more");
    }
    hand_.job_end = p + size;
    set_record(source, ring.payload_at(p), length, type, p);
    return true;
}

/// Adopt 7: the same of a batch whose bytes may change.
inline bool WorkerCore::begin_copy(Source& source) {
    const Ring ring = source.ring;
    const auto least = static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH +
                                                 (source.returns ? layout::RELEASED_LENGTH : 0));
    while (hand_.position < hand_.end) {
        const std::int64_t p = hand_.position;
        const std::int32_t length = load_acquire(ring.length_at(p));  // pairs with publish 6
        const std::int32_t type = load_relaxed(ring.type_at(p));
        const std::int64_t size = ring.align(length);
        const bool job = type > 0;
        const bool good = length >= (job ? least : static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH)) &&
                          size <= hand_.end - p && (p & ring.mask()) + size <= ring.capacity() &&
                          (job || type == layout::TYPE_PADDING || type == layout::TYPE_OWNER);
        if (good && job) {
            copy_job(copy_.get(), ring.payload_at(p), static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH);
        }
        if (is_lapped(ring, p)) break;  // it was done; who passed it has, or had, the jobs behind it
        if (!good) drop_batch(source, "a job that was taken over is none any more");
        if (job) {
            hand_.job_end = p + size;
            set_record(source, copy_.get(), length, type, p);
            return true;
        }
        hand_.position = p + size;
    }
    hand_.job_end = hand_.end;
    end_job();
    return false;
}

/// 9: what identifies a job.
inline void WorkerCore::set_record(const Source& source, const std::byte* payload, std::int32_t length,
                                   std::int32_t type, std::int64_t position) {
    const std::size_t size = static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH;
    hand_.begun = true;
    if (FLYRING_LIKELY(!source.returns)) {
        record_ = {payload, size, type, hand_.attempts, source.ring.index, position};
        return;
    }
    const std::int32_t ring = load_relaxed(word_at<std::int32_t>(payload, layout::RELEASED_ORIGIN_RING));
    const std::int32_t attempts = load_relaxed(word_at<std::int32_t>(payload, layout::RELEASED_ATTEMPTS));
    const std::int64_t origin = load_relaxed(word_at<std::int64_t>(payload, layout::RELEASED_ORIGIN_POSITION));
    if (ring < 0 || ring >= static_cast<std::int32_t>(source.ring.index) || !source.ring.is_position(origin)) {
        drop_batch(*hand_.source, "a released job's origin is none");
    }
    record_ = {payload + layout::RELEASED_LENGTH, size - layout::RELEASED_LENGTH,
               type, more_attempts(std::max(attempts, 1), hand_.attempts),
               static_cast<std::uint32_t>(ring), origin};
}

/// With the sender: the publisher slot's owner, if the job is not from before its time (9).
inline Message WorkerCore::message_of(const JobRecord& record) {
    Sender& unknown = senders_.back();
    unknown.ring = record.ring;
    const Sender* sender = &unknown;
    if (FLYRING_LIKELY(!hand_.source->returns)) {
        Sender& owner = senders_[record.ring];
        const SlotWords words = publisher_slot(state_->file, record.ring);
        if (FLYRING_UNLIKELY(load_relaxed(words.epoch()) != owner.epoch)) {
            SlotFields fields;
            const bool known = read_fields(words, fields) && is_epoch(fields.epoch) &&
                               hand_.source->ring.is_position(fields.start);
            owner.epoch = known ? fields.epoch : 0;
            owner.name.assign(fields.letters, known ? fields.name_length : 0);
            starts_[record.ring] = known ? fields.start : 0;
        }
        if (starts_[record.ring] <= record.position) sender = &owner;
    }
    return {record.payload, record.size, record.type, record.position, *sender};
}

/// Where the batch's next job is, from `position` on: padding is passed over. Its end: there is none.
inline std::int64_t WorkerCore::next_in_batch(std::int64_t position) const noexcept {
    const Ring ring = hand_.source->ring;
    while (position < hand_.end) {
        const std::int32_t length = load_acquire(ring.length_at(position));  // pairs with publish 6
        const std::int32_t type = load_relaxed(ring.type_at(position));
        if (type != layout::TYPE_PADDING && type != layout::TYPE_OWNER) return position;
        if (hand_.copied && is_lapped(ring, position)) return hand_.end;
        if (length < static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH)) return position;  // begin_job says so
        position += ring.align(length);
    }
    return hand_.end;
}

/// The end of done 5: on to the batch's next job. The epoch was compared.
inline void WorkerCore::end_job() noexcept {
    Source& source = *hand_.source;
    hand_.begun = false;
    hand_.stayed = false;
    const std::int64_t next = FLYRING_LIKELY(hand_.job_end >= hand_.end) ? hand_.end : next_in_batch(hand_.job_end);
    if (FLYRING_LIKELY(next >= hand_.end)) {
        store_release(source.gate, layout::NOT_GATING);  // done 5: behind the handler; pairs with room 2b
        store_relaxed(busy_since_, std::int64_t{0});
        hand_.source = nullptr;
        store_relaxed(&thread_, static_cast<const void*>(nullptr));
    } else {
        hand_.position = next;
        if (hand_.attempts != hand_.first_attempts) {
            hand_.attempts = hand_.first_attempts;
            store_relaxed(attempts_beside(source.gate), hand_.attempts);  // the number was the last job's
        }
        store_release(source.gate, hand_.position);  // done 5; pairs with room 2b, adopt 2
    }
    made_room(source);
}

/// The job stays in hand, and is handed out again.
inline void WorkerCore::keep_job() noexcept {
    hand_.begun = false;
    hand_.stayed = true;
}

/// 8, for the job that was handed out. False: it stays in hand. Where the slot was lost nothing is in hand any more.
inline bool WorkerCore::release_job() {
    Released released = Released::no;
    try {
        released = returns_.release(state_->file.path, lock_.description(), record_, [this] { return lost(); });
    } catch (...) {
        keep_job();
        throw;
    }
    if (released == Released::no) {
        keep_job();
        return false;
    }
    if (released == Released::lost) {
        hand_.source = nullptr;
        return false;
    }
    if (jobs_.is_due()) jobs_.wake_one();  // as a publish does
    if (data_.is_due()) data_.wake(waiting_bit(returns_.ring()));
    end_job();
    return true;
}

/// Of a job of take: marks the worker as trying, so that nobody closes it meanwhile.
inline void WorkerCore::begin_end(Job& job) {
    if (use() == in_use) return;
    while (!exchange_use(job_open, trying)) {
        if (use() != closing && use() != job_open) job.throw_closed();
        sched_yield();  // who closes it is done soon
    }
}

inline void WorkerCore::finish(Job& job) {
    const std::uint32_t was = use();
    begin_end(job);
    job.core_ = nullptr;
    job_ = nullptr;
    acquire_fence();  // done 5, behind the handler's last look at the job; pairs with evict
    const bool good = usable();
    if (FLYRING_LIKELY(good)) {
        if (in_hand()) end_job();  // it has gone with a close
    } else {
        hand_.source = nullptr;
    }
    end_end(was);
    if (FLYRING_UNLIKELY(!good)) throw_unusable();
}

inline bool WorkerCore::give_up(Job& job) {
    const std::uint32_t was = use();
    begin_end(job);
    job.core_ = nullptr;
    job_ = nullptr;
    bool released = false;
    try {
        if (usable() && in_hand()) released = release_job();
    } catch (...) {
        end_end(was);
        throw;
    }
    const bool good = usable();
    if (!good) hand_.source = nullptr;
    end_end(was);
    if (!good) throw_unusable();
    return released;
}

/// Its handler threw, or its handle ends: what can be told is told by the worker's next verb.
inline void WorkerCore::drop(Job& job) noexcept {
    try {
        if (use() != in_use && use() != job_open) {
            job.core_ = nullptr;
            job_ = nullptr;
        } else {
            give_up(job);
        }
    } catch (const std::exception&) {
        // The job stays in hand, or is another's.
    }
}

inline std::optional<Job> WorkerCore::take(Nanoseconds timeout) {
    if (FLYRING_UNLIKELY(use() != idle || !usable() || timeout.count() < 0)) refuse(timeout);
    set_use(in_use);
    Wait wait(*this);
    const PassOn pass_on(*this);
    bool found = next_job(1);
    if (!found && timeout.count() != 0) {
        Turns turns(*this, timeout, spin_);
        while (!found && wait_for_job(wait, turns)) found = next_job(1);
    }
    if (!found) {
        idle_polls_.found_nothing(state_->file);
        return std::nullopt;
    }
    idle_polls_.found_something();
    wait.end(job_open);
    return std::optional<Job>(Job(*this, message_of(record_), record_.ring, record_.attempts));
}

/// 10: until there is something to take. False: the deadline has passed, or the worker drains.
inline bool WorkerCore::wait_for_job(Wait& wait, Turns& turns) {
    for (;;) {
        if (is_draining()) return false;
        wait.put_back();
        const bool again = turns.next([this] { return is_ready(); });
        wait.take(trying);
        if (!usable()) {
            wait.end(idle);
            throw_unusable();
        }
        const bool slept = turns.slept();
        const bool found = (again && is_ready()) || adopt_if_due(clock_ns(CLOCK_MONOTONIC));
        if (slept && (found || !again)) say_asleep();  // before it takes a job
        if (found) {
            set_use(in_use);
            return true;
        }
        check_replaced(state_->file);
        if (!again) return false;
    }
}

/// 5, at most once a millisecond.
inline bool WorkerCore::adopt_if_due(std::int64_t now) {
    if (in_hand() || is_draining() || now - adopted_at_ < layout::ADOPT_INTERVAL) return false;
    adopted_at_ = now;
    const std::optional<Batch> found = adopt(
        state_->file, lock_.description(), slot_, [this] { return lost(); },
        [this](std::uint32_t ring) { made_room(sources_[ring]); });
    if (!found) return false;
    set_hand(sources_[found->ring], found->position, found->end, found->attempts, true);
    store_relaxed(busy_since_, busy_time(now));
    return true;
}

/// From any thread: nothing more is taken.
inline void WorkerCore::drain() {
    store_relaxed(&draining_, 1U);
    state_->with_lock([this] {
        if (!open()) throw_unusable();
        wake_all(state_->file.jobs());  // its own wait among them
    });
}

inline bool WorkerCore::ended() {
    if (!usable()) throw_unusable();
    return queue_ended(state_->file);
}

/// 7: what is in hand is released; what cannot be stays for an adopter, whatever ends this worker.
inline void WorkerCore::give_back(bool owned) noexcept {
    if (!owned) return;
    // usable() is false by now.
    const auto gone = [&] { return load_relaxed(subscriber_slot(state_->file, slot_).epoch()) != epoch_; };
    try {
        while (in_hand()) {
            if (!hand_.begun && !prepare_job()) break;
            if (returns_.release(state_->file.path, lock_.description(), record_, gone) != Released::yes) return;
            if (jobs_.is_due()) jobs_.wake_one();
            if (data_.is_due()) data_.wake(waiting_bit(returns_.ring()));
            end_job();
        }
    } catch (const std::exception&) {
        // An adopter finds it.
    }
}

void WorkerCore::refuse(Nanoseconds timeout) {
    if (!open()) throw_unusable();
    if (use() == job_open) {
        throw ViewAlive("worker slot " + std::to_string(slot_) +
                        " has a job that is not finished; call done or release on it first");
    }
    if (use() != idle) throw_in_use();
    check_timeout(timeout);
    if (!usable()) throw_unusable();
    throw_in_use();  // the other thread is done by now
}

inline void WorkerCore::throw_unusable() {
    if (open()) lose_slot();
    throw Closed("worker slot " + std::to_string(slot_) + " of channel " + state_->file.path +
                 " is used after it was " + why_unusable_);
}

/// channel.md 5.4, but that its gates stay for the adopter (7).
void WorkerCore::lose_slot() {
    hand_.source = nullptr;
    state_->with_lock([this] {
        if (open()) release();
    });
    throw SlotLost("worker", slot_);
}

/// Take 1, of a record that is not good. True: another worker took it meanwhile, and the place was written again.
bool WorkerCore::refuse_record(Source& source, std::int64_t position, const char* reason) {
    acquire_fence();  // the loads of the record come before this one of gate[0]
    if (load_acquire(source.shared) != position) return true;
    if (!usable()) throw_unusable();
    source.corrupt = true;
    throw_corrupt(state_->file.path, source.ring, position, reason);
}

/// The rest of the batch in hand cannot be found: the file is hostile. Or the slot is lost, and the bytes are later ones.
void WorkerCore::drop_batch(Source& source, const char* reason) {
    acquire_fence();  // as done 5
    if (!usable()) throw_unusable();
    const std::int64_t position = hand_.position;
    hand_.job_end = hand_.end;
    end_job();
    source.corrupt = true;
    throw_corrupt(state_->file.path, source.ring, position, reason);
}

}  // namespace flyring::detail

namespace flyring {

inline Job::Job(detail::WorkerCore& core, const Message& message, std::uint32_t ring, std::int32_t attempts) noexcept
    : message_(message), core_(&core), ring_(ring), attempts_(attempts) {
    core.set_handle(*this);
}

inline Job::Job(Job&& other) noexcept
    : message_(other.message_), core_(std::exchange(other.core_, nullptr)), ring_(other.ring_),
      attempts_(other.attempts_) {
    if (core_ != nullptr) core_->set_handle(*this);
}

inline Job& Job::operator=(Job&& other) noexcept {
    if (this == &other) return *this;
    if (core_ != nullptr) drop();
    message_ = other.message_;
    core_ = std::exchange(other.core_, nullptr);
    ring_ = other.ring_;
    attempts_ = other.attempts_;
    if (core_ != nullptr) core_->set_handle(*this);
    return *this;
}

inline void Job::done() {
    if (core_ == nullptr) throw_closed();
    core_->finish(*this);
}

inline bool Job::release() {
    if (core_ == nullptr) throw_closed();
    return core_->give_up(*this);
}

inline Job::operator bool() const noexcept {
    return core_ != nullptr && core_->open();
}

void Job::drop() noexcept {
    core_->drop(*this);
}

}  // namespace flyring
