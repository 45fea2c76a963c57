// SPDX-License-Identifier: Apache-2.0
#include "explorer.hpp"

#include <chrono>

#include "others.hpp"
#include "publisher.hpp"

namespace model {

namespace {

// What may happen next in a state: a process takes a step (with one of its alternatives), one of its stores becomes
// visible, or it is killed or hangs.
struct Action {
    enum : uint8_t { step, drain, kill, hang } what;
    uint8_t process, index;
};

bool present(const Scenario& c, int id) {
    if (id < first_subscriber) return id < c.rings || c.heirs;
    if (id < lossy_id) return id - first_subscriber < c.slots - (c.hostile > 0) || (c.heirs && c.slots > 0);
    if (id == lossy_id) return c.lossy != From::none;
    return id == evictor_id ? c.evicts > 0 : c.hostile > 0;
}

bool may_be_killed(const Scenario& c, int id) {
    if (id < first_subscriber) return c.kill_publisher;
    if (id < lossy_id) return c.kill_subscriber;
    return id == evictor_id && c.kill_evictor;
}

// A process that hangs under the control lock delays all joins and leaves as long as it hangs. No rule mends that.
bool may_hang(const State& s, int id) {
    return id >= first_subscriber && id < lossy_id && s.control_lock != id + 1;
}

void step(World& w) {
    State& s = w.s;
    if (w.id < first_subscriber)
        publisher(w, s.publisher[w.id], w.c.heirs ? 0 : w.id);
    else if (w.id < lossy_id)
        subscriber(w, s.subscriber[w.id - first_subscriber], w.c.heirs ? 0 : w.id - first_subscriber);
    else if (w.id == lossy_id)
        lossy(w, s.lossy);
    else if (w.id == evictor_id)
        evictor(w, s.evictor);
    else
        hostile(w, s.hostile);
}

// Kills: stores become visible in program order, the kernel frees the locks, private words are gone.
void kill(State& s, const Scenario& c, int id) {
    Process& p = process(s, id);
    drain_all(s, p);
    if (s.control_lock == id + 1) s.control_lock = 0;
    bool owner = false;
    for (int8_t& lock : s.slot_lock)
        if (lock == id + 1) lock = 0, owner = true;
    for (int8_t& lock : s.ring_lock)
        if (lock == id + 1) lock = 0;
    --s.kills;
    if (id < first_subscriber) {
        s.publisher[id] = Publisher{};
        if (!c.next_publisher) s.publisher[id].dead = s.publisher[id].waits = 1;
    } else if (id < lossy_id) {
        Subscriber& victim = s.subscriber[id - first_subscriber];
        int j = c.heirs ? 0 : id - first_subscriber;
        int8_t joins = victim.joins;
        victim = Subscriber{};
        victim.joins = std::max<int8_t>(0, static_cast<int8_t>(joins - 1));
        if (owner && !s.memory[at_slot(j, word::kept)]) s.slot[j].hold[0] = s.slot[j].hold[1] = -1;
        if (!c.next_subscriber) victim.dead = victim.waits = 1;
    } else {
        s.evictor = Evictor{};
        s.evictor.dead = s.evictor.waits = 1;
    }
}

// Stops a process for good without killing it: its locks stay, and its stores become visible.
void hang(State& s, int id) {
    process(s, id).dead = process(s, id).waits = 1;
    --s.hangs;
}

// Does the action. False: the action is not possible now.
bool act(World& w, Action a) {
    Process& p = process(w.s, a.process);
    w.id = a.process;
    switch (a.what) {
        case Action::step:
            w.choice = a.index;
            step(w);
            return !w.blocked;
        case Action::drain:
            if (w.trace)
                *w.trace = "  (" + w.name_of(p.buffer[a.index].address) + " = " +
                           std::to_string(p.buffer[a.index].value) + " becomes visible)";
            drain(w.s, p, a.index);
            return true;
        case Action::hang:
            if (w.trace) *w.trace = "*** hangs";
            hang(w.s, a.process);
            return true;
        default:
            if (w.trace) *w.trace = "*** is killed";
            kill(w.s, w.c, a.process);
            return true;
    }
}

uint64_t hash(const State& s) {
    static_assert(std::is_trivially_copyable_v<State>);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&s);
    uint64_t h = 0x9E3779B97F4A7C15;
    size_t i = 0;
    for (; i + 8 <= sizeof s; i += 8) {
        uint64_t v;
        std::memcpy(&v, bytes + i, 8);
        h = (h ^ v) * 0xFF51AFD7ED558CCD;
        h ^= h >> 32;
    }
    for (; i < sizeof s; ++i) h = (h ^ bytes[i]) * 0xFF51AFD7ED558CCD, h ^= h >> 29;
    h ^= h >> 33;
    h *= 0xC4CEB9FE1A85EC53;
    h ^= h >> 33;
    return h ? h : 1;
}

class Seen {  // open addressing: hash -> number of the state
  public:
    Seen() : table(1 << 16) {}
    // The state's number; `fresh` says whether the state is new.
    uint32_t add(uint64_t h, uint32_t number, bool& fresh) {
        if (2 * used > table.size()) grow();
        size_t i = find(h);
        fresh = table[i].hash == 0;
        if (fresh) {
            table[i] = {h, number};
            ++used;
        }
        return table[i].number;
    }

