// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flyring/detail/environment.hpp"
#include "flyring/detail/header.hpp"
#include "flyring/detail/path.hpp"
#include "flyring/detail/ring.hpp"
#include "flyring/detail/system.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/options.hpp"

// A channel's file: created complete, attached after validation (spec/channel.md 3).

namespace flyring::detail {

inline void random_bytes(void* to, std::size_t size) {
    if (::getrandom(to, size, 0) != static_cast<ssize_t>(size)) throw IoError("getrandom", errno, "the kernel");
}

/// A new random UUID (version 4).
inline Uuid new_uuid() {
    Uuid uuid;
    random_bytes(uuid.data(), uuid.size());
    uuid[6] = (uuid[6] & std::byte{0x0f}) | std::byte{0x40};
    uuid[8] = (uuid[8] & std::byte{0x3f}) | std::byte{0x80};
    return uuid;
}

/// Parses a UUID; bytes that the text lacks are 0.
inline Uuid parse_uuid(const std::string& text) {
    Uuid uuid{};
    std::size_t digits = 0;
    for (const char letter : text) {
        if (std::isxdigit(static_cast<unsigned char>(letter)) == 0 || digits == 2 * uuid.size()) continue;
        const int value = letter <= '9' ? letter - '0' : (letter | 0x20) - 'a' + 10;
        uuid[digits / 2] |= static_cast<std::byte>(digits % 2 == 0 ? value << 4 : value);
        ++digits;
    }
    return uuid;
}

/// The id of this boot. Throws IoError if it cannot be read: with a wrong one, files of this boot would look as if they
/// needed a recovery.
inline Uuid boot_id(const Environment& environment) {
    if (environment.boot_id) return *environment.boot_id;
    const std::string path = "/proc/sys/kernel/random/boot_id";
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) throw IoError("open", errno, path);
    char text[36];
    const ssize_t length = ::read(fd.get(), text, sizeof text);
    if (length != sizeof text) throw IoError("read", length < 0 ? errno : EIO, path);
    return parse_uuid(std::string(text, sizeof text));
}

/// The wall clock in ns since 1970, or the time that a test has injected (10).
inline std::int64_t wall_clock(const Environment& environment) {
    return environment.now ? *environment.now : clock_ns(CLOCK_REALTIME);
}

inline std::int32_t process_id(const Environment& environment) {
    return environment.pid ? *environment.pid : ::getpid();
}

/// Opens a new description of the file behind `fd`, for a lock of its own (5.1).
inline Fd open_description(const Fd& fd, const std::string& path) {
    check_ours(fd, "open of /proc/self/fd", path);
    Fd description(::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDWR | O_CLOEXEC));
    if (!description) throw_errno("open of /proc/self/fd", path);
    description.mark(path);
    return description;
}

/// How the file is opened.
enum class Purpose { write, read };

/// Throws UnsuitableFileSystem unless the file's file system is allowed (3.1), or `any` is true.
inline void check_file_system(const Fd& fd, const std::string& path, bool any, Purpose purpose) {
    constexpr std::uint64_t btrfs = 0x9123683e;
    constexpr std::uint64_t overlay = 0x794c7630;
    // tmpfs, ramfs, ext2 to ext4, XFS, overlay
    constexpr std::uint64_t allowed[] = {0x01021994, 0x858458f6, 0xef53, 0x58465342, overlay};
    if (any) return;
    struct statfs status{};
    if (::fstatfs(fd.get(), &status) != 0) throw_errno("fstatfs", path);
    const auto type = static_cast<std::uint64_t>(status.f_type) & 0xffffffffU;
    if (type == btrfs) {
        throw UnsuitableFileSystem(path,
                                   "btrfs: when its disk is full, a store may never return; use /dev/shm "
                                   "(any_file_system overrides this)");
    }
    if (std::find(std::begin(allowed), std::end(allowed), type) == std::end(allowed)) {
        char hex[16];
        std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(type));
        throw UnsuitableFileSystem(path, std::string("type ") + hex +
                                             " is not one that Flyring knows to work (any_file_system overrides this)");
    }
    if (type == overlay && purpose == Purpose::read) {
        throw UnsuitableFileSystem(path,
                                   "overlay: a reader may keep an old copy; attach read-write or use a volume "
                                   "(any_file_system overrides this)");
    }
}

