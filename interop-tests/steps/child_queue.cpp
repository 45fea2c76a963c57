// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "child.hpp"

// Operations of a queue's workers, and of its producers (spec/queue.md). The worker that dies has slot 2; those in
// front of it are the child's, too. Behind the second mark it goes on: it works off all there is, and makes a third
// mark when it has nothing in hand. If it was evicted meanwhile it ends with SlotLost instead, and the child with a
// status of its own (child.cpp).

namespace steps {

namespace {

using flyring::Action;
using flyring::Job;
using flyring::Worker;

constexpr int many = 256;

/// Says in PATH.done how often the child has finished the job of each type.
class Finished {
  public:
    explicit Finished(const Run& run) : done_(done_page(run)) {}
    void add(std::int32_t type) const {
        require(type > 0 && type < disturbed_at, "another type");
        volatile unsigned char& count = done_[type];
        count = static_cast<unsigned char>(count + 1);
    }
    /// Finishes a job, and says so.
    void finish(Job& job) const {
        const std::int32_t type = job.type();
        job.done();
        add(type);
    }

    /// The child was stopped in between, and another process did something. So what it finds may differ.
    bool is_disturbed() const { return done_[disturbed_at] != 0; }

  private:
    volatile unsigned char* done_;
};

/// Workers up to that slot; the last one has it.
std::vector<Worker> workers(Run& run, std::uint32_t slot) {
    std::vector<Worker> all;
    do {
        all.push_back(run.channel.worker());
    } while (all.back().slot() < slot);
    require(all.back().slot() == slot, "another slot");
    return all;
}

void work_off(Worker& worker) {
    while (worker.poll([](Job&) {}, many) > 0) {
    }
}

/// Another worker takes all that is there.
void work_off(Run& run) {
    Worker other = run.channel.worker();
    work_off(other);
    static std::vector<Worker> kept;  // its slot stays taken
    kept.push_back(std::move(other));
}

void go_on(const Finished& finished, Worker& worker) {
    while (std::optional<Job> job = worker.take()) finished.finish(*job);
    mark();
}

void send(Sender& sender, std::size_t length) {
    const auto bytes = payload(0, sender.sequence, length);
    require(sender.publisher.offer({bytes.data(), bytes.size()}, type_of(sender.sequence)) > 0, "back-pressured");
    ++sender.sequence;
}

/// A process that dies with up to `limit` jobs in the hand of slot `slot`, the first of which it had not finished.
void die_with_jobs(Run& run, std::uint32_t slot, int limit = 1) {
    die([&] {
        Run other{run.path, run.sequence, {}};
        std::vector<Worker> all = workers(other, slot);
        all.back().poll([](Job&) { ::_exit(0); }, limit);
    });
}

// Take.

/// One job.
void take_one(const Run& run, std::vector<Worker>& all, std::int32_t attempts = 0) {
    const Finished finished(run);
    Worker& worker = all.back();
    mark();
    std::optional<Job> job = worker.take();
    mark();
    require(job || finished.is_disturbed(), "no job");
    if (job) {
        require(job->attempts() == attempts || finished.is_disturbed(), "other attempts");
        finished.finish(*job);
    }
    go_on(finished, worker);
}

void take(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    take_one(run, all);
}

/// The slot that the last owner of it left.
void take_own(Run& run) {
    std::vector<Worker> all = workers(run, 1);
    take_one(run, all);
}

void take_batch(Run& run) {
    const Finished finished(run);
    std::vector<Worker> all = workers(run, 2);
    bool marked = false;
    mark();
    all.back().poll(
        [&](Job& job) {
            if (!std::exchange(marked, true)) mark();
            finished.finish(job);
        },
        3);
    if (!marked) mark();
    go_on(finished, all.back());
}

/// Over padding.
void take_padding(Run& run) {
    Sender sender = run.sender();
    std::vector<Worker> all = workers(run, 2);
    constexpr std::size_t length = 300;
    const std::int64_t unit = run.channel.alignment();
    const std::int64_t size = (static_cast<std::int64_t>(length) + 8 + unit - 1) & -unit;
    while (sender.publisher.position() % run.capacity() + size <= run.capacity()) {
        send(sender, length);
        work_off(all.back());
    }
    send(sender, length);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // so that it looks for the dead, in every run
    take_one(run, all);
}

/// Over an owner record.
void take_owner(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    work_off(all.front());
    Sender sender = run.sender();
    send(sender, 30);
    send(sender, 40);
    take_one(run, all);
}

/// From the returns ring.
void take_returned(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    std::optional<Job> job = all.front().take();
    work_off(run);
    require(job->release(), "the release found no room");
    take_one(run, all, 1);
}

/// Behind a job of a dead one, whose number of attempts is not this one's.
void take_after(Run& run) {
    std::vector<Worker> all = workers(run, 1);
    die_with_jobs(run, 3);
    for (Worker& worker : workers(run, 2)) all.push_back(std::move(worker));
    std::optional<Job> job = all.back().take();
    require(job && job->attempts() == 1, "it did not adopt");
    job->done();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // so that it looks for the dead, in every run
    take_one(run, all);
}

/// Another worker lives, and has a job in hand.
void take_beside(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    Worker other = run.channel.worker();
    std::optional<Job> job = other.take();
    take_one(run, all);
    Finished(run).finish(*job);
}

/// It finds nothing, and sleeps.
void take_asleep(Run& run) {
    const Finished finished(run);
    std::vector<Worker> all = workers(run, 2);
    work_off(all.front());
    all.back().set_spin(std::chrono::nanoseconds::zero());
    stop_at_sleep();
    mark();
    all.back().take(flyring::forever);
    require(false, "there was a job");
}

// Done.

void done(Run& run) {
    const Finished finished(run);
    std::vector<Worker> all = workers(run, 2);
    std::optional<Job> job = all.back().take();
    const std::int32_t type = job->type();
    mark();
    job->done();
    mark();
    finished.add(type);
    go_on(finished, all.back());
}

/// The `n`-th job of a batch of three.
void done_of_batch(Run& run, int n) {
    const Finished finished(run);
    std::vector<Worker> all = workers(run, 2);
    int seen = 0;
    all.back().poll(
        [&](Job& job) {
            if (++seen != n) return finished.finish(job);
            const std::int32_t type = job.type();
            mark();
            job.done();
            mark();
            finished.add(type);
        },
        3);
    require(seen == 3, "another batch");
    go_on(finished, all.back());
}

/// Holds the writer's slot of the returns ring, as another worker that releases does.
flyring::detail::Fd hold_returns(const Run& run) {
    const flyring::detail::ChannelFile file = raw(run);
    flyring::detail::Fd description = flyring::detail::open_description(file.fd, file.path);
    require(flyring::detail::try_lock_byte(description, file.publisher_lock(file.header.publishers - 1)) == 0, "lock");
    return description;
}

/// The first of two jobs, which stayed in hand once: its number is set back for the next one.
void done_stayed(Run& run) {
    const Finished finished(run);
    std::vector<Worker> all = workers(run, 2);
    flyring::detail::Fd held = hold_returns(run);
    all.back().poll([](Job& job) { require(!job.release(), "the release was not busy"); }, 2);
    held = flyring::detail::Fd();
    int seen = 0;
    all.back().poll(
        [&](Job& job) {
            require(job.attempts() == (seen == 0 ? 1 : 0), "other attempts");
            if (++seen != 1) return finished.finish(job);
            const std::int32_t type = job.type();
            mark();
            job.done();
            mark();
            finished.add(type);
        },
        2);
    require(seen == 2, "another batch");
    go_on(finished, all.back());
}

// Adopt.

/// Of a worker that died; another one had it `attempts` times before.
void adopt_job(Run& run, int limit = 1, std::int32_t attempts = 0) {
    std::vector<Worker> all = workers(run, 1);
    die_with_jobs(run, 3, limit);
    if (attempts != 0) *flyring::detail::attempts_beside(raw(run).ring(0).gate(3)) = attempts;
    for (Worker& worker : workers(run, 2)) all.push_back(std::move(worker));
    take_one(run, all, attempts + 1);
}

void adopt(Run& run) {
    adopt_job(run);
}

void adopt_again(Run& run) {
    adopt_job(run, 1, 4);
}

void adopt_batch(Run& run) {
    adopt_job(run, 3);
}

/// Of one that was evicted, and goes on.
void adopt_evicted(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    Worker other = run.channel.worker();
    std::optional<Job> job = other.take();
    run.channel.evict(3);
    take_one(run, all, 1);
}

/// Of one that died before it took what it had announced.
void adopt_untaken(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    die_with_jobs(run, 3);
    const flyring::detail::ChannelFile file = raw(run);
    *file.ring(0).gate(0) = *file.ring(0).gate(3);
    take_one(run, all);
}

// The next owner of a slot.

void take_worker(Run& run) {
    const Finished finished(run);
    std::vector<Worker> all = workers(run, 1);
    die_with_jobs(run, 2);
    mark();
    Worker worker = run.channel.worker("heir");
    mark();
    require(worker.slot() == 2, "another slot");
    go_on(finished, worker);
}

void take_worker_evicted(Run& run) {
    const Finished finished(run);
    std::vector<Worker> all = workers(run, 1);
    die([&] {
        Run other{run.path, run.sequence, {}};
        std::vector<Worker> here = workers(other, 2);
        here.back().poll(
            [&](Job&) {
                other.channel.evict(2);
                ::_exit(0);
            },
            1);
    });
    mark();
    Worker worker = run.channel.worker("heir");
    mark();
    require(worker.slot() == 2, "another slot");
    go_on(finished, worker);
}

// Release.

void release_once(const Run& run, Worker& worker, Job& job, bool room = true) {
    const Finished finished(run);
    mark();
    const bool released = job.release();
    mark();
    require(released == room || finished.is_disturbed(), "room, or none");
    go_on(finished, worker);
}

void release(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    std::optional<Job> job = all.back().take();
    work_off(run);
    release_once(run, all.back(), *job);
}

/// A job that was released before.
void release_again(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    std::optional<Job> job = all.back().take();
    work_off(run);
    require(job->release(), "the release found no room");
    job = all.back().take();
    release_once(run, all.back(), *job);
}

/// The first job of a batch of two.
void release_of_batch(Run& run) {
    const Finished finished(run);
    std::vector<Worker> all = workers(run, 2);
    bool marked = false;
    all.back().poll(
        [&](Job& job) {
            if (std::exchange(marked, true)) return finished.finish(job);
            work_off(run);
            mark();
            const bool released = job.release();
            mark();
            require(released, "the release found no room");
        },
        2);
    go_on(finished, all.back());
}

/// There is no room for it.
void release_full(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    Worker& worker = all.back();
    work_off(worker);
    Sender sender = run.sender();
    for (bool fresh = true;;) {  // what it released before comes in turn with what was sent
        if (fresh) send(sender, 900);
        std::optional<Job> job = worker.take();
        fresh = job->attempts() == 0;
        if (!job->release()) break;
    }
    std::optional<Job> job = worker.take();
    release_once(run, worker, *job, false);
}

/// A release while another worker releases.
void release_busy(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    std::optional<Job> job = all.back().take();
    const flyring::detail::Fd held = hold_returns(run);
    release_once(run, all.back(), *job, false);
}

/// Two jobs in hand, of a batch of three.
void close(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    const Finished finished(run);
    all.back().poll(
        [&](Job& job) {
            finished.finish(job);
            return Action::BREAK;
        },
        3);
    work_off(run);
    mark();
    all.back().close();
    mark();
}

void evict(Run& run) {
    std::vector<Worker> all = workers(run, 2);
    const std::optional<Job> job = all.back().take();
    mark();
    run.channel.evict(2);
    mark();
}

// Producers.

void wake_one(Run& run) {
    Sender sender = run.sender();
    const flyring::detail::ChannelFile file = raw(run);
    for (const auto& words : {file.data(), file.jobs()}) __atomic_fetch_or(words.asleep, 1U, __ATOMIC_RELAXED);
    const auto bytes = payload(0, sender.sequence, 30);
    mark();
    const std::int64_t end = sender.publisher.offer({bytes.data(), bytes.size()}, type_of(sender.sequence));
    mark();
    require(end > 0, "back-pressured");
}

/// The only gate that holds the producer back is a dead worker's. Another worker adopts its job while it looks.
void reserve(Run& run) {
    die([&] {
        Run other{run.path, run.sequence, {}};
        std::vector<Worker> here = workers(other, 4);  // slot 1 is the tracer's
        Sender sender = other.sender();
        here.back().poll(
            [&](Job&) {
                while (sender.offer()) work_off(here.front());
                ::_exit(0);
            },
            1);
    });
    Sender sender = run.sender();
    const auto bytes = payload(0, sender.sequence, 30);
    mark();
    const std::int64_t end = sender.publisher.offer({bytes.data(), bytes.size()}, type_of(sender.sequence));
    mark();
    require(end < 0, "there was room, where a job lies in somebody's hand");
}

}  // namespace

Operations queueing() {
    return {
        {"queue-take", take},
        {"queue-take-own", take_own},
        {"queue-take-batch", take_batch},
        {"queue-take-padding", take_padding},
        {"queue-take-owner", take_owner},
        {"queue-take-returned", take_returned},
        {"queue-take-after", take_after},
        {"queue-take-beside", take_beside},
        {"queue-sleep", take_asleep},
        {"queue-done", done},
        {"queue-done-batch", [](Run& run) { done_of_batch(run, 1); }},
        {"queue-done-middle", [](Run& run) { done_of_batch(run, 2); }},
        {"queue-done-last", [](Run& run) { done_of_batch(run, 3); }},
        {"queue-done-stayed", done_stayed},
        {"queue-adopt", adopt},
        {"queue-adopt-again", adopt_again},
        {"queue-adopt-batch", adopt_batch},
        {"queue-adopt-evicted", adopt_evicted},
        {"queue-adopt-untaken", adopt_untaken},
        {"queue-take-worker", take_worker},
        {"queue-take-worker-evicted", take_worker_evicted},
        {"queue-release", release},
        {"queue-release-again", release_again},
        {"queue-release-batch", release_of_batch},
        {"queue-release-full", release_full},
        {"queue-release-busy", release_busy},
        {"queue-close", close},
        {"queue-evict", evict},
        {"queue-wake-one", wake_one},
        {"queue-reserve", reserve},
    };
}

}  // namespace steps
