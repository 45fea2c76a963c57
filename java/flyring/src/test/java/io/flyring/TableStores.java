// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Stops one change of a table after its k-th store, for every k, and checks from a new attachment that each key has its
 * old value or its new one, that versions do not go back, and that the next writer can go on. Run by
 * {@link TableSurvivorsTest} with counting copies of the memory classes: {@code TableStores FOLDER}.
 */
final class TableStores {
    private static final int CAPACITY = 12;

    private final Path path;
    private int points;
    private long generation;

    /** A change, and what must be there before and after it; a null value stands for an absent key. */
    private record Scenario(String name, Consumer<Table> prepare, Consumer<Table> act) {
    }

    private TableStores(Path path) {
        this.path = path;
    }

    public static void main(String[] arguments) throws IOException {
        TableStores all = new TableStores(Path.of(arguments[0], "steps.table"));
        List<Scenario> scenarios = scenarios();
        long rebuilding = 0;
        try (Table table = Table.create(arguments[0] + "/first.table", TableOptions.text().capacity(2).valueBytes(4))) {
            put(table, "a", "1"); // initializes classes, which store, too
        }
        for (Scenario scenario : scenarios) {
            int stores = all.run(scenario);
            rebuilding = Math.max(rebuilding, all.generation);
            System.out.println(scenario.name + ": " + stores + " stores");
        }
        need(rebuilding > 0, "the index was never rebuilt");
        System.out.println("done: " + scenarios.size() + " scenarios, " + all.points + " points");
    }

    private static List<Scenario> scenarios() {
        List<Scenario> all = new ArrayList<>();
        Consumer<Table> two = table -> {
            put(table, "a", "1");
            put(table, "b", "2");
        };
        Consumer<Table> removed = table -> {
            two.accept(table);
            put(table, "c", "3");
            table.remove("a");
            table.remove("c");
        };
        all.add(new Scenario("insert into an empty table", table -> { }, table -> put(table, "a", "1")));
        all.add(new Scenario("insert", two, table -> put(table, "c", "3")));
        all.add(new Scenario("insert into a freed cell", removed, table -> put(table, "d", "4")));
        all.add(new Scenario("insert again", removed, table -> put(table, "a", "4")));
        all.add(new Scenario("put", two, table -> put(table, "a", "a longer one, of more than 32 bytes")));
        all.add(new Scenario("remove", two, table -> table.remove("a")));
        all.add(new Scenario("remove the last one", removed, table -> table.remove("b")));
        all.add(new Scenario("take and close a writer", two, table -> table.writer("feed").close()));
        for (int turns = 0; turns < 6; turns++) {
            int before = turns;
            Consumer<Table> rebuilding = table -> {
                two.accept(table);
                TableFile file = TableFile.open(table.path(), new OpenOptions());
                put(table, "t0", "x");
                for (int i = 1; file.word(Layout.TABLE_CONTROL_REBUILD) == 0; i++) { // fills the index with tombstones
                    table.remove("t" + (i - 1));
                    put(table, "t" + i, "x");
                }
                for (int turn = 0; turn < before; turn++) {
                    put(table, "a", "turn " + turn);
                }
            };
            all.add(new Scenario("insert, rebuild " + turns, rebuilding, table -> put(table, "c", "3")));
            all.add(new Scenario("remove, rebuild " + turns, rebuilding, table -> table.remove("b")));
        }
        return all;
    }

    private static void put(Table table, String key, String value) {
        PayloadBuffer bytes = new PayloadBuffer();
        bytes.wrap(value.getBytes(StandardCharsets.UTF_8));
        table.put(key, bytes, 0, bytes.capacity());
    }

