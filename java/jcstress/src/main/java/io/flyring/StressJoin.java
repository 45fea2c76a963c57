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
 * Join (channel.md 6.4) during publishing to a ring that is full of an earlier lap's messages. The joiner must see no
 * message of that lap, and a suffix of the published messages without a gap. First number: 1 for messages during the
 * publishing, 0 for none, -1 for an old or torn message. Second: 1 if in the end everything from the first message on
 * was seen.
 */
public class StressJoin {
    private StressJoin() {
    }

    /** A ring full of old messages, long or short ones in turn, without a gate. */
    abstract static class Base {
        final SharedRing shared;
        final int record;
        /** The first message that is not of an earlier lap. */
        final long fresh;
        /** Whether the publisher has finished, so that the joiner can stop. */
        volatile boolean done;

        Base(SharedRing.Pool pool) {
            shared = pool.take();
            shared.publisher();
            shared.channel.slots().keep(0, true); // the lock is free: the slot would be retired after 1 ms
            shared.align(() -> { });
            record = (shared.next & 64) == 0 ? SharedRing.LONG : SharedRing.SHORT;
            for (int i = 0; i < SharedRing.CAPACITY / SharedRing.SHORT + 3; i++) {
                shared.publish(SharedRing.SHORT);
            }
            fresh = shared.next;
        }

        /** Publishes as many messages as fit; more than a lap if no subscriber joins. */
        void publishALap() {
            for (int i = 0; i < SharedRing.CAPACITY / record + 2; i++) {
                shared.publish(record);
            }
            done = true;
        }

        /** Waits for a varying time, so that the joiner comes at any moment of the publishing. */
        void stagger() {
            for (long i = fresh & 63; i > 0; i--) {
                Thread.onSpinWait();
            }
        }
    }

    /** The shipped join. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "a gapless suffix")
    @Outcome(expect = Expect.FORBIDDEN, desc = "a ghost, a gap or a torn message")
    @State
    public static class Suffix extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        private final RingReader reader;
        private long last;
        private boolean wrong;

        /** Prepares a ring of old messages. */
        public Suffix() {
            super(POOL);
            long epoch = shared.channel.control().getLongOpaque(
                shared.channel.header().subscriberSlot(0) + Layout.SUBSCRIBER_SLOT_EPOCH);
            Waker nobody = new Waker(shared.channel.slots().room(), false);
            reader = new RingReader(shared.channel, 0, 0, shared.data, shared.channel.trailers().get(0), nobody);
            reader.owner(epoch);
        }

        private int poll() {
            int seen = reader.poll(message -> {
                long sequence = SharedRing.sequence(message.buffer());
                wrong |= sequence < fresh || last != 0 && sequence != last + 1;
                last = sequence;
            }, Layout.DEFAULT_POLL_LIMIT);
            return wrong ? -1 : Math.min(seen, 1);
        }

        /** Publishes more than a lap, or as much as fits. */
        @Actor
        public void publisher() {
            publishALap();
        }

        /**
         * Joins and polls, as Joining does.
         *
         * @param r receives what it found.
         */
        @Actor
        public void joiner(II_Result r) {
            stagger();
            reader.gateAtPublished();
            RingReader.joinFence();
            reader.join(new MessageCount(shared.ring, shared.channel.header()));
            do {
                r.r1 = poll();
            } while (r.r1 == 0 && !done);
        }

        /**
         * Polls the rest and leaves.
         *
         * @param r receives whether nothing is missing.
         */
        @Arbiter
        public void end(II_Result r) {
            int more = poll();
            r.r2 = more >= 0 && reader.drained() && (last == 0 || last == shared.next - 1) ? 1 : -1;
            reader.stopGating();
            POOL.giveBack(shared);
        }
    }

    /** A mutant of join: joins at claimed instead of published. The test must detect it. */
    @JCStressTest
    @Outcome(id = {"0, 1", "1, 1"}, expect = Expect.ACCEPTABLE, desc = "nothing, or a new message")
    @Outcome(id = "-1, 1", expect = Expect.ACCEPTABLE_INTERESTING, desc = "a ghost: the mutant is caught")
    @Outcome(expect = Expect.FORBIDDEN, desc = "nothing that the mutant does")
    @State
    public static class AtClaimedMutant extends Base {
        private static final SharedRing.Pool POOL = new SharedRing.Pool();

        private final PayloadBuffer payload;

        /** Prepares a ring of old messages. */
        public AtClaimedMutant() {
            super(POOL);
            payload = new PayloadBuffer(shared.data);
        }

        /** Publishes more than a lap, or as much as fits. */
        @Actor
        public void publisher() {
            publishALap();
        }

        private long joinAtClaimed() {
            long claimed = shared.ring.getLongAcquire(SharedRing.CAPACITY + Layout.TRAILER_CLAIMED); // the mutation
            shared.ring.putLongRelease(SharedRing.CAPACITY + Header.gate(0), claimed);
            return claimed;
        }

        /**
         * Joins and reads the record at its cursor repeatedly.
         *
         * @param r receives what it found.
         */
        @Actor
        public void joiner(II_Result r) {
            while (r.r1 == 0 && !done) {
                joinAtClaimed();
                VarHandle.fullFence();
                int at = (int) joinAtClaimed() & SharedRing.CAPACITY - 1;
                int length = shared.data.getIntAcquire(at);
                if (length >= Layout.RECORD_HEADER_LENGTH) {
                    payload.move(shared.data.address() + at + Layout.RECORD_PAYLOAD,
                        length - Layout.RECORD_HEADER_LENGTH);
                    r.r1 = SharedRing.sequence(payload) >= fresh ? 1 : -1;
                }
            }
        }

        /**
         * Leaves.
         *
         * @param r receives 1.
         */
        @Arbiter
        public void end(II_Result r) {
            shared.ring.putLongRelease(SharedRing.CAPACITY + Header.gate(0), Layout.NOT_GATING);
            r.r2 = 1;
            POOL.giveBack(shared);
        }
    }
}
