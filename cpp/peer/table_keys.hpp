// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "peer.hpp"

namespace peer {

/// Calls use(key) with the key that a request's JSON stands for, in a table of keys of this type.
template <typename Use>
auto with_key(flyring::KeyType type, const Json& key, Use&& use) {
    if (key.is_number_integer()) return use(flyring::Key(key.get<std::int64_t>()));
    const std::string text = key.get<std::string>();
    if (type != flyring::KeyType::bytes) return use(flyring::Key(text));
    const std::vector<std::byte> bytes = from_hex(text);
    return use(flyring::Key(flyring::Bytes(bytes.data(), bytes.size())));
}

}  // namespace peer
