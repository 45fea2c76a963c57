// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "file.hpp"
#include "input.hpp"

namespace fuzz {

/// Attaches the file and does what the input says. Aborts if anything but a typed error comes of it.
void run(File& file, Input program, bool read_only);

}  // namespace fuzz
