// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/detail/fork.hpp"
#include "flyring/detail/table_attached.hpp"
#include "flyring/detail/table_changes.hpp"
#include "flyring/detail/table_file.hpp"
#include "flyring/detail/table_recover.hpp"
#include "flyring/detail/table_view.hpp"
#include "flyring/errors.hpp"

// What a Table and the objects made from it share: the attached file, and taking the writer's slot (spec/table.md 5.1).
// Numbers in parentheses are sections of spec/table.md; 'write 5' is step 5 of its operation write.

namespace flyring::detail {

/// Whether at least 1 ms has passed since `looked`, when the caller last looked for another file of the name (7). If
/// so, sets `looked` to now.
[[gnu::cold, gnu::noinline]] inline bool is_time_to_look(std::int64_t& looked) noexcept {
    constexpr std::int64_t interval = 1'000'000;  // ns
    const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (now - load_relaxed(&looked) < interval) return false;
    store_relaxed(&looked, now);
    return true;
}

class TableWriterCore;

/// The state that a Table shares with its writers and entries: the attached files, the open writers, and whether the
/// table is closed.
///
/// **Files that the table has left.** After a grow, the old file is let go: its descriptors are closed, and zero pages
/// take the place of its mappings. Two rules make that safe for the other threads of this object.
/// 1. Whatever stores into a file, uses its descriptors, sleeps on its words or reads all of it holds a Pin. The file
///    is let go when it is not current and has no Pin. Both change under the mutex.
/// 2. A find, and a load of one word, holds no Pin, as it is on the hot path. It reads through `readable` and stores
///    nothing. One mmap call replaces that mapping, so each address is mapped at any time. A thread that finds a page
///    gone waits in its page fault for the end of that call, so what it loads after its first zero is zero, too.
///    - A hit is right. Its last load compares seq with a version above 0, so that load came from the file, and so did
///      the loads before it (6, read 4).
///    - A miss may come from zeros. `current_` changes before the file is let go, and a miss ends with an acquire
///      fence (6, find 5). So it is repeated if has_left().
/// The objects of these files stay, because a thread may read their addresses. So does the range of addresses; it takes
/// no memory.
class TableState final : public ForkAware {
  public:
    /// Keeps a file from being let go.
    class Pin {
      public:
        /// Pins the current file. Throws Closed.
        explicit Pin(TableState& state) : state_(&state) {
            const std::lock_guard<std::mutex> guard(state.mutex_);
            state.check_open();
            at_ = &state.current();
            ++at_->pins;
        }
        Pin(Pin&& other) noexcept : state_(other.state_), at_(std::exchange(other.at_, nullptr)) {}
        Pin& operator=(Pin&&) = delete;
        ~Pin() {
            if (at_ == nullptr) return;
            const std::lock_guard<std::mutex> guard(state_->mutex_);
            if (--at_->pins == 0) state_->let_go(*at_);
        }
        AttachedTable& file() const noexcept { return *at_; }

      private:
        TableState* state_;
        AttachedTable* at_ = nullptr;
    };
    /// Lets a close, and a change to another file, wake the calling thread, which sleeps on `sequence`.
    class Asleep {
      public:
        Asleep(TableState& state, std::uint32_t* sequence) : state_(state), sequence_(sequence) {
            const std::lock_guard<std::mutex> guard(state.mutex_);
            state.asleep_.push_back(sequence);
        }
        Asleep(const Asleep&) = delete;
        Asleep& operator=(const Asleep&) = delete;
        ~Asleep() {
            const std::lock_guard<std::mutex> guard(state_.mutex_);
            state_.asleep_.erase(std::find(state_.asleep_.begin(), state_.asleep_.end(), sequence_));
        }

      private:
        TableState& state_;
        std::uint32_t* sequence_;
    };

    TableState(TableFile attached, RecoveryProgress progress)
        : boot_(boot_id(attached.environment)), progress_(std::move(progress)) {
        files_.push_back(std::make_unique<AttachedTable>(std::move(attached), boot_));
        store_release(&current_, files_.back().get());
        if (files_.back()->is_whole()) store_release(&ready_, files_.back().get());
        enlist();
    }
    TableState(const TableState&) = delete;
    TableState& operator=(const TableState&) = delete;
    ~TableState() { delist(); }

