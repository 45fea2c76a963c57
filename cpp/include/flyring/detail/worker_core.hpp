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
#include "flyring/detail/hand.hpp"
#include "flyring/detail/job_source.hpp"
#include "flyring/detail/readers.hpp"
#include "flyring/detail/release.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/sender.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/wait_for.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/detail/worker_wakers.hpp"
#include "flyring/errors.hpp"
#include "flyring/job.hpp"
#include "flyring/message.hpp"

namespace flyring::detail {

template <typename Handler>
inline constexpr bool job_returns_action = std::is_same_v<std::decay_t<std::invoke_result_t<Handler&, Job&>>, Action>;

/// Takes jobs from a queue: the steps of spec/queue.md 3 to 8, in their order. A Worker owns it.
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

    /// Polls, and waits for the first job until the time-out.
    template <typename Handler>
    int poll(Handler& handler, int limit, Nanoseconds timeout) {
        if (FLYRING_UNLIKELY(use() != idle || !usable() || timeout.count() < 0)) refuse(timeout);
        set_use(in_use);
        Wait wait(*this);
        const PassOn pass_on(*this);
        const int done = hand_out(handler, limit);
        if (FLYRING_LIKELY(done != 0) || over_ || limit <= 0 || timeout.count() == 0) return done;
        return poll_waiting(handler, limit, timeout, wait);
    }
    std::optional<Job> take(Nanoseconds timeout);

    // Operations on the job in hand, whose handle is `job`: in a handler, or after take.
    inline void finish(Job& job);
    inline bool give_up(Job& job);
    inline void drop(Job& job) noexcept;
    /// Makes `job` the handle of the job in hand.
    void set_handle(Job& job) noexcept { job_ = &job; }

    void drain();
    bool ended();
    void set_spin(Nanoseconds time) { spin_ = checked_spin(time); }

    inline void give_back(bool owned) noexcept override;
    [[noreturn, gnu::cold]] inline void throw_unusable() override;
    [[noreturn, gnu::cold]] void throw_in_use() override { throw TwoThreads("worker slot " + std::to_string(slot_)); }
    void check_idle() const {
        if (use() == in_use) {
            throw ViewAlive("worker slot " + std::to_string(slot_) +
                            " is at work, in its handler or in another thread; close it after the poll");
        }
    }

