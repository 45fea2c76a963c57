// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The base of tests of waits: a channel of two rings and two slots. */
abstract class WaitFixture {
    static final int CAPACITY = 4096;
    static final Duration LONG = Duration.ofSeconds(Other.PATIENCE);

    @RegisterExtension
    final Rings rings = new Rings();

    Channel channel;

    static ChannelOptions options() {
        return ChannelOptions.broadcast().capacity(CAPACITY).publishers(2).subscribers(2).counters(0);
    }

    /** A wait for something that never comes, with a short cap. */
    class Never extends Waiting {
        Never() {
            super(data(), true, 1, "nothing");
        }

        @Override
        boolean isReady() {
            return false;
        }

        @Override
        boolean othersWake() {
            return true;
        }

        @Override
        long cap(long waited) {
            return 5_000_000;
        }

        @Override
        void look() {
        }

        @Override
        void lookSoon() {
        }

        @Override
        void setBusy(boolean busy) {
        }
    }

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("w.ring"), options());
    }

    @AfterEach
    void close() {
        channel.close();
    }

    final int asleep(WaitingWords words) {
        return words.control().getIntOpaque(words.asleep());
    }

    final int sequence(WaitingWords words) {
        return words.control().getIntAcquire(words.sequence());
    }

    final WaitingWords data() {
        return channel.slots().data();
    }

    final WaitingWords room() {
        return channel.slots().room();
    }

    static void fill(Publisher publisher) {
        for (int i = 0; publisher.offer(new byte[500]) > 0; i++) {
            assertTrue(i < 2 * CAPACITY / 500);
        }
    }
}
