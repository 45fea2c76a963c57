// SPDX-License-Identifier: Apache-2.0
//
// A model of how a queue's workers wait (queue.md 10): wait.cpp's words and steps, but a wake wakes one. README.md,
// "The queue", says how to read it and has the table of mutants.
//
// A ring is a counter of jobs published and one of jobs taken. Producer k publishes on ring k; a worker that has a job
// may work without end, so no other process may count on it; it may also release the job to the last ring. Stores of
// messages stay in a producer's or releasing worker's store buffer as in wait.cpp; a sleeper's membarrier empties it.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "queue.hpp"

namespace model {

namespace {

constexpr int producers = 2, rings = producers + 1, max_workers = 3, max_sources = producers + max_workers;

enum class Mutant {
    none,
    no_bit_again,
    no_barrier_again,
    no_chain,
    chain_one_ring,
    chain_before_bit,
    quits_silently,
    release_silent,
    takeover_wakes_one,
    no_barrier,
    clear_after_wake,
    wakes_all,
};

struct Scenario {
    const char* name;
    int workers, jobs[producers];
    int time_outs, quits, kills, releases, producer_kills;
    bool large;  // only with --large
};
const Scenario scenarios[] = {
    {"two workers", 2, {1, 1}, 0, 0, 0, 0, 0, false},
    {"a cap ends", 2, {1, 1}, 1, 0, 0, 0, 0, false},
    {"a worker stops waiting", 2, {1, 1}, 0, 1, 0, 0, 0, false},
    {"a worker killed", 2, {1, 1}, 0, 0, 1, 0, 0, false},
    {"a job released", 2, {1, 1}, 0, 0, 0, 1, 0, false},
    {"a producer killed", 2, {1, 1}, 0, 0, 0, 0, 1, false},
    {"large: two workers, three jobs", 2, {1, 2}, 1, 0, 0, 0, 0, true},
    {"large: three workers", 3, {1, 1}, 0, 0, 0, 0, 0, true},
    {"large: three workers, one stops waiting", 3, {1, 1}, 0, 1, 0, 0, 0, true},
    {"large: three workers, one killed", 3, {1, 1}, 0, 0, 1, 0, 0, true},
};

struct Row {
    Mutant mutant;
    const char *step, *what, *breaks, *because, *scenario;
};
const Row rows[] = {
    {Mutant::no_barrier, "queue wait", "a worker sleeps without the barrier (6.16, 3)", "Q6", "", "two workers"},
    {Mutant::clear_after_wake, "queue wait", "wake one: the bit is cleared behind the futex call", "Q6", "",
     "two workers"},
    {Mutant::no_bit_again, "queue wait", "a woken worker does not set the bit again", "Q6", "", "two workers"},
    {Mutant::no_barrier_again, "queue wait", "a woken worker sets the bit without the barrier", "Q6", "",
     "two workers"},
    {Mutant::no_chain, "queue wait", "a woken worker that took a job wakes nobody", "Q6", "", "two workers"},
    {Mutant::chain_one_ring, "queue wait", "it looks for another job on the same ring only", "Q6", "", "two workers"},
    {Mutant::chain_before_bit, "queue wait", "it looks for another job before it sets the bit", "Q6", "",
     "two workers"},
    {Mutant::quits_silently, "queue wait", "a worker whose wait ends without a job wakes nobody", "Q6", "",
     "a worker stops waiting"},
    {Mutant::release_silent, "queue wait", "a release wakes nobody", "Q6", "", "a job released"},
    {Mutant::takeover_wakes_one, "queue wait", "a producer's next owner wakes one, if the bit is set", "Q6", "",
     "a producer killed"},
    {Mutant::wakes_all, "queue wait", "a publish wakes all", "", "costs wake-ups, and no job waits longer",
     "two workers"},
};

// A process that publishes: a producer, or a worker that releases. It publishes on `ring`.
struct Source {
    int8_t pc, sent, buffered, dead;
};
struct Worker {
    int8_t pc, moved, long_cap, excused, woken, dead, ring, left;  // moved: sequence, since sleep 1; ring: of its job
};
struct State {
    int8_t published[rings], taken[rings], asleep;
    int8_t timeouts, quits, kills, releases, producer_kills;
    Source source[max_sources];
    Worker worker[max_workers];
};

enum SourcePc : int8_t { commit, check, clear, bump, futex_wake, take_bump, take_wake };
enum WorkerPc : int8_t {
    look0,
    load_sequence,
    set_bit,
    barrier,
    look,
    futex,
    asleep,
    bit_again,
    barrier_again,
    take,
    another,
    waking,
    working,
    releasing,
    quit_bit,
    quit_barrier,
    quit_look,
    left,
};

// The states that were found, by their hashes.
class Seen {
    std::vector<uint64_t> table = std::vector<uint64_t>(1 << 12);
    size_t count = 0;

