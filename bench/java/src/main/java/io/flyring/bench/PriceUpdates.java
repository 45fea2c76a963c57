// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
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
 * Messages of PriceUpdate (spec/sbe/prices.xml) instead of words: writes and compares every field through the codecs.
 * The instrument's id, the first field, is the tag; other fields derive from it.
 */
final class PriceUpdates extends Messages {
    static final int HEADER_LENGTH = 8;
    static final int LENGTH = HEADER_LENGTH + PriceUpdateEncoder.BLOCK_LENGTH;

    /** Symbol, exchange and currency, as written. */
    private static final byte[] TEXTS = "FLYR\0\0\0\0XFLYEUR".getBytes(StandardCharsets.US_ASCII);
    private static final int EXCHANGE = 8;
    private static final int CURRENCY = 12;

    /** The same, as read. A constant, as all below: then the compiler knows the length and omits the check. */
    private static final byte[] READ = new byte[TEXTS.length];
    private static final VarHandle LONGS = words(long[].class);
    private static final VarHandle INTS = words(int[].class);
    private static final VarHandle SHORTS = words(short[].class);
    private static final long SYMBOL_WORD = (long) LONGS.get(TEXTS, 0);
    private static final int EXCHANGE_WORD = (int) INTS.get(TEXTS, EXCHANGE);
    private static final short CURRENCY_WORD = (short) SHORTS.get(TEXTS, CURRENCY);
    private static final InstrumentKind[] KINDS = {InstrumentKind.STOCK, InstrumentKind.FUTURE};
    private static final Side[] SIDES = {Side.BUY, Side.SELL};

    /** Wrapped by the sender. */
    final PriceUpdateEncoder encoder = new PriceUpdateEncoder();
    /** Wrapped by the receiver. */
    final PriceUpdateDecoder decoder = new PriceUpdateDecoder();

    PriceUpdates(int size) {
        super(size, true);
        if (size < LENGTH) {
            throw new IllegalArgumentException("--size is at least " + LENGTH);
        }
    }

    /** Word 0, the instrument's id, tells the end. */
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

    /** One long method: HotSpot compiles methods of more than 325 bytecodes separately. */
    @Override
    boolean is(DirectBuffer from, int at, long tag) {
        PriceFlagsDecoder flags = decoder.flags();
        InstrumentDecoder instrument = decoder.instrument();
        instrument.getSymbol(READ, 0);
        instrument.getExchange(READ, EXCHANGE);
        instrument.getCurrency(READ, CURRENCY);
        return instrument.id() == tag & instrument.kind() == kind(tag) & (long) LONGS.get(READ, 0) == SYMBOL_WORD
            & (int) INTS.get(READ, EXCHANGE) == EXCHANGE_WORD & (short) SHORTS.get(READ, CURRENCY) == CURRENCY_WORD
            & READ[CURRENCY + 2] == 'R' & decoder.timestamp() == timestamp(tag) & decoder.bid() == bid(tag)
            & decoder.ask() == bid(tag) + 1000 & decoder.bidSize() == tag + 1 & decoder.askSize() == tag + 2
            & decoder.sequence() == tag & decoder.lastSide() == side(tag) & flags.opening() == ((tag & 1) == 0)
            & flags.closing() == ((tag & 2) == 0) & !flags.halted();
    }

    private static VarHandle words(Class<?> array) {
        return MethodHandles.byteArrayViewVarHandle(array, ByteOrder.nativeOrder());
    }

    private static InstrumentKind kind(long tag) {
        return KINDS[(int) tag & 1];
    }

    private static Side side(long tag) {
        return SIDES[(int) tag >> 2 & 1];
    }

    private static long timestamp(long tag) {
        return 1_700_000_000_000_000_000L + tag;
    }

    private static long bid(long tag) {
        return 100_000_000 + tag;
    }
}
