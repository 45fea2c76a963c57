// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A publisher continues after a reader was killed; measured from when the kernel has freed the reader's lock. */
class LivenessTest {
    private static final long SECOND = 1_000_000_000L;
    private static final long PATIENCE = 1_000_000;
    private static final int DEATHS = 24;
    private static final int AT_ONCE = 4;

    @RegisterExtension
    final Rings rings = new Rings();

    private final List<Channel> channels = new ArrayList<>();
    private final List<Process> children = new ArrayList<>();

    private void launch(int number) throws IOException {
        Channel channel = Channel.create(rings.path("r" + number),
            ChannelOptions.broadcast().capacity(4096).publishers(1).subscribers(2).counters(0));
        channels.add(channel);
        children.add(Rings.java(Child.class, "subscribe", channel.path()).start());
    }

    private static void fill(Publisher publisher) {
        while (publisher.offer(new byte[500]) > 0) {
            assertTrue(publisher.position() < 3 * 4096);
        }
    }

    /**
     * The time in ns from when the lock was seen free to the first offer that succeeds. An offer that begins 1 ms or
     * more after that must test for the dead (6.2, 4), and so succeed, however busy the machine is.
     */
    private static long spin(Channel channel, Publisher publisher, Process child) {
        byte[] message = new byte[500];
        long lockAt = channel.header().controlOffset + channel.header().subscriberSlot(0);
        try (Lock lock = channel.file().newLock()) {
            child.destroyForcibly();
            long since = System.nanoTime();
            while (lock.heldByAnother(lockAt)) {
                for (int offers = 0; offers < 100; offers++) {
                    if (publisher.offer(message) > 0) {
                        return 0; // succeeded before the lock was seen free
                    }
                }
                assertTrue(System.nanoTime() - since < 20 * SECOND, "the dead one still has its lock after 20 s");
            }
            for (long free = System.nanoTime();;) {
                long begin = System.nanoTime();
                if (publisher.offer(message) > 0) {
                    return System.nanoTime() - free;
                }
                assertTrue(begin - free < PATIENCE,
                    () -> "an offer failed that began " + (begin - free) + " ns after the lock was free");
            }
        }
    }

    /** How many offers fail after the lock is free, if the publisher offers only as often as it may test. */
    private static int offers(Channel channel, Publisher publisher, Process child) throws Exception {
        long lockAt = channel.header().controlOffset + channel.header().subscriberSlot(0);
        try (Lock lock = channel.file().newLock()) {
            assertTrue(publisher.offer(new byte[500]) < 0);
            child.destroyForcibly();
            while (lock.heldByAnother(lockAt)) {
                Thread.sleep(1);
            }
        }
        int failed = 0;
        for (; failed < 10; failed++) {
            Thread.sleep(2 * PATIENCE / 1_000_000);
            if (publisher.offer(new byte[500]) > 0) {
                break;
            }
        }
        return failed;
    }

    @Test
    @Tag("long")
    void aPublisherGetsOnAfterAReaderWasKilled() throws Exception {
        List<Long> times = new ArrayList<>();
        int slow = 0;
        try {
            long since = System.nanoTime();
            for (int i = 0; i < AT_ONCE; i++) {
                launch(i);
            }
            for (int i = 0; i < DEATHS && (System.nanoTime() - since < 10 * SECOND || times.size() < 2); i++) {
                Process child = children.get(i);
                assertEquals('r', child.getInputStream().read());
                if (i + AT_ONCE < DEATHS) {
                    launch(i + AT_ONCE);
                }
                Channel channel = channels.get(i);
                try (Publisher publisher = channel.publisher()) {
                    fill(publisher);
                    assertTrue(publisher.heldBy().live());
                    if (i % 4 == 3) {
                        assertEquals(0, offers(channel, publisher, child), "failed though the lock was free");
                        slow++;
                    } else {
                        times.add(spin(channel, publisher, child));
                    }
                }
            }
        } finally {
            for (Process child : children) {
                child.destroyForcibly().waitFor();
            }
            channels.forEach(Channel::close);
        }
        times.sort(null);
        System.out.println("spinning publishers, " + times.size() + " deaths: longest "
            + times.get(times.size() - 1) / 1000 + " us, least " + times.get(0) / 1000 + " us; " + slow
            + " that offer now and then");
    }
}
