// SPDX-License-Identifier: Apache-2.0
#include "queue_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace steps {

namespace layout = flyring::layout;
using flyring::Job;
using flyring::Publisher;
using flyring::Worker;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience(3);  // for a whole check, which takes some milliseconds

[[noreturn]] void fail(const std::string& what) {
    throw Wrong(what);
}

void require(bool good, const std::string& what) {
    if (!good) fail(what);
}

std::string name(const JobId& id) {
    return "the job at " + std::to_string(id.second) + " of ring " + std::to_string(id.first);
}

/// The jobs in [from, to) of a ring, in the hand of `slot`; to = INT64_MAX: all that are there.
void add_jobs(const Image& image, std::uint32_t ring, std::int64_t from, std::int64_t to, std::uint32_t slot,
              QueueJobs& jobs) {
    const Image::Walk walk = image.walk(ring, from, to);
    require(to == INT64_MAX || walk.end == to, "the batch of slot " + std::to_string(slot) + " ends in a record");
    const bool returns = ring + 1 == image.publishers();
    for (std::int64_t p = from; p < walk.end;) {
        const std::uint64_t at = image.record(ring, p);
        const auto length = image.get<std::int32_t>(at + layout::RECORD_LENGTH);
        const auto type = image.get<std::int32_t>(at + layout::RECORD_TYPE);
        const std::uint64_t payload = at + layout::RECORD_PAYLOAD;
        const std::uint64_t skip = returns ? layout::RELEASED_LENGTH : 0;
        if (type > 0) {
            JobId id{ring, p};
            std::int32_t attempts = slot == 0 ? 0 : image.attempts(ring, slot);
            if (returns) {
                id = {image.get<std::uint32_t>(payload + layout::RELEASED_ORIGIN_RING),
                      image.get<std::int64_t>(payload + layout::RELEASED_ORIGIN_POSITION)};
                attempts += image.get<std::int32_t>(payload + layout::RELEASED_ATTEMPTS);
                require(id.first + 1 < image.publishers(), "a released job has no origin");
                require(attempts > 0, name(id) + " was released, and says that nobody had it");
            }
            QueueJob& job = jobs[id];
            job.type = type;
            job.payload.clear();
            for (std::uint64_t i = skip; i + 8 < static_cast<std::uint64_t>(length); ++i) {
                job.payload.push_back(image.get<std::byte>(payload + i));
            }
            job.places.push_back({slot, ring, attempts});
        }
        p += image.align(length);
    }
}

bool is_quiet(const Image& image) {
    for (std::uint32_t ring = 0; ring < image.publishers(); ++ring) {
        if (image.walk(ring, image.gate(ring, 0)).end != image.gate(ring, 0)) return false;
        for (std::uint32_t slot = 1; slot < image.subscribers(); ++slot) {
            if (image.gate(ring, slot) != -1) return false;
        }
    }
    return true;
}

void work_off_by(Worker& worker, Ledger& ledger) {
    while (worker.poll([&](Job& job) { ledger.hand_out(job); }, 4) > 0) {
    }
}

/// Looks as a process with only read permission can.
void look(const QueueStage& stage, const Image& image) {
    flyring::OpenOptions options;
    options.read_only = true;
    const flyring::Stats stats = fixed(tracer_pid).open(stage.path, options).stats();
    using flyring::SlotState;
    require(stats.subscribers.at(0).state == SlotState::shared, "slot 0: expected shared");
    require(stats.publishers.at(image.publishers() - 1).state == SlotState::returns, "the last ring: expected returns");
    for (std::uint32_t slot = 1; slot < image.subscribers(); ++slot) {
        bool taken = false;
        for (std::uint32_t ring = 0; ring < image.publishers(); ++ring) {
            const std::int64_t p = image.gate(ring, slot), e = image.taken_end(ring, slot);
            taken = taken || (p >= 0 && p < e && e <= image.gate(ring, 0));
        }
        require(stats.subscribers.at(slot).in_hand.has_value() == taken,
                "stats of slot " + std::to_string(slot) + ": in hand, or not");
    }
}

/// Producers and workers of the queue, all slots of it.
class Everybody {
  public:
    Everybody(QueueStage& stage, Ledger& ledger, const Image& before)
        : stage_(stage), ledger_(ledger), before_(before) {}

    /// The jobs that the dead left come to the live worker, without any repair.
    void adopt() {
        if (!stage_.live) return;
        until([&] { return (stage_.work_off(ledger_), is_done()); }, "the worker that lives to get all that was left");
    }

    /// New owners of all other workers' slots; what is still left comes to them.
    void take_workers() {
        if (stage_.live) workers_.push_back(std::move(*stage_.live));
        stage_.live.reset();
        while (workers_.size() + 1 < before_.subscribers()) {
            workers_.push_back(stage_.channel.worker());
            if (workers_.size() % 2 == 0) work_off_by(workers_.back(), ledger_);
        }
        until([&] { return (all_work_off(), is_done()); }, "the next owners to get all that was left");
        ledger_.require_complete();
    }