    /// The attached file, for a read. Throws Closed; NeedsRecovery if its values cannot be read yet.
    [[gnu::always_inline]] inline AttachedTable& to_read() {
        AttachedTable* const at = load_acquire(&ready_);
        if (FLYRING_LIKELY(at != nullptr && at->reader.is_current())) return *at;
        return look();
    }
    /// The attached file, also if its values cannot be read yet. Throws Closed.
    AttachedTable& to_look_at() {
        check_open();
        AttachedTable& at = current();
        if (FLYRING_LIKELY(at.reader.is_current()) || !is_time_to_look(at.looked)) return at;
        try {
            (void)look_for_successor(at);
        } catch (const Closed&) {
            throw;
        } catch (const FlyringError&) {
            // The larger file cannot be attached now. Go on in this one; a later call looks again.
        }
        return current();
    }
    /// The same as to_read, but the file stays as long as the Pin. For reads of more than one key.
    Pin pin_to_read() {
        for (;;) {
            AttachedTable& at = to_read();
            Pin pin(*this);
            if (&pin.file() == &at) return pin;
        }
    }
    /// Whether the table goes on in another file than this one, so that what was read here may be zeros. Throws Closed.
    bool has_left(const AttachedTable& at) const {
        check_open();
        return &current() != &at;
    }
    /// The attached file, without a check.
    AttachedTable& current() const noexcept { return *load_acquire(&current_); }
    /// Throws Closed, AccessDenied.
    void check_writable() const {
        check_open();
        current().file.check_writable();
    }
    void check_open() const {
        const char* why = load_relaxed(&why_closed_);
        if (FLYRING_UNLIKELY(why != nullptr)) throw_closed(why);
    }
    void count_busy() noexcept { __atomic_fetch_add(&busy_, 1, __ATOMIC_RELAXED); }
    std::uint64_t busy() const noexcept { return load_relaxed(&busy_); }

    /// Each method that changes the table calls this first. Throws Closed, ViewAlive.
    void check_change() const {
        check_open();
        if (FLYRING_UNLIKELY(in_handler())) throw_in_handler("changed");
    }
    /// Takes the writer's slot, calls change(changes), and frees the slot. Throws Busy if a writer of this object holds
    /// the slot, NoFreeSlot after the time-out.
    template <typename Change>
    auto single(std::chrono::nanoseconds timeout, Change&& change) {
        return with_slot(timeout, [&](AttachedTable& at) { return change(*at.changes); });
    }
    /// The same, but calls use(attached file).
    template <typename Use>
    auto with_slot(std::chrono::nanoseconds timeout, Use&& use) {
        check_timeout(timeout);
        check_writable();
        if (FLYRING_UNLIKELY(load_relaxed(&writer_count_) != 0)) check_no_own_writer();
        const Turn turn(*this, timeout);
        for (;;) {
            const Pin pin(*this);
            AttachedTable& at = pin.file();
            wait_for_slot(at, at.description, turn.deadline());
            HeldSlot held(at.description, at.file.slot_lock());
            if (!may_take(at)) continue;
            take(at, *at.changes, nullptr);
            return use(at);
        }
    }

    /// Locks the slot of `at` through a file description; tries every millisecond. Throws NoFreeSlot at the deadline.
    void wait_for_slot(AttachedTable& at, const Fd& description, std::int64_t deadline) {
        check_ours(description, "fcntl(F_OFD_SETLK)", at.file.path);
        while (!lock_byte(description, at.file.slot_lock(), at.file.path)) {
            const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
            if (now >= deadline) throw_not_free(at.file);
            std::this_thread::sleep_for(Nanoseconds(std::min<std::int64_t>(1'000'000, deadline - now)));
            check_open();
        }
    }
    /// Whether the slot's new owner may write this file. False: the table has grown, so the caller starts again with
    /// the larger file. Throws ChannelReplaced if another table has the name.
    bool may_take(AttachedTable& at) {
        if (FLYRING_LIKELY(load_relaxed(at.file.successor()) == 0)) return true;
        const Successor found = look_for_successor(at);
        if (found.grown) return false;
        if (found.other) throw ChannelReplaced(at.file.path, *found.other);
        // The file still has its name. grow holds the slot from its store of `successor` to the rename, so its process
        // died in between. (A replace or unlink that is under way stores `successor` once more.)
        if (found.named) store_relaxed(at.file.successor(), std::int32_t{0});
        return true;
    }
    /// Becomes the slot's owner (5.1, take 2 to 4). `name`: the name of a TableWriter; null for a single change.
    void take(AttachedTable& at, TableChanges& changes, const std::string* name) {
        take_over_boot(at.file, changes, boot_, progress_);
        const SlotWords slot = at.file.slot();
        if (name != nullptr) {
            changes.set_epoch(slot.take(*name, at.file.environment, changes.wakes(),
                                        [&] { store_relaxed(slot.closed(), std::int32_t{0}); }));
        } else {
            const std::int64_t epoch = next_epoch(load_relaxed(slot.epoch()));
            store_relaxed(slot.closed(), std::int32_t{0});
            store_relaxed(slot.wakes(), changes.wakes() ? epoch : 0);
            compiler_fence();
            store_release(slot.epoch(), epoch);
            changes.set_epoch(epoch);
        }
        compiler_fence();
        if (changes.finish_intent() || name != nullptr || !changes.wakes()) wake_all(at.file.data());
    }

