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
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>

namespace model {

namespace {

constexpr int max_clients = 2, max_servers = 2, max_calls = 3, max_ids = max_clients * max_calls, max_requests = 9,
              max_replies = 12, max_hand = 4, none = -1;
constexpr int stream_items = 2;  // of a stream; each item after the first needs more credit

enum class Mutant {
    none,
    take_no_epoch,
    publish_before_join,
    server_no_epoch,
    resume_gate,
    resume_taken_end,
    resume_no_store,
    in_hand_unbounded,
    runs_any_epoch,
    taken_end_behind,
    taken_end_never,
    taken_end_back,
    no_repeat,
    gate_passes,
    gate_before_reply,
    reply_no_epoch,
    reply_client_epoch,
    reply_waits,
    reply_lost,
    try_lock,
    full_no_drain,
    busy_never,
    drain_no_epoch,
    drain_no_sequence,
    sequence_again,
    gone_drain_first,
    gone_no_drain,
    gone_taken_end_first,
    gone_lock_held,
    gone_epoch_only,
    gone_lock_only,
    expired_not_run,
    credit_unbounded,
    credit_sequence_only,
    cancel_once,
    cancel_sequence_only,
    client_death_unseen,
    repeat_ends_calls,
    evict_gates,
    lives_serving,
    take_serving_stays,
    take_serving_behind,
    gone_serving,
    repeat_not_told,
    stream_not_run,
};

struct Scenario {
    const char* name;
    bool least;  // at least once
    // of each client, over all its owners: c a call, d one with a deadline, s a stream, t one with a deadline, x one
    // that is cancelled
    const char* plan[2];
    int places, outstanding;  // records of a ring; max_outstanding
    int kills, client_kills, evicts, client_evicts, losses, expiries;
    bool keeps, slow;  // handlers may keep requests; no process may count on client 0
    bool large;        // only with --large
};
const Scenario scenarios[] = {
    {"calls", false, {"cc", ""}, 1, 2, 0, 0, 0, 0, 0, 0, true, false, false},
    {"killed", false, {"cc", ""}, 2, 2, 1, 0, 0, 0, 0, 0, false, false, false},
    {"killed, kept", false, {"cc", ""}, 2, 2, 1, 0, 0, 0, 0, 0, true, false, false},
    {"killed twice", false, {"cc", ""}, 1, 1, 2, 0, 0, 0, 0, 0, false, false, false},
    {"full, killed", false, {"ccc", ""}, 1, 3, 1, 0, 0, 0, 0, 0, false, false, false},
    {"deadlines", false, {"dd", ""}, 1, 2, 1, 0, 0, 0, 0, 2, true, false, false},
    {"deadlines, bounded", false, {"ddd", ""}, 3, 1, 0, 0, 0, 0, 0, 2, true, false, false},
    {"evicted", false, {"cc", ""}, 2, 2, 0, 0, 1, 0, 0, 0, true, false, false},
    {"evicted and killed", false, {"c", ""}, 1, 1, 1, 0, 1, 0, 0, 0, false, false, false},
    {"lock lost", false, {"cc", ""}, 2, 2, 0, 0, 0, 0, 1, 0, true, false, false},
    {"client killed", false, {"cc", ""}, 1, 2, 0, 1, 0, 0, 0, 0, true, false, false},
    {"both killed", false, {"cc", ""}, 1, 1, 1, 1, 0, 0, 0, 0, false, false, false},
    {"client evicted", false, {"cc", ""}, 1, 2, 0, 0, 0, 1, 0, 0, true, false, false},
    {"two clients, one slow", false, {"cc", "c"}, 1, 2, 0, 0, 0, 0, 0, 0, false, true, false},
    {"two clients, one killed", false, {"cc", "c"}, 1, 2, 0, 1, 0, 0, 0, 0, false, true, false},
    {"stream", false, {"s", ""}, 1, 1, 1, 0, 0, 0, 0, 0, false, false, false},
    {"streams, client killed", false, {"ss", ""}, 2, 1, 0, 1, 0, 0, 0, 0, false, false, false},
    {"stream, deadline", false, {"t", ""}, 1, 1, 1, 0, 0, 0, 0, 1, false, false, false},
    {"two streams, client killed", false, {"ss", ""}, 2, 2, 0, 1, 0, 0, 0, 0, false, false, false},
    {"cancelled, client killed", false, {"sx", ""}, 2, 2, 0, 1, 0, 0, 0, 0, false, false, false},
    {"cancelled", false, {"xc", ""}, 1, 2, 0, 0, 0, 0, 0, 0, false, false, false},
    {"least: killed", true, {"cc", ""}, 2, 2, 1, 0, 0, 0, 0, 0, false, false, false},
    {"least: killed, kept", true, {"cc", ""}, 2, 2, 1, 0, 0, 0, 0, 0, true, false, false},
    {"least: killed twice", true, {"cc", ""}, 1, 1, 2, 0, 0, 0, 0, 0, false, false, false},
    {"least: killed twice, kept", true, {"cc", ""}, 2, 2, 2, 0, 0, 0, 0, 0, true, false, false},
    {"least: evicted", true, {"cc", ""}, 2, 2, 0, 0, 1, 0, 0, 0, true, false, false},
    {"least: both killed", true, {"cc", ""}, 1, 1, 1, 1, 0, 0, 0, 0, false, false, false},
    {"least: deadlines", true, {"dc", ""}, 1, 1, 1, 0, 0, 0, 0, 1, false, false, false},
    {"large: killed and evicted", false, {"ccc", ""}, 2, 2, 1, 0, 1, 0, 0, 0, true, false, true},
    {"large: killed twice", false, {"cc", "c"}, 1, 2, 2, 0, 0, 0, 0, 0, false, false, true},
    {"large: clients killed", false, {"ccc", ""}, 2, 2, 1, 2, 0, 0, 0, 0, true, false, true},
    {"large: two clients, deadlines", false, {"dd", "d"}, 1, 2, 1, 0, 0, 0, 0, 2, false, false, true},
    {"large: streams", false, {"xs", ""}, 2, 2, 1, 0, 0, 0, 0, 0, false, false, true},
    {"large: least, killed twice", true, {"ccc", ""}, 2, 2, 2, 0, 0, 0, 0, 0, true, false, true},
    {"large: least, killed and evicted", true, {"cc", "c"}, 2, 2, 1, 0, 1, 0, 0, 0, false, false, true},
    {"large: least, both killed", true, {"ccc", ""}, 2, 2, 2, 1, 0, 0, 0, 0, false, false, true},
};

struct Row {
    Mutant mutant;
    const char *step, *what, *breaks, *because, *scenario;
};

enum Operation : int8_t { call_operation, cancel_operation, credit_operation };
enum Status : int8_t { ok, error_status, expired_status, not_run_status };
struct Request {
    int8_t operation, sequence, client_epoch, server_epoch, id;  // id: truth, which call it is
};
struct Reply {
    int8_t client_epoch, sequence, status, more, repeat, id;
};
// The two rings of a client, and its slots. A position is an index; what lies below a gate may be overwritten.
struct Place {
    Request request[max_requests];
    Reply reply[max_replies];
    int8_t requests, replies;                          // published
    int8_t gate, taken_end, reply_gate, epoch, owner;  // owner: 1 if the slots' locks are held
};

enum CallState : int8_t { unused, outstanding, abandoned, ended };
struct Call {
    int8_t state, sequence, id, position, items, owed, cancel;  // owed: credit to be given; cancel: to be published
};
struct Client {
    int8_t pc, alive, epoch, cursor, known, e, held, replies, taken_end, back, blocked, calls, tried;
    int8_t owner;  // truth: held, by the server whose epoch is e
    Call call[max_calls];
};
enum EntryState : int8_t { no_entry, in_hand, waiting };
struct Entry {
    int8_t state, place, position, sequence, client_epoch, id, status, credit, items, stream, over, repeat;
};
struct Server {
    int8_t pc, alive, epoch, place, entry, more, unlocked;
    int8_t cursor[max_clients], repeat_end[max_clients];
    Entry hand[max_hand];
};
enum End : int8_t { not_ended, answered, end_expired, end_expired_not_run, gone_not_run, gone_may_have_run, cancelled };
struct State {
    Place place[max_clients];
    Client client[max_clients];
    Server server[max_servers];
    int8_t epoch, serving, lock, control;  // of slot 0; lock: which server, or a client that tries it
    int8_t refused;                        // a server was refused a lock that no server held
    int8_t kills, client_kills, evicts, client_evicts, losses, expiries;
    // truth, by call
    int8_t next[max_clients], runs[max_ids], handed[max_ids], end[max_ids], answered_not_run[max_ids], items[max_ids],
        credit[max_ids],
        late[max_ids];  // its deadline has passed
};

enum ClientPc : int8_t {
    idle,
    load_epoch,
    lives,
    lives_word,
    publish,
    gone_epoch,
    gone_lock,
    gone_word,
    gone_drain,
    gone_end,
    join,
    joined,
};
enum ServerPc : int8_t {
    take_clear,
    take_lock,
    take_epoch,
    take_resume,
    take_done,
    serving,
    compare,
    store_taken_end,
    run,
    reply_compare,
    reply_client,
    reply_publish,
    reply_done,
};
constexpr int trier = 8;

// One exploration.
struct Model {
    const Scenario& c;
    Mutant mutant;
    const char* broken = nullptr;
    size_t states = 0;
    std::vector<std::string> trace;
    struct Next {
        State s;
        bool progress;  // a step on which all may count
    };
    std::vector<Next> out;

