// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "flyring/detail/slots.hpp"
#include "flyring/detail/table_changes.hpp"
#include "flyring/detail/table_file.hpp"
#include "flyring/detail/table_view.hpp"

// A file to which a table is attached, and the lock of its slot (spec/table.md 5.1).

namespace flyring::detail {

/// One attached file. After a grow, the table goes on in another one.
struct AttachedTable {
    AttachedTable(TableFile attached, const Uuid& current_boot)
        : file(std::move(attached)), reader(file, file.readable.data()), boot(current_boot) {
        if (file.read_only) return;
        changes.emplace(file);
        description = open_description(file.fd, file.path);
    }
    AttachedTable(const AttachedTable&) = delete;
    AttachedTable& operator=(const AttachedTable&) = delete;

    /// Whether the values can be read without a recovery.
    bool is_whole() const noexcept { return file.is_of_this_boot(boot) || file.is_clean(); }
    std::int64_t looked = 0;  // when a reader last looked for another file of its name
    std::size_t pins = 0;     // under the mutex of TableState

    TableFile file;
    TableView reader;
    std::optional<TableChanges> changes;  // for single changes; empty if the table is read-only
    Fd description;                       // holds the lock of the slot during a single change
    Uuid boot;
};

/// The lock of the writer's slot, held through a file description that stays open. The destructor unlocks.
class HeldSlot {
  public:
    HeldSlot(const Fd& description, std::uint64_t byte) noexcept : description_(&description), byte_(byte) {}
    HeldSlot(HeldSlot&& other) noexcept
        : description_(std::exchange(other.description_, nullptr)), byte_(other.byte_) {}
    HeldSlot& operator=(HeldSlot&&) = delete;
    ~HeldSlot() {
        if (description_ != nullptr) unlock_byte(*description_, byte_);
    }
    /// The destructor does not unlock: another object does.
    void keep() noexcept { description_ = nullptr; }

  private:
    const Fd* description_;
    std::uint64_t byte_;
};

}  // namespace flyring::detail
