// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "support.hpp"

// Lossy subscribers: what they deliver, and the losses that they report.

namespace {

using flyring::Channel;
using flyring::LossySubscriber;
using flyring::Message;
using flyring::Start;
using flyring::WhenLapped;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
using support::number_of;
using support::numbered;
using support::text;
namespace layout = flyring::layout;

class Lossy : public support::ChannelTest {};

TEST_F(Lossy, it_needs_no_slot_and_holds_no_publisher_back) {
    Channel channel = Channel::create("c", broadcast(2, 0));
    LossySubscriber subscriber = channel.lossy_subscriber();
    EXPECT_EQ(subscriber.rings(), (std::vector<std::uint32_t>{0, 1}));
    flyring::Publisher first = channel.publisher();
    flyring::Publisher second = channel.publisher();
    first.offer(bytes("a"), 7);
    second.offer(bytes("b"));
    const auto message = subscriber.take();
    ASSERT_TRUE(message);
    EXPECT_EQ(text(*message), "a");
    EXPECT_EQ(message->type(), 7);
    EXPECT_EQ(message->ring(), 0U);
    EXPECT_EQ(message->position(), 64);
    EXPECT_EQ(drain(subscriber), "b ");
    EXPECT_EQ(subscriber.position(0), 128);
    EXPECT_FALSE(first.held_by());
    for (int i = 0; i < 1000; ++i) ASSERT_GT(first.offer(bytes("x")), 0);
}

TEST_F(Lossy, a_poll_keeps_the_rules_of_a_reliable_one) {
    Channel channel = Channel::create("c", broadcast(2, 0));
    LossySubscriber subscriber = channel.lossy_subscriber({1, 0});
    flyring::Publisher first = channel.publisher();
    flyring::Publisher second = channel.publisher();
    for (int i = 0; i < 5; ++i) first.offer(bytes("a"));
    for (int i = 0; i < 5; ++i) second.offer(bytes("b"));
    const auto poll = [&](int limit) {
        std::string seen;
        const int count = subscriber.poll([&](const Message& message) { seen += text(message); }, limit);
        EXPECT_EQ(count, static_cast<int>(seen.size()));
        return seen;
    };
    EXPECT_EQ(poll(0), "");
    EXPECT_EQ(poll(2), "aa");
    EXPECT_EQ(poll(3), "bbb");
    EXPECT_EQ(poll(4), "aaab");
    EXPECT_THROW(subscriber.poll([](const Message&) { throw std::runtime_error("mine"); }), std::runtime_error);
    EXPECT_FALSE(subscriber.take());  // consumed
    first.offer(bytes("x"));
    subscriber.poll([&](const Message&) {
        EXPECT_EQ(code_of([&] { subscriber.take(); }), "two-threads");
        EXPECT_EQ(code_of([&] { subscriber.peek(); }), "two-threads");
        EXPECT_EQ(code_of([&] { subscriber.valid(); }), "two-threads");
        EXPECT_EQ(code_of([&] { subscriber.close(); }), "view-alive");
        EXPECT_EQ(code_of([&] { channel.close(); }), "view-alive");
    });
    EXPECT_EQ(code_of([&] { subscriber.position(2); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { subscriber.lost_bytes(2); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.lossy_subscriber({2}); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.lossy_subscriber({1, 1}); }), "invalid-argument");
}

TEST_F(Lossy, starts_at_the_oldest_message_that_is_still_there) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        for (const std::uint64_t laps : {0U, 1U, 5U}) {
            Channel channel = Channel::replace("c", broadcast(1, 0, 4096, alignment));
            flyring::Publisher publisher = channel.publisher();
            const std::uint64_t end = 10 + laps * 100;
            for (std::uint64_t i = 0; i < end; ++i) publisher.offer(bytes(numbered(i, 9)));
            LossySubscriber subscriber = channel.lossy_subscriber(Start::oldest, WhenLapped::newest);
            LossySubscriber from_now = channel.lossy_subscriber();
            EXPECT_FALSE(from_now.take());
            std::vector<std::uint64_t> seen;
            while (const auto message = subscriber.take()) seen.push_back(number_of(*message, 9).value());
            ASSERT_FALSE(seen.empty());
            EXPECT_EQ(seen.front() == 0, laps == 0);
            EXPECT_GT(seen.size(), laps == 0 ? 9U : 14U);
            for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], seen.front() + i);
            EXPECT_EQ(seen.back(), end - 1);
            EXPECT_EQ(subscriber.lost_messages(0), 0);
            // Its count of messages is right from the start, so later losses are exact.
            for (std::uint64_t i = end; i < end + 500; ++i) publisher.offer(bytes(numbered(i, 9)));
            EXPECT_FALSE(subscriber.take());
            EXPECT_EQ(subscriber.lost_messages(0), 500);
        }
    }
}

