// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "flyring/detail/table_changes.hpp"
#include "flyring/detail/table_view.hpp"
#include "flyring/errors.hpp"

// Recovery after a reboot (spec/table.md 9). A power loss leaves a mix of old and new pages on the disk. The crc of
// each body shows whether it is torn. A synced close (mark_clean) makes the recovery unnecessary. Numbers in
// parentheses are sections of spec/table.md; 'write 5' is step 5 of its operation write.

namespace flyring::detail {

/// Recovers a table after a power loss. The caller holds the lock of the writer's slot. Use an object for one run().
class TableRecovery {
  public:
    TableRecovery(const TableFile& file, TableChanges& changes)
        : file_(file),
          changes_(changes),
          view_(changes.view()),
          live_(view_.cell_count()),
          used_(view_.cell_count()),
          most_(load_relaxed(changes.stamp())) {
        if (most_ < 0 || most_ >= layout::MAX_POSITION - 1) most_ = 0;
    }

    /// Checks each cell, makes the index and the stack of free cells from the cells, and stores this boot's id. Calls
    /// `progress` with the numbers of cells checked and of all cells.
    void run(const RecoveryProgress& progress, const Uuid& boot) {
        std::int64_t* const damaged_word = view_.control<std::int64_t>(layout::TABLE_CONTROL_DAMAGED);
        clear_index();
        std::int64_t damaged = 0;
        for (std::uint64_t number = 0; number < view_.cell_count(); ++number) {
            if (progress && number % interval == 0 && number != 0) progress(number, view_.cell_count());
            if (view_.usable(number) && !mend(number)) ++damaged;
        }
        store_relaxed(damaged_word, damaged);
        make_stack();
        // The jump: no version from before the power loss is used again.
        const std::int64_t stamp = most_ + static_cast<std::int64_t>(layout::TABLE_RECOVERY_JUMP);
        if (stamp >= layout::MAX_POSITION - 1) {
            view_.corrupt(no_cell, "the number of the last change (stamp) is too large to go on");
        }
        store_relaxed(changes_.stamp(), stamp);
        store_release(view_.changed(), stamp);
        store_relaxed(changes_.intent(), std::uint64_t{0});
        store_relaxed(changes_.intent_size(), std::int64_t{0});
        file_.sync_control();
        store_boot(file_, boot);
        if (progress) progress(view_.cell_count(), view_.cell_count());
    }

    /// Stores the id of this boot, from which readers conclude that no value is torn. The fence orders it after all
    /// other stores of the recovery.
    static void store_boot(const TableFile& file, const Uuid& boot) noexcept {
        release_fence();
        std::copy(boot.begin(), boot.end(), file.control() + layout::TABLE_CONTROL_BOOT_ID);
    }

  private:
    static constexpr std::uint64_t interval = 65536;  // cells between two reports

    void clear_index() noexcept {
        for (const std::int64_t copy : {0, 1}) {
            std::memset(view_.copy(copy), 0, view_.entries() * sizeof(std::uint64_t));
            store_relaxed(changes_.filled(copy), std::int64_t{0});
        }
        store_relaxed(view_.generation(), std::int64_t{0});
        store_relaxed(changes_.rebuild_word(), std::int64_t{0});
        store_relaxed(changes_.size(), std::int64_t{0});
    }

    std::int64_t* seq(std::uint64_t number, std::int64_t body) const noexcept {
        return word_at<std::int64_t>(view_.body(number, body), layout::TABLE_BODY_SEQ);
    }
    std::int32_t key_length(std::uint64_t number) const noexcept {
        return load_relaxed(word_at<std::int32_t>(view_.cell(number), layout::TABLE_CELL_KEY_LENGTH));
    }

    /// The seq of a body if its fields and its crc are valid, otherwise 0 (recover 1). `body`: 0 or 1.
    std::int64_t good(std::uint64_t number, std::int64_t body) const noexcept {
        const std::byte* at = view_.body(number, body);
        const std::int64_t seq = load_relaxed(this->seq(number, body));
        const std::int32_t length = get<std::int32_t>(at + layout::TABLE_BODY_LENGTH);
        const std::int32_t key = key_length(number);
        if (seq <= 0 || (seq & 1) != body || length < layout::TABLE_REMOVED ||
            length > static_cast<std::int32_t>(file_.header.value_bytes) || key < 0 ||
            key > static_cast<std::int32_t>(file_.header.key_bytes)) {
            return 0;
        }
        const std::uint32_t crc =
            body_crc(view_.cell(number) + layout::TABLE_CELL_KEY, key, seq, at + layout::TABLE_BODY_VALUE, length);
        return crc == get<std::uint32_t>(at + layout::TABLE_BODY_CRC) ? seq : 0;
    }

