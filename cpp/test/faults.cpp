// SPDX-License-Identifier: Apache-2.0
#include "faults.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <optional>
#include <utility>

namespace {

thread_local const std::function<int(const faults::Call&)>* hook = nullptr;
thread_local std::optional<std::int64_t> file_system;
thread_local long clocks = 0;

/// Returns whether the call must fail, with errno set.
bool fails(const faults::Call& call) {
    if (hook == nullptr) return false;
    const auto* const now = std::exchange(hook, nullptr);  // the hook's own calls are not hooked
    const int error = (*now)(call);
    hook = now;
    if (error != 0) errno = error;
    return error != 0;
}

template <typename Function>
Function* real(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace faults {

Hook::Hook(std::function<int(const Call&)> function) : hook_(std::move(function)), before_(hook) {
    hook = &hook_;
}
Hook::~Hook() {
    hook = before_;
}

long clock_reads() {
    return clocks;
}

FileSystem::FileSystem(std::int64_t type) {
    file_system = type;
}
FileSystem::~FileSystem() {
    file_system.reset();
}

}  // namespace faults

#define REAL(function) real<decltype(::function)>(#function)

extern "C" {

int open(const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return fails({"open"}) ? -1 : REAL(open)(path, flags, mode);
}

int fcntl(int fd, int command, ...) {
    va_list more;
    va_start(more, command);
    void* const argument = va_arg(more, void*);
    va_end(more);
    faults::Call call{"fcntl", command};
    if (command == F_OFD_SETLK || command == F_OFD_GETLK) {
        const auto& lock = *static_cast<const struct flock*>(argument);
        call.lock = lock.l_type;
        call.offset = lock.l_start;
    }
    return fails(call) ? -1 : REAL(fcntl)(fd, command, argument);
}

void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) noexcept {
    return fails({"mmap"}) ? MAP_FAILED : REAL(mmap)(address, length, protection, flags, fd, offset);
}

int madvise(void* address, std::size_t length, int advice) noexcept {
    return fails({"madvise"}) ? -1 : REAL(madvise)(address, length, advice);
}

off_t lseek(int fd, off_t offset, int whence) noexcept {
    faults::Call call{"lseek", whence};
    call.offset = offset;
    return fails(call) ? -1 : REAL(lseek)(fd, offset, whence);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
    static auto* const reads = REAL(clock_gettime);
    ++clocks;
    return reads(clock, time);
}

int fstat(int fd, struct stat* status) noexcept {
    return fails({"fstat"}) ? -1 : REAL(fstat)(fd, status);
}

int lstat(const char* path, struct stat* status) noexcept {
    return fails({"lstat"}) ? -1 : REAL(lstat)(path, status);
}

int fstatfs(int fd, struct statfs* status) noexcept {
    if (fails({"fstatfs"})) return -1;
    const int result = REAL(fstatfs)(fd, status);
    if (file_system) status->f_type = *file_system;
    return result;
}

int fstatvfs(int fd, struct statvfs* status) noexcept {
    return fails({"fstatvfs"}) ? -1 : REAL(fstatvfs)(fd, status);
}

int getrlimit(__rlimit_resource_t resource, struct rlimit* limit) noexcept {
    return fails({"getrlimit"}) ? -1 : REAL(getrlimit)(resource, limit);
}

int posix_fallocate(int fd, off_t offset, off_t length) {
    return fails({"posix_fallocate"}) ? errno : REAL(posix_fallocate)(fd, offset, length);
}

int fsync(int fd) {
    return fails({"fsync"}) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd) {
    return fails({"fdatasync"}) ? -1 : REAL(fdatasync)(fd);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
    return fails({"linkat"}) ? -1 : REAL(linkat)(from_folder, from, to_folder, to, flags);
}

int rename(const char* from, const char* to) noexcept {
    return fails({"rename"}) ? -1 : REAL(rename)(from, to);
}

int unlink(const char* path) noexcept {
    return fails({"unlink"}) ? -1 : REAL(unlink)(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
    return fails({"mkdir"}) ? -1 : REAL(mkdir)(path, mode);
}

int fchmod(int fd, mode_t mode) noexcept {
    return fails({"fchmod"}) ? -1 : REAL(fchmod)(fd, mode);
}

ssize_t pread(int fd, void* to, std::size_t length, off_t offset) {
    return fails({"pread"}) ? -1 : REAL(pread)(fd, to, length, offset);
}

ssize_t read(int fd, void* to, std::size_t length) {
    return fails({"read"}) ? -1 : REAL(read)(fd, to, length);
}

long syscall(long number, ...) noexcept {
    va_list more;
    va_start(more, number);
    long words[6];
    for (long& word : words) word = va_arg(more, long);
    va_end(more);
    constexpr long futex_waitv = 449;
    faults::Call call{"syscall"};
    if (number == SYS_futex) call = {"futex", static_cast<int>(words[1])};
    if (number == SYS_membarrier) call = {"membarrier", static_cast<int>(words[0])};
    if (number == futex_waitv) call = {"futex_waitv"};
    const bool waits = number == futex_waitv || (number == SYS_futex && call.command == FUTEX_WAIT_BITSET);
    if (const auto* const until = waits ? reinterpret_cast<const timespec*>(words[3]) : nullptr) {
        call.until = until->tv_sec * std::int64_t{1'000'000'000} + until->tv_nsec;
    }
    if (fails(call)) return -1;
    return REAL(syscall)(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

ssize_t getrandom(void* to, std::size_t length, unsigned flags) {
    return fails({"getrandom"}) ? -1 : REAL(getrandom)(to, length, flags);
}

}  // extern "C"
