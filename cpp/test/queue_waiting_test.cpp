// SPDX-License-Identifier: Apache-2.0
#include "waits.hpp"

// Sleeping workers: what wakes them, and what else ends their waits.

namespace {

using namespace waits;
using flyring::Job;
using flyring::Publisher;
using flyring::WaitSet;
using flyring::Worker;
using support::queue;

constexpr std::uint64_t jobs_sequence = 4096 + layout::CONTROL_JOBS_SEQUENCE;
constexpr std::uint64_t jobs_asleep = 4096 + layout::CONTROL_JOBS_ASLEEP;

class QueueWaiting : public waits::Test {};

TEST_F(QueueWaiting, a_job_ends_the_wait_of_take_and_of_poll) {
    Channel channel = Channel::create("c", queue(1, 1));
    Publisher publisher = channel.publisher();
    Worker worker = channel.worker();
    std::vector<nanoseconds> within;
    std::string seen;
    for (int i = 0; i < 10; ++i) {
        const auto wait = [&] {
            if (i % 2 == 0) {
                std::optional<Job> job = worker.take(long_enough);
                ASSERT_TRUE(job);
                seen += text(*job);
                job->done();
            } else {
                EXPECT_EQ(worker.poll([&](Job& job) { seen += text(job); }, 3, long_enough), 1);
            }
        };
        support::poke(file("c"), jobs_asleep, std::uint32_t{0});
        within.push_back(ended_by(jobs_asleep, wait, [&] { publisher.offer(bytes(std::to_string(i))); }).within);
    }
    EXPECT_EQ(seen, "0123456789");
    EXPECT_LT(median(within), soon);
}

TEST_F(QueueWaiting, a_wait_without_jobs_ends_with_its_time) {
    Channel channel = Channel::create("c", queue(1, 1));
    Worker worker = channel.worker();
    for (const auto spin : {0us, 50us}) {
        worker.set_spin(spin);
        EXPECT_GE(time_of([&] { EXPECT_FALSE(worker.take(5ms)); }), 5ms);
        EXPECT_GE(time_of([&] { EXPECT_EQ(worker.poll([](Job&) {}, 1, 5ms), 0); }), 5ms);
    }
    EXPECT_EQ(code_of([&] { worker.poll([](Job&) {}, 1, -1ns); }), "invalid-argument");
    EXPECT_EQ(worker.poll([](Job&) {}, 0, long_enough), 0);
    EXPECT_FALSE(worker.take());
}

TEST_F(QueueWaiting, each_of_several_jobs_wakes_one_more_worker) {
    Channel channel = Channel::create("c", queue(1, 3));
    Publisher publisher = channel.publisher();
    std::vector<nanoseconds> within;
    for (int round = 0; round < 5; ++round) {
        std::atomic<int> asleep{0};
        std::atomic<int> taken{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&] {
                Worker worker = channel.worker();
                ++asleep;
                worker.poll(
                    [&](Job&) {
                        ++taken;
                        waits::wait_for(taken, 3);  // no handler ends before all have begun
                    },
                    1, long_enough);
            });
        }
        waits::wait_for(asleep, 3);
        std::this_thread::sleep_for(5ms);
        const flyring::Bytes batch[] = {bytes("a"), bytes("b"), bytes("c")};
        const auto start = clock_type::now();
        EXPECT_EQ(publisher.offer_batch(batch), 3U);  // this wakes one
        waits::wait_for(taken, 3);
        within.push_back(clock_type::now() - start);
        for (std::thread& thread : threads) thread.join();
    }
    EXPECT_LT(median(within), soon);
}

TEST_F(QueueWaiting, a_publish_wakes_one_worker_and_all_other_readers) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    support::poke(file("c"), jobs_asleep, std::uint32_t{1});
    support::poke(file("c"), data_asleep, std::uint32_t{1});
    const std::uint32_t jobs = word(jobs_sequence);
    const std::uint32_t data = word(data_sequence);
    {
        WakeCalls calls;
        publisher.offer(bytes("a"));
        EXPECT_EQ(calls.count(), 2);
        publisher.offer(bytes("b"));
        EXPECT_EQ(calls.count(), 2);  // no reader sleeps any more
    }
    EXPECT_EQ(word(jobs_sequence), jobs + 1);
    EXPECT_EQ(word(data_sequence), data + 1);
    EXPECT_EQ(word(jobs_asleep), 0U);
    EXPECT_EQ(word(data_asleep), 0U);
}

