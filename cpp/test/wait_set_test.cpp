// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <string>
#include <thread>
#include <type_traits>
#include <variant>

#include "faults.hpp"
#include "support.hpp"
#include "waits.hpp"

// Wait sets for many subscribers and publishers, and the wait strategy that sleeps on a set.

namespace {

using namespace waits;
using flyring::WaitSet;

class WaitSets : public support::ChannelTest {
  protected:
    void wait_until_asleep(const std::string& name, std::uint64_t asleep) const {
        while (support::peek<std::uint32_t>(file(name), asleep) == 0) std::this_thread::sleep_for(100us);
        std::this_thread::sleep_for(2ms);
    }

    /// What set.wait() returns if `action` runs while it sleeps. `within`: the time from the action to the return.
    static std::vector<WaitSet::Member> found(WaitSet& set, const std::function<void()>& action, nanoseconds& within) {
        std::vector<WaitSet::Member> members;
        clock_type::time_point end;
        std::thread waiter([&] {
            members = set.wait(long_enough);
            end = clock_type::now();
        });
        std::this_thread::sleep_for(5ms);
        const auto start = clock_type::now();
        action();
        waiter.join();
        within = end - start;
        return members;
    }
};

/// During its lifetime, the kernel has no futex_waitv for this thread.
struct NoWaitv {
    faults::Hook hook{
        [](const faults::Call& call) { return std::string_view(call.name) == "futex_waitv" ? ENOSYS : 0; }};
};

TEST_F(WaitSets, says_which_of_several_channels_members_is_ready) {
    Channel first = Channel::create("a", broadcast(1, 2));
    Channel second = Channel::create("b", broadcast(2, 1));
    flyring::Publisher one = first.publisher();
    flyring::Publisher two = second.publisher();
    flyring::Publisher three = second.publisher();
    flyring::Subscriber reader = first.subscriber();
    flyring::Subscriber other = second.subscriber("", false, {1});
    flyring::LossySubscriber lossy = second.lossy_subscriber({0});
    WaitSet set;
    set.add(reader);
    set.add(other);
    set.add(lossy);
    EXPECT_EQ(set.size(), 3U);
    EXPECT_TRUE(set.wait(0ns).empty());
    std::vector<nanoseconds> times;
    for (int i = 0; i < 5; ++i) {
        nanoseconds within{};
        const auto expect = [&](flyring::Publisher& publisher, const WaitSet::Member& member) {
            const auto members = found(set, [&] { publisher.offer(bytes("m")); }, within);
            ASSERT_EQ(members.size(), 1U);
            EXPECT_TRUE(members[0] == member);
            std::visit(
                [](auto* ready) {
                    using Ready = std::remove_pointer_t<decltype(ready)>;
                    if constexpr (std::is_same_v<Ready, flyring::Subscriber> ||
                                  std::is_same_v<Ready, flyring::LossySubscriber>) {
                        drain(*ready);
                    }
                },
                members[0]);
            times.push_back(within);
        };
        expect(one, &reader);
        expect(three, &other);
        expect(two, &lossy);
    }
    EXPECT_LT(median(times), soon);
    one.offer(bytes("m"));
    two.offer(bytes("m"));
    EXPECT_EQ(set.wait().size(), 2U);
    EXPECT_EQ(set.wait().size(), 2U);  // as long as messages are there
    set.remove(lossy);
    EXPECT_EQ(set.wait().size(), 1U);
    set.remove(reader);
    EXPECT_TRUE(set.wait(1ms).empty());
}

TEST_F(WaitSets, a_publisher_is_ready_when_there_is_room_for_what_found_none) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    WaitSet set;
    set.add(publisher);
    EXPECT_EQ(set.wait(0ns).size(), 1U);
    std::vector<nanoseconds> times;
    for (int i = 0; i < 5; ++i) {
        fill(publisher);
        EXPECT_TRUE(set.wait(0ns).empty());
        nanoseconds within{};
        EXPECT_EQ(found(set, [&] { drain(subscriber); }, within).size(), 1U);
        times.push_back(within);
        EXPECT_GT(publisher.offer(bytes("x")), 0);
    }
    EXPECT_LT(median(times), soon);
    // A dead reader wakes no publisher.
    subscriber.close();
    support::Child child([](const auto& ready) {
        Channel own = Channel::open("c");
        const flyring::Subscriber dying = own.subscriber();
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    fill(publisher);
    nanoseconds within{};
    EXPECT_EQ(found(set, [&] { child.kill(); }, within).size(), 1U);
    EXPECT_LT(within, 1s);
    EXPECT_GT(publisher.offer(bytes("x")), 0);
}

TEST_F(WaitSets, wake_ends_the_wait_that_is_under_way_or_the_next_one) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    WaitSet set;
    EXPECT_TRUE(set.wait(1ms).empty());  // an empty set
    set.wake();
    EXPECT_TRUE(set.wait().empty());
    nanoseconds within{};
    EXPECT_TRUE(found(set, [&] { set.wake(); }, within).empty());
    set.add(subscriber);
    std::vector<nanoseconds> times;
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(found(set, [&] { set.wake(); }, within).empty());
        times.push_back(within);
        set.wake();
        set.wake();
        EXPECT_TRUE(set.wait().empty());
        EXPECT_TRUE(set.wait(1ms).empty());
    }
    EXPECT_LT(median(times), soon);
    std::atomic<bool> stop{false};
    std::thread waker([&] {
        while (!stop) set.wake();
    });
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(set.wait(long_enough).empty());
    stop = true;
    waker.join();
}

