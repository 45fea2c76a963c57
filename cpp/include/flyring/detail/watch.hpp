// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "flyring/channel.hpp"
#include "flyring/counters.hpp"

namespace flyring {

/// What a watchdog has found.
struct Missed {
    enum class Kind {
        heartbeat,  ///< A thread does not beat.
        canary,     ///< A stretch of code takes longer than expected.
        watchdog,   ///< The watchdog itself slept too long.
    };
    Kind kind = Kind::heartbeat;
    /// The name of the heartbeat or the label of the canary.
    std::string label;
    /// In the pid namespace of the thread.
    std::int32_t pid = 0;
    /// What was promised or expected.
    std::chrono::nanoseconds interval{0};
    /// By how much it is longer.
    std::chrono::nanoseconds late{0};
    /// How often it happened since the last report; `late` is the largest of them.
    std::int64_t times = 1;
    /// Whether the thread or the stretch is still late.
    bool running = false;
    /// The stack of the thread: empty in C++.
    std::string stack;

    /// One line, and the stack if there is one.
    std::string text() const {
        std::string shown = label;  // other processes write it
        std::replace_if(
            shown.begin(), shown.end(), [](char one) { return (one >= 0 && one < ' ') || one == '\x7f'; }, ' ');
        std::string line = "flyring: " + shown + " of process " + std::to_string(pid);
        const std::string total = duration(interval + late);
        if (kind == Kind::heartbeat) {
            line += " has not beaten for " + total + "; it promises a beat every " + duration(interval);
        } else if (kind == Kind::watchdog) {
            line += " slept " + duration(late) + " too long; that time counts against no thread";
        } else {
            line += (running ? " has run for " : " took ") + total + "; expected " + duration(interval);
        }
        if (times > 1) line += " (the worst of " + std::to_string(times) + ")";
        return stack.empty() ? line : line + "\n" + stack;
    }

  private:
    static std::string duration(std::chrono::nanoseconds time) {
        char text[40];
        const bool seconds = time >= std::chrono::seconds(1);
        std::snprintf(text, sizeof text, seconds ? "%.3f s" : "%.3f ms",
                      static_cast<double>(time.count()) / (seconds ? 1e9 : 1e6));
        return text;
    }
};

namespace detail {

/// What a canary shares with its watchdog. The thread of the stretch writes `start`, `times`, `worst` and `of`, the
/// watchdog writes `round`.
struct Stretch {
    Stretch(std::string the_label, std::int64_t the_expected) : label(std::move(the_label)), expected(the_expected) {}

    void begin() noexcept { start.store(clock_ns(CLOCK_MONOTONIC), std::memory_order_relaxed); }
    void end() noexcept {
        const std::int64_t took = clock_ns(CLOCK_MONOTONIC) - start.load(std::memory_order_relaxed);
        start.store(0, std::memory_order_relaxed);
        if (FLYRING_UNLIKELY(took > expected)) too_long(took);
    }
    [[gnu::cold, gnu::noinline]] void too_long(std::int64_t took) noexcept {
        const std::int64_t now = round.load(std::memory_order_relaxed);
        if (of != now || took > worst.load(std::memory_order_relaxed)) worst.store(took, std::memory_order_relaxed);
        of = now;
        times.fetch_add(1, std::memory_order_release);  // pairs with Watch::look_at_canary
    }

    const std::string label;
    const std::int64_t expected;
    /// When the stretch began; 0: it does not run.
    std::atomic<std::int64_t> start{0};
    /// How many stretches were too long, ever.
    std::atomic<std::int64_t> times{0};
    /// The longest of the round.
    std::atomic<std::int64_t> worst{0};
    /// The round to which `worst` belongs.
    std::int64_t of = 0;
    /// Grows with each report of the watchdog.
    std::atomic<std::int64_t> round{0};
};

/// The thread of a watchdog and what it shares with the Watchdog object. Times are of CLOCK_MONOTONIC, in ns.
class Watch {
  public:
    using OnMissed = std::function<void(const Missed&)>;

