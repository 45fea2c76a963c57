// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace demo {

enum class Program { ping, counter, line };
enum class Wait { spin, yield, backoff, block };

/// The command-line options (bench/DEMOS.md).
struct Options {
    Program program = Program::ping;
    bool ping = true;  // false: pong
    std::string channel = "demo";
    std::size_t size = 32;
    std::int64_t count = 1'000'000;
    std::int64_t warmup = 100'000;
    std::int64_t rate = 0;
    int core = -1;
    Wait wait = Wait::spin;
    std::uint32_t capacity = 1 << 20;
    std::uint32_t alignment = 64;
    double timeout = 30;
    std::string histogram;
    bool json = false;
    bool untimed = false;
    bool typed = false;  // then `size` is that of the typed message
};

const char* name(Program program);
const char* name(Wait wait);

/// Parses the command line. Throws std::invalid_argument.
Options parse(int count, const char* const* words);

extern const char* const usage;

}  // namespace demo
