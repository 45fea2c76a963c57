// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flyring/detail/environment.hpp"
#include "flyring/detail/file.hpp"
#include "flyring/detail/journal_header.hpp"
#include "flyring/detail/path.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/system.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/journal_options.hpp"

// A journal's folder and control file: created complete, attached after validation (spec/journal.md 2, spec/channel.md
// 3).

namespace flyring::detail {

/// The path of the folder that `journal`, a name or a path, stands for. Throws InvalidArgument.
inline std::string journal_path(const std::string& journal) {
    if (!is_path(journal)) {
        check_name("name", journal);
        return channel_folder() + "/" + journal + ".journal";
    }
    std::string path = absolute(journal);
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path;
}

/// Checks the options and turns them into a header.
inline JournalHeader check_options(const JournalOptions& options) {
    using namespace layout;
    const auto require = [](bool good, const char* argument, const char* rule) {
        if (!good) throw InvalidArgument(argument, rule);
    };
    JournalHeader header;
    header.segment_size = options.segment_size.value_or(JOURNAL_DEFAULT_SEGMENT_SIZE);
    require(header.segment_size >= JOURNAL_MIN_SEGMENT_SIZE && header.segment_size <= JOURNAL_MAX_SEGMENT_SIZE &&
                (header.segment_size & (header.segment_size - 1)) == 0,
            "segment_size", "it must be a power of two from 65536 to 1073741824 bytes");
    header.consumers = options.consumers.value_or(static_cast<std::uint32_t>(JOURNAL_DEFAULT_CONSUMERS));
    require(header.consumers <= JOURNAL_MAX_CONSUMERS, "consumers", "it must be 0 to 1024");
    header.content = options.content.value_or(JournalContent::messages);
    require(header.content == JournalContent::messages || header.content == JournalContent::recording, "content",
            "say messages or recording");
    require(!options.sync || options.sync->is_valid(), "sync", "say never, each, or a time from 1 ms to 1 h");
    require(!options.max_age || options.max_age->count() >= 0, "max_age", "it must be 0 (no limit) or more");
    require(!options.max_size || *options.max_size <= static_cast<std::uint64_t>(MAX_POSITION), "max_size",
            "it must be 0 (no limit) to 2^62");
    const bool typed = !options.schema.empty();
    require(options.schema.size() <= MAX_SCHEMA_LENGTH, "schema", "it must be at most 16 MiB long");
    require(options.schema_id <= 65535 && (typed || options.schema_id == 0), "schema_id",
            "it must be 0 to 65535, and 0 without a schema");
    require(options.schema_version <= 65535 && (typed || options.schema_version == 0), "schema_version",
            "it must be 0 to 65535, and 0 without a schema");
    require((options.mode & ~mode_t{0777}) == 0, "mode", "it has more than permission bits");
    header.schema_length = options.schema.size();
    header.schema_id = options.schema_id;
    header.schema_version = options.schema_version;
    return header;
}

/// The file system must be one of spec/channel.md 3.1, but not overlay: a sync there may reach another file than the
/// one that is mapped.
inline void check_journal_file_system(const Fd& fd, const std::string& path, bool any) {
    constexpr std::uint64_t overlay = 0x794c7630;
    if (any) return;
    struct statfs status{};
    if (::fstatfs(fd.get(), &status) != 0) throw_errno("fstatfs", path);
    if ((static_cast<std::uint64_t>(status.f_type) & 0xffffffffU) == overlay) {
        throw UnsuitableFileSystem(path,
                                   "overlay: a sync may reach another file than the one that is mapped; use a volume "
                                   "(any_file_system overrides this)");
    }
    check_file_system(fd, path, any, Purpose::write);
}

/// One of the two pairs beside a consumer's gate: how many messages lie before a position, and how many of them this
/// consumer lost.
struct JournalPair {
    std::int64_t position = -1;
    std::int64_t count = 0;
    std::int64_t lost = 0;
};

/// The words of a consumer's slot (spec/journal.md 2.2.1).
class ConsumerWords {
  public:
    explicit ConsumerWords(std::byte* slot) noexcept : slot_(slot) {}

