// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <csignal>
#include <limits>

#include "support.hpp"

// Rings that a broken or hostile process wrote; lossy subscribers whose publisher died or lapped them at an awkward
// place.

namespace {

using flyring::Channel;
using flyring::LossySubscriber;
using flyring::Message;
using flyring::Start;
using flyring::WhenLapped;
using flyring::detail::Ring;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
using support::inbox;
using support::text;
namespace layout = flyring::layout;

class Hostile : public support::ChannelTest {};

class HostileLossy : public support::ChannelTest {
  protected:
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::detail::ChannelFile words = support::raw("c");
    Ring ring = words.ring(0);
    flyring::Publisher publisher = channel.publisher();
    flyring::Publisher other = channel.publisher();
};

TEST_F(HostileLossy, lapped_while_the_ring_looks_empty) {
    LossySubscriber subscriber = channel.lossy_subscriber({0}, Start::now, WhenLapped::newest);
    publisher.offer(bytes("first"));
    EXPECT_EQ(drain(subscriber), "first ");
    const std::int64_t cursor = subscriber.position(0);
    // A lap of zeros: the place of the subscriber's next record is now inside a message, and reads as length 0.
    const std::vector<std::byte> zeros(1000);
    int sent = 0;
    while (publisher.position() < cursor + 4096 + 1024) {
        ASSERT_GT(publisher.offer(zeros), 0);
        ++sent;
    }
    ASSERT_EQ(*ring.length_at(cursor), 0);
    EXPECT_FALSE(subscriber.take());
    EXPECT_EQ(subscriber.lost_messages(0), sent);
    EXPECT_EQ(subscriber.lost_bytes(0), publisher.position() - cursor);
    publisher.offer(bytes("next"));
    EXPECT_EQ(drain(subscriber), "next ");
}

TEST_F(HostileLossy, an_open_claim_a_lap_ahead_counts_as_overwritten) {
    LossySubscriber subscriber = channel.lossy_subscriber({0}, Start::now, WhenLapped::newest);
    flyring::Claim claim = publisher.claim(1);
    int sent = 0;
    // The claim's first byte lies where the subscriber's next record was.
    for (; publisher.position() < subscriber.position(0) + 4096 + 64; ++sent) {
        claim.commit();
        claim = publisher.claim(1);
    }
    EXPECT_FALSE(subscriber.take());
    EXPECT_EQ(subscriber.lost_messages(0), sent);
    EXPECT_EQ(subscriber.position(0), publisher.position());
    std::memcpy(claim.data(), "c", 1);
    claim.commit();
    EXPECT_EQ(drain(subscriber), "c ");
}

TEST_F(HostileLossy, a_publisher_killed_between_position_and_count_hangs_no_reader) {
    LossySubscriber subscriber = channel.lossy_subscriber({0}, Start::now, WhenLapped::newest);
    for (int i = 0; i < 200; ++i) publisher.offer(bytes("x"));
    const std::int64_t count = *ring.messages_begun();
    *ring.messages_begun() = count + 1;  // as if killed in step 7 of publish (spec/channel.md 6.1)
    EXPECT_FALSE(subscriber.take());
    EXPECT_EQ(subscriber.position(0), 0);
    EXPECT_EQ(subscriber.lost_messages(0), 0);
    LossySubscriber from_now = channel.lossy_subscriber({0});
    EXPECT_FALSE(from_now.take());
    EXPECT_FALSE(from_now.ended(0));
    *ring.messages_begun() = count;
    EXPECT_FALSE(subscriber.take());
    EXPECT_EQ(subscriber.lost_messages(0), 200);
    EXPECT_FALSE(from_now.take());  // it starts now
    publisher.offer(bytes("y"));
    EXPECT_EQ(drain(subscriber), "y ");
    EXPECT_EQ(drain(from_now), "y ");
    EXPECT_EQ(from_now.lost_messages(0), 0);
}

TEST_F(HostileLossy, a_corrupt_ring_is_reported_once_and_the_others_go_on) {
    for (const auto& [length, type] :
         {std::pair{7, 1}, {1, 1}, {5000, 1}, {std::numeric_limits<int>::max(), 1}, {9, 0}, {9, -3}}) {
        LossySubscriber subscriber = channel.lossy_subscriber();
        publisher.offer(bytes("bad"));
        other.offer(bytes("good"));
        const std::int64_t end = publisher.position() - 64;
        const auto good_length = *ring.length_at(end);
        *ring.length_at(end) = length;
        *ring.type_at(end) = type;
        int reports = 0;
        std::string seen;
        for (int i = 0; i < 5; ++i) {
            try {
                subscriber.poll([&](const Message& message) { seen += support::text(message); });
            } catch (const flyring::CorruptRing& error) {
                ++reports;
                EXPECT_EQ(error.ring(), 0U);
                EXPECT_EQ(error.position(), end);
            }
        }
        EXPECT_EQ(reports, 1) << length << " " << type;
        EXPECT_EQ(seen, "good");
        EXPECT_EQ(code_of([&] { subscriber.peek(); }), "none");
        *ring.length_at(end) = good_length;
        *ring.type_at(end) = 1;
    }
}

TEST_F(HostileLossy, invalid_positions_are_a_corrupt_ring_at_the_first_poll) {
    for (const std::int64_t bad : {std::int64_t{-64}, std::int64_t{1}, std::int64_t{1} << 62}) {
        *ring.published() = bad;
        LossySubscriber subscriber = channel.lossy_subscriber();
        other.offer(bytes("good"));
        EXPECT_EQ(code_of([&] { subscriber.take(); }), "corrupt-ring") << bad;
        EXPECT_EQ(drain(subscriber), "good ");
    }
    *ring.published() = 0;
    *ring.boundary(0) = 1;
    LossySubscriber subscriber = channel.lossy_subscriber({0}, Start::oldest);
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "corrupt-ring");
}

