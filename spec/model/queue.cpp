// SPDX-License-Identifier: Apache-2.0
//
// A model of the queue (queue.md, sections 3 to 9): producers, workers that take, adopt and release, an evicting
// operator, the next owners of slots, a process that asks whether the queue has ended. README.md, "The queue", says how
// to read it and has the table of mutants.
//
// A place of a ring holds one record, a job or padding. A cell knows the position of the record committed there, which
// only the checks look at. (The ring's model checks that a reader at a boundary sees nothing or this lap's record.)
// A step makes one access to shared memory. Between two steps anything may happen: another process's step, a store that
// becomes visible, a kill. A stopped worker is one whose steps are not taken for a while.
#include "queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>

namespace model {

namespace {

constexpr int max_workers = 3, max_rings = 3, max_places = 3, max_positions = 6, max_jobs = 5, buffer_size = 4,
              none = -1, writing = 100, evictor_id = 9;

enum class Mutant {
    none,
    take_gate0_relaxed,
    take_refused,
    take_end_relaxed,
    take_gate_relaxed,
    take_gate_first,
    take_late,
    take_cas_relaxed,
    take_no_minus_one,
    take_padding_store,
    take_attempts,
    look_before_take,
    look_after_take,
    look_each_job,
    look_at_done,
    done_fence,
    done_early,
    done_relaxed,
    room_gate0_last,
    room_gates_descending,
    room_gates_relaxed,
    room_gate0_relaxed,
    room_handovers,
    room_handovers_relaxed,
    room_retire,
    adopt_with_job,
    adopt_no_lock,
    adopt_dead_without_lock,
    adopt_no_epoch,
    adopt_not_still,
    adopt_end_first,
    adopt_gate0_first,
    adopt_lives_late,
    adopt_announced,
    adopt_no_gate0,
    adopt_min_gate0,
    adopt_clear_first,
    adopt_count_first,
    adopt_count_last,
    adopt_no_count,
    adopt_count_relaxed,
    adopt_end_after_gate,
    adopt_end_last,
    adopt_no_attempts,
    adopt_attempts_last,
    adopt_store,
    adopt_keeps,
    adopt_in_place,
    adopt_no_lap_test,
    adopt_no_fence,
    next_forgets,
    next_no_lock,
    next_no_attempts,
    lost_takes_back,
    evict_flag_first,
    evict_no_lock,
    release_waits_for_slot,
    release_waits_for_room,
    release_epoch_first,
    release_no_fence,
    release_done_first,
    release_no_attempts,
    release_no_slot,
    release_keeps_attempts,
    release_attempts_stay,
    ended_gates_first,
    ended_returns_once,
    ended_handovers,
};

struct Scenario {
    const char* name;
    int workers, batch;
    const char* plan[2];  // of each producer: j a job, p padding
    int places[2];        // of a producer's ring; of the returns ring
    int kills, evicts, evictor_kills, releases;
    bool ended;  // a process looks whether the queue has ended (9)
    bool large;  // only with --large
};
const Scenario scenarios[] = {
    {"one worker", 1, 1, {"jj", ""}, {1, 1}, 0, 0, 0, 0, false, false},
    {"one worker, killed", 1, 1, {"j", ""}, {1, 1}, 1, 0, 0, 0, false, false},
    {"one worker, released", 1, 2, {"jjj", ""}, {2, 1}, 0, 0, 0, 2, false, false},
    {"one worker, killed, released", 1, 1, {"j", ""}, {1, 1}, 1, 0, 0, 1, false, false},
    {"two workers", 2, 1, {"pjj", ""}, {1, 1}, 0, 0, 0, 0, false, false},
    {"killed", 2, 1, {"jj", ""}, {1, 1}, 1, 0, 0, 0, false, false},
    {"killed twice", 2, 1, {"jj", ""}, {1, 1}, 2, 0, 0, 0, false, false},
    {"evicted", 2, 1, {"jj", ""}, {1, 1}, 0, 1, 0, 0, false, false},
    {"evictor killed", 2, 1, {"jj", ""}, {1, 1}, 0, 1, 1, 0, false, false},
    {"killed and evicted", 2, 1, {"jj", ""}, {1, 1}, 1, 1, 0, 0, false, false},
    {"two places, killed", 2, 1, {"jj", ""}, {2, 1}, 1, 0, 0, 0, false, false},
    {"two places, killed twice", 2, 1, {"jj", ""}, {2, 1}, 2, 0, 0, 0, false, false},
    {"two places, evicted", 2, 1, {"jj", ""}, {2, 1}, 0, 1, 0, 0, false, false},
    {"batches, killed", 2, 2, {"jjj", ""}, {2, 1}, 1, 0, 0, 0, false, false},
    {"batches, evicted", 2, 2, {"jjpp", ""}, {2, 1}, 0, 1, 0, 0, false, false},
    {"batches of three, killed", 2, 3, {"jjj", ""}, {3, 1}, 1, 0, 0, 0, false, false},
    {"two producers", 2, 1, {"j", "j"}, {1, 1}, 1, 0, 0, 0, false, false},
    {"released", 2, 1, {"j", ""}, {1, 1}, 1, 0, 0, 1, false, false},
    {"released, evicted", 2, 1, {"jj", ""}, {1, 1}, 0, 1, 0, 1, false, false},
    {"released twice", 2, 1, {"jj", ""}, {2, 1}, 0, 0, 0, 2, false, false},
    {"ended", 2, 1, {"j", ""}, {1, 1}, 1, 0, 0, 1, true, false},
    {"three workers, killed", 3, 1, {"j", ""}, {1, 1}, 1, 0, 0, 0, false, false},
    {"three workers, evicted", 3, 1, {"j", ""}, {1, 1}, 0, 1, 0, 0, false, false},
    {"large: killed twice", 2, 2, {"jjj", ""}, {2, 1}, 2, 0, 0, 0, false, true},
    {"large: killed and evicted", 2, 2, {"jjj", ""}, {2, 1}, 1, 1, 0, 0, false, true},
    {"large: evicted", 2, 2, {"jjjj", ""}, {2, 1}, 0, 1, 0, 0, false, true},
    {"large: padding, killed", 2, 2, {"jpjj", ""}, {2, 1}, 1, 0, 0, 0, false, true},
    {"large: padding, evicted", 2, 2, {"jpjj", ""}, {3, 1}, 0, 1, 0, 0, false, true},
    {"large: two producers", 2, 2, {"jjj", "j"}, {2, 1}, 1, 0, 0, 0, false, true},
    {"large: two producers, evicted", 2, 2, {"jjj", "j"}, {2, 1}, 0, 1, 0, 0, false, true},
    {"large: released", 2, 1, {"jjj", ""}, {2, 1}, 1, 0, 0, 1, false, true},
    {"large: released, evicted", 2, 2, {"jjj", ""}, {2, 1}, 0, 1, 0, 1, false, true},
    {"large: released twice", 2, 2, {"jj", ""}, {2, 1}, 1, 0, 0, 2, false, true},
    {"large: three workers", 3, 1, {"jj", ""}, {2, 1}, 1, 1, 0, 0, false, true},
};

struct Row {
    Mutant mutant;
    const char *step, *what, *breaks, *because, *scenario;
};

// A look for room (queue.md 4): which of its loads were made, and what they found.
struct Room {
    int8_t loaded, handovers, again, low;
};
struct Ring {
    int8_t cell[max_places], t, claimed, gate0;
    int8_t job[max_positions];  // truth: the job at a position, or none: padding
};
struct Producer {
    int8_t pc, limit;
    Room room;
};
// Words that a worker stores, one of each per ring: gate, taken_end, attempts (here: whether they are above 0).
enum Word : int8_t { gate, taken_end, attempts };
struct Store {
    int8_t word, ring, value, end;  // end: truth: for a gate >= 0, the end of what it announces
};
struct Worker {
    int8_t pc, alive, told, evicting;                  // told: its epoch was raised, visibly to its owner
    int8_t words[3][max_rings], announced[max_rings];  // announced: truth: the end of what the gate announces
    int8_t ring, p, e, again, copied, bad, late, released, stayed, first;  // of the job in hand; private
    int8_t x, xr, lives, step;  // the worker from which it adopts, and the next store of that
    Room room;
    int8_t stores;
    Store buffer[buffer_size];
};
// A process that looks whether the queue has ended.
struct Looker {
    int8_t at, handovers, gate0, slot, ring;
};
struct State {
    Ring ring[max_rings];
    Producer producer[2];
    Worker worker[max_workers];
    Looker looker;
    int8_t handovers, control, returns_slot;  // control, returns_slot: the holders of these two locks
    int8_t evictor, victim, kills, evicts, evictor_kills, releases;
    uint8_t done, plainly, excused;  // truth, bits of jobs
    int8_t allowed[max_jobs];  // truth: how often a job may still be handed out: once, and once more for each reason
};

enum WorkerPc : int8_t {
    idle,
    guess,  // only where gate[0] is relaxed
    look_at_record,
    refused,
    pass_padding,
    hold_end,
    hold_gate,
    compare_and_set,
    give_up,
    before_job,
    copy,
    lapped,
    run,
    epoch_behind_job,
    done,
    release_slot,
    release_recover,
    release_room,
    release_claim,
    release_copy,
    release_epoch,
    release_commit,
    release_unlock,
    stays,
    adopt_lock,
    adopt_still,
    adopt_gate,
    adopt_end,
    adopt_gate0,
    adopt_stores,
    adopt_unlock,
};

// One exploration.
struct Model {
    const Scenario& c;
    Mutant mutant;
    const char* broken = nullptr;
    size_t states = 0;
    std::vector<std::string> trace;
    int returns = 0;  // the number of the returns ring
    struct Next {
        State s;
        bool progress;  // a step on which all may count: not of an evicted worker, and no kill
    };
    std::vector<Next> out;

