// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "flyring/detail/environment.hpp"
#include "flyring/detail/table_copy.hpp"
#include "flyring/detail/table_file.hpp"
#include "flyring/detail/table_verbs.hpp"
#include "flyring/detail/table_view.hpp"
#include "flyring/detail/table_wait.hpp"
#include "flyring/detail/table_writer_core.hpp"
#include "flyring/errors.hpp"
#include "flyring/options.hpp"
#include "flyring/span.hpp"
#include "flyring/table_entry.hpp"
#include "flyring/table_key.hpp"
#include "flyring/table_options.hpp"
#include "flyring/table_stats.hpp"
#include "flyring/table_writer.hpp"

namespace flyring {

namespace detail {
struct TableInEnvironment;
}

/// A key with its value and version, as for_each passes it to `visit`.
struct TableItem {
    /// The bytes of the key.
    std::string key;
    std::string value;
    std::int64_t version;

    /// The key as a number. Valid only if the table's keys are integers.
    std::int64_t integer() const noexcept {
        std::int64_t number = 0;
        std::memcpy(&number, key.data(), std::min(key.size(), sizeof number));
        return number;
    }
};

/// A map in a memory-mapped file (spec/table.md). It holds the latest value of each key. Any number of processes read
/// it; one process at a time writes. The map stays in the file after all processes have ended. Only the process that
/// holds the writer's slot can change the table: a change takes the slot for itself, a TableWriter keeps it.
/// Thread-safe, unlike the objects made from it.
/// After another table has taken the name, reads go on in this one; changes and waits throw ChannelReplaced.
/// Methods check for errors in this order, and throw the first:
/// - Closed
/// - ViewAlive: a change or a close inside a handler of update
/// - InvalidArgument (key)
/// - MessageTooLarge
/// - AccessDenied: a change, if the table was opened read-only
/// - Busy: a change, while a writer made from this object is open
/// - NoFreeSlot: a change, at its time-out
/// - CorruptTable
/// - NoSpace: a put of a new key into a full table
/// - Busy: a read that was repeated for 1 ms, because a writer kept changing the value
/// - NeedsRecovery: a read after a reboot, until a writer has recovered the table; not if it was closed with `sync`
class Table {
  public:
    /// Creates the table's file and attaches to it. The name appears only when the file is complete. Throws what
    /// Channel::create throws.
    static Table create(const std::string& name, const TableOptions& options) { return create(name, options, {}); }
    /// Attaches to an existing table after full validation. Throws what Channel::open throws.
    static Table open(const std::string& name, const OpenTableOptions& options = {}) { return open(name, options, {}); }
    /// Opens the table, or creates it if there is none. Throws ChannelDiffers if the existing table is not what
    /// `options` ask for; its capacity may be larger, because it may have grown.
    static Table open_or_create(const std::string& name, const TableOptions& options) {
        return open_or_create(name, options, {});
    }
    /// Creates a new, empty table and gives it the name. Processes that have the old table open can still read it.
    /// Their changes and waits throw ChannelReplaced.
    static Table replace(const std::string& name, const TableOptions& options) {
        return Table(detail::create_table(name, options, {}, true), options.recovery_progress);
    }
    /// Opens the table as soon as there is one of that name. Throws TimedOut.
    static Table wait_for(const std::string& name, std::chrono::nanoseconds timeout = forever,
                          const OpenTableOptions& options = {}) {
        detail::check_timeout(timeout);
        const std::int64_t start = detail::clock_ns(CLOCK_MONOTONIC);
        const std::int64_t deadline = detail::later(start, timeout.count());
        for (;;) {
            try {
                return open(name, options);
            } catch (const NoSuchChannel& error) {
                const std::int64_t now = detail::clock_ns(CLOCK_MONOTONIC);
                if (now >= deadline) throw TimedOut("table " + error.path() + " to be created");
                const std::int64_t nap = now - start < 1'000'000'000 ? 1'000'000 : 10'000'000;
                std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(nap, deadline - now)));
            }
        }
    }
    /// Removes the name; attached processes keep working.
    static void unlink(const std::string& name) { detail::unlink_table(name); }
    /// The path of the file that `name` stands for. Throws InvalidArgument.
    static std::string path_of(const std::string& name) { return detail::table_path(name); }

    /// A copy of the value; empty if the key is not there.
    std::optional<std::string> get(const Key& key) const {
        std::string value;
        if (!find(key, [&](const std::byte* at, std::size_t length) { detail::to_string(value, at, length); })) {
            return {};
        }
        return value;
    }
    /// Copies the value into a buffer and returns its length; empty if the key is not there. Throws MessageTooLarge if
    /// the buffer is shorter.
    // Always inlined: a returned std::optional is stored in two parts and loaded as one. The processor cannot
    // forward the two stores to that load, so it waits.
    [[gnu::always_inline]] inline std::optional<std::size_t> get(const Key& key, MutableBytes buffer) const {
        // The slow path passes addresses of its variables to calls, so the compiler keeps these in memory. The usual
        // case has its own, which stay in registers.
        if (FLYRING_LIKELY(key.is_integer())) {
            const detail::AttachedTable& at = state_->to_read();
            const detail::HashedWord hashed = detail::hashed_integer(at.file.header, key);
            std::size_t size = 0;
            std::int64_t version = 0;
            const std::uint64_t cell =
                at.reader.find_undisturbed(hashed, version, [&](const std::byte* value, std::size_t length) {
                    size = length;
                    detail::copy_value(buffer, value, length);
                });
            if (FLYRING_LIKELY(cell < detail::absent && size <= buffer.size())) return size;
            if (FLYRING_LIKELY(cell == detail::absent && !state_->has_left(at))) return {};  // as in find
        }
        return search_and_copy(key, buffer);
    }
    /// A copy of the value with its version; empty if the key is not there.
    std::optional<Versioned> get_versioned(const Key& key) const {
        Versioned found;
        found.version =
            find(key, [&](const std::byte* at, std::size_t length) { detail::to_string(found.value, at, length); });
        if (found.version == 0) return {};
        return found;
    }
    /// Calls handler(Bytes) with the value in place. Returns the handler's result, or empty if the key is not there. If
    /// the handler returns void, returns whether the key is there. The handler may run several times and may see a
    /// half-written value. Only the last call counts; the value that it saw was not torn.
    template <typename Handler>
    detail::InPlaceOf<Handler> read(const Key& key, Handler&& handler) const {
        detail::InPlaceOf<Handler> result{};
        const std::int64_t version = find(
            key, [&](const std::byte* at, std::size_t length) { detail::hand_in_place(handler, at, length, result); });
        if (version == 0) return {};
        return result;
    }
    /// Typed reads; they need flyring/sbe.hpp. `get` calls handler(T& decoder) once, with a copy of the value. `read`
    /// calls it with the value in place, perhaps several times. Both return what the untyped `read` returns. They throw
    /// BadMessage if the value is no message of T, and InvalidArgument (T) if the table's values are messages of
    /// another template.
    template <typename T, typename Handler>
    auto get(const Key& key, Handler&& handler) const;
    template <typename T, typename Handler>
    auto read(const Key& key, Handler&& handler) const;
    /// A handle that remembers where the key lies, so that later reads skip the search; empty if the key is not there.
    std::optional<Entry> entry(const Key& key) const {
        for (;;) {
            detail::AttachedTable& at = state_->to_read();
            const detail::HashedKey hashed = detail::hashed(at.file.header, key);
            detail::Seen seen;
            const std::uint64_t cell = at.reader.find(hashed, seen);
            if (cell != detail::no_cell) return Entry(state_, at, cell, hashed);
            if (!state_->has_left(at)) return {};
        }
    }
    bool contains(const Key& key) const {
        return find(key, [](const std::byte*, std::size_t) {}) != 0;
    }

    /// Puts a value, and returns the new version. Holds the writer's slot for this one change; waits for it up to
    /// `timeout`.
    std::int64_t put(const Key& key, Bytes value, std::chrono::nanoseconds timeout = forever) {
        const detail::HashedKey hashed = to_put(key, value.size());
        return state_->single(timeout, [&](detail::TableChanges& changes) { return changes.put(hashed, value); });
    }
    std::int64_t put(const Key& key, std::string_view value, std::chrono::nanoseconds timeout = forever) {
        return put(key, as_bytes(value), timeout);
    }
    /// Puts the value only if the key is not there. Returns the new version, or 0 if the key was there.
    std::int64_t put_if_absent(const Key& key, Bytes value, std::chrono::nanoseconds timeout = forever) {
        return compare_and_put(key, 0, value, timeout);
    }
    std::int64_t put_if_absent(const Key& key, std::string_view value, std::chrono::nanoseconds timeout = forever) {
        return put_if_absent(key, as_bytes(value), timeout);
    }
    /// Puts the value only if the key has this version; 0 means that the key must be absent. Returns the new version,
    /// or 0 if nothing was put.
    std::int64_t compare_and_put(const Key& key, std::int64_t version, Bytes value,
                                 std::chrono::nanoseconds timeout = forever) {
        const detail::HashedKey hashed = to_put(key, value.size());
        return state_->single(timeout,
                              [&](detail::TableChanges& changes) { return changes.put(hashed, value, {version}); });
    }
    std::int64_t compare_and_put(const Key& key, std::int64_t version, std::string_view value,
                                 std::chrono::nanoseconds timeout = forever) {
        return compare_and_put(key, version, as_bytes(value), timeout);
    }
    /// Removes the key. Returns whether it was there.
    bool remove(const Key& key, std::chrono::nanoseconds timeout = forever) {
        state_->check_change();
        const detail::HashedKey hashed = detail::hashed(header(), key);
        return state_->single(timeout, [&](detail::TableChanges& changes) { return changes.remove(hashed); });
    }
    /// As TableWriter::update. The handler runs while the writer's slot is held; it must not change or close this
    /// table.
    template <typename Handler>
    std::int64_t update(const Key& key, Handler&& handler, std::chrono::nanoseconds timeout = forever) {
        state_->check_change();
        const detail::HashedKey hashed = detail::hashed(header(), key);
        return state_->single(timeout, [&](detail::TableChanges& changes) {
            return detail::update_value(changes, header(), hashed, handler);
        });
    }
    /// Typed changes; they need flyring/sbe.hpp. `put` calls handler(T& encoder), which writes the value. `update`
    /// calls handler(T& flyweight) with a copy of the value; the handler changes fields, then the copy is put.
    template <typename T, typename Handler>
    std::int64_t put(const Key& key, Handler&& handler, std::chrono::nanoseconds timeout = forever);
    template <typename T, typename Handler>
    std::int64_t update(const Key& key, Handler&& handler, std::chrono::nanoseconds timeout = forever);
    /// Removes all keys, one after the other. Returns how many it removed.
    std::uint64_t clear(std::chrono::nanoseconds timeout = forever) {
        state_->check_change();
        return state_->single(timeout, [](detail::TableChanges& changes) { return detail::clear_keys(changes); });
    }
    /// Takes the writer's slot until the TableWriter is closed; waits for it up to `timeout`. Meanwhile changes of
    /// other Table objects wait for the slot. Those of this object throw Busy: call the TableWriter's methods instead.
    TableWriter writer(const std::string& name = "",
                       std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        state_->check_change();
        state_->check_writable();
        return TableWriter(std::make_unique<detail::TableWriterCore>(state_, name, timeout));
    }

    /// How many keys there are.
    std::uint64_t size() const {
        const std::int64_t size = load_word(
            [](const detail::TableView& view) { return view.control<std::int64_t>(layout::TABLE_CONTROL_SIZE); });
        return size < 0 ? 0 : static_cast<std::uint64_t>(size);
    }
    /// The number of the last change that was completed.
    std::int64_t version() const {
        return load_word([](const detail::TableView& view) { return view.changed(); });
    }

    /// Calls visit(const TableItem&) for each key. A key that is there during the whole call is passed to `visit`
    /// exactly once. A key that is put or removed meanwhile may or may not be passed.
    template <typename Visit>
    void for_each(Visit&& visit) const {
        const detail::TableState::Pin pin = state_->pin_to_read();
        const detail::AttachedTable& at = pin.file();
        TableItem item;
        const std::uint64_t end = at.reader.fresh();
        for (std::uint64_t cell = 0; cell < end; ++cell) {
            if (!at.reader.usable(cell) ||
                !counted([&] { return at.reader.read_any(cell, item.key, item.value, item.version); })) {
                continue;
            }
            visit(static_cast<const TableItem&>(item));
        }
        state_->check_open();
    }

    /// Waits until the key's version differs from `version`. With `version` 0, waits until the key exists. Returns the
    /// new version, or 0 if the key was removed. Throws TimedOut, ChannelReplaced.
    std::int64_t wait_changed(const Key& key, std::int64_t version, std::chrono::nanoseconds timeout = forever) const {
        return detail::wait_for_key(*state_, detail::hashed(state_->to_read().file.header, key), version, timeout);
    }
    /// Waits until version() differs from `version`. Returns the new one. Throws TimedOut, ChannelReplaced.
    std::int64_t wait_changed(std::int64_t version, std::chrono::nanoseconds timeout = forever) const {
        return detail::wait_for_change(*state_, version, timeout);
    }

    /// Writes a full copy of the table to a temporary file in the same folder, syncs it, and renames it to `path` (a
    /// name or a path). So the copy is complete after any power loss. If another process writes meanwhile, no value is
    /// torn, but the values may be of different moments; TableWriter::snapshot copies those of one moment. Returns the
    /// number of keys in the copy. Throws InvalidArgument if `path` is this table's own, NoSpace.
    std::uint64_t snapshot(const std::string& path) const {
        const detail::TableState::Pin pin = state_->pin_to_read();
        return counted([&] { return detail::snapshot_table(pin.file().reader, path); });
    }
    /// Copies the table into a larger file, which takes the name; keys keep their versions. Processes that have the
    /// table open go on in the larger file, at their next read, wait or change, and let the old one go. Waits for the
    /// writer's slot up to `timeout`. Throws InvalidArgument (capacity) if `capacity` is below the present one,
    /// NoFreeSlot, NoSpace.
    void grow(std::uint64_t capacity, std::chrono::nanoseconds timeout = forever) {
        state_->check_change();
        state_->with_slot(timeout, [&](detail::AttachedTable& at) {
            detail::check_grow(at.file, capacity);
            detail::grow_table(*state_, at, capacity, [](detail::AttachedTable& grown) {
                // A description of its own: another thread may let that of the file go once this is unlocked.
                detail::Fd description = detail::open_description(grown.file.fd, grown.file.path);
                (void)detail::lock_byte(description, grown.file.slot_lock(), grown.file.path);
                return detail::SlotLock(std::move(description), grown.file.slot_lock());
            });
        });
    }
    /// Writes all changes to the disk.
    void sync() {
        state_->check_writable();
        detail::TableState::Pin(*state_).file().file.sync();
    }
    /// Statistics of the table. Takes no lock and writes nothing. Also works for a table that needs recovery.
    TableStats stats() const {
        state_->to_look_at();
        return detail::stats_of(detail::TableState::Pin(*state_).file(), state_->busy());
    }

    const std::string& path() const noexcept { return state_->current().file.path; }
    const Uuid& id() const noexcept { return header().table_id; }
    std::uint64_t capacity() const noexcept { return header().capacity; }
    KeyType key_type() const noexcept { return header().key_type; }
    std::uint32_t key_bytes() const noexcept { return header().key_bytes; }
    std::uint32_t value_bytes() const noexcept { return header().value_bytes; }
    bool checked() const noexcept { return header().checked; }
    std::int64_t created_at() const noexcept { return header().created_at; }
    const std::string& schema() const noexcept { return state_->current().file.schema; }
    std::uint32_t schema_id() const noexcept { return header().schema_id; }
    std::uint32_t schema_version() const noexcept { return header().schema_version; }
    std::uint32_t value_template() const noexcept { return header().value_template; }
    std::uint64_t file_length() const noexcept { return state_->current().file.length; }
    bool read_only() const noexcept { return state_->current().file.read_only; }

    /// Closes the table and its writers. `sync`: first syncs the file and marks it as clean, so that no recovery is
    /// needed after a reboot. If another process holds the writer's slot, this call syncs but does not mark the file;
    /// the synced close of that process does.
    void close(bool sync = false) { state_->close(sync); }

  private:
    friend struct detail::TableInEnvironment;

    Table(detail::TableFile file, RecoveryProgress progress)
        : state_(std::make_shared<detail::TableState>(std::move(file), std::move(progress))) {}

    static Table create(const std::string& name, const TableOptions& options, const detail::Environment& environment) {
        return Table(detail::create_table(name, options, environment, false), options.recovery_progress);
    }
    static Table open(const std::string& name, const OpenTableOptions& options,
                      const detail::Environment& environment) {
        if (options.min_schema_version > 65535) {
            throw InvalidArgument("min_schema_version", "it must be 0 to 65535");
        }
        Table table(detail::open_table(name, options, environment), options.recovery_progress);
        table.check_schema(options);
        return table;
    }
    static Table open_or_create(const std::string& name, const TableOptions& options,
                                const detail::Environment& environment) {
        detail::check_options(options);
        for (;;) {
            try {
                OpenTableOptions opening;
                opening.any_file_system = options.any_file_system;
                opening.wake = options.wake;
                opening.recovery_progress = options.recovery_progress;
                Table table = open(name, opening, environment);
                table.compare(options);
                return table;
            } catch (const NoSuchChannel&) {
                // Create it below; another process may be faster.
            }
            try {
                return create(name, options, environment);
            } catch (const ChannelExists&) {
                // Another process was faster: open its table.
            }
        }
    }

    /// Throws ChannelDiffers if the table's schema is not the required one.
    void check_schema(const OpenTableOptions& required) const {
        const auto differs = [this](const char* field, std::uint32_t expected, const std::string& actual) {
            throw ChannelDiffers(path(), field, std::to_string(expected), actual);
        };
        if (required.schema && schema().empty()) differs("schema", required.schema->id, "none");
        if (required.schema && schema_id() != required.schema->id) {
            differs("schema_id", required.schema->id, std::to_string(schema_id()));
        }
        if (schema_version() < required.min_schema_version) {
            differs("schema_version", required.min_schema_version, std::to_string(schema_version()));
        }
    }
    /// Throws ChannelDiffers, with the first field that differs, if the table is not what `asked` describes.
    void compare(const TableOptions& asked) const {
        // Both throw ChannelDiffers unless the two are equal.
        const auto require_equal = [this](const char* field, const std::string& expected, const std::string& actual) {
            if (expected != actual) throw ChannelDiffers(path(), field, expected, actual);
        };
        const auto require_equal_number = [&](const char* field, std::uint64_t expected, std::uint64_t actual) {
            require_equal(field, std::to_string(expected), std::to_string(actual));
        };
        const detail::TableHeader wanted = detail::check_options(asked);
        require_equal("key_type", detail::key_type_name(wanted.key_type), detail::key_type_name(key_type()));
        require_equal_number("key_bytes", wanted.key_bytes, key_bytes());
        require_equal_number("value_bytes", wanted.value_bytes, value_bytes());
        if (capacity() < wanted.capacity) require_equal_number("capacity", wanted.capacity, capacity());
        if (asked.checked) {
            require_equal("checked", *asked.checked ? "true" : "false", checked() ? "true" : "false");
        }
        require_equal_number("schema_id", wanted.schema_id, schema_id());
        if (schema_version() < wanted.schema_version) {
            require_equal_number("schema_version", wanted.schema_version, schema_version());
        }
    }

    const detail::TableHeader& header() const noexcept { return state_->current().file.header; }
    /// The hashed key, after the checks that a put needs.
    detail::HashedKey to_put(const Key& key, std::size_t value_size) const {
        state_->check_change();
        return detail::to_put(header(), key, value_size);
    }
    /// Calls read(). If it throws Busy, counts that for stats() and throws it again.
    template <typename Read>
    std::invoke_result_t<Read&> counted(Read&& read) const {
        try {
            return read();
        } catch (const Busy&) {
            state_->count_busy();
            throw;
        }
    }
    /// The same as get, with all steps of a find.
    [[gnu::noinline]] std::optional<std::size_t> search_and_copy(Key key, MutableBytes buffer) const {
        std::size_t size = 0;
        const std::int64_t version = find(key, [&](const std::byte* at, std::size_t length) {
            size = length;
            detail::copy_value(buffer, at, length);
        });
        if (version == 0) return {};
        if (FLYRING_UNLIKELY(size > buffer.size())) throw MessageTooLarge("a value", size, buffer.size());
        return size;
    }
    /// Looks the key up and calls take(value, length) with its value in place, as TableView::read_key does. Returns the
    /// key's version, or 0 if the key is not there.
    template <typename Take>
    [[gnu::always_inline]] inline std::int64_t find(const Key& key, Take&& take) const {
        for (;;) {
            detail::AttachedTable& at = state_->to_read();
            try {
                detail::Seen seen;
                if (FLYRING_LIKELY(key.is_integer())) {
                    const detail::HashedWord hashed = detail::hashed_integer(at.file.header, key);
                    if (FLYRING_LIKELY(at.reader.find(hashed, seen, take) != detail::no_cell)) return seen.version;
                } else {
                    const detail::HashedKey hashed = detail::hashed(at.file.header, key);
                    if (FLYRING_LIKELY(at.reader.find(hashed, seen, take) != detail::no_cell)) return seen.version;
                }
            } catch (const Busy&) {
                state_->count_busy();
                throw;
            }
            // A close or a grow by another thread puts zeros in the place of the mapping: the key may only look absent.
            if (FLYRING_LIKELY(!state_->has_left(at))) return 0;
        }
    }
    /// Loads a word of the table; `word` returns its address.
    template <typename Word>
    std::int64_t load_word(Word&& word) const {
        for (;;) {
            detail::AttachedTable& at = state_->to_read();
            const std::int64_t value = detail::load_acquire(word(at.reader));
            if (!state_->has_left(at)) return value;  // else they may be zeros
        }
    }

    std::shared_ptr<detail::TableState> state_;
};

namespace detail {

/// Creates and opens tables with injected values; for tests.
struct TableInEnvironment {
    Environment environment;

    Table create(const std::string& name, const TableOptions& options) const {
        return Table::create(name, options, environment);
    }
    Table open(const std::string& name, const OpenTableOptions& options = {}) const {
        return Table::open(name, options, environment);
    }
    Table open_or_create(const std::string& name, const TableOptions& options) const {
        return Table::open_or_create(name, options, environment);
    }
};

}  // namespace detail
}  // namespace flyring
