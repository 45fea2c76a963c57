// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <future>
#include <limits>
#include <numeric>
#include <utility>

#include "faults.hpp"
#include "support.hpp"

// Owning slots: names, kept slots, taking and giving back.

namespace {

using flyring::Channel;
using flyring::SlotState;
using flyring::Stats;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
using support::fill;
using support::fill_up_to;
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
        EXPECT_EQ(error.owners().size(), 2U);
    }
    first.close();
    EXPECT_EQ(channel.publisher().ring(), 0U);
    flyring::Subscriber subscriber = channel.subscriber();
    EXPECT_EQ(code_of([&] { channel.subscriber(); }), "no-free-slot");
    subscriber.close();
    EXPECT_EQ(channel.subscriber().slot(), 0U);
}

TEST_F(Slots, no_free_slot_names_the_owners) {
    Channel channel = Channel::create("c", broadcast(2, 3));
    const auto said = [](const auto& action) {
        try {
            action();
        } catch (const flyring::NoFreeSlot& error) {
            const std::string text = error.what();
            std::string owners;
            for (const auto& one : error.owners()) {
                EXPECT_EQ(one.pid, ::getpid());
                owners += std::to_string(one.slot) + one.name + " ";
            }
            return owners + text.substr(text.find(": ") + 2);
        }
        return std::string();
    };
    const std::string pid = "pid " + std::to_string(::getpid());
    const flyring::Publisher a = channel.publisher("a");
    EXPECT_EQ(said([&] { channel.publisher("a"); }),
              "0a publisher slot 0 ('a') is owned by " + pid + "; close it there, or ask for another name");
    const flyring::Publisher b = channel.publisher();
    EXPECT_EQ(said([&] { channel.publisher("c"); }), "0a 1 all 2 publisher slots are owned: 0 by 'a' (" + pid +
                                                         "), 1 by " + pid +
                                                         "; close one, or create the channel with more");
    channel.subscriber("away", true).close();
    const flyring::Subscriber s = channel.subscriber("s");
    const flyring::Subscriber kept = channel.subscriber("kept", true);
    EXPECT_EQ(said([&] { channel.subscriber("t"); }),
              "1s 2kept no subscriber slot of 3 is free: 1 by 's' (" + pid + "), 2 by 'kept' (" + pid +
                  "); slot 0 is kept for 'away', which is not attached: a subscriber of that name frees it by "
                  "forget(); close one, or create the channel with more");
    EXPECT_EQ(said([&] { channel.subscriber("kept"); }),
              "2kept subscriber slot 2 ('kept') is owned by " + pid + "; close it there, or ask for another name");
    Channel none = Channel::create("none", broadcast(1, 0));
    EXPECT_EQ(said([&] { none.subscriber(); }),
              "it has no subscriber slots; close one, or create the channel with more");
    Channel many = Channel::create("many", broadcast(11, 0));
    std::vector<flyring::Publisher> all;
    for (int i = 0; i < 11; ++i) all.push_back(many.publisher());
    EXPECT_NE(said([&] { many.publisher(); }).find("7 by " + pid + " and 3 more;"), std::string::npos);
}

TEST_F(Slots, an_epoch_that_cannot_be_counts_as_none) {
    Channel channel = Channel::create("c", broadcast());
    const auto words = support::raw("c");
    const auto publisher = flyring::detail::publisher_slot(words, 0);
    const auto subscriber = flyring::detail::subscriber_slot(words, 0);
    constexpr std::int64_t last = std::int64_t{1} << 62;
    for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{-2}, std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max(), last + 1}) {
        *publisher.epoch() = *subscriber.epoch() = bad;
        flyring::Publisher writer = channel.publisher();
        flyring::Subscriber reader = channel.subscriber();
        EXPECT_EQ(writer.epoch(), 1);
        EXPECT_EQ(reader.epoch(), 1);
        for (int i = 0; i < 200; ++i) {
            ASSERT_GT(writer.offer(bytes("x")), 0);
            ASSERT_EQ(drain(reader), "x ");
        }
        reader.close();
        EXPECT_EQ(code_of([&] { reader.take(); }), "closed");
        *subscriber.epoch() = bad;
        channel.evict(0);
        EXPECT_EQ(*subscriber.epoch(), 1);
    }
    *publisher.epoch() = last;
    EXPECT_EQ(channel.publisher().epoch(), last + 1);
}

