// SPDX-License-Identifier: Apache-2.0
#include "guarded_map.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

// The linker redirects the library's calls of mmap and munmap to these functions (--wrap). The reservation uses bare
// system calls, because AddressSanitizer's mmap would clear its shadow of gigabytes.

namespace {

// More than an i32 length can reach from either end of a mapping.
constexpr std::size_t guard = std::size_t{1} << 32;
constexpr std::size_t most = 1024;  // a program grows its table at every step
fuzz::Mapped mapped[most];

std::size_t in_pages(std::size_t length) noexcept {
    return (length + 4095) & ~std::size_t{4095};
}

void* system_map(void* at, std::size_t length, int protection, int flags, int fd, off_t offset) noexcept {
    return reinterpret_cast<void*>(::syscall(SYS_mmap, at, length, protection, flags, fd, offset));
}

}  // namespace

namespace fuzz {

Mapped mapping_of(const void* at) noexcept {
    for (const Mapped& each : mapped) {
        const auto offset = reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(each.data);
        if (each.data != nullptr && offset < each.length) return each;
    }
    return {};
}

}  // namespace fuzz

extern "C" {
void* __real_mmap(void* at, std::size_t length, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* at, std::size_t length);

void* __wrap_mmap(void* at, std::size_t length, int protection, int flags, int fd, off_t offset) {
    if (fd < 0 || at != nullptr) return __real_mmap(at, length, protection, flags, fd, offset);
    for (fuzz::Mapped& slot : mapped) {
        if (slot.data != nullptr) continue;
        void* region = system_map(nullptr, guard + in_pages(length) + guard, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED) return region;
        void* data = static_cast<std::byte*>(region) + guard;
        void* result = system_map(data, length, protection, flags | MAP_FIXED, fd, offset);
        if (result == MAP_FAILED) {
            const int error = errno;
            ::syscall(SYS_munmap, region, guard + in_pages(length) + guard);
            errno = error;
            return result;
        }
        slot = {static_cast<const std::byte*>(data), length};
        return data;
    }
    errno = ENOMEM;
    return MAP_FAILED;
}

int __wrap_munmap(void* at, std::size_t length) {
    for (fuzz::Mapped& slot : mapped) {
        if (slot.data == nullptr || slot.data != at) continue;
        slot = {};
        return static_cast<int>(
            ::syscall(SYS_munmap, static_cast<std::byte*>(at) - guard, guard + in_pages(length) + guard));
    }
    return __real_munmap(at, length);
}
}
