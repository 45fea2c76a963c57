// SPDX-License-Identifier: Apache-2.0
//
// The state of the queue's model, and what its steps have in common.
#pragma once
#include <algorithm>
#include <cstdint>

#include "queue_table.hpp"

namespace model::queue_model {

constexpr int max_workers = 3, max_rings = 3, max_places = 3, max_positions = 6, max_jobs = 5, buffer_size = 4,
              none = -1, writing = 100, evictor_id = 9;

// A look for room (queue.md 4): which of its loads were made, what they found.
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
// Words that a worker stores: gate, taken_end, attempts (here: whether they are above 0), one of each a ring.
enum Word : int8_t { gate, taken_end, attempts };
struct Store {
    int8_t word, ring, value, end;  // end: of a gate >= 0, truth: of what it announces
};
struct Worker {
    int8_t pc, alive, told, evicting;                  // told: its epoch was raised, and its owner can see that
    int8_t words[3][max_rings], announced[max_rings];  // announced: the truth about what a gate announces, its end
    int8_t ring, p, e, again, copied, bad, late, released, stayed, first;  // in hand, private
    int8_t x, xr, lives, step;  // the worker it adopts from, and the next store of that
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
    int8_t handovers, control, returns_slot;  // control, returns_slot: the process that has this lock
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

// What the steps have in common. Progress does not rely on a worker that is evicted, nor on a kill.
class World : public Search<State> {
  public:
    World(const Scenario& scenario, Mutant without)
        : c(scenario), mutant(without), returns(*scenario.plan[1] ? 2 : 1) {}

  protected:
    const Scenario& c;
    const Mutant mutant;
    const int returns;  // the number of the returns ring
    ~World() = default;

    bool off(Mutant m) const { return m == mutant; }
    int places(int ring) const { return c.places[ring == returns]; }
    int producers() const { return returns; }
    static bool more(const Ring& r, int p) { return p < max_positions && p < r.t; }

    // --- what a reader of a record sees
    int cell(const State& s, int ring, int p) const { return s.ring[ring].cell[p % places(ring)]; }
    bool right(const State& s, int ring, int p) const { return cell(s, ring, p) == p; }
    bool there(const State& s, int ring, int p) const {
        int d = cell(s, ring, p);
        return d != writing && d >= p;
    }
    bool overtaken(const State& s, int ring, int p) const { return s.ring[ring].claimed > p + places(ring); }
    bool is_job(const State& s, int ring, int p) const { return s.ring[ring].job[cell(s, ring, p)] != none; }

    // A reason to hand out again what others see worker i announce on ring r.
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

    static void forget(Worker& b) {  // what it had in hand
        b.pc = idle;
        b.ring = b.again = b.copied = b.bad = b.late = b.released = b.stayed = b.first = b.lives = b.step = 0;
        b.p = b.e = b.x = b.xr = none;
        b.room = Room{};
    }
    static void unlock(State& s, int i) {
        if (s.control == i) s.control = none;
        if (s.returns_slot == i) s.returns_slot = none;
    }
    void gone(State& s, int i) {  // killed, or it left: its stores are visible, its locks are free, its gates stay
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

    // 4: the next load of a look for room; behind the last one the limit, `again` where handovers changed. What may be
    // loaded next: the first that was not, and what is behind it as far as those in front are relaxed.
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
};

}  // namespace model::queue_model
