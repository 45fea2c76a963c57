// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>
#include <linux/membarrier.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "faults.hpp"
#include "support.hpp"
#include "waits.hpp"

// Waiting until a message or room is there, and being woken (spec/channel.md 6.16).

namespace {

using namespace waits;

class Waiting : public waits::Test {};

// Waits for a message, or for room.

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
        seen += drain(subscriber);  // the rest, published later
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

TEST_F(Waiting, a_wake_clears_the_bit_of_its_ring_and_no_other) {
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
    // Runs `wait`. At its membarrier, and so after it has set its bits, another thread runs `action`, which has not
    // seen the bits. Returns how often `wait` then sleeps.
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

TEST_F(Waiting, a_join_or_a_close_wakes_all_whatever_the_bits_say) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    Channel quiet = Channel::open("c", silent());
    const auto words = support::raw("c");
    // How much `action` adds to the two sequences.
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
    EXPECT_LE(late, 1) << "a wake-up was lost";  // one is allowed: the machine may pause that long
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

// Other verbs that wait.

TEST_F(Waiting, flush_waits_for_readers_with_an_owner_only) {
    Channel channel = Channel::create("c", broadcast(2, 4));
    flyring::Publisher publisher = channel.publisher();
    publisher.flush(0ns);
    publisher.offer(bytes("1"));
    publisher.flush(0ns);  // no subscriber
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
