// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "flyring/options.hpp"

namespace flyring::detail {

/// Values that replace the system's (spec/channel.md 10). Only tests set them, through InEnvironment.
struct Environment {
    std::optional<Uuid> channel_id;
    std::optional<Uuid> boot_id;
    /// `created_at` of a new channel, ns since 1970.
    std::optional<std::int64_t> created_at;
    /// The wall clock for all other purposes, ns since 1970.
    std::optional<std::int64_t> now;
    /// CLOCK_MONOTONIC, in ns, for `blocked_since`, `busy_since` and the deadlines of a service.
    std::optional<std::int64_t> monotonic;
    std::optional<std::int32_t> pid;
};

}  // namespace flyring::detail
