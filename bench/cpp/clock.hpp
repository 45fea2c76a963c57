// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>

#include "probe.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace bench {

/// Ticks of the cheapest clock.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(bench_now());
#endif
}

struct Clock {
    double ns_per_tick = 1;
    double cost = 0;

    Clock() {
        const auto t0 = bench_now();
        const auto c0 = ticks();
        while (bench_now() - t0 < 20'000'000) {
        }
        const auto c1 = ticks();
        ns_per_tick = static_cast<double>(bench_now() - t0) / static_cast<double>(c1 - c0);
        std::uint64_t sum = 0;
        const auto start = bench_now();
        for (int i = 0; i < 100'000; ++i) sum += ticks();
        cost = static_cast<double>(bench_now() - start) / 100'000;
        if (sum == 0) throw std::runtime_error("the clock stands");
    }
};

}  // namespace bench
