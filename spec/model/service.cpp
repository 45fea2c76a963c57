// SPDX-License-Identifier: Apache-2.0
//
// A model of the service (service.md): clients that call, a server that takes requests and replies, its successor, an
// evicting operator. README.md, "The service", says how to read it and has the table of mutants.
//
// A record of a ring is one unit, published in one step: the ring's model checks that a reader sees either nothing or
// this lap's record. It also checks the order of stores, except those of a server that is killed. A step makes one
// access to shared memory. Between two steps anything may happen. A stopped process is one whose steps are not taken
// for a while.
#include "service.hpp"

#include <algorithm>
#include <cstdio>

#include "service_world.hpp"

namespace model {

namespace {

using namespace service_model;

// One exploration.
class Model final : public World {
  public:
    using World::World;

  private:
    void client_steps(const State& s, int k) {
        const Client& a = s.client[k];
        const Place& place = s.place[k];
        State n = s;
        Client& b = n.client[k];
        Place& p = n.place[k];
        if (!a.alive) {  // 3: its next owner
            if (place.owner || s.control != none || !c.plan[k][s.next[k]]) return;
            n.control = static_cast<int8_t>(10 + k), p.owner = 1;
            b.alive = 1, b.pc = take_client;
            if (!off(Mutant::closed_stays)) p.closed = 0;
            return emit(n, true);
        }
        const bool told = a.pc != take_client && a.epoch != place.epoch, counted = !(c.slow && k == 0) && !told;
        if (s.client_kills) {
            n.client_kills--;
            if (n.control == 10 + k) n.control = none;
            if (n.lock == trier) n.lock = none;
            leave(n, k);
            emit(n, false);
            n = s;
        }
        auto go = [&](int pc) {
            b.pc = static_cast<int8_t>(pc);
            forget_ended(b);
            emit(n, counted);
        };
        auto room = [&] { return place.requests < max_requests && place.requests + 1 <= place.gate + c.places; };
        // 3, close: the gate, then the locks, follow in steps of their own. Its calls end as closed, or as slot lost.
        auto close = [&](bool is_counted) {
            const int8_t epoch = a.epoch;
            std::memset(&b, 0, sizeof b);
            b.alive = 1, b.epoch = epoch, b.pc = closing;
            p.closed = 1;
            emit(n, is_counted);
        };
        auto slot_lost = [&] { close(true); };
        switch (a.pc) {
            case take_client:
                if (!off(Mutant::take_no_epoch)) p.epoch++;
                b.epoch = p.epoch;
                return go(join);
            case closing:  // leave; on slot lost: take back
                p.reply_gate = none;
                b.pc = left;
                return emit(n, true);
            case left:
                leave(n, k);
                return emit(n, true);
            case join:  // 6.4: at published
                if (!off(Mutant::publish_before_join)) p.reply_gate = b.cursor = place.replies;
                n.control = none;
                return go(idle);
            case joined:  // only where it was left out before
                p.reply_gate = b.cursor = place.replies;
                return go(idle);
            case idle: {
                if (told) return slot_lost();
                if (s.client_closes) {
                    n.client_closes--;
                    close(false), n = s;
                }
                const char next = c.plan[k][s.next[k]];
                if (next && (in_use(a) < c.outstanding || off(Mutant::busy_never)) && a.calls < max_calls)
                    go(load_epoch), n = s;
                if ((next == 'd' || next == 't') && s.expiries) {  // its deadline passes before it was published
                    n.expiries--;
                    finish(n, k * max_calls + s.next[k], end_expired_not_run);
                    n.next[k]++;
                    go(idle), n = s;
                }
                if (!(a.blocked && off(Mutant::full_no_drain)) && drain(n, k)) go(idle);
                n = s;
                if (in_use(a) && a.known) go(gone_epoch), n = s;
                for (int i = 0; i < max_calls; ++i) {
                    const Call& call = a.call[i];
                    if (call.state == outstanding && has_deadline(call.id) && s.expiries) {
                        n.expiries--, n.late[call.id] = 1;
                        finish(n, call.id, off(Mutant::expired_not_run) ? end_expired_not_run : end_expired);
                        b.call[i].state = abandoned;
                        go(idle), n = s;
                    }
                    if (call.state == outstanding && kind(call.id) == 'x') {  // 7
                        finish(n, call.id, cancelled);
                        b.call[i].state = abandoned, b.call[i].cancel = 1;
                        go(idle), n = s;
                    }
                    if (call.cancel && room()) {
                        p.request[p.requests++] = {cancel_operation, call.sequence, a.epoch, a.known, call.id};
                        b.call[i].cancel = 0;
                        go(idle), n = s;
                    } else if (call.cancel && off(Mutant::cancel_once)) {
                        b.call[i].cancel = 0;
                        go(idle), n = s;
                    }
                    if (call.owed && room()) {
                        p.request[p.requests++] = {credit_operation, call.sequence, a.epoch, a.known, call.id};
                        n.credit[call.id]++;
                        b.call[i].owed--;
                        go(idle), n = s;
                    }
                }
                return;
            }
            case load_epoch:  // 6, call 2
                b.e = s.epoch;
                if (a.known && a.known != s.epoch) {
                    b.back = load_epoch;
                    return go(gone_epoch);
                }
                return go(a.known ? publish : lives);
            case lives:
                if (off(Mutant::try_lock) && !a.tried) {  // tries the lock, gives it back in the next step
                    if (s.lock != none && s.lock != trier) b.tried = 2;
                    if (s.lock == none) n.lock = trier, b.tried = 1;
                    return b.tried ? go(lives) : void();
                }
                if (a.tried == 1) n.lock = none, b.held = 0;
                if (!a.tried) b.held = s.lock != none;
                if (a.tried == 2) b.held = 1;
                b.tried = 0;
                b.owner = owner_at(s, a.e);
                if (b.held && a.e > 0) return go(lives_word);
                b.held = b.owner = 0;
                return go(idle);  // waits for one
            case lives_word: {
                const bool there = s.serving == a.e || off(Mutant::lives_serving);
                if (there) check(a.owner, "S9"), b.known = a.e;
                b.held = b.owner = 0;
                return go(there ? publish : idle);
            }
            case publish: {
                if (told) return slot_lost();
                b.e = 0;
                if (!room()) {
                    b.blocked = 1;
                    return go(idle);
                }
                const int id = k * max_calls + s.next[k];
                int i = 0;
                while (a.call[i].state == outstanding || a.call[i].state == abandoned ||
                       (a.call[i].state == ended && !off(Mutant::sequence_again)))
                    ++i;
                if (off(Mutant::sequence_again))  // of a call that has ended for its caller
                    for (int q = 0; q < max_calls; ++q)
                        if (a.call[q].state == abandoned) i = q;
                b.blocked = 0;
                b.call[i] =
                    Call{outstanding, static_cast<int8_t>(i + 1), static_cast<int8_t>(id), place.requests, 0, 0, 0};
                b.calls = std::max<int8_t>(a.calls, static_cast<int8_t>(i + 1));
                p.request[p.requests++] = {call_operation, b.call[i].sequence, a.epoch, a.known,
                                           static_cast<int8_t>(id)};
                n.credit[id] = is_stream(id);
                n.next[k]++;
                check(in_use(b) <= c.outstanding, "S6");
                return go(off(Mutant::publish_before_join) && a.calls == 0 ? joined : idle);
            }
            case gone_epoch:  // 6, gone? 1
                b.e = s.epoch;
                if (off(Mutant::gone_taken_end_first)) b.taken_end = place.taken_end;
                if (off(Mutant::gone_drain_first)) return go(gone_drain);
                return go(gone_lock);
            case gone_lock:
                b.held = s.lock != none;
                b.replies = place.replies;
                b.owner = owner_at(s, a.known);
                return go(gone_word);
            case gone_word:
                b.owner = 0;
                if ((a.e == a.known || off(Mutant::gone_lock_only)) && (a.held || off(Mutant::gone_epoch_only)) &&
                    (s.serving == a.known || off(Mutant::gone_serving))) {
                    if (a.held) check(a.owner, "S9");
                    b.e = b.held = b.replies = b.taken_end = 0;
                    b.pc = b.back, b.back = 0;
                    return go(b.pc);
                }
                if (c.least && !off(Mutant::repeat_ends_calls)) {  // 8
                    b.known = b.e = b.held = b.replies = b.taken_end = 0;
                    b.pc = b.back, b.back = 0;
                    return go(b.pc);
                }
                return go(off(Mutant::gone_no_drain) || off(Mutant::gone_drain_first) ? gone_end : gone_drain);
            case gone_drain:  // 3
                if (drain(n, k)) return go(gone_drain);
                return go(off(Mutant::gone_drain_first) ? gone_lock : gone_end);
            case gone_end: {  // 4
                check(a.cursor >= a.replies, "S7");
                const int taken_end = off(Mutant::gone_taken_end_first) ? a.taken_end : place.taken_end;
                for (Call& call : b.call) {
                    const bool free = !a.held || off(Mutant::gone_lock_held);
                    if (call.state == outstanding)
                        finish(n, call.id, free && call.position >= taken_end ? gone_not_run : gone_may_have_run);
                    if (call.state != unused) call.state = ended;
                    call.cancel = call.owed = 0;
                }
                b.known = b.e = b.held = b.replies = b.taken_end = 0;
                b.pc = b.back, b.back = 0;
                return go(b.pc);
            }
        }
    }