    SlotWords slot() const noexcept { return SlotWords(slot_); }
    bool kept() const noexcept { return load_acquire(slot().kept()) != 0; }
    std::int64_t* gate() const noexcept { return word_at<std::int64_t>(slot_, layout::JOURNAL_CONSUMER_GATE); }

    /// The pair with this number, if its crc is right.
    std::optional<JournalPair> pair(int number) const noexcept {
        const std::byte* const at = pair_at(number);
        const JournalPair pair{load_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_PAIR_POSITION)),
                               load_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_PAIR_COUNT)),
                               load_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_PAIR_LOST))};
        if (load_relaxed(word_at<std::uint32_t>(at, layout::JOURNAL_PAIR_CRC)) != crc_of(pair)) return std::nullopt;
        if (pair.count < 0 || pair.lost < 0) return std::nullopt;
        return pair;
    }
    /// How many messages were lost at least, when no pair proves the gate.
    std::int64_t most_lost() const noexcept {
        std::int64_t lost = 0;
        for (const int number : {0, 1}) {
            if (const auto one = pair(number)) lost = std::max(lost, one->lost);
        }
        return lost;
    }
    /// The number of the pair that proves this gate; -1: none does.
    int proves(std::int64_t gate) const noexcept {
        for (const int number : {0, 1}) {
            const std::optional<JournalPair> found = pair(number);
            if (found && found->position == gate) return number;
        }
        return -1;
    }
    /// Stores the gate (6): the pair that does not prove it, then the gate. A kill in between leaves the gate with the
    /// pair that proves it.
    void store_gate(int number, const JournalPair& pair) const noexcept {
        std::byte* const at = pair_at(number);
        store_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_PAIR_POSITION), std::int64_t{-1});
        compiler_fence();
        store_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_PAIR_COUNT), pair.count);
        store_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_PAIR_LOST), pair.lost);
        store_relaxed(word_at<std::uint32_t>(at, layout::JOURNAL_PAIR_CRC), crc_of(pair));
        compiler_fence();
        store_relaxed(word_at<std::int64_t>(at, layout::JOURNAL_PAIR_POSITION), pair.position);
        store_release(gate(), pair.position);  // pairs with trim 1
    }
    /// The same, for a process that does not know which pair proves the gate.
    void store_gate(const JournalPair& pair) const noexcept {
        store_gate(proves(load_relaxed(gate())) == 0 ? 1 : 0, pair);
    }

  private:
    std::byte* pair_at(int number) const noexcept {
        return slot_ + (number == 0 ? layout::JOURNAL_CONSUMER_PAIR_0 : layout::JOURNAL_CONSUMER_PAIR_1);
    }
    static std::uint32_t crc_of(const JournalPair& pair) noexcept {
        std::byte bytes[layout::JOURNAL_PAIR_CRC];
        put(bytes + layout::JOURNAL_PAIR_POSITION, pair.position);
        put(bytes + layout::JOURNAL_PAIR_COUNT, pair.count);
        put(bytes + layout::JOURNAL_PAIR_LOST, pair.lost);
        return crc32c(bytes, sizeof bytes);
    }

    std::byte* slot_;
};

/// An attached journal: its folder, and the control file with descriptor, mapping, and a checked copy of the header.
/// The descriptor itself never holds a lock.
struct JournalFile {
    std::string path;     // of the folder
    std::string control;  // of the control file
    Fd fd;
    JournalHeader header;
    Mapping mapping;  // read-only if the journal is
    std::string schema;
    Environment environment;
    Uuid boot{};
    mode_t mode = 0600;
    bool read_only = false;
    bool wakes = true;

    void check_writable() const {
        if (read_only) throw AccessDenied(path, "the journal was opened read-only; open it for writing to do this");
    }
    [[noreturn, gnu::cold]] void corrupt(std::int64_t position, const std::string& reason) const {
        throw CorruptJournal(path, position, reason);
    }

