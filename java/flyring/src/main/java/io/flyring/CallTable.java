// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The outstanding calls of a client, by sequence and in the order of their start (service.md 6). */
final class CallTable {
    private static final int FIRST_BUCKETS = 16;

    private Call[] buckets = new Call[FIRST_BUCKETS];
    private Call first;
    private Call last;
    private int size;
    /** The sequence of the last call that was added. */
    private int sequence;

    int size() {
        return size;
    }

    Call first() {
        return first;
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
        call.behind = null;
        if (last != null) {
            last.behind = call;
        } else {
            first = call;
        }
        last = call;
        size++;
        link(call);
    }

    private void link(Call call) {
        int bucket = call.sequence & buckets.length - 1;
        call.nextOfBucket = buckets[bucket];
        buckets[bucket] = call;
    }

    private void grow() {
        buckets = new Call[2 * buckets.length];
        for (Call call = first; call != null; call = call.behind) {
            link(call);
        }
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
        if (call.before != null) {
            call.before.behind = call.behind;
        } else {
            first = call.behind;
        }
        if (call.behind != null) {
            call.behind.before = call.before;
        } else {
            last = call.before;
        }
        call.nextOfBucket = null;
        call.before = null;
        call.behind = null;
        call.outstanding = false;
        size--;
    }
}
