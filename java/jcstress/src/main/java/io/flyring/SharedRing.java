// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A channel of one ring with its publisher, for one state of a stress test. Creating a file for each state takes too
 * long, so each ring is used again and its positions go on. Between two states the ring is empty, and its end lies at
 * the start of a lap ({@link #align}).
 *
 * <p>Messages identify themselves: every word and the length are made from the sequence number.
 */
final class SharedRing {
    static final int CAPACITY = 4096;
    /** The longest record, a quarter of the ring. */
    static final int LONG = CAPACITY / 4;
    /** The length of a record that is followed by clearing ahead. */
    static final int SHORT = 64;
    private static final int HEADER = Layout.RECORD_HEADER_LENGTH;
    private static final long SPREAD = 0x9E37_79B9_7F4A_7C15L;
    private static final AtomicLong MADE = new AtomicLong();

    final Channel channel;
    /** The ring, as its publisher maps it. */
    final Memory ring;
    /** The ring's data, as a subscriber maps it. */
    final Memory data;
    /** The next message's sequence number; 0 is never used. */
    long next = 1;
    private final PayloadBuffer scratch = new PayloadBuffer();
    private final PayloadBuffer[] batch = {new PayloadBuffer(), new PayloadBuffer(), new PayloadBuffer()};
    private Publisher publisher;
    private Subscriber subscriber;
    private LossySubscriber lossy;

    SharedRing() {
        String path = "/dev/shm/flyring-jcstress-" + ProcessHandle.current().pid() + "-" + MADE.incrementAndGet();
        channel = Channel.create(path,
            ChannelOptions.broadcast().capacity(CAPACITY).publishers(1).subscribers(1).counters(0));
        Channel.unlink(path); // leaves nothing behind, however this process ends
        Header header = channel.header();
        ring = channel.file().map(header.ringOffset(0), header.ringStride, false);
        data = channel.file().map(header.ringOffset(0), header.capacity, true);
        scratch.wrap(new byte[LONG]);
        for (PayloadBuffer message : batch) {
            message.wrap(new byte[SHORT - HEADER]);
        }
    }

    /** The rings of one kind that no state uses at present. */
    static final class Pool {
        private final Queue<SharedRing> free = new ConcurrentLinkedQueue<>();

        SharedRing take() {
            SharedRing shared = free.poll();
            return shared != null ? shared : new SharedRing();
        }

        void giveBack(SharedRing shared) {
            free.add(shared);
        }
    }

    Publisher publisher() {
        if (publisher == null) {
            publisher = channel.publisher("p");
            publish(SHORT); // publishes the owner record, too
        }
        return publisher;
    }

    /** A kept subscriber: a publisher that is held back does not test whether its owner lives. */
    Subscriber subscriber() {
        if (subscriber == null) {
            subscriber = channel.subscriber("s", true);
        }
        return subscriber;
    }

    /** A lossy subscriber that continues at the newest position after a lap, so that a poll may find nothing. */
    LossySubscriber lossy() {
        if (lossy == null) {
            lossy = channel.lossySubscriber(Start.NOW, WhenLapped.NEWEST, 0);
        }
        return lossy;
    }

    /** Fills a payload of {@code record} bytes less the header. */
    static void write(PayloadBuffer payload, int record, long sequence) {
        for (int i = 0; i < record - HEADER; i += Long.BYTES) {
            payload.putLong(i, sequence * SPREAD + i);
        }
    }

    /** Whether every byte of a message is that of the message with that number. */
    static boolean is(PayloadBuffer payload, long sequence) {
        int length = payload.capacity();
        boolean whole = length % Long.BYTES == 0 && length > 0;
        for (int i = 0; whole && i < length; i += Long.BYTES) {
            whole = payload.getLong(i) == sequence * SPREAD + i;
        }
        return whole;
    }

    /** The number of a whole message; 0 if it is not whole. */
    static long sequence(PayloadBuffer payload) {
        long inverse = 0xF1DE_83E1_9937_733DL; // inverse of SPREAD modulo 2^64
        long sequence = payload.capacity() < Long.BYTES ? 0 : payload.getLong(0) * inverse;
        return is(payload, sequence) ? sequence : 0;
    }

    /** Publishes the next message, by offer and by claim in turn; false if back-pressured. */
    boolean publish(int record) {
        long sequence = next;
        if ((sequence & 1) == 0) {
            write(scratch, record, sequence);
            if (publisher().offer(scratch, 0, record - HEADER) < 0) {
                return false;
            }
        } else {
            Claim claim = publisher().tryClaim(record - HEADER);
            if (claim == null) {
                return false;
            }
            write(claim.buffer(), record, sequence);
            claim.commit();
        }
        next = sequence + 1;
        return true;
    }

    /** Publishes a batch of three short messages. */
    void publishBatch() {
        for (PayloadBuffer message : batch) {
            write(message, SHORT, next++);
        }
        if (publisher().offerBatch(batch) != batch.length) {
            throw new IllegalStateException("a batch was not taken whole");
        }
    }

    /** Publishes up to the start of a lap; {@code drain} makes room. */
    void align(Runnable drain) {
        drain.run();
        for (long rest; (rest = -publisher().position() & CAPACITY - 1) != 0;) {
            if (!publish((int) Math.min(rest, LONG))) {
                throw new IllegalStateException("no room in an empty ring");
            }
            drain.run();
        }
    }
}
