// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flyring/detail/journal_file.hpp"
#include "flyring/detail/journal_record.hpp"
#include "flyring/errors.hpp"

// Segments: found, listed, made ready (spec/journal.md 2.3 and 4). Numbers in parentheses are sections of that page;
// 'prepare 3' is step 3 of its operation prepare.

namespace flyring::detail {

/// Raises a word that only grows.
inline void raise(std::int64_t* word, std::int64_t value) noexcept {
    std::int64_t was = load_relaxed(word);
    while (was < value && !__atomic_compare_exchange_n(word, &was, value, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

/// Reads up to `length` bytes; fewer at the file's end. -1: it cannot be read, and errno says why.
inline ssize_t read_at(const Fd& fd, std::byte* to, std::size_t length, std::int64_t offset) noexcept {
    std::size_t done = 0;
    while (done < length) {
        const ssize_t got = ::pread(fd.get(), to + done, length - done, offset + static_cast<std::int64_t>(done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(done);
}

/// Opens the segment at `position` if it is whole (2.3); otherwise it counts as missing, and the result is empty.
/// Throws AccessDenied, IoError if that cannot be found out: a recovery removes what it takes for missing.
inline Fd open_segment(const JournalFile& file, std::int64_t position, int access = O_RDONLY) {
    const std::string path = file.segment_path(position);
    Fd fd(::open(path.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENXIO) return {};
        throw_errno("open", path);
    }
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) throw_errno("fstat", path);
    if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) != file.header.segment_file_length()) {
        return {};
    }
    std::byte page[layout::HEADER_LENGTH];
    const ssize_t got = read_at(fd, page, sizeof page, 0);
    if (got < 0) throw_errno("pread", path);
    if (got != static_cast<ssize_t>(sizeof page)) return {};
    return is_segment_header(page, file.header, position) ? std::move(fd) : Fd();
}

inline Mapping map_segment(const JournalFile& file, const Fd& fd, std::int64_t position, Access access) {
    return {fd, file.header.segment_file_length(), access, file.segment_path(position)};
}

/// The positions in the names of all segments in the folder, in ascending order. Whether they are whole is not looked
/// at.
inline std::vector<std::int64_t> list_segments(const JournalFile& file) {
    std::vector<std::int64_t> found;
    std::vector<std::string> names;
    try {
        names = LockedFolder::names_in(file.path);
    } catch (const IoError& error) {
        if (error.error() != ENOENT) throw;  // else the journal was unlinked
    }
    for (const std::string& name : names) {
        const std::optional<std::int64_t> position = position_in_name(name);
        if (position && *position < layout::MAX_POSITION && file.header.in_segment(*position) == 0) {
            found.push_back(*position);
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

/// The highest whole segment at or below `position`; empty if there is none.
inline std::optional<std::int64_t> segment_below(const JournalFile& file, std::int64_t position) {
    const std::vector<std::int64_t> all = list_segments(file);
    for (auto one = all.rbegin(); one != all.rend(); ++one) {
        if (*one <= position && open_segment(file, *one)) return *one;
    }
    return std::nullopt;
}

/// Whether the segment at `position` was made ready (4). A `ready` that cannot be counts as 0 (10).
inline bool is_ready(const JournalFile& file, std::int64_t position) noexcept {
    const std::int64_t ready = load_acquire(file.ready());  // pairs with prepare 5
    if (ready < 0 || ready > layout::MAX_POSITION || file.header.in_segment(ready) != 0) return false;
    return ready >= position + file.header.size();
}

/// Whether a file has the name of the segment at `position`.
inline bool has_segment(const JournalFile& file, std::int64_t position) {
    return ::access(file.segment_path(position).c_str(), F_OK) == 0 || errno != ENOENT;
}

[[noreturn, gnu::cold]] inline void throw_no_space_for_segment(const JournalFile& file, const NoSpace& error) {
    throw NoSpace("there is no space for the next segment of journal " + file.path + ": it needs " +
                      std::to_string(error.needed()) + " bytes, free are " + std::to_string(error.free()) +
                      "; trim it, or make room on the disk",
                  error.needed(), error.free());
}

inline void sync_file(const Fd& fd, const std::string& path) {
    if (::fsync(fd.get()) != 0) throw IoError("fsync", errno, path);
}

/// Makes the segment at `position` ready (4). `first`: a recovery's, or a creator's, first check in it. Throws NoSpace,
/// IoError; the journal is as it was then.
inline void prepare_segment(const JournalFile& file, std::int64_t position,
                            const std::optional<JournalCheck>& first = std::nullopt) {
    const std::string path = file.segment_path(position);
    if (position >= layout::MAX_POSITION - file.header.size()) {
        file.corrupt(position, "it has reached the last position");
    }
    for (;;) {
        if (!first) {
            if (const Fd found = open_segment(file, position)) {  // prepare 1
                // Its maker may have been killed before it synced.
                if (::fsync(found.get()) != 0) {  // prepare 4
                    const int error = errno;
                    (void)::unlink(path.c_str());  // another sync of it would prove nothing (5)
                    throw IoError("fsync", error, path);
                }
                file.sync_folder();
                break;
            }
        }
        UnnamedFile unnamed(path);  // prepare 2
        if (::fchmod(unnamed.fd().get(), file.mode) != 0) throw_errno("fchmod", path);
        try {
            allocate(unnamed.fd(), file.header.segment_file_length(), path);
        } catch (const NoSpace& error) {
            throw_no_space_for_segment(file, error);
        }
        std::byte page[layout::HEADER_LENGTH + layout::JOURNAL_CHECK_SIZE]{};
        const std::int64_t now =
            file.environment.created_at ? *file.environment.created_at : wall_clock(file.environment);
        write_segment_header(page, file.header, position, now);
        if (first) write_check(page + layout::HEADER_LENGTH, *first);
        if (::pwrite(unnamed.fd().get(), page, sizeof page, 0) != static_cast<ssize_t>(sizeof page)) {
            throw_errno("pwrite", path);
        }
        sync_file(unnamed.fd(), path);  // prepare 3
        struct stat status{};
        // A file of this name that is not whole, or of another journal, is replaced.
        if (::lstat(path.c_str(), &status) == 0 && (first || !open_segment(file, position))) {
            if (first) {  // the control lock is held, or no other process knows the journal yet
                unnamed.replace();
            } else {
                // Under the lock, after another look: a whole one may be in use already.
                const Fd description = open_description(file.fd, file.control);
                const ControlLock lock(description, file.control_lock(), file.control);
                if (open_segment(file, position)) continue;
                unnamed.replace();
            }
        } else {
            try {
                unnamed.link();
            } catch (const ChannelExists&) {
                continue;  // another process was faster: prepare 1
            }
        }
        file.sync_folder();  // prepare 4
        break;
    }
    raise(file.ready(), position + file.header.size());  // prepare 5
}

/// Makes the segment at `position` ready if it is not.
inline void make_ready(const JournalFile& file, std::int64_t position) {
    if (!is_ready(file, position)) prepare_segment(file, position);
}

/// Creates a journal (2).
inline JournalFile create_journal(const std::string& journal, const JournalOptions& options,
                                  const Environment& environment) {
    JournalFile file;
    file.header = check_options(options);
    file.path = journal_path(journal);
    file.control = file.path + "/control";
    file.schema = options.schema;
    file.environment = environment;
    file.boot = boot_id(environment);
    file.mode = options.mode;
    file.wakes = options.wake;
    make_folder(journal);
    struct stat status{};
    if (::lstat(file.control.c_str(), &status) == 0) throw ChannelExists(file.path);
    const LockedFolder folder(file.path, true);
    for (const std::string& name : folder.names()) {
        if (name == "control") throw ChannelExists(file.path);
        if (!LockedFolder::is_of_a_journal(name)) {
            throw NotAChannel(file.path, "it is a folder with other files, such as " + name);
        }
    }
    folder.allow(options.mode);

    UnnamedFile unnamed(file.control);
    if (::fchmod(unnamed.fd().get(), options.mode) != 0) throw_errno("fchmod", file.control);
    check_journal_file_system(unnamed.fd(), file.path, options.any_file_system);
    allocate(unnamed.fd(), file.header.file_length(), file.path);
    file.header.journal_id = environment.channel_id ? *environment.channel_id : new_uuid();
    file.header.created_at = environment.created_at ? *environment.created_at : wall_clock(environment);
    file.fd = unnamed.take_fd();
    file.fd.mark(file.control);
    file.map();
    write_header(file.mapping.data(), file.header);
    std::memcpy(file.mapping.data() + file.header.schema_offset(), file.schema.data(), file.schema.size());
    constexpr auto first_end = static_cast<std::int64_t>(layout::JOURNAL_CHECK_SIZE);
    store_relaxed(file.claimed(), first_end);
    store_relaxed(file.published(), first_end);
    store_relaxed(file.sync_every(), options.sync.value_or(JournalSync::never()).word());
    store_relaxed(file.max_age(), std::int64_t{options.max_age.value_or(std::chrono::nanoseconds(0)).count()});
    store_relaxed(file.max_size(), static_cast<std::int64_t>(options.max_size.value_or(0)));
    store_relaxed(file.trim_consumed(), std::int32_t{options.trim_consumed.value_or(false)});
    file.store_boot();
    check_locks(file.fd, file.header.control_offset(), file.control);
    prepare_segment(file, 0, JournalCheck{0, 0, 0, 0});
    sync_file(file.fd, file.control);
    try {
        unnamed.link();
    } catch (const ChannelExists&) {
        throw ChannelExists(file.path);
    }
    file.sync_folder();
    detail::sync_folder(file.path);
    return file;
}

}  // namespace flyring::detail