    // 6, drain: one reply. False: there is none.
    bool drain(State& s, int k) {
        Client& b = s.client[k];
        Place& p = s.place[k];
        if (b.cursor >= p.replies) return false;
        const Reply r = p.reply[b.cursor++];
        p.reply_gate = b.cursor;
        b.blocked = 0;
        if (r.client_epoch != b.epoch && !off(Mutant::drain_no_epoch)) return true;
        for (Call& call : b.call) {
            if (call.state != outstanding && call.state != abandoned) continue;
            if (call.sequence != r.sequence && !off(Mutant::drain_no_sequence)) continue;
            check(call.id == r.id, "S4");
            if (r.more) {
                if (call.state == outstanding) call.owed++;
                return true;
            }
            if (call.state == outstanding)
                finish(s, call.id,
                       r.status == not_run_status ? gone_not_run
                       : r.status == expired_status
                           ? (r.repeat && !off(Mutant::repeat_not_told) ? end_expired : end_expired_not_run)
                           : answered);
            call.state = ended;
            return true;
        }
        return true;
    }

    // --- the server
    static int hand_of(const Server& a, int k) {
        int n = 0;
        for (const Entry& e : a.hand) n += e.state != no_entry && e.place == k;
        return n;
    }
    int wanted_gate(const Server& a, int k) const {  // 5, poll 8
        int8_t gate = a.cursor[k];
        if (c.least && !off(Mutant::gate_passes))
            for (const Entry& e : a.hand)
                if (e.state != no_entry && e.place == k && e.position < gate) gate = e.position;
        return gate;
    }
    static void stop(State& s, int i) {  // killed, or it lost its slot
        if (s.lock == i) s.lock = none;
        if (s.control == i) s.control = none;
        std::memset(&s.server[i], 0, sizeof s.server[i]);
    }
    static int new_entry(Server& b, const Request& r, int k, int status) {
        for (int i = 0; i < max_hand; ++i)
            if (b.hand[i].state == no_entry) {
                b.hand[i] = Entry{in_hand, static_cast<int8_t>(k),       b.cursor[k], r.sequence, r.client_epoch,
                                  r.id,    static_cast<int8_t>(status),  0,           0,          0,
                                  0,       b.cursor[k] < b.repeat_end[k]};
                return i;
            }
        return none;
    }
    void run_handler(State& s, int i, int k) {
        Server& b = s.server[i];
        const Request& r = s.place[k].request[b.cursor[k]];
        const bool repeat = c.least && b.cursor[k] < b.repeat_end[k] && !off(Mutant::no_repeat);
        check(c.least || s.runs[r.id] == 0, "S2");
        // A server that lost its locks, and does not know it yet, looks dead to callers (channel.md 5.1).
        check((b.unlocked || !not_run(s.end[r.id])) && !s.answered_not_run[r.id], "S2");
        check(repeat || !s.runs[r.id], "S3");
        check(!repeat || s.handed[r.id], "S3");
        if (s.runs[r.id] < 2) s.runs[r.id]++;
        s.items[r.id] = 0;
    }

