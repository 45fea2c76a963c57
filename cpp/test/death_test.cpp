// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "support.hpp"

// What killed, stopped and forked processes leave behind: rings, locks, slots. (wait_test.cpp tests how long publishers
// wait for the dead.)

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

class Death : public support::ChannelTest {};

TEST_F(Death, a_dead_claim_at_the_rings_end_costs_its_bytes_and_nothing_else) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        for (std::int64_t before_end = alignment; before_end <= 1024; before_end += alignment == 8 ? 56 : 64) {
            Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
            flyring::Subscriber subscriber = channel.subscriber();
            {
                flyring::Publisher before = channel.publisher("victim");
                while (before.position() < 2048) before.offer(bytes("before"));
                drain(subscriber);  // so that the claim need not wait for room
            }
            support::Child child([&](const auto& ready) {
                Channel own = Channel::open("c");
                flyring::Publisher victim = own.publisher("victim");
                while (4096 - victim.position() > before_end) victim.offer(std::vector<std::byte>(alignment - 8));
                const flyring::Claim claim = victim.claim(static_cast<std::size_t>(before_end) - 8);
                std::memset(claim.data(), 0x11, claim.size());  // 0x11111111 would be a long record
                ready();
                ::pause();
                return true;
            });
            child.wait_until_ready();
            child.kill();
            drain(subscriber);
            flyring::Publisher heir = channel.publisher("victim");
            EXPECT_EQ(drain(subscriber), "");
            for (int i = 0; i < 300; ++i) {
                ASSERT_GT(heir.offer(bytes("after")), 0) << before_end;
                ASSERT_EQ(drain(subscriber), "after ") << before_end;
            }
        }
    }
}

TEST_F(Death, a_publisher_stopped_inside_its_claim_is_never_declared_dead) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    flyring::Subscriber subscriber = channel.subscriber();
    support::Child child([](const auto& ready) {
        Channel own = Channel::open("c");
        flyring::Publisher slow = own.publisher("slow");
        flyring::Claim claim = slow.claim(4);
        ready();
        ::raise(SIGSTOP);
        std::memcpy(claim.data(), "late", 4);
        claim.commit();
        return true;
    });
    child.wait_until_ready();
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED | WNOWAIT), 0);
    flyring::Publisher other = channel.publisher("other");
    const flyring::Subscriber late = channel.subscriber();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(code_of([&] { channel.publisher("slow"); }), "no-free-slot");
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "no-free-slot");
    EXPECT_GT(other.offer(bytes("other")), 0);
    EXPECT_EQ(drain(subscriber), "other ");
    child.signal(SIGCONT);
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(drain(subscriber), "late ");
}

TEST_F(Death, a_join_during_a_claim_gets_that_message_and_nothing_of_the_last_lap) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
        flyring::Publisher publisher = channel.publisher();
        for (int i = 0; i < 200; ++i) publisher.offer(bytes("a message of the last lap"));
        for (std::size_t length = 0; length < 1000; length += 9) {
            flyring::Claim claim = publisher.claim(length, 5);
            std::memset(claim.data(), 0x22, length);
            flyring::Subscriber subscriber = channel.subscriber();
            flyring::LossySubscriber lossy = channel.lossy_subscriber();
            ASSERT_FALSE(subscriber.take());
            ASSERT_FALSE(lossy.take());
            claim.commit();
            const auto message = subscriber.take();
            ASSERT_TRUE(message);
            ASSERT_EQ(message->size(), length);
            ASSERT_EQ(message->type(), 5);
            ASSERT_EQ(lossy.take()->size(), length);
            ASSERT_FALSE(subscriber.take());
            publisher.claim(length).abort();
        }
    }
}

