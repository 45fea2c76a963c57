// SPDX-License-Identifier: Apache-2.0

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.LossySubscriber;
import io.flyring.Message;
import io.flyring.Publisher;
import io.flyring.WaitSet;
import java.time.Duration;
import org.agrona.DirectBuffer;

/**
 * A camera publishes images of 10 MiB. Viewers look at the newest one, where it lies, and never slow the camera down.
 *
 * <pre>
 * Images camera COUNT PER_SECOND    publishes so many images; all pixels of image N have the value N
 * Images view SECONDS               looks at the newest image each SECONDS, until the camera closes
 * </pre>
 */
public final class Images {
    private static final int SIZE = 1280 * 2048 * 4; // bytes: rows, columns, colours

    public static void main(String[] args) throws InterruptedException {
        if (args.length == 3 && args[0].equals("camera")) {
            camera(Integer.parseInt(args[1]), Double.parseDouble(args[2]));
        } else if (args.length == 2 && args[0].equals("view")) {
            view(Math.round(Double.parseDouble(args[1]) * 1000));
        } else {
            System.err.println("Use Images with: camera COUNT PER_SECOND, or view SECONDS.");
            System.exit(1);
        }
    }

    /** A ring of 64 MiB holds the six newest images. It has no places for readers that the camera would wait for. */
    private static Channel openChannel() {
        return Channel.openOrCreate("images",
            ChannelOptions.broadcast().capacity(64 << 20).publishers(1).subscribers(0));
    }

    private static void camera(int count, double perSecond) throws InterruptedException {
        try (Channel channel = openChannel(); Publisher publisher = channel.publisher("camera")) {
            for (int number = 0; number < count; number++) {
                Claim claim = publisher.claim(SIZE); // space in the ring
                claim.buffer().setMemory(0, SIZE, (byte)number);
                claim.commit();
                Thread.sleep(Math.round(1000 / perSecond));
            }
        }
    }

    private static void view(long millis) throws InterruptedException {
        try (Channel channel = openChannel(); LossySubscriber reader = channel.lossySubscriber()) {
            WaitSet waits = new WaitSet().add(reader);
            System.out.println("waiting for the camera");
            int seen = 0;
            int skipped = 0;
            while (seen == 0 || !reader.ended(0)) {
                waits.await(Duration.ofMillis(100)); // sleeps until there is an image
                for (Message message = reader.peek(); message != null; message = reader.peek()) {
                    if (!isNewest(channel, message)) {
                        skipped += reader.valid() ? 1 : 0; // goes on to the next one
                        continue;
                    }
                    int first = message.buffer().getByte(0) & 0xff; // in place: nothing is copied
                    boolean allSame = allSame(message.buffer());
                    if (reader.valid()) { // the camera did not overwrite it meanwhile
                        seen++;
                        System.out.println((allSame ? "image " : "a mixture that begins with ") + first);
                    }
                    Thread.sleep(millis);
                }
            }
            System.out.println(seen + " seen, " + skipped + " skipped, " + reader.lostMessages(0) + " overwritten");
        }
    }

    /** Whether there is no other image behind this one in the ring. */
    private static boolean isNewest(Channel channel, Message message) {
        long published = channel.stats().publishers().get(0).published();
        return published - message.position() < 2L * SIZE;
    }

    private static boolean allSame(DirectBuffer pixels) {
        for (int i = 8; i < SIZE; i += 8) {
            if (pixels.getLong(i) != pixels.getLong(0)) {
                return false;
            }
        }
        return true;
    }
}
