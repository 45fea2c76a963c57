// SPDX-License-Identifier: Apache-2.0
//
// The writer and the helper of the journal's model: append, check, sync, resume, recovery (journal.md 3 to 5, and 7).
#pragma once
#include "journal_files.hpp"

namespace model {

class JournalWriter : public JournalFiles {
  protected:
    using JournalFiles::JournalFiles;

    void help() {
        while (load(boot_id) != boot) continue;
        for (;; yield()) {
            if (scenario.pushes) continue;
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
    Position last = 0;  // the last message

    bool is_ready(Position p) { return at(p) && load_position(ready) >= segment_of(p) + segment_words; }
    void announce(Position p) {
        if (position(claimed) < p) store_position(claimed, p);
    }
    // Commits the record at the end, and advances.
    void publish(int type, int words) {
        File* file = at(end);
        const Position p = end;
        if (type == message) {
            truth.committed[p] = static_cast<int>(truth.words.size()) - 1;
            if (scenario.pushes) truth.pushed_at[p] = steps;
            last = p;
        }
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
        note_synced();
        return true;
    }
    void sync_all() {
        for (; since && !check(); yield())
            if (full && !at(end)) return truth.check(false, "J7", "a sync finds no room for its check");
        make_durable();
    }
    // Takes the slot.
    void take() {
        lock();
        lost = false;
        const bool foreign = load(boot_id) != boot;
        if (foreign)
            recover();
        else
            resume();
        if (foreign && scenario.pushes && !lost && !truth.broken)  // J9 counts on it
            truth.acknowledged = std::max(truth.acknowledged, position(synced));
        if (load(failed) && !lost && !truth.broken) write_again();
        unlock();
    }
    void write() {
        while (true) {
            take();
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
    // Pushes (5): each takes the slot, appends, does what a helper would do, and gives the slot back.
    void push_on() {
        while (true) {
            take();
            if (lost || truth.broken) continue;
            if (random.one_in(4)) compare_all();
            if (!quiet) push(2 + one_of(11));
            for (std::uint64_t i = random.below(quiet ? 20 : 60); i--;) yield();
        }
    }
    bool append_prepared(int words) {
        if (append(words)) return true;
        const Position next = segment_of(end + segment_words - 1);
        return (!full || at(next)) && prepare(next, 0, false) && append(words);
    }
    void push(int words) {
        if (!append_prepared(words)) {
            if (!full) return;  // a sync of the next segment has failed
            trim_once(retained);
            if (!append_prepared(words)) return;
        }
        const bool first = last % segment_words == unit;
        const bool behind = segment_of(load_position(checked)) > segment_of(load_position(synced));
        const long now = steps;
        const long since = wall_clock() - static_cast<long>((*times)[0]);
        const bool future = since < 0 && !is(Mutant::push_believes_the_future);
        const bool time = every && (future || since >= every);
        if (!is(Mutant::push_never_syncs) && ((behind && (first || !is(Mutant::push_forgets_another))) || time)) {
            if (!behind) truth.check(excused_early || now - noted_at >= every, "J9", "a push syncs before that is due");
            sync_all();
        }
        if (lost) return;
        // The clock counts from n after it was set.
        for (const auto& [p, id] : truth.committed) {
            const bool long_ago = every && now - set_at >= every && truth.pushed_at[p] < now - every;
            truth.check(p < truth.acknowledged || !(long_ago || segment_of(p) < segment_of(last)), "J9",
                        "a push returns, and what was pushed long before is not durable");
        }
        if (first) trim_once(retained);
    }
    virtual void trim_once(bool by_size) = 0;

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
        note_synced();
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
};

}  // namespace model
