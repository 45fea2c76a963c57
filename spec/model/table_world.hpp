// SPDX-License-Identifier: Apache-2.0
//
// The state of the table's model, and what a writer stores. table.cpp has the steps.
#pragma once
#include <cstdint>
#include <cstring>

#include "table_table.hpp"

namespace model::table_model {

constexpr int max_cells = 2, max_entries = 3, max_list = 32, buffer_size = 6, max_stamps = 24, readers = 2, writers = 2,
              none = -1;

// Words of shared memory. A and B are the two halves of a value: the stamp of its write, and `removed` where it says
// that the key was removed (length -1).
enum CellWord : int8_t { version, key, next, seq0, a0, b0, seq1, a1, b1, cell_words };
constexpr int entries_at = max_cells * cell_words;
enum ControlWord : int8_t {
    generation = entries_at + 2 * max_entries,
    stamp,
    changed,
    intent,   // 0, or the entry that a change adds or removes
    top,      // of the stack of free cells: cell + 1, 0: empty
    fresh,    // the first cell that was never used
    rebuild,  // 0: none; 1 .. N: clears entry rebuild - 1 of the other copy; up to 2N: moves; 2N + 1: flips
    epoch,
    words
};
constexpr int8_t removed = 64, tombstone = 9;
constexpr int at_cell(int c, int w) {
    return c * cell_words + w;
}
constexpr int at_entry(int copy, int i) {
    return entries_at + copy * max_entries + i;
}

enum Kind : int8_t { relaxed_store, release_store, fence };
struct Store {
    int8_t at, value, kind;
};
struct Writer {
    int8_t holds, told, epoch, done, length, stores;  // holds: it believes so. done: of its list
    Store list[max_list];                             // what the change under way stores, in this order
    Store buffer[buffer_size];                        // what others do not see yet
};
struct Reader {
    int8_t get, pc, g, i, v, q, k, a, b;
    int8_t low, last[2];     // truth, stamps: what the result may not fall behind; what it has seen of each key
    int8_t c, met[2], left;  // of a walk: the cell; the stamp that it met of each key; bits: this key was removed
    int8_t loaded, line[max_entries];  // of a look at many entries at once: bits: this one was loaded; what it was
};
struct State {
    int8_t m[words];
    Writer writer[writers];
    Reader reader[readers];
    int8_t lock, at, kills, losses;  // lock: the writer that has it; at: how much of the plan was begun
    int8_t key_of[max_stamps], is_remove[max_stamps], effective[max_stamps];  // truth, by stamp
    int8_t never[max_stamps];  // its writer died before version was stored
};

// What a writer sees: its own newest stores, else memory. And the list of what it is about to store.
class Change {
  public:
    Change(const Scenario& scenario, Mutant without, State& state, Writer& w)
        : c(scenario), mutant(without), s(state), writer(w) {
        std::memcpy(see, s.m, sizeof see);
        for (int i = 0; i < w.stores; ++i)
            if (w.buffer[i].kind != fence) see[w.buffer[i].at] = w.buffer[i].value;
        w.done = w.length = 0;
    }

    void take() {  // table.md 4
        put(epoch, see[epoch] + 1, release_store);
        writer.epoch = see[epoch];
        if (see[intent] != 0) finish_intent();
        if (see[changed] != see[stamp] && !off(Mutant::changed_not_by_next)) put(changed, see[stamp], release_store);
        if (see[intent] != 0) put(intent, 0, release_store);
    }
    void operation(char what) {
        switch (what) {
            case 'x':
            case 'y':
                return put_key(what == 'x' ? 1 : 2);
            case 'd':
            case 'e':
                return remove_key(what == 'd' ? 1 : 2);
            case 'r':
                return rebuild_step();
            case 'R':
                do rebuild_step();
                while (see[rebuild] != 0);
        }
    }

  private:
    const Scenario& c;
    const Mutant mutant;
    State& s;
    Writer& writer;
    int8_t see[words];

    bool off(Mutant m) const { return m == mutant; }
    int current() const { return see[generation] & 1; }
    bool moving() const { return see[rebuild] > c.entries && !off(Mutant::change_in_one_copy); }

    void put(int at, int value, Kind kind = relaxed_store) {
        writer.list[writer.length++] = {static_cast<int8_t>(at), static_cast<int8_t>(value), kind};
        if (kind != fence) see[at] = static_cast<int8_t>(value);
    }
    bool live(int cell) const {
        const int v = see[at_cell(cell, version)];
        return v != 0 && !(see[at_cell(cell, v & 1 ? a1 : a0)] & removed);
    }
    int entry_of(int copy, int cell) const {
        for (int i = 0; i < c.entries; ++i)
            if (see[at_entry(copy, i)] == cell + 1) return i;
        return none;
    }
    int place(int copy) const {  // of a new entry
        for (int i = 0; i < c.entries; ++i)
            if (see[at_entry(copy, i)] == 0 || see[at_entry(copy, i)] == tombstone) return i;
        return none;
    }
    int find(int k) const {
        for (int i = 0; i < c.entries; ++i) {
            const int e = see[at_entry(current(), i)];
            if (e != 0 && e != tombstone && see[at_cell(e - 1, key)] == k && live(e - 1)) return e - 1;
        }
        return none;
    }
    void enter(int cell) {  // into the current copy, and into the other one while entries are moved
        for (int n = 0; n < (moving() ? 2 : 1); ++n) {
            const int copy = n == 0 ? current() : 1 - current(), i = place(copy);
            if (i != none) put(at_entry(copy, i), cell + 1, off(Mutant::entry_relaxed) ? relaxed_store : release_store);
        }
    }
    void bury(int cell) {
        for (int n = 0; n < (moving() ? 2 : 1); ++n) {
            const int copy = n == 0 ? current() : 1 - current(), i = entry_of(copy, cell);
            if (i != none)
                put(at_entry(copy, i), off(Mutant::empty_not_tombstone) ? 0 : tombstone,
                    off(Mutant::tombstone_relaxed) ? relaxed_store : release_store);
        }
    }
    void push(int cell) {
        if (off(Mutant::next_of_free_late)) {
            const int8_t below = see[top];
            put(top, cell + 1);
            return put(at_cell(cell, next), below);
        }
        put(at_cell(cell, next), see[top]);
        put(top, cell + 1);
    }

