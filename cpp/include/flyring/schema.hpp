// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace flyring {

/// An SBE schema, as a channel holds it (spec/messages.md 2). flyring_sbe_generate makes a constant of each schema.
struct Schema {
    /// The whole XML, in UTF-8: every XInclude is resolved.
    std::string_view text;
    /// 0 to 65535, both.
    std::uint32_t id = 0;
    std::uint32_t version = 0;
};

}  // namespace flyring
