// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "flyring/detail/table_changes.hpp"
#include "flyring/detail/table_file.hpp"
#include "flyring/detail/table_view.hpp"
#include "flyring/detail/table_writer_core.hpp"

// Full copies of a table: a snapshot, and the larger file of grow (spec/table.md 7, 9). Numbers in parentheses are
// sections of spec/table.md; 'write 5' is step 5 of its operation write.

namespace flyring::detail {

/// Fills a new table's file with keys. No other process can open the file yet, so plain stores are enough.
class TableBuilder {
  public:
    explicit TableBuilder(const TableFile& file) : file_(file), changes_(file), view_(changes_.view()) {}

    /// Adds a key with its version. If the key was added before, keeps the later version. (A copy finds a key in two
    /// cells if it is removed and put again meanwhile.)
    void add(const std::string& key, const std::string& value, std::int64_t version) {
        const HashedKey hashed(reinterpret_cast<const std::byte*>(key.data()), key.size());
        std::uint64_t* const entries = view_.copy(0);
        std::uint64_t at = view_.home(hashed.fingerprint);
        for (;; at = view_.after(at)) {
            const std::uint64_t entry = entries[at];
            if (entry == 0) break;
            if (entry >> 32 != hashed.fingerprint) continue;
            const std::uint64_t number = view_.cell_of(entry);
            if (!has_key(number, key)) continue;
            if (*view_.version(number) < version) fill(number, key, value, version);
            return;
        }
        if (fresh_ >= view_.cell_count()) throw_no_room();
        fill(fresh_, key, value, version);
        entries[at] = hashed.entry(fresh_);
        fresh_ = changes_.next_usable(fresh_ + 1);
        ++size_;
    }

    /// Stores the control words. `stamp`: that of the copied table. Returns the number of keys.
    std::uint64_t finish(std::int64_t stamp) {
        store_relaxed(changes_.stamp(), stamp);
        store_relaxed(view_.changed(), stamp);
        store_relaxed(changes_.size(), static_cast<std::int64_t>(size_));
        store_relaxed(changes_.fresh(), static_cast<std::uint32_t>(fresh_));
        store_relaxed(changes_.filled(0), static_cast<std::int64_t>(size_));
        return size_;
    }

  private:
    bool has_key(std::uint64_t number, const std::string& key) const noexcept {
        const std::byte* cell = view_.cell(number);
        return get<std::int32_t>(cell + layout::TABLE_CELL_KEY_LENGTH) == static_cast<std::int32_t>(key.size()) &&
               std::memcmp(cell + layout::TABLE_CELL_KEY, key.data(), key.size()) == 0;
    }
    /// Writes one cell: key, value, version and crc.
    void fill(std::uint64_t number, const std::string& key, const std::string& value, std::int64_t version) {
        std::byte* const cell = view_.cell(number);
        std::byte* const body = view_.body(number, version);
        const auto key_length = static_cast<std::int32_t>(key.size());
        const auto length = static_cast<std::int32_t>(value.size());
        std::memset(cell, 0, file_.header.cell_stride());
        put(cell + layout::TABLE_CELL_VERSION, version);
        put(cell + layout::TABLE_CELL_KEY_LENGTH, key_length);
        std::memcpy(cell + layout::TABLE_CELL_KEY, key.data(), key.size());
        put(body + layout::TABLE_BODY_SEQ, version);
        put(body + layout::TABLE_BODY_LENGTH, length);
        std::memcpy(body + layout::TABLE_BODY_VALUE, value.data(), value.size());
        if (file_.header.checked) {
            put(body + layout::TABLE_BODY_CRC,
                body_crc(cell + layout::TABLE_CELL_KEY, key_length, version, body + layout::TABLE_BODY_VALUE, length));
        }
    }
    [[noreturn]] void throw_no_room() const {
        throw NoSpace("the copy " + file_.path + " has no room for all keys of the table; give it a larger capacity",
                      size_ + 1, file_.header.capacity);
    }

