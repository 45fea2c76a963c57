// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * One message of a queue, in the hand of one worker until it is {@link #done()} or {@linkplain #release() released}.
 * The payload lies in place in the ring; if the job was adopted from a dead worker, in a private copy. Each worker has
 * one job object and uses it again for each job. Do not keep the object or its buffer after done or release: every
 * access to the buffer is out of bounds then. A try-with-resources statement releases a job that is not done. Spec
 * queue.md 9.
 */
public final class Job implements AutoCloseable {
    private final WorkerCore worker;
    private PayloadBuffer buffer = new PayloadBuffer();
    /** A field without a setter: after a StackOverflowError a call could fail. */
    boolean opened;
    private int type;
    private int ring;
    private long position;
    private int attempts;
    private boolean released;

    Job(WorkerCore worker) {
        this.worker = worker;
    }

    /** Sets the payload and type that the job shows from now on; {@code over} is a window on the payload's memory. */
    void set(PayloadBuffer over, long address, int length, int newType) {
        over.move(address, length);
        if (buffer != over) { // comparing costs less than storing a reference
            buffer = over;
        }
        type = newType;
    }

    /** Sets where the job was published first, and how often it was handed out since. */
    void origin(int firstRing, long firstPosition, int newAttempts, boolean wasReleased) {
        ring = firstRing;
        position = firstPosition;
        attempts = newAttempts;
        released = wasReleased;
    }

    /** Shows the next job of a batch; ring and attempts stay the same. */
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

    /** Makes the job and its buffer unusable. */
    void end() {
        opened = false;
        buffer.invalidate();
    }

    /** Makes the job unusable, but not its buffer: the caller still reads the bytes. */
    void endHandle() {
        opened = false;
    }

    PayloadBuffer payload() {
        return buffer;
    }

    /**
     * The payload, from index 0 to {@link #length()}; read-only: a write throws
     * {@link java.nio.ReadOnlyBufferException}.
     *
     * @return a buffer over exactly the payload.
     * @throws ClosedException if the job is done or released.
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
     * @return bytes; 0 once the job is done or released.
     */
    public int length() {
        return buffer.capacity();
    }

    /**
     * The job's type.
     *
     * @return the type that the producer gave, at least 1.
     */
    public int type() {
        return type;
    }

    /**
     * The ring in which the job was published first. Ring and {@link #position()} identify the job in this channel,
     * however often it is handed out.
     *
     * @return the ring's index, from 0.
     */
    public int ring() {
        return ring;
    }

    /**
     * The position at which the job was published first.
     *
     * @return the position of that record's first byte.
     */
    public long position() {
        return position;
    }

    /**
     * The publisher of the job.
     *
     * @return ring, name and epoch. The epoch is 0 (not known) if the job was released, or was published by an earlier
     *     owner of the ring.
     */
    public Sender sender() {
        return released ? Sender.unknown(ring) : worker.sender(ring, position);
    }

    /**
     * How often the job was handed out before. The number may be too low, but is never 0 for a repeat.
     *
     * @return 0 if the job is handed out for the first time.
     */
    public int attempts() {
        return attempts;
    }

    /**
     * Whether the job was handed out before.
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
     * @throws ClosedException if the job is done or released.
     */
    public byte[] toByteArray() {
        byte[] bytes = new byte[buffer().capacity()];
        buffer.getBytes(0, bytes);
        return bytes;
    }

    /**
     * Finishes the job and gives its bytes in the ring back.
     *
     * @throws SlotLostException if the worker was evicted meanwhile: the job belongs to another worker.
     * @throws ClosedException if the job is done or released already, or the worker is closed.
     */
    public void done() {
        check();
        worker.finish();
    }

    /**
     * Gives the job back: moves it to the end of the queue's returns, with one more attempt counted.
     *
     * @return true if other workers can take the job now. False if there was no room, or other workers are releasing:
     *     the job stays in hand, and this worker's next take or poll hands it out again.
     * @throws SlotLostException if the worker was evicted meanwhile: the job belongs to another worker.
     * @throws ClosedException if the job is done or released already, or the worker is closed.
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

    /** Releases the job if it is not done or released yet. */
    @Override
    public void close() {
        if (opened) {
            release();
        }
    }
}
