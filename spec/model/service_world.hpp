// SPDX-License-Identifier: Apache-2.0
//
// The state of the service's model, and what its steps have in common.
#pragma once
#include <cstdint>
#include <cstring>

#include "service_table.hpp"

namespace model::service_model {

constexpr int max_clients = 2, max_servers = 2, max_calls = 3, max_ids = max_clients * max_calls, max_requests = 9,
              max_replies = 12, max_hand = 4, none = -1;
constexpr int stream_items = 2;  // of a stream, each after the first needs more credit

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
    int8_t requests, replies;                                  // published
    int8_t gate, taken_end, reply_gate, epoch, closed, owner;  // owner: 1 if the slots' locks are held
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
    int8_t refused;                        // a server was refused a lock that no process has
    int8_t kills, client_kills, evicts, client_evicts, client_closes, losses, expiries;
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
    take_client,
    join,
    joined,
    closing,
    left,
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

// What the steps have in common.
class World : public Search<State> {
  public:
    World(const Scenario& scenario, Mutant without) : c(scenario), mutant(without) {}

  protected:
    const Scenario& c;
    const Mutant mutant;
    ~World() = default;

    bool off(Mutant m) const { return m == mutant; }
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
    void leave(State& s, int k) {  // killed, or its locks are given back
        Client& b = s.client[k];
        std::memset(&b, 0, sizeof b);
        s.place[k].owner = 0;
    }
    static void forget_ended(Client& b) {  // private words that say nothing any more
        for (Call& call : b.call)
            if (call.state == ended) {
                call = Call{};
                call.state = ended;
            }
    }
};

}  // namespace model::service_model
