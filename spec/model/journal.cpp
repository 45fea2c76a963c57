// SPDX-License-Identifier: Apache-2.0
//
// A model of the journal (journal.md 3 to 8) under kills, power losses and failed syncs. It is random, with the seeds
// 1, 2, ...: the states are too many to explore them all. Six processes are interleaved at every store and at every
// load of a shared word: the writer, the helper, two consumers, a trimmer, a reader that keeps positions outside. Each
// may be killed at any store. README.md, "The journal", says what is checked.
#include "journal.hpp"

#include <ucontext.h>

#include <algorithm>
#include <functional>

#include "journal_table.hpp"
#include "journal_world.hpp"
#include "journal_writer.hpp"
#include "search.hpp"

namespace model {

namespace {

using Mutant = JournalMutant;

class Run final : public JournalWriter {
  public:
    using JournalWriter::JournalWriter;

    void go() {
        for (int i = 0; i < actors; ++i) start(i);
        const bool by_size = random.one_in(3);
        const long length = 3000 + static_cast<long>(random.below(5000));
        const int favourite = static_cast<int>(random.below(actors));
        int kills = scenario.kills ? 12 : 0, losses = scenario.power ? 5 : 0;
        long draining = 0;
        for (long i = 0; !truth.broken; ++i, ++steps) {
            const bool foreign = (*control)[boot_id] != boot;
            if (i == length) quiet = true, full = false, kills = losses = 0;
            if (i > length) {  // all consumers read to the end
                if (drained(foreign)) break;
                truth.check(++draining < 60000, "J7", "a process waits without end");
            }
            if (kills && folder.entries.back().past.size() > 1 && random.one_in(50))
                --kills, kill(scenario.pushes ? writer : helper);  // between a segment's name and its sync
            if (kills && random.one_in(400)) --kills, kill(random.one_in(3) ? one_of(actors) : favourite);
            if (losses && i > 50 && random.one_in(1500)) --losses, lose_power();
            if (foreign && random.one_in(40)) {  // inside a recovery
                if (losses && random.one_in(2))
                    --losses, lose_power();
                else if (kills)
                    --kills, kill(writer);
            }
            if (i % 512 == 0 && i < length) full = random.one_in(4);
            if (scenario.pushes && random.one_in(1500)) {
                shift = static_cast<long>(random.below(20000)) - 10000;
                set_at = i;
                excused_early = true;
            }
            if (by_size && i > length / 2) retained = true;
            me = one_of(actors);
            if (quiet && draining > 20000 && draining % 2) me = consumer_0 + one_of(consumers);
            if (processes[me].alive) swapcontext(&scheduler, &processes[me].context);
        }
        if (!truth.broken) compare_all();
    }

  private:
    void run_process() override {
        const int i = me;
        if (i == writer) scenario.pushes ? push_on() : write();
        if (i == helper) help();
        if (i == consumer_0 || i == consumer_1) consume(i - consumer_0);
        if (i == trimmer) trim();
        if (i == reader) read();
        processes[i].alive = false;
        while (true) yield();
    }
    void lose_power() {
        const int mode = one_of(3);
        ++boot;
        lock_owner = -1;
        excused_early = true;
        folder.lose_power(random);
        for (auto& file : files) file->lose_power(random, mode);
        walk(true);  // a private reader, before any recovery
        for (int i = 0; i < actors; ++i) start(i);
    }
    bool drained(bool foreign) const {
        if (foreign || (*control)[failed] || lock_owner >= 0) return false;
        for (int k = 0; k < consumers; ++k)
            for (const auto& [p, id] : truth.committed)
                if (!registered[k] || !had[k].count(id)) return false;
        return true;
    }

    // ---- readers and consumers (3.3, 6) ----

