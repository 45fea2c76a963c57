// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.file.Path;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;

/**
 * Fuzzes the binding as {@link FuzzMain} does, but by Jazzer, which finds its inputs by coverage. An input is a file:
 * {@code jazzer --target_class=io.flyring.FuzzJazzer --instrumentation_includes=io.flyring.** CORPUS}, where the corpus
 * is a copy of spec/golden. The actions on an input depend only on its bytes.
 */
public final class FuzzJazzer {
    private static FuzzFile file;
    private static FuzzDrive drive;

    private FuzzJazzer() {
    }

    /** Called once by Jazzer. */
    public static void fuzzerInitialize() {
        try {
            Path folder = Folders.make("flyring-jazzer");
            folder.toFile().deleteOnExit();
            file = new FuzzFile(folder);
            drive = new FuzzDrive(file);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Called once by Jazzer at the end. */
    public static void fuzzerTearDown() {
        try {
            file.close();
            System.err.println(drive.counts);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * Called by Jazzer for each input.
     *
     * @param input the bytes of a channel file.
     */
    public static void fuzzerTestOneInput(byte[] input) {
        CRC32C digest = new CRC32C();
        digest.update(input);
        long seed = digest.getValue();
        file.take(input, (int) seed);
        drive.run(new SplittableRandom(seed));
    }
}
