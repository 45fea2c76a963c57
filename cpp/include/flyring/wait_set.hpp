// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "flyring/client.hpp"
#include "flyring/detail/replaced.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/detail/wait_for.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/journal_reader.hpp"
#include "flyring/lossy_subscriber.hpp"
#include "flyring/publisher.hpp"
#include "flyring/server.hpp"
#include "flyring/subscriber.hpp"
#include "flyring/worker.hpp"

namespace flyring {

/// A set of objects of one or several channels and journals that one thread waits for (spec/channel.md 6.16). Each
/// member must stay alive, and at its address, until it is removed. Not thread-safe, except wake().
class WaitSet {
  public:
    using Member = std::variant<Subscriber*, LossySubscriber*, Publisher*, Worker*, Server*, Client*, JournalReader*,
                                JournalConsumer*>;

    WaitSet() = default;
    WaitSet(const WaitSet&) = delete;
    WaitSet& operator=(const WaitSet&) = delete;
    ~WaitSet() = default;

    /// Ready when a message may be there. Throws InvalidArgument if the member is in the set already.
    void add(Subscriber& subscriber) { add(&subscriber, *subscriber.core_); }
    void add(LossySubscriber& subscriber) { add(&subscriber, *subscriber.core_); }
    /// Ready when there is room for the message that found no room last.
    void add(Publisher& publisher) { add(&publisher, *publisher.core_); }
    /// Ready when a job may be there; another worker may take it first.
    void add(Worker& worker) { add(&worker, *worker.core_); }
    /// Ready when a request may be there, or when its poll has other work to do.
    void add(Server& server) { add(&server, *server.core_); }
    /// Ready when a reply may be there, a call's time-out has passed, or the server is gone.
    void add(Client& client) { add(&client, *client.core_); }
    void add(JournalReader& reader) { add(&reader, *reader.core_); }
    void add(JournalConsumer& consumer) { add(&consumer, *consumer.core_); }

    /// Removes a member. Throws InvalidArgument if it is not in the set.
    void remove(Subscriber& subscriber) { remove(*subscriber.core_); }
    void remove(LossySubscriber& subscriber) { remove(*subscriber.core_); }
    void remove(Publisher& publisher) { remove(*publisher.core_); }
    void remove(Worker& worker) { remove(*worker.core_); }
    void remove(Server& server) { remove(*server.core_); }
    void remove(Client& client) { remove(*client.core_); }
    void remove(JournalReader& reader) { remove(*reader.core_); }
    void remove(JournalConsumer& consumer) { remove(*consumer.core_); }

    std::size_t size() const noexcept { return entries_.size(); }

    /// Waits until a member is ready, wake() is called, or the time-out passes. Returns the ready members in the order
    /// in which they were added; none after wake() or the time-out. The result is valid until the next call. A member
    /// also counts as ready if it was closed, has lost its slot, or its channel was replaced: its next verb throws the
    /// error. A ready member may still have no message. Throws InvalidArgument (a time-out below 0), TwoThreads.
    const std::vector<Member>& wait(std::chrono::nanoseconds timeout = forever);

