// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.flyring.sbe.Dispatcher;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.agrona.sbe.MessageEncoderFlyweight;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import prices.BookDecoder;
import prices.BookEncoder;
import prices.InstrumentDecoder;
import prices.InstrumentEncoder;
import prices.InstrumentKind;
import prices.PriceFlagsDecoder;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.Side;
import prices.TradeDecoder;
import prices.TradeEncoder;

/** The golden file with typed messages (spec/golden/README.md, "Typed"). */
class GoldenTypedTest {
    private static final int HEADER = 8;
    private static final int MESSAGES = 9;

    @RegisterExtension
    final Rings rings = new Rings();

    private final JsonArray found = new JsonArray();
    private Publisher publisher;
    private Subscriber again;
    private int encoded;

    @Test
    void messagesDecodeAndEncodeAgain() throws IOException {
        Path golden = Rings.spec("golden/1.0/typed.json");
        JsonArray expected = JsonParser.parseString(Files.readString(golden)).getAsJsonObject().getAsJsonArray("typed");
        String path = rings.path("typed.ring");
        Files.copy(Rings.spec("golden/1.0/typed.ring"), Path.of(path));
        Schema schema = Schema.load(Rings.spec("sbe/prices.xml"));
        try (Channel channel = Channel.open(path, new OpenOptions().schema(schema));
             Channel other = Channel.create(rings.path("again.ring"), ChannelOptions.broadcast().schema(schema))) {
            assertEquals(schema.text(), channel.schema());
            publisher = other.publisher();
            again = other.subscriber();
            channel.subscriber("reader", true).poll(new Dispatcher()
                .on(new PriceUpdateDecoder(), this::update)
                .on(new TradeDecoder(), this::trade)
                .on(new BookDecoder(), this::book)
                .otherwise(message -> note(message, JsonNull.INSTANCE, JsonNull.INSTANCE)));
        }
        assertEquals(expected, found);
        assertEquals(MESSAGES, found.size());
        assertEquals(6, encoded);
    }

    private void note(Message message, JsonElement name, JsonElement body) {
        JsonObject entry = new JsonObject();
        entry.addProperty("position", message.position());
        entry.add("message", name);
        entry.add("body", body);
        found.add(JsonParser.parseString(entry.toString())); // parsed again, so that numbers compare equal
    }

    private void note(Message message, String name, JsonObject body) {
        note(message, JsonParser.parseString(name), body);
    }

    /** Commits the claim and checks that the message has the same bytes as the original. */
    private void same(Claim claim, int length, Message original) {
        claim.commit();
        byte[] written = again.take().toByteArray();
        int end = HEADER + length;
        assertArrayEquals(Arrays.copyOf(original.toByteArray(), end), Arrays.copyOf(written, end));
        encoded++;
    }

    private Claim claim(MessageEncoderFlyweight encoder) {
        return publisher.claim(encoder, 100);
    }

    private static JsonElement side(Side side) {
        return side == Side.NULL_VAL ? JsonNull.INSTANCE : JsonParser.parseString(side.name());
    }

    private static JsonObject instrument(InstrumentDecoder decoder) {
        JsonObject body = new JsonObject();
        body.add("id", JsonParser.parseString(Long.toUnsignedString(decoder.id())));
        body.addProperty("symbol", decoder.symbol());
        body.addProperty("exchange", decoder.exchange());
        body.addProperty("currency", decoder.currency());
        body.addProperty("kind", decoder.kind().name());
        return body;
    }

    private static void instrument(InstrumentEncoder encoder, JsonObject body) {
        encoder.id(Long.parseUnsignedLong(body.get("id").getAsString())).symbol(body.get("symbol").getAsString())
            .exchange(body.get("exchange").getAsString()).currency(body.get("currency").getAsString())
            .kind(InstrumentKind.valueOf(body.get("kind").getAsString()));
    }

    private static JsonElement unsigned(long value) {
        return JsonParser.parseString(Long.toUnsignedString(value));
    }

