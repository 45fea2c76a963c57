// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/**
 * Lossy reading (channel.md 6.10) of a message that is being overwritten: what is delivered is whole, and what is lost
 * is counted. First number: 1 for the message, 0 if it was lost. Second: 1 if delivered plus lost equals published.
 */
public class StressLossy {
    private StressLossy() {
    }

    /** Three long messages that are not read yet; the second one that follows overwrites the first. */
    abstract static class Base {
        final SharedRing shared;
        final long first;
        final long lostBefore;
        private long delivered;
        private boolean wrong;

        Base(SharedRing.Pool pool) {
            shared = pool.take();
            shared.publisher();
            shared.lossy();
            shared.align(this::drain);
            first = shared.next;
            lostBefore = shared.lossy().lostMessages(0);
            for (int i = 0; i < 3; i++) {
                shared.publish(SharedRing.LONG);
            }
        }

        final void drain() {
            for (int i = 0; i < 3; i++) {
                shared.lossy().poll(message -> { });
            }
        }

        void publishTwo() {
            shared.publish(SharedRing.LONG);
            shared.publish(SharedRing.LONG);
        }

        /** Counts a message as delivered and checks it. Returns the first number. */
        int delivered(PayloadBuffer payload) {
            long expected = first + delivered + shared.lossy().lostMessages(0) - lostBefore;
            delivered++;
            wrong |= !SharedRing.is(payload, expected);
            return wrong ? -1 : 1;
        }

        int account() {
            for (int i = 0; i < 3; i++) {
                shared.lossy().poll(message -> delivered(message.buffer()));
            }
            return !wrong && first + delivered + shared.lossy().lostMessages(0) - lostBefore == shared.next ? 1 : -1;
        }
    }

    /** Reads a copy by poll. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "lost and counted, or whole")
    @Outcome(expect = Expect.FORBIDDEN, desc = "torn, or a wrong count")
    @State
    public static class Poll extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** Prepares a ring that is about to be lapped. */
        public Poll() {
            super(POOL);
        }

        /** Laps the reader. */
        @Actor
        public void publisher() {
            publishTwo();
        }

        /**
         * Polls one message.
         *
         * @param r receives what it found.
         */
        @Actor
        public void reader(II_Result r) {
            shared.lossy().poll(message -> r.r1 = delivered(message.buffer()), 1);
        }

        /**
         * Polls the rest.
         *
         * @param r receives whether the count is right.
         */
        @Arbiter
        public void end(II_Result r) {
            r.r2 = account();
            POOL.giveBack(shared);
        }
    }

    /** Reads in place by peek, and uses the message only if valid returns true. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "lost and counted, or whole")
    @Outcome(expect = Expect.FORBIDDEN, desc = "torn, or a wrong count")
    @State
    public static class Peek extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** Prepares a ring that is about to be lapped. */
        public Peek() {
            super(POOL);
        }

        /** Laps the reader. */
        @Actor
        public void publisher() {
            publishTwo();
        }

        /**
         * Peeks at one message.
         *
         * @param r receives what it found.
         */
        @Actor
        public void reader(II_Result r) {
            Message message = shared.lossy().peek();
            if (message != null) {
                // read between the two calls: peek and valid both count losses, which changes the expected number
                boolean whole = SharedRing.is(message.buffer(),
                    first + shared.lossy().lostMessages(0) - lostBefore);
                if (shared.lossy().valid()) {
                    super.delivered++;
                    r.r1 = whole ? 1 : -1;
                }
            }
        }

        /**
         * Polls the rest.
         *
         * @param r receives whether the count is right.
         */
        @Arbiter
        public void end(II_Result r) {
            r.r2 = account();
            POOL.giveBack(shared);
        }
    }

    /** A mutant of the lossy read, without the lap test. The test must detect it. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "nothing, or whole")
    @Outcome(id = "-1, 1", expect = Expect.ACCEPTABLE_INTERESTING, desc = "torn: the mutant is caught")
    @Outcome(expect = Expect.FORBIDDEN, desc = "nothing that the mutant does")
    @State
    public static class NotAskedMutant extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** Prepares a ring that is about to be lapped. */
        public NotAskedMutant() {
            super(POOL);
        }

        /** Laps the reader. */
        @Actor
        public void publisher() {
            publishTwo();
        }

        /**
         * Peeks at one message and uses it without a test.
         *
         * @param r receives what it saw.
         */
        @Actor
        public void reader(II_Result r) {
            Message message = shared.lossy().peek();
            if (message != null) {
                r.r1 = SharedRing.is(message.buffer(), first) ? 1 : -1;
            }
        }

        /**
         * Polls the rest.
         *
         * @param r receives whether the count is right; the mutation does not affect it.
         */
        @Arbiter
        public void end(II_Result r) {
            r.r2 = account();
            POOL.giveBack(shared);
        }
    }
}
