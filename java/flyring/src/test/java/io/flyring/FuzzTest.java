// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Runs the fuzzer (channel.md 9) in a separate process for 15 seconds. {@code -Dflyring.fuzz.inputs=1000000} sets a
 * number of inputs instead, {@code -Dflyring.fuzz.seed} another seed. Also tests that the fuzzer finds the faults of
 * {@link FuzzMutants}.
 */
class FuzzTest {
    private static final int SECONDS = 15;
    private static final int DAY = 86_400;

    @RegisterExtension
    final Rings rings = new Rings();

    /** The exit status and output of a run. */
    private record Run(int status, String output) {
    }

    private Run fuzz(Object... arguments) throws Exception {
        ProcessBuilder process = Rings.java(FuzzMain.class);
        List<String> command = new ArrayList<>(process.command());
        command.addAll(1, List.of("-Dflyring.spec=" + System.getProperty("flyring.spec"),
            "-XX:-CreateCoredumpOnCrash", "-XX:ErrorFile=" + rings.path("crash.log")));
        command.add(rings.folder().toString());
        for (Object argument : arguments) {
            command.add(argument.toString());
        }
        Path output = rings.folder().resolve("output");
        Process child = process.command(command).redirectErrorStream(true).redirectOutput(output.toFile()).start();
        try {
            assertTrue(child.waitFor(DAY, TimeUnit.SECONDS));
        } finally {
            child.destroyForcibly();
        }
        return new Run(child.exitValue(), Files.readString(output, StandardCharsets.UTF_8));
    }

    private String where() throws Exception {
        Path progress = rings.folder().resolve("progress");
        return Files.exists(progress) ? "input " + ByteBuffer.wrap(Files.readAllBytes(progress)).getLong() + "\n" : "";
    }

    @Test
    void noContentOfAFileCrashesHangsOrOverReads() throws Exception {
        long seed = Long.getLong("flyring.fuzz.seed", 1);
        long inputs = Long.getLong("flyring.fuzz.inputs", 0);
        Run run = inputs == 0 ? fuzz(seed, 0, Long.MAX_VALUE, SECONDS) : fuzz(seed, 0, inputs, DAY);
        assertEquals(0, run.status, where() + run.output);
        System.out.println(run.output.strip());
    }

    @ParameterizedTest
    @ValueSource(strings = {"over-read", "adopt", "table over-read"})
    void aReadBeyondAMappingIsNoticed(String mutant) throws Exception {
        Run run = fuzz(1, 0, 5000, SECONDS, mutant);
        assertNotEquals(0, run.status, run.output);
        assertTrue(run.output.contains(Raw.AVAILABLE ? "SIGSEGV" : "IndexOutOfBoundsException"), run.output);
        assertNotEquals("", where());
    }

    @Test
    void aHangIsNoticed() throws Exception {
        Run run = fuzz(1, 0, 1000, SECONDS, "hang");
        assertEquals(3, run.status, run.output);
    }

    @Test
    void anyOtherExceptionIsAFinding() throws Exception {
        Run run = fuzz(1, 0, 1000, SECONDS, "other exception");
        assertEquals(1, run.status, run.output);
        assertTrue(run.output.contains("ArrayIndexOutOfBounds"), run.output);
    }
}
