// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

// What a process may meet in the middle of an operation: system calls that fail, memory that runs out. This program
// replaces the calls of the C library that Flyring makes.

namespace faults {

/// One system call that is about to be made.
struct Call {
    const char* name;
    int command = 0;         // of fcntl, futex, membarrier; whence of lseek
    short lock = 0;          // what fcntl is to set: F_WRLCK, F_UNLCK
    off_t offset = 0;        // of the lock's byte, or where lseek goes
    std::int64_t until = 0;  // of a futex wait: CLOCK_MONOTONIC, ns
};

/// While it lives, what this thread calls goes through `hook` first. It returns the errno to fail with, or 0.
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

/// How often this thread has looked at a clock.
long clock_reads();

/// While it lives, files of this thread lie on a file system of that type.
class FileSystem {
  public:
    explicit FileSystem(std::int64_t type);
    FileSystem(const FileSystem&) = delete;
    FileSystem& operator=(const FileSystem&) = delete;
    ~FileSystem();
};

}  // namespace faults