    bool off(Mutant m) const { return m == mutant; }
    void check(bool good, const char* invariant) {
        if (!good && !broken) broken = invariant;
    }
    int places(int ring) const { return c.places[ring == returns]; }
    int producers() const { return returns; }
    static bool more(const Ring& r, int p) { return p < max_positions && p < r.t; }

    // --- what a record looks like to a reader
    int cell(const State& s, int ring, int p) const { return s.ring[ring].cell[p % places(ring)]; }
    bool right(const State& s, int ring, int p) const { return cell(s, ring, p) == p; }
    bool there(const State& s, int ring, int p) const {
        int d = cell(s, ring, p);
        return d != writing && d >= p;
    }
    bool overtaken(const State& s, int ring, int p) const { return s.ring[ring].claimed > p + places(ring); }
    bool is_job(const State& s, int ring, int p) const { return s.ring[ring].job[cell(s, ring, p)] != none; }

    // Adds a reason to hand out again the jobs whose announcement by worker i on ring r is visible.
    static void excuse(State& s, int i, int r) {
        if (s.worker[i].words[gate][r] < 0) return;
        for (int p = s.worker[i].words[gate][r]; p < s.worker[i].announced[r] && p < max_positions; ++p)
            if (s.ring[r].job[p] != none) excuse_job(s, s.ring[r].job[p]);
    }
    static void excuse_job(State& s, int job) {
        s.excused |= static_cast<uint8_t>(1 << job);
        s.allowed[job]++;
    }
    static void excuse(State& s, int i) {
        for (int r = 0; r < max_rings; ++r) excuse(s, i, r);
    }
    static void clear_gate(Worker& b, int r) { b.words[gate][r] = none, b.announced[r] = 0; }

    // --- a worker's stores
    bool is_release(Word w) const {
        return w == gate ? !off(Mutant::take_gate_relaxed) : w == taken_end && !off(Mutant::take_end_relaxed);
    }
    bool may_leave(const Worker& b, int at) const {
        if (at > 0 && is_release(static_cast<Word>(b.buffer[at].word))) return false;
        for (int i = 0; i < at; ++i)
            if (b.buffer[i].word == b.buffer[at].word && b.buffer[i].ring == b.buffer[at].ring) return false;
        return true;
    }
    void leave(State& s, int i, int at) {  // the store becomes visible
        Worker& b = s.worker[i];
        const Store e = b.buffer[at];
        b.words[e.word][e.ring] = e.value;
        if (e.word == gate) b.announced[e.ring] = e.end;
        std::copy(b.buffer + at + 1, b.buffer + b.stores, b.buffer + at);
        b.buffer[--b.stores] = Store{};
        int held = 0;
        for (int8_t g : b.words[gate]) held += g >= 0;
        check(held <= 1, "Q4");
        if (b.told && e.word == gate) excuse(s, i, e.ring);
    }
    void drain(State& s, int i) {
        while (s.worker[i].stores) leave(s, i, 0);
    }
    static bool store(Worker& b, Word w, int value) {
        if (b.stores == buffer_size) return false;
        b.buffer[b.stores++] = {w, b.ring, static_cast<int8_t>(value), w == gate && value >= 0 ? b.e : int8_t(0)};
        return true;
    }
    static int newest(const Worker& b, Word w, int ring) {
        for (int i = b.stores; i-- > 0;)
            if (b.buffer[i].word == w && b.buffer[i].ring == ring) return b.buffer[i].value;
        return b.words[w][ring];
    }