    // Goes to where reading goes on from p, with n messages before it. Returns false if there is no such place now.
    bool seek(Position& p, long& n, int k) {
        while (true) {
            const Position low = load_position(trimmed);
            if (p < low && !is(Mutant::no_trimmed)) {
                if (!at(low)) continue;
                skip_trimmed(p, n, low, k);
                return true;
            }
            Position first = -1;
            for (const auto& e : folder.entries)
                if (at(e.name) && e.name <= p && e.name > first) first = e.name;
            if (first < 0) {
                if (is(Mutant::no_trimmed)) return false;
                continue;
            }
            if (is(Mutant::position_believed) && at(p)) return true;
            Position q = first;
            bool moved = false;
            while (q <= p && !moved) {
                const Word h = at(q) ? word_at(q) : 0;
                if (!sound(h, q)) break;
                if (type_of(h) == cut_type) {
                    n = static_cast<long>((*at(q))[q % segment_words + 1]);
                    q = static_cast<Position>((*at(q))[q % segment_words + 2]);
                    moved = true;
                } else if (q < p) {
                    q += align(words_of(h));
                } else {
                    break;
                }
            }
            if (q < p) {
                yield();
                if (position(trimmed) > p || !at(first)) continue;
                truth.check(false, "J8", "a kept position leads nowhere");
                return false;
            }
            truth.check(q == p || moved, "J8", "a kept position lies within a record");
            p = q;
            return true;
        }
    }
    // Trim has passed p: goes on at `low`.
    void skip_trimmed(Position& p, long& n, Position low, int k) {
        const long now = static_cast<long>((*at(low))[1]);
        if (k >= 0) {
            truth.check(retained, "J5", "trim removed what a consumer still needs");
            long really = 0;
            for (auto l = truth.committed.lower_bound(p); l != truth.committed.end() && l->first < low; ++l)
                ++really, had[k].insert(l->second);
            truth.check(n < 0 ? excused[k] : now - n == really, "J5", "what a consumer lost is counted wrongly");
        }
        p = low;
        n = now;
    }
    void compare_had(int k, Position from, Position to) {
        for (auto l = truth.committed.lower_bound(from); l != truth.committed.end() && l->first < to; ++l)
            truth.check(had[k].count(l->second) != 0, "J5", "a consumer misses a record in silence");
    }
    void read_on(int k, Position p, long n, int limit) {
        File* file = nullptr;
        Position mine = -1, low = 0;
        int got = 0, idle = 0;
        while (limit < 0 || idle < 30) {
            if (segment_of(p) != mine) {
                const bool first = is(Mutant::trimmed_looked_at_first);
                if (first) low = load_position(trimmed);
                yield();
                file = at(p);
                if (!file && !first) low = load_position(trimmed);
                if (!file && p < low && !is(Mutant::no_trimmed)) {
                    if (!seek(p, n, k)) return;
                    continue;
                }
                if (!file) {
                    truth.check(!first || p >= position(trimmed), "J5", "a reader takes what was trimmed for the end");
                    ++idle;
                    continue;
                }
                mine = segment_of(p);
            }
            yield();
            const Position i = p % segment_words;
            const Word h = (*file)[i];
            if (!sound(h, p)) {
                ++idle;
                truth.check(h == 0, "J8", "a reader finds a bad length");
                if (truth.broken) return;
                continue;
            }
            Position next = p + align(words_of(h));
            idle = 0;
            if (type_of(h) == cut_type) {
                n = static_cast<long>((*file)[i + 1]);
                next = static_cast<Position>((*file)[i + 2]);
            }
            if (type_of(h) == check_type && k >= 0 && !is(Mutant::one_pair))
                truth.check(static_cast<long>((*file)[i + 1]) == n, "J6", "a check's count is not the consumer's");
            if (type_of(h) == message) {
                const int id = truth.deliver(*file, p);
                if (truth.broken) return;
                ++n, ++got;
                if (k >= 0) {
                    had[k].insert(id);
                } else {
                    if (random.one_in(3)) truth.handed_out.push_back({p, id});
                    if (got >= limit) return;
                }
            }
            if (k >= 0) compare_had(k, p, next);
            p = next;
            if (k >= 0 && random.one_in(2)) store_gate(k, p, n);
        }
    }
    void consume(int k) {
        while (load(boot_id) != boot) continue;
        for (std::uint64_t i = random.below(60); i--;) yield();
        const bool fresh = load(consumer_word(k, kept)) == 0;
        Position p;
        long n;
        if (fresh && registered[k]) return truth.check(false, "J5", "a registered consumer is forgotten");
        if (fresh) {
            lock();
            p = load_position(trimmed);
            n = at(p) ? static_cast<long>((*at(p))[1]) : 0;
            yield();
            store_gate(k, p, n);
            store(consumer_word(k, kept), 1);
            unlock();
        } else {
            p = load_position(consumer_word(k, gate));
            n = counted(k);
        }
        if (!registered[k]) {  // the process that registered it may have been killed before it synced
            if (!is(Mutant::join_not_synced)) sync(control);
            registered[k] = true;
            for (const auto& [q, id] : truth.committed)
                if (q < p) had[k].insert(id);
        }
        if (!fresh) {
            const Position was = p;
            if (!seek(p, n, k))
                return truth.check(!is(Mutant::no_trimmed), "J7", "a reader waits for what was trimmed");
            compare_had(k, 0, p);
            if (was == p) n = truth.before(p);  // counted again from the segment's first record
        }
        read_on(k, p, n, -1);
    }
    void read() {
        while (load(boot_id) != boot) continue;
        while (true) {
            Position p = load_position(trimmed), kept_position = -1;
            long n = 0;
            int id = -1;
            if (!truth.handed_out.empty() && !random.one_in(3)) {
                const auto& one = truth.handed_out[random.below(truth.handed_out.size())];
                p = kept_position = one.first;
                id = one.second;
            }
            if (!seek(p, n, -1)) {
                yield();
                continue;
            }
            if (p == kept_position) {
                const auto found = truth.committed.find(p);
                truth.check(found != truth.committed.end() && found->second == id, "J4",
                            "a position that was handed out holds another record");
            }
            read_on(-1, p, n, 4);
            for (std::uint64_t i = random.below(80); i--;) yield();
        }
    }

