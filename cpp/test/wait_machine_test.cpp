// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <thread>

#include "faults.hpp"
#include "support.hpp"
#include "waits.hpp"

// Waits where the kernel refuses calls, with many sleepers, and with hostile words (spec/channel.md 6.16).

namespace {

using namespace waits;

class WaitMachine : public waits::Test {};

/// Two processes ask and answer, each asleep while the other works. `waker`, `sleeper`: whether membarrier is refused
/// to it.
void ask_and_answer(bool waker, bool sleeper) {
    constexpr int rounds = 300;
    const Channel channel = Channel::create("c", broadcast(2, 2));
    support::Child child([&](const auto& ready) {
        if (waker) refuse(SYS_membarrier, ENOSYS);
        Channel own = Channel::open("c");
        flyring::Subscriber asked = own.subscriber("", false, {0});
        flyring::Publisher first = own.publisher("ask");
        flyring::Publisher answer = own.publisher("answer");
        first.close();
        asked.set_spin(0ns);
        ready();
        for (int i = 0; i < rounds; ++i) {
            if (asked.poll(nothing, 1, long_enough) != 1) return false;
            answer.send(bytes("a"));
        }
        return true;
    });
    child.wait_until_ready();
    // In a separate process, because a seccomp filter cannot be removed.
    support::Child other([&](const auto&) {
        if (sleeper) refuse(SYS_membarrier, EPERM);
        Channel own = Channel::open("c");
        flyring::Publisher ask = own.publisher("ask");
        flyring::LossySubscriber reader = own.lossy_subscriber({1});
        reader.set_spin(0ns);
        int late = 0;
        for (int i = 0; i < rounds; ++i) {
            const nanoseconds time = time_of([&] {
                ask.send(bytes("q"));
                if (reader.poll(nothing, 1, long_enough) != 1) late = rounds;
            });
            late += time > soon ? 1 : 0;
        }
        return late <= 1;
    });
    EXPECT_EQ(other.wait(), 0);
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(*support::raw("c").ring(1).messages_done(), rounds);
}

TEST_F(WaitMachine, works_where_membarrier_is_refused_to_one_side) {
    ask_and_answer(true, false);
}
TEST_F(WaitMachine, works_where_membarrier_is_refused_to_the_other_side) {
    ask_and_answer(false, true);
}
TEST_F(WaitMachine, works_where_membarrier_is_refused_to_both_sides) {
    ask_and_answer(true, true);
}

// Many sleepers.

TEST_F(WaitMachine, sixty_four_sleepers_of_one_ring_all_wake) {
    constexpr int readers = 64;
    constexpr int rounds = 10;
    Channel channel = Channel::create("c", broadcast(1, readers));
    flyring::Publisher publisher = channel.publisher();
    publisher.set_spin(0ns);
    std::deque<flyring::Subscriber> subscribers;
    for (int i = 0; i < readers; ++i) subscribers.push_back(channel.subscriber());
    std::atomic<int> got{0};
    std::vector<std::thread> threads;
    for (flyring::Subscriber& subscriber : subscribers) {
        threads.emplace_back([&] {
            subscriber.set_spin(0ns);
            for (int i = 0; i < rounds; ++i) got += subscriber.poll(nothing, 1, long_enough);
        });
    }
    std::vector<nanoseconds> times;
    for (int i = 0; i < rounds; ++i) {
        wait_until_asleep(data_asleep);
        std::this_thread::sleep_for(2ms);  // most of them sleep then
        times.push_back(time_of([&] {
            publisher.send(bytes("m"), long_enough);
            wait_for(got, (i + 1) * readers);
        }));
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT(median(times), soon);
}

TEST_F(WaitMachine, each_of_a_thousand_rings_wakes_its_sleepers) {
    constexpr std::uint32_t rings = 1000;
    flyring::Options options = broadcast(rings, 2);
    options.counters = 0;
    Channel channel = Channel::create("c", options);
    const auto name = [](std::uint32_t ring) { return "p" + std::to_string(ring); };
    for (std::uint32_t ring = 0; ring < rings; ++ring) ASSERT_EQ(channel.publisher(name(ring)).ring(), ring);
    flyring::Subscriber of_all = channel.subscriber();
    of_all.set_spin(0ns);
    flyring::LossySubscriber of_one = channel.lossy_subscriber({5});
    std::vector<nanoseconds> times;
    for (const std::uint32_t ring : {0U, 31U, 32U, 37U, 511U, rings - 1}) {
        support::poke(file("c"), data_asleep, std::uint32_t{0});  // clears the bits of the other rings
        flyring::Publisher publisher = channel.publisher(name(ring));
        ASSERT_EQ(publisher.ring(), ring);
        const Ended ended = ended_by(
            data_asleep, [&] { EXPECT_EQ(of_all.take(long_enough).value().ring(), ring); },
            [&] { publisher.offer(bytes("m")); });
        EXPECT_EQ(ended.code, "none");
        times.push_back(ended.within);
    }
    // Ring 37 has the same bit as ring 5: its publisher wakes in vain, and the sleeper sleeps again.
    flyring::Publisher other = channel.publisher(name(37));
    flyring::Publisher publisher = channel.publisher(name(5));
    of_one.set_spin(0ns);
    support::poke(file("c"), data_asleep, std::uint32_t{0});
    for (int i = 0; i < 5; ++i) {
        const Ended ended = ended_by(
            data_asleep, [&] { EXPECT_EQ(of_one.take(long_enough).value().ring(), 5U); },
            [&] {
                const WakeCalls calls;
                other.offer(bytes("for nothing"));
                EXPECT_EQ(calls.count(), 1);
                wait_until_asleep(data_asleep);
                publisher.offer(bytes("m"));
                EXPECT_EQ(calls.count(), 2);
            });
        EXPECT_EQ(ended.code, "none");
    }
    EXPECT_LT(median(times), soon);
}

TEST_F(WaitMachine, sleepers_of_every_kind_side_by_side_all_wake) {
    constexpr int rounds = 20;
    Channel channel = Channel::create("c", broadcast(1, 2));
    Channel idle = Channel::create("d", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Subscriber in_set = channel.subscriber();
    flyring::Subscriber never = idle.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    flyring::WaitSet set;
    set.add(never);
    set.add(in_set);
    std::atomic<int> got{0};
    const auto repeat = [&](const std::function<int()>& read) {
        return std::thread([&got, read] {
            for (int i = 0; i < rounds; ++i) got += read();
        });
    };
    std::thread threads[] = {
        repeat([&] { return subscriber.poll(nothing, 1, long_enough); }),
        repeat([&] { return lossy.poll(nothing, 1, long_enough); }),
        repeat([&] { return set.wait(long_enough).empty() ? 0 : in_set.poll(nothing, 1); }),
    };
    std::vector<nanoseconds> times;
    for (int i = 0; i < rounds; ++i) {
        wait_until_asleep(data_asleep);
        times.push_back(time_of([&] {
            EXPECT_GT(publisher.send(bytes("m"), long_enough), 0);
            wait_for(got, (i + 1) * 3);
        }));
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(got, 3 * rounds);
    EXPECT_LT(median(times), soon);
}

// Hostile words.

TEST_F(WaitMachine, whatever_stands_in_the_words_costs_a_look_or_a_sleep_up_to_its_cap) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    const std::uint64_t slots = 4096 + layout::CONTROL_SLOTS;
    std::vector<nanoseconds> times;
    for (const std::uint32_t value : {0U, 1U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU}) {
        for (const std::uint64_t offset : {data_sequence, data_asleep, room_sequence, room_asleep}) {
            support::poke(file("c"), offset, value);
            for (const std::int64_t wakes : {std::int64_t{-1}, std::int64_t{0}, INT64_MAX, publisher.epoch()}) {
                support::poke(file("c"), slots + layout::PUBLISHER_SLOT_WAKES, wakes);
                support::poke(file("c"), slots + 256 + layout::SUBSCRIBER_SLOT_WAKES, wakes);
                EXPECT_FALSE(subscriber.take(1ms));
                publisher.offer(bytes("m"));
                times.push_back(time_of([&] { EXPECT_TRUE(subscriber.take(long_enough)); }));
            }
        }
    }
    EXPECT_LT(median(times), soon);
}

TEST_F(WaitMachine, it_goes_on_while_the_words_are_overwritten) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    const auto words = support::raw("c");
    std::atomic<bool> stop{false};
    std::thread scribbler([&] {
        std::uint32_t value = 1;
        while (!stop) {
            for (std::uint32_t* word :
                 {words.data().sequence, words.data().asleep, words.room().sequence, words.room().asleep}) {
                value = value * 1664525U + 1013904223U;
                __atomic_store_n(word, value, __ATOMIC_RELAXED);
            }
            std::this_thread::sleep_for(50us);
        }
    });
    constexpr int messages = 200;
    std::thread sender([&] {
        for (int i = 0; i < messages; ++i) {
            EXPECT_GT(publisher.send(bytes(std::to_string(i)), long_enough), 0);
            if (i % 20 == 0) std::this_thread::sleep_for(1ms);
        }
    });
    for (int i = 0; i < messages; ++i) {
        const auto message = subscriber.take(long_enough);
        ASSERT_TRUE(message) << i;
        EXPECT_EQ(text(*message), std::to_string(i));
    }
    sender.join();
    stop = true;
    scribbler.join();
}

TEST_F(WaitMachine, overwritten_words_move_no_deadline_and_cause_no_storm_of_calls) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    const auto words = support::raw("c");
    std::atomic<bool> stop{false};
    std::thread scribbler([&] {
        std::uint32_t value = 1;
        while (!stop) {
            value = value * 1664525U + 1013904223U;
            for (std::uint32_t* word :
                 {words.data().sequence, words.data().asleep, words.room().sequence, words.room().asleep}) {
                __atomic_store_n(word, value, __ATOMIC_RELAXED);
            }
            flyring::detail::store_relaxed(flyring::detail::publisher_slot(words, 0).wakes(),
                                           static_cast<std::int64_t>(value) << (value & 31));
            flyring::detail::store_relaxed(flyring::detail::subscriber_slot(words, 0).wakes(),
                                           -static_cast<std::int64_t>(value));
            flyring::detail::store_relaxed(words.successor(), static_cast<std::int32_t>(value));
            std::this_thread::sleep_for(50us);
        }
    });
    constexpr nanoseconds timeout = 30ms;
    flyring::WaitSet set;
    set.add(subscriber);
    set.add(lossy);
    const std::vector<std::function<void()>> waits = {
        [&] { EXPECT_FALSE(subscriber.take(timeout)); },
        [&] { EXPECT_FALSE(lossy.take(timeout)); },
        [&] { EXPECT_TRUE(set.wait(timeout).empty()); },
        [&] { EXPECT_EQ(code_of([&] { publisher.send(bytes("x"), timeout); }), "back-pressured"); },
    };
    for (const auto& wait : waits) {
        if (&wait == &waits.back()) fill(publisher);
        int calls = 0;
        const nanoseconds time = time_of([&] {
            const faults::Hook hook([&](const faults::Call&) {
                ++calls;
                return 0;
            });
            wait();
        });
        EXPECT_GE(time, timeout);
        EXPECT_LT(time, 2s);
        EXPECT_LT(calls, 10'000);  // a few for each change of the words
    }
    stop = true;
    scribbler.join();
}

TEST_F(WaitMachine, a_ring_of_nothing_but_padding_holds_no_wait_beyond_its_time_out) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    const auto words = support::raw("c");
    for (std::int64_t at = 0; at < 4096; at += 64) {
        *words.ring(0).type_at(at) = layout::TYPE_PADDING;
        *words.ring(0).length_at(at) = 64;
    }
    EXPECT_LT(time_of([&] { EXPECT_FALSE(subscriber.take(20ms)); }), 1s);
    EXPECT_LT(time_of([&] { EXPECT_FALSE(lossy.take(20ms)); }), 1s);
}

TEST_F(WaitMachine, a_lapped_reader_of_a_publisher_that_died_between_its_counts_sleeps) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::LossySubscriber lossy = channel.lossy_subscriber(flyring::Start::now, flyring::WhenLapped::newest);
    for (int i = 0; i < 200; ++i) publisher.offer(bytes("x"));
    const auto words = support::raw("c");
    ++*words.ring(0).messages_begun();
    {
        const Sleeps sleeps;
        EXPECT_FALSE(lossy.take(20ms));
        EXPECT_GE(sleeps.count(), 1);
        EXPECT_LE(sleeps.count(), 3);
    }
    flyring::WaitSet set;
    set.add(lossy);
    EXPECT_TRUE(set.wait(5ms).empty());
    --*words.ring(0).messages_begun();
    publisher.offer(bytes("y"));
    lossy.take();
    EXPECT_GT(lossy.lost_messages(0), 0);
}

TEST_F(WaitMachine, a_reader_that_was_lapped_in_its_sleep_finds_what_is_left_whatever_the_counts_are) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    const auto words = support::raw("c");
    const InsteadOfSleep lapped([&](int) {
        for (int i = 0; i < 200; ++i) publisher.offer(bytes("x"));
        ++*words.ring(0).messages_begun();  // as if the publisher had died between its counts
    });
    EXPECT_TRUE(lossy.take(long_enough));
    EXPECT_EQ(lapped.count(), 1);
    EXPECT_GT(lossy.lost_messages(0), 0);
}

}  // namespace