    void server_steps(const State& s, int i) {
        const Server& a = s.server[i];
        State n = s;
        Server& b = n.server[i];
        if (!a.alive) {  // 4
            if (s.control != none || s.refused) return;
            if (i > 0 && !s.server[0].alive && s.lock == none && !s.server[1].alive)
                return;  // all servers that have not begun are alike: one is enough
            if (s.lock == trier) {
                n.refused = 1;
                check(false, "S8");
                return emit(n, false);
            }
            if (s.lock != none) return;
            n.control = static_cast<int8_t>(i);
            b.alive = 1, b.pc = take_clear;
            return emit(n, c.least);
        }
        const bool told = a.pc > take_epoch && s.epoch != a.epoch, counted = !told || c.least;
        if (s.kills) {
            n.kills--;
            stop(n, i);
            emit(n, false);
            n = s;
        }
        if (s.losses && s.lock == i && a.pc >= serving) {  // 5.1: its descriptors are closed
            n.losses--;
            n.lock = none, b.unlocked = 1;
            emit(n, false);
            n = s;
        }
        auto go = [&](int pc) {
            b.pc = static_cast<int8_t>(pc);
            emit(n, counted);
        };
        auto slot_lost = [&] {
            stop(n, i);
            emit(n, counted);
        };
        auto back_to_serving = [&] {
            b.place = b.entry = b.more = 0;
            go(serving);
        };
        const int k = a.place;
        const Place& place = s.place[k];
        switch (a.pc) {
            case take_clear:
                if (off(Mutant::take_serving_behind))
                    n.lock = static_cast<int8_t>(i);
                else if (!off(Mutant::take_serving_stays))
                    n.serving = 0;
                return go(take_lock);
            case take_lock:
                if (s.lock == trier) {
                    n.refused = 1;
                    check(false, "S8");
                    return emit(n, false);
                }
                if (off(Mutant::take_serving_behind)) n.serving = 0;
                n.lock = static_cast<int8_t>(i);
                return go(take_epoch);
            case take_epoch:
                if (!off(Mutant::server_no_epoch) || s.epoch == 0) n.epoch++;
                b.epoch = n.epoch;
                return go(take_resume);
            case take_resume: {  // one ring a step
                Place& p = n.place[k];
                const int8_t gate = place.gate, end = std::max(place.gate, place.taken_end);
                const bool at_end = c.least ? off(Mutant::resume_taken_end) : !off(Mutant::resume_gate);
                b.cursor[k] = at_end ? end : gate;
                b.repeat_end[k] = end;
                if (!off(Mutant::resume_no_store)) p.gate = b.cursor[k];
                if (++b.place < clients()) return go(take_resume);
                b.place = 0;
                return go(take_done);
            }
            case take_done:
                n.serving = a.epoch;
                n.control = none;
                return go(serving);

            case serving:
                if (told) return slot_lost();
                for (int q = 0; q < clients(); ++q) serve(s, i, q, counted);
                for (int e = 0; e < max_hand; ++e) entry_steps(s, i, e, counted);
                return;
            case compare:  // 5, poll 6
                if (told) return slot_lost();
                return go(off(Mutant::taken_end_behind) ? run : store_taken_end);
            case store_taken_end:
                if (told && a.unlocked) return slot_lost();
                if (!off(Mutant::taken_end_never) && (a.cursor[k] >= a.repeat_end[k] || off(Mutant::taken_end_back)))
                    n.place[k].taken_end = static_cast<int8_t>(a.cursor[k] + 1);
                n.handed[place.request[a.cursor[k]].id] = 1;
                if (off(Mutant::taken_end_behind)) {
                    b.cursor[k]++;
                    return back_to_serving();
                }
                return go(run);
            case run: {  // 7
                const Request& r = place.request[a.cursor[k]];
                run_handler(n, i, k);
                const int e = new_entry(b, r, k, ok);
                b.hand[e].stream = is_stream(r.id);
                b.hand[e].credit = is_stream(r.id);
                if (off(Mutant::taken_end_behind)) return go(store_taken_end);
                b.cursor[k]++;
                if (off(Mutant::gate_before_reply)) n.place[k].gate = b.cursor[k];
                if (is_stream(r.id)) return back_to_serving();
                b.entry = static_cast<int8_t>(e);
                const State at_once = n;
                if (c.keeps) back_to_serving();
                n = at_once;
                return go(reply_compare);
            }

            case reply_compare:  // 5, reply 1
                if (told && !off(Mutant::reply_no_epoch)) return slot_lost();
                return go(reply_client);
            case reply_client: {
                const Entry& e = a.hand[a.entry];
                const Place& p = s.place[e.place];
                if ((p.epoch != e.client_epoch || p.closed) && !off(Mutant::reply_client)) {
                    if (a.more) b.hand[a.entry].over = 1;
                    if (a.more) return back_to_serving();
                    return go(reply_done);
                }
                return go(reply_publish);
            }
            case reply_publish: {
                if (told && a.unlocked && !off(Mutant::reply_no_epoch)) return slot_lost();
                const Entry& e = a.hand[a.entry];
                Place& p = n.place[e.place];
                if (p.replies == max_replies) return;
                if (p.reply_gate != none && p.replies + 1 > p.reply_gate + c.places) {
                    if (!p.owner && !off(Mutant::reply_no_retire)) {
                        p.epoch++, p.reply_gate = none;
                        return go(reply_client);
                    }
                    if (off(Mutant::reply_waits)) return;
                    if (off(Mutant::reply_lost)) return go(reply_done);
                    if (!a.more) b.hand[a.entry].state = waiting;
                    return back_to_serving();
                }
                p.reply[p.replies++] = {e.client_epoch, e.sequence, e.status, a.more, e.repeat, e.id};
                if (e.status == not_run_status || e.status == expired_status) {
                    n.answered_not_run[e.id] = !c.least, n.late[e.id] = e.status == expired_status;
                    check(s.runs[e.id] == 0 || c.least || e.stream, "S2");
                }
                if (a.more) {
                    b.hand[a.entry].items++, b.hand[a.entry].credit--;
                    n.items[e.id]++;
                    check(n.items[e.id] <= s.credit[e.id], "S6");
                    return back_to_serving();
                }
                return go(reply_done);
            }
            case reply_done:
                b.hand[a.entry] = Entry{};
                return back_to_serving();
        }
    }