    // Waiting (spec/queue.md 10).
    WaitingWords words() const noexcept override { return state_->file.jobs(); }
    std::uint32_t mask() const noexcept override { return layout::JOBS_BIT; }
    bool is_ready() const noexcept override { return !usable() || is_draining() || in_hand() || is_job_there(); }
    std::int64_t cap(std::int64_t) const noexcept override {
        return publishers_wake(state_->file, all_rings_) && workers_wake(state_->file, slot_) ? data_cap : short_cap;
    }
    bool look_after() override {
        const bool replaced = is_replaced(state_->file);
        if (replaced) idle_polls_.look_next();  // the next verb throws it
        return replaced || is_ready() || adopt_if_due(clock_ns(CLOCK_MONOTONIC));
    }
    void pass_on() noexcept override {
        say_asleep();
        if (wakers_.owes()) wake_one_more();
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
    static const void* this_thread() noexcept {
        static thread_local const char here = 0;
        return &here;
    }

    bool in_hand() const noexcept { return !hand_.empty(); }
    bool is_draining() const noexcept { return load_relaxed(&draining_) != 0; }
    bool is_job_there() const noexcept {
        return std::any_of(sources_.begin(), sources_.end(), [](const JobSource& source) { return source.is_ready(); });
    }

    // Poll.

    /// Hands out up to `limit` jobs and returns how many were consumed. Sets `over_` if the poll ends even though more
    /// jobs are there.
    template <typename Handler>
    [[gnu::noinline, gnu::hot]] int hand_out(Handler& handler, int limit) {
        over_ = false;
        int done = 0;
        Job job;
        try {
            for (int handed = 0; handed < limit && !over_ && has_batch(limit - handed);) {
                if (FLYRING_LIKELY(hand_.is_plain())) {
                    hand_out_plain(handler, job, limit, handed, done);
                } else {
                    hand_out_one(handler, job, handed, done);
                }
            }
        } catch (...) {
            end_throwing(job);
            throw;
        }
        job_ = nullptr;
        if (FLYRING_LIKELY(done != 0)) {
            idle_polls_.found_something();
        } else if (!over_) {
            idle_polls_.found_nothing(state_->file);
        }
        return done;
    }

    /// Hands out jobs of a plain batch in their order: the hot path of take 4 and done 5.
    template <typename Handler>
    [[gnu::always_inline]] inline void hand_out_plain(Handler& handler, Job& job, int limit, int& handed, int& done) {
        const Ring ring = hand_.source->ring;
        std::int64_t* const gate = hand_.source->gate;
        store_relaxed(&thread_, this_thread());
        const Sender& sender = senders_.of(state_->file, ring, hand_.position);  // a batch contains no owner record
        const std::int64_t end = hand_.end;
        std::int64_t position = hand_.position;
        std::int64_t stride = ring.alignment();  // size of the last job
        job.ring_ = ring.index;
        job.attempts_ = 0;
        do {
            if (FLYRING_UNLIKELY(!usable())) throw_unusable();  // take 4; pairs with evict
            const std::int32_t length = load_relaxed(ring.length_at(position));
            const std::int32_t type = load_relaxed(ring.type_at(position));
            const std::int64_t next = next_record(position, ring.align(length), stride);
            if (FLYRING_UNLIKELY(length < header_length || type <= 0 || next > end)) {
                drop_batch("the record of a job in hand was overwritten with something that is no job");
            }
            hand_.job_end = next;
            job.message_ = Message(ring.payload_at(position), static_cast<std::size_t>(length) - header_length, type,
                                   position, sender);
            job.core_ = this;
            job_ = &job;
            const Action action = call(handler, job);
            ++handed;
            if (FLYRING_UNLIKELY(job.core_ == nullptr || action != Action::CONTINUE)) {
                return settle(action, done);
            }
            job.core_ = nullptr;
            acquire_fence();  // done 5, after the handler's last look at the job; pairs with evict
            if (FLYRING_UNLIKELY(!usable())) throw_unusable();
            ++done;
            position = next;
            if (position >= end) return end_batch();
            hand_.position = position;
            store_release(gate, position);  // done 5; pairs with room 2b, adopt 2
            wakers_.made_room(ring.index);
        } while (handed < limit);
    }

    /// Hands out the next job of any kind of batch.
    template <typename Handler>
    [[gnu::cold, gnu::noinline]] void hand_out_one(Handler& handler, Job& job, int& handed, int& done) {
        JobRecord record;
        if (!prepare_job(record)) return;
        handle(job, record);
        const Action action = call(handler, job);
        ++handed;
        settle(action, done);
    }

    template <typename Handler>
    static Action call(Handler& handler, Job& job) {
        if constexpr (job_returns_action<Handler>) {
            return handler(job);
        } else {
            handler(job);
            return Action::CONTINUE;
        }
    }
    [[gnu::noinline]] inline void settle(Action action, int& done);
    [[gnu::cold, gnu::noinline]] inline void end_throwing(Job& job) noexcept;

    template <typename Handler>
    [[gnu::cold, gnu::noinline]] int poll_waiting(Handler& handler, int limit, Nanoseconds timeout, Wait& wait) {
        Turns turns(*this, timeout, spin_);
        int done = 0;
        while (done == 0 && !over_ && wait_for_job(wait, turns)) done = hand_out(handler, limit);
        return done;
    }

    // Take.

    /// Whether a job is in hand, after taking up to `limit` jobs if none was.
    [[gnu::always_inline]] inline bool has_batch(int limit) {
        if (!in_hand() && (is_draining() || !take_jobs(limit))) return false;
        if (FLYRING_UNLIKELY(wakers_.owes())) wake_one_more();
        return true;
    }
    inline bool take_jobs(int limit);
    bool next_job(JobRecord& record) {
        while (has_batch(1)) {
            if (prepare_job(record)) return true;
        }
        return false;
    }
    bool prepare_job(JobRecord& record);
    void handle(Job& job, const JobRecord& record);
    JobRecord record_of(const Job& job) const noexcept {
        const Message& message = job.message_;
        return {message.data(), message.size(), message.type(), job.attempts_, job.ring_, message.position()};
    }
    void end_job() noexcept;
    void end_batch() noexcept;
    bool release_job(const JobRecord& record);
    [[gnu::cold]] bool adopt_if_due(std::int64_t now);
    bool lost() const noexcept { return !usable(); }

    /// Begins the done or release of a job of take: the worker cannot be closed meanwhile. In a handler the worker is
    /// in use anyway.
    void begin_end(Job& job);
    void end_end(std::uint32_t was) noexcept {
        if (was != in_use) set_use(idle);
    }

    [[noreturn, gnu::noinline, gnu::cold]] inline void refuse(Nanoseconds timeout);
    [[noreturn, gnu::noinline, gnu::cold]] inline void throw_bad(JobSource& source, std::int64_t position,
                                                                 const char* reason);
    [[noreturn, gnu::noinline, gnu::cold]] inline void drop_batch(const char* reason);
    [[noreturn, gnu::noinline, gnu::cold]] inline void lose_slot();
    void take_slot(const std::string& name);

    // Waiting.

    bool wait_for_job(Wait& wait, Turns& turns);
    void say_asleep() noexcept {
        if (open()) wakers_.say_asleep(words());
    }
    [[gnu::cold, gnu::noinline]] void wake_one_more() noexcept {
        wakers_.wake_one_more([this] { return open() && is_job_there(); });
    }
    /// At the end of a verb, however it ends: pays the wake that this worker owes (10).
    struct PassOn {
        WorkerCore& core;
        explicit PassOn(WorkerCore& of) noexcept : core(of) {}
        PassOn(const PassOn&) = delete;
        PassOn& operator=(const PassOn&) = delete;
        ~PassOn() {
            if (FLYRING_UNLIKELY(core.wakers_.owes())) core.wake_one_more();
        }
    };

    /// A cheap clock for `busy_since` and for the interval of adopt, where some milliseconds do not matter.
    static std::int64_t coarse_now() noexcept { return clock_ns(CLOCK_MONOTONIC_COARSE); }
    std::int64_t busy_time(std::int64_t now) const noexcept {
        return state_->file.environment.monotonic.value_or(std::max<std::int64_t>(now - clock_offset_, 1));
    }

    static constexpr auto header_length = static_cast<std::int32_t>(layout::RECORD_HEADER_LENGTH);

    Hand hand_;
    Job* job_ = nullptr;  // the handle of the unfinished job in hand; null: none
    std::size_t next_source_ = 0;
    std::vector<JobSource> sources_;
    WorkerWakers wakers_;
    std::int64_t* busy_since_ = nullptr;
    std::int64_t adopted_at_ = 0;  // time of the last look for jobs to adopt
    std::int64_t clock_offset_ = 0;
    const void* thread_ = nullptr;  // the thread that works on the jobs in hand; null: none
    std::uint32_t draining_ = 0;
    bool over_ = false;  // the poll ends
    IdlePolls idle_polls_;
    JobSenders senders_;
    JobRecord taken_;  // the job of take
    Returns returns_;
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
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the death of an owner wakes no waiter
    }
}

