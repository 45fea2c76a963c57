// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "support.hpp"

namespace {

using flyring::Channel;
using flyring::Heartbeat;
using flyring::HeartbeatStats;
using support::code_of;
using namespace std::chrono_literals;

class Heartbeats : public support::ChannelTest {};

Channel channel(std::uint32_t counters = 3) {
    flyring::Options options = support::broadcast();
    options.counters = counters;
    return Channel::create("c", options);
}

HeartbeatStats only(const Channel& of) {
    const std::vector<HeartbeatStats> all = of.stats().heartbeats();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? HeartbeatStats{} : all.front();
}

std::int64_t now() {
    return flyring::detail::clock_ns(CLOCK_REALTIME);
}

TEST_F(Heartbeats, stats_show_name_pid_interval_and_beats) {
    const std::int64_t before = now();
    Channel one = channel();
    const flyring::Counter counter = one.counters().allocate("loop");  // another counter of this label, which stays
    Heartbeat heart(one, "loop", 500ms);
    flyring::OpenOptions read_only;
    read_only.read_only = true;
    const Channel other = Channel::open("c", read_only);
    const HeartbeatStats shown = only(other);
    EXPECT_EQ(shown.id, heart.id());
    EXPECT_EQ(shown.name, "loop");
    EXPECT_EQ(shown.pid, getpid());
    EXPECT_EQ(shown.interval, 500'000'000);
    EXPECT_EQ(shown.beats, 0);
    EXPECT_GE(shown.started_at, before);
    EXPECT_LE(shown.started_at, now());
    for (int i = 0; i < 3; ++i) heart.beat();
    EXPECT_EQ(only(other).beats, 3);
    EXPECT_EQ(heart.beats(), 3);
    EXPECT_EQ(heart.name(), "loop");
    EXPECT_EQ(heart.interval(), 500ms);
    EXPECT_EQ(counter.get(), 0);
}

TEST_F(Heartbeats, the_counter_is_as_the_spec_says) {
    Channel one = channel();
    const Heartbeat heart(one, "loop");
    const flyring::Counter counter = one.counters().counter(heart.id());
    EXPECT_EQ(counter.type_id(), 1111834964);
    EXPECT_EQ(counter.label(), "loop");
    const std::vector<std::byte> key = counter.key();
    EXPECT_EQ(flyring::detail::get<std::int32_t>(key.data()), getpid());
    EXPECT_EQ(flyring::detail::get<std::int32_t>(key.data() + 4), 0);
    EXPECT_EQ(flyring::detail::get<std::int64_t>(key.data() + 8), 1'000'000'000);
    EXPECT_TRUE(std::all_of(key.begin() + 24, key.end(), [](std::byte one_byte) { return one_byte == std::byte{0}; }));
}

TEST_F(Heartbeats, close_frees_the_counter) {
    Channel one = channel(1);
    Heartbeat heart(one, "loop");
    EXPECT_EQ(code_of([&] { Heartbeat(one, "other"); }), "no-space");
    heart.close();
    heart.close();
    EXPECT_EQ(code_of([&] { heart.beat(); }), "closed");
    EXPECT_EQ(heart.beats(), 0);
    EXPECT_TRUE(one.stats().heartbeats().empty());
    {
        const Heartbeat other(one, "other");
    }
    EXPECT_TRUE(one.stats().heartbeats().empty());
}

TEST_F(Heartbeats, the_next_one_of_the_name_takes_it_over) {
    Channel one = channel();
    Channel two = Channel::open("c");
    Heartbeat old(one, "loop");
    Heartbeat another(one, "another");
    old.beat();
    Heartbeat fresh(two, "loop", 0ns);
    EXPECT_EQ(code_of([&] { old.beat(); }), "closed");
    old.close();  // frees nothing: the counter is the new one's
    fresh.beat();
    another.beat();
    std::vector<std::pair<std::string, std::int64_t>> shown;
    for (const HeartbeatStats& each : one.stats().heartbeats()) {
        EXPECT_EQ(each.beats, 1);
        shown.emplace_back(each.name, each.interval);
    }
    std::sort(shown.begin(), shown.end());
    EXPECT_EQ(shown, (std::vector<std::pair<std::string, std::int64_t>>{{"another", 1'000'000'000}, {"loop", 0}}));
}

TEST_F(Heartbeats, a_killed_process_leaves_it_until_the_next_one) {
    Channel one = channel(1);
    support::Child child([](const support::Child::Ready& ready) {
        Channel own = Channel::open("c");
        Heartbeat heart(own, "loop", 250ms);
        for (int i = 0; i < 5; ++i) heart.beat();
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    const pid_t pid = child.pid();
    child.kill();
    const HeartbeatStats shown = only(one);
    EXPECT_EQ(shown.name, "loop");
    EXPECT_EQ(shown.pid, pid);
    EXPECT_EQ(shown.beats, 5);
    EXPECT_EQ(shown.interval, 250'000'000);
    {
        const Heartbeat heart(one, "loop");
        EXPECT_EQ(only(one).pid, getpid());
        EXPECT_EQ(only(one).beats, 0);
    }
    EXPECT_TRUE(one.stats().heartbeats().empty());
}

TEST_F(Heartbeats, the_channel_is_closed_first) {
    Channel one = channel(1);
    Heartbeat heart(one, "loop");
    heart.beat();
    one.close();
    EXPECT_EQ(code_of([&] { heart.beat(); }), "closed");
    heart.close();
    EXPECT_EQ(code_of([&] { Heartbeat(one, "loop"); }), "closed");
    Channel two = Channel::open("c");
    EXPECT_EQ(only(two).beats, 1);
    Heartbeat(two, "loop").close();
    EXPECT_TRUE(two.stats().heartbeats().empty());
}

TEST_F(Heartbeats, a_forked_child_does_not_beat_for_its_parent) {
    Channel one = channel();
    Heartbeat heart(one, "loop");
    heart.beat();
    support::Child child([&](const support::Child::Ready&) {
        const std::string code = code_of([&] { heart.beat(); });
        heart.close();
        return code == "closed";
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(only(one).beats, 1);
    heart.beat();
    EXPECT_EQ(only(one).beats, 2);
}

TEST_F(Heartbeats, arguments) {
    Channel one = channel(1);
    for (const std::string& name : {std::string(), std::string("no name"), std::string(65, 'x')}) {
        EXPECT_EQ(code_of([&] { Heartbeat(one, name); }), "invalid-argument");
    }
    EXPECT_EQ(code_of([&] { Heartbeat(one, "loop", -1ms); }), "invalid-argument");
    flyring::OpenOptions read_only;
    read_only.read_only = true;
    const Channel reader = Channel::open("c", read_only);
    EXPECT_EQ(code_of([&] { Heartbeat(reader, "loop"); }), "access-denied");
    EXPECT_TRUE(one.stats().counters.empty());
}

TEST_F(Heartbeats, a_key_of_another_program) {
    Channel one = channel();
    const std::vector<std::byte> key(112, std::byte{0xff});
    one.counters()
        .allocate("größe", static_cast<std::int32_t>(flyring::layout::COUNTER_METADATA_TYPE_HEARTBEAT),
                  flyring::Bytes(key.data(), key.size()))
        .set(-1);
    const HeartbeatStats shown = only(one);
    EXPECT_EQ(shown.name, "größe");
    EXPECT_EQ(shown.pid, -1);
    EXPECT_EQ(shown.interval, -1);
    EXPECT_EQ(shown.started_at, -1);
    EXPECT_EQ(shown.beats, -1);
}

}  // namespace
