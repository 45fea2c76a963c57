// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <limits>
#include <map>
#include <stdexcept>
#include <thread>

#include "queues.hpp"

// What a worker leaves behind when it dies, is evicted, throws or is disturbed, and what other workers do with it.

namespace {

using flyring::Action;
using flyring::Channel;
using flyring::Job;
using flyring::Publisher;
using flyring::Worker;
using flyring::detail::attempts_beside;
using flyring::detail::ChannelFile;
using flyring::detail::taken_end_beside;
using queues::work_off_counting;
using support::bytes;
using support::Child;
using support::code_of;
using support::queue;
using support::text;
using support::work_off;
namespace layout = flyring::layout;

class QueueSurvivors : public queues::QueueTest {};

TEST_F(QueueSurvivors, a_killed_workers_job_goes_to_another) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher("p");
    Worker other = worker_of_slot_2(channel);
    publisher.offer(bytes("a"), 9);
    publisher.offer(bytes("b"));
    kill_a_worker(1, 0);
    const std::int64_t handovers = *support::raw("c").handovers();
    pause_for_a_look();
    std::optional<Job> job = other.take();
    ASSERT_TRUE(job);
    EXPECT_EQ(text(*job), "a");
    EXPECT_EQ(job->type(), 9);
    EXPECT_EQ(job->attempts(), 1);
    EXPECT_TRUE(job->repeat());
    EXPECT_EQ(job->ring(), 0U);
    EXPECT_EQ(job->position(), 64);
    EXPECT_EQ(job->sender().name, "p");
    EXPECT_EQ(*support::raw("c").handovers(), handovers + 1);
    EXPECT_EQ(*support::raw("c").ring(0).gate(1), -1);
    EXPECT_EQ(*support::raw("c").ring(0).gate(2), 64);
    job->done();
    EXPECT_EQ(work_off_counting(other), "b0 ");
}

TEST_F(QueueSurvivors, the_rest_of_a_killed_workers_batch_goes_to_another) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    Worker other = worker_of_slot_2(channel);
    for (const char* letter : {"a", "b", "c", "d", "e"}) publisher.offer(bytes(letter));
    kill_a_worker(4, 2);
    pause_for_a_look();
    EXPECT_EQ(work_off_counting(other, 10), "c1 d1 e0 ");
    EXPECT_EQ(work_off(other), "");
}

TEST_F(QueueSurvivors, a_batch_does_not_go_over_the_rings_end) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", queue(1, 2, 4096, alignment));
        Publisher publisher = channel.publisher();
        Worker other = worker_of_slot_2(channel);
        while (publisher.position() < 4096 - 3 * 64) {
            publisher.offer(bytes("filler filler filler"));
            work_off(other);
        }
        std::string expected;
        for (int i = 0; i < 3; ++i) {  // records of 80 or 128 bytes: the second does not fit before the ring's end
            const std::string message(70, static_cast<char>('a' + i));
            ASSERT_GT(publisher.offer(bytes(message)), 0);
            expected += message;
        }
        kill_a_worker(3, 0);
        pause_for_a_look();
        std::string seen;
        std::string attempts;
        while (other.poll(
                   [&](Job& job) {
                       seen += text(job);
                       attempts += std::to_string(job.attempts());
                   },
                   3) > 0) {
        }
        EXPECT_EQ(seen, expected);
        EXPECT_EQ(attempts, alignment == 8 ? "110" : "100");  // the padding ended the batch
        EXPECT_GT(publisher.position(), 4096);
    }
}

TEST_F(QueueSurvivors, the_next_owner_of_the_slot_goes_on_with_its_job) {
    Channel channel = Channel::create("c", queue(1, 1));
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b", "c"}) publisher.offer(bytes(letter));
    kill_a_worker(2, 0);
    kill_a_worker(1, 0);
    Worker next = channel.worker("next");
    EXPECT_EQ(work_off_counting(next), "a2 b2 c0 ");
    EXPECT_EQ(next.epoch(), 3);
    EXPECT_EQ(*support::raw("c").handovers(), 0);
}

