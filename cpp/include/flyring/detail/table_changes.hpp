// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "flyring/detail/crc32c.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/detail/table_view.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/span.hpp"

// The stores that change a table: put, remove, and the rebuild of the index (spec/table.md 3 to 5 and 7). The caller
// holds the lock of the writer's slot. Numbers in parentheses are sections of spec/table.md; 'write 5' is step 5 of its
// operation write.

namespace flyring::detail {

/// The CRC of a body, which is one of a cell's two places for a value (9). It covers key length, key, seq, value
/// length, and value.
inline std::uint32_t body_crc(const std::byte* key, std::int32_t key_length, std::int64_t seq, const std::byte* value,
                              std::int32_t length) noexcept {
    std::byte number[8];
    put(number, key_length);
    std::uint32_t crc = crc32c(number, sizeof key_length);
    crc = crc32c(key, static_cast<std::size_t>(key_length), crc);
    put(number, seq);
    crc = crc32c(number, sizeof seq, crc);
    put(number, length);
    crc = crc32c(number, sizeof length, crc);
    return length > 0 ? crc32c(value, static_cast<std::size_t>(length), crc) : crc;
}

/// Copies `size` bytes, and stores zero bytes behind them up to a multiple of 8.
inline void copy_padded(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    copy_bytes(to, from, size);
    if (size % 8 != 0) std::memset(to + size, 0, 8 - size % 8);
}

/// Wakes the processes that sleep on these words, if there are any (8; wake and sleep are in spec/channel.md 6.16).
/// `registered` false: the sleepers' membarrier does not reach this process, so a full fence comes first.
inline void wake_pair(const WaitingWords& words, bool registered) noexcept {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (FLYRING_UNLIKELY(!registered)) full_fence();
    if (FLYRING_LIKELY((load_relaxed(words.asleep) & 1) == 0)) return;
    __atomic_fetch_and(words.asleep, ~std::uint32_t{1}, __ATOMIC_RELAXED);  // wake 1
    __atomic_fetch_add(words.sequence, 1, __ATOMIC_RELEASE);                // wake 2; pairs with sleep 1
    wake_sleepers(words.sequence, 1);                                       // wake 3
}

/// The words on which processes sleep while they wait for a change of this cell.
inline WaitingWords waiting_words(std::byte* cell) noexcept {
    return {word_at<std::uint32_t>(cell, layout::TABLE_CELL_SEQUENCE),
            word_at<std::uint32_t>(cell, layout::TABLE_CELL_ASLEEP)};
}

/// Makes the changes of one writer in the mapped file.
class TableChanges {
  public:
    explicit TableChanges(const TableFile& file)
        : view_(file, file.mapping.data(), true),
          slot_(file.slot()),
          checked_(file.header.checked),
          wakes_(file.wakes),
          registered_(file.wakes && register_waker()) {}

    const TableView& view() const noexcept { return view_; }
    bool wakes() const noexcept { return wakes_; }
    void set_epoch(std::int64_t epoch) noexcept { epoch_ = epoch; }
    std::int64_t epoch() const noexcept { return epoch_; }
    /// Throws SlotLost if another writer has taken the slot, so that its epoch has changed. Called before each change
    /// (4).
    [[gnu::always_inline]] inline void check_owner() const {
        if (FLYRING_UNLIKELY(load_relaxed(slot_.epoch()) != epoch_)) throw SlotLost("writer", 0);
    }

    /// The condition of a put: if it does not hold, nothing is stored.
    struct Condition {
        /// The version that the key must have; 0: the key must be absent. Empty: there is no condition.
        std::optional<std::int64_t> version;
    };

    /// Puts a value, and returns the new version; 0 if the condition does not hold. Throws SlotLost, CorruptTable,
    /// NoSpace.
    std::int64_t put(const HashedKey& key, Bytes value, const Condition& condition = {}) {
        check_owner();
        Seen seen;
        const std::uint64_t number = view_.find(key, seen);
        const std::int64_t has = number == no_cell ? 0 : seen.version;
        if (condition.version && *condition.version != has) return 0;
        const std::int64_t version = number == no_cell ? insert(key, value) : update(number, value);
        rebuild();
        return version;
    }
    /// Puts a value into cell `number` if that cell still holds the key. Returns the new version, otherwise 0.
    std::int64_t put_at(std::uint64_t number, const HashedKey& key, Bytes value) {
        check_owner();
        const Seen seen = view_.read_key(number, key, [](const std::byte*, std::size_t) {});
        if (!seen.same_key || !seen.live()) return 0;
        const std::int64_t version = update(number, value);
        rebuild();
        return version;
    }
    /// Removes the key. Returns whether it was there.
    bool remove(const HashedKey& key) {
        check_owner();
        Seen seen;
        const std::uint64_t number = view_.find(key, seen);
        if (number == no_cell) return false;
        remove_at(number, key);
        rebuild();
        return true;
    }

