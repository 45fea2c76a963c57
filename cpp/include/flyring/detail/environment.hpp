// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "flyring/options.hpp"

namespace flyring::detail {

/// Values that otherwise come from the system (spec/channel.md 10). Tests put them here, through InEnvironment.
struct Environment {
    std::optional<Uuid> channel_id;
    std::optional<Uuid> boot_id;
    /// ns since 1970; what a new channel's header says.
    std::optional<std::int64_t> created_at;
    /// ns since 1970; the wall clock for everything else.
    std::optional<std::int64_t> now;
    /// ns of CLOCK_MONOTONIC; what `blocked_since` gets.
    std::optional<std::int64_t> monotonic;
    std::optional<std::int32_t> pid;
};

}  // namespace flyring::detail
