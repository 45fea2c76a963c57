// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <utility>

#include "support.hpp"

// The sender of a message, and the end of a ring.

namespace {

using flyring::Channel;
using flyring::Message;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
namespace layout = flyring::layout;

class Sender : public support::ChannelTest {
  protected:
    /// "text<name.epoch " for each available message.
    template <typename Subscriber>
    static std::string senders(Subscriber& subscriber) {
        std::string seen;
        subscriber.poll([&](const Message& message) {
            EXPECT_EQ(message.sender().ring, message.ring());
            seen += support::text(message) + "<" + message.sender().name + "." +
                    std::to_string(message.sender().epoch) + " ";
        });
        return seen;
    }
};

TEST_F(Sender, each_message_names_its_sender_across_owners) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    const std::string long_name(64, 'n');
    for (const std::string& name : {std::string("ann"), std::string(), long_name, std::string("ann")}) {
        flyring::Publisher publisher = channel.publisher(name);
        publisher.offer(bytes("m"));
        const std::string expected = "m<" + name + "." + std::to_string(publisher.epoch()) + " ";
        EXPECT_EQ(senders(subscriber), expected);
        EXPECT_EQ(senders(lossy), expected);
    }
    flyring::Publisher other = channel.publisher("bob");
    other.offer(bytes("x"));
    const auto taken = subscriber.take();
    EXPECT_EQ(taken->sender().name, "bob");
    EXPECT_EQ(taken->sender().ring, other.ring());
    EXPECT_EQ(lossy.peek()->sender().name, "bob");
}

TEST_F(Sender, a_subscriber_that_joins_in_mid_stream_knows_the_sender) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher("ann");
    for (int i = 0; i < 500; ++i) publisher.offer(bytes("early"));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    publisher.offer(bytes("m"));
    EXPECT_EQ(senders(subscriber), "m<ann.1 ");
    EXPECT_EQ(senders(lossy), "m<ann.1 ");
}

TEST_F(Sender, a_slot_with_invalid_words_names_no_sender) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher("ann");
    publisher.offer(bytes("early"));
    const auto words = support::raw("c");
    const auto slot = flyring::detail::publisher_slot(words, 0);
    const auto who = [&](std::int64_t* word, std::int64_t value) {
        const std::int64_t before = std::exchange(*word, value);
        flyring::Subscriber subscriber = channel.subscriber();
        flyring::LossySubscriber lossy = channel.lossy_subscriber();
        *word = before;
        publisher.offer(bytes("m"));
        const std::string seen = senders(subscriber);
        EXPECT_EQ(senders(lossy), seen);
        return seen;
    };
    EXPECT_EQ(who(slot.start(), 0), "m<ann.1 ");
    for (const std::int64_t start : {std::int64_t{-64}, std::int64_t{8}, std::numeric_limits<std::int64_t>::min()}) {
        EXPECT_EQ(who(slot.start(), start), "m<.0 ") << start;
    }
    for (const std::int64_t epoch : {std::int64_t{0}, std::int64_t{-1}, layout::MAX_POSITION + 1}) {
        EXPECT_EQ(who(slot.epoch(), epoch), "m<.0 ") << epoch;
    }
    *slot.name_length() = -2;  // only -1 means that the fields are changing
    EXPECT_EQ(who(slot.start(), 0), "m<.1 ");
}

TEST_F(Sender, a_sender_that_left_before_a_subscriber_joins_is_unknown) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher ann = channel.publisher("ann");
    ann.offer(bytes("early"));
    channel.subscriber("journal", true).close();
    ann.offer(bytes("a"));
    ann.close();
    flyring::Publisher bob = channel.publisher("bob");
    bob.offer(bytes("b"));
    flyring::Subscriber journal = channel.subscriber("journal");
    EXPECT_EQ(senders(journal), "a<.0 b<bob.2 ");
}

TEST_F(Sender, after_a_jump_a_lossy_subscriber_asks_the_slot) {
    Channel channel = Channel::create("c", broadcast(1, 0));
    flyring::LossySubscriber lossy = channel.lossy_subscriber(flyring::Start::now, flyring::WhenLapped::newest);
    channel.publisher("ann").offer(bytes("a"));
    EXPECT_EQ(senders(lossy), "a<ann.1 ");
    flyring::Publisher bob = channel.publisher("bob");
    for (int i = 0; i < 500; ++i) bob.offer(bytes("lost"));
    EXPECT_EQ(senders(lossy), "");
    bob.offer(bytes("b"));
    EXPECT_EQ(senders(lossy), "b<bob.2 ");
}

