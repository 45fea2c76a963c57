// SPDX-License-Identifier: Apache-2.0
//
// What the code of a process sees of the machine: one World per step that is tried.
//
// A process is written as one function that reads like the spec. STEP(name) ends a step and names the next one; each
// step does one access to shared memory (or one lock operation), and between two steps everything else may happen:
// other processes, stores becoming visible, a kill. So a function holds no local variable across a STEP: what must
// survive stands in its struct of machine.hpp.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "machine.hpp"
#include "scenario.hpp"
#include "sites.hpp"

// pc is the line to go on at; a function returns true when it is through.
#define BEGIN(counter)      \
    uint16_t& pc = counter; \
    switch (pc) {           \
        case 0:
#define END \
    }       \
    pc = 0; \
    return true;
#define STEP(name)        \
    do {                  \
        pc = __LINE__;    \
        return false;     \
        case __LINE__:    \
            w.now = name; \
    } while (0)
#define CALL(function)                     \
    do {                                   \
        pc = __LINE__;                     \
        return false;                      \
        case __LINE__:                     \
            if (!(function)) return false; \
    } while (0)
// The fourth and later arguments: words whose loads come later in the program, and may overtake this load if it is
// relaxed.
#define LOAD(target, ...)                                   \
    do {                                                    \
        if (!w.load(me, target, __VA_ARGS__)) return false; \
    } while (0)

namespace model {

struct World {
    State s;
    const Scenario& c;
    Site mutant;
    int id;          // of the process that steps
    int choice = 0;  // which of the alternatives to take
    int alternatives = 1;
    bool blocked = false;
    const char* now = "";
    const char* broken = nullptr;  // the invariant
    std::string* trace = nullptr;

    bool off(Site site) const { return site != Site::none && site == mutant; }
    int mask() const { return c.cells - 1; }
    int peek(int address) const {
        return s.memory[address];
    }  // for words that no other process writes now, and to wait without spinning
    int at_length(int ring, int position) const { return at_ring(ring, word::length, position & mask()); }
    int at_data(int ring, int position) const { return at_ring(ring, word::data, position & mask()); }

    void check(bool good, const char* invariant) {
        if (!good && !broken) broken = invariant;
    }
    int choose(int n) {
        alternatives = n;
        return choice;
    }
    void say(const std::string& text) {
        if (trace) *trace = std::string(now) + ": " + text;
    }

    // A store. A mutant of its site makes it relaxed; see skip for those that leave a store out.
    void store(Process& me, int address, int value, Order order = Order::relaxed, Site site = Site::none) {
        if (off(site)) order = Order::relaxed;
        say(name_of(address) + " := " + std::to_string(value) + (order == Order::release ? " (release)" : ""));
        if (c.memory == Memory::sc) {
            s.memory[address] = static_cast<int8_t>(value);
            return;
        }
        put(me, {static_cast<int8_t>(address), static_cast<int8_t>(value),
                 order == Order::release ? release_store : plain_store});
    }

    // A load. If it is relaxed, one of the later loads may be done first: then the answer is false, and the step is
    // still to be done.
    bool load(Process& me, int8_t& target, int address, Order order, Site site = Site::none,
              std::initializer_list<int> later = {}) {
        if (off(site)) order = Order::relaxed;
        if (order == Order::relaxed && c.memory == Memory::weak && me.earlies < max_early && later.size() > 0) {
            int which = choose(1 + static_cast<int>(later.size()));
            if (which > 0) {
                int other = later.begin()[which - 1];
                for (int i = 0; i < me.earlies; ++i)
                    if (me.early[i].address == other) blocked = true;  // has been done
                me.early[me.earlies++] = {static_cast<int8_t>(other), value_for(me, other)};
                say(name_of(other) + " is loaded early: " + std::to_string(value_for(me, other)));
                return false;
            }
        }
        target = value_for(me, address);
        int forget = order == Order::acquire ? me.earlies : 0;  // the loads that were done before this one
        for (int i = 0; i < me.earlies; ++i)
            if (me.early[i].address == address) {  // this load itself was done early
                target = me.early[i].value;
                forget = order == Order::acquire ? i + 1 : 0;
                if (forget == 0) forget_early(me, i, 1);
                break;
            }
        forget_early(me, 0, forget);
        say(name_of(address) + " is " + std::to_string(target));
        return true;
    }

    // A fence. A mutant of its site leaves it out. seq_cst waits until all own stores are visible.
    void fence(Process& me, Order order, Site site = Site::none) {
        if (off(site)) return;
        say(order == Order::release ? "release fence" : order == Order::acquire ? "acquire fence" : "seq_cst fence");
        if (order != Order::release) forget_early(me, 0, me.earlies);
        if (order == Order::release && c.memory == Memory::weak && me.stores > 0) put(me, {0, 0, release_fence});
        if (order == Order::seq_cst) wait_until(me.stores == 0);
    }

