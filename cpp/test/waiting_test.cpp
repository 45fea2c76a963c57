// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>
#include <linux/membarrier.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "agrona.hpp"
#include "faults.hpp"
#include "support.hpp"
#include "waits.hpp"

// Waiting until a message or room is there, and being woken (spec/channel.md 6.16).

namespace {

using namespace waits;

class Waiting : public waits::Test {};

// A message, or room.

TEST_F(Waiting, a_message_ends_the_wait_of_each_kind_of_reader) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    std::vector<nanoseconds> times;
    const auto one = [&](auto& reader) {
        reader.set_spin(0ns);
        clock_type::time_point got;
        std::string seen;
        std::thread waiter([&] {
            EXPECT_EQ(reader.poll([&](const Message& message) { seen = text(message); }, 10, long_enough), 1);
            got = clock_type::now();
        });
        wait_until_asleep(data_asleep);
        const auto start = clock_type::now();
        EXPECT_GT(publisher.offer(bytes("m")), 0);
        waiter.join();
        EXPECT_EQ(seen, "m");
        times.push_back(got - start);
        EXPECT_EQ(word(data_asleep), 0U);
    };
    for (int i = 0; i < 10; ++i) {
        one(subscriber);
        drain(lossy);
        one(lossy);
        drain(subscriber);
    }
    EXPECT_LT(median(times), soon);
}

TEST_F(Waiting, each_way_to_publish_wakes) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    subscriber.set_spin(0ns);
    const std::vector<flyring::Bytes> batch(3, bytes("m"));
    const std::vector<std::function<void()>> ways = {
        [&] { publisher.offer(bytes("m")); },  [&] { publisher.offer(std::vector<std::byte>(900)); },
        [&] { publisher.send(bytes("m")); },   [&] { publisher.claim(3).commit(); },
        [&] { publisher.offer_batch(batch); }, [&] { publisher.send_batch(batch); },
    };
    std::vector<nanoseconds> times;
    for (int i = 0; i < 3; ++i) {
        for (const auto& publish : ways) {
            const std::uint32_t before = word(data_sequence);
            const Ended ended =
                ended_by(data_asleep, [&] { EXPECT_GT(subscriber.poll(nothing, 10, long_enough), 0); }, publish);
            EXPECT_EQ(ended.code, "none");
            EXPECT_EQ(word(data_sequence), before + 1);
            times.push_back(ended.within);
            drain(subscriber);
        }
    }
    EXPECT_LT(median(times), soon);
}

TEST_F(Waiting, room_ends_the_wait_of_each_verb_that_needs_it) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    publisher.set_spin(0ns);
    flyring::Subscriber subscriber = channel.subscriber();
    const std::vector<flyring::Bytes> batch(200, bytes("b"));
    std::int64_t before = 0;
    std::string seen;
    const auto last = [&] { return seen.substr(seen.size() - std::min<std::size_t>(seen.size(), 5)); };
    const auto waits = [&](const std::function<void()>& verb) {
        fill(publisher);
        before = publisher.position();
        seen.clear();
        const Ended ended = ended_by(room_asleep, verb, [&] { seen += drain(subscriber); });
        seen += drain(subscriber);  // what was not there yet
        return ended.code;
    };
    EXPECT_EQ(waits([&] { EXPECT_GT(publisher.send(bytes("sent")), before); }), "none");
    EXPECT_EQ(last(), "sent ");
    EXPECT_EQ(waits([&] {
                  flyring::Claim claim = publisher.claim(4);
                  ASSERT_TRUE(claim);
                  EXPECT_EQ(code_of([&] { publisher.offer(bytes("x")); }), "view-alive");
                  std::memcpy(claim.data(), "mine", 4);
                  claim.commit();
              }),
              "none");
    EXPECT_EQ(last(), "mine ");
    // A batch waits as often as it must.
    fill(publisher);
    std::thread reader([&] {
        std::size_t got = 0;
        while (got < batch.size()) {
            subscriber.poll([&](const Message& message) { got += text(message) == "b" ? 1 : 0; }, 7, 1ms);
        }
    });
    EXPECT_EQ(publisher.send_batch(batch), batch.size());
    reader.join();
    EXPECT_EQ(publisher.send_batch(std::vector<flyring::Bytes>(), 1), 0U);
}

