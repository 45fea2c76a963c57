// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.Holder;
import io.flyring.Kind;
import io.flyring.LossySubscriber;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.SlotLostException;
import io.flyring.Start;
import io.flyring.Subscriber;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import java.util.zip.CRC32C;
import org.agrona.DirectBuffer;

/** A worker of the SIGKILL torture: interop-tests/torture/WORKER.md says what it does and what it writes down. */
public final class Torture {
    private static final int HEADER = 32;
    private static final int FILLED = 512; // words before the log
    private static final VarHandle LONG =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final Map<String, String> orders;
    private final MappedByteBuffer side;
    private final SplittableRandom random;
    private final Channel channel;
    private final byte[] filler;
    private long epoch;
    private long sequence;
    private long logged;
    private int handled;
    private int faults;

    private Torture(Map<String, String> orders) throws IOException {
        this.orders = orders;
        try (FileChannel file = FileChannel.open(Path.of(orders.get("side")), StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
            side = file.map(FileChannel.MapMode.READ_WRITE, 0, file.size());
        }
        random = new SplittableRandom(Long.parseLong(orders.get("seed")));
        channel = switch (orders.get("role")) {
            case "creator" -> create(orders);
            case "lossy" -> Channel.openReadOnly(orders.get("channel"));
            default -> Channel.open(orders.get("channel"));
        };
        filler = new byte[channel.capacity() / 4];
        random.nextBytes(filler);
    }

    private static Channel create(Map<String, String> orders) {
        ChannelOptions options = orders.get("kind").equals("inbox") ? ChannelOptions.inbox()
            : ChannelOptions.broadcast();
        return Channel.create(orders.get("channel"), options.capacity(Integer.parseInt(orders.get("capacity")))
            .alignment(Integer.parseInt(orders.get("alignment"))).counters(0)
            .publishers(Integer.parseInt(orders.get("publishers")))
            .subscribers(Integer.parseInt(orders.get("subscribers"))));
    }

    /** What is being done when it is killed; the order is that of side.py. */
    private enum Phase {
        NONE, WORKING, TAKING, RECOVERING, OFFERING, CLAIMING, WRITING, COMMITTING, ABORTING, IN_BATCH, HELD_BACK,
        CLOSING, JOINING, RESUMING, POLLING, HANDLING, IDLE, LEAVING, FORGETTING, STARTING, READING, EVICTING
    }

    /** Of entries of the log; the order is that of side.py. */
    private enum Entry {
        NONE, TAKEN, ACKNOWLEDGED, CLOSED, DEAD_WAIT, HELD, JOINED, MESSAGE, LEFT, EVICTED, SLOT_LOST, LOST
    }

    /**
     * Waits for a line with its orders and follows them.
     *
     * @param arguments none.
     * @throws IOException if the side file cannot be mapped.
     */
    public static void main(String[] arguments) throws IOException {
        System.out.println("ready");
        String line = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
        if (line != null) {
            Map<String, String> orders = new HashMap<>();
            for (String word : line.split(" ")) {
                orders.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
            }
            Torture worker = new Torture(orders);
            worker.run();
            worker.channel.close();
        }
    }

    private void run() {
        String role = orders.get("role");
        while (!role.equals("creator") && !stopped() && !full()) {
            if (role.equals("operator")) {
                evict();
                return;
            }
            if (role.equals("publisher")) {
                publish();
            } else if (role.equals("lossy")) {
                readLossy();
            } else {
                subscribe(role.equals("kept"));
            }
        }
    }

    // The side file

    private void phase(Phase phase) {
        LONG.setRelease((ByteBuffer) side, 0, (long) phase.ordinal());
    }

    private boolean stopped() {
        return (long) LONG.getAcquire((ByteBuffer) side, Long.BYTES) != 0;
    }

    private boolean full() {
        return logged >= (side.capacity() / Long.BYTES - FILLED) / 8 - 300;
    }

    private void attempted(long count) {
        LONG.setRelease((ByteBuffer) side, 3 * Long.BYTES, count);
    }

    private void log(Entry kind, long... values) {
        int at = (int) (FILLED + 8 * logged) * Long.BYTES;
        LONG.set((ByteBuffer) side, at, (long) kind.ordinal());
        for (int i = 0; i < values.length; i++) {
            LONG.set((ByteBuffer) side, at + (i + 1) * Long.BYTES, values[i]);
        }
        LONG.setRelease((ByteBuffer) side, 2 * Long.BYTES, ++logged);
    }

    private static long number(boolean value) {
        return value ? 1 : 0;
    }

    /** What this thread waited for a processor, ns. */
    private static long runDelay() {
        try {
            return Long.parseLong(Files.readString(Path.of("/proc/thread-self/schedstat")).split(" ")[1]);
        } catch (IOException e) {
            return 0;
        }
    }

    // Chance

    private int below(int bound) {
        return random.nextInt(bound);
    }

    /** Enters a phase, and now and then stays in it for a while, so that the driver can strike there. */
    private void enter(Phase phase, int odds) {
        phase(phase);
        linger(odds);
    }

    private void linger(int odds) {
        if (below(odds) == 0) {
            LockSupport.parkNanos(below(400_000));
        }
    }

    private boolean fault(String name) {
        return orders.get("fault").equals(name) && ++faults % 100 == 0;
    }

    // Publisher

    private int length() {
        int most = channel.capacity() / 4 - 8;
        int dice = below(100);
        return dice < 25 ? HEADER : dice < 75 ? HEADER + below(100)
            : dice < 97 ? HEADER + below(most / 4) : most - below(2) * below(9);
    }

    private byte[] message(int length, long number) {
        byte[] message = new byte[length];
        System.arraycopy(filler, 0, message, 0, length);
        ByteBuffer words = ByteBuffer.wrap(message).order(ByteOrder.LITTLE_ENDIAN);
        words.putInt(4, length).putLong(8, Long.parseLong(orders.get("id"))).putLong(16, epoch).putLong(24, number);
        if (length >= HEADER + Long.BYTES) {
            words.putLong(length - Long.BYTES, number);
        }
        words.putInt(0, checksum(message));
        if (fault("torn")) {
            message[length - 1] ^= 1;
        }
        return message;
    }

    private static int checksum(byte[] message) {
        CRC32C sum = new CRC32C();
        sum.update(message, Integer.BYTES, message.length - Integer.BYTES);
        return (int) sum.getValue();
    }

    private void publish() {
        attempted(0);
        enter(orders.get("recovering").equals("1") ? Phase.RECOVERING : Phase.TAKING, 2);
        Publisher publisher = channel.publisher(orders.get("name"));
        linger(2);
        orders.put("recovering", "0");
        epoch = publisher.epoch();
        sequence = 0;
        log(Entry.TAKEN, publisher.ring(), epoch, publisher.position(), System.nanoTime(),
            Long.parseLong(orders.get("id")));
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
            if (below(64) == 0) {
                LockSupport.parkNanos(below(1_000_000));
            }
            if (fault("skip")) {
                sequence++;
            }
            if (fault("lost")) {
                attempted(++sequence);
                log(Entry.ACKNOWLEDGED, sequence, publisher.position(), 1);
            }
        }
        long leaves = System.nanoTime();
        enter(Phase.CLOSING, 2);
        publisher.close();
        linger(2);
        log(Entry.CLOSED, sequence, 0, 0, leaves);
        phase(Phase.WORKING);
    }