/// Whether the file lies in memory (tmpfs, ramfs), so that it ends with the boot.
inline bool in_memory(const Fd& fd, const std::string& path) {
    struct statfs status{};
    if (::fstatfs(fd.get(), &status) != 0) throw_errno("fstatfs", path);
    const auto type = static_cast<std::uint64_t>(status.f_type) & 0xffffffffU;
    return type == 0x01021994 || type == 0x858458f6;
}

/// Makes the entries of a folder durable.
inline void sync_folder(const std::string& path) {
    const std::string folder = folder_of(path);
    const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) throw_errno("open", folder);
    if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_errno("fsync", folder);
}

/// Throws UnsuitableFileSystem unless a lock taken through one description is seen through a second one (5.1,
/// self-test).
inline void check_locks(const Fd& fd, std::uint64_t control_offset, const std::string& path) {
    const std::uint64_t byte = control_offset + layout::CONTROL_LOCK_TEST;
    const Fd taker = open_description(fd, path);
    if (!lock_byte(taker, byte, path)) return;
    const Fd looker = open_description(fd, path);
    if (!byte_is_locked(looker, byte, path))
        throw UnsuitableFileSystem(path, "it does not keep open-file-description locks");
    unlock_byte(taker, byte);
}

/// An attached channel file: descriptor, mappings, and a checked copy of the header. The descriptor itself never holds
/// a lock.
struct ChannelFile {
    std::string path;
    Fd fd;
    Header header;
    std::uint64_t length = 0;  // bytes; a file of a newer minor version may be longer than the mapping
    Mapping mapping;           // read-only if the channel is
    Mapping readable;          // a second, read-only mapping, through which subscribers read (section 9)
    std::string schema;
    Environment environment;
    bool read_only = false;
    bool wakes = true;  // false: this process has opted out of waking sleepers (6.16)

    void check_writable() const {
        if (read_only) throw AccessDenied(path, "the channel was opened read-only; open it for writing to do this");
    }

    /// Throws InvalidArgument (foreign) unless `possible`: for verbs that a foreign end rules out (6.15).
    static void check_foreign(bool possible, const char* why) {
        if (!possible) throw InvalidArgument("foreign", why);
    }

    std::byte* control() const noexcept { return mapping.data() + header.control_offset(); }
    /// The words on which readers, publishers, and workers of a queue sleep (6.16).
    WaitingWords data() const noexcept {
        return {word_at<std::uint32_t>(control(), layout::CONTROL_DATA_SEQUENCE),
                word_at<std::uint32_t>(control(), layout::CONTROL_DATA_ASLEEP)};
    }
    WaitingWords room() const noexcept {
        return {word_at<std::uint32_t>(control(), layout::CONTROL_ROOM_SEQUENCE),
                word_at<std::uint32_t>(control(), layout::CONTROL_ROOM_ASLEEP)};
    }
    /// Only in a queue; in other kinds these words must not be written.
    WaitingWords jobs() const noexcept {
        return {word_at<std::uint32_t>(control(), layout::CONTROL_JOBS_SEQUENCE),
                word_at<std::uint32_t>(control(), layout::CONTROL_JOBS_ASLEEP)};
    }
    bool is_queue() const noexcept { return header.kind == Kind::queue; }
    bool is_service() const noexcept { return header.kind == Kind::service; }
    /// Only in a service: the epoch of the server that serves (spec/service.md 2).
    std::int64_t* serving() const noexcept { return word_at<std::int64_t>(control(), layout::CONTROL_SERVING); }
    /// Only in a service: the subscriber slot that reads a ring. Slot 0 reads the requests, slot 1 + k the replies to
    /// client k.
    std::uint32_t reader_of(std::uint32_t ring) const noexcept {
        return ring < header.clients() ? 0 : 1 + ring - header.clients();
    }
    /// Whether a slot has a gate on a ring: in a service, each ring has one gate.
    bool has_gate(std::uint32_t ring, std::uint32_t slot) const noexcept {
        return !is_service() || reader_of(ring) == slot;
    }
    /// That gate; only if has_gate() is true.
    std::int64_t* gate(const Ring& ring, std::uint32_t slot) const noexcept {
        return ring.gate(is_service() ? 0 : slot);
    }
    /// Whether a slot counts as kept whatever its fields say: slot 0 of a service (spec/service.md 2).
    bool always_kept(std::uint32_t slot) const noexcept { return is_service() && slot == 0; }
    /// Only in a queue: the number of jobs that changed hands (spec/queue.md 2).
    std::int64_t* handovers() const noexcept { return word_at<std::int64_t>(control(), layout::CONTROL_HANDOVERS); }
    /// A hint: if it is not 0, check whether the channel was replaced (6.13).
    std::int32_t* successor() const noexcept { return word_at<std::int32_t>(control(), layout::CONTROL_SUCCESSOR); }
    std::uint64_t publisher_slot_offset(std::uint32_t slot) const noexcept {
        return header.control_offset() + layout::CONTROL_SLOTS + layout::CONTROL_SLOT_LENGTH * slot;
    }
    std::uint64_t subscriber_slot_offset(std::uint32_t slot) const noexcept {
        return publisher_slot_offset(header.publishers) + layout::CONTROL_SLOT_LENGTH * slot;
    }
    /// The offset of the byte that a slot's owner has locked (5.1).
    std::uint64_t publisher_lock(std::uint32_t slot) const noexcept {
        return publisher_slot_offset(slot) + layout::CONTROL_SLOT_LOCK;
    }
    std::uint64_t subscriber_lock(std::uint32_t slot) const noexcept {
        return subscriber_slot_offset(slot) + layout::CONTROL_SLOT_LOCK;
    }
    Ring ring(std::uint32_t index) const noexcept { return ring_in(mapping, index); }
    /// The same ring through the read-only mapping.
    Ring readable_ring(std::uint32_t index) const noexcept { return ring_in(readable, index); }

