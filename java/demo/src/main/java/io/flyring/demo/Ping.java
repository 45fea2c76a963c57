// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.MessageHandler;
import io.flyring.NoSuchChannelException;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import java.io.IOException;

/** Sends messages, checks every byte of every answer, and measures the round-trip times. */
final class Ping {
    private static final long PROBE_NANOS = 50_000_000L;

    private final Options options;
    private final Exchange exchange;
    private final MessageHandler handler;
    private final Patience patience;
    private final Report report;
    private Publisher publisher;
    private Subscriber subscriber;
    private long expected;
    private long sentAt;
    private boolean answered;

    Ping(Options options) {
        this.options = options;
        this.exchange = Exchange.of(options);
        this.handler = exchange.handler(this::onMessage);
        this.patience = new Patience(options, "pong");
        this.report = new Report(options, "ping");
    }

    static Channel channel(Options options, Exchange exchange) {
        return Channel.openOrCreate(options.channel, exchange.channel(ChannelOptions.broadcast().publishers(2)
            .subscribers(2).counters(0).capacity(options.capacity).alignment(options.alignment)));
    }

    void run() throws IOException {
        try (Channel channel = channel(options, exchange);
            Publisher questions = channel.publisher("ping");
            Subscriber answers = channel.subscriber(1 - questions.ring())) {
            publisher = questions;
            subscriber = answers;
            patience.sleepsFor(answers);
            try {
                connect();
                measure();
            } finally {
                end();
            }
        }
    }

    private void end() {
        send(Exchange.END, 0);
        try {
            Channel.unlink(options.channel);
        } catch (NoSuchChannelException e) {
            System.err.println("Another process has removed the channel: " + e.getMessage());
        }
    }

    private void connect() {
        long lastProbe = System.nanoTime() - PROBE_NANOS;
        while (!answered) {
            if (System.nanoTime() - lastProbe >= PROBE_NANOS) {
                lastProbe = System.nanoTime();
                send(Exchange.PROBE, lastProbe);
            }
            subscriber.poll(handler, 1);
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
            if (subscriber.poll(handler, 1) == 0) {
                patience.idle();
            }
        }
    }

    private void send(long sequence, long now) {
        sentAt = now;
        Claim claim = exchange.claim(publisher);
        while (claim == null) {
            patience.idle();
            claim = exchange.claim(publisher);
        }
        exchange.ask(sequence, now);
        claim.commit();
    }

    private void onMessage() {
        publisher.prefetch(); // for the next question
        long sequence = exchange.sequence();
        if (sequence == Exchange.PROBE && expected != Exchange.PROBE) {
            return;
        }
        if (sequence != expected) {
            throw Quote.wrong("sequence", expected, sequence, expected);
        }
        if (sequence != Exchange.PROBE) {
            exchange.checkAnswer(sequence, sentAt);
        }
        answered = true;
    }
}