    // ---- trim (8) ----

    void trim() {
        while (true) {
            while (load(boot_id) != boot || quiet) yield();
            for (std::uint64_t i = random.below(200); i--;) yield();
            if (scenario.pushes)
                yield();  // the pushes trim
            else
                trim_once(retained || random.one_in(60));
        }
    }
    void trim_once(bool by_size) override {
        const bool beyond = is(Mutant::trim_beyond_synced);
        Position x = segment_of(load_position(beyond ? published : synced));
        if (by_size && at(x - segment_words) && random.one_in(2)) x -= segment_words;
        if (beyond && (!at(x) || word_at(x) != head(check_type, unit))) return;
        const auto lowest = [&] {
            for (int k = 0; k < consumers && !by_size && !is(Mutant::push_trims_a_gate); ++k)
                if (load(consumer_word(k, kept))) x = std::min(x, segment_of(load_position(consumer_word(k, gate))));
        };
        lowest();
        if (x <= load_position(trimmed)) return;
        if (!is(Mutant::trimmed_before_sync)) sync(control);
        lock();
        if (!is(Mutant::trim_without_lock)) lowest();
        const bool go = x > load_position(trimmed);
        if (go) {
            retained = retained || by_size;
            store_position(trimmed, x);
        }
        unlock();
        if (go && !is(Mutant::unlinked_before_sync)) sync(control);
        for (size_t i = 0; go && i < folder.entries.size(); ++i)
            if (folder.entries[i].file() && folder.entries[i].name < x) {
                folder.entries[i].past.push_back(nullptr);
                yield();
            }
        if (random.one_in(2)) sync_folder();
    }
};

// All runs of a scenario with a mutant.
class Model {
  public:
    const char* broken = nullptr;
    size_t states = 0;
    std::vector<std::string> trace;

    Model(const JournalScenario& scenario, Mutant mutant) : scenario(scenario), mutant(mutant) {}

    void explore(const char*) {
        for (int seed = scenario.first; seed < scenario.first + scenario.runs && !broken; ++seed) {
            Run run(scenario, mutant, static_cast<std::uint64_t>(seed));
            run.go();
            states += static_cast<size_t>(run.steps);
            broken = run.truth.broken;
            if (broken) trace.push_back("seed " + std::to_string(seed) + ": " + run.truth.why);
        }
    }

