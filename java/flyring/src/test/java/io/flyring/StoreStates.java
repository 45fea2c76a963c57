// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.LongPredicate;
import org.agrona.DirectBuffer;

/**
 * Compares the channel file's bytes after each store with those of C++ at the same place:
 * {@code StoreStates STATES PATH}. interop-tests/steps writes STATES with {@code --states}; its README and child.cpp
 * describe the operations. Names and payloads are not compared, because they are copied in other portions; the file at
 * the first mark and at the end is compared completely. Run by {@link StoreByStoreTest} with counting copies of the
 * classes.
 */
final class StoreStates {
    private static final int CAPACITY = 4096;
    private static final int EIGHTH = CAPACITY / Layout.BOUNDARIES;
    private static final int LAG = 2048;

    private final Path states;
    private final Path path;
    private final List<byte[]> seen = new ArrayList<>();
    private Channel channel;
    private Publisher publisher;
    private Subscriber subscriber;
    private Claim claim;
    private int sequence;
    private int compared;

    private StoreStates(Path states, Path path) {
        this.states = states;
        this.path = path;
    }

    public static void main(String[] arguments) throws Exception {
        StoreStates all = new StoreStates(Path.of(arguments[0]), Path.of(arguments[1]));
        all.publishing("");
        all.publishing("-compact");
        all.slots();
        System.out.println("done: " + all.compared + " states are C++'s");
    }

    /** Compares the publishing scenarios; with the suffix "-compact", records are aligned to 8 bytes. */
    private void publishing(String suffix) throws Exception {
        Runnable before = () -> publisher = channel.publisher("pub");
        Runnable one = () -> {
            before.run();
            offer(length(sequence));
        };
        compare("offer" + suffix, fill(at -> !crosses(at, record(30))), () -> offer(30));
        compare("first-offer" + suffix, before, () -> offer(30));
        compare("offer-boundary" + suffix,
            fill(at -> crosses(at, record(30)) && at % CAPACITY + record(30) < CAPACITY), () -> offer(30));
        compare("offer-padding" + suffix, fill(at -> at % CAPACITY + record(200) > CAPACITY), () -> offer(200));
        compare("offer-long" + suffix, fill(at -> !crosses(at, record(500))), () -> offer(500));
        compare("claim" + suffix, one, () -> publisher.claim(30, 7));
        compare("claim-long" + suffix, one, () -> publisher.claim(500, 7));
        compare("commit" + suffix, claiming(one, 30), () -> claim.commit());
        compare("abort" + suffix, claiming(one, 40), () -> claim.abort());
        compare("batch" + suffix, one, () -> batch(10, 60, 0, 90));
        compare("batch-padding" + suffix, fill(at -> at % CAPACITY + record(200) > CAPACITY),
            () -> batch(200, 5, 300));
        if (suffix.isEmpty()) {
            compare("offer-to-end", fill(at -> at % CAPACITY + record(30) == CAPACITY), () -> offer(30));
            Runnable limited = () -> publisher = channel.publisher("pub", LAG);
            compare("offer-lag",
                fill(limited, at -> at + record(30) + 8 > publisher.heldBy().position() + LAG), () -> offer(30));
            compare("close-publisher", one, () -> publisher.close());
            compare("close-claiming", claiming(one, 40), () -> publisher.close());
        }
    }

    private void slots() throws Exception {
        Runnable nothing = () -> { };
        for (String name : List.of("take-publisher", "recover-claim", "recover-uncommitted", "recover-committed",
            "recover-batch")) {
            compare(name, nothing, () -> channel.publisher("pub"));
        }
        compare("take-publisher-renamed", nothing, () -> channel.publisher("renamed"));
        compare("join", nothing, () -> channel.subscriber());
        compare("join-kept", nothing, () -> channel.subscriber("new", true));
        Runnable reader = () -> subscriber = channel.subscriber("reader", true);
        compare("resume", nothing, reader);
        compare("poll", reader, () -> subscriber.poll(message -> { }));
        compare("leave", () -> subscriber = channel.subscriber(), () -> subscriber.close());
        compare("close-kept", reader, () -> subscriber.close());
        compare("forget", reader, () -> subscriber.forget());
        compare("evict", nothing, () -> channel.evict(2));
        compare("evict-live", nothing, () -> channel.evict(1));
    }

    private long record(int length) {
        int alignment = channel.header().alignment;
        return Layout.RECORD_HEADER_LENGTH + length + alignment - 1 & -alignment;
    }

    private static int length(int sequence) {
        return 8 + 5 * sequence % 41;
    }