    template <typename T>
    T* word(std::uint64_t offset) const noexcept {
        return word_at<T>(mapping.data() + header.control_offset(), offset);
    }
    std::int64_t* position(std::uint64_t offset) const noexcept { return word<std::int64_t>(offset); }
    std::int64_t* claimed() const noexcept { return position(layout::JOURNAL_CONTROL_CLAIMED); }
    std::int64_t* published() const noexcept { return position(layout::JOURNAL_CONTROL_PUBLISHED); }
    std::int64_t* messages() const noexcept { return position(layout::JOURNAL_CONTROL_MESSAGES); }
    std::int64_t* checked() const noexcept { return position(layout::JOURNAL_CONTROL_CHECKED); }
    std::int64_t* ready() const noexcept { return position(layout::JOURNAL_CONTROL_READY); }
    std::int64_t* synced() const noexcept { return position(layout::JOURNAL_CONTROL_SYNCED); }
    std::int64_t* synced_at() const noexcept { return position(layout::JOURNAL_CONTROL_SYNCED_AT); }
    std::int64_t* trimmed() const noexcept { return position(layout::JOURNAL_CONTROL_TRIMMED); }
    std::int64_t* sync_every() const noexcept { return position(layout::JOURNAL_CONTROL_SYNC_EVERY); }
    std::int64_t* max_age() const noexcept { return position(layout::JOURNAL_CONTROL_MAX_AGE); }
    std::int64_t* max_size() const noexcept { return position(layout::JOURNAL_CONTROL_MAX_SIZE); }
    std::int32_t* trim_consumed() const noexcept { return word<std::int32_t>(layout::JOURNAL_CONTROL_TRIM_CONSUMED); }
    std::int32_t* failed() const noexcept { return word<std::int32_t>(layout::JOURNAL_CONTROL_FAILED); }
    std::int32_t* successor() const noexcept { return word<std::int32_t>(layout::JOURNAL_CONTROL_SUCCESSOR); }
    WaitingWords data() const noexcept {
        return {word<std::uint32_t>(layout::JOURNAL_CONTROL_DATA_SEQUENCE),
                word<std::uint32_t>(layout::JOURNAL_CONTROL_DATA_ASLEEP)};
    }
    WaitingWords work() const noexcept {
        return {word<std::uint32_t>(layout::JOURNAL_CONTROL_WORK_SEQUENCE),
                word<std::uint32_t>(layout::JOURNAL_CONTROL_WORK_ASLEEP)};
    }
    SlotWords slot() const noexcept { return SlotWords(word<std::byte>(layout::JOURNAL_CONTROL_SLOT)); }
    /// Throws NoFreeSlot, with the last JournalWriter that held the writer's slot.
    [[noreturn]] void throw_not_free() const { throw_writer_not_free(path, slot(), "JournalWriter"); }
    ConsumerWords consumer(std::uint32_t slot) const noexcept {
        return ConsumerWords(word<std::byte>(layout::JOURNAL_CONTROL_CONSUMERS + layout::JOURNAL_CONSUMER_SIZE * slot));
    }

    // The bytes that are locked, as offsets in the file.
    std::uint64_t control_lock() const noexcept { return header.control_offset() + layout::CONTROL_CONTROL_LOCK; }
    std::uint64_t helper_lock() const noexcept { return header.control_offset() + layout::JOURNAL_CONTROL_HELPER_LOCK; }
    std::uint64_t writer_lock() const noexcept {
        return header.control_offset() + layout::JOURNAL_CONTROL_SLOT + layout::CONTROL_SLOT_LOCK;
    }
    std::uint64_t consumer_lock(std::uint32_t slot) const noexcept {
        return header.control_offset() + layout::JOURNAL_CONTROL_CONSUMERS + layout::JOURNAL_CONSUMER_SIZE * slot +
               layout::CONTROL_SLOT_LOCK;
    }

