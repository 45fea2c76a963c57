// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>

#include <algorithm>
#include <cerrno>

#include "faults.hpp"
#include "support.hpp"
#include "waits.hpp"

// Time-outs of verbs that wait, and what happens before the first sleep (spec/channel.md 6.16).

namespace {

using namespace waits;

class WaitTimeOut : public waits::Test {};

TEST_F(WaitTimeOut, a_wait_ends_at_its_time_out_and_not_before) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber("holder");
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    for (const nanoseconds spin : {nanoseconds(0), nanoseconds(20us), nanoseconds(1h), nanoseconds::max()}) {
        subscriber.set_spin(spin);
        lossy.set_spin(spin);
        for (const nanoseconds timeout : {nanoseconds(1), nanoseconds(10us), nanoseconds(15ms)}) {
            EXPECT_GE(time_of([&] { EXPECT_EQ(subscriber.poll(nothing, 10, timeout), 0); }), timeout);
            EXPECT_GE(time_of([&] { EXPECT_FALSE(subscriber.take(timeout)); }), timeout);
            EXPECT_GE(time_of([&] { EXPECT_EQ(lossy.poll(nothing, 10, timeout), 0); }), timeout);
            EXPECT_GE(time_of([&] { EXPECT_FALSE(lossy.take(timeout)); }), timeout);
        }
    }
    const int taken = fill(publisher);
    for (const nanoseconds spin : {nanoseconds(0), nanoseconds::max()}) {
        publisher.set_spin(spin);
        for (const nanoseconds timeout : {nanoseconds(0), nanoseconds(1), nanoseconds(10ms)}) {
            const nanoseconds time = time_of([&] {
                try {
                    publisher.send(bytes("x"), timeout);
                    ADD_FAILURE();
                } catch (const flyring::BackPressured& error) {
                    ASSERT_TRUE(error.holder());
                    EXPECT_EQ(error.holder()->name, "holder");
                }
            });
            EXPECT_GE(time, timeout);
            EXPECT_GE(time_of([&] { EXPECT_EQ(code_of([&] { publisher.claim(3, timeout); }), "back-pressured"); }),
                      timeout);
            const std::vector<flyring::Bytes> batch(3, bytes("y"));
            EXPECT_GE(time_of([&] { EXPECT_EQ(publisher.send_batch(batch, timeout), 0U); }), timeout);
        }
    }
    int messages = 0;
    while (subscriber.poll([&](const Message&) { ++messages; }) > 0) {
    }
    EXPECT_EQ(messages, taken);
    const std::vector<flyring::Bytes> more(100, bytes("z"));
    const std::size_t some = publisher.send_batch(more, 1ms);
    EXPECT_GT(some, 0U);
    EXPECT_LT(some, more.size());
}

TEST_F(WaitTimeOut, a_verb_returns_what_it_finds_after_its_time_out) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    const auto late = [](const std::function<void()>& action) {
        return [action](int) {
            std::this_thread::sleep_for(35ms);
            action();
        };
    };
    const std::vector<flyring::Bytes> batch(3, bytes("b"));
    {
        const InsteadOfSleep sleep(late([&] { publisher.offer(bytes("m")); }));
        EXPECT_EQ(subscriber.poll(nothing, 10, 30ms), 1);
        EXPECT_TRUE(subscriber.take(30ms));
        drain(lossy);
        EXPECT_EQ(lossy.poll(nothing, 10, 30ms), 1);
        EXPECT_TRUE(lossy.take(30ms));
        EXPECT_EQ(sleep.count(), 4);
    }
    const std::vector<std::function<void()>> verbs = {
        [&] { EXPECT_GT(publisher.send(bytes("x"), 30ms), 0); },
        [&] { publisher.claim(1, 30ms).commit(); },
        [&] { EXPECT_EQ(publisher.send_batch(batch, 30ms), batch.size()); },
        [&] { publisher.flush(30ms); },
    };
    for (const auto& verb : verbs) {
        drain(subscriber);
        fill(publisher);
        const InsteadOfSleep sleep(late([&] { drain(subscriber); }));
        EXPECT_EQ(code_of(verb), "none") << &verb - verbs.data();
        EXPECT_EQ(sleep.count(), 1);
    }
}

