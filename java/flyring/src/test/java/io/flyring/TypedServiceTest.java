// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Services.bytes;
import static io.flyring.Services.text;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.Services.Pair;
import io.flyring.sbe.Dispatcher;
import io.flyring.sbe.Responder;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import odd.ZeroDecoder;
import org.agrona.sbe.MessageEncoderFlyweight;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import prices.MessageHeaderEncoder;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.TradeDecoder;
import prices.TradeEncoder;

/** Requests and answers that are messages of one schema (spec/messages.md; spec/api.md, SBE). */
class TypedServiceTest {
    private static final int ROOM = 256;
    private static final Duration SECOND = Duration.ofSeconds(1);

    @RegisterExtension
    final Rings rings = new Rings();

    private Pair pair;

    @BeforeEach
    void create() {
        pair = new Pair(rings, Services.service(1, 1 << 16, 64, 64)
            .schema(Schema.load(Rings.spec("sbe").resolve("prices.xml"))));
    }

    @AfterEach
    void close() {
        pair.close();
    }

    private static PayloadBuffer room() {
        PayloadBuffer room = new PayloadBuffer();
        room.wrap(new byte[ROOM]);
        return room;
    }

    private static TradeEncoder ask(long timestamp) {
        return new TradeEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder()).timestamp(timestamp);
    }

    private static PriceUpdateEncoder update(long timestamp) {
        return new PriceUpdateEncoder().wrapAndApplyHeader(room(), 0, new MessageHeaderEncoder()).timestamp(timestamp)
            .bid(-1).sequence(5);
    }

    private static byte[] whole(MessageEncoderFlyweight encoder) {
        byte[] bytes = new byte[Encoded.length(encoder)];
        encoder.buffer().getBytes(Encoded.offset(encoder), bytes);
        return bytes;
    }

    private Call answered(Call call, RequestHandler handler) {
        assertEquals(1, pair.server.poll(handler));
        pair.client.poll();
        return call;
    }

    private String errorOf(Call call, RequestHandler handler) {
        answered(call, handler);
        return assertThrows(ServiceErrorException.class, call::result).text();
    }

    @Test
    void aRequestChoosesItsHandlerAndTheAnswerIsDecodedByItsType() {
        Responder handler = new Responder()
            .on(new TradeDecoder(), (trade, request) -> request.reply(update(trade.timestamp() + 1)))
            .otherwise(request -> request.reply(bytes("raw " + request.type())));
        Message answer = answered(pair.client.start(ask(42), SECOND), handler).result();
        assertEquals(PriceUpdateEncoder.TEMPLATE_ID, answer.type());
        List<Long> seen = new ArrayList<>();
        new Dispatcher().on(new PriceUpdateDecoder(), (decoder, message) -> seen.add(decoder.timestamp()))
            .onMessage(answer);
        assertEquals(List.of(43L), seen);
        Message raw = answered(pair.client.start(bytes("no message")), handler).result();
        assertEquals("raw 65536", text(raw));
        assertEquals(Layout.TYPE_RAW, raw.type());
    }

    @Test
    void aRequestThatIsNoneFails() {
        Responder handler = new Responder().on(new TradeDecoder(), (trade, request) -> request.reply(bytes("never")));
        assertEquals("no handler for messages of type 3", errorOf(pair.client.start(bytes("x"), 3, SECOND), handler));
        String bad = errorOf(pair.client.start(bytes("x"), TradeEncoder.TEMPLATE_ID, SECOND), handler);
        assertTrue(bad.startsWith("The message of type 2 at position ")
            && bad.endsWith("its 1 bytes are less than a message header of 8, for TradeDecoder."), bad);
        byte[] another = whole(update(1));
        String wrong = errorOf(pair.client.start(another, TradeEncoder.TEMPLATE_ID, SECOND), handler);
        assertTrue(wrong.contains("its header has the template id 1"), wrong);
        assertEquals("not today", errorOf(pair.client.start(ask(1), SECOND),
            new Responder().on(new TradeDecoder(), (trade, request) -> {
                throw new IOException("not today");
            })));
        assertEquals("no answer", errorOf(pair.client.start(ask(1), SECOND),
            new Responder().on(new TradeDecoder(), (trade, request) -> { })));
    }

    @Test
    void aRequestMayBeKeptAndItsDecoderDiesWithTheHandler() {
        List<Request> kept = new ArrayList<>();
        TradeDecoder decoder = new TradeDecoder();
        Call call = pair.client.start(ask(7), SECOND);
        pair.server.poll(new Responder().on(decoder, (trade, request) -> {
            assertEquals(request.position, request.message().position());
            assertEquals(pair.client.name(), request.message().sender().name());
            request.keep();
            assertEquals(7, trade.timestamp());
            kept.add(request);
        }));
        assertThrows(IndexOutOfBoundsException.class, decoder::timestamp);
        Request request = kept.get(0);
        assertArrayEquals(whole(ask(7)), request.message().toByteArray());
        request.reply(update(8));
        assertEquals(PriceUpdateEncoder.TEMPLATE_ID, call.result(SECOND).type());
    }

    @Test
    void theItemsOfAStreamAreMessages() {
        Call call = pair.client.stream(ask(10), 100, SECOND);
        pair.server.poll(new Responder().on(new TradeDecoder(), (trade, request) -> {
            long first = trade.timestamp();
            request.stream(Stream.iterate(first, n -> n + 1).limit(20).map(n -> whole(ask(n))).iterator(),
                TradeEncoder.TEMPLATE_ID);
        }));
        List<Long> seen = new ArrayList<>();
        Dispatcher items = new Dispatcher().on(new TradeDecoder(), (trade, message) -> seen.add(trade.timestamp()));
        for (Message item = call.next(SECOND); item != null; item = call.next(SECOND)) {
            items.onMessage(item);
        }
        assertNull(call.result());
        assertEquals(Stream.iterate(10L, n -> n + 1).limit(20).toList(), seen);
    }

    @Test
    void eachTemplateHasOneHandler() {
        assertEquals("decoder", assertThrows(InvalidArgumentException.class, () -> new Responder()
            .on(new ZeroDecoder(), (zero, request) -> { })).argument());
        Responder one = new Responder().on(new TradeDecoder(), (trade, request) -> { });
        assertThrows(InvalidArgumentException.class, () -> one.on(new TradeDecoder(), (trade, request) -> { }));
    }
}