    /// Whether the journal was last made whole in this boot. Otherwise only `synced`, `trimmed` and the gates count
    /// (7).
    bool is_of_this_boot() const noexcept {
        if (std::memcmp(word<std::byte>(layout::JOURNAL_CONTROL_BOOT_ID), boot.data(), boot.size()) != 0) return false;
        acquire_fence();  // pairs with store_boot
        return true;
    }
    void store_boot() const noexcept {
        release_fence();
        std::copy(boot.begin(), boot.end(), word<std::byte>(layout::JOURNAL_CONTROL_BOOT_ID));
    }
    /// The interval of syncs: 0 never, -1 each append, else ns. A word that cannot be is 0 (10).
    std::int64_t valid_sync_every() const noexcept {
        const std::int64_t every = load_relaxed(sync_every());
        return every < layout::JOURNAL_SYNC_EACH ? layout::JOURNAL_SYNC_NEVER : every;
    }
    bool is_unlinked() const noexcept { return load_relaxed(successor()) == layout::SUCCESSOR_UNLINKED; }
    /// Throws NoSuchChannel if the journal was unlinked.
    void check_linked() const {
        if (is_unlinked()) throw NoSuchChannel(path);
    }
    /// Makes the words of the control file durable.
    void sync_control() const {
        check_ours(fd, "fdatasync", control);
        if (::fdatasync(fd.get()) != 0) throw_errno("fdatasync", control);
    }
    std::string segment_path(std::int64_t position) const { return path + "/" + segment_name(position); }
    void sync_folder() const { detail::sync_folder(control); }
    void map() { mapping = Mapping(fd, header.file_length(), read_only ? Access::read : Access::write, control); }
};

