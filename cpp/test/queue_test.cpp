// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>

#include "support.hpp"

// The verbs of a queue: which jobs a worker gets, in which order, what it may do with a job, and which calls are
// refused.

namespace {

using flyring::Action;
using flyring::Channel;
using flyring::Job;
using flyring::Kind;
using flyring::Options;
using flyring::Publisher;
using flyring::SlotState;
using flyring::Worker;
using support::bytes;
using support::code_of;
using support::queue;
using support::text;
using support::work_off;
namespace layout = flyring::layout;

/// The argument for which a create with these options throws InvalidArgument; "none" if it succeeds.
std::string refused(const std::function<void(Options&)>& change, Options options = queue(),
                    const std::string& name = "refused") {
    change(options);
    try {
        Channel::replace(name, options);
    } catch (const flyring::InvalidArgument& error) {
        return error.argument();
    }
    return "none";
}

class Queue : public support::ChannelTest {};

TEST_F(Queue, each_job_goes_to_one_worker) {
    Channel channel = Channel::create("c", queue(2, 3));
    Publisher a = channel.publisher("a");
    Publisher b = channel.publisher("b");
    Worker first = channel.worker("first");
    Worker second = channel.worker("second");
    EXPECT_EQ(first.slot(), 1U);
    EXPECT_EQ(second.slot(), 2U);
    EXPECT_EQ(first.epoch(), 1);
    EXPECT_EQ(second.name(), "second");
    EXPECT_FALSE(first.take());
    std::set<std::string> seen;
    for (int i = 0; i < 100; ++i) {
        ASSERT_GT(a.offer(bytes("a" + std::to_string(i)), 7), 0);
        ASSERT_GT(b.offer(bytes("b" + std::to_string(i)), 8), 0);
        for (Worker* worker : {&first, &second}) {
            std::optional<Job> job = worker->take();
            ASSERT_TRUE(job);
            EXPECT_EQ(job->type(), job->ring() == 0 ? 7 : 8);
            EXPECT_EQ(job->sender().name, job->ring() == 0 ? "a" : "b");
            EXPECT_EQ(job->sender().epoch, 1);
            EXPECT_EQ(job->attempts(), 0);
            EXPECT_FALSE(job->repeat());
            EXPECT_TRUE(seen.insert(text(*job)).second) << text(*job);
            job->done();
        }
    }
    EXPECT_EQ(seen.size(), 200U);
    EXPECT_FALSE(first.take());
    EXPECT_FALSE(second.take());
}

TEST_F(Queue, jobs_of_one_producer_come_in_its_order) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        for (const int limit : {1, 2, 7, 1000}) {
            Channel channel = Channel::replace("c", queue(1, 2, 4096, alignment));
            Publisher publisher = channel.publisher();
            Worker workers[] = {channel.worker(), channel.worker()};
            std::uint32_t sent = 0;
            std::uint32_t seen = 0;
            while (seen < 5000) {  // many laps
                while (publisher.offer(flyring::bytes_of(sent)) != flyring::back_pressured) ++sent;
                const int done = workers[seen % 2].poll(
                    [&](Job& job) {
                        ASSERT_EQ(job.as<std::uint32_t>(), seen) << limit;
                        EXPECT_EQ(job.ring(), 0U);
                        ++seen;
                    },
                    limit);
                ASSERT_GT(done, 0);
                ASSERT_LE(done, limit);
            }
        }
    }
}

TEST_F(Queue, jobs_of_every_length_wrap_around_the_ring) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", queue(1, 1, 4096, alignment));
        Publisher publisher = channel.publisher();
        Worker worker = channel.worker();
        ASSERT_EQ(publisher.max_message_length(), 4096U / 4 - 24);
        std::vector<std::byte> message(publisher.max_message_length());
        for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(7 * i);
        for (std::size_t length = 0; length <= message.size(); length += 13) {
            ASSERT_GT(publisher.offer({message.data(), length}), 0);
            std::optional<Job> job = worker.take();
            ASSERT_TRUE(job);
            ASSERT_EQ(job->size(), length);
            ASSERT_EQ(std::memcmp(job->data(), message.data(), length), 0);
            // Released, it comes back intact through the returns ring.
            const std::int64_t position = job->position();
            ASSERT_TRUE(job->release());
            std::optional<Job> again = worker.take();
            ASSERT_TRUE(again);
            ASSERT_EQ(again->size(), length);
            ASSERT_EQ(std::memcmp(again->data(), message.data(), length), 0);
            EXPECT_EQ(again->position(), position);
            EXPECT_EQ(again->attempts(), 1);
            again->done();
        }
    }
}

