// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace flyring {

/// An SBE schema as a channel stores it (spec/messages.md 2). The CMake function flyring_sbe_generate makes such a
/// constant for each schema.
struct Schema {
    /// The whole XML in UTF-8, with every XInclude resolved.
    std::string_view text;
    /// Id and version are each 0 to 65535.
    std::uint32_t id = 0;
    std::uint32_t version = 0;
};

}  // namespace flyring
