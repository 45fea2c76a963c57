// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.flyring.PayloadBuffer;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;

class DemoTest {
    private Path folder;

    @BeforeEach
    void create() throws Exception {
        folder = Files.createTempDirectory(Path.of("/dev/shm"), "flyring-java-demo-");
    }

    @AfterEach
    void nothingIsLeftBehind() throws Exception {
        Files.delete(folder);
    }

    private Process start(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-cp",
            System.getProperty("java.class.path"), Demo.class.getName()));
        command.addAll(Arrays.asList(arguments));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("FLYRING_DIR", folder.toString());
        return builder.start();
    }

    private static String output(Process process) throws Exception {
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        String errors = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), errors);
        return output;
    }

    @Test
    void pingAndPongPrintTheTableAndWriteTheHistogram() throws Exception {
        Path histogram = folder.resolve("histogram");
        Process pong = start("pong", "--wait", "yield");
        String[] lines = output(start("ping", "--wait", "yield", "--count", "5000", "--warmup", "1000", "--size", "45",
            "--histogram", histogram.toString())).split("\n");
        output(pong);
        assertEquals("ping java: 5000 round trips of 45 bytes, closed loop, wait yield, not pinned", lines[0]);
        assertEquals("       p50       p90       p99     p99.9    p99.99       max      mean     count", lines[1]);
        assertTrue(lines[2].endsWith("      5000   ns"), lines[2]);
        byte[] encoded = Base64.getDecoder().decode(Files.readString(histogram).trim());
        Files.delete(histogram);
        assertEquals(5000, Histogram.decodeFromCompressedByteBuffer(ByteBuffer.wrap(encoded), 0).getTotalCount());
    }

    @Test
    void theResultIsJsonOnRequest() throws Exception {
        Process pong = start("pong", "--wait", "backoff");
        JsonObject json = JsonParser.parseString(output(start("ping", "--wait", "backoff", "--count", "300", "--warmup",
            "10", "--rate", "3000", "--json"))).getAsJsonObject();
        output(pong);
        assertEquals("[program, language, size, count, rate, wait, core, unit, "
            + "p50, p90, p99, p99.9, p99.99, max, mean]",
            json.keySet().toString());
        assertEquals(300, json.get("count").getAsInt());
        assertTrue(json.get("p50").getAsLong() > 0);
    }

    @Test
    void bothSidesMaySleep() throws Exception {
        Process pong = start("pong", "--wait", "block");
        JsonObject json = JsonParser.parseString(output(start("ping", "--wait", "block", "--count", "300", "--warmup",
            "10", "--json"))).getAsJsonObject();
        output(pong);
        assertEquals("block", json.get("wait").getAsString());
        assertEquals(300, json.get("count").getAsInt());
    }

    @Test
    void typedMessagesGoRoundToo() throws Exception {
        Process pong = start("pong", "--typed", "--wait", "yield");
        JsonObject json = JsonParser.parseString(output(start("ping", "--typed", "--wait", "yield", "--count", "3000",
            "--warmup", "100", "--json"))).getAsJsonObject();
        output(pong);
        assertEquals(70, json.get("size").getAsInt());
        assertTrue(json.get("typed").getAsBoolean());
        Process raw = start("pong", "--timeout", "0.2");
        assertEquals(1, raw.waitFor());
        Process typed = start("ping", "--typed", "--timeout", "0.2");
        String errors = new String(typed.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(1, typed.waitFor());
        assertTrue(errors.contains("schema_id"), errors);
        Files.delete(folder.resolve("demo.ring"));
    }

    @Test
    void everyWrongByteOfATypedAnswerIsFound() {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(new byte[PriceUpdateEncoder.BLOCK_LENGTH]);
        PriceUpdateDecoder decoder = new PriceUpdateDecoder().wrap(buffer, 0, PriceUpdateEncoder.BLOCK_LENGTH, 1);
        TypedExchange exchange = new TypedExchange();
        for (boolean answer : new boolean[] {false, true}) {
            for (long sequence = 1230; sequence < 1242; sequence++) {
                long number = sequence;
                TypedExchange.write(new PriceUpdateEncoder().wrap(buffer, 0), number, 99, answer);
                exchange.check(decoder, number, 99, answer);
                assertThrows(Demo.Failed.class, () -> exchange.check(decoder, number, 99, !answer));
                for (int i = 0; i < buffer.capacity(); i++) {
                    byte good = buffer.getByte(i);
                    buffer.putByte(i, (byte) (good ^ 4));
                    assertThrows(Demo.Failed.class, () -> exchange.check(decoder, number, 99, answer), "byte " + i);
                    buffer.putByte(i, good);
                }
            }
        }
    }

    @Test
    void theGeneratorIsNotOnTheClassPath() {
        assertThrows(ClassNotFoundException.class, () -> Class.forName("uk.co.real_logic.sbe.SbeTool"));
        assertFalse(System.getProperty("java.class.path").contains("sbe-"));
    }

    @Test
    void theCounterGoesUpInTurn() throws Exception {
        Process pong = start("counter", "pong", "--wait", "yield");
        String output = output(start("counter", "ping", "--wait", "yield", "--count", "2000", "--warmup", "10",
            "--untimed", "--json"));
        output(pong);
        assertTrue(output.contains("\"mean\"") && !output.contains("p50"), output);
    }

    @Test
    void aSilentOtherSideEndsTheRun() throws Exception {
        Process ping = start("ping", "--timeout", "0.2");
        String errors = new String(ping.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(1, ping.waitFor());
        assertTrue(errors.contains("Nothing came from pong for 0.2 s"), errors);
    }

    @Test
    void aWrongCommandLineIsExplained() {
        for (String line : List.of("", "dance", "ping --size 31", "ping --what", "ping --count x", "ping --wait never",
            "counter", "ping --count", "ping --typed --size 70", "counter ping --typed",
            "pong --typed --count 4294967294")) {
            assertThrows(Options.Wrong.class, () -> Options.parse(Arrays.stream(line.split(" "))
                .filter(word -> !word.isEmpty()).toList()), line);
        }
    }

    @Test
    void everyWrongByteOfAnAnswerIsFound() {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(new byte[50]);
        double price = Quote.price(1234);
        Quote.write(buffer, 50, 1234, 99, price);
        buffer.putLong(Quote.QUANTITY, -buffer.getLong(Quote.QUANTITY));
        Quote.checkAnswer(buffer, 50, 50, 1234, 99, price);
        assertThrows(Demo.Failed.class, () -> Quote.checkAnswer(buffer, 50, 51, 1234, 99, price));
        for (int i = Quote.SEND_TIME; i < 50; i++) {
            byte good = buffer.getByte(i);
            buffer.putByte(i, (byte) (good ^ 4));
            assertThrows(Demo.Failed.class, () -> Quote.checkAnswer(buffer, 50, 50, 1234, 99, price), "byte " + i);
            buffer.putByte(i, good);
        }
    }
}
