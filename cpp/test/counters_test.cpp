// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <thread>

#include "support.hpp"

namespace {

using flyring::Channel;
using support::broadcast;
using support::code_of;

class CountersSection : public support::ChannelTest {};

TEST_F(CountersSection, a_counter_has_what_it_was_allocated_with) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Counter counter = channel.counters().allocate("größe", 7, support::bytes("key"));
    EXPECT_EQ(counter.id(), 0);
    EXPECT_EQ(counter.label(), "größe");
    EXPECT_EQ(counter.type_id(), 7);
    EXPECT_EQ(counter.key().size(), 112U);
    EXPECT_EQ(counter.key()[0], std::byte{'k'});
    EXPECT_EQ(counter.key()[3], std::byte{0});
    EXPECT_EQ(Channel::open("c").counters().find("größe")->id(), 0);
    EXPECT_FALSE(channel.counters().find("other"));
    EXPECT_EQ(code_of([&] { channel.counters().counter(1); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.counters().counter(-1); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.counters().counter(1000); }), "invalid-argument");
}

TEST_F(CountersSection, values_are_read_written_added_and_compared) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Counter counter = channel.counters().allocate("n");
    EXPECT_EQ(counter.get(), 0);
    counter.set(1);
    EXPECT_EQ(counter.get_volatile(), 1);
    counter.set_volatile(2);
    EXPECT_EQ(counter.get(), 2);
    counter.set_release(3);
    EXPECT_EQ(counter.get_and_add(10), 3);
    EXPECT_FALSE(counter.compare_and_set(3, 4));
    EXPECT_TRUE(counter.compare_and_set(13, std::numeric_limits<std::int64_t>::max()));
    counter.get_and_add(1);
    EXPECT_EQ(counter.get(), std::numeric_limits<std::int64_t>::min());
}

TEST_F(CountersSection, all_taken_is_no_space_and_a_freed_one_is_used_again) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Counters counters = channel.counters();
    for (int i = 0; i < 4; ++i) counters.allocate(std::to_string(i)).set(9);
    try {
        counters.allocate("5");
        FAIL() << "five counters of four";
    } catch (const flyring::NoSpace& error) {
        EXPECT_EQ(error.needed(), 1U);
        EXPECT_EQ(error.free(), 0U);
    }
    flyring::Counter second = counters.counter(1);
    second.free();
    EXPECT_EQ(code_of([&] { second.free(); }), "closed");
    std::string labels;
    counters.for_each([&](const flyring::Counter& counter) { labels += counter.label(); });
    EXPECT_EQ(labels, "023");
    flyring::Counter again = counters.allocate("again");
    EXPECT_EQ(again.id(), 1);
    EXPECT_EQ(again.get(), 0);
    EXPECT_EQ(code_of([&] { counters.allocate(std::string(381, 'x')); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { counters.allocate("k", 0, std::vector<std::byte>(113)); }), "invalid-argument");
    EXPECT_EQ(code_of([&] {
                  flyring::Options none = broadcast();
                  none.counters = 0;
                  Channel::create("none", none).counters().allocate("x");
              }),
              "no-space");
}

TEST_F(CountersSection, a_freed_counter_is_closed_and_touches_no_other) {
    Channel channel = Channel::create("c", broadcast());
    Channel other = Channel::open("c");
    flyring::Counter counter = channel.counters().allocate("a");
    flyring::Counter found = *other.counters().find("a");
    flyring::Counter numbered = other.counters().counter(0);
    found.free();
    flyring::Counter next = channel.counters().allocate("b", 7, support::bytes("key"));
    ASSERT_EQ(next.id(), 0);
    next.set(5);
    for (flyring::Counter* old : {&counter, &found, &numbered}) {
        EXPECT_EQ(old->id(), 0);
        EXPECT_EQ(code_of([&] { old->get(); }), "closed");
        EXPECT_EQ(code_of([&] { old->get_volatile(); }), "closed");
        EXPECT_EQ(code_of([&] { old->set(1); }), "closed");
        EXPECT_EQ(code_of([&] { old->set_volatile(1); }), "closed");
        EXPECT_EQ(code_of([&] { old->set_release(1); }), "closed");
        EXPECT_EQ(code_of([&] { old->get_and_add(1); }), "closed");
        EXPECT_EQ(code_of([&] { old->compare_and_set(5, 1); }), "closed");
        EXPECT_EQ(code_of([&] { old->label(); }), "closed");
        EXPECT_EQ(code_of([&] { old->type_id(); }), "closed");
        EXPECT_EQ(code_of([&] { old->key(); }), "closed");
        EXPECT_EQ(code_of([&] { old->free(); }), "closed");
    }
    EXPECT_EQ(next.get(), 5);
    EXPECT_EQ(other.counters().find("b")->get(), 5);
    next.free();
    EXPECT_EQ(channel.counters().allocate("c").get(), 0);
}

TEST_F(CountersSection, a_label_of_a_hostile_length_is_empty) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Counter counter = channel.counters().allocate("label");
    for (const std::int32_t bad : {-1, 381, std::numeric_limits<std::int32_t>::max()}) {
        support::poke(channel.path(), 8192 + 128, bad);
        EXPECT_EQ(counter.label(), "") << bad;
    }
}

TEST_F(CountersSection, two_processes_and_two_threads_add_up) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Counter counter = channel.counters().allocate("n");
    constexpr int times = 100'000;
    const auto add = [](const Channel& own) {
        flyring::Counter same = *own.counters().find("n");
        for (int i = 0; i < times; ++i) {
            same.get_and_add(1);
            for (std::int64_t value = same.get(); !same.compare_and_set(value, value + 1); value = same.get()) {
            }
        }
        return true;
    };
    support::Child child([&](const auto&) { return add(Channel::open("c")); });
    std::thread thread([&] { add(channel); });
    add(channel);
    thread.join();
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(counter.get_volatile(), 6 * times);
}

}  // namespace
