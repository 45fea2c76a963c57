// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import com.sun.jna.Pointer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Runs the turns and slices of bench/PEER.md, the same for every contender. */
final class Harness {
    private static final int PROBE_ROUND_TRIPS = 20_000;

    private final Setup setup;
    private final Contender contender;
    private final Role role;
    private final Pointer shared;
    private final PrintStream out;

    Harness(Setup setup, Contender contender, PrintStream out) {
        this.setup = setup;
        this.contender = contender;
        this.out = out;
        role = Role.of(setup, contender);
        shared = Probe.bench_map(setup.dir);
        if (shared == null) {
            throw new IllegalStateException("cannot map " + setup.path("shared"));
        }
    }

    void run() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("{\"opened\": true, \"thread\": " + thread() + ", \"clock_ns\": "
            + Math.round(clockCost() * 10) / 10.0 + ", \"runtime\": \"" + Versions.runtime()
            + "\", \"version\": \"" + Versions.of(contender.library()) + "\"}");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (line.equals("connect")) {
                contender.connect();
                say("{\"connected\": true" + contender.found() + "}");
            } else if (words.length == 3 && words[0].equals("turn") && setup.scenario == Setup.Scenario.IDLE) {
                role.slice(false);
                say("{\"probes\": [], \"slices\": []}");
            } else if (words.length == 3 && words[0].equals("turn")) {
                turn(Integer.parseInt(words[1]), words[2].equals("timed"));
            } else {
                throw new IllegalArgumentException("unknown command: " + line);
            }
        }
    }

    private void say(String line) {
        out.println(line);
        out.flush();
    }

    private void turn(int slices, boolean timed) {
        List<String> probes = new ArrayList<>();
        List<String> results = new ArrayList<>();
        probe(probes);
        for (int i = 0; i < slices; i++) {
            barrier();
            String result = role.slice(timed);
            contender.sliceEnds();
            if (result != null) {
                results.add(result);
            }
            barrier();
            probe(probes);
        }
        barrier();
        say("{\"probes\": " + probes + ", \"slices\": " + results + "}");
    }

    private void barrier() {
        Probe.bench_barrier(shared, setup.sides);
    }

    private void probe(List<String> probes) {
        if (setup.number() == 0) {
            double ns = Probe.bench_probe(shared, setup.client() ? 0 : 1, PROBE_ROUND_TRIPS);
            if (setup.client()) {
                probes.add(Double.toString(ns));
            }
        }
    }

    /** The kernel's id of this thread. */
    private static String thread() throws IOException {
        return Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
    }

    /** The cost of one reading of the clock, in ns. */
    private static double clockCost() {
        double best = Double.MAX_VALUE;
        for (int i = 0; i < 200; i++) {
            best = Math.min(best, readClock(1000) / 1000.0);
        }
        return best;
    }

    private static long readClock(int times) {
        long start = System.nanoTime();
        long now = start;
        for (int i = 0; i < times; i++) {
            now = System.nanoTime();
        }
        return now - start;
    }
}