    static void forget(Worker& b) {  // resets the words of the jobs in hand
        b.pc = idle;
        b.ring = b.again = b.copied = b.bad = b.late = b.released = b.stayed = b.first = b.lives = b.step = 0;
        b.p = b.e = b.x = b.xr = none;
        b.room = Room{};
    }
    static void unlock(State& s, int i) {
        if (s.control == i) s.control = none;
        if (s.returns_slot == i) s.returns_slot = none;
    }
    void gone(State& s, int i) {  // killed, or left: its stores become visible, its locks are free, its gates stay
        drain(s, i);
        unlock(s, i);
        s.worker[i].alive = 0;
        forget(s.worker[i]);
    }
    void hand_out(State& s, int ring, int p, bool again) {
        if (s.ring[ring].job[p] == none) return check(false, "Q3");
        const int job = s.ring[ring].job[p];
        const auto bit = static_cast<uint8_t>(1 << job);
        check(s.allowed[job] > 0, "Q2");
        check(again ? (s.excused & bit) != 0 : !(s.plainly & bit), "Q2");
        s.allowed[job]--;
        if (!again) s.plainly |= bit;
    }
    bool released_before(int ring) const { return ring == returns && !off(Mutant::release_no_attempts); }
    int next_job(const State& s, int ring, int p, int e) const {  // of the batch: padding is passed over
        while (p < e && p < max_positions && s.ring[ring].job[p] == none) ++p;
        return p;
    }

    void emit(const State& n, bool progress) { out.push_back({n, progress}); }

    // 4: the next load of a look for room; after the last load the limit, or look_again if handovers changed. The next
    // load is the first that was not made, or a later one if all that were not made before it are relaxed.
    static constexpr int look_goes_on = -10, look_again = -11;
    template <class Then>
    void look_for_room(const State& s, int ring, const Room& room, int self, Then then) {
        const int last = c.workers + 2;  // 0: handovers, 1: gate[0], then the workers' gates, last: handovers again
        for (int k = 0; k <= last; ++k) {
            if (room.loaded >> k & 1) continue;
            if (k == last && !(room.loaded & 1)) return;  // two loads of one word stay in order
            State n = s;
            Room m = room;
            m.loaded = static_cast<int8_t>(m.loaded | 1 << k);
            int slot = k - 1;
            if (off(Mutant::room_gate0_last)) slot = k == last - 1 ? 0 : k;
            if (off(Mutant::room_gates_descending) && k > 1) slot = last - k;
            if (k == 0) {
                m.handovers = s.handovers;
            } else if (k < last) {
                int g = slot == 0          ? s.ring[ring].gate0
                        : slot - 1 == self ? newest(s.worker[self], gate, ring)
                                           : s.worker[slot - 1].words[gate][ring];
                if (off(Mutant::room_retire) && slot > 0 && g >= 0 && !s.worker[slot - 1].alive)
                    clear_gate(n.worker[slot - 1], ring), g = none;
                if (g >= 0 && g < m.low) m.low = static_cast<int8_t>(g);
            } else {
                m.again = s.handovers;
            }
            int limit = look_goes_on;
            if (m.loaded == (1 << (last + 1)) - 1) {
                limit = m.handovers == m.again || off(Mutant::room_handovers) ? m.low + places(ring) : look_again;
                m = Room{};
            }
            then(n, m, limit);
            const bool relaxed = (k == 0 && off(Mutant::room_handovers_relaxed)) ||
                                 (k == 1 && off(Mutant::room_gate0_relaxed)) ||
                                 (k > 1 && k < last && off(Mutant::room_gates_relaxed));
            if (!relaxed) return;  // nothing overtakes an acquire load
        }
    }

    void producer_steps(const State& s, int k) {
        const Producer& me = s.producer[k];
        const Ring& ring = s.ring[k];
        const int length = static_cast<int>(std::strlen(c.plan[k]));
        State n = s;
        Producer& b = n.producer[k];
        Ring& r = n.ring[k];
        switch (me.pc) {
            case 0:  // reserve
                if (ring.t == length) return;
                if (ring.t + 1 <= me.limit)
                    b.pc = 2;
                else
                    b.pc = 1, b.room.low = ring.t;
                break;
            case 1:  // recompute
                look_for_room(s, k, me.room, none, [&](State& to, const Room& room, int limit) {
                    Producer& p = to.producer[k];
                    p.room = room;
                    if (limit != look_goes_on) {
                        p.pc = 0;
                        if (limit > p.limit) p.limit = static_cast<int8_t>(limit);
                    }
                    emit(to, true);
                });
                return;
            case 2:  // announce
                r.claimed = static_cast<int8_t>(ring.t + 1);
                b.pc = 3;
                break;
            case 3:
                r.cell[ring.t % places(k)] = writing;
                b.pc = 4;
                break;
            case 4:  // commit
                r.cell[ring.t % places(k)] = ring.t;
                r.t++;
                b.pc = 0;
                break;
        }
        emit(n, true);
    }

    void evictor_steps(const State& s) {  // 7
        State n = s;
        if (s.evictor == 0) {
            if (s.evicts == 0 || (s.control != none && !off(Mutant::evict_no_lock))) return;
            for (int i = 0; i < c.workers; ++i)
                if (s.worker[i].alive && !s.worker[i].told) {
                    n = s, --n.evicts, n.victim = static_cast<int8_t>(i), n.evictor = 1;
                    if (!off(Mutant::evict_no_lock)) n.control = evictor_id;
                    emit(n, false);
                }
            return;
        }
        Worker& b = n.worker[s.victim];
        const bool epoch = (s.evictor == 1) != off(Mutant::evict_flag_first);
        if (s.evictor == 3) {
            n.evictor = 0, n.victim = 0;
            if (s.control == evictor_id) n.control = none;
        } else {
            n.evictor++;
            if (b.alive && epoch) b.told = 1, excuse(n, s.victim);
            if (b.alive && !epoch) b.evicting = 1;
        }
        emit(n, true);
        if (s.evictor_kills) {
            n = s, --n.evictor_kills, n.evictor = n.victim = 0;
            if (s.control == evictor_id) n.control = none;
            emit(n, false);
        }
    }

    // 9: has the queue ended? One load a step; a wrong answer begins again, the right one is the last step.
    void looker_steps(const State& s) {
        enum : int8_t { begin, rings, returns_gate0, returns_published, gates, published_again, handovers_again };
        constexpr int8_t answered = 100;
        static const int8_t order[] = {begin, rings,           returns_gate0,   returns_published,
                                       gates, published_again, handovers_again, answered},
                            gates_first[] = {
                                begin,           gates,           rings,   returns_gate0, returns_published,
                                published_again, handovers_again, answered};
        const int8_t at = (off(Mutant::ended_gates_first) ? gates_first : order)[s.looker.at];
        const Ring& last = s.ring[returns];
        State n = s;
        Looker& me = n.looker;
        bool good = true;
        switch (at) {
            case begin:  // all producers have closed
                for (int r = 0; r < returns; ++r)
                    if (s.producer[r].pc != 0 || s.ring[r].t != static_cast<int>(std::strlen(c.plan[r]))) return;
                me.handovers = s.handovers;
                break;
            case rings:  // once true, this stays true: one step for all
                for (int r = 0; r < returns; ++r) good = good && s.ring[r].gate0 == s.ring[r].t;
                break;
            case returns_gate0:
                me.gate0 = last.gate0;
                break;
            case returns_published:
                good = last.t == me.gate0;
                break;
            case gates:
                good = s.worker[me.slot].words[gate][me.ring] < 0;
                if (good && (++me.ring <= returns || (me.ring = 0, ++me.slot < c.workers))) me.at--;
                break;
            case published_again:
                good = last.t == me.gate0 || off(Mutant::ended_returns_once);
                break;
            case handovers_again:
                good = s.handovers == me.handovers || off(Mutant::ended_handovers);
                if (good) check(s.done == all_jobs(), "Q7");
                break;
            default:
                return;
        }
        me.at++;
        if (!good) me = Looker{};
        emit(n, false);
    }

