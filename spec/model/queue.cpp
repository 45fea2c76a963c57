// SPDX-License-Identifier: Apache-2.0
//
// A model of the queue (queue.md, sections 3 to 9): producers, workers that take, adopt and release, an evicting
// operator, the next owners of slots, a process that asks whether the queue has ended. README.md, "The queue", says how
// to read it and has the table of mutants.
//
// A place of a ring holds one record, a job or padding. A cell knows the position of the record committed there, which
// only the checks look at. (The ring's model checks that a reader at a boundary sees nothing or this lap's record.)
// A step makes one access to shared memory. Between two steps anything may happen: another process's step, a store that
// becomes visible, a kill. A worker that is not scheduled for a while is one that is stopped.
#include "queue_world.hpp"

namespace model {

namespace {

using namespace queue_model;

// One exploration.
class Model final : public World {
  public:
    using World::World;

  private:
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
    State first() const override {
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
    bool at_end(const State& s) const override {
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
    void check_end(const State& s) override { check(s.done == all_jobs(), "Q1"); }
    bool needs_end(const State& s) const override {
        bool live = false;
        for (int i = 0; i < max_workers; ++i) {
            const Worker& b = s.worker[i];
            live = live || (b.alive && !b.told && !b.evicting && !(s.evictor != 0 && s.victim == i));
        }
        return live;
    }
    uint8_t all_jobs() const {
        int jobs = 0;
        for (const char* plan : c.plan)
            for (; *plan; ++plan) jobs += *plan == 'j';
        return static_cast<uint8_t>((1 << jobs) - 1);
    }
    void steps(const State& s) override {
        for (int k = 0; k < producers(); ++k) producer_steps(s, k);
        evictor_steps(s);
        for (int i = 0; i < c.workers; ++i) worker_steps(s, i);
        if (c.ended) looker_steps(s);
    }
    std::string print(const State& s) const override {
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
};

}  // namespace

void print_queue_table() {
    print_rows("queue", rows);
}

void explore_queue(bool large, Wanted wanted, Report report) {
    explore_rows<Model>("queue", "Q5", scenarios, rows, large, wanted, report);
}

}  // namespace model
