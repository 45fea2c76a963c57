// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

// System calls that fail in the middle of an operation. The test program replaces the C library's functions that
// Flyring calls.

namespace faults {

/// One system call that is about to be made.
struct Call {
    const char* name;
    int command = 0;         // of fcntl, futex, membarrier; whence of lseek
    short lock = 0;          // lock type that fcntl sets: F_WRLCK, F_UNLCK
    off_t offset = 0;        // offset of the lock's byte, or the target of lseek
    std::int64_t until = 0;  // deadline of a futex wait: CLOCK_MONOTONIC, ns
};

/// During its lifetime, each replaced call of this thread goes through `hook` first. The hook returns the errno to fail
/// with, or 0.
class Hook {
  public:
    explicit Hook(std::function<int(const Call&)> hook);
    Hook(const Hook&) = delete;
    Hook& operator=(const Hook&) = delete;
    ~Hook();

  private:
    std::function<int(const Call&)> hook_;
    const std::function<int(const Call&)>* before_;
};

/// How often this thread has read a clock.
long clock_reads();

/// During its lifetime, this thread's files appear to lie on a file system of this type.
class FileSystem {
  public:
    explicit FileSystem(std::int64_t type);
    FileSystem(const FileSystem&) = delete;
    FileSystem& operator=(const FileSystem&) = delete;
    ~FileSystem();
};

}  // namespace faults