    void next_owner(const State& s, int i) {  // 6
        if (s.control != none && !off(Mutant::next_no_lock)) return;
        State n = s;
        Worker& b = n.worker[i];
        forget(b);
        b.alive = 1, b.told = b.evicting = 0;
        for (int r = 0; r <= returns; ++r) {
            const int g = b.words[gate][r], e = b.words[taken_end][r];
            if (g < 0) continue;
            if (off(Mutant::next_forgets) || e <= g || e > s.ring[r].gate0) {
                clear_gate(b, r);
                continue;
            }
            b.ring = static_cast<int8_t>(r), b.p = static_cast<int8_t>(g), b.e = static_cast<int8_t>(e);
            if (!off(Mutant::next_no_attempts)) b.words[attempts][r] = 1;
            b.again = b.words[attempts][r] || r == returns;
            b.copied = !off(Mutant::adopt_in_place);
            b.pc = before_job;
        }
        emit(n, false);
    }

    void worker_steps(const State& s, int i) {
        const Worker& a = s.worker[i];
        if (!a.alive) return next_owner(s, i);
        for (int at = 0; at < a.stores; ++at)
            if (may_leave(a, at)) {
                State n = s;
                leave(n, i, at);
                emit(n, true);
            }
        if (s.kills) {
            State n = s;
            --n.kills;
            drain(n, i);
            if (!a.told) excuse(n, i);  // else the reason was added when its epoch was raised
            gone(n, i);
            emit(n, false);
        }
        // No process may count on an evicted worker, except while it holds the control lock.
        const bool told = a.told, progress = !a.evicting || s.control == i;
        State n = s;
        Worker& b = n.worker[i];
        Ring& ring = n.ring[a.ring];
        auto go = [&](int pc) {
            b.pc = static_cast<int8_t>(pc);
            emit(n, progress);
        };
        auto nothing_in_hand = [&] {
            forget(b);
            go(idle);
        };
        auto slot_lost = [&] {  // 7: it leaves, its gates stay
            gone(n, i);
            for (int r = 0; r <= returns && off(Mutant::lost_takes_back); ++r) clear_gate(b, r);
            emit(n, progress);
        };
        auto put = [&](Word w, int value, int pc) {
            if (store(b, w, value)) go(pc);
        };
        // 5: the gate to the next job of the batch, or -1. False: no place in the buffer.
        auto end_job = [&](bool& more) {
            const int next = next_job(s, a.ring, a.p + 1, a.e);
            more = next < a.e;
            return store(b, gate, more ? next : none);
        };
        switch (a.pc) {
            case idle:
                if (told && !off(Mutant::look_before_take)) return slot_lost();
                for (int x = 0; x < c.workers; ++x)  // the workers whose gates it checks from time to time (5)
                    for (int r = 0; r <= returns; ++r) {
                        if (x == i || s.worker[x].words[gate][r] < 0) continue;
                        if (s.worker[x].alive && !s.worker[x].evicting) continue;
                        bool job = false;
                        for (int q = 0; q <= returns; ++q) job = job || there(s, q, s.ring[q].gate0);
                        if (off(Mutant::adopt_with_job) && !job) continue;
                        n = s, b.x = static_cast<int8_t>(x), b.xr = static_cast<int8_t>(r);
                        go(adopt_lock);
                    }
                for (int r = 0; r <= returns; ++r) {  // 3, 1
                    n = s, b.ring = static_cast<int8_t>(r), b.p = s.ring[r].gate0;
                    if (off(Mutant::take_gate0_relaxed)) {  // the record is looked at before
                        for (int at = 0; at < places(r); ++at) {
                            const int d = s.ring[r].cell[at];
                            if (d == none || d == writing) continue;
                            b.p = static_cast<int8_t>(at), b.e = s.ring[r].job[d] == none ? 1 : 0;
                            go(guess);
                        }
                        b.p = s.ring[r].gate0, b.e = none;
                    }
                    if (there(s, r, b.p) || overtaken(s, r, b.p)) go(look_at_record);
                }
                return;
            case guess:
                if (ring.gate0 % places(a.ring) != a.p) return nothing_in_hand();
                b.p = ring.gate0;
                b.e = static_cast<int8_t>(b.p + 1);
                return go(a.e ? pass_padding : hold_end);
            case look_at_record: {
                if (overtaken(s, a.ring, a.p)) go(refused);  // whatever was read there may have been refused
                if (!there(s, a.ring, a.p)) return nothing_in_hand();
                if (!is_job(s, a.ring, a.p)) return go(pass_padding);
                int jobs = 0;
                for (int q = a.p; jobs < c.batch && q < a.p + places(a.ring) && there(s, a.ring, q); ++q)
                    if (is_job(s, a.ring, q)) {
                        ++jobs, b.e = static_cast<int8_t>(q + 1);
                        go(off(Mutant::take_late)         ? compare_and_set
                           : off(Mutant::take_gate_first) ? hold_gate
                                                          : hold_end);
                    }
                return;
            }
            case refused:  // only if gate[0] is still p
                check(s.ring[a.ring].gate0 != a.p && !off(Mutant::take_refused), "I10");
                return nothing_in_hand();
            case pass_padding:
                if (a.stores) return;
                if (off(Mutant::take_padding_store) || s.ring[a.ring].gate0 == a.p)
                    ring.gate0 = static_cast<int8_t>(a.p + 1);
                return nothing_in_hand();
            case hold_end:  // 2; attempts in front of it, if they are not 0
                if (newest(a, attempts, a.ring) && !off(Mutant::take_attempts)) return put(attempts, 0, hold_end);
                return put(taken_end, a.e, off(Mutant::take_gate_first) ? compare_and_set : hold_gate);
            case hold_gate:
                return put(gate, a.p,
                           off(Mutant::take_gate_first) ? hold_end
                           : off(Mutant::take_late)     ? before_job
                                                        : compare_and_set);
            case compare_and_set:  // 3; a job that was handed out and done before it was taken had no reason
                if (a.stores && !off(Mutant::take_cas_relaxed)) return;
                if (s.ring[a.ring].gate0 == a.p) {
                    ring.gate0 = a.e;
                    for (int p = a.p; p < a.e && a.ring < returns; ++p)
                        if (s.ring[a.ring].job[p] != none) check(!(s.done >> s.ring[a.ring].job[p] & 1), "Q2");
                    b.again = newest(a, attempts, a.ring) || released_before(a.ring);
                    return go(off(Mutant::take_late) ? hold_end : before_job);
                }
                if (off(Mutant::take_late)) return nothing_in_hand();
                if (off(Mutant::take_no_minus_one) && !told && there(s, a.ring, s.ring[a.ring].gate0)) {
                    b.p = s.ring[a.ring].gate0, b.e = static_cast<int8_t>(b.p + 1);
                    return go(hold_end);
                }
                return go(give_up);
            case give_up:
                if (!store(b, gate, none)) return;
                return nothing_in_hand();

            case before_job:  // 4
                if (told && !(off(Mutant::look_each_job) && a.first) && !off(Mutant::look_after_take))
                    return slot_lost();
                if (a.copied) return go(copy);
                check(right(s, a.ring, a.p), "Q3");
                return go(run);
            case copy:  // adopt 7; late: without the fence the copy may go on after the lap test
                b.bad = !right(s, a.ring, a.p);
                b.late = off(Mutant::adopt_no_fence);
                return go(off(Mutant::adopt_no_lap_test) ? run : lapped);
            case lapped:
                if (overtaken(s, a.ring, a.p)) {
                    if (!store(b, gate, none)) return;
                    return nothing_in_hand();
                }
                return go(run);
            case run: {  // a handler
                if (a.copied) {
                    if (a.late) b.bad = !right(s, a.ring, a.p);
                    check(!b.bad, "Q3");
                    b.bad = b.late = 0;
                }
                bool more;
                if (off(Mutant::done_early) && !end_job(more)) return;
                hand_out(n, a.ring, a.p, a.again);
                if (!a.copied) b.bad = !right(s, a.ring, a.p) && !off(Mutant::done_fence);
                go(epoch_behind_job);
                if (s.releases) go(release_slot);
                return;
            }
            case epoch_behind_job:  // 5
                if (told && !off(Mutant::look_at_done)) return slot_lost();
                check(!a.bad, "Q3");
                return go(done);
            case done: {
                if (off(Mutant::done_fence) && !a.copied && !a.released) {
                    // the handler's last loads of the job, behind the epoch's
                    check(right(s, a.ring, a.p), "Q3");
                }
                bool more = next_job(s, a.ring, a.p + 1, a.e) < a.e;
                if (off(Mutant::done_relaxed) && a.late) {  // loads of the job that come after the store of its gate
                    check(right(s, a.ring, a.p), "Q3");
                    b.late = 0;
                } else {
                    if (more && a.stayed && !off(Mutant::release_attempts_stay)) {
                        b.stayed = 0, b.again = released_before(a.ring);
                        return put(attempts, 0, done);
                    }
                    if (!off(Mutant::done_early) && !(off(Mutant::release_done_first) && a.released) && !end_job(more))
                        return;
                    if (off(Mutant::done_relaxed) && !a.copied && !a.released) {
                        b.late = 1;
                        return go(done);
                    }
                }
                if (!a.released) n.done |= static_cast<uint8_t>(1 << s.ring[a.ring].job[a.p]);
                if (!more) return nothing_in_hand();
                b.p = static_cast<int8_t>(next_job(s, a.ring, a.p + 1, a.e));
                b.released = b.bad = 0, b.first = 1;
                return go(before_job);
            }

            case release_slot:  // 8, 1
                excuse_job(n, s.ring[a.ring].job[a.p]);
                b.bad = 0;
                if (off(Mutant::release_done_first)) {
                    bool more;
                    if (!end_job(more)) return;
                }
                if (s.returns_slot != none && !off(Mutant::release_no_slot)) {
                    if (!off(Mutant::release_waits_for_slot)) go(stays);
                    return;
                }
                n.returns_slot = static_cast<int8_t>(i);
                return go(release_recover);
            case release_recover: {  // 2
                Ring& r = n.ring[returns];
                if (r.claimed > r.t) {
                    r.cell[r.t % places(returns)] = r.t;
                    r.job[r.t++] = none;
                }
                b.room.low = r.t;
                return go(release_room);
            }
            case release_room:
                look_for_room(s, returns, a.room, i, [&](State& to, const Room& room, int limit) {
                    Worker& me = to.worker[i];
                    me.room = room;
                    if (limit != look_goes_on) {
                        me.room = Room{};
                        const bool fits = limit >= s.ring[returns].t + 1 && s.ring[returns].t + 1 < max_positions;
                        if (!fits && off(Mutant::release_waits_for_room)) {
                            me.room.low = s.ring[returns].t;
                        } else {
                            me.pc = fits ? release_claim : stays;
                            if (!fits) unlock(to, i);
                        }
                    }
                    emit(to, progress);
                });
                return;
            case release_claim: {
                Ring& r = n.ring[returns];
                r.claimed = static_cast<int8_t>(r.t + 1);
                r.cell[r.t % places(returns)] = writing;
                return go(off(Mutant::release_epoch_first) ? release_epoch : release_copy);
            }
            case release_copy:  // 3
                b.bad = !a.copied && !right(s, a.ring, a.p);
                b.released = 1;
                return go(off(Mutant::release_epoch_first) ? release_commit : release_epoch);
            case release_epoch:  // 4
                if (told) {      // abort
                    Ring& r = n.ring[returns];
                    r.cell[r.t % places(returns)] = r.t;
                    r.job[r.t++] = none;
                    return slot_lost();
                }
                if (off(Mutant::release_no_fence) && !a.copied) b.late = 1;
                return go(off(Mutant::release_epoch_first) ? release_copy : release_commit);
            case release_commit: {  // 5: a release store
                if (a.stores) return;
                Ring& r = n.ring[returns];
                if (a.late) b.bad = !right(s, a.ring, a.p);
                check(!b.bad, "Q3");
                r.cell[r.t % places(returns)] = r.t;
                r.job[r.t++] = s.ring[a.ring].job[a.p];
                --n.releases;
                b.bad = b.late = 0;
                return go(release_unlock);
            }
            case release_unlock:
                if (a.stores) return;
                unlock(n, i);
                return go(epoch_behind_job);
            case stays:  // it is handed out again by the next take
                b.again = !off(Mutant::release_keeps_attempts);
                if (b.again && !newest(a, attempts, a.ring)) {
                    b.stayed = 1;
                    return put(attempts, 1, before_job);
                }
                return go(before_job);

            case adopt_lock:  // 5, 1: tried once
                if (off(Mutant::adopt_dead_without_lock) && !s.worker[a.x].alive) return go(adopt_still);
                if (!off(Mutant::adopt_no_lock)) {
                    if (s.control != none) return nothing_in_hand();
                    n.control = static_cast<int8_t>(i);
                }
                return go(adopt_still);
            case adopt_still:
                if (told && !off(Mutant::adopt_no_epoch)) return slot_lost();
                if (s.worker[a.x].alive && !s.worker[a.x].evicting && !off(Mutant::adopt_not_still)) {
                    if (a.stores) return;
                    unlock(n, i);
                    return nothing_in_hand();
                }
                b.lives = s.worker[a.x].alive;
                return go(off(Mutant::adopt_end_first)     ? adopt_end
                          : off(Mutant::adopt_gate0_first) ? adopt_gate0
                                                           : adopt_gate);
            case adopt_gate:  // 2
                b.p = s.worker[a.x].words[gate][a.xr];
                if (b.p < 0) {
                    if (a.stores) return;
                    unlock(n, i);
                    return nothing_in_hand();
                }
                return go(off(Mutant::adopt_end_first) ? adopt_gate0 : adopt_end);
            case adopt_end:
                b.e = s.worker[a.x].words[taken_end][a.xr];
                b.again = 1;
                return go(off(Mutant::adopt_end_first)     ? adopt_gate
                          : off(Mutant::adopt_gate0_first) ? adopt_stores
                                                           : adopt_gate0);
            case adopt_gate0:
                b.room.low = s.ring[a.xr].gate0;
                return go(off(Mutant::adopt_gate0_first) ? adopt_gate : adopt_stores);
            case adopt_stores: {  // 3 to 5
                const int g = a.room.low;
                if (a.step == 0) {
                    const bool lives = off(Mutant::adopt_lives_late) ? s.worker[a.x].alive : a.lives;
                    if (lives && a.p >= g && !off(Mutant::adopt_announced)) {
                        if (a.stores) return;
                        unlock(n, i);
                        return nothing_in_hand();
                    }
                    bool never = a.e <= a.p ||
                                 (off(Mutant::adopt_min_gate0) ? a.p >= g : a.e > g && !off(Mutant::adopt_no_gate0));
                    if (a.e > g && off(Mutant::adopt_min_gate0)) b.e = static_cast<int8_t>(g);
                    if (never) b.e = none;
                    b.ring = never ? int8_t(0) : a.xr;
                    b.step = 1;
                    return go(adopt_stores);
                }
                // A attempts, E taken_end, G gate, H handovers, X compare and set its gate
                const char* order = off(Mutant::adopt_clear_first)      ? "XAEGH"
                                    : off(Mutant::adopt_count_first)    ? "AEHGX"
                                    : off(Mutant::adopt_count_last)     ? "AEGXH"
                                    : off(Mutant::adopt_no_count)       ? "AEGX"
                                    : off(Mutant::adopt_end_after_gate) ? "AGEHX"
                                    : off(Mutant::adopt_end_last)       ? "AGHXE"
                                    : off(Mutant::adopt_no_attempts)    ? "EGHX"
                                    : off(Mutant::adopt_attempts_last)  ? "EGHXA"
                                                                        : "AEGHX";
                const char what = a.e == none ? (a.step == 1 ? 'X' : 0) : order[a.step - 1];
                b.step++;
                switch (what) {
                    case 'A':
                        return newest(a, attempts, a.ring) ? go(adopt_stores) : put(attempts, 1, adopt_stores);
                    case 'E':
                        return put(taken_end, a.e, adopt_stores);
                    case 'G':
                        return put(gate, a.p, adopt_stores);
                    case 'H':
                        if (a.stores && !off(Mutant::adopt_count_relaxed)) return;
                        n.handovers++;
                        return go(adopt_stores);
                    case 'X': {
                        if (a.stores) return;
                        if (s.worker[a.x].words[gate][a.xr] == a.p || off(Mutant::adopt_store))
                            clear_gate(n.worker[a.x], a.xr);
                        else if (a.e != none && !off(Mutant::adopt_keeps))
                            b.step = 10;  // that gate has moved
                        return go(b.step == 10 ? adopt_unlock : adopt_stores);
                    }
                    default:
                        return go(adopt_unlock);
                }
            }
            case adopt_unlock:  // 6
                if (a.step == 10) {
                    b.step = 11;
                    return put(gate, none, adopt_unlock);
                }
                if (a.stores) return;
                unlock(n, i);
                if (a.e == none || a.step == 11) return nothing_in_hand();
                b.again = newest(a, attempts, a.ring) || a.ring == returns;
                b.copied = !off(Mutant::adopt_in_place);
                b.x = b.xr = none, b.step = b.lives = 0, b.room = Room{};
                return go(before_job);
        }
    }

