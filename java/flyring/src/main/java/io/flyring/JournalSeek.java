// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Arrays;

/** Finds places in a journal (journal.md 3.3, "Where to begin"). A position is walked to, never believed. */
final class JournalSeek {
    private static final long ANY = Long.MAX_VALUE;
    private static final int UNIT = JournalFile.ALIGNMENT;
    private static final int PAGE = 4096;

    private final JournalFile file;
    private final boolean durable;
    private final long segmentSize;
    private final JournalRecord record = new JournalRecord();
    /** Whether a walk has ended at a message of the number or the time. */
    private boolean found;

    /**
     * A place to read on from.
     *
     * @param number how many messages lie before the position.
     * @param spanStart the end of the last check before it, or the beginning of a segment that is to be entered.
     * @param spanNumber how many messages lie before that.
     * @param cuts how many cuts led here.
     */
    record Place(long position, long number, long spanStart, long spanNumber, int cuts) {
    }

    JournalSeek(JournalFile file, boolean durable) {
        this.file = file;
        this.durable = durable;
        this.segmentSize = file.segmentSize;
    }

    private static Place atSegment(long base, long number, int cuts) {
        return new Place(base, number, base, number, cuts);
    }

    /** Up to where records can be believed to be records; without an end in another boot. */
    private long limit() {
        if (durable) {
            return file.synced() + JournalRecord.CHECK;
        }
        final long published = file.published();
        return !file.isOfBoot() ? Layout.MAX_POSITION : JournalFile.isPosition(published) ? published : 0;
    }

    /**
     * The end of what is committed. Records may lie above {@code published} for a moment, or until there is another
     * writer (append 5 and 6), and a tail hands them out: so a start that a reader has from a message may lie there.
     */
    private long committed() {
        final long published = limit();
        if (durable || !file.isOfBoot()) {
            return published;
        }
        final long base = file.segmentOf(published);
        try (JournalSegment segment = JournalSegment.open(file, base, true)) {
            final Memory memory = segment == null ? null : segment.map();
            long end = published;
            while (memory != null && end < base + segmentSize) {
                final int at = (int) (end - base);
                final int length = memory.getIntAcquire(at); // pairs with: append 5
                if (!JournalRecord.isSound(length, memory.getInt(at + Layout.RECORD_TYPE), at, segmentSize)) {
                    break;
                }
                end += JournalRecord.size(length);
            }
            return end;
        }
    }

    /** The journal's end. */
    Place newest() {
        if (!file.isOfBoot() && !durable) {
            return proven();
        }
        final long checked = durable ? file.synced() : file.checked(); // first: what is published reaches behind it
        final long published = limit();
        if (JournalFile.isPosition(checked) && checked < published) {
            final Place place = walk(checked, published, ANY, ANY, ANY);
            if (place != null && place.position == published) {
                return place;
            }
        }
        final long base = file.segmentOf(Math.max(0, published - 1));
        final Place place = walk(base, published, ANY, ANY, ANY);
        if (place == null || place.position != published) {
            if (base < file.trimmed()) { // it was trimmed meanwhile
                return oldest();
            }
            throw new DamagedException(place == null ? base : place.position, published, -1,
                "the end cannot be walked to", file.path);
        }
        return place;
    }

    /** Where the journal begins, which may move meanwhile. */
    private Place oldest() {
        long trimmed = file.trimmed();
        while (!readRecord(trimmed) || !record.isCheck(trimmed) && !record.isCut(trimmed, segmentSize)) {
            final long before = trimmed;
            trimmed = file.trimmed();
            if (trimmed == before) { // its first check is damaged
                final Place right = rightCheck(trimmed, limit());
                if (right != null) {
                    return right;
                }
                throw new DamagedException(trimmed, Math.max(trimmed, limit()), -1,
                    "a segment begins with no right check", file.path);
            }
        }
        return atSegment(trimmed, record.count(), 0);
    }

    /** The end of what right checks prove, in another boot. */
    private Place proven() {
        final long begin = Math.max(file.synced(), file.trimmed());
        if (!readRecord(begin) || !record.isCheck(begin) && !record.isCut(begin, segmentSize)) {
            throw file.corrupt(begin, "no check where the durable part ends");
        }
        long count = record.count();
        long p = record.isCheck(begin) ? begin + JournalRecord.CHECK : begin;
        try (JournalWalk walk = new JournalWalk(file)) {
            while (true) {
                final JournalWalk.Found found = walk.next(p, Layout.MAX_POSITION);
                if (found == JournalWalk.Found.RIGHT) {
                    p = walk.check() + JournalRecord.CHECK;
                    count = walk.record.count();
                } else if (found == JournalWalk.Found.CUT) {
                    p = walk.record.next();
                } else {
                    return atSegment(p, count, 0);
                }
            }
        }
    }

