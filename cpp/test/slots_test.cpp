// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "support.hpp"

// Owning slots: names, kept slots, taking and giving back.

namespace {

using flyring::Channel;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
using support::fill;
using support::inbox;
using support::text;
namespace layout = flyring::layout;

class Slots : public support::ChannelTest {
  protected:
    /// Offset of publisher slot 0 in the file; the subscriber slots follow those of `publishers`.
    static constexpr std::uint64_t publisher_slot_0 = 4096 + layout::CONTROL_SLOTS;
    static constexpr std::uint64_t subscriber_slot_0(std::uint64_t publishers) {
        return publisher_slot_0 + publishers * layout::CONTROL_SLOT_LENGTH;
    }
};

TEST_F(Slots, when_all_slots_are_owned_the_next_one_is_no_free_slot) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::Publisher first = channel.publisher();
    flyring::Publisher second = channel.publisher();
    try {
        channel.publisher();
        FAIL() << "a third publisher got one of two slots";
    } catch (const flyring::NoFreeSlot& error) {
        EXPECT_EQ(error.kind(), "publisher");
        EXPECT_EQ(error.slots(), 2U);
    }
    first.close();
    EXPECT_EQ(channel.publisher().ring(), 0U);
    flyring::Subscriber subscriber = channel.subscriber();
    EXPECT_EQ(code_of([&] { channel.subscriber(); }), "no-free-slot");
    subscriber.close();
    EXPECT_EQ(channel.subscriber().slot(), 0U);
}

TEST_F(Slots, a_publisher_name_gives_the_same_ring_back) {
    Channel channel = Channel::create("c", broadcast(3, 1));
    flyring::Publisher a = channel.publisher("a");
    flyring::Publisher b = channel.publisher("b");
    EXPECT_EQ(b.ring(), 1U);
    EXPECT_EQ(b.epoch(), 1);
    EXPECT_EQ(code_of([&] { channel.publisher("b"); }), "no-free-slot");
    b.offer(bytes("x"));
    b.close();
    a.close();
    flyring::Publisher other = channel.publisher("other");
    EXPECT_EQ(other.ring(), 2U);  // slots without a name come first
    flyring::Publisher again = channel.publisher("b");
    EXPECT_EQ(again.ring(), 1U);
    EXPECT_EQ(again.epoch(), 2);
    EXPECT_EQ(again.position(), 64 + 64 + 512);  // behind what b had cleared ahead (6.1 step 3, 6.8)
    EXPECT_EQ(channel.publisher().ring(), 0U);
    EXPECT_EQ(code_of([&] { channel.publisher("not a name"); }), "invalid-argument");
}

TEST_F(Slots, an_inbox_keeps_what_came_before_its_first_subscriber) {
    Channel channel = Channel::create("c", inbox(2, 2));
    flyring::Publisher publisher = channel.publisher();
    flyring::Publisher other = channel.publisher();
    publisher.offer(bytes("early"));
    other.offer(bytes("bird"));
    flyring::Subscriber subscriber = channel.subscriber();
    EXPECT_EQ(subscriber.slot(), 0U);
    EXPECT_TRUE(subscriber.kept());
    EXPECT_EQ(drain(subscriber), "early bird ");
    flyring::Subscriber second = channel.subscriber();
    EXPECT_FALSE(second.kept());
    EXPECT_EQ(drain(second), "");
}

TEST_F(Slots, an_inbox_without_a_subscriber_fills_up_and_says_for_whom_it_waits) {
    Channel channel = Channel::create("c", inbox());
    flyring::Publisher publisher = channel.publisher();
    EXPECT_EQ(fill(publisher), 62);
    const auto holder = publisher.held_by();
    ASSERT_TRUE(holder);
    EXPECT_EQ(holder->slot, 0U);
    EXPECT_FALSE(holder->live);
    EXPECT_TRUE(holder->kept);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);  // a kept slot is never retired
    flyring::Subscriber subscriber = channel.subscriber("reader");
    EXPECT_EQ(subscriber.poll([](const flyring::Message&) {}), 62);
    EXPECT_EQ(publisher.held_by()->name, "reader");
    EXPECT_TRUE(publisher.held_by()->live);
}

