// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

// Folders of fuzzers and stress tests in shared memory. They are named /dev/shm/NAME-PID-XXXXXX, because these programs
// are often killed: the next one removes what dead ones left.

namespace private_folder {

inline void remove_left(const std::string& name) {
    std::error_code ignored;  // another program may remove the same folder
    const std::string prefix = name + "-";
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
        const std::string file = entry.path().filename().string();
        if (file.compare(0, prefix.size(), prefix) != 0) continue;
        char* end = nullptr;
        const long pid = std::strtol(file.c_str() + prefix.size(), &end, 10);
        if (pid <= 0 || *end != '-') continue;
        const bool lives = ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
        if (!lives) std::filesystem::remove_all(entry.path(), ignored);
    }
}

/// Makes a folder, and removes those of dead processes first. Returns its path; empty if none can be made.
inline std::string make(const std::string& name) {
    remove_left(name);
    std::string path = "/dev/shm/" + name + "-" + std::to_string(::getpid()) + "-XXXXXX";
    return ::mkdtemp(path.data()) != nullptr ? path : std::string();
}

}  // namespace private_folder
