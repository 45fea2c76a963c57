// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.ToolProvider;

/**
 * Counts the stores of the classes through which all memory is written, and dies before one of them. The shipped
 * classes do not contain this: {@link #build} compiles copies of their sources in which each store calls {@link #next}.
 */
final class Stores {
    /** The end of a process: no further store is made. */
    static final class Death extends Error {
        private static final long serialVersionUID = 1L;

        Death() {
            super("dead", null, false, false);
        }
    }

    private static final Pattern METHOD =
        Pattern.compile("( {4}static \\w+ ((?:put|set|getAnd|compareAndSet)\\w*)\\([^)]*\\) \\{\n)");
    private static final Pattern BULK = Pattern.compile("( +)(buffer\\.put\\()");

    private static long left = Long.MAX_VALUE;
    private static long seen;
    private static Runnable watcher;
    private static StoreListener listener;

    /** Receives each store of a word. */
    @FunctionalInterface
    interface StoreListener {
        /**
         * Called for a store, with the storing method, which tells the ordering; and buffer and index, or null and
         * address.
         */
        void onStore(String method, ByteBuffer buffer, long at);
    }

    private Stores() {
    }

    /** Does what the kernel does at a death: drops the locks of everything that is open, and nothing else. */
    static void dropLocks() throws IOException {
        try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
            for (Path descriptor : descriptors.toList()) {
                String number = descriptor.getFileName().toString();
                try {
                    if (Files.readString(Path.of("/proc/self/fdinfo", number)).contains("lock:")) {
                        Sys.closeFile(Integer.parseInt(number));
                    }
                } catch (NoSuchFileException e) {
                    // That of the listing, or one that the garbage collector has closed since.
                }
            }
        }
    }

    /** Allows {@code stores} more stores. */
    static void live(long stores) {
        left = stores;
        seen = 0;
    }

    static long seen() {
        return seen;
    }

    /** Sets an action that runs before each store; null for none. */
    static void watch(Runnable look) {
        watcher = look;
    }

    /** Sets a listener for each store of a word; null for none. */
    static void listen(StoreListener each) {
        listener = each;
    }

    static void next(String method, ByteBuffer buffer, long at) {
        if (listener != null) {
            listener.onStore(method, buffer, at);
        }
        next();
    }

    static void next() {
        if (watcher != null) {
            watcher.run();
        }
        if (seen >= left) {
            throw new Death();
        }
        seen++;
    }

    /** Compiles the copies into a folder for the front of the class path; returns the number of stores found. */
    static int build(Path sources, Path folder) throws IOException {
        String raw = Boolean.getBoolean("flyring.expect.ffm") ? "java22" : "java";
        List<String> arguments = new ArrayList<>(List.of("-proc:none", "-nowarn", "-cp", Rings.classPath(), "-d",
            folder.toString()));
        int stores = 0;
        for (String name : List.of(raw + "/io/flyring/Raw.java", "java/io/flyring/Buffers.java",
            "java/io/flyring/Memory.java")) {
            String text = Files.readString(sources.resolve(name));
            Pattern where = name.endsWith("Memory.java") ? BULK : METHOD;
            String call = name.endsWith("Memory.java") ? "$1Stores.next(); $2"
                : "$1        Stores.next(\"$2\", "
                + (name.endsWith("Raw.java") ? "null, address" : "buffer, index") + ");\n";
            Matcher matcher = where.matcher(text);
            int before = stores;
            while (matcher.find()) {
                stores++;
            }
            if (stores < before + 5) {
                throw new IllegalStateException(name + " has only " + (stores - before) + " stores");
            }
            Path copy = folder.resolve(Path.of(name).getFileName());
            Files.writeString(copy, matcher.replaceAll(call), StandardCharsets.UTF_8);
            arguments.add(copy.toString());
        }
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(new String[0]));
        if (status != 0) {
            throw new IllegalStateException("The compiler ended with status " + status + ".");
        }
        return stores;
    }

    /** Runs a class with the counting classes first in the class path; returns the lines that it prints. */
    static List<String> run(Rings rings, Class<?> main, String... arguments) throws Exception {
        Path classes = Files.createDirectory(rings.folder().resolve("counting"));
        int stores = build(Rings.spec("../java/flyring/src/main").normalize(), classes);
        assertTrue(stores > 20, "stores in the sources: " + stores);
        ProcessBuilder builder = Rings.java(main, arguments);
        List<String> command = builder.command();
        int at = command.indexOf("-cp") + 1;
        command.set(at, classes + File.pathSeparator + command.get(at));
        Process child = builder.redirectErrorStream(true).start();
        String output = new String(child.getInputStream().readAllBytes());
        assertEquals(0, child.waitFor(), output);
        // without the JVM's lines, and the warnings about objects that the child drops on purpose
        return output.lines().filter(line -> !line.isEmpty() && !line.startsWith("WARNING")
            && !line.contains("io.flyring.Seat ")).toList();
    }
}