    bool off(Mutant m) const { return m == mutant; }
    void check(bool good, const char* invariant) {
        if (!good && !broken) broken = invariant;
    }
    void emit(const State& n, bool progress) { out.push_back({n, progress}); }
    int clients() const { return *c.plan[1] ? 2 : 1; }
    char kind(int id) const { return c.plan[id / max_calls][id % max_calls]; }
    bool is_stream(int id) const { return kind(id) == 's' || kind(id) == 'x' || kind(id) == 't'; }
    bool has_deadline(int id) const { return kind(id) == 'd' || kind(id) == 't'; }
    static bool lives_server(const State& s, int i) {
        return s.server[i].alive && s.lock == i && s.epoch == s.server[i].epoch && s.server[i].pc > take_done;
    }
    /// Whether the lock is held by the server whose epoch is e. A client that tries it counts as one.
    static bool owner_at(const State& s, int e) {
        return s.lock == trier || (s.lock != none && s.server[s.lock].epoch == e);
    }
    static bool not_run(int8_t end) { return end == end_expired_not_run || end == gone_not_run; }

    // --- ends of calls
    void finish(State& s, int id, End end) {
        check(s.end[id] == not_ended, "S1");
        s.end[id] = end;
        if (not_run(end)) check(s.runs[id] == 0, "S2");
    }

