// SPDX-License-Identifier: Apache-2.0
//
// A model of waiting (channel.md 6.16): wakers, sleepers, the two words that they share. README.md, "Waiting", says how
// to read it and has the table of mutants.
//
// Two rings share one bit of `asleep`. Waker k publishes on ring k; sleeper 0 reads both rings, sleeper 1 reads ring 1.
// The other direction, publishers that sleep until a gate moves, is the same protocol with the roles exchanged.
// A waker's store of a message may stay in its store buffer while its later loads and relaxed read-modify-writes are
// done. For this protocol that is as weak as a weak memory. A release read-modify-write empties the buffer first.
// A step makes one access to shared memory. Between two steps anything may happen: another process's step, a store that
// becomes visible, a kill, a time-out.
#include "wait.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unordered_set>

namespace model {

namespace {

constexpr int wakers = 2, sleepers = 2, messages[wakers] = {1, 2};

// The sort of a waker's process. light: registered for the sleepers' membarrier. heavy: not registered, and has a full
// fence in place of the compiler fence. silent: opted out or foreign; it never wakes, and its `wakes` says so.
enum Sort : int8_t { light, heavy, silent, nobody };

enum class Mutant {
    none,
    no_barrier,
    look_before_bit,
    sequence_after_bit,
    bump_before_clear,
    clear_after_wake,
    never_cleared,
    not_registered,
    count,
    no_takeover_wake,
    takeover_looks_at_bits,
    takeover_before_epoch,
    wakes_before_sequence,
    nap_new_sequence,
    nap_without_bits,
    nap_looks_first,
    nap_without_look,
    bump_relaxed,
    heavy_without_fence,
    refused_keeps_cap,
    close_without_wake,
};

struct Row {
    Mutant mutant;
    const char *step, *what, *breaks, *because, *scenario;
};
const Row rows[] = {
    {Mutant::no_barrier, "6.16 sleep 3", "no barrier", "W1", "", "light"},
    {Mutant::look_before_bit, "6.16 sleep 4", "looks before it sets the bit, not behind the barrier", "W1", "",
     "light"},
    {Mutant::sequence_after_bit, "6.16 sleep 1", "sequence is loaded behind the bit", "W1", "", "light"},
    {Mutant::count, "6.16 sleep 2", "a count of sleepers instead of bits that the waker clears", "W2", "",
     "light, a sleeper killed"},
    {Mutant::nap_new_sequence, "6.16 nap", "sequence is loaded again, and 2 and 3 are left out all the same", "W1", "",
     "light"},
    {Mutant::nap_without_bits, "6.16 nap", "it does not look whether the bits are still set", "W1", "",
     "light, killed, then nobody"},
    {Mutant::nap_looks_first, "6.16 nap", "looks before it sees the bits, not behind that", "W1", "",
     "light, killed, then nobody"},
    {Mutant::nap_without_look, "6.16 nap", "does not look", "W1", "", "light, killed, then nobody"},
    {Mutant::wakes_before_sequence, "6.16 sleep 5", "`wakes` is loaded before sequence", "W1", "",
     "light, killed, then silent"},
    {Mutant::refused_keeps_cap, "6.16 sleep 5", "the sleeper's barrier is refused, and the cap stays long", "W1", "",
     "the sleepers' membarrier is refused"},
    {Mutant::bump_before_clear, "6.16 wake 1", "sequence + 1 before the bits are cleared", "W1", "", "light"},
    {Mutant::clear_after_wake, "6.16 wake 1", "the bits are cleared behind the futex call", "W1", "", "light"},
    {Mutant::never_cleared, "6.16 wake 1", "the bits are never cleared", "W2", "", "light"},
    {Mutant::bump_relaxed, "6.16 wake 2", "sequence + 1 is relaxed", "W1", "", "a waker closes"},
    {Mutant::not_registered, "6.16 register", "a waker without registration and without a fence", "W1", "", "light"},
    {Mutant::heavy_without_fence, "6.1 publish 10", "refused registration, and no fence", "W1", "",
     "heavy, killed, then light"},
    {Mutant::no_takeover_wake, "6.16 wake all", "a new owner does not wake", "W1", "", "light, a waker killed"},
    {Mutant::takeover_looks_at_bits, "6.16 wake all", "a new owner wakes only if a bit is set", "W1", "",
     "light, a waker killed"},
    {Mutant::takeover_before_epoch, "6.16 wake all", "a new owner wakes before its `wakes` and epoch are stored", "W1",
     "", "light, killed, then silent"},
    {Mutant::close_without_wake, "6.16 wake all", "a close does not wake", "W1", "", "a waker closes"},
};

struct Scenario {
    const char* name;
    Sort first[wakers], second;     // second: of ring 1, after a kill
    bool kill_waker, kill_sleeper;  // one of each
    bool refused;                   // the sleepers' membarrier
    bool closes;                    // waker 1 closes when it has published all
    int time_outs;                  // how often a sleeper's cap may end its sleep
};
const Scenario scenarios[] = {
    {"light", {light, light}, light, false, false, false, false, 1},
    {"light, a waker killed", {light, light}, light, true, false, false, false, 1},
    {"light, killed, then nobody", {light, light}, nobody, true, false, false, false, 2},
    {"light, both killed, then nobody", {light, light}, nobody, true, true, false, false, 2},
    {"light, a sleeper killed", {light, light}, light, false, true, false, false, 0},
    {"light, killed, then heavy", {light, light}, heavy, true, false, false, false, 1},
    {"light, killed, then silent", {light, light}, silent, true, false, false, false, 1},
    {"heavy, killed, then light", {light, heavy}, light, true, false, false, false, 1},
    {"heavy, killed, then silent", {heavy, heavy}, silent, true, false, false, false, 1},
    {"silent, killed, then light", {light, silent}, light, true, false, false, false, 1},
    {"the sleepers' membarrier is refused", {light, light}, light, true, false, true, false, 0},
    {"a waker closes", {light, heavy}, light, false, true, false, true, 1},
};

struct Waker {
    int8_t pc, sent, buffered, dead, closed, sort;  // buffered: a store that only this process sees so far: a
                                                    // message's number, or one of the following
};
enum : int8_t { store_closed = 10, store_wakes, store_silence };
struct Sleeper {
    int8_t pc, seen[wakers], saw_closed, looked, moved, wakes_seen, long_cap, excused,
        dead;  // moved: whether sequence has moved since step 1
};
struct State {
    int8_t published[wakers], wakes[wakers], closed, asleep;  // shared, as `sequence` is; wakes: is the owner's epoch
    int8_t credit;                                            // a bit was set since the last wake: only for W2
    int8_t unfenced;                                          // no sleeper's barrier has followed the bit: only for W1
    int8_t kills[2];                                          // still to come: of waker 1, of sleeper 1
    int8_t timeouts;                                          // still to come: of a sleeper
    Waker waker[wakers];
    Sleeper sleeper[sleepers];
};

enum SleeperPc : int8_t { look0, load_sequence, set_bit, barrier, look, cap, futex, asleep, nap_bits, nap_look };
enum WakerPc : int8_t { commit, check, clear, bump, futex_wake, take_bump, take_wake, take_epoch };

// One exploration.
struct Model {
    const Scenario& c;
    Mutant mutant;
    const char* broken = nullptr;
    size_t states = 0;
    std::vector<State> must, may;  // successors by steps that will come, and by events that may come