    void take_producers() {
        const std::uint64_t sequence = layout::HEADER_LENGTH + layout::CONTROL_JOBS_SEQUENCE;
        const auto asleep = Image(read_file(stage_.path)).get<std::uint32_t>(sequence);
        publishers_.push_back(stage_.channel.publisher(publisher_name));
        publishers_.push_back(stage_.channel.publisher());
        require(Image(read_file(stage_.path)).get<std::uint32_t>(sequence) != asleep,
                "jobs_sequence: expected the new owners of producers' slots to move it");
        if (before_.name(before_.publisher_slot(0)) == publisher_name) {
            require(publishers_[0].ring() == 0, "the name \"pub\": expected ring 0");
        }
        try {
            const Publisher third = stage_.channel.publisher();
            fail("the returns ring: expected no owner, found that a producer got it");
        } catch (const flyring::NoFreeSlot&) {
        }
        const Bytes taken = read_file(stage_.path);
        for (Publisher& publisher : publishers_) {
            const auto count = Image(taken).trailer(publisher.ring(), layout::TRAILER_MESSAGES_BEGUN);
            Image(taken).check_ring(publisher.ring(), count, true);
            counts_.push_back(count);
        }
    }

    /// Two laps of both rings: no process waits for the dead.
    void run(int messages) {
        for (int i = 0; i < messages; ++i) {
            for (std::size_t n = 0; n < publishers_.size(); ++n) publish(n);
        }
        until([&] { return (all_work_off(), ledger_.is_complete()); }, "two laps of jobs");
    }

    /// One is given back, and comes again. Then the last one: the queue has ended when it is done.
    void end() {
        publish(0);
        std::optional<Job> job = workers_[0].take();
        require(job.has_value(), "a job that was published: expected it at once");
        ledger_.hand_out(*job);
        ledger_.release(*job);
        require(job->release(), "a release: expected room");
        until([&] { return (job = workers_[1].take()).has_value(); }, "a job that was released");
        ledger_.hand_out(*job);
        for (Publisher& publisher : publishers_) publisher.close();
        for (Worker& worker : workers_) require(!worker.ended(), "a job is in hand: expected that it has not ended");
        job->done();
        all_work_off();
        for (Worker& worker : workers_) require(worker.ended(), "all is done: expected that the queue has ended");
        ledger_.require_complete();
    }

    void check_file() const {
        const Bytes bytes = read_file(stage_.path);
        const Image image(bytes);
        require(jobs_in(image).empty() && is_quiet(image), "expected no jobs in the file");
        for (std::size_t n = 0; n < publishers_.size(); ++n) {
            image.check_ring(publishers_[n].ring(), counts_[n], false);
        }
        const std::uint32_t returns = image.publishers() - 1;
        image.check_ring(returns, image.trailer(returns, layout::TRAILER_MESSAGES_DONE), false);
        for (std::uint32_t slot = 1; slot < image.subscribers(); ++slot) {
            require(image.get<std::int64_t>(image.subscriber_slot(slot) + layout::SUBSCRIBER_SLOT_BUSY_SINCE) == 0,
                    "slot " + std::to_string(slot) + ": expected that it is not busy");
            require(image.get<std::int32_t>(image.subscriber_slot(slot) + layout::SUBSCRIBER_SLOT_EVICTING) == 0,
                    "slot " + std::to_string(slot) + ": expected that it is not evicting");
        }
        look(stage_, image);
    }

  private:
    void all_work_off() {
        for (Worker& worker : workers_) work_off_by(worker, ledger_);
    }

    bool is_done() const {
        const Bytes now = read_file(stage_.path);
        return ledger_.is_complete() && is_quiet(Image(now));
    }

    template <typename Condition>
    void until(Condition&& condition, const std::string& what) const {
        while (!condition()) {
            if (Clock::now() > deadline_) {
                ledger_.require_complete();
                fail("expected " + what + " within 3 s, found that it does not come");
            }
            std::this_thread::sleep_for(std::chrono::microseconds(500));  // it looks for the dead once a millisecond
        }
    }

    void publish(std::size_t n) {
        Publisher& publisher = publishers_[n];
        const std::int64_t sequence = counts_[n]++;
        const std::vector<std::byte> bytes = payload(publisher.ring(), sequence, length_of(sequence));
        std::int64_t end = -1;
        until(
            [&] {
                end = publisher.offer({bytes.data(), bytes.size()}, type_of(sequence));
                if (end < 0) all_work_off();
                return end >= 0;
            },
            "room for the producer of ring " + std::to_string(publisher.ring()));
        Ledger::Due due;
        due.type = type_of(sequence);
        due.payload = bytes;
        ledger_.add({publisher.ring(), end - before_.align(static_cast<std::int64_t>(bytes.size()) + 8)}, due);
    }

    QueueStage& stage_;
    Ledger& ledger_;
    const Image& before_;
    std::vector<Worker> workers_;
    std::vector<Publisher> publishers_;
    std::vector<std::int64_t> counts_;
    Clock::time_point deadline_ = Clock::now() + patience;
};

}  // namespace