TEST_F(HostileLossy, each_of_the_eight_boundaries_is_checked) {
    *ring.claimed() = *ring.published() = 640;
    for (std::int64_t eighth = 0; eighth < 8; ++eighth) {
        const std::int64_t good = *ring.boundary(eighth);
        for (const std::int64_t bad : {std::int64_t{-2}, std::int64_t{-64}, std::int64_t{63}, std::int64_t{704},
                                       std::numeric_limits<std::int64_t>::min()}) {
            *ring.boundary(eighth) = bad;
            LossySubscriber subscriber = channel.lossy_subscriber({0, 1}, Start::oldest);
            EXPECT_EQ(code_of([&] { subscriber.take(); }), "corrupt-ring") << eighth << " " << bad;
            other.offer(bytes("good"));
            EXPECT_EQ(drain(subscriber).substr(0, 5), "good ");
        }
        *ring.boundary(eighth) = good;
    }
    EXPECT_EQ(code_of([&] { channel.lossy_subscriber({0}, Start::oldest).take(); }), "none");
    *ring.published() = -64;  // below a boundary of 0
    EXPECT_EQ(code_of([&] { channel.lossy_subscriber({0}, Start::oldest).take(); }), "corrupt-ring");
}

TEST_F(HostileLossy, an_impossible_claimed_position_ends_in_a_corrupt_ring) {
    LossySubscriber subscriber = channel.lossy_subscriber({0});
    publisher.offer(bytes("x"));
    *ring.claimed() = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "corrupt-ring");
    EXPECT_EQ(subscriber.lost_bytes(0), 128);
    EXPECT_FALSE(subscriber.take());
}

TEST_F(HostileLossy, a_ring_of_nothing_but_padding_does_not_hang_a_poll) {
    *ring.length_at(0) = 4096;
    *ring.type_at(0) = layout::TYPE_PADDING;
    LossySubscriber subscriber = channel.lossy_subscriber();
    *ring.claimed() = std::numeric_limits<std::int64_t>::min();  // never lapped
    other.offer(bytes("good"));
    std::string seen;
    for (int i = 1; i <= 3; ++i) {
        subscriber.poll([&](const Message& message) { seen += support::text(message); });
        EXPECT_EQ(subscriber.position(0), 4096 * i);
    }
    EXPECT_EQ(seen, "good");
}

// A signal after each instruction is more than ThreadSanitizer's runtime bears.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLYRING_UNDER_TSAN
#endif
#endif

