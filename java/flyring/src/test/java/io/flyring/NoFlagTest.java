// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** No JVM flag is needed: classes that would need one are never loaded. */
class NoFlagTest {
    @RegisterExtension
    final Rings rings = new Rings();

    @Test
    void agronasUnsafeClassesAreNeverLoaded() throws Exception {
        Path log = rings.folder().resolve("classes.log");
        ProcessBuilder builder = Rings.java(Child.class, "everything", rings.path("x.ring"));
        builder.command().add(1, "-Xlog:class+load:file=" + log);
        Process child = builder.start();
        assertEquals('r', child.getInputStream().read());
        child.getOutputStream().close();
        assertEquals(0, child.waitFor());
        List<String> loaded = Files.readAllLines(log);
        for (String wanted : List.of("io.flyring.PayloadBuffer ", "org.agrona.MutableDirectBuffer ",
            "org.agrona.concurrent.BackoffIdleStrategy ",
            "prices.PriceUpdateDecoder ", "io.flyring.sbe.Dispatcher ")) {
            assertTrue(loaded.stream().anyMatch(line -> line.contains(wanted)), wanted);
        }
        for (String never : List.of("org.agrona.UnsafeApi", "org.agrona.BufferUtil", "UnsafeBuffer",
            "uk.co.real_logic")) {
            assertEquals(List.of(), loaded.stream().filter(line -> line.contains(never)).toList());
        }
    }

    @Test
    void codecsNeedNoGenerator() {
        assertThrows(ClassNotFoundException.class, () -> Class.forName("uk.co.real_logic.sbe.SbeTool"));
    }

    @Test
    void theseTestsRunWithoutAFlag() {
        List<String> flags = ManagementFactory.getRuntimeMXBean().getInputArguments();
        assertFalse(flags.stream().anyMatch(flag -> flag.contains("--add-") || flag.contains("enable-native-access")),
            flags.toString());
    }

    @Test
    void systemCallsGoTheWayThatThisRunIsAbout() {
        assertEquals(Boolean.getBoolean("flyring.expect.ffm") ? "ffm" : "jna", Sys.implementation());
    }
}