    // --- exploring
    State first() const {
        State s;
        std::memset(&s, 0, sizeof s);
        int job = 0;
        for (int r = 0; r < max_rings; ++r) {
            std::memset(s.ring[r].cell, none, sizeof s.ring[r].cell);
            std::memset(s.ring[r].job, none, sizeof s.ring[r].job);
            if (r < returns)
                for (int p = 0; c.plan[r][p]; ++p)
                    if (c.plan[r][p] == 'j') s.ring[r].job[p] = static_cast<int8_t>(job++);
        }
        for (int k = 0; k < producers(); ++k) s.producer[k].limit = static_cast<int8_t>(c.places[0]);
        for (Worker& b : s.worker) {
            forget(b);
            std::memset(b.words[gate], none, sizeof b.words[gate]);
        }
        for (int i = 0; i < c.workers; ++i) s.worker[i].alive = 1;
        s.control = s.returns_slot = none;
        std::fill_n(s.allowed, job, int8_t(1));
        s.kills = static_cast<int8_t>(c.kills), s.evicts = static_cast<int8_t>(c.evicts);
        s.evictor_kills = static_cast<int8_t>(c.evictor_kills), s.releases = static_cast<int8_t>(c.releases);
        return s;
    }
    bool at_end(const State& s) {
        for (int r = 0; r <= returns; ++r) {
            if (s.ring[r].gate0 != s.ring[r].t) return false;
            if (r < returns && (s.producer[r].pc != 0 || s.ring[r].t != static_cast<int>(std::strlen(c.plan[r]))))
                return false;
        }
        for (int i = 0; i < c.workers; ++i) {
            const Worker& b = s.worker[i];
            for (int8_t g : b.words[gate])
                if (g >= 0) return false;
            if (b.stores || (b.alive && b.pc != idle && !b.evicting)) return false;
        }
        return s.evictor == 0;
    }
    static uint64_t hash(const State& s) {
        uint64_t words[(sizeof s + 7) / 8] = {}, h = 0x9E3779B97F4A7C15;
        std::memcpy(words, &s, sizeof s);
        for (uint64_t v : words) h = (h ^ v) * 0xFF51AFD7ED558CCD, h ^= h >> 32;
        h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53;
        return h ^ (h >> 29);
    }
    void steps(const State& s) {
        out.clear();
        for (int k = 0; k < producers(); ++k) producer_steps(s, k);
        evictor_steps(s);
        for (int i = 0; i < c.workers; ++i) worker_steps(s, i);
        if (c.ended) looker_steps(s);
    }

