// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <flyring/detail/system.hpp>
#include <flyring/wait.hpp>
#include <flyring/wait_set.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "options.hpp"
#include "report.hpp"

namespace demo {

inline std::int64_t now_ns() noexcept {
    return flyring::detail::clock_ns(CLOCK_MONOTONIC);
}

/// The strategy of --wait block: sleeps until the subscriber may have a message.
class Block {
  public:
    void sleep_for(flyring::Subscriber& subscriber) { set_.add(subscriber); }
    void idle(int work) { wait_.idle(work); }
    void reset() noexcept { wait_.reset(); }

  private:
    flyring::WaitSet set_;
    flyring::BlockWait wait_{set_, std::chrono::milliseconds(50)};  // wakes up to read the clock
};

/// Waits as --wait says, and gives up after --timeout.
template <typename Strategy>
class Waiter {
  public:
    explicit Waiter(const Options& options) : timeout_ns_(static_cast<std::int64_t>(options.timeout * 1e9)) {}

    /// One idle turn.
    void idle() {
        strategy_.idle(0);
        if (++turns_ % check_interval == 0) check();
    }

    /// Notes that the other side did something.
    void progress() noexcept {
        strategy_.reset();
        turns_ = 0;
        silent_since_ = 0;
    }

    Strategy& strategy() noexcept { return strategy_; }

  private:
    static constexpr std::uint32_t check_interval = std::is_same_v<Strategy, Block> ? 1 : 256;

    [[gnu::noinline]] void check() {
        const std::int64_t now = now_ns();
        if (silent_since_ == 0) {
            silent_since_ = now;
        } else if (now - silent_since_ > timeout_ns_) {
            throw std::runtime_error("the other side has been silent for " + std::to_string(timeout_ns_ / 1'000'000) +
                                     " ms; start it, or raise --timeout");
        }
    }

    Strategy strategy_;
    std::uint32_t turns_ = 0;
    std::int64_t silent_since_ = 0;
    std::int64_t timeout_ns_;
};

/// Runs warm-up and measurement. `trip(sequence, send_time, clock)` does one round trip and returns the value of
/// clock() when the answer arrived. Sequences start at 1. Returns the times of the round trips.
template <typename Trip>
Result measure(const Options& options, Trip&& trip) {
    constexpr auto no_clock = [] { return std::int64_t{0}; };
    std::int64_t sequence = 0;
    const std::int64_t began = now_ns();
    const auto mean_of = [&](std::int64_t count) {
        const std::int64_t start = now_ns();
        for (std::int64_t i = 0; i < count; ++i) trip(++sequence, began, no_clock);
        return static_cast<double>(now_ns() - start) / static_cast<double>(count);
    };

    if (options.warmup > 0) mean_of(options.warmup);
    Result result;
    result.count = options.count;
    if (options.untimed) {
        result.mean = mean_of(options.count);
        return result;
    }
    result.samples.reserve(static_cast<std::size_t>(options.count));
    const double interval = options.rate > 0 ? 1e9 / static_cast<double>(options.rate) : 0;
    const std::int64_t start = now_ns();
    double sum = 0;
    for (std::int64_t i = 0; i < options.count; ++i) {
        std::int64_t sent = now_ns();
        std::int64_t due = sent;
        if (options.rate > 0) {
            due = start + static_cast<std::int64_t>(interval * static_cast<double>(i));
            while ((sent = now_ns()) < due) flyring::detail::cpu_relax();
        }
        const std::int64_t took = trip(++sequence, sent, now_ns) - due;
        result.samples.push_back(took);
        sum += static_cast<double>(took);
    }
    result.mean = sum / static_cast<double>(options.count);
    return result;
}

}  // namespace demo
