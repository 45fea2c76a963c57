// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "support.hpp"

namespace {

using flyring::Canary;
using flyring::Channel;
using flyring::Heartbeat;
using flyring::Missed;
using flyring::Watchdog;
using support::code_of;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Watchdogs : public support::ChannelTest {};

void until(const std::function<bool()>& done) {
    const auto deadline = Clock::now() + 20s;
    while (!done()) {
        ASSERT_LT(Clock::now(), deadline);
        std::this_thread::sleep_for(5ms);
    }
}

/// Collects what a watchdog tells.
class Told {
  public:
    Watchdog::OnMissed callback() {
        return [this](const Missed& missed) { add(missed); };
    }
    void add(const Missed& missed) {
        const std::lock_guard<std::mutex> guard(mutex_);
        all_.push_back(missed);
    }
    std::vector<Missed> all() const {
        const std::lock_guard<std::mutex> guard(mutex_);
        return all_;
    }
    std::vector<Missed> of(Missed::Kind kind) const {
        std::vector<Missed> found;
        for (const Missed& one : all()) {
            if (one.kind == kind) found.push_back(one);
        }
        return found;
    }
    std::vector<Missed> hearts() const { return of(Missed::Kind::heartbeat); }
    std::vector<Missed> canaries() const { return of(Missed::Kind::canary); }
    Missed first(Missed::Kind kind) const {
        until([&] { return !of(kind).empty(); });
        const std::vector<Missed> found = of(kind);
        return found.empty() ? Missed{} : found.front();
    }

