// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "support.hpp"

// A channel whose name another one has taken: subscribers and publishers notice it.

namespace {

using flyring::Channel;
using flyring::Message;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;

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
    EXPECT_EQ(polls_until_replaced(), -1);  // what is there now is no channel
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
    Channel::replace("c", broadcast(1, 1));
    for (int i = 0; i < 4095; ++i) subscriber.take();
    publisher.offer(bytes("x"));
    EXPECT_EQ(drain(subscriber), "x ");  // and one poll that finds nothing
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
    // It looks again a millisecond later, which on a busy machine may be the next offer.
    for (int i = 0; i < 1000 && error == "replaced"; ++i) error = code_of([&] { publisher.offer(bytes("x")); });
    EXPECT_EQ(error, "none");
    EXPECT_EQ(subscriber.poll([](const Message&) {}), 62);
    EXPECT_GT(publisher.offer(bytes("x")), 0);
}

}  // namespace