#if defined(__x86_64__) && !defined(FLYRING_UNDER_TSAN)
/// During its lifetime, `published` moves after every instruction of this thread. A writer in another thread would not
/// always move it while a lapped subscriber jumps to the newest position.
class Stepping {
  public:
    explicit Stepping(const Ring& ring) {
        published_ = ring.published();
        struct sigaction action{};
        action.sa_handler = [](int) { *published_ += 64; };
        sigaction(SIGTRAP, &action, &before_);
        asm volatile("lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");  // the trap flag
    }
    Stepping(const Stepping&) = delete;
    Stepping& operator=(const Stepping&) = delete;
    ~Stepping() {
        asm volatile("lea -128(%%rsp), %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
        sigaction(SIGTRAP, &before_, nullptr);
    }

  private:
    static inline volatile std::int64_t* published_ = nullptr;
    struct sigaction before_{};
};

TEST_F(HostileLossy, a_poll_ends_although_a_writer_always_laps_it) {
    *ring.claimed() = std::numeric_limits<std::int64_t>::max();
    LossySubscriber subscriber = channel.lossy_subscriber({0});
    alarm(60);  // ends the test if a poll does not end
    for (int i = 0; i < 3; ++i) {
        const std::int64_t begin = subscriber.position(0);
        int handed = 0;
        const std::string error = code_of([&] {
            const Stepping writer(ring);
            handed = subscriber.poll([](const Message&) {});
        });
        EXPECT_EQ(error, "none");
        EXPECT_EQ(handed, 0);
        EXPECT_GT(subscriber.position(0), begin);  // ended by the bound on jumps
    }
    alarm(0);
}
#else
TEST_F(HostileLossy, a_poll_ends_although_a_writer_always_laps_it) {
    GTEST_SKIP() << "needs the trap flag of x86-64, and no ThreadSanitizer";
}
#endif

TEST_F(HostileLossy, a_message_of_more_than_a_quarter_of_the_ring_is_a_corrupt_ring) {
    for (const std::int32_t length : {1024, 1025, 1100, 4096}) {
        for (const bool peeking : {false, true}) {
            LossySubscriber subscriber = channel.lossy_subscriber({0});
            *ring.type_at(0) = 1;
            *ring.length_at(0) = length;
            std::size_t size = 0;
            const std::string code = code_of([&] {
                if (peeking) {
                    size = subscriber.peek()->size();
                    EXPECT_TRUE(subscriber.valid());
                } else {
                    size = subscriber.take()->size();
                }
            });
            EXPECT_EQ(code, length == 1024 ? "none" : "corrupt-ring") << length;
            EXPECT_EQ(size, length == 1024 ? 1016U : 0U);
            EXPECT_EQ(subscriber.position(0), length == 1024 ? 1024 : 0);
        }
    }
}

TEST_F(HostileLossy, padding_may_be_longer_than_any_message) {
    LossySubscriber subscriber = channel.lossy_subscriber({0});
    *ring.type_at(0) = layout::TYPE_PADDING;
    *ring.length_at(0) = 2048;
    *ring.type_at(2048) = 1;
    *ring.length_at(2048) = 8 + 3;
    EXPECT_EQ(subscriber.take()->size(), 3U);
    EXPECT_EQ(subscriber.position(0), 2048 + 64);
}

TEST_F(HostileLossy, a_message_that_is_too_long_is_lost_if_it_may_be_of_a_later_lap) {
    LossySubscriber subscriber = channel.lossy_subscriber({0});
    *ring.type_at(0) = 1;
    *ring.length_at(0) = 4096;
    *ring.claimed() = *ring.published() = 8256;
    *ring.messages_begun() = *ring.messages_done() = 5;
    EXPECT_FALSE(subscriber.take());
    EXPECT_EQ(subscriber.lost_messages(0), 5);
    EXPECT_EQ(subscriber.position(0), 8256);
}

TEST_F(HostileLossy, a_claim_of_a_dead_publisher_is_not_delivered_and_the_next_owner_is_heard) {
    LossySubscriber subscriber = channel.lossy_subscriber();
    publisher.close();
    other.close();
    support::Child child([](const auto& ready) {
        Channel own = Channel::open("c");
        flyring::Publisher victim = own.publisher("victim");
        victim.offer(bytes("committed"));
        const flyring::Claim claim = victim.claim(100);
        std::memset(claim.data(), 0xee, claim.size());
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    EXPECT_EQ(drain(subscriber), "committed ");
    child.kill();
    flyring::Publisher heir = channel.publisher("victim");
    for (int lap = 0; lap < 200; ++lap) {
        heir.offer(bytes("after"));
        ASSERT_EQ(drain(subscriber), "after ");
    }
    EXPECT_EQ(subscriber.lost_messages(0) + subscriber.lost_messages(1), 0);
}

TEST_F(Hostile, a_bad_position_in_the_file_is_a_corrupt_ring_when_the_slot_is_taken) {
    Channel channel = Channel::create("c", broadcast());
    const std::uint64_t trailer = channel.file_length() - 4096;
    for (const std::int64_t bad : {std::int64_t{-64}, std::int64_t{1}, std::int64_t{1} << 62}) {
        support::poke(file("c"), trailer + layout::TRAILER_PUBLISHED, bad);
        EXPECT_EQ(code_of([&] { channel.publisher(); }), "corrupt-ring") << bad;
        EXPECT_EQ(code_of([&] { channel.subscriber(); }), "corrupt-ring") << bad;
        EXPECT_EQ(support::peek<std::int64_t>(file("c"), trailer + layout::TRAILER_GATE), -1);
    }
    support::poke(file("c"), trailer + layout::TRAILER_PUBLISHED, std::int64_t{0});
    support::poke(file("c"), trailer + layout::TRAILER_CLAIMED, std::int64_t{8192});
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "corrupt-ring");
    // Valid up to the longest record, C / 4, and the window W that is cleared ahead (spec/channel.md 6).
    support::poke(file("c"), trailer + layout::TRAILER_CLAIMED, std::int64_t{1024 + 512 + 64});
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "corrupt-ring");
    EXPECT_FALSE(support::is_locked(file("c"), 4096 + layout::CONTROL_SLOTS));
    support::poke(file("c"), trailer + layout::TRAILER_CLAIMED, std::int64_t{1024 + 512});
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "none");
    support::poke(file("c"), trailer + layout::TRAILER_PUBLISHED, std::int64_t{0});
    support::poke(file("c"), trailer + layout::TRAILER_CLAIMED, std::int64_t{0});
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "none");
}