    private boolean readRecord(long position) {
        return JournalSegment.readRecord(file, file.segmentOf(position), position, record);
    }

    /**
     * Where reading goes on from a position; null if no walk leads there: its segment, or a span before it, is damaged
     * or missing, and no cut leads over it.
     *
     * @param strict whether a position that is none is an error of the caller's; else of the file.
     */
    Place position(long position, boolean strict) {
        final long claimed = file.word(Layout.JOURNAL_CONTROL_CLAIMED);
        final long published = limit();
        final long limit = strict && position > published ? committed() : published;
        if (position > limit && (strict || position > claimed)) {
            throw noPosition(position, strict, "it lies behind the journal's end, " + limit);
        }
        final long base = file.segmentOf(position);
        if (!JournalSegment.readFirst(file, base, record)) {
            if (position == base && position == limit) { // the writer has not made it yet
                final Place newest = newest();
                return newest.position == position ? atSegment(base, newest.number, 0) : null;
            }
            return cutBefore(position);
        }
        Place place = position == base && record.isCheck(base) ? atSegment(base, record.count(), 0)
            : walk(base, Math.max(limit, position), position, ANY, ANY);
        long from = base;
        while (place == null || place.position < position) { // something is damaged on the way
            from = place == null ? from : Math.max(from, place.position);
            final Place right = rightCheck(from, position);
            if (right == null && file.isOfBoot()) {
                return null;
            }
            if (right == null) { // what lies there waits for the recovery
                return place == null ? new Place(position, 0, from, 0, 0)
                    : new Place(position, place.number, place.spanStart, place.spanNumber, place.cuts);
            }
            from = right.position;
            place = walk(right.position - JournalRecord.CHECK, Math.max(limit, position), position, ANY, ANY);
        }
        if (place.position > position && place.cuts == 0) {
            throw noPosition(position, strict, "it lies within a record");
        }
        return place;
    }

    private FlyringException noPosition(long position, boolean strict, String why) {
        return strict ? JournalStart.invalid("The position " + position + " of " + file.path + " is none: " + why + ".")
            : file.corrupt(position, "the gate is no position: " + why);
    }

    /** The message with a number. */
    Place number(long number) {
        if (number < 0) {
            throw JournalStart.invalid("The number " + number + " is negative.");
        }
        final Place place = search(number, ANY);
        if (number > place.number) {
            throw JournalStart.invalid("The number " + number + " lies behind the end of " + file.path + ", which has "
                + place.number + " messages.");
        }
        return place;
    }

    /** The first message that is not older than a time. */
    Place time(long time) {
        return search(ANY, time);
    }

    /** The first message of a number or a time, or behind it if it is damaged; else the end. */
    private Place search(long number, long time) {
        final long end = file.isOfBoot() || durable ? committed() : proven().position;
        long from = segmentFor(number, time, end);
        while (true) {
            found = false;
            final Place place = walk(from, end, ANY, number, time);
            final long at = place == null ? from : place.position;
            if (place != null && (found || at >= end)) {
                return place;
            }
            if (file.segmentOf(at) < file.trimmed()) { // it was trimmed meanwhile
                return oldest();
            }
            final Place right = rightCheck(at, end); // what is damaged lies in front of the wanted place
            if (right == null || right.position <= from + JournalRecord.CHECK) {
                throw new DamagedException(at, end, -1, "no record where one should be", file.path);
            }
            from = right.position - JournalRecord.CHECK;
        }
    }

