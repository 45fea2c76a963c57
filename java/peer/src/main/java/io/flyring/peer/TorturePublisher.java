// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Claim;
import io.flyring.Holder;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.agrona.DirectBuffer;

/** The publisher of the SIGKILL torture test (interop-tests/torture/WORKER.md). */
final class TorturePublisher extends TortureWorker {
    private static final long LOOK_AGAIN = 1_000_000; // ns until the binding must test for the dead: 6.2, 4

    private final byte[] filler;
    private final long publisher;
    private final int maxLag;
    private long epoch;
    private long sequence;
    private int most; // bytes of the longest message

    // Measures how long a dead subscriber holds the publisher back
    private int dead; // the dead subscriber's slot; -1 if there is none
    private long deadSince;
    private long delay;
    private long offers;
    private long looks; // offers in which the binding must test for dead subscribers
    private long due; // when the next such offer is due
    private long tried; // when the last offer began

    TorturePublisher(Map<String, String> orders) throws IOException {
        super(orders);
        publisher = publisherNumber(orders.get("name"));
        maxLag = Integer.parseInt(orders.get("max_lag"));
        filler = new byte[channel.capacity() / 4];
        random.nextBytes(filler);
    }

    private int length() {
        int dice = below(100);
        return dice < 25 ? HEADER : dice < 75 ? HEADER + below(100)
            : dice < 97 ? HEADER + below(most / 4) : most - below(2) * below(9);
    }

    private byte[] message(int length, long sequenceNumber) {
        byte[] message = new byte[length];
        System.arraycopy(filler, 0, message, 0, length);
        ByteBuffer words = ByteBuffer.wrap(message).order(ByteOrder.LITTLE_ENDIAN);
        words.putInt(4, length).putLong(8, publisher + number(fault("name")))
            .putLong(16, epoch + number(fault("epoch"))).putLong(24, sequenceNumber);
        if (length >= HEADER + Long.BYTES) {
            words.putLong(length - Long.BYTES, sequenceNumber);
        }
        words.putInt(0, checksum(message));
        if (fault("torn")) {
            message[length - 1] ^= 1;
        }
        return message;
    }

    @Override
    void session() {
        attempted(0);
        enter(orders.get("recovering").equals("1") ? Phase.RECOVERING : Phase.TAKING, 2);
        Publisher publisher = channel.publisher(orders.get("name"), maxLag);
        linger(2);
        publisher.heldBy(); // part of the measurement, as moment()
        orders.put("recovering", "0");
        epoch = publisher.epoch();
        sequence = 0;
        most = publisher.maxMessageLength();
        log(Entry.TAKEN, publisher.ring(), epoch, publisher.position(), System.nanoTime(), this.publisher,
            maxLag);
        phase(Phase.WORKING);
        for (int n = below(10) == 0 ? below(20) : below(600); n > 0 && !stopped() && !full(); n--) {
            int dice = below(10);
            if (dice < 4) {
                offer(publisher);
            } else if (dice < 8) {
                claim(publisher, dice == 7);
            } else {
                batch(publisher, 1 + below(16));
            }
            phase(Phase.WORKING);
            if (below(maxLag != 0 ? 2 : 16) == 0) {
                nap(below(1_000_000));
            }
            if (fault("skip")) {
                sequence++;
            }
            if (fault("lost")) {
                attempted(sequence + 1);
                acknowledge(1, publisher.position());
            }
        }
        long leaves = System.nanoTime();
        enter(Phase.CLOSING, 2);
        publisher.close();
        linger(2);
        log(Entry.CLOSED, sequence, 0, 0, leaves);
        phase(Phase.WORKING);
    }

    /** Tries until the attempt succeeds, or until it is time to stop. Spins while a dead subscriber holds it back. */
    private void insist(Publisher publisher, BooleanSupplier attempt) {
        long since = 0;
        Holder first = null;
        dead = -1;
        tried = System.nanoTime();
        while (!attempt.getAsBoolean()) {
            countOffer();
            phase(Phase.HELD_BACK);
            Moment asked = moment();
            Holder holder = publisher.heldBy();
            if (since == 0) {
                since = System.nanoTime();
                first = holder;
            }
            int nowDead = holder != null && !holder.live() && !holder.kept() ? holder.slot() : -1;
            if (nowDead != dead) {
                endOfDead();
                beginOfDead(nowDead, asked);
            }
            if (stopped()) {
                break;
            }
            if (dead < 0) {
                nap(20_000);
            } else if (fault("asleep", 1)) {
                LockSupport.parkNanos(80_000_000);
            } else {
                spin();
            }
            tried = System.nanoTime();
        }
        countOffer();
        endOfDead();
        if (since != 0 && System.nanoTime() - since > 2_000_000) {
            log(Entry.HELD, first == null ? -1 : first.slot(), since, System.nanoTime(),
                number(first != null && first.live()), number(first != null && first.kept()));
        }
    }

    private void countOffer() {
        offers++;
        if (tried - due >= 0) {
            looks++;
            due = tried + LOOK_AGAIN;
        }
    }

    private void beginOfDead(int slot, Moment since) {
        dead = slot;
        deadSince = since.time();
        delay = since.delay();
        lostToTheMachine = 0;
        offers = 0;
        looks = 0;
        due = deadSince + LOOK_AGAIN;
    }

    private void endOfDead() {
        if (dead >= 0) {
            Moment over = moment();
            log(Entry.DEAD_WAIT, dead, deadSince, over.time(), Math.max(over.delay() - delay, lostToTheMachine),
                offers, looks);
        }
    }

    private void acknowledge(long count, long position) {
        sequence += count;
        log(Entry.ACKNOWLEDGED, sequence, position, count, System.nanoTime());
        count(count);
    }

    private void offer(Publisher publisher) {
        byte[] message = message(length(), sequence);
        int type = 1 + below(9);
        insist(publisher, () -> {
            attempted(sequence + 1);
            enter(Phase.OFFERING, 200);
            long position = publisher.offer(message, 0, message.length, type);
            linger(200);
            if (position > 0) {
                acknowledge(1, position);
            }
            attempted(sequence);
            return position > 0;
        });
    }

    private void claim(Publisher publisher, boolean abort) {
        byte[] message = message(length(), abort ? -1 - sequence : sequence);
        insist(publisher, () -> {
            enter(Phase.CLAIMING, 200);
            Claim claim = publisher.tryClaim(message.length);
            if (claim == null) {
                return false;
            }
            enter(Phase.WRITING, 200);
            claim.buffer().putBytes(0, message);
            if (abort) {
                enter(Phase.ABORTING, 50);
                claim.abort();
                linger(50);
                return true;
            }
            attempted(sequence + 1);
            enter(Phase.COMMITTING, 200);
            long position = claim.commit();
            linger(200);
            acknowledge(1, position);
            return true;
        });
    }

    private void batch(Publisher publisher, int count) {
        DirectBuffer[] messages = IntStream.range(0, count)
            .mapToObj(i -> buffer(message(HEADER + below(200), sequence + i))).toArray(DirectBuffer[]::new);
        int[] done = new int[1];
        insist(publisher, () -> {
            attempted(sequence + count - done[0]);
            enter(Phase.IN_BATCH, 200);
            int more = publisher.offerBatch(messages, done[0], count - done[0], 7);
            linger(200);
            done[0] += more;
            if (more > 0) {
                acknowledge(more, publisher.position());
            }
            attempted(sequence);
            return done[0] == count;
        });
    }

    private static DirectBuffer buffer(byte[] message) {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(message);
        return buffer;
    }
}