    /// Ends the current wait, or the next one. May be called by any thread.
    void wake() noexcept {
        wakes_.fetch_add(1, std::memory_order_release);
        (void)::syscall(SYS_futex, &wakes_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }

    /// Whether the set takes naps of at most a millisecond instead of sleeping until a peer wakes it. It does so if the
    /// kernel has no futex_waitv (Linux 5.16; a sandbox may also forbid it). It also does so if the set has more than
    /// 127 pairs of words to sleep on, one for each channel and direction.
    bool naps() const noexcept { return !has_waitv_ || pairs_.size() > most_pairs; }

    /// Sets how long a wait spins before it sleeps; 20 microseconds by default. With 0 it sleeps at once. Throws
    /// InvalidArgument for a time below 0.
    void set_spin(std::chrono::nanoseconds time) { spin_ = detail::checked_spin(time); }

  private:
    struct Entry {
        Member object;
        detail::Member* member;              // of a channel; or null, and
        detail::JournalReaderCore* journal;  // of a journal

        bool is(const void* core) const noexcept { return core == member || core == journal; }
        detail::WaitingWords words() const noexcept {
            return journal != nullptr ? journal->state().file.data() : member->words();
        }
        std::uint32_t mask() const noexcept { return journal != nullptr ? detail::waiting_bit(0) : member->mask(); }
        bool is_ready() const noexcept { return journal != nullptr ? journal->is_ready_in_set() : member->is_ready(); }
        std::int64_t cap(std::int64_t waited) const noexcept {
            return journal != nullptr ? journal->cap() : member->cap(waited);
        }
        bool read_only() const noexcept {
            return journal != nullptr ? journal->state().file.read_only : member->state().file.read_only;
        }
        std::int32_t successor() const noexcept {
            return detail::load_relaxed(journal != nullptr ? journal->state().file.successor()
                                                           : member->state().file.successor());
        }
    };
    /// The words that all members of one channel and direction, or of one journal, sleep on.
    struct Pair {
        detail::WaitingWords words;
        std::uint32_t mask;
        Entry one;                   // any one of these members
        std::int32_t successor = 0;  // the channel's successor word when the set looked last
    };
    /// The kernel's struct futex_waitv.
    struct Waiter {
        std::uint64_t value;
        std::uint64_t address;
        std::uint32_t flags;
        std::uint32_t reserved;
    };
    static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

    static constexpr std::size_t most_pairs = 127;
    static constexpr long futex_waitv = 449;  // not in older headers
    static constexpr std::uint32_t is_u32 = 2;
    static constexpr std::uint32_t is_private = 128;

    void add(Member object, detail::Member& member) { add({object, &member, nullptr}, &member); }
    void add(Member object, detail::JournalReaderCore& core) { add({object, nullptr, &core}, &core); }
    void add(const Entry& entry, const void* core) {
        if (find(core) != entries_.end()) throw InvalidArgument("member", "it is in the wait set already");
        entries_.push_back(entry);
        pair_up();
    }
    void remove(const detail::Member& member) { remove_core(&member); }
    void remove(const detail::JournalReaderCore& core) { remove_core(&core); }
    void remove_core(const void* core) {
        const auto found = find(core);
        if (found == entries_.end()) throw InvalidArgument("member", "it is not in the wait set");
        entries_.erase(found);
        pair_up();
    }
    std::vector<Entry>::iterator find(const void* core) noexcept {
        return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.is(core); });
    }
    inline void pair_up();

    bool is_woken() const noexcept { return wakes_.load(std::memory_order_acquire) != seen_; }
    bool is_anything() const noexcept {
        const auto ready = [](const Entry& entry) { return entry.is_ready(); };
        const auto replaced = [](const Pair& pair) { return pair.one.successor() != pair.successor; };
        return is_woken() || std::any_of(entries_.begin(), entries_.end(), ready) ||
               std::any_of(pairs_.begin(), pairs_.end(), replaced);
    }
    inline void sleep(std::int64_t start, std::int64_t deadline);
    inline void nap(std::int64_t deadline);
    static std::uint64_t address_of(const void* word) noexcept { return reinterpret_cast<std::uint64_t>(word); }
    inline void look_after();
    inline void pass_on() noexcept;
    static bool knows_waitv() noexcept {
        // A kernel that has the call refuses an empty list of waiters with EINVAL.
        return ::syscall(futex_waitv, nullptr, 0U, 0U, nullptr, CLOCK_MONOTONIC) == -1 && errno == EINVAL;
    }

    std::vector<Entry> entries_;
    std::vector<Pair> pairs_;
    std::vector<Waiter> waiters_;  // one for wakes_, then one for each pair
    std::vector<Member> ready_;
    std::atomic<std::uint32_t> wakes_{0};
    std::uint32_t seen_ = 0;  // value of wakes_ that was seen last
    std::atomic<bool> in_use_{false};
    bool has_waitv_ = knows_waitv();
    std::chrono::nanoseconds spin_ = detail::default_spin;
};

inline const std::vector<WaitSet::Member>& WaitSet::wait(std::chrono::nanoseconds timeout) {
    detail::check_timeout(timeout);
    if (in_use_.exchange(true)) throw TwoThreads("a wait set");
    struct Guard {
        std::atomic<bool>& in_use;
        ~Guard() { in_use = false; }
    } const guard{in_use_};

    const std::int64_t start = detail::clock_ns(CLOCK_MONOTONIC);
    const std::int64_t deadline = detail::later(start, timeout.count());
    ready_.clear();
    const std::int64_t spin_end = std::min(deadline, detail::later(start, spin_.count()));
    struct PassOn {  // this wait may have used up a wake that was meant for one worker
        WaitSet& set;
        bool slept = false;
        ~PassOn() {
            if (slept) set.pass_on();
        }
    } pass_on{*this};
    for (bool first = true;; first = false) {
        for (const Entry& entry : entries_) {
            if (entry.is_ready()) ready_.push_back(entry.object);
        }
        if (ready_.empty() && !first) look_after();
        if (!ready_.empty()) return ready_;
        const std::int64_t now = detail::clock_ns(CLOCK_MONOTONIC);
        if (is_woken() || now >= deadline) break;
        if (now < spin_end) {
            const std::int64_t end = std::min(spin_end, detail::later(now, detail::spin_turn));
            if (detail::spin_until(end, false, 0, [this] { return is_anything(); }) || end < spin_end) continue;
        }
        pass_on.slept = true;
        naps() ? nap(deadline) : sleep(start, deadline);
    }
    seen_ = wakes_.load(std::memory_order_acquire);
    return ready_;
}