TEST_F(Queue, a_message_that_the_returns_ring_cannot_take_is_too_large) {
    Channel channel = Channel::create("c", queue());
    Publisher publisher = channel.publisher();
    const std::vector<std::byte> longest(4096 / 4 - 24);
    const std::vector<std::byte> longer(longest.size() + 1);
    EXPECT_GT(publisher.offer(longest), 0);
    try {
        publisher.offer(longer);
        FAIL();
    } catch (const flyring::MessageTooLarge& error) {
        EXPECT_EQ(error.length(), longer.size());
        EXPECT_EQ(error.limit(), longest.size());
    }
    EXPECT_EQ(code_of([&] { publisher.try_claim(longer.size()); }), "too-large");
    const flyring::Bytes batch[] = {bytes("short"), longer};
    EXPECT_EQ(code_of([&] { publisher.offer_batch(batch); }), "too-large");
}

TEST_F(Queue, a_released_job_goes_to_others_and_keeps_its_identity) {
    Channel channel = Channel::create("c", queue(2, 2));
    const Publisher first = channel.publisher();
    Publisher publisher = channel.publisher("second");
    ASSERT_EQ(publisher.ring(), 1U);
    publisher.offer(bytes("a"), 5);
    publisher.offer(bytes("b"));
    Worker worker = channel.worker();
    std::optional<Job> job = worker.take();
    const std::int64_t position = job->position();
    EXPECT_EQ(position, layout::START_STRIDE + 64);  // after the owner record
    EXPECT_TRUE(job->release());
    Worker other = channel.worker();
    std::optional<Job> b = other.take();
    EXPECT_EQ(text(*b), "b");
    b->done();
    for (int attempts = 1; attempts < 4; ++attempts) {
        Worker& next = attempts % 2 == 0 ? worker : other;
        std::optional<Job> again = next.take();
        ASSERT_TRUE(again);
        EXPECT_EQ(text(*again), "a");
        EXPECT_EQ(again->ring(), 1U);
        EXPECT_EQ(again->position(), position);
        EXPECT_EQ(again->type(), 5);
        EXPECT_EQ(again->attempts(), attempts);
        EXPECT_TRUE(again->repeat());
        EXPECT_EQ(again->sender().epoch, 0);  // not known any more
        EXPECT_EQ(again->sender().ring, 1U);
        EXPECT_TRUE(again->release());
    }
}

TEST_F(Queue, a_finished_job_cannot_be_used) {
    Channel channel = Channel::create("c", queue());
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    Worker worker = channel.worker();
    std::optional<Job> job = worker.take();
    EXPECT_TRUE(*job);
    job->done();
    EXPECT_FALSE(*job);
    EXPECT_EQ(code_of([&] { job->done(); }), "closed");
    EXPECT_EQ(code_of([&] { job->release(); }), "closed");
    EXPECT_EQ(code_of([&] { job->payload(); }), "closed");
    EXPECT_EQ(code_of([&] { job->as<char>(); }), "closed");
    EXPECT_EQ(code_of([&] { job->sender(); }), "closed");
    EXPECT_EQ(job->size(), 1U);
    EXPECT_EQ(job->attempts(), 0);
    // A moved job lives on in the new object; the old object counts as finished.
    std::optional<Job> next = worker.take();
    Job moved = *std::move(next);
    EXPECT_EQ(code_of([&] { next->done(); }), "closed");
    EXPECT_EQ(text(moved), "b");
    moved.done();
    EXPECT_EQ(work_off(worker), "");
}

TEST_F(Queue, a_dropped_job_is_released) {
    Channel channel = Channel::create("c", queue());
    channel.publisher().offer(bytes("a"));
    Worker worker = channel.worker();
    {
        const std::optional<Job> job = worker.take();
    }
    std::optional<Job> again = worker.take();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->attempts(), 1);
    again = std::nullopt;
    again = worker.take();
    EXPECT_EQ(again->attempts(), 2);
    again->done();
    EXPECT_FALSE(worker.take());
}

TEST_F(Queue, one_job_of_take_at_a_time) {
    Channel channel = Channel::create("c", queue());
    Publisher publisher = channel.publisher();
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    Worker worker = channel.worker();
    std::optional<Job> job = worker.take();
    EXPECT_EQ(code_of([&] { worker.take(); }), "view-alive");
    EXPECT_EQ(code_of([&] { worker.poll([](Job&) {}); }), "view-alive");
    EXPECT_EQ(text(*job), "a");
    job->done();
    EXPECT_EQ(work_off(worker), "b ");
}