TEST_F(QueueWaiting, a_release_wakes_one) {
    Channel channel = Channel::create("c", queue(1, 2));
    channel.publisher().offer(bytes("a"));
    Worker worker = channel.worker();
    Worker other = channel.worker();
    std::optional<Job> job = worker.take();
    std::string seen;
    const Ended ended =
        ended_by(jobs_asleep, [&] { seen = text(*other.take(long_enough)); }, [&] { EXPECT_TRUE(job->release()); });
    EXPECT_EQ(seen, "a");
    EXPECT_LT(ended.within, soon);
}

TEST_F(QueueWaiting, a_worker_that_was_woken_and_takes_nothing_wakes_another) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    Worker looking = channel.worker();
    Worker taking = channel.worker();
    WaitSet set;
    set.add(looking);
    if (set.naps()) GTEST_SKIP() << "no futex_waitv: it naps";
    std::vector<nanoseconds> within;
    for (int i = 0; i < 10; ++i) {
        support::poke(file("c"), jobs_asleep, std::uint32_t{0});
        std::thread looker([&] { set.wait(long_enough); });  // the kernel wakes this one first, and it takes no job
        wait_until_asleep(jobs_asleep);
        clock_type::time_point end;
        std::atomic<int> begun{0};
        std::thread taker([&] {
            ++begun;
            std::optional<Job> job = taking.take(long_enough);
            end = clock_type::now();
            EXPECT_TRUE(job);
            if (job) job->done();
        });
        waits::wait_for(begun, 1);
        std::this_thread::sleep_for(5ms);
        const auto start = clock_type::now();
        publisher.offer(bytes("a"));
        taker.join();
        within.push_back(end - start);
        set.wake();
        looker.join();
        set.wait(0ms);  // uses up that wake, if the job came first
    }
    EXPECT_LT(median(within), soon);
}

TEST_F(QueueWaiting, a_wait_that_ends_without_a_job_says_again_that_others_sleep) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    Worker worker = channel.worker();
    Worker other = channel.worker();
    worker.set_spin(0ns);
    // Instead of a sleep: a job comes, which wakes this worker, and another worker takes it; then the time-out passes.
    InsteadOfSleep sleep([&](int) {
        EXPECT_EQ(word(jobs_asleep), 1U);
        publisher.offer(bytes("a"));
        EXPECT_EQ(word(jobs_asleep), 0U);
        other.take()->done();
        std::this_thread::sleep_for(5ms);
    });
    EXPECT_FALSE(worker.take(4ms));
    EXPECT_EQ(sleep.count(), 1);
    EXPECT_EQ(word(jobs_asleep), 1U);  // so the next publish wakes one of the other sleepers
}

TEST_F(QueueWaiting, what_else_ends_a_wait) {
    Channel channel = Channel::create("c", queue(1, 2));
    struct Case {
        std::string code;
        std::function<void(Worker&)> action;
    };
    const Case cases[] = {
        {"closed", [](Worker& worker) { worker.close(); }},
        {"slot-lost", [&](Worker& worker) { EXPECT_EQ(channel.evict(worker.slot()), 0); }},
        {"none", [](Worker& worker) { worker.drain(); }},
    };
    for (const Case& one : cases) {
        for (const bool polling : {false, true}) {
            Worker worker = channel.worker();
            support::poke(file("c"), jobs_asleep, std::uint32_t{0});
            const auto wait = [&] {
                if (polling) {
                    EXPECT_EQ(worker.poll([](Job&) {}, 1, long_enough), 0);
                } else {
                    EXPECT_FALSE(worker.take(long_enough));
                }
            };
            const Ended ended = ended_by(jobs_asleep, wait, [&] { one.action(worker); });
            EXPECT_EQ(ended.code, one.code);
            EXPECT_LT(ended.within, 1s) << one.code;
        }
    }
    Worker worker = channel.worker();
    support::poke(file("c"), jobs_asleep, std::uint32_t{0});
    const Ended ended = ended_by(jobs_asleep, [&] { worker.take(long_enough); }, [&] { channel.close(); });
    EXPECT_EQ(ended.code, "closed");
    EXPECT_LT(ended.within, 1s);
}