TEST_F(Lossy, what_it_lost_is_counted_exactly) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(1, 0, 4096, alignment));
        LossySubscriber subscriber = channel.lossy_subscriber(Start::now, WhenLapped::newest);
        flyring::Publisher publisher = channel.publisher();
        std::uint64_t sent = 0;
        std::uint64_t next = 0;  // sequence after the last message delivered or lost
        std::int64_t lost_bytes = 0;
        int laps = 0;
        int delivered = 0;
        for (std::uint64_t round = 0; round < 3000; ++round) {
            for (std::uint64_t i = 0; i < round * 31 % 120; ++i) publisher.offer(bytes(numbered(sent++, 12)));
            const std::int64_t before = subscriber.position(0);
            const std::int64_t lost_before = subscriber.lost_bytes(0);
            std::optional<std::uint64_t> first;
            std::uint64_t after = next;
            subscriber.poll(
                [&](const Message& message) {
                    const auto number = number_of(message, 12);
                    ASSERT_TRUE(number);
                    ASSERT_EQ(*number, first ? after : *number);
                    if (!first) first = *number;
                    after = *number + 1;
                    ++delivered;
                },
                40);
            if (subscriber.lost_bytes(0) != lost_before) {
                ++laps;
                lost_bytes += publisher.position() - before;  // it continues at `published`
                ASSERT_FALSE(first);
                after = sent;
            } else if (first) {
                ASSERT_EQ(*first, next);
            }
            next = after;
            ASSERT_EQ(subscriber.lost_bytes(0), lost_bytes);
            ASSERT_EQ(static_cast<std::uint64_t>(subscriber.lost_messages(0) + delivered), next);
        }
        EXPECT_GT(laps, 100);
        EXPECT_GT(delivered, 100);
    }
}

TEST_F(Lossy, a_reader_lapped_before_each_poll_still_receives_and_counts_exactly) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        for (const std::uint32_t capacity : {4096U, 65536U}) {
            Channel channel = Channel::replace("c", broadcast(1, 0, capacity, alignment));
            LossySubscriber subscriber = channel.lossy_subscriber();
            flyring::Publisher publisher = channel.publisher();
            std::uint64_t sent = 0;
            std::uint64_t got = 0;
            for (int round = 1; round <= 50; ++round) {
                const std::int64_t begin = publisher.position();
                while (publisher.position() - begin < 3 * static_cast<std::int64_t>(capacity) + round * 100) {
                    ASSERT_GT(publisher.offer(bytes(numbered(sent++, 12))), 0);
                }
                const auto next = static_cast<std::uint64_t>(subscriber.lost_messages(0)) + got;
                std::uint64_t expected = 0;
                int handled = 0;
                while (subscriber.poll([&](const Message& message) {
                    const std::uint64_t number = number_of(message, 12).value();
                    if (handled++ == 0) {
                        ASSERT_GT(number, next);
                    } else {
                        ASSERT_EQ(number, expected);
                    }
                    expected = number + 1;
                    ++got;
                }) > 0) {
                }
                ASSERT_EQ(expected, sent);
                ASSERT_EQ(static_cast<std::uint64_t>(subscriber.lost_messages(0)) + got, sent);
                ASSERT_EQ(subscriber.position(0), publisher.position());
                // At least 3/4 of the ring, less an eighth, a window and one message.
                ASSERT_GT(handled * static_cast<int>(alignment == 8 ? 112 : 128), static_cast<int>(capacity) * 3 / 8);
            }
        }
    }
}

