// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench.jmh;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import prices.InstrumentDecoder;
import prices.InstrumentKind;
import prices.PriceFlagsDecoder;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.Side;

/** The PriceUpdate of spec/sbe/prices.xml as a plain object, and the ways to write and read it. */
final class Price implements Serializable {
    private static final long serialVersionUID = 1;

    long id = 42;
    final byte[] symbol = "FLYR\0\0\0\0".getBytes(StandardCharsets.US_ASCII);
    final byte[] exchange = "XFLY".getBytes(StandardCharsets.US_ASCII);
    final byte[] currency = "EUR".getBytes(StandardCharsets.US_ASCII);
    InstrumentKind kind = InstrumentKind.STOCK;
    long timestamp;
    long bid;
    long ask;
    long bidSize;
    long askSize;
    long sequence;
    boolean opening;
    boolean closing;
    boolean halted;
    Side lastSide = Side.BUY;

    /** Changes the fields to those of another message. */
    void next() {
        sequence++;
        timestamp += 1000;
        bid += 3;
        ask = bid + 1000;
        bidSize = sequence & 1023;
        askSize = sequence & 511;
        opening = (sequence & 1) == 0;
        closing = (sequence & 2) == 0;
        lastSide = (sequence & 4) == 0 ? Side.BUY : Side.SELL;
    }

    void copyFrom(Price from) {
        id = from.id;
        System.arraycopy(from.symbol, 0, symbol, 0, symbol.length);
        System.arraycopy(from.exchange, 0, exchange, 0, exchange.length);
        System.arraycopy(from.currency, 0, currency, 0, currency.length);
        kind = from.kind;
        timestamp = from.timestamp;
        bid = from.bid;
        ask = from.ask;
        bidSize = from.bidSize;
        askSize = from.askSize;
        sequence = from.sequence;
        opening = from.opening;
        closing = from.closing;
        halted = from.halted;
        lastSide = from.lastSide;
    }

    /** A sum that needs every field. */
    long sum() {
        return id + symbol[0] + exchange[0] + currency[0] + kind.value() + timestamp + bid + ask + bidSize + askSize
            + sequence + (opening ? 1 : 0) + (closing ? 2 : 0) + (halted ? 4 : 0) + lastSide.value();
    }

    void encode(PriceUpdateEncoder to) {
        to.instrument().id(id).putSymbol(symbol, 0).putExchange(exchange, 0).putCurrency(currency, 0).kind(kind);
        to.timestamp(timestamp).bid(bid).ask(ask).bidSize(bidSize).askSize(askSize).sequence(sequence)
            .lastSide(lastSide);
        to.flags().clear().opening(opening).closing(closing).halted(halted);
    }

    void decode(PriceUpdateDecoder from) {
        InstrumentDecoder instrument = from.instrument();
        id = instrument.id();
        instrument.getSymbol(symbol, 0);
        instrument.getExchange(exchange, 0);
        instrument.getCurrency(currency, 0);
        kind = instrument.kind();
        timestamp = from.timestamp();
        bid = from.bid();
        ask = from.ask();
        bidSize = from.bidSize();
        askSize = from.askSize();
        sequence = from.sequence();
        PriceFlagsDecoder flags = from.flags();
        opening = flags.opening();
        closing = flags.closing();
        halted = flags.halted();
        lastSide = from.lastSide();
    }

    /** Writes the message by the JDK's serialization. */
    byte[] serialize(ByteArrayOutputStream bytes) throws IOException {
        bytes.reset();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(this);
        }
        return bytes.toByteArray();
    }

    static Price deserialize(byte[] bytes) throws IOException, ClassNotFoundException {
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
            return (Price) in.readObject();
        }
    }
}
