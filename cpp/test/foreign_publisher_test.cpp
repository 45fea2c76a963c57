// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "agrona.hpp"
#include "support.hpp"

// Agrona's writer with a Flyring subscriber at slot 0 (spec/channel.md 6.15).

namespace {

using flyring::Channel;
using flyring::Message;
using support::code_of;
using support::drain;

flyring::Options options(std::uint32_t capacity) {
    flyring::Options made = support::inbox(1, 1, capacity, 8);
    made.foreign = flyring::Foreign::publisher;
    return made;
}

class ForeignPublisher : public support::ChannelTest {
  protected:
    Channel channel = Channel::create("c", options(4096));
    agrona::RingBuffer writer{file("c")};
    flyring::detail::ChannelFile words = support::raw("c");
    flyring::detail::Ring ring = words.ring(0);
};

TEST_F(ForeignPublisher, is_read_from_the_first_message_on) {
    ASSERT_TRUE(writer.write(7, "before anybody came"));
    flyring::Subscriber subscriber = channel.subscriber();
    EXPECT_EQ(subscriber.position(0), 0);
    EXPECT_EQ(subscriber.rings(), std::vector<std::uint32_t>{0});
    const auto message = subscriber.take();
    ASSERT_TRUE(message);
    EXPECT_EQ(support::text(*message), "before anybody came");
    EXPECT_EQ(message->type(), 7);
    EXPECT_EQ(message->position(), 0);
    EXPECT_EQ(message->sender().epoch, 0);
    EXPECT_EQ(message->sender().name, "");
    EXPECT_EQ(writer.head(), 32);
    EXPECT_EQ(*ring.published(), 0);  // Agrona's writer never stores `published`
}

TEST_F(ForeignPublisher, is_read_over_every_way_to_wrap) {
    flyring::Subscriber subscriber = channel.subscriber();
    int padded = 0, exact = 0;
    for (int size = 0; size <= writer.max_length(); ++size) {
        for (int i = 0; i < 12; ++i) {
            const std::string message(static_cast<std::size_t>((size + i * 40) % (writer.max_length() + 1)), 'm');
            const std::int64_t before = writer.tail();
            ASSERT_TRUE(writer.write(1 + i, message));
            exact += (writer.tail() & 4095) == 0;
            padded += writer.tail() - before > ring.align(static_cast<std::int64_t>(message.size()) + 8);
            int seen = 0;
            subscriber.poll(
                [&](const Message& each) { seen += support::text(each) == message && each.type() == 1 + i; });
            ASSERT_EQ(seen, 1) << size << " " << i;
            ASSERT_EQ(subscriber.position(0), writer.tail());
            ASSERT_EQ(writer.head(), writer.tail());
        }
    }
    EXPECT_GT(padded, 100);
    EXPECT_GT(exact, 3);
}

TEST_F(ForeignPublisher, fills_the_ring_and_goes_on_when_it_was_read) {
    flyring::Subscriber subscriber = channel.subscriber();
    int sent = 0, seen = 0;
    for (int lap = 0; lap < 40; ++lap) {
        while (writer.write(1, std::string(static_cast<std::size_t>(sent * 13 % 500), 'z'))) ++sent;
        const auto check = [&](const Message& message) {
            EXPECT_EQ(message.size(), static_cast<std::size_t>(seen * 13 % 500));
            ++seen;
        };
        while (subscriber.poll(check, 5) > 0) {
        }
        ASSERT_EQ(seen, sent);
    }
    EXPECT_GT(sent, 500);
}

TEST_F(ForeignPublisher, shows_nothing_of_an_open_claim_and_skips_an_aborted_one) {
    flyring::Subscriber subscriber = channel.subscriber();
    for (int i = 0; i < 200; ++i) {
        const std::int32_t claim = writer.try_claim(9, 100);
        ASSERT_GT(claim, 0);
        ASSERT_EQ(writer.length_at(claim - 8), -108);
        ASSERT_EQ(drain(subscriber), "");
        std::memset(writer.at(claim), 'c', 100);
        ASSERT_EQ(drain(subscriber), "");
        if (i % 2 == 0) {
            writer.commit(claim);
            ASSERT_EQ(drain(subscriber), std::string(100, 'c') + " ");
        } else {
            writer.abort(claim);
            ASSERT_EQ(drain(subscriber), "");
        }
        ASSERT_EQ(writer.head(), writer.tail());
    }
}

TEST_F(ForeignPublisher, waits_for_a_subscriber_that_is_away_and_it_resumes_where_it_was) {
    std::string sent;
    for (int i = 0; i < 300; ++i) {
        for (int more = 0; more < 3; ++more) {
            sent += std::to_string(i) + "." + std::to_string(more) + " ";
            ASSERT_TRUE(writer.write(1, std::to_string(i) + "." + std::to_string(more)));
        }
        if (i % 20 != 19) continue;
        flyring::Subscriber subscriber = channel.subscriber(i < 150 ? "" : "reader");
        EXPECT_TRUE(subscriber.kept());
        EXPECT_EQ(subscriber.position(0), writer.head());
        std::string seen;
        subscriber.poll([&](const Message& message) { seen += support::text(message) + " "; }, 55);
        EXPECT_EQ(seen, sent.substr(0, seen.size()));
        sent.erase(0, seen.size());
        subscriber.close();
        ASSERT_GE(writer.head(), 0);
    }
    flyring::Subscriber last = channel.subscriber("reader");
    EXPECT_EQ(drain(last), sent);
    EXPECT_GT(sent.size(), 100U);
}

TEST_F(ForeignPublisher, is_resumed_at_the_gate_whatever_else_the_slot_says) {
    ASSERT_TRUE(writer.write(1, "first"));
    const flyring::detail::SlotWords slot = subscriber_slot(words, 0);
    *slot.evicting() = 1;
    *slot.kept() = 0;
    flyring::Subscriber subscriber = channel.subscriber();
    EXPECT_EQ(drain(subscriber), "first ");
    subscriber.close();
    EXPECT_EQ(writer.head(), writer.tail());
    flyring::Subscriber victim = channel.subscriber();
    ++*slot.epoch();  // as if the slot had an owner
    EXPECT_EQ(code_of([&] { victim.take(); }), "slot-lost");
    EXPECT_EQ(writer.head(), writer.tail());
}

TEST_F(ForeignPublisher, has_no_end_and_no_name_whatever_its_slot_says) {
    *publisher_slot(words, 0).epoch() = 3;
    *publisher_slot(words, 0).closed() = 1;
    flyring::Subscriber subscriber = channel.subscriber();
    EXPECT_FALSE(subscriber.ended(0));
    ASSERT_TRUE(writer.write(1, "x"));
    EXPECT_EQ(subscriber.take()->sender().epoch, 0);
    *ring.published() = subscriber.position(0);
    EXPECT_FALSE(subscriber.ended(0));
}

TEST_F(ForeignPublisher, a_head_out_of_its_reach_is_a_corrupt_ring) {
    const auto resumed = [&](std::int64_t head, std::int64_t tail) {
        writer.set_head(head);
        *ring.claimed() = tail;
        return code_of([&] { channel.subscriber(); });
    };
    EXPECT_EQ(resumed(8000, 8000), "none");
    EXPECT_EQ(resumed(8000, 8000 + 4096), "none");
    EXPECT_EQ(resumed(8000, 8000 + 4104), "corrupt-ring");
    EXPECT_EQ(resumed(8008, 8000), "corrupt-ring");
    EXPECT_EQ(resumed(-1, 0), "corrupt-ring");
    EXPECT_EQ(resumed(-8, 0), "corrupt-ring");
    EXPECT_EQ(resumed(4, 8), "corrupt-ring");
    EXPECT_EQ(resumed(0, 4), "corrupt-ring");
    EXPECT_EQ(resumed(INT64_MAX, INT64_MAX), "corrupt-ring");
    EXPECT_EQ(writer.head(), INT64_MAX);  // the gate was not set to -1
    EXPECT_EQ(resumed(16, 16), "none");
}

TEST_F(ForeignPublisher, a_record_that_cannot_be_is_a_corrupt_ring_and_leaves_the_head) {
    flyring::Subscriber subscriber = channel.subscriber();
    ASSERT_TRUE(writer.write(1, "good"));
    *ring.type_at(writer.tail()) = 1;
    *ring.length_at(writer.tail()) = 5000;
    std::string seen;
    EXPECT_EQ(code_of([&] { subscriber.poll([&](const Message& message) { seen += support::text(message); }); }),
              "corrupt-ring");
    EXPECT_EQ(seen, "good");
    EXPECT_EQ(writer.head(), 16);
}

TEST_F(ForeignPublisher, that_died_in_a_claim_leaves_a_ring_that_looks_empty) {
    flyring::Subscriber subscriber = channel.subscriber();
    ASSERT_TRUE(writer.write(1, "whole"));
    ASSERT_GT(writer.try_claim(1, 100), 0);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(drain(subscriber), i == 0 ? "whole " : "");
        subscriber.close();
        subscriber = channel.subscriber();
        EXPECT_EQ(subscriber.position(0), 16);
    }
}

TEST_F(ForeignPublisher, is_kept_up_with_from_another_thread) {
    constexpr int count = 200'000;
    std::atomic<int> wrong{0};
    flyring::Subscriber subscriber = channel.subscriber();
    std::thread other([&] {
        for (int i = 0; i < count; ++i) {
            const std::string message(static_cast<std::size_t>(i % 300), static_cast<char>('a' + i % 26));
            while (!writer.write(1 + i % 5, message)) std::this_thread::yield();
        }
    });
    int next = 0;
    while (next < count) {
        const int polled = subscriber.poll([&](const Message& message) {
            const std::string wanted(static_cast<std::size_t>(next % 300), static_cast<char>('a' + next % 26));
            if (message.type() != 1 + next % 5 || support::text(message) != wanted) ++wrong;
            ++next;
        });
        if (polled == 0) std::this_thread::yield();
    }
    other.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(writer.head(), writer.tail());
}

}  // namespace