/// Reads from channel "c", read-only, while two publishers in another process run at full speed. next(subscriber, use)
/// calls use(message) at most once. Every message must be whole and in order, and messages read plus messages lost must
/// be all.
template <typename Next>
void read_at_full_speed(std::uint32_t alignment, Next&& next) {
    constexpr std::uint64_t count = 100'000;
    constexpr std::uint64_t most = 20;
    const Channel channel = Channel::replace("c", broadcast(2, 0, 4096, alignment));
    flyring::OpenOptions options;
    options.read_only = true;
    Channel read_only = Channel::open("c", options);
    LossySubscriber subscriber = read_only.lossy_subscriber(Start::oldest);
    support::Child child([&](const support::Child::Ready& ready) {  // after the subscriber, which sees all
        Channel own = Channel::open("c");
        flyring::Publisher first = own.publisher();
        flyring::Publisher second = own.publisher();
        ready();
        for (std::uint64_t i = 0; i < count; ++i) {
            first.offer(bytes(numbered(i, most)));
            if (i % 3 == 0) second.offer(bytes(numbered(i / 3, most)));
            // Pauses, so that the reader catches up at times, at the latest at the end.
            if (i % 256 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
            if (i + 90 > count && i % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return true;
    });
    child.wait_until_ready();
    std::uint64_t delivered[2] = {0, 0};
    std::uint64_t expected[2] = {0, 0};
    const auto total = [&](std::uint32_t ring) {
        return delivered[ring] + static_cast<std::uint64_t>(subscriber.lost_messages(ring));
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int turn = 1; total(0) < count || total(1) < (count + 2) / 3; ++turn) {
        if (turn % 512 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // falls behind
        next(subscriber, [&](const Message& message) {
            const auto number = number_of(message, most);
            ASSERT_TRUE(number) << "a message that is not whole, at " << message.position();
            const std::uint32_t ring = message.ring();
            ASSERT_GE(*number, expected[ring]);
            expected[ring] = *number + 1;
            ++delivered[ring];
        });
        ASSERT_FALSE(::testing::Test::HasFailure());
        ASSERT_LT(std::chrono::steady_clock::now(), end);
    }
    EXPECT_EQ(child.wait(), 0);
    for (const std::uint32_t ring : {0U, 1U}) {
        EXPECT_EQ(total(ring), ring == 0 ? count : (count + 2) / 3);
        EXPECT_GT(delivered[ring], 0U);
        EXPECT_GT(subscriber.lost_messages(ring), 0) << "it was never lapped: nothing was tested";
    }
}

TEST_F(Lossy, what_it_delivers_while_publishers_lap_it_is_whole_and_the_rest_is_counted) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        read_at_full_speed(alignment, [](LossySubscriber& subscriber, const auto& use) { subscriber.poll(use, 8); });
    }
}

TEST_F(Lossy, what_valid_confirms_was_whole_and_the_rest_is_counted) {
    int confirmed = 0;
    int refused = 0;
    int peeked = 0;
    read_at_full_speed(64, [&](LossySubscriber& subscriber, const auto& use) {
        const auto message = subscriber.peek();
        if (!message) return;
        std::vector<std::byte> copy(message->payload().begin(), message->payload().end());
        const std::int64_t position = message->position();
        if (++peeked % 16 == 0) std::this_thread::yield();  // so that the message is sometimes overwritten
        if (!subscriber.valid()) {
            ++refused;
            return;
        }
        ++confirmed;
        EXPECT_LE(position, subscriber.position(message->ring()));
        use(Message(copy.data(), copy.size(), message->type(), position, message->sender()));
    });
    EXPECT_GT(confirmed, 0);
    EXPECT_GT(refused, 0);
}

TEST_F(Lossy, peek_consumes_nothing_and_valid_tells_whether_it_was_overwritten) {
    Channel channel = Channel::create("c", broadcast(1, 0));
    LossySubscriber subscriber = channel.lossy_subscriber(Start::now, WhenLapped::newest);
    flyring::Publisher publisher = channel.publisher();
    EXPECT_FALSE(subscriber.peek());
    EXPECT_EQ(code_of([&] { subscriber.valid(); }), "invalid-argument");
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    EXPECT_EQ(text(subscriber.peek().value()), "a");
    EXPECT_EQ(text(subscriber.peek().value()), "a");
    EXPECT_TRUE(subscriber.valid());
    EXPECT_EQ(code_of([&] { subscriber.valid(); }), "invalid-argument");
    EXPECT_EQ(text(subscriber.peek().value()), "b");
    EXPECT_EQ(text(subscriber.take().value()), "b");
    EXPECT_EQ(code_of([&] { subscriber.valid(); }), "invalid-argument");  // take consumed it
    publisher.offer(bytes("c"));
    EXPECT_TRUE(subscriber.peek());
    for (int i = 0; i < 100; ++i) publisher.offer(bytes("x"));
    EXPECT_FALSE(subscriber.valid());
    EXPECT_EQ(subscriber.lost_messages(0), 101);
    publisher.offer(bytes("d"));
    EXPECT_EQ(drain(subscriber), "d ");
}

}  // namespace
