// SPDX-License-Identifier: Apache-2.0
//
// A model of the table (table.md, 3 to 7): writers, one at a time, that put, remove, reuse cells, rebuild the index and
// are killed at any store; readers that get a key or walk over the cells. README.md, "The table", says how to read it
// and has the table of mutants.
//
// A writer's stores leave its buffer in any order that their fences allow. It decides what a change stores when the
// change begins: no other process writes these words. All keys have one fingerprint, so every search meets every entry.
#include "table_world.hpp"

namespace model {

namespace {

using namespace table_model;

class Model final : public Search<State> {
  public:
    Model(const Scenario& scenario, Mutant without) : c(scenario), mutant(without) {}

  private:
    const Scenario& c;
    const Mutant mutant;

    bool off(Mutant m) const { return m == mutant; }
    // Two writers at once break everything. Their mutants are to show that a value is torn.
    void verify(bool good, const char* invariant) {
        const bool two =
            off(Mutant::epoch_not_compared) || off(Mutant::live_writer_evicted) || off(Mutant::without_lock);
        if (!two || !std::strcmp(invariant, "T1")) check(good, invariant);
    }

    // --- the writers
    bool may_leave(const Writer& w, int at) const {
        const Store& e = w.buffer[at];
        if (at > 0 && (e.kind == release_store || e.kind == fence)) return false;
        for (int i = 0; i < at; ++i)
            if (w.buffer[i].kind == fence || w.buffer[i].at == e.at) return false;
        return true;
    }
    void leave(State& s, int i, int at) {  // the store becomes visible
        Writer& w = s.writer[i];
        const Store e = w.buffer[at];
        for (int k = at; k + 1 < w.stores; ++k) w.buffer[k] = w.buffer[k + 1];
        w.buffer[--w.stores] = Store{};
        if (e.kind == fence) return;
        s.m[e.at] = e.value;
        for (int n = 1; n <= e.value && e.at == changed && c.losses == 0; ++n)
            verify(s.effective[n] || s.never[n], "T3");
        if (e.at >= entries_at || e.at % cell_words != version) return;
        const int n = e.value >> 1;
        for (int k = n; k < max_stamps; ++k) verify(!s.effective[k], "T5");
        s.effective[n] = 1;
        if (s.is_remove[n])
            for (Reader& r : s.reader) r.left = static_cast<int8_t>(r.left | 1 << (s.key_of[n] - 1));
    }
    void drain(State& s, int i) {
        while (s.writer[i].stores) leave(s, i, 0);
    }
    static void begin(State& s, int i) { std::memset(s.writer[i].list, 0, sizeof s.writer[i].list); }
    void writer_steps(const State& s, int i) {
        const Writer& w = s.writer[i];
        const bool between = w.done == w.length;
        for (int k = 0; k < w.stores; ++k)
            if (may_leave(w, k)) {
                State n = s;
                leave(n, i, k);
                emit(n, false);
            }
        if (w.holds && s.kills > 0) {
            State n = s;
            drain(n, i);
            --n.kills;
            for (int k = 1; k < max_stamps; ++k)
                if (n.key_of[k] && !n.effective[k]) n.never[k] = 1;
            std::memset(&n.writer[i], 0, sizeof n.writer[i]);
            if (n.lock == i) n.lock = none;
            emit(n, false);
        }
        if (i == 0 && w.holds && s.losses > 0 && s.lock == i && (between || off(Mutant::live_writer_evicted))) {
            State n = s;  // unlocking is a release
            if (!off(Mutant::live_writer_evicted)) drain(n, i);
            --n.losses;
            n.lock = none;
            emit(n, false);
        }
        State n = s;
        Writer& b = n.writer[i];
        if (!w.holds) {
            if (w.told || (i > 0 && c.losses == 0)) return;
            if (s.lock != none && !(off(Mutant::without_lock) && i > 0)) return;
            if (i > 0 && s.losses > 0 && !off(Mutant::without_lock)) return;  // only where the first one lost it
            n.lock = static_cast<int8_t>(i);
            b.holds = 1;
            begin(n, i);
            Change(c, mutant, n, b).take();
        } else if (!between) {
            if (w.stores == buffer_size) return;
            b.buffer[b.stores++] = w.list[w.done];
            b.done++;
        } else {
            if (!c.plan[s.at]) return;
            // Between the loss of a lock and the next owner's epoch nothing guards (channel.md 5.1).
            if (s.lock != i && s.m[epoch] == w.epoch && !off(Mutant::epoch_not_compared)) return;
            begin(n, i);
            if (newest(s, i, epoch) != w.epoch && !off(Mutant::epoch_not_compared)) {  // slot lost
                if (w.stores) return;
                b = Writer{};
                b.told = 1;
            } else {
                Change(c, mutant, n, b).operation(c.plan[n.at++]);
            }
        }
        emit(n, false);
    }
    static int newest(const State& s, int i, int at) {
        const Writer& w = s.writer[i];
        for (int k = w.stores; k-- > 0;)
            if (w.buffer[k].kind != fence && w.buffer[k].at == at) return w.buffer[k].value;
        return s.m[at];
    }