    std::vector<uint64_t> hashes;  // of each state, by number
    std::vector<uint32_t> parent, table;
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
    static std::string print(const State& s) {
        char line[400];
        std::string text;
        for (const Ring& r : s.ring) {
            std::snprintf(line, sizeof line, "[t %d claimed %d gate0 %d] ", r.t, r.claimed, r.gate0);
            text += line;
        }
        std::snprintf(line, sizeof line, "handovers %d control %d done %x plainly %x excused %x", s.handovers,
                      s.control, s.done, s.plainly, s.excused);
        text += line;
        for (const Worker& b : s.worker) {
            std::snprintf(line, sizeof line, " | %s%s%s pc %d ring %d [%d, %d) gates %d %d %d ends %d %d %d",
                          b.alive ? "" : "dead ", b.told ? "told " : "", b.evicting ? "evicting" : "", b.pc, b.ring,
                          b.p, b.e, b.words[gate][0], b.words[gate][1], b.words[gate][2], b.words[taken_end][0],
                          b.words[taken_end][1], b.words[taken_end][2]);
            text += line;
            for (int k = 0; k < b.stores; ++k)
                text += " " + std::to_string(b.buffer[k].word) + ":=" + std::to_string(b.buffer[k].value);
        }
        return text;
    }
    void keep_trace(uint32_t at) {
        std::vector<uint64_t> path;
        for (uint32_t k = at; k != 0; k = parent[k]) path.push_back(hashes[k]);
        State s = first();
        const char* was = broken;
        for (size_t k = path.size(); k-- > 0;) {
            steps(s);
            for (const Next& n : out)
                if (hash(n.s) == path[k]) {
                    s = n.s;
                    break;
                }
            trace.push_back(print(s));
        }
        broken = was;
    }

