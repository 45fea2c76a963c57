// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "clock.hpp"
#include "probe.h"
#include "setup.hpp"
#include "words.hpp"

// Scenario `map` of bench/PEER.md, the same for every map. A map is a class
// with
//
//   explicit Map(const Setup&);                  opens what it can alone
//   void fill(std::int64_t key, const MapValue&);   side a, once for each key
//   void ready(const std::vector<std::int64_t>& sequence);   side a, when all
//   are filled void join();                                 side b, if it
//   writes beside the reader bool get(std::size_t at, std::int64_t key,
//   MapValue& to);   key is sequence[at] void put(std::size_t at, std::int64_t
//   key, const MapValue&); static std::string version(); and, of a key-value
//   server (--option outstanding=N: so many questions are under way): template
//   <class Next, class Took> void lookup(std::uint64_t n, Next&& next, Took&&
//   took);
//                                                n times key = next(), and
//                                                took(key, value or null)
//   void serve();                                side b, again and again while
//   side a asks; not if an extra serves

namespace bench {

template <class Map, class = void>
inline constexpr bool has_server = false;
template <class Map>
inline constexpr bool has_server<Map, decltype(std::declval<Map&>().serve())> = true;

/// 48 bytes that tell which key they belong to, and which write they are of.
struct MapValue {
    static constexpr std::uint64_t factor = 0x9E3779B97F4A7C15;

    std::array<std::uint64_t, 6> words;

    static MapValue of(std::int64_t key, std::uint64_t write) {
        const std::uint64_t sum = static_cast<std::uint64_t>(key) ^ write;
        return {{write, sum + factor, sum + 2 * factor, sum + 3 * factor, sum + 4 * factor, sum + 5 * factor}};
    }
    bool belongs_to(std::int64_t key) const {
        const std::uint64_t sum = static_cast<std::uint64_t>(key) ^ words[0];
        std::uint64_t wrong = 0;
        for (std::uint64_t i = 1; i < words.size(); ++i) wrong |= words[i] ^ (sum + i * factor);
        return wrong == 0;
    }
};

struct NextKey {
    std::int64_t operator()() const { return 0; }
};
struct TookValue {
    void operator()(std::int64_t, const MapValue*) const {}
};
template <class Map, class = void>
inline constexpr bool has_lookup = false;
template <class Map>
inline constexpr bool has_lookup<Map, decltype(std::declval<Map&>().lookup(0, NextKey(), TookValue()))> = true;

template <class Map>
class MapRunner {
  public:
    explicit MapRunner(const Setup& setup)
        : setup_(setup),
          shared_(bench_map(setup.dir.c_str())),
          page_(setup),
          asks_(setup.option("outstanding", std::size_t{0}) != 0),
          beside_(setup.option("beside", std::size_t{0}) != 0),
          puts_(setup.option("operation", std::string("get")) == "put"),
          hits_(setup.option("misses", std::size_t{0}) == 0),
          sequence_(keys("sequence")),
          filled_(setup.client() ? keys("keys") : std::vector<std::int64_t>()),
          map_(setup) {
        if (shared_ == nullptr) throw std::runtime_error("cannot map " + setup.dir + "/shared");
        if (!setup.client())
            at_ = sequence_.size() / 2;  // a writer does not bring the reader's next keys into the cache
    }

    void run() {
        std::printf(
            "{\"opened\": true, \"thread\": %ld, \"clock_ns\": %.1f, "
            "\"runtime\": \"%s\", \"version\": \"%s\"}\n",
            static_cast<long>(syscall(SYS_gettid)), clock_.cost, "g++ " __VERSION__, Map::version().c_str());
        std::fflush(stdout);
        std::string line;
        while (std::getline(std::cin, line)) {
            if (line == "connect") {
                connect();
                std::printf("{\"connected\": true}\n");
            } else {
                std::istringstream words(line);
                std::string word;
                int slices = 0;
                words >> word >> slices;
                if (word != "turn" || slices < 1) throw std::runtime_error("unknown command: " + line);
                turn(slices);
            }
            std::fflush(stdout);
        }
    }

  private:
    static constexpr unsigned ended = 0;   // the word that counts the slices that side a has ended
    static constexpr unsigned filled = 1;  // the word that is 1 when the map is filled
    static constexpr unsigned begun = 2;   // the word that counts the slices in which the writer beside has begun

    std::vector<std::int64_t> keys(const char* name) const {
        std::ifstream file(setup_.path(name), std::ios::binary | std::ios::ate);
        std::vector<std::int64_t> found(static_cast<std::size_t>(file.tellg()) / 8);
        file.seekg(0);
        if (!file.read(reinterpret_cast<char*>(found.data()), static_cast<std::streamsize>(found.size() * 8)))
            throw std::runtime_error("cannot read " + setup_.path(name));
        return found;
    }