    /// Completes the change that a dead writer left unfinished; takes it back if it was an insert whose key is not live
    /// yet (5.1, take 3 and 4). Returns whether `changed` was behind and was stored. The caller has raised the slot's
    /// epoch before.
    bool finish_intent() {
        const std::uint64_t entry = load_relaxed(intent());
        const std::uint64_t number = entry == 0 ? no_cell : view_.cell_of(entry);
        if (number != no_cell) {
            std::int64_t size = load_relaxed(intent_size());
            if (!is_live(number)) {
                bury(entry);
                const std::uint32_t free = load_relaxed(top());
                if (free != number + 1 && number < view_.fresh()) this->free(number);
                size = wrapping_subtract(size, 1);
            }
            store_relaxed(this->size(), size);
        }
        const std::int64_t last = checked_stamp();
        const bool publish = load_relaxed(view_.changed()) != last;
        compiler_fence();
        if (publish) store_release(view_.changed(), last);
        if (entry != 0) store_release(intent(), std::uint64_t{0});
        return publish;
    }

    /// Words of the control section (2.2). `stamp`: the number of the last change that was begun.
    std::int64_t* stamp() const noexcept { return view_.control<std::int64_t>(layout::TABLE_CONTROL_STAMP); }
    /// How many keys there are.
    std::int64_t* size() const noexcept { return view_.control<std::int64_t>(layout::TABLE_CONTROL_SIZE); }
    /// The cell on top of the stack of free cells, + 1; 0: the stack is empty.
    std::uint32_t* top() const noexcept { return view_.control<std::uint32_t>(layout::TABLE_CONTROL_TOP); }
    /// The first cell that was never used.
    std::uint32_t* fresh() const noexcept { return view_.control<std::uint32_t>(layout::TABLE_CONTROL_FRESH); }
    /// The index entry that the insert or remove under way adds or removes; 0: none is under way.
    std::uint64_t* intent() const noexcept { return view_.control<std::uint64_t>(layout::TABLE_CONTROL_INTENT); }
    /// What `size` becomes if the intent's cell holds a key; without a key it becomes 1 less.
    std::int64_t* intent_size() const noexcept {
        return view_.control<std::int64_t>(layout::TABLE_CONTROL_INTENT_SIZE);
    }
    /// The next step of the rebuild of the index; 0: none is under way.
    std::int64_t* rebuild_word() const noexcept { return view_.control<std::int64_t>(layout::TABLE_CONTROL_REBUILD); }
    /// How many entries of a copy of the index are not empty; tombstones count.
    std::int64_t* filled(std::int64_t generation) const noexcept {
        return view_.control<std::int64_t>((generation & 1) != 0 ? layout::TABLE_CONTROL_FILLED_OTHER
                                                                 : layout::TABLE_CONTROL_FILLED);
    }
    /// Whether a cell holds a key.
    bool is_live(std::uint64_t number) const noexcept {
        const std::int64_t version = load_relaxed(view_.version(number));
        return version > 0 &&
               load_relaxed(word_at<std::int32_t>(view_.body(number, version), layout::TABLE_BODY_LENGTH)) >= 0;
    }
    /// The first cell from `number` on that can be used; the number of cells if there is none.
    std::uint64_t next_usable(std::uint64_t number) const noexcept {
        while (number < view_.cell_count() && !view_.usable(number)) ++number;
        return number;
    }
    /// Puts a cell on top of the stack of free cells (5, remove 4). First clears the seq of its older body. Otherwise a
    /// recovery after a power loss could take that body, and so undo the removal.
    void free(std::uint64_t number) noexcept {
        const std::int64_t other = load_relaxed(view_.version(number)) ^ 1;
        store_relaxed(word_at<std::int64_t>(view_.body(number, other), layout::TABLE_BODY_SEQ), std::int64_t{0});
        compiler_fence();
        store_relaxed(next(number), load_relaxed(top()));
        compiler_fence();
        store_relaxed(top(), static_cast<std::uint32_t>(number + 1));
    }
    /// The cell below this one on the stack of free cells, + 1; 0: none.
    std::uint32_t* next(std::uint64_t number) const noexcept {
        return word_at<std::uint32_t>(view_.cell(number), layout::TABLE_CELL_NEXT);
    }

