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
#include <utility>
#include <vector>

#include "flyring/detail/table_changes.hpp"
#include "flyring/detail/table_recover.hpp"
#include "flyring/detail/table_state.hpp"
#include "flyring/errors.hpp"

// A writer that holds the slot of a table, and what ends it: a close and a fork (spec/table.md 5.1).

namespace flyring::detail {

/// The core of a TableWriter, which holds the writer's slot. One thread at a time may use it.
class TableWriterCore {
  public:
    TableWriterCore(std::shared_ptr<TableState> state, const std::string& name, std::chrono::nanoseconds timeout)
        : state_(std::move(state)), name_(name) {
        if (!name.empty()) check_name("name", name);
        check_timeout(timeout);
        state_->check_writable();
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
        pin_.emplace(*state_);
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
        pin_.reset();
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
            AttachedTable& at = pin_.emplace(*state_).file();
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
    std::optional<TableState::Pin> pin_;  // of at_, while the writer is open
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
        check_writable();
        by_own_writer = with_lock([&] {
            return std::any_of(writers_.begin(), writers_.end(), [](auto* writer) { return writer->is_open(); });
        });
        if (!by_own_writer) {
            try {
                with_slot(std::chrono::nanoseconds::zero(), [](AttachedTable& at) { mark_clean(at.file); });
            } catch (const NoFreeSlot&) {
                Pin(*this).file().file.sync();  // another process holds the slot; its synced close marks the file
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
    wake_own_sleepers();
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
