// SPDX-License-Identifier: Apache-2.0
#include "queue_case.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <stdexcept>
#include <thread>

#include "child.hpp"

namespace steps {

namespace layout = flyring::layout;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds latest(1);  // a sleeper looks every 100 ms

std::string at(const JobId& id) {
    return "the job at " + std::to_string(id.second) + " of ring " + std::to_string(id.first) + ": ";
}

}  // namespace

QueueCase::QueueCase(const Setup& setup, const QueueScenario& scenario, const Bytes& base, bool alone,
                     const std::string& child)
    : setup_(setup),
      scenario_(scenario),
      base_(base),
      child_(child.empty() ? setup.child : child),
      live_(alone ? 0 : scenario.live),
      recorder_(setup, command(), scenario.python,
                [this] { return std::make_shared<QueueStage>(setup_.path, base_, live_); }) {
    const Image first(recording().states[0]);
    jobs_ = jobs_in(first);
    published_ = first.trailer(0, layout::TRAILER_PUBLISHED);
    if (!scenario.finished) return;
    for (std::uint32_t ring = 0; ring < first.publishers(); ++ring) {
        const std::int64_t gate = first.gate(ring, scenario.slot);
        if (gate >= 0) finished_ = {ring, gate};
    }
    if (jobs_.count(finished_) == 0) throw std::runtime_error("slot 2 has no job of a producer's ring in hand");
}

std::vector<std::string> QueueCase::command() const {
    std::vector<std::string> words;
    if (scenario_.python) {
        words = {setup_.python, "-s", setup_.script};
    } else {
        words = {child_};
    }
    const std::int64_t sequence = Image(base_).trailer(0, layout::TRAILER_MESSAGES_BEGUN);
    words.insert(words.end(), {scenario_.operation, setup_.path, std::to_string(sequence)});
    return words;
}

bool QueueCase::is_committed(std::size_t k) const {
    return scenario_.publishes && Image(recording().bytes(k)).walk(0, published_).messages > 0;
}

/// Each job of the first mark must be somewhere, except one that the child had finished. A job may be handed out again
/// if it was released, or if a worker died with it in hand.
Ledger QueueCase::ledger(std::size_t k) const {
    const QueueJobs now = jobs_in(Image(recording().bytes(k)));
    Ledger ledger;
    for (const auto& [id, job] : jobs_) {
        const auto found = now.find(id);
        Ledger::Due due;
        due.type = job.type;
        due.payload = job.payload;
        due.least = id == finished_ ? 0 : 1;
        due.most = due.news = 0;
        if (found != now.end()) {
            const bool lay = job.places.size() == 1 && job.places[0].slot == 0;
            for (const Place& place : found->second.places) {
                ++due.most;
                if (lay && place.slot != 0 && place.attempts != job.places[0].attempts) {
                    throw Wrong(at(id) +
                                "was taken, and has another number of attempts: " + std::to_string(place.attempts));
                }
                if (place.slot == 0 && place.attempts == 0) ++due.news;
            }
            if (found->second.payload != job.payload) throw Wrong(at(id) + "its bytes have changed");
            due.least = 1;
        }
        if (due.most < due.least) throw Wrong(at(id) + "nobody has it in hand, and it is not on a ring: it is lost");
        ledger.add(id, due);
    }
    if (is_committed(k)) {
        for (const auto& [id, job] : now) {
            if (jobs_.count(id) != 0) continue;
            Ledger::Due due;
            due.type = job.type;
            due.payload = payload(0, job.type - 1, 30);
            ledger.add(id, due);
        }
    }
    return ledger;
}

void QueueCase::check_copy(std::size_t k) const {
    QueueStage stage(setup_.path, recording().bytes(k), 0);
    check_queue(stage, ledger(k), recording().bytes(k));
}

void QueueCase::check_kill(std::size_t k) const {
    if (scenario_.wakes) return wake(k);
    recorder_.clear_page();
    QueueStage stage(setup_.path, base_, live_);
    Tracee child(recorder_.command());
    recorder_.reach(child, k);
    child.kill();
    const Bytes left = read_file(setup_.path);
    if (left != recording().bytes(k))
        throw Wrong("expected the file as after this instruction of the recording, found it changed " +
                    difference(recording().bytes(k), left));
    check_queue(stage, ledger(k), left);
}