    private static byte[] payload(int sequence, int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) ((31 * sequence + 3 * i) % 251);
        }
        return bytes;
    }

    private void offer(int length) {
        need(publisher.offer(payload(sequence, length), 0, length, 1 + sequence) > 0, "back-pressured");
        sequence++;
    }

    private void batch(int... lengths) {
        DirectBuffer[] messages = new DirectBuffer[lengths.length];
        for (int i = 0; i < lengths.length; i++) {
            PayloadBuffer buffer = new PayloadBuffer();
            buffer.wrap(payload(sequence + i, lengths[i]));
            messages[i] = buffer;
        }
        need(publisher.offerBatch(messages, 0, messages.length, 1 + sequence) == lengths.length, "back-pressured");
    }

    private static boolean crosses(long at, long record) {
        return record < EIGHTH && at / EIGHTH != (at + record) / EIGHTH;
    }

    private Runnable fill(LongPredicate there) {
        return fill(() -> publisher = channel.publisher("pub"), there);
    }

    private Runnable fill(Runnable first, LongPredicate there) {
        return () -> {
            first.run();
            do {
                offer(length(sequence));
            } while (!there.test(publisher.position()));
        };
    }

    private Runnable claiming(Runnable first, int length) {
        return () -> {
            first.run();
            claim = publisher.claim(length, 1 + sequence);
            claim.buffer().putBytes(0, payload(sequence, length));
        };
    }

    private static void need(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    /** Compares one scenario: the file at its first mark, then store by store. */
    private void compare(String name, Runnable prepare, Runnable act) throws IOException {
        Files.deleteIfExists(path);
        Files.copy(states.resolve(name + ".base"), path);
        Identity identity = new Identity().bootId(new UUID(0x22L << 56, 0)).pid(1002).clock(() -> 2_000_000_000L);
        channel = Channel.open(path.toString(), new OpenOptions().identity(identity));
        sequence = (int) channel.trailers().get(0).getLong(Layout.TRAILER_MESSAGES_BEGUN);
        prepare.run();
        same(name + " at the first mark", Files.readAllBytes(states.resolve(name + ".ring")), Files.readAllBytes(path));
        List<byte[]> theirs = theirs(states, name);
        seen.clear();
        Stores.watch(() -> seen.add(read()));
        act.run();
        Stores.watch(null);
        seen.add(read());
        same(name + " at the end", theirs.get(theirs.size() - 1), read());
        Consumer<byte[]> mask = mask();
        List<byte[]> expected = distinct(theirs, mask);
        List<byte[]> found = distinct(seen, mask);
        for (int i = 0; i < Math.min(expected.size(), found.size()); i++) {
            same(name + " after change " + i, expected.get(i), found.get(i));
        }
        need(expected.size() == found.size(), name + ": " + found.size() + " changes, not " + expected.size());
        System.out.println(name + ": " + found.size() + " states");
        compared += found.size();
        channel.close();
    }

    private byte[] read() {
        return read(path);
    }

    static byte[] read(Path path) {
        try {
            return Files.readAllBytes(path);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    static List<byte[]> theirs(Path states, String name) throws IOException {
        List<byte[]> all = new ArrayList<>();
        all.add(Files.readAllBytes(states.resolve(name + ".ring")));
        for (String line : Files.readAllLines(states.resolve(name + ".stores"))) {
            String[] parts = line.split(" ");
            byte[] next = all.get(all.size() - 1).clone();
            byte[] bytes = HexFormat.of().parseHex(parts[1]);
            System.arraycopy(bytes, 0, next, Integer.parseInt(parts[0]), bytes.length);
            all.add(next);
        }
        return all;
    }

    /** Removes the slots' names, and the payloads of records that the operation publishes or recovers. */
    private Consumer<byte[]> mask() {
        Header header = channel.header();
        boolean[] out = new boolean[(int) header.fileLength];
        for (int slot = 0; slot < header.publishers + header.subscribers; slot++) {
            int at = (int) header.controlOffset + header.publisherSlot(slot) + Layout.PUBLISHER_SLOT_NAME;
            Arrays.fill(out, at, at + Layout.MAX_NAME_LENGTH, true);
        }
        byte[] before = seen.get(0);
        byte[] after = seen.get(seen.size() - 1);
        Memory start = Memory.of(ByteBuffer.wrap(before));
        Memory end = Memory.of(ByteBuffer.wrap(after));
        int ring = (int) header.ringOffset(0);
        long to = end.getLong(ring + CAPACITY + Layout.TRAILER_PUBLISHED);
        for (long p = start.getLong(ring + CAPACITY + Layout.TRAILER_PUBLISHED); p < to;) {
            int at = ring + (int) (p & CAPACITY - 1);
            int length = end.getInt(at);
            need(length >= Layout.RECORD_HEADER_LENGTH, "no record at " + p);
            if (end.getInt(at + Layout.RECORD_TYPE) != Layout.TYPE_PADDING) {
                Arrays.fill(out, at + Layout.RECORD_PAYLOAD, at + length, true);
            }
            p += length + header.alignment - 1 & -header.alignment;
        }
        return bytes -> {
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = out[i] ? 0 : bytes[i];
            }
        };
    }

    static List<byte[]> distinct(List<byte[]> all, Consumer<byte[]> mask) {
        List<byte[]> found = new ArrayList<>();
        for (byte[] each : all) {
            byte[] bytes = each.clone();
            mask.accept(bytes);
            if (found.isEmpty() || !Arrays.equals(bytes, found.get(found.size() - 1))) {
                found.add(bytes);
            }
        }
        return found;
    }

    static void same(String what, byte[] expected, byte[] found) {
        int at = Arrays.mismatch(expected, found);
        if (at >= 0) {
            throw new IllegalStateException(what + ": byte " + at + " is " + found[at] + ", not " + expected[at]);
        }
    }
}
