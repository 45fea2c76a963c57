// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "flyring/detail/table_view.hpp"
#include "flyring/detail/table_writer_core.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"

// Sleeping until a key or the table has changed (spec/table.md 8). Numbers in parentheses are sections of
// spec/table.md; 'write 5' is step 5 of its operation write.

namespace flyring::detail {

/// One wait: spins a little, then sleeps again and again until the deadline.
class TableWait {
  public:
    TableWait(TableState& state, std::chrono::nanoseconds timeout)
        : state_(state), start_(clock_ns(CLOCK_MONOTONIC)), deadline_(later(start_, timeout.count())) {}

    /// Waits until ready(), or until one sleep has ended: then the caller looks again. `cell`: sleeps on the words of
    /// this cell; no_cell: on those of the table. Returns false after the deadline. Throws ChannelReplaced.
    template <typename Ready>
    bool next(AttachedTable& at, std::uint64_t cell, Ready&& ready) {
        if (over_) return false;
        const std::int32_t* const word = at.reader.successor();
        const std::int32_t successor = load_relaxed(word);
        if (successor != 0) {
            const auto now = state_.look_for_successor(at);
            if (now.grown) return true;
            if (now.other) throw ChannelReplaced(at.file.path, *now.other);
        }
        const auto look = [&] { return ready() || load_relaxed(word) != successor || is_over(at); };
        std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        const std::int64_t spin_end = std::min(deadline_, later(start_, default_spin.count()));
        while (now < spin_end) {
            for (int i = 0; i < 16; ++i) {
                if (look()) return true;
                cpu_relax();
            }
            now = clock_ns(CLOCK_MONOTONIC);
        }
        over_ = now >= deadline_;
        if (over_) return ready();
        const TableState::Pin pin(state_);
        if (&pin.file() != &at) return true;
        const bool writable = !at.file.read_only;
        std::byte* const base = writable ? at.file.mapping.data() : at.file.readable.data();
        const WaitingWords words =
            cell == no_cell ? at.file.data() : waiting_words(TableView(at.file, base).cell(cell));
        const TableState::Asleep asleep(state_, words.sequence);
        sleep_once(words, 1, writable, deadline_, look, [&] { return cap(at.file); });
        return true;
    }

  private:
    /// Whether the table is closed, or goes on in another file.
    bool is_over(const AttachedTable& at) const {
        try {
            return state_.has_left(at);
        } catch (const Closed&) {
            return true;
        }
    }
    /// The longest time between two looks (8). It is short if the slot's owner does not wake sleepers: then `wakes` is
    /// not its epoch.
    static std::int64_t cap(const TableFile& file) noexcept {
        const SlotWords slot = file.slot();
        const std::int64_t epoch = load_acquire(slot.epoch());  // pairs with take 3
        const bool owned = is_epoch(epoch) && load_relaxed(slot.closed()) == 0;
        return owned && load_relaxed(slot.wakes()) != epoch ? short_cap : data_cap;
    }

    TableState& state_;
    std::int64_t start_;
    std::int64_t deadline_;
    bool over_ = false;
};

/// Waits until the key's version differs from `version`. With `version` 0, waits until the key exists. Returns the new
/// version, or 0 if the key was removed.
inline std::int64_t wait_for_key(TableState& state, const HashedKey& key, std::int64_t version,
                                 std::chrono::nanoseconds timeout) {
    check_timeout(timeout);
    TableWait wait(state, timeout);
    for (;;) {
        AttachedTable& at = state.to_read();
        Seen seen;
        const std::uint64_t cell = at.reader.find(key, seen);
        if (cell == no_cell && state.has_left(at)) continue;
        const std::int64_t found = cell == no_cell ? 0 : seen.version;
        if (found != version) return found;
        const auto ready = [&] {
            if (cell != no_cell) return load_acquire(at.reader.version(cell)) != version;
            return at.reader.find(key, seen) != no_cell;
        };
        if (!wait.next(at, cell, ready)) {
            throw TimedOut("a change of a key of table " + at.file.path);
        }
    }
}

/// Waits until the number of the table's last change differs from `version`. Returns the new number.
inline std::int64_t wait_for_change(TableState& state, std::int64_t version, std::chrono::nanoseconds timeout) {
    check_timeout(timeout);
    TableWait wait(state, timeout);
    for (;;) {
        AttachedTable& at = state.to_read();
        const std::int64_t now = load_acquire(at.reader.changed());
        if (state.has_left(at)) continue;
        if (now != version) return now;
        if (!wait.next(at, no_cell, [&] { return load_acquire(at.reader.changed()) != version; })) {
            throw TimedOut("a change of table " + at.file.path);
        }
    }
}

}  // namespace flyring::detail
