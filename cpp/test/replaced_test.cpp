// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "support.hpp"

// A channel whose name another channel has taken: subscribers and publishers notice it.

namespace {

using flyring::Channel;
using flyring::Message;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
namespace layout = flyring::layout;

class Replaced : public support::ChannelTest {};

template <typename Subscriber>
void expect_replaced(const std::string& name, Subscriber subscriber) {
    const auto polls_until_replaced = [&] {
        int polls = 0;
        while (polls < 20000) {
            ++polls;
            if (code_of([&] { subscriber.poll([](const Message&) {}); }) == "replaced") return polls;
        }
        return -1;
    };
    EXPECT_EQ(polls_until_replaced(), -1);
    Channel::unlink(name);
    EXPECT_EQ(polls_until_replaced(), -1);  // the name was only removed
    support::write_file(Channel::path_of(name), std::vector<std::byte>(10000));
    EXPECT_EQ(polls_until_replaced(), -1);  // the file there now is not a channel
    Channel now = Channel::replace(name, broadcast(1, 1));
    const int polls = polls_until_replaced();
    EXPECT_TRUE(polls > 0 && polls <= 4096) << polls;
    EXPECT_EQ(polls_until_replaced(), 4096);  // not sticky, and comes again
    EXPECT_FALSE(subscriber.take());
    try {
        for (;;) subscriber.poll([](const Message&) {});
    } catch (const flyring::ChannelReplaced& error) {
        EXPECT_EQ(error.channel_id(), now.id());
        EXPECT_EQ(error.path(), now.path());
    }
}

TEST_F(Replaced, a_replaced_channel_is_noticed_by_a_subscriber_that_finds_nothing_for_long) {
    Channel first = Channel::create("a", broadcast(1, 1));
    expect_replaced("a", first.subscriber());
    Channel second = Channel::create("b", broadcast(1, 1));
    expect_replaced("b", second.lossy_subscriber());
}

TEST_F(Replaced, a_poll_that_finds_something_starts_the_count_again) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    publisher.offer(bytes("w"));  // the limit allows a whole lap, so it does not check for a successor
    subscriber.take();
    Channel::replace("c", broadcast(1, 1));
    for (int i = 0; i < 4095; ++i) subscriber.take();
    publisher.offer(bytes("x"));
    EXPECT_EQ(drain(subscriber), "x ");  // and one empty poll
    for (int i = 0; i < 4094; ++i) subscriber.take();
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "replaced");
    publisher.offer(bytes("y"));
    EXPECT_EQ(drain(subscriber), "y ");
}

TEST_F(Replaced, a_replaced_channel_is_noticed_by_a_publisher_that_is_held_back) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    support::fill(publisher);
    Channel now = Channel::replace("c", broadcast(1, 1));
    std::string error = "none";
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (error == "none" && std::chrono::steady_clock::now() < end) {
        error = code_of([&] { publisher.offer(bytes("x")); });
    }
    EXPECT_EQ(error, "replaced");
    // The next check is a millisecond later, which on a busy machine may be the next offer.
    for (int i = 0; i < 1000 && error == "replaced"; ++i) error = code_of([&] { publisher.offer(bytes("x")); });
    EXPECT_EQ(error, "none");
    EXPECT_EQ(subscriber.poll([](const Message&) {}), 62);
    EXPECT_GT(publisher.offer(bytes("x")), 0);
}

TEST_F(Replaced, a_publisher_that_is_not_held_back_looks_once_a_lap) {
    Channel channel = Channel::create("c", broadcast(1, 0));
    flyring::Publisher publisher = channel.publisher();
    const auto code_of_a_lap = [&] {
        return code_of([&] {
            for (int i = 0; i < 64; ++i) publisher.offer(bytes("x"));
        });
    };
    EXPECT_EQ(code_of_a_lap(), "none");
    const auto mapped = support::raw("c");
    Channel::unlink("c");
    EXPECT_EQ(*mapped.successor(), 2);
    EXPECT_EQ(code_of_a_lap(), "none");  // the name was only removed
    const Channel now = Channel::create("c", broadcast(1, 0));
    support::sleep_past_a_look();
    EXPECT_EQ(code_of_a_lap(), "replaced");
    EXPECT_EQ(code_of_a_lap(), "none");  // at most once in a millisecond
    support::sleep_past_a_look();
    EXPECT_EQ(code_of_a_lap(), "replaced");  // not sticky, and comes again
}

TEST_F(Replaced, replace_says_so_in_the_old_file_and_nothing_that_fails_there_matters) {
    Channel old = Channel::create("c", broadcast());
    const auto mapped = support::raw("c");
    EXPECT_EQ(*mapped.successor(), 0);
    const Channel now = Channel::replace("c", broadcast());
    EXPECT_EQ(*mapped.successor(), 1);
    support::poke(now.path(), layout::HEADER_KIND, std::int32_t{7});
    const std::vector<std::byte> broken = support::read_file(now.path());
    EXPECT_EQ(code_of([] { Channel::replace("c", broadcast()); }), "none");
    support::write_file(Channel::path_of("short"), {broken.begin(), broken.begin() + 100});
    EXPECT_EQ(code_of([] { Channel::unlink("short"); }), "none");
}

}  // namespace
