// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "agrona.hpp"
#include "support.hpp"

// A Flyring publisher with Agrona's reader at slot 0 (spec/channel.md 6.15).

namespace {

using flyring::Channel;
using support::bytes;
using support::fill;
namespace layout = flyring::layout;

flyring::Options options(std::uint32_t capacity) {
    flyring::Options made = support::inbox(1, 1, capacity, 8);
    made.foreign = flyring::Foreign::subscriber;
    return made;
}

class ForeignSubscriber : public support::ChannelTest {
  protected:
    Channel channel = Channel::create("c", options(4096));
    agrona::RingBuffer reader{file("c")};
    flyring::detail::ChannelFile words = support::raw("c");
    flyring::detail::Ring ring = words.ring(0);
};

TEST_F(ForeignSubscriber, reads_every_kind_of_message_and_no_owner_record) {
    std::string sent, seen;
    std::vector<std::int32_t> types;
    std::int64_t looked_at = 0;
    for (int owner = 0; owner < 20; ++owner) {
        flyring::Publisher publisher = channel.publisher("owner-" + std::to_string(owner % 2));
        for (int i = 0; i < 10; ++i) {
            const std::string message(static_cast<std::size_t>((owner * 37 + i * 61) % 1016),
                                      static_cast<char>('a' + i));
            if (i % 3 == 0) {
                ASSERT_GT(publisher.offer(bytes(message)), 0);
            } else if (i % 3 == 1) {
                publisher.claim(100).abort();
                flyring::Claim claim = publisher.claim(message.size());
                ASSERT_TRUE(claim);
                std::memcpy(claim.data(), message.data(), message.size());
                claim.commit();
            } else {
                const flyring::Bytes both[] = {bytes(message), bytes("second")};
                ASSERT_EQ(publisher.offer_batch({both, 2}), 2U);
            }
            sent += message + " " + (i % 3 == 2 ? "second " : "");
            for (; looked_at < publisher.position(); looked_at += ring.align(reader.length_at(looked_at))) {
                types.push_back(reader.type_at(looked_at));
            }
            seen += reader.read_all();
        }
    }
    EXPECT_EQ(seen, sent);
    EXPECT_EQ(std::count(types.begin(), types.end(), -2), 0);
    EXPECT_GT(std::count(types.begin(), types.end(), -1), 30);
    EXPECT_EQ(std::count(types.begin(), types.end(), 1), 20 * 13);
    EXPECT_GT(reader.tail(), 10 * 4096);
    EXPECT_EQ(reader.head(), reader.tail());
}

TEST_F(ForeignSubscriber, sees_a_first_message_where_its_head_is) {
    flyring::Publisher publisher = channel.publisher("somebody");
    EXPECT_EQ(publisher.offer(bytes("12345678"), 77), 16);
    EXPECT_EQ(reader.length_at(0), 16);
    EXPECT_EQ(reader.type_at(0), 77);
    EXPECT_EQ(reader.length_at(16), 0);
    EXPECT_EQ(reader.tail(), 16);
}

TEST_F(ForeignSubscriber, finds_no_length_behind_the_rings_end) {
    // Two laps in steps of an eighth of the ring. A stock reader that runs over the end in one call reads the trailer's
    // first word, and takes it for a length if it is above 0.
    const auto behind_the_end = [this] { return static_cast<std::int32_t>(*ring.boundary(0)); };
    EXPECT_EQ(*ring.boundary(0), -1);
    flyring::Publisher publisher = channel.publisher();
    const std::string message(504, 'm');
    for (int i = 0; i < 2 * 8 + 1; ++i) {
        ASSERT_GT(publisher.offer(bytes(message)), 0);
        ASSERT_LE(behind_the_end(), 0) << i;
        ASSERT_EQ(reader.read_all(), message + " ");
    }
    EXPECT_EQ(*ring.boundary_count(0), 0);
    for (std::int64_t eighth = 1; eighth < 8; ++eighth) {
        EXPECT_EQ(*ring.boundary(eighth), (eighth == 1 ? 16 + eighth : 8 + eighth) * 512);
        EXPECT_EQ(*ring.boundary_count(eighth), eighth == 1 ? 16 + eighth : 8 + eighth);
    }
    flyring::LossySubscriber lossy = channel.lossy_subscriber(flyring::Start::oldest);
    EXPECT_EQ(lossy.position(0), 10 * 512);
}

TEST_F(ForeignSubscriber, finds_in_head_cache_the_head_of_the_last_recompute) {
    flyring::Publisher publisher = channel.publisher();
    for (int lap = 0; lap < 50; ++lap) {
        fill(publisher);  // ends with a recompute
        ASSERT_EQ(reader.head_cache(), reader.head());
        const std::int64_t before = reader.head();
        ASSERT_EQ(reader.read([](auto, const auto&) {}, 3), 3);
        ASSERT_EQ(reader.head_cache(), before);
        ASSERT_GT(publisher.offer(bytes("x")), 0);  // needs room, so it recomputes
        ASSERT_EQ(reader.head_cache(), reader.head());
        const flyring::Bytes batch[] = {bytes("x"), bytes("x"), bytes("x")};
        ASSERT_EQ(reader.read([](auto, const auto&) {}, 1), 1);
        ASSERT_EQ(publisher.offer_batch({batch, 3}), 3U);
        ASSERT_EQ(reader.head_cache(), reader.head());
    }
}

TEST_F(ForeignSubscriber, is_never_found_dead) {
    flyring::Publisher publisher = channel.publisher();
    flyring::detail::store_release(subscriber_slot(words, 0).kept(), 0);  // its fields would allow to retire it
    fill(publisher);
    support::sleep_past_a_look();
    EXPECT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    EXPECT_EQ(reader.head(), 0);
    EXPECT_EQ(*subscriber_slot(words, 0).epoch(), 0);
    const auto holder = publisher.held_by();
    ASSERT_TRUE(holder);
    EXPECT_EQ(holder->slot, 0U);
    EXPECT_EQ(holder->name, "");
    EXPECT_EQ(holder->pid, 0);
    EXPECT_TRUE(holder->live);
    EXPECT_TRUE(holder->kept);
    EXPECT_EQ(holder->position, 0);
    EXPECT_EQ(reader.read([](auto, const auto&) {}, 5), 5);
    EXPECT_EQ(publisher.held_by()->position, 80);
    EXPECT_GT(publisher.offer(bytes("x")), 0);
}

TEST_F(ForeignSubscriber, can_be_followed_by_a_stock_writer_after_2_gib) {
    // The state after 3 GiB.
    const std::int64_t far = 3LL << 30;
    *ring.claimed() = *ring.published() = *ring.gate(0) = far;
    flyring::Publisher publisher = channel.publisher();
    const int sent = fill(publisher);
    publisher.close();
    EXPECT_EQ(reader.head_cache(), far);
    EXPECT_FALSE(reader.write(1, "would overwrite what was not read"));
    int seen = 0;
    while (reader.read([&](auto, const auto& message) { seen += message == "x"; }) > 0) {
    }
    EXPECT_EQ(seen, sent);
    EXPECT_TRUE(reader.write(1, "now"));
    EXPECT_EQ(reader.read_all(), "now ");
}

TEST_F(ForeignSubscriber, goes_on_after_a_publisher_that_died_in_a_claim) {
    std::string expected;
    for (int death = 0; death < 20; ++death) {
        support::Child child([](const auto& ready) {
            Channel own = Channel::open("c");
            flyring::Publisher victim = own.publisher("victim");
            victim.offer(bytes("whole"));
            const flyring::Claim claim = victim.claim(500);
            std::memset(claim.data(), 0x11, 500);
            ready();
            ::pause();
            return true;
        });
        child.wait_until_ready();
        EXPECT_EQ(reader.read_all(), "whole ");
        EXPECT_LT(reader.head(), reader.tail());
        child.kill();
        channel.publisher("victim").offer(bytes("heir"));
        ASSERT_EQ(reader.read_all(), "heir ");
    }
}

TEST_F(ForeignSubscriber, may_be_accompanied_by_lossy_subscribers) {
    flyring::LossySubscriber lossy = channel.lossy_subscriber(flyring::Start::now, flyring::WhenLapped::newest);
    flyring::Publisher publisher = channel.publisher("named");
    std::string sent;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_GT(publisher.offer(bytes(std::to_string(i))), 0);
        const auto message = lossy.take();
        ASSERT_TRUE(message);
        ASSERT_EQ(support::text(*message), std::to_string(i));
        ASSERT_EQ(reader.read_all(), std::to_string(i) + " ");
    }
    EXPECT_EQ(lossy.lost_messages(0), 0);
    for (int lap = 0; lap < 2; ++lap) {
        fill(publisher);
        reader.read_all();
    }
    const std::int64_t before = lossy.position(0);
    EXPECT_FALSE(lossy.take());
    EXPECT_EQ(lossy.lost_bytes(0), publisher.position() - before);
    publisher.close();
    EXPECT_TRUE(lossy.ended(0));
}

TEST_F(ForeignSubscriber, keeps_up_with_a_publisher_in_another_thread) {
    constexpr int count = 200'000;
    flyring::Publisher publisher = channel.publisher();
    std::atomic<int> wrong{0};
    std::thread other([&] {
        int next = 0;
        while (next < count) {
            const int read = reader.read([&](std::int32_t type, const std::string& message) {
                if (type != 1 + next % 5 || message != std::string(static_cast<std::size_t>(next % 300), 'y')) ++wrong;
                ++next;
            });
            if (read == 0) std::this_thread::yield();
        }
    });
    const std::string letters(300, 'y');
    for (int i = 0; i < count; ++i) {
        const auto message = bytes(letters).first(static_cast<std::size_t>(i % 300));
        while (publisher.offer(message, 1 + i % 5) == flyring::back_pressured) std::this_thread::yield();
    }
    other.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(reader.head(), publisher.position());
}

}  // namespace