TEST_F(Queue, a_handler_says_what_becomes_of_its_job) {
    Channel channel = Channel::create("c", queue());
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b", "c", "d", "e", "f", "g"}) publisher.offer(bytes(letter));
    Worker worker = channel.worker();
    std::string seen;
    const auto returning = [&](Action action) {
        return [&seen, action](Job& job) {
            seen += text(job) + std::to_string(job.attempts()) + " ";
            return action;
        };
    };
    EXPECT_EQ(worker.poll(returning(Action::CONTINUE), 2), 2);
    EXPECT_EQ(worker.poll(returning(Action::COMMIT), 1), 1);
    EXPECT_EQ(worker.poll(returning(Action::BREAK), 100), 1);
    EXPECT_EQ(worker.poll(returning(Action::ABORT), 100), 0);  // e is released
    EXPECT_EQ(worker.poll(returning(Action::CONTINUE), 100), 3);
    EXPECT_EQ(seen, "a0 b0 c0 d0 e0 f0 g0 e1 ");
    publisher.offer(bytes("h"));
    const auto bad = [](Job&) { return static_cast<Action>(9); };
    EXPECT_EQ(code_of([&] { worker.poll(bad); }), "invalid-argument");  // the job is done
    publisher.offer(bytes("i"));
    publisher.offer(bytes("j"));
    // The handler finishes its jobs itself; its result only decides whether the poll goes on.
    std::multiset<std::string> finished;
    const auto finishing = [&](Job& job) {
        const std::string letter = text(job);
        finished.insert(letter + std::to_string(job.attempts()));
        if (letter == "j" && !job.repeat()) {
            EXPECT_TRUE(job.release());
        } else {
            job.done();
        }
        EXPECT_EQ(code_of([&] { job.done(); }), "closed");
        return letter == "i" ? Action::ABORT : Action::CONTINUE;
    };
    while (worker.poll(finishing, 10) > 0) {
    }
    EXPECT_EQ(finished, (std::multiset<std::string>{"i0", "j0", "j1"}));
}

/// In the folder for temporary files: the file has 143 MB, and the /dev/shm of a container often has 64 MiB.
TEST_F(Queue, the_greatest_queue_can_be_made) {
    std::string folder = (std::filesystem::temp_directory_path() / "flyring-queue-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    const auto greatest = [](Options& asked) {
        asked.producers = asked.workers = 1023;
        asked.any_file_system = true;
    };
    EXPECT_EQ(refused(greatest, queue(), folder + "/greatest.ring"), "none");
    std::filesystem::remove_all(folder);
}

TEST_F(Queue, options_of_a_queue_are_producers_and_workers) {
    EXPECT_EQ(refused([](Options&) {}), "none");
    EXPECT_EQ(refused([](Options& asked) { asked.publishers = 2; }), "publishers");
    EXPECT_EQ(refused([](Options& asked) { asked.subscribers = 2; }), "subscribers");
    EXPECT_EQ(refused([](Options& asked) { asked.producers = 0; }), "producers");
    EXPECT_EQ(refused([](Options& asked) { asked.producers = 1024; }), "producers");
    EXPECT_EQ(refused([](Options& asked) { asked.workers = 0; }), "workers");
    EXPECT_EQ(refused([](Options& asked) { asked.workers = 1024; }), "workers");
    EXPECT_EQ(refused([](Options& asked) { asked.foreign = flyring::Foreign::publisher; }), "foreign");
    EXPECT_EQ(refused([](Options& asked) { asked.producers = 2; }, support::broadcast()), "producers");
    EXPECT_EQ(refused([](Options& asked) { asked.workers = 2; }, support::inbox()), "workers");

    Options options;
    options.kind = Kind::queue;
    Channel channel = Channel::create("c", options);
    EXPECT_EQ(channel.kind(), Kind::queue);
    EXPECT_EQ(channel.producers(), 4U);
    EXPECT_EQ(channel.workers(), 4U);
    EXPECT_EQ(channel.publishers(), 5U);
    EXPECT_EQ(channel.subscribers(), 5U);
    EXPECT_EQ(Channel::open_or_create("c", options).workers(), 4U);
    const auto differs = [&](const std::function<void(Options&)>& change) -> std::string {
        Options asked = options;
        change(asked);
        try {
            Channel::open_or_create("c", asked);
        } catch (const flyring::ChannelDiffers& error) {
            return error.field() + " " + error.expected() + " " + error.actual();
        }
        return "none";
    };
    EXPECT_EQ(differs([](Options& asked) { asked.producers = 7; }), "producers 7 4");
    EXPECT_EQ(differs([](Options& asked) { asked.workers = 7; }), "workers 7 4");
    EXPECT_EQ(differs([](Options& asked) { asked.kind = Kind::broadcast; }), "kind broadcast queue");
    Channel other = Channel::create("other", support::broadcast());
    EXPECT_EQ(other.producers(), 0U);
    EXPECT_EQ(other.workers(), 0U);
}