    /// Mends one cell. Returns false if the cell is damaged: it had a version, but neither body is valid.
    bool mend(std::uint64_t number) {
        const std::int64_t version = load_relaxed(view_.version(number));
        if (version == 0 && load_relaxed(seq(number, 0)) == 0 && load_relaxed(seq(number, 1)) == 0) return true;
        const std::int64_t bodies[] = {good(number, 0), good(number, 1)};
        most_ = std::max(most_, std::max(bodies[0], bodies[1]) >> 1);
        std::int64_t best = 0;
        // recover 2: the body of version if it is valid, otherwise the valid one with the larger seq
        if (version != 0) best = bodies[version & 1] == version ? version : std::max(bodies[0], bodies[1]);
        if (best == 0) {
            drop(number);
            return version == 0;
        }
        store_relaxed(view_.version(number), best);
        used_[number] = true;
        if (changes_.is_live(number)) add(number);
        return true;
    }
    /// Empties a cell: its version and the seq of both bodies become 0.
    void drop(std::uint64_t number) {
        store_relaxed(view_.version(number), std::int64_t{0});
        store_relaxed(seq(number, 0), std::int64_t{0});
        store_relaxed(seq(number, 1), std::int64_t{0});
        used_[number] = live_[number] = false;
    }

    /// Adds a live cell to the index. If two cells hold the same key, keeps the one with the larger version and empties
    /// the other (recover 3).
    void add(std::uint64_t number) {
        const std::int32_t length = key_length(number);
        if (length < 0 || length > static_cast<std::int32_t>(file_.header.key_bytes)) {
            return drop(number);  // a broken process has changed it since `good`
        }
        const HashedKey key(view_.cell(number) + layout::TABLE_CELL_KEY, static_cast<std::size_t>(length));
        std::uint64_t* const entries = view_.copy(0);
        std::uint64_t at = view_.home(key.fingerprint);
        for (std::uint64_t looked = 0; looked < view_.entries(); ++looked, at = view_.after(at)) {
            const std::uint64_t entry = load_relaxed(entries + at);
            if (entry == 0) {
                store_relaxed(entries + at, key.entry(number));
                store_relaxed(changes_.filled(0), load_relaxed(changes_.filled(0)) + 1);
                store_relaxed(changes_.size(), load_relaxed(changes_.size()) + 1);
                live_[number] = true;
                return;
            }
            const std::uint64_t other = view_.cell_of(entry);
            if (entry >> 32 != key.fingerprint || !same_key(other, key)) continue;
            if (load_relaxed(view_.version(other)) > load_relaxed(view_.version(number))) return drop(number);
            drop(other);
            store_relaxed(entries + at, key.entry(number));
            live_[number] = true;
            return;
        }
    }
    bool same_key(std::uint64_t number, const HashedKey& key) const noexcept {
        return static_cast<std::size_t>(key_length(number)) == key.size &&
               same_bytes(view_.cell(number) + layout::TABLE_CELL_KEY, key.data, key.size);
    }

    /// Makes `fresh` and the stack of free cells from the cells. The lowest free cell is on top.
    void make_stack() noexcept {
        std::uint64_t fresh = view_.cell_count();
        while (fresh > 0 && !used_[fresh - 1]) --fresh;
        fresh = changes_.next_usable(fresh);
        store_relaxed(changes_.fresh(), static_cast<std::uint32_t>(fresh));
        store_relaxed(changes_.top(), std::uint32_t{0});
        for (std::uint64_t number = fresh; number-- > 0;) {
            if (view_.usable(number) && !live_[number]) changes_.free(number);
        }
    }

    const TableFile& file_;
    TableChanges& changes_;
    const TableView& view_;
    std::vector<bool> live_;  // of each cell: it holds a key and is in the index
    std::vector<bool> used_;  // of each cell: its version is not 0
    std::int64_t most_;       // the largest stamp that was found
};

/// Makes a table ready for its next writer (5.1, take 2): after a reboot recovers it, unless it is clean, then clears
/// `clean`. The caller holds the lock of the writer's slot. Throws NeedsRecovery if the values have no crc.
inline void take_over_boot(const TableFile& file, TableChanges& changes, const Uuid& boot,
                           const RecoveryProgress& progress) {
    if (!file.is_of_this_boot(boot)) {
        if (file.is_clean()) {
            TableRecovery::store_boot(file, boot);
        } else if (!file.header.checked) {
            file.throw_needs_recovery();
        } else {
            TableRecovery(file, changes).run(progress, boot);
        }
    }
    std::int32_t* clean = word_at<std::int32_t>(file.control(), layout::TABLE_CONTROL_CLEAN);
    if (load_relaxed(clean) != 0) {
        // 1: nothing was changed since a synced close. 2: that mark is being cleared. 0: the table may be changed. The
        // 0 is stored only after the 2 is on the disk. A process that is killed before that leaves the 2, and the next
        // writer syncs it.
        store_relaxed(clean, std::int32_t{2});
        file.sync_control();
        store_relaxed(clean, std::int32_t{0});
    }
}

/// Syncs the file, then marks it as clean (9, close). The caller holds the lock of the writer's slot.
inline void mark_clean(const TableFile& file) {
    file.sync();
    store_relaxed(word_at<std::int32_t>(file.control(), layout::TABLE_CONTROL_CLEAN), std::int32_t{1});
    file.sync_control();
}

}  // namespace flyring::detail
