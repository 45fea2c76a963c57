// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace support {

/// How often this program has allocated memory: malloc is replaced. A sanitizer replaces it itself; then nothing
/// counts.
bool counts_allocations();
long allocations();

}  // namespace support
