// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.MessageHandler;
import io.flyring.Publisher;
import io.flyring.Schema;
import io.flyring.sbe.Dispatcher;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import prices.InstrumentDecoder;
import prices.InstrumentKind;
import prices.PriceFlagsDecoder;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.Side;

/**
 * The exchange of {@code --typed}: PriceUpdate, encoded and decoded in place; compares every field (bench/DEMOS.md).
 */
final class TypedExchange implements Exchange {
    static final int LENGTH = 8 + PriceUpdateEncoder.BLOCK_LENGTH;

    private static final long UINT32 = 0xffff_ffffL;
    private static final long INSTRUMENT = 42;
    private static final byte[] SYMBOL = text("FLYR\0\0\0\0");
    private static final byte[] EXCHANGE = text("XFLY");
    private static final byte[] CURRENCY = text("EUR");
    private static final long PRICE = 100_000_000;
    private static final long SPREAD = 1000;

    private final PriceUpdateEncoder encoder = new PriceUpdateEncoder();
    private final PriceUpdateDecoder decoder = new PriceUpdateDecoder();
    private final byte[] symbol = new byte[SYMBOL.length];
    private final byte[] exchange = new byte[EXCHANGE.length];
    private final byte[] currency = new byte[CURRENCY.length];

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public ChannelOptions channel(ChannelOptions options) {
        return options.schema(Schema.of(TypedExchange.class.getResourceAsStream("/prices.xml")));
    }

    @Override
    public MessageHandler handler(Runnable action) {
        return new Dispatcher().on(decoder, (update, message) -> action.run());
    }

    @Override
    public Claim claim(Publisher publisher) {
        return publisher.tryClaim(encoder);
    }

    @Override
    public void ask(long sequence, long sendTime) {
        write(encoder, sequence & UINT32, sendTime, false);
    }

    @Override
    public void answer() {
        write(encoder, decoder.sequence(), decoder.timestamp(), true);
    }

    @Override
    public long sequence() {
        return decoder.sequence() == UINT32 ? END : decoder.sequence();
    }

    @Override
    public void checkQuestion() {
        check(decoder, decoder.sequence(), decoder.timestamp(), false);
    }

    @Override
    public void checkAnswer(long sequence, long sendTime) {
        check(decoder, sequence, sendTime, true);
    }

    static void write(PriceUpdateEncoder update, long sequence, long timestamp, boolean answer) {
        update.instrument().id(INSTRUMENT).putSymbol(SYMBOL, 0).putExchange(EXCHANGE, 0).putCurrency(CURRENCY, 0)
            .kind(InstrumentKind.STOCK);
        update.timestamp(timestamp).bid(price(sequence, answer)).ask(price(sequence, !answer))
            .bidSize(size(sequence, answer)).askSize(size(sequence, !answer)).sequence(sequence)
            .lastSide(lastSide(sequence));
        update.flags().clear().opening(sequence % 2 == 0).closing(sequence % 3 == 0);
    }

    /** Throws {@link Demo.Failed} with the name of the first field that is wrong. */
    void check(PriceUpdateDecoder update, long sequence, long timestamp, boolean answer) {
        checkInstrument(update.instrument(), sequence);
        same("timestamp", sequence, update.timestamp(), timestamp);
        same("bid", sequence, update.bid(), price(sequence, answer));
        same("ask", sequence, update.ask(), price(sequence, !answer));
        same("bidSize", sequence, update.bidSize(), size(sequence, answer));
        same("askSize", sequence, update.askSize(), size(sequence, !answer));
        same("sequence", sequence, update.sequence(), sequence);
        PriceFlagsDecoder flags = update.flags();
        same("flags", sequence, flags.getRaw(), (sequence % 2 == 0 ? 1 : 0) | (sequence % 3 == 0 ? 2 : 0));
        if (update.lastSideRaw() != lastSide(sequence).value()) {
            throw Quote.wrong("lastSide", sequence, update.lastSideRaw(), lastSide(sequence).value());
        }
    }

    private void checkInstrument(InstrumentDecoder instrument, long sequence) {
        same("instrument.id", sequence, instrument.id(), INSTRUMENT);
        instrument.getSymbol(symbol, 0);
        same("instrument.symbol", sequence, symbol, SYMBOL);
        instrument.getExchange(exchange, 0);
        same("instrument.exchange", sequence, exchange, EXCHANGE);
        instrument.getCurrency(currency, 0);
        same("instrument.currency", sequence, currency, CURRENCY);
        same("instrument.kind", sequence, instrument.kindRaw(), InstrumentKind.STOCK.value());
    }

    private static void same(String field, long sequence, long found, long expected) {
        if (found != expected) {
            throw Quote.wrong(field, sequence, found, expected);
        }
    }

    private static void same(String field, long sequence, byte[] found, byte[] expected) {
        if (!Arrays.equals(found, expected)) {
            throw Quote.wrong(field, sequence, new String(found, StandardCharsets.ISO_8859_1),
                new String(expected, StandardCharsets.ISO_8859_1));
        }
    }

    private static long price(long sequence, boolean higher) {
        return PRICE + sequence + (higher ? SPREAD : 0);
    }

    private static long size(long sequence, boolean ofAsk) {
        return sequence % (ofAsk ? 777 : 1000) + 1;
    }

    private static Side lastSide(long sequence) {
        return sequence % 4 < 2 ? Side.BUY : sequence % 4 == 2 ? Side.SELL : Side.NULL_VAL;
    }
}
