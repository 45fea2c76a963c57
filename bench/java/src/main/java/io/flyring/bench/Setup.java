// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** The driver's options (bench/PEER.md). */
final class Setup {
    enum Side { A, B, A2, B2 }

    enum Scenario { RTT, SCHEDULE, STREAM, IDLE, JOBS, BURST, MAP, APPEND, REPLAY }

    String contender = "";
    Side side = Side.A;
    Scenario scenario = Scenario.RTT;
    int size = 32;
    /** Whether every byte is written and compared (--mode write). */
    boolean whole = true;
    boolean block;
    int core = -1;
    String dir = "";
    int sides = 2;
    /** Messages per second. */
    double rate;
    /** Seconds. */
    double timeSlice = 0.15;
    private final Map<String, String> options = new HashMap<>();

    static Setup parse(String... words) {
        Setup setup = new Setup();
        for (int i = 0; i < words.length; i += 2) {
            if (i + 1 == words.length) {
                throw new IllegalArgumentException(words[i] + " needs a value");
            }
            setup.set(words[i], words[i + 1]);
        }
        return setup;
    }

    private void set(String name, String value) {
        switch (name) {
            case "--contender" -> contender = value;
            case "--side" -> side = Side.valueOf(value.toUpperCase());
            case "--scenario" -> scenario = Scenario.valueOf(value.toUpperCase());
            case "--size" -> size = Integer.parseInt(value);
            case "--mode" -> whole = value.equals("write");
            case "--wait" -> block = value.equals("block");
            case "--core" -> core = Integer.parseInt(value);
            case "--dir" -> dir = value;
            case "--sides" -> sides = Integer.parseInt(value);
            case "--rate" -> rate = Double.parseDouble(value);
            case "--time-slice" -> timeSlice = Double.parseDouble(value);
            case "--option" -> {
                String[] pair = value.split("=", 2);
                options.put(pair[0], pair.length == 2 ? pair[1] : "");
            }
            default -> throw new IllegalArgumentException("unknown option " + name);
        }
    }

    /** Whether messages go from a to b only. */
    boolean streaming() {
        return scenario != Scenario.RTT && scenario != Scenario.SCHEDULE;
    }

    /**
     * The largest number of messages of a poll; option {@code limit}. In a round trip the limit is 1: no second message
     * can be there, and looking for one would fetch the cache line that the other core is about to write.
     */
    int limit() {
        return option("limit", streaming() ? 256 : 1);
    }

    /** Whether the reader begins when all of a slice is sent; which side's time counts is the driver's business. */
    boolean behind() {
        return scenario == Scenario.APPEND || scenario == Scenario.REPLAY;
    }

    boolean client() {
        return side == Side.A;
    }

    boolean producer() {
        return side == Side.A || side == Side.A2;
    }

    /** The number of this producer or consumer: 0 or 1. */
    int number() {
        return side == Side.A || side == Side.B ? 0 : 1;
    }

    boolean sends() {
        return !streaming() || producer();
    }

    boolean receives() {
        return !streaming() || !producer();
    }

    String option(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    int option(String name, int otherwise) {
        String value = options.get(name);
        return value == null ? otherwise : Integer.parseInt(value);
    }

    int producers() {
        return option("producers", 1);
    }

    /** The path of a file that is kept: in the sides' folder, or in that of the option {@code files}. */
    String file(String name) {
        return Path.of(option("files", dir), name).toString();
    }

    Path path(String name) {
        return Path.of(dir, name);
    }
}