/// A worker sleeps. Whenever its waker dies, it gets the job within its cap; if there is none yet, from the next owner.
void QueueCase::wake(std::size_t k) const {
    recorder_.clear_page();
    QueueStage stage(setup_.path, base_, live_);
    Ledger due = ledger(k);
    stage.live->set_spin(std::chrono::nanoseconds::zero());
    Clock::time_point when;
    std::optional<flyring::Job> job;
    std::future<void> sleeper = std::async(std::launch::async, [&] {  // an exception of it is thrown by get()
        job = stage.live->take(3 * latest);
        when = Clock::now();
    });
    const auto asleep = [&] {
        const Bytes now = read_file(setup_.path);
        return Image(now).get<std::uint32_t>(layout::HEADER_LENGTH + layout::CONTROL_JOBS_ASLEEP) != 0;
    };
    while (!asleep() && sleeper.wait_for(std::chrono::microseconds(200)) != std::future_status::ready) {
    }
    Clock::time_point from;
    {
        Tracee child(recorder_.command());
        recorder_.reach(child, k);
        from = Clock::now();
    }
    const bool committed = is_committed(k);
    std::optional<flyring::Publisher> next;
    if (!committed) {
        next.emplace(stage.channel.publisher(publisher_name));
        const std::int64_t sequence = Image(read_file(setup_.path)).trailer(0, layout::TRAILER_MESSAGES_BEGUN);
        Ledger::Due one;
        one.type = type_of(sequence);
        one.payload = payload(0, sequence, 30);
        const std::int64_t end = next->offer({one.payload.data(), one.payload.size()}, one.type);
        due.add({0, end - Image(base_).align(38)}, one);
        from = Clock::now();
    }
    sleeper.get();
    if (!job) throw Wrong("expected that the sleeper gets the job, found that it slept until its time was over");
    if (when - from > latest) throw Wrong("expected that the sleeper wakes within 1 s, found that it does not");
    due.hand_out(*job);
    job->done();
    if (next) next->close();
    check_queue(stage, due, read_file(setup_.path));
}

std::uint64_t QueueCase::lock_of(std::uint32_t slot) const {
    return Image(base_).subscriber_slot(slot);
}

int QueueCase::finished(std::int32_t type) const {
    const Bytes page = recorder_.page();
    return std::to_integer<int>(page.at(static_cast<std::size_t>(type)));
}

void QueueCase::say_disturbed() const {
    std::fstream page(setup_.path + ".done", std::ios::binary | std::ios::in | std::ios::out);
    page.seekp(disturbed_at).put(1);
}

bool QueueCase::check_stop(std::size_t k) const {
    if (scenario_.python) return false;
    if (scenario_.adopted_from) return hand_over(k), true;
    if (scenario_.slot == 0) return false;
    overtake(k);
    return scenario_.beside || evict(k);
}

