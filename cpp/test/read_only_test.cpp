// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <fstream>

#include "support.hpp"

// Read-only channels, and how lossy subscribers end with their channel or after a fork.

namespace {

using flyring::Channel;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;

class ReadOnly : public support::ChannelTest {
  protected:
    static Channel open_read_only() {
        flyring::OpenOptions options;
        options.read_only = true;
        return Channel::open("c", options);
    }
};

TEST_F(ReadOnly, what_would_write_is_access_denied_and_the_file_stays_as_it_is) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    flyring::Counter counter = channel.counters().allocate("n");
    counter.set(7);
    flyring::Publisher publisher = channel.publisher("ann");
    publisher.offer(bytes("m"));
    const std::vector<std::byte> before = support::read_file(file("c"));
    Channel own = open_read_only();
    EXPECT_TRUE(own.read_only());
    EXPECT_FALSE(channel.read_only());
    EXPECT_EQ(own.id(), channel.id());
    EXPECT_EQ(code_of([&] { own.publisher(); }), "access-denied");
    EXPECT_EQ(code_of([&] { own.subscriber(); }), "access-denied");
    EXPECT_EQ(code_of([&] { own.evict(0); }), "access-denied");
    EXPECT_EQ(code_of([&] { own.counters().allocate("x"); }), "access-denied");
    flyring::Counter seen = own.counters().find("n").value();
    EXPECT_EQ(seen.get(), 7);
    EXPECT_EQ(seen.get_volatile(), 7);
    EXPECT_EQ(code_of([&] { seen.set(1); }), "access-denied");
    EXPECT_EQ(code_of([&] { seen.set_volatile(1); }), "access-denied");
    EXPECT_EQ(code_of([&] { seen.set_release(1); }), "access-denied");
    EXPECT_EQ(code_of([&] { seen.get_and_add(1); }), "access-denied");
    EXPECT_EQ(code_of([&] { seen.compare_and_set(7, 8); }), "access-denied");
    EXPECT_EQ(code_of([&] { seen.free(); }), "access-denied");
    flyring::LossySubscriber subscriber = own.lossy_subscriber(flyring::Start::oldest);
    const auto message = subscriber.take();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->sender().name, "ann");
    EXPECT_FALSE(subscriber.take());
    EXPECT_TRUE(support::read_file(file("c")) == before);
}

TEST_F(ReadOnly, neither_its_mapping_nor_its_descriptor_can_write) {
    Channel::create("c", broadcast(1, 1));
    support::Child child([&](const auto&) {
        const Channel own = open_read_only();
        std::ifstream maps("/proc/self/maps");
        int mappings = 0;
        bool writable = false;
        for (std::string line; std::getline(maps, line);) {
            if (line.find(file("c")) == std::string::npos) continue;
            ++mappings;
            writable = writable || line.find(" rw") != std::string::npos;
        }
        return mappings > 0 && !writable;
    });
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(ReadOnly, needs_no_write_permission) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    publisher.offer(bytes("m"));
    ASSERT_EQ(::chmod(file("c").c_str(), 0444), 0);
    ASSERT_EQ(::chmod(folder().c_str(), 0755), 0);
    support::Child child([&](const auto&) {
        if (::geteuid() == 0 && ::seteuid(65534) != 0) return false;  // root may write to everything
        Channel own = open_read_only();
        flyring::LossySubscriber subscriber = own.lossy_subscriber(flyring::Start::oldest);
        return code_of([] { Channel::open("c"); }) == "access-denied" && drain(subscriber) == "m ";
    });
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(ReadOnly, a_lossy_subscriber_ends_with_its_channel_and_is_no_use_in_a_forked_child) {
    for (const bool read_only : {false, true}) {
        Channel made = Channel::replace("c", broadcast(1, 1));
        std::optional<Channel> channel = read_only ? open_read_only() : Channel::open("c");
        flyring::LossySubscriber first = channel->lossy_subscriber();
        flyring::LossySubscriber second = channel->lossy_subscriber();
        const auto closed = [](flyring::LossySubscriber& subscriber) {
            return code_of([&] { subscriber.take(); }) == "closed" && code_of([&] { subscriber.peek(); }) == "closed" &&
                   code_of([&] { subscriber.valid(); }) == "closed" &&
                   code_of([&] { subscriber.ended(0); }) == "closed";
        };
        support::Child child([&](const auto&) {
            return closed(first) && code_of([&] { channel->lossy_subscriber(); }) == "closed" &&
                   code_of([&] { channel->evict(0); }) == "closed";
        });
        EXPECT_EQ(child.wait(), 0);
        made.publisher().offer(bytes("m"));
        EXPECT_EQ(drain(first), "m ");
        first.close();
        first.close();
        EXPECT_TRUE(closed(first));
        EXPECT_EQ(drain(second), "m ");
        channel->close();
        EXPECT_TRUE(closed(second));
        channel.reset();
        EXPECT_EQ(second.position(0), 128);
    }
}

}  // namespace
