// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flyring/detail/file.hpp"
#include "flyring/detail/fork.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"

namespace flyring::detail {

/// The operands of usable() for an object that must not be used any more: the epoch word is this 0, the expected epoch
/// is -1.
inline constexpr std::int64_t no_epoch = 0;
inline constexpr std::int64_t unusable = -1;

class ChannelState;

/// The common base of every object made from a channel: a slot with its lock and epoch, and a word that tells how the
/// object is in use. A lossy subscriber has no slot: its lock is empty, and its epoch never changes.
///
/// A derived class declares each virtual function `inline`. Otherwise the compiler takes that function for the class's
/// key function, and compiles all of the class in every program that includes it.
class Member {
  public:
    enum Use : std::uint32_t {
        idle = 0,
        in_use = 1,
        claim_open = 2,
        waiting = 3,   // spins or sleeps; another thread may close it meanwhile
        trying = 4,    // a wait tries its verb again; no handler runs, so this ends soon
        closing = 5,   // another thread closes it
        job_open = 6,  // a worker between take and done or release
    };

    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    virtual ~Member() = default;

    /// Whether this object is open and still owns its slot. Every operation makes this one comparison. A close or a
    /// fork changes its operands, so that neither costs anything here.
    [[gnu::always_inline]] bool usable() const noexcept {
        // Relaxed: retire, evict and the next owner raise the epoch (5.4).
        return load_relaxed(load_relaxed(&epoch_word_)) == load_relaxed(&expected_epoch_);
    }
    std::uint32_t use() const noexcept { return load_relaxed(&use_); }
    void set_use(std::uint32_t use) noexcept { store_relaxed(&use_, use); }
    bool open() const noexcept { return load_relaxed(&expected_epoch_) != unusable; }

    // Close has three steps, all with the channel's mutex held. Every store of this object comes before the release of
    // the lock, because the slot may have another owner right after.

    /// Before the three steps: takes the object from its thread, if the thread does not use it or waits in it. An open
    /// claim does not hinder. False: the object is at work.
    bool stop() noexcept {
        for (;;) {
            for (const Use from : {idle, waiting, job_open}) {
                if (!exchange_use(from, closing)) continue;
                stopped_from_ = from;
                return true;
            }
            const std::uint32_t now = use();
            if (now == claim_open) return true;
            if (now == in_use) return false;
            sched_yield();  // it tries, or a verb just begins or ends
        }
    }
    /// Whether stop() took the object from a wait.
    bool was_waiting() const noexcept { return use() == closing && stopped_from_ == waiting; }
    /// Whether stop() took a worker between take and done.
    bool was_job_open() const noexcept { return use() == closing && stopped_from_ == job_open; }
    /// Undoes stop(), also after a close: a wait then finds that its object is closed.
    void go_on() noexcept {
        if (use() == closing) store_release(&use_, static_cast<std::uint32_t>(stopped_from_));
    }
    /// Step 1: marks the object as closed. Returns whether it still owned its slot.
    bool end() noexcept {
        const bool owned = usable();
        set_unusable("closed");
        return owned;
    }
    /// Step 2: makes the stores of a close in the file.
    virtual void give_back(bool owned) noexcept = 0;
    /// Step 3: releases the slot's lock.
    void release() noexcept { lock_.release(); }

    /// Steps 1 to 3, with the channel's mutex held.
    virtual void close() noexcept {
        give_back(end());
        release();
    }

    /// Makes the object unusable in a forked child.
    virtual void abandon() noexcept {
        lock_.abandon();
        if (use() == waiting || use() == trying) set_use(load_relaxed(&rest_));  // its thread is not in the child
        set_unusable("in a forked child; open the channel again there");
    }

    /// Throws why usable() is false.
    [[noreturn, gnu::cold]] virtual void throw_unusable() = 0;

    // Waiting (6.16).

