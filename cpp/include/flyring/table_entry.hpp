// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "flyring/detail/table_verbs.hpp"
#include "flyring/detail/table_view.hpp"
#include "flyring/detail/table_wait.hpp"
#include "flyring/detail/table_writer_core.hpp"
#include "flyring/errors.hpp"
#include "flyring/options.hpp"
#include "flyring/span.hpp"

namespace flyring {

class Table;
class TableWriter;

/// A value with its version.
struct Versioned {
    std::string value;
    /// Grows with each change of the key. version >> 1 is the number of that change among all changes of the table.
    std::int64_t version;
};

/// A handle of one key, made by Table::entry: it remembers where the key lies, so it finds it faster. One thread at a
/// time may use it. It stays valid when the key is removed and put again.
class Entry {
  public:
    /// A copy of the value; empty if the key is not there. Throws Busy, CorruptTable, NeedsRecovery, Closed.
    std::optional<std::string> get() {
        std::string value;
        if (!find([&](const std::byte* at, std::size_t length) { detail::to_string(value, at, length); })) return {};
        return value;
    }
    /// Copies the value into a buffer and returns its length; empty if the key is not there. Throws MessageTooLarge if
    /// the buffer is shorter.
    [[gnu::always_inline]] inline std::optional<std::size_t> get(MutableBytes buffer) {
        // The usual case has variables of its own, as in Table::get.
        const detail::AttachedTable& now = state_->to_read();
        if (FLYRING_LIKELY(&now == at_)) {
            std::size_t size = 0;
            std::int64_t version = 0;
            const bool read =
                now.reader.read_undisturbed(cell_, key_, version, [&](const std::byte* value, std::size_t length) {
                    size = length;
                    detail::copy_value(buffer, value, length);
                });
            if (FLYRING_LIKELY(read && size <= buffer.size())) return size;
        }
        return search_and_copy(buffer);
    }
    /// A copy of the value with its version; empty if the key is not there.
    std::optional<Versioned> get_versioned() {
        Versioned found;
        found.version =
            find([&](const std::byte* at, std::size_t length) { detail::to_string(found.value, at, length); });
        if (found.version == 0) return {};
        return found;
    }
    /// As Table::read.
    template <typename Handler>
    detail::InPlaceOf<Handler> read(Handler&& handler) {
        detail::InPlaceOf<Handler> result{};
        const std::int64_t version =
            find([&](const std::byte* at, std::size_t length) { detail::hand_in_place(handler, at, length, result); });
        if (version == 0) return {};
        return result;
    }
    /// As Table::read<T>.
    template <typename T, typename Handler>
    auto read(Handler&& handler);
    /// The key's version; 0 if it is not there.
    std::int64_t version() {
        return find([](const std::byte*, std::size_t) {});
    }
    /// As Table::wait_changed.
    std::int64_t wait_changed(std::int64_t version, std::chrono::nanoseconds timeout = forever) {
        return detail::wait_for_key(*state_, key_, version, timeout);
    }
    const std::string& key() const noexcept { return *bytes_; }

  private:
    friend class Table;
    friend class TableWriter;
    Entry(std::shared_ptr<detail::TableState> state, detail::AttachedTable& at, std::uint64_t cell,
          const detail::HashedKey& key)
        : state_(std::move(state)),
          at_(&at),
          cell_(cell),
          bytes_(std::make_shared<const std::string>(reinterpret_cast<const char*>(key.data), key.size)),
          key_(key) {
        key_.data = reinterpret_cast<const std::byte*>(bytes_->data());
    }

    /// The same as get, with all steps of a read and a find.
    [[gnu::noinline]] std::optional<std::size_t> search_and_copy(MutableBytes buffer) {
        std::size_t size = 0;
        const std::int64_t version = find([&](const std::byte* at, std::size_t length) {
            size = length;
            detail::copy_value(buffer, at, length);
        });
        if (version == 0) return {};
        if (FLYRING_UNLIKELY(size > buffer.size())) throw MessageTooLarge("a value", size, buffer.size());
        return size;
    }
    /// Reads the cell where the key was last found; if the key is not there, searches for it. Calls take(value, length)
    /// as TableView::read_key does. Returns the key's version, or 0 if the table does not have the key.
    template <typename Take>
    [[gnu::always_inline]] inline std::int64_t find(Take&& take) {
        try {
            for (;;) {
                detail::AttachedTable& at = state_->to_read();
                if (FLYRING_LIKELY(&at == at_)) {
                    const detail::Seen seen = at.reader.read_key(cell_, key_, take);
                    if (FLYRING_LIKELY(seen.same_key && seen.live())) return seen.version;
                }
                detail::Seen seen;
                const std::uint64_t cell = at.reader.find(key_, seen, take);
                if (cell == detail::no_cell) {
                    if (state_->has_left(at)) continue;
                    return 0;
                }
                at_ = &at;
                cell_ = cell;
                return seen.version;
            }
        } catch (const Busy&) {
            state_->count_busy();
            throw;
        }
    }

    std::shared_ptr<detail::TableState> state_;
    detail::AttachedTable* at_;
    std::uint64_t cell_;
    std::shared_ptr<const std::string> bytes_;
    detail::HashedKey key_;
};

}  // namespace flyring