TEST_F(Queue, a_header_with_too_few_slots_is_corrupt) {
    for (const auto& [offset, name] :
         {std::pair{layout::HEADER_PUBLISHERS, "publishers"}, std::pair{layout::HEADER_SUBSCRIBERS, "subscribers"}}) {
        Channel::replace("c", queue()).close();
        std::vector<std::byte> page = support::read_file(file("c"));
        flyring::detail::put(page.data() + offset, std::int32_t{1});
        flyring::detail::put(page.data() + layout::HEADER_CRC,
                             flyring::detail::crc32c(page.data(), layout::HEADER_CRC_LENGTH));
        support::write_file(file("c"), page);
        try {
            Channel::open("c");
            FAIL() << name;
        } catch (const flyring::CorruptHeader& error) {
            EXPECT_EQ(error.field(), name);
        }
    }
}

TEST_F(Queue, verbs_of_other_kinds_are_refused) {
    Channel channel = Channel::create("c", queue(2, 2));
    const auto argument = [](const std::function<void()>& action) -> std::string {
        try {
            action();
        } catch (const flyring::InvalidArgument& error) {
            return error.argument();
        }
        return "none";
    };
    EXPECT_EQ(argument([&] { channel.subscriber(); }), "kind");
    EXPECT_EQ(argument([&] { channel.publisher("p", 4096); }), "max_lag");
    EXPECT_EQ(argument([&] { channel.evict(0); }), "slot");
    EXPECT_EQ(argument([&] { channel.evict(3); }), "slot");
    EXPECT_EQ(argument([&] { channel.lossy_subscriber({2}); }), "rings");
    EXPECT_EQ(argument([&] { channel.worker("no such letter!"); }), "name");
    EXPECT_EQ(argument([&] { channel.worker("w", std::chrono::nanoseconds(-1)); }), "timeout");
    EXPECT_EQ(channel.lossy_subscriber().rings(), (flyring::Rings{0, 1}));
    Channel other = Channel::create("other", support::broadcast());
    EXPECT_EQ(argument([&] { other.worker(); }), "kind");
    Channel reading = Channel::open("c", [] {
        flyring::OpenOptions options;
        options.read_only = true;
        return options;
    }());
    EXPECT_EQ(code_of([&] { reading.worker(); }), "access-denied");
    Worker worker = channel.worker();
    EXPECT_EQ(argument([&] { worker.take(std::chrono::nanoseconds(-1)); }), "timeout");
    EXPECT_EQ(argument([&] { worker.set_spin(std::chrono::nanoseconds(-1)); }), "spin");
}

TEST_F(Queue, has_no_more_slots_than_it_was_made_with) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher("p");
    Worker first = channel.worker("first");
    Worker second = channel.worker("second");
    try {
        channel.publisher();
        FAIL();
    } catch (const flyring::NoFreeSlot& error) {
        EXPECT_EQ(error.kind(), "publisher");
        EXPECT_EQ(error.slots(), 1U);
    }
    try {
        channel.worker();
        FAIL();
    } catch (const flyring::NoFreeSlot& error) {
        EXPECT_EQ(error.kind(), "subscriber");
        EXPECT_EQ(error.slots(), 2U);
        ASSERT_EQ(error.owners().size(), 2U);
        EXPECT_EQ(error.owners()[0].slot, 1U);
        EXPECT_EQ(error.owners()[1].name, "second");
    }
    first.close();
    EXPECT_EQ(channel.worker().slot(), 1U);
}

