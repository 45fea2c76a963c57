// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flyring/detail/journal_reader_core.hpp"
#include "flyring/errors.hpp"

// Named consumers (spec/journal.md 6): a reader with a slot, whose gate stays when it goes.

namespace flyring::detail {

/// Throws NoFreeSlot. `only`: the slot that has the wanted name, and an owner; otherwise all slots have names.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_no_consumer_slot(const JournalFile& file,
                                                                          std::optional<std::uint32_t> only) {
    std::vector<SlotOwner> owners;
    std::string names;
    for (std::uint32_t slot = only.value_or(0); slot < (only ? *only + 1 : file.header.consumers); ++slot) {
        SlotFields fields;
        if (!read_fields(file.consumer(slot).slot(), fields)) fields = {};
        std::string name(fields.letters, fields.name_length);
        names += (names.empty() ? "" : ", ") + name;
        if (!is_locked_by_another(file.fd, file.consumer_lock(slot))) continue;
        owners.push_back({slot, std::move(name), fields.pid});
    }
    std::string text = "it has no slot for a consumer";
    if (only) {
        text = "the consumer is in the hand of process " + std::to_string(owners.empty() ? 0 : owners[0].pid) +
               "; close it there, or ask for another name";
    } else if (file.header.consumers != 0) {
        text = "all " + std::to_string(file.header.consumers) + " names of consumers are taken: " + names +
               "; forget one, or make a journal with more";
    }
    throw NoFreeSlot(file.path, "consumer", file.header.consumers, std::move(owners), text);
}

/// The slot that has this name; empty if none has. To be called under the control lock.
inline std::optional<std::uint32_t> consumer_named(const JournalFile& file, const std::string& name) {
    for (std::uint32_t slot = 0; slot < file.header.consumers; ++slot) {
        if (file.consumer(slot).kept() && file.consumer(slot).slot().name() == name) return slot;
    }
    return std::nullopt;
}

