// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/**
 * Publish and poll (channel.md 6.1 and 6.9): a poll finds nothing or the whole message. First number: what one poll
 * found. Second: the number of messages in the end.
 */
public class StressPublish {
    private StressPublish() {
    }

    /** Counts messages that are whole and in order; anything else makes the count negative permanently. */
    static final class Check implements MessageHandler {
        private static final int WRONG = -1_000_000;

        private long expected;
        private int seen;

        Check(long expected) {
            this.expected = expected;
        }

        @Override
        public void onMessage(Message message) {
            seen += SharedRing.is(message.buffer(), expected++) ? 1 : WRONG;
        }

        int seen() {
            return seen < 0 ? -1 : seen;
        }
    }

    /** The common part of these tests. */
    abstract static class Base {
        final SharedRing shared;
        final Check check;

        Base(SharedRing.Pool pool) {
            shared = pool.take();
            shared.subscriber();
            shared.publisher();
            while (shared.subscriber().poll(message -> { }) > 0) {
                Thread.onSpinWait(); // waits for the publisher's first store
            }
            check = new Check(shared.next);
        }

        int poll() {
            shared.subscriber().poll(check);
            return check.seen();
        }

        void end(SharedRing.Pool pool, II_Result r) {
            r.r2 = poll();
            pool.giveBack(shared);
        }
    }

    /** Publishes one message, short or long, by offer or by claim. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "nothing yet, or the whole message")
    @Outcome(expect = Expect.FORBIDDEN, desc = "torn, lost or doubled")
    @State
    public static class Whole extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** Prepares an empty ring. */
        public Whole() {
            super(POOL);
        }

        /** Publishes. */
        @Actor
        public void publisher() {
            shared.publish((shared.next & 2) == 0 ? SharedRing.SHORT : SharedRing.LONG);
        }

        /**
         * Polls once.
         *
         * @param r receives what it found.
         */
        @Actor
        public void reader(II_Result r) {
            r.r1 = poll();
        }

        /**
         * Polls the rest.
         *
         * @param r receives the number of messages.
         */
        @Arbiter
        public void end(II_Result r) {
            end(POOL, r);
        }
    }

    /** Publishes a batch of three messages (channel.md 6.3). */
    @JCStressTest
    @Outcome(id = {"0, 3", "3, 3"}, expect = Expect.ACCEPTABLE, desc = "nothing yet, or the whole batch")
    @Outcome(expect = Expect.FORBIDDEN, desc = "torn, lost or doubled, or a part of a batch")
    @State
    public static class Batch extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** Prepares an empty ring with room for a batch before its end. */
        public Batch() {
            super(POOL);
            shared.align(() -> shared.subscriber().poll(message -> { }));
            check.expected = shared.next;
        }

        /** Publishes. */
        @Actor
        public void publisher() {
            shared.publishBatch();
        }

        /**
         * Polls once.
         *
         * @param r receives what it found.
         */
        @Actor
        public void reader(II_Result r) {
            r.r1 = poll();
        }

        /**
         * Polls the rest.
         *
         * @param r receives the number of messages.
         */
        @Arbiter
        public void end(II_Result r) {
            end(POOL, r);
        }
    }

    /** A mutant of publish: stores the length, plain, before the payload. The test must detect it. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "nothing yet, or the whole message")
    @Outcome(id = {"-1, -1", "-1, 1"}, expect = Expect.ACCEPTABLE_INTERESTING, desc = "torn: the mutant is caught")
    @Outcome(expect = Expect.FORBIDDEN, desc = "nothing that the mutant does")
    @State
    public static class LengthFirstMutant {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        private final SharedRing shared;
        private final Check check;
        private volatile boolean done;

        /** Prepares an empty ring without a publisher. */
        public LengthFirstMutant() {
            shared = POOL.take();
            shared.subscriber();
            check = new Check(shared.next);
        }

        /** Publishes as Publisher does, except for the length. */
        @Actor
        public void publisher() {
            int record = SharedRing.LONG;
            Memory ring = shared.ring;
            long tail = ring.getLongOpaque(SharedRing.CAPACITY + Layout.TRAILER_PUBLISHED);
            int at = (int) tail & SharedRing.CAPACITY - 1;
            ring.putLongOpaque(SharedRing.CAPACITY + Layout.TRAILER_CLAIMED, tail + record);
            VarHandle.releaseFence();
            ring.putIntOpaque((int) (tail + record) & SharedRing.CAPACITY - 1, 0);
            ring.putInt(at, record); // the mutation: too early
            PayloadBuffer payload = new PayloadBuffer(ring);
            payload.move(ring.address() + at + Layout.RECORD_PAYLOAD, record - Layout.RECORD_HEADER_LENGTH);
            SharedRing.write(payload, record, shared.next++);
            ring.putInt(at + Layout.RECORD_TYPE, 1);
            ring.putLongRelease(SharedRing.CAPACITY + Layout.TRAILER_PUBLISHED, tail + record);
            done = true;
        }

        /**
         * Polls until there is something.
         *
         * @param r receives what it found.
         */
        @Actor
        public void reader(II_Result r) {
            try {
                do {
                    shared.subscriber().poll(check);
                } while (check.seen == 0 && !done);
            } catch (CorruptRingException e) { // the type was stored after the length, too
                check.seen = Check.WRONG;
            }
            r.r1 = check.seen();
        }

        /**
         * Polls the rest; does not use the ring again if it was found damaged.
         *
         * @param r receives the number of messages.
         */
        @Arbiter
        public void end(II_Result r) {
            if (check.seen >= 0) {
                shared.subscriber().poll(check);
                POOL.giveBack(shared);
            } else {
                shared.channel.close();
            }
            r.r2 = check.seen();
        }
    }
}
