// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What {@link Publisher#prefetch()} stores, and that readers do not see it. */
class PrefetchTest {
    private static final int RING = 8192; // the ring's offset, behind header and control section

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(int alignment) {
        return Channel.create(rings.path("prefetch.ring"), ChannelOptions.broadcast().capacity(4096)
            .alignment(alignment).publishers(1).subscribers(1).counters(0));
    }

    private static byte[] file(Channel channel) throws IOException {
        return Files.readAllBytes(Path.of(channel.path()));
    }

    @Test
    void itStoresTheTypeOfTheNextRecordAndNothingElse() throws IOException {
        try (Channel channel = create(64); Publisher publisher = channel.publisher()) {
            long position = publisher.offer(new byte[3]);
            byte[] expected = file(channel);
            assertEquals(0, expected[RING + (int) position + Layout.RECORD_TYPE]);
            if (Raw.AVAILABLE) { // without access by address, prefetch does nothing: it would cost what it gains
                expected[RING + (int) position + Layout.RECORD_TYPE] = 1;
            }
            publisher.prefetch();
            assertArrayEquals(expected, file(channel));
        }
    }

    @Test
    void itStoresNothingInWhatIsNotAnnouncedYet() throws IOException {
        try (Channel channel = create(8); Publisher publisher = channel.publisher()) {
            byte[] fresh = file(channel);
            publisher.prefetch();
            assertArrayEquals(fresh, file(channel));
            publisher.offer(new byte[3]);
            byte[] expected = file(channel);
            publisher.prefetch();
            assertArrayEquals(expected, file(channel));
        }
        try (Channel channel = Channel.open(rings.path("prefetch.ring")); Publisher publisher = channel.publisher()) {
            byte[] expected = file(channel);
            publisher.prefetch();
            assertArrayEquals(expected, file(channel));
        }
    }

    @Test
    void itLeavesAnOpenClaimItsType() {
        try (Channel channel = create(64); Publisher publisher = channel.publisher();
            Subscriber subscriber = channel.subscriber()) {
            publisher.offer(new byte[1]);
            subscriber.take();
            Claim claim = publisher.claim(8, 7);
            publisher.prefetch();
            claim.commit();
            assertEquals(7, subscriber.take().type());
        }
    }

    @Test
    void itStoresNothingAfterCloseNorWhenTheSlotIsLost() throws IOException {
        try (Channel channel = create(64)) {
            Publisher closed = channel.publisher();
            closed.offer(new byte[1]);
            closed.close();
            byte[] expected = file(channel);
            closed.prefetch();
            assertArrayEquals(expected, file(channel));
            Publisher lost = channel.publisher();
            lost.offer(new byte[1]);
            channel.control().putLong(channel.header().publisherSlot(0) + Layout.PUBLISHER_SLOT_EPOCH, 99);
            expected = file(channel);
            lost.prefetch();
            assertArrayEquals(expected, file(channel));
            assertThrows(SlotLostException.class, () -> lost.offer(new byte[1]));
            lost.close();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void messagesOfAnySizeComeThroughWholeForManyLaps(int alignment) {
        try (Channel channel = create(alignment); Publisher publisher = channel.publisher();
            Subscriber subscriber = channel.subscriber()) {
            int received = 0;
            int sent = 0;
            while (received < 20_000) {
                publisher.prefetch();
                byte[] bytes = Rings.pattern(sent, sent * 37 % 1017);
                if (publisher.offer(bytes, 0, bytes.length, 2 + sent % 5) != Publisher.BACK_PRESSURED) {
                    sent++;
                    continue;
                }
                publisher.prefetch();
                Message message = subscriber.take();
                assertEquals(2 + received % 5, message.type());
                assertArrayEquals(Rings.pattern(received, received * 37 % 1017), message.toByteArray());
                received++;
            }
            assertTrue(publisher.position() > 100 * 4096);
        }
    }
}