TEST_F(QueueWaiting, a_replaced_queue_ends_the_wait) {
    Channel channel = Channel::create("c", queue(1, 1));
    Worker worker = channel.worker();
    const Ended ended =
        ended_by(jobs_asleep, [&] { worker.take(long_enough); }, [&] { Channel::replace("c", queue(1, 1)).close(); });
    EXPECT_EQ(ended.code, "replaced");
    EXPECT_LT(ended.within, 1s);
}

TEST_F(QueueWaiting, a_draining_worker_hands_out_what_it_has_and_no_more) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b", "c", "d"}) publisher.offer(bytes(letter));
    Worker worker = channel.worker();
    std::string seen;
    EXPECT_EQ(worker.poll(
                  [&](Job& job) {
                      seen += text(job);
                      return flyring::Action::BREAK;
                  },
                  3),
              1);
    worker.drain();
    EXPECT_EQ(worker.poll([&](Job& job) { seen += text(job); }, 10, long_enough), 2);
    EXPECT_EQ(seen, "abc");
    EXPECT_LT(time_of([&] {
                  EXPECT_EQ(worker.poll([](Job&) {}, 1, long_enough), 0);
                  EXPECT_FALSE(worker.take(long_enough));
              }),
              1s);
    Worker other = channel.worker();
    EXPECT_EQ(support::work_off(other), "d ");
}

TEST_F(QueueWaiting, drain_throws_nothing_after_an_evict_and_closed_after_a_close) {
    Channel channel = Channel::create("c", queue(1, 2));
    Worker worker = channel.worker();
    EXPECT_EQ(channel.evict(worker.slot()), 0);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(code_of([&] { worker.drain(); }), "none");
        EXPECT_EQ(code_of([&] { worker.take(); }), "slot-lost");
    }
    worker.close();
    EXPECT_EQ(code_of([&] { worker.drain(); }), "closed");
    Worker other = channel.worker();
    other.close();
    EXPECT_EQ(code_of([&] { other.drain(); }), "closed");
}

TEST_F(QueueWaiting, a_sleeping_worker_takes_over_the_job_of_one_that_is_killed) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    support::Child child([](const support::Child::Ready& ready) {
        Worker worker = Channel::open("c").worker();
        const std::optional<Job> job = worker.take();
        ready();
        ::pause();
        return true;
    });
    child.wait_until_ready();
    Worker worker = channel.worker();
    std::string seen;
    const Ended ended = ended_by(
        jobs_asleep,
        [&] {
            std::optional<Job> job = worker.take(long_enough);
            seen = text(*job) + std::to_string(job->attempts());
            job->done();
        },
        [&] { child.kill(); });
    EXPECT_EQ(seen, "a1");
    EXPECT_LT(ended.within, 1s);  // a sleeping worker looks for jobs of the dead at least every 100 ms
}

TEST_F(QueueWaiting, done_and_release_end_a_producers_wait_for_room) {
    Channel channel = Channel::create("c", queue(1, 1));
    Publisher publisher = channel.publisher();
    Worker worker = channel.worker();
    for (const bool release : {false, true}) {
        support::fill(publisher);
        std::optional<Job> job = worker.take();
        support::fill(publisher);
        support::poke(file("c"), room_asleep, std::uint32_t{0});
        const Ended ended = ended_by(
            room_asleep, [&] { EXPECT_GT(publisher.send(bytes("x"), long_enough), 0); },
            [&] { release ? static_cast<void>(job->release()) : job->done(); });
        EXPECT_EQ(ended.code, "none");
        EXPECT_LT(ended.within, soon);
        support::work_off(worker, 10);
    }
}