  private:
    const JournalScenario& scenario;
    Mutant mutant;
};

const char both[] = "kills and power", errors[] = "failed syncs", pushes[] = "pushes";
const Row<Mutant> rows[] = {
    {Mutant::claimed_is_padded, "journal resume 3", "what was claimed is padded", "J7", "", "kills and power: 3600"},
    {Mutant::claimed_stays, "journal resume 3", "what was claimed stays", "J8", "", both},
    {Mutant::no_resume, "journal resume 2", "what was committed and not published is forgotten", "J8", "", both},
    {Mutant::no_room_for_check, "journal append 1", "no place is kept for a check", "J7", "", both},
    {Mutant::file_not_synced, "journal prepare 3", "a segment is not synced before its name", "J8", "", both},
    {Mutant::folder_not_synced, "journal prepare 4", "the folder is not synced before the first record", "J3", "",
     both},
    {Mutant::found_is_trusted, "journal prepare 4", "a segment that is found is not synced", "J8", "", both},
    {Mutant::used_again, "journal prepare 2", "a segment is used again without zeroing", "J1", "", both},
    {Mutant::last_segment_synced, "journal sync 3", "only the segment of the check is synced", "J1", "", both},
    {Mutant::synced_first, "journal sync 4", "synced is stored before the sync", "J8", "", both},
    {Mutant::sync_tried_again, "journal sync", "a sync that failed is tried again", "J3", "", errors},
    {Mutant::not_written_again, "journal sync", "after a failed sync the pages are not written once more", "J3", "",
     errors},
    {Mutant::push_never_syncs, "journal push 2", "a push does not sync", "J9", "", pushes},
    {Mutant::push_forgets_another, "journal push 2", "a push looks at what it did, not at the words", "J9", "", pushes},
    {Mutant::push_believes_the_future, "journal push 2", "a synced_at in the future is not long ago", "J9", "", pushes},
    {Mutant::push_keeps_no_time, "journal push 2", "a sync stores no time", "J9", "", pushes},
    {Mutant::push_trims_a_gate, "journal push 3", "the trim of a push looks at no gate", "J5", "", pushes},
    {Mutant::check_without_itself, "journal check", "the crc does not cover the check", "J8", "", both},
    {Mutant::check_without_type, "journal check", "the crc does not cover the type", "J8", "", "kills and power: 8700"},
    {Mutant::last_right_check, "journal recover 1", "the walk ends behind the last right check", "J1", "", both},
    {Mutant::last_whole_record, "journal recover 1", "the walk ends at the last record that looks whole", "J1", "",
     both},
    {Mutant::published_believed, "journal recover 1", "published is believed", "J8", "", both},
    {Mutant::crc_not_looked_at, "journal read", "a reader of another boot looks at no crc", "J1", "", both},
    {Mutant::same_segment, "journal recover 2", "the journal goes on at c", "J8", "", both},
    {Mutant::same_segment_zeroed, "journal recover 2", "the same, with all behind c zeroed and synced", "J8", "", both},
    {Mutant::gates_stay, "journal recover 3", "gates above c stay", "J8", "", both},
    {Mutant::not_counted_again, "journal recover 3", "the pairs are not counted again", "J5", "", both},
    {Mutant::cut_not_synced, "journal recover 4", "the cut is not synced", "J6", "", both},
    {Mutant::cut_segment_synced, "journal recover 4", "only the segment of the cut is synced", "J2", "", both},
    {Mutant::leftovers_stay, "journal recover 5", "segments of a recovery that was killed stay", "J4", "", both},
    {Mutant::boot_first, "journal recover 7", "boot_id is stored first", "J1", "", both},
    {Mutant::trimmed_before_sync, "journal trim 2", "trimmed is stored before the gates are synced", "J5", "", both},
    {Mutant::trim_without_lock, "journal trim 3", "trim takes no lock", "J5", "", both},
    {Mutant::trim_beyond_synced, "journal trim 1", "trim goes beyond what is synced", "J8", "", both},
    {Mutant::unlinked_before_sync, "journal trim 5", "trim unlinks before it syncs", "J2", "", both},
    {Mutant::no_trimmed, "journal read", "there is no word trimmed", "J7", "", both},
    {Mutant::trimmed_looked_at_first, "journal read", "trimmed is loaded before the segment is looked for", "J5", "",
     both},
    {Mutant::position_believed, "journal read", "a kept position is believed", "J4", "", both},
    {Mutant::join_not_synced, "journal join", "a new name is not synced", "J5", "", both},
    {Mutant::one_pair, "journal gate", "one pair beside the gate", "J5", "", "kills and power: 11100"},
    {Mutant::pair_without_crc, "journal gate", "a pair without a crc", "J5", "", both},
};

}  // namespace

void print_journal_table() {
    print_rows("journal", rows);
}

void explore_journal(bool large, Wanted wanted, Report report) {
    explore_rows<Model>("journal", "", journal_scenarios, rows, large, wanted, report);
}

}  // namespace model
