// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "faults.hpp"
#include "support.hpp"
#include "waits.hpp"

// What ends or disturbs a wait: a close, an evict, a fork, and the dead (spec/channel.md 6.16).

namespace {

using namespace waits;

class WaitSurvivors : public waits::Test {};

// Events that end a wait with an error.

TEST_F(WaitSurvivors, a_close_by_another_thread_ends_it) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    Channel other = Channel::open("c");
    const flyring::Subscriber holder = other.subscriber();
    std::vector<nanoseconds> times;
    const auto closed = [&](std::uint64_t asleep, const std::function<void()>& wait,
                            const std::function<void()>& close) {
        const std::uint64_t sequence = asleep == data_asleep ? data_sequence : room_sequence;
        const std::uint32_t before = word(sequence);
        const Ended ended = ended_by(asleep, wait, close);
        EXPECT_EQ(ended.code, "closed");
        EXPECT_LT(ended.within, 1s);
        EXPECT_GT(word(sequence), before);  // woken, not ended by the cap
        times.push_back(ended.within);
        support::poke(file("c"), asleep, std::uint32_t{0});
    };
    flyring::Subscriber subscriber = channel.subscriber();
    closed(data_asleep, [&] { subscriber.take(flyring::forever); }, [&] { subscriber.close(); });
    EXPECT_EQ(*support::raw("c").ring(0).gate(1), -1);
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    closed(data_asleep, [&] { lossy.take(flyring::forever); }, [&] { lossy.close(); });
    const std::vector<flyring::Bytes> batch(200, bytes("b"));
    const std::vector<std::function<void(flyring::Publisher&)>> verbs = {
        [](flyring::Publisher& publisher) { publisher.send(bytes("x")); },
        [](flyring::Publisher& publisher) { publisher.claim(1); },
        [&](flyring::Publisher& publisher) { publisher.send_batch(batch); },
        [](flyring::Publisher& publisher) { publisher.flush(); },
    };
    for (const auto& verb : verbs) {
        flyring::Publisher publisher = channel.publisher("p");
        fill(publisher);
        closed(room_asleep, [&] { verb(publisher); }, [&] { publisher.close(); });
        EXPECT_EQ(support::peek<std::int32_t>(file("c"), 4096 + layout::CONTROL_SLOTS + layout::PUBLISHER_SLOT_CLOSED),
                  1);
    }
    // A close of the whole channel.
    flyring::Publisher publisher = channel.publisher("p");
    fill(publisher);
    closed(room_asleep, [&] { publisher.send(bytes("x")); }, [&] { channel.close(); });
    channel = Channel::open("c");
    flyring::Subscriber again = channel.subscriber();
    closed(data_asleep, [&] { again.take(flyring::forever); }, [&] { channel.close(); });
    EXPECT_LT(median(times), soon);
    flyring::OpenOptions reading;
    reading.read_only = true;
    Channel read_only = Channel::open("c", reading);
    flyring::LossySubscriber reader = read_only.lossy_subscriber();
    std::thread waiter([&] { EXPECT_EQ(code_of([&] { reader.take(flyring::forever); }), "closed"); });
    std::this_thread::sleep_for(5ms);
    read_only.close();
    waiter.join();
}

TEST_F(WaitSurvivors, a_close_at_any_time_of_a_wait_ends_it_and_is_never_refused) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    const flyring::OpenOptions options = silent();  // short sleeps, so that there are many tries
    Channel quiet = Channel::open("c", options);
    const flyring::Subscriber holder = quiet.subscriber();
    Channel own = Channel::open("c", options);
    for (int i = 0; i < 150; ++i) {
        flyring::Publisher publisher = own.publisher();
        fill(publisher);
        flyring::Subscriber subscriber = own.subscriber();
        std::atomic<int> waiting{0};
        std::thread sender([&] {
            publisher.set_spin(0ns);
            EXPECT_EQ(code_of([&] {
                          try {
                              publisher.send(bytes("x"), 0ns);
                          } catch (const flyring::BackPressured&) {
                          }
                          ++waiting;
                          publisher.send(bytes("x"));
                      }),
                      "closed");
        });
        std::thread reader([&] {
            subscriber.set_spin(0ns);
            ++waiting;
            EXPECT_EQ(code_of([&] { subscriber.take(flyring::forever); }), "closed");
        });
        while (waiting < 2) std::this_thread::yield();
        std::this_thread::sleep_for(200us + std::chrono::microseconds(i * 17));
        const auto close = [&](auto& object) {
            const std::string code = code_of([&] { object.close(); });
            EXPECT_EQ(code, "none");
        };
        if (i % 2 == 0) {
            close(own);
            own = Channel::open("c", options);
        } else {
            close(publisher);
            close(subscriber);
        }
        sender.join();
        reader.join();
    }
    EXPECT_GT(channel.publisher().position(), 0);
}

