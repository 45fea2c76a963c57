// SPDX-License-Identifier: Apache-2.0
//
// A model of what a power loss leaves of a table on a disk, and of its recovery (table.md 9). The disk holds of each
// word any value that it had since the last sync: any mix of pages, torn anywhere. One writer at a time, that may be
// killed at any store; the index is not modelled: recovery builds it from the cells. README.md, "The table", has the
// mutants.
#include <cstdint>
#include <cstring>

#include "search.hpp"
#include "table.hpp"

namespace model {

namespace {

enum class Mutant {
    none,
    crc_not_compared,
    crc_without_key,
    crc_without_seq,
    smaller_stamp,
    version_not_looked_at,
    parity_not_compared,
    both_cells,
    freed_keeps_bodies,
    removed_keeps_body,
    taken_back_keeps_body,
    recovered_keeps_body,
    stamp_stays,
    stamp_not_synced,
    clean_stays,
    clean_not_synced,
    clean_at_once,
    clean_before_sync,
    clean_not_looked_at,
    boot_first,
};

struct Scenario {
    const char* name;
    int cells;
    // x, y put the key; d, e remove it; C a synced close; L the power is lost. What follows L begins with the recovery.
    const char* plan;
    int kills;
    bool large;
};
const Scenario scenarios[] = {
    {"updates", 1, "xCxxL", 0, false},
    {"updates, killed", 1, "xCxLx", 1, false},
    {"closed", 1, "xxCL", 1, false},
    {"closed, written", 1, "xxCxL", 0, false},
    {"closed, written, killed", 1, "xCxxL", 1, false},
    {"reuse", 1, "xCdyL", 0, false},
    {"other key", 2, "xxyCyL", 0, false},
    {"other key, killed", 2, "xxyCyL", 1, false},
    {"insert killed", 2, "yxCxL", 1, false},
    {"two cells", 2, "xyeCdxL", 0, false},
    {"two cells, removed", 2, "xyeCdxLdCyL", 0, false},
    {"removed, reused", 1, "xdCyyL", 0, false},
    {"removed, reused, killed", 1, "xdCyyL", 1, false},
    {"removed, lost, reused", 1, "xCdLCyyL", 0, false},
    {"lost twice", 1, "xCxLxLx", 0, false},
    {"large: two cells, killed", 2, "xyeCdxLdCyL", 1, true},
    {"large: reuse, lost twice", 1, "xCdyLexL", 1, true},
};
const Row<Mutant> rows[] = {
    {Mutant::crc_not_compared, "table recover 1", "the crc is not compared", "T1", "", "updates"},
    {Mutant::crc_without_key, "table recover 1", "the crc does not cover the key", "T1", "", "reuse"},
    {Mutant::crc_without_seq, "table recover 1", "the crc does not cover seq", "T1", "", "updates"},
    {Mutant::version_not_looked_at, "table recover 2", "the larger seq wins, whatever version says", "T9", "",
     "other key, killed"},
    {Mutant::smaller_stamp, "table recover 2", "where version's body is not good, the smaller seq wins", "",
     "the key was changed since the last sync, and may have any of its values", "updates"},
    {Mutant::parity_not_compared, "table recover 1", "a body whose seq names the other body is taken", "",
     "the crc covers seq, and a writer stores no such seq: for hostile files", "updates"},
    {Mutant::both_cells, "table recover 3", "two cells keep one key", "T10", "", "two cells"},
    {Mutant::freed_keeps_bodies, "table recover 3", "a freed cell keeps its bodies", "T9", "", "two cells, removed"},
    {Mutant::removed_keeps_body, "table remove 4", "seq of the old body is not set to 0", "T9", "", "removed, reused"},
    {Mutant::taken_back_keeps_body, "table take 3", "the cell is freed, but its old body keeps its seq", "T9", "",
     "removed, reused, killed"},
    {Mutant::recovered_keeps_body, "table recover 3", "a cell whose removal stands keeps its old body", "T9", "",
     "removed, lost, reused"},
    {Mutant::stamp_stays, "table recover 4", "the stamp does not jump", "T5", "", "updates, killed"},
    {Mutant::stamp_not_synced, "table recover 5", "the stamp is not synced before the boot id", "T5", "", "lost twice"},
    {Mutant::clean_stays, "table take 2", "clean is not cleared", "T1", "", "closed, written"},
    {Mutant::clean_not_synced, "table take 2", "clean := 2 is not synced before the first change", "T1", "",
     "closed, written"},
    {Mutant::clean_at_once, "table take 2", "clean := 0 at once, without 2 before the sync", "T1", "",
     "closed, written, killed"},
    {Mutant::clean_before_sync, "table close 2", "clean := 1 before the cells are synced", "T1", "", "closed"},
    {Mutant::clean_not_looked_at, "table take 2", "a file that was closed is recovered all the same", "",
     "costs time only", "closed"},
    {Mutant::boot_first, "table recover 5", "the boot id is stored first", "T5", "", "updates, killed"},
};

constexpr int max_cells = 2, max_values = 6, max_list = 24, max_stamps = 64, jump = 20, none = -1;
enum CellWord : int8_t { version, key, seq0, a0, b0, crc0, seq1, a1, b1, crc1, cell_words };
enum ControlWord : int8_t { stamp = max_cells * cell_words, clean, boot, words };
constexpr int8_t removed = 64, sync_all = -1, sync_control = -2;

struct Store {
    int8_t at, value;
};
struct State {
    int8_t m[words], values[words][max_values], count[words];  // values: of a word since the last sync, newest last
    int8_t at, done, length, losing, power, kills, freed;      // losing: the word that the loss chooses next
    int8_t intent, dead;  // the cell of the insert or remove under way; the one of a killed writer
    Store list[max_list];
    // truth, by stamp; the stamp of each key's value between two operations; the same at the last sync, none: changed
    // since
    int8_t key_of[max_stamps], is_remove[max_stamps], used, last[2], synced[2];
};

int at_cell(int c, int w) {
    return c * cell_words + w;
}

class Model final : public Search<State> {
  public:
    Model(const Scenario& scenario, Mutant without) : c(scenario), mutant(without) {}

