// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.sbe.Dispatcher;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import prices.BookDecoder;
import prices.BookEncoder;
import prices.InstrumentDecoder;
import prices.InstrumentEncoder;
import prices.InstrumentKind;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.Side;
import prices.TradeDecoder;
import prices.TradeEncoder;

/** Random messages of prices.xml arrive unchanged, with any records between them and at any place. */
class TypedRandomTest {
    private static final int MESSAGES = 200_000;
    private static final Side[] SIDES = {Side.BUY, Side.SELL, Side.NULL_VAL};

    @RegisterExtension
    final Rings rings = new Rings();

    private final Random random = new Random(20261121);
    private final PriceUpdateEncoder update = new PriceUpdateEncoder();
    private final TradeEncoder trade = new TradeEncoder();
    private final BookEncoder book = new BookEncoder();
    private final Queue<List<Object>> sent = new ArrayDeque<>();
    private List<Object> fields;
    private int checked;

    private <T> T field(T value) {
        fields.add(value);
        return value;
    }

    /** A value of {@code bits} bits, with edge cases more often than others. */
    private long number(int bits) {
        long mask = -1L >>> 64 - bits;
        long value = switch (random.nextInt(4)) {
            case 0 -> random.nextInt(3) - 1L;
            case 1 -> 1L << random.nextInt(bits);
            default -> random.nextLong();
        };
        return field(value & mask);
    }

    private String text(int most) {
        StringBuilder text = new StringBuilder();
        for (int i = random.nextInt(most + 1); i > 0; i--) {
            text.append((char) (' ' + 1 + random.nextInt(94)));
        }
        return field(text.toString());
    }

    private Side side(int kinds) {
        return field(SIDES[random.nextInt(kinds)]);
    }

    private void write(InstrumentEncoder instrument) {
        instrument.id(number(64)).symbol(text(8));
        String exchange = text(4);
        instrument.putExchange((exchange + "\0\0\0\0").substring(0, 4).getBytes(StandardCharsets.US_ASCII), 0);
        String currency = text(3);
        for (int i = 0; i < 3; i++) {
            instrument.currency(i, (byte) (i < currency.length() ? currency.charAt(i) : 0));
        }
        instrument.kind(field(InstrumentKind.get((short) random.nextInt(3))));
    }

    private static void read(InstrumentDecoder instrument, List<Object> into) {
        into.add(instrument.id());
        into.add(instrument.symbol());
        byte[] exchange = new byte[6];
        instrument.getExchange(exchange, 1);
        into.add(new String(exchange, 1, 4, StandardCharsets.US_ASCII).split("\0", 2)[0]);
        StringBuilder currency = new StringBuilder();
        instrument.getCurrency(currency);
        into.add(currency.toString().split("\0", 2)[0]);
        into.add(instrument.kind());
    }

    private Claim updateIn(Publisher publisher) {
        Claim claim = publisher.tryClaim(update, random.nextInt(3));
        if (claim != null) {
            field("update");
            write(update.instrument());
            update.timestamp(number(64)).bid(number(64)).ask(number(64)).bidSize(number(32)).askSize(number(32))
                .sequence(number(32)).lastSide(side(3));
            update.flags().clear().opening(field(random.nextBoolean())).closing(field(random.nextBoolean()))
                .halted(field(random.nextBoolean()));
        }
        return claim;
    }

    private void updateFrom(PriceUpdateDecoder decoder) {
        List<Object> got = new ArrayList<>(List.of("update"));
        read(decoder.instrument(), got);
        got.addAll(List.of(decoder.timestamp(), decoder.bid(), decoder.ask(), decoder.bidSize(), decoder.askSize(),
            decoder.sequence(), decoder.lastSide(), decoder.flags().opening(), decoder.flags().closing(),
            decoder.flags().halted()));
        check(got);
    }

    private Claim tradeIn(Publisher publisher) {
        Claim claim = publisher.tryClaim(trade);
        if (claim != null) {
            field("trade");
            write(trade.instrument());
            trade.timestamp(number(64)).price(number(64)).size(number(32)).side(side(2))
                .venueFee(field(random.nextInt()));
        }
        return claim;
    }

