// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace support {

/// How often this program has allocated memory: malloc is replaced. A sanitizer replaces it itself; then nothing
/// counts.
bool counts_allocations();
long allocations();

/// While it lives, allocation number `at` of this thread, counted from 0, finds no memory; `came` tells whether it did.
class FailingAllocation {
  public:
    FailingAllocation(int at, bool& came);
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;
    ~FailingAllocation();
};

}  // namespace support