    static std::shared_ptr<Watch> start(const Channel& channel, OnMissed on_missed, std::chrono::nanoseconds every,
                                        std::chrono::nanoseconds repeat) {
        if (every.count() <= 0) throw InvalidArgument("every", "it must be above 0");
        if (repeat.count() < 0) throw InvalidArgument("repeat", "it must not be below 0");
        std::shared_ptr<Watch> watch(
            new Watch(channel.counters(), std::move(on_missed), std::min(every, LONGEST), repeat.count()));
        const std::lock_guard<std::mutex> guard(watch->mutex_);  // the thread's first sleep waits for thread_
        watch->thread_ = std::thread([watch] { watch->run(); });
        return watch;
    }

    /// For the destructor of Watchdog.
    void end() noexcept {
        if (forked()) return;
        stop();
        if (!thread_.joinable()) return;
        if (thread_.get_id() == std::this_thread::get_id()) {
            thread_.detach();
        } else {
            thread_.join();
        }
    }

    void close() {
        if (forked()) return;
        stop();
        const std::lock_guard<std::mutex> guard(join_mutex_);
        if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
    }

    std::shared_ptr<Stretch> add(const std::string& label, std::chrono::nanoseconds expected) {
        if (expected.count() <= 0) throw InvalidArgument("expected", "it must be above 0");
        if (forked()) throw Closed("the watchdog is used in a forked child; make one there");
        auto stretch = std::make_shared<Stretch>(label, expected.count());
        const std::lock_guard<std::mutex> guard(mutex_);
        if (stopped_) throw Closed("the watchdog is used after close");
        fresh_.push_back(stretch);
        return stretch;
    }

  private:
    static constexpr std::chrono::nanoseconds LONGEST = std::chrono::hours(24 * 365);

    /// What it remembers of a heartbeat, of a canary, or of itself.
    struct Seen {
        std::int64_t value = 0;  // number of beats; start of the stretch
        std::int64_t since = 0;  // when the value last changed, later by what the watchdog overslept
        std::int64_t told = -1;  // when it was last reported to the callback; -1: never
        std::int64_t times = 0;  // how many stretches were too long at the last report
    };
    using Hearts = std::map<std::tuple<std::int32_t, std::int64_t, std::string, std::int32_t>, Seen>;

    Watch(Counters counters, OnMissed on_missed, std::chrono::nanoseconds every, std::int64_t repeat)
        : counters_(std::move(counters)), on_missed_(std::move(on_missed)), every_(every), repeat_(repeat) {}

    bool forked() const noexcept { return ::getpid() != pid_; }

    void stop() {
        const std::lock_guard<std::mutex> guard(mutex_);
        stopped_ = true;
        wake_.notify_all();
    }

    /// Sleeps until the next look. Returns whether the watchdog was closed.
    bool sleep() {
        std::unique_lock<std::mutex> lock(mutex_);
        const bool closed = wake_.wait_for(lock, every_, [this] { return stopped_; });
        for (std::shared_ptr<Stretch>& one : fresh_) canaries_.emplace_back(std::move(one), Seen{});
        fresh_.clear();
        return closed;
    }

    void run() {
        bool last = false;
        while (!last) {
            const std::int64_t before = clock_ns(CLOCK_MONOTONIC);
            last = sleep();
            const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
            const std::int64_t overslept = last ? 0 : std::max<std::int64_t>(0, now - before - every_.count());
            look_at_itself(now, overslept, last);
            look_at_canaries(now, overslept, last);
            if (!last && !look_at_hearts(now, overslept)) {
                stop();  // the channel is closed
                last = sleep();
                look_at_canaries(now, 0, last);
            }
        }
    }

    void look_at_itself(std::int64_t now, std::int64_t overslept, bool last) {
        if (overslept > every_.count()) {
            ++itself_.times;
            worst_ = std::max(worst_, overslept);
        }
        if (itself_.times == 0 || !may_tell(itself_, now, last)) return;
        const std::int64_t times = std::exchange(itself_.times, 0);
        const std::int64_t worst = std::exchange(worst_, 0);
        tell({Missed::Kind::watchdog, "watchdog", pid_, every_, std::chrono::nanoseconds(worst), times, false, {}});
    }

