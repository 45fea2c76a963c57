// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "clock.hpp"
#include "jobs.hpp"
#include "message.hpp"
#include "probe.h"
#include "setup.hpp"

// Turns and slices of bench/PEER.md, the same for every contender. A contender is a class with
//
//   explicit Contender(const Setup&);            opens what it can alone
//   void connect();                              the rest
//   template <class Write> void send(Write&&);   one message, waiting for room; Write is void(std::byte* to)
//   template <class Read> void receive(Read&&);  looks once; Read is void(const std::byte*), for each message
//   static std::string version();
//   template <class Read> void receive_within(Read&&, std::chrono::milliseconds);
//                                                for jobs: waits for a message, at most that long
//   void flush();                                for one that gathers messages: sends the rest
//   void slice_ends();                           for one that keeps messages: outside of all clocks
//
// It is compiled once for each message size and mode, as a user's program would be.

namespace bench {

inline constexpr std::uint64_t most_timed = 2'000'000;

struct Nothing {
    void operator()(const std::byte*) const {}
};
template <class Contender, class = void>
inline constexpr bool has_jobs = false;
template <class Contender>
inline constexpr bool
    has_jobs<Contender, decltype(std::declval<Contender&>().receive_within(Nothing(), std::chrono::milliseconds(0)))> =
        true;

template <class Contender, class = void>
inline constexpr bool gathers = false;
template <class Contender>
inline constexpr bool gathers<Contender, decltype(std::declval<Contender&>().flush())> = true;
template <class Contender, class = void>
inline constexpr bool keeps = false;
template <class Contender>
inline constexpr bool keeps<Contender, decltype(std::declval<Contender&>().slice_ends())> = true;

/// M: the message format. It is Message, or a class like it if the contender's Write and Read get something else than
/// bytes.
template <class Contender, std::size_t Size, bool Whole, class M = Message<Size, Whole>>
class Runner {
  public:
    explicit Runner(const Setup& setup) : setup_(setup), shared_(bench_map(setup.dir.c_str())), contender_(setup) {
        if (shared_ == nullptr) throw std::runtime_error("cannot map " + setup.dir + "/shared");
        if (setup.scenario == Scenario::jobs) {
            if constexpr (has_jobs<Contender>) {
                jobs_.emplace(setup, contender_, clock_.ns_per_tick);
            } else {
                throw std::runtime_error("cannot: " + setup.contender + ": it has no jobs");
            }
        }
        if (setup.scenario == Scenario::burst) burst_.emplace(setup);
        if (setup.scenario == Scenario::append) behind_.emplace(setup);
        if (!setup.one_way() && setup.client()) {
            samples_ = static_cast<std::uint32_t*>(mmap(nullptr, most_timed * 4, PROT_READ | PROT_WRITE,
                                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
            if (samples_ == MAP_FAILED) throw std::runtime_error("no memory for samples");
        }
    }

    void run() {
        std::printf(
            "{\"opened\": true, \"thread\": %ld, \"clock_ns\": %.1f, \"runtime\": \"%s\", \"version\": \"%s\"}\n",
            static_cast<long>(syscall(SYS_gettid)), clock_.cost, "g++ " __VERSION__, Contender::version().c_str());
        std::fflush(stdout);
        std::string line;
        while (std::getline(std::cin, line)) {
            if (line == "connect") {
                contender_.connect();
                std::printf("{\"connected\": true}\n");
            } else {
                std::istringstream words(line);
                std::string word, kind;
                int slices = 0;
                words >> word >> slices >> kind;
                if (word != "turn" || slices < 1) throw std::runtime_error("unknown command: " + line);
                setup_.scenario == Scenario::idle ? idle() : turn(slices, kind == "timed");
            }
            std::fflush(stdout);
        }
    }

  private:
    void turn(int slices, bool timed) {
        std::string probes, results;
        probe(probes);
        for (int i = 0; i < slices; ++i) {
            barrier();
            const std::string result = slice(timed);
            if constexpr (keeps<Contender>) contender_.slice_ends();
            if (!result.empty()) results += (results.empty() ? "" : ", ") + result;
            barrier();
            probe(probes);
        }
        barrier();
        std::printf("{\"probes\": [%s], \"slices\": [%s]}\n", probes.c_str(), results.c_str());
    }

    /// The sender sends the end at once; a receiver waits for the end.
    void idle() {
        if (setup_.producer()) {
            contender_.send([](auto&& to) { M::write_end(to); });
        } else {
            receive_end();
        }
        std::printf("{\"probes\": [], \"slices\": []}\n");
    }

    void barrier() { bench_barrier(shared_, setup_.sides); }

    void probe(std::string& probes) {
        if (setup_.number() != 0) return;
        const double ns = bench_probe(shared_, setup_.client() ? 0 : 1, 20'000);
        if (setup_.client()) probes += (probes.empty() ? "" : ", ") + std::to_string(ns);
    }

    std::string slice(bool timed) {
        if (setup_.scenario == Scenario::stream) return setup_.producer() ? produce() : consume();
        if (setup_.scenario == Scenario::append) return setup_.producer() ? append() : consume_behind();
        if (setup_.scenario == Scenario::burst) return setup_.producer() ? produce_bursts() : consume_bursts();
        if constexpr (has_jobs<Contender>) {
            if (setup_.scenario == Scenario::jobs) return setup_.producer() ? produce_jobs() : jobs_->work();
        }
        if (!setup_.client()) {
            serve();
            return "";
        }
        return setup_.scenario == Scenario::schedule ? schedule() : timed ? round_trips<true>() : round_trips<false>();
    }

    /// The number of messages of the next slice.
    std::uint64_t count(bool timed) {
        auto n = static_cast<std::uint64_t>(rate_ * setup_.time_slice);
        n = std::min(n, last_ * 4);
        n = std::max<std::uint64_t>(n, 64);
        return timed ? std::min(n, most_timed) : n;
    }
    void ran(std::uint64_t n, std::int64_t ns) {
        last_ = n;
        rate_ = static_cast<double>(n) * 1e9 / static_cast<double>(ns);
    }

    [[gnu::always_inline]] void round_trip(std::uint64_t number) {
        const std::uint64_t tag = M::tag(0, number);
        contender_.send([tag](auto&& to) { M::write(to, tag); });
        receive_one(number, tag);
    }

    [[gnu::always_inline]] void receive_one(std::uint64_t number, std::uint64_t tag) {
        bool here = false;
        while (!here) {
            contender_.receive([&](auto&& from) {
                if (!M::is(from, tag)) wrong(number, tag, M::word0(from));
                here = true;
            });
        }
    }

    void end_round_trips() {
        contender_.send([](auto&& to) { M::write_end(to); });
        receive_end();
    }

    void receive_end() {
        bool here = false;
        while (!here) {
            contender_.receive([&](auto&& from) {
                M::must_be_end(from, 0, 0);
                here = true;
            });
        }
    }

    template <bool Timed>
    [[gnu::noinline]] std::string round_trips() {
        const std::uint64_t n = count(Timed);
        round_trip(0);
        const std::int64_t start = bench_now();
        std::uint64_t before = ticks();
        for (std::uint64_t i = 1; i <= n; ++i) {
            round_trip(i);
            if constexpr (Timed) {
                const std::uint64_t now = ticks();
                sample(i - 1, now - before);
                before = now;
            }
        }
        const std::int64_t ns = bench_now() - start;
        end_round_trips();
        ran(n, ns);
        return Timed ? timed(n, ns) : mean(n, ns);
    }

    [[gnu::noinline]] std::string schedule() {
        const auto n = std::max<std::uint64_t>(
            64, std::min<std::uint64_t>(static_cast<std::uint64_t>(setup_.rate * setup_.time_slice), most_timed));
        const double period = 1e9 / setup_.rate / clock_.ns_per_tick;
        round_trip(0);
        const std::int64_t began = bench_now();
        const std::uint64_t start = ticks() + static_cast<std::uint64_t>(period);
        for (std::uint64_t i = 1; i <= n; ++i) {
            const std::uint64_t due = start + static_cast<std::uint64_t>(static_cast<double>(i - 1) * period);
            while (ticks() < due) {
            }
            round_trip(i);
            sample(i - 1, ticks() - due);
        }
        const std::int64_t ns = bench_now() - began;
        end_round_trips();
        return timed(n, ns);
    }

    void sample(std::uint64_t at, std::uint64_t elapsed) {
        const double ns = static_cast<double>(elapsed) * clock_.ns_per_tick;
        samples_[at] = ns < 4294967295.0 ? static_cast<std::uint32_t>(ns) : 4294967295U;
    }

    [[gnu::noinline]] void serve() {
        std::uint64_t number = 0;
        bool ended = false;
        while (!ended) {
            const std::uint64_t tag = M::tag(0, number);
            bool here = false;
            contender_.receive([&](auto&& from) {
                if (__builtin_expect(!M::is(from, tag), 0)) {
                    M::must_be_end(from, number, tag);
                    ended = true;
                } else {
                    here = true;
                }
            });
            if (here) {
                contender_.send([tag](auto&& to) { M::write(to, tag); });
                ++number;
            }
        }
        contender_.send([](auto&& to) { M::write_end(to); });
    }

    [[gnu::noinline]] std::string produce() {
        const std::uint64_t n = count(false);
        const unsigned producer = setup_.number();
        const std::int64_t start = bench_now();
        for (std::uint64_t i = 0; i < n; ++i) {
            const std::uint64_t tag = M::tag(producer, i);
            contender_.send([tag](auto&& to) { M::write(to, tag); });
        }
        ran(n, bench_now() - start);
        contender_.send([](auto&& to) { M::write_end(to); });
        if constexpr (gathers<Contender>) contender_.flush();
        return sent(n);
    }

    /// The clock runs while it sends, and what it has gathered counts.
    [[gnu::noinline]] std::string append() {
        const std::uint64_t n = count(false);
        const std::int64_t start = bench_now();
        for (std::uint64_t i = 0; i < n; ++i) {
            const std::uint64_t tag = M::tag(0, i);
            contender_.send([tag](auto&& to) { M::write(to, tag); });
        }
        if constexpr (gathers<Contender>) contender_.flush();
        const std::int64_t ns = bench_now() - start;
        ran(n, ns);
        contender_.send([](auto&& to) { M::write_end(to); });
        if constexpr (gathers<Contender>) contender_.flush();
        behind_->sent();
        return mean(n, ns);
    }

    std::string consume_behind() {
        behind_->wait();
        return consume();
    }

    std::string produce_jobs() {
        const std::uint64_t n = count(false);
        ran(n, jobs_->send(n));
        return sent(n);
    }

    [[gnu::noinline]] std::string produce_bursts() {
        const std::uint64_t n = count(false);
        std::int64_t ns = 0;
        for (std::uint64_t i = 0; i < n;) {
            const std::uint64_t first = i, behind = std::min(n, i + Burst::messages);
            const std::int64_t start = bench_now();
            for (; i < behind; ++i) {
                const std::uint64_t tag = M::tag(0, i);
                contender_.send([tag](auto&& to) { M::write(to, tag); });
            }
            ns += bench_now() - start;
            burst_->wait_until_read(i - first);
        }
        ran(n, ns);
        contender_.send([](auto&& to) { M::write_end(to); });
        burst_->wait_until_read(1);
        return mean(n, ns);
    }

    [[gnu::noinline]] std::string consume_bursts() {
        std::uint64_t number = 0, received = 0;
        for (bool ended = false; !ended;) {
            const std::uint64_t before = number, wanted = burst_->wait_for_burst();
            while (number - before < wanted && !ended) look<false>(number, received, ended);
            burst_->have_read(wanted);
        }
        return sent(received);
    }

    static std::string sent(std::uint64_t n) {
        std::ostringstream text;
        text << "{\"kind\": \"mean\", \"count\": " << n << "}";
        return text.str();
    }

    std::string consume() {
        const bool several = setup_.option("producers", std::size_t{1}) > 1;
        const bool lossy = setup_.option("lossy", std::size_t{0}) != 0;
        return several ? consume_several(2) : lossy ? consume_one<true>() : consume_one<false>();
    }

    template <bool Lossy>
    [[gnu::noinline]] std::string consume_one() {
        std::uint64_t number = 0, received = 0;
        bool ended = false;
        while (number == 0 && !ended) look<Lossy>(number, received, ended);
        const std::int64_t start = bench_now();
        const std::uint64_t first = received;
        while (!ended) look<Lossy>(number, received, ended);
        const std::int64_t ns = bench_now() - start;
        // Only messages that came while the clock ran: not those that came with the first one.
        return mean(received, ns, number - received, received - first);
    }

    template <bool Lossy>
    [[gnu::always_inline]] void look(std::uint64_t& number, std::uint64_t& received, bool& ended) {
        std::uint64_t at = number, got = received;
        bool end = false;
        contender_.receive([&](auto&& from) {
            std::uint64_t tag = M::tag(0, at);
            if (__builtin_expect(!M::is(from, tag), 0)) {
                if (Lossy && M::word0(from) < 64) {
                    at += (M::word0(from) - tag) % 64;
                    tag = M::tag(0, at);
                    if (!M::is(from, tag)) wrong(at, tag, M::word0(from));
                } else {
                    M::must_be_end(from, at, tag);
                    end = true;
                    return;
                }
            }
            ++at;
            ++got;
        });
        number = at;
        received = got;
        ended = end;
    }

    [[gnu::noinline]] std::string consume_several(unsigned producers) {
        std::uint64_t next[2] = {0, 0};
        std::uint64_t received = 0;
        std::uint64_t first = 0;
        unsigned ends = 0;
        std::int64_t start = 0;
        while (ends < producers) {
            contender_.receive([&](auto&& from) {
                const std::uint64_t tag = M::word0(from);
                if (__builtin_expect(tag >= 128, 0)) {
                    M::must_be_end(from, received, 0);
                    ++ends;
                    return;
                }
                if (__builtin_expect(tag % 64 != next[tag / 64] % 64 || !M::is(from, tag), 0))
                    wrong(received, tag, tag);
                ++next[tag / 64];
                ++received;
            });
            if (start == 0 && received != 0) {
                start = bench_now();
                first = received;
            }
        }
        return mean(received, bench_now() - start, 0, received - first);
    }

    static std::string mean(std::uint64_t n, std::int64_t ns) { return mean(n, ns, 0, n); }

    static std::string mean(std::uint64_t n, std::int64_t ns, std::uint64_t lost, std::uint64_t timed) {
        std::ostringstream text;
        text << "{\"kind\": \"mean\", \"count\": " << n << ", \"ns\": " << ns << ", \"lost\": " << lost
             << ", \"timed\": " << timed << "}";
        return text.str();
    }

    std::string timed(std::uint64_t n, std::int64_t ns) {
        const std::string name = "samples-" + std::to_string(files_++);
        std::ofstream file(setup_.path(name), std::ios::binary);
        file.write(reinterpret_cast<const char*>(samples_), static_cast<std::streamsize>(n * 4));
        if (!file.flush()) throw std::runtime_error("cannot write " + setup_.path(name));
        std::ostringstream text;
        text << "{\"kind\": \"timed\", \"count\": " << n << ", \"ns\": " << ns << ", \"samples\": \"" << name << "\"}";
        return text.str();
    }

    const Setup& setup_;
    Clock clock_;
    void* shared_;
    Contender contender_;
    std::optional<Jobs<Contender, M>> jobs_;
    std::optional<Burst> burst_;
    std::optional<Behind> behind_;
    std::uint32_t* samples_ = nullptr;
    double rate_ = 0;
    std::uint64_t last_ = 16;
    int files_ = 0;
};

/// MoreSizes: sizes in addition to those of all contenders.
template <class Contender, std::size_t... MoreSizes>
void run(const Setup& setup) {
    const auto with = [&](auto size) {
        constexpr std::size_t bytes = decltype(size)::value;
        if (setup.whole) {
            Runner<Contender, bytes, true>(setup).run();
        } else {
            Runner<Contender, bytes, false>(setup).run();
        }
    };
    switch (setup.size) {
        case 32:
            return with(std::integral_constant<std::size_t, 32>());
        case 1024:
            return with(std::integral_constant<std::size_t, 1024>());
        case 65536:
            return with(std::integral_constant<std::size_t, 65536>());
        default:
            if (!((setup.size == MoreSizes && (with(std::integral_constant<std::size_t, MoreSizes>()), true)) || ...))
                throw std::runtime_error("--size is 32, 1024 or 65536");
    }
}

}  // namespace bench