    /// Removes the key from cell `number`, which holds it (5, remove).
    void remove_at(std::uint64_t number, const HashedKey& key) {
        const std::uint64_t entry = key.entry(number);
        checked_stamp();
        check_top();
        store_relaxed(intent_size(), load_relaxed(size()));
        compiler_fence();
        store_release(intent(), entry);  // remove 1
        compiler_fence();
        write(number, nullptr, {}, layout::TABLE_REMOVED);  // remove 2
        compiler_fence();
        bury(entry);  // remove 3
        compiler_fence();
        free(number);  // remove 4
        tell();
        store_relaxed(size(), wrapping_subtract(load_relaxed(size()), 1));  // remove 5
        compiler_fence();
        store_release(intent(), std::uint64_t{0});
        wake(number);
    }

  private:
    /// The stamp. Throws CorruptTable if it is out of range (10).
    std::int64_t checked_stamp() const {
        const std::int64_t stamp = load_relaxed(this->stamp());
        if (FLYRING_UNLIKELY(stamp < 0 || stamp >= layout::MAX_POSITION - 1)) {
            view_.corrupt(no_cell, "the number of the last change (stamp) is out of range");
        }
        return stamp;
    }
    /// Throws CorruptTable if `top` leads to a cell that cannot be free.
    void check_top() const {
        const std::uint32_t free = load_relaxed(top());
        if (FLYRING_UNLIKELY(free != 0)) check_free(free - std::uint64_t{1}, top_not_free);
    }
    static constexpr const char* top_not_free = "the stack of free cells (top) leads to a cell that is not free";
    static constexpr const char* next_not_free = "the stack of free cells (next) leads to a cell that is not free";
    /// Throws CorruptTable if this cell cannot be free (10). `reason`: top_not_free or next_not_free, by the word that
    /// leads to the cell.
    void check_free(std::uint64_t number, const char* reason) const {
        if (!view_.usable(number) || number >= view_.fresh()) view_.corrupt(no_cell, reason);
        if (is_live(number)) view_.corrupt(number, "it is on the stack of free cells, but holds a key");
    }

    /// Writes a new value into a cell that holds a key. Returns the new version.
    std::int64_t update(std::uint64_t number, Bytes value) {
        checked_stamp();
        const std::int64_t version = write(number, nullptr, value, static_cast<std::int32_t>(value.size()));
        tell();
        wake(number);
        return version;
    }

    /// Puts a key that is not there into a free cell and into the index (5, insert). Returns the new version.
    std::int64_t insert(const HashedKey& key, Bytes value) {
        checked_stamp();
        const std::uint32_t free = load_relaxed(top());
        std::uint64_t number;
        std::uint32_t below = 0;
        if (free != 0) {
            number = free - std::uint64_t{1};
            check_free(number, top_not_free);
            below = load_relaxed(next(number));
            if (below != 0) check_free(below - std::uint64_t{1}, next_not_free);
        } else {
            number = load_relaxed(fresh());
            if (FLYRING_UNLIKELY(number >= view_.cell_count())) throw_full(number);
            if (!view_.usable(number)) view_.corrupt(no_cell, bad_fresh);
            if (is_live(number)) view_.corrupt(number, "it is marked as never used (fresh), but holds a key");
        }
        const std::int64_t generation = load_relaxed(view_.generation());
        const bool both = is_moving();
        std::uint64_t* const place = place_of(key.fingerprint, generation);
        std::uint64_t* const other = both ? place_of(key.fingerprint, generation ^ 1) : nullptr;
        if (place == nullptr || (both && other == nullptr)) view_.corrupt(no_cell, "the index has no empty entry");

        const std::uint64_t entry = key.entry(number);
        const std::int64_t size = wrapping_add(load_relaxed(this->size()), 1);
        store_relaxed(intent_size(), size);
        compiler_fence();
        store_release(intent(), entry);  // insert 1
        compiler_fence();
        if (free != 0) {  // insert 2
            store_relaxed(top(), below);
        } else {
            store_relaxed(fresh(), static_cast<std::uint32_t>(next_usable(number + 1)));
        }
        compiler_fence();
        enter(place, entry, generation);  // insert 3
        if (both) enter(other, entry, generation ^ 1);
        compiler_fence();
        const std::int64_t version = write(number, &key, value, static_cast<std::int32_t>(value.size()));  // insert 4
        tell();
        store_relaxed(this->size(), size);  // insert 5
        compiler_fence();
        store_release(intent(), std::uint64_t{0});
        wake(number);
        return version;
    }
    /// Throws NoSpace, or CorruptTable if `fresh` is out of range.
    [[noreturn, gnu::cold, gnu::noinline]] void throw_full(std::uint64_t fresh) const {
        if (fresh > view_.cell_count()) view_.corrupt(no_cell, bad_fresh);
        const std::string capacity = std::to_string(view_.file().header.capacity);
        throw NoSpace("table " + view_.file().path + " is full: it holds as many keys as its capacity, " + capacity +
                          "; remove keys, or grow it",
                      1, 0);
    }
    static constexpr const char* bad_fresh = "the number of the first unused cell (fresh) is not that of a usable cell";