    /** Tries until it succeeds, or until it is time to stop. */
    private void insist(Publisher publisher, BooleanSupplier attempt) {
        long since = 0;
        long deadSince = 0;
        long delay = 0;
        int dead = -1;
        Holder first = null;
        while (!attempt.getAsBoolean()) {
            phase(Phase.HELD_BACK);
            Holder holder = publisher.heldBy();
            if (since == 0) {
                since = System.nanoTime();
                first = holder;
            }
            int nowDead = holder != null && !holder.live() && !holder.kept() ? holder.slot() : -1;
            if (nowDead != dead) {
                endOfDead(dead, deadSince, delay);
                dead = nowDead;
                deadSince = System.nanoTime();
                delay = runDelay();
            }
            if (stopped()) {
                break;
            }
            LockSupport.parkNanos(20_000);
        }
        endOfDead(dead, deadSince, delay);
        if (since != 0 && System.nanoTime() - since > 2_000_000) {
            log(Entry.HELD, first == null ? -1 : first.slot(), since, System.nanoTime(),
                number(first != null && first.live()), number(first != null && first.kept()));
        }
    }

    private void endOfDead(int slot, long since, long delay) {
        if (slot >= 0) {
            log(Entry.DEAD_WAIT, slot, since, System.nanoTime(), runDelay() - delay);
        }
    }