TEST_F(Waiting, a_batch_wakes_for_what_it_has_published_before_it_waits) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    const std::vector<flyring::Bytes> batch(200, bytes("b"));
    std::size_t got = 0;
    std::thread reader([&] {
        while (got < batch.size()) {
            const int now = subscriber.poll(nothing, 1000, long_enough);
            if (now == 0) return;
            got += static_cast<std::size_t>(now);
        }
    });
    wait_until_asleep(data_asleep);
    int wakes = 0;
    std::optional<int> wakes_before_sleep;
    {
        const faults::Hook hook([&](const faults::Call& call) {
            wakes += is_futex(call, FUTEX_WAKE_BITSET) ? 1 : 0;
            if (is_futex(call, FUTEX_WAIT_BITSET) && !wakes_before_sleep) wakes_before_sleep = wakes;
            return 0;
        });
        publisher.set_spin(0ns);
        EXPECT_EQ(publisher.send_batch(batch), batch.size());
    }
    reader.join();
    EXPECT_EQ(got, batch.size());
    EXPECT_GE(wakes_before_sleep.value_or(wakes), 1);
}

TEST_F(Waiting, what_waited_for_room_wakes_readers_too) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    const std::vector<flyring::Bytes> batch(3, bytes("b"));
    const std::vector<std::function<void()>> verbs = {
        [&] { publisher.send(bytes("m")); },
        [&] { publisher.claim(1).commit(); },
        [&] { publisher.send_batch(batch); },
    };
    for (const auto& verb : verbs) {
        fill(publisher);
        const InsteadOfSleep sleep([&](int) {
            drain(subscriber);
            support::poke(file("c"), data_asleep, std::uint32_t{1});
        });
        verb();
        EXPECT_EQ(sleep.count(), 1);
        EXPECT_EQ(word(data_asleep), 0U) << &verb - verbs.data();
    }
}

TEST_F(Waiting, who_wakes_clears_the_bit_of_its_ring_and_no_other) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::Publisher first = channel.publisher();
    flyring::Publisher second = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber("", false, {1});
    second.offer(bytes("m"));
    for (const std::uint64_t asleep : {data_asleep, room_asleep}) {
        support::poke(file("c"), asleep, flyring::detail::all_rings);
    }
    first.offer(bytes("m"));
    EXPECT_EQ(word(data_asleep), 0xFFFFFFFEU);
    second.offer(bytes("m"));
    EXPECT_EQ(word(data_asleep), 0xFFFFFFFCU);
    drain(subscriber);
    EXPECT_EQ(word(room_asleep), 0xFFFFFFFDU);
}

TEST_F(Waiting, what_comes_before_the_bits_are_seen_is_found_before_the_sleep) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    flyring::WaitSet set;
    set.add(subscriber);
    // Of `wait` in the place of its membarrier, and so behind its bits, another thread does `action`, which has not
    // seen the bits. How often it then sleeps.
    const auto sleeps = [&](std::uint64_t asleep, const std::function<void()>& wait,
                            const std::function<void()>& action) {
        int count = 0;
        bool done = false;
        const faults::Hook hook([&](const faults::Call& call) {
            const std::string_view name = call.name;
            count += is_futex(call, FUTEX_WAIT_BITSET) || name == "futex_waitv" ? 1 : 0;
            if (name != "membarrier" || std::exchange(done, true)) return 0;
            EXPECT_TRUE(call.command == MEMBARRIER_CMD_GLOBAL_EXPEDITED);
            const std::uint32_t bits = word(asleep);
            EXPECT_EQ(bits, 1U);
            support::poke(file("c"), asleep, std::uint32_t{0});
            action();
            support::poke(file("c"), asleep, bits);
            return 0;
        });
        wait();
        EXPECT_TRUE(done);
        support::poke(file("c"), asleep, std::uint32_t{0});
        return count;
    };
    const auto offer = [&] { publisher.offer(bytes("m")); };
    EXPECT_EQ(sleeps(data_asleep, [&] { EXPECT_TRUE(subscriber.take(long_enough)); }, offer), 0);
    drain(lossy);
    EXPECT_EQ(sleeps(data_asleep, [&] { EXPECT_TRUE(lossy.take(long_enough)); }, offer), 0);
    drain(subscriber);
    if (!set.naps()) {
        EXPECT_EQ(sleeps(data_asleep, [&] { EXPECT_EQ(set.wait(long_enough).size(), 1U); }, offer), 0);
    }
    fill(publisher);
    const auto make_room = [&] { drain(subscriber); };
    EXPECT_EQ(sleeps(room_asleep, [&] { EXPECT_GT(publisher.send(bytes("x"), long_enough), 0); }, make_room), 0);
}