    private static void need(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    private static Map<String, Versioned> content(Table table) {
        Map<String, Versioned> all = new HashMap<>();
        table.forEach(item -> {
            byte[] value = new byte[item.value().capacity()];
            item.value().getBytes(0, value);
            need(all.put(item.textKey(), new Versioned(value, item.version())) == null, "a key twice");
        });
        for (Map.Entry<String, Versioned> each : all.entrySet()) {
            Versioned found = table.getVersioned(each.getKey());
            need(found != null && found.version() == each.getValue().version(), each.getKey() + " is not found");
        }
        return all;
    }

    private static String text(Map<String, Versioned> all) {
        return all.entrySet().stream().sorted(Map.Entry.comparingByKey())
            .map(each -> each.getKey() + "=" + new String(each.getValue().value(), StandardCharsets.UTF_8)).toList()
            .toString();
    }

    /** Runs a scenario with every number of stores, each time from the same file; returns how many it makes. */
    private int run(Scenario scenario) throws IOException {
        Files.deleteIfExists(path);
        Path ready = path.resolveSibling("ready");
        Map<String, Versioned> before;
        try (Table table = Table.create(path.toString(), TableOptions.text().capacity(CAPACITY).valueBytes(40))) {
            scenario.prepare.accept(table);
            before = content(table);
        }
        Files.copy(path, ready, StandardCopyOption.REPLACE_EXISTING);
        Map<String, Versioned> after = null;
        long most = Long.MAX_VALUE;
        for (long k = Long.MAX_VALUE; k >= 0; k = k == Long.MAX_VALUE ? most - 1 : k - 1) {
            Files.copy(ready, path, StandardCopyOption.REPLACE_EXISTING);
            Table victim = Table.open(path.toString());
            Stores.live(k);
            boolean died = false;
            try {
                scenario.act.accept(victim);
            } catch (Stores.Death death) {
                died = true;
            }
            long seen = Stores.seen();
            Stores.live(Long.MAX_VALUE);
            victim.close();
            need(died != (k == Long.MAX_VALUE), scenario.name + " did not die after " + k + " stores");
            try (Table table = Table.open(path.toString())) {
                if (k == Long.MAX_VALUE) {
                    most = seen;
                    after = content(table);
                    generation = TableFile.open(path.toString(), new OpenOptions()).generation();
                } else {
                    check(scenario.name + " after " + k + " stores", table, before, after);
                }
            }
            points++;
        }
        return (int) most;
    }

    /** Each key has one entry of the current copy, and no entry leads to a cell that is not live. */
    private static void checkIndex(Table table, int keys) {
        TableFile file = TableFile.open(table.path(), new OpenOptions());
        TableChange change = new TableChange(file, false);
        int entries = 0;
        for (long at = 0; at < file.header.entries; at++) {
            long cell = file.cellOf(file.entry((int) file.generation() & 1, at));
            need(cell < 0 || change.isLive(cell), "an entry leads to cell " + cell + ", which is not live");
            entries += cell < 0 ? 0 : 1;
        }
        need(entries == keys, keys + " keys have " + entries + " entries");
    }

    private static void check(String where, Table table, Map<String, Versioned> before, Map<String, Versioned> after) {
        try {
            Map<String, Versioned> now = content(table);
            String text = text(now);
            need(text.equals(text(before)) || text.equals(text(after)), "it has " + text);
            long largest = now.values().stream().mapToLong(Versioned::version).max().orElse(0);
            put(table, "next", "n"); // the next writer mends what is left
            need(table.getVersioned("next").version() > largest, "a version is used again");
            now = content(table);
            checkIndex(table, now.size());
            table.remove("next");
            need(text.equals(text(content(table))), "the next writer changed " + text + " to " + text(content(table)));
            need(table.size() == now.size() - 1, "its size is " + table.size() + ", not " + (now.size() - 1));
            for (int i = now.size() - 1; i < CAPACITY; i++) { // no cell is lost
                put(table, "f" + i, "f");
            }
            need(content(table).size() == CAPACITY && table.size() == CAPACITY, "it is not full");
            need(table.clear() == CAPACITY && content(table).isEmpty(), "it is not empty");
        } catch (FlyringException | IllegalStateException e) {
            throw new IllegalStateException(where + ": " + e.getMessage(), e);
        }
    }
}