    /// The words that it sleeps on.
    virtual WaitingWords words() const noexcept = 0;
    /// The bits of its rings in `asleep`.
    virtual std::uint32_t mask() const noexcept = 0;
    /// Whether its wait is over: what it waits for is there, or the object is not usable any more.
    virtual bool is_ready() const noexcept = 0;
    /// The longest sleep in ns, for a wait that has lasted `waited` ns.
    virtual std::int64_t cap(std::int64_t waited) const noexcept = 0;
    /// Called after each sleep in a wait set: does the work that a wait of this object does at each cap. Returns
    /// whether the object's next verb has something to do or to report.
    virtual bool look_after() = 0;
    virtual ChannelState& state() const noexcept = 0;
    /// Only for a worker, at the end of a wait that may have used up a wake that was meant for one worker: wakes
    /// another worker if there is a job (spec/queue.md 10).
    virtual void pass_on() noexcept {}
    /// Only for a worker with a job in the hand of the calling thread: its slot.
    virtual std::optional<std::uint32_t> busy_slot() const noexcept { return std::nullopt; }

    /// Marks the object as trying: neither it nor its channel can be closed until end_of_try(). False: it is in use.
    bool begin_to_try() noexcept { return exchange_use(idle, trying); }
    void end_of_try() noexcept { store_release(&use_, static_cast<std::uint32_t>(idle)); }

  protected:
    Member() = default;

    /// Marks the object as in use for as long as this lives.
    class InUse {
      public:
        explicit InUse(Member& member) noexcept : member_(member) { member_.set_use(in_use); }
        InUse(const InUse&) = delete;
        InUse& operator=(const InUse&) = delete;
        ~InUse() { member_.set_use(idle); }

      private:
        Member& member_;
    };

    /// A wait, for the lifetime of this guard. The object starts as taken; put_back() lets other threads close it,
    /// take() takes it again. `rest`: the object's use after the wait.
    class Wait {
      public:
        explicit Wait(Member& member, Use rest = idle) noexcept : member_(member) {
            store_relaxed(&member.rest_, static_cast<std::uint32_t>(rest));
        }
        Wait(const Wait&) = delete;
        Wait& operator=(const Wait&) = delete;
        ~Wait() {
            if (!taken_) take(trying);
            if (!ended_) end(load_relaxed(&member_.rest_));
        }

        void put_back() noexcept {
            taken_ = false;
            store_release(&member_.use_, static_cast<std::uint32_t>(waiting));
        }
        void take(Use as) noexcept {
            while (!member_.exchange_use(waiting, as)) sched_yield();  // a close by another thread ends soon
            taken_ = true;
        }
        /// Ends the wait; the object must be taken.
        void end(std::uint32_t as) noexcept {
            store_relaxed(&member_.rest_, static_cast<std::uint32_t>(idle));
            member_.set_use(as);
            ended_ = true;
        }

      private:
        Member& member_;
        bool taken_ = true;
        bool ended_ = false;
    };