    void map(const Fd& to) {
        mapping = Mapping(to, header.file_length(), read_only ? Access::read : Access::write, path);
        readable = Mapping(to, header.file_length(), Access::read, path);
    }

  private:
    Ring ring_in(const Mapping& in, std::uint32_t index) const noexcept {
        return {in.data() + header.rings_offset() + index * header.ring_stride(), header.capacity, header.alignment,
                index};
    }
};

/// The numbers of publisher slots (P) and subscriber slots (S) with these options. A queue has one publisher slot more
/// than producers, and one subscriber slot more than workers. A service has two publisher slots a client.
inline std::uint32_t publishers_of(const Options& options) noexcept {
    if (options.kind == Kind::queue) return options.producers.value_or(layout::DEFAULT_PRODUCERS) + 1;
    if (options.kind == Kind::service) return 2 * options.clients.value_or(layout::DEFAULT_CLIENTS);
    return options.publishers.value_or(layout::DEFAULT_PUBLISHERS);
}
inline std::uint32_t subscribers_of(const Options& options) noexcept {
    if (options.kind == Kind::queue) return options.workers.value_or(layout::DEFAULT_WORKERS) + 1;
    if (options.kind == Kind::service) return options.clients.value_or(layout::DEFAULT_CLIENTS) + 1;
    const bool inbox = options.kind == Kind::inbox;
    return options.subscribers.value_or(inbox ? layout::INBOX_SUBSCRIBERS : layout::DEFAULT_SUBSCRIBERS);
}

inline std::uint32_t capacity_of(const Options& options) noexcept {
    const bool service = options.kind == Kind::service;
    return options.capacity.value_or(service ? layout::DEFAULT_SERVICE_CAPACITY : layout::DEFAULT_CAPACITY);
}