TEST_F(QueueSurvivors, a_job_that_was_announced_and_not_taken_is_handed_out_as_new) {
    for (const bool next_owner : {false, true}) {
        Channel channel = Channel::replace("c", queue(1, 2));
        Publisher publisher = channel.publisher();
        publisher.offer(bytes("a"));
        Worker other = worker_of_slot_2(channel);
        const ChannelFile file = support::raw("c");
        *file.ring(0).gate(0) = 64;  // as if a worker had passed the owner record
        forge(file, 0, 64, 128, 3);  // killed between take 2 and 3
        pause_for_a_look();
        Worker first = next_owner ? channel.worker() : std::move(other);
        EXPECT_EQ(work_off_counting(first), "a0 ");
        EXPECT_EQ(*file.ring(0).gate(1), -1);
        EXPECT_EQ(*file.handovers(), 0);
    }
}

TEST_F(QueueSurvivors, a_worker_that_is_stopped_keeps_its_job) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    Worker other = worker_of_slot_2(channel);
    Child child([](const Child::Ready& ready) {
        Worker worker = Channel::open("c").worker();
        std::optional<Job> job = worker.take();
        ready();
        ::raise(SIGSTOP);
        job->done();
        return job.has_value();
    });
    child.wait_until_ready();
    for (int i = 0; i < 5; ++i) {
        pause_for_a_look();
        EXPECT_FALSE(other.take());
    }
    EXPECT_FALSE(other.ended());
    child.signal(SIGCONT);
    EXPECT_EQ(child.wait(), 0);
    pause_for_a_look();
    EXPECT_FALSE(other.take());
}

TEST_F(QueueSurvivors, a_dead_workers_job_holds_its_producer_and_is_named) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    kill_a_worker(1, 0, "dead");
    support::fill(publisher);
    for (int i = 0; i < 5; ++i) {  // it tests locks, but does not retire a worker that has a job
        support::sleep_past_a_look();
        EXPECT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    }
    ASSERT_TRUE(publisher.held_by());
    EXPECT_EQ(publisher.held_by()->slot, 1U);
    EXPECT_EQ(publisher.held_by()->name, "dead");
    EXPECT_FALSE(publisher.held_by()->live);
    EXPECT_EQ(publisher.readers(), 0U);
    const flyring::SubscriberStats stats = channel.stats().subscribers[1];
    EXPECT_EQ(stats.state, flyring::SlotState::away);
    ASSERT_TRUE(stats.in_hand);
    EXPECT_EQ(stats.in_hand->position, 64);
    Worker next = channel.worker();
    EXPECT_EQ(text(*next.take()), "a");
}

TEST_F(QueueSurvivors, an_evicted_worker_learns_of_it_and_its_job_goes_to_another) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b", "c"}) publisher.offer(bytes(letter));
    Worker victim = channel.worker("victim");
    Worker other = channel.worker("other");
    std::optional<Job> job = victim.take();
    EXPECT_EQ(channel.evict(1), 1);
    pause_for_a_look();
    EXPECT_EQ(work_off_counting(other), "a1 b0 c0 ");
    EXPECT_EQ(text(*job), "a");  // the victim may still read it
    try {
        job->done();
        FAIL();
    } catch (const flyring::SlotLost& error) {
        EXPECT_EQ(error.slot(), 1U);
    }
    EXPECT_EQ(code_of([&] { job->done(); }), "closed");
    EXPECT_EQ(code_of([&] { victim.take(); }), "slot-lost");
    EXPECT_EQ(code_of([&] { victim.poll([](Job&) {}); }), "slot-lost");
    EXPECT_EQ(code_of([&] { victim.ended(); }), "slot-lost");
    victim.close();
    EXPECT_EQ(victim.slot(), 1U);
    // An idle worker finds its eviction at its next take.
    EXPECT_EQ(channel.evict(2), 0);
    publisher.offer(bytes("d"));
    EXPECT_EQ(code_of([&] { other.take(); }), "slot-lost");
    Worker next = channel.worker();
    EXPECT_EQ(work_off_counting(next), "d0 ");
    EXPECT_EQ(*subscriber_slot(support::raw("c"), 1).evicting(), 0);
}