QueueJobs jobs_in(const Image& image) {
    QueueJobs jobs;
    const std::uint64_t shared = image.subscriber_slot(0);
    require(image.get<std::int64_t>(shared) == 0 && image.get<std::int32_t>(shared + layout::SUBSCRIBER_SLOT_KEPT) == 1,
            "slot 0 of the queue: expected that it is nobody's");
    for (std::uint32_t ring = 0; ring < image.publishers(); ++ring) {
        const std::int64_t g = image.gate(ring, 0);
        const std::string where = "ring " + std::to_string(ring) + ": ";
        require(g >= 0 && image.align(g) == g, where + "gate[0] is no position");
        require(image.walk(ring, g).end >= image.trailer(ring, layout::TRAILER_PUBLISHED),
                where + "gate[0] does not lead to published");
        add_jobs(image, ring, g, INT64_MAX, 0, jobs);
        for (std::uint32_t slot = 1; slot < image.subscribers(); ++slot) {
            const std::int64_t p = image.gate(ring, slot), e = image.taken_end(ring, slot);
            const std::string whose = where + "slot " + std::to_string(slot) + ": ";
            require(p >= -1 && (p == -1 || (image.align(p) == p && p <= g + image.capacity())), whose + "no gate");
            require(e >= 0 && image.align(e) == e && image.attempts(ring, slot) >= 0, whose + "no end, no attempts");
            if (p >= 0 && p < e && e <= g) add_jobs(image, ring, p, e, slot, jobs);
        }
    }
    for (std::uint32_t slot = 1; slot < image.subscribers(); ++slot) {
        int gates = 0;
        for (std::uint32_t ring = 0; ring < image.publishers(); ++ring) gates += image.gate(ring, slot) >= 0 ? 1 : 0;
        require(gates <= 1, "slot " + std::to_string(slot) + " has jobs of two rings in hand");
        const auto evicting = image.get<std::int32_t>(image.subscriber_slot(slot) + layout::SUBSCRIBER_SLOT_EVICTING);
        require(evicting == 0 || evicting == 1, "slot " + std::to_string(slot) + ": evicting is not 0 or 1");
    }
    return jobs;
}

void Ledger::hand_out(const Job& job) {
    const JobId id{job.ring(), job.position()};
    const auto found = dues_.find(id);
    if (found == dues_.end()) fail(name(id) + " was handed out, and nobody published it, or it was done");
    Due& due = found->second;
    const bool whole = job.type() == due.type && job.size() == due.payload.size() &&
                       std::equal(due.payload.begin(), due.payload.end(), job.data());
    require(whole, name(id) + ": expected type " + std::to_string(due.type) + " and its bytes, found type " +
                       std::to_string(job.type()) + ", or others");
    ++due.seen;
    require(due.seen <= due.most, name(id) + " was handed out " + std::to_string(due.seen) + " times, expected " +
                                      std::to_string(due.most) + " at most");
    require(job.repeat() == (job.attempts() > 0), name(id) + ": repeat is not attempts > 0");
    if (!job.repeat()) {
        ++due.seen_new;
        require(due.seen_new <= due.news, name(id) + " was handed out again, and does not say so");
    } else {
        require(due.news == 0 || due.most > 1, name(id) + " says that somebody had it, and nobody did");
    }
}

void Ledger::release(const Job& job) {
    Due& due = dues_.at({job.ring(), job.position()});
    ++due.least;
    ++due.most;
}

bool Ledger::is_complete() const {
    return std::all_of(dues_.begin(), dues_.end(), [](const auto& one) { return one.second.seen >= one.second.least; });
}

void Ledger::require_complete() const {
    for (const auto& [id, due] : dues_) {
        require(due.seen >= due.least, name(id) + " was handed out " + std::to_string(due.seen) + " times, expected " +
                                           std::to_string(due.least) + ": it is lost");
    }
}

QueueStage::QueueStage(const std::string& at, const Bytes& bytes, std::uint32_t slot)
    : path((write_file(at, bytes), at)), channel(fixed(tracer_pid).open(path)) {
    if (slot == 0) return;
    const flyring::detail::ChannelFile file = flyring::detail::open_file(path, {});
    const flyring::detail::Fd others = flyring::detail::open_description(file.fd, path);
    for (std::uint32_t other = 1; other < slot; ++other) {  // so that the first one that is free is this one
        flyring::detail::try_lock_byte(others, file.subscriber_lock(other));
    }
    live.emplace(channel.worker());
    require(live->slot() == slot, "the worker that lives: another slot");
}

void QueueStage::work_off(Ledger& ledger) {
    work_off_by(*live, ledger);
}

void check_queue(QueueStage& stage, Ledger ledger, const Bytes& before) {
    const Image image(before);
    jobs_in(image);
    look(stage, Image(read_file(stage.path)));
    Everybody all(stage, ledger, image);
    all.adopt();
    all.take_workers();
    all.take_producers();
    all.run(130);
    all.end();
    all.check_file();
}

}  // namespace steps