  public:
    bool insert(uint64_t h) {  // false: it was there
        if (count * 2 >= table.size()) {
            std::vector<uint64_t> old(table.size() * 2);
            old.swap(table);
            for (uint64_t k : old)
                if (k != 0) table[place(k)] = k;
        }
        if (h == 0) h = 1;
        uint64_t& at = table[place(h)];
        if (at == h) return false;
        at = h;
        return ++count;
    }
    size_t size() const { return count; }

  private:
    size_t place(uint64_t h) const {
        size_t i = h & (table.size() - 1);
        while (table[i] != 0 && table[i] != h) i = (i + 1) & (table.size() - 1);
        return i;
    }
};

struct Model {
    const Scenario& c;
    Mutant mutant;
    const char* broken = nullptr;
    size_t states = 0;
    std::vector<State> must, may;

    bool off(Mutant m) const { return m == mutant; }
    static bool there(const State& s, int ring) { return s.taken[ring] < s.published[ring]; }
    static int first_job(const State& s) {
        for (int r = 0; r < rings; ++r)
            if (there(s, r)) return r;
        return -1;
    }
    static int ring_of(int source) { return source < producers ? source : producers; }
    static void drain(State& s, int source) {
        Source& me = s.source[source];
        if (me.buffered) ++s.published[ring_of(source)];
        me.buffered = 0;
    }
    static void drain_all(State& s) {
        for (int k = 0; k < max_sources; ++k) drain(s, k);
    }
    static void idle(Worker& w) { w.pc = look0, w.moved = w.long_cap = w.excused = w.woken = 0, w.ring = -1; }
    static void bump_sequence(State& s) {
        for (Worker& w : s.worker) w.moved = w.pc > load_sequence && w.pc <= asleep && !w.dead;
    }
    static void excuse(State& s) {  // until their cap
        for (Worker& w : s.worker) w.excused = w.pc >= load_sequence && w.pc <= asleep && !w.dead;
    }
    static void awake(Worker& w) { w.pc = bit_again, w.woken = 1, w.moved = w.excused = w.long_cap = 0; }

    // The steps of wake one, by a producer, by a worker that released, or by one that wakes one more. False: this was
    // the last one.
    void wake_steps(const State& s, int source, int8_t back) {
        State n = s;
        Source& me = n.source[source];
        switch (s.source[source].pc) {
            case check:
                me.pc = !s.asleep ? back : off(Mutant::clear_after_wake) ? int8_t(bump) : int8_t(clear);
                break;
            case clear:
                n.asleep = 0;
                me.pc = off(Mutant::clear_after_wake) ? back : int8_t(bump);
                break;
            case bump:  // a release
                drain(n, source);
                bump_sequence(n);
                me.pc = futex_wake;
                break;
            case futex_wake: {
                me.pc = off(Mutant::clear_after_wake) ? int8_t(clear) : back;
                bool any = false;
                for (int i = 0; i < c.workers; ++i) {  // the kernel chooses
                    if (s.worker[i].pc != asleep || s.worker[i].dead) continue;
                    any = true;
                    if (off(Mutant::wakes_all)) {
                        awake(n.worker[i]);
                        continue;
                    }
                    State one = n;
                    awake(one.worker[i]);
                    must.push_back(one);
                }
                if (any && !off(Mutant::wakes_all)) return;
                break;
            }
            default:
                return;
        }
        must.push_back(n);
    }

