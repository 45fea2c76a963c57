// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** A private folder in memory for the channels of one test, and helpers for tests. */
final class Rings implements BeforeEachCallback, AfterEachCallback {
    private Path folder;
    private final List<Object> kept = new ArrayList<>();

    @Override
    public void beforeEach(ExtensionContext context) throws IOException {
        folder = Folders.make("flyring-java-test");
    }

    @Override
    public void afterEach(ExtensionContext context) throws IOException {
        kept.clear();
        Folders.remove(folder);
    }

    /** Keeps objects that own slots until the test ends: of one that nothing refers to, the slot is given back. */
    void keep(Object... owners) {
        kept.addAll(List.of(owners));
    }

    Path folder() {
        return folder;
    }

    String path(String name) {
        return folder.resolve(name).toString();
    }

    /** The names of all files in the folder. */
    List<String> files() {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(path -> path.getFileName().toString()).sorted().toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** How many descriptors and mappings this process has of files in the folder. */
    long held() throws IOException {
        long count = 0;
        for (String each : Folder.names("/proc/self/fd")) {
            try {
                count += Files.readSymbolicLink(Path.of("/proc/self/fd", each)).startsWith(folder) ? 1 : 0;
            } catch (IOException e) {
                continue; // that of the listing
            }
        }
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return count + maps.filter(line -> line.contains(folder.toString())).count();
        }
    }

    static Path spec(String name) {
        return Path.of(System.getProperty("flyring.spec")).resolve(name);
    }

    static ByteBuffer load(Path file) throws IOException {
        return ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
    }

    static byte[] pattern(int seed, int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) (seed + 7 * i);
        }
        return bytes;
    }

    /** A JVM of the same version, without flags, that runs a class of these tests. */
    static ProcessBuilder java(Class<?> main, String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("java.home") + "/bin/java");
        command.addAll(List.of("-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classPath(), main.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    }

    static String classPath() {
        return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
            .filter(part -> !part.isEmpty()).reduce((a, b) -> a + File.pathSeparator + b).orElseThrow();
    }

    static Channel openReadOnly(String path) {
        return Channel.open(path, new OpenOptions().readOnly(true));
    }

    static long subscriberEpoch(Channel channel, int slot) {
        return channel.control().getLongOpaque(channel.header().subscriberSlot(slot)
            + Layout.SUBSCRIBER_SLOT_EPOCH);
    }
}