  private:
    mutable std::mutex mutex_;
    std::vector<Missed> all_;
};

Channel channel() {
    flyring::Options options = support::broadcast();
    options.counters = 4;
    return Channel::create("c", options);
}

/// The threads of this process.
std::size_t threads() {
    std::size_t count = 0;
    DIR* tasks = ::opendir("/proc/self/task");
    while (const dirent* one = ::readdir(tasks)) count += one->d_name[0] != '.' ? 1 : 0;
    ::closedir(tasks);
    return count;
}

TEST_F(Watchdogs, a_thread_that_misses_its_promise_is_named) {
    Channel one = channel();
    Told told;
    std::atomic<bool> go_on{false};
    std::thread thread([&] {
        Heartbeat heart(one, "loop", 100ms);
        heart.beat();
        while (!go_on) std::this_thread::sleep_for(1ms);
    });
    Missed missed;
    {
        const Watchdog watchdog(one, told.callback(), 20ms);
        missed = told.first(Missed::Kind::heartbeat);
        go_on = true;
        thread.join();
    }
    EXPECT_EQ(missed.label, "loop");
    EXPECT_EQ(missed.pid, getpid());
    EXPECT_EQ(missed.interval, 100ms);
    EXPECT_EQ(missed.times, 1);
    EXPECT_TRUE(missed.running);
    EXPECT_GT(missed.late, 0ns);
    EXPECT_LT(missed.late, 20s);
    EXPECT_EQ(missed.stack, "");
}

TEST_F(Watchdogs, a_heartbeat_of_another_process_is_named) {
    Channel one = channel();
    Told told;
    support::Child child([](const support::Child::Ready& ready) {
        Channel mine = Channel::open("c");
        Heartbeat heart(mine, "loop", 250ms);
        heart.beat();
        ready();
        for (;;) pause();
        return true;
    });
    child.wait_until_ready();
    const Watchdog watchdog(one, told.callback(), 20ms);
    const Missed missed = told.first(Missed::Kind::heartbeat);
    EXPECT_EQ(missed.label, "loop");
    EXPECT_EQ(missed.pid, child.pid());
    EXPECT_EQ(missed.interval, 250ms);
    child.kill();
}

TEST_F(Watchdogs, threads_that_beat_or_promise_nothing_are_not_named) {
    Channel one = channel();
    Told told;
    {
        Heartbeat heart(one, "loop", 5s);
        const Heartbeat idle(one, "idle", 0s);
        const Heartbeat late(one, "late", 50ms);
        const Watchdog watchdog(one, told.callback(), 20ms);
        for (const auto end = Clock::now() + 500ms; Clock::now() < end; std::this_thread::sleep_for(10ms)) heart.beat();
        told.first(Missed::Kind::heartbeat);
    }
    std::set<std::string> labels;
    for (const Missed& missed : told.hearts()) labels.insert(missed.label);
    EXPECT_EQ(labels, std::set<std::string>{"late"});
}

TEST_F(Watchdogs, a_thread_that_beats_again_is_named_only_when_it_is_late_again) {
    Channel one = channel();
    Told told;
    Heartbeat heart(one, "loop", 400ms);
    const Watchdog watchdog(one, told.callback(), 20ms, 0s);
    told.first(Missed::Kind::heartbeat);
    heart.beat();
    std::this_thread::sleep_for(100ms);
    const std::size_t many = told.hearts().size();
    std::this_thread::sleep_for(100ms);
    heart.beat();
    EXPECT_EQ(told.hearts().size(), many);
    until([&] { return told.hearts().size() > many; });
}

TEST_F(Watchdogs, the_same_is_not_told_again_for_a_while) {
    Channel one = channel();
    Told told;
    Told often;
    std::mutex mutex;
    std::vector<Clock::time_point> at;
    {
        const Heartbeat heart(one, "loop", 50ms);
        const Watchdog seldom(one, told.callback(), 20ms, 60s);
        const Watchdog watchdog(
            one,
            [&](const Missed& missed) {
                if (missed.kind == Missed::Kind::heartbeat) {
                    const std::lock_guard<std::mutex> guard(mutex);
                    at.push_back(Clock::now());
                }
                often.add(missed);
            },
            20ms, 100ms);
        until([&] { return often.hearts().size() >= 4 && !told.hearts().empty(); });
    }
    EXPECT_EQ(told.hearts().size(), 1U);
    ASSERT_GE(at.size(), 4U);
    EXPECT_GE(at[3] - at[0], 250ms);
}

TEST_F(Watchdogs, a_slow_stretch_is_named_while_it_runs) {
    Channel one = channel();
    Told told;
    Missed missed;
    {
        Watchdog watchdog(one, told.callback(), 20ms);
        Canary canary(watchdog, "parse", 50ms);
        const Canary::Stretch stretch = canary.begin();
        missed = told.first(Missed::Kind::canary);
    }
    EXPECT_EQ(missed.label, "parse");
    EXPECT_EQ(missed.pid, getpid());
    EXPECT_EQ(missed.interval, 50ms);
    EXPECT_EQ(missed.times, 1);
    EXPECT_TRUE(missed.running);
    EXPECT_GT(missed.late, 0ns);
    const std::vector<Missed> all = told.canaries();  // close tells that it has ended
    ASSERT_EQ(all.size(), 2U);
    EXPECT_FALSE(all[1].running);
}

TEST_F(Watchdogs, slow_stretches_are_named_when_they_have_ended) {
    Channel one = channel();
    Told told;
    Watchdog watchdog(one, told.callback(), 20ms, 60s);
    Canary canary(watchdog, "parse", 1ms);
    const auto run = [&](std::chrono::milliseconds time) {
        const Canary::Stretch stretch = canary.begin();
        std::this_thread::sleep_for(time);
    };
    run(5ms);
    const Missed first = told.first(Missed::Kind::canary);
    for (const auto time : {3ms, 12ms, 3ms}) run(time);
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(told.canaries().size(), 1U);
    watchdog.close();
    EXPECT_EQ(first.label, "parse");
    EXPECT_EQ(first.interval, 1ms);
    const Missed last = told.canaries().back();
    EXPECT_EQ(last.times, first.running ? 4 : 3);
    EXPECT_FALSE(last.running);
    EXPECT_GE(last.late, 11ms);
}

TEST_F(Watchdogs, a_stretch_in_time_is_not_named) {
    Channel one = channel();
    Told told;
    {
        Watchdog watchdog(one, told.callback(), 20ms);
        Canary canary(watchdog, "parse", 5s);
        for (int i = 0; i < 10; ++i) {
            const Canary::Stretch stretch = canary.begin();
            std::this_thread::sleep_for(10ms);
        }
        try {
            const Canary::Stretch stretch = canary.begin();
            throw std::runtime_error("ends the stretch");
        } catch (const std::runtime_error&) {
        }
    }
    EXPECT_TRUE(told.canaries().empty());
}

TEST_F(Watchdogs, a_watchdog_that_slept_too_long_reports_itself) {
    Channel one = channel();
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    support::Child child([&](const support::Child::Ready& ready) {
        Channel mine = Channel::open("c");
        Watchdog watchdog(
            mine,
            [&](const Missed& missed) {
                ::dprintf(pipe[1], "%d %s %lld %lld\n", static_cast<int>(missed.kind), missed.label.c_str(),
                          static_cast<long long>(missed.times), static_cast<long long>(missed.late / 1ms));
            },
            50ms, 0s);
        Canary canary(watchdog, "stretch", 2s);
        const Heartbeat heart(mine, "loop", 2s);
        const Canary::Stretch stretch = canary.begin();
        std::this_thread::sleep_for(200ms);
        ready();
        for (;;) pause();
        return true;
    });
    ::close(pipe[1]);
    child.wait_until_ready();
    child.signal(SIGSTOP);
    std::this_thread::sleep_for(3s);
    child.signal(SIGCONT);
    FILE* lines = ::fdopen(pipe[0], "r");
    std::map<std::string, long long> late;
    while (late.count("loop") == 0 || late.count("stretch") == 0) {
        int kind = 0;
        char label[20];
        long long times = 0;
        long long milliseconds = 0;
        ASSERT_EQ(std::fscanf(lines, "%d %19s %lld %lld", &kind, label, &times, &milliseconds), 4);
        EXPECT_EQ(times, 1);
        late[label] = kind == 2 ? std::max(late[label], milliseconds) : milliseconds;
        ASSERT_EQ(late.count("watchdog"), 1U) << "a thread is accused of the time of the stop";
    }
    EXPECT_GE(late["watchdog"], 2000);
    EXPECT_LE(late["watchdog"], 20000);
    EXPECT_LT(late["loop"], 900);  // the 3 s of the stop do not count: else it is 1200 or more
    EXPECT_LT(late["stretch"], 900);
    std::fclose(lines);
    child.kill();
}

TEST_F(Watchdogs, close_ends_the_thread) {
    Channel one = channel();
    Told told;
    const std::size_t before = threads();
    const Heartbeat heart(one, "loop", 50ms);
    Watchdog watchdog(one, told.callback(), 30s);
    EXPECT_EQ(threads(), before + 1);
    const auto began = Clock::now();
    watchdog.close();
    watchdog.close();
    EXPECT_LT(Clock::now() - began, 20s);
    until([&] { return threads() == before; });  // the kernel removes it a moment after the join
    EXPECT_EQ(code_of([&] { Canary(watchdog, "parse", 1s); }), "closed");
    EXPECT_TRUE(told.all().empty());
}

TEST_F(Watchdogs, the_callback_may_close) {
    Channel one = channel();
    const std::size_t before = threads();
    const Heartbeat heart(one, "loop", 50ms);
    std::atomic<Watchdog*> itself{nullptr};
    std::atomic<bool> closed{false};
    Watchdog watchdog(
        one,
        [&](const Missed&) {
            if (itself.load() == nullptr) return;
            itself.load()->close();
            closed = true;
        },
        100ms, 0s);
    itself = &watchdog;
    until([&] { return closed.load(); });
    watchdog.close();
    until([&] { return threads() == before; });
}

TEST_F(Watchdogs, the_channel_is_closed_first) {
    Channel one = channel();
    Told told;
    const std::size_t before = threads();
    Watchdog watchdog(one, told.callback(), 20ms);
    one.close();
    until([&] { return threads() == before; });
    watchdog.close();
    EXPECT_EQ(code_of([&] { Watchdog(one, told.callback()); }), "closed");
    EXPECT_EQ(code_of([&] { Canary(watchdog, "parse", 1s); }), "closed");
    EXPECT_TRUE(told.all().empty());
}

TEST_F(Watchdogs, a_callback_that_throws) {
    Channel one = channel();
    Told told;
    const Heartbeat heart(one, "loop", 50ms);
    testing::internal::CaptureStderr();
    {
        const Watchdog watchdog(
            one,
            [&](const Missed& missed) {
                told.add(missed);
                throw std::runtime_error("thrown by the callback");
            },
            20ms, 0s);
        until([&] { return told.hearts().size() >= 2; });
    }
    EXPECT_NE(testing::internal::GetCapturedStderr().find("thrown by the callback"), std::string::npos);
}

TEST_F(Watchdogs, a_forked_child) {
    Channel one = channel();
    Told told;  // the watchdog's thread may call back at any time
    auto watchdog = std::make_unique<Watchdog>(one, told.callback(), 20ms);
    auto canary = std::make_unique<Canary>(*watchdog, "parse", 1s);
    const std::size_t before = threads();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        {
            const Canary::Stretch stretch = canary->begin();
        }
        const bool refused = code_of([&] { Canary(*watchdog, "parse", 1s); }) == "closed";
        watchdog->close();
        watchdog.reset();
        canary.reset();
        ::_exit(refused ? 0 : 1);
    }
    EXPECT_EQ(support::status_of(child), 0);
    EXPECT_EQ(threads(), before);
}

