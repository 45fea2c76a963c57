// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.Supplier;

/**
 * Uses a file of arbitrary bytes in every way that a program can use a channel, in random order, while more of its
 * bytes change. Only {@link FlyringException}s may result; anything else, and also IoException, is a finding.
 */
final class FuzzDrive {
    private static final byte[] PAYLOAD = Rings.pattern(1, 4096);
    private static final int STEPS = 24;
    /** The last of the steps that are not for a service. */
    private static final int POLLS = 10;

    /** The exception that handlers throw now and then. */
    static final class Thrown extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    /** How often each event happened, over all inputs; shows that the fuzzing reaches its targets. */
    final Map<String, Long> counts = new TreeMap<>();

    final FuzzFile file;
    SplittableRandom random;
    Channel channel;
    private Publisher publisher;
    private Subscriber subscriber;
    private Subscriber kept;
    private LossySubscriber lossy;
    /** Of a queue or a service; else null. */
    private FuzzKind own;
    /** No slot was free: that takes 10 ms to find out, so it is not tried again with this input. */
    private boolean full;

    FuzzDrive(FuzzFile file) {
        this.file = file;
    }

    void count(String what) {
        counts.merge(what, 1L, Long::sum);
    }

    /** Runs an action; returns null if it was refused, which is allowed. */
    private <T> T attempt(Supplier<T> action) {
        try {
            return action.get();
        } catch (IoException e) {
            throw new IllegalStateException("no content of a file makes a system call fail", e);
        } catch (FlyringException e) {
            count(e.getClass().getSimpleName());
            full |= e instanceof NoFreeSlotException;
            if (e.getMessage() == null || e.getMessage().isEmpty()) {
                throw new IllegalStateException("an exception without a message", e);
            }
        } catch (Thrown e) {
            count("handler threw");
        }
        return null;
    }

    void attempt(Runnable action) {
        attempt(() -> {
            action.run();
            return null;
        });
    }

    /** Runs one input. */
    void run(SplittableRandom chance) {
        random = chance;
        drive(true);
        drive(false);
    }

    private void drive(boolean readOnly) {
        Channel opened = attempt(() -> readOnly ? Rings.openReadOnly(file.path()) : Channel.open(file.path()));
        if (opened == null) {
            return;
        }
        try {
            count(readOnly ? "attached read-only" : "attached");
            channel = FuzzGuard.guarded(opened, identity(opened));
            own = readOnly ? null : own();
            lossy = attempt(() -> channel.lossySubscriber(random.nextBoolean() ? Start.NOW : Start.OLDEST, rings()));
            for (int i = random.nextInt(STEPS); i > 0; i--) {
                if (readOnly) {
                    look(random.nextInt(6));
                } else {
                    step(random.nextInt(20));
                }
                if (random.nextInt(4) == 0) {
                    file.scribble(random);
                }
            }
            if (own != null) {
                own.end();
            }
            attempt(channel::close);
        } finally {
            attempt(channel::close);
            full = false;
            publisher = null;
            subscriber = null;
            kept = null;
            lossy = null;
            own = null;
            FuzzGuard.unmapAll();
            Reference.reachabilityFence(opened); // or the garbage collector would close the file that they share
        }
    }

    /** For a service mostly the boot id of the file: the calls of another boot would be dropped. */
    private Identity identity(Channel opened) {
        return opened.kind() == Kind.SERVICE && random.nextInt(4) > 0 ? new Identity().bootId(file.boot())
            : Identity.REAL;
    }

    private FuzzKind own() {
        return switch (channel.kind()) {
            case QUEUE -> new FuzzQueue(this);
            case SERVICE -> new FuzzService(this);
            default -> null;
        };
    }

    private int[] rings() {
        return random.nextBoolean() ? new int[0] : new int[] {random.nextInt(channel.publishers())};
    }

    /** Reads each word of a payload: a wrong address hits the guard. */
    static void read(PayloadBuffer buffer, int length) {
        for (int i = 0; i + Long.BYTES <= length; i += Long.BYTES) {
            buffer.getLong(i);
        }
    }

    private void handle(Message message) {
        count("message");
        int length = message.length();
        long offset = message.position() & channel.capacity() - 1;
        if (length < 0 || offset + Layout.RECORD_HEADER_LENGTH + length > channel.capacity() || message.type() < 1
            || message.toByteArray().length != length || message.sender() == null) {
            throw new IllegalStateException("a message of type " + message.type() + " with " + length + " bytes at "
                + message.position());
        }
        read(message.buffer(), length);
        switch (random.nextInt(64)) {
            case 0 -> throw new Thrown();
            case 1 -> file.scribble(random);
            default -> { }
        }
    }

