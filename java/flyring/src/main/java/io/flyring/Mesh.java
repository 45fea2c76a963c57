// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/**
 * Makes this process a member of a mesh: one thread beats in the channel, and notes when it received the beats of the
 * other members. {@code flyring monitor --mesh} shows how late each member wakes and how long beats take between each
 * two, and names members that are tardy, stopped or dead. Close it before the channel. The thread ends when the channel
 * is closed or replaced. Spec channel.md 8.2.
 */
public final class Mesh implements AutoCloseable {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1," + Layout.MAX_NAME_LENGTH + "}");
    /** After this time, in ns, the thread looks whether it shall end. */
    private static final long LONGEST_WAIT = 50_000_000;

    private final String name;
    private final Duration every;
    private final long everyNanos;
    private final Publisher publisher;
    private final LossySubscriber reader;
    private final int ring;
    private final int most;
    private final Thread thread;
    private volatile long beats;
    private volatile boolean stop;

    /** A message with the receipts noted so far; only the thread uses it. */
    private final ByteBuffer next;
    private int receipts;

    /**
     * Joins, with a beat every 10 ms.
     *
     * @param channel a broadcast channel that has no other use, with a publisher slot for each member and no
     *     subscribers.
     * @param name the member's name, valid as a channel's name.
     * @throws FlyringException as {@link #Mesh(Channel, String, Duration)} does.
     */
    public Mesh(Channel channel, String name) {
        this(channel, name, Duration.ofMillis(10));
    }

    /**
     * Joins.
     *
     * @param channel a broadcast channel that has no other use, with a publisher slot for each member and no
     *     subscribers.
     * @param name the member's name, valid as a channel's name.
     * @param every the time between two beats.
     * @throws InvalidArgumentException if the name or the kind of channel is not valid, {@code every} is not above 0,
     *     or the channel has fewer than two publisher slots.
     * @throws NoFreeSlotException if live processes own all slots, or the slot of that name.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException if the channel is closed.
     */
    public Mesh(Channel channel, String name, Duration every) {
        if (!NAME.matcher(name).matches()) {
            throw new InvalidArgumentException("name", "'" + name + "' must be 1 to 64 of A-Z a-z 0-9 . _ -");
        }
        if (every.isNegative() || every.isZero()) {
            throw new InvalidArgumentException("every", every + " must be above 0.");
        }
        if (channel.kind() != Kind.BROADCAST) {
            throw new InvalidArgumentException("kind", "A mesh needs a broadcast channel, and " + channel.path()
                + " is none.");
        }
        if (channel.publishers() < 2) {
            throw new InvalidArgumentException("publishers", "A mesh needs a channel with 2 publishers or more.");
        }
        this.name = name;
        this.every = every;
        this.everyNanos = every.toNanos();
        this.publisher = channel.publisher(name);
        this.ring = publisher.ring();
        int[] others = IntStream.range(0, channel.publishers()).filter(each -> each != ring).toArray();
        LossySubscriber made = null;
        try {
            made = channel.lossySubscriber(others);
        } finally {
            if (made == null) {
                publisher.close();
            }
        }
        this.reader = made;
        int fits = (publisher.maxMessageLength() - Layout.BEAT_LENGTH) / Layout.RECEIPT_LENGTH;
        this.most = Math.min(Layout.BEAT_MAX_RECEIPTS, fits);
        this.next = ByteBuffer.allocate(Layout.BEAT_LENGTH + Layout.RECEIPT_LENGTH * most)
            .order(ByteOrder.LITTLE_ENDIAN);
        this.thread = new Thread(this::run, "flyring-mesh");
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * The member's name.
     *
     * @return the name.
     */
    public String name() {
        return name;
    }

    /**
     * The time between two beats.
     *
     * @return the time.
     */
    public Duration every() {
        return every;
    }

    /**
     * The member's number: that of its ring.
     *
     * @return the ring.
     */
    public int ring() {
        return ring;
    }

    /**
     * How often it has beaten.
     *
     * @return the number of beats.
     */
    public long beats() {
        return beats;
    }

    /** Leaves the mesh, and ends the thread within 50 ms. A second close does nothing. */
    @Override
    public void close() {
        stop = true;
        boolean interrupted = false;
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() {
        try {
            beatAndReceive();
        } catch (ClosedException | ChannelReplacedException ended) {
            return; // the channel's
        } finally {
            reader.close();
            publisher.close();
        }
    }

    private void beatAndReceive() {
        long due = System.nanoTime();
        while (!stop) {
            long woke = System.nanoTime();
            if (woke >= due) {
                send(beats, due, woke);
                beats++; // only this thread writes it
                due = woke - due < everyNanos ? due + everyNanos : woke + everyNanos;
            } else {
                receive(Math.min(due - woke, LONGEST_WAIT));
                if (receipts == most) {
                    send(-1, 0, 0);
                }
            }
        }
    }

    /** Without room it is dropped. */
    private void send(long sequence, long due, long woke) {
        encode(next, sequence, everyNanos, due, woke, System.nanoTime(), receipts);
        publisher.offer(next.array(), 0, Layout.BEAT_LENGTH + Layout.RECEIPT_LENGTH * receipts, Layout.BEAT_TYPE);
        receipts = 0;
    }

    /** Writes the fields in front of the receipts. */
    static void encode(ByteBuffer to, long sequence, long every, long due, long woke, long sent, int receipts) {
        to.putLong(Layout.BEAT_SEQUENCE, sequence);
        to.putLong(Layout.BEAT_EVERY, every);
        to.putLong(Layout.BEAT_DUE, due);
        to.putLong(Layout.BEAT_WOKE, woke);
        to.putLong(Layout.BEAT_SENT, sent);
        to.putInt(Layout.BEAT_RECEIPTS, receipts);
    }

    /** Writes receipt number {@code index}. */
    static void encodeReceipt(ByteBuffer to, int index, int ring, long sequence, long sent, long received) {
        int at = Layout.BEAT_LENGTH + Layout.RECEIPT_LENGTH * index;
        to.putInt(at + Layout.RECEIPT_RING, ring);
        to.putLong(at + Layout.RECEIPT_SEQUENCE, sequence);
        to.putLong(at + Layout.RECEIPT_SENT, sent);
        to.putLong(at + Layout.RECEIPT_RECEIVED, received);
    }

    private void receive(long timeout) {
        try {
            reader.poll(this::note, most - receipts, timeout);
        } catch (CorruptRingException reported) {
            return; // the other rings go on
        }
    }

    private void note(Message message) {
        long received = System.nanoTime();
        if (message.type() != Layout.BEAT_TYPE || message.length() < Layout.BEAT_LENGTH) {
            return;
        }
        ByteOrder order = ByteOrder.LITTLE_ENDIAN;
        long sequence = message.buffer().getLong(Layout.BEAT_SEQUENCE, order);
        if (sequence >= 0) {
            long sent = message.buffer().getLong(Layout.BEAT_SENT, order);
            encodeReceipt(next, receipts++, message.ring(), sequence, sent, received);
        }
    }
}