    void source_steps(const State& s, int k) {
        const Source& me = s.source[k];
        if (me.buffered) {
            State n = s;
            drain(n, k);
            must.push_back(n);
        }
        if (k >= producers) return;
        if (s.producer_kills && !me.dead) {
            State n = s;
            drain(n, k);
            --n.producer_kills, n.source[k].dead = 1;
            if (me.pc != commit) excuse(n);
            may.push_back(n);
        }
        State n = s;
        Source& w = n.source[k];
        if (me.dead) {  // its next owner
            w.dead = 0, w.pc = take_bump;
            if (off(Mutant::takeover_wakes_one)) w.pc = check;
            if (off(Mutant::takeover_wakes_one))
                for (Worker& r : n.worker) r.excused = 0;
            must.push_back(n);
            return;
        }
        switch (me.pc) {
            case commit:
                if (me.sent == c.jobs[k]) return;
                drain(n, k);
                ++w.sent, w.buffered = 1, w.pc = check;
                must.push_back(n);
                return;
            case take_bump:
                bump_sequence(n);
                w.pc = take_wake;
                must.push_back(n);
                return;
            case take_wake:
                for (Worker& r : n.worker) {
                    if (r.pc == asleep && !r.dead) awake(r);
                    r.excused = 0;
                }
                w.pc = commit;
                must.push_back(n);
                return;
            default:
                wake_steps(s, k, commit);
        }
    }

    void barrier_of(State& s, Mutant without) const {
        if (!off(without)) drain_all(s);
    }

    void worker_steps(const State& s, int i) {
        const Worker& me = s.worker[i];
        const int own = producers + i;
        if (me.dead || me.pc == left) return;
        if (s.kills && i == 1) {
            State n = s;
            drain(n, own);
            --n.kills;
            if (me.woken || me.pc == waking || me.pc == releasing) excuse(n);
            idle(n.worker[i]);
            n.worker[i].dead = 1, n.source[own].pc = commit;
            may.push_back(n);
        }
        State n = s;
        Worker& w = n.worker[i];
        switch (me.pc) {
            case look0:
            case take: {
                const int r = first_job(s);
                if (r >= 0) {
                    for (int ring = r; ring < rings; ++ring) {
                        if (!there(s, ring)) continue;
                        n = s, ++n.taken[ring];
                        w.ring = static_cast<int8_t>(ring);
                        w.pc = me.woken && !off(Mutant::no_chain) && !off(Mutant::chain_before_bit) ? another : working;
                        must.push_back(n);
                    }
                    return;
                }
                w.pc = load_sequence;
                break;
            }
            case load_sequence:
                w.moved = 0, w.pc = set_bit;
                break;
            case set_bit:
                n.asleep = 1, w.pc = barrier;
                break;
            case barrier:
                barrier_of(n, Mutant::no_barrier);
                w.pc = look;
                break;
            case look:
                w.pc = first_job(s) >= 0 ? take : futex;
                break;
            case futex:
                if (me.moved)
                    awake(w);
                else
                    w.pc = asleep, w.long_cap = 1;
                break;
            case asleep:
                if (s.timeouts) {
                    --n.timeouts;
                    awake(w);
                    may.push_back(n);
                }
                if (s.quits && i == 1) {  // its time-out passed, or it was cancelled or closed; woken: below
                    n = s, --n.quits;
                    w.pc = off(Mutant::quits_silently) ? left : quit_bit, w.woken = 1;
                    may.push_back(n);
                }
                return;
            case bit_again:
                if (s.quits && i == 1) {
                    State q = s;
                    --q.quits;
                    q.worker[i].pc = off(Mutant::quits_silently) ? left : quit_bit;
                    may.push_back(q);
                }
                if (off(Mutant::chain_before_bit)) {  // looks first
                    int jobs = 0;
                    for (int r = 0; r < rings; ++r) jobs += s.published[r] - s.taken[r];
                    if (jobs > 1) n.source[own].pc = check, w.ring = -1;
                }
                if (!off(Mutant::no_bit_again)) n.asleep = 1;
                w.pc = barrier_again;
                break;
            case barrier_again:
                if (s.source[own].pc != commit) return wake_steps(s, own, commit);
                barrier_of(n, Mutant::no_barrier_again);
                w.pc = take;
                break;
            case another: {
                const bool more = off(Mutant::chain_one_ring) ? there(s, me.ring) : first_job(s) >= 0;
                w.pc = more ? waking : working, w.woken = more;
                if (more) n.source[own].pc = check;
                break;
            }
            case waking:
                if (s.source[own].pc != commit) return wake_steps(s, own, commit);
                w.woken = 0, w.pc = me.ring >= 0 ? working : left;
                break;
            case working:  // perhaps without end
                idle(w);
                may.push_back(n);
                if (s.releases) {
                    n = s, --n.releases;
                    drain(n, own);
                    n.source[own].buffered = 1, n.source[own].pc = check;
                    w.pc = releasing;
                    if (off(Mutant::release_silent)) n.source[own].pc = commit;
                    may.push_back(n);
                }
                return;
            case releasing:  // then it goes on with the rest of its batch
                if (s.source[own].pc != commit) return wake_steps(s, own, commit);
                w.pc = working;
                break;
            case quit_bit:
                n.asleep = 1, w.pc = quit_barrier;
                break;
            case quit_barrier:
                drain_all(n);
                w.pc = quit_look;
                break;
            case quit_look:
                w.ring = -1;
                w.pc = first_job(s) >= 0 ? waking : left;
                if (w.pc == waking) n.source[own].pc = check;
                break;
            default:
                return;
        }
        must.push_back(n);
    }

