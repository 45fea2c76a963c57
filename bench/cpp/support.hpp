// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "harness.hpp"

namespace bench {

/// Ends a side before it is opened, because the contender does not support this scenario, size or wait.
[[noreturn]] inline void cannot(const Setup& setup, const std::string& why) {
    throw std::runtime_error("cannot: " + setup.contender + ": " + why);
}

/// Throws an error with the text of errno.
[[noreturn, gnu::cold, gnu::noinline]] inline void failed(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

inline bool several_producers(const Setup& setup) {
    return setup.option("producers", std::size_t{1}) > 1;
}
inline bool several_consumers(const Setup& setup) {
    return setup.option("consumers", std::size_t{1}) > 1;
}

/// For mechanisms that connect exactly two processes.
inline void only_one_to_one(const Setup& setup) {
    if (several_producers(setup) || several_consumers(setup)) cannot(setup, "one sender and one receiver only");
}
/// For queues that deliver each message to one reader.
inline void only_one_consumer(const Setup& setup) {
    if (several_consumers(setup)) cannot(setup, "a message goes to one receiver only");
}

/// The length of every bounded queue here: as many messages as fit into 1 MiB, but at least 64.
constexpr std::size_t queue_length(std::size_t size) {
    return std::max<std::size_t>(64, (std::size_t{1} << 20) / size);
}

inline std::string linux_version() {
    utsname name;
    return uname(&name) == 0 ? std::string("Linux ") + name.release : "Linux";
}

/// run() for contenders that must know the message size when they are compiled.
template <template <std::size_t> class Contender>
void run_sized(const Setup& setup) {
    const auto with = [&](auto size) {
        constexpr std::size_t bytes = decltype(size)::value;
        if (setup.whole) {
            Runner<Contender<bytes>, bytes, true>(setup).run();
        } else {
            Runner<Contender<bytes>, bytes, false>(setup).run();
        }
    };
    switch (setup.size) {
        case 32:
            return with(std::integral_constant<std::size_t, 32>());
        case 1024:
            return with(std::integral_constant<std::size_t, 1024>());
        case 65536:
            return with(std::integral_constant<std::size_t, 65536>());
        default:
            throw std::runtime_error("--size is 32, 1024 or 65536");
    }
}

}  // namespace bench