    // --- the readers
    // The stamp of the last change of key k that stands, of those up to n.
    static int latest(const State& s, int k, int n) {
        for (; n > 0; --n)
            if (s.effective[n] && s.key_of[n] == k) return n;
        return 0;
    }
    static int next_remove(const State& s, int k, int from) {  // the first remove from this stamp on
        for (int n = from; n < max_stamps; ++n)
            if (s.effective[n] && s.key_of[n] == k && s.is_remove[n]) return n;
        return none;
    }
    void found(Reader& r, int k, int n) {
        verify(n >= r.last[k - 1], "T2");
        verify(n >= r.low, "T3");
        if (n > r.last[k - 1]) r.last[k - 1] = static_cast<int8_t>(n);
    }
    void absent(State& s, Reader& r, int k) {
        int8_t& last = r.last[k - 1];
        int n = last == 0 ? 0 : next_remove(s, k, last);
        verify(n != none, "T2");
        if (n < r.low) n = next_remove(s, k, r.low);
        verify(n != none, "T3");
        if (n > last) last = static_cast<int8_t>(n);
    }
    static void ended(Reader& r) {
        r.get++;
        r.pc = r.g = r.i = r.v = r.q = r.k = r.a = r.b = r.low = r.c = r.met[0] = r.met[1] = r.left = 0;
        forget_line(r);
    }
    static void forget_line(Reader& r) {
        r.loaded = 0;
        std::memset(r.line, 0, sizeof r.line);
    }
    // Of a reader that loads all entries before the first cell: loads entry i.
    bool load_entry(State& s, Reader& r, int i) const {
        if (r.loaded >> i & 1) return false;
        r.line[i] = s.m[at_entry(r.g & 1, i)];
        r.loaded = static_cast<int8_t>(r.loaded | 1 << i);
        return true;
    }
    int first_of_line() const { return off(Mutant::entries_behind_look) ? 1 : 0; }
    bool line_is_loaded(const Reader& r) const { return (r.loaded | first_of_line()) == (1 << c.entries) - 1; }
    bool loads_line(const Reader& r, int i) const {
        const char what = c.gets[i][0] ? c.gets[i][r.get] : 0;
        return (what == 'L' || what == 'M') && r.pc == pc_entry && !line_is_loaded(r);
    }
    // Whether what was read is whole, and is what the version says.
    void check_value(const State& s, const Reader& r) {
        const int n = r.v >> 1;
        verify(r.a == r.b && (r.a & ~removed) == n && s.is_remove[n] == (r.a & removed ? 1 : 0), "T1");
        if (!(r.a & removed)) verify(s.key_of[n] == r.k, "T1");
    }
    static constexpr int8_t pc_entry = 2;
    bool reader_step(State& s, int i) {
        enum : int8_t {
            begin,
            look_at_generation,
            entry = pc_entry,
            load_version,
            load_seq,
            load_key,
            load_a,
            load_b,
            second_look,
            load_key_late,
            value,
            miss,
            late_entry
        };
        Reader& r = s.reader[i];
        const char what = c.gets[i][0] ? c.gets[i][r.get] : 0;
        if (!what) return false;
        const bool walk = what == 'W';
        const bool line = what == 'L' || what == 'M';
        const int k = what == 'Y' || what == 'M' ? 2 : 1;
        const int body = off(Mutant::one_body) ? 0 : r.v & 1;
        const int q = at_cell(r.c, body ? seq1 : seq0);
        const auto next_entry = [&] {
            r.v = r.q = r.k = r.a = r.b = r.c = 0;
            r.pc = static_cast<int8_t>(++r.i == c.entries ? miss : entry);
        };
        const auto next_cell = [&] {
            r.v = r.q = r.k = r.a = r.b = 0;
            r.pc = load_version;
            if (++r.c < c.cells) return;
            for (int key_met = 1; key_met <= 2; ++key_met) {  // what was there all the time was met
                const int since = r.i >> (key_met - 1) & 1;
                verify(!since || (r.left >> (key_met - 1) & 1) || r.met[key_met - 1], "T8");
            }
            ended(r);
        };
        switch (r.pc) {
            case begin: {
                const int n = s.m[changed];
                r.left = 0;
                if (walk) {
                    for (int met = 1; met <= 2; ++met) {
                        const int at = latest(s, met, n);
                        if (at > 0 && !s.is_remove[at] && next_remove(s, met, at) == none)
                            r.i = static_cast<int8_t>(r.i | 1 << (met - 1));
                    }
                } else {
                    r.low = static_cast<int8_t>(latest(s, k, n));
                }
                r.pc = walk ? load_version : look_at_generation;
                break;
            }
            case look_at_generation:
                r.g = s.m[generation];
                r.i = 0;
                r.pc = entry;
                break;
            case entry: {
                if (loads_line(r, i)) {  // steps() has the other orders
                    for (int at = first_of_line(); !load_entry(s, r, at);) ++at;
                    break;
                }
                if (line && !(r.loaded >> r.i & 1)) {  // the mutant's, which comes behind the look
                    next_entry();
                    break;
                }
                const int e = line ? r.line[r.i] : s.m[at_entry(r.g & 1, r.i)];
                if (e == 0) {
                    r.pc = miss;
                } else if (e == tombstone) {
                    next_entry();
                } else {
                    r.c = static_cast<int8_t>(e - 1);
                    r.pc = load_version;
                }
                break;
            }
            case load_version:
                r.v = s.m[at_cell(r.c, version)];
                r.pc = load_seq;
                if (r.v == 0) {
                    if (walk)
                        next_cell();
                    else
                        next_entry();
                }
                break;
            case load_seq:
                r.q = s.m[q];
                r.pc = off(Mutant::key_after_second_look) ? load_a : load_key;
                if (r.q != r.v && !off(Mutant::no_version_compare)) r.pc = load_version;
                break;
            case load_key:
                r.k = s.m[at_cell(r.c, key)];
                r.pc = load_a;
                break;
            case load_a:
                r.a = s.m[q + 1];
                r.pc = load_b;
                break;
            case load_b:
                r.b = s.m[q + 2];
                r.pc = off(Mutant::no_second_look) ? value : second_look;
                break;
            case second_look:
                r.pc = s.m[q] != r.q ? load_version : off(Mutant::key_after_second_look) ? load_key_late : value;
                break;
            case load_key_late:
                r.k = s.m[at_cell(r.c, key)];
                r.pc = value;
                break;
            case value:
                if (walk) {
                    check_value(s, r);
                    if (!(r.a & removed)) {
                        const int key_met = r.k - 1;
                        verify(!r.met[key_met] || (r.left >> key_met & 1), "T8");
                        r.met[key_met] = r.a;
                    }
                    next_cell();
                } else if (r.k != k && !off(Mutant::key_not_compared)) {
                    if (off(Mutant::miss_ends))
                        r.pc = miss;
                    else
                        next_entry();
                } else if (r.a & removed) {
                    next_entry();
                } else {
                    if (off(Mutant::key_not_compared)) r.k = static_cast<int8_t>(k);
                    check_value(s, r);
                    found(r, k, r.v >> 1);
                    ended(r);
                }
                break;
            case miss:
                if (off(Mutant::entries_behind_look) && (r.loaded & 1)) {
                    absent(s, r, k);
                    ended(r);
                } else if (s.m[generation] != r.g && !off(Mutant::no_generation_look)) {
                    r.pc = look_at_generation;
                    r.g = r.i = r.v = r.q = r.k = r.a = r.b = r.c = 0;
                    forget_line(r);
                } else if (line && off(Mutant::entries_behind_look)) {
                    r.pc = late_entry;
                } else {
                    absent(s, r, k);
                    ended(r);
                }
                break;
            case late_entry:
                load_entry(s, r, 0);
                r.i = 0;
                r.pc = entry;
                break;
        }
        return true;
    }
    // T4: a reader that is alone, while the writer is stopped or dead (its stores are visible), comes to an end.
    void check_bounded(const State& s, int i) {
        if (s.reader[i].pc == 0 || s.writer[0].stores || s.writer[1].stores) return;
        State n = s;
        for (int steps = 0; steps < 80; ++steps)
            if (!reader_step(n, i) || n.reader[i].get != s.reader[i].get) return;
        verify(false, "T4");
    }

