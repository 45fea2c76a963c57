// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** Folders of fuzzers that were killed. */
class FuzzFoldersTest {
    private static Path folder(long pid) throws IOException {
        Path folder = Files.createDirectory(Path.of("/dev/shm/flyring-fuzz-folders-" + pid + "-left"));
        Files.createFile(folder.resolve("c.ring"));
        return folder;
    }

    @Test
    void whatAKilledProcessLeftIsRemovedAndNothingElse() throws Exception {
        Process killed = new ProcessBuilder("sleep", "100").start();
        Path left = folder(killed.pid());
        Path other = null;
        Path made = null;
        try {
            other = Files.createDirectory(Path.of("/dev/shm/flyring-fuzz-folders-of-another-name"));
            made = Folders.make("flyring-fuzz-folders");
            assertTrue(Files.exists(left.resolve("c.ring")), "its process lives");
            killed.destroyForcibly().waitFor();
            Path next = Folders.make("flyring-fuzz-folders");
            assertFalse(Files.exists(left));
            assertTrue(Files.exists(made), "this process lives");
            assertTrue(Files.exists(other));
            Folders.remove(next);
            assertEquals("/dev/shm", made.getParent().toString());
        } finally {
            killed.destroyForcibly();
            for (Path folder : new Path[] {left, other, made}) {
                if (folder != null) {
                    Folders.remove(folder);
                }
            }
        }
    }
}