TEST_F(Death, a_batch_killed_before_its_commit_is_lost_and_after_it_is_whole) {
    for (const bool committed : {false, true}) {
        Channel channel = Channel::replace("c", broadcast(1, 1));
        flyring::Subscriber subscriber = channel.subscriber();
        flyring::LossySubscriber lossy = channel.lossy_subscriber();
        channel.publisher("victim").offer(bytes("x"));
        channel.publisher("victim").close();  // the space that the first owner had cleared ahead is padding now
        drain(subscriber);
        const auto words = support::raw("c");
        const flyring::detail::Ring ring = words.ring(0);
        // Steps 3 to 6 of 6.1 for a batch of three messages, as a kill leaves them: claimed, but not in `published`.
        const std::int64_t t = *ring.claimed();
        ASSERT_EQ(*ring.published(), t);
        *ring.claimed() = t + 192;
        const char* const texts[] = {"one", "two", "six"};
        for (std::int64_t i = 2; i >= 0; --i) {
            std::memcpy(ring.payload_at(t + 64 * i), texts[i], 3);
            *ring.type_at(t + 64 * i) = 1;
            *ring.length_at(t + 64 * i) = i > 0 || committed ? 11 : 0;
        }
        *ring.length_at(t + 192) = 0;
        flyring::Publisher heir = channel.publisher("victim");
        EXPECT_EQ(heir.position(), t + 192);
        EXPECT_EQ(*ring.messages_done(), committed ? 4 : 1);
        heir.offer(bytes("heir"));
        EXPECT_EQ(drain(subscriber), committed ? "one two six heir " : "heir ");
        EXPECT_EQ(drain(lossy), committed ? "x one two six heir " : "x heir ");
        EXPECT_EQ(lossy.lost_messages(0), 0);
    }
}

TEST_F(Death, a_killed_owner_whose_forked_child_lives_on_keeps_no_slot) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    support::Child owner([&](const auto& ready) {
        Channel own = Channel::open("c");
        const flyring::Publisher publisher = own.publisher("victim");
        const flyring::Subscriber subscriber = own.subscriber("reader", true);
        if (::fork() == 0) {  // keeps every mapping of its parent until the test closes the pipe
            ::close(ends[1]);
            char nothing = 0;
            ::_exit(static_cast<int>(::read(ends[0], &nothing, 1)));
        }
        ready();
        ::pause();
        return true;
    });
    ::close(ends[0]);
    owner.wait_until_ready();
    EXPECT_EQ(code_of([&] { channel.publisher("victim"); }), "no-free-slot");
    owner.kill();
    EXPECT_EQ(code_of([&] { channel.publisher("victim"); }), "none");
    EXPECT_EQ(channel.subscriber("reader").slot(), 0U);
    ::close(ends[1]);
}

TEST_F(Death, an_unreaped_zombie_owns_nothing) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    support::Child child([](const auto& ready) {
        Channel own = Channel::open("c");
        const flyring::Publisher publisher = own.publisher("victim");
        const flyring::Subscriber subscriber = own.subscriber();
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    child.signal(SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
    ASSERT_EQ(::kill(child.pid(), 0), 0) << "it is no zombie";
    flyring::Publisher publisher = channel.publisher("victim");
    EXPECT_EQ(publisher.epoch(), 2);
    EXPECT_EQ(channel.subscriber().epoch(), 2);
}

TEST_F(Death, a_process_that_tests_its_own_slot_finds_it_alive) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    // With POSIX locks, opening and closing the file again would drop all locks of the process.
    Channel::open("c").close();
    support::fill(publisher);
    EXPECT_TRUE(publisher.held_by()->live);
    for (int i = 0; i < 10; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    }
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "no-free-slot");
    EXPECT_EQ(subscriber.poll([](const Message&) {}), 62);
    EXPECT_EQ(subscriber.epoch(), 1);
    EXPECT_GT(publisher.offer(bytes("x")), 0);
}

TEST_F(Death, no_subscriber_for_many_laps_then_one) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
        flyring::Publisher publisher = channel.publisher();
        for (std::uint64_t i = 0; i < 20'000; ++i) ASSERT_GT(publisher.offer(bytes(support::numbered(i, 30))), 0);
        ASSERT_GT(publisher.position() / 4096, 100);
        flyring::Subscriber subscriber = channel.subscriber();
        EXPECT_FALSE(subscriber.take());
        for (std::uint64_t i = 20'000; i < 40'000; ++i) {
            ASSERT_GT(publisher.offer(bytes(support::numbered(i, 30))), 0);
            const auto message = subscriber.take();
            ASSERT_TRUE(message);
            ASSERT_EQ(support::number_of(*message, 30), i);
        }
    }
}

TEST_F(Death, of_two_that_create_at_once_one_creates) {
    for (int i = 0; i < 300; ++i) {
        int created = 0;
        std::atomic<int> others{0};
        const auto create = [&](std::optional<Channel>& made, const char* id) {
            flyring::detail::InEnvironment with_id;
            with_id.environment.channel_id = flyring::detail::parse_uuid(id);
            if (code_of([&] { made = with_id.create("c", broadcast()); }) == "exists") ++others;
        };
        std::optional<Channel> a;
        std::optional<Channel> b;
        support::race([&] { create(a, "aa"); }, [&] { create(b, "bb"); });
        created = (a ? 1 : 0) + (b ? 1 : 0);
        ASSERT_EQ(created, 1);
        ASSERT_EQ(others, 1);
        ASSERT_EQ(Channel::open("c").id(), (a ? *a : *b).id());
        Channel::unlink("c");
    }
}