    void serve(const State& s, int i, int k, bool counted) {
        const Server& a = s.server[i];
        const Place& place = s.place[k];
        State n = s;
        Server& b = n.server[i];
        auto go = [&](int pc) {
            b.pc = static_cast<int8_t>(pc), b.place = static_cast<int8_t>(pc == serving ? 0 : k);
            emit(n, counted);
        };
        if (wanted_gate(a, k) != place.gate && !off(Mutant::gate_before_reply) &&
            !(off(Mutant::resume_no_store) && !c.least && a.cursor[k] == a.repeat_end[k])) {  // 8
            n.place[k].gate = static_cast<int8_t>(wanted_gate(a, k));
            go(serving), n = s;
        }
        if (a.cursor[k] >= place.requests) return;
        const Request& r = place.request[a.cursor[k]];
        if (r.operation != call_operation) {  // 3, 7
            for (Entry& e : b.hand) {
                if (e.state != in_hand || e.place != k || e.sequence != r.sequence) continue;
                if (e.client_epoch != r.client_epoch &&
                    !off(r.operation == cancel_operation ? Mutant::cancel_sequence_only : Mutant::credit_sequence_only))
                    continue;
                if (r.operation == credit_operation)
                    e.credit++;
                else
                    check(e.id == r.id, "S4"), e.over = 1;
                break;
            }
            b.cursor[k]++;
            return go(serving);
        }
        const int in_hands = hand_of(a, k);
        if (in_hands >= c.outstanding && !off(Mutant::in_hand_unbounded)) return;  // 1
        check(in_hands < c.outstanding, "S6");
        int status = ok;
        if (!c.least && r.server_epoch != a.epoch && !off(Mutant::runs_any_epoch)) status = not_run_status;  // 4
        auto answer = [&](int answer_status) {
            const int e = new_entry(b, r, k, answer_status);
            b.cursor[k]++, b.entry = static_cast<int8_t>(e);
            n.handed[r.id] = 1;
            go(reply_compare);
            n = s;
        };
        if (status == not_run_status) return answer(not_run_status);
        if (has_deadline(r.id)) answer(expired_status);  // 5
        if (s.late[r.id]) return;
        go(compare);
    }

