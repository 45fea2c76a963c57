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
 * Room (channel.md 6.2 and 6.9, 4): a publisher of a full ring overwrites a message as soon as the reader's gate has
 * passed it, and not before. First number: whether the publisher found room. Second: what the reader read, 1 for the
 * whole message.
 */
public class StressGate {
    private static final int TRIES = 30;

    private StressGate() {
    }

    /**
     * Fills a ring with three long messages and a shorter one. The next message needs the place of the first.
     */
    abstract static class Base {
        final SharedRing shared;
        final long first;

        Base(SharedRing.Pool pool) {
            shared = pool.take();
            shared.subscriber();
            shared.align(this::drain);
            first = shared.next;
            for (int i = 0; i < 3; i++) {
                shared.publish(SharedRing.LONG);
            }
            shared.publish(SharedRing.LONG - SharedRing.SHORT);
            if (shared.publish(SharedRing.SHORT)) {
                throw new IllegalStateException("the ring is not full");
            }
        }

        void drain() {
            while (shared.subscriber().poll(message -> { }) > 0) {
                Thread.onSpinWait();
            }
        }

        void publish(II_Result r) {
            for (int i = 0; r.r1 == 0 && i < TRIES; i++) {
                r.r1 = shared.publish(SharedRing.LONG - SharedRing.SHORT) ? 1 : 0;
            }
        }
    }

    /** Flyring's own reader. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "the message was whole until it was given up")
    @Outcome(expect = Expect.FORBIDDEN, desc = "overwritten while it was read")
    @State
    public static class Room extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** Prepares a full ring. */
        public Room() {
            super(POOL);
        }

        /**
         * Publishes as soon as there is room.
         *
         * @param r receives whether there was room.
         */
        @Actor
        public void publisher(II_Result r) {
            publish(r);
        }

        /**
         * Reads one message.
         *
         * @param r receives whether the message was whole.
         */
        @Actor
        public void reader(II_Result r) {
            shared.subscriber().poll(message -> r.r2 = SharedRing.is(message.buffer(), first) ? 1 : -1, 1);
        }

        /**
         * Empties the ring.
         *
         * @param r not changed.
         */
        @Arbiter
        public void end(II_Result r) {
            drain();
            POOL.giveBack(shared);
        }
    }

    /** A mutant of poll: stores the gate before it reads the message. The test must detect it. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "the message was whole")
    @Outcome(id = "1, -1", expect = Expect.ACCEPTABLE_INTERESTING, desc = "overwritten: the mutant is caught")
    @Outcome(expect = Expect.FORBIDDEN, desc = "nothing that the mutant does")
    @State
    public static class GateFirstMutant extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        /** Prepares a full ring. */
        public GateFirstMutant() {
            super(POOL);
        }

        /**
         * Publishes as soon as there is room.
         *
         * @param r receives whether there was room.
         */
        @Actor
        public void publisher(II_Result r) {
            publish(r);
        }

        /**
         * Reads one message after it has stored the gate behind it.
         *
         * @param r receives whether the message was whole.
         */
        @Actor
        public void reader(II_Result r) {
            shared.subscriber().poll(message -> {
                // the mutation: too early
                shared.ring.putLongRelease(SharedRing.CAPACITY + Header.gate(0), message.position() + SharedRing.LONG);
                for (int i = 0; i < TRIES; i++) {
                    Thread.onSpinWait(); // gives the publisher time; without it some runs see nothing
                }
                r.r2 = SharedRing.is(message.buffer(), first) ? 1 : -1;
            }, 1);
        }

        /**
         * Empties the ring.
         *
         * @param r not changed.
         */
        @Arbiter
        public void end(II_Result r) {
            drain();
            POOL.giveBack(shared);
        }
    }
}
