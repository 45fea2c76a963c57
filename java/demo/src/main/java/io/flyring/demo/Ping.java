// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.Message;
import io.flyring.MessageHandler;
import io.flyring.NoSuchChannelException;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import java.io.IOException;

/** Sends messages, checks every byte of every answer, and measures how long they took. */
final class Ping implements MessageHandler {
    private static final long PROBE_NANOS = 50_000_000L;

    private final Options options;
    private final int size;
    private final Patience patience;
    private final Report report;
    private Publisher publisher;
    private Subscriber subscriber;
    private long expected;
    private long sentAt;
    private double price;
    private boolean answered;

    Ping(Options options) {
        this.options = options;
        this.size = options.size;
        this.patience = new Patience(options, "pong");
        this.report = new Report(options, "ping");
    }

    static Channel channel(Options options) {
        return Channel.openOrCreate(options.channel, ChannelOptions.broadcast().publishers(2).subscribers(2)
            .counters(0).capacity(options.capacity).alignment(options.alignment));
    }

    void run() throws IOException {
        try (Channel channel = channel(options);
            Publisher questions = channel.publisher("ping");
            Subscriber answers = channel.subscriber(1 - questions.ring())) {
            publisher = questions;
            subscriber = answers;
            try {
                connect();
                measure();
            } finally {
                end();
            }
        }
    }

    private void end() {
        send(Quote.END, 0);
        try {
            Channel.unlink(options.channel);
        } catch (NoSuchChannelException e) {
            System.err.println("Somebody else has removed the channel: " + e.getMessage());
        }
    }

    private void connect() {
        long lastProbe = System.nanoTime() - PROBE_NANOS;
        while (!answered) {
            if (System.nanoTime() - lastProbe >= PROBE_NANOS) {
                lastProbe = System.nanoTime();
                send(Quote.PROBE, lastProbe);
            }
            subscriber.poll(this, 1);
            patience.idle();
        }
    }

    private void measure() throws IOException {
        long first = 1 + options.warmup;
        for (long sequence = 1; sequence < first; sequence++) {
            roundTrip(sequence, System.nanoTime());
        }
        long start = System.nanoTime();
        if (options.untimed) {
            untimed(first, options.count);
        } else if (options.rate > 0) {
            scheduled(first, start);
        } else {
            closedLoop(first);
        }
        report.print(System.nanoTime() - start);
    }

    private void closedLoop(long first) {
        for (long i = 0; i < options.count; i++) {
            long begin = System.nanoTime();
            roundTrip(first + i, begin);
            report.record(System.nanoTime() - begin);
        }
    }

    private void scheduled(long first, long start) {
        for (long i = 0; i < options.count; i++) {
            long due = start + (long) (i * Options.NANOS / options.rate);
            long now = System.nanoTime();
            while (now < due) {
                Thread.onSpinWait();
                now = System.nanoTime();
            }
            roundTrip(first + i, now);
            report.record(System.nanoTime() - due);
        }
    }

    private void untimed(long first, long count) {
        for (long i = 0; i < count; i++) {
            roundTrip(first + i, 0);
        }
    }

    private void roundTrip(long sequence, long now) {
        expected = sequence;
        answered = false;
        send(sequence, now);
        patience.reset();
        while (!answered) {
            if (subscriber.poll(this, 1) == 0) {
                patience.idle();
            }
        }
    }

    private void send(long sequence, long now) {
        sentAt = now;
        price = Quote.price(sequence);
        Claim claim = publisher.claim(size);
        while (claim == null) {
            patience.idle();
            claim = publisher.claim(size);
        }
        Quote.write(claim.buffer(), size, sequence, now, price);
        claim.commit();
    }

    @Override
    public void onMessage(Message message) {
        long sequence = message.buffer().getLong(Quote.SEQUENCE);
        if (sequence == Quote.PROBE && expected != Quote.PROBE) {
            return;
        }
        if (sequence != expected) {
            throw Quote.wrong("sequence", expected, sequence, expected);
        }
        if (sequence == Quote.PROBE) {
            answered = true;
            return;
        }
        Quote.checkAnswer(message.buffer(), message.length(), size, sequence, sentAt, price);
        answered = true;
    }
}
