// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "flyring/detail/layout.hpp"
#include "flyring/schema.hpp"

namespace flyring {

/// What the keys of a table are.
enum class KeyType : std::uint32_t {
    /// Not given. create refuses this value.
    none = 0,
    bytes = layout::TABLE_KEY_TYPE_BYTES,
    /// UTF-8.
    text = layout::TABLE_KEY_TYPE_TEXT,
    /// Signed, 64 bits.
    integer = layout::TABLE_KEY_TYPE_INTEGER,
};

/// Called during a recovery after a power loss, with the numbers of cells checked and of all cells.
using RecoveryProgress = std::function<void(std::uint64_t checked, std::uint64_t cells)>;

/// The properties of a new table (spec/api.md, "Table").
struct TableOptions {
    /// How many keys fit, 1 to 2^30. Must be given.
    std::optional<std::uint64_t> capacity{};
    /// Must be given.
    KeyType key = KeyType::none;
    /// The longest key in bytes, 1 to 1024. Default: 32; of integers always 8.
    std::optional<std::uint32_t> key_bytes{};
    /// The longest value in bytes, 0 to 16 MiB. Must be given, unless use<T>() has set it.
    std::optional<std::uint32_t> value_bytes{};
    /// Values carry a crc and survive a power loss. Default: true, except on tmpfs and ramfs.
    std::optional<bool> checked{};
    /// UTF-8 text, at most 16 MiB.
    std::string schema{};
    /// 0 to 65535; 0 without a schema.
    std::uint32_t schema_id = 0;
    std::uint32_t schema_version = 0;
    /// The template id of the values' message; 0 without a schema.
    std::uint32_t value_template = 0;
    /// Permission bits of the file.
    mode_t mode = 0600;
    /// True: do not require a file system from the allow-list of spec/channel.md 3.1.
    bool any_file_system = false;
    /// False: this process wakes no sleeping reader, so each looks every millisecond.
    bool wake = true;
    RecoveryProgress recovery_progress{};

    /// Sets schema, schema_id and schema_version.
    TableOptions& use(const Schema& one) {
        schema = one.text;
        schema_id = one.id;
        schema_version = one.version;
        return *this;
    }
    /// Each value is a message of the generated codec `T`, whose schema is `one`. Sets value_bytes too, for a message
    /// without groups and variable-length data, unless it was set before.
    template <typename T>
    TableOptions& use(const Schema& one) {
        static_assert(T::sbeTemplateId() != 0, "a template whose id is 0 cannot be a value: 0 stands for none");
        value_template = T::sbeTemplateId();
        if (!value_bytes) {
            value_bytes = static_cast<std::uint32_t>(T::messageHeader::encodedLength() + T::sbeBlockLength());
        }
        return use(one);
    }
};

struct OpenTableOptions {
    /// Opens and maps the file for reading only; any call that would write throws AccessDenied.
    bool read_only = false;
    bool any_file_system = false;
    bool wake = true;
    /// The table must have a schema with the same id (spec/messages.md 2).
    std::optional<Schema> schema{};
    /// The table's schema must have at least this version, 0 to 65535; 0: any.
    std::uint32_t min_schema_version = 0;
    RecoveryProgress recovery_progress{};
};

}  // namespace flyring
