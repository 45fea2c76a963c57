// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>

// ThreadSanitizer identifies memory by its address, but a reader maps the file a second time (spec/channel.md 9). So
// the linker replaces mmap by the function below, which returns the first mapping again. The definitions are not
// inline: include this file in one source file of a program.

static void* shared = nullptr;
static int shared_users = 0;

extern "C" {
void* __real_mmap(void* at, std::size_t length, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* at, std::size_t length);

void* __wrap_mmap(void* at, std::size_t length, int protection, int flags, int fd, off_t offset) {
    if (fd < 0 || flags != MAP_SHARED) return __real_mmap(at, length, protection, flags, fd, offset);
    if (shared_users++ == 0) shared = __real_mmap(at, length, PROT_READ | PROT_WRITE, flags, fd, offset);
    return shared;
}

int __wrap_munmap(void* at, std::size_t length) {
    if (at != shared || --shared_users == 0) return __real_munmap(at, length);
    return 0;
}
}
