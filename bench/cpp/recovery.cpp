// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <flyring/flyring.hpp>
#include <flyring/journal.hpp>
#include <iostream>
#include <string>

#include "contenders.hpp"
#include "probe.h"

// Two programs of bench/journal.py: a writer that is killed, and one that takes its place.

namespace bench {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{4} << 30;

/// Appends to the journal `--dir` until it is killed, or has appended 4 GiB.
void append_until_killed(const Setup& setup) {
    flyring::Journal journal = flyring::Journal::open_or_create(setup.dir);
    flyring::JournalWriter writer = journal.writer("bench");
    std::byte message[32] = {};
    writer.append(flyring::Bytes(message, sizeof message));
    std::printf("{\"opened\": true}\n");
    std::fflush(stdout);
    while (writer.position() < most_bytes) writer.append(flyring::Bytes(message, sizeof message));
    for (;;) pause();
}

/// For each path on standard input: takes the writer's slot of that journal, and appends a message.
void take_over() {
    std::printf("{\"opened\": true}\n");
    std::fflush(stdout);
    std::string path;
    while (std::getline(std::cin, path)) {
        const std::int64_t start = bench_now();
        flyring::Journal journal = flyring::Journal::open(path);
        flyring::JournalWriter writer = journal.writer("bench");
        writer.append("after the kill");
        const std::int64_t ns = bench_now() - start;
        const std::int64_t before = writer.number() - 1;
        journal.close();
        std::printf("{\"ns\": %lld, \"messages\": %lld}\n", static_cast<long long>(ns), static_cast<long long>(before));
        std::fflush(stdout);
    }
}

}  // namespace

void run_recovery(const Setup& setup) {
    setup.producer() ? append_until_killed(setup) : take_over();
}

}  // namespace bench