    bool exchange_use(std::uint32_t was, std::uint32_t use) noexcept {
        return __atomic_compare_exchange_n(&use_, &was, use, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    [[noreturn, gnu::cold]] virtual void throw_in_use() = 0;

    void set_owner(SlotLock lock, std::uint32_t slot, std::int64_t* epoch_word, std::int64_t epoch) noexcept {
        lock_ = std::move(lock);
        slot_ = slot;
        epoch_ = epoch;
        store_relaxed(&epoch_word_, const_cast<const std::int64_t*>(epoch_word));
        store_relaxed(&expected_epoch_, epoch);
    }

    void set_unusable(const char* why) noexcept {
        why_unusable_ = why;
        store_relaxed(&expected_epoch_, unusable);
        store_relaxed(&epoch_word_, &no_epoch);
    }

    const std::int64_t* epoch_word_ = &no_epoch;
    std::int64_t expected_epoch_ = unusable;
    std::uint32_t use_ = idle;
    Use stopped_from_ = idle;
    std::uint32_t rest_ = idle;  // its use when its wait ends: claim_open beside an open claim
    std::uint32_t slot_ = 0;
    std::int64_t epoch_ = 0;
    SlotLock lock_;
    const char* why_unusable_ = "closed";
};

/// The state of one attached channel, shared by the Channel and all objects made from it.
class ChannelState final : public ForkAware {
  public:
    explicit ChannelState(ChannelFile attached) : file(std::move(attached)) { enlist(); }
    ChannelState(const ChannelState&) = delete;
    ChannelState& operator=(const ChannelState&) = delete;
    ~ChannelState() { delist(); }

    ChannelFile file;

    void check_open() const {
        const char* why = load_relaxed(&why_closed_);
        if (why != nullptr) throw Closed("channel " + file.path + " is used " + why);
    }

    /// Calls take(), which gets a slot for `member`. A fork waits meanwhile, so that the child knows of every lock
    /// description.
    template <typename Take>
    void enter(Member& member, Take&& take) {
        const std::lock_guard<std::mutex> guard(mutex_);
        check_open();
        members_.push_back(&member);
        try {
            take();
        } catch (...) {
            members_.pop_back();
            throw;
        }
    }

    /// Calls use() and returns its result. Neither a close of the channel nor a fork can take place meanwhile.
    template <typename Use>
    decltype(auto) with_lock(Use&& use) {
        const std::lock_guard<std::mutex> guard(mutex_);
        return use();
    }

    /// Whether look(member) is true for any member. Must not be called while a member is trying: a thread that closes
    /// that member holds the mutex and waits for it.
    template <typename Look>
    bool any_member(Look&& look) {
        const std::lock_guard<std::mutex> guard(mutex_);
        return std::any_of(members_.begin(), members_.end(), [&](const Member* member) { return look(*member); });
    }

    /// Closes one member. check() throws if the member is at work. Returns whether a thread was in its wait.
    template <typename Check>
    bool close(Member& member, Check&& check) {
        const std::lock_guard<std::mutex> guard(mutex_);
        while (!member.stop()) check();
        const bool waited = member.was_waiting();
        if (member.open()) member.close();
        member.go_on();
        if (load_relaxed(&why_closed_) != nullptr) return waited;
        if (waited) {
            wake_everybody();  // among them the thread in the member's wait
        } else {
            look_again();  // the member may be in a wait set
        }
        return waited;
    }

    /// Closes a member if it is open, and removes it. Called by the member's destructor.
    void leave(Member& member) noexcept {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (member.open()) member.close();
        members_.erase(std::remove(members_.begin(), members_.end(), &member), members_.end());
    }

    /// Closes all members and the channel. Another thread may be about to use a member: so the file is detached before
    /// the first lock is released. An open claim is left to the slot's next owner, which turns it into padding (6.8).
    void close_all() {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (load_relaxed(&why_closed_) != nullptr) return;
        stop_members();
        store_relaxed(&why_closed_, "after close");
        for (Member* member : members_) {
            if (member->open()) member->give_back(member->end());
        }
        wake_everybody();  // among them waits of the closed members
        file.mapping.detach();
        file.readable.detach();
        for (Member* member : members_) {
            member->release();
            member->go_on();
        }
        file.fd.reset();
    }

  private:
    /// Makes all sleepers look again, without a store to the file.
    void look_again() noexcept {
        wake_sleepers(file.data().sequence, all_rings);
        wake_sleepers(file.room().sequence, all_rings);
        if (file.is_queue()) wake_sleepers(file.jobs().sequence, all_rings);
    }
    void wake_everybody() noexcept {
        if (file.read_only) return look_again();  // the file cannot be written
        wake_all(file.data());
        wake_all(file.room());
        if (file.is_queue()) wake_all(file.jobs());
    }

    /// Stops all members, or throws ViewAlive if one is at work; then none is stopped.
    void stop_members() {
        // First look without changing anything, so that a member in another thread does not notice a close that is
        // refused.
        const bool at_work = std::any_of(members_.begin(), members_.end(),
                                         [](const Member* member) { return member->use() == Member::in_use; });
        auto stopped = members_.begin();
        while (!at_work && stopped != members_.end() && (*stopped)->stop()) ++stopped;
        if (!at_work && stopped == members_.end()) return;
        while (stopped != members_.begin()) (*--stopped)->go_on();
        throw ViewAlive("channel " + file.path +
                        " cannot be closed: a publisher or subscriber of it is at work, in a handler or in another "
                        "thread; close it when that is done");
    }

    void before_fork() noexcept override { mutex_.lock(); }
    void after_fork() noexcept override { mutex_.unlock(); }
    void lost_by_fork() noexcept override {
        for (Member* member : members_) {
            if (member->open()) member->abandon();
        }
        if (load_relaxed(&why_closed_) != nullptr) return;
        store_relaxed(&why_closed_, "in a forked child; open it again there");
        file.fd.reset();
        // A handler that forked goes on in the child too, and a claim may be open. Detached mappings keep both from the
        // file.
        file.mapping.detach();
        file.readable.detach();
    }

    std::mutex mutex_;
    std::vector<Member*> members_;
    const char* why_closed_ = nullptr;
};

}  // namespace flyring::detail
