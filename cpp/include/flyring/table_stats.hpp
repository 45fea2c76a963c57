// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "flyring/detail/file.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/table_writer_core.hpp"
#include "flyring/errors.hpp"

namespace flyring {

/// What Table::stats returns. A number in the file that is out of range is given as 0.
struct TableStats {
    std::string path;
    Uuid id{};
    /// How many keys fit.
    std::uint64_t capacity = 0;
    /// How many keys there are.
    std::int64_t size = 0;
    /// The number of the last completed change.
    std::int64_t version = 0;
    /// Entries of one copy of the index.
    std::int64_t entries = 0;
    /// Entries of the current copy that are not empty. Above 3/4 a rebuild begins.
    std::int64_t filled = 0;
    /// 0: no rebuild of the index is under way. Else its next step, 1 to 2 * entries + 1.
    std::int64_t rebuild = 0;
    /// Whether a process holds the writer's slot.
    bool writing = false;
    /// Whether the last TableWriter was closed, and no change was made since.
    bool closed = false;
    /// Whether a writer has died during a change. The next writer completes it.
    bool unfinished = false;
    /// The name of the last TableWriter; may be empty. A single change leaves this name and `pid` as they are.
    std::string writer;
    std::int32_t pid = 0;
    /// When that TableWriter took the writer's slot, in ns since 1970; 0: never.
    std::int64_t attached_at = 0;
    /// How often the writer's slot was taken.
    std::int64_t epoch = 0;
    /// 1: another file has the table's name. 2: the name was removed. 0: neither.
    std::int32_t successor = 0;
    /// Whether the machine was rebooted while the table was not clean. A writer must recover the table before it can be
    /// read.
    bool needs_recovery = false;
    /// Whether nothing was changed since a synced close.
    bool clean = false;
    /// Cells in which the last recovery found no valid value although they had one.
    std::int64_t damaged = 0;
    /// Reads through this object that were Busy.
    std::uint64_t busy = 0;
};

namespace detail {

inline TableStats stats_of(const AttachedTable& at, std::uint64_t busy) {
    const TableFile& file = at.file;
    const TableView& view = at.reader;
    const SlotWords slot = file.slot();
    const auto word = [&](std::uint64_t offset) { return load_acquire(view.control<std::int64_t>(offset)); };
    const auto up_to = [&](std::uint64_t most, std::uint64_t offset) {  // spec/table.md 10
        const std::int64_t number = word(offset);
        return number < 0 || static_cast<std::uint64_t>(number) > most ? 0 : number;
    };
    TableStats stats;
    stats.path = file.path;
    stats.id = file.header.table_id;
    stats.capacity = file.header.capacity;
    stats.size = up_to(file.header.capacity, layout::TABLE_CONTROL_SIZE);
    stats.entries = static_cast<std::int64_t>(view.entries());
    const bool odd = (load_acquire(view.generation()) & 1) != 0;
    stats.filled = up_to(view.entries(), odd ? layout::TABLE_CONTROL_FILLED_OTHER : layout::TABLE_CONTROL_FILLED);
    stats.rebuild = up_to(2 * view.entries() + 1, layout::TABLE_CONTROL_REBUILD);
    SlotFields fields;
    if (!read_fields(slot, fields)) fields = {};
    stats.writer.assign(fields.letters, fields.name_length);
    stats.pid = fields.pid;
    stats.attached_at = load_relaxed(slot.attached_at());
    const std::int64_t epoch = load_acquire(slot.epoch());  // pairs with take 3
    stats.epoch = is_epoch(epoch) ? epoch : 0;
    stats.writing = byte_is_locked(file.fd, file.slot_lock(), file.path);
    stats.closed = !stats.writing && load_relaxed(slot.closed()) != 0;
    stats.version = word(layout::TABLE_CONTROL_CHANGED);
    const bool begun = word(layout::TABLE_CONTROL_INTENT) != 0 || word(layout::TABLE_CONTROL_STAMP) != stats.version;
    // The slot was free when its lock was tested. If the epoch is still the same, no process has taken the slot since.
    stats.unfinished = begun && !stats.writing && load_relaxed(slot.epoch()) == epoch;
    stats.successor = load_relaxed(file.successor());
    stats.clean = file.is_clean();
    stats.needs_recovery = !at.is_whole();
    stats.damaged = up_to(view.cell_count(), layout::TABLE_CONTROL_DAMAGED);
    stats.busy = busy;
    return stats;
}

}  // namespace detail
}  // namespace flyring
