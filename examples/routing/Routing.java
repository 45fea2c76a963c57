// SPDX-License-Identifier: Apache-2.0

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import net.jpountz.xxhash.XXHash64;
import net.jpountz.xxhash.XXHashFactory;

/**
 * All messages of one key go to one inbox, and so to one process, in their order.
 *
 * <pre>
 * Routing send      each line of standard input is a key, a space and a text
 * Routing read K    prints what comes into inbox K, until the text is "stop"
 * Routing where     each line is "text KEY" or "integer KEY": prints the hash and the inbox
 * </pre>
 */
public final class Routing {
    private static final int INBOXES = 3; // every program must have the same number
    private static final XXHash64 XX_HASH = XXHashFactory.safeInstance().hash64();

    private boolean stopped;

    public static void main(String[] args) throws IOException {
        if (args.length == 1 && args[0].equals("send")) {
            send();
        } else if (args.length == 1 && args[0].equals("where")) {
            where();
        } else if (args.length == 2 && args[0].equals("read") && args[1].matches("\\d")
            && Integer.parseInt(args[1]) < INBOXES) {
            new Routing().read(Integer.parseInt(args[1]));
        } else {
            System.err.println("Use Routing send, Routing read K (below " + INBOXES + "), or Routing where.");
            System.exit(1);
        }
    }

    private static byte[] textKey(String key) {
        return key.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] integerKey(long key) {
        return ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(key).array();
    }

    private static long hashOf(byte[] key) {
        return XX_HASH.hash(key, 0, key.length, 0);
    }

    private static int inboxOf(byte[] key) {
        return (int)Long.remainderUnsigned(hashOf(key), INBOXES); // a hash is unsigned: never % here
    }

    private static Channel inbox(int number) {
        return Channel.openOrCreate("orders." + number, ChannelOptions.inbox());
    }

    private static void send() throws IOException {
        Channel[] channels = new Channel[INBOXES];
        Publisher[] publishers = new Publisher[INBOXES];
        for (int number = 0; number < INBOXES; number++) {
            channels[number] = inbox(number);
            publishers[number] = channels[number].publisher();
        }
        BufferedReader input = input();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String key = line.split(" ", 2)[0];
            // Sleeps while the ring is full.
            publishers[inboxOf(textKey(key))].send(line.getBytes(StandardCharsets.UTF_8));
        }
        for (Channel channel : channels) {
            channel.close();
        }
    }

    private void read(int number) {
        try (Channel channel = inbox(number); Subscriber subscriber = channel.subscriber()) {
            while (!stopped) {
                // Sleeps while there is none.
                subscriber.poll(message -> show(new String(message.toByteArray(), StandardCharsets.UTF_8)), 1,
                    Duration.ofSeconds(1));
            }
        }
    }

    private void show(String text) {
        if (text.endsWith(" stop")) {
            stopped = true;
        } else {
            System.out.println(text);
        }
    }

    private static void where() throws IOException {
        BufferedReader input = input();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String key = line.substring(line.indexOf(' ') + 1);
            byte[] bytes = line.startsWith("integer ") ? integerKey(Long.parseLong(key)) : textKey(key);
            System.out.printf("%016x %d%n", hashOf(bytes), inboxOf(bytes));
        }
    }

    private static BufferedReader input() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    }
}