TEST_F(WaitSurvivors, a_close_between_two_turns_of_a_wait_is_not_refused) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    // `name`: a system call that a wait makes between two turns.
    const auto closed_at = [&](const char* name, const std::function<void()>& wait,
                               const std::function<void()>& close) {
        std::thread closer;
        std::string code = "not tried";
        {
            bool slept = false;
            const faults::Hook hook([&](const faults::Call& call) {
                slept = slept || is_futex(call, FUTEX_WAIT_BITSET);
                if (!slept || closer.joinable() || call.name != std::string_view(name)) return 0;
                closer = std::thread([&] { code = code_of(close); });
                std::this_thread::sleep_for(5ms);
                return 0;
            });
            EXPECT_EQ(code_of(wait), "closed");
        }
        if (closer.joinable()) closer.join();
        EXPECT_EQ(code, "none");
    };
    fill(publisher);
    closed_at("fcntl", [&] { publisher.send(bytes("x"), 500ms); }, [&] { publisher.close(); });
    drain(subscriber);
    closed_at("fstat", [&] { subscriber.take(500ms); }, [&] { subscriber.close(); });
}

TEST_F(WaitSurvivors, an_evicted_subscriber_is_told) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    Channel other = Channel::open("c");
    std::vector<nanoseconds> times;
    for (int i = 0; i < 3; ++i) {
        flyring::Subscriber subscriber = channel.subscriber();
        const Ended ended = ended_by(data_asleep, [&] { subscriber.take(flyring::forever); }, [&] { other.evict(0); });
        EXPECT_EQ(ended.code, "slot-lost");
        times.push_back(ended.within);
        EXPECT_FALSE(support::is_locked(file("c"), 4096 + layout::CONTROL_SLOTS + layout::CONTROL_SLOT_LENGTH));
        support::poke(file("c"), data_asleep, std::uint32_t{0});
    }
    EXPECT_LT(median(times), soon);
}

TEST_F(WaitSurvivors, a_replaced_channel_ends_it) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    const auto words = support::raw("c");
    const auto wait_until = [](const std::uint32_t* asleep) {
        while (flyring::detail::load_relaxed(asleep) == 0) std::this_thread::sleep_for(100us);
        std::this_thread::sleep_for(2ms);
    };
    std::thread first([&] { EXPECT_EQ(code_of([&] { subscriber.take(long_enough); }), "replaced"); });
    std::thread second([&] { EXPECT_EQ(code_of([&] { lossy.take(long_enough); }), "replaced"); });
    wait_until(words.data().asleep);
    const auto start = clock_type::now();
    Channel::replace("c", broadcast(1, 1));
    first.join();
    second.join();
    EXPECT_LT(clock_type::now() - start, 1s);
    while (code_of([&] { fill(publisher); }) == "replaced") {
    }
    const std::int64_t position = publisher.position();
    const std::vector<flyring::Bytes> batch(2, bytes("x"));
    for (int i = 0; i < 2; ++i) {  // a repeated wait throws again
        EXPECT_EQ(code_of([&] { publisher.send(bytes("x"), long_enough); }), "replaced");
        EXPECT_EQ(code_of([&] { publisher.claim(1, long_enough); }), "replaced");
        EXPECT_EQ(code_of([&] { publisher.send_batch(batch, long_enough); }), "replaced");
        EXPECT_EQ(code_of([&] { publisher.flush(long_enough); }), "replaced");
    }
    EXPECT_EQ(publisher.position(), position);
    drain(subscriber);
    EXPECT_GT(publisher.send(bytes("still")), 0);  // not sticky
    EXPECT_EQ(text(*subscriber.take(long_enough)), "still");
    const Sleeps sleeps;
    EXPECT_EQ(code_of([&] { subscriber.take(long_enough); }), "replaced");
    EXPECT_EQ(sleeps.count(), 0);  // a later wait sees it before it sleeps
}