    void entry_steps(const State& s, int i, int at, bool counted) {
        const Entry& e = s.server[i].hand[at];
        if (e.state == no_entry) return;
        State n = s;
        Server& b = n.server[i];
        const Place& p = s.place[e.place];
        auto send = [&](bool more) {
            b.pc = reply_compare, b.entry = static_cast<int8_t>(at), b.more = more;
            b.hand[at].state = in_hand;
            emit(n, counted);
            n = s;
        };
        const bool room = p.reply_gate == none || p.replies + 1 <= p.reply_gate + c.places || p.closed ||
                          p.epoch != e.client_epoch || (!p.owner && !off(Mutant::reply_no_retire));
        if (e.state == waiting) {
            if (room) send(false);
            return;
        }
        if (!e.stream) return send(false);  // kept: answered at some later time
        if (has_deadline(e.id)) {           // 7: flag 2
            b.hand[at].status = expired_status, b.hand[at].repeat = !off(Mutant::stream_not_run);
            send(false);
        }
        if (e.over || e.items == stream_items) return send(false);
        if ((e.credit > 0 || off(Mutant::credit_unbounded)) && room) send(true);
        if (!off(Mutant::client_death_unseen) && (!p.owner || p.epoch != e.client_epoch)) {  // 7
            b.hand[at].over = 1;
            emit(n, counted);
        }
    }

