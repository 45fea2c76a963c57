// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flyring {

/// A subscriber that holds a publisher back. From Publisher::held_by.
struct Holder {
    /// Subscriber slot.
    std::uint32_t slot;
    std::string name;
    /// As its owner saw it, in its own pid namespace.
    std::int32_t pid;
    /// Whether the slot has an owner now.
    bool live;
    /// A kept slot holds the publisher back without an owner, too.
    bool kept;
    /// Its gate in this ring, bytes.
    std::int64_t position;
};

}  // namespace flyring