TEST_F(Slots, a_kept_slot_resumes_where_it_was_and_is_given_up_by_forget) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    EXPECT_EQ(code_of([&] { channel.subscriber("", true); }), "invalid-argument");
    flyring::Publisher publisher = channel.publisher();
    {
        flyring::Subscriber kept = channel.subscriber("journal", true, {0});
        publisher.offer(bytes("a"));
        publisher.offer(bytes("b"));
        EXPECT_EQ(text(*kept.take()), "a");
    }
    publisher.offer(bytes("c"));
    const flyring::Subscriber passer_by = channel.subscriber();
    EXPECT_EQ(passer_by.slot(), 1U);  // not the kept one
    try {
        channel.subscriber("journal", true, {0, 1});
        FAIL() << "a kept slot was resumed with other rings";
    } catch (const flyring::ChannelDiffers& error) {
        EXPECT_EQ(error.field(), "rings");
        EXPECT_EQ(error.expected(), "0,1");
        EXPECT_EQ(error.actual(), "0");
    }
    flyring::Subscriber resumed = channel.subscriber("journal", true);
    EXPECT_EQ(resumed.rings(), std::vector<std::uint32_t>{0});
    EXPECT_EQ(drain(resumed), "b c ");
    resumed.forget();
    EXPECT_EQ(code_of([&] { resumed.take(); }), "closed");
    flyring::Subscriber fresh = channel.subscriber("journal");
    EXPECT_FALSE(fresh.kept());
    EXPECT_EQ(drain(fresh), "");
    fresh.close();
    EXPECT_FALSE(publisher.held_by() && publisher.held_by()->kept);
}

TEST_F(Slots, a_kept_slot_resumes_from_its_capacity_behind_published_up_to_claimed) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    for (int i = 0; i < 100; ++i) publisher.offer(bytes("x"));
    channel.subscriber("journal", true).close();
    const auto words = support::raw("c");
    const std::int64_t published = *words.ring(0).published();
    const std::int64_t claimed = *words.ring(0).claimed();
    ASSERT_GT(claimed, published);
    // Up to claimed: it may have read a record whose publisher was killed before it stored `published`.
    for (const auto& [gate, code] : {std::pair<std::int64_t, const char*>{claimed + 64, "corrupt-ring"},
                                     {claimed, "none"},
                                     {published - 4096, "none"},
                                     {published - 4096 - 64, "corrupt-ring"},
                                     {published - 1, "corrupt-ring"}}) {
        *words.ring(0).gate(0) = gate;
        EXPECT_EQ(code_of([&] { EXPECT_EQ(channel.subscriber("journal").position(0), gate); }), code) << gate;
    }
}

TEST_F(Slots, a_slot_taken_away_is_slot_lost_and_nothing_more_is_written) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    publisher.offer(bytes("x"));
    flyring::Claim claim = publisher.claim(1);
    const std::uint64_t ring = channel.file_length() - 8192;
    support::poke(file("c"), publisher_slot_0, std::int64_t{7});
    support::poke(file("c"), subscriber_slot_0(1), std::int64_t{7});
    EXPECT_EQ(code_of([&] { claim.commit(); }), "slot-lost");
    EXPECT_EQ(code_of([&] { publisher.offer(bytes("y")); }), "slot-lost");
    EXPECT_EQ(code_of([&] { publisher.claim(1); }), "slot-lost");
    EXPECT_EQ(code_of([&] { publisher.offer_batch(std::vector<flyring::Bytes>{bytes("y")}); }), "slot-lost");
    EXPECT_EQ(support::peek<std::int64_t>(file("c"), ring + 4096 + layout::TRAILER_PUBLISHED), 128);
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "slot-lost");
    EXPECT_EQ(support::peek<std::int64_t>(file("c"), ring + 4096 + layout::TRAILER_GATE), -1);  // taken back
    publisher.close();
    subscriber.close();
    EXPECT_EQ(support::peek<std::int32_t>(file("c"), publisher_slot_0 + layout::PUBLISHER_SLOT_CLOSED), 0);
    EXPECT_EQ(code_of([&] { publisher.offer(bytes("y")); }), "closed");
}

}  // namespace