    /// Which file has the name of an attached file now.
    struct Successor {
        bool grown = false;           // the same table, grown; it is the current file by now
        bool named = false;           // the attached file itself
        std::optional<Uuid> other{};  // another table
    };
    /// Looks whether another file has the name of `old`. If that is this table, grown, attaches it (7). Throws IoError
    /// and the like if the larger file cannot be attached.
    Successor look_for_successor(AttachedTable& old) {
        const std::lock_guard<std::mutex> guard(mutex_);
        check_open();
        if (&current() != &old) return {true};
        const TableLook look = look_at_name(old.file);
        if (!look.now) return {false, look.named};
        if (!is_grown(*look.now, old.file.header)) return {false, false, look.now->table_id};
        OpenTableOptions options;
        options.read_only = old.file.read_only;
        options.any_file_system = true;
        options.wake = old.file.wakes;
        TableFile file;
        try {
            file = open_table(old.file.path, options, old.file.environment);
        } catch (const NoSuchChannel&) {
            return {};  // its name is gone again
        }
        if (!is_grown(file.header, old.file.header)) return {false, false, file.header.table_id};
        adopt(std::make_unique<AttachedTable>(std::move(file), boot_));
        return {true};
    }
    /// Makes the larger file that a grow of this process has created the current one.
    void adopt_grown(std::unique_ptr<AttachedTable> grown) {
        const std::lock_guard<std::mutex> guard(mutex_);
        adopt(std::move(grown));
    }

    /// Calls use() under the mutex: no fork and no close happens meanwhile. Throws Closed.
    template <typename Use>
    decltype(auto) with_lock(Use&& use) {
        const std::lock_guard<std::mutex> guard(mutex_);
        check_open();
        return use();
    }
    /// Registers a writer, so that close and a fork end it. The mutex must be locked.
    void enter(TableWriterCore& writer) {
        writers_.push_back(&writer);
        store_relaxed(&writer_count_, writers_.size());
    }
    void leave(TableWriterCore& writer) noexcept {
        const std::lock_guard<std::mutex> guard(mutex_);
        writers_.erase(std::remove(writers_.begin(), writers_.end(), &writer), writers_.end());
        store_relaxed(&writer_count_, writers_.size());
    }
    /// An address that only the calling thread has.
    static const char* this_thread() noexcept { return &thread_mark; }
    /// Whether the calling thread is inside a handler of update, of this object or of a writer made from it.
    bool in_handler() const {
        if (FLYRING_UNLIKELY(load_relaxed(&changing_) == this_thread())) return true;
        return FLYRING_UNLIKELY(load_relaxed(&writer_count_) != 0) && any_writer_in_handler();
    }
    [[noreturn, gnu::cold, gnu::noinline]] void throw_in_handler(const char* what) const {
        throw ViewAlive("table " + current().file.path + " cannot be " + what + " inside a handler of its own update");
    }

    /// Closes the table and its writers. A thread that still reads gets zeros, and then finds the table closed.
    void close(bool sync);

    /// Throws NoFreeSlot, with the last TableWriter that held the writer's slot.
    [[noreturn, gnu::cold, gnu::noinline]] static void throw_not_free(const TableFile& file) {
        throw_writer_not_free(file.path, file.slot(), "TableWriter");
    }