/// Others take all that they can while the child is stopped, but not its job. It ends as if nothing had happened: each
/// job is done once, and no gate of it stays.
void QueueCase::overtake(std::size_t k) const {
    recorder_.clear_page();
    QueueStage stage(setup_.path, base_, live_);
    Tracee child(recorder_.command());
    recorder_.reach(child, k);
    Ledger due = ledger(k);
    const bool owned = locked(setup_.path, lock_of(scenario_.slot));
    for (auto& [id, one] : due.dues()) one.least = one.most = one.news = 0;
    for (const auto& [id, job] : jobs_in(Image(read_file(setup_.path)))) {
        Ledger::Due& one = due.dues()[id];
        bool lies = false, mine = false;
        for (const Place& place : job.places) {
            lies = lies || place.slot == 0;
            mine = mine || (owned && place.slot == scenario_.slot);
            if (place.slot == 0 && place.attempts == 0) one.news = 1;
        }
        one.most = lies || !mine ? 1 : 0;  // whose hand it is in lives
    }
    JobId announced{0, -1};  // by one that died before it took it
    const Bytes stopped = read_file(setup_.path);
    for (std::uint32_t slot = 1; slot < Image(stopped).subscribers(); ++slot) {
        const std::int64_t gate = Image(stopped).gate(0, slot);
        if (gate >= Image(stopped).gate(0, 0) && !locked(setup_.path, lock_of(slot))) announced = {0, gate};
    }
    say_disturbed();
    stage.work_off(due);
    std::optional<int> status = child.run_to_mark();
    if (!status) status = child.run_to_mark();
    if (status) throw Wrong("stopped while others take: the child ended with status " + std::to_string(*status));
    const Bytes there = read_file(setup_.path);
    for (std::uint32_t ring = 0; ring < Image(there).publishers(); ++ring) {
        const std::int64_t gate = Image(there).gate(ring, scenario_.slot);
        if (gate != -1)
            throw Wrong("stopped while others take: slot " + std::to_string(scenario_.slot) +
                        " has nothing in hand, and its gate on ring " + std::to_string(ring) + " is " +
                        std::to_string(gate));
    }
    const std::uint64_t returns = Image(there).publisher_slot(Image(there).publishers() - 1);
    if (locked(setup_.path, layout::HEADER_LENGTH) || (!scenario_.holds_returns && locked(setup_.path, returns)))
        throw Wrong("stopped while others take: the child is done, and holds the control lock or the returns ring's");
    if (const int end = child.finish(); end != 0)
        throw Wrong("stopped while others take: the child ended with status " + std::to_string(end));
    for (auto& [id, one] : due.dues()) {
        const int done = one.seen + finished(one.type);
        const bool again = announced == id && done == 2;  // this looks like a job in hand (spec/queue.md)
        if (done != 1 && !again)
            throw Wrong(at(id) + "stopped while others take: it was done " + std::to_string(done) + " times");
        one.most = one.seen;  // it must not come again
    }
    check_queue(stage, due, read_file(setup_.path));
}

/// It is evicted, its job adopted and done. Then it goes on, must learn of it, and must not damage anything.
bool QueueCase::evict(std::size_t k) const {
    recorder_.clear_page();
    QueueStage stage(setup_.path, base_, live_);
    Tracee child(recorder_.command());
    recorder_.reach(child, k);
    if (locked(setup_.path, layout::HEADER_LENGTH)) return false;  // the evictor would wait for it
    const bool owned = locked(setup_.path, lock_of(scenario_.slot));
    Ledger due = ledger(k);
    say_disturbed();
    stage.channel.evict(scenario_.slot);
    for (int i = 0; i < 200 && !due.is_complete(); ++i) {
        stage.work_off(due);
        if (i > 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    due.require_complete();
    std::optional<int> status;
    while (!status) status = child.run_to_mark();
    if (*status != lost_status && !(scenario_.takes_slot && !owned && *status == 0))
        throw Wrong("stopped and evicted: expected that the child ends with slot lost, found status " +
                    std::to_string(*status));
    const bool begins = k == recording().kill_points.front();
    for (const auto& [id, one] : due.dues()) {  // a done that began before it stopped may be through
        const auto before = std::to_integer<int>(recording().done(k).at(static_cast<std::size_t>(one.type)));
        if ((id != finished_ || begins) && finished(one.type) != before) {
            throw Wrong(at(id) + "stopped and evicted: expected that done says slot lost, found that it works");
        }
    }
    for (auto& [id, one] : due.dues()) one.most += 2;  // it may have announced it, and died then
    check_queue(stage, due, read_file(setup_.path));
    return true;
}

/// A job changes hands while a producer looks for room: it must see the job in one of the two.
void QueueCase::hand_over(std::size_t k) const {
    recorder_.clear_page();
    QueueStage stage(setup_.path, base_, live_);
    Tracee child(recorder_.command());
    recorder_.reach(child, k);
    Ledger due = ledger(k);
    std::optional<flyring::Job> job = stage.live->take();
    if (!job || !job->repeat()) throw Wrong("expected that the worker that lives adopts the dead one's job");
    due.hand_out(*job);
    std::optional<int> status;
    while (!status) status = child.run_to_mark();
    if (*status != 0) throw Wrong("a job changed hands: expected that the producer finds no room, found some");
    const JobId id{job->ring(), job->position()};
    if (jobs_in(Image(read_file(setup_.path))).at(id).payload != due.dues().at(id).payload)
        throw Wrong("a job changed hands: its bytes were overwritten");
    job->done();
    check_queue(stage, due, read_file(setup_.path));
}

}  // namespace steps