TEST_F(Watchdogs, arguments) {
    Channel one = channel();
    Watchdog watchdog(one);
    const auto argument_of = [](const std::function<void()>& call) -> std::string {
        try {
            call();
        } catch (const flyring::InvalidArgument& error) {
            return error.argument();
        }
        return "none";
    };
    for (const auto every : {0ms, -1ms}) {
        EXPECT_EQ(argument_of([&] { Watchdog(one, Watchdog::to_stderr, every); }), "every");
    }
    EXPECT_EQ(argument_of([&] { Watchdog(one, Watchdog::to_stderr, 1s, -1s); }), "repeat");
    for (const auto expected : {0ms, -1ms}) {
        EXPECT_EQ(argument_of([&] { Canary(watchdog, "parse", expected); }), "expected");
    }
}

TEST_F(Watchdogs, the_line) {
    const Missed heart{Missed::Kind::heartbeat, "a\nb", 7, 1s, 250ms, 1, true, ""};
    EXPECT_EQ(heart.text(), "flyring: a b of process 7 has not beaten for 1.250 s; it promises a beat every 1.000 s");
    const Missed runs{Missed::Kind::canary, "parse", 7, 1ms, 500us, 1, true, "  a stack"};
    EXPECT_EQ(runs.text(), "flyring: parse of process 7 has run for 1.500 ms; expected 1.000 ms\n  a stack");
    const Missed ended{Missed::Kind::canary, "parse", 7, 1ms, 500us, 3, false, ""};
    EXPECT_EQ(ended.text(), "flyring: parse of process 7 took 1.500 ms; expected 1.000 ms (the worst of 3)");
    const Missed itself{Missed::Kind::watchdog, "watchdog", 7, 100ms, 1500ms, 1, false, ""};
    EXPECT_EQ(itself.text(),
              "flyring: watchdog of process 7 slept 1.500 s too long; that time counts against no thread");
    Channel one = channel();
    testing::internal::CaptureStderr();
    {
        Watchdog watchdog(one, Watchdog::to_stderr, 20ms);
        Canary canary(watchdog, "parse", 1ms);
        const Canary::Stretch stretch = canary.begin();
        std::this_thread::sleep_for(5ms);
    }
    const std::string line = "flyring: parse of process " + std::to_string(getpid()) + " ";
    EXPECT_NE(testing::internal::GetCapturedStderr().find(line), std::string::npos);
}

TEST_F(Watchdogs, off_does_nothing) {
    Channel one = channel();
    Watchdog watchdog(one);
    Canary::Off off(watchdog, "parse", 1s);
    const Canary::Off::Stretch stretch = off.begin();
    EXPECT_TRUE(std::is_empty_v<Canary::Off>);
    EXPECT_TRUE(std::is_empty_v<Canary::Off::Stretch>);
}

}  // namespace