TEST_F(WaitSets, waits_until_its_time_out) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    WaitSet set;
    set.add(subscriber);
    for (const nanoseconds spin : {nanoseconds(0), nanoseconds::max()}) {
        set.set_spin(spin);
        for (const nanoseconds timeout : {nanoseconds(0), nanoseconds(1), nanoseconds(15ms)}) {
            const auto start = clock_type::now();
            EXPECT_TRUE(set.wait(timeout).empty());
            EXPECT_GE(clock_type::now() - start, timeout);
        }
    }
    try {
        set.wait(-1ns);
        FAIL();
    } catch (const flyring::InvalidArgument& error) {
        EXPECT_EQ(error.argument(), "timeout");
    }
}

TEST_F(WaitSets, refuses_what_it_has_or_has_not_and_two_threads) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    WaitSet set;
    set.add(subscriber);
    EXPECT_EQ(code_of([&] { set.add(subscriber); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { set.remove(publisher); }), "invalid-argument");
    EXPECT_EQ(set.size(), 1U);
    std::thread waiter([&] { EXPECT_TRUE(set.wait().empty()); });
    wait_until_asleep("c", data_asleep);
    EXPECT_EQ(code_of([&] { set.wait(); }), "two-threads");
    set.wake();
    waiter.join();
}

TEST_F(WaitSets, what_was_closed_or_lost_or_replaced_is_ready_and_its_verb_tells) {
    Channel channel = Channel::create("c", broadcast(1, 4));
    Channel own = Channel::open("c");
    flyring::Subscriber subscriber = own.subscriber();
    flyring::Subscriber victim = own.subscriber();
    flyring::LossySubscriber lossy = own.lossy_subscriber();
    WaitSet set;
    set.add(subscriber);
    set.add(victim);
    set.add(lossy);
    nanoseconds within{};
    auto members = found(set, [&] { channel.evict(victim.slot()); }, within);
    ASSERT_EQ(members.size(), 1U);
    EXPECT_TRUE(members[0] == WaitSet::Member(&victim));
    EXPECT_EQ(code_of([&] { victim.take(); }), "slot-lost");
    set.remove(victim);
    members = found(set, [&] { subscriber.close(); }, within);
    ASSERT_EQ(members.size(), 1U);
    EXPECT_LT(within, 1s);
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "closed");
    set.remove(subscriber);
    flyring::LossySubscriber other = own.lossy_subscriber();
    set.add(other);
    int wakes = 0;
    members = found(
        set,
        [&] {
            const faults::Hook hook([&](const faults::Call& call) {
                wakes += std::string_view(call.name) == "futex" ? 1 : 0;
                return 0;
            });
            other.close();
        },
        within);
    ASSERT_EQ(members.size(), 1U);
    EXPECT_GE(wakes, 1);
    set.remove(other);
    flyring::Subscriber reader = own.subscriber();
    const flyring::Subscriber holder = own.subscriber();
    flyring::Publisher publisher = own.publisher();
    set.add(reader);
    set.add(publisher);
    fill(publisher);
    drain(reader);
    drain(lossy);
    members = found(set, [&] { Channel::replace("c", broadcast(1, 1)); }, within);
    EXPECT_LT(within, 1s);
    EXPECT_EQ(members, (std::vector<WaitSet::Member>{&lossy, &reader, &publisher}));
    EXPECT_EQ(code_of([&] { lossy.take(); }), "replaced");
    EXPECT_EQ(code_of([&] { reader.poll(nothing); }), "replaced");
    EXPECT_EQ(code_of([&] { publisher.offer(bytes("x")); }), "replaced");
    // The members stay ready, but the set sleeps in between: at most one check for each sleep.
    int sleeps = 0;
    {
        const faults::Hook hook([&](const faults::Call& call) {
            const std::string_view name = call.name;
            sleeps += name == "futex_waitv" || (name == "futex" && call.command != FUTEX_WAKE_BITSET) ? 1 : 0;
            return 0;
        });
        for (int i = 0; i < 3; ++i) EXPECT_EQ(set.wait(long_enough).size(), 3U);
    }
    EXPECT_GE(sleeps, 3);
    own.close();
    EXPECT_EQ(set.wait(0ns).size(), 3U);
}

