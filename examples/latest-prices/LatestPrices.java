// SPDX-License-Identifier: Apache-2.0

import io.flyring.NoFreeSlotException;
import io.flyring.Publisher;
import io.flyring.Schema;
import io.flyring.Table;
import io.flyring.TableOptions;
import io.flyring.TableWriter;
import io.flyring.sbe.TypedTable;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.TreeSet;
import prices.PriceDecoder;
import prices.PriceEncoder;

/**
 * The latest price of each symbol, in a table that other processes read.
 *
 * <pre>
 * LatestPrices feed LAST PER_SECOND    puts updates up to number LAST of each symbol, behind those in the table
 * LatestPrices wait SYMBOL LAST        sleeps until the symbol has a new price, and prints it, up to update LAST
 * LatestPrices show                    prints all prices
 * </pre>
 */
public final class LatestPrices {
    private record Seen(long number, String text) { }

    private static final String[] SYMBOLS = {"APPLES", "PEARS", "PLUMS", "QUINCES"};

    public static void main(String[] args) throws InterruptedException {
        if (args.length == 3 && args[0].equals("feed")) {
            feed(Long.parseLong(args[1]), Double.parseDouble(args[2]));
        } else if (args.length == 3 && args[0].equals("wait")) {
            wait(args[1], Long.parseLong(args[2]));
        } else if (args.length == 1 && args[0].equals("show")) {
            show();
        } else {
            System.err.println("Use LatestPrices with: feed LAST PER_SECOND, wait SYMBOL LAST, or show.");
            System.exit(1);
        }
    }

    /** A reader or the feed may come first: whichever does creates the table. */
    private static Table openTable() {
        Schema schema = Schema.load(Path.of("prices.xml"));
        return Table.openOrCreate("prices",
            TableOptions.text().capacity(1000).schema(schema).message(new PriceEncoder()));
    }

    private static TypedTable<PriceEncoder, PriceDecoder> typed(Table table) {
        return new TypedTable<>(table, new PriceEncoder(), new PriceDecoder());
    }

    private static String text(String symbol, PriceDecoder price) {
        return symbol + " " + price.bid() + "/" + price.ask() + ", update " + price.number();
    }

    /** There is one writer. A second feed waits, and goes on when the first one has ended or was killed. */
    private static TableWriter takeWriter(Table table) {
        try {
            return table.writer("feed");
        } catch (NoFreeSlotException e) {
            System.out.println("waiting: the writer is process " + e.owners().get(0).pid());
            return table.writer("feed", Publisher.FOREVER);
        }
    }

    private static void feed(long last, double perSecond) throws InterruptedException {
        try (Table table = openTable(); TableWriter writer = takeWriter(table)) {
            TypedTable<PriceEncoder, PriceDecoder> prices = typed(table).with(writer);
            long[] done = new long[SYMBOLS.length];
            for (int i = 0; i < done.length; i++) {
                Long number = prices.read(SYMBOLS[i], PriceDecoder::number);
                done[i] = number == null ? 0 : number;
            }
            long behind = Arrays.stream(done).min().getAsLong();
            System.out.println("begins behind update " + behind);
            for (long number = behind + 1; number <= last; number++) {
                for (int i = 0; i < done.length; i++) {
                    if (number > done[i]) {
                        put(prices, SYMBOLS[i], number, 100 + i + number % 10);
                    }
                }
                Thread.sleep(Math.round(1000 / perSecond));
            }
        }
    }

    private static void put(TypedTable<PriceEncoder, PriceDecoder> prices, String symbol, long number, long bid) {
        prices.put(symbol, price -> price.number(number).bid(bid).ask(bid + 1));
    }

    private static void wait(String symbol, long last) {
        try (Table table = openTable()) {
            TypedTable<PriceEncoder, PriceDecoder> prices = typed(table);
            long version = 0;
            Seen seen = new Seen(0, "");
            while (seen.number < last) {
                version = table.waitChanged(symbol, version, Publisher.FOREVER); // sleeps until it has another version
                // The latest price: newer than that version, if the feed is fast.
                Seen latest = prices.read(symbol, price -> new Seen(price.number(), text(symbol, price)));
                if (latest.number > seen.number) {
                    System.out.println(latest.text);
                }
                seen = latest;
            }
        }
    }

    private static void show() {
        try (Table table = openTable()) {
            TypedTable<PriceEncoder, PriceDecoder> prices = typed(table);
            TreeSet<String> keys = new TreeSet<>();
            table.forEach(item -> keys.add(item.textKey()));
            for (String symbol : keys) {
                String text = prices.read(symbol, price -> text(symbol, price));
                System.out.println(text);
            }
        }
    }
}
