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
#include "flyring/detail/table_changes.hpp"
#include "flyring/detail/table_file.hpp"
#include "flyring/detail/table_recover.hpp"
#include "flyring/detail/table_view.hpp"
#include "flyring/errors.hpp"

// What a Table and the objects made from it share: the attached file, and taking the writer's slot (spec/table.md 5.1).
// Numbers in parentheses are sections of spec/table.md; 'write 5' is step 5 of its operation write.

namespace flyring::detail {

/// One attached file. After grow there are two: threads may still read the old one, which stays mapped until the close.
struct AttachedTable {
    AttachedTable(TableFile attached, const Uuid& current_boot)
        : file(std::move(attached)), reader(file, file.readable.data()), boot(current_boot) {
        if (file.read_only) return;
        changes.emplace(file);
        description = open_description(file.fd, file.path);
    }
    AttachedTable(const AttachedTable&) = delete;
    AttachedTable& operator=(const AttachedTable&) = delete;

    /// Whether the values can be read without a recovery.
    bool is_whole() const noexcept { return file.is_of_this_boot(boot) || file.is_clean(); }
    std::int64_t looked = 0;  // when a reader last looked for another file of its name

    TableFile file;
    TableView reader;
    std::optional<TableChanges> changes;  // for single changes; empty if the table is read-only
    Fd description;                       // holds the lock of the slot during a single change
    Uuid boot;
};

/// Whether at least 1 ms has passed since `looked`, when the caller last looked for another file of the name (7). If
/// so, sets `looked` to now.
[[gnu::cold, gnu::noinline]] inline bool is_time_to_look(std::int64_t& looked) noexcept {
    constexpr std::int64_t interval = 1'000'000;  // ns
    const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (now - load_relaxed(&looked) < interval) return false;
    store_relaxed(&looked, now);
    return true;
}

/// The lock of the writer's slot, held through a file description that stays open. The destructor unlocks.
class HeldSlot {
  public:
    HeldSlot(const Fd& description, std::uint64_t byte) noexcept : description_(&description), byte_(byte) {}
    HeldSlot(HeldSlot&& other) noexcept
        : description_(std::exchange(other.description_, nullptr)), byte_(other.byte_) {}
    HeldSlot& operator=(HeldSlot&&) = delete;
    ~HeldSlot() {
        if (description_ != nullptr) unlock_byte(*description_, byte_);
    }
    /// The destructor does not unlock: another object does.
    void keep() noexcept { description_ = nullptr; }