TEST_F(WaitSurvivors, another_thread_may_do_nothing_else_meanwhile) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    ended_by(
        data_asleep, [&] { EXPECT_TRUE(subscriber.take(long_enough)); },
        [&] {
            EXPECT_EQ(code_of([&] { subscriber.take(); }), "two-threads");
            EXPECT_EQ(code_of([&] { subscriber.take(1s); }), "two-threads");
            EXPECT_EQ(code_of([&] { subscriber.forget(); }), "view-alive");
            publisher.offer(bytes("m"));
        });
    drain(lossy);
    ended_by(
        data_asleep, [&] { EXPECT_TRUE(lossy.take(long_enough)); },
        [&] {
            EXPECT_EQ(code_of([&] { lossy.take(1s); }), "two-threads");
            EXPECT_EQ(code_of([&] { lossy.peek(); }), "two-threads");
            publisher.offer(bytes("m"));
        });
    fill(publisher);
    ended_by(
        room_asleep, [&] { EXPECT_GT(publisher.send(bytes("x"), long_enough), 0); },
        [&] {
            EXPECT_EQ(code_of([&] { publisher.offer(bytes("x")); }), "two-threads");
            EXPECT_EQ(code_of([&] { publisher.send(bytes("x")); }), "two-threads");
            EXPECT_EQ(code_of([&] { publisher.claim(1); }), "two-threads");
            EXPECT_EQ(code_of([&] { publisher.flush(); }), "two-threads");
            EXPECT_EQ(code_of([&] { publisher.held_by(); }), "two-threads");
            drain(subscriber);
        });
}

TEST_F(WaitSurvivors, a_forked_child_finds_what_waits_closed) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    ended_by(
        data_asleep, [&] { EXPECT_TRUE(subscriber.take(long_enough)); },
        [&] {
            support::Child child([&](const auto&) {
                const bool told = code_of([&] { subscriber.take(1s); }) == "closed";
                subscriber.close();
                channel.close();
                return told;
            });
            EXPECT_EQ(child.wait(), 0);
            publisher.offer(bytes("m"));
        });
    publisher.offer(bytes("n"));
    EXPECT_EQ(drain(subscriber), "n ");
}

/// The handler of the first message after a wait forks. In the child the poll throws Closed; the parent's object works
/// as before.
template <typename Reader>
void fork_in_a_handler(Reader& reader, flyring::Publisher& publisher, flyring::Action action,
                       const std::function<void()>& wait_until_asleep) {
    std::thread sender([&] {
        wait_until_asleep();
        publisher.offer(bytes("m"));
        publisher.offer(bytes("n"));
    });
    pid_t child = -1;
    int handled = 0;
    const auto handler = [&](const Message&) {
        ++handled;
        child = ::fork();
        return action;
    };
    const std::string code = code_of([&] { reader.poll(handler, 1, long_enough); });
    if (child == 0) {
        const bool told = code == "closed" && handled == 1 && code_of([&] { reader.take(1s); }) == "closed";
        ::_exit(told ? 0 : 1);
    }
    sender.join();
    EXPECT_EQ(code, "none");
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(support::status_of(child), 0);
    EXPECT_EQ(drain(reader), action == flyring::Action::ABORT ? "m n " : "n ");
}

TEST_F(WaitSurvivors, a_handler_may_fork_in_a_poll_that_waited) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    const auto asleep = [&] { wait_until_asleep(data_asleep); };
    for (const flyring::Action action : {flyring::Action::CONTINUE, flyring::Action::BREAK, flyring::Action::ABORT}) {
        support::poke(file("c"), data_asleep, std::uint32_t{0});
        fork_in_a_handler(subscriber, publisher, action, asleep);
        drain(lossy);
        support::poke(file("c"), data_asleep, std::uint32_t{0});
        fork_in_a_handler(lossy, publisher, action, asleep);
        drain(subscriber);
    }
    EXPECT_EQ(ended_by(
                  data_asleep, [&] { EXPECT_TRUE(subscriber.take(long_enough)); }, [&] { publisher.offer(bytes("m")); })
                  .code,
              "none");
}