TEST_F(Waiting, who_comes_or_goes_wakes_all_whatever_the_bits_say) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    Channel quiet = Channel::open("c", silent());
    const auto words = support::raw("c");
    // What `action` adds to the two sequences.
    const auto woken = [&](const std::function<void()>& action) {
        const std::uint32_t data = flyring::detail::load_acquire(words.data().sequence);
        const std::uint32_t room = flyring::detail::load_acquire(words.room().sequence);
        const WakeCalls calls;
        action();
        EXPECT_GE(calls.count(), 1);
        return std::make_pair(flyring::detail::load_acquire(words.data().sequence) - data,
                              flyring::detail::load_acquire(words.room().sequence) - room);
    };
    std::optional<flyring::Publisher> publisher;
    std::optional<flyring::Subscriber> subscriber;
    for (Channel* one : {&channel, &quiet}) {
        EXPECT_EQ(woken([&] { publisher = one->publisher(); }).first, 1U);
        EXPECT_EQ(woken([&] { publisher->close(); }).first, 1U);
        EXPECT_EQ(woken([&] { subscriber = one->subscriber(); }).second, 1U);
        EXPECT_EQ(woken([&] { subscriber->close(); }).second, 1U);
    }
    subscriber = channel.subscriber("kept", true);
    EXPECT_GE(woken([&] { subscriber->forget(); }).second, 1U);
    subscriber = channel.subscriber();
    const auto evicted = woken([&] { channel.evict(subscriber->slot()); });
    EXPECT_EQ(evicted.first, 1U);
    EXPECT_EQ(evicted.second, 1U);
    EXPECT_EQ(code_of([&] { subscriber->take(); }), "slot-lost");
    support::Child dead([](const auto&) -> bool {
        Channel own = Channel::open("c");
        const flyring::Subscriber reader = own.subscriber();
        ::_exit(0);
    });
    dead.wait();
    publisher = channel.publisher();
    fill(*publisher);
    support::sleep_past_a_look();
    EXPECT_EQ(woken([&] { EXPECT_GT(publisher->offer(bytes("x")), 0); }).second, 1U);
    const auto replaced = woken([&] { Channel::replace("c", broadcast(1, 1)); });
    EXPECT_EQ(replaced.first, 1U);
    EXPECT_EQ(replaced.second, 1U);
}

TEST_F(Waiting, a_batch_that_meets_an_error_throws_it_and_what_was_taken_stays) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    const std::vector<flyring::Bytes> batch(200, bytes("b"));
    const auto words = support::raw("c");
    const auto count = [&] {
        int messages = 0;
        while (subscriber.poll([&](const Message&) { ++messages; }) > 0) {
        }
        return messages;
    };
    int taken = 0;
    {
        const InsteadOfSleep sleep([&](int number) {
            if (number == 0) taken = count();  // there is room for some more
            if (number == 1) Channel::replace("c", broadcast(1, 1));
        });
        EXPECT_EQ(code_of([&] { publisher.send_batch(batch); }), "replaced");
    }
    EXPECT_GT(taken, 0);
    const int more = count();
    EXPECT_GT(more, 0);
    EXPECT_LT(taken + more, 200);
    EXPECT_EQ(*words.ring(0).published(), publisher.position());
    EXPECT_EQ(*words.ring(0).messages_done(), taken + more);
}