  private:
    const Scenario& c;
    const Mutant mutant;

    bool off(Mutant m) const { return m == mutant; }

    void store(State& s, int at, int value) const {
        if (s.m[at] == value) return;
        s.m[at] = static_cast<int8_t>(value);
        bool known = false;
        for (int k = 0; k < s.count[at]; ++k) known = known || s.values[at][k] == value;
        if (!known && s.count[at] < max_values) s.values[at][s.count[at]++] = static_cast<int8_t>(value);
    }
    static void sync(State& s, int at) {
        std::memset(s.values[at], 0, sizeof s.values[at]);
        s.values[at][0] = s.m[at];
        s.count[at] = 1;
    }
    static void add(State& s, int at, int value) {
        s.list[s.length++] = {static_cast<int8_t>(at), static_cast<int8_t>(value)};
    }
    // seq of the body that version does not name.
    static int old_seq(const State& s, int cell) {
        return at_cell(cell, s.m[at_cell(cell, version)] & 1 ? seq0 : seq1);
    }
    // The value of a cell's body as it stands: none, or the stamp of its write; `removed` added if it says so.
    static int value_of(const State& s, int cell) {
        const int v = s.m[at_cell(cell, version)];
        return v == 0 ? none : s.m[at_cell(cell, v & 1 ? a1 : a0)];
    }
    static bool live(const State& s, int cell) {
        const int v = value_of(s, cell);
        return v != none && !(v & removed);
    }
    bool good(const State& s, int cell, int body) const {
        const int8_t* w = s.m + at_cell(cell, body ? seq1 : seq0);
        const int n = w[3];
        if (w[0] == 0 || ((w[0] & 1) != body && !off(Mutant::parity_not_compared))) return false;
        if (off(Mutant::crc_not_compared)) return true;
        const int value = s.is_remove[n] ? n | removed : n;  // the crc of write n is known by n
        return n != 0 && w[1] == value && w[2] == value && (w[0] >> 1 == n || off(Mutant::crc_without_seq)) &&
               (s.m[at_cell(cell, key)] == s.key_of[n] || off(Mutant::crc_without_key));
    }