    /** The last segment whose first check has at most this number, or a smaller time; else the oldest one. */
    private long segmentFor(long number, long time, long end) {
        final long trimmed = file.trimmed();
        final long[] all = Arrays.stream(file.segments()).filter(base -> base >= trimmed && base < end).toArray();
        int low = 0; // the answer lies in [low, high)
        int high = all.length;
        while (high - low > 1) {
            final int middle = low + high >>> 1;
            if (isBefore(all, low, middle, number, time)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        while (low > 0 && !hasFirstCheck(all[low])) { // what is wanted may lie before it
            low--;
        }
        return all.length == 0 ? trimmed : all[low];
    }

    /** Whether a segment lies before the wanted place. One without a first check counts as the one before. */
    private boolean isBefore(long[] all, int low, int at, long number, long time) {
        for (int i = at; i > low; i--) {
            if (hasFirstCheck(all[i])) {
                return number != ANY ? record.count() <= number : record.time() < time;
            }
        }
        return true;
    }

    /** Whether a segment begins with a right check, which is in {@link #record} then. A cut has no time. */
    private boolean hasFirstCheck(long base) {
        return JournalSegment.readFirst(file, base, record) && record.isCheck(base);
    }

    /**
     * Walks from a check, or the first record of a segment, to a position, a number or a time, or as far as there are
     * records. Null if there is no check or cut where it begins.
     */
    private Place walk(long begin, long limit, long position, long number, long time) {
        try (JournalBytes bytes = new JournalBytes(file)) {
            long p = begin;
            long count = -1;
            long spanStart = begin;
            long spanNumber = 0;
            int cuts = 0;
            while (p < limit && p < position) {
                final int at = bytes.load(p, p, JournalRecord.CHECK, limit);
                final int length = at < 0 ? 0 : bytes.memory().getInt(at);
                final int type = at < 0 ? 0 : bytes.memory().getInt(at + Layout.RECORD_TYPE);
                final long size = JournalRecord.size(length);
                if (length == 0 || !JournalRecord.isSound(length, type, p & segmentSize - 1, segmentSize)) {
                    break;
                }
                if (type == Layout.JOURNAL_TYPE_CUT) {
                    if (!record.read(bytes.memory(), at).isCut(p, segmentSize)) {
                        break;
                    }
                    count = record.count();
                    p = record.next();
                    cuts++;
                    spanStart = p;
                    spanNumber = count;
                    if (position != ANY) {
                        break;
                    }
                    continue;
                }
                if (type == Layout.JOURNAL_TYPE_CHECK) {
                    if (!record.read(bytes.memory(), at).isCheck(p)) {
                        break;
                    }
                    count = record.count();
                    spanStart = p + size;
                    spanNumber = count;
                } else if (count < 0) {
                    return null;
                } else if (type > 0) {
                    if (count >= number
                        || time != ANY && bytes.memory().getLong(at + Layout.JOURNAL_RECORD_TIME) >= time) {
                        found = true;
                        break;
                    }
                    count++;
                }
                p += size;
            }
            if (position != ANY && p == position && cuts == 0 && isCutAt(p, limit, bytes)) { // counts as its next
                return atSegment(record.next(), record.count(), 1);
            }
            return count < 0 ? null : new Place(p, count, spanStart, spanNumber, cuts);
        }
    }

    private boolean isCutAt(long p, long limit, JournalBytes bytes) {
        final int at = p < limit ? bytes.load(p, p, JournalRecord.CHECK, limit) : -1;
        return at >= 0 && record.read(bytes.memory(), at).isCut(p, segmentSize);
    }

    /** Where a cut at or before a position leads, if that is behind the position; else null. */
    Place cutBefore(long position) {
        final long base = file.wholeAtOrBelow(position);
        if (base < 0) {
            return null;
        }
        final Place place = walk(base, Layout.MAX_POSITION, position + UNIT, ANY, ANY);
        return place != null && place.cuts > 0 && place.position > position ? place : null;
    }

    /**
     * The next check from a place on that is right by its own crc: at each multiple of 64 of its segment, and at the
     * start of each later one.
     *
     * @return the place behind the check; null if there is none below {@code limit}.
     */
    Place rightCheck(long from, long limit) {
        final long base = file.segmentOf(from);
        final long end = Math.min(base + segmentSize, limit);
        try (JournalBytes bytes = new JournalBytes(file)) {
            long p = from;
            while (p + JournalRecord.CHECK <= end) {
                final int at = bytes.load(p, p, JournalRecord.CHECK, end);
                if (at == JournalBytes.MISSING) {
                    break;
                }
                if (at < 0) { // a bad sector
                    bytes.forget();
                    p = (p & -PAGE) + PAGE;
                    continue;
                }
                if (bytes.memory().getInt(at + Layout.RECORD_TYPE) == Layout.JOURNAL_TYPE_CHECK
                    && record.read(bytes.memory(), at).isCheck(p)) {
                    return behindCheck(p);
                }
                p += UNIT;
            }
        }
        for (long next : file.segments()) {
            if (next > base && next < limit && JournalSegment.readFirst(file, next, record) && record.isCheck(next)) {
                return behindCheck(next);
            }
        }
        return null;
    }

    private Place behindCheck(long p) {
        final long behind = p + JournalRecord.CHECK;
        return atSegment(behind, record.count(), 0);
    }
}