TEST_F(Hostile, a_subscriber_that_writes_into_a_message_harms_only_itself) {
    Channel channel = Channel::create("c", inbox());
    channel.publisher().offer(bytes("hello"));
    support::Child child([](const support::Child::Ready&) {
        Channel::open("c").subscriber().poll(
            [](const flyring::Message& message) { *const_cast<volatile std::byte*>(message.data()) = std::byte{'J'}; });
        return true;
    });
    EXPECT_EQ(child.wait(), 128 + SIGSEGV);
    EXPECT_EQ(text(channel.subscriber().take().value()), "hello");
}

TEST_F(Hostile, a_ring_of_nothing_but_padding_does_not_hang_a_poll) {
    Channel channel = Channel::create("c", inbox());
    flyring::Subscriber subscriber = channel.subscriber();
    const std::uint64_t ring =
        16384;  // after header, control, and a page each for the metadata and values of 4 counters
    support::poke<std::int32_t>(file("c"), ring, 4096);
    support::poke<std::int32_t>(file("c"), ring + 4, layout::TYPE_PADDING);
    EXPECT_EQ(subscriber.poll([](const flyring::Message&) { FAIL(); }), 0);
    EXPECT_EQ(subscriber.poll([](const flyring::Message&) { FAIL(); }), 0);
}

TEST_F(Hostile, a_corrupt_ring_is_reported_once_and_the_others_go_on) {
    for (const std::int32_t length : {7, 1, 5000, std::numeric_limits<std::int32_t>::max()}) {
        Channel channel = Channel::replace("c", broadcast(2, 1));
        flyring::Subscriber subscriber = channel.subscriber();
        flyring::Publisher bad = channel.publisher();
        flyring::Publisher good = channel.publisher();
        bad.offer(bytes("first"));
        EXPECT_TRUE(subscriber.take());
        bad.offer(bytes("second"));
        good.offer(bytes("good"));
        const std::uint64_t ring = channel.file_length() - 2 * (4096 + 4096);
        support::poke(file("c"), ring + 128, length);
        try {
            for (int i = 0; i < 3; ++i) subscriber.take();
            FAIL() << "a length of " << length << " was believed";
        } catch (const flyring::CorruptRing& error) {
            EXPECT_EQ(error.ring(), 0U);
            EXPECT_EQ(error.position(), 128);
        }
        good.offer(bytes("more"));
        std::string seen;
        subscriber.poll([&](const flyring::Message& message) { seen += text(message); });
        EXPECT_NE(seen.find("more"), std::string::npos);
        EXPECT_EQ(support::peek<std::int64_t>(file("c"), ring + 4096 + layout::TRAILER_GATE), -1);
        EXPECT_EQ(subscriber.position(0), 128);
    }
}

TEST_F(Hostile, an_unknown_type_is_a_corrupt_ring) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    channel.publisher().offer(bytes("x"));
    support::poke(file("c"), channel.file_length() - 8192 + 64 + layout::RECORD_TYPE, std::int32_t{-3});
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "corrupt-ring");
}

}  // namespace