    bool off(Mutant m) const { return m == mutant; }
    static bool reads(int sleeper, int ring) { return sleeper == 0 || ring == 1; }
    bool there(const State& s, int k) const {
        const Sleeper& r = s.sleeper[k];
        for (int ring = 0; ring < wakers; ++ring)
            if (reads(k, ring) && r.seen[ring] < s.published[ring]) return true;
        return c.closes && s.closed && !r.saw_closed;
    }
    void consume(State& s, int k) const {
        Sleeper& r = s.sleeper[k];
        for (int ring = 0; ring < wakers; ++ring)
            if (reads(k, ring)) r.seen[ring] = s.published[ring];
        r.saw_closed = s.closed;
        again(r);
    }
    static void again(Sleeper& r) {  // to step 7; the results of the last round are reset
        r.pc = look0, r.looked = r.moved = r.wakes_seen = r.long_cap = r.excused = 0;
    }
    static void drain(State& s, int k) {
        int8_t& what = s.waker[k].buffered;
        if (what == store_closed)
            s.closed = 1;
        else if (what == store_wakes || what == store_silence)
            s.wakes[k] = what == store_wakes;
        else if (what)
            s.published[k] = what;
        what = 0;
    }
    static void drain_all(State& s) {
        for (int k = 0; k < wakers; ++k) drain(s, k);
    }
    void clear_bits(State& s) const {
        if (!off(Mutant::never_cleared) && !off(Mutant::count)) s.asleep = 0;
    }
    static void excuse_no_more(State& s) {
        for (Sleeper& r : s.sleeper) r.excused = 0;
    }
    static void bump_sequence(State& s) {
        for (Sleeper& r : s.sleeper) r.moved = r.pc != look0 && !r.dead;
    }
    // A futex wake: all sleepers go on at step 7 (which is the look before step 1).
    void wake(State& s) const {
        for (Sleeper& r : s.sleeper)
            if (r.pc == asleep && !r.dead) {
                again(r);
                if (off(Mutant::count)) --s.asleep;
            }
    }

