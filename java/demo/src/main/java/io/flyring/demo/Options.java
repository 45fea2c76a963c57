// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.BlockIdleStrategy;
import io.flyring.SpinIdleStrategy;
import io.flyring.WaitSet;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.YieldingIdleStrategy;

/** The options of bench/DEMOS.md. */
final class Options {
    static final int MIN_SIZE = 32;
    static final long NANOS = 1_000_000_000L;
    /** The largest sequence of typed messages: they are uint32, and two values have another meaning. */
    private static final long MOST_TYPED = (1L << 32) - 2;

    boolean ping;
    boolean counter;
    String channel = "demo";
    int size = MIN_SIZE;
    long count = 1_000_000;
    long warmup = 100_000;
    double rate;
    int core = -1;
    String wait = "spin";
    int capacity = 1 << 20;
    int alignment = 64;
    double timeout = 30;
    Path histogram;
    boolean json;
    boolean typed;
    private boolean sized;
    boolean untimed;

    /** A wrong command line. */
    static final class Wrong extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Wrong(String message) {
            super(message);
        }
    }

    static Options parse(List<String> arguments) {
        Options options = new Options();
        Iterator<String> rest = arguments.iterator();
        String command = next(rest, "a command: ping, pong, counter ping or counter pong");
        if (command.equals("counter")) {
            options.counter = true;
            command = next(rest, "ping or pong after counter");
        }
        options.ping = command.equals("ping");
        if (!options.ping && !command.equals("pong")) {
            throw new Wrong("Unknown command " + command + ": it is ping, pong, counter ping or counter pong.");
        }
        while (rest.hasNext()) {
            options.set(rest.next(), rest);
        }
        if (options.size < MIN_SIZE) {
            throw new Wrong("--size is " + options.size + ", it must be at least " + MIN_SIZE + ".");
        }
        if (options.counter && options.blocks()) {
            throw new Wrong("--wait block is for ping and pong only.");
        }
        if (options.typed) {
            options.checkTyped();
        }
        return options;
    }

    private void checkTyped() {
        if (counter) {
            throw new Wrong("--typed is for ping and pong only.");
        }
        if (sized) {
            throw new Wrong("--size cannot be given with --typed, whose messages have " + TypedExchange.LENGTH
                + " bytes.");
        }
        if (warmup > MOST_TYPED || count > MOST_TYPED - warmup) {
            throw new Wrong("--warmup and --count are at most " + MOST_TYPED + " together with --typed.");
        }
        size = TypedExchange.LENGTH;
    }

    private static String next(Iterator<String> rest, String what) {
        if (!rest.hasNext()) {
            throw new Wrong("There must be " + what + ".");
        }
        return rest.next();
    }

    private void set(String name, Iterator<String> rest) {
        try {
            switch (name) {
                case "--json" -> json = true;
                case "--untimed" -> untimed = true;
                case "--typed" -> typed = true;
                case "--channel" -> channel = next(rest, "a value after " + name);
                case "--size" -> {
                    size = Integer.parseInt(next(rest, "a value after " + name));
                    sized = true;
                }
                case "--count" -> count = Long.parseLong(next(rest, "a value after " + name));
                case "--warmup" -> warmup = Long.parseLong(next(rest, "a value after " + name));
                case "--rate" -> rate = Double.parseDouble(next(rest, "a value after " + name));
                case "--core" -> core = Integer.parseInt(next(rest, "a value after " + name));
                case "--wait" -> wait = next(rest, "a value after " + name);
                case "--capacity" -> capacity = Integer.parseInt(next(rest, "a value after " + name));
                case "--alignment" -> alignment = Integer.parseInt(next(rest, "a value after " + name));
                case "--timeout" -> timeout = Double.parseDouble(next(rest, "a value after " + name));
                case "--histogram" -> histogram = Path.of(next(rest, "a value after " + name));
                default -> throw new Wrong("Unknown option " + name + "; bench/DEMOS.md lists them.");
            }
        } catch (NumberFormatException e) {
            throw new Wrong(name + " wants a number: " + e.getMessage() + ".");
        }
        waiting(new WaitSet());
    }

    boolean blocks() {
        return wait.equals("block");
    }

    IdleStrategy waiting(WaitSet set) {
        return switch (wait) {
            case "block" -> new BlockIdleStrategy(set);
            case "spin" -> new SpinIdleStrategy();
            case "yield" -> new YieldingIdleStrategy();
            case "backoff" -> new BackoffIdleStrategy();
            default -> throw new Wrong("--wait is spin, yield, backoff or block, not " + wait + ".");
        };
    }

    long timeoutNanos() {
        return (long) (timeout * NANOS);
    }
}
