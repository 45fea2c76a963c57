// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

#include "flyring/detail/file.hpp"
#include "flyring/errors.hpp"

// The check whether another channel has taken this channel's name (spec/channel.md 6.13).

namespace flyring::detail {

/// The id of the channel that has this path now; empty if that cannot be told.
inline std::optional<Uuid> channel_at(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    std::byte page[layout::HEADER_LENGTH]{};
    const ssize_t size = ::pread(fd.get(), page, sizeof page, 0);
    if (size < 0) return std::nullopt;
    try {
        return HeaderReader(page, static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(status.st_size), path)
            .read()
            .channel_id;
    } catch (const FlyringError&) {
        return std::nullopt;  // not a complete channel
    }
}

/// The id of the channel that has replaced this one; empty if none has, or if that cannot be told.
[[gnu::cold, gnu::noinline]] inline std::optional<Uuid> find_replacement(const ChannelFile& file) {
    struct stat status{};
    if (!file.fd.ours() || ::fstat(file.fd.get(), &status) != 0 || status.st_nlink > 0) return std::nullopt;
    const std::optional<Uuid> now = channel_at(file.path);
    return now && *now != file.header.channel_id ? now : std::nullopt;
}

inline bool is_replaced(const ChannelFile& file) {
    return find_replacement(file).has_value();
}

/// Throws ChannelReplaced if another channel has the name.
[[gnu::cold, gnu::noinline]] inline void check_replaced(const ChannelFile& file) {
    if (const std::optional<Uuid> now = find_replacement(file)) throw ChannelReplaced(file.path, *now);
}

/// Counts empty polls in a row. After many of them, checks whether the channel was replaced.
class IdlePolls {
  public:
    void found_something() noexcept { count_ = 0; }
    /// Makes the next empty poll check.
    void look_next() noexcept { count_ = layout::POLLS_TO_LOOK - 1; }
    void found_nothing(const ChannelFile& file) {
        if (FLYRING_LIKELY(++count_ < layout::POLLS_TO_LOOK)) return;
        count_ = 0;
        check_replaced(file);
    }

  private:
    std::uint32_t count_ = 0;
};

}  // namespace flyring::detail