    // T6, T7: between two changes, each cell is live and has one entry, or is free once, or was never used.
    void check_between(const State& s) {
        if (s.lock == none) return;
        const Writer& w = s.writer[s.lock];
        if (w.done != w.length || w.stores || s.writer[1 - s.lock].stores) return;
        if (s.writer[1 - s.lock].holds && s.writer[1 - s.lock].done != s.writer[1 - s.lock].length) return;
        const int8_t* m = s.m;
        int last = 0;
        for (int n = 0; n < max_stamps; ++n)
            if (s.effective[n]) last = n;
        verify(m[changed] >= last && m[changed] <= m[stamp], "T7");
        verify(m[intent] == 0, "T6");
        const int current = m[generation] & 1, moved = m[rebuild] - c.entries - 1;
        for (int cell = 0; cell < c.cells; ++cell) {
            const int v = m[at_cell(cell, version)];
            const bool live = v != 0 && !(m[at_cell(cell, v & 1 ? a1 : a0)] & removed);
            int entries = 0, others = 0, free = 0, at = none;
            for (int i = 0; i < c.entries; ++i) {
                if (m[at_entry(current, i)] == cell + 1) ++entries, at = i;
                others += m[at_entry(1 - current, i)] == cell + 1;
            }
            int f = m[top], bound = 0;
            for (; f != 0 && bound <= c.cells; f = m[at_cell(f - 1, next)], ++bound) free += f == cell + 1;
            verify(f == 0, "T6");
            verify(entries == (live ? 1 : 0), "T6");
            verify(free == (live || cell >= m[fresh] ? 0 : 1), "T6");
            verify(!live || cell < m[fresh], "T6");
            if (m[rebuild] > c.entries) verify(live ? others <= 1 && (others == 1 || at >= moved) : others == 0, "T6");
        }
    }