/// Checks the options and turns them into a header (3.2, 1).
inline Header check_options(const Options& options) {
    using namespace layout;
    const auto require = [](bool good, const char* argument, const char* rule) {
        if (!good) throw InvalidArgument(argument, rule);
    };
    const std::uint32_t capacity = capacity_of(options);
    const bool power_of_two = (capacity & (capacity - 1)) == 0;
    const bool queue = options.kind == Kind::queue;
    const bool service = options.kind == Kind::service;
    require(options.kind == Kind::inbox || options.kind == Kind::broadcast || queue || service, "kind",
            "say inbox, broadcast, queue or service");
    require(power_of_two && capacity >= MIN_CAPACITY && capacity <= MAX_CAPACITY, "capacity",
            "it must be a power of two from 4096 to 1073741824 bytes");
    require(!service || !options.publishers, "publishers", "a service has clients; say how many of those");
    require(!service || !options.subscribers, "subscribers", "a service has clients; say how many of those");
    require(!queue || !options.publishers, "publishers", "a queue has producers; say how many of those");
    require(!queue || !options.subscribers, "subscribers", "a queue has workers; say how many of those");
    require(queue || !options.producers, "producers", "only a queue has them; say publishers");
    require(queue || !options.workers, "workers", "only a queue has them; say subscribers");
    require(service || !options.clients, "clients", "only a service has them");
    require(service || !options.delivery, "delivery", "only a service has it");
    require(service || !options.max_outstanding, "max_outstanding", "only a service has it");
    const auto in_range = [](const std::optional<std::uint32_t>& asked, std::uint64_t most) {
        return !asked || (*asked >= 1 && *asked <= most);
    };
    require(in_range(options.publishers, MAX_PUBLISHERS), "publishers", "it must be 1 to 1024");
    require(in_range(options.producers, MAX_PUBLISHERS - 1), "producers", "it must be 1 to 1023");
    require(in_range(options.workers, MAX_SUBSCRIBERS - 1), "workers", "it must be 1 to 1023");
    require(in_range(options.clients, MAX_CLIENTS), "clients", "it must be 1 to 512");
    const Delivery delivery = options.delivery.value_or(Delivery::at_most_once);
    require(delivery == Delivery::at_most_once || delivery == Delivery::at_least_once, "delivery",
            "say at_most_once or at_least_once");
    require(in_range(options.max_outstanding, HIGHEST_MAX_OUTSTANDING), "max_outstanding", "it must be 1 to 65535");
    const std::uint32_t subscribers = subscribers_of(options);
    require(subscribers <= MAX_SUBSCRIBERS, "subscribers", "it must be 0 to 1024");
    require(options.kind != Kind::inbox || subscribers == INBOX_SUBSCRIBERS, "subscribers",
            "an inbox has 1; use a broadcast channel for more");
    require(options.alignment == 64 || options.alignment == 8, "alignment", "it must be 64 or 8 bytes");
    Header header;
    header.kind = options.kind;
    header.capacity = capacity;
    header.delivery = delivery;
    header.max_outstanding = service ? options.max_outstanding.value_or(DEFAULT_MAX_OUTSTANDING) : 0;
    header.publishers = publishers_of(options);
    header.subscribers = subscribers;
    header.alignment = options.alignment;
    header.foreign = options.foreign;
    require(header.foreign == Foreign::none || header.foreign == Foreign::publisher ||
                header.foreign == Foreign::subscriber,
            "foreign", "say none, publisher or subscriber");
    require(header.foreign == Foreign::none || header.may_be_foreign(), "foreign",
            "it needs an inbox with 1 publisher, 1 subscriber and alignment 8");
    require(options.counters <= MAX_COUNTERS, "counters", "it must be 0 to 65536");
    require(options.schema.size() <= MAX_SCHEMA_LENGTH, "schema", "it must be at most 16 MiB long");
    require(options.schema_id <= 65535 && (options.schema_id == 0 || !options.schema.empty()), "schema_id",
            "it must be 0 to 65535, and 0 without a schema");
    require(options.schema_version <= 65535 && (options.schema_version == 0 || !options.schema.empty()),
            "schema_version", "it must be 0 to 65535, and 0 without a schema");
    require((options.mode & ~mode_t{0777}) == 0, "mode", "it has more than permission bits");

    header.counters = options.counters;
    header.schema_length = options.schema.size();
    header.schema_id = options.schema_id;
    header.schema_version = options.schema_version;
    return header;
}

/// A new file without a name. On a file system without O_TMPFILE it has a temporary name, which the destructor removes.
class UnnamedFile {
  public:
    explicit UnnamedFile(const std::string& path) : path_(path) {
        const std::string folder = folder_of(path);
        fd_ = Fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
        if (fd_ || (errno != EOPNOTSUPP && errno != EISDIR)) {
            if (!fd_) throw_errno("open(O_TMPFILE)", folder);
            number_ = fd_.get();
            return;
        }
        temporary_ = unique_name();
        fd_ = Fd(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!fd_) throw_errno("open", std::exchange(temporary_, {}));
    }
    UnnamedFile(const UnnamedFile&) = delete;
    UnnamedFile& operator=(const UnnamedFile&) = delete;
    ~UnnamedFile() {
        if (!temporary_.empty()) ::unlink(temporary_.c_str());
    }

    const Fd& fd() const noexcept { return fd_; }
    /// The new owner must keep the descriptor open until the file has its name.
    Fd take_fd() noexcept { return std::move(fd_); }

    /// Gives the file its name. Throws ChannelExists if a file has this name.
    void link() { link_to(path_); }

    /// Gives the file its name, and takes the name from the file that had it, if any.
    void replace() {
        if (temporary_.empty()) {
            std::string name = unique_name();
            link_to(name);
            temporary_ = std::move(name);  // allocates nothing, so it cannot fail
        }
        if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_errno("rename", path_);
        temporary_.clear();
    }

