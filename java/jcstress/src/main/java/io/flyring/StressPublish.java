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
 * Publish and poll, spec 6.1 and 6.9: nothing, or the whole message. First number: what one poll found; second: how
 * many messages there were in the end.
 */
public class StressPublish {
    private StressPublish() {
    }

    /** Counts messages that are whole and in order; anything else makes it negative for good. */
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

    /** What these tests have in common. */
    abstract static class Base {
        final SharedRing shared;
        final Check check;

        Base(SharedRing.Pool pool) {
            shared = pool.take();
            shared.subscriber();
            shared.publisher();
            while (shared.subscriber().poll(message -> { }) > 0) {
                Thread.onSpinWait(); // what the publisher said first
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

    /** One message, short or long, by offer or by claim. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "nothing yet, or the whole message")
    @Outcome(expect = Expect.FORBIDDEN, desc = "torn, lost or doubled")
    @State
    public static class Whole extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** An empty ring. */
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
         * @param r gets what it found.
         */
        @Actor
        public void reader(II_Result r) {
            r.r1 = poll();
        }

        /**
         * Polls the rest.
         *
         * @param r gets how many there were.
         */
        @Arbiter
        public void end(II_Result r) {
            end(POOL, r);
        }
    }

    /** A batch of three: spec 6.3. */
    @JCStressTest
    @Outcome(id = {"0, 3", "3, 3"}, expect = Expect.ACCEPTABLE, desc = "nothing yet, or the whole batch")
    @Outcome(expect = Expect.FORBIDDEN, desc = "torn, lost or doubled, or a part of a batch")
    @State
    public static class Batch extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** An empty ring that holds a batch before its end. */
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
         * @param r gets what it found.
         */
        @Actor
        public void reader(II_Result r) {
            r.r1 = poll();
        }

        /**
         * Polls the rest.
         *
         * @param r gets how many there were.
         */
        @Arbiter
        public void end(II_Result r) {
            end(POOL, r);
        }
    }

    /** A mutant of publish: the length with a plain store before the payload. It must be seen. */
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

        /** An empty ring without a publisher. */
        public LengthFirstMutant() {
            shared = POOL.take();
            shared.subscriber();
            check = new Check(shared.next);
        }

        /** Publishes as Publisher does, but for the length. */
        @Actor
        public void publisher() {
            int record = SharedRing.LONG;
            Memory ring = shared.ring;
            long tail = ring.getLongOpaque(SharedRing.CAPACITY + Layout.TRAILER_PUBLISHED);
            int at = (int) tail & SharedRing.CAPACITY - 1;
            ring.putLongOpaque(SharedRing.CAPACITY + Layout.TRAILER_CLAIMED, tail + record);
            VarHandle.releaseFence();
            ring.putIntOpaque((int) (tail + record) & SharedRing.CAPACITY - 1, 0);
            ring.putInt(at, record); // not here
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
         * @param r gets what it found.
         */
        @Actor
        public void reader(II_Result r) {
            try {
                do {
                    shared.subscriber().poll(check);
                } while (check.seen == 0 && !done);
            } catch (CorruptRingException e) { // the type, too, came after the length
                check.seen = Check.WRONG;
            }
            r.r1 = check.seen();
        }

        /**
         * Polls the rest; a shared whose ring was found damaged is not used again.
         *
         * @param r gets how many there were.
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