TEST_F(Slots, names_are_of_the_letters_that_every_language_takes) {
    Channel channel = Channel::create("c", broadcast());
    for (const std::string bad : {"a b", "\xc3\xa9", "a\n", "a/b", "a\\b"}) {
        EXPECT_EQ(code_of([&] { channel.publisher(bad); }), "invalid-argument") << bad;
        EXPECT_EQ(code_of([&] { channel.subscriber(bad); }), "invalid-argument") << bad;
    }
    EXPECT_EQ(code_of([&] { channel.publisher(std::string(65, 'a')); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.publisher(std::string("a\0b", 3)); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.publisher(std::string(64, 'a')); }), "none");
}

TEST_F(Slots, rings_may_be_left_out_but_not_empty) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    const auto argument_of = [](const auto& action) {
        try {
            action();
        } catch (const flyring::InvalidArgument& error) {
            return error.argument();
        }
        return std::string("none");
    };
    EXPECT_EQ(argument_of([&] { channel.subscriber("s", false, flyring::Rings()); }), "rings");
    EXPECT_EQ(argument_of([&] { channel.subscriber("s", false, {}); }), "rings");
    EXPECT_EQ(argument_of([&] { channel.lossy_subscriber(flyring::Rings()); }), "rings");
    EXPECT_EQ(argument_of([&] { channel.subscriber("", true); }), "name");
    EXPECT_EQ(channel.subscriber("s", false, std::nullopt).rings().size(), 2U);
    EXPECT_EQ(channel.lossy_subscriber().rings().size(), 2U);
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
    EXPECT_EQ(again.position(), 64 + 64 + 512);  // after the space that b had cleared ahead (6.1, 3; 6.8)
    EXPECT_EQ(channel.publisher().ring(), 0U);
    EXPECT_EQ(code_of([&] { channel.publisher("not a name"); }), "invalid-argument");
}

TEST_F(Slots, an_inbox_keeps_what_came_before_its_first_subscriber) {
    Channel channel = Channel::create("c", inbox(2));
    flyring::Publisher publisher = channel.publisher();
    flyring::Publisher other = channel.publisher();
    publisher.offer(bytes("early"));
    other.offer(bytes("bird"));
    flyring::Subscriber subscriber = channel.subscriber();
    EXPECT_EQ(subscriber.slot(), 0U);
    EXPECT_TRUE(subscriber.kept());
    EXPECT_EQ(drain(subscriber), "early bird ");
    EXPECT_EQ(code_of([&] { channel.subscriber(); }), "no-free-slot");
}

TEST_F(Slots, an_inbox_is_handed_on_to_a_reader_of_any_name) {
    Channel channel = Channel::create("c", inbox(2));
    const auto slot = [words = support::raw("c")]() { return flyring::detail::subscriber_slot(words, 0); };
    flyring::Publisher publisher = channel.publisher();
    for (int i = 0; i < 5; ++i) publisher.offer(bytes(std::to_string(i)));
    {
        flyring::Subscriber monday = channel.subscriber("monday");
        monday.poll([](const flyring::Message&) {}, 2);
        try {
            channel.subscriber("tuesday");
            FAIL() << "an inbox had two readers";
        } catch (const flyring::NoFreeSlot& error) {
            EXPECT_EQ(error.owners().at(0).name, "monday");
        }
        EXPECT_EQ(code_of([&] { monday.forget(); }), "invalid-argument");
        EXPECT_EQ(slot().name(), "monday");
    }
    EXPECT_EQ(code_of([&] { channel.subscriber("tuesday", false, {1}); }), "differs");
    EXPECT_EQ(slot().name(), "monday");  // a refused call changes nothing
    EXPECT_EQ(*slot().epoch(), 1);
    flyring::Subscriber tuesday = channel.subscriber("tuesday", true);
    EXPECT_EQ(slot().name(), "tuesday");
    EXPECT_EQ(drain(tuesday), "2 3 4 ");
    tuesday.close();
    publisher.offer(bytes("5"));
    flyring::Subscriber nameless = channel.subscriber("", true);
    EXPECT_EQ(slot().name(), "");
    EXPECT_EQ(drain(nameless), "5 ");
}