/// Takes a worker's slot (6): channel.md 5.3 without the join, and inherits the last owner's job.
inline void WorkerCore::take_slot(const std::string& name) {
    const ChannelFile& file = state_->file;
    const std::uint32_t rings = file.header.publishers;
    std::uint32_t taken = 0;
    std::int64_t epoch = 0;
    std::optional<Batch> found;
    clock_offset_ = monotonic_offset();
    wakers_ = WorkerWakers(file);  // before the locks: the kernel may take some milliseconds
    // All allocations come before the first store, so that a failure leaves the file unchanged.
    sources_.reserve(rings);
    senders_.reserve(rings);
    all_rings_.resize(rings);
    for (std::uint32_t ring = 0; ring < rings; ++ring) all_rings_[ring] = ring;
    hand_.reserve(file.header.capacity / layout::MAX_MESSAGE_DIVISOR);
    returns_ = Returns(file);
    SlotLock lock = detail::take_slot(file, worker_slots(file), name, [&](std::uint32_t slot) {
        const SlotWords words = subscriber_slot(file, slot);
        epoch =
            words.take(name, file.environment, file.wakes, [&] { store_relaxed(words.busy_since(), std::int64_t{0}); });
        found = inherit(file, slot);
        if (found) store_relaxed(words.busy_since(), busy_time(coarse_now()));
        if (load_acquire(words.evicting()) != 0) store_release(words.evicting(), 0);
        wake_all(file.room());
        wake_all(file.jobs());
        taken = slot;
    });
    for (std::uint32_t ring = 0; ring < rings; ++ring) {
        const Ring writable = file.ring(ring);
        sources_.emplace_back(file.readable_ring(ring), writable.gate(0), writable.gate(taken), ring + 1 == rings);
        file.readable.prefault(sources_.back().ring.data, sources_.back().ring.capacity());
    }
    busy_since_ = subscriber_slot(file, taken).busy_since();
    set_owner(std::move(lock), taken, subscriber_slot(file, taken).epoch(), epoch);
    if (found) hand_.hold(sources_[found->ring], *found);
}