    void look_at_canaries(std::int64_t now, std::int64_t overslept, bool last) {
        for (auto& [stretch, seen] : canaries_) look_at_canary(*stretch, seen, now, overslept, last);
    }

    void look_at_canary(Stretch& stretch, Seen& seen, std::int64_t now, std::int64_t overslept, bool last) {
        const std::int64_t times = stretch.times.load(std::memory_order_acquire);  // pairs with too_long
        if (times != seen.times && may_tell(seen, now, last)) {
            const std::int64_t worst = stretch.worst.load(std::memory_order_relaxed);
            stretch.round.fetch_add(1, std::memory_order_relaxed);
            const std::int64_t many = times - std::exchange(seen.times, times);
            tell_canary(stretch, worst, many, false);
        }
        const std::int64_t start = stretch.start.load(std::memory_order_relaxed);
        if (start != seen.value) seen.value = seen.since = start;
        seen.since = std::min(now, seen.since + overslept);
        if (start != 0 && now - seen.since > stretch.expected && may_tell(seen, now)) {
            tell_canary(stretch, now - seen.since, 1, true);
        }
    }

    void tell_canary(const Stretch& stretch, std::int64_t took, std::int64_t times, bool running) {
        tell({Missed::Kind::canary,
              stretch.label,
              pid_,
              std::chrono::nanoseconds(stretch.expected),
              std::chrono::nanoseconds(took - stretch.expected),
              times,
              running,
              {}});
    }

    /// Returns false if the channel is closed.
    bool look_at_hearts(std::int64_t now, std::int64_t overslept) {
        Hearts hearts;
        std::vector<Missed> late;
        try {
            for (const HeartbeatStats& heart : counters_.heartbeats()) {
                const auto key = std::make_tuple(heart.id, heart.started_at, heart.name, heart.pid);
                const auto known = hearts_.find(key);
                Seen& seen = hearts[key];
                seen = known != hearts_.end() ? known->second : Seen{heart.beats, now};
                seen.since = std::min(now, seen.since + overslept);
                if (heart.beats != seen.value) {
                    seen.value = heart.beats;
                    seen.since = now;
                } else if (heart.interval > 0 && now - seen.since > heart.interval && may_tell(seen, now)) {
                    late.push_back({Missed::Kind::heartbeat,
                                    heart.name,
                                    heart.pid,
                                    std::chrono::nanoseconds(heart.interval),
                                    std::chrono::nanoseconds(now - seen.since - heart.interval),
                                    1,
                                    true,
                                    {}});
                }
            }
        } catch (const Closed&) {
            return false;
        }
        hearts_ = std::move(hearts);
        for (const Missed& missed : late) tell(missed);
        return true;
    }

    bool may_tell(Seen& seen, std::int64_t now, bool last = false) const {
        if (seen.told >= 0 && now - seen.told < repeat_ && !last) return false;
        seen.told = now;
        return true;
    }

    void tell(const Missed& missed) const {
        try {
            on_missed_(missed);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "flyring: the callback of a watchdog has thrown: %s\n", error.what());
        } catch (...) {
            std::fprintf(stderr, "flyring: the callback of a watchdog has thrown\n");
        }
    }

    const Counters counters_;
    const OnMissed on_missed_;
    const std::chrono::nanoseconds every_;
    const std::int64_t repeat_;
    const std::int32_t pid_ = ::getpid();

    std::mutex mutex_;  // of the next three
    std::condition_variable wake_;
    bool stopped_ = false;
    std::vector<std::shared_ptr<Stretch>> fresh_;  // those that the thread has not taken over yet

    std::mutex join_mutex_;
    std::thread thread_;

    // Only the thread uses these.
    std::vector<std::pair<std::shared_ptr<Stretch>, Seen>> canaries_;
    Hearts hearts_;
    Seen itself_;
    std::int64_t worst_ = 0;
};

}  // namespace detail
}  // namespace flyring