  private:
    const Fd* description_;
    std::uint64_t byte_;
};

class TableWriterCore;

/// The state that a Table shares with its writers and entries: the attached files, the open writers, and whether the
/// table is closed.
class TableState final : public ForkAware {
  public:
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
        if (FLYRING_LIKELY(load_relaxed(at.file.successor()) == 0) || !is_time_to_look(at.looked)) return at;
        try {
            (void)look_for_successor(at);
        } catch (const Closed&) {
            throw;
        } catch (const FlyringError&) {
            // The larger file cannot be attached now. Go on in this one; a later call looks again.
        }
        return current();
    }
    /// The attached file, without a check.
    AttachedTable& current() const noexcept { return *load_acquire(&current_); }
    /// The attached file, for a change. Throws Closed, AccessDenied.
    AttachedTable& to_write() {
        check_open();
        current().file.check_writable();
        return current();
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
        to_write();
        if (FLYRING_UNLIKELY(load_relaxed(&writer_count_) != 0)) check_no_own_writer();
        const Turn turn(*this, timeout);
        for (;;) {
            AttachedTable& at = to_write();
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
        std::vector<SlotOwner> owners;
        SlotFields fields;
        std::string last;
        if (read_fields(file.slot(), fields)) {
            owners.push_back({0, std::string(fields.letters, fields.name_length), fields.pid});
            if (fields.pid != 0) {
                last = "the last TableWriter was " +
                       (owners[0].name.empty() ? "without a name" : "'" + owners[0].name + "'") + " (pid " +
                       std::to_string(fields.pid) + "); ";
            }
        }
        throw NoFreeSlot(file.path, "writer", 1, std::move(owners),
                         "the writer's slot is taken; " + last +
                             "wait longer, close that writer, or kill its process if it is stopped");
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
        files_.push_back(std::move(next));
        AttachedTable* const at = files_.back().get();
        if (load_relaxed(&why_closed_) != nullptr) {  // another thread has closed the table meanwhile
            at->file.mapping.detach();
            at->file.readable.detach();
            return;
        }
        store_release(&current_, at);
        store_release(&ready_, at->is_whole() ? at : nullptr);
    }
    /// The slow path of to_read.
    [[gnu::cold, gnu::noinline]] AttachedTable& look() {
        AttachedTable& now = to_look_at();
        if (load_acquire(&ready_) == &now) return now;
        if (!now.is_whole()) {
            now.file.throw_needs_recovery();
        }
        acquire_fence();  // pairs with the release of store_boot
        const std::lock_guard<std::mutex> guard(mutex_);
        check_open();
        if (&current() == &now) store_release(&ready_, &now);
        return now;
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
    std::size_t writer_count_ = 0;
    AttachedTable* current_ = nullptr;
    AttachedTable* ready_ = nullptr;  // null: closed, or it needs a recovery
    const char* changing_ = nullptr;  // this_thread() of a single change that is under way
    const char* why_closed_ = nullptr;
    std::uint64_t busy_ = 0;
    Uuid boot_;
    RecoveryProgress progress_;
};

/// The core of a TableWriter, which holds the writer's slot. One thread at a time may use it.
class TableWriterCore {
  public:
    TableWriterCore(std::shared_ptr<TableState> state, const std::string& name, std::chrono::nanoseconds timeout)
        : state_(std::move(state)), name_(name) {
        if (!name.empty()) check_name("name", name);
        check_timeout(timeout);
        state_->to_write();
        state_->with_lock([&] { state_->enter(*this); });
        try {
            take(later(clock_ns(CLOCK_MONOTONIC), timeout.count()));
        } catch (...) {
            lock_.release();
            state_->leave(*this);
            throw;
        }
    }
    TableWriterCore(const TableWriterCore&) = delete;
    TableWriterCore& operator=(const TableWriterCore&) = delete;
    ~TableWriterCore() {
        close();
        state_->leave(*this);
    }

    /// Calls change(changes). Throws Closed, TwoThreads, and ChannelReplaced once.
    template <typename Change>
    [[gnu::always_inline]] inline auto change(Change&& change) {
        const Use use(*this);
        if (FLYRING_UNLIKELY(load_relaxed(at_->file.successor()) != 0)) look_for_successor();
        return change(*changes_);
    }
    /// The same, but calls what(attached file).
    template <typename Do>
    auto with_slot(Do&& what) {
        return change([&](TableChanges& changes) {
            changes.check_owner();
            return what(*at_);
        });
    }

    /// Goes on in the larger file. `lock`: its slot, which the caller has locked.
    void move_to(AttachedTable& grown, SlotLock lock) {
        if (!is_open()) return;  // another thread has closed the writer; `lock` unlocks
        changes_.emplace(grown.file);
        state_->take(grown, *changes_, &name_);
        at_ = &grown;
        lock_ = std::move(lock);  // unlocks the old slot
    }

    /// Closes the writer if a grow failed after it gave the name to the larger file: a change of the old file would be
    /// lost (7).
    void close_if_lost(AttachedTable& old) noexcept {
        if (at_ == &old && load_relaxed(old.file.successor()) != 0) close();
    }

    /// Closes the writer. Throws ViewAlive inside a handler of its own update.
    void close_checked() {
        if (in_handler()) state_->throw_in_handler("closed, nor its writer,");
        close();
    }
    void close() noexcept {
        if (!is_open()) return;
        give_back();
        end("after close");
        lock_.release();
    }
    /// Marks the slot as closed, if it is still this writer's.
    void give_back() noexcept {
        const SlotWords slot = at_->file.slot();
        if (load_relaxed(slot.epoch()) == changes_->epoch()) store_release(slot.closed(), std::int32_t{1});
    }
    void end(const char* why) noexcept { store_relaxed(&why_closed_, why); }
    /// Unlocks the slot. Stores nothing in the file.
    void release() noexcept { lock_.release(); }
    /// For a forked child: closes the writer without unlocking, since the parent holds the lock.
    void abandon(const char* why) noexcept {
        if (is_open()) end(why);
        lock_.abandon();
    }

    /// Whether the writer is open, and so holds the slot.
    bool is_open() const noexcept { return load_relaxed(&why_closed_) == nullptr; }
    /// Whether the calling thread is inside one of its methods.
    bool in_handler() const noexcept { return load_relaxed(&user_) == TableState::this_thread(); }
    const std::string& name() const noexcept { return name_; }
    std::int64_t epoch() const noexcept { return changes_->epoch(); }
    TableState& state() const noexcept { return *state_; }

  private:
    void take(std::int64_t deadline) {
        for (;;) {
            AttachedTable& at = state_->to_write();
            state_->with_lock([&] {  // so that a forked child knows of the description
                lock_ = SlotLock(open_description(at.file.fd, at.file.path), at.file.slot_lock());
            });
            state_->wait_for_slot(at, lock_.description(), deadline);
            if (!state_->may_take(at)) continue;
            changes_.emplace(at.file);
            state_->take(at, *changes_, &name_);
            at_ = &at;
            end(nullptr);
            return;
        }
    }

    /// Marks the writer as used by the calling thread. Throws Closed, TwoThreads; ViewAlive if this thread uses it
    /// already.
    class Use {
      public:
        explicit Use(TableWriterCore& core) : core_(core) {
            const char* why = load_relaxed(&core.why_closed_);
            if (FLYRING_UNLIKELY(why != nullptr)) core.throw_closed(why);
            const char* const user = load_relaxed(&core.user_);
            if (FLYRING_UNLIKELY(user != nullptr)) core.throw_in_use(user);
            store_relaxed(&core.user_, TableState::this_thread());
        }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use() { store_relaxed(&core_.user_, static_cast<const char*>(nullptr)); }

      private:
        TableWriterCore& core_;
    };
    [[noreturn, gnu::cold, gnu::noinline]] void throw_closed(const char* why) const {
        throw Closed("a writer of table " + at_->file.path + " is used " + why);
    }
    [[noreturn, gnu::cold, gnu::noinline]] void throw_in_use(const char* user) const {
        if (user == TableState::this_thread()) state_->throw_in_handler("changed");
        throw TwoThreads("the writer of table " + at_->file.path);
    }
    /// Throws ChannelReplaced if another table has the name, once.
    [[gnu::cold, gnu::noinline]] void look_for_successor() {
        if (told_ || !is_time_to_look(looked_)) return;
        const auto other = state_->look_for_successor(*at_).other;
        if (!other) return;  // the name has not changed, or is gone
        told_ = true;
        throw ChannelReplaced(at_->file.path, *other);
    }

    std::shared_ptr<TableState> state_;
    AttachedTable* at_ = nullptr;
    std::optional<TableChanges> changes_;
    SlotLock lock_;
    std::string name_;
    bool told_ = false;                                  // ChannelReplaced was thrown
    std::int64_t looked_ = 0;                            // when the writer last looked for another table of the name
    const char* user_ = nullptr;                         // this_thread() of a method that is under way
    const char* why_closed_ = "before it has the slot";  // null: it is open
};

inline bool TableState::any_writer_in_handler() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return std::any_of(writers_.begin(), writers_.end(), [](const auto* writer) { return writer->in_handler(); });
}

inline void TableState::check_no_own_writer() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (std::any_of(writers_.begin(), writers_.end(), [](const auto* writer) { return writer->is_open(); })) {
        throw Busy::own_writer(current().file.path);
    }
}