    void recover(State& s) const {  // table.md 9
        int winner[max_cells], most = s.m[stamp];
        if (off(Mutant::boot_first)) add(s, boot, s.power);
        for (int cell = 0; cell < c.cells; ++cell) {
            const int stands = s.m[at_cell(cell, version)];
            int best = 0;
            for (int body = 0; body < 2 && (stands != 0 || off(Mutant::version_not_looked_at)); ++body) {
                const int q = s.m[at_cell(cell, body ? seq1 : seq0)];
                if (!good(s, cell, body) || (best == stands && best && !off(Mutant::version_not_looked_at))) continue;
                const bool later = best == 0 || (q > best) != off(Mutant::smaller_stamp);
                if (later || (q == stands && !off(Mutant::version_not_looked_at))) best = q;
            }
            winner[cell] = best;
            if (best >> 1 > most) most = best >> 1;
        }
        const auto value = [&](int cell) {
            return winner[cell] ? s.m[at_cell(cell, winner[cell] & 1 ? a1 : a0)] : int8_t(removed);
        };
        if (c.cells == 2 && !(value(0) & removed) && !(value(1) & removed) &&
            s.m[at_cell(0, key)] == s.m[at_cell(1, key)] && !off(Mutant::both_cells))
            winner[winner[0] > winner[1]] = 0;
        for (int cell = 0; cell < c.cells; ++cell) {
            add(s, at_cell(cell, version), winner[cell]);
            if (winner[cell] && value(cell) & removed && !off(Mutant::recovered_keeps_body))
                add(s, at_cell(cell, winner[cell] & 1 ? seq0 : seq1), 0);
            if (winner[cell] || off(Mutant::freed_keeps_bodies)) continue;
            add(s, at_cell(cell, seq0), 0);
            add(s, at_cell(cell, seq1), 0);
        }
        add(s, stamp, off(Mutant::stamp_stays) ? most : most + jump);
        if (!off(Mutant::stamp_not_synced)) add(s, sync_control, 0);
        if (!off(Mutant::boot_first)) add(s, boot, s.power);
    }
    void write(State& s, int k, bool remove) const {
        int cell = none, free = s.freed;
        for (int i = 0; i < c.cells; ++i)
            if (live(s, i) && s.m[at_cell(i, key)] == k)
                cell = i;
            else if (!live(s, i) && (free == none || free == s.freed))
                free = i;
        if (remove && cell == none) return;
        const bool insert = cell == none;
        if (insert) cell = free, s.freed = none;
        if (cell == none) return;
        if (remove) s.freed = static_cast<int8_t>(cell);
        if (insert || remove) s.intent = static_cast<int8_t>(cell);
        const int n = s.m[stamp] + 1, body = 1 - (s.m[at_cell(cell, version)] & 1), v = n << 1 | body;
        const int q = at_cell(cell, body ? seq1 : seq0), value = remove ? n | removed : n;
        if (s.m[clean] != 0 && !off(Mutant::clean_stays)) {
            if (!off(Mutant::clean_at_once)) add(s, clean, 2);
            if (off(Mutant::clean_at_once)) add(s, clean, 0);
            if (!off(Mutant::clean_not_synced)) add(s, sync_control, 0);
            if (!off(Mutant::clean_at_once)) add(s, clean, 0);
        }
        add(s, stamp, n);
        add(s, q, 0);
        if (insert) add(s, at_cell(cell, key), k);
        add(s, q + 1, value);
        add(s, q + 2, value);
        add(s, q + 3, n);
        add(s, q, v);
        add(s, at_cell(cell, version), v);
        if (remove && !off(Mutant::removed_keeps_body)) add(s, at_cell(cell, body ? seq0 : seq1), 0);
    }
    // T1, T9, T10: what a reader of this boot finds.
    void check_cells(const State& s, int8_t (&found)[2]) {
        found[0] = found[1] = 0;
        for (int cell = 0; cell < c.cells; ++cell) {
            if (!live(s, cell)) continue;
            const int v = s.m[at_cell(cell, version)], k = s.m[at_cell(cell, key)], n = v >> 1;
            const int8_t* w = s.m + at_cell(cell, v & 1 ? seq1 : seq0);
            check(w[0] == v && w[1] == n && w[2] == n && s.key_of[n] == k && !s.is_remove[n], "T1");
            if (k < 1 || k > 2) return;
            check(found[k - 1] == 0, "T10");
            found[k - 1] = static_cast<int8_t>(n);
        }
        for (int k = 0; k < 2; ++k) check(s.synced[k] == none || s.synced[k] == found[k], "T9");
    }

