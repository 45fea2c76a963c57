// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <sstream>
#include <string>
#include <thread>

#include "clock.hpp"
#include "message.hpp"
#include "probe.h"
#include "setup.hpp"
#include "words.hpp"

// The slices of bench/PEER.md's scenarios jobs, burst and append. In addition to the members that harness.hpp lists,
// contenders of jobs have
//
//   template <class Read> void receive_within(Read&&, std::chrono::milliseconds); waits at most that long

namespace bench {

/// Each job goes to one of the workers. Message number s of a slice has the tag s.
template <class Contender, class M>
class Jobs {
  public:
    Jobs(const Setup& setup, Contender& contender, double ns_per_tick)
        : setup_(setup),
          contender_(contender),
          words_(setup),
          workers_(static_cast<unsigned>(setup.option("workers", std::size_t{1}))),
          job_(static_cast<std::uint64_t>(static_cast<double>(setup.option("job", std::size_t{0})) / ns_per_tick)) {}

    /// The time until n jobs were sent and done: jobs that are only in the ring must not count.
    [[gnu::noinline]] std::int64_t send(std::uint64_t n) {
        const std::int64_t start = bench_now();
        for (std::uint64_t i = 0; i < n; ++i) contender_.send([i](auto&& to) { M::write(to, i); });
        words_.set(Words::sent, words_.get(Words::sent) + n);
        words_.set(Words::slices, ++slice_);
        while (all_done() != words_.get(Words::sent)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return bench_now() - start;
    }

    [[gnu::noinline]] std::string work() {
        ++slice_;
        std::uint64_t count = 0, next = 0, sum = 0, squares = 0, noted = 0;
        std::int64_t start = 0, end = 0;
        const auto handler = [&](auto&& from) {
            if (__builtin_expect(count == 0, 0)) start = bench_now();
            const std::uint64_t number = M::word0(from);
            if (__builtin_expect(number < next || !M::is(from, number), 0)) wrong(next, number, number);
            next = number + 1;
            ++count;
            sum += number;
            squares += number * number;
            if (job_ != 0) {
                for (const std::uint64_t due = ticks() + job_; ticks() < due;) {
                }
            }
        };
        for (;;) {
            const std::uint64_t before = count;
            contender_.receive(handler);
            if (count != before) continue;
            if (count != noted) {
                end = bench_now();
                noted = count;
                words_.set(Words::first + setup_.number(), done_ + count);
            }
            if (words_.get(Words::slices) == slice_ && all_done() == words_.get(Words::sent)) break;
            contender_.receive_within(handler, std::chrono::milliseconds(2));
        }
        done_ += count;
        std::ostringstream text;
        text << "{\"kind\": \"mean\", \"count\": " << count << ", \"start\": " << start << ", \"end\": " << end
             << ", \"sum\": " << sum << ", \"squares\": " << squares << "}";
        return text.str();
    }

  private:
    std::uint64_t all_done() const {
        std::uint64_t done = 0;
        for (unsigned k = 0; k < workers_; ++k) done += words_.get(Words::first + k);
        return done;
    }

    const Setup& setup_;
    Contender& contender_;
    Words words_;
    unsigned workers_;
    std::uint64_t job_;        // ticks
    std::uint64_t slice_ = 0;  // from 1
    std::uint64_t done_ = 0;   // jobs of earlier slices
};

/// Sends as many messages as there is room for, then waits until they are read. The clock runs only while it sends.
class Burst {
  public:
    static constexpr std::uint64_t messages = 4096;

    explicit Burst(const Setup& setup) : words_(setup) {}

    /// Side a, after a burst: returns when b has read all of it.
    void wait_until_read(std::uint64_t sent) {
        sent_ += sent;
        words_.set(Words::sent, sent_);
        while (words_.get(Words::first) != sent_) {
        }
    }
    /// Side b: waits for a burst and returns how many messages to read.
    std::uint64_t wait_for_burst() {
        std::uint64_t sent;
        do {
            sent = words_.get(Words::sent);
        } while (sent == read_);
        return sent - read_;
    }
    void have_read(std::uint64_t count) {
        read_ += count;
        words_.set(Words::first, read_);
    }

  private:
    Words words_;
    std::uint64_t sent_ = 0, read_ = 0;
};

/// The reader begins when all of a slice was sent, asleep until then; with `--option beside=1` at once.
class Behind {
  public:
    explicit Behind(const Setup& setup) : words_(setup), beside_(setup.option("beside", std::size_t{0}) != 0) {}

    void sent() { words_.set(Words::slices, ++slice_); }
    void wait() {
        ++slice_;
        while (!beside_ && words_.get(Words::slices) != slice_) {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }

  private:
    Words words_;
    bool beside_;
    std::uint64_t slice_ = 0;
};

}  // namespace bench