  private:
    /// Lets one single change at a time through. All single changes of this object lock the slot through one file
    /// description, and its locks do not exclude each other.
    class Turn {
      public:
        Turn(TableState& state, std::chrono::nanoseconds timeout)
            : state_(state), deadline_(later(clock_ns(CLOCK_MONOTONIC), timeout.count())) {
            const char* const self = this_thread();
            const char* has = nullptr;
            while (!__atomic_compare_exchange_n(&state_.changing_, &has, self, false, __ATOMIC_ACQUIRE,
                                                __ATOMIC_RELAXED)) {
                has = nullptr;
                if (clock_ns(CLOCK_MONOTONIC) >= deadline_) throw_not_free(state_.current().file);
                std::this_thread::sleep_for(std::chrono::microseconds(50));
            }
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn() { __atomic_store_n(&state_.changing_, static_cast<const char*>(nullptr), __ATOMIC_RELEASE); }
        std::int64_t deadline() const noexcept { return deadline_; }

      private:
        TableState& state_;
        std::int64_t deadline_;
    };

    /// Makes a file the current one. The mutex must be locked.
    void adopt(std::unique_ptr<AttachedTable> next) {
        AttachedTable& before = current();
        files_.push_back(std::move(next));
        AttachedTable* const at = files_.back().get();
        if (load_relaxed(&why_closed_) != nullptr) {  // another thread has closed the table meanwhile
            at->file.mapping.detach();
            at->file.readable.detach();
            return;
        }
        store_release(&current_, at);
        store_release(&ready_, at->is_whole() ? at : nullptr);
        wake_own_sleepers();
        let_go(before);
    }
    /// Lets the sleepers of this object look again. Stores nothing: the file may be clean.
    void wake_own_sleepers() const noexcept {
        for (std::uint32_t* const sequence : asleep_) wake_sleepers(sequence, 1);
    }
    /// Lets a file go if the table has left it and it has no Pin. The mutex must be locked.
    void let_go(AttachedTable& at) noexcept {
        if (at.pins != 0 || &current() == &at) return;
        at.file.mapping.detach();
        at.file.readable.detach();
        at.description.reset();
        at.file.fd.reset();
    }
    /// The slow path of to_read.
    [[gnu::cold, gnu::noinline]] AttachedTable& look() {
        for (;;) {
            AttachedTable& now = to_look_at();
            if (load_acquire(&ready_) == &now) return now;
            const std::lock_guard<std::mutex> guard(mutex_);
            if (has_left(now)) continue;
            if (!now.is_whole()) now.file.throw_needs_recovery();
            acquire_fence();  // pairs with the release of store_boot
            store_release(&ready_, &now);
            return now;
        }
    }
    [[noreturn, gnu::cold, gnu::noinline]] void throw_closed(const char* why) const {
        throw Closed("table " + current().file.path + " is used " + why);
    }

    inline bool any_writer_in_handler() const;
    /// Throws Busy if a writer made from this object holds the slot: a wait for the slot could last for as long as that
    /// writer.
    inline void check_no_own_writer();

    void before_fork() noexcept override { mutex_.lock(); }
    void after_fork() noexcept override { mutex_.unlock(); }
    inline void lost_by_fork() noexcept override;

    void end(const char* why) noexcept {
        store_relaxed(&why_closed_, why);
        store_release(&ready_, static_cast<AttachedTable*>(nullptr));
    }
    /// Puts zeros in the place of all mappings.
    void detach() noexcept {
        for (const auto& at : files_) {
            at->file.mapping.detach();
            at->file.readable.detach();
        }
    }

    static inline thread_local char thread_mark = 0;

    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<AttachedTable>> files_;  // the last one is current
    std::vector<TableWriterCore*> writers_;
    std::vector<std::uint32_t*> asleep_;  // the words on which threads of this object sleep
    std::size_t writer_count_ = 0;
    AttachedTable* current_ = nullptr;
    AttachedTable* ready_ = nullptr;  // null: closed, or it needs a recovery
    const char* changing_ = nullptr;  // this_thread() of a single change that is under way
    const char* why_closed_ = nullptr;
    std::uint64_t busy_ = 0;
    Uuid boot_;
    RecoveryProgress progress_;
};

}  // namespace flyring::detail