TEST_F(Slots, a_slot_that_is_refused_for_a_bad_position_is_left_as_it_was) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    const auto words = support::raw("c");
    const std::vector<std::byte> before = [&] {
        *words.ring(1).published() = 1;
        return support::read_file(file("c"));
    }();
    EXPECT_EQ(code_of([&] { channel.subscriber("name"); }), "corrupt-ring");
    EXPECT_EQ(code_of([&] { channel.subscriber("name", true); }), "corrupt-ring");
    EXPECT_EQ(support::read_file(file("c")), before);
    EXPECT_FALSE(support::is_locked(file("c"), subscriber_slot_0(2)));
    EXPECT_EQ(code_of([&] { channel.subscriber("name", false, {0}); }), "none");
}

TEST_F(Slots, the_count_beside_a_gate_is_that_of_the_messages_before_it) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
        const auto words = support::raw("c");
        std::int64_t& count = *words.ring(0).gate_count(0);
        flyring::Publisher publisher = channel.publisher();
        for (int i = 0; i < 7; ++i) publisher.offer(bytes("before"));
        std::optional<flyring::Subscriber> subscriber = channel.subscriber("s", true);
        EXPECT_EQ(count, 7);
        std::int64_t read = 7;
        for (int i = 0; i < 300; ++i) {
            ASSERT_GT(publisher.offer(std::vector<std::byte>(static_cast<std::size_t>(i * 37 % 400))), 0);
            if (i % 3 != 0) read += subscriber->poll([](const flyring::Message&) {}, 4);
            ASSERT_TRUE(i % 3 == 0 || count == read) << i;
            if (i % 20 != 0) continue;
            subscriber.reset();
            count = 12345;  // as if killed between the stores of the count and of the gate
            subscriber = channel.subscriber("s");
        }
        drain(*subscriber);
        EXPECT_EQ(count, 307);
        publisher.offer(bytes("x"));
        const auto throwing = [](const flyring::Message&) { throw std::runtime_error("mine"); };
        EXPECT_THROW(subscriber->poll(throwing), std::runtime_error);
        EXPECT_EQ(count, 308);
    }
}

TEST_F(Slots, a_full_ring_says_since_when_and_for_how_much) {
    flyring::detail::InEnvironment injected;
    injected.environment.monotonic = 777;
    Channel channel = injected.create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher("p");
    const auto words = support::raw("c");
    const auto slot = flyring::detail::publisher_slot(words, 0);
    fill(publisher);
    EXPECT_EQ(*slot.blocked_since(), 777);
    EXPECT_EQ(*slot.blocked_length(), 64);
    publisher.offer(std::vector<std::byte>(500));
    EXPECT_EQ(*slot.blocked_length(), 64);  // of the first message that was held back
    drain(subscriber);
    EXPECT_EQ(*slot.blocked_since(), 777);
    publisher.offer(bytes("x"));
    EXPECT_EQ(*slot.blocked_since(), 0);
    fill(publisher);
    EXPECT_EQ(*slot.blocked_since(), 777);
    publisher.close();
    EXPECT_EQ(channel.publisher("p").ring(), 0U);
    EXPECT_EQ(*slot.blocked_since(), 0);
}

