// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * One message of a queue, in the hand of one worker until it is {@link #done()} or released. It lies in place (one that
 * was taken over from a dead worker in a private copy). One object per worker, used again for each job: neither it nor
 * its buffer may be kept behind done or release, after which every access to the buffer is out of bounds. In a
 * try-with-resources statement a job that was not done is released. spec/queue.md 9.
 */
public final class Job implements AutoCloseable {
    private final WorkerCore worker;
    private PayloadBuffer buffer = new PayloadBuffer();
    /** Not behind a method: where the stack has no room left, a call fails. */
    boolean opened;
    private int type;
    private int ring;
    private long position;
    private int attempts;
    private boolean released;

    Job(WorkerCore worker) {
        this.worker = worker;
    }

    /** What it shows from now on: {@code over} lies in its payload's memory. */
    void set(PayloadBuffer over, long address, int length, int newType) {
        over.move(address, length);
        if (buffer != over) { // a store of a reference costs more
            buffer = over;
        }
        type = newType;
    }

    /** Where it was published first, and how often it was handed out since. */
    void origin(int firstRing, long firstPosition, int newAttempts, boolean wasReleased) {
        ring = firstRing;
        position = firstPosition;
        attempts = newAttempts;
        released = wasReleased;
    }

    /** The next one of a batch: what is not said here is as it was. */
    void next(PayloadBuffer over, long address, int length, int newType, long firstPosition) {
        over.move(address, length);
        type = newType;
        position = firstPosition;
    }

    void open() {
        opened = true;
    }

    boolean isOpen() {
        return opened;
    }

    /** Nothing of it can be used from now on. */
    void end() {
        opened = false;
        buffer.invalidate();
    }

    /** The same for who goes on to look at its bytes. */
    void endHandle() {
        opened = false;
    }

    PayloadBuffer payload() {
        return buffer;
    }

    /**
     * The payload, from index 0 to {@link #length()}; read-only: a write raises
     * {@link java.nio.ReadOnlyBufferException}.
     *
     * @return a buffer over exactly the payload.
     * @throws ClosedException if the job was done or released.
     */
    public PayloadBuffer buffer() {
        if (!opened) {
            throw closed();
        }
        return buffer;
    }

    /**
     * Length of the payload.
     *
     * @return bytes; 0 once the job was done or released.
     */
    public int length() {
        return buffer.capacity();
    }

    /**
     * The job's type.
     *
     * @return what the producer gave, at least 1.
     */
    public int type() {
        return type;
    }

    /**
     * The ring in which it was published first: with {@link #position()} its identity in this channel, however often it
     * is handed out.
     *
     * @return index from 0.
     */
    public int ring() {
        return ring;
    }

    /**
     * Where it was published first.
     *
     * @return position of that record's first byte.
     */
    public long position() {
        return position;
    }

    /**
     * Who published it.
     *
     * @return ring, name and epoch; not known (epoch 0) of a job that was released, or that lies in front of its ring's
     *     present owner.
     */
    public Sender sender() {
        return released ? Sender.unknown(ring) : worker.sender(ring, position);
    }

    /**
     * How often it was handed out before, as far as anybody could count.
     *
     * @return 0: it was not, before.
     */
    public int attempts() {
        return attempts;
    }

    /**
     * Whether it was handed out before.
     *
     * @return true if {@link #attempts()} is above 0.
     */
    public boolean repeat() {
        return attempts > 0;
    }

    /**
     * A copy of the payload.
     *
     * @return a new array.
     * @throws ClosedException if the job was done or released.
     */
    public byte[] toByteArray() {
        byte[] bytes = new byte[buffer().capacity()];
        buffer.getBytes(0, bytes);
        return bytes;
    }

    /**
     * Finishes it: its bytes are given back.
     *
     * @throws SlotLostException if the worker was evicted meanwhile: the job is another's.
     * @throws ClosedException if it was done or released already, or the worker was closed.
     */
    public void done() {
        check();
        worker.finish();
    }

    /**
     * Gives it back: it goes to the end of the queue's returns, with one more attempt.
     *
     * @return whether others may have it now. False: there was no room, or others release just now; it stays in hand,
     *     and this worker's next take or poll hands it out again.
     * @throws SlotLostException if the worker was evicted meanwhile: the job is another's.
     * @throws ClosedException if it was done or released already, or the worker was closed.
     */
    public boolean release() {
        check();
        return worker.release();
    }

    private void check() {
        if (!opened) {
            throw closed();
        }
    }

    private static ClosedException closed() {
        return new ClosedException("This job was done or released already, or its worker was closed. Take another.");
    }

    /** Releases the job if it is not done yet. */
    @Override
    public void close() {
        if (opened) {
            release();
        }
    }
}
