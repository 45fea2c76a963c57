// SPDX-License-Identifier: Apache-2.0
#include <linux/membarrier.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "agrona.hpp"
#include "faults.hpp"
#include "support.hpp"
#include "waits.hpp"

// The caps of sleepers that no peer wakes, or that cannot set their bits (spec/channel.md 6.16, cap).

namespace {

using namespace waits;

class WaitCap : public waits::Test {};

TEST_F(WaitCap, a_take_registers_before_the_control_lock_in_a_forked_child_too) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    const auto registers = [&](const std::function<void()>& take) {
        int calls = 0;
        const faults::Hook hook([&](const faults::Call& call) {
            const bool one =
                std::string_view(call.name) == "membarrier" && call.command == MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
            calls += one ? 1 : 0;
            if (one) {
                EXPECT_FALSE(support::is_locked(file("c"), 4096 + layout::CONTROL_CONTROL_LOCK));
            }
            return 0;
        });
        take();
        return calls;
    };
    EXPECT_GE(registers([&] { channel.publisher(); }), 1);
    EXPECT_GE(registers([&] { channel.subscriber(); }), 1);
    support::Child child([&](const auto&) {
        Channel own = Channel::open("c");
        return registers([&] { own.publisher(); }) >= 1 && registers([&] { own.subscriber(); }) >= 1;
    });
    EXPECT_EQ(child.wait(), 0);
    Channel quiet = Channel::open("c", silent());
    EXPECT_EQ(registers([&] { quiet.publisher(); }) + registers([&] { quiet.subscriber(); }), 0);
}

TEST_F(WaitCap, an_end_with_wake_off_sleeps_as_long_as_others) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    Channel quiet = Channel::open("c", silent());
    {
        flyring::Publisher publisher = channel.publisher();
        flyring::Subscriber subscriber = quiet.subscriber();
        subscriber.set_spin(0ns);
        const Sleeps sleeps;
        EXPECT_FALSE(subscriber.take(50ms));  // less than the cap
        EXPECT_LE(sleeps.count(), 3);         // a signal may end a sleep early
    }
    flyring::Publisher publisher = quiet.publisher();
    const flyring::Subscriber subscriber = channel.subscriber();
    fill(publisher);
    publisher.set_spin(0ns);
    const Sleeps sleeps;
    EXPECT_EQ(code_of([&] { publisher.send(bytes("x"), 40ms); }), "back-pressured");
    EXPECT_LE(sleeps.count(), 13);  // of 4 ms each
}

TEST_F(WaitCap, sleepers_look_each_millisecond_for_an_end_with_wake_off) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    Channel quiet = Channel::open("c", silent());
    flyring::Subscriber subscriber = channel.subscriber();
    std::vector<nanoseconds> times;
    int calls = 0;
    const auto count = [&](const faults::Call& call) {
        calls += std::string_view(call.name) == "membarrier" || std::string_view(call.name) == "futex" ? 1 : 0;
        return 0;
    };
    for (int i = 0; i < 5; ++i) {
        const std::uint32_t woken = word(data_sequence);
        std::thread waiter([&] { EXPECT_TRUE(subscriber.take(long_enough)); });
        wait_until_asleep(data_asleep);  // with the long cap
        std::optional<flyring::Publisher> publisher = quiet.publisher();
        EXPECT_EQ(word(data_sequence), woken + 1);  // each new owner wakes all, so that caps are computed again
        EXPECT_EQ(*flyring::detail::publisher_slot(support::raw("c"), 0).wakes(), 0);
        std::this_thread::sleep_for(1ms);
        times.push_back(time_of([&] {
            const faults::Hook hook(count);
            EXPECT_GT(publisher->offer(bytes("m")), 0);
            waiter.join();
        }));
        publisher.reset();
        support::poke(file("c"), data_asleep, std::uint32_t{0});
    }
    subscriber.close();
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber reader = quiet.subscriber();
    EXPECT_EQ(*flyring::detail::subscriber_slot(support::raw("c"), 0).wakes(), 0);
    for (int i = 0; i < 5; ++i) {
        fill(publisher);
        clock_type::time_point went;
        std::thread waiter([&] {
            EXPECT_GT(publisher.send(bytes("x"), long_enough), 0);
            went = clock_type::now();
        });
        wait_until_asleep(room_asleep);
        const auto start = clock_type::now();
        {
            const faults::Hook hook(count);
            drain(reader);
        }
        waiter.join();
        drain(reader);
        times.push_back(went - start);
    }
    EXPECT_EQ(calls, 0);
    EXPECT_LT(median(times), 20ms);
}

TEST_F(WaitCap, a_read_only_reader_looks_every_millisecond_and_stores_nothing) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::OpenOptions reading;
    reading.read_only = true;
    Channel own = Channel::open("c", reading);
    flyring::LossySubscriber reader = own.lossy_subscriber();
    std::vector<nanoseconds> times;
    for (int i = 0; i < 5; ++i) {
        clock_type::time_point got;
        std::thread waiter([&] {
            EXPECT_TRUE(reader.take(long_enough));
            got = clock_type::now();
        });
        std::this_thread::sleep_for(5ms);
        EXPECT_EQ(word(data_asleep), 0U);
        const auto start = clock_type::now();
        publisher.offer(bytes("m"));
        waiter.join();
        times.push_back(got - start);
    }
    EXPECT_LT(median(times), 20ms);
}

