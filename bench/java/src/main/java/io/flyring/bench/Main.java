// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.io.PrintStream;
import java.util.List;

/** The peer of bench/PEER.md, with all Java contenders. */
public final class Main {
    private static final List<String> SLEEPING = List.of("flyring-block", "http-jdk");

    private Main() {
    }

    /**
     * Runs one side until its standard input ends.
     *
     * @param words the command line of bench/PEER.md.
     */
    public static void main(String[] words) {
        PrintStream out = System.out;
        System.setOut(System.err); // libraries print to standard output
        try {
            run(Setup.parse(words), out);
        } catch (Throwable e) {
            if (System.getenv("FLYRING_BENCH_TRACE") != null) {
                e.printStackTrace();
            }
            System.err.println("flyring-bench: " + e);
            System.exit(1);
        }
        System.exit(0);
    }

    private static void run(Setup setup, PrintStream out) throws Exception {
        if (setup.contender.equals("journal-recovery")) {
            new Recovery(out).run(setup);
            return;
        }
        boolean sleeps = SLEEPING.contains(setup.contender) || setup.scenario == Setup.Scenario.JOBS;
        if (setup.block != sleeps && !setup.contender.equals("flyring-service")) {
            throw new IllegalArgumentException("cannot: " + SLEEPING
                + " and workers sleep (--wait block), others spin");
        }
        try (Contender contender = contender(setup, Messages.of(setup.size, setup.whole))) {
            // Pin after opening: else a library's threads would inherit this thread's core.
            if (setup.core >= 0 && Probe.bench_pin(setup.core) != 0) {
                throw new IllegalStateException("cannot pin to core " + setup.core);
            }
            new Harness(setup, contender, out).run();
        }
    }

    private static Contender contender(Setup setup, Messages messages) throws Exception {
        return switch (setup.contender) {
            case "flyring-offer" -> new FlyringOffer(setup, messages);
            case "flyring-claim" -> new FlyringClaim(setup, messages);
            case "flyring-block" -> new FlyringBlock(setup, messages);
            case "flyring-typed" -> new FlyringTyped(setup);
            case "flyring-batch" -> new FlyringBatch(setup, messages);
            case "flyring-queue" -> new FlyringQueue(setup, messages);
            case "flyring-service" -> new FlyringService(setup, messages);
            case "flyring-clock" -> new FlyringClock(setup, messages);
            case "flyring-journal" -> FlyringJournal.of(setup, messages);
            case "aeron-archive" -> new AeronRecorded(setup, messages);
            case "flyring-table" -> new FlyringTable(setup, messages);
            case "flyring-table-entry" -> new FlyringTable.Entries(setup, messages);
            case "chronicle-map" -> new ChronicleTable(setup, messages);
            case "flyring-table-server" -> new FlyringServer(setup, messages);
            case "heap-map" -> new HeapMap(setup, messages);
            case "raw-line" -> new RawLine(setup, messages);
            case "varhandle-cas-counter" -> new CasCounter(setup);
            case "agrona-onetoone-write" -> new AgronaOneToOneWrite(setup, messages);
            case "agrona-onetoone-claim" -> new AgronaOneToOneClaim(setup, messages);
            case "agrona-manytoone" -> new AgronaManyToOne(setup, messages);
            case "agrona-inside" -> new AgronaInside(setup, messages);
            case "agrona-broadcast" -> new AgronaBroadcast(setup, messages);
            case "aeron-offer" -> new AeronOffer(setup, messages);
            case "aeron-claim" -> new AeronClaim(setup, messages);
            case "chronicle-queue" -> new Chronicle(setup, messages);
            case "http-jdk" -> new HttpLoopback(setup, messages);
            default -> throw new IllegalArgumentException("no contender is called " + setup.contender);
        };
    }
}