    // Locks of the kernel, atomic. Unlocking is a system call, after which all processes see what was stored before.
    void lock(int8_t& a_lock) {
        say("lock");
        wait_until(a_lock == 0);
        a_lock = static_cast<int8_t>(id + 1);
    }
    void unlock(const Process& me, int8_t& a_lock) {
        say("unlock");
        wait_until(me.stores == 0);
        if (a_lock == id + 1) a_lock = 0;
    }
    void wait_until(bool condition) { blocked = blocked || !condition; }

    // A store to a byte of the ring's data. I4 is checked here, when the store is made: it may be visible at once.
    void store_data(Process& me, int ring, int address, int position, int value, Order order = Order::relaxed,
                    Site site = Site::none) {
        for (int j = 0; j < c.slots; ++j) {
            int hold = s.slot[j].hold[ring];
            check(hold < 0 || position - c.cells < hold, "I4");
        }
        store(me, address, value, order, site);
    }

    int messages_before(int ring, int position) const {
        int n = 0;
        for (int p = 0; p < position; ++p) n += s.truth[ring].kind[p] == static_cast<int>(Kind::message);
        return n;
    }
    void commit(int ring, int position, int cells, Kind kind) {
        Truth& truth = s.truth[ring];
        if (position + cells >= max_position) std::abort();  // a plan that is too long
        truth.length[position] = static_cast<int8_t>(cells);
        truth.kind[position] = static_cast<int8_t>(kind);
        truth.epoch[position] = static_cast<int8_t>(peek(at_ring(ring, word::publisher_epoch)));
        truth.end = std::max<int8_t>(truth.end, static_cast<int8_t>(position + cells));
    }
    // A payload says which owner wrote it, and where: torn or stale payload differs. (Four owners can be told apart; 1
    // is the first.)
    static int8_t payload(int position, int epoch) {
        return static_cast<int8_t>(epoch % 4 * max_position + position + 1);
    }
    static int8_t data_of(Kind kind, int position, int epoch) {
        return kind == Kind::message ? payload(position, epoch)
                                     : static_cast<int8_t>(kind == Kind::padding ? -1 : -2 - epoch);
    }
    std::string name_of(int address) const;

  private:
    void put(Process& me, Entry e) {
        wait_until(me.stores < buffer_size);
        if (!blocked) me.buffer[me.stores++] = e;
    }
    int8_t value_for(const Process& me, int address) const {  // its own stores are seen by a process at once
        for (int i = me.stores; i-- > 0;)
            if (me.buffer[i].kind != release_fence && me.buffer[i].address == address) return me.buffer[i].value;
        return s.memory[address];
    }
    static void forget_early(Process& me, int first, int n) {
        std::copy(me.early + first + n, me.early + max_early, me.early + first);
        std::fill(me.early + max_early - n, me.early + max_early, Early{});
        me.earlies = static_cast<int8_t>(me.earlies - n);
    }
};

inline std::string World::name_of(int address) const {
    static const char* const slot_words[] = {"epoch", "kept", "evicting"};
    if (address >= word::slots) {
        int a = address - word::slots;
        return std::string(slot_words[a % word::per_slot]) + " of slot " + std::to_string(a / word::per_slot);
    }
    int ring = address / word::per_ring, a = address % word::per_ring;
    std::string of = c.rings > 1 ? " of ring " + std::to_string(ring) : "";
    struct Range {
        int first;
        const char* name;
    };
    static const Range ranges[] = {{word::name, "name"},
                                   {word::name_length, "name_length"},
                                   {word::closed, "closed"},
                                   {word::start, "start"},
                                   {word::publisher_epoch, "publisher's epoch"},
                                   {word::gate, "gate"},
                                   {word::boundary_count, "boundary_count"},
                                   {word::boundary, "boundary"},
                                   {word::done, "messages_done"},
                                   {word::begun, "messages_begun"},
                                   {word::published, "published"},
                                   {word::claimed, "claimed"},
                                   {word::data, "payload in cell "},
                                   {word::length, "length in cell "}};
    for (const Range& range : ranges)
        if (a >= range.first) {
            bool array = a < word::claimed || (a >= word::boundary && a < word::publisher_epoch);
            return range.name +
                   (array ? (a < word::claimed ? "" : "[") + std::to_string(a - range.first) +
                                (a < word::claimed ? "" : "]")
                          : std::string()) +
                   of;
        }
    return "?";
}

}  // namespace model