TEST_F(Queue, jobs_hold_their_producer_back_until_they_are_done) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    EXPECT_EQ(publisher.readers(), 0U);
    int sent = support::fill(publisher);
    ASSERT_GT(sent, 10);
    ASSERT_TRUE(publisher.held_by());
    EXPECT_EQ(publisher.held_by()->slot, 0U);
    EXPECT_FALSE(publisher.held_by()->live);
    Worker worker = channel.worker("slow");
    EXPECT_EQ(publisher.readers(), 1U);
    std::optional<Job> slow = worker.take();
    sent += support::fill(publisher);  // the space of the owner record
    EXPECT_EQ(publisher.held_by()->slot, 1U);
    EXPECT_EQ(publisher.held_by()->name, "slow");
    EXPECT_TRUE(publisher.held_by()->live);
    // Another worker does the other jobs meanwhile; the producer waits for the slow job only.
    Worker other = channel.worker();
    EXPECT_EQ(work_off(other).size(), 2U * (static_cast<std::size_t>(sent) - 1));
    EXPECT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    EXPECT_EQ(publisher.held_by()->position, slow->position());
    const flyring::Stats stats = channel.stats();
    EXPECT_EQ(stats.publishers[0].blocked_by, std::vector<std::uint32_t>{1});
    slow->done();
    EXPECT_GT(support::fill(publisher), 10);
}

TEST_F(Queue, flush_waits_until_every_job_is_done_or_released) {
    using namespace std::chrono_literals;
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    publisher.flush(0ms);
    publisher.offer(bytes("a"));
    EXPECT_EQ(code_of([&] { publisher.flush(0ms); }), "timed-out");
    Worker worker = channel.worker();
    std::optional<Job> job = worker.take();
    EXPECT_EQ(code_of([&] { publisher.flush(1ms); }), "busy");  // this thread has the job in hand
    EXPECT_TRUE(job->release());
    publisher.flush(0ms);
    EXPECT_EQ(work_off(worker), "a ");
}

TEST_F(Queue, a_batch_is_of_at_most_an_eighth_of_the_ring) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    for (int i = 0; i < 20; ++i) publisher.offer(bytes("x"));
    Worker worker = channel.worker();
    const auto file = support::raw("c");
    std::int64_t end = 0;
    EXPECT_EQ(worker.poll(
                  [&](Job&) {
                      end = *flyring::detail::taken_end_beside(file.ring(0).gate(1));
                      return Action::BREAK;
                  },
                  100),
              1);
    EXPECT_EQ(end, 64 + 4096 / 8);  // after the owner record: eight jobs
    EXPECT_EQ(*file.ring(0).gate(0), end);
    EXPECT_EQ(*file.ring(0).gate(1), 128);  // the gate is at the batch's second job
    // The rest of the batch comes first, then untaken jobs.
    EXPECT_EQ(worker.poll([](Job&) {}, 100), 19);
    // A longer job is a batch of its own.
    publisher.offer(std::vector<std::byte>(900));
    publisher.offer(bytes("x"));
    EXPECT_EQ(worker.poll([](Job&) {}, 100), 2);
}

TEST_F(Queue, a_job_in_front_of_its_rings_owner_has_no_sender) {
    Channel channel = Channel::create("c", queue());
    Worker worker = channel.worker();
    Publisher first = channel.publisher("first");
    first.offer(bytes("a"));
    first.offer(bytes("b"));
    std::optional<Job> job = worker.take();
    EXPECT_EQ(job->sender().name, "first");
    job->done();
    first.close();
    Publisher second = channel.publisher("second");
    ASSERT_EQ(second.ring(), 0U);
    second.offer(bytes("c"));
    job = worker.take();
    EXPECT_EQ(text(*job), "b");
    EXPECT_EQ(job->sender().epoch, 0);
    EXPECT_EQ(job->sender().name, "");
    job->done();
    job = worker.take();
    EXPECT_EQ(text(*job), "c");
    EXPECT_EQ(job->sender().name, "second");
    EXPECT_EQ(job->sender().epoch, 2);
    job->done();
}

