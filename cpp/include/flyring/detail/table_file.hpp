// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "flyring/detail/environment.hpp"
#include "flyring/detail/file.hpp"
#include "flyring/detail/path.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/system.hpp"
#include "flyring/detail/table_header.hpp"
#include "flyring/detail/waiting.hpp"
#include "flyring/errors.hpp"
#include "flyring/table_options.hpp"

// A table's file: creating, attaching, replacing and removing it (spec/table.md 2, spec/channel.md 3). Numbers in
// parentheses are sections of spec/table.md.

namespace flyring::detail {

/// The path of the file that `table`, a name or a path, stands for. Throws InvalidArgument.
inline std::string table_path(const std::string& table) {
    if (is_path(table)) return absolute(table);
    check_name("name", table);
    return channel_folder() + "/" + table + ".table";
}

/// Checks the options and turns them into a header. `checked` is as the options say; if they do not say, false.
inline TableHeader check_options(const TableOptions& options) {
    using namespace layout;
    const auto require = [](bool good, const char* argument, const char* rule) {
        if (!good) throw InvalidArgument(argument, rule);
    };
    TableHeader header;
    header.capacity = options.capacity.value_or(0);
    require(header.capacity >= 1 && header.capacity <= TABLE_MAX_CAPACITY, "capacity",
            "it must be 1 to 1073741824 keys");
    header.key_type = options.key;
    require(options.key == KeyType::bytes || options.key == KeyType::text || options.key == KeyType::integer, "key",
            "it must be bytes, text or integer");
    const bool integer = options.key == KeyType::integer;
    header.key_bytes = options.key_bytes.value_or(integer ? static_cast<std::uint32_t>(TABLE_INTEGER_KEY_BYTES)
                                                          : static_cast<std::uint32_t>(TABLE_DEFAULT_KEY_BYTES));
    require(header.key_bytes >= 1 && header.key_bytes <= TABLE_MAX_KEY_BYTES, "key_bytes", "it must be 1 to 1024");
    require(!integer || header.key_bytes == TABLE_INTEGER_KEY_BYTES, "key_bytes",
            "it must be 8 if the keys are integers");
    require(options.value_bytes.has_value(), "value_bytes", "it must be given: 0 to 16777216 bytes");
    header.value_bytes = *options.value_bytes;
    require(header.value_bytes <= TABLE_MAX_VALUE_BYTES, "value_bytes", "it must be 0 to 16777216");
    header.checked = options.checked.value_or(false);
    const bool typed = !options.schema.empty();
    require(options.schema.size() <= MAX_SCHEMA_LENGTH, "schema", "it must be at most 16 MiB long");
    require(options.schema_id <= 65535 && (typed || options.schema_id == 0), "schema_id",
            "it must be 0 to 65535, and 0 without a schema");
    require(options.schema_version <= 65535 && (typed || options.schema_version == 0), "schema_version",
            "it must be 0 to 65535, and 0 without a schema");
    require(options.value_template <= 65535 && (typed || options.value_template == 0), "message",
            "its template id must be 1 to 65535, and there must be a schema");
    require((options.mode & ~mode_t{0777}) == 0, "mode", "it must be permission bits, 0 to 0777");
    header.schema_length = options.schema.size();
    header.schema_id = options.schema_id;
    header.schema_version = options.schema_version;
    header.value_template = options.value_template;
    return header;
}

/// An attached table: descriptor, mappings, and a checked copy of the header. The descriptor itself never holds a lock.
struct TableFile {
    std::string path;
    Fd fd;
    TableHeader header;
    std::uint64_t length = 0;  // bytes; a file of a newer minor version may be longer than the mapping
    Mapping mapping;           // for writers and sleepers; empty if the table is read-only
    Mapping readable;          // read-only: a handler that gets a value in place cannot change it
    std::string schema;
    Environment environment;
    bool read_only = false;
    bool wakes = true;

    void check_writable() const {
        if (read_only) throw AccessDenied(path, "the table was opened for reading only; open it for writing");
    }
    [[noreturn]] void throw_needs_recovery() const {
        throw NeedsRecovery(path,
                            header.checked
                                ? "its values may be torn; open it for writing and take a writer, which recovers it"
                                : "its values may be torn, and it has no checksums to find them; replace or unlink it");
    }
    /// The control section; writable unless the table is read-only.
    std::byte* control() const noexcept { return (read_only ? readable : mapping).data() + header.control_offset(); }
    WaitingWords data() const noexcept {
        return {word_at<std::uint32_t>(control(), layout::TABLE_CONTROL_DATA_SEQUENCE),
                word_at<std::uint32_t>(control(), layout::TABLE_CONTROL_DATA_ASLEEP)};
    }
    std::int32_t* successor() const noexcept {
        return word_at<std::int32_t>(control(), layout::TABLE_CONTROL_SUCCESSOR);
    }
    SlotWords slot() const noexcept { return SlotWords(control() + layout::TABLE_CONTROL_SLOT); }
    /// The offset of the byte that the writer locks.
    std::uint64_t slot_lock() const noexcept {
        return header.control_offset() + layout::TABLE_CONTROL_SLOT + layout::CONTROL_SLOT_LOCK;
    }
    void map(const Fd& to) {
        if (!read_only) mapping = Mapping(to, header.file_length(), Access::write, path);
        readable = Mapping(to, header.file_length(), Access::read, path);
    }