// Deaths.

TEST_F(WaitSurvivors, a_message_whose_publisher_died_before_its_wake_is_found_at_the_cap) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    support::Child child([&](const auto& ready) {
        Channel own = Channel::open("c");
        flyring::Publisher publisher = own.publisher();
        ready();
        while (support::peek<std::uint32_t>(own.path(), data_asleep) == 0) std::this_thread::sleep_for(100us);
        std::this_thread::sleep_for(2ms);
        const faults::Hook hook([](const faults::Call& call) {
            if (std::string_view(call.name) == "futex") ::raise(SIGKILL);
            return 0;
        });
        publisher.offer(bytes("m"));
        return false;
    });
    child.wait_until_ready();
    const nanoseconds time = time_of([&] { EXPECT_TRUE(subscriber.take(long_enough)); });
    EXPECT_LT(time, 1s);
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
    // The next owner wakes sleepers as usual.
    flyring::Publisher next = channel.publisher();
    EXPECT_EQ(ended_by(
                  data_asleep, [&] { EXPECT_TRUE(subscriber.take(long_enough)); }, [&] { next.offer(bytes("n")); })
                  .code,
              "none");
}

TEST_F(WaitSurvivors, room_whose_reader_died_before_its_wake_is_found_at_the_cap) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    support::Child child([&](const auto& ready) {
        Channel own = Channel::open("c");
        flyring::Subscriber subscriber = own.subscriber();
        ready();
        while (support::peek<std::uint32_t>(own.path(), room_asleep) == 0) std::this_thread::sleep_for(100us);
        const faults::Hook hook([](const faults::Call& call) {
            if (std::string_view(call.name) == "futex") ::raise(SIGKILL);
            return 0;
        });
        subscriber.poll(nothing, 10);
        return false;
    });
    child.wait_until_ready();
    fill(publisher);
    EXPECT_LT(time_of([&] { EXPECT_GT(publisher.send(bytes("x"), long_enough), 0); }), 1s);
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
}

// However long a wait spins, it checks as often as a sleeping one for other events that end it.

TEST_F(WaitSurvivors, a_long_spin_is_ended_as_a_sleep_is) {
    struct Ends {
        flyring::Publisher publisher;
        flyring::Subscriber subscriber;
        flyring::LossySubscriber lossy;
    };
    const std::vector<std::pair<bool, std::function<void(Ends&)>>> waits = {
        {false, [](Ends& ends) { ends.subscriber.take(long_enough); }},
        {false, [](Ends& ends) { ends.lossy.take(long_enough); }},
        {true, [](Ends& ends) { ends.publisher.send(bytes("x"), long_enough); }},
        {true, [](Ends& ends) { ends.publisher.flush(long_enough); }},
        {false,
         [](Ends& ends) {
             flyring::WaitSet set;
             set.add(ends.subscriber);
             set.set_spin(long_enough);
             EXPECT_EQ(set.wait(long_enough).size(), 1U);
             ends.subscriber.take();
         }},
    };
    for (const auto& [full, wait] : waits) {
        Channel channel = Channel::create("c", broadcast(1, 1));
        Ends ends{channel.publisher(), channel.subscriber(), channel.lossy_subscriber()};
        ends.publisher.set_spin(long_enough);
        ends.subscriber.set_spin(long_enough);
        ends.lossy.set_spin(long_enough);
        if (full) fill(ends.publisher);
        std::string code;
        std::thread waiter([&, &wait = wait] { code = code_of([&] { wait(ends); }); });
        std::this_thread::sleep_for(1ms);
        EXPECT_EQ(::unlink(channel.path().c_str()), 0);  // without a store to `successor`
        const auto start = clock_type::now();
        const Channel next = Channel::create("c", broadcast(1, 1));
        waiter.join();
        EXPECT_LT(clock_type::now() - start, 1s);
        EXPECT_EQ(code, "replaced");
        Channel::unlink("c");
    }
}