  private:
    struct Slot {
        uint64_t hash;
        uint32_t number;
    };
    size_t find(uint64_t h) const {
        size_t i = h & (table.size() - 1);
        while (table[i].hash != 0 && table[i].hash != h) i = (i + 1) & (table.size() - 1);
        return i;
    }
    void grow() {
        std::vector<Slot> old(table.size() * 2);
        old.swap(table);
        for (const Slot& s : old)
            if (s.hash) table[find(s.hash)] = s;
    }
    std::vector<Slot> table;
    size_t used = 0;
};

// I6: whether all work is done, so that no process waits for another.
bool all_done(const State& s, const Scenario& c) {
    for (int r = 0; r < max_rings; ++r)
        if (present(c, r) && (!s.publisher[r].waits || s.publisher[r].stores)) return false;
    for (int r = 0; r < c.rings; ++r)
        for (int j = 0; j < max_slots; ++j) {
            if (!present(c, first_subscriber + j) || s.subscriber[j].waits) continue;
            if (s.subscriber[j].epoch == 0 && c.heirs && s.slot_lock[0] != 0) continue;  // the other one has the slot
            if (s.subscriber[j].epoch == 0 || s.subscriber[j].cursor[r] != s.truth[r].end) return false;
        }
    return c.lossy == From::none || s.lossy.p == s.truth[0].end;
}

const char* const process_names[] = {"publisher 0", "publisher 1", "subscriber 0", "subscriber 1",
                                     "lossy",       "evictor",     "hostile"};

struct Origin {
    uint32_t parent;
    Action action;
};

std::vector<std::string> trace_of(const Scenario& c, Site mutant, const std::vector<Origin>& origins, uint32_t state) {
    std::vector<Action> actions;
    for (; state != 0; state = origins[state].parent) actions.push_back(origins[state].action);
    std::vector<std::string> lines;
    World w{initial(c), c, mutant, 0};
    for (size_t i = actions.size(); i-- > 0;) {
        std::string line;
        w.trace = &line;
        w.now = "";
        act(w, actions[i]);
        if (!line.empty()) lines.push_back(std::string(process_names[actions[i].process]) + "  " + line);
    }
    return lines;
}

}  // namespace

State initial(const Scenario& c) {
    State s;
    std::memset(&s, 0, sizeof s);
    s.kills = static_cast<int8_t>(c.kills);
    s.hangs = static_cast<int8_t>(c.hangs);
    for (int r = 0; r < c.rings;
         ++r) {  // the ring has been filled once: stale records everywhere but in the place of the next one
        Publisher& p = s.publisher[r];
        Truth& truth = s.truth[r];
        for (int i = 0; i < c.cells; ++i) {
            s.memory[at_ring(r, word::length, i)] = i > 0;
            s.memory[at_ring(r, word::data, i)] = World::payload(i, 1);
            truth.length[i] = truth.epoch[i] = 1;
            truth.kind[i] = static_cast<int8_t>(Kind::message);
        }
        truth.end = p.t = p.cleared = p.limit = static_cast<int8_t>(c.cells);
        p.attached = 1;
        s.ring_lock[r] = static_cast<int8_t>(r + 1);
        for (int w : {word::claimed, word::published, word::begun, word::done})
            s.memory[at_ring(r, w)] = static_cast<int8_t>(c.cells);
        for (int e = 0; e < parts; ++e) {
            int b = e == 0 ? -1
                           : (e + 1) * c.cells / parts - 1;  // the last cell of that part; one is missing, after a kill
            s.memory[at_ring(r, word::boundary, e)] = s.memory[at_ring(r, word::boundary_count, e)] =
                static_cast<int8_t>(b);
        }
        s.memory[at_ring(r, word::publisher_epoch)] = s.memory[at_ring(r, word::name)] = 1;
        for (int j = 0; j < max_slots; ++j) s.memory[at_ring(r, word::gate, j)] = -1;
    }
    for (int j = 0; j < c.slots; ++j) s.memory[at_slot(j, word::kept)] = c.kept_at_start;
    for (SlotTruth& slot : s.slot) {
        for (int r = 0; r < max_rings; ++r) slot.hold[r] = slot.handed[r] = -1;
        slot.counted = -1;
    }
    return s;
}