TEST_F(QueueSurvivors, an_evicted_worker_hands_out_nothing_more_of_its_batch) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b", "c"}) publisher.offer(bytes(letter));
    Worker victim = channel.worker();
    Worker other = channel.worker();
    std::string seen;
    EXPECT_EQ(code_of([&] {
                  victim.poll(
                      [&](Job& job) {
                          seen += text(job) + " ";
                          if (text(job) == "b") channel.evict(1);
                      },
                      3);
              }),
              "slot-lost");
    EXPECT_EQ(seen, "a b ");
    pause_for_a_look();
    EXPECT_EQ(work_off_counting(other, 2), "b1 c1 ");
    // Its release publishes nothing.
    publisher.offer(bytes("d"));
    std::optional<Job> job = other.take();
    channel.evict(2);
    EXPECT_EQ(code_of([&] { job->release(); }), "slot-lost");
    Worker next = channel.worker();
    pause_for_a_look();
    EXPECT_EQ(work_off_counting(next), "d1 ");
}

TEST_F(QueueSurvivors, a_live_worker_that_is_evicted_may_take_what_it_announced) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    Worker victim = channel.worker();
    Worker other = channel.worker();
    channel.evict(1);
    const ChannelFile file = support::raw("c");
    *file.ring(0).gate(0) = 64;
    forge(file, 0, 64, 128, 0);  // as if the victim were between take 2 and 3
    pause_for_a_look();
    std::optional<Job> job = other.take();
    EXPECT_EQ(text(*job), "a");
    EXPECT_EQ(job->attempts(), 0);
    EXPECT_EQ(*file.ring(0).gate(1), 64);  // left to the victim
    job->done();
    pause_for_a_look();
    job = other.take();  // it now looks as if the victim had taken the job, so it is handed out once more
    ASSERT_TRUE(job);
    EXPECT_EQ(job->attempts(), 1);
    job->done();
}

TEST_F(QueueSurvivors, a_release_without_room_keeps_the_job) {
    Channel channel = Channel::create("c", queue(1, 1));
    Publisher publisher = channel.publisher();
    Worker worker = channel.worker();
    const ChannelFile file = support::raw("c");
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    std::optional<Job> job = worker.take();
    const flyring::detail::Ring returns = file.ring(1);
    *returns.claimed() = *returns.published() = returns.start() + 4096;  // no room for the job's record
    *returns.gate(0) = returns.start() + 64;
    EXPECT_FALSE(job->release());
    EXPECT_EQ(code_of([&] { job->done(); }), "closed");
    EXPECT_EQ(*file.ring(0).gate(1), 64);
    for (int attempts = 1; attempts < 4; ++attempts) {
        job = worker.take();
        EXPECT_EQ(text(*job), "a");
        EXPECT_EQ(job->attempts(), attempts);
        EXPECT_EQ(*attempts_beside(file.ring(0).gate(1)), attempts);
        if (attempts < 3) {
            EXPECT_FALSE(job->release());
        }
    }
    job->done();
    *returns.gate(0) = *returns.published();
    EXPECT_EQ(work_off_counting(worker), "b0 ");
}

TEST_F(QueueSurvivors, the_attempts_of_a_job_that_stayed_do_not_pass_to_the_next_job) {
    Channel channel = Channel::create("c", queue(1, 1));
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b"}) publisher.offer(bytes(letter));
    Worker worker = channel.worker();
    const ChannelFile file = support::raw("c");
    const flyring::detail::Fd fd = flyring::detail::open_description(file.fd, file.path);
    ASSERT_TRUE(flyring::detail::lock_byte(fd, file.publisher_lock(1), file.path));  // another worker is releasing
    std::string seen;
    int throws = 2;
    const auto handler = [&](Job& job) {
        seen += text(job) + std::to_string(job.attempts()) + " ";
        if (throws-- > 0) throw std::runtime_error("handler");
    };
    EXPECT_THROW(worker.poll(handler, 2), std::runtime_error);
    EXPECT_THROW(worker.poll(handler, 2), std::runtime_error);
    EXPECT_EQ(worker.poll(handler, 2), 2);
    EXPECT_EQ(seen, "a0 a1 a2 b0 ");
    EXPECT_EQ(*attempts_beside(file.ring(0).gate(1)), 0);
    // With ABORT, the job stays in hand, too, and the poll ends: the same job would come again at once.
    publisher.offer(bytes("c"));
    EXPECT_EQ(worker.poll([](Job&) { return Action::ABORT; }, 5), 0);
    flyring::detail::unlock_byte(fd, file.publisher_lock(1));
    EXPECT_EQ(work_off_counting(worker), "c1 ");
}

