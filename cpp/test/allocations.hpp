// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace support {

/// allocations(): how often this program has allocated memory; it replaces malloc. counts_allocations(): false if a
/// sanitizer has replaced malloc instead.
bool counts_allocations();
long allocations();

/// During its lifetime, allocation number `at` of this thread (from 0) fails. Sets `came` to whether that allocation
/// was made.
class FailingAllocation {
  public:
    FailingAllocation(int at, bool& came);
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;
    ~FailingAllocation();
};

}  // namespace support
