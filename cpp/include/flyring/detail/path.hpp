// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "flyring/detail/layout.hpp"
#include "flyring/errors.hpp"

// The path of a channel's file (spec/channel.md 3.1).

namespace flyring::detail {

inline bool is_path(const std::string& channel) {
    return channel.find('/') != std::string::npos;
}

inline bool folder_named_by_environment() {
    const char* folder = std::getenv("FLYRING_DIR");
    return folder != nullptr && *folder != '\0';
}

/// `path` as an absolute path.
inline std::string absolute(const std::string& path) {
    if (path[0] == '/') return path;
    const std::unique_ptr<char, void (*)(void*)> folder(::getcwd(nullptr, 0), std::free);
    if (!folder) throw IoError("getcwd", errno, path);
    return std::string(folder.get()) + "/" + path;
}

inline std::string channel_folder() {
    if (folder_named_by_environment()) return absolute(std::getenv("FLYRING_DIR"));
    return "/dev/shm/flyring-" + std::to_string(::geteuid());
}

inline void check_name(const char* argument, const std::string& name) {
    constexpr const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (name.empty() || name.size() > layout::MAX_NAME_LENGTH || name.find_first_not_of(letters) != std::string::npos) {
        throw InvalidArgument(argument, "\"" + name + "\" is not 1 to 64 of the letters A-Z a-z 0-9 . _ -");
    }
}

/// The path of the file that `channel`, a name or a path, stands for. Throws InvalidArgument.
inline std::string channel_path(const std::string& channel) {
    if (is_path(channel)) return absolute(channel);
    check_name("name", channel);
    return channel_folder() + "/" + channel + ".ring";
}

inline std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

/// Throws AccessDenied if the default folder is not this user's alone: another user may have made it. A missing folder
/// is no error.
inline void check_default_folder(const std::string& channel) {
    if (is_path(channel) || folder_named_by_environment()) return;
    const std::string folder = channel_folder();
    struct stat status{};
    if (::lstat(folder.c_str(), &status) != 0) return;
    const char* reason = nullptr;
    if (!S_ISDIR(status.st_mode)) {
        reason = "it is not a folder; remove it, or set FLYRING_DIR";
    } else if (status.st_uid != ::geteuid()) {
        reason = "it belongs to another user; remove it, or set FLYRING_DIR";
    } else if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        reason = "others may write to it; chmod go-w it, or set FLYRING_DIR";
    }
    if (reason != nullptr) throw AccessDenied(folder, reason);
}

/// Makes the folder of named channels, if it is missing, and checks it.
inline void make_folder(const std::string& channel) {
    if (is_path(channel)) return;
    const std::string folder = channel_folder();
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
        const int error = errno;
        if (error == EACCES || error == EPERM || error == EROFS) {
            throw AccessDenied(folder, "it cannot be made; set FLYRING_DIR to a folder of yours");
        }
        throw IoError("mkdir", error, folder);
    }
    check_default_folder(channel);
}

}  // namespace flyring::detail