/// Collects the pairs of words to sleep on, one for each channel and direction.
void WaitSet::pair_up() {
    pairs_.clear();
    for (const Entry& entry : entries_) {
        const detail::WaitingWords words = entry.words();
        const auto pair = std::find_if(pairs_.begin(), pairs_.end(),
                                       [&](const Pair& one) { return one.words.sequence == words.sequence; });
        if (pair == pairs_.end()) {
            pairs_.push_back({words, entry.mask(), entry});
        } else {
            pair->mask |= entry.mask();
        }
    }
    waiters_.reserve(pairs_.size() + 1);
    ready_.reserve(entries_.size());
}

/// One round of sleep for all pairs (spec/channel.md 6.16, sleep 1 to 6).
void WaitSet::sleep(std::int64_t start, std::int64_t deadline) {
    waiters_.clear();
    waiters_.push_back({wakes_.load(std::memory_order_acquire), address_of(&wakes_), is_u32 | is_private, 0});
    for (const Pair& pair : pairs_) {
        waiters_.push_back({detail::load_acquire(pair.words.sequence),  // sleep 1; pairs with wake 2
                            address_of(pair.words.sequence), is_u32, 0});
    }
    bool reached = true;  // every waker sees the bits or answers the membarrier
    for (const Pair& pair : pairs_) {
        const bool writable = !pair.one.read_only();
        if (writable) __atomic_fetch_or(pair.words.asleep, pair.mask, __ATOMIC_RELAXED);  // sleep 2
        reached = reached && writable;
    }
    if (!pairs_.empty()) reached = detail::reach_wakers() && reached;  // sleep 3
    if (is_anything()) return;                                         // sleep 4
    const std::int64_t now = detail::clock_ns(CLOCK_MONOTONIC);
    std::int64_t cap = reached ? deadline : detail::short_cap;
    for (const Entry& entry : entries_) cap = std::min(cap, entry.cap(now - start));  // sleep 5
    const timespec until = detail::time_of(std::min(deadline, detail::later(now, cap)));
    const auto count = static_cast<unsigned>(waiters_.size());
    if (::syscall(futex_waitv, waiters_.data(), count, 0U, &until, CLOCK_MONOTONIC) >= 0) return;  // sleep 6
    if (errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) has_waitv_ = false;  // a sandbox came meanwhile
}

/// Sleeps for at most a millisecond, where the set cannot sleep on all words. wake() ends this sleep, too.
void WaitSet::nap(std::int64_t deadline) {
    const std::uint32_t woken = wakes_.load(std::memory_order_acquire);
    if (is_anything()) return;
    const std::int64_t end = detail::later(detail::clock_ns(CLOCK_MONOTONIC), detail::short_cap);
    const timespec until = detail::time_of(entries_.empty() ? deadline : std::min(deadline, end));
    (void)::syscall(SYS_futex, &wakes_, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, woken, &until, nullptr,
                    detail::all_rings);
}

/// Wakes one more worker of each queue in the set, if a job is there (spec/queue.md 10).
void WaitSet::pass_on() noexcept {
    for (const Entry& entry : entries_) {
        if (!std::holds_alternative<Worker*>(entry.object) || !entry.member->begin_to_try()) continue;
        entry.member->pass_on();
        entry.member->end_of_try();
    }
}

/// Lets each member do the work of a wait's cap, and adds the members that have something to report to the ready ones.
void WaitSet::look_after() {
    for (Pair& pair : pairs_) pair.successor = pair.one.successor();
    for (const Entry& entry : entries_) {
        if (entry.journal != nullptr) {
            if (entry.journal->look_in_set()) ready_.push_back(entry.object);
            continue;
        }
        detail::Member& member = *entry.member;
        if (!member.begin_to_try()) continue;  // another thread closes it now
        struct End {
            detail::Member& member;
            ~End() { member.end_of_try(); }
        } const end{member};
        if (!member.usable() || member.look_after()) ready_.push_back(entry.object);
    }
}

}  // namespace flyring