  private:
    std::string unique_name() const {
        std::uint64_t random = 0;
        random_bytes(&random, sizeof random);
        const auto slash = path_.rfind('/') + 1;
        return path_.substr(0, slash) + "." + path_.substr(slash) + "." + std::to_string(random) + ".tmp";
    }

    void link_to(const std::string& name) {
        const std::string source = temporary_.empty() ? "/proc/self/fd/" + std::to_string(number_) : temporary_;
        if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return;
        if (errno == EEXIST) throw ChannelExists(name);
        throw_errno("linkat", name);
    }

    std::string path_;
    std::string temporary_;
    Fd fd_;
    int number_ = -1;  // the descriptor's number
};

[[noreturn]] inline void throw_no_space(const std::string& path, std::uint64_t needed, std::uint64_t free) {
    throw NoSpace("there is no space for " + noun(path) + " " + path + ": it needs " + std::to_string(needed) +
                      " bytes, free are " + std::to_string(free) +
                      "; make it smaller (capacity, publishers), or use another file system",
                  needed, free);
}

/// Reserves the file's whole length, so that no later access fails for lack of space (3.2, 3).
inline void allocate(const Fd& fd, std::uint64_t length, const std::string& path) {
    struct rlimit limit{};  // a write beyond the limit raises SIGXFSZ
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < length) {
        throw_no_space(path, length, limit.rlim_cur);
    }
    struct statvfs status{};
    if (::fstatvfs(fd.get(), &status) != 0) throw_errno("fstatvfs", path);
    const std::uint64_t free = std::uint64_t{status.f_bavail} * status.f_frsize;
    if (status.f_blocks != 0 && free < length) throw_no_space(path, length, free);
    int error = 0;
    do {
        error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(length));
    } while (error == EINTR);
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) throw_no_space(path, length, free);
    if (error != 0) throw_errno("posix_fallocate", path, error);
}

/// Writes all bytes of a new channel that are not zero (3.2, 4).
inline void write_content(const ChannelFile& file) {
    write_header(file.mapping.data(), file.header);
    const Uuid boot = boot_id(file.environment);
    std::copy(boot.begin(), boot.end(), file.control() + layout::CONTROL_BOOT_ID);
    const bool keeps_slot_0 = file.header.kind != Kind::broadcast;
    if (keeps_slot_0) {
        std::byte* slot = file.mapping.data() + file.subscriber_slot_offset(0);
        put(slot + layout::SUBSCRIBER_SLOT_KEPT, std::int32_t{1});
    }
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        const bool service = file.is_service();
        const bool gated = keeps_slot_0 && (!service || file.reader_of(ring) == 0);
        init_ring(file.ring(ring), service ? 1 : file.header.subscribers, gated, file.header.foreign);
    }
    std::memcpy(file.mapping.data() + file.header.schema_offset(), file.schema.data(), file.schema.size());
}

[[noreturn]] inline void throw_open_error(const std::string& path, int error) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
            throw NoSuchChannel(path);
        case EACCES:
        case EPERM:
        case EROFS:
            throw AccessDenied(path, std::generic_category().message(error) + "; check its owner and mode");
        case ELOOP:
            throw NotAChannel(path, "it is a symbolic link");
        case EISDIR:
            throw NotAChannel(path, "it is a folder");
        case ENXIO:
            throw NotAChannel(path, "it is no regular file");
        default:
            throw IoError("open", error, path);
    }
}

