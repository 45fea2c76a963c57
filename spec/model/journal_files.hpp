// SPDX-License-Identifier: Apache-2.0
//
// The files, words, locks and processes of the journal's model, and its segments (journal.md 2, 4). What the processes
// do is in journal_writer.hpp and journal.cpp.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "journal_table.hpp"
#include "journal_world.hpp"
#include "search.hpp"

namespace model {

class JournalFiles {
  public:
    Truth truth;
    long steps = 0;

    JournalFiles(const JournalScenario& scenario, JournalMutant mutant, std::uint64_t seed)
        : scenario(scenario), mutant(mutant), random(seed), sector(seed % 2 ? 1 : 4) {
        running = this;
        control = new_file(first_consumer + consumer_words * consumers + 2);
        control->set(boot_id, boot);
        control->set(claimed, unit);
        control->set(published, unit);
        control->set(ready, segment_words);
        File* first = new_file(segment_words);
        first->set(3, crc_of(check_type, 0, 0, 0));
        first->set(0, head(check_type, unit));
        folder.entries.push_back({0, {first}});
        if (scenario.pushes) {
            times = new_file(4);
            every = seed % 3 ? 400 : 0;
        }
        for (auto& file : files) file->make_durable(file->mark());
    }

    virtual ~JournalFiles() = default;
    JournalFiles(const JournalFiles&) = delete;
    JournalFiles& operator=(const JournalFiles&) = delete;

  protected:
    using Mutant = JournalMutant;
    enum { writer, helper, consumer_0, consumer_1, trimmer, reader, actors };

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
    // Of pushes. A time is a number of steps; the wall clock is wrong by `shift`, which changes now and then.
    File* times = nullptr;  // synced_at: a page of its own, which no sync reaches
    long every = 0;         // sync_every
    long shift = 0, set_at = 0;
    long noted_at = 0;          // when synced_at was stored
    bool excused_early = true;  // the next sync may come before its time: the clock was set, or a process was lost

    // What process `me` does until it is killed.
    virtual void run_process() = 0;
    static void enter() { running->run_process(); }

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
        excused_early = excused_early || i == writer;
        start(i);
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
    long wall_clock() const { return 100000 + steps + shift; }
    // Sync 4.
    void note_synced() {
        if (!times) return;
        noted_at = steps;
        excused_early = false;
        if (!is(Mutant::push_keeps_no_time)) store(times, 0, static_cast<Word>(wall_clock()));
    }
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

  private:
    static inline JournalFiles* running = nullptr;  // for the entry of a fiber
};

}  // namespace model