/// Opens, checks and maps a journal's control file (spec/channel.md 3.3).
inline JournalFile open_journal(const std::string& journal, const OpenJournalOptions& options,
                                const Environment& environment = {}) {
    JournalFile file;
    file.path = journal_path(journal);
    file.control = file.path + "/control";
    file.environment = environment;
    file.boot = boot_id(environment);
    check_default_folder(journal);
    file.read_only = options.read_only;
    file.wakes = options.wake;
    const int access = options.read_only ? O_RDONLY : O_RDWR;
    file.fd = Fd(::open(file.control.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.fd) throw_open_error(file.path, errno);
    struct stat status{};
    if (::fstat(file.fd.get(), &status) != 0) throw_errno("fstat", file.control);
    if (!S_ISREG(status.st_mode)) throw NotAChannel(file.path, "its control file is no regular file");
    file.mode = status.st_mode & mode_t{0777};

    std::byte page[layout::HEADER_LENGTH]{};
    const ssize_t size = ::pread(file.fd.get(), page, sizeof page, 0);
    if (size < 0) throw_errno("pread", file.control);
    file.header = JournalHeaderReader(page, static_cast<std::uint64_t>(size),
                                      static_cast<std::uint64_t>(status.st_size), file.path)
                      .read();
    check_journal_file_system(file.fd, file.path, options.any_file_system);
    file.fd.mark(file.control);
    if (!file.read_only) check_locks(file.fd, file.header.control_offset(), file.control);
    file.map();
    file.schema.assign(reinterpret_cast<const char*>(file.mapping.data() + file.header.schema_offset()),
                       file.header.schema_length);
    return file;
}

/// A journal's folder, locked against another create or unlink until this object's end.
class LockedFolder {
  public:
    /// `make`: makes the folder if it is not there. Throws NoSuchChannel, NotAChannel.
    LockedFolder(const std::string& path, bool make) : path_(path) {
        for (;;) {
            if (make && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
                if (errno == EROFS) throw AccessDenied(path, "it cannot be made: the file system is read-only");
                throw_errno("mkdir", path);
            }
            fd_ = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
            if (!fd_ && errno == ENOENT && make) continue;  // it was removed meanwhile
            if (!fd_ && (errno == ENOTDIR || errno == ELOOP)) throw NotAChannel(path, "it is no folder");
            if (!fd_) throw_open_error(path, errno);
            while (::flock(fd_.get(), LOCK_EX) != 0) {
                if (errno != EINTR) throw_errno("flock", path);
            }
            if (has_its_name()) return;
            if (!make) throw NoSuchChannel(path);
        }
    }

    /// Adds what those need that may read files of this mode (read, search) or write them (write, search).
    void allow(mode_t mode) const {
        struct stat status{};
        if (::fstat(fd_.get(), &status) != 0) throw_errno("fstat", path_);
        const mode_t read = mode & mode_t{0444};
        const mode_t write = mode & mode_t{0222};
        const mode_t needed = mode_t{0700} | read | (read >> 2) | write | (write >> 1);
        if (::fchmod(fd_.get(), (status.st_mode & mode_t{07777}) | needed) != 0 && errno != EPERM) {
            throw_errno("fchmod", path_);  // EPERM: another user made the folder
        }
    }

    /// The names of what it holds, without `.` and `..`.
    std::vector<std::string> names() const { return names_in(path_); }
    static std::vector<std::string> names_in(const std::string& path) {
        const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
        if (!folder) throw_errno("opendir", path);
        std::vector<std::string> names;
        for (;;) {
            errno = 0;
            const dirent* const entry = ::readdir(folder.get());
            if (entry == nullptr) break;
            std::string name = entry->d_name;
            if (name != "." && name != "..") names.push_back(std::move(name));
        }
        if (errno != 0) throw_errno("readdir", path);
        return names;
    }

    /// Whether a name is that of a file of a journal: control, a segment, or one of these that has no name yet.
    static bool is_of_a_journal(const std::string& name) {
        const bool temporary = name.size() > 4 && name.compare(name.size() - 4, 4, ".tmp") == 0;
        if (temporary && (name.rfind(".control.", 0) == 0 || position_in_name(name.substr(1, 23)))) return true;
        return name == "control" || position_in_name(name).has_value();
    }

  private:
    /// Whether the folder was not removed before it was locked. Throws AccessDenied, IoError if that cannot be found
    /// out.
    bool has_its_name() const {
        struct stat mine{};
        struct stat named{};
        if (::fstat(fd_.get(), &mine) != 0) throw_errno("fstat", path_);
        if (::lstat(path_.c_str(), &named) != 0) {
            if (errno != ENOENT) throw_errno("lstat", path_);
            return false;
        }
        return mine.st_ino == named.st_ino && mine.st_dev == named.st_dev && mine.st_nlink > 0;
    }

    std::string path_;
    Fd fd_;
};

/// Removes a file; one that is not there is no error.
inline void unlink_if_there(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno("unlink", path);
}

/// Removes a journal (2). Throws NoFreeSlot if a process has the writer's slot, also that of a journal that is broken
/// or of a newer version: its words are not used, but its locks are.
inline void unlink_journal(const std::string& journal) {
    const std::string path = journal_path(journal);
    check_default_folder(journal);
    const LockedFolder folder(path, false);
    const std::string control = path + "/control";
    const Fd fd(::open(control.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) throw_open_error(path, errno);
    std::uint64_t magic = 0;
    const ssize_t size = ::pread(fd.get(), &magic, sizeof magic, 0);
    if (size < 0) throw_errno("pread", control);
    if (size != sizeof magic || magic != layout::JOURNAL_MAGIC) {
        throw NotAChannel(path, "its control file does not begin with the magic bytes of a journal");
    }
    std::optional<JournalFile> file;  // empty: its words cannot be used
    try {
        OpenJournalOptions options;
        options.any_file_system = true;
        file = open_journal(path, options);
    } catch (const CorruptHeader&) {
        // Broken: what its words mean is not known.
    } catch (const Truncated&) {
        // The same.
    } catch (const VersionTooNew&) {
        // The same. Any other error is passed on: it may be one of this process only, such as too many open files.
    }
    constexpr std::uint64_t control_lock = layout::HEADER_LENGTH + layout::CONTROL_CONTROL_LOCK;
    constexpr std::uint64_t writer_lock =
        layout::HEADER_LENGTH + layout::JOURNAL_CONTROL_SLOT + layout::CONTROL_SLOT_LOCK;
    const Fd description = open_description(fd, control);
    if (!lock_byte(description, writer_lock, control)) {
        if (file) file->throw_not_free();
        throw_writer_not_free(path, std::nullopt, "JournalWriter");
    }
    const SlotGuard guard(description, writer_lock);
    const ControlLock lock(description, control_lock, control);
    if (file) store_relaxed(file->successor(), layout::SUCCESSOR_UNLINKED);
    unlink_if_there(control);
    std::vector<std::string> names = folder.names();
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
        if (LockedFolder::is_of_a_journal(name)) unlink_if_there(path + "/" + name);
    }
    // Other files may be in it: then it stays.
    if (::rmdir(path.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST) throw_errno("rmdir", path);
    if (!file) return;
    wake_all(file->data());
    wake_all(file->work());
}

}  // namespace flyring::detail
