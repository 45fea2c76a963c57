// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <cerrno>

#include "faults.hpp"
#include "support.hpp"

// Evict, by call and for lag, and what it leaves for the slot's next owner.

namespace {

using flyring::Channel;
using flyring::Message;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
using support::fill;
using support::text;
namespace layout = flyring::layout;

class Evict : public support::ChannelTest {};

TEST_F(Evict, an_evicted_subscriber_is_told_and_holds_no_publisher_back) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Subscriber other = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    publisher.offer(bytes("x"));
    channel.evict(0);
    EXPECT_EQ(publisher.held_by()->slot, 1U);
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "slot-lost");
    EXPECT_EQ(code_of([&] { subscriber.ended(0); }), "slot-lost");
    EXPECT_EQ(drain(other), "x ");
    flyring::Subscriber next = channel.subscriber();  // the slot is free at once, though the victim still exists
    EXPECT_EQ(next.slot(), 0U);
    publisher.offer(bytes("y"));
    subscriber.close();  // changes nothing in the slot
    EXPECT_EQ(drain(next), "y ");
    EXPECT_EQ(code_of([&] { channel.evict(2); }), "invalid-argument");
    channel.close();
    EXPECT_EQ(code_of([&] { channel.evict(0); }), "closed");
}

TEST_F(Evict, a_poll_in_which_it_happens_ends_with_slot_lost_and_takes_its_gates_back) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    for (int i = 0; i < 3; ++i) publisher.offer(bytes("x"));
    int handled = 0;
    const auto poll = [&] {
        subscriber.poll([&](const Message&) {
            if (++handled == 2) channel.evict(0);  // the next call inside the handler does not take the gates back yet
            EXPECT_EQ(code_of([&] { subscriber.ended(0); }), handled == 1 ? "none" : "slot-lost");
        });
    };
    EXPECT_EQ(code_of(poll), "slot-lost");
    EXPECT_EQ(handled, 3);
    EXPECT_FALSE(publisher.held_by());
    for (int i = 0; i < 200; ++i) ASSERT_GT(publisher.offer(bytes("x")), 0);
    EXPECT_EQ(channel.subscriber().epoch(), 3);
}

TEST_F(Evict, what_an_evicted_reader_sees_of_a_later_lap_is_slot_lost_not_a_corrupt_ring) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    const auto words = support::raw("c");
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    publisher.offer(bytes("x"));
    publisher.offer(bytes("y"));
    const auto poll = [&] {
        subscriber.poll([&](const Message& message) {
            channel.evict(0);
            *words.ring(0).length_at(message.position() + 64) = 7;  // like a payload byte of a later lap
        });
    };
    EXPECT_EQ(code_of(poll), "slot-lost");
    EXPECT_EQ(*words.ring(0).gate(0), -1);
}

TEST_F(Evict, a_kept_slot_stays_kept_and_its_next_owner_starts_afresh) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber("journal", true, {0});
    publisher.offer(bytes("old"));
    channel.evict(0);
    const auto words = support::raw("c");
    EXPECT_EQ(*flyring::detail::subscriber_slot(words, 0).evicting(), 1);
    subscriber.close();
    *words.ring(0).gate(0) = 64;  // a late store of a victim that was killed before it took the gate back
    publisher.offer(bytes("old too"));
    flyring::Subscriber next = channel.subscriber("journal", false, {0, 1});  // other rings: it joins
    EXPECT_TRUE(next.kept());
    EXPECT_EQ(drain(next), "");
    publisher.offer(bytes("new"));
    EXPECT_EQ(drain(next), "new ");
    next.close();
    publisher.offer(bytes("kept again"));
    flyring::Subscriber third = channel.subscriber("journal");
    EXPECT_EQ(drain(third), "kept again ");
}