    void waker_steps(const State& s, int k) {
        const Waker& me = s.waker[k];
        if (me.buffered) {  // a buffered store becomes visible at some time
            State n = s;
            drain(n, k);
            must.push_back(n);
        }
        if (k == 1 && !me.dead && s.kills[0]) {  // its buffered stores become visible all the same
            State n = s;
            drain(n, k);
            n.kills[0] = 0, n.waker[k].dead = 1;
            if (me.pc >= check && me.pc <= futex_wake)  // only the cap or the next owner ends the present sleeps
                for (Sleeper& r : n.sleeper) r.excused = r.pc != look0 && !r.dead;
            may.push_back(n);
        }
        State n = s;
        Waker& w = n.waker[k];
        if (me.dead) {  // the slot's next owner
            if (c.second == nobody) return;
            w.dead = 0, w.sort = c.second, w.sent = n.published[k];
            w.pc = off(Mutant::takeover_before_epoch) ? take_bump : take_epoch;
            must.push_back(n);
            return;
        }
        switch (me.pc) {
            case take_epoch:  // `wakes`, then the epoch: 5.2, 4
                drain(n, k);
                w.buffered = w.sort != silent ? store_wakes : store_silence;
                w.pc = off(Mutant::takeover_before_epoch) ? commit : take_bump;
                if (off(Mutant::no_takeover_wake) || (off(Mutant::takeover_looks_at_bits) && !s.asleep))
                    w.pc = commit, excuse_no_more(n);
                break;
            case take_bump:
                if (!off(Mutant::bump_relaxed)) drain(n, k);
                bump_sequence(n);
                w.pc = take_wake;
                break;
            case take_wake:
                wake(n);
                excuse_no_more(n);
                w.pc = off(Mutant::takeover_before_epoch) && !w.closed ? take_epoch : commit;
                break;
            case commit:  // publish 6
                if (w.sent == messages[k]) {
                    if (k != 1 || !c.closes || w.closed) return;
                    drain(n, k);
                    w.buffered = store_closed, w.closed = 1;
                    w.pc = off(Mutant::close_without_wake) ? commit : take_bump;
                    break;
                }
                drain(n, k);
                w.buffered = ++w.sent;
                if (w.sort == heavy && !off(Mutant::heavy_without_fence)) drain(n, k);
                w.pc = w.sort == silent ? commit : check;
                break;
            case check:  // publish 10
                w.pc = !s.asleep                                                         ? commit
                       : off(Mutant::bump_before_clear) || off(Mutant::clear_after_wake) ? bump
                                                                                         : clear;
                if (s.asleep && !s.credit) broken = "W2";
                break;
            case clear:  // wake 1; two mutants reorder it
                clear_bits(n);
                n.credit = 0;
                w.pc = off(Mutant::bump_before_clear) ? futex_wake : off(Mutant::clear_after_wake) ? commit : bump;
                break;
            case bump:  // wake 2
                if (!off(Mutant::bump_relaxed)) drain(n, k);
                bump_sequence(n);
                w.pc = off(Mutant::bump_before_clear) ? clear : futex_wake;
                break;
            case futex_wake:  // wake 3
                wake(n);
                w.pc = off(Mutant::clear_after_wake) ? clear : commit;
                break;
            default:
                return;
        }
        must.push_back(n);
    }