    void explore() {
        returns = *c.plan[1] ? 2 : 1;
        table.assign(1 << 16, UINT32_MAX);
        std::vector<uint64_t> edges;  // of progress: to, from
        std::vector<bool> needs, good;
        std::deque<State> open{first()};
        bool fresh;
        number(hash(open.front()), 0, fresh);
        for (uint32_t at = 0; !open.empty(); ++at) {
            const State s = open.front();
            open.pop_front();
            bool live = false, end = at_end(s);
            for (int i = 0; i < max_workers; ++i) {
                const Worker& b = s.worker[i];
                live = live || (b.alive && !b.told && !b.evicting && !(s.evictor != 0 && s.victim == i));
            }
            if (end) check(s.done == all_jobs(), "Q1");
            needs.push_back(live), good.push_back(end);
            steps(s);
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
        look_for_the_end(edges, needs, good);
    }
    uint8_t all_jobs() const {
        int jobs = 0;
        for (const char* plan : c.plan)
            for (; *plan; ++plan) jobs += *plan == 'j';
        return static_cast<uint8_t>((1 << jobs) - 1);
    }
    // Q5: backward from the ends, along the edges of progress.
    void look_for_the_end(std::vector<uint64_t>& edges, const std::vector<bool>& needs, std::vector<bool>& good) {
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
            if (needs[k] && !good[k]) check(false, "Q5"), keep_trace(k);
    }
};

const Row rows[] = {
    {Mutant::take_gate0_relaxed, "queue take 1", "gate[0] is loaded relaxed, behind the record", "Q3", "",
     "two workers"},
    {Mutant::take_refused, "queue take 1", "corrupt ring is raised without a second look at gate[0]", "I10", "",
     "two workers"},
    {Mutant::take_padding_store, "queue take 1", "gate[0] is stored behind padding, not compared and set", "Q2", "",
     "two workers"},
    {Mutant::look_before_take, "queue take 1", "the epoch is not compared before a take", "",
     "an evicted worker may take one more job; step 4 tells it, and the job is adopted", "killed and evicted"},
    {Mutant::take_attempts, "queue take 2", "attempts[w] is not set to 0", "Q2", "", "killed"},
    {Mutant::take_end_relaxed, "queue take 2", "taken_end[w] is relaxed", "Q2", "", "two places, evicted"},
    {Mutant::take_gate_relaxed, "queue take 2", "gate[w] is relaxed", "Q4", "", "two producers"},
    {Mutant::take_gate_first, "queue take 2", "gate[w] before taken_end[w]", "Q2", "", "batches of three, killed"},
    {Mutant::take_late, "queue take 2", "the job is announced behind the compare-and-set", "Q3", "", "one worker"},
    {Mutant::take_cas_relaxed, "queue take 3", "the compare-and-set of gate[0] is relaxed", "Q3", "", "one worker"},
    {Mutant::take_no_minus_one, "queue take 3", "no -1 between two announcements", "Q2", "", "two places, killed"},
    {Mutant::look_after_take, "queue take 4", "the epoch is not compared between a take and its jobs", "Q3", "",
     "evicted"},
    {Mutant::look_each_job, "queue take 4", "the epoch is compared before the first job of a batch only", "Q3", "",
     "batches, evicted"},
    {Mutant::look_at_done, "queue done 5", "the epoch is not compared behind a job", "Q3", "", "evicted"},
    {Mutant::done_fence, "queue done 5", "no acquire fence in front of the epoch", "Q3", "", "evicted"},
    {Mutant::done_early, "queue done 5", "gate[w] moves before the handler has ended", "Q1", "", "one worker, killed"},
    {Mutant::done_relaxed, "queue done 5", "gate[w] is relaxed: it passes loads of the job", "Q3", "", "one worker"},
    {Mutant::room_gate0_last, "queue room 2b", "gate[0] is loaded behind the workers' gates", "Q3", "", "one worker"},
    {Mutant::room_gate0_relaxed, "queue room 2b", "gate[0] is loaded relaxed", "Q3", "", "one worker"},
    {Mutant::room_gates_relaxed, "queue room 2b", "the workers' gates are loaded relaxed", "Q1", "", "killed"},
    {Mutant::room_gates_descending, "queue room 2b", "the workers' gates in descending order", "",
     "handovers tells of a job that changes hands meanwhile", "killed twice"},
    {Mutant::room_handovers, "queue room 2c", "handovers is not compared", "Q1", "", "killed"},
    {Mutant::room_handovers_relaxed, "queue room 2a", "handovers is loaded relaxed the first time", "Q1", "", "killed"},
    {Mutant::room_retire, "queue room", "a dead worker's gate is retired (channel.md 6.7)", "Q1", "", "killed"},
    {Mutant::adopt_with_job, "queue adopt", "a worker looks for the dead only when there is a job to take", "Q5", "",
     "killed"},
    {Mutant::adopt_no_lock, "queue adopt 1", "without the control lock", "Q3", "", "killed"},
    {Mutant::adopt_dead_without_lock, "queue adopt 1", "the dead without the control lock", "Q3", "", "killed"},
    {Mutant::adopt_no_epoch, "queue adopt 1", "the own epoch is not compared under the lock", "",
     "it is compared before the job is handed out (take 4)", "killed and evicted"},
    {Mutant::adopt_not_still, "queue adopt 1",
     "under the lock, it does not look again whether the other one is dead or evicting", "Q2", "", "killed"},
    {Mutant::adopt_end_first, "queue adopt 2", "taken_end is loaded before the gate, or the gate relaxed", "Q1", "",
     "evicted"},
    {Mutant::adopt_gate0_first, "queue adopt 2", "gate[0] is loaded before the gate", "",
     "a gate[0] that is too old leaves the job where it is", "killed and evicted"},
    {Mutant::adopt_lives_late, "queue adopt 3", "whether the owner lives is tested behind the load of gate[0]", "Q1",
     "", "evicted"},
    {Mutant::adopt_announced, "queue adopt 3", "takes away what a live evicted worker has only announced", "Q1", "",
     "evicted"},
    {Mutant::adopt_no_gate0, "queue adopt 4", "taken_end is not compared with gate[0]", "Q2", "", "killed"},
    {Mutant::adopt_min_gate0, "queue adopt 4", "where taken_end is above gate[0], the jobs up to gate[0] are adopted",
     "", "others took these jobs: only more repeats", "batches, killed"},
    {Mutant::adopt_no_attempts, "queue adopt 5", "attempts is not raised", "Q2", "", "killed"},
    {Mutant::adopt_attempts_last, "queue adopt 5", "attempts is stored behind its gate", "",
     "the job says repeat all the same; attempts may be one too few", "killed twice"},
    {Mutant::adopt_clear_first, "queue adopt 5", "its gate first", "Q1", "", "killed twice"},
    {Mutant::adopt_end_after_gate, "queue adopt 5", "taken_end behind the gate", "Q2", "", "two places, killed twice"},
    {Mutant::adopt_end_last, "queue adopt 5", "taken_end last", "Q1", "", "killed twice"},
    {Mutant::adopt_count_first, "queue adopt 5", "handovers before the gate", "Q1", "", "killed"},
    {Mutant::adopt_count_last, "queue adopt 5", "handovers behind its gate", "Q1", "", "killed"},
    {Mutant::adopt_no_count, "queue adopt 5", "handovers is not raised", "Q1", "", "killed"},
    {Mutant::adopt_count_relaxed, "queue adopt 5", "handovers is relaxed", "Q1", "", "killed"},
    {Mutant::adopt_store, "queue adopt 5", "its gate is stored, not compared and set", "Q1", "", "batches, evicted"},
    {Mutant::adopt_keeps, "queue adopt 5", "keeps the job where the compare-and-set failed", "Q2", "",
     "batches, evicted"},
    {Mutant::adopt_in_place, "queue adopt 7", "hands out in place", "Q3", "", "killed"},
    {Mutant::adopt_no_lap_test, "queue adopt 7", "no lap test", "Q3", "", "killed"},
    {Mutant::adopt_no_fence, "queue adopt 7", "no acquire fence before the lap test", "Q3", "", "killed"},
    {Mutant::next_forgets, "queue 6", "a slot's next owner sets its gates to -1", "Q1", "", "one worker, killed"},
    {Mutant::next_no_lock, "queue 6", "a slot's next owner looks without the control lock", "Q3", "", "killed"},
    {Mutant::next_no_attempts, "queue 6", "a slot's next owner does not raise attempts", "Q2", "",
     "one worker, killed"},
    {Mutant::lost_takes_back, "queue 7", "a worker that lost its slot sets its gates to -1 (channel.md 5.4, 6.6)", "Q1",
     "", "evicted"},
    {Mutant::evict_flag_first, "queue 7", "evicting is set before the epoch is raised", "Q2", "", "evictor killed"},
    {Mutant::evict_no_lock, "queue 7", "evicts without the control lock", "Q2", "", "killed and evicted"},
    {Mutant::release_waits_for_slot, "queue release 1", "waits for the slot", "Q5", "", "released, evicted"},
    {Mutant::release_no_slot, "queue release 1", "without the slot's lock", "Q3", "", "released twice"},
    {Mutant::release_waits_for_room, "queue release 2", "waits for room", "Q5", "", "one worker, released"},
    {Mutant::release_no_attempts, "queue release 3", "attempts of the copy is not raised", "Q2", "",
     "one worker, released"},
    {Mutant::release_epoch_first, "queue release 4", "the epoch is compared before the copy", "Q3", "",
     "released, evicted"},
    {Mutant::release_no_fence, "queue release 4", "no acquire fence between the copy and the epoch", "Q3", "",
     "released, evicted"},
    {Mutant::release_done_first, "queue release 5", "done before the commit", "Q1", "", "one worker, killed, released"},
    {Mutant::release_keeps_attempts, "queue release",
     "a job that stays in hand is handed out again with the same attempts", "Q2", "", "one worker, released"},
    {Mutant::release_attempts_stay, "queue release", "the rest of the batch keeps the attempts of a job that stayed",
     "Q2", "", "one worker, released"},
    {Mutant::ended_gates_first, "queue ended", "the workers' gates are loaded before the rings' words", "Q7", "",
     "ended"},
    {Mutant::ended_returns_once, "queue ended", "the returns ring's published is not loaded again", "Q7", "", "ended"},
    {Mutant::ended_handovers, "queue ended", "handovers is not compared", "Q7", "", "ended"},
};

}  // namespace

void print_queue_table() {
    for (const Row& row : rows)
        std::printf("| %s | %s | %s%s | queue: %s |\n", row.step, row.what,
                    *row.breaks ? row.breaks : "holds all the same: ", row.because, row.scenario);
}

void explore_queue(bool large, Wanted wanted, Report report) {
    auto explore = [&](const Scenario& c, Mutant mutant, const char* kind, const std::string& name, const char* breaks,
                       const char* because) {
        if (!wanted(name)) return;
        const auto start = std::chrono::steady_clock::now();
        Model m{c, mutant, nullptr, 0, {}, 0, {}, {}, {}, {}};
        m.explore();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        report({kind, name, m.broken ? m.broken : "", breaks, because, m.states, seconds, m.trace});
    };
    for (const Scenario& c : scenarios)
        if (large || !c.large) explore(c, Mutant::none, "scenario", std::string("queue: ") + c.name, "", "");
    for (const Row& row : rows)
        for (const Scenario& c : scenarios)
            if (!std::strcmp(c.name, row.scenario))
                explore(c, row.mutant, "mutant", std::string(row.step) + ": " + row.what + " (queue: " + c.name + ")",
                        row.breaks, row.because);
}

}  // namespace model