TEST_F(Waiting, two_that_sleep_in_turn_answer_each_other) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    flyring::Publisher ask = channel.publisher();
    flyring::Publisher answer = channel.publisher();
    flyring::Subscriber asked = channel.subscriber("", false, {0});
    flyring::Subscriber answered = channel.subscriber("", false, {1});
    constexpr int rounds = 2000;
    std::thread other([&] {
        asked.set_spin(0ns);
        for (int i = 0; i < rounds; ++i) {
            if (asked.poll(nothing, 1, long_enough) != 1) return;
            answer.send(bytes("a"));
        }
    });
    answered.set_spin(0ns);
    int late = 0;
    int answers = 0;
    for (int i = 0; i < rounds; ++i) {
        const nanoseconds time = time_of([&] {
            ask.send(bytes("q"));
            answers += answered.poll(nothing, 1, long_enough);
        });
        late += time > soon ? 1 : 0;
    }
    other.join();
    EXPECT_EQ(answers, rounds);
    EXPECT_LE(late, 1) << "a wake-up was lost";  // one: a machine may stop for so long
}

TEST_F(Waiting, what_is_no_message_does_not_end_a_wait) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    std::string seen;
    const Ended ended = ended_by(
        data_asleep, [&] { EXPECT_EQ(subscriber.poll([&](const Message& m) { seen += text(m); }, 1, long_enough), 1); },
        [&] {
            publisher.claim(5).abort();  // with an owner record in front
            publisher.claim(5).abort();
            std::this_thread::sleep_for(5ms);
            publisher.offer(bytes("m"));
        });
    EXPECT_EQ(ended.code, "none");
    EXPECT_EQ(seen, "m");
}

TEST_F(Waiting, a_poll_for_no_messages_and_an_aborted_message_do_not_wait) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    EXPECT_EQ(subscriber.poll(nothing, 0, long_enough), 0);
    EXPECT_EQ(lossy.poll(nothing, 0, long_enough), 0);
    publisher.offer(bytes("m"));
    EXPECT_EQ(subscriber.poll(nothing, 0, long_enough), 0);
    EXPECT_EQ(lossy.poll(nothing, 0, long_enough), 0);
    const auto abort = [](const Message&) { return flyring::Action::ABORT; };
    EXPECT_EQ(subscriber.poll(abort, 1, long_enough), 0);
    EXPECT_EQ(lossy.poll(abort, 1, long_enough), 0);
    subscriber.poll(nothing);
    const Ended ended = ended_by(
        data_asleep, [&] { EXPECT_EQ(subscriber.poll(abort, 1, long_enough), 0); },
        [&] { publisher.offer(bytes("n")); });
    EXPECT_EQ(ended.code, "none");
    EXPECT_EQ(drain(subscriber), "n ");
}

TEST_F(Waiting, a_reader_that_finds_its_ring_corrupt_wakes_the_publisher_that_it_held_back) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    fill(publisher);
    const auto words = support::raw("c");
    *words.ring(0).length_at(subscriber.position(0)) = 3;
    int wakes = 0;
    const Ended ended = ended_by(
        room_asleep, [&] { EXPECT_GT(publisher.send(bytes("x"), long_enough), 0); },
        [&] {
            const WakeCalls calls;
            EXPECT_EQ(code_of([&] { subscriber.poll(nothing); }), "corrupt-ring");
            wakes = calls.count();
        });
    EXPECT_EQ(ended.code, "none");
    EXPECT_EQ(wakes, 1);
    EXPECT_EQ(*words.ring(0).gate(0), -1);
}

TEST_F(Waiting, a_handler_that_throws_ends_the_wait_and_its_message_is_consumed) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    bool thrown = false;
    std::thread waiter([&] {
        try {
            subscriber.poll([](const Message&) { throw std::runtime_error("handler"); }, 1, long_enough);
        } catch (const std::runtime_error&) {
            thrown = true;
        }
    });
    wait_until_asleep(data_asleep);
    publisher.offer(bytes("m"));
    waiter.join();
    EXPECT_TRUE(thrown);
    publisher.offer(bytes("n"));
    EXPECT_EQ(drain(subscriber), "n ");
}

// Time-outs.

