// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <flyring/flyring.hpp>
#include <optional>

#include "contenders.hpp"
#include "flyring.hpp"
#include "harness.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// A queue with a producer and one or two workers. `--option limit=N`: jobs of one poll. `--option by=take`: one job at
/// a time, by take and done.
class FlyringQueue {
  public:
    explicit FlyringQueue(const Setup& setup)
        : size_(setup.size),
          sleeps_(setup.scenario == Scenario::jobs),
          by_take_(setup.option("by", std::string("poll")) == "take"),
          limit_(static_cast<int>(setup.option("limit", std::size_t{1}))),
          channel_(Flyring::open(setup)) {
        if (!setup.one_way()) cannot(setup, "jobs go one way");
        if (sleeps_ != setup.block) cannot(setup, "with jobs it sleeps (--wait block), else it spins");
        if (setup.producer()) {
            producer_.emplace(channel_.publisher());
        } else {
            worker_.emplace(channel_.worker());
        }
    }

    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        flyring::Claim claim = sleeps_ ? producer_->claim(size_) : producer_->try_claim(size_);
        while (__builtin_expect(!claim, 0)) claim = producer_->try_claim(size_);
        write(claim.data());
        claim.commit();
    }

    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        int handed = 0;
        if (by_take_) {
            if (auto job = worker_->take()) {
                read(job->data());
                job->done();
                handed = 1;
            }
        } else {
            handed = worker_->poll([&](flyring::Job& job) { read(job.data()); }, limit_);
        }
        if (sleeps_) return;
        if (limit_ > 1) {
            batch_spin_.idle(handed);
        } else {
            spin_.idle(handed);
        }
    }

    template <class Read>
    void receive_within(Read&& read, std::chrono::milliseconds time) {
        worker_->poll([&](flyring::Job& job) { read(job.data()); }, limit_, time);
    }

    static std::string version() { return Flyring::version(); }

  private:
    std::size_t size_;
    bool sleeps_;
    bool by_take_;
    int limit_;
    flyring::SpinWait spin_;
    flyring::BatchSpinWait batch_spin_;
    flyring::Channel channel_;
    std::optional<flyring::Publisher> producer_;
    std::optional<flyring::Worker> worker_;
};

}  // namespace

void run_flyring_queue(const Setup& setup) {
    if (setup.size != 32 || !setup.whole) cannot(setup, "32 bytes, every one written and compared");
    Runner<FlyringQueue, 32, true>(setup).run();
}

}  // namespace bench
