// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "options.hpp"

namespace demo {

/// The result of a ping. All times are in nanoseconds.
struct Result {
    std::int64_t count = 0;
    double mean = 0;
    std::vector<std::int64_t> samples;  // empty if untimed
};

/// Prints the table or the JSON line, and writes the raw samples if a file was asked for.
void report(const Options& options, Result result);

}  // namespace demo
