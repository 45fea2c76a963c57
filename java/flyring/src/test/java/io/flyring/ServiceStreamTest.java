// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Services.bytes;
import static io.flyring.Services.code;
import static io.flyring.Services.mayHaveRun;
import static io.flyring.Services.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.Services.Pair;
import java.time.Duration;
import java.util.Iterator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Streams of replies (service.md 7). */
@Timeout(60)
class ServiceStreamTest {
    private static final Duration LONG = Duration.ofSeconds(20);

    @RegisterExtension
    final Rings rings = new Rings();

    private int made;

    private Iterator<byte[]> numbers(int items) {
        return IntStream.range(0, items).peek(i -> made++).mapToObj(i -> bytes(String.valueOf(i))).iterator();
    }

    @Test
    void aStreamHasAtMostItsCreditUnderWayAndEnds() {
        try (Pair pair = new Pair(rings)) {
            for (int credit : new int[] {1, 2, 5, 1000}) {
                for (int items : new int[] {0, 1, 2, 5, 6, 300}) {
                    made = 0;
                    Call call = pair.client.stream(bytes("go"), 1, credit, Publisher.FOREVER);
                    pair.server.poll(request -> {
                        assertTrue(request.isStream());
                        request.stream(numbers(items), 4);
                    });
                    assertTrue(made <= credit + 1, "one ahead");
                    for (int i = 0; i < items; i++) {
                        Message item = null;
                        for (int tries = 0; item == null && tries < 5; tries++) {
                            item = call.next(Duration.ZERO);
                            pair.server.poll(Services::echo);
                        }
                        assertNotNull(item, credit + " of " + items + " at " + i);
                        assertEquals(String.valueOf(i), text(item));
                        assertEquals(4, item.type());
                    }
                    pair.server.poll(Services::echo);
                    assertNull(call.next(LONG));
                    assertTrue(call.done());
                    assertNull(call.result());
                    assertEquals(0, pair.server.inHand());
                    assertEquals(0, pair.client.outstanding());
                }
            }
            assertTrue(pair.errorOf(request -> request.stream(numbers(3))).startsWith("The caller of this request"));
            assertEquals("invalid-argument",
                code(() -> pair.client.stream(bytes("x"), 1, 0, Publisher.FOREVER)));
            assertEquals("invalid-argument",
                code(() -> pair.client.stream(bytes("x"), 1, 65536, Publisher.FOREVER)));
        }
    }

    @Test
    void aStreamThatThrowsIsCancelledOrLateEnds() throws Exception {
        try (Pair pair = new Pair(rings)) {
            Call tears = pair.client.stream(bytes("go"), 1, 8, Publisher.FOREVER);
            pair.server.poll(request -> request.stream(IntStream.range(0, 10).mapToObj(i -> {
                if (i == 3) {
                    throw new IllegalStateException("torn");
                }
                return bytes("item");
            }).iterator()));
            for (int i = 0; i < 3; i++) {
                assertEquals("item", text(tears.next()));
            }
            assertEquals("service-error", code(tears::next));

            Call cancelled = pair.client.stream(bytes("go"), 1, 4, Publisher.FOREVER);
            pair.server.poll(request -> request.stream(Services.endless()));
            assertEquals("more", text(cancelled.next()));
            cancelled.cancel();
            pair.server.poll(Services::echo);
            pair.client.poll();
            assertEquals(0, pair.client.outstanding());
            assertEquals(0, pair.server.inHand());

            Call late = pair.client.stream(bytes("go"), 1, 2, Duration.ofMillis(20));
            pair.server.poll(request -> request.stream(Services.endless()));
            Thread.sleep(25);
            assertEquals("expired true", mayHaveRun(() -> {
                while (late.next(Duration.ZERO) != null) {
                    continue;
                }
            }));
            pair.server.poll(Services::echo);
            pair.client.poll();
            assertEquals(0, pair.client.outstanding());
        }
    }

    @Test
    void nextWaitsForItems() throws Exception {
        try (Pair pair = new Pair(rings)) {
            pair.client.setSpin(Duration.ZERO);
            pair.server.setSpin(Duration.ZERO);
            Thread server = new Thread(() -> pair.server.serve(request -> request.stream(numbers(500))));
            server.start();
            Call call = pair.client.stream(bytes("go"), 1, 8, Duration.ofSeconds(50));
            int seen = 0;
            for (Message item = call.next(LONG); item != null; item = call.next(LONG)) {
                assertEquals(String.valueOf(seen++), text(item));
            }
            assertEquals(500, seen);
            assertTrue(call.done());
            pair.server.stop();
            server.join();
        }
    }

    @Test
    void aKeptRequestIsAnsweredByAStreamOfAnotherThread() throws Exception {
        try (Pair pair = new Pair(rings)) {
            Call call = pair.client.stream(bytes("go"), 1, 8, Publisher.FOREVER);
            Request kept = pair.keepAll().get(0);
            Thread thread = new Thread(() -> kept.stream(numbers(100)));
            thread.start();
            thread.join();
            int seen = 0;
            for (Message item = call.next(Duration.ZERO); !call.done() || item != null;
                item = call.next(Duration.ZERO)) {
                seen += item == null ? 0 : 1;
                pair.server.poll(Services::echo);
            }
            assertEquals(100, seen);
            assertEquals(0, pair.server.inHand());
        }
    }
}
