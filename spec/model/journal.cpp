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
#include "search.hpp"

namespace model {

namespace {

using Mutant = JournalMutant;
enum { writer, helper, consumer_0, consumer_1, trimmer, reader, actors };

class Run;
Run* running;  // for the entry of a fiber

class Run {
  public:
    Truth truth;
    long steps = 0;

    Run(const JournalScenario& scenario, Mutant mutant, std::uint64_t seed)
        : scenario(scenario), mutant(mutant), random(seed), sector(seed % 2 ? 1 : 4) {
        control = new_file(first_consumer + consumer_words * consumers + 2);
        control->set(boot_id, boot);
        control->set(claimed, unit);
        control->set(published, unit);
        control->set(ready, segment_words);
        File* first = new_file(segment_words);
        first->set(3, crc_of(check_type, 0, 0, 0));
        first->set(0, head(check_type, unit));
        folder.entries.push_back({0, {first}});
        for (auto& file : files) file->make_durable(file->mark());
    }

    void go() {
        running = this;
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
            if (kills && folder.entries.back().past.size() > 1 && random.one_in(50)) --kills, kill(helper);
            if (kills && random.one_in(400)) --kills, kill(random.one_in(3) ? one_of(actors) : favourite);
            if (losses && i > 50 && random.one_in(1500)) --losses, lose_power();
            if (foreign && random.one_in(40)) {  // inside a recovery
                if (losses && random.one_in(2))
                    --losses, lose_power();
                else if (kills)
                    --kills, kill(writer);
            }
            if (i % 512 == 0 && i < length) full = random.one_in(4);
            if (by_size && i > length / 2) retained = true;
            me = one_of(actors);
            if (quiet && draining > 20000 && draining % 2) me = consumer_0 + one_of(consumers);
            if (processes[me].alive) swapcontext(&scheduler, &processes[me].context);
        }
        if (!truth.broken) compare_all();
    }
    static void enter() { running->run_process(); }

  private:
    struct Process {
        ucontext_t context;
        std::vector<char> stack;
        bool alive = false;
    };

    const JournalScenario& scenario;
    Mutant mutant;
    Random random;
    int sector;
    std::vector<std::unique_ptr<File>> files;
    File* control;
    Folder folder;
    Process processes[actors];
    ucontext_t scheduler;
    int me = 0, lock_owner = -1;
    Word boot = 1;
    bool retained = false;  // the trimmer may look at the size alone
    bool full = false;      // the disk
    bool quiet = false;     // nothing is appended any more
    bool registered[consumers] = {}, excused[consumers] = {};
    std::set<int> had[consumers];  // what each consumer was given

