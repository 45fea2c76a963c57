// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <system_error>
#include <utility>

#include "flyring/errors.hpp"

// The system calls of the library: descriptors, open-file-description locks, mappings. None of them is on a hot path.

namespace flyring::detail {

/// Throws AccessDenied or IoError for `error`, the errno of `call` on `path`.
[[noreturn, gnu::cold]] inline void throw_errno(const char* call, const std::string& path, int error = errno) {
    if (error == EACCES || error == EPERM) {
        throw AccessDenied(path, std::string(call) + ": " + std::generic_category().message(error) +
                                     "; check owner and mode, and the user of this process");
    }
    throw IoError(call, error, path);
}

/// A file descriptor that closes itself.
class Fd {
  public:
    Fd() noexcept = default;
    explicit Fd(int fd) noexcept : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), mark_(other.mark_) {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
            mark_ = other.mark_;
        }
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() { reset(); }

    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    void reset() noexcept {
        if (ours()) ::close(fd_);
        fd_ = -1;
    }

    /// Marks a descriptor of a regular file that is kept for long, because other code may close it (closefrom) and open
    /// something else under its number. The mark is a random value of the file offset, which nothing here uses. The
    /// offset belongs to the description, so another description, even of the same file, has another offset. (5.1)
    void mark(const std::string& path) {
        constexpr std::int64_t least = std::int64_t{1} << 33;  // ext4 with blocks of 1 KiB may end just above 2^34
        std::int64_t random = 0;
        if (::getrandom(&random, sizeof random, 0) != sizeof random) throw_errno("getrandom", path);
        const std::int64_t mark = least | (random & (least - 1));
        if (::lseek(fd_, mark, SEEK_SET) != mark) throw_errno("lseek", path);
        mark_ = mark;  // not before: if lseek fails, reset() still closes the descriptor
    }
    /// Whether the number still refers to the description that this object opened.
    bool ours() const noexcept {
        return fd_ >= 0 && (mark_ == 0 || ::lseek(fd_, 0, SEEK_CUR) == static_cast<off_t>(mark_));
    }

  private:
    int fd_ = -1;
    std::int64_t mark_ = 0;  // 0: none
};

/// Throws IoError if other code has closed the descriptor, whose number may refer to something else by now.
inline void check_ours(const Fd& fd, const char* call, const std::string& path) {
    if (!fd.ours()) throw IoError(call, EBADF, path);
}

inline struct flock lock_range(short type, std::uint64_t offset) noexcept {
    struct flock range{};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(offset);
    range.l_len = 1;
    return range;
}

/// Tries to take the write lock on the byte at `offset` for this description. Returns 0, or the errno: EAGAIN or EACCES
/// if another description has a lock there.
inline int try_lock_byte(const Fd& fd, std::uint64_t offset) noexcept {
    if (!fd.ours()) return EBADF;
    struct flock range = lock_range(F_WRLCK, offset);
    return ::fcntl(fd.get(), F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

/// Like try_lock_byte, but returns whether it got the lock, and throws IoError for any other failure.
inline bool lock_byte(const Fd& fd, std::uint64_t offset, const std::string& path) {
    const int error = try_lock_byte(fd, offset);
    if (error != 0 && error != EAGAIN && error != EACCES) throw IoError("fcntl(F_OFD_SETLK)", error, path);
    return error == 0;
}

inline void unlock_byte(const Fd& fd, std::uint64_t offset) noexcept {
    if (!fd.ours()) return;
    struct flock range = lock_range(F_UNLCK, offset);
    ::fcntl(fd.get(), F_OFD_SETLK, &range);
}

/// A lock that another description holds on one of these bytes: any of them, not the first. None: l_type is F_UNLCK.
/// The caller has called check_ours.
inline struct flock lock_in(const Fd& fd, std::uint64_t offset, std::uint64_t length, const std::string& path) {
    struct flock range = lock_range(F_WRLCK, offset);
    range.l_len = static_cast<off_t>(length);
    if (::fcntl(fd.get(), F_OFD_GETLK, &range) != 0) throw IoError("fcntl(F_OFD_GETLK)", errno, path);
    return range;
}

/// Whether another description than that of `fd` has a lock on the byte at `offset`.
inline bool byte_is_locked(const Fd& fd, std::uint64_t offset, const std::string& path) {
    check_ours(fd, "fcntl(F_OFD_GETLK)", path);
    return lock_in(fd, offset, 1, path).l_type != F_UNLCK;
}

/// Like byte_is_locked, but never throws: true also if the test fails.
inline bool is_locked_by_another(const Fd& fd, std::uint64_t offset) noexcept {
    struct flock range = lock_range(F_WRLCK, offset);
    return !fd.ours() || ::fcntl(fd.get(), F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

enum class Access { read = PROT_READ, write = PROT_READ | PROT_WRITE };

/// A shared mapping of the first `size` bytes of a file.
class Mapping {
  public:
    Mapping() noexcept = default;
    Mapping(const Fd& fd, std::uint64_t size, Access access, const std::string& path) : size_(size), access_(access) {
        void* address = ::mmap(nullptr, size_, static_cast<int>(access), MAP_SHARED, fd.get(), 0);
        if (address == MAP_FAILED) throw_errno("mmap", path);
        data_ = static_cast<std::byte*>(address);
    }
    Mapping(Mapping&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), access_(other.access_) {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(access_, other.access_);
        return *this;
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() {
        if (data_ != nullptr) ::munmap(data_, size_);
    }

    std::byte* data() const noexcept { return data_; }
    std::uint64_t size() const noexcept { return size_; }

    /// Makes the pages of [from, from + length) present now, and writable if the mapping is, so that the first lap has
    /// no page faults. A kernel before 5.14 does not have the call; the first lap then faults.
    void prefault(std::byte* from, std::uint64_t length) const noexcept {
        const int populate = access_ == Access::write ? 23 : 22;  // MADV_POPULATE_WRITE, _READ; not in older headers
        const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
        const std::uint64_t before = static_cast<std::uint64_t>(from - data_) % page;
        ::madvise(from - before, length + before, populate);
    }

    /// Replaces the mapping by private memory at the same addresses, so that a late access of another thread is
    /// harmless. After this returns, no thread can store into the file through this mapping.
    void detach() noexcept {
        if (data_ == nullptr) return;
        constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        if (::mmap(data_, size_, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED) return;
        // A kernel that never overcommits may refuse writable memory. Map read-only zeros instead.
        (void)::mmap(data_, size_, PROT_READ, flags, -1, 0);
    }

  private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    Access access_ = Access::write;
};

inline std::int64_t clock_ns(clockid_t clock) noexcept {
    timespec now{};
    ::clock_gettime(clock, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

/// Reads a small file of /proc, at most 4096 bytes; empty if it cannot be opened.
inline std::string read_small_file(const char* path) {
    Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
    if (!fd) return {};
    std::string text(4096, '\0');
    const ssize_t length = ::read(fd.get(), text.data(), text.size());
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return text;
}

/// How far a time namespace shifts CLOCK_MONOTONIC of this process, in ns (10).
inline std::int64_t monotonic_offset() {
    const std::string text = read_small_file("/proc/self/timens_offsets");
    const auto line = text.find("monotonic");
    long long seconds = 0;
    long long nanoseconds = 0;
    if (line == std::string::npos) return 0;  // the kernel has no time namespaces
    if (std::sscanf(text.c_str() + line, "monotonic %lld %lld", &seconds, &nanoseconds) != 2) return 0;
    return seconds * 1'000'000'000 + nanoseconds;
}

}  // namespace flyring::detail