    // --- exploring
    State first() const override {
        State s;
        std::memset(&s, 0, sizeof s);
        s.lock = none;
        s.kills = static_cast<int8_t>(c.kills), s.losses = static_cast<int8_t>(c.losses);
        return s;
    }
    void steps(const State& s) override {
        check_between(s);
        for (int i = 0; i < writers; ++i) writer_steps(s, i);
        for (int i = 0; i < readers; ++i) {
            State n = s;
            if (loads_line(s.reader[i], i)) {
                for (int at = first_of_line(); at < c.entries; ++at, n = s)
                    if (load_entry(n, n.reader[i], at)) emit(n, false);
            } else if (reader_step(n, i)) {
                emit(n, false);
            }
            check_bounded(s, i);
        }
    }
    bool at_end(const State&) const override { return false; }
    void check_end(const State&) override {}
    bool needs_end(const State&) const override { return false; }  // T4 is checked in each state
    std::string print(const State& s) const override {
        std::string text;
        const auto add = [&](const char* name, int v) { text += std::string(name) + std::to_string(v) + " "; };
        for (int cell = 0; cell < c.cells; ++cell) {
            text += "[";
            for (int w = 0; w < cell_words; ++w) add("", s.m[at_cell(cell, w)]);
            text += "] ";
        }
        for (int copy = 0; copy < 2; ++copy) {
            text += "{";
            for (int i = 0; i < c.entries; ++i) add("", s.m[at_entry(copy, i)]);
            text += "} ";
        }
        add("gen ", s.m[generation]), add("stamp ", s.m[stamp]), add("changed ", s.m[changed]);
        add("intent ", s.m[intent]), add("top ", s.m[top]), add("fresh ", s.m[fresh]), add("rebuild ", s.m[rebuild]);
        add("lock ", s.lock), add("at ", s.at);
        for (const Writer& w : s.writer) {
            add("| w ", w.done);
            for (int k = 0; k < w.stores; ++k)
                text += (w.buffer[k].kind == fence
                             ? "F"
                             : std::to_string(w.buffer[k].at) + ":=" + std::to_string(w.buffer[k].value)) +
                        " ";
        }
        for (const Reader& r : s.reader) {
            add("| r get ", r.get), add("pc ", r.pc), add("c ", r.c), add("v ", r.v), add("k ", r.k), add("a ", r.a);
            add("b ", r.b), add("low ", r.low), add("last ", r.last[0]), add("", r.last[1]);
        }
        return text;
    }
};

}  // namespace

void print_table_table() {
    print_rows("table", rows);
}

void explore_table(bool large, Wanted wanted, Report report) {
    explore_rows<Model>("table", "T4", scenarios, rows, large, wanted, report);
}

}  // namespace model
