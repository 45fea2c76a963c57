// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * Compares a table's bytes after each store with those of C++ at the same place: {@code StoreTableStates STATES PATH}.
 * interop-tests/steps writes STATES with {@code --states}; child_table.cpp has the operations. Values and the slot's
 * name are not compared, because they are copied in other portions; the file at the first mark and at the end is
 * compared completely. Run by {@link StoreByStoreTest} with counting copies of the classes.
 */
final class StoreTableStates {
    private static final String ANY = "table-update.ring";

    private final Path states;
    private final Path path;
    private final List<byte[]> seen = new ArrayList<>();
    private Table table;
    private TableWriter writer;
    private TableFile file;
    private int compared;

    private StoreTableStates(Path states, Path path) {
        this.states = states;
        this.path = path;
    }

    public static void main(String[] arguments) throws Exception {
        StoreTableStates all = new StoreTableStates(Path.of(arguments[0]), Path.of(arguments[1]));
        if (!Files.exists(all.states.resolve(ANY))) {
            System.out.println("none: " + all.states + " has no states of tables");
            return;
        }
        all.compareAll();
        System.out.println("done: " + all.compared + " states are C++'s");
    }

    private void compareAll() throws Exception {
        Runnable held = () -> writer = table.writer("feed");
        for (String checked : new String[] {"", "-checked"}) {
            compare("table-update" + checked, held, () -> put(1, 1, checked.isEmpty() ? 20 : 24));
            compare("table-insert" + checked, held, () -> put(99, 99, 20));
            compare("table-remove" + checked, held, () -> writer.remove(3));
        }
        compare("table-insert-fresh", () -> {
            held.run();
            put(70, 70, 20);
            put(80, 80, 20);
        }, () -> put(90, 90, 20));
        Runnable moving = () -> {
            held.run();
            until(() -> entries() + 4 < rebuild() && rebuild() <= 2 * entries());
        };
        compare("table-insert-moving", moving, () -> put(99, 99, 20));
        compare("table-remove-moving", moving, () -> writer.remove(3));
        compare("table-insert-clearing", () -> {
            held.run();
            until(() -> 0 < rebuild() && rebuild() <= entries());
        }, () -> put(99, 99, 20));
        compare("table-rebuild-flips", () -> {
            held.run();
            until(() -> 2 * entries() + 1 - rebuild() < 12 && rebuild() > entries());
        }, () -> put(1, 99, 20));
        Runnable asleep = () -> {
            held.run();
            file.cell(0).putInt(file.cellAt(0) + Layout.TABLE_CELL_ASLEEP, 1);
            file.control.putInt(Layout.TABLE_CONTROL_DATA_ASLEEP, 1);
        };
        compare("table-wake", asleep, () -> put(1, 99, 20));
        compare("table-wake-remove", asleep, () -> writer.remove(1));
        compare("table-clear", held, () -> writer.clear());
        Runnable nothing = () -> { };
        compare("table-single", nothing, () -> put(table, 1, 98, 20));
        for (String name : List.of("table-take", "table-take-clean", "table-finish-insert", "table-finish-remove",
            "table-finish-insert-moving")) {
            compare(name, nothing, () -> table.writer("another"));
        }
    }

    private static void put(TableVerbs verbs, long key, int seed, int length) {
        verbs.put(key, Rings.pattern(seed, length));
    }

    private void put(long key, int seed, int length) {
        put(writer, key, seed, length);
    }

    private long entries() {
        return file.header.entries;
    }

    private long rebuild() {
        return file.word(Layout.TABLE_CONTROL_REBUILD);
    }

    /** Changes keys until a condition holds. */
    private void until(BooleanSupplier holds) {
        for (long key = 1000; key < 1500 && !holds.getAsBoolean(); key++) {
            put(key, (int) key, 20);
            if (holds.getAsBoolean()) {
                return;
            }
            writer.remove(key);
        }
    }

    private void compare(String name, Runnable prepare, Runnable act) throws Exception {
        Files.copy(states.resolve(name + ".base"), path, StandardCopyOption.REPLACE_EXISTING);
        Identity identity = new Identity().bootId(new UUID(0x22L << 56, 0)).pid(1002).clock(() -> 2_000_000_000L);
        table = Table.open(path.toString(), new OpenOptions().identity(identity));
        file = table.state().file();
        prepare.run();
        StoreStates.same(name + " at the first mark", Files.readAllBytes(states.resolve(name + ".ring")), read());
        List<byte[]> theirs = StoreStates.theirs(states, name);
        seen.clear();
        Stores.watch(() -> seen.add(read()));
        act.run();
        Stores.watch(null);
        seen.add(read());
        StoreStates.same(name + " at the end", theirs.get(theirs.size() - 1), read());
        Consumer<byte[]> mask = mask();
        List<byte[]> expected = StoreStates.distinct(theirs, mask);
        List<byte[]> found = StoreStates.distinct(seen, mask);
        for (int i = 0; i < Math.min(expected.size(), found.size()); i++) {
            StoreStates.same(name + " after change " + i, expected.get(i), found.get(i));
        }
        if (expected.size() != found.size()) {
            throw new IllegalStateException(name + ": " + found.size() + " changes, not " + expected.size());
        }
        System.out.println(name + ": " + found.size() + " states");
        compared += found.size();
        table.close();
    }

    private byte[] read() {
        return StoreStates.read(path);
    }

    /** Removes the values, and the slot's name. */
    private Consumer<byte[]> mask() {
        TableHeader header = file.header;
        boolean[] out = new boolean[(int) header.fileLength];
        int name = (int) header.controlOffset + Layout.TABLE_CONTROL_SLOT + Layout.PUBLISHER_SLOT_NAME;
        Arrays.fill(out, name, name + Layout.MAX_NAME_LENGTH, true);
        for (int cell = 0; cell < header.cells; cell++) {
            for (int body = 0; body < 2; body++) {
                int at = (int) header.cellsOffset + cell * header.cellStride + header.bodyAt + body * header.bodyStride
                    + Layout.TABLE_BODY_VALUE;
                Arrays.fill(out, at, at + header.valueBytes, true);
            }
        }
        return bytes -> {
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = out[i] ? 0 : bytes[i];
            }
        };
    }
}