TEST_F(Death, after_closefrom_reused_descriptor_numbers_are_left_alone) {
    std::optional<Channel> channel = Channel::create("c", broadcast(1, 2));
    std::optional<flyring::Publisher> publisher = channel->publisher();
    std::optional<flyring::Subscriber> subscriber = channel->subscriber();
    std::optional<flyring::LossySubscriber> lossy = channel->lossy_subscriber();
    // In a child, so that the test keeps its own descriptors.
    support::Child child([&](const auto&) {
        publisher.reset();
        Channel own = Channel::replace("c", broadcast(1, 2));
        std::optional<flyring::Publisher> mine = own.publisher();
        std::optional<flyring::Subscriber> reader = own.subscriber();
        mine->offer(bytes("before"));
        for (int fd = 3; fd < 64; ++fd) ::close(fd);
        // The numbers now belong to the same file again, with locks at the same bytes.
        std::optional<Channel> second = Channel::open("c");
        flyring::Publisher heir = second->publisher();  // the old lock went with its description
        flyring::Subscriber heirs_reader = second->subscriber();
        const std::uint64_t lock = 4096 + 256;
        bool good = heir.epoch() == 2 && heirs_reader.slot() == 0 && support::is_locked(second->path(), lock);
        good = good && code_of([&] { mine->offer(bytes("x")); }) == "slot-lost";
        good = good && code_of([&] { reader->take(); }) == "slot-lost";
        good = good && code_of([&] { own.evict(1); }) == "io" && code_of([&] { own.publisher(); }) == "io";
        mine.reset();
        reader.reset();
        own.close();
        // The locks and descriptors of the new owners are unchanged.
        good = good && support::is_locked(second->path(), lock) && support::is_locked(second->path(), lock + 256);
        heir.offer(bytes("after"));
        good = good && drain(heirs_reader) == "after " && code_of([&] { second->evict(1); }) == "none";
        return good && code_of([] { Channel::open("c").publisher(); }) == "no-free-slot";
    });
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Death, a_killed_owner_gives_its_slots_back) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    support::Child child([](const auto& ready) {
        Channel own = Channel::open("c");
        const flyring::Publisher publisher = own.publisher("victim");
        const flyring::Subscriber subscriber = own.subscriber();
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "no-free-slot");
    EXPECT_EQ(code_of([&] { channel.subscriber(); }), "no-free-slot");
    child.kill();
    EXPECT_EQ(channel.publisher("victim").epoch(), 2);
    EXPECT_EQ(channel.subscriber().epoch(), 2);
}

TEST_F(Death, a_ring_whose_publisher_died_in_the_middle_of_a_claim_is_recovered) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
        flyring::Subscriber subscriber = channel.subscriber();
        support::Child child([](const auto& ready) {
            Channel own = Channel::open("c");
            flyring::Publisher publisher = own.publisher("victim");
            publisher.offer(bytes("committed"));
            const flyring::Claim claim = publisher.claim(100);
            std::memset(claim.data(), 0xee, claim.size());
            ready();
            ::pause();
            return true;
        });
        child.wait_until_ready();
        EXPECT_EQ(drain(subscriber), "committed ");
        child.kill();
        EXPECT_EQ(drain(subscriber), "");
        flyring::Publisher heir = channel.publisher("victim");
        EXPECT_EQ(drain(subscriber), "");
        for (int lap = 0; lap < 200; ++lap) {
            ASSERT_GT(heir.offer(bytes("after")), 0);
            ASSERT_EQ(drain(subscriber), "after ");
        }
    }
}

TEST_F(Death, a_dead_subscriber_no_longer_holds_the_publisher_back) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    support::Child child([](const auto& ready) {
        Channel own = Channel::open("c");
        const flyring::Subscriber subscriber = own.subscriber("victim");
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    flyring::Publisher publisher = channel.publisher();
    fill(publisher);
    EXPECT_TRUE(publisher.held_by()->live);
    child.signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);  // stopped, but alive
    child.kill();
    EXPECT_FALSE(publisher.held_by()->live);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    std::int64_t end = flyring::back_pressured;
    while (end == flyring::back_pressured && std::chrono::steady_clock::now() < deadline)
        end = publisher.offer(bytes("x"));
    EXPECT_GT(end, 0);
    EXPECT_FALSE(publisher.held_by());
}

}  // namespace