TEST_F(Waiting, a_wait_ends_at_its_time_out_and_not_before) {
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

TEST_F(Waiting, what_a_verb_finds_after_its_time_out_it_returns) {
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

TEST_F(Waiting, spins_before_its_first_sleep_only) {
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

TEST_F(Waiting, a_spin_below_0_is_refused) {
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

TEST_F(Waiting, no_time_out_makes_no_system_call) {
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

TEST_F(Waiting, a_time_out_below_0_is_refused_and_nothing_is_done) {
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

// Who does not wake, or cannot.

TEST_F(Waiting, who_takes_a_slot_is_registered_before_it_has_the_control_lock_in_a_forked_child_too) {
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

TEST_F(Waiting, who_does_not_wake_is_woken_all_the_same_and_sleeps_as_long_as_others) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    Channel quiet = Channel::open("c", silent());
    {
        flyring::Publisher publisher = channel.publisher();
        flyring::Subscriber subscriber = quiet.subscriber();
        subscriber.set_spin(0ns);
        const Sleeps sleeps;
        EXPECT_FALSE(subscriber.take(50ms));  // below the cap
        EXPECT_LE(sleeps.count(), 3);         // a signal may end one or the other
    }
    flyring::Publisher publisher = quiet.publisher();
    const flyring::Subscriber subscriber = channel.subscriber();
    fill(publisher);
    publisher.set_spin(0ns);
    const Sleeps sleeps;
    EXPECT_EQ(code_of([&] { publisher.send(bytes("x"), 40ms); }), "back-pressured");
    EXPECT_LE(sleeps.count(), 13);  // each of 4 ms
}

TEST_F(Waiting, who_does_not_wake_is_looked_for_every_millisecond_and_makes_no_call) {
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
        wait_until_asleep(data_asleep);  // with a long cap
        std::optional<flyring::Publisher> publisher = quiet.publisher();
        EXPECT_EQ(word(data_sequence), woken + 1);  // each new owner wakes: the caps are not what they were
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

TEST_F(Waiting, a_read_only_reader_looks_every_millisecond_and_stores_nothing) {
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

TEST_F(Waiting, a_foreign_end_is_looked_for_every_millisecond) {
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

TEST_F(Waiting, how_long_a_sleep_may_last) {
    constexpr nanoseconds data{flyring::detail::data_cap};
    constexpr nanoseconds room{flyring::detail::first_room_cap};
    constexpr nanoseconds short_one{flyring::detail::short_cap};
    // The longest of ten sleeps of `wait`, which `end` ends then.
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
    for (Channel* own : {&channel, &quiet}) {  // who waits; whether it wakes does not matter
        expect(of_subscriber(*own), data);     // nobody publishes
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

// Other verbs that wait.

TEST_F(Waiting, flush_waits_for_those_who_own_a_slot_and_for_nobody_else) {
    Channel channel = Channel::create("c", broadcast(2, 4));
    flyring::Publisher publisher = channel.publisher();
    publisher.flush(0ns);
    publisher.offer(bytes("1"));
    publisher.flush(0ns);  // nobody reads
    channel.subscriber("away", true).close();
    const flyring::Subscriber elsewhere = channel.subscriber("", false, {1});
    support::Child dead([](const auto&) -> bool {
        Channel own = Channel::open("c");
        const flyring::Subscriber subscriber = own.subscriber();
        ::_exit(0);
    });
    dead.wait();
    const flyring::LossySubscriber lossy = channel.lossy_subscriber();
    publisher.offer(bytes("2"));
    publisher.flush(0ns);
    flyring::Subscriber subscriber = channel.subscriber();
    publisher.flush(0ns);
    publisher.offer(bytes("3"));
    publisher.claim(10).abort();
    try {
        publisher.flush(5ms);
        FAIL();
    } catch (const flyring::TimedOut& error) {
        EXPECT_NE(error.what_for().find("subscriber slot " + std::to_string(subscriber.slot())), std::string::npos);
        EXPECT_EQ(error.code(), "timed-out");
    }
    EXPECT_EQ(ended_by(room_asleep, [&] { publisher.flush(); }, [&] { drain(subscriber); }).code, "none");
    publisher.offer(bytes("4"));
    EXPECT_EQ(ended_by(room_asleep, [&] { publisher.flush(); }, [&] { subscriber.close(); }).code, "none");
    publisher.close();
    EXPECT_EQ(code_of([&] { publisher.flush(); }), "closed");
}

TEST_F(Waiting, flush_waits_beside_an_open_claim_and_publishes_nothing) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    std::optional<flyring::Publisher> publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    publisher->offer(bytes("1"));
    flyring::Claim claim = publisher->claim(1);
    *claim.data() = std::byte{'2'};
    const std::int64_t before = publisher->position();
    EXPECT_EQ(code_of([&] { publisher->flush(1ms); }), "timed-out");
    EXPECT_EQ(code_of([&] { publisher->flush(-1ns); }), "invalid-argument");
    EXPECT_EQ(ended_by(room_asleep, [&] { publisher->flush(); }, [&] { drain(subscriber); }).code, "none");
    EXPECT_EQ(publisher->position(), before);
    EXPECT_EQ(code_of([&] { publisher->offer(bytes("x")); }), "view-alive");
    claim.commit();
    EXPECT_EQ(drain(subscriber), "2 ");
    // A close by another thread ends it, and the claim with it.
    publisher->offer(bytes("3"));
    claim = publisher->claim(1);
    const std::int64_t at = publisher->position();
    EXPECT_EQ(ended_by(room_asleep, [&] { publisher->flush(); }, [&] { publisher->close(); }).code, "closed");
    const auto words = support::raw("c");
    EXPECT_EQ(*words.ring(0).type_at(at), layout::TYPE_PADDING);
    EXPECT_GT(*words.ring(0).published(), at);
    publisher.reset();
    EXPECT_EQ(code_of([&] { claim.commit(); }), "closed");
    EXPECT_EQ(drain(subscriber), "3 ");
    // A close of all of the channel too; then the slot's next owner makes padding of the claim.
    publisher = channel.publisher();
    publisher->offer(bytes("4"));
    claim = publisher->claim(1);
    EXPECT_EQ(ended_by(room_asleep, [&] { publisher->flush(); }, [&] { channel.close(); }).code, "closed");
    publisher.reset();
    EXPECT_EQ(code_of([&] { claim.abort(); }), "closed");
    EXPECT_GT(Channel::open("c").publisher().offer(bytes("5")), 0);
}

TEST_F(Waiting, wait_for_opens_a_channel_as_soon_as_there_is_one) {
    EXPECT_GE(time_of([] {
                  try {
                      Channel::wait_for("c", 5ms);
                      FAIL();
                  } catch (const flyring::TimedOut& error) {
                      EXPECT_NE(error.what_for().find("c.ring"), std::string::npos);
                  }
              }),
              5ms);
    EXPECT_EQ(code_of([] { Channel::wait_for("c", 0ns); }), "timed-out");
    std::thread creator([] {
        std::this_thread::sleep_for(5ms);
        Channel::create("c", broadcast(3, 1)).close();
    });
    EXPECT_EQ(Channel::wait_for("c").publishers(), 3U);
    creator.join();
    flyring::OpenOptions reading;
    reading.read_only = true;
    EXPECT_TRUE(Channel::wait_for("c", 0ns, reading).read_only());
    support::write_file(file("d"), std::vector<std::byte>(100));
    EXPECT_EQ(code_of([] { Channel::wait_for("d", long_enough); }), "not-a-channel");
    EXPECT_EQ(code_of([] { Channel::wait_for("no name"); }), "invalid-argument");
}

TEST_F(Waiting, a_subscriber_waits_for_a_slot_that_becomes_free) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    std::optional<flyring::Subscriber> owner = channel.subscriber();
    EXPECT_GE(time_of([&] {
                  EXPECT_EQ(code_of([&] { channel.subscriber("", false, std::nullopt, 30ms); }), "no-free-slot");
              }),
              30ms);
    std::thread leaver([&] {
        std::this_thread::sleep_for(30ms);
        owner.reset();
    });
    const flyring::Subscriber next = channel.subscriber("next", false, std::nullopt, flyring::forever);
    leaver.join();
    EXPECT_EQ(next.slot(), 0U);
    EXPECT_EQ(next.rings(), flyring::Rings{0});
    std::thread closer([&] {
        std::this_thread::sleep_for(20ms);
        channel.close();
    });
    Channel other = Channel::open("c");
    const flyring::Subscriber after = other.subscriber("", false, {0}, long_enough);
    closer.join();
    EXPECT_EQ(code_of([&] { channel.subscriber("", false, std::nullopt, long_enough); }), "closed");
}

}  // namespace
