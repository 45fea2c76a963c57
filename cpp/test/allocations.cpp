// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <atomic>
#include <cstddef>

// Allocations are not counted under a sanitizer, which has its own malloc. (ThreadSanitizer calls malloc before its
// runtime knows the thread.)
#define FLYRING_COUNTS_MALLOC 1
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef FLYRING_COUNTS_MALLOC
#define FLYRING_COUNTS_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef FLYRING_COUNTS_MALLOC
#define FLYRING_COUNTS_MALLOC 0
#endif
#endif

namespace {
std::atomic<long> count{0};
thread_local long before_failure = -1;  // allocations until one fails; below 0: none fails
thread_local bool* failure_came = nullptr;

/// Counts an allocation. Returns whether it must fail.
[[maybe_unused]] bool fails() {
    count.fetch_add(1, std::memory_order_relaxed);
    if (before_failure < 0 || before_failure-- > 0) return false;
    *failure_came = true;
    return true;
}
}  // namespace

#if FLYRING_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t members, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);

void* malloc(std::size_t size) {
    return fails() ? nullptr : __libc_malloc(size);
}
void* calloc(std::size_t members, std::size_t size) {
    return fails() ? nullptr : __libc_calloc(members, size);
}
void* realloc(void* memory, std::size_t size) {
    return fails() ? nullptr : __libc_realloc(memory, size);
}
}
#endif

namespace support {

bool counts_allocations() {
    return FLYRING_COUNTS_MALLOC != 0;
}

long allocations() {
    return count.load();
}

FailingAllocation::FailingAllocation(int at, bool& came) {
    came = false;
    failure_came = &came;
    before_failure = at;
}

FailingAllocation::~FailingAllocation() {
    before_failure = -1;
}

}  // namespace support
