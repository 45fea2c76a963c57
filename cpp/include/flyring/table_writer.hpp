// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "flyring/detail/table_copy.hpp"
#include "flyring/detail/table_verbs.hpp"
#include "flyring/detail/table_writer_core.hpp"
#include "flyring/errors.hpp"
#include "flyring/span.hpp"
#include "flyring/table_entry.hpp"
#include "flyring/table_key.hpp"

namespace flyring {

/// Holds the writer's slot of a table until it is closed; made by Table::writer, for feeds. One thread at a time may
/// use it. Each method throws Closed, TwoThreads, ViewAlive (inside a handler of its update), InvalidArgument (key),
/// MessageTooLarge, SlotLost, CorruptTable; a put of a new key also NoSpace. After another table has taken the name,
/// the next change throws ChannelReplaced, once.
class TableWriter {
  public:
    TableWriter(TableWriter&&) noexcept = default;
    TableWriter& operator=(TableWriter&&) noexcept = default;

    /// Puts a value, and returns the new version.
    std::int64_t put(const Key& key, Bytes value) {
        return core_->change([&](detail::TableChanges& changes) {
            return changes.put(detail::to_put(header(changes), key, value.size()), value);
        });
    }
    std::int64_t put(const Key& key, std::string_view value) { return put(key, as_bytes(value)); }
    /// Puts the value of the entry's key. Needs no search if the key still lies where the entry remembers it.
    std::int64_t put(Entry& entry, Bytes value) {
        return core_->change([&](detail::TableChanges& changes) {
            const Key key(std::string_view(*entry.bytes_));
            if (value.size() > header(changes).value_bytes) {
                throw MessageTooLarge("a value", value.size(), header(changes).value_bytes);
            }
            if (&entry.at_->file == &changes.view().file()) {
                const std::int64_t version = changes.put_at(entry.cell_, entry.key_, value);
                if (version != 0) return version;
            }
            return changes.put(entry.key_, value);
        });
    }
    std::int64_t put(Entry& entry, std::string_view value) { return put(entry, as_bytes(value)); }
    /// Puts the value only if the key is not there. Returns the new version, or 0 if the key was there.
    std::int64_t put_if_absent(const Key& key, Bytes value) { return compare_and_put(key, 0, value); }
    std::int64_t put_if_absent(const Key& key, std::string_view value) { return put_if_absent(key, as_bytes(value)); }
    /// Puts the value only if the key has this version; 0 means that the key must be absent. Returns the new version,
    /// or 0 if nothing was put.
    std::int64_t compare_and_put(const Key& key, std::int64_t version, Bytes value) {
        return core_->change([&](detail::TableChanges& changes) {
            return changes.put(detail::to_put(header(changes), key, value.size()), value, {version});
        });
    }
    std::int64_t compare_and_put(const Key& key, std::int64_t version, std::string_view value) {
        return compare_and_put(key, version, as_bytes(value));
    }
    /// Removes the key. Returns whether it was there.
    bool remove(const Key& key) {
        return core_->change(
            [&](detail::TableChanges& changes) { return changes.remove(detail::hashed(header(changes), key)); });
    }
    /// Calls handler(std::string& value) with a copy of the value, then puts the changed copy. Returns the new version,
    /// or 0 if the key is not there. If the handler throws, nothing is put.
    template <typename Handler>
    std::int64_t update(const Key& key, Handler&& handler) {
        return core_->change([&](detail::TableChanges& changes) {
            return detail::update_value(changes, header(changes), detail::hashed(header(changes), key), handler);
        });
    }
    /// Typed changes; they need flyring/sbe.hpp. `put` calls handler(T& encoder), which writes the value. `update`
    /// calls handler(T& flyweight) with a copy of the value; the handler changes fields, then the copy is put.
    template <typename T, typename Handler>
    std::int64_t put(const Key& key, Handler&& handler);
    template <typename T, typename Handler>
    std::int64_t put(Entry& entry, Handler&& handler);
    template <typename T, typename Handler>
    std::int64_t update(const Key& key, Handler&& handler);
    /// Removes all keys, one after the other. Returns how many it removed.
    std::uint64_t clear() {
        return core_->change([](detail::TableChanges& changes) { return detail::clear_keys(changes); });
    }
    /// As Table::snapshot, but all values are of one moment.
    std::uint64_t snapshot(const std::string& path) {
        return core_->with_slot(
            [&](detail::AttachedTable& at) { return detail::snapshot_table(at.changes->view(), path); });
    }
    /// As Table::grow. If it fails after the larger file has taken the name, this writer is closed.
    void grow(std::uint64_t capacity) {
        core_->with_slot([&](detail::AttachedTable& at) {
            detail::check_grow(at.file, capacity);
            detail::SlotLock lock;
            detail::AttachedTable* larger = nullptr;
            try {
                detail::grow_table(core_->state(), at, capacity, [&](detail::AttachedTable& grown) {
                    detail::Fd description = detail::open_description(grown.file.fd, grown.file.path);
                    (void)detail::lock_byte(description, grown.file.slot_lock(), grown.file.path);
                    lock = detail::SlotLock(std::move(description), grown.file.slot_lock());
                    return larger = &grown;
                });
                core_->move_to(*larger, std::move(lock));
            } catch (...) {
                core_->close_if_lost(at);
                throw;
            }
        });
    }

    const std::string& name() const noexcept { return core_->name(); }
    /// The epoch of the writer's slot: no other writer of the table has the same.
    std::int64_t epoch() const noexcept { return core_->epoch(); }
    /// Frees the writer's slot.
    void close() { core_->close_checked(); }

  private:
    friend class Table;
    explicit TableWriter(std::unique_ptr<detail::TableWriterCore> core) noexcept : core_(std::move(core)) {}
    static const detail::TableHeader& header(const detail::TableChanges& changes) noexcept {
        return changes.view().file().header;
    }

    std::unique_ptr<detail::TableWriterCore> core_;
};

}  // namespace flyring