    void sleeper_steps(const State& s, int k) {
        const Sleeper& me = s.sleeper[k];
        if (me.dead) return;
        if (k == 1 && s.kills[1]) {
            State n = s;
            n.kills[1] = 0, again(n.sleeper[k]), n.sleeper[k].dead = 1;
            may.push_back(n);
        }
        State n = s;
        Sleeper& r = n.sleeper[k];
        switch (me.pc) {
            case look0:  // 7, and the poll before a wait
                if (there(s, k)) {
                    consume(n, k);
                    break;
                }
                r.wakes_seen = off(Mutant::wakes_before_sequence) && wakes_of_all(s, k);
                r.pc = off(Mutant::sequence_after_bit) ? set_bit : load_sequence;
                break;
            case load_sequence:  // 1
                r.moved = 0;
                r.pc = off(Mutant::sequence_after_bit) ? barrier : set_bit;
                break;
            case set_bit:                                          // 2
                if (off(Mutant::look_before_bit) && !me.looked) {  // a step of its own
                    r.looked = 1;
                    if (there(s, k)) consume(n, k);
                    break;
                }
                if (!s.asleep) n.unfenced = 1;
                n.asleep = off(Mutant::count) ? int8_t(s.asleep + 1) : int8_t(1);
                n.credit = 1;
                r.pc = off(Mutant::sequence_after_bit) ? load_sequence : barrier;
                break;
            case barrier:  // 3
                barrier_of(n);
                r.pc = off(Mutant::look_before_bit) ? cap : look;
                break;
            case look:  // 4
                if (there(s, k)) {
                    if (off(Mutant::count)) --n.asleep;
                    consume(n, k);
                    break;
                }
                r.pc = cap;
                break;
            case cap:  // 5
                r.long_cap = (off(Mutant::wakes_before_sequence) ? r.wakes_seen : wakes_of_all(s, k)) &&
                             (!c.refused || off(Mutant::refused_keeps_cap));
                r.pc = futex;
                break;
            case futex:  // 6: the kernel compares and enqueues at once
                if (!me.moved) {
                    r.pc = asleep;
                    break;
                }
                again(r);
                if (off(Mutant::count)) --n.asleep;
                break;
            case asleep:
                if (!s.timeouts) return;  // a time-out may come; what it finds does not count as noticed in time
                --n.timeouts;
                if (off(Mutant::count)) --n.asleep;
                if (me.long_cap) {  // it may nap, or not
                    State napping = n;
                    napping.sleeper[k].pc = off(Mutant::nap_looks_first) ? nap_look : nap_bits;
                    if (off(Mutant::nap_new_sequence)) napping.sleeper[k].moved = 0;
                    may.push_back(napping);
                }
                again(r);
                may.push_back(n);
                return;
            case nap_bits:  // perhaps bits of another sleeper, whose barrier is yet to come: a kill excuses this, too
                if (!s.asleep && !off(Mutant::nap_without_bits)) {
                    again(r);
                    break;
                }
                if (!s.unfenced) r.excused = 0;
                r.pc = off(Mutant::nap_looks_first) || off(Mutant::nap_without_look) ? futex : nap_look;
                break;
            case nap_look:
                if (there(s, k)) {
                    consume(n, k);
                    break;
                }
                r.pc = off(Mutant::nap_looks_first) ? nap_bits : futex;
                break;
            default:
                return;
        }
        must.push_back(n);
    }