TEST_F(WaitCap, sleepers_look_each_millisecond_for_a_foreign_end) {
    flyring::Options options = support::inbox(1, 1, 4096, 8);
    options.foreign = flyring::Foreign::publisher;
    Channel channel = Channel::create("c", options);
    agrona::RingBuffer writer(file("c"));
    flyring::Subscriber subscriber = channel.subscriber();
    std::vector<nanoseconds> times;
    for (int i = 0; i < 5; ++i) {
        clock_type::time_point got;
        std::thread waiter([&] {
            EXPECT_TRUE(subscriber.take(long_enough));
            got = clock_type::now();
        });
        wait_until_asleep(data_asleep);
        const auto start = clock_type::now();
        ASSERT_TRUE(writer.write(1, "m"));
        waiter.join();
        times.push_back(got - start);
        support::poke(file("c"), data_asleep, std::uint32_t{0});
    }
    options.foreign = flyring::Foreign::subscriber;
    channel = Channel::replace("c", options);
    agrona::RingBuffer reader(file("c"));
    flyring::Publisher publisher = channel.publisher();
    for (int i = 0; i < 5; ++i) {
        fill(publisher);
        clock_type::time_point went;
        std::thread waiter([&] {
            EXPECT_GT(publisher.send(bytes("x"), long_enough), 0);
            went = clock_type::now();
        });
        wait_until_asleep(room_asleep);
        const auto start = clock_type::now();
        reader.read_all();
        waiter.join();
        times.push_back(went - start);
        support::poke(file("c"), room_asleep, std::uint32_t{0});
    }
    EXPECT_LT(median(times), 20ms);
}

TEST_F(WaitCap, how_long_a_sleep_may_last) {
    constexpr nanoseconds data{flyring::detail::data_cap};
    constexpr nanoseconds room{flyring::detail::first_room_cap};
    constexpr nanoseconds short_one{flyring::detail::short_cap};
    // The longest of ten sleeps of `wait`; then `end` ends the wait.
    const auto longest = [](const std::function<void()>& wait, const std::function<void()>& end, bool refused) {
        nanoseconds most{};
        int sleeps = 0;
        const faults::Hook hook([&](const faults::Call& call) {
            if (refused && call.name == std::string_view("membarrier")) return EPERM;
            if (call.until == 0) return 0;
            most = std::max(most, nanoseconds(call.until - flyring::detail::clock_ns(CLOCK_MONOTONIC)));
            if (++sleeps == 10) end();
            return EINTR;
        });
        wait();
        EXPECT_EQ(sleeps, 10);
        return most;
    };
    const auto of_subscriber = [&](Channel& channel, bool refused = false) {
        flyring::Subscriber reader = channel.subscriber();
        const auto wait = [&] { EXPECT_EQ(code_of([&] { reader.take(flyring::forever); }), "closed"); };
        return longest(wait, [&] { reader.close(); }, refused);
    };
    const auto of_lossy = [&](Channel& channel, bool refused = false) {
        flyring::LossySubscriber reader = channel.lossy_subscriber();
        const auto wait = [&] { EXPECT_EQ(code_of([&] { reader.take(flyring::forever); }), "closed"); };
        return longest(wait, [&] { reader.close(); }, refused);
    };
    const auto of_set = [&](Channel& channel, bool refused = false) {
        flyring::LossySubscriber reader = channel.lossy_subscriber();
        flyring::WaitSet set;
        if (set.naps()) return refused ? short_one : data;
        set.add(reader);
        return longest([&] { EXPECT_EQ(set.wait().size(), 1U); }, [&] { reader.close(); }, refused);
    };
    const auto of_publisher = [&](Channel& channel, bool refused = false) {
        flyring::Publisher publisher = channel.publisher();
        fill(publisher);
        const auto wait = [&] { EXPECT_EQ(code_of([&] { publisher.send(bytes("x")); }), "closed"); };
        return longest(wait, [&] { publisher.close(); }, refused);
    };
    const auto expect = [&](nanoseconds is, nanoseconds cap) {
        EXPECT_LE(is, cap);
        EXPECT_GT(is, cap > short_one ? cap / 2 : nanoseconds(0));
    };
    Channel channel = Channel::create("c", broadcast(1, 2));
    Channel quiet = Channel::open("c", silent());
    for (Channel* own : {&channel, &quiet}) {  // the waiting side; whether it wakes does not matter
        expect(of_subscriber(*own), data);     // no publisher
        std::optional<flyring::Publisher> publisher = channel.publisher();
        expect(of_subscriber(*own), data);
        expect(of_subscriber(*own, true), short_one);
        expect(of_lossy(*own), data);
        expect(of_lossy(*own, true), short_one);
        expect(of_set(*own), data);
        expect(of_set(*own, true), short_one);
        publisher.reset();
        publisher = quiet.publisher();
        expect(of_subscriber(*own), short_one);
        expect(of_lossy(*own), short_one);
        if (!flyring::WaitSet().naps()) expect(of_set(*own), short_one);
        publisher.reset();
        expect(of_subscriber(*own), data);
        std::optional<flyring::Subscriber> subscriber = channel.subscriber();
        expect(of_publisher(*own), room);
        expect(of_publisher(*own, true), short_one);
        subscriber.reset();
        subscriber = quiet.subscriber();
        expect(of_publisher(*own), short_one);
    }
    flyring::OpenOptions reading;
    reading.read_only = true;
    Channel read_only = Channel::open("c", reading);
    expect(of_lossy(read_only), short_one);
    if (!flyring::WaitSet().naps()) expect(of_set(read_only), short_one);
    flyring::Options options = support::inbox(1, 1, 4096, 8);
    options.foreign = flyring::Foreign::publisher;
    channel = Channel::create("d", options);
    expect(of_subscriber(channel), short_one);
    options.foreign = flyring::Foreign::subscriber;
    channel = Channel::create("e", options);
    const agrona::RingBuffer reader(file("e"));
    expect(of_publisher(channel), short_one);
}

}  // namespace
