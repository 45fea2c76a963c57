// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.sbe.Dispatcher;
import io.flyring.sbe.MessageHeader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import odd.OddDecoder;
import odd.OddEncoder;
import odd.OddHeaderDecoder;
import odd.OddHeaderEncoder;
import odd.ZeroDecoder;
import odd.ZeroEncoder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import prices.InstrumentDecoder;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.TradeDecoder;
import prices.TradeEncoder;

/** Claims with encoders, and dispatch to decoders (messages.md 1 and 3). */
class TypedTest {
    private static final int HEADER = 8;

    @RegisterExtension
    final Rings rings = new Rings();

    private final PriceUpdateEncoder update = new PriceUpdateEncoder();
    private final TradeEncoder trade = new TradeEncoder();
    private final List<String> seen = new ArrayList<>();
    private Channel channel;
    private Publisher publisher;
    private Subscriber subscriber;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("t.ring"), ChannelOptions.broadcast().capacity(1 << 14));
        publisher = channel.publisher();
        subscriber = channel.subscriber();
    }

    @AfterEach
    void close() {
        channel.close();
    }

    private void publish(long bid) {
        Claim claim = publisher.claim(update);
        update.bid(bid);
        claim.commit();
    }

    private Dispatcher dispatcher() {
        return new Dispatcher()
            .on(new PriceUpdateDecoder(), (decoder, message) -> seen.add("update " + decoder.bid()))
            .on(new TradeDecoder(), (decoder, message) -> seen.add("trade " + decoder.size()));
    }

    /** Publishes raw bytes: header fields in little endian, then {@code rest} zeros. */
    private void raw(int type, int block, int template, int schema, int version, int rest) {
        ByteBuffer bytes = ByteBuffer.allocate(HEADER + rest).order(ByteOrder.LITTLE_ENDIAN).putShort((short) block)
            .putShort((short) template).putShort((short) schema).putShort((short) version).clear();
        assertTrue(publisher.offer(bytes, type) > 0);
    }

    private static String bad(BadMessageException error, Message at) {
        assertEquals("bad-message", error.code());
        assertEquals(at.ring(), error.ring());
        assertEquals(at.position(), error.position());
        assertEquals(at.type(), error.type());
        assertTrue(error.getMessage().contains(error.reason()), error.getMessage());
        return error.reason();
    }

    @Test
    void aClaimHasHeaderTypeAndLength() {
        Claim claim = publisher.claim(update, 10);
        assertEquals(HEADER + PriceUpdateEncoder.BLOCK_LENGTH + 10, claim.length());
        assertSame(claim.buffer(), update.buffer());
        update.bid(5);
        claim.commit();
        assertThrows(IndexOutOfBoundsException.class, () -> update.bid(6), "after the commit");
        Message message = subscriber.take();
        assertEquals(PriceUpdateEncoder.TEMPLATE_ID, message.type());
        ByteBuffer bytes = ByteBuffer.wrap(message.toByteArray()).order(ByteOrder.LITTLE_ENDIAN);
        assertEquals(PriceUpdateEncoder.BLOCK_LENGTH, bytes.getShort());
        assertEquals(PriceUpdateEncoder.TEMPLATE_ID, bytes.getShort());
        assertEquals(PriceUpdateEncoder.SCHEMA_ID, bytes.getShort());
        assertEquals(PriceUpdateEncoder.SCHEMA_VERSION, bytes.getShort());
        assertEquals(5, bytes.getLong(HEADER + PriceUpdateEncoder.bidEncodingOffset()));
    }

    @Test
    void typedClaimsAreRefusedAsRawOnesAre() {
        assertEquals("variable_length", assertThrows(InvalidArgumentException.class,
            () -> publisher.claim(update, -1)).argument());
        for (int length : new int[] {publisher.maxMessageLength() - HEADER - PriceUpdateEncoder.BLOCK_LENGTH + 1,
            Integer.MAX_VALUE - 70, Integer.MAX_VALUE - 69, Integer.MAX_VALUE}) {
            assertThrows(MessageTooLargeException.class, () -> publisher.claim(update, length), "length " + length);
        }
        InvalidArgumentException zero = assertThrows(InvalidArgumentException.class,
            () -> publisher.claim(new ZeroEncoder()));
        assertTrue(zero.argument().equals("type") && zero.getMessage().contains("template id 0"), zero.getMessage());
        assertThrows(InvalidArgumentException.class, () -> publisher.claim(new ZeroEncoder(), 0, new OddHeader()));
        assertThrows(InvalidArgumentException.class, () -> publisher.claim(update, -1, new OddHeader()));
        assertThrows(InvalidArgumentException.class, () -> new Dispatcher().on(new ZeroDecoder(), (d, m) -> { }));
        Claim claim = publisher.claim(update);
        assertThrows(ViewAliveException.class, () -> publisher.claim(update));
        claim.abort();
        int taken = 0;
        for (claim = publisher.tryClaim(update); claim != null; claim = publisher.tryClaim(update)) {
            claim.commit();
            taken++;
        }
        assertTrue(taken > 100, "" + taken);
        publisher.close();
        assertThrows(ClosedException.class, () -> publisher.claim(update));
    }

    @Test
    void eachMessageGoesToTheHandlerOfItsTemplate() {
        publish(1);
        Claim claim = publisher.claim(trade);
        trade.size(2);
        claim.commit();
        publisher.offer(new byte[3], 0, 3, 99);
        publish(3);
        Dispatcher dispatcher = dispatcher();
        assertEquals(4, subscriber.poll(dispatcher, 10), "one of an unknown type is skipped");
        assertEquals(List.of("update 1", "trade 2", "update 3"), seen);
        publisher.offer(new byte[3], 0, 3, 99);
        subscriber.poll(dispatcher.otherwise(message -> seen.add("type " + message.type())), 10);
        assertEquals("type 99", seen.get(3));
        assertEquals("decoder", assertThrows(InvalidArgumentException.class,
            () -> dispatcher.on(new TradeDecoder(), (d, m) -> { })).argument());
    }

    @Test
    void badMessagesAreConsumedAndTheErrorSaysWhy() {
        Message[] at = new Message[1];
        Dispatcher dispatcher = dispatcher();
        MessageHandler handler = message -> {
            at[0] = message.copy();
            dispatcher.onMessage(message);
        };
        publisher.offer(new byte[7], 0, 7, 1);
        publisher.offer(new byte[0], 0, 0, 2);
        raw(1, 62, 1, 8, 1, 62);
        raw(1, 62, 2, 8, 1, 10); // wrong in three ways: the schema is checked before the template, then the block
        raw(1, 62, 2, 7, 1, 10);
        raw(1, 63, 1, 7, 1, 62);
        raw(1, 65535, 1, 7, 1, 62);
        raw(1, 61, 1, 7, 1, 62);
        raw(1, 61, 1, 7, 2, 62);
        raw(1, 62, 1, 7, 1, 62);
        raw(1, 3, 1, 7, 0, 3); // an older version may have a shorter block: read up to the payload's end
        String[] reasons = {"7 bytes are less than a message header of 8", "0 bytes are less than",
            "schema id 8, PriceUpdateDecoder the schema id 7", "schema id 8", "template id 2",
            "less than the header's 8 and the block's 63", "block's 65535",
            "block of 61 bytes is too short for version 1, which has at least 62", "short for version 2"};
        for (String reason : reasons) {
            BadMessageException error = assertThrows(BadMessageException.class, () -> subscriber.poll(handler, 10));
            assertTrue(bad(error, at[0]).contains(reason), error.getMessage());
        }
        assertEquals(List.of(), seen);
        assertThrows(IndexOutOfBoundsException.class, () -> subscriber.poll(handler, 10));
        assertEquals(List.of("update 0"), seen, "the next one, which is whole");
        assertEquals(0, subscriber.poll(handler, 10));
        publish(9);
        subscriber.poll(handler, 10);
        assertEquals(List.of("update 0", "update 9"), seen);
    }

    @Test
    void olderAndNewerPublishersAreUnderstood() {
        int fee = TradeEncoder.venueFeeEncodingOffset();
        raw(2, fee, 2, 7, 0, fee); // version 0 has no fee
        raw(2, TradeEncoder.BLOCK_LENGTH + 5, 2, 7, 3, TradeEncoder.BLOCK_LENGTH + 9); // a later version has more
        List<Integer> fees = new ArrayList<>();
        subscriber.poll(new Dispatcher().on(new TradeDecoder(), (decoder, message) -> {
            fees.add(decoder.venueFee());
            assertEquals(decoder.actingVersion() == 0 ? fee : TradeEncoder.BLOCK_LENGTH + 5, decoder.limit() - HEADER);
        }), 10);
        assertEquals(List.of(TradeDecoder.venueFeeNullValue(), 0), fees);
    }

    @Test
    void aDecoderIsDeadOnceItsHandlerHasReturned() {
        PriceUpdateDecoder kept = new PriceUpdateDecoder();
        InstrumentDecoder[] part = new InstrumentDecoder[1];
        List<Object> later = new ArrayList<>();
        Runnable look = () -> {
            later.add(assertThrows(IndexOutOfBoundsException.class, kept::bid));
            later.add(assertThrows(IndexOutOfBoundsException.class, () -> part[0].id()));
        };
        Dispatcher dispatcher = new Dispatcher()
            .on(kept, (decoder, message) -> part[0] = decoder.instrument())
            .on(new TradeDecoder(), (decoder, message) -> look.run())
            .otherwise(message -> look.run());
        publish(1);
        publisher.claim(trade).commit();
        publisher.offer(new byte[100], 0, 100, 50);
        assertEquals(3, subscriber.poll(dispatcher, 10));
        look.run();
        publish(2);
        subscriber.poll(message -> look.run(), 10);
        assertEquals(8, later.size());
        publish(3);
        assertThrows(ArithmeticException.class, () -> subscriber.poll(new Dispatcher().on(kept, (decoder, message) -> {
            throw new ArithmeticException();
        }), 10));
        look.run();
    }

    @Test
    void readingBeyondThePayloadIsOutOfBounds() {
        raw(3, 32, 3, 7, 1, 34); // a Book whose group's header is cut off
        assertThrows(IndexOutOfBoundsException.class, () -> subscriber.poll(new Dispatcher()
            .on(new prices.BookDecoder(), (decoder, message) -> seen.add("" + decoder.levels().count())), 10));
        assertEquals(List.of(), seen);
        publisher.claim(update); // 62 bytes of block: no room for data
        prices.BookEncoder book = new prices.BookEncoder();
        book.wrap(update.buffer(), HEADER + 40);
        assertThrows(IndexOutOfBoundsException.class, () -> book.levelsCount(1).next().price(1));
    }

    @Test
    void lossySubscribersDispatchToo() {
        try (LossySubscriber lossy = channel.lossySubscriber()) {
            publish(4);
            lossy.poll(dispatcher(), 10);
        }
        assertEquals(List.of("update 4"), seen);
    }

    /** The header of odd-header.xml, over its generated codec, as users would write it. */
    static class OddHeader implements MessageHeader {
        private final OddHeaderEncoder encoder = new OddHeaderEncoder();
        private final OddHeaderDecoder decoder = new OddHeaderDecoder();

        @Override
        public int length() {
            return OddHeaderDecoder.ENCODED_LENGTH;
        }

        @Override
        public void encode(MutableDirectBuffer buffer, int blockLength, int templateId, int schemaId, int version) {
            encoder.wrap(buffer, 0).blockLength(blockLength).templateId(templateId).schemaId((short) schemaId)
                .version((short) version);
        }

        @Override
        public int blockLength(DirectBuffer buffer) {
            return decoder.wrap(buffer, 0).blockLength();
        }

        @Override
        public int templateId(DirectBuffer buffer) {
            return decoder.wrap(buffer, 0).templateId();
        }

        @Override
        public int schemaId(DirectBuffer buffer) {
            return decoder.wrap(buffer, 0).schemaId();
        }

        @Override
        public int version(DirectBuffer buffer) {
            return decoder.wrap(buffer, 0).version();
        }
    }

    @Test
    void otherHeadersCanBeChosen() {
        OddHeader header = new OddHeader();
        OddEncoder odd = new OddEncoder();
        for (int more = 0; more < 2; more++) {
            Claim claim = publisher.claim(odd, more, header);
            odd.value(-77 - more);
            claim.commit();
        }
        Message raw = subscriber.take();
        assertEquals(6 + 8, raw.length());
        assertEquals(12345, raw.type());
        assertEquals(2, raw.buffer().getByte(0));
        assertEquals(8, raw.buffer().getShort(1));
        Dispatcher dispatcher = new Dispatcher(header).on(new OddDecoder(),
            (decoder, message) -> seen.add(decoder.value() + " " + decoder.actingVersion()));
        subscriber.poll(dispatcher, 10);
        assertEquals(List.of("-78 2"), seen);
        String[] reasons = {"5 bytes are less than a message header of 6", "schema id 10", "template id 12344", "8"};
        byte[][] payloads = {{0, 0, 0, 0, 0}, {2, 8, 0, 10, 0, 0}, {2, 8, 0, 9, 0x38, 0x30},
            {2, 8, 0, 9, 0x39, 0x30, 1}};
        for (int i = 0; i < payloads.length; i++) {
            publisher.offer(payloads[i], 0, payloads[i].length, 12345);
            BadMessageException error = assertThrows(BadMessageException.class, () -> subscriber.poll(dispatcher, 10));
            assertTrue(error.reason().contains(reasons[i]), error.getMessage());
        }
        assertEquals(0, subscriber.poll(dispatcher, 10));
    }

    @Test
    void aHeaderThatFailsLeavesNoClaimOpen() {
        MessageHeader failing = new OddHeader() {
            @Override
            public void encode(MutableDirectBuffer buffer, int block, int template, int schema, int version) {
                throw new ArithmeticException();
            }
        };
        assertThrows(ArithmeticException.class, () -> publisher.claim(new OddEncoder(), 0, failing));
        publish(1);
        assertEquals(1, subscriber.poll(dispatcher(), 10));
    }

    @Test
    void bigEndianSchemasHaveTheUsualHeaderInBigEndian() {
        wide.big.WideEncoder encoder = new wide.big.WideEncoder();
        Claim claim = publisher.claim(encoder, 0, MessageHeader.BIG_ENDIAN);
        encoder.i64(0x0102030405060708L);
        claim.commit();
        publisher.claim(encoder, 0, MessageHeader.BIG_ENDIAN).commit();
        Message raw = subscriber.take();
        assertEquals(wide.big.WideEncoder.TEMPLATE_ID, raw.type());
        ByteBuffer bytes = ByteBuffer.wrap(raw.toByteArray()); // in big endian
        assertEquals(wide.big.WideEncoder.BLOCK_LENGTH, bytes.getShort(0));
        assertEquals(101, bytes.getShort(4));
        assertEquals(3, bytes.getShort(6));
        assertEquals(0x0102030405060708L, bytes.getLong(HEADER + wide.big.WideEncoder.i64EncodingOffset()));
        assertThrows(BadMessageException.class, () -> subscriber.poll(new Dispatcher()
            .on(new wide.big.WideDecoder(), (decoder, message) -> { }), 10), "as if it were little endian");
    }

    @Test
    void aMessageIsCheckedAlthoughTheOneBeforeHadTheSameHeader() {
        wide.big.WideEncoder encoder = new wide.big.WideEncoder();
        int length = HEADER + wide.big.WideEncoder.BLOCK_LENGTH;
        long header = wide.big.WideEncoder.BLOCK_LENGTH | (long) wide.big.WideEncoder.TEMPLATE_ID << 16
            | (long) encoder.sbeSchemaId() << 32 | (long) encoder.sbeSchemaVersion() << 48;
        byte[] good = new byte[length];
        ByteBuffer.wrap(good).order(ByteOrder.LITTLE_ENDIAN).putLong(0, header);
        byte[] other = good.clone();
        other[4]++; // the schema's id
        Dispatcher dispatcher = new Dispatcher().on(new wide.big.WideDecoder(), (decoder, message) -> seen.add("good"));
        for (int i = 0; i < 2; i++) {
            publisher.offer(good, 0, length, encoder.sbeTemplateId());
            assertEquals(1, subscriber.poll(dispatcher, 10));
            publisher.offer(good, 0, length - 1, encoder.sbeTemplateId());
            assertThrows(BadMessageException.class, () -> subscriber.poll(dispatcher, 10), "too short");
            publisher.offer(other, 0, length, encoder.sbeTemplateId());
            assertThrows(BadMessageException.class, () -> subscriber.poll(dispatcher, 10), "another schema");
        }
        assertEquals(List.of("good", "good"), seen);
    }
}