TEST_F(QueueWaiting, workers_look_each_millisecond_for_a_producer_with_wake_off) {
    Channel channel = Channel::create("c", queue(1, 2));
    Worker worker = channel.worker();
    Channel other = Channel::open("c", silent());
    Publisher publisher = other.publisher();
    std::vector<nanoseconds> within;
    for (int i = 0; i < 5; ++i) {
        support::poke(file("c"), jobs_asleep, std::uint32_t{0});
        within.push_back(
            ended_by(
                jobs_asleep, [&] { worker.take(long_enough)->done(); }, [&] { publisher.offer(bytes("a")); })
                .within);
    }
    EXPECT_LT(median(within), soon);
    EXPECT_EQ(word(jobs_asleep), 1U);  // no waker has cleared it
}

TEST_F(QueueWaiting, a_queue_ends_when_all_producers_closed_and_every_job_is_done) {
    Channel channel = Channel::create("c", queue(2, 2));
    Worker worker = channel.worker();
    EXPECT_FALSE(worker.ended());  // no producer came yet
    Publisher a = channel.publisher();
    Publisher b = channel.publisher();
    a.offer(bytes("a"));
    a.close();
    EXPECT_FALSE(worker.ended());
    b.close();
    EXPECT_FALSE(worker.ended());  // a job waits
    std::optional<Job> job = worker.take();
    EXPECT_FALSE(worker.ended());  // it is in hand
    job->release();
    EXPECT_FALSE(worker.ended());  // it waits again
    job = worker.take();
    job->done();
    EXPECT_TRUE(worker.ended());
    Publisher again = channel.publisher();
    EXPECT_FALSE(worker.ended());
}

TEST_F(QueueWaiting, a_poll_whose_first_job_is_aborted_does_not_wait_for_others) {
    Channel channel = Channel::create("c", queue(1, 1));
    channel.publisher().offer(bytes("a"));
    Worker worker = channel.worker();
    EXPECT_LT(time_of([&] { EXPECT_EQ(worker.poll([](Job&) { return flyring::Action::ABORT; }, 3, long_enough), 0); }),
              1s);
    std::optional<Job> job = worker.take();
    ASSERT_TRUE(job);
    EXPECT_EQ(job->attempts(), 1);
    job->done();
}

TEST_F(QueueWaiting, a_new_worker_wakes_all_that_wait_for_room_or_jobs) {
    Channel channel = Channel::create("c", queue(1, 2));
    const std::uint32_t jobs = word(jobs_sequence);
    const std::uint32_t room = word(room_sequence);
    const Worker worker = channel.worker();
    EXPECT_EQ(word(jobs_sequence), jobs + 1);
    EXPECT_EQ(word(room_sequence), room + 1);
}

TEST_F(QueueWaiting, a_wait_that_only_this_thread_could_end_is_busy) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    Worker worker = channel.worker();
    publisher.offer(bytes("a"));
    std::optional<Job> job = worker.take();
    ASSERT_TRUE(job);
    const auto busy_slot = [&](const std::function<void()>& action) -> int {
        try {
            action();
        } catch (const flyring::Busy& error) {
            return static_cast<int>(error.holder()->slot);
        }
        return -1;
    };
    EXPECT_EQ(busy_slot([&] { publisher.flush(long_enough); }), 1);  // the ring has room
    EXPECT_EQ(code_of([&] { publisher.flush(0ns); }), "timed-out");
    std::thread([&] { EXPECT_EQ(code_of([&] { publisher.flush(2ms); }), "timed-out"); }).join();  // it holds no job
    support::fill(publisher);
    const flyring::Bytes batch[] = {bytes("b"), bytes("c")};
    EXPECT_EQ(busy_slot([&] { publisher.send(bytes("b"), long_enough); }), 1);
    EXPECT_EQ(busy_slot([&] { publisher.claim(1, long_enough); }), 1);
    EXPECT_EQ(busy_slot([&] { publisher.send_batch(batch, long_enough); }), 1);
    EXPECT_EQ(code_of([&] { publisher.send(bytes("b"), 0ns); }), "back-pressured");
    job->done();
    EXPECT_EQ(code_of([&] { publisher.flush(2ms); }), "timed-out");  // a worker may still take the others
}

