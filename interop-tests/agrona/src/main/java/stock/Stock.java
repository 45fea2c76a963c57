// SPDX-License-Identifier: Apache-2.0
package stock;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Locale;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.ControlledMessageHandler.Action;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.OneToOneRingBuffer;
import org.agrona.concurrent.status.AtomicCounter;
import org.agrona.concurrent.status.CountersReader;

/**
 * Stock Agrona at one end of a channel (spec/channel.md 6.15), with nothing of Flyring on its class path.
 *
 * <pre>
 * publish FILE SEED COUNT MIN MAX SECONDS   writes a stream: write, and tryClaim with commit and abort, in turn
 * read FILE SEED COUNT MIN MAX SECONDS      reads it and verifies every byte
 * commit FILE SEED COUNT MIN MAX SECONDS    the same by controlledRead, which commits each message
 * counters FILE                             prints the counters, as CountersReader sees them
 * add FILE ID TIMES                         increments a counter so often
 * </pre>
 *
 * Says "ready" once it has mapped the file, waits for a line of input, and prints one line of JSON when it is done.
 * Status 1: the stream was wrong or late, with the reason on standard error.
 */
public final class Stock {
    private static final int LIMIT = 256;

    private Stock() {
    }

    private static final class Wrong extends RuntimeException {
        private static final long serialVersionUID = 1;

        Wrong(String what) {
            super(what);
        }
    }

    /**
     * The program.
     *
     * @param args see above.
     * @throws IOException if the file is no channel of the right kind.
     */
    public static void main(String[] args) throws IOException {
        ChannelFile file = new ChannelFile(Path.of(args[1]));
        try {
            System.out.println(switch (args[0]) {
                case "publish" -> publish(file, args);
                case "read", "commit" -> read(file, args);
                case "counters" -> counters(file);
                case "add" -> add(file, Integer.parseInt(args[2]), Integer.parseInt(args[3]));
                default -> throw new IllegalArgumentException(args[0]);
            });
        } catch (Wrong e) {
            System.err.println(e.getMessage());
            System.exit(1);
        }
    }

    private static void ready() throws IOException {
        System.out.println("ready");
        int next = System.in.read();
        while (next >= 0 && next != '\n') {
            next = System.in.read();
        }
    }

    private static Stream stream(String[] args) {
        return new Stream(Long.parseLong(args[2]), Long.parseLong(args[4]), Long.parseLong(args[5]));
    }

    private static long nanos(String seconds) {
        return Long.parseLong(seconds) * 1_000_000_000L;
    }

    private static String publish(ChannelFile file, String[] args) throws IOException {
        OneToOneRingBuffer ring = new OneToOneRingBuffer(file.ring(ChannelFile.FOREIGN_PUBLISHER));
        Stream stream = stream(args);
        UnsafeBuffer source = new UnsafeBuffer(new byte[ring.maxMsgLength()]);
        IdleStrategy idle = new BackoffIdleStrategy(20, 10, 1_000, 50_000);
        long count = Long.parseLong(args[3]);
        long backPressured = 0;
        ready();
        long begin = System.nanoTime();
        long end = begin + nanos(args[6]);
        for (long i = 0; i < count; i++) {
            stream.message(i);
            boolean claim = i % 3 == 1;
            if (i % 30 == 1) {
                int aborted = ring.tryClaim(stream.type, stream.length);
                if (aborted > 0) {
                    ring.abort(aborted);
                }
            }
            if (!claim) {
                stream.put(source, 0);
            }
            for (boolean done = false; !done;) {
                int at = claim ? ring.tryClaim(stream.type, stream.length) : 0;
                if (claim && at > 0) {
                    stream.put(ring.buffer(), at);
                    ring.commit(at);
                    done = true;
                } else if (!claim) {
                    done = ring.write(stream.type, source, 0, stream.length);
                }
                if (!done) {
                    backPressured++;
                    idle.idle();
                    late(end, i);
                }
            }
            idle.reset();
        }
        return String.format(Locale.ROOT, "{\"count\": %d, \"seconds\": %.3f, \"back_pressured\": %d, \"position\": %d}", count,
            (System.nanoTime() - begin) / 1e9, backPressured, ring.producerPosition());
    }

    private static String read(ChannelFile file, String[] args) throws IOException {
        OneToOneRingBuffer ring = new OneToOneRingBuffer(file.ring(ChannelFile.FOREIGN_SUBSCRIBER));
        Stream stream = stream(args);
        IdleStrategy idle = new BackoffIdleStrategy(20, 10, 1_000, 50_000);
        long count = Long.parseLong(args[3]);
        long[] seen = {0};
        boolean commits = args[0].equals("commit");
        ready();
        long begin = System.nanoTime();
        long end = begin + nanos(args[6]);
        while (seen[0] < count) {
            int read = commits ? ring.controlledRead((type, buffer, at, length) -> {
                verify(stream, seen, type, buffer, at, length);
                return Action.COMMIT;
            }, LIMIT) : ring.read((type, buffer, at, length) -> verify(stream, seen, type, buffer, at, length), LIMIT);
            idle.idle(read);
            if (read == 0) {
                late(end, seen[0]);
            }
        }
        return String.format(Locale.ROOT, "{\"count\": %d, \"seconds\": %.3f, \"position\": %d}", seen[0],
            (System.nanoTime() - begin) / 1e9, ring.consumerPosition());
    }

    private static void verify(Stream stream, long[] seen, int type, DirectBuffer buffer, int at, int length) {
        stream.message(seen[0]);
        if (type != stream.type || length != stream.length || !stream.matches(buffer, at)) {
            throw new Wrong("message " + seen[0] + " is wrong: type " + type + ", length " + length
                + ", expected " + stream.type + ", " + stream.length);
        }
        seen[0]++;
    }

    private static void late(long end, long i) {
        if (System.nanoTime() - end > 0) {
            throw new Wrong("late: " + i + " messages until now");
        }
    }

    private static String counters(ChannelFile file) throws IOException {
        CountersReader reader = new CountersReader(file.counterMetadata(), file.counterValues());
        ready();
        StringBuilder json = new StringBuilder();
        reader.forEach((id, typeId, key, label) -> json.append(json.length() == 0 ? "" : ", ").append(String.format(Locale.ROOT,
            "{\"id\": %d, \"type_id\": %d, \"key\": \"%s\", \"label\": \"%s\", \"value\": %d}", id, typeId, hex(key),
            label.replace("\\", "\\\\").replace("\"", "\\\""), reader.getCounterValue(id))));
        return "{\"counters\": [" + json + "], \"max_id\": " + reader.maxCounterId() + "}";
    }

    private static String hex(DirectBuffer key) {
        byte[] bytes = new byte[key.capacity()];
        key.getBytes(0, bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String add(ChannelFile file, int id, int times) throws IOException {
        AtomicCounter counter = new AtomicCounter(file.counterValues(), id);
        ready();
        for (int i = 0; i < times; i++) {
            counter.increment();
        }
        return "{\"value\": " + counter.get() + "}";
    }
}