    // One of the two bodies: write 1 to 5.
    void write(int cell, int k, bool insert, bool remove) {
        const int old = see[at_cell(cell, version)];
        const int n = (off(Mutant::stamp_of_cell) ? old >> 1 : see[stamp]) + 1;
        const int body = off(Mutant::one_body) ? 0 : 1 - (old & 1), v = n << 1 | body;
        const int q = at_cell(cell, body ? seq1 : seq0), value = remove ? n | removed : n;
        s.key_of[n] = static_cast<int8_t>(k), s.is_remove[n] = remove;
        if (!off(Mutant::stamp_late)) put(stamp, n);
        if (off(Mutant::version_early)) put(at_cell(cell, version), v, release_store);
        if (insert && off(Mutant::key_before_fence)) put(at_cell(cell, key), k);
        if (!off(Mutant::seq_stays)) put(q, 0);
        if (!off(Mutant::no_fence)) put(0, 0, fence);
        if (insert && !off(Mutant::key_before_fence)) put(at_cell(cell, key), k);
        put(q + 1, value);
        put(q + 2, value);
        put(q, v);
        if (off(Mutant::changed_early)) put(changed, n, release_store);
        if (!off(Mutant::version_early))
            put(at_cell(cell, version), v, off(Mutant::version_relaxed) ? relaxed_store : release_store);
        if (off(Mutant::stamp_late) || off(Mutant::stamp_of_cell)) put(stamp, n);
    }
    void tell() {  // write 6
        if (!off(Mutant::changed_early) && see[changed] != see[stamp])
            put(changed, see[stamp], off(Mutant::changed_relaxed) ? relaxed_store : release_store);
    }
    void announce(int cell) {
        if (!off(Mutant::no_intent)) put(intent, cell + 1, release_store);
    }
    void end_intent() {
        if (see[intent] != 0) put(intent, 0, release_store);
    }

    void put_key(int k) {
        int cell = find(k);
        if (cell != none) {
            write(cell, k, false, false);
            return tell();
        }
        const bool popped = see[top] != 0;
        if (!popped && see[fresh] == c.cells) return;  // full
        cell = popped ? see[top] - 1 : see[fresh];
        if (!off(Mutant::intent_late)) announce(cell);
        if (popped)
            put(top, see[at_cell(cell, next)]);
        else
            put(fresh, cell + 1);
        if (off(Mutant::intent_late)) announce(cell);
        if (!off(Mutant::entry_late)) enter(cell);
        if (off(Mutant::intent_cleared_early)) end_intent();
        write(cell, k, true, false);
        if (off(Mutant::entry_late)) enter(cell);
        tell();
        end_intent();
    }
    void remove_key(int k) {
        const int cell = find(k);
        if (cell == none) return;
        announce(cell);
        if (off(Mutant::tombstone_first)) bury(cell);
        write(cell, k, false, true);
        if (off(Mutant::free_first)) push(cell), end_intent();
        if (!off(Mutant::tombstone_first)) bury(cell);
        if (!off(Mutant::free_first)) push(cell);
        tell();
        end_intent();
    }
    void finish_intent() {
        const int cell = see[intent] - 1;
        const bool is_top = see[top] == cell + 1, unused = see[fresh] <= cell;
        if (live(cell) || off(Mutant::intent_forgotten)) return;
        if (!off(Mutant::intent_keeps_entry)) bury(cell);
        if ((is_top && !off(Mutant::push_twice)) || (unused && !off(Mutant::push_fresh))) return;
        push(cell);
    }
    void rebuild_step() {
        const int r = see[rebuild], other = 1 - current();
        if (r == 0) {
            if (!off(Mutant::no_fence_before_clear)) put(0, 0, fence);
            put(rebuild, 1);
        } else if (r <= c.entries) {
            put(at_entry(other, r - 1), 0);
            put(rebuild, r + 1);
        } else if (r <= 2 * c.entries) {
            const int e = see[at_entry(current(), r - c.entries - 1)];
            const bool there = e == 0 || e == tombstone || entry_of(other, e - 1) != none;
            if ((!there || (e != 0 && e != tombstone && off(Mutant::move_without_look))) && place(other) != none)
                put(at_entry(other, place(other)), e);
            put(rebuild, r + 1);
        } else {
            if (!off(Mutant::flip_first)) put(rebuild, 0);
            put(generation, see[generation] + 1, off(Mutant::flip_relaxed) ? relaxed_store : release_store);
            if (off(Mutant::flip_first)) put(rebuild, 0);
        }
    }
};

}  // namespace model::table_model