    /// Whether the table was created or recovered in this boot, or was clean when its first writer in this boot took
    /// the slot. If not, and if it is not clean now, its cells may be torn (9).
    bool is_of_this_boot(const Uuid& boot) const noexcept {
        return std::memcmp(control() + layout::TABLE_CONTROL_BOOT_ID, boot.data(), boot.size()) == 0;
    }
    /// Whether nothing was changed since a synced close (9).
    bool is_clean() const noexcept {
        return load_relaxed(word_at<std::int32_t>(control(), layout::TABLE_CONTROL_CLEAN)) == 1;
    }

    /// Writes everything to the disk.
    void sync() const {
        check_ours(fd, "fdatasync", path);
        if (::fdatasync(fd.get()) != 0) throw_errno("fdatasync", path);
    }
    /// Writes the control section to the disk.
    void sync_control() const {
        if (::msync(control(), layout::TABLE_CONTROL_LENGTH, MS_SYNC) == 0) return;
        if (errno != EINVAL) throw_errno("msync", path);
        sync();  // EINVAL: the system's pages are larger than the section
    }
};

/// Opens, checks and maps a table (spec/channel.md 3.3).
inline TableFile open_table(const std::string& table, const OpenTableOptions& options,
                            const Environment& environment = {}) {
    TableFile file;
    file.path = table_path(table);
    file.environment = environment;
    check_default_folder(table);
    file.read_only = options.read_only;
    file.wakes = options.wake;
    const int access = options.read_only ? O_RDONLY : O_RDWR;
    file.fd = Fd(::open(file.path.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.fd) throw_open_error(file.path, errno);
    struct stat status{};
    if (::fstat(file.fd.get(), &status) != 0) throw_errno("fstat", file.path);
    if (!S_ISREG(status.st_mode)) throw NotAChannel(file.path, "it is not a regular file");

    std::byte page[layout::HEADER_LENGTH]{};
    const ssize_t size = ::pread(file.fd.get(), page, sizeof page, 0);
    if (size < 0) throw_errno("pread", file.path);
    file.length = static_cast<std::uint64_t>(status.st_size);
    file.header = TableHeaderReader(page, static_cast<std::uint64_t>(size), file.length, file.path).read();
    check_file_system(file.fd, file.path, options.any_file_system, options.read_only ? Purpose::read : Purpose::write);
    file.fd.mark(file.path);
    if (!file.read_only) check_locks(file.fd, file.header.control_offset(), file.path);
    file.map(file.fd);
    file.schema.assign(reinterpret_cast<const char*>(file.readable.data() + file.header.schema_offset()),
                       file.header.schema_length);
    return file;
}

/// A new table's file that has no name yet.
class NewTable {
  public:
    /// Makes the complete file, without a name. `path`: as table_path returns it. `same_table`: keeps id and creation
    /// time of `header`, because the file is the larger one of a grow.
    NewTable(const std::string& path, TableHeader header, const TableOptions& options, const Environment& environment,
             bool same_table = false)
        : unnamed_(path) {
        file.path = path;
        file.header = header;
        file.schema = options.schema;
        file.environment = environment;
        file.wakes = options.wake;
        if (::fchmod(unnamed_.fd().get(), options.mode) != 0) throw_errno("fchmod", path);
        check_file_system(unnamed_.fd(), path, options.any_file_system, Purpose::write);
        if (!options.checked) file.header.checked = !in_memory(unnamed_.fd(), path);
        allocate(unnamed_.fd(), file.header.file_length(), path);
        file.length = file.header.file_length();
        file.map(unnamed_.fd());
        if (!same_table) {
            file.header.table_id = environment.channel_id ? *environment.channel_id : new_uuid();
            file.header.created_at = environment.created_at ? *environment.created_at : wall_clock(environment);
        }
        write_header(file.mapping.data(), file.header);
        const Uuid boot = boot_id(environment);
        std::copy(boot.begin(), boot.end(), file.control() + layout::TABLE_CONTROL_BOOT_ID);
        std::memcpy(file.mapping.data() + file.header.schema_offset(), file.schema.data(), file.schema.size());
        check_locks(unnamed_.fd(), file.header.control_offset(), path);
        file.fd = unnamed_.take_fd();
        file.fd.mark(path);
    }

    /// Gives the file its name. Throws ChannelExists if a file has this name.
    void link() { unnamed_.link(); }
    /// Gives the file its name. If another file has this name, takes it from that file.
    void replace() { unnamed_.replace(); }

    TableFile file;

  private:
    UnnamedFile unnamed_;
};

/// Tells processes that have the table of this name open that its name changes (spec/channel.md 3.2, spec/table.md 7).
/// The constructor stores `successor` in that table; then the caller changes the name. The destructor stores it again,
/// because the slot's owner may have cleared it meanwhile, and wakes the sleepers. Failures are ignored: `successor` is
/// only a hint.
class TableSuccessor {
  public:
    TableSuccessor(const std::string& table, std::int32_t what) noexcept : what_(what) {
        try {
            OpenTableOptions options;
            options.any_file_system = true;
            old_ = open_table(table, options);
            store_relaxed(old_->successor(), what);
        } catch (const std::exception&) {
            old_.reset();
        }
    }
    TableSuccessor(const TableSuccessor&) = delete;
    TableSuccessor& operator=(const TableSuccessor&) = delete;
    ~TableSuccessor() {
        if (!old_) return;
        store_relaxed(old_->successor(), what_);
        wake_all(old_->data());
    }

  private:
    std::int32_t what_;
    std::optional<TableFile> old_;
};

/// Creates or replaces a table. The file gets its name last, when nothing else can fail.
inline TableFile create_table(const std::string& table, const TableOptions& options, const Environment& environment,
                              bool replace) {
    const TableHeader header = check_options(options);
    const std::string path = table_path(table);
    make_folder(table);
    struct stat status{};
    if (!replace && ::lstat(path.c_str(), &status) == 0) throw ChannelExists(path);
    NewTable made(path, header, options, environment);
    std::optional<TableSuccessor> successor;
    if (replace) successor.emplace(table, layout::SUCCESSOR_REPLACED);
    replace ? made.replace() : made.link();
    return std::move(made.file);
}

/// Removes a table's name; attached processes keep the file.
inline void unlink_table(const std::string& table) {
    const std::string path = table_path(table);
    check_default_folder(table);
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) throw_open_error(path, errno);
    std::uint64_t magic = 0;
    if (::pread(fd.get(), &magic, sizeof magic, 0) != sizeof magic || magic != layout::TABLE_MAGIC) {
        throw NotAChannel(path, "it does not begin with the magic bytes of a table");
    }
    const TableSuccessor successor(table, layout::SUCCESSOR_UNLINKED);
    if (::unlink(path.c_str()) != 0) {
        if (errno == ENOENT) throw NoSuchChannel(path);
        throw_errno("unlink", path);
    }
}

/// The header of the table that has this path now; empty if there is none. Throws IoError if the process cannot tell,
/// because it has no descriptor left.
inline std::optional<TableHeader> table_at(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) throw_errno("open", path);
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    std::byte page[layout::HEADER_LENGTH]{};
    const ssize_t size = ::pread(fd.get(), page, sizeof page, 0);
    if (size < 0) return std::nullopt;
    try {
        return TableHeaderReader(page, static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(status.st_size),
                                 path)
            .read();
    } catch (const FlyringError&) {
        return std::nullopt;  // not a complete table
    }
}

/// Whether `now` is the header of the table `was`, perhaps grown: only the capacity may differ (7).
inline bool is_grown(const TableHeader& now, const TableHeader& was) noexcept {
    return now.table_id == was.table_id && now.key_type == was.key_type && now.key_bytes == was.key_bytes &&
           now.value_bytes == was.value_bytes && now.checked == was.checked && now.schema_id == was.schema_id &&
           now.schema_version == was.schema_version && now.value_template == was.value_template;
}

/// What a look for another file of the same name finds (spec/channel.md 6.13, spec/table.md 7).
struct TableLook {
    bool named = false;                // the file itself has its name
    std::optional<TableHeader> now{};  // the header of another file that has the name
};
/// Looks which file has the name of `file`.
[[gnu::cold, gnu::noinline]] inline TableLook look_at_name(const TableFile& file) {
    struct stat status{};
    if (!file.fd.ours() || ::fstat(file.fd.get(), &status) != 0) return {};
    if (status.st_nlink > 0) return {true};
    return {false, table_at(file.path)};
}

}  // namespace flyring::detail