    void connect() {
        if (setup_.client()) {
            for (const std::int64_t key : filled_) map_.fill(key, MapValue::of(key, 0));
            map_.ready(sequence_);
            page_.set(filled, 1);
        } else if (beside_ || has_server<Map>) {
            while (page_.get(filled) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            map_.join();
        }
    }

    void turn(int slices) {
        std::string probes, results;
        probe(probes);
        for (int i = 0; i < slices; ++i) {
            bench_barrier(shared_, setup_.sides);
            const std::string result = setup_.client() ? slice() : beside_ ? write_beside() : serve();
            if (!result.empty()) results += (results.empty() ? "" : ", ") + result;
            bench_barrier(shared_, setup_.sides);
            probe(probes);
        }
        bench_barrier(shared_, setup_.sides);
        std::printf("{\"probes\": [%s], \"slices\": [%s]}\n", probes.c_str(), results.c_str());
    }

    void probe(std::string& probes) {
        const double ns = bench_probe(shared_, setup_.client() ? 0 : 1, 20'000);
        if (setup_.client()) probes += (probes.empty() ? "" : ", ") + std::to_string(ns);
    }

    std::string slice() {
        const auto wanted = std::min(static_cast<std::uint64_t>(rate_ * setup_.time_slice), last_ * 4);
        const auto n = std::max<std::uint64_t>(64, wanted);
        while (beside_ && page_.get(begun) <= slices_) {
        }
        const std::int64_t start = bench_now();
        if (asks_) {
            ask(n);
        } else {
            puts_ ? put(n) : hits_ ? get<true>(n) : get<false>(n);
        }
        const std::int64_t ns = bench_now() - start;
        page_.set(ended, ++slices_);
        last_ = n;
        rate_ = static_cast<double>(n) * 1e9 / static_cast<double>(ns);
        return result(n, ns);
    }

    template <bool Hits>
    [[gnu::noinline]] void get(std::uint64_t n) {
        const std::size_t mask = sequence_.size() - 1;
        for (std::uint64_t i = 0; i < n; ++i) {
            const std::size_t at = at_++ & mask;
            const std::int64_t key = sequence_[at];
            MapValue value;
            const bool there = map_.get(at, key, value);
            if (__builtin_expect(there != Hits, 0)) wrong(key, there ? "is there" : "is not there");
            if (Hits && __builtin_expect(!value.belongs_to(key), 0)) wrong(key, "has a wrong value");
        }
    }

    [[gnu::noinline]] void ask(std::uint64_t n) {
        if constexpr (has_lookup<Map>) {
            const std::size_t mask = sequence_.size() - 1;
            map_.lookup(
                n, [&] { return sequence_[at_++ & mask]; },
                [&](std::int64_t key, const MapValue* value) {
                    if ((value != nullptr) != hits_) wrong(key, value != nullptr ? "is there" : "is not there");
                    if (value != nullptr && !value->belongs_to(key)) wrong(key, "has a wrong value");
                });
        } else {
            throw std::runtime_error("cannot: " + setup_.contender + ": it is no server");
        }
    }

    std::string serve() {
        if constexpr (has_server<Map>) {
            ++slices_;
            while (page_.get(ended) < slices_) map_.serve();
        }
        return "";
    }

    [[gnu::noinline]] void put(std::uint64_t n) {
        const std::size_t mask = sequence_.size() - 1;
        for (std::uint64_t i = 0; i < n; ++i) {
            const std::size_t at = at_++ & mask;
            const std::int64_t key = sequence_[at];
            map_.put(at, key, MapValue::of(key, ++writes_));
        }
    }

    std::string write_beside() {
        const std::int64_t start = bench_now();
        std::uint64_t n = 0;
        ++slices_;
        do {
            put(64);
            n += 64;
            if (n == 64) page_.set(begun, slices_);
        } while (page_.get(ended) < slices_);
        return result(n, bench_now() - start);
    }

    static std::string result(std::uint64_t n, std::int64_t ns) {
        std::ostringstream text;
        text << "{\"kind\": \"mean\", \"count\": " << n << ", \"ns\": " << ns << "}";
        return text.str();
    }

    [[noreturn, gnu::cold, gnu::noinline]] static void wrong(std::int64_t key, const char* what) {
        throw std::runtime_error("key " + std::to_string(key) + " " + what);
    }

    const Setup& setup_;
    Clock clock_;
    void* shared_;
    Words page_;
    bool asks_;    // a key-value server
    bool beside_;  // whether side b writes while side a reads
    bool puts_;
    bool hits_;
    std::vector<std::int64_t> sequence_;
    std::vector<std::int64_t> filled_;  // kept, because the driver compares this
                                        // process' memory before and after
    Map map_;
    std::size_t at_ = 0;
    std::uint64_t writes_ = 0;
    std::uint64_t slices_ = 0;
    double rate_ = 0;
    std::uint64_t last_ = 16;
};

}  // namespace bench
