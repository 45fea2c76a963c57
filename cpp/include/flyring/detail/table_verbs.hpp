// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "flyring/detail/table_changes.hpp"
#include "flyring/detail/table_header.hpp"
#include "flyring/detail/table_view.hpp"
#include "flyring/errors.hpp"
#include "flyring/span.hpp"
#include "flyring/table_key.hpp"

// What the methods of Table, TableWriter and Entry share: keys and values as callers give and get them.

namespace flyring::detail {

inline bool is_utf8(const std::byte* text, std::size_t size) noexcept {
    const auto* at = reinterpret_cast<const unsigned char*>(text);
    const auto* const end = at + size;
    while (at != end) {
        const unsigned first = *at++;
        if (first < 0x80) continue;
        const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        if (first < 0xc2 || first > 0xf4 || end - at < more) return false;
        const unsigned second = *at;
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
            (first == 0xf4 && second > 0x8f)) {
            return false;
        }
        for (int i = 0; i < more; ++i) {
            if ((*at++ & 0xc0) != 0x80) return false;
        }
    }
    return true;
}

/// A key that fits the table, hashed. Throws InvalidArgument (key), MessageTooLarge.
[[gnu::always_inline]] inline HashedKey hashed(const TableHeader& header, const Key& key) {
    if (FLYRING_UNLIKELY(key.is_integer() != (header.key_type == KeyType::integer))) {
        throw InvalidArgument("key",
                              std::string("the keys of this table are of type ") + key_type_name(header.key_type));
    }
    if (FLYRING_UNLIKELY(key.size() > header.key_bytes)) throw MessageTooLarge("a key", key.size(), header.key_bytes);
    return {key.data(), key.size()};
}
/// The same for an integer key.
[[gnu::always_inline]] inline HashedWord hashed_integer(const TableHeader& header, const Key& key) {
    if (FLYRING_UNLIKELY(header.key_type != KeyType::integer)) (void)hashed(header, key);  // throws
    return HashedWord(get<std::uint64_t>(key.data()));
}
/// The key, as `hashed` returns it, for a put: a text key must be UTF-8, and the value must fit. Throws InvalidArgument
/// (key), MessageTooLarge.
inline HashedKey to_put(const TableHeader& header, const Key& key, std::size_t value_size) {
    const HashedKey made = hashed(header, key);
    if (FLYRING_UNLIKELY(header.key_type == KeyType::text && !is_utf8(made.data, made.size))) {
        throw InvalidArgument("key", "it is not UTF-8, but the keys of this table are text");
    }
    if (FLYRING_UNLIKELY(value_size > header.value_bytes)) {
        throw MessageTooLarge("a value", value_size, header.value_bytes);
    }
    return made;
}

inline void to_string(std::string& to, const std::byte* value, std::size_t length) {
    to.assign(reinterpret_cast<const char*>(value), length);
}

/// What a read in place returns: an optional of the handler's result, or whether the key was there.
template <typename Result>
struct InPlace {
    using type = std::optional<Result>;
};
template <>
struct InPlace<void> {
    using type = bool;
};
template <typename Handler>
using InPlaceOf = typename InPlace<std::invoke_result_t<Handler&, Bytes>>::type;

/// Calls handler(value) and keeps what this call returned.
template <typename Handler>
[[gnu::always_inline]] inline void hand_in_place(Handler& handler, const std::byte* value, std::size_t length,
                                                 InPlaceOf<Handler>& result) {
    if constexpr (std::is_void_v<std::invoke_result_t<Handler&, Bytes>>) {
        handler(Bytes(value, length));
        result = true;
    } else {
        result.emplace(handler(Bytes(value, length)));
    }
}

/// Copies the value, or as many of its bytes as the buffer holds.
[[gnu::always_inline]] inline void copy_value(MutableBytes buffer, const std::byte* from, std::size_t length) noexcept {
    // A value that fills the buffer is the usual one. Its last store goes to an address that does not depend on
    // `length`, which is still on its way from memory: the processor need not wait for it before the next loads.
    if (FLYRING_LIKELY(length == buffer.size())) {
        copy_bytes(buffer.data(), from, buffer.size());
    } else {
        copy_bytes(buffer.data(), from, std::min(length, buffer.size()));
    }
}

/// Calls handler(value) with a copy of the value, then puts the copy. Returns the new version, or 0 if the key is not
/// there.
template <typename Handler>
std::int64_t update_value(TableChanges& changes, const TableHeader& header, const HashedKey& key, Handler&& handler) {
    changes.check_owner();
    std::string value;
    Seen seen;
    const std::uint64_t cell =
        changes.view().find(key, seen, [&](const std::byte* at, std::size_t length) { to_string(value, at, length); });
    if (cell == no_cell) return 0;
    handler(value);
    if (value.size() > header.value_bytes) throw MessageTooLarge("a value", value.size(), header.value_bytes);
    return changes.put_at(cell, key, as_bytes(std::string_view(value)));
}

/// Removes all keys, one after the other. Returns how many it removed.
inline std::uint64_t clear_keys(TableChanges& changes) {
    changes.check_owner();
    const TableView& view = changes.view();
    std::uint64_t removed = 0;
    std::string key;
    std::string value;
    std::int64_t version = 0;
    const std::uint64_t end = view.fresh();
    for (std::uint64_t cell = 0; cell < end; ++cell) {
        if (!view.usable(cell) || !view.read_any(cell, key, value, version)) continue;
        if (changes.remove(HashedKey(reinterpret_cast<const std::byte*>(key.data()), key.size()))) ++removed;
    }
    return removed;
}

}  // namespace flyring::detail