    private void tradeFrom(TradeDecoder decoder) {
        List<Object> got = new ArrayList<>(List.of("trade"));
        read(decoder.instrument(), got);
        got.addAll(List.of(decoder.timestamp(), decoder.price(), decoder.size(), decoder.side(), decoder.venueFee()));
        check(got);
    }

    private Claim bookIn(Publisher publisher) {
        int levels = random.nextInt(6);
        byte[] remark = new byte[random.nextInt(40)];
        random.nextBytes(remark);
        int length = BookEncoder.LevelsEncoder.HEADER_SIZE + levels * BookEncoder.LevelsEncoder.sbeBlockLength()
            + BookEncoder.remarkHeaderLength() + remark.length;
        Claim claim = publisher.tryClaim(book, length + random.nextInt(2) * random.nextInt(100));
        if (claim != null) {
            field("book");
            write(book.instrument());
            book.timestamp(number(64));
            BookEncoder.LevelsEncoder level = book.levelsCount(field(levels));
            for (int i = 0; i < levels; i++) {
                level.next().price(number(64)).size(number(32)).side(side(2));
            }
            book.putRemark(remark, 0, remark.length);
            field(java.util.Arrays.toString(remark));
            assertEquals(BookEncoder.BLOCK_LENGTH + length, book.encodedLength());
        }
        return claim;
    }

    private void bookFrom(BookDecoder decoder) {
        List<Object> got = new ArrayList<>(List.of("book"));
        read(decoder.instrument(), got);
        got.add(decoder.timestamp());
        BookDecoder.LevelsDecoder levels = decoder.levels();
        got.add(levels.count());
        for (BookDecoder.LevelsDecoder level : levels) {
            got.addAll(List.of(level.price(), level.size(), level.side()));
        }
        PayloadBuffer view = new PayloadBuffer();
        decoder.wrapRemark(view);
        byte[] remark = new byte[view.capacity()];
        view.getBytes(0, remark);
        got.add(java.util.Arrays.toString(remark));
        assertTrue(decoder.toString().contains("levels=["), decoder::toString);
        check(got);
    }

    private void check(List<Object> got) {
        assertEquals(sent.remove(), got);
        checked++;
    }

    @Test
    void everyMessageArrivesAsItWasSent() {
        for (int alignment : new int[] {8, 64}) {
            try (Channel channel = Channel.create(rings.path(alignment + ".ring"),
                ChannelOptions.broadcast().capacity(1 << 13).alignment(alignment));
                Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
                Dispatcher dispatcher = new Dispatcher()
                    .on(new PriceUpdateDecoder(), (decoder, message) -> updateFrom(decoder))
                    .on(new TradeDecoder(), (decoder, message) -> tradeFrom(decoder))
                    .on(new BookDecoder(), (decoder, message) -> bookFrom(decoder))
                    .otherwise(message -> check(List.of("raw", message.length())));
                for (int i = 0; i < MESSAGES / 2; i++) {
                    if (!publish(publisher) || random.nextInt(20) == 0) {
                        subscriber.poll(dispatcher, 1 + random.nextInt(64));
                    }
                }
                subscriber.poll(dispatcher, MESSAGES);
                assertEquals(0, sent.size());
            }
        }
        assertTrue(checked > MESSAGES * 0.8, "" + checked);
    }

    private boolean publish(Publisher publisher) {
        fields = new ArrayList<>();
        Claim claim = switch (random.nextInt(4)) {
            case 0 -> updateIn(publisher);
            case 1 -> tradeIn(publisher);
            case 2 -> bookIn(publisher);
            default -> publisher.tryClaim(random.nextInt(100), 1000);
        };
        if (claim == null) {
            return false;
        }
        if (fields.isEmpty()) {
            fields.addAll(List.of("raw", claim.length()));
        }
        if (random.nextInt(10) == 0) {
            claim.abort();
        } else {
            claim.commit();
            sent.add(fields);
        }
        return true;
    }
}