TEST_F(Slots, a_batch_that_is_held_back_says_the_size_of_its_first_message) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    const auto words = support::raw("c");
    const auto slot = flyring::detail::publisher_slot(words, 0);
    fill_up_to(publisher, 2048);
    drain(subscriber);
    fill_up_to(publisher, 2048 + 4096 - 960);
    const std::vector<std::byte> large(1000);
    const flyring::Bytes batch[] = {large, large};
    EXPECT_EQ(publisher.offer_batch({batch, 2}), 0U);
    EXPECT_GT(*slot.blocked_since(), 0);
    EXPECT_EQ(*slot.blocked_length(), 1024);
    drain(subscriber);
    EXPECT_EQ(publisher.offer_batch({batch, 2}), 2U);
    EXPECT_EQ(*slot.blocked_since(), 0);
}

TEST_F(Slots, with_all_slots_owned_a_take_tries_each_millisecond_for_ten) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    Channel other = Channel::open("c");
    std::optional<flyring::Publisher> owner = other.publisher();
    std::vector<std::chrono::steady_clock::time_point> tries;
    bool control = false;
    std::size_t free_at = 1000;
    const faults::Hook hook([&](const faults::Call& call) {
        if (call.command != F_OFD_SETLK || !owner) return 0;
        if (call.offset == 4096) control = call.lock == F_WRLCK;
        if (call.offset != publisher_slot_0 || call.lock != F_WRLCK) return 0;
        EXPECT_TRUE(control);
        tries.push_back(std::chrono::steady_clock::now());
        if (tries.size() == free_at) {
            const std::optional<flyring::Publisher> closed = std::exchange(owner, std::nullopt);
        }
        return 0;
    });
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "no-free-slot");
    EXPECT_FALSE(control);
    ASSERT_GE(tries.size(), 2U);
    EXPECT_LE(tries.size(), 12U);
    EXPECT_GE(tries.back() - tries.front(), std::chrono::milliseconds(10));
    for (std::size_t i = 1; i < tries.size(); ++i) EXPECT_GE(tries[i] - tries[i - 1], std::chrono::milliseconds(1));
    tries.clear();
    free_at = 2;
    EXPECT_EQ(channel.publisher().epoch(), 2);
    EXPECT_EQ(tries.size(), 2U);
}

TEST_F(Slots, a_publisher_that_is_held_back_tests_locks_once_in_a_millisecond) {
    Channel channel = Channel::create("c", broadcast());
    const flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    std::vector<std::chrono::steady_clock::time_point> tests;
    const faults::Hook hook([&](const faults::Call& call) {
        const bool tested = call.command == F_OFD_SETLK && call.offset == subscriber_slot_0(1) && call.lock == F_WRLCK;
        if (tested) tests.push_back(std::chrono::steady_clock::now());
        return 0;
    });
    fill_up_to(publisher, 4032);
    const auto held_back = std::chrono::steady_clock::now();
    while (tests.size() < 3) ASSERT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    // From the begin, because a test may come late behind the look at the clock from which the next one counts.
    EXPECT_GE(tests[0] - held_back, std::chrono::milliseconds(1));
    EXPECT_GE(tests[1] - held_back, std::chrono::milliseconds(2));
    EXPECT_GE(tests[2] - held_back, std::chrono::milliseconds(3));
}

TEST_F(Slots, readers_counts_slots_with_an_owner_only) {
    Channel channel = Channel::create("c", broadcast(2, 3));
    flyring::Publisher publisher = channel.publisher();
    EXPECT_EQ(publisher.readers(), 0U);
    flyring::Subscriber a = channel.subscriber();
    const flyring::Subscriber b = channel.subscriber("", false, {1});
    flyring::Subscriber kept = channel.subscriber("kept", true);
    EXPECT_EQ(publisher.readers(), 2U);
    kept.close();
    EXPECT_EQ(publisher.readers(), 1U);
    a.close();
    EXPECT_EQ(publisher.readers(), 0U);
}