inline void TableState::lost_by_fork() noexcept {
    const char* const why = "in a forked child; open it again there";
    for (TableWriterCore* writer : writers_) writer->abandon(why);
    if (load_relaxed(&why_closed_) != nullptr) return;
    end(why);
    for (const auto& at : files_) {
        at->description.reset();
        at->file.fd.reset();
    }
    detach();
}

inline void TableState::close(bool sync) {
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (load_relaxed(&why_closed_) != nullptr) return;
    }
    if (in_handler()) throw_in_handler("closed");
    bool by_own_writer = false;
    if (sync) {
        to_write();
        by_own_writer = with_lock([&] {
            return std::any_of(writers_.begin(), writers_.end(), [](auto* writer) { return writer->is_open(); });
        });
        if (!by_own_writer) {
            try {
                with_slot(std::chrono::nanoseconds::zero(), [](AttachedTable& at) { mark_clean(at.file); });
            } catch (const NoFreeSlot&) {
                current().file.sync();  // another process holds the slot; its synced close marks the file
            }
        }
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    if (load_relaxed(&why_closed_) != nullptr) return;
    std::vector<TableWriterCore*> open;
    for (TableWriterCore* writer : writers_) {
        if (writer->is_open()) open.push_back(writer);
    }
    for (TableWriterCore* writer : open) {
        writer->give_back();
        writer->end("after close");
    }
    end("after close");
    std::exception_ptr failed;
    try {
        if (by_own_writer) mark_clean(current().file);
    } catch (...) {
        failed = std::current_exception();
    }
    wake_sleepers(current().file.data().sequence, 1);  // without a store: the file may be clean
    // Another thread may be in the middle of a change. It must not reach the file any more when a lock is released.
    detach();
    for (TableWriterCore* writer : writers_) writer->release();
    for (const auto& at : files_) {
        unlock_byte(at->description, at->file.slot_lock());
        at->description.reset();
        at->file.fd.reset();
    }
    if (failed) std::rethrow_exception(failed);
}

}  // namespace flyring::detail