    private void update(PriceUpdateDecoder decoder, Message message) {
        JsonObject body = new JsonObject();
        body.add("instrument", instrument(decoder.instrument()));
        body.add("timestamp", unsigned(decoder.timestamp()));
        body.addProperty("bid", decoder.bid());
        body.addProperty("ask", decoder.ask());
        body.addProperty("bidSize", decoder.bidSize());
        body.addProperty("askSize", decoder.askSize());
        body.addProperty("sequence", decoder.sequence());
        PriceFlagsDecoder flags = decoder.flags();
        JsonObject set = new JsonObject();
        set.addProperty("opening", flags.opening());
        set.addProperty("closing", flags.closing());
        set.addProperty("halted", flags.halted());
        body.add("flags", set);
        body.add("lastSide", side(decoder.lastSide()));
        note(message, "PriceUpdate", body);
        if (decoder.actingVersion() == PriceUpdateDecoder.SCHEMA_VERSION) {
            PriceUpdateEncoder encoder = new PriceUpdateEncoder();
            Claim claim = claim(encoder);
            instrument(encoder.instrument(), body.getAsJsonObject("instrument"));
            encoder.timestamp(Long.parseUnsignedLong(body.get("timestamp").getAsString()))
                .bid(body.get("bid").getAsLong()).ask(body.get("ask").getAsLong())
                .bidSize(body.get("bidSize").getAsLong())
                .askSize(body.get("askSize").getAsLong()).sequence(body.get("sequence").getAsLong())
                .lastSide(decoder.lastSide());
            encoder.flags().clear().opening(set.get("opening").getAsBoolean())
                .closing(set.get("closing").getAsBoolean()).halted(set.get("halted").getAsBoolean());
            same(claim, encoder.encodedLength(), message);
        }
    }

    private void trade(TradeDecoder decoder, Message message) {
        JsonObject body = new JsonObject();
        int fee = decoder.venueFee();
        body.add("instrument", instrument(decoder.instrument()));
        body.add("timestamp", unsigned(decoder.timestamp()));
        body.addProperty("price", decoder.price());
        body.addProperty("size", decoder.size());
        body.add("side", side(decoder.side()));
        body.add("venueFee", fee == TradeDecoder.venueFeeNullValue() ? JsonNull.INSTANCE
            : JsonParser.parseString(Integer.toString(fee)));
        note(message, "Trade", body);
        if (decoder.actingVersion() == TradeDecoder.SCHEMA_VERSION) {
            TradeEncoder encoder = new TradeEncoder();
            Claim claim = claim(encoder);
            instrument(encoder.instrument(), body.getAsJsonObject("instrument"));
            encoder.timestamp(Long.parseUnsignedLong(body.get("timestamp").getAsString()))
                .price(body.get("price").getAsLong()).size(body.get("size").getAsLong()).side(decoder.side())
                .venueFee(body.get("venueFee").isJsonNull() ? TradeEncoder.venueFeeNullValue()
                    : body.get("venueFee").getAsInt());
            same(claim, encoder.encodedLength(), message);
        }
    }

    private void book(BookDecoder decoder, Message message) {
        JsonObject body = new JsonObject();
        body.add("instrument", instrument(decoder.instrument()));
        body.add("timestamp", unsigned(decoder.timestamp()));
        JsonArray levels = new JsonArray();
        for (BookDecoder.LevelsDecoder level : decoder.levels()) {
            JsonObject one = new JsonObject();
            one.addProperty("price", level.price());
            one.addProperty("size", level.size());
            one.add("side", side(level.side()));
            levels.add(one);
        }
        body.add("levels", levels);
        body.addProperty("remark", decoder.remark());
        note(message, "Book", body);
        BookEncoder encoder = new BookEncoder();
        Claim claim = claim(encoder);
        instrument(encoder.instrument(), body.getAsJsonObject("instrument"));
        encoder.timestamp(body.get("timestamp").getAsLong());
        BookEncoder.LevelsEncoder group = encoder.levelsCount(levels.size());
        for (JsonElement each : levels) {
            JsonObject level = each.getAsJsonObject();
            group.next().price(level.get("price").getAsLong()).size(level.get("size").getAsLong())
                .side(Side.valueOf(level.get("side").getAsString()));
        }
        encoder.remark(body.get("remark").getAsString());
        same(claim, encoder.encodedLength(), message);
    }
}