    static uint64_t hash(const State& s) {
        uint64_t h = 0x9E3779B97F4A7C15;
        for (size_t i = 0; i < sizeof s; ++i)
            h = (h ^ reinterpret_cast<const uint8_t*>(&s)[i]) * 0xff51afd7ed558ccd, h ^= h >> 29;
        return h;
    }

    void explore() {
        State first;
        std::memset(&first, 0, sizeof first);
        for (Worker& w : first.worker) idle(w);
        first.timeouts = static_cast<int8_t>(c.time_outs), first.quits = static_cast<int8_t>(c.quits);
        first.kills = static_cast<int8_t>(c.kills), first.releases = static_cast<int8_t>(c.releases);
        first.producer_kills = static_cast<int8_t>(c.producer_kills);
        Seen seen;
        seen.insert(hash(first));
        std::vector<State> open{first};
        while (!open.empty() && !broken) {
            const State s = open.back();
            open.pop_back();
            must.clear(), may.clear();
            for (int k = 0; k < max_sources; ++k) source_steps(s, k);
            for (int i = 0; i < c.workers; ++i) worker_steps(s, i);
            if (must.empty() && first_job(s) >= 0)  // no step will come: a sleeper now sleeps to its cap
                for (const Worker& w : s.worker)
                    if (!w.dead && w.pc == asleep && w.long_cap && !w.excused) broken = "Q6";
            for (auto* more : {&must, &may})
                for (const State& n : *more)
                    if (seen.insert(hash(n))) open.push_back(n);
        }
        states = seen.size();
    }
};

}  // namespace

void print_queue_waiting_table() {
    for (const Row& row : rows)
        std::printf("| %s | %s | %s%s | queue waits: %s |\n", row.step, row.what,
                    *row.breaks ? row.breaks : "holds all the same: ", row.because, row.scenario);
}

void explore_queue_waiting(bool large, Wanted wanted, Report report) {
    auto explore = [&](const Scenario& c, Mutant mutant, const char* kind, const std::string& name, const char* breaks,
                       const char* because) {
        if (!wanted(name)) return;
        const auto start = std::chrono::steady_clock::now();
        Model m{c, mutant, nullptr, 0, {}, {}};
        m.explore();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        report({kind, name, m.broken ? m.broken : "", breaks, because, m.states, seconds, {}});
    };
    for (const Scenario& c : scenarios)
        if (large || !c.large) explore(c, Mutant::none, "scenario", std::string("queue waits: ") + c.name, "", "");
    for (const Row& row : rows)
        for (const Scenario& c : scenarios)
            if (!std::strcmp(c.name, row.scenario))
                explore(c, row.mutant, "mutant",
                        std::string(row.step) + ": " + row.what + " (queue waits: " + c.name + ")", row.breaks,
                        row.because);
}

}  // namespace model