TEST_F(WaitSurvivors, a_publisher_that_spins_finds_that_its_reader_died) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    publisher.set_spin(long_enough);
    support::Child child([](const auto& ready) {
        Channel own = Channel::open("c");
        const flyring::Subscriber subscriber = own.subscriber();
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    fill(publisher);
    std::thread killer([&] {
        std::this_thread::sleep_for(2ms);
        child.kill();
    });
    EXPECT_LT(time_of([&] { EXPECT_GT(publisher.send(bytes("x"), long_enough), 0); }), 1s);
    killer.join();
}

TEST_F(WaitSurvivors, a_publisher_that_waits_finds_that_its_reader_died) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    flyring::Publisher publisher = channel.publisher();
    for (int i = 0; i < 3; ++i) {
        support::Child child([](const auto& ready) {
            Channel own = Channel::open("c");
            const flyring::Subscriber subscriber = own.subscriber();
            ready();
            ::pause();
            return true;
        });
        child.wait_until_ready();
        fill(publisher);
        const Ended ended = ended_by(
            room_asleep, [&] { EXPECT_GT(publisher.send(bytes("x"), long_enough), 0); }, [&] { child.kill(); });
        EXPECT_EQ(ended.code, "none");
        EXPECT_LT(ended.within, 1s);
    }
}

TEST_F(WaitSurvivors, a_sleeper_that_was_killed_costs_one_vain_call_at_most) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    flyring::Publisher publisher = channel.publisher("p");
    {
        support::Child sleeper([](const auto&) {
            Channel own = Channel::open("c");
            flyring::LossySubscriber lossy = own.lossy_subscriber();
            return lossy.take(flyring::forever).has_value();
        });
        wait_until_asleep(data_asleep);
        sleeper.kill();
        EXPECT_NE(word(data_asleep), 0U);
        WakeCalls calls;
        for (int i = 0; i < 1000; ++i) EXPECT_GT(publisher.offer(bytes("m")), 0);
        EXPECT_EQ(calls.count(), 1);
    }
    flyring::Subscriber subscriber = channel.subscriber("", false, {1});
    {
        support::Child sleeper([](const auto&) {
            Channel own = Channel::open("c");
            flyring::Publisher other = own.publisher();
            fill(other);
            other.send(bytes("x"));
            return false;
        });
        wait_until_asleep(room_asleep);
        sleeper.kill();
        flyring::Publisher next = channel.publisher();
        support::poke(file("c"), data_asleep, std::uint32_t{0});
        WakeCalls calls;
        for (int i = 0; i < 1000; ++i) {
            EXPECT_GT(subscriber.poll(nothing, 5), 0);
            while (next.offer(bytes("y")) > 0) {
            }
        }
        EXPECT_EQ(calls.count(), 1);
    }
}

TEST_F(WaitSurvivors, a_stopped_sleeper_delays_no_other_and_misses_nothing) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    subscriber.set_spin(0ns);
    support::Child stopped([](const auto& ready) {
        Channel own = Channel::open("c");
        flyring::Subscriber reader = own.subscriber();
        ready();
        for (int i = 0; i < 20; ++i) {
            if (reader.poll(nothing, 1, long_enough) != 1) return false;
        }
        return true;
    });
    stopped.wait_until_ready();
    wait_until_asleep(data_asleep);
    stopped.signal(SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(stopped.pid(), &status, WUNTRACED), stopped.pid());
    ASSERT_TRUE(WIFSTOPPED(status));
    support::poke(file("c"), data_asleep, std::uint32_t{0});  // so that the next sleeper's bit shows
    std::vector<nanoseconds> times;
    for (int i = 0; i < 20; ++i) {
        const Ended ended = ended_by(
            data_asleep, [&] { EXPECT_TRUE(subscriber.take(long_enough)); }, [&] { publisher.offer(bytes("m")); });
        EXPECT_EQ(ended.code, "none");
        times.push_back(ended.within);
    }
    EXPECT_LT(median(times), soon);
    stopped.signal(SIGCONT);
    EXPECT_EQ(stopped.wait(), 0);
}

}  // namespace