    /** Does something that needs no write permission. */
    private void look(int what) {
        switch (lossy == null ? Math.max(what, 4) : what) { // null with a foreign publisher
            case 0 -> attempt(() -> lossy.poll(this::handle, random.nextInt(300)));
            case 1 -> attempt(() -> lossy.take());
            case 2 -> attempt(() -> {
                Message message = lossy.peek();
                if (message != null) {
                    handle(message);
                    count(lossy.valid() ? "peek valid" : "peek invalid");
                }
            });
            case 3 -> attempt(() -> {
                for (int ring : lossy.rings()) {
                    lossy.ended(ring);
                    count(lossy.lostBytes(ring) > 0 ? "lost" : "not lost");
                    lossy.position(ring);
                }
            });
            case 4 -> attempt(() -> channel.counters().forEach(counter -> {
                count("counter");
                counter.label();
                counter.key();
                counter.typeId();
                counter.get();
                counter.getVolatile();
            }));
            default -> attempt(() -> channel.schema() + channel.counters().find("messages"));
        }
    }

    private void step(int what) {
        if (own instanceof FuzzService && what <= POLLS && random.nextInt(32) > 0) { // else it is refused
            own.step(full);
            return;
        }
        switch (what) {
            case 0, 1 -> takePublisher();
            case 2, 3 -> {
                if (own == null || random.nextInt(16) == 0) {
                    takeSubscriber();
                } else {
                    own.step(full);
                }
            }
            case 4, 5, 6 -> publish();
            case 7, 8, 9, 10 -> {
                if (own != null) {
                    own.step(full);
                } else {
                    poll(what == 10 ? kept : subscriber);
                }
            }
            case 11 -> attempt(() -> channel.evict(random.nextInt(channel.subscribers() + 1)));
            case 12 -> counters();
            case 13 -> attempt(() -> publisher == null ? null : publisher.heldBy());
            default -> look(random.nextInt(6));
        }
    }

    private void takePublisher() {
        if (publisher != null && random.nextBoolean()) {
            Publisher old = publisher;
            publisher = null;
            attempt(old::close);
        } else if (publisher == null && !full) {
            int lag = random.nextInt(4) == 0 ? channel.capacity() / 2 : 0;
            publisher = attempt(() -> channel.publisher(file.name(random, true), lag));
            count(publisher == null ? "no publisher" : "publisher");
        }
    }

    private void takeSubscriber() {
        if (subscriber != null) {
            Subscriber old = subscriber;
            subscriber = null;
            attempt(random.nextBoolean() ? old::close : old::forget);
            attempt(old::close); // with a foreign publisher, forget is refused
        } else if (channel.subscribers() > 0 && !full) {
            subscriber = attempt(() -> channel.subscriber(file.name(random, false), false, rings()));
            count(subscriber == null ? "no subscriber" : "subscriber");
        }
        if (kept != null && random.nextBoolean()) {
            Subscriber old = kept;
            kept = null;
            attempt(random.nextBoolean() ? old::close : old::forget);
        } else if (kept == null && channel.subscribers() > 1 && !full) {
            kept = attempt(() -> channel.subscriber(file.name(random, false), true, rings()));
        }
    }

    private void poll(Subscriber from) {
        if (from == null) {
            return;
        }
        switch (random.nextInt(3)) {
            case 0 -> attempt(() -> from.take());
            case 1 -> attempt(() -> {
                for (int ring : from.rings()) {
                    from.position(ring);
                    from.ended(ring);
                }
            });
            default -> attempt(() -> from.poll(this::handle, random.nextInt(300)));
        }
    }

    private void publish() {
        if (publisher == null) {
            return;
        }
        for (int i = random.nextInt(8); i > 0; i--) {
            int length = random.nextInt(random.nextInt(4) == 0 ? publisher.maxMessageLength() + 20 : 120);
            Long end = attempt(() -> switch (random.nextInt(4)) {
                case 0 -> claim(length);
                case 1 -> batch(length);
                default -> publisher.offer(PAYLOAD, 0, length, random.nextInt(16));
            });
            count(end == null ? "refused" : end < 0 ? "back-pressured" : "published");
            if (end != null && end < 0 && random.nextInt(200) == 0) {
                retire();
            }
        }
    }

    /** Holds a publisher back for so long that it tests for dead subscribers. */
    private void retire() {
        long since = System.nanoTime();
        Long end;
        do {
            end = attempt(() -> publisher.offer(PAYLOAD, 0, 8, 1));
        } while (end != null && end < 0 && System.nanoTime() - since < 2_500_000);
        count(end == null || end < 0 ? "still held back" : "got on after retire");
    }

    private long claim(int length) {
        Claim claim = publisher.tryClaim(length);
        if (claim == null) {
            return Publisher.BACK_PRESSURED;
        }
        claim.buffer().putBytes(0, PAYLOAD, 0, length);
        if (random.nextInt(4) == 0) {
            file.scribble(random);
        }
        return random.nextBoolean() ? claim.commit() : claim.abort();
    }

    private long batch(int length) {
        PayloadBuffer message = new PayloadBuffer();
        message.wrap(PAYLOAD, 0, length);
        return publisher.offerBatch(message, message, message) > 0 ? 1 : Publisher.BACK_PRESSURED;
    }

    private void counters() {
        Counters counters = channel.counters();
        attempt(() -> {
            Counter counter = counters.allocate("fuzz", random.nextInt(), new byte[random.nextInt(114)]);
            counter.set(1);
            counter.getAndAdd(5);
            counter.compareAndSet(6, 7);
            count("counter allocated");
            if (random.nextBoolean()) {
                counter.free();
            }
        });
    }
}