TEST_F(QueueWaiting, a_wait_set_has_workers) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    Worker worker = channel.worker();
    Worker other = channel.worker();
    WaitSet set;
    set.add(worker);
    EXPECT_EQ(code_of([&] { set.add(worker); }), "invalid-argument");
    EXPECT_TRUE(set.wait(2ms).empty());
    publisher.offer(bytes("a"));
    ASSERT_EQ(set.wait(long_enough).size(), 1U);
    EXPECT_EQ(std::get<Worker*>(set.wait(long_enough)[0]), &worker);
    EXPECT_EQ(support::work_off(worker), "a ");
    EXPECT_TRUE(set.wait(0ms).empty());
    // A member that lost its slot, or drains, is ready: its next verb reports it.
    worker.drain();
    EXPECT_EQ(set.wait(long_enough).size(), 1U);
    set.remove(worker);
    EXPECT_EQ(code_of([&] { set.remove(worker); }), "invalid-argument");
    set.add(other);
    channel.evict(other.slot());
    EXPECT_EQ(set.wait(long_enough).size(), 1U);
    EXPECT_EQ(code_of([&] { other.take(); }), "slot-lost");
}

TEST(RoomRest, is_a_quarter_of_the_time_in_which_the_workers_empty_the_ring) {
    flyring::detail::RoomRest rest;
    std::int64_t now = 5'000'000'000, end = 0;
    const auto begins = [&](std::int64_t later, std::int64_t bytes) {
        return rest.begin(now += later, end += bytes, 65536);
    };
    EXPECT_EQ(begins(0, 65536), 0);                // the first wait
    EXPECT_EQ(begins(50'000, 640), 0);             // too soon to measure
    EXPECT_EQ(begins(150'000, 640), 1'000'000);    // 10 ms for the ring: the longest rest
    EXPECT_EQ(begins(1'000'000, 32768), 500'000);  // 2 ms for the ring
    EXPECT_EQ(begins(50'000, 65536), 500'000);     // too soon to measure: as before
    EXPECT_EQ(begins(1'000'000, 32768), 0);        // 0.7 ms for the ring: workers would empty it
    EXPECT_EQ(begins(10'000'001, 640), 0);         // too long ago
    EXPECT_EQ(begins(10'000'000, 0), 0);           // nothing was published
    EXPECT_EQ(begins(10'000'000, 640), 1'000'000);
}

TEST_F(QueueWaiting, a_producer_rests_while_jobs_take_long) {
    Channel channel = Channel::create("c", queue(1, 1, 65536));
    Publisher publisher = channel.publisher();
    constexpr int jobs = 8000;
    std::thread thread([&] {
        Worker worker = channel.worker();
        for (int done = 0; done < jobs;) {
            done += worker.poll(
                [](Job&) {
                    const auto end = clock_type::now() + 20us;
                    while (clock_type::now() < end) {
                    }
                },
                1, long_enough);
        }
    });
    int waits = 0;
    for (int sent = 0; sent < jobs; ++sent) {
        if (publisher.offer(bytes("a job")) > 0) continue;
        ++waits;
        publisher.send(bytes("a job"), long_enough);
    }
    thread.join();
    EXPECT_LT(waits, jobs / 8);  // without rests it waits for nearly each job
}

TEST_F(QueueWaiting, many_workers_and_producers_lose_no_wake) {
    Channel channel = Channel::create("c", queue(2, 4));
    constexpr int each = 3000;
    std::atomic<int> done{0};
    std::vector<std::thread> threads;
    std::atomic<int> late{0};  // jobs that waited for half of the cap: their worker was not woken
    for (std::size_t i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            Worker worker = channel.worker();
            worker.set_spin(i % 2 == 0 ? 0us : 5us);
            while (done < 2 * each) {
                worker.poll(
                    [&](Job& job) {
                        const std::int64_t sent = job.as<std::int64_t>();
                        const std::int64_t now = flyring::detail::clock_ns(CLOCK_MONOTONIC);
                        if (now - sent > flyring::detail::data_cap / 2) ++late;
                        ++done;
                    },
                    1 + static_cast<int>(i), 300ms);
            }
        });
    }
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            Publisher publisher = channel.publisher();
            for (int sent = 0; sent < each; ++sent) {
                publisher.send(flyring::bytes_of(flyring::detail::clock_ns(CLOCK_MONOTONIC)), long_enough);
                if (sent % 16 == 0) std::this_thread::sleep_for(50us);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(done, 2 * each);
    EXPECT_LT(late, each / 20);  // some are late on a busy machine
}

}  // namespace
