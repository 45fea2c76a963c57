// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "file.hpp"
#include "input.hpp"

namespace fuzz {

/// Attaches the file and runs the input's program. Aborts if anything but a typed error results.
void run(File& file, Input program, bool read_only);

}  // namespace fuzz
