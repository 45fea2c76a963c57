// SPDX-License-Identifier: Apache-2.0
//
// One exploration of the queue's or the service's model: breadth first, states known by their hash; then backward from
// the ends, to see from where one can be reached. And how a table of mutants is explored and printed.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "queue.hpp"

namespace model {

// A mutant: the step that it does differently, what that breaks, or why it holds all the same, and the scenario that
// shows it.
template <class Mutant>
struct Row {
    Mutant mutant;
    const char *step, *what, *breaks, *because, *scenario;
};

// State: plain words, that are compared whole.
template <class State>
class Search {
  public:
    const char* broken = nullptr;
    size_t states = 0;
    std::vector<std::string> trace;

    // liveness: the invariant that breaks where no end can be reached.
    void explore(const char* liveness) {
        table.assign(1 << 16, UINT32_MAX);
        std::vector<uint64_t> edges;  // of progress: to, from
        std::vector<bool> needs, good;
        std::deque<State> open{first()};
        bool fresh;
        number(hash(open.front()), 0, fresh);
        for (uint32_t at = 0; !open.empty(); ++at) {
            const State s = open.front();
            open.pop_front();
            const bool end = at_end(s);
            if (end) check_end(s);
            needs.push_back(needs_end(s)), good.push_back(end);
            steps_of(s);
            for (const Next& n : out) {
                const uint32_t to = number(hash(n.s), at, fresh);
                if (fresh) open.push_back(n.s);
                if (n.progress && to != at) edges.push_back(uint64_t(to) << 32 | at);
            }
            if (broken) {
                states = hashes.size();
                return keep_trace(at);
            }
        }
        states = hashes.size();
        look_for_the_end(edges, needs, good, liveness);
    }

  protected:
    Search() = default;
    ~Search() = default;
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    virtual State first() const = 0;
    virtual void steps(const State& s) = 0;  // emits what may come next
    virtual bool at_end(const State& s) const = 0;
    virtual void check_end(const State& s) = 0;
    virtual bool needs_end(const State& s) const = 0;  // whether one must be reached from here
    virtual std::string print(const State& s) const = 0;

    void check(bool good, const char* invariant) {
        if (!good && !broken) broken = invariant;
    }
    // progress: a step of a process on which all others may rely.
    void emit(const State& n, bool progress) { out.push_back({n, progress}); }

  private:
    struct Next {
        State s;
        bool progress;
    };

    static uint64_t hash(const State& s) {
        uint64_t words[(sizeof s + 7) / 8] = {}, h = 0x9E3779B97F4A7C15;
        std::memcpy(words, &s, sizeof s);
        for (uint64_t v : words) h = (h ^ v) * 0xFF51AFD7ED558CCD, h ^= h >> 32;
        h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53;
        return h ^ (h >> 29);
    }
    void steps_of(const State& s) {
        out.clear();
        steps(s);
    }
    uint32_t number(uint64_t h, uint32_t from, bool& fresh) {
        if (hashes.size() * 2 > table.size()) {
            table.assign(table.size() * 2, UINT32_MAX);
            for (uint32_t k = 0; k < hashes.size(); ++k) table[slot(hashes[k])] = k;
        }
        uint32_t& at = table[slot(h)];
        fresh = at == UINT32_MAX;
        if (fresh) {
            at = static_cast<uint32_t>(hashes.size());
            hashes.push_back(h);
            parent.push_back(from);
        }
        return at;
    }
    size_t slot(uint64_t h) const {
        size_t i = h & (table.size() - 1);
        while (table[i] != UINT32_MAX && hashes[table[i]] != h) i = (i + 1) & (table.size() - 1);
        return i;
    }
    void keep_trace(uint32_t at) {
        std::vector<uint64_t> path;
        for (uint32_t k = at; k != 0; k = parent[k]) path.push_back(hashes[k]);
        State s = first();
        const char* was = broken;
        for (size_t k = path.size(); k-- > 0;) {
            steps_of(s);
            for (const Next& n : out)
                if (hash(n.s) == path[k]) {
                    s = n.s;
                    break;
                }
            trace.push_back(print(s));
        }
        broken = was;
    }
    // Backward from the ends, along the edges of progress.
    void look_for_the_end(std::vector<uint64_t>& edges, const std::vector<bool>& needs, std::vector<bool>& good,
                          const char* liveness) {
        std::vector<uint32_t> first_edge(states + 1, 0), from(edges.size()), open;
        for (uint64_t e : edges) ++first_edge[e >> 32];
        uint32_t sum = 0;
        for (uint32_t& f : first_edge) f = sum += f;
        for (uint64_t e : edges) from[--first_edge[e >> 32]] = static_cast<uint32_t>(e);
        for (uint32_t k = 0; k < states; ++k)
            if (good[k]) open.push_back(k);
        while (!open.empty()) {
            const uint32_t k = open.back();
            open.pop_back();
            for (uint32_t q = first_edge[k]; q < first_edge[k + 1]; ++q)
                if (!good[from[q]]) good[from[q]] = true, open.push_back(from[q]);
        }
        for (uint32_t k = 0; k < states && !broken; ++k)
            if (needs[k] && !good[k]) check(false, liveness), keep_trace(k);
    }

    std::vector<Next> out;
    std::vector<uint64_t> hashes;  // of each state, by number
    std::vector<uint32_t> parent, table;
};

// The rows of README.md.
template <class Rows>
void print_rows(const char* model, const Rows& rows) {
    for (const auto& row : rows)
        std::printf("| %s | %s | %s%s | %s: %s |\n", row.step, row.what,
                    *row.breaks ? row.breaks : "holds all the same: ", row.because, model, row.scenario);
}

// Each scenario, then each mutant in its scenario, whose name is `wanted`.
template <class Model, class Scenarios, class Rows>
void explore_rows(const char* model, const char* liveness, const Scenarios& scenarios, const Rows& rows, bool large,
                  Wanted wanted, Report report) {
    using Mutant = decltype(rows[0].mutant);
    const std::string prefix = std::string(model) + ": ";
    auto explore = [&](const auto& c, Mutant mutant, const char* kind, const std::string& name, const char* breaks,
                       const char* because) {
        if (!wanted(name)) return;
        const auto start = std::chrono::steady_clock::now();
        Model m(c, mutant);
        m.explore(liveness);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        report({kind, name, m.broken ? m.broken : "", breaks, because, m.states, seconds, m.trace});
    };
    for (const auto& c : scenarios)
        if (large || !c.large) explore(c, Mutant::none, "scenario", prefix + c.name, "", "");
    for (const auto& row : rows)
        for (const auto& c : scenarios)
            if (!std::strcmp(c.name, row.scenario))
                explore(c, row.mutant, "mutant", std::string(row.step) + ": " + row.what + " (" + prefix + c.name + ")",
                        row.breaks, row.because);
}

}  // namespace model