    const TableFile& file_;
    TableChanges changes_;
    const TableView& view_;
    std::uint64_t fresh_ = 0;
    std::uint64_t size_ = 0;
};

/// Copies all keys and values into a new file. Returns the number of keys.
inline std::uint64_t copy_keys(const TableView& from, const TableFile& to) {
    TableBuilder builder(to);
    std::string key;
    std::string value;
    std::int64_t version = 0;
    const std::uint64_t end = from.fresh();
    for (std::uint64_t number = 0; number < end; ++number) {
        if (from.usable(number) && from.read_any(number, key, value, version)) builder.add(key, value, version);
    }
    acquire_fence();  // pairs with write 5: the stamp loaded next is at least that of each copied version
    return builder.finish(load_relaxed(from.control<std::int64_t>(layout::TABLE_CONTROL_STAMP)));
}

/// Makes a new file with the header and schema of `file`, but with this path and capacity. `same_table` true: the file
/// is this table, with its id and creation time (grow). False: it is a table of its own (snapshot).
inline std::unique_ptr<NewTable> new_like(const TableFile& file, const std::string& path, std::uint64_t capacity,
                                          bool same_table) {
    TableOptions options;
    options.schema = file.schema;
    options.any_file_system = true;
    options.wake = file.wakes;
    if (same_table) options.checked = file.header.checked;
    struct stat status{};
    if (::fstat(file.fd.get(), &status) != 0) throw_errno("fstat", file.path);
    options.mode = status.st_mode & 0777;
    TableHeader header = file.header;
    header.capacity = capacity;
    return std::make_unique<NewTable>(path, header, options, file.environment, same_table);
}

/// Writes a full copy of the table to `name`, a name or a path, and returns the number of keys (9).
inline std::uint64_t snapshot_table(const TableView& from, const std::string& name) {
    const std::string path = table_path(name);
    const std::optional<TableHeader> there = table_at(path);
    if (there && there->table_id == from.file().header.table_id) {
        throw InvalidArgument("path", "it is the table itself; give the copy another name");
    }
    const std::unique_ptr<NewTable> made = new_like(from.file(), path, from.file().header.capacity, false);
    const std::uint64_t keys = copy_keys(from, made->file);
    mark_clean(made->file);
    {
        // Tells the processes that have an older snapshot of this name open that another file takes the name.
        const TableSuccessor successor(name, layout::SUCCESSOR_REPLACED);
        made->replace();
    }
    sync_folder(made->file.path);
    return keys;
}

/// Throws InvalidArgument if the table cannot have this capacity. Throws ChannelReplaced or NoSuchChannel if the file
/// has lost its name: the larger file would take that of another table, or bring back one that was removed (7).
[[gnu::cold, gnu::noinline]] inline void check_grow(const TableFile& old, std::uint64_t capacity) {
    if (capacity < old.header.capacity || capacity > layout::TABLE_MAX_CAPACITY) {
        throw InvalidArgument("capacity", "it is " + std::to_string(capacity) + ", but must be " +
                                              std::to_string(old.header.capacity) +
                                              " (the present capacity) to 1073741824");
    }
    const TableLook look = look_at_name(old);
    if (look.now) throw ChannelReplaced(old.path, look.now->table_id);
    if (!look.named) throw NoSuchChannel(old.path);
}
/// Copies the table into a larger file, which takes the table's name (7). The caller holds the slot of the old file,
/// and has called check_grow. take_slot(grown) takes the slot of the larger file, before the file has the name. What it
/// returns is kept while the table grows, and never longer than the file.
template <typename TakeSlot>
void grow_table(TableState& state, AttachedTable& old, std::uint64_t capacity, TakeSlot&& take_slot) {
    const std::unique_ptr<NewTable> made = new_like(old.file, old.file.path, capacity, true);
    copy_keys(old.changes->view(), made->file);
    made->file.sync();
    auto grown = std::make_unique<AttachedTable>(std::move(made->file), old.boot);
    AttachedTable& at = *grown;
    [[maybe_unused]] const auto held = take_slot(at);
    store_relaxed(old.file.successor(), layout::SUCCESSOR_REPLACED);
    try {
        made->replace();
    } catch (...) {
        store_relaxed(old.file.successor(), std::int32_t{0});
        throw;
    }
    state.adopt_grown(std::move(grown));
    wake_all(old.file.data());
    sync_folder(at.file.path);
}

}  // namespace flyring::detail