/// The states that a kill leaves in the middle of an evict, or of the join of a kept slot's next owner, in the order of
/// the stores.
TEST_F(Evict, cut_off_anywhere_then_a_kept_slots_next_owner_has_all_rings_or_joins_them_afresh) {
    struct Cut {
        std::int64_t epochs;
        std::int32_t evicting;
        bool gate_0_gone;
        bool gate_1_gone;
        bool resumes;
    };
    for (const Cut& cut : {Cut{1, 0, false, false, true}, Cut{1, 1, false, false, false}, Cut{1, 1, true, false, false},
                           Cut{1, 1, true, true, false}, Cut{0, 1, true, false, false}}) {
        Channel channel = Channel::replace("c", broadcast(2, 1));
        flyring::Publisher first = channel.publisher();
        flyring::Publisher second = channel.publisher();
        channel.subscriber("journal", true).close();
        first.offer(bytes("a"));
        second.offer(bytes("b"));
        const auto words = support::raw("c");
        const auto slot = flyring::detail::subscriber_slot(words, 0);
        *slot.epoch() += cut.epochs;
        *slot.evicting() = cut.evicting;
        if (cut.gate_0_gone) *words.ring(0).gate(0) = -1;
        if (cut.gate_1_gone) *words.ring(1).gate(0) = -1;
        flyring::Subscriber next = channel.subscriber("journal");
        EXPECT_EQ(next.rings(), (std::vector<std::uint32_t>{0, 1}));
        EXPECT_EQ(drain(next), cut.resumes ? "a b " : "");
        EXPECT_TRUE(next.kept());
        EXPECT_EQ(*slot.evicting(), 0);
        first.offer(bytes("c"));
        second.offer(bytes("d"));
        const std::string seen = drain(next);
        EXPECT_TRUE(seen == "c d " || seen == "d c ") << seen;
    }
}

TEST_F(Evict, a_kept_slot_that_was_evicted_and_has_no_owner_does_not_hold_back_by_a_gate_left_behind) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    channel.subscriber("journal", true).close();
    flyring::Publisher publisher = channel.publisher();
    fill(publisher);
    support::sleep_past_a_look();
    ASSERT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    const auto words = support::raw("c");
    *flyring::detail::subscriber_slot(words, 0).evicting() = 1;  // killed before it cleared the gate
    support::sleep_past_a_look();
    EXPECT_GT(publisher.offer(bytes("x")), 0);
    EXPECT_EQ(*flyring::detail::subscriber_slot(words, 0).evicting(), 1);
    flyring::Subscriber next = channel.subscriber("journal");
    EXPECT_EQ(drain(next), "");
}

TEST_F(Evict, against_a_slots_next_owner_it_takes_all_of_it_or_nothing) {
    Channel channel = Channel::create("c", broadcast(4, 1));
    const auto words = support::raw("c");
    int spared = 0;
    int evicted = 0;
    for (int i = 0; i < 300 || ((spared == 0 || evicted == 0) && i < 20'000); ++i) {
        std::optional<flyring::Subscriber> next;
        support::race([&] { channel.evict(0); }, [&] { next = channel.subscriber("", false, {0, 2, 3}); });
        int gating = 0;
        for (std::uint32_t ring = 0; ring < 4; ++ring) gating += *words.ring(ring).gate(0) >= 0 ? 1 : 0;
        const bool lost = code_of([&] { next->take(); }) == "slot-lost";
        ASSERT_EQ(gating, lost ? 0 : 3);
        ++(lost ? evicted : spared);
    }
    EXPECT_GT(spared, 0);
    EXPECT_GT(evicted, 0);
}

TEST_F(Evict, a_subscriber_beyond_max_lag_is_evicted_and_no_other) {
    Channel channel = Channel::create("c", broadcast(1, 3));
    for (const std::uint64_t bad : {1U, 2047U, 4097U, 1U << 31}) {
        EXPECT_EQ(code_of([&] { channel.publisher("", bad); }), "invalid-argument") << bad;
    }
    flyring::Subscriber slow = channel.subscriber();
    flyring::Subscriber kept = channel.subscriber("kept", true);
    flyring::Subscriber quick = channel.subscriber();
    flyring::Publisher publisher = channel.publisher("", 2048);
    while (publisher.position() + 64 + 8 <= 2048) {
        ASSERT_GT(publisher.offer(bytes("x")), 0);
        quick.poll([](const Message&) {});
    }
    EXPECT_EQ(slow.poll([](const Message&) {}, 1), 1);  // the gate is at 128 now: still within the lag limit
    for (int i = 0; i < 2; ++i) ASSERT_GT(publisher.offer(bytes("y")), 0);
    EXPECT_EQ(publisher.position(), 1984 + 128);
    quick.poll([](const Message&) {});
    EXPECT_EQ(code_of([&] { kept.take(); }), "slot-lost");
    EXPECT_EQ(publisher.held_by()->slot, slow.slot());
    ASSERT_GT(publisher.offer(bytes("z")), 0);  // ends beyond 128 + 2048: `slow` is too far behind
    EXPECT_EQ(publisher.held_by()->slot, quick.slot());
    EXPECT_EQ(code_of([&] { slow.take(); }), "slot-lost");
    EXPECT_EQ(drain(quick), "z ");
}

TEST_F(Evict, a_batch_evicts_a_subscriber_that_is_too_far_behind_for_all_of_it) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Publisher publisher = channel.publisher("", 2048);
    flyring::Subscriber subscriber = channel.subscriber();
    support::fill_up_to(publisher, 1024);
    const std::vector<std::byte> half(504);
    const flyring::Bytes batch[] = {half, half};  // only the first one alone has room
    EXPECT_EQ(publisher.offer_batch({batch, 2}), 2U);
    EXPECT_EQ(publisher.position(), 2048);
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "slot-lost");
}