TEST_F(QueueSurvivors, a_job_that_stayed_and_is_released_by_a_close_counts_one_attempt) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    Worker worker = channel.worker();
    {
        const ChannelFile file = support::raw("c");
        const flyring::detail::Fd fd = flyring::detail::open_description(file.fd, file.path);
        ASSERT_TRUE(flyring::detail::lock_byte(fd, file.publisher_lock(1), file.path));  // another worker is releasing
        EXPECT_FALSE(worker.take()->release());
    }
    worker.close();
    Worker next = channel.worker();
    EXPECT_EQ(work_off_counting(next), "a1 ");
}

TEST_F(QueueSurvivors, an_adopted_job_is_released_whole) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    Worker other = worker_of_slot_2(channel);
    publisher.offer(bytes("first"), 9);
    publisher.offer(bytes("second"), 8);
    kill_a_worker(2, 0);
    pause_for_a_look();
    std::optional<Job> job = other.take();
    ASSERT_TRUE(job);
    EXPECT_EQ(text(*job), "first");
    EXPECT_TRUE(job->release());
    EXPECT_EQ(work_off_counting(other), "second1 first2 ");
    // A close of its worker releases, too: the job of take, and the rest of the batch.
    publisher.offer(bytes("third"));
    publisher.offer(bytes("fourth"));
    kill_a_worker(2, 0);
    pause_for_a_look();
    job = other.take();
    ASSERT_TRUE(job);
    EXPECT_EQ(text(*job), "third");
    other.close();
    EXPECT_FALSE(*job);
    Worker next = channel.worker();
    EXPECT_EQ(work_off_counting(next), "third2 fourth2 ");
}

TEST_F(QueueSurvivors, a_throwing_handlers_job_is_released_and_the_rest_comes_next) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b", "c"}) publisher.offer(bytes(letter));
    Worker worker = channel.worker();
    std::string seen;
    try {
        worker.poll(
            [&](Job& job) {
                seen += text(job);
                if (text(job) == "b") throw std::runtime_error("no b");
            },
            3);
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "no b");
    }
    EXPECT_EQ(seen, "ab");
    Worker other = channel.worker();
    EXPECT_EQ(work_off_counting(other), "b1 ");
    EXPECT_EQ(work_off_counting(worker), "c0 ");
    // A handler that has finished its job and then throws leaves nothing to release.
    publisher.offer(bytes("d"));
    EXPECT_THROW(worker.poll([](Job& job) {
        job.done();
        throw std::runtime_error("late");
    }),
                 std::runtime_error);
    EXPECT_EQ(work_off(worker) + work_off(other), "");
}

TEST_F(QueueSurvivors, a_job_that_the_handler_moves_away_ends_with_its_handler) {
    Channel channel = Channel::create("c", queue());
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    Worker worker = channel.worker();
    std::optional<Job> kept;
    EXPECT_EQ(worker.poll([&](Job& job) { kept = std::move(job); }, 2), 2);
    EXPECT_FALSE(*kept);
    EXPECT_EQ(code_of([&] { kept->done(); }), "closed");
    EXPECT_EQ(work_off(worker), "");
}

TEST_F(QueueSurvivors, a_job_that_outlives_its_worker_is_closed) {
    Channel channel = Channel::create("c", queue(1, 2));
    channel.publisher().offer(bytes("a"));
    std::optional<Job> job;
    {
        Worker worker = channel.worker();
        job = worker.take();
    }
    EXPECT_FALSE(*job);
    EXPECT_EQ(code_of([&] { job->done(); }), "closed");
    EXPECT_EQ(code_of([&] { job->payload(); }), "closed");
    Worker next = channel.worker();
    EXPECT_EQ(work_off_counting(next), "a1 ");
}

