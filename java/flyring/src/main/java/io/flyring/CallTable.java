// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The outstanding calls of a client, by sequence and in the order of their start (service.md 6). */
final class CallTable {
    private static final int FIRST_BUCKETS = 16;

    /** The calls by sequence, each chained to the next one of its bucket. */
    private Call[] buckets = new Call[FIRST_BUCKETS];
    /**
     * The sequences of the first and the last call; 0 if there is none. The order is kept in numbers: to store a
     * reference to a young object into an old one makes G1 execute a full fence, which waits for all stores before it.
     */
    private int first;
    private int last;
    private int size;
    /** The sequence of the last call that was added. */
    private int sequence;

    int size() {
        return size;
    }

    /** The call that was started first; null if none is outstanding. */
    Call first() {
        return first == 0 ? null : find(first);
    }

    /** The call that was started after an outstanding one; null if there is none. */
    Call behind(Call call) {
        return call.behind == 0 ? null : find(call.behind);
    }

    /** The next sequence: neither 0 nor outstanding. It counts as used once its call is added. */
    int next() {
        int next = sequence + 1;
        while (next == 0 || find(next) != null) {
            next++;
        }
        return next;
    }

    Call find(int number) {
        Call call = buckets[number & buckets.length - 1];
        while (call != null && call.sequence != number) {
            call = call.nextOfBucket;
        }
        return call;
    }

    void add(Call call) {
        if (size >= buckets.length) {
            grow();
        }
        sequence = call.sequence;
        call.outstanding = true;
        call.before = last;
        call.behind = 0;
        if (last != 0) {
            find(last).behind = sequence;
        } else {
            first = sequence;
        }
        last = sequence;
        size++;
        link(buckets, call);
    }

    private static void link(Call[] into, Call call) {
        int bucket = call.sequence & into.length - 1;
        call.nextOfBucket = into[bucket];
        into[bucket] = call;
    }

    private void grow() {
        Call[] wider = new Call[2 * buckets.length];
        for (Call call : buckets) {
            while (call != null) {
                Call next = call.nextOfBucket;
                link(wider, call);
                call = next;
            }
        }
        buckets = wider;
    }

    void remove(Call call) {
        int bucket = call.sequence & buckets.length - 1;
        if (buckets[bucket] == call) {
            buckets[bucket] = call.nextOfBucket;
        } else {
            Call one = buckets[bucket];
            while (one.nextOfBucket != call) {
                one = one.nextOfBucket;
            }
            one.nextOfBucket = call.nextOfBucket;
        }
        if (call.before != 0) {
            find(call.before).behind = call.behind;
        } else {
            first = call.behind;
        }
        if (call.behind != 0) {
            find(call.behind).before = call.before;
        } else {
            last = call.before;
        }
        call.nextOfBucket = null;
        call.outstanding = false;
        size--;
    }
}