/// Takes up to `limit` jobs from the rings in turn (3), or adopts if that is due (5). False: there is no job.
inline bool WorkerCore::take_jobs(int limit) {
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();
    const std::int64_t now = coarse_now();
    if (FLYRING_UNLIKELY(now - adopted_at_ >= layout::ADOPT_INTERVAL) && adopt_if_due(now)) return true;
    const std::size_t rings = sources_.size();
    std::size_t at = next_source_;
    for (std::size_t visited = 0; visited < rings; ++visited) {
        JobSource& source = sources_[at];
        at = at + 1 < rings ? at + 1 : 0;
        if (FLYRING_UNLIKELY(source.corrupt)) continue;
        std::int64_t position = 0;
        std::int64_t end = 0;
        const char* reason = nullptr;
        const Found found = source.take(limit, position, end, reason, [&] { wakers_.made_room(source.ring.index); });
        if (found == Found::nothing) continue;
        if (FLYRING_UNLIKELY(found == Found::bad)) throw_bad(source, position, reason);
        next_source_ = at;
        hand_.hold(source, position, end);
        store_relaxed(&thread_, this_thread());
        store_relaxed(busy_since_, busy_time(now));
        return true;
    }
    return false;
}

/// Finds the next job in hand, to be handed out, as `record`. False: the batch has no more jobs.
inline bool WorkerCore::prepare_job(JobRecord& record) {
    if (FLYRING_UNLIKELY(!usable())) throw_unusable();  // take 4; pairs with evict
    store_relaxed(&thread_, this_thread());
    const Prepared prepared = hand_.prepare(record);
    if (FLYRING_UNLIKELY(prepared == Prepared::bad)) drop_batch(hand_.reason);
    if (FLYRING_LIKELY(prepared == Prepared::job)) return true;
    end_job();
    return false;
}

/// Makes `job` the handle of the job in hand, which is `record`.
inline void WorkerCore::handle(Job& job, const JobRecord& record) {
    const Sender& sender = hand_.source->returns ? senders_.unknown(record.ring)
                                                 : senders_.of(state_->file, hand_.source->ring, record.position);
    job.message_ = Message(record.payload, record.size, record.type, record.position, sender);
    job.ring_ = record.ring;
    job.attempts_ = record.attempts;
    job.core_ = this;
    job_ = &job;
}

/// Settles a job after its handler has returned: done or released, as the action and the handler's own calls say.
void WorkerCore::settle(Action action, int& done) {
    const bool known = action >= Action::CONTINUE && action <= Action::ABORT;
    over_ = ends_poll(action);
    if (job_ == nullptr) {              // the handler has finished the job itself
        if (!open()) throw_unusable();  // a forked child
        ++done;
    } else if (action == Action::ABORT) {
        give_up(*job_);
    } else {
        finish(*job_);
        ++done;
    }
    if (hand_.stayed) over_ = true;  // the same job would come again at once
    if (!known) checked(action);     // throws
}

