// SPDX-License-Identifier: Apache-2.0

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.LossySubscriber;
import io.flyring.Publisher;
import io.flyring.Schema;
import io.flyring.Subscriber;
import io.flyring.sbe.Dispatcher;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import quotes.QuoteDecoder;
import quotes.QuoteEncoder;

/**
 * Quotes for many readers: each reader gets every quote.
 *
 * <pre>
 * MarketData feed COUNT PER_SECOND READERS    waits for so many readers, then publishes COUNT quotes at a steady pace
 * MarketData read                             counts the quotes until the feed closes
 * MarketData dashboard SECONDS                shows the newest prices each SECONDS; never slows the feed down
 * </pre>
 */
public final class MarketData {
    private static final String[] SYMBOLS = {"APPLES", "PEARS", "PLUMS", "QUINCES"};

    private long count;
    private long missing;
    private long expected;
    private String last;

    public static void main(String[] args) throws InterruptedException {
        if (args.length == 4 && args[0].equals("feed")) {
            feed(Long.parseLong(args[1]), Double.parseDouble(args[2]), Integer.parseInt(args[3]));
        } else if (args.length == 1 && args[0].equals("read")) {
            new MarketData().read();
        } else if (args.length == 2 && args[0].equals("dashboard")) {
            new MarketData().dashboard(Double.parseDouble(args[1]));
        } else {
            System.err.println("Use MarketData with: feed COUNT PER_SECOND READERS, read, or dashboard SECONDS.");
            System.exit(1);
        }
    }

    /** The reader or the feed may come first: whichever does creates the channel. */
    private static Channel openChannel() {
        Schema schema = Schema.load(Path.of("quotes.xml"));
        return Channel.openOrCreate("quotes",
            ChannelOptions.broadcast().publishers(1).subscribers(8).schema(schema));
    }

    private static void feed(long count, double perSecond, int readers) throws InterruptedException {
        QuoteEncoder quote = new QuoteEncoder();
        try (Channel channel = openChannel(); Publisher publisher = channel.publisher("feed")) {
            while (publisher.readers() < readers) {
                Thread.sleep(10);
            }
            long start = System.nanoTime();
            long sent = 0;
            while (sent < count) { // each millisecond the quotes that are due
                long due = Math.min(count, (long)((System.nanoTime() - start) / 1e9 * perSecond));
                for (; sent < due; sent++) {
                    Claim claim = publisher.claim(quote); // sleeps while the ring is full
                    quote.sequence(sent).symbol(SYMBOLS[(int)(sent % SYMBOLS.length)]);
                    quote.bid(100 + sent % 10).ask(101 + sent % 10);
                    claim.commit();
                }
                Thread.sleep(1);
            }
        }
    }

    private void read() {
        Dispatcher handler = new Dispatcher().on(new QuoteDecoder(), (quote, message) -> {
            if (count > 0) {
                missing += quote.sequence() - expected;
            }
            expected = quote.sequence() + 1;
            count++;
            last = quote.symbol() + " " + prices(quote);
        });
        try (Channel channel = openChannel(); Subscriber subscriber = channel.subscriber("reader", false)) {
            while (count == 0 || !subscriber.ended(0)) {
                subscriber.poll(handler, 256, Duration.ofMillis(100)); // sleeps while there is nothing
            }
        }
        System.out.println(count + " quotes, " + missing + " missing, the last one " + last);
    }

    private void dashboard(double seconds) throws InterruptedException {
        Map<String, String> newest = new TreeMap<>();
        Dispatcher handler = new Dispatcher().on(new QuoteDecoder(), (quote, message) ->
            newest.put(quote.symbol(), prices(quote)));
        try (Channel channel = openChannel(); LossySubscriber subscriber = channel.lossySubscriber()) {
            while (count == 0 || !subscriber.ended(0)) {
                Thread.sleep(Math.round(seconds * 1000)); // meanwhile the feed may overwrite quotes
                count += subscriber.poll(handler, 1_000_000);
                System.out.print(count + " read, " + subscriber.lostMessages(0) + " missed:");
                newest.forEach((symbol, prices) -> System.out.print(" " + symbol + " " + prices));
                System.out.println();
            }
        }
    }

    private static String prices(QuoteDecoder quote) {
        return quote.bid() + "/" + quote.ask();
    }
}