    // --- clients
    static int in_use(const Client& a) {
        int n = 0;
        for (const Call& call : a.call) n += call.state == outstanding || call.state == abandoned;
        return n;
    }
    void leave(State& s, int k) {  // killed, closed, or its slot is lost
        Client& b = s.client[k];
        std::memset(&b, 0, sizeof b);
        s.place[k].owner = 0;
    }
    static void forget_ended(Client& b) {  // resets private words of calls that have ended
        for (Call& call : b.call)
            if (call.state == ended) {
                call = Call{};
                call.state = ended;
            }
    }

    void client_steps(const State& s, int k) {
        const Client& a = s.client[k];
        const Place& place = s.place[k];
        State n = s;
        Client& b = n.client[k];
        Place& p = n.place[k];
        if (!a.alive) {  // 3: its next owner
            if (place.owner || s.control != none || !c.plan[k][s.next[k]]) return;
            n.control = static_cast<int8_t>(10 + k), p.owner = 1;
            b.alive = 1, b.pc = join;
            if (!off(Mutant::take_no_epoch)) p.epoch++;
            b.epoch = p.epoch;
            return emit(n, true);
        }
        const bool told = a.epoch != place.epoch, counted = !(c.slow && k == 0) && !told;
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
        auto slot_lost = [&] {
            leave(n, k);
            p.reply_gate = none;
            emit(n, true);
        };
        switch (a.pc) {
            case join:  // 6.4: at published
                if (!off(Mutant::publish_before_join)) p.reply_gate = b.cursor = place.replies;
                n.control = none;
                return go(idle);
            case joined:  // only where it was left out before
                p.reply_gate = b.cursor = place.replies;
                return go(idle);
            case idle: {
                if (told) return slot_lost();
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
                if ((p.epoch != e.client_epoch || p.reply_gate == none) && !off(Mutant::reply_client_epoch)) {
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
                    if (!p.owner) {  // retire
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
        const bool room = p.reply_gate == none || p.replies + 1 <= p.reply_gate + c.places || !p.owner;
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
    State first() const {
        State s;
        std::memset(&s, 0, sizeof s);
        s.lock = s.control = none;
        for (Place& p : s.place) p.reply_gate = none;
        s.kills = static_cast<int8_t>(c.kills), s.client_kills = static_cast<int8_t>(c.client_kills);
        s.evicts = static_cast<int8_t>(c.evicts), s.client_evicts = static_cast<int8_t>(c.client_evicts);
        s.losses = static_cast<int8_t>(c.losses), s.expiries = static_cast<int8_t>(c.expiries);
        return s;
    }
    // S5: the end that every process can reach. A call that waits for a server where there is none was not published.
    bool at_end(const State& s) const {
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
    void check_end(const State& s) {  // S3: no request was lost
        for (int i = 0; i < max_servers; ++i)
            for (int k = c.slow ? 1 : 0; lives_server(s, i) && k < clients(); ++k)
                for (int p = 0; p < s.place[k].requests; ++p) {
                    const Request& r = s.place[k].request[p];
                    if (r.operation != call_operation || has_deadline(r.id)) continue;
                    if (c.least || r.server_epoch == s.epoch) check(s.runs[r.id] > 0, "S3");
                }
    }
    static uint64_t hash(const State& s) {
        static_assert(sizeof(State) % 8 == 0 || true);
        uint64_t h = 0x9E3779B97F4A7C15, v;
        const char* bytes = reinterpret_cast<const char*>(&s);
        size_t i = 0;
        for (; i + 8 <= sizeof s; i += 8) {
            std::memcpy(&v, bytes + i, 8);
            h = (h ^ v) * 0xFF51AFD7ED558CCD, h ^= h >> 32;
        }
        v = 0;
        std::memcpy(&v, bytes + i, sizeof s - i);
        h = (h ^ v) * 0xFF51AFD7ED558CCD, h ^= h >> 32;
        h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53;
        return h ^ (h >> 29);
    }
    void steps(const State& s) {
        out.clear();
        for (int k = 0; k < clients(); ++k) client_steps(s, k);
        for (int i = 0; i < max_servers; ++i) server_steps(s, i);
        evictor_steps(s);
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
    std::string print(const State& s) const {
        char line[300];
        std::string text;
        std::snprintf(line, sizeof line, "slot 0: epoch %d lock %d serving %d", s.epoch, s.lock, s.serving);
        text += line;
        for (int k = 0; k < clients(); ++k) {
            const Place& p = s.place[k];
            const Client& a = s.client[k];
            std::snprintf(line, sizeof line,
                          " | place %d: requests %d gate %d taken_end %d, replies %d gate %d, epoch %d; client%s pc %d "
                          "epoch %d known %d cursor %d calls",
                          k, p.requests, p.gate, p.taken_end, p.replies, p.reply_gate, p.epoch, a.alive ? "" : " dead",
                          a.pc, a.epoch, a.known, a.cursor);
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
        table.assign(1 << 16, UINT32_MAX);
        std::vector<uint64_t> edges;  // of progress: to, from
        std::vector<bool> good;
        std::deque<State> open{first()};
        bool fresh;
        number(hash(open.front()), 0, fresh);
        for (uint32_t at = 0; !open.empty(); ++at) {
            const State s = open.front();
            open.pop_front();
            const bool end = at_end(s);
            if (end) check_end(s);
            good.push_back(end);
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
        look_for_the_end(edges, good);
    }
    // S5: backward from the ends, along the edges of progress.
    void look_for_the_end(std::vector<uint64_t>& edges, std::vector<bool>& good) {
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
            if (!good[k]) check(false, "S5"), keep_trace(k);
    }
};

const Row rows[] = {
    {Mutant::take_no_epoch, "service client 5", "the epoch of a client's slot is not raised", "S4", "",
     "client killed"},
    {Mutant::publish_before_join, "service client 5", "the first request is published before the join", "S5", "",
     "calls"},
    {Mutant::server_no_epoch, "service server 4", "the epoch of slot 0 is not raised", "S9", "", "killed"},
    {Mutant::resume_gate, "service resume b", "at most once: goes on at the gate", "S2", "", "killed"},
    {Mutant::resume_taken_end, "service resume b", "at least once: goes on at taken_end", "S3", "",
     "least: both killed"},
    {Mutant::resume_no_store, "service resume c", "the gate is not stored", "S5", "", "full, killed"},
    {Mutant::in_hand_unbounded, "service poll 3", "reads on with max_outstanding requests in hand", "S6", "",
     "streams, client killed"},
    {Mutant::runs_any_epoch, "service poll 4", "runs what was addressed to an earlier server", "S2", "", "killed"},
    {Mutant::taken_end_behind, "service poll 6", "taken_end is stored behind the handler", "S2", "", "killed"},
    {Mutant::taken_end_never, "service poll 6", "taken_end is not stored", "S2", "", "killed"},
    {Mutant::taken_end_back, "service poll 6", "at least once: taken_end goes back", "S3", "",
     "least: killed twice, kept"},
    {Mutant::no_repeat, "service poll 7", "at least once: repeat is not said", "S3", "", "least: killed"},
    {Mutant::gate_passes, "service poll 8", "at least once: the gate passes a request that is not answered", "S5", "",
     "least: killed, kept"},
    {Mutant::reply_no_epoch, "service reply 1", "the epoch is not compared", "",
     "its calls have ended, and their sequences are not used again; for a server that lost its locks", "evicted"},
    {Mutant::reply_client_epoch, "service reply 2", "the client's epoch and gate are not looked at", "",
     "the client compares its epoch with the reply's: saves work", "client killed"},
    {Mutant::reply_waits, "service reply 3", "waits for room", "S5", "", "two clients, one slow"},
    {Mutant::reply_lost, "service reply 3", "a reply without room is dropped", "S5", "", "calls"},
    {Mutant::gate_before_reply, "service reply 4", "at least once: the gate moves before the reply", "S5", "",
     "least: killed"},
    {Mutant::lives_serving, "service call 2", "serving is not compared with the epoch", "S9", "", "evicted"},
    {Mutant::take_serving_stays, "service server 2", "serving is not cleared", "S9", "", "killed"},
    {Mutant::take_serving_behind, "service server 2", "serving is cleared behind the lock", "S9", "", "killed"},
    {Mutant::gone_serving, "service gone? 2", "serving is not compared", "S9", "", "killed"},
    {Mutant::try_lock, "service call 2", "the lock is tested by a try-lock", "S8", "", "calls"},
    {Mutant::full_no_drain, "service call 3", "does not drain while it waits for room", "S5", "", "deadlines"},
    {Mutant::busy_never, "service call 1", "calls that expired do not count as outstanding", "S6", "",
     "deadlines, bounded"},
    {Mutant::sequence_again, "service call 3", "the sequence of a call that expired is used again", "S4", "",
     "deadlines"},
    {Mutant::drain_no_epoch, "service drain 2", "client_epoch is not compared", "S4", "", "client killed"},
    {Mutant::drain_no_sequence, "service drain 2", "sequence is not compared", "S4", "", "calls"},
    {Mutant::gone_epoch_only, "service gone? 1", "the lock is not tested", "S5", "", "killed"},
    {Mutant::gone_lock_only, "service gone? 2", "the epoch is not compared", "S5", "", "evicted"},
    {Mutant::gone_drain_first, "service gone? 3", "drains before it looks for the server", "S7", "", "killed"},
    {Mutant::gone_no_drain, "service gone? 3", "does not drain", "S7", "", "killed"},
    {Mutant::gone_taken_end_first, "service gone? 4", "taken_end is loaded before the lock is tested", "S2", "",
     "killed"},
    {Mutant::gone_lock_held, "service gone? 4", "not run, though the lock is held", "S2", "", "evicted"},
    {Mutant::repeat_ends_calls, "service gone? 4", "at least once: ends calls", "S2", "", "least: killed"},
    {Mutant::expired_not_run, "service expired", "the own clock says not run", "S2", "", "deadlines"},
    {Mutant::credit_unbounded, "service streams", "more items than credit", "S6", "", "stream"},
    {Mutant::credit_sequence_only, "service streams", "credit goes to the first request with that sequence", "S5", "",
     "two streams, client killed"},
    {Mutant::cancel_sequence_only, "service cancel", "cancel goes to the first request with that sequence", "S4", "",
     "cancelled, client killed"},
    {Mutant::cancel_once, "service cancel", "is not tried again where there was no room", "S5", "", "cancelled"},
    {Mutant::client_death_unseen, "service streams", "nobody looks whether the client of a stream lives", "S5", "",
     "streams, client killed"},
    {Mutant::repeat_not_told, "service 8", "an expired repeat says not run", "S2", "", "least: deadlines"},
    {Mutant::stream_not_run, "service streams", "one whose deadline passes says not run", "S2", "", "stream, deadline"},
    {Mutant::evict_gates, "service evict", "takes the gates", "S5", "", "least: evicted"},
};

}  // namespace

void print_service_table() {
    for (const Row& row : rows)
        std::printf("| %s | %s | %s%s | service: %s |\n", row.step, row.what,
                    *row.breaks ? row.breaks : "holds all the same: ", row.because, row.scenario);
}

void explore_service(bool large, Wanted wanted, Report report) {
    auto explore = [&](const Scenario& c, Mutant mutant, const char* kind, const std::string& name, const char* breaks,
                       const char* because) {
        if (!wanted(name)) return;
        const auto start = std::chrono::steady_clock::now();
        Model m{c, mutant, nullptr, 0, {}, {}, {}, {}, {}};
        m.explore();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        report({kind, name, m.broken ? m.broken : "", breaks, because, m.states, seconds, m.trace});
    };
    for (const Scenario& c : scenarios)
        if (large || !c.large) explore(c, Mutant::none, "scenario", std::string("service: ") + c.name, "", "");
    for (const Row& row : rows)
        for (const Scenario& c : scenarios)
            if (!std::strcmp(c.name, row.scenario))
                explore(c, row.mutant, "mutant", std::string(row.step) + ": " + row.what + " (service: " + c.name + ")",
                        row.breaks, row.because);
}

}  // namespace model
