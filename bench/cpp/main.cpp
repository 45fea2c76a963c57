// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <string>

#include "contenders.hpp"
#include "probe.h"
#include "setup.hpp"

namespace bench {

static Setup parse(int count, char** words) {
    Setup setup;
    for (int at = 1; at + 1 < count; at += 2) {
        const std::string name = words[at], value = words[at + 1];
        if (name == "--contender") {
            setup.contender = value;
        } else if (name == "--side") {
            setup.side = value == "a" ? Side::a : value == "b" ? Side::b : value == "a2" ? Side::a2 : Side::b2;
        } else if (name == "--scenario") {
            setup.scenario = value == "rtt"        ? Scenario::rtt
                             : value == "schedule" ? Scenario::schedule
                             : value == "idle"     ? Scenario::idle
                             : value == "jobs"     ? Scenario::jobs
                             : value == "burst"    ? Scenario::burst
                             : value == "map"      ? Scenario::map
                             : value == "append"   ? Scenario::append
                             : value == "replay"   ? Scenario::append  // the other side's time counts
                                                   : Scenario::stream;
        } else if (name == "--size") {
            setup.size = std::stoul(value);
        } else if (name == "--mode") {
            setup.whole = value == "write";
        } else if (name == "--wait") {
            setup.block = value == "block";
        } else if (name == "--core") {
            setup.core = std::stoi(value);
        } else if (name == "--dir") {
            setup.dir = value;
        } else if (name == "--sides") {
            setup.sides = std::stoi(value);
        } else if (name == "--rate") {
            setup.rate = std::stod(value);
        } else if (name == "--time-slice") {
            setup.time_slice = std::stod(value);
        } else if (name == "--option") {
            const auto equals = value.find('=');
            setup.options[value.substr(0, equals)] = equals == std::string::npos ? "" : value.substr(equals + 1);
        } else {
            throw std::runtime_error("unknown option " + name);
        }
    }
    return setup;
}

struct Contender {
    const char* name;
    void (*run)(const Setup&);
};

static constexpr Contender contenders[] = {
    {"flyring-offer", run_flyring_offer},
    {"flyring-claim", run_flyring_claim},
    {"flyring-block", run_flyring_block},
    {"flyring-typed", run_flyring_typed},
    {"flyring-queue", run_flyring_queue},
    {"flyring-service", run_flyring_service},
    {"flyring-table", run_flyring_table},
    {"flyring-table-entry", run_flyring_table_entry},
    {"flyring-table-server", run_flyring_server},
    {"flyring-journal", run_flyring_journal},
    {"journal-recovery", run_recovery},
    {"journal-recorded", run_recorded},
    {"heap-map", run_heap_map},
    {"raw-line", run_raw_line},
    {"bare-ring", run_bare_ring},
    {"cas-counter", run_cas_counter},
    {"memcpy", run_memcpy},
    {"pipe", run_pipe},
    {"unix-stream", run_unix_stream},
    {"unix-seqpacket", run_unix_seqpacket},
    {"file", run_file},
    {"posix-mq", run_posix_mq},
    {"sysv-mq", run_sysv_mq},
    {"futex", run_futex},
    {"futex-barrier", run_futex_barrier},
    {"eventfd", run_eventfd},
    {"beside", run_beside},
#ifdef BENCH_PEERS
    {"boost-mq", run_boost_mq},
    {"boost-spsc", run_boost_spsc},
    {"boost-queue", run_boost_queue},
    {"zeromq-ipc", run_zeromq_ipc},
    {"zeromq-jobs", run_zeromq_jobs},
    {"zeromq-req", run_zeromq_req},
#endif
#ifdef BENCH_DATABASES
    {"lmdb", run_lmdb},
    {"sqlite", run_sqlite},
    {"sqlite-log", run_sqlite_log},
    {"redis-map", run_redis_map},
#endif
#ifdef BENCH_GRPC
    {"grpc", run_grpc},
#endif
};

static void run(const Setup& setup) {
    if (setup.core >= 0 && bench_pin(setup.core) != 0)
        throw std::runtime_error("cannot pin to core " + std::to_string(setup.core));
    for (const Contender& contender : contenders) {
        if (setup.contender == contender.name) return contender.run(setup);
    }
    throw std::runtime_error("no contender is called " + setup.contender);
}

}  // namespace bench

int main(int count, char** words) {
    try {
        bench::run(bench::parse(count, words));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "flyring-bench: %s\n", error.what());
        return 1;
    }
    return 0;
}