TEST_F(Sender, an_owner_record_that_holds_nonsense_is_skipped) {
    struct Bad {
        std::int32_t length;
        std::int32_t letters;
    };
    for (const Bad& bad : {Bad{8 + 11, 0}, Bad{8 + 12, 1}, Bad{8 + 12, -1}, Bad{8 + 120, 65}, Bad{8 + 120, 1 << 30}}) {
        Channel channel = Channel::replace("c", broadcast(1, 1, 4096, 8));
        flyring::Subscriber subscriber = channel.subscriber();
        flyring::LossySubscriber lossy = channel.lossy_subscriber();
        flyring::Publisher publisher = channel.publisher("ann");
        publisher.offer(bytes("a"));
        EXPECT_EQ(senders(subscriber) + senders(lossy), "a<ann.1 a<ann.1 ");
        const std::int64_t at = publisher.position();
        const std::vector<std::byte> payload(static_cast<std::size_t>(bad.length) - 8);
        publisher.offer(payload);
        publisher.offer(bytes("b"));
        const auto words = support::raw("c");
        *words.ring(0).type_at(at) = layout::TYPE_OWNER;
        std::memcpy(words.ring(0).payload_at(at) + layout::OWNER_RECORD_NAME_LENGTH, &bad.letters,
                    std::min<std::size_t>(sizeof bad.letters, payload.size() - layout::OWNER_RECORD_NAME_LENGTH));
        EXPECT_EQ(senders(subscriber), "b<.0 ") << bad.length << " " << bad.letters;
        EXPECT_EQ(senders(lossy), "b<.0 ") << bad.length << " " << bad.letters;
    }
}

TEST_F(Sender, a_slot_whose_owner_died_while_changing_it_gives_no_sender) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher("ann");
    publisher.offer(bytes("early"));
    const auto words = support::raw("c");
    *flyring::detail::publisher_slot(words, 0).name_length() = -1;
    flyring::Subscriber subscriber = channel.subscriber();
    publisher.offer(bytes("m"));
    EXPECT_EQ(senders(subscriber), "m<.0 ");
}

template <typename Make>
void expect_ended(const std::string& name, Make&& make) {
    Channel channel = Channel::create(name, broadcast(2, 1));
    auto subscriber = make(channel);
    EXPECT_FALSE(subscriber.ended(0));  // no publisher has owned it yet
    std::optional<flyring::Publisher> publisher = channel.publisher("ann");
    publisher->offer(bytes("a"));
    publisher->claim(5).abort();
    EXPECT_FALSE(subscriber.ended(0));
    publisher.reset();
    EXPECT_FALSE(subscriber.ended(0));  // a message is left
    EXPECT_EQ(drain(subscriber), "a ");
    EXPECT_TRUE(subscriber.ended(0));
    EXPECT_FALSE(subscriber.ended(1));
    EXPECT_EQ(code_of([&] { subscriber.ended(2); }), "invalid-argument");
    publisher = channel.publisher("ann");
    EXPECT_FALSE(subscriber.ended(0));  // a new owner
    channel.close();
    EXPECT_EQ(code_of([&] { subscriber.ended(0); }), "closed");
}

TEST_F(Sender, a_ring_has_ended_when_its_publisher_closed_and_everything_was_consumed) {
    expect_ended("reliable", [](Channel& channel) { return channel.subscriber(); });
    expect_ended("lossy", [](Channel& channel) { return channel.lossy_subscriber(); });
}

TEST_F(Sender, a_killed_publisher_has_not_ended_its_ring) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    support::Child child([](const auto& ready) {
        Channel own = Channel::open("c");
        flyring::Publisher publisher = own.publisher();
        publisher.offer(bytes("a"));
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    child.kill();
    EXPECT_EQ(drain(subscriber), "a ");
    EXPECT_FALSE(subscriber.ended(0));
}

}  // namespace