    private void acknowledge(long count, long position) {
        sequence += count;
        log(Entry.ACKNOWLEDGED, sequence, position, count);
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
            Claim claim = publisher.claim(message.length);
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

    // Subscribers

    private void subscribe(boolean kept) {
        int[] rings = {};
        if (!kept && channel.kind() != Kind.INBOX && below(3) == 0) {
            rings = IntStream.range(0, channel.publishers()).filter(ring -> below(2) == 0).toArray();
        }
        long asked = System.nanoTime();
        enter(orders.get("resuming").equals("1") ? Phase.RESUMING : Phase.JOINING, 2);
        Subscriber subscriber = channel.subscriber(kept ? orders.get("name") : "", kept, rings);
        linger(2);
        for (int ring : subscriber.rings()) {
            log(Entry.JOINED, ring, subscriber.slot(), subscriber.position(ring), subscriber.epoch(),
                number(subscriber.kept()), System.nanoTime(), asked);
        }
        orders.put("resuming", kept ? "1" : "0");
        try {
            read(subscriber);
        } catch (SlotLostException e) {
            log(Entry.SLOT_LOST, subscriber.slot(), handled, 0, System.nanoTime());
            subscriber.close();
            orders.put("resuming", "0");
        }
        phase(Phase.WORKING);
    }

    private void read(Subscriber subscriber) {
        boolean drained = false;
        for (int polls = below(10) == 0 ? below(10) : below(500); !full() && !drained && (polls > 0 || stopped());
            polls--) {
            boolean last = stopped(); // before the poll: what the poll does not find was never published
            phase(Phase.POLLING);
            handled = 0;
            int count = 0;
            if (!subscriber.kept() && below(8) == 0) {
                Message message = subscriber.take();
                if (message != null) {
                    handle(message, Phase.HANDLING, 0);
                    count = 1;
                }
            } else {
                count = subscriber.poll(m -> handle(m, Phase.HANDLING, 0), below(4) == 0 ? 256 : 1 + below(8));
            }
            drained = last && count == 0;
            phase(Phase.IDLE);
            if (count == 0 || below(100) == 0) {
                LockSupport.parkNanos(count == 0 ? 20_000 : below(3_000_000));
            }
        }
        boolean forget = subscriber.kept() && !drained && below(4) == 0;
        long leaves = System.nanoTime();
        enter(forget ? Phase.FORGETTING : Phase.LEAVING, 2);
        if (forget) {
            subscriber.forget();
            orders.put("resuming", "0");
        } else {
            subscriber.close();
        }
        linger(2);
        log(Entry.LEFT, number(forget), number(drained), 0, leaves);
    }

    private void readLossy() {
        long asked = System.nanoTime();
        enter(Phase.STARTING, 2);
        LossySubscriber subscriber = channel.lossySubscriber(below(2) == 0 ? Start.OLDEST : Start.NOW);
        linger(2);
        for (int ring : subscriber.rings()) {
            log(Entry.JOINED, ring, 0, subscriber.position(ring), 0, 0, System.nanoTime(), asked);
        }
        boolean drained = false;
        for (int polls = below(500); !full() && !drained && (polls > 0 || stopped()); polls--) {
            boolean last = stopped();
            phase(Phase.READING);
            drained = subscriber.poll(m -> handle(m, Phase.READING,
                subscriber.lostMessages(m.ring()) + number(fault("miscount"))), 1 + below(20)) == 0 && last;
            phase(Phase.IDLE);
            if (below(4) == 0) {
                LockSupport.parkNanos(below(2_000_000));
            }
        }
        for (int ring : subscriber.rings()) {
            log(Entry.LOST, ring, subscriber.lostMessages(ring), subscriber.position(ring));
        }
        subscriber.close();
        log(Entry.LEFT, 0, number(drained), 0, System.nanoTime());
        phase(Phase.WORKING);
    }

    private void evict() {
        int slot = Integer.parseInt(orders.get("slot"));
        long begins = System.nanoTime();
        log(Entry.EVICTED, slot, begins);
        enter(Phase.EVICTING, 2);
        channel.evict(slot);
        linger(2);
        log(Entry.EVICTED, slot, begins, System.nanoTime());
        phase(Phase.WORKING);
    }

    private void handle(Message message, Phase phase, long lost) {
        enter(phase, 200);
        handled++;
        byte[] bytes = message.toByteArray();
        ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        boolean whole = bytes.length >= HEADER && words.getInt(4) == bytes.length
            && words.getInt(0) == checksum(bytes);
        long sender = message.sender().epoch();
        long torn = !whole ? 1 : sender != 0 && sender != words.getLong(16) ? 2 : 0;
        if (!fault("drop")) {
            log(Entry.MESSAGE, message.ring(), message.position(), whole ? words.getLong(16) : 0,
                whole ? words.getLong(24) : 0, whole ? words.getLong(8) : 0, torn, lost);
        }
        phase(phase == Phase.HANDLING ? Phase.POLLING : phase);
    }
}