// A joiner's first gate may lie before the place where it begins. So a count looks only while no join is under way.
TEST_F(Slots, readers_waits_for_a_join_that_is_under_way) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    const flyring::Subscriber subscriber = channel.subscriber();
    const auto words = support::raw("c");
    const auto description = flyring::detail::open_description(words.fd, words.path);
    std::future<std::uint32_t> readers;
    {
        const flyring::detail::ControlLock control(description, words);  // as a joiner holds it
        readers = std::async(std::launch::async, [&] { return publisher.readers(); });
        EXPECT_EQ(readers.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
        EXPECT_EQ(code_of([&] { publisher.close(); }), "two-threads");
    }
    EXPECT_EQ(readers.get(), 1U);
    EXPECT_GT(publisher.offer(bytes("x")), 0);
    EXPECT_FALSE(support::is_locked(words.path, 4096 + layout::CONTROL_CONTROL_LOCK));
}

TEST_F(Slots, differs_carries_both_values_of_at_most_200_characters) {
    Channel channel = Channel::create("c", broadcast(128, 1));
    flyring::Rings all(128);
    std::iota(all.begin(), all.end(), 0U);
    channel.subscriber("kept", true).close();
    const flyring::Rings most(all.begin(), all.end() - 1);
    try {
        channel.subscriber("kept", true, most);
        FAIL() << "it has other rings";
    } catch (const flyring::ChannelDiffers& error) {
        EXPECT_EQ(error.field(), "rings");
        EXPECT_EQ(error.expected().size(), 200U);
        EXPECT_EQ(error.actual().size(), 200U);
        EXPECT_EQ(error.actual().substr(0, 6), "0,1,2,");
        EXPECT_EQ(error.actual().substr(197), "...");
        EXPECT_NE(std::string(error.what()).find(error.expected() + "; "), std::string::npos);
    }
    EXPECT_EQ(channel.subscriber("kept", true, all).rings(), all);
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
    support::sleep_past_a_look();
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
    // Up to `claimed`: the subscriber may have read a record whose publisher was killed before it stored `published`.
    for (const auto& [gate, code] : {std::pair<std::int64_t, const char*>{claimed + 64, "corrupt-ring"},
                                     {claimed, "none"},
                                     {published - 4096, "none"},
                                     {published - 4096 - 64, "corrupt-ring"},
                                     {published - 1, "corrupt-ring"}}) {
        *words.ring(0).gate(0) = gate;
        const std::int64_t expected = gate;  // clang 14 captures no structured binding
        EXPECT_EQ(code_of([&] { EXPECT_EQ(channel.subscriber("journal").position(0), expected); }), code) << gate;
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

TEST_F(Slots, stats_name_each_owner_and_its_position) {
    Channel channel = Channel::create("c", broadcast(3, 3));
    flyring::Publisher first = channel.publisher("first");
    channel.publisher("second").close();
    flyring::Subscriber reader = channel.subscriber("reader", false, {0});
    channel.subscriber("kept", true).close();
    for (int i = 0; i < 5; ++i) first.offer(bytes("x"));
    reader.poll([](const flyring::Message&) {}, 2);
    channel.counters().allocate("n", 7, bytes("key")).set(42);
    flyring::OpenOptions reading;
    reading.read_only = true;
    for (const Stats& stats : {channel.stats(), Channel::open("c", reading).stats()}) {
        EXPECT_EQ(stats.path, channel.path());
        EXPECT_EQ(stats.id, channel.id());
        EXPECT_EQ(stats.capacity, 4096U);
        EXPECT_EQ(stats.successor, 0);
        ASSERT_EQ(stats.publishers.size(), 3U);
        EXPECT_EQ(stats.publishers[0].state, SlotState::live);
        EXPECT_EQ(stats.publishers[0].name, "first");
        EXPECT_EQ(stats.publishers[0].pid, ::getpid());
        EXPECT_EQ(stats.publishers[0].epoch, 1);
        EXPECT_EQ(stats.publishers[0].published, first.position());
        EXPECT_EQ(stats.publishers[0].messages, 5);
        EXPECT_EQ(stats.publishers[0].blocked_since, 0);
        EXPECT_EQ(stats.publishers[1].state, SlotState::closed);
        EXPECT_EQ(stats.publishers[2].state, SlotState::unused);
        ASSERT_EQ(stats.subscribers.size(), 3U);
        EXPECT_EQ(stats.subscribers[0].state, SlotState::live);
        EXPECT_FALSE(stats.subscribers[0].kept);
        ASSERT_EQ(stats.subscribers[0].gates.size(), 1U);
        EXPECT_EQ(stats.subscribers[0].gates[0].position, reader.position(0));
        EXPECT_EQ(stats.subscribers[0].gates[0].lag, first.position() - reader.position(0));
        EXPECT_EQ(stats.subscribers[0].gates[0].lag_messages, 3);
        EXPECT_EQ(stats.subscribers[1].state, SlotState::away);
        EXPECT_TRUE(stats.subscribers[1].kept);
        EXPECT_EQ(stats.subscribers[1].gates.size(), 3U);
        EXPECT_EQ(stats.subscribers[2].state, SlotState::unused);
        EXPECT_TRUE(stats.subscribers[2].gates.empty());
        ASSERT_EQ(stats.counters.size(), 1U);
        EXPECT_EQ(stats.counters[0].label, "n");
        EXPECT_EQ(stats.counters[0].type_id, 7);
        EXPECT_EQ(stats.counters[0].key.size(), 112U);
        EXPECT_EQ(stats.counters[0].value, 42);
    }
}

TEST_F(Slots, stats_of_a_slot_with_words_that_cannot_be) {
    Channel channel = Channel::create("c", broadcast());
    channel.publisher("ann").close();
    const auto words = support::raw("c");
    const auto slot = flyring::detail::publisher_slot(words, 0);
    EXPECT_EQ(channel.stats().publishers.at(0).state, SlotState::closed);
    for (const std::int64_t epoch : {std::int64_t{-7}, layout::MAX_POSITION + 1}) {
        *slot.epoch() = epoch;
        EXPECT_EQ(channel.stats().publishers.at(0).epoch, 0);
        EXPECT_EQ(channel.stats().publishers.at(0).state, SlotState::unused);
    }
    *slot.epoch() = 3;
    for (const std::int32_t length : {-2, 65}) {
        *slot.name_length() = length;
        EXPECT_EQ(channel.stats().publishers.at(0).epoch, 3);
        EXPECT_EQ(channel.stats().publishers.at(0).name, "");
    }
    *slot.name_length() = -1;
    EXPECT_EQ(channel.stats().publishers.at(0).epoch, -1);
}

TEST_F(Slots, stats_say_which_reader_holds_a_publisher_back_and_since_when) {
    Channel channel = Channel::create("c", broadcast(1, 3));
    flyring::Subscriber quick = channel.subscriber();
    const flyring::Subscriber slow = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    while (publisher.offer(bytes("x")) > 0) quick.poll([](const flyring::Message&) {});
    support::sleep_past_a_look();
    const Stats stats = channel.stats();
    const flyring::PublisherStats& blocked = stats.publishers.at(0);
    EXPECT_EQ(blocked.blocked_by, (std::vector<std::uint32_t>{1}));
    EXPECT_GT(blocked.blocked_since, 0);
    EXPECT_GE(blocked.blocked_for, 2'000'000);
    EXPECT_EQ(blocked.blocked_length, 64);
    channel.evict(1);
    EXPECT_EQ(channel.stats().publishers.at(0).blocked_since, 0);  // although the publisher has not looked yet
}

TEST_F(Slots, stats_of_a_foreign_end_say_so) {
    flyring::Options options = support::inbox(1, 1, 4096, 8);
    options.foreign = flyring::Foreign::publisher;
    Channel channel = Channel::create("c", options);
    const Stats stats = channel.stats();
    EXPECT_EQ(stats.publishers.at(0).state, SlotState::foreign);
    EXPECT_EQ(stats.publishers.at(0).messages, -1);
    EXPECT_EQ(stats.subscribers.at(0).state, SlotState::unused);
    EXPECT_EQ(stats.subscribers.at(0).gates.at(0).lag_messages, -1);
    Channel::unlink("c");
    EXPECT_EQ(channel.stats().successor, 2);
    channel.close();
    EXPECT_EQ(support::code_of([&] { channel.stats(); }), "closed");
}

}  // namespace