TEST_F(Evict, max_lag_of_the_whole_capacity_evicts_instead_of_waiting) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber slow = channel.subscriber();
    flyring::Publisher publisher = channel.publisher("", 4096);
    for (int i = 0; i < 62; ++i) ASSERT_GT(publisher.offer(bytes("x")), 0);
    EXPECT_TRUE(publisher.held_by());
    EXPECT_EQ(publisher.offer_batch(std::vector<flyring::Bytes>{bytes("a"), bytes("b")}), 2U);
    EXPECT_FALSE(publisher.held_by());
    EXPECT_EQ(code_of([&] { slow.take(); }), "slot-lost");
}

TEST_F(Evict, a_granted_limit_stays_when_a_later_subscriber_allows_less) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher("", 2048);
    ASSERT_GT(publisher.offer(bytes("x")), 0);  // no subscriber gates, so the limit is a whole ring
    flyring::Subscriber slow = channel.subscriber();
    std::string expected;
    for (; publisher.position() < 3968; expected += "y ") ASSERT_GT(publisher.offer(bytes("y")), 0);
    const auto words = support::raw("c");
    const auto description = flyring::detail::open_description(words.fd, words.path);
    {
        const flyring::detail::ControlLock control(description, words);  // keeps `slow` from being evicted
        EXPECT_EQ(publisher.offer_batch(std::vector<flyring::Bytes>(4, bytes("z"))), 1U);
    }
    EXPECT_EQ(publisher.position(), 4032);
    EXPECT_EQ(drain(slow), expected + "z ");
    EXPECT_EQ(slow.position(0), 4032);
}

TEST_F(Evict, while_the_control_lock_is_taken_no_subscriber_is_evicted_for_its_lag) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber slow = channel.subscriber();
    flyring::Publisher publisher = channel.publisher("", 2048);
    const auto words = support::raw("c");
    const auto description = flyring::detail::open_description(words.fd, words.path);
    {
        const flyring::detail::ControlLock control(description, words);
        while (publisher.offer(bytes("x")) != flyring::back_pressured) {
        }
        EXPECT_EQ(publisher.position(), 1984);
        EXPECT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    }
    EXPECT_GT(publisher.offer(bytes("x")), 0);
    EXPECT_EQ(code_of([&] { slow.take(); }), "slot-lost");
    EXPECT_FALSE(support::is_locked(words.path, 4096));
}