    State first() const override {
        State s;
        std::memset(&s, 0, sizeof s);
        for (int w = 0; w < words; ++w) s.count[w] = 1;
        s.freed = s.losing = s.intent = s.dead = none;
        s.kills = static_cast<int8_t>(c.kills);
        s.synced[0] = s.synced[1] = none;
        return s;
    }
    void steps(const State& s) override {
        State n = s;
        if (s.losing != none) {  // the disk has one of its values; the next boot finds it
            if (s.losing == words) {
                n.losing = none;
                ++n.power;
            } else {
                for (int k = 0; k < s.count[s.losing]; ++k) {
                    State lost = s;
                    lost.m[s.losing] = s.values[s.losing][k];
                    sync(lost, s.losing);
                    ++lost.losing;
                    emit(lost, false);
                }
                return;
            }
        } else if (s.done < s.length) {
            // With two cells, a close is not killed: too many values would be left to choose from.
            if (s.kills > 0 && (c.cells == 1 || s.list[0].at >= 0)) {
                State killed = s;
                --killed.kills;
                clear_list(killed);
                killed.freed = none;
                if (s.intent != none) killed.dead = s.intent;
                killed.intent = none;
                emit(killed, false);
            }
            const Store e = s.list[s.done];
            ++n.done;
            if (e.at == sync_all || e.at == sync_control) {
                for (int w = e.at == sync_all ? 0 : int(stamp); w < words; ++w) sync(n, w);
                if (e.at == sync_all)
                    for (int k = 0; k < 2; ++k) n.synced[k] = s.last[k];
            } else {
                store(n, e.at, e.value);
                if (e.at < stamp && e.at % cell_words == version && e.value >> 1 > s.used)
                    n.used = static_cast<int8_t>(e.value >> 1);
            }
        } else {
            clear_list(n);
            n.intent = none;
            if (s.m[boot] != s.power) {
                if (s.m[clean] == 1 && !off(Mutant::clean_not_looked_at))
                    add(n, boot, s.power);
                else
                    recover(n);
                emit(n, false);
                return;
            }
            check_cells(s, n.last);
            if (s.dead != none) {  // take 3: the next owner frees the cell
                if (!live(s, s.dead) && s.m[old_seq(s, s.dead)] != 0 && !off(Mutant::taken_back_keeps_body)) {
                    add(n, old_seq(s, s.dead), 0);
                    emit(n, false);
                    return;
                }
                n.dead = none;
            }
            const char what = c.plan[s.at];
            if (!what) return;
            ++n.at;
            if (what == 'L') {
                n.losing = 0;
                n.freed = n.dead = none;
            } else if (what == 'C') {
                if (off(Mutant::clean_before_sync)) add(n, clean, 1), add(n, sync_control, 0);
                add(n, sync_all, 0);
                if (!off(Mutant::clean_before_sync)) add(n, clean, 1), add(n, sync_control, 0);
            } else {
                const int k = what == 'x' || what == 'd' ? 1 : 2;
                write(n, k, what == 'd' || what == 'e');
                if (n.length) {
                    const int w = s.m[stamp] + 1;
                    check(w > s.used, "T5");
                    n.key_of[w] = static_cast<int8_t>(k), n.is_remove[w] = what == 'd' || what == 'e';
                    n.synced[k - 1] = none;
                }
            }
        }
        emit(n, false);
    }
    static void clear_list(State& s) {
        std::memset(s.list, 0, sizeof s.list);
        s.done = s.length = 0;
    }
    bool at_end(const State&) const override { return false; }
    void check_end(const State&) override {}
    bool needs_end(const State&) const override { return false; }
    std::string print(const State& s) const override {
        std::string text;
        for (int w = 0; w < words; ++w) {
            if (w % cell_words == 0) text += "| ";
            text += std::to_string(s.m[w]) + " ";
        }
        return text + "at " + std::to_string(s.at) + " done " + std::to_string(s.done) + " power " +
               std::to_string(s.power) + " losing " + std::to_string(s.losing) + " synced " +
               std::to_string(s.synced[0]) + " " + std::to_string(s.synced[1]);
    }
};

}  // namespace

void print_table_pages_table() {
    print_rows("table pages", rows);
}

void explore_table_pages(bool large, Wanted wanted, Report report) {
    explore_rows<Model>("table pages", "T4", scenarios, rows, large, wanted, report);
}

}  // namespace model
