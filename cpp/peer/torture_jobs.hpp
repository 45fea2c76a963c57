// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>

#include "torture.hpp"

namespace torture {

/// A worker that takes jobs from a queue, in the SIGKILL torture (interop-tests/torture/WORKER.md).
class JobWorker final : public Worker {
  public:
    using Worker::Worker;

  private:
    /// The exception that a handler throws.
    struct Broken {};

    static constexpr std::chrono::milliseconds longest{400};   // longer than any delay that a death may cause
    static constexpr std::int64_t shortest_idle = 20'000'000;  // ns; shorter idle spans are not logged

    void session() override {
        const auto asked = now();
        enter(seating, 2);
        flyring::Worker worker = channel_.worker(orders_.at("name"), std::chrono::seconds(5));
        linger(2);
        side_.log(seated, worker.slot(), worker.epoch(), now(), asked);
        unfinished_ = false;
        try {
            work(worker);
        } catch (const flyring::SlotLost&) {
            side_.log(slot_lost, worker.slot(), unfinished_ && !silent_, now(), begun_, unfinished_ && returned_);
        }
        side_.phase(working);
    }

    void work(flyring::Worker& worker) {
        auto polls = below(10) == 0 ? below(10) : below(300);
        bool drained = false;
        std::optional<flyring::Job> kept;  // released by the worker's close
        while (!side_.full() && !drained && !kept && (polls > 0 || side_.stopped())) {
            polls -= polls > 0 ? 1 : 0;
            // Read before the poll: once told to end, the worker polls until a poll that began afterwards is empty.
            const bool last = side_.stopped();
            const std::array<std::chrono::milliseconds, 4> timeouts{
                std::chrono::milliseconds(0), std::chrono::milliseconds(2), std::chrono::milliseconds(20), longest};
            const auto timeout = last ? longest : timeouts.at(below(4));
            side_.phase(fetching);
            handed_ = 0;
            begun_ = now();
            if (below(3) == 0) {
                take(worker, timeout, kept);
            } else {
                poll(worker, timeout);
            }
            if (handed_ == 0) be_idle();
            drained = last && handed_ == 0;
            side_.phase(idle);
            if ((timeout.count() == 0 && handed_ == 0) || below(100) == 0) side_.nap(below(2'000'000));
        }
        const auto begins = now();
        enter(leaving, 2);
        worker.close();
        linger(2);
        side_.log(left, 0, drained, 0, begins);
    }

    void be_idle() {
        if (fault("deaf", 1)) side_.nap(600'000'000);
        const auto end = now();
        if (end - begun_ > shortest_idle) side_.log(Kind::idle_span, begun_, end);
    }

    void take(flyring::Worker& worker, std::chrono::milliseconds timeout, std::optional<flyring::Job>& kept) {
        auto job = worker.take(timeout);
        if (!job) return;
        begin(*job);
        const auto dice = below(32);
        if (dice == 0) {
            give_back();
            kept.emplace(std::move(*job));
        } else if (dice < 5) {
            release(*job);
        } else {
            done(*job);
        }
    }

    void poll(flyring::Worker& worker, std::chrono::milliseconds timeout) {
        const int limit = below(2) == 0 ? 1 : 1 + static_cast<int>(below(8));
        breaks_ = below(8) == 0;
        try {
            worker.poll([this](flyring::Job& job) { return handle(job); }, limit, timeout);
        } catch (const Broken&) {
            return;
        }
        went_on();
    }

    flyring::Action handle(flyring::Job& job) {
        went_on();
        begin(job);
        const auto dice = below(32);
        if (dice < 2) {
            release(job);
        } else if (dice == 2) {
            give_back();
            throw Broken();
        } else if (dice == 3) {
            give_back();
            return flyring::Action::ABORT;
        } else if (dice == 4) {
            done(job);
        } else {
            enter(finishing, 50);
            returned_ = true;
        }
        return breaks_ ? flyring::Action::BREAK : flyring::Action::CONTINUE;
    }

    /// Checks a job and logs it, with `state` 0 (right), 1 (torn), 2 (wrong sender) or 3 (sender not known).
    void begin(const flyring::Job& job) {
        side_.phase(handling);
        ++handed_;
        Header header{};
        std::int64_t state = 1;
        if (job.size() >= sizeof header) {
            header = job.as<Header>();
            state = header.length != job.size() || header.checksum != checksum(job.data(), job.size());
            const auto& sender = job.sender();
            if (state == 0 && sender.epoch == 0) {
                state = 3;
            } else if (state == 0 &&
                       (sender.epoch != header.epoch || publisher_number(sender.name) != header.publisher)) {
                state = 2;
            }
        }
        linger(30);  // the job is read and not logged yet
        silent_ = fault("drop");
        last_ = {job.ring(), job.position(), header.epoch, header.sequence, job.attempts(), state};
        note_job();
        unfinished_ = true;
        returned_ = false;
        linger(30);
    }

    void note(Kind kind, std::int64_t a, std::int64_t b = 0) {
        if (!silent_) side_.log(kind, a, b);
    }

    void note_job() {
        if (!silent_) side_.log(Kind::job, last_[0], last_[1], last_[2], last_[3], last_[4], last_[5], now());
    }

    void done(flyring::Job& job) {
        enter(finishing, 50);
        job.done();
        linger(50);
        went_on();
    }

    /// Logs the last job as done, if its handler returned without finishing it otherwise.
    void went_on() {
        if (!unfinished_) return;
        unfinished_ = false;
        note(Kind::done_at, now());
        const bool twice = fault("twice");
        if (twice || fault("forget")) {
            last_[4] = twice ? last_[4] + 1 : 0;
            note_job();
            note(Kind::done_at, now());
        }
    }

    void give_back() {
        note(giving, now());
        unfinished_ = false;
        enter(giving_back, 20);
    }

    void release(flyring::Job& job) {
        give_back();
        const bool given_back = job.release();
        linger(20);
        note(given, given_back, now());
    }

    std::int64_t handed_ = 0;             // jobs handed out in this poll
    std::int64_t begun_ = 0;              // start of this poll, ns
    bool unfinished_ = false;             // the last job is neither done nor released yet
    bool returned_ = false;               // the last job's handler has returned: the job is done unless the poll threw
    bool silent_ = false;                 // the current job is not logged
    bool breaks_ = false;                 // this poll ends early
    std::array<std::int64_t, 6> last_{};  // the last job's log entry
};

}  // namespace torture