TEST_F(QueueSurvivors, closing_the_channel_releases_what_is_in_hand) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    Worker worker = channel.worker();
    worker.poll([&](Job&) {
        EXPECT_EQ(code_of([&] { channel.close(); }), "view-alive");
        EXPECT_EQ(code_of([&] { worker.close(); }), "view-alive");
        EXPECT_EQ(code_of([&] { worker.take(); }), "two-threads");
        EXPECT_EQ(code_of([&] { worker.poll([](Job&) {}); }), "two-threads");
    });
    std::optional<Job> job = worker.take();
    channel.close();
    EXPECT_EQ(code_of([&] { job->payload(); }), "closed");
    EXPECT_EQ(code_of([&] { job->release(); }), "closed");
    EXPECT_EQ(code_of([&] { worker.take(); }), "closed");
    Channel again = Channel::open("c");
    Worker next = again.worker();
    EXPECT_EQ(work_off_counting(next), "b1 ");
}

TEST_F(QueueSurvivors, a_forked_child_changes_nothing) {
    Channel channel = Channel::create("c", queue(1, 1));
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    Worker worker = channel.worker();
    const auto child_finds = [](Job& job) {
        const pid_t child = ::fork();
        if (child != 0) return support::status_of(child);
        const bool good = code_of([&] { job.done(); }) == "closed" && code_of([&] { job.payload(); }) == "closed";
        ::_exit(good ? 0 : 1);
    };
    worker.poll([&](Job& job) { EXPECT_EQ(child_finds(job), 0); });
    std::optional<Job> job = worker.take();
    EXPECT_EQ(child_finds(*job), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        bool good = code_of([&] { worker.poll([](Job&) {}); }) == "closed";
        job.reset();
        good = good && code_of([&] { worker.ended(); }) == "closed";
        ::_exit(good ? 0 : 1);
    }
    EXPECT_EQ(support::status_of(child), 0);
    EXPECT_EQ(text(*job), "b");
    job->done();
    EXPECT_FALSE(worker.take());
    // A handler that forks and returns in the child: the child's poll ends there.
    publisher.offer(bytes("c"));
    pid_t other = -1;
    const std::string code = code_of([&] { worker.poll([&](Job&) { other = ::fork(); }); });
    if (other == 0) ::_exit(code == "closed" ? 0 : 1);
    EXPECT_EQ(support::status_of(other), 0);
    EXPECT_EQ(code, "none");
    EXPECT_EQ(work_off(worker), "");
}

TEST_F(QueueSurvivors, a_producer_that_waits_for_its_own_thread_is_busy) {
    using namespace std::chrono_literals;
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    Worker worker = channel.worker("own");
    const std::vector<flyring::Bytes> batch(200, bytes("x"));
    publisher.offer(bytes("first"));
    std::optional<Job> job = worker.take();
    support::fill(publisher);
    // Other workers can still make room, so the producer waits for them.
    Channel other = Channel::open("c");
    Worker second = other.worker();
    work_off(second);
    EXPECT_GE(support::fill(publisher), 0);
    work_off(second);
    try {
        publisher.send(bytes("x"));
        FAIL();
    } catch (const flyring::Busy& error) {
        EXPECT_EQ(error.holder()->slot, 1U);
        EXPECT_EQ(error.holder()->name, "own");
        EXPECT_EQ(error.holder()->position, 64);
        EXPECT_TRUE(error.holder()->live);
    }
    EXPECT_EQ(code_of([&] { publisher.claim(1); }), "busy");
    EXPECT_EQ(code_of([&] { publisher.send_batch(batch); }), "busy");
    EXPECT_EQ(code_of([&] { publisher.send(bytes("x"), 0ms); }), "back-pressured");
    EXPECT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    // Not busy in another thread: the worker's thread may finish the job.
    std::string code;
    std::thread([&] { code = code_of([&] { publisher.send(bytes("x"), 5ms); }); }).join();
    EXPECT_EQ(code, "back-pressured");
    job->done();
    EXPECT_GT(publisher.send(bytes("x"), 1s), 0);
    // Busy in a handler, too.
    work_off(second);
    publisher.offer(bytes("y"));
    EXPECT_EQ(code_of([&] {
                  worker.poll([&](Job&) {
                      for (;;) publisher.send(bytes("z"));
                  });
              }),
              "busy");
}