    /// Writes the body of a cell that its version does not name, then makes it the current one (3, write 1 to 5).
    /// `key`: null, except at an insert. `length`: the value's length, or TABLE_REMOVED. Returns the new version.
    std::int64_t write(std::uint64_t number, const HashedKey* key, Bytes value, std::int32_t length) noexcept {
        std::byte* const cell = view_.cell(number);
        const std::int64_t stamp = load_relaxed(this->stamp()) + 1;
        store_relaxed(this->stamp(), stamp);  // write 1
        compiler_fence();
        const std::int64_t version = stamp << 1 | (1 - (load_relaxed(view_.version(number)) & 1));
        std::byte* const body = view_.body(number, version);
        store_relaxed(word_at<std::int64_t>(body, layout::TABLE_BODY_SEQ), std::int64_t{0});  // write 2
        release_fence();                                                                      // pairs with read 4
        if (key != nullptr) {                                                                 // write 3
            store_relaxed(word_at<std::int32_t>(cell, layout::TABLE_CELL_KEY_LENGTH),
                          static_cast<std::int32_t>(key->size));
            copy_padded(cell + layout::TABLE_CELL_KEY, key->data, key->size);
        }
        if (length > 0) copy_padded(body + layout::TABLE_BODY_VALUE, value.data(), value.size());
        store_relaxed(word_at<std::int32_t>(body, layout::TABLE_BODY_LENGTH), length);
        store_relaxed(word_at<std::uint32_t>(body, layout::TABLE_BODY_CRC), checked_ ? crc_of(cell, version) : 0);
        compiler_fence();
        store_relaxed(word_at<std::int64_t>(body, layout::TABLE_BODY_SEQ), version);  // write 4
        store_release(view_.version(number), version);                                // write 5; pairs with read 1
        return version;
    }
    /// The CRC of the body that was just written. Its lengths are read from the file, so they are bounded here (10).
    std::uint32_t crc_of(const std::byte* cell, std::int64_t version) const noexcept {
        const std::byte* body =
            cell + view_.file().header.body_offset() + ((version & 1) != 0 ? view_.file().header.body_length() : 0);
        const auto most = static_cast<std::int32_t>(view_.file().header.key_bytes);
        const auto key_length = get<std::int32_t>(cell + layout::TABLE_CELL_KEY_LENGTH);
        const auto length = get<std::int32_t>(body + layout::TABLE_BODY_LENGTH);
        return body_crc(cell + layout::TABLE_CELL_KEY, key_length < 0 || key_length > most ? 0 : key_length, version,
                        body + layout::TABLE_BODY_VALUE,
                        std::min(length, static_cast<std::int32_t>(view_.file().header.value_bytes)));
    }

    /// Publishes the change: stores its stamp in `changed` (3, write 6).
    void tell() noexcept {
        compiler_fence();
        store_release(view_.changed(), load_relaxed(stamp()));
        compiler_fence();
    }
    /// Wakes the processes that wait for this cell, then those that wait for the table (8).
    void wake(std::uint64_t number) noexcept {
        if (FLYRING_UNLIKELY(!wakes_)) return;
        wake_pair(waiting_words(view_.cell(number)), registered_);
        wake_pair(view_.file().data(), registered_);
    }

    // --- the index