    bool wakes_of_all(const State& s, int k) const {
        for (int ring = 0; ring < wakers; ++ring)
            if (reads(k, ring) && !s.wakes[ring]) return false;
        return true;
    }
    void barrier_of(State& s) const {
        s.unfenced = 0;
        if (off(Mutant::no_barrier) || c.refused) return;
        for (int k = 0; k < wakers; ++k)
            if (s.waker[k].sort == light && !off(Mutant::not_registered)) drain(s, k);
    }

    static uint64_t hash(const State& s) {  // among 10 million states two share a hash with a probability of 3e-6
        uint64_t h = 0x9E3779B97F4A7C15;
        for (size_t i = 0; i < sizeof s; ++i)
            h = (h ^ reinterpret_cast<const uint8_t*>(&s)[i]) * 0xff51afd7ed558ccd, h ^= h >> 29;
        return h;
    }

    void explore() {
        State first;
        std::memset(&first, 0, sizeof first);
        first.kills[0] = c.kill_waker, first.kills[1] = c.kill_sleeper;
        for (int k = 0; k < wakers; ++k) first.waker[k].sort = c.first[k], first.wakes[k] = c.first[k] != silent;
        first.timeouts = static_cast<int8_t>(c.time_outs);
        std::unordered_set<uint64_t> seen{hash(first)};
        std::vector<State> open{first};
        while (!open.empty() && !broken) {
            State s = open.back();
            open.pop_back();
            must.clear(), may.clear();
            for (int k = 0; k < wakers; ++k) waker_steps(s, k);
            for (int k = 0; k < sleepers; ++k) sleeper_steps(s, k);
            if (must.empty())  // no step will come: a sleeper now sleeps to its cap
                for (int k = 0; k < sleepers; ++k)
                    if (!s.sleeper[k].dead && s.sleeper[k].pc == asleep && s.sleeper[k].long_cap &&
                        !s.sleeper[k].excused && there(s, k))
                        broken = "W1";
            for (auto* more : {&must, &may})
                for (const State& n : *more)
                    if (seen.insert(hash(n)).second) open.push_back(n);
        }
        states = seen.size();
    }
};

}  // namespace

void print_waiting_table() {
    for (const Row& row : rows)
        std::printf("| %s | %s | %s%s | waiting: %s |\n", row.step, row.what,
                    *row.breaks ? row.breaks : "holds all the same: ", row.because, row.scenario);
}

std::vector<WaitingResult> explore_waiting(bool (*wanted)(const std::string& name)) {
    std::vector<WaitingResult> results;
    auto explore = [&](const Scenario& c, Mutant mutant, const char* kind, const std::string& name,
                       const char* expected) {
        if (!wanted(name)) return;
        Model m{c, mutant, nullptr, 0, {}, {}};
        m.explore();
        results.push_back({kind, name, m.broken ? m.broken : "", expected, m.states});
    };
    for (const Scenario& c : scenarios) explore(c, Mutant::none, "scenario", std::string("waiting: ") + c.name, "");
    for (const Row& row : rows)
        for (const Scenario& c : scenarios)
            if (!std::strcmp(c.name, row.scenario))
                explore(c, row.mutant, "mutant", std::string(row.step) + ": " + row.what + " (waiting: " + c.name + ")",
                        row.breaks);
    return results;
}

}  // namespace model
