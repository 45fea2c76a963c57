// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flyring {

/// A subscriber that holds a publisher back, as Publisher::held_by returns it.
struct Holder {
    /// Number of the subscriber slot.
    std::uint32_t slot;
    std::string name;
    /// The process id in the owner's own pid namespace.
    std::int32_t pid;
    /// Whether the slot has an owner now.
    bool live;
    /// Whether the slot is kept: such a slot holds publishers back even without an owner.
    bool kept;
    /// The slot's gate on this ring: a position in bytes.
    std::int64_t position;
};

}  // namespace flyring
