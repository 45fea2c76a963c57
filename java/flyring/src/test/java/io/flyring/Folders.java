// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Folders of tests and fuzzers in shared memory. They are named {@code /dev/shm/NAME-PID-...}, because these programs
 * are sometimes killed: the next one removes what dead ones left.
 */
final class Folders {
    private static final Path MEMORY = Path.of("/dev/shm");

    private Folders() {
    }

    /** Makes a folder, and removes those of dead processes first. */
    static Path make(String name) throws IOException {
        removeLeft(name);
        return Files.createTempDirectory(MEMORY, name + "-" + ProcessHandle.current().pid() + "-");
    }

    /** Removes the folders of this name whose processes are dead. */
    static void removeLeft(String name) throws IOException {
        final Pattern pattern = Pattern.compile(Pattern.quote(name) + "-(\\d+)-.+");
        try (DirectoryStream<Path> all = Files.newDirectoryStream(MEMORY, name + "-*")) {
            for (Path left : all) {
                Matcher matcher = pattern.matcher(left.getFileName().toString());
                if (matcher.matches() && ProcessHandle.of(Long.parseLong(matcher.group(1))).isEmpty()) {
                    remove(left);
                }
            }
        }
    }

    /** Removes a folder and what is in it. Another program may do the same at this time. */
    static void remove(Path folder) throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            all.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (UncheckedIOException | NoSuchFileException e) {
            // Another program was faster.
        }
    }
}