Result explore(const Scenario& c, Site mutant, size_t limit) {
    auto begin = std::chrono::steady_clock::now();
    Result result;
    Seen seen;
    std::vector<Origin> origins;
    std::vector<std::pair<uint32_t, uint32_t>> edges;  // of all actions but kills, backwards: for I6
    std::vector<bool> good;
    std::vector<State> level, next;
    bool fresh;
    auto finish = [&](const char* broken, uint32_t state) {
        result.broken = broken;
        if (std::strcmp(broken, "limit") != 0) result.trace = trace_of(c, mutant, origins, state);
    };
    State start = initial(c);
    seen.add(hash(start), 0, fresh);
    origins.push_back({0, {}});
    good.push_back(false);
    level.push_back(start);
    uint32_t number = 0;  // of the first state of the level
    while (!level.empty() && result.broken.empty()) {
        next.clear();
        for (size_t i = 0; i < level.size() && result.broken.empty(); ++i, ++number) {
            const State& from = level[i];
            auto attempt = [&](Action a) {
                World w{from, c, mutant, 0};
                if (!act(w, a)) return w.alternatives;
                uint32_t to = seen.add(hash(w.s), static_cast<uint32_t>(origins.size()), fresh);
                if (fresh) {
                    origins.push_back({number, a});
                    good.push_back(all_done(w.s, c));
                    next.push_back(w.s);
                }
                if (c.everybody_ends && a.what < Action::kill && to != number) edges.emplace_back(to, number);
                if (w.broken && result.broken.empty()) {
                    if (!fresh) origins.push_back({number, a});
                    finish(w.broken, static_cast<uint32_t>(fresh ? to : origins.size() - 1));
                }
                return w.alternatives;
            };
            for (uint8_t id = 0; id < processes; ++id) {
                if (!present(c, id)) continue;
                const Process& p = process(const_cast<State&>(from), id);
                for (uint8_t e = 0; e < p.stores; ++e)
                    if (may_drain(p, e, c.memory)) attempt({Action::drain, id, e});
                if (p.dead) continue;
                int alternatives = attempt({Action::step, id, 0});
                for (uint8_t choice = 1; choice < alternatives; ++choice) attempt({Action::step, id, choice});
                if (from.kills > 0 && may_be_killed(c, id)) attempt({Action::kill, id, 0});
                if (from.hangs > 0 && may_hang(from, id)) attempt({Action::hang, id, 0});
            }
        }
        if (origins.size() > limit && result.broken.empty()) finish("limit", 0);
        level.swap(next);
    }
    if (result.broken.empty() && c.everybody_ends) {  // from every state a good end must be reachable
        std::vector<uint32_t> first(origins.size() + 1), from(edges.size()), todo;
        for (auto [to, _] : edges) ++first[to + 1];
        for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
        std::vector<uint32_t> place(first.begin(), first.end() - 1);
        for (auto [to, source] : edges) from[place[to]++] = source;
        for (uint32_t i = 0; i < good.size(); ++i)
            if (good[i]) todo.push_back(i);
        while (!todo.empty()) {
            uint32_t to = todo.back();
            todo.pop_back();
            for (uint32_t e = first[to]; e < first[to + 1]; ++e)
                if (!good[from[e]]) {
                    good[from[e]] = true;
                    todo.push_back(from[e]);
                }
        }
        for (uint32_t i = 0; i < good.size() && result.broken.empty(); ++i)
            if (!good[i]) finish("I6", i);
    }
    result.states = origins.size();
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
}

}  // namespace model