/// Opens, validates and maps a channel (3.3).
inline ChannelFile open_file(const std::string& channel, const OpenOptions& options,
                             const Environment& environment = {}) {
    ChannelFile file;
    file.path = channel_path(channel);
    file.environment = environment;
    check_default_folder(channel);
    file.read_only = options.read_only;
    file.wakes = options.wake;
    const int access = options.read_only ? O_RDONLY : O_RDWR;
    file.fd = Fd(::open(file.path.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.fd) throw_open_error(file.path, errno);
    struct stat status{};
    if (::fstat(file.fd.get(), &status) != 0) throw_errno("fstat", file.path);
    if (!S_ISREG(status.st_mode)) throw NotAChannel(file.path, "it is no regular file");

    std::byte page[layout::HEADER_LENGTH]{};
    const ssize_t size = ::pread(file.fd.get(), page, sizeof page, 0);
    if (size < 0) throw_errno("pread", file.path);
    file.header =
        HeaderReader(page, static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(status.st_size), file.path)
            .read();
    file.length = static_cast<std::uint64_t>(status.st_size);
    check_file_system(file.fd, file.path, options.any_file_system, options.read_only ? Purpose::read : Purpose::write);
    file.fd.mark(file.path);
    if (!file.read_only) check_locks(file.fd, file.header.control_offset(), file.path);
    file.map(file.fd);
    file.schema.assign(reinterpret_cast<const char*>(file.mapping.data() + file.header.schema_offset()),
                       file.header.schema_length);
    return file;
}

/// Stores `successor` in the channel that has the name now, as a hint for the processes that have it open (3.2). Its
/// destructor runs after the name has changed, and wakes these processes. Any failure is ignored.
class Successor {
  public:
    Successor(const std::string& channel, std::int32_t what) noexcept {
        try {
            old_ = open_file(channel, {});
            store_relaxed(old_->successor(), what);
        } catch (const std::exception&) {
            // Only a hint: nothing depends on it.
        }
    }
    Successor(const Successor&) = delete;
    Successor& operator=(const Successor&) = delete;
    ~Successor() {
        if (!old_) return;
        wake_all(old_->data());
        wake_all(old_->room());
        if (old_->is_queue()) wake_all(old_->jobs());
    }

  private:
    std::optional<ChannelFile> old_;
};

/// Creates or replaces a channel (3.2), and returns what attach(ChannelFile) returns. The name comes last: by then
/// nothing else can fail.
template <typename Attach>
auto create_file(const std::string& channel, const Options& options, const Environment& environment, bool replace,
                 Attach&& attach) {
    ChannelFile file;
    file.header = check_options(options);
    file.path = channel_path(channel);
    file.schema = options.schema;
    file.environment = environment;
    file.wakes = options.wake;
    make_folder(channel);
    struct stat status{};
    if (!replace && ::lstat(file.path.c_str(), &status) == 0) throw ChannelExists(file.path);

    UnnamedFile unnamed(file.path);
    if (::fchmod(unnamed.fd().get(), options.mode) != 0) throw_errno("fchmod", file.path);
    check_file_system(unnamed.fd(), file.path, options.any_file_system, Purpose::write);
    allocate(unnamed.fd(), file.header.file_length(), file.path);
    file.length = file.header.file_length();
    file.map(unnamed.fd());
    file.header.channel_id = environment.channel_id ? *environment.channel_id : new_uuid();
    file.header.created_at = environment.created_at ? *environment.created_at : wall_clock(environment);
    write_content(file);
    check_locks(unnamed.fd(), file.header.control_offset(), file.path);
    file.fd = unnamed.take_fd();
    file.fd.mark(file.path);
    auto attached = attach(std::move(file));
    std::optional<Successor> successor;
    if (replace) successor.emplace(channel, layout::SUCCESSOR_REPLACED);
    replace ? unnamed.replace() : unnamed.link();
    return attached;
}

/// The rings that the caller of subscriber or lossy_subscriber named, in ascending order; empty if it named none. A
/// queue's returns ring cannot be named. Throws InvalidArgument.
inline std::vector<std::uint32_t> sorted_rings(const ChannelFile& file, const std::optional<Rings>& named) {
    if (!named) return {};
    std::vector<std::uint32_t> rings = *named;
    if (rings.empty()) throw InvalidArgument("rings", "it names none; leave it out for all of them");
    std::sort(rings.begin(), rings.end());
    if (std::adjacent_find(rings.begin(), rings.end()) != rings.end()) {
        throw InvalidArgument("rings", "a ring is named twice");
    }
    if (!rings.empty() && rings.back() >= file.header.producers()) {
        throw InvalidArgument("rings", "there is no ring " + std::to_string(rings.back()) + ", the channel has " +
                                           std::to_string(file.header.producers()));
    }
    return rings;
}

/// Removes a channel's name (3.2, unlink).
inline void unlink_file(const std::string& channel) {
    const std::string path = channel_path(channel);
    check_default_folder(channel);
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) throw_open_error(path, errno);
    std::uint64_t magic = 0;
    if (::pread(fd.get(), &magic, sizeof magic, layout::HEADER_MAGIC) != sizeof magic || magic != layout::MAGIC) {
        throw NotAChannel(path, "it does not begin with the magic bytes");
    }
    const Successor successor(channel, layout::SUCCESSOR_UNLINKED);
    if (::unlink(path.c_str()) != 0) {
        if (errno == ENOENT) throw NoSuchChannel(path);
        throw_errno("unlink", path);
    }
}

}  // namespace flyring::detail
