// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/detail/fork.hpp"
#include "flyring/detail/journal_file.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"

// What a Journal and the objects made from it share. It is to a journal what detail/state.hpp is to a channel.

namespace flyring::detail {

class JournalState;

/// The common base of every object made from a journal: a slot with its lock and epoch, if it has one, and a word that
/// tells how the object is in use. (Its virtual functions are inline: no class here has a key function.)
class JournalMember {
  public:
    enum Use : std::uint32_t {
        idle = 0,
        in_use = 1,
        claim_open = 2,
        waiting = 3,  // spins or sleeps; another thread may close it meanwhile
        closing = 4,  // another thread closes it
    };

    JournalMember(const JournalMember&) = delete;
    JournalMember& operator=(const JournalMember&) = delete;
    virtual ~JournalMember() = default;

    /// Whether this object is open and still owns its slot: one comparison, whose operands a close or fork changes.
    [[gnu::always_inline]] inline bool usable() const noexcept {
        return load_relaxed(load_relaxed(&epoch_word_)) == load_relaxed(&expected_epoch_);
    }
    bool open() const noexcept { return load_relaxed(&expected_epoch_) != unusable_epoch; }
    std::uint32_t use() const noexcept { return load_relaxed(&use_); }
    void set_use(std::uint32_t use) noexcept { store_relaxed(&use_, use); }
    std::int64_t epoch() const noexcept { return epoch_; }

    // Close has three steps, all with the state's mutex held. The lock is released last: the slot may have another
    // owner right after.

    /// Takes the object from its thread, if that does not use it or waits in it. False: it is at work.
    bool stop() noexcept {
        for (;;) {
            const std::uint32_t now = use();
            if (now == in_use) return false;
            if (now == claim_open || now == closing) return true;
            if (!exchange_use(now, closing)) continue;
            stopped_from_ = now;
            return true;
        }
    }
    /// Undoes stop(), also after a close: a wait then finds that its object is closed.
    void go_on() noexcept {
        if (use() == closing) store_release(&use_, stopped_from_);
    }
    /// Step 1: marks the object as closed. Returns whether it still owned its slot.
    bool end(const char* why) noexcept {
        const bool owned = usable();
        store_relaxed(&why_closed_, why);
        store_relaxed(&expected_epoch_, unusable_epoch);
        store_relaxed(&epoch_word_, &no_epoch_word);
        return owned;
    }
    /// Step 2: makes the stores of a close, and takes the object's mappings out of reach.
    virtual void give_back(bool owned) noexcept = 0;
    /// Step 3: unlocks the slot.
    void release() noexcept { lock_.release(); }
    void close() noexcept {
        if (!open()) return;
        give_back(end("after close"));
        release();
    }
    /// A writer's check and sync before a close. Throws IoError.
    virtual void finish() {}
    /// Whether it is a writer that holds the slot until it is closed.
    virtual bool holds_writer() const noexcept { return false; }
    /// Makes the object unusable in a forked child.
    virtual void abandon() noexcept {
        lock_.abandon();
        if (use() == waiting || use() == closing) set_use(idle);  // its thread is not in the child
        if (open()) end("in a forked child; open it again there");
    }

    /// Throws why usable() is false: SlotLost, or Closed.
    [[noreturn, gnu::cold]] virtual void throw_unusable() = 0;
    [[noreturn, gnu::cold]] virtual void throw_in_use() = 0;

  protected:
    JournalMember() = default;

    /// Marks the object as in use for as long as this lives.
    class InUse {
      public:
        explicit InUse(JournalMember& member, std::uint32_t after = idle) noexcept : member_(member), after_(after) {
            member_.set_use(in_use);
        }
        InUse(const InUse&) = delete;
        InUse& operator=(const InUse&) = delete;
        [[gnu::always_inline]] inline ~InUse() { member_.set_use(after_); }
        void set_after(std::uint32_t use) noexcept { after_ = use; }

      private:
        JournalMember& member_;
        std::uint32_t after_;
    };