TEST_F(Evict, for_lag_a_control_lock_that_cannot_be_tried_is_back_pressure) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber slow = channel.subscriber();
    flyring::Publisher publisher = channel.publisher("", 2048);
    {
        const faults::Hook hook([&](const faults::Call& call) { return call.command == F_OFD_SETLK ? ENOLCK : 0; });
        EXPECT_EQ(fill(publisher), 30);
    }
    EXPECT_GT(publisher.offer(bytes("x")), 0);
}

TEST_F(Evict, a_lost_slot_whose_lock_cannot_be_tested_is_still_slot_lost) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    channel.evict(0);
    const faults::Hook hook([&](const faults::Call& call) { return call.command == F_OFD_SETLK ? ENOLCK : 0; });
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "slot-lost");
    EXPECT_EQ(code_of([&] { subscriber.close(); }), "none");
}

TEST_F(Evict, in_the_middle_of_a_poll_it_ends_that_at_its_next_gate_store) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    const int sent = fill(publisher);
    int handled = 0;
    const auto poll = [&] {
        subscriber.poll([&](const Message&) {
            if (++handled == 2) channel.evict(0);
        });
    };
    EXPECT_EQ(code_of(poll), "slot-lost");
    EXPECT_EQ(handled, 7);  // an eighth of the ring, less the owner record
    ASSERT_LT(handled, sent);
    EXPECT_FALSE(publisher.held_by());
    EXPECT_GT(publisher.offer(bytes("x")), 0);
    EXPECT_FALSE(support::is_locked(channel.path(), 4096 + layout::CONTROL_SLOTS + layout::CONTROL_SLOT_LENGTH));
}

TEST_F(Evict, a_handler_that_throws_after_it_leaves_no_gate_behind) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    publisher.offer(bytes("x"));
    const auto poll = [&] {
        subscriber.poll([&](const Message&) {
            channel.evict(0);
            throw std::runtime_error("mine");
        });
    };
    EXPECT_THROW(poll(), std::runtime_error);
    EXPECT_FALSE(publisher.held_by());
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "slot-lost");
}

TEST_F(Evict, a_gate_that_a_hung_victim_stored_late_is_taken_back_by_the_publisher) {
    for (const bool kept : {false, true}) {
        Channel channel = Channel::replace("c", broadcast(2, 1));
        flyring::Publisher publisher = channel.publisher();
        const flyring::Subscriber victim = channel.subscriber("victim", kept);
        channel.evict(0);
        const auto words = support::raw("c");
        *words.ring(0).gate(0) = 0;  // a victim's late store; its handler never returns
        fill(publisher);
        support::sleep_past_a_look();
        EXPECT_GT(publisher.offer(bytes("x")), 0) << kept;
        EXPECT_EQ(*words.ring(0).gate(0), -1);
        EXPECT_EQ(*flyring::detail::subscriber_slot(words, 0).evicting(), 1);
        EXPECT_FALSE(support::is_locked(words.path, 4096));
    }
}

TEST_F(Evict, it_says_how_many_messages_were_not_read_and_a_kept_slot_counts_what_it_lost) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    const auto words = support::raw("c");
    flyring::Publisher first = channel.publisher();
    flyring::Publisher second = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber("kept", true);
    const flyring::Subscriber other = channel.subscriber();
    for (int i = 0; i < 10; ++i) first.offer(bytes("x"));
    for (int i = 0; i < 5; ++i) second.offer(bytes("y"));
    subscriber.poll([](const Message&) {}, 7);
    EXPECT_EQ(channel.evict(0), 8);
    EXPECT_EQ(channel.evict(1), 15);
    EXPECT_EQ(channel.evict(1), 0);
    first.offer(bytes("z"));
    subscriber.close();
    const flyring::Subscriber next = channel.subscriber("kept");
    EXPECT_EQ(*flyring::detail::subscriber_slot(words, 0).discarded(), 9);
    *words.ring(1).boundary(0) = 63;
    EXPECT_EQ(channel.evict(0), -1);  // not known
}

}  // namespace