TEST_F(Queue, stats_say_which_worker_has_which_job_and_how_many_wait) {
    flyring::detail::InEnvironment environment;
    environment.environment.monotonic = 12345;
    Channel channel = environment.create("c", queue(2, 2));
    flyring::Stats stats = channel.stats();
    EXPECT_EQ(stats.kind, Kind::queue);
    ASSERT_EQ(stats.publishers.size(), 3U);
    EXPECT_EQ(stats.publishers[0].state, SlotState::unused);
    EXPECT_EQ(stats.publishers[2].state, SlotState::returns);
    ASSERT_EQ(stats.subscribers.size(), 3U);
    EXPECT_EQ(stats.subscribers[0].state, SlotState::shared);
    EXPECT_TRUE(stats.subscribers[0].kept);
    EXPECT_EQ(stats.subscribers[1].state, SlotState::unused);
    ASSERT_EQ(stats.subscribers[0].gates.size(), 3U);
    EXPECT_EQ(stats.subscribers[0].gates[1].position, 64);

    Publisher publisher = channel.publisher();
    Worker worker = channel.worker("w");
    for (const char* letter : {"a", "b", "c"}) publisher.offer(bytes(letter));
    EXPECT_EQ(channel.stats().subscribers[0].gates[0].lag_messages, 3);
    std::optional<Job> job = worker.take();
    stats = channel.stats();
    EXPECT_EQ(stats.subscribers[0].gates[0].lag_messages, 2);
    const flyring::SubscriberStats& busy = stats.subscribers[1];
    EXPECT_EQ(busy.state, SlotState::live);
    ASSERT_TRUE(busy.in_hand);
    EXPECT_EQ(busy.in_hand->ring, 0U);
    EXPECT_EQ(busy.in_hand->position, job->position());
    EXPECT_EQ(busy.in_hand->end, job->position() + 64);
    EXPECT_EQ(busy.in_hand->attempts, 0);
    EXPECT_EQ(busy.in_hand->busy_since, 12345);
    ASSERT_EQ(busy.gates.size(), 1U);
    EXPECT_EQ(busy.gates[0].position, job->position());
    EXPECT_FALSE(stats.subscribers[2].in_hand);
    job->done();
    EXPECT_FALSE(channel.stats().subscribers[1].in_hand);
    EXPECT_TRUE(channel.stats().subscribers[1].gates.empty());
    EXPECT_EQ(channel.stats().subscribers[0].gates[0].lag_messages, 2);
    // A released job waits on the returns ring.
    job = worker.take();
    job->release();
    EXPECT_EQ(channel.stats().subscribers[0].gates[0].lag_messages, 1);
    EXPECT_EQ(channel.stats().subscribers[0].gates[2].lag_messages, 1);
}

TEST_F(Queue, a_lossy_subscriber_looks_on) {
    Channel channel = Channel::create("c", queue());
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    Publisher publisher = channel.publisher();
    Worker worker = channel.worker();
    publisher.offer(bytes("a"));
    publisher.offer(bytes("b"));
    EXPECT_TRUE(worker.take()->release());
    EXPECT_EQ(work_off(worker).size(), 4U);
    EXPECT_EQ(support::drain(lossy), "a b ");  // each once, as it was published
}

TEST_F(Queue, close_releases_what_is_in_hand) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b", "c", "d"}) publisher.offer(bytes(letter));
    Worker worker = channel.worker();
    EXPECT_EQ(worker.poll([](Job&) { return Action::BREAK; }, 3), 1);  // b and c of the batch are left
    std::optional<Job> job = worker.take();
    EXPECT_EQ(text(*job), "b");
    worker.close();
    worker.close();
    EXPECT_FALSE(*job);
    EXPECT_EQ(code_of([&] { job->done(); }), "closed");
    EXPECT_EQ(code_of([&] { job->payload(); }), "closed");
    EXPECT_EQ(code_of([&] { worker.take(); }), "closed");
    EXPECT_EQ(code_of([&] { worker.poll([](Job&) {}); }), "closed");
    EXPECT_EQ(code_of([&] { worker.ended(); }), "closed");
    EXPECT_EQ(code_of([&] { worker.drain(); }), "closed");
    EXPECT_EQ(worker.slot(), 1U);
    Worker next = channel.worker();
    std::string seen;
    while (next.poll([&](Job& one) { seen += text(one) + std::to_string(one.attempts()) + " "; }) > 0) {
    }
    EXPECT_EQ(seen, "d0 b1 c1 ");
}

TEST_F(Queue, a_typed_view_and_a_message_of_a_job) {
    Channel channel = Channel::create("c", queue());
    Publisher publisher = channel.publisher();
    publisher.offer(flyring::bytes_of(std::int64_t{42}), 3);
    Worker worker = channel.worker();
    EXPECT_EQ(worker.poll([](Job& job) {
        EXPECT_EQ(job.as<std::int64_t>(), 42);
        EXPECT_EQ(job.message().as<std::int64_t>(), 42);
        EXPECT_EQ(job.message().type(), 3);
        EXPECT_EQ(job.message().ring(), job.ring());
        EXPECT_EQ(job.payload().size(), 8U);
        EXPECT_FALSE(job.empty());
        EXPECT_EQ(code_of([&] { job.as<long double>(); }), "invalid-argument");
    }),
              1);
}

}  // namespace