    /// Whether a rebuild moves entries now (7), so that a change must be made in both copies of the index.
    bool is_moving() const noexcept {
        const std::int64_t step = load_relaxed(rebuild_word());
        const auto entries = static_cast<std::int64_t>(view_.entries());
        return step > entries && step <= 2 * entries + 1;
    }
    /// Where a new entry goes in copy `generation`: the first empty entry or tombstone of its search. Null: there is
    /// none.
    std::uint64_t* place_of(std::uint32_t fingerprint, std::int64_t generation) const noexcept {
        std::uint64_t* const entries = view_.copy(generation);
        std::uint64_t at = view_.home(fingerprint);
        for (std::uint64_t looked = 0; looked < view_.entries(); ++looked, at = view_.after(at)) {
            const std::uint64_t entry = load_relaxed(entries + at);
            if (entry == 0 || entry == layout::TABLE_TOMBSTONE) return entries + at;
        }
        return nullptr;
    }
    /// Stores an entry at this place of copy `generation`. Counts it in `filled` if the place was empty.
    void enter(std::uint64_t* place, std::uint64_t entry, std::int64_t generation) noexcept {
        if (load_relaxed(place) == 0) {
            store_relaxed(filled(generation), wrapping_add(load_relaxed(filled(generation)), 1));
            compiler_fence();
        }
        store_release(place, entry);
    }
    /// Replaces an entry by a tombstone in the current copy of the index. While a rebuild moves entries, also in the
    /// other copy.
    void bury(std::uint64_t entry) noexcept {
        const std::int64_t generation = load_relaxed(view_.generation());
        bury_in(entry, generation);
        if (is_moving()) bury_in(entry, generation ^ 1);
    }
    void bury_in(std::uint64_t entry, std::int64_t generation) noexcept {
        std::uint64_t* const entries = view_.copy(generation);
        std::uint64_t at = view_.home(static_cast<std::uint32_t>(entry >> 32));
        for (std::uint64_t looked = 0; looked < view_.entries(); ++looked, at = view_.after(at)) {
            const std::uint64_t there = load_relaxed(entries + at);
            if (there == 0) return;
            if (there == entry) store_release(entries + at, layout::TABLE_TOMBSTONE);  // pairs with find 2
        }
    }

    /// Does the next few steps of a rebuild of the index, if one is due or under way (7). Called after each change, so
    /// that no single change does a whole rebuild.
    [[gnu::always_inline]] inline void rebuild() {
        const std::int64_t generation = load_relaxed(view_.generation());
        const std::int64_t filled = load_relaxed(this->filled(generation));
        const auto most = static_cast<std::int64_t>(view_.entries() - view_.entries() / 4);
        if (FLYRING_UNLIKELY(filled > most || load_relaxed(rebuild_word()) != 0)) rebuild_steps();
    }
    [[gnu::cold, gnu::noinline]] void rebuild_steps() noexcept {
        const auto entries = static_cast<std::int64_t>(view_.entries());
        for (std::uint64_t step = 0; step < layout::TABLE_REBUILD_STEPS; ++step) {
            const std::int64_t generation = load_relaxed(view_.generation());
            const std::int64_t word = load_relaxed(rebuild_word());
            compiler_fence();
            if (word <= 0 || word > 2 * entries + 1) {
                const std::int64_t used = load_relaxed(filled(generation));
                if (used <= entries - entries / 4) {  // no rebuild is due; a word that is not valid counts as 0 (10)
                    if (word != 0) store_relaxed(rebuild_word(), std::int64_t{0});
                    return;
                }
                release_fence();  // rebuild 0; pairs with find 5
                store_relaxed(filled(generation ^ 1), std::int64_t{0});
                compiler_fence();
                store_relaxed(rebuild_word(), std::int64_t{1});
            } else if (word <= entries) {  // rebuild 1
                store_relaxed(view_.copy(generation ^ 1) + word - 1, std::uint64_t{0});
                compiler_fence();
                store_relaxed(rebuild_word(), word + 1);
            } else if (word <= 2 * entries) {  // rebuild 2
                move(load_relaxed(view_.copy(generation) + word - entries - 1), generation ^ 1);
                compiler_fence();
                store_relaxed(rebuild_word(), word + 1);
            } else {  // rebuild 3
                store_relaxed(rebuild_word(), std::int64_t{0});
                compiler_fence();
                store_release(view_.generation(), wrapping_add(generation, 1));  // pairs with find 1
                return;
            }
        }
    }
    /// Copies an entry into copy `generation` of the index, unless it is there already (7, rebuild 2). Skips entries
    /// that lead to no cell: empty ones, tombstones, and those that are not valid.
    void move(std::uint64_t entry, std::int64_t generation) noexcept {
        if (view_.cell_of(entry) == no_cell) return;
        std::uint64_t* const entries = view_.copy(generation);
        std::uint64_t at = view_.home(static_cast<std::uint32_t>(entry >> 32));
        for (std::uint64_t looked = 0; looked < view_.entries(); ++looked, at = view_.after(at)) {
            const std::uint64_t there = load_relaxed(entries + at);
            if (there == entry) return;
            if (there == 0) return enter(entries + at, entry, generation);
        }
    }

    TableView view_;
    SlotWords slot_;
    std::int64_t epoch_ = 0;
    bool checked_;
    bool wakes_;
    bool registered_;
};

}  // namespace flyring::detail