TEST_F(WaitTimeOut, spins_before_its_first_sleep_only) {
    constexpr nanoseconds spin = 20ms;
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::WaitSet set;
    set.add(subscriber);
    publisher.set_spin(spin);
    subscriber.set_spin(spin);
    set.set_spin(spin);
    const auto check = [&](const std::function<void()>& wait, const std::function<void()>& end, const char* sleep) {
        const auto start = clock_type::now();
        auto last = start;
        nanoseconds first{};
        nanoseconds least = nanoseconds::max();  // between two sleeps
        int sleeps = 0;
        const faults::Hook hook([&](const faults::Call& call) {
            if (call.name != std::string_view(sleep) || call.command == FUTEX_WAKE_BITSET) return 0;
            const nanoseconds gap = clock_type::now() - last;
            (sleeps == 0 ? first : least) = sleeps == 0 ? gap : std::min(least, gap);
            if (++sleeps == 10) end();
            last = clock_type::now();
            return EINTR;
        });
        wait();
        EXPECT_EQ(sleeps, 10);
        EXPECT_GE(first, spin);
        EXPECT_LT(least, spin);
    };
    check([&] { EXPECT_TRUE(subscriber.take(long_enough)); }, [&] { publisher.offer(bytes("m")); }, "futex");
    if (!set.naps()) {
        check([&] { EXPECT_EQ(set.wait(long_enough).size(), 1U); }, [&] { publisher.offer(bytes("m")); },
              "futex_waitv");
    }
    fill(publisher);
    check([&] { EXPECT_GT(publisher.send(bytes("x"), long_enough), 0); }, [&] { drain(subscriber); }, "futex");
}

TEST_F(WaitTimeOut, a_spin_below_0_is_refused) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    flyring::WaitSet set;
    const std::vector<std::function<void()>> verbs = {
        [&] { publisher.set_spin(-1ns); },
        [&] { subscriber.set_spin(-1ns); },
        [&] { lossy.set_spin(nanoseconds::min()); },
        [&] { set.set_spin(-1ns); },
    };
    for (const auto& verb : verbs) {
        try {
            verb();
            ADD_FAILURE() << &verb - verbs.data();
        } catch (const flyring::InvalidArgument& error) {
            EXPECT_EQ(error.argument(), "spin");
        }
    }
}

TEST_F(WaitTimeOut, no_time_out_makes_no_system_call) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    int calls = 0;
    const faults::Hook hook([&](const faults::Call&) {
        ++calls;
        return 0;
    });
    for (int i = 0; i < 100; ++i) {
        EXPECT_GT(publisher.send(bytes("x"), 0ns), 0);
        EXPECT_TRUE(subscriber.take());
        EXPECT_FALSE(subscriber.take());
        EXPECT_EQ(lossy.poll(nothing, 10, 0ns), 1);
        EXPECT_EQ(lossy.poll(nothing, 10, 0ns), 0);
        EXPECT_GT(publisher.send(bytes("x")), 0);
        EXPECT_EQ(subscriber.poll(nothing, 10, flyring::forever), 1);  // there is something: nothing to wait for
        EXPECT_EQ(lossy.poll(nothing, 10, flyring::forever), 1);
    }
    EXPECT_EQ(calls, 0);
}

TEST_F(WaitTimeOut, a_time_out_below_0_is_refused_and_nothing_is_done) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    publisher.offer(bytes("m"));
    const std::vector<std::byte> before = support::read_file(file("c"));
    const std::vector<flyring::Bytes> batch(2, bytes("x"));
    for (const nanoseconds timeout : {nanoseconds(-1), nanoseconds::min()}) {
        const std::vector<std::function<void()>> verbs = {
            [&] { subscriber.poll(nothing, 1, timeout); },
            [&] { subscriber.take(timeout); },
            [&] { lossy.poll(nothing, 1, timeout); },
            [&] { lossy.take(timeout); },
            [&] { publisher.send(bytes("x"), timeout); },
            [&] { publisher.claim(1, timeout); },
            [&] { publisher.send_batch(batch, timeout); },
            [&] { publisher.flush(timeout); },
            [&] { channel.subscriber("", false, std::nullopt, timeout); },
            [&] { Channel::wait_for("c", timeout); },
        };
        for (const auto& verb : verbs) {
            try {
                verb();
                ADD_FAILURE() << &verb - verbs.data();
            } catch (const flyring::InvalidArgument& error) {
                EXPECT_EQ(error.argument(), "timeout");
            }
        }
    }
    EXPECT_EQ(support::read_file(file("c")), before);
    try {
        publisher.send(bytes("x"), -5, -1ns);
        ADD_FAILURE();
    } catch (const flyring::InvalidArgument& error) {
        EXPECT_EQ(error.argument(), "type");  // in the order in which they are declared
    }
    EXPECT_EQ(code_of([&] { publisher.send(std::vector<std::byte>(5000), -1ns); }), "invalid-argument");
    channel.evict(0);
    EXPECT_EQ(code_of([&] { subscriber.take(-1ns); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "slot-lost");
    channel.close();
    EXPECT_EQ(code_of([&] { subscriber.take(-1ns); }), "closed");
    EXPECT_EQ(code_of([&] { lossy.take(-1ns); }), "closed");
    EXPECT_EQ(code_of([&] { publisher.send(bytes("x"), -1ns); }), "closed");
}

}  // namespace