    // --- 9
    void evictor_steps(const State& s) {
        State n = s;
        for (int i = 0; s.evicts && s.control == none && i < max_servers; ++i)
            if (lives_server(s, i)) {
                n.evicts--, n.epoch++;
                if (off(Mutant::evict_gates))
                    for (Place& p : n.place) p.gate = p.taken_end = p.requests;
                emit(n, false);
                n = s;
            }
        for (int k = 0; s.client_evicts && s.control == none && k < clients(); ++k)
            if (s.client[k].alive && s.client[k].epoch == s.place[k].epoch) {
                n.client_evicts--, n.place[k].epoch++, n.place[k].reply_gate = none;
                emit(n, false);
                n = s;
            }
    }

    // --- exploring
    State first() const override {
        State s;
        std::memset(&s, 0, sizeof s);
        s.lock = s.control = none;
        for (Place& p : s.place) p.reply_gate = none;
        s.kills = static_cast<int8_t>(c.kills), s.client_kills = static_cast<int8_t>(c.client_kills);
        s.evicts = static_cast<int8_t>(c.evicts), s.client_evicts = static_cast<int8_t>(c.client_evicts);
        s.client_closes = static_cast<int8_t>(c.client_closes);
        s.losses = static_cast<int8_t>(c.losses), s.expiries = static_cast<int8_t>(c.expiries);
        return s;
    }
    // S5: the states in which all may end. A call that waits for a server where there is none was not published.
    bool at_end(const State& s) const override {
        int server = none;
        for (int i = 0; i < max_servers; ++i) {
            if (lives_server(s, i)) server = i;
            if (s.server[i].alive && s.server[i].pc <= take_done) return false;
        }
        if (c.least && server == none) return false;
        for (int k = c.slow ? 1 : 0; k < clients(); ++k) {
            const Client& a = s.client[k];
            const Place& p = s.place[k];
            if (a.alive && a.epoch == p.epoch) {
                if (a.pc != idle || in_use(a)) return false;
                for (const Call& call : a.call)
                    if (call.cancel) return false;
                if (c.plan[k][s.next[k]] && server != none && a.calls < max_calls) return false;
            }
            if (server == none) continue;
            const Server& b = s.server[server];
            if (b.cursor[k] != p.requests || hand_of(b, k) || b.pc != serving) return false;
            if (p.gate != p.requests && !off(Mutant::gate_before_reply)) return false;
        }
        return true;
    }
    void check_end(const State& s) override {  // S3: nothing was lost
        for (int i = 0; i < max_servers; ++i)
            for (int k = c.slow ? 1 : 0; lives_server(s, i) && k < clients(); ++k)
                for (int p = 0; p < s.place[k].requests; ++p) {
                    const Request& r = s.place[k].request[p];
                    if (r.operation != call_operation || has_deadline(r.id)) continue;
                    if (c.least || r.server_epoch == s.epoch) check(s.runs[r.id] > 0, "S3");
                }
    }
    bool needs_end(const State&) const override { return true; }
    void steps(const State& s) override {
        for (int k = 0; k < clients(); ++k) client_steps(s, k);
        for (int i = 0; i < max_servers; ++i) server_steps(s, i);
        evictor_steps(s);
    }
    std::string print(const State& s) const override {
        char line[300];
        std::string text;
        std::snprintf(line, sizeof line, "slot 0: epoch %d lock %d serving %d", s.epoch, s.lock, s.serving);
        text += line;
        for (int k = 0; k < clients(); ++k) {
            const Place& p = s.place[k];
            const Client& a = s.client[k];
            std::snprintf(
                line, sizeof line,
                " | place %d: requests %d gate %d taken_end %d, replies %d gate %d, epoch %d%s; client%s pc %d "
                "epoch %d known %d cursor %d calls",
                k, p.requests, p.gate, p.taken_end, p.replies, p.reply_gate, p.epoch, p.closed ? " closed" : "",
                a.alive ? "" : " dead", a.pc, a.epoch, a.known, a.cursor);
            text += line;
            for (const Call& call : a.call) text += " " + std::to_string(call.state);
        }
        for (const Server& b : s.server)
            if (b.alive) {
                std::snprintf(line, sizeof line, " | server pc %d epoch %d cursors %d %d in hand", b.pc, b.epoch,
                              b.cursor[0], b.cursor[1]);
                text += line;
                for (const Entry& e : b.hand)
                    if (e.state) text += " " + std::to_string(e.id) + (e.state == waiting ? "w" : "");
            }
        text += " | runs, ends";
        for (int id = 0; id < max_ids; ++id)
            if (s.runs[id] || s.end[id]) {
                std::snprintf(line, sizeof line, " %d: %d %d", id, s.runs[id], s.end[id]);
                text += line;
            }
        return text;
    }
};

}  // namespace

void print_service_table() {
    print_rows("service", rows);
}

void explore_service(bool large, Wanted wanted, Report report) {
    explore_rows<Model>("service", "S5", scenarios, rows, large, wanted, report);
}

}  // namespace model
