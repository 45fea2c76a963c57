// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <atomic>
#include <cstddef>

#define FLYRING_COUNTS_MALLOC 1
#if defined(__SANITIZE_ADDRESS__)
#undef FLYRING_COUNTS_MALLOC
#define FLYRING_COUNTS_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#undef FLYRING_COUNTS_MALLOC
#define FLYRING_COUNTS_MALLOC 0
#endif
#endif

namespace {
std::atomic<long> count{0};
}

#if FLYRING_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t members, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);

void* malloc(std::size_t size) {
    count.fetch_add(1, std::memory_order_relaxed);
    return __libc_malloc(size);
}
void* calloc(std::size_t members, std::size_t size) {
    count.fetch_add(1, std::memory_order_relaxed);
    return __libc_calloc(members, size);
}
void* realloc(void* memory, std::size_t size) {
    count.fetch_add(1, std::memory_order_relaxed);
    return __libc_realloc(memory, size);
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

}  // namespace support
