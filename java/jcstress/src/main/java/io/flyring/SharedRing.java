// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A channel of one ring with its publisher: what one state of a stress test works on. A file takes too long to make for
 * each state, so that a ring is used again and again; its positions just go on. Between two states the ring is empty
 * and its end lies at the begin of a lap ({@link #align}).
 *
 * <p>Messages say which they are: every word is made of the sequence number, and so is the length.
 */
final class SharedRing {
    static final int CAPACITY = 4096;
    /** The longest record, a quarter of the ring. */
    static final int LONG = CAPACITY / 4;
    /** A record of so many bytes is followed by clearing ahead. */
    static final int SHORT = 64;
    private static final int HEADER = Layout.RECORD_HEADER_LENGTH;
    private static final long SPREAD = 0x9E37_79B9_7F4A_7C15L;
    private static final AtomicLong MADE = new AtomicLong();

    final Channel channel;
    /** The ring, as its publisher maps it. */
    final Memory ring;
    /** The ring's data, as a subscriber maps it. */
    final Memory data;
    /** The next message's sequence number; 0 is none. */
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
        Channel.unlink(path); // nothing is left behind, however this process ends
        Header header = channel.header();
        ring = channel.file().map(header.ringOffset(0), header.ringStride, false);
        data = channel.file().map(header.ringOffset(0), header.capacity, true);
        scratch.wrap(new byte[LONG]);
        for (PayloadBuffer message : batch) {
            message.wrap(new byte[SHORT - HEADER]);
        }
    }

    /** Rings of one kind that no state uses at the moment. */
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
            publish(SHORT); // and the owner record
        }
        return publisher;
    }

    /** A kept one: a publisher that is held back does not look whether it lives. */
    Subscriber subscriber() {
        if (subscriber == null) {
            subscriber = channel.subscriber("s", true);
        }
        return subscriber;
    }

    /** After a lap it goes on with what is published next, so that a poll may find nothing. */
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

    /** Whether a message is exactly the one of that number, every byte of it. */
    static boolean is(PayloadBuffer payload, long sequence) {
        int length = payload.capacity();
        boolean whole = length % Long.BYTES == 0 && length > 0;
        for (int i = 0; whole && i < length; i += Long.BYTES) {
            whole = payload.getLong(i) == sequence * SPREAD + i;
        }
        return whole;
    }

    /** The number of a message that is whole; 0: it is not. */
    static long sequence(PayloadBuffer payload) {
        long inverse = 0xF1DE_83E1_9937_733DL; // of SPREAD, modulo 2^64
        long sequence = payload.capacity() < Long.BYTES ? 0 : payload.getLong(0) * inverse;
        return is(payload, sequence) ? sequence : 0;
    }

    /** Publishes the next message, by offer and by claim in turn; false: back-pressured. */
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

    /** Publishes up to the begin of a lap; {@code drain} makes room. */
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
