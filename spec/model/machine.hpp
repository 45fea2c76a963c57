// SPDX-License-Identifier: Apache-2.0
//
// The machine: shared words, one store buffer per process, loads that may be early, locks, kills.
//
// A state is one flat struct without pointers, so that it can be hashed and copied as bytes. Unused bytes are zero.
// Unit of length is one *cell*, the record alignment A. A cell has two words: the length word, and a word that stands
// for type and payload. In the later cells of a record the first word is payload too, and stale payload there looks
// like a length.
#pragma once
#include <cstdint>
#include <cstring>

namespace model {

constexpr int max_rings = 2, max_slots = 2, max_cells = 8, max_position = 32, parts = 4, buffer_size = 12,
              max_early = 3;

// Words of shared memory. The layout is ours alone; names are those of the spec, section 4.
namespace word {
constexpr int length = 0, data = length + max_cells, claimed = data + max_cells, published = claimed + 1,
              begun = published + 1, done = begun + 1, boundary = done + 1, boundary_count = boundary + parts,
              gate = boundary_count + parts, publisher_epoch = gate + max_slots, start = publisher_epoch + 1,
              closed = start + 1, name_length = closed + 1, name = name_length + 1, per_ring = name + 1;
constexpr int epoch = 0, kept = 1, evicting = 2, per_slot = 3;
constexpr int slots = max_rings * per_ring, count = slots + max_slots * per_slot;
}  // namespace word
constexpr int at_ring(int ring, int w, int index = 0) {
    return ring * word::per_ring + w + index;
}
constexpr int at_slot(int slot, int w) {
    return word::slots + slot * word::per_slot + w;
}

enum class Memory : int8_t { sc, tso, weak };  // weak: stores of a buffer in any order, relaxed loads may be early
enum class Order : int8_t { relaxed, acquire, release, seq_cst };

struct Entry {  // one store that other processes do not see yet
    int8_t address, value, kind;
};
enum : int8_t { plain_store, release_store, release_fence };

struct Early {  // a load that was executed before its turn
    int8_t address, value;
};

// What every process has. `pc` and `sub_pc` are the lines where its code goes on (see STEP in world.hpp).
struct Process {
    uint16_t pc, sub_pc, evict_pc;
    int8_t dead, waits;  // waits: it can go on only when another process does something
    int8_t stores, earlies;
    Entry buffer[buffer_size];
    Early early[max_early];
};

struct Publisher : Process {  // private words of section 6; n in cells
    int8_t t, limit, count, cleared;
    int8_t n, first, kind, q, x, r, p, attached, owner_record_pending;
    int8_t slot, low, held[max_slots], ring, evicting;
};

struct Subscriber : Process {
    int8_t cursor[max_rings], stored[max_rings], sender[max_rings];
    int8_t epoch, r, c, len, d, d2, wrong, got, gate_early, resumed, e1, joins, lost;
    int8_t start[max_rings], name, length2, ended, more, part;  // 6.12, 6.14
};

struct Lossy : Process {
    int8_t p, before, len, d, d2, claimed, d_count, s, b, started, e, lap, from;
};

struct Evictor : Process {
    int8_t times, r;
};

struct Hostile : Process {
    int8_t times;
};

enum class Kind : int8_t { none, message, padding, owner };

// What really happened: known to the checks, never to the protocol.
struct Truth {
    int8_t length[max_position], kind[max_position], epoch[max_position];  // the record committed at a position
    int8_t end;                                                            // of what is committed
    int8_t closed_end;                                                     // where the owner that closed last stopped
    int8_t next;                                                           // of the plan: survives its publisher
};
struct SlotTruth {
    int8_t hold[max_rings];    // a reader may still read at or above this position; -1: none does
    int8_t handed[max_rings];  // end of what the slot's owners have handed out
    int8_t member;             // it is kept and has joined: its next owner must go on there
    int8_t evicted;            // the epoch was raised: its owner can see that, or is dead
    int8_t counted;            // a publisher has counted its owner, and had published up to there; -1: it has not
};

struct State {
    int8_t memory[word::count];
    int8_t control_lock, slot_lock[max_slots], ring_lock[max_rings];  // 0 free, else holder + 1; ring: publisher slots
    int8_t kills, hangs;                                              // still allowed
    Publisher publisher[max_rings];
    Subscriber subscriber[max_slots];
    Lossy lossy;
    Evictor evictor;
    Hostile hostile;
    Truth truth[max_rings];
    SlotTruth slot[max_slots];
};

// Process numbers: publishers 0, 1; subscribers 2, 3; lossy 4; evictor 5; hostile 6.
enum : int { first_subscriber = max_rings, lossy_id = max_rings + max_slots, evictor_id, hostile_id, processes };

inline Process& process(State& s, int id) {
    if (id < first_subscriber) return s.publisher[id];
    if (id < lossy_id) return s.subscriber[id - first_subscriber];
    if (id == lossy_id) return s.lossy;
    if (id == evictor_id) return s.evictor;
    return s.hostile;
}

// --- store buffers

inline bool may_drain(const Process& p, int i, Memory memory) {
    const Entry& e = p.buffer[i];
    if (i == 0) return true;
    if (memory != Memory::weak || e.kind != plain_store)
        return false;  // a release store or fence waits for all stores before it
    for (int j = 0; j < i; ++j)
        if (p.buffer[j].kind == release_fence || p.buffer[j].address == e.address) return false;
    return true;
}

inline void drain(State& s, Process& p, int i) {
    s.memory[p.buffer[i].address] = p.buffer[i].value;
    std::memmove(p.buffer + i, p.buffer + i + 1, (p.stores - i - 1) * sizeof(Entry));
    p.buffer[--p.stores] = Entry{};
    while (p.stores > 0 && p.buffer[0].kind == release_fence) {  // a fence with nothing before it has done its work
        std::memmove(p.buffer, p.buffer + 1, (p.stores - 1) * sizeof(Entry));
        p.buffer[--p.stores] = Entry{};
    }
}

inline void drain_all(State& s, Process& p) {
    while (p.stores > 0) drain(s, p, 0);
}

}  // namespace model
