// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import prices.InstrumentDecoder;
import prices.InstrumentEncoder;
import prices.InstrumentKind;
import prices.PriceFlagsDecoder;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.Side;

/**
 * PriceUpdate of spec/sbe/prices.xml in place of words: every field is written and compared, through the codecs. The
 * instrument's id, the first field, is the tag; other fields are made of it.
 */
final class PriceUpdates extends Messages {
    static final int HEADER_LENGTH = 8;
    static final int LENGTH = HEADER_LENGTH + PriceUpdateEncoder.BLOCK_LENGTH;

    /** Symbol, exchange and currency. */
    private static final byte[] TEXTS = "FLYR\0\0\0\0XFLYEUR".getBytes(StandardCharsets.US_ASCII);
    private static final int EXCHANGE = 8;
    private static final int CURRENCY = 12;

    /** Wrapped by who sends. */
    final PriceUpdateEncoder encoder = new PriceUpdateEncoder();
    /** Wrapped by who receives. */
    final PriceUpdateDecoder decoder = new PriceUpdateDecoder();
    /** Symbol, exchange and currency. */
    private final byte[] texts = new byte[TEXTS.length];

    PriceUpdates(int size) {
        super(size, true);
        if (size < LENGTH) {
            throw new IllegalArgumentException("--size is at least " + LENGTH);
        }
    }

    /** The end is told by its word 0, the instrument's id. */
    @Override
    int used() {
        return Long.BYTES;
    }

    @Override
    void write(MutableDirectBuffer to, int at, long tag) {
        InstrumentEncoder instrument = encoder.instrument();
        instrument.id(tag).putSymbol(TEXTS, 0).putExchange(TEXTS, EXCHANGE).putCurrency(TEXTS, CURRENCY)
            .kind(kind(tag));
        encoder.timestamp(timestamp(tag)).bid(bid(tag)).ask(bid(tag) + 1000)
            .bidSize(tag + 1).askSize(tag + 2).sequence(tag).lastSide(side(tag));
        encoder.flags().clear().opening((tag & 1) == 0).closing((tag & 2) == 0);
    }

    @Override
    boolean is(DirectBuffer from, int at, long tag) {
        PriceFlagsDecoder flags = decoder.flags();
        return decoder.timestamp() == timestamp(tag) & decoder.bid() == bid(tag) & decoder.ask() == bid(tag) + 1000
            & decoder.bidSize() == tag + 1 & decoder.askSize() == tag + 2 & decoder.sequence() == tag
            & flags.opening() == ((tag & 1) == 0) & flags.closing() == ((tag & 2) == 0) & !flags.halted()
            & decoder.lastSide() == side(tag) & isInstrument(decoder.instrument(), tag);
    }

    private boolean isInstrument(InstrumentDecoder instrument, long tag) {
        instrument.getSymbol(texts, 0);
        instrument.getExchange(texts, EXCHANGE);
        instrument.getCurrency(texts, CURRENCY);
        return instrument.id() == tag & instrument.kind() == kind(tag) & Arrays.equals(texts, TEXTS);
    }

    private static InstrumentKind kind(long tag) {
        return (tag & 1) == 0 ? InstrumentKind.STOCK : InstrumentKind.FUTURE;
    }

    private static Side side(long tag) {
        return (tag & 4) == 0 ? Side.BUY : Side.SELL;
    }

    private static long timestamp(long tag) {
        return 1_700_000_000_000_000_000L + tag;
    }

    private static long bid(long tag) {
        return 100_000_000 + tag;
    }
}