TEST_F(WaitSets, naps_in_a_sandbox_that_refuses_futex_waitv) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    flyring::Publisher publisher = channel.publisher();
    constexpr long futex_waitv = 449;
    constexpr int rounds = 20;
    for (const int error : {ENOSYS, EPERM}) {
        support::Child child([&](const auto& ready) {
            support::refuse(futex_waitv, error);
            Channel own = Channel::open("c");
            flyring::Subscriber subscriber = own.subscriber();
            WaitSet set;
            set.add(subscriber);
            if (!set.naps() || !set.wait(3ms).empty()) return false;
            ready();
            int got = 0;
            while (got < rounds && !set.wait(long_enough).empty()) got += subscriber.poll(nothing);
            return got == rounds;
        });
        child.wait_until_ready();
        for (int i = 0; i < rounds; ++i) {
            publisher.offer(bytes("m"));
            std::this_thread::sleep_for(1ms);
        }
        EXPECT_EQ(child.wait(), 0) << error;
    }
}

TEST_F(WaitSets, naps_where_the_kernel_has_no_futex_waitv_and_says_so) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    std::optional<WaitSet> set;
    {
        const NoWaitv none;
        set.emplace();
    }
    set->add(subscriber);
    EXPECT_TRUE(set->naps());
    std::vector<nanoseconds> times;
    nanoseconds within{};
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(found(*set, [&] { publisher.offer(bytes("m")); }, within).size(), 1U);
        times.push_back(within);
        drain(subscriber);
        EXPECT_TRUE(found(*set, [&] { set->wake(); }, within).empty());
        times.push_back(within);
    }
    EXPECT_LT(median(times), 20ms);
    EXPECT_EQ(support::peek<std::uint32_t>(file("c"), data_asleep), 0U);
    // A sandbox that is entered later.
    WaitSet other;
    other.add(subscriber);
    {
        const NoWaitv none;
        const bool naps = other.naps();
        EXPECT_TRUE(other.wait(5ms).empty());
        EXPECT_TRUE(other.naps());
        std::cout << "futex_waitv: " << (naps ? "no" : "yes") << '\n';
    }
}

TEST_F(WaitSets, of_up_to_127_channels_sleeps_and_of_more_naps) {
    flyring::Options options = broadcast(1, 1);
    options.counters = 0;
    std::deque<Channel> channels;
    std::deque<flyring::Subscriber> subscribers;
    std::deque<flyring::Publisher> publishers;
    WaitSet set;
    const bool kernel_has_it = !set.naps();
    const auto add = [&] {
        channels.push_back(Channel::create("c" + std::to_string(channels.size()), options));
        subscribers.push_back(channels.back().subscriber());
        publishers.push_back(channels.back().publisher());
        set.add(subscribers.back());
    };
    std::vector<nanoseconds> times;
    const auto try_all = [&] {
        for (std::size_t i = 0; i < publishers.size(); i += 42) {
            nanoseconds within{};
            const auto members = found(set, [&] { publishers[i].offer(bytes("m")); }, within);
            ASSERT_EQ(members.size(), 1U);
            EXPECT_TRUE(members[0] == WaitSet::Member(&subscribers[i]));
            drain(subscribers[i]);
            times.push_back(within);
        }
    };
    while (channels.size() < 127) add();
    EXPECT_EQ(set.naps(), !kernel_has_it);
    try_all();
    add();
    EXPECT_TRUE(set.naps());
    try_all();
    EXPECT_LT(median(times), soon);
    set.remove(subscribers[5]);
    EXPECT_EQ(set.naps(), !kernel_has_it);
}

TEST_F(WaitSets, a_loop_with_block_wait_sleeps_between_two_messages) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    WaitSet set;
    set.add(subscriber);
    flyring::BlockWait wait(set);
    std::atomic<bool> stop{false};
    std::atomic<int> got{0};
    int turns = 0;
    std::thread loop([&] {
        while (!stop) {
            const int work = subscriber.poll([&](const Message&) { ++got; });
            ++turns;
            wait.idle(work);
        }
        wait.reset();
    });
    for (int i = 1; i <= 5; ++i) {
        publisher.offer(bytes("m"));
        while (got < i) std::this_thread::yield();
        wait_until_asleep("c", data_asleep);
    }
    std::this_thread::sleep_for(250ms);
    stop = true;
    set.wake();
    loop.join();
    EXPECT_LT(turns, 100);
    flyring::BlockWait bounded(set, 5ms);
    const auto start = clock_type::now();
    bounded.idle(1);
    bounded.idle(0);
    EXPECT_GE(clock_type::now() - start, 5ms);
    EXPECT_EQ(code_of([&] { flyring::BlockWait(set, -1ns); }), "invalid-argument");
}

}  // namespace
