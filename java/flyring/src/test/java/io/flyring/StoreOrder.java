// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;

/**
 * Checks the order and the kind of access with which a publisher stores a record's length, the counts, published and
 * claimed (channel.md 6.1, 7): {@code StoreOrder PATH}. A compiler keeps the order of release stores, but may reorder
 * others; a kill in between would then leave a count that is one too high. Run by {@link StoreByStoreTest} with
 * counting copies of the memory classes.
 */
final class StoreOrder {
    private static final int CAPACITY = 4096;

    /** The store that must come next. */
    private enum Step { ANYTHING, BEGUN, PUBLISHED, DONE }

    /** The ring's data: null and its address, or its buffer and 0 if it cannot be written by address. */
    private final ByteBuffer ring;
    private final long data;
    private final long trailer;
    private Step next = Step.ANYTHING;
    private int commits;
    private int claims;

    private StoreOrder(Publisher publisher) throws ReflectiveOperationException {
        Field buffer = Memory.class.getDeclaredField("buffer");
        buffer.setAccessible(true);
        this.data = publisher.ringAt;
        this.ring = data != 0 ? null : (ByteBuffer) buffer.get(publisher.ring);
        this.trailer = data + CAPACITY;
    }

    public static void main(String[] arguments) throws ReflectiveOperationException {
        int commits = 0;
        int claims = 0;
        for (int alignment : new int[] {64, 8}) {
            try (Channel channel = Channel.replace(arguments[0], ChannelOptions.broadcast().capacity(CAPACITY)
                .publishers(1).subscribers(1).counters(0).alignment(alignment));
                Publisher publisher = channel.publisher("pub")) {
                StoreOrder order = new StoreOrder(publisher);
                Stores.listen(order::onStore);
                for (int i = 0; i < 300; i++) {
                    publish(publisher, i);
                }
                Stores.listen(null);
                need(order.next == Step.ANYTHING, "the last record ends with " + order.next);
                commits += order.commits;
                claims += order.claims;
            }
        }
        need(commits > 600 && claims > 300, "seen: " + commits + " commits, " + claims + " stores of claimed");
        System.out.println("done: " + commits + " commits, " + claims + " stores of claimed");
    }

    private static void publish(Publisher publisher, int i) {
        int length = i % 7 == 6 ? 700 : 5 * i % 90;
        switch (i % 4) {
            case 0 -> need(publisher.offer(new byte[length]) > 0, "offer");
            case 1 -> publisher.claim(length).commit();
            case 2 -> publisher.claim(length).abort();
            default -> {
                List<DirectBuffer> batch = new ArrayList<>();
                for (int each = 0; each < 3; each++) {
                    PayloadBuffer message = new PayloadBuffer();
                    message.wrap(new byte[length / 3]);
                    batch.add(message);
                }
                need(publisher.offerBatch(batch.toArray(new DirectBuffer[0])) == 3, "batch");
            }
        }
    }

    private static void need(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    /** Checks the sequence that begins with the release of a length: no other store to the ring may come in between. */
    private void onStore(String method, ByteBuffer buffer, long address) {
        long at = address - data;
        if (buffer != ring || at < 0 || at >= CAPACITY + Layout.TRAILER_LENGTH) {
            return;
        }
        boolean released = method.equals(ring == null ? "putLongRelease" : "setReleaseLong");
        boolean inOrder;
        if (address == trailer + Layout.TRAILER_MESSAGES_BEGUN) {
            inOrder = released && step(Step.BEGUN, Step.PUBLISHED);
        } else if (address == trailer + Layout.TRAILER_PUBLISHED) {
            inOrder = released && step(Step.PUBLISHED, Step.DONE);
        } else if (address == trailer + Layout.TRAILER_MESSAGES_DONE) {
            inOrder = released && step(Step.DONE, Step.ANYTHING);
        } else if (address == trailer + Layout.TRAILER_CLAIMED) {
            claims++;
            inOrder = released && next == Step.ANYTHING;
        } else if (at < CAPACITY && method.equals(ring == null ? "putIntRelease" : "setReleaseInt")) {
            commits++;
            inOrder = step(Step.ANYTHING, Step.BEGUN);
        } else {
            inOrder = next == Step.ANYTHING;
        }
        need(inOrder, method + " at " + (at < CAPACITY ? "" + at : "trailer + " + (at - CAPACITY)) + ", where "
            + next + " is due");
    }

    private boolean step(Step expected, Step following) {
        boolean right = next == expected;
        next = following;
        return right;
    }
}