class JournalConsumerCore final : public JournalReaderCore {
  public:
    JournalConsumerCore(std::shared_ptr<JournalState> state, const std::string& name, const JournalStart& start,
                        bool skip)
        : JournalReaderCore(std::move(state), false, skip), name_(name) {
        state_->check_open();
        check_name("name", name);
        state_->check_writable();
        file_.check_linked();
        state_->check_whole();
        waker_ = Waker(file_.work(), file_.wakes);
        state_->enter(*this);
        try {
            take(start);
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
    ~JournalConsumerCore() override { state_->leave(*this); }

    /// How many messages are not consumed.
    std::int64_t size() {
        if (!usable()) throw_unusable();
        return std::max<std::int64_t>(wrapping_subtract(load_relaxed(file_.messages()), number_), 0);
    }
    /// Makes the gate durable.
    void sync() {
        check_usable();
        const InUse guard(*this);
        file_.sync_control();
    }
    /// Gives up the name, and closes.
    void forget() {
        check_usable();
        {
            const InUse guard(*this);
            const ControlLock control(lock_.description(), file_.control_lock(), file_.control);
            store_release(words().slot().kept(), std::int32_t{0});
            file_.sync_control();
        }
        close_checked();
    }
    const std::string& name() const noexcept { return name_; }
    std::uint32_t slot() const noexcept override { return slot_; }

    void give_back(bool owned) noexcept override {
        (void)owned;  // the gate stays
        JournalReaderCore::give_back(owned);
    }

  private:
    static constexpr auto gate_every = static_cast<std::int64_t>(layout::JOURNAL_GATE_EVERY);

    ConsumerWords words() const noexcept { return file_.consumer(slot_); }

    void store_gate() override {
        if (cursor_ == stored_ || !usable()) return;
        pair_ = 1 - pair_;  // the one that does not prove the gate
        words().store_gate(pair_, {cursor_, number_, lost_});
        stored_ = cursor_;
        store_due_ = cursor_ + gate_every;
        if (waker_.is_due() && load_relaxed(file_.trim_consumed()) == 1) waker_.wake(waiting_bit(0));
    }
    void note_lost() override { store_gate(); }

    void take(const JournalStart& start) {
        constexpr std::int64_t patience = 10'000'000;  // ns
        state_->with_lock([&] { lock_ = SlotLock(open_description(file_.fd, file_.control), 0); });
        std::int64_t give_up = 0;
        // A new name begins at a place that is walked to before the lock is taken.
        std::optional<JournalCursor> begin;
        for (;;) {
            std::optional<std::uint32_t> only;
            {
                const ControlLock control(lock_.description(), file_.control_lock(), file_.control);
                file_.check_linked();
                state_->check_whole();
                only = consumer_named(file_, name_);
                const bool needs_begin = !only && !begin && start.kind() != JournalStart::Kind::oldest;
                if (!needs_begin && (only ? take_slot(*only) : take_free_slot())) {
                    only ? resume() : join(begin);
                    return;
                }
                if (needs_begin) give_up = -1;
            }
            if (give_up == -1) {
                begin = JournalSeek(file_, false, skip()).to(start);
                give_up = 0;
                continue;
            }
            const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
            if (give_up == 0) give_up = now + patience;
            if (now > give_up) throw_no_consumer_slot(file_, only);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    bool take_slot(std::uint32_t slot) {
        if (!lock_byte(lock_.description(), file_.consumer_lock(slot), file_.control)) return false;
        Fd description = lock_.take();
        lock_ = SlotLock(std::move(description), file_.consumer_lock(slot));
        slot_ = slot;
        return true;
    }
    bool take_free_slot() {
        for (std::uint32_t slot = 0; slot < file_.header.consumers; ++slot) {
            if (!file_.consumer(slot).kept() && take_slot(slot)) return true;
        }
        return false;
    }
    void own() {
        const std::int64_t epoch = words().slot().take(name_, file_.environment, file_.wakes, [] {});
        set_owner(std::move(lock_), words().slot().epoch(), epoch);
    }

    /// A new name (6, join), under the control lock: so no trim passes it.
    void join(const std::optional<JournalCursor>& begin) {
        JournalCursor at;
        if (!begin || begin->position < beginning(file_)) {
            at = JournalSeek(file_, false, skip()).oldest();
            if (begin) at.lost = begin->lost + std::max<std::int64_t>(at.number - begin->number, 0);
        } else {
            at = *begin;
        }
        set_cursor(at);
        own();
        words().store_gate({cursor_, number_, lost_});
        pair_ = words().proves(cursor_);
        stored_ = cursor_;
        store_due_ = cursor_ + gate_every;
        store_release(words().slot().kept(), std::int32_t{1});
        file_.sync_control();
    }

    /// A name that is there (6, resume): at its gate, which is walked to.
    void resume() {
        const std::int64_t gate = load_acquire(words().gate());
        const std::int64_t published = load_acquire(file_.published());
        const std::int64_t claimed = load_acquire(file_.claimed());
        // It may be above published: the writer may have died between a commit and its store of published.
        if (!is_journal_position(gate) || gate > std::max(published, claimed)) {
            file_.corrupt(gate, "the gate of consumer '" + name_ + "' is out of reach");
        }
        const int proves = words().proves(gate);
        const std::optional<JournalPair> pair = proves < 0 ? std::nullopt : words().pair(proves);
        pair_ = proves < 0 ? 1 : proves;
        JournalCursor at;
        if (gate < beginning(file_)) {
            at = JournalSeek(file_, false, skip()).oldest();
            if (pair) at.lost = std::max<std::int64_t>(at.number - pair->count, 0);
        } else {
            try {
                at = JournalSeek(file_, false, false).gate(gate);
            } catch (const InvalidArgument&) {
                file_.corrupt(gate, "the gate of consumer '" + name_ + "' lies within a record");
            } catch (const Damaged&) {
                if (gate > published) {
                    file_.corrupt(gate, "the gate of consumer '" + name_ + "' lies where no record is");
                }
                at = behind_damage(gate, published, pair);
            }
        }
        at.lost = wrapping_add(at.lost, pair ? pair->lost : words().most_lost());
        set_cursor(at);
        own();
        // What was lost meanwhile is stored with its gate, so that it is counted once.
        stored_ = gate;
        store_due_ = cursor_ + gate_every;
        store_gate();
        file_.sync_control();
    }

    /// Where a consumer goes on whose gate lies in what is damaged or missing: behind the next check that is right.
    JournalCursor behind_damage(std::int64_t gate, std::int64_t published, const std::optional<JournalPair>& pair) {
        const std::optional<JournalPlace> place = find_right_check(file_, gate, published);
        const std::int64_t gone = place && pair ? std::max<std::int64_t>(place->count - pair->count, 0) : -1;
        if (!place || !skip()) throw Damaged(file_.path, gate, place ? place->position : published, gone);
        return {place->next, place->count, place->next, place->count, std::max<std::int64_t>(gone, 0)};
    }

    std::string name_;
    std::uint32_t slot_ = 0;
    int pair_ = 0;              // the one that proves the gate
    std::int64_t stored_ = -1;  // the gate
    Waker waker_;
};

/// Removes a consumer's name, which no process may have. Throws InvalidArgument, Busy.
inline void forget_consumer(JournalState& state, const std::string& name) {
    state.check_open();
    check_name("name", name);
    state.check_writable();
    state.check_whole();
    const JournalFile& file = state.file;
    file.check_linked();
    const Fd description = state.with_lock([&] { return open_description(file.fd, file.control); });
    const ControlLock control(description, file.control_lock(), file.control);
    const std::optional<std::uint32_t> slot = consumer_named(file, name);
    if (!slot) throw InvalidArgument("name", "there is no consumer '" + name + "'");
    if (!lock_byte(description, file.consumer_lock(*slot), file.control)) {
        SlotFields fields;
        if (!read_fields(file.consumer(*slot).slot(), fields)) fields = {};
        throw Busy::consumer(file.path, name, fields.pid);
    }
    const SlotGuard guard(description, file.consumer_lock(*slot));
    store_release(file.consumer(*slot).slot().kept(), std::int32_t{0});
    file.sync_control();
}

}  // namespace flyring::detail
