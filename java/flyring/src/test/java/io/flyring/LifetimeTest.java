// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.nio.ReadOnlyBufferException;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Close, use from two threads and from handlers, and the lifetime of claims and messages. */
class LifetimeTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(ChannelOptions options) {
        return Channel.create(rings.path("slots.ring"), options.capacity(4096).publishers(2).subscribers(2));
    }

    @Test
    void afterCloseEverythingIsClosed() {
        Channel channel = create(ChannelOptions.broadcast().counters(2));
        Publisher publisher = channel.publisher();
        Subscriber subscriber = channel.subscriber();
        Counters counters = channel.counters();
        Counter counter = counters.allocate("count");
        Claim claim = publisher.claim(8);
        PayloadBuffer buffer = claim.buffer();
        channel.close();
        channel.close();
        publisher.close();
        subscriber.close();
        claim.close();
        for (Executable use : List.<Executable>of(
            () -> publisher.offer(new byte[1]), () -> publisher.claim(1), publisher::heldBy, claim::commit,
            () -> subscriber.poll(message -> { }), subscriber::take, subscriber::forget, () -> subscriber.ended(0),
            publisher::readers, channel::publisher, channel::subscriber,
            channel::counters, counter::get, () -> counters.allocate("x"), () -> counters.find("x"),
            () -> counters.forEach(each -> { }), counter::free, () -> counter.getAndAdd(1))) {
            assertEquals("closed", assertThrows(ClosedException.class, use).code());
        }
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.putByte(0, (byte) 1));
        assertEquals(1 << 12, channel.capacity());
    }

    @Test
    void closingFromInsideAHandlerIsRefused() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            int[] refused = new int[1];
            subscriber.poll(message -> {
                assertThrows(ViewAliveException.class, subscriber::close);
                assertThrows(ViewAliveException.class, subscriber::forget);
                assertThrows(ViewAliveException.class, channel::close);
                assertThrows(TwoThreadsException.class, () -> subscriber.poll(inner -> { }));
                assertThrows(TwoThreadsException.class, subscriber::take);
                refused[0]++;
                publisher.offer(new byte[2]);
            }, 1);
            assertEquals(1, refused[0]);
            assertEquals(2, subscriber.take().length());
        }
    }

    @Test
    void aSecondThreadIsNoticed() throws Exception {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            Throwable[] seen = new Throwable[1];
            subscriber.poll(message -> {
                Thread other = new Thread(subscriber::take);
                other.setUncaughtExceptionHandler((thread, error) -> seen[0] = error);
                other.start();
                try {
                    other.join();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            assertEquals(TwoThreadsException.class, seen[0].getClass());
        }
    }

    @Test
    void nothingElseIsPublishedWhileASourceIsRead() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            PayloadBuffer bytes = new PayloadBuffer();
            bytes.wrap(new byte[1]);
            int[] refused = new int[1];
            DirectBuffer source = (DirectBuffer) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {DirectBuffer.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("getByte")) {
                        for (Executable use : List.<Executable>of(() -> publisher.claim(1), publisher::close,
                            () -> publisher.offer(new byte[1]), () -> publisher.offerBatch(bytes))) {
                            assertThrows(TwoThreadsException.class, use);
                            refused[0]++;
                        }
                    }
                    return method.invoke(bytes, arguments);
                });
            assertTrue(publisher.offer(source, 0, 1) > 0);
            assertEquals(1, publisher.offerBatch(source));
            assertEquals(8, refused[0]);
            assertEquals(2, subscriber.poll(message -> assertEquals(1, message.length())));
        }
    }

    @Test
    void aClosedClaimIsEmptyAndAClaimOfNothingIsOpen() {
        try (Channel channel = create(ChannelOptions.broadcast()); Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            for (int length : new int[] {8, 0}) {
                Claim claim = publisher.claim(length);
                assertEquals(length, claim.length());
                assertThrows(ViewAliveException.class, () -> publisher.claim(1));
                assertThrows(ViewAliveException.class, () -> publisher.offer(new byte[1]));
                claim.commit();
                assertEquals(0, claim.length());
                assertEquals(0, claim.buffer().capacity());
                assertThrows(IndexOutOfBoundsException.class, () -> claim.buffer().getByte(0));
                publisher.claim(length).abort();
                for (Executable again : List.<Executable>of(claim::commit, claim::abort)) {
                    assertThrows(ClosedException.class, again);
                    assertThrows(ClosedException.class, again, "and a third time");
                }
                publisher.claim(length).close();
                assertTrue(publisher.offer(new byte[1]) > 0);
            }
        }
    }

    @Test
    void aMessageIsReadOnlyInPlaceAndItsCopyStaysValid() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            publisher.offer(Rings.pattern(1, 40));
            publisher.offer(Rings.pattern(2, 40));
            List<PayloadBuffer> leaked = new ArrayList<>();
            subscriber.poll(message -> {
                assertThrows(ReadOnlyBufferException.class, () -> message.buffer().putInt(0, 1));
                leaked.add(message.buffer());
            }, 1);
            assertThrows(IndexOutOfBoundsException.class, () -> leaked.get(0).getInt(0));
            Message taken = subscriber.take();
            for (int i = 0; i < 100; i++) {
                publisher.offer(Rings.pattern(i, 500));
                subscriber.poll(message -> { });
            }
            assertArrayEquals(Rings.pattern(2, 40), taken.toByteArray());
        }
    }
}