    /// Throws the first error that applies to an object that is in use, or not usable.
    [[noreturn, gnu::cold, gnu::noinline]] void refuse() {
        if (open() && use() != idle) throw_in_use();
        if (!usable()) throw_unusable();
        throw_in_use();  // the other thread has finished just now
        __builtin_unreachable();
    }
    void check_usable() {
        if (FLYRING_UNLIKELY(use() != idle || !usable())) refuse();
    }
    bool exchange_use(std::uint32_t was, std::uint32_t use) noexcept {
        return __atomic_compare_exchange_n(&use_, &was, use, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    /// Lets other threads close the object during a sleep.
    void put_back() noexcept { store_release(&use_, static_cast<std::uint32_t>(waiting)); }
    void take_again() noexcept {
        while (!exchange_use(waiting, in_use)) sched_yield();  // a close by another thread ends soon
    }

    void set_owner(SlotLock lock, const std::int64_t* epoch_word, std::int64_t epoch) noexcept {
        lock_ = std::move(lock);
        epoch_ = epoch;
        store_relaxed(&epoch_word_, epoch_word);
        store_relaxed(&expected_epoch_, epoch);
    }
    /// For an object without a slot.
    void set_open() noexcept { store_relaxed(&expected_epoch_, std::int64_t{0}); }

    const char* why_closed() const noexcept { return load_relaxed(&why_closed_); }

    SlotLock lock_;

  private:
    static constexpr std::int64_t unusable_epoch = -1;
    static constexpr std::int64_t no_epoch_word = 0;

    const std::int64_t* epoch_word_ = &no_epoch_word;
    std::int64_t expected_epoch_ = unusable_epoch;
    std::uint32_t use_ = idle;
    std::uint32_t stopped_from_ = idle;
    std::int64_t epoch_ = 0;
    const char* why_closed_ = "before it is open";
};

/// The state of one attached journal, shared by the Journal and all objects made from it.
class JournalState final : public ForkAware {
  public:
    JournalState(JournalFile attached, JournalProgress on_progress)
        : file(std::move(attached)), progress(std::move(on_progress)) {
        enlist();
    }
    JournalState(const JournalState&) = delete;
    JournalState& operator=(const JournalState&) = delete;
    ~JournalState() { delist(); }

    JournalFile file;
    const JournalProgress progress;

    bool closed() const noexcept { return load_relaxed(&why_closed_) != nullptr; }
    void check_open() const {
        const char* why = load_relaxed(&why_closed_);
        if (FLYRING_UNLIKELY(why != nullptr)) throw Closed("journal " + file.path + " is used " + why);
    }
    void check_writable() const {
        check_open();
        file.check_writable();
    }
    /// Throws NeedsRecovery if the journal is of another boot.
    void check_whole() const {
        if (file.is_of_this_boot()) return;
        throw NeedsRecovery::journal(file.path);
    }

    /// Calls use(), with fork and close kept out: for what opens a description.
    template <typename Use>
    decltype(auto) with_lock(Use&& use) {
        const std::lock_guard<std::mutex> guard(mutex_);
        check_open();
        return use();
    }
    void enter(JournalMember& member) {
        const std::lock_guard<std::mutex> guard(mutex_);
        check_open();
        members_.push_back(&member);
    }
    /// Closes a member, and removes it. Called by the member's destructor.
    void leave(JournalMember& member) noexcept {
        const std::lock_guard<std::mutex> guard(mutex_);
        member.close();
        members_.erase(std::remove(members_.begin(), members_.end(), &member), members_.end());
    }
    /// Closes one member. Throws what throw_in_use throws if it is at work.
    template <typename Refuse>
    void close(JournalMember& member, Refuse&& refuse) {
        const std::lock_guard<std::mutex> guard(mutex_);
        while (!member.stop()) refuse();
        member.close();
        member.go_on();
        if (!closed()) look_again();
    }
    /// Throws Busy if a writer that was made from this object is open: a push would wait for it.
    void check_no_own_writer() {
        const std::lock_guard<std::mutex> guard(mutex_);
        for (const JournalMember* member : members_) {
            if (member->holds_writer() && member->open()) throw Busy::own_writer(file.path, "journal");
        }
    }

    /// Marks the time in which a thread takes the writer's slot, or pushes. A close by another thread waits for it.
    class AtWork {
      public:
        /// Throws Closed if the journal is closed, or is about to be.
        explicit AtWork(JournalState& state) : state_(state) {
            const std::lock_guard<std::mutex> guard(state_.mutex_);
            state_.check_stays_open();
            state_.worker_ = std::this_thread::get_id();
        }
        AtWork(const AtWork&) = delete;
        AtWork& operator=(const AtWork&) = delete;
        ~AtWork() {
            const std::lock_guard<std::mutex> guard(state_.mutex_);
            if (state_.worker_ == std::this_thread::get_id()) state_.worker_ = {};  // else another thread has the slot
        }

      private:
        JournalState& state_;
    };
    /// Throws Closed if the journal is closed, or a close waits for the thread that is at work.
    void check_stays_open() const {
        check_open();
        if (load_relaxed(&closing_) != 0) throw Closed("journal " + file.path + " is used after close");
    }

    /// Closes all members and the journal. Waits for a thread that takes the writer's slot, or pushes. Throws ViewAlive
    /// if that is this thread, or a member is at work; IoError if a writer's last sync fails (all is closed then).
    void close_all() {
        std::unique_lock<std::mutex> guard(mutex_);
        if (closed()) return;
        if (worker_ == std::this_thread::get_id()) throw_at_work();
        store_relaxed(&closing_, 1U);
        while (worker_ != std::thread::id()) {
            guard.unlock();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            guard.lock();
        }
        if (closed()) return;  // by another thread, meanwhile
        auto stopped = members_.begin();
        while (stopped != members_.end() && (*stopped)->stop()) ++stopped;
        if (stopped != members_.end()) {
            while (stopped != members_.begin()) (*--stopped)->go_on();
            store_relaxed(&closing_, 0U);
            throw_at_work();
        }
        std::exception_ptr failed;
        for (JournalMember* member : members_) {
            try {
                member->finish();
            } catch (...) {
                failed = std::current_exception();
            }
        }
        store_relaxed(&why_closed_, "after close");
        // Another thread may be about to use a member: so all mappings are out of reach before a lock is released.
        std::vector<JournalMember*> open;
        for (JournalMember* member : members_) {
            if (!member->open()) continue;
            open.push_back(member);
            member->give_back(member->end("after close"));
        }
        look_again();
        file.mapping.detach();
        for (JournalMember* member : open) member->release();
        for (JournalMember* member : members_) member->go_on();
        file.fd.reset();
        if (failed) std::rethrow_exception(failed);
    }

  private:
    [[noreturn, gnu::cold]] void throw_at_work() const {
        throw ViewAlive("journal " + file.path +
                        " cannot be closed: an object made from it is at work, in a handler or in another thread; "
                        "close it when that is done");
    }
    /// Makes the sleepers of this process look again, without a store to the file.
    void look_again() noexcept { wake_sleepers(file.data().sequence, all_rings); }

    void before_fork() noexcept override { mutex_.lock(); }
    void after_fork() noexcept override { mutex_.unlock(); }
    void lost_by_fork() noexcept override {
        for (JournalMember* member : members_) member->abandon();
        if (closed()) return;
        store_relaxed(&why_closed_, "in a forked child; open it again there");
        file.fd.reset();
        file.mapping.detach();  // a handler that forked goes on in the child, too
    }

    std::mutex mutex_;
    std::vector<JournalMember*> members_;
    const char* why_closed_ = nullptr;
    std::uint32_t closing_ = 0;  // 1: a close waits for the thread that is at work
    std::thread::id worker_;     // the thread that is at work; empty if there is none
};

}  // namespace flyring::detail