    bool is(Mutant m) const { return mutant == m; }
    int one_of(int n) { return static_cast<int>(random.below(static_cast<std::uint64_t>(n))); }
    File* new_file(int words) {
        files.push_back(std::make_unique<File>(words, sector));
        return files.back().get();
    }
    void yield() { swapcontext(&processes[me].context, &scheduler); }
    void start(int i) {
        Process& p = processes[i];
        if (p.stack.empty()) p.stack.resize(1 << 16);
        getcontext(&p.context);
        p.context.uc_stack.ss_sp = p.stack.data();
        p.context.uc_stack.ss_size = p.stack.size();
        p.context.uc_link = nullptr;
        makecontext(&p.context, enter, 0);
        p.alive = true;
    }
    void kill(int i) {
        if (lock_owner == i) lock_owner = -1;
        start(i);
    }
    void run_process() {
        const int i = me;
        if (i == writer) write();
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

    // ---- words, files, locks ----

    Position position(int field) const { return static_cast<Position>((*control)[field]); }
    Word load(int field) {
        yield();
        return (*control)[field];
    }
    Position load_position(int field) { return static_cast<Position>(load(field)); }
    void store(File* file, Position at, Word w) {
        file->set(at, w);
        yield();
    }
    void store(int field, Word w) { store(control, field, w); }
    void store_position(int field, Position p) { store(field, static_cast<Word>(p)); }
    void raise(int field, Position p) {
        if (load_position(field) < p) store_position(field, p);
    }
    File* at(Position p) const { return folder.find(segment_of(p)); }
    Word word_at(Position p) const { return (*at(p))[p % segment_words]; }
    // Returns whether the sync succeeded.
    bool sync(File* file) {
        const auto marks = file->mark();
        yield();
        yield();
        if (scenario.sync_errors && !quiet && file != control && random.one_in(12)) {
            file->fail_to_write(random);
            return false;
        }
        file->make_durable(marks);
        return true;
    }
    void sync_folder() {
        const auto marks = folder.mark();
        yield();
        folder.make_durable(marks);
    }
    void lock() {
        if (is(Mutant::trim_without_lock) && me == trimmer) return;
        while (lock_owner >= 0) yield();
        lock_owner = me;
        yield();
    }
    void unlock() {
        if (lock_owner == me) lock_owner = -1;
        yield();
    }

    // ---- crcs ----

    Word crc_of(int type, Position p, Word count, Word third) const {
        if (is(Mutant::check_without_itself)) return third;
        return mix(mix(mix(static_cast<Word>(p), count), third),
                   is(Mutant::check_without_type) ? 0 : static_cast<Word>(type));
    }
    Word add_span(const File& file, Position p, int words, Word crc) const {
        for (int k = 0; k < words; ++k) crc = mix(crc, file[p % segment_words + k]);
        return crc;
    }
    static Word proven(Position p, long count) {
        const Word n = static_cast<Word>(count);
        return n | mix(static_cast<Word>(p), n) << 16;
    }
    bool proves(int consumer, int pair) const {
        const Word g = (*control)[consumer_word(consumer, gate)], n = (*control)[consumer_word(consumer, pair + 1)];
        if ((*control)[consumer_word(consumer, pair)] != g) return false;
        return is(Mutant::pair_without_crc) || n == proven(static_cast<Position>(g), static_cast<long>(n & 65535));
    }
    // How many messages lie before the gate; -1: no pair says so.
    long counted(int consumer) const {
        for (int pair : {static_cast<int>(pair_0), static_cast<int>(pair_1)})
            if (is(Mutant::one_pair) || proves(consumer, pair))
                return static_cast<long>((*control)[consumer_word(consumer, pair + 1)] & 65535);
        return -1;
    }
    void store_gate(int consumer, Position p, long count) {
        const int pair = proves(consumer, pair_0) && !is(Mutant::one_pair) ? pair_1 : pair_0;
        store(consumer_word(consumer, pair), ~Word{0});
        store(consumer_word(consumer, pair + 1), proven(p, count));
        store_position(consumer_word(consumer, pair), p);
        store_position(consumer_word(consumer, gate), p);
    }

    // ---- segments (4) ----

    // Returns whether it is ready.
    bool prepare(Position p, Word count, bool with_check) {
        File* file = at(p);
        const bool found = file != nullptr;
        if (!file) {
            file = new_file(segment_words);
            if (is(Mutant::used_again)) fill_with_an_old_one(file);
            if (with_check) {
                file->set(1, count);
                file->set(2, 0);
                file->set(3, crc_of(check_type, p, count, 0));
                file->set(0, head(check_type, unit));
            }
        }
        if (!(found && is(Mutant::found_is_trusted))) {
            if (!is(Mutant::file_not_synced) && !sync(file)) {
                if (found) folder.link(p, nullptr);  // another sync of it would prove nothing
                return false;
            }
            if (!at(p)) folder.link(p, file);
            yield();
            if (!is(Mutant::folder_not_synced)) sync_folder();
        }
        raise(ready, p + segment_words);
        return true;
    }
    void fill_with_an_old_one(File* file) {
        for (const auto& e : folder.entries)
            if (e.name < position(trimmed) && e.past.size() > 1 && e.past[e.past.size() - 2])
                for (int i = 0; i < segment_words; ++i) file->set(i, (*e.past[e.past.size() - 2])[i]);
    }
    void help() {
        while (load(boot_id) != boot) continue;
        for (;; yield()) {
            const Position here = segment_of(load_position(published));
            const Position next = std::max(load_position(ready), here);
            if (next <= here + segment_words && (!full || at(next))) prepare(next, 0, false);
            if (random.one_in(40)) make_durable();
        }
    }

    // ---- writer (3.1, 3.2, 5) ----

    Position end = 0;         // t
    Word count = 0, crc = 0;  // of the messages; since the last check
    int since = 0;
    bool lost = false;  // the slot: a sync has failed

    bool is_ready(Position p) { return at(p) && load_position(ready) >= segment_of(p) + segment_words; }
    void announce(Position p) {
        if (position(claimed) < p) store_position(claimed, p);
    }
    // Commits the record at the end, and advances.
    void publish(int type, int words) {
        File* file = at(end);
        const Position p = end;
        if (type == message) truth.committed[p] = static_cast<int>(truth.words.size()) - 1;
        store(file, p % segment_words, head(type, words));
        store_position(published, p + align(words));
        if (type == check_type)
            crc = 0, since = 0;
        else
            crc = add_span(*file, p, align(words), crc), since += align(words);
        end = p + align(words);
    }
    bool check() {
        const Position p = end;
        if (!is_ready(p)) return false;
        File* file = at(p);
        announce(p + unit);
        store(file, p % segment_words + 1, count);
        store(file, p % segment_words + 2, crc);
        store(file, p % segment_words + 3, crc_of(check_type, p, count, crc));
        publish(check_type, unit);
        store_position(checked, p);
        return true;
    }
    bool append(int words) {
        const bool reserves = !is(Mutant::no_room_for_check);
        const Position rest = segment_words - end % segment_words;
        const bool rolls = end % segment_words && align(words) > rest - (reserves ? unit : 0);
        if (rolls && reserves && !is_ready(end + rest)) return false;  // nothing is changed, and a check still fits
        if (rolls) announce(end + rest), publish(padding, static_cast<int>(rest));
        if (end % segment_words == 0 && !check()) return false;
        File* file = at(end);
        const int id = static_cast<int>(truth.words.size());
        truth.words.push_back(words);
        announce(end + align(words));
        for (int k = 1; k < words; ++k)
            store(file, end % segment_words + k, mix(static_cast<Word>(id), static_cast<Word>(k)));
        ++count;
        publish(message, words);
        if (since >= check_every && end % segment_words) check();
        return true;
    }
    // Sync 2 to 4, by any process. Returns whether it succeeded.
    bool make_durable() {
        if (load(failed) && !is(Mutant::sync_tried_again)) return false;
        const Position to = load_position(checked);
        Position from = segment_of(load_position(synced));
        if (is(Mutant::last_segment_synced)) from = segment_of(to);
        if (is(Mutant::synced_first)) raise(synced, to);
        for (Position p = from; p <= to; p += segment_words)
            if (at(p) && !sync(at(p))) {
                if (!is(Mutant::sync_tried_again)) store(failed, 1), lost = true;
                return false;
            }
        if (load(failed) && !is(Mutant::sync_tried_again)) return false;
        raise(synced, to);
        truth.acknowledged = std::max(truth.acknowledged, to + unit);
        return true;
    }
    void sync_all() {
        for (; since && !check(); yield())
            if (full && !at(end)) return truth.check(false, "J7", "a sync finds no room for its check");
        make_durable();
    }
    void write() {
        while (true) {
            lock();
            lost = false;
            if (load(boot_id) != boot)
                recover();
            else
                resume();
            if (load(failed) && !lost && !truth.broken) write_again();
            unlock();
            if (lost) continue;  // the next writer
            if (!truth.broken) compare_all();
            while (!lost) {
                const int what = quiet ? 10 : one_of(10);
                if (what < 7) {
                    if (append(2 + one_of(11))) continue;
                    if (full && random.one_in(4)) sync_all();
                    yield();
                } else if (what == 7) {
                    sync_all();
                } else {
                    for (int i = 0; i < 20; ++i) yield();
                }
            }
        }
    }
    // Resume after a kill (3.4).
    void resume() {
        const Position p = load_position(published);
        const Position q = is(Mutant::no_resume) ? p : load_position(claimed);
        Position r = p;
        while (r < q && at(r) && sound(word_at(r), r)) r += align(words_of(word_at(r)));
        File* file = at(r);
        if (r < q && file && is(Mutant::claimed_is_padded)) {
            store(file, r % segment_words, head(padding, static_cast<int>(q - r)));
            r = q;
        }
        if (file && !is(Mutant::claimed_stays))
            for (Position x = r; x < q; ++x) store(file, x % segment_words, 0);
        store_position(published, r);
        store_position(claimed, r);
        walk_from_check(load_position(checked), r);
    }
    void walk_from_check(Position from, Position to) {
        File* file = at(from);
        if (!file) return truth.check(false, "J8", "no check to go on from");
        count = (*file)[from % segment_words + 1];
        crc = 0, since = 0, end = from + unit;
        while (end < to) {
            file = at(end);
            const Word h = file ? (*file)[end % segment_words] : 0;
            if (!sound(h, end)) return truth.check(false, "J8", "a resume finds no record");
            if (type_of(h) == check_type) {
                crc = 0, since = 0;
                store_position(checked, end);
            } else {
                crc = add_span(*file, end, align(words_of(h)), crc);
                since += align(words_of(h));
                count += type_of(h) == message;
            }
            end += align(words_of(h));
        }
    }
    // The next writer after a failed sync (5).
    void store_again(Position from, Position to) {
        for (Position x = segment_of(from); x < to && !is(Mutant::not_written_again); ++x)
            if (File* file = at(x)) store(file, x % segment_words, (*file)[x % segment_words]);
    }
    void write_again() {
        store_again(position(synced), end);
        for (; since && !check(); yield()) continue;
        const Position to = position(checked);
        for (Position p = segment_of(position(synced)); p <= to; p += segment_words)
            if (at(p) && !sync(at(p))) return fail();
        raise(synced, to);
        truth.acknowledged = std::max(truth.acknowledged, to + unit);
        store(failed, 0);
    }

    // ---- after a power loss (7) ----

    struct Walk {
        Position from = 0, end = -1;
        Word count = 0;
        std::set<Position> passed;  // segments
    };
    // The walk from a durable check over what follows, as long as each check is right. hand_out: what a private reader
    // delivers on the way.
    Walk walk(bool hand_out) {
        Walk w;
        const Position start = std::max(position(synced), position(trimmed));
        File* file = at(start);
        const Word first = file ? word_at(start) : 0;
        if (first != head(check_type, unit) && first != head(cut_type, unit)) {
            truth.check(false, "J8", "no check where the walk begins");
            return w;
        }
        w.from = start;
        w.end = start + unit;
        w.count = (*file)[start % segment_words + 1];
        w.passed.insert(segment_of(start));
        Position p = first == head(cut_type, unit) ? start : w.end;
        Word span = 0, n = w.count;
        std::vector<Position> waiting;
        const auto give = [&] {
            if (hand_out)
                for (Position q : waiting) truth.deliver(*at(q), q);
            waiting.clear();
        };
        while ((file = at(p))) {
            const Position i = p % segment_words;
            const Word h = (*file)[i];
            w.passed.insert(segment_of(p));
            if (!sound(h, p)) break;
            if (type_of(h) == check_type) {
                const bool right =
                    (*file)[i + 2] == span && (*file)[i + 3] == crc_of(check_type, p, (*file)[i + 1], span);
                span = 0;
                if (right || (hand_out && is(Mutant::crc_not_looked_at))) {
                    w.end = p + unit;
                    n = w.count = (*file)[i + 1];
                    give();
                } else if (is(Mutant::last_right_check)) {
                    n = (*file)[i + 1];
                } else {
                    break;
                }
            } else if (type_of(h) == cut_type) {
                const Position next = static_cast<Position>((*file)[i + 2]);
                if ((*file)[i + 3] != crc_of(cut_type, p, (*file)[i + 1], static_cast<Word>(next))) break;
                if (next <= p || next % segment_words) {
                    truth.check(false, "J8", "a cut leads nowhere");
                    break;
                }
                waiting.clear();
                p = next;
                span = 0;
                continue;
            } else {
                span = add_span(*file, p, align(words_of(h)), span);
                if (type_of(h) == message) ++n, waiting.push_back(p);
            }
            p += align(words_of(h));
            if (is(Mutant::last_whole_record)) w.end = p, w.count = n;
        }
        if (is(Mutant::crc_not_looked_at)) give();
        return w;
    }
    void go_on(Position p, Position check, Word messages) {
        store_position(checked, check);
        store_position(claimed, p);
        store_position(published, p);
        end = p, count = messages, crc = 0, since = 0;
    }
    long count_at(Position p) {  // from the first record of its segment
        Position q = segment_of(p);
        File* file = at(q);
        long n = file ? static_cast<long>((*file)[1]) : 0;
        while (file && q < p) {
            const Word h = (*file)[q % segment_words];
            if (!sound(h, q)) {
                truth.check(false, "J8", "a gate leads nowhere");
                break;
            }
            n += type_of(h) == message;
            q += align(words_of(h));
        }
        return n;
    }
    void gates_after(Position c, Position h, Word messages) {
        for (int k = 0; k < consumers; ++k) {
            const Position g = position(consumer_word(k, gate));
            if (g > c && !is(Mutant::gates_stay))
                store_gate(k, h, static_cast<long>(messages));
            else if (g >= position(trimmed) && g <= c && !is(Mutant::not_counted_again))
                store_gate(k, g, g == c ? static_cast<long>(messages) : count_at(g));
        }
    }
    void recover() {
        const Walk w = walk(false);
        const Position c = w.end;
        if (truth.broken) return;
        if (is(Mutant::published_believed)) {
            resume();
            truth.cut(end);
            return store(boot_id, boot);
        }
        Position h = c;
        if (at(c))  // else nothing was ever written from c on
            for (const auto& e : folder.entries)
                if (at(e.name)) h = std::max(h, e.name + segment_words);
        if (is(Mutant::same_segment) || is(Mutant::same_segment_zeroed)) return recover_in_place(w, h);
        if (is(Mutant::boot_first)) truth.cut(c), store(boot_id, boot);
        store_position(ready, 0);
        if (!prepare(h, w.count, true)) return fail();
        if (load(failed)) store_again(w.from, c);
        gates_after(c, h, w.count);
        sync(control);
        if (c < h) {
            File* file = at(c);
            const Position i = c % segment_words;
            store(file, i + 1, w.count);
            store(file, i + 2, static_cast<Word>(h));
            store(file, i + 3, crc_of(cut_type, c, w.count, static_cast<Word>(h)));
            truth.cut(c);
            store(file, i, head(cut_type, unit));
        }
        if (!is(Mutant::cut_not_synced))
            for (Position q = segment_of(is(Mutant::cut_segment_synced) ? c : w.from); q <= c; q += segment_words)
                if (at(q) && !sync(at(q))) return fail();
        for (auto& e : folder.entries) {
            const bool beyond = e.name > c || (!w.passed.count(e.name) && !is(Mutant::leftovers_stay));
            const bool stray = e.name > w.from && e.name != h && beyond;
            if (e.file() && (stray || e.name + segment_words <= position(trimmed))) e.past.push_back(nullptr);
        }
        sync_folder();
        store_position(synced, h);
        go_on(h + unit, h, w.count);
        for (int k = 0; k < consumers; ++k)  // trim has passed them already, and no pair says what they lost
            excused[k] = counted(k) < 0 && position(consumer_word(k, gate)) < position(trimmed);
        store(failed, 0);
        sync(control);
        if (!is(Mutant::boot_first)) truth.cut(c), store(boot_id, boot);
    }
    // A sync of the writer has failed; the next writer tries again.
    void fail() {
        store(failed, 1);
        lost = true;
    }
    void recover_in_place(const Walk& w, Position h) {
        const Position c = w.end;
        if (at(c)) store(at(c), c % segment_words, 0);
        if (is(Mutant::same_segment_zeroed))
            for (Position q = c; q < h; ++q)
                if (at(q)) store(at(q), q % segment_words, 0);
        for (int k = 0; k < consumers; ++k)
            if (position(consumer_word(k, gate)) > c) store_gate(k, c, static_cast<long>(w.count));
        for (Position q = segment_of(w.from); q < h; q += segment_words)
            if (at(q)) sync(at(q));
        store_position(ready, segment_of(c) + segment_words);
        go_on(c, c - unit, w.count);
        truth.cut(c);
        store(boot_id, boot);
    }
    // All that is there now, against what must be there.
    void compare_all() {
        Position p = position(trimmed);
        const Position to = position(published);
        auto next = truth.committed.lower_bound(p);
        while (p < to && !truth.broken) {
            File* file = at(p);
            if (!file) return truth.check(false, "J2", "a segment is missing");
            const Position i = p % segment_words;
            const Word h = (*file)[i];
            if (!sound(h, p)) return truth.check(false, "J2", "no record where one should be");
            if (type_of(h) == message) {
                truth.deliver(*file, p);
                truth.check(next != truth.committed.end() && next->first == p, "J2", "a record is missing");
                if (!truth.broken) ++next;
            }
            if (type_of(h) == check_type)
                truth.check(static_cast<long>((*file)[i + 1]) == truth.before(p), "J6",
                            "the count of a check is wrong");
            p = type_of(h) == cut_type ? static_cast<Position>((*file)[i + 2]) : p + align(words_of(h));
        }
        truth.check(next == truth.committed.end() || next->first >= to, "J2", "a record is missing");
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
            const bool by_size = retained || random.one_in(60);
            const bool beyond = is(Mutant::trim_beyond_synced);
            Position x = segment_of(load_position(beyond ? published : synced));
            if (by_size && at(x - segment_words) && random.one_in(2)) x -= segment_words;
            if (beyond && (!at(x) || word_at(x) != head(check_type, unit))) continue;
            const auto lowest = [&] {
                for (int k = 0; k < consumers && !by_size; ++k)
                    if (load(consumer_word(k, kept)))
                        x = std::min(x, segment_of(load_position(consumer_word(k, gate))));
            };
            lowest();
            if (x <= load_position(trimmed)) continue;
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

const char both[] = "kills and power", errors[] = "failed syncs";
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