/// The end of done 5: goes on to the batch's next job. The caller has compared the epoch.
inline void WorkerCore::end_job() noexcept {
    const std::uint32_t ring = hand_.source->ring.index;
    if (!hand_.go_on()) {
        store_relaxed(busy_since_, std::int64_t{0});
        store_relaxed(&thread_, static_cast<const void*>(nullptr));
    }
    wakers_.made_room(ring);
}

/// The end of done 5 after the batch's last job.
inline void WorkerCore::end_batch() noexcept {
    const JobSource& source = *hand_.source;
    store_release(source.gate, layout::NOT_GATING);  // done 5: after the handler; pairs with room 2b
    store_relaxed(busy_since_, std::int64_t{0});
    hand_.drop();
    store_relaxed(&thread_, static_cast<const void*>(nullptr));
    wakers_.made_room(source.ring.index);
}

/// Releases a job (8). False: the job stays in hand and is handed out again; or the slot is lost, and then no job is in
/// hand any more.
inline bool WorkerCore::release_job(const JobRecord& record) {
    hand_.stayed = true;
    const Released released =
        returns_.release(state_->file.path, lock_.description(), record, [this] { return lost(); });
    if (released == Released::no) return false;
    if (released == Released::lost) {
        hand_.drop();
        return false;
    }
    wakers_.released(returns_.ring());
    end_job();
    return true;
}

/// For a job of take: marks the worker as trying, so that no thread closes it meanwhile.
inline void WorkerCore::begin_end(Job& job) {
    if (use() == in_use) return;
    while (!exchange_use(job_open, trying)) {
        if (use() != closing && use() != job_open) job.throw_closed();
        sched_yield();  // a close by another thread ends soon
    }
}

/// Finishes a job (3, done).
inline void WorkerCore::finish(Job& job) {
    const std::uint32_t was = use();
    begin_end(job);
    job.core_ = nullptr;
    job_ = nullptr;
    acquire_fence();  // done 5, after the handler's last look at the job; pairs with evict
    const bool good = usable();
    if (FLYRING_LIKELY(good)) {
        if (in_hand()) end_job();  // not in hand: a close has released it
    } else {
        hand_.drop();
    }
    end_end(was);
    if (FLYRING_UNLIKELY(!good)) throw_unusable();
}

/// Releases a job by its handle (8). Returns whether it was released.
inline bool WorkerCore::give_up(Job& job) {
    const std::uint32_t was = use();
    begin_end(job);
    job.core_ = nullptr;
    job_ = nullptr;
    bool released = false;
    try {
        if (usable() && in_hand()) released = release_job(record_of(job));
    } catch (...) {
        end_end(was);
        throw;
    }
    const bool good = usable();
    if (!good) hand_.drop();
    end_end(was);
    if (!good) throw_unusable();
    return released;
}

/// Releases a job whose handler threw, or whose handle is destroyed. Errors are reported by the worker's next verb.
inline void WorkerCore::drop(Job& job) noexcept {
    try {
        give_up(job);
    } catch (const std::exception&) {
        // The job stays in hand, or belongs to another worker.
        job.core_ = nullptr;
        if (job_ == &job) job_ = nullptr;
    }
}

/// Ends a poll whose handler threw, or that lost the slot.
void WorkerCore::end_throwing(Job& job) noexcept {
    if (job_ != nullptr && job_->core_ != nullptr) drop(*job_);
    job.core_ = nullptr;
    job_ = nullptr;
}

inline std::optional<Job> WorkerCore::take(Nanoseconds timeout) {
    if (FLYRING_UNLIKELY(use() != idle || !usable() || timeout.count() < 0)) refuse(timeout);
    set_use(in_use);
    Wait wait(*this);
    const PassOn pass_on(*this);
    bool found = next_job(taken_);
    if (FLYRING_UNLIKELY(!found) && timeout.count() != 0) {
        Turns turns(*this, timeout, spin_);
        while (!found && wait_for_job(wait, turns)) found = next_job(taken_);
    }
    std::optional<Job> job;
    if (FLYRING_UNLIKELY(!found)) {
        idle_polls_.found_nothing(state_->file);
        return job;
    }
    idle_polls_.found_something();
    job = Job();
    handle(*job, taken_);
    wait.end(job_open);  // last: from here on another thread may close the worker
    return job;
}