TEST_F(QueueSurvivors, a_worker_killed_in_its_release_leaves_a_whole_ring) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    Worker worker = channel.worker();
    const ChannelFile file = support::raw("c");
    const flyring::detail::Ring returns = file.ring(1);
    // As if killed after the announcement: `claimed` is ahead, and the bytes up to it are torn.
    *returns.claimed() = returns.start() + 128;
    *returns.type_at(returns.start()) = 77;
    EXPECT_TRUE(worker.take()->release());
    EXPECT_EQ(work_off_counting(worker), "a1 b0 ");
    EXPECT_EQ(*returns.claimed(), *returns.published());
    // A returns ring that cannot be recovered: release throws, and the job stays in hand.
    publisher.offer(bytes("c"));
    std::optional<Job> job = worker.take();
    const std::int64_t claimed = std::exchange(*returns.claimed(), 7);
    EXPECT_EQ(code_of([&] { job->release(); }), "corrupt-ring");
    *returns.claimed() = claimed;
    EXPECT_EQ(work_off_counting(worker), "c1 ");
}

/// Kills workers at random moments: no job is lost, and only a job with a reason comes twice.
TEST_F(QueueSurvivors, random_kills_lose_no_job) {
    Channel channel = Channel::create("c", queue(1, 4, 65536));
    Channel results = Channel::create("results", support::inbox(8, 1, 1 << 20));
    flyring::Subscriber reader = results.subscriber();
    const auto work = [](const Child::Ready& ready) {
        Channel own = Channel::open("c");
        Channel out = Channel::open("results");
        Worker worker = own.worker();
        Publisher publisher = out.publisher();
        ready();
        for (;;) {
            worker.poll(
                [&](Job& job) {
                    const std::int64_t result[] = {job.as<std::int64_t>(), job.attempts()};
                    publisher.send(flyring::bytes_of(result));
                    if (job.as<std::int64_t>() % 17 == 3 && !job.repeat()) job.release();
                },
                3, std::chrono::milliseconds(5));
        }
        return true;
    };
    std::map<std::int64_t, int> plain;
    std::map<std::int64_t, int> all;
    const auto read = [&] {
        while (reader.poll([&](const flyring::Message& message) {
            const auto* words = reinterpret_cast<const std::int64_t*>(message.data());
            ++all[words[0]];
            if (words[1] == 0) ++plain[words[0]];
        }) > 0) {
        }
    };
    Publisher publisher = channel.publisher();
    std::int64_t sent = 0;
    unsigned random = 1;
    for (int round = 0; round < 40; ++round) {
        Child one(work);
        Child two(work);
        one.wait_until_ready();
        two.wait_until_ready();
        random = random * 1103515245 + 12345;
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(random / 65536 % 6000);
        while (std::chrono::steady_clock::now() < end) {
            if (publisher.offer(flyring::bytes_of(sent)) > 0) ++sent;
            read();
        }
        one.kill();
        two.kill();
    }
    publisher.close();
    Worker last = channel.worker();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!last.ended() && std::chrono::steady_clock::now() < deadline) {
        last.poll(
            [&](Job& job) {
                ++all[job.as<std::int64_t>()];
                if (job.attempts() == 0) ++plain[job.as<std::int64_t>()];
            },
            10, std::chrono::milliseconds(1));
        read();
    }
    read();
    EXPECT_TRUE(last.ended());
    EXPECT_GT(sent, 100);
    EXPECT_EQ(all.size(), static_cast<std::size_t>(sent));
    for (const auto& [job, times] : plain) EXPECT_EQ(times, 1) << job;
}

}  // namespace
