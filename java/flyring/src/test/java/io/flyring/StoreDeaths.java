// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;

/**
 * Stops one operation after its k-th store to the channel, for every k, and checks from a new attachment what it left.
 * {@link StoreByStore} does this for publishers and subscribers, this class for queues and services. Run by
 * {@link StoreByStoreTest} with counting copies of the memory classes.
 *
 * @param <P> the process that dies: a channel, and the objects made from it.
 */
abstract class StoreDeaths<P extends StoreDeaths.Process> {
    final Path path;
    final int alignment;
    private byte[] bytes;
    private int points;

    StoreDeaths(Path folder, int alignment) {
        this.path = folder.resolve("deaths.ring");
        this.alignment = alignment;
    }

    /** The process that dies: a channel, and the objects made from it. */
    static class Process {
        final Channel channel;
        /** Whether the operation has returned. */
        boolean ended;

        Process(Channel channel) {
            this.channel = channel;
        }

        /** Does what the kernel does at a death: drops the locks of everything that is open, and nothing else. */
        void die() throws IOException, ReflectiveOperationException {
            Field seats = Channel.class.getDeclaredField("seats");
            seats.setAccessible(true);
            for (Object seat : List.copyOf((List<?>) seats.get(channel))) {
                ((Seat) seat).abandon();
            }
            Stores.dropLocks(); // also of slots that were just being taken
            channel.file().close();
        }
    }

    /** An operation, and its preparation. */
    record Scenario<P>(String name, Consumer<P> prepare, Consumer<P> act) {
    }

    /** Makes the file with which each scenario begins. */
    abstract void base() throws IOException;

    abstract P process(Channel opened);

    /** Checks what must hold after a death of {@code left}. The channel is attached to a copy of its file. */
    abstract void check(P left, Channel channel) throws Exception;

    static void need(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    static int usual(int sequence) {
        return 8 + 5 * sequence % 41;
    }

    final int points() {
        return points;
    }

    /** Runs the scenario for every k; prints the number of the operation's stores. */
    final void run(Scenario<P> scenario) throws Exception {
        Files.deleteIfExists(path);
        base();
        bytes = Files.readAllBytes(path);
        int all = once(scenario, Long.MAX_VALUE, 0);
        for (int k = 0; k < all; k++) {
            once(scenario, k, all);
        }
        points += all + 1;
        System.out.println(scenario.name + ", alignment " + alignment + ": " + all + " stores");
    }

    /** Runs the scenario once, up to a store; returns the number of stores that were made. */
    private int once(Scenario<P> scenario, long limit, int all) throws Exception {
        Path left = path.resolveSibling("left.ring");
        Files.deleteIfExists(path); // makes a new file, which objects of the last run do not have open
        Files.write(path, bytes);
        P process = process(Channel.open(path.toString()));
        int stores = 0;
        try {
            scenario.prepare.accept(process);
            Stores.live(limit);
            try {
                scenario.act.accept(process);
                process.ended = true;
            } catch (Stores.Death e) {
                need(limit < all, "it died, and has no such store");
            }
            stores = (int) Stores.seen();
            Stores.live(Long.MAX_VALUE);
            need(process.ended == limit >= all, "did it end? " + process.ended);
            process.die();
            Files.deleteIfExists(left);
            Files.copy(path, left);
            try (Channel channel = Channel.open(left.toString())) {
                check(process, channel);
            }
        } catch (RuntimeException | AssertionError e) {
            throw new IllegalStateException(scenario.name + ", alignment " + alignment + ", after store " + limit
                + " of " + all + ": " + e, e);
        }
        return stores;
    }
}