/// Waits until there is something to take (10). False: the deadline has passed, or the worker drains.
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

/// Adopts jobs of dead or evicted workers (5), at most once a millisecond. Returns whether there were some.
inline bool WorkerCore::adopt_if_due(std::int64_t now) {
    if (in_hand() || is_draining() || now - adopted_at_ < layout::ADOPT_INTERVAL) return false;
    adopted_at_ = now;
    const std::optional<Batch> found = adopt(
        state_->file, lock_.description(), slot_, [this] { return lost(); },
        [this](std::uint32_t ring) { wakers_.made_room(ring); });
    if (!found) return false;
    hand_.hold(sources_[found->ring], *found);
    store_relaxed(&thread_, this_thread());
    store_relaxed(busy_since_, busy_time(now));
    return true;
}

/// Stops taking jobs (7, drain). Any thread may call it.
inline void WorkerCore::drain() {
    store_relaxed(&draining_, 1U);
    state_->with_lock([this] {
        if (!open()) throw_unusable();
        wake_all(state_->file.jobs());  // among them this worker's own wait
    });
}

inline bool WorkerCore::ended() {
    if (!usable()) throw_unusable();
    return queue_ended(state_->file);
}

/// Releases the jobs in hand (7). A job that cannot be released stays at the gate for an adopter.
inline void WorkerCore::give_back(bool owned) noexcept {
    if (!owned) return;
    // Compares the epoch itself, because usable() is false by now.
    const auto gone = [&] { return load_relaxed(subscriber_slot(state_->file, slot_).epoch()) != epoch_; };
    hand_.stayed = false;  // it is not handed out again by this worker
    try {
        // The job of take is released from its record, without find: find would overwrite the copy of an adopted job,
        // which another thread may still read.
        bool first = use() == job_open || was_job_open();
        while (in_hand()) {
            if (!first && hand_.find(taken_) != Prepared::job) return;
            first = false;
            if (returns_.release(state_->file.path, lock_.description(), taken_, gone) != Released::yes) return;
            wakers_.released(returns_.ring());
            end_job();
        }
    } catch (const std::exception&) {
        // The job stays at the gate for an adopter.
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
    throw_in_use();  // another thread used the worker just now
}

inline void WorkerCore::throw_unusable() {
    if (open()) lose_slot();
    throw Closed("worker slot " + std::to_string(slot_) + " of channel " + state_->file.path +
                 " is used after it was " + why_unusable_);
}

/// Gives up the lost slot (channel.md 5.4), but leaves its gates for the adopter (7). Throws SlotLost.
void WorkerCore::lose_slot() {
    hand_.drop();
    state_->with_lock([this] {
        if (open()) release();
    });
    throw SlotLost("worker", slot_);
}

/// Marks a ring with an invalid record as corrupt, and throws CorruptRing (take 1).
void WorkerCore::throw_bad(JobSource& source, std::int64_t position, const char* reason) {
    if (!usable()) throw_unusable();
    source.corrupt = true;
    throw_corrupt(state_->file.path, source.ring, position, reason);
}

/// Drops the batch in hand, because its next job cannot be found: the file is hostile (throws CorruptRing), or the slot
/// is lost and the bytes are of a later lap (throws SlotLost).
void WorkerCore::drop_batch(const char* reason) {
    acquire_fence();  // as done 5
    if (!usable()) throw_unusable();
    JobSource& source = *hand_.source;
    const std::int64_t position = hand_.position;
    end_batch();
    throw_bad(source, position, reason);
}

}  // namespace flyring::detail

namespace flyring {

inline Job::Job(Job&& other) noexcept
    : message_(other.message_),
      core_(std::exchange(other.core_, nullptr)),
      ring_(other.ring_),
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
