// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Watchdogs and canaries: what runs late is named. Spec api.md, "Watchdog". */
class WatchdogTest {
    private static final int PID = (int) ProcessHandle.current().pid();
    private static final Duration OFTEN = Duration.ofMillis(20);
    private static final Duration SELDOM = Duration.ofSeconds(60);
    private static final long LIMIT_NANOS = 20_000_000_000L;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel() {
        return Channel.create(rings.path("c.ring"), ChannelOptions.broadcast().capacity(4096).counters(4));
    }

    private static final class Told {
        private final List<Missed> all = new CopyOnWriteArrayList<>();

        void add(Missed missed) {
            all.add(missed);
        }

        List<Missed> of(Missed.Kind kind) {
            return all.stream().filter(each -> each.kind() == kind).toList();
        }

        List<Missed> hearts() {
            return of(Missed.Kind.HEARTBEAT);
        }

        List<Missed> canaries() {
            return of(Missed.Kind.CANARY);
        }

        Missed first(Missed.Kind kind) throws InterruptedException {
            until(() -> !of(kind).isEmpty());
            return of(kind).get(0);
        }
    }

    private static void until(BooleanSupplier done) throws InterruptedException {
        long began = System.nanoTime();
        while (!done.getAsBoolean()) {
            assertTrue(System.nanoTime() - began < LIMIT_NANOS);
            Thread.sleep(5);
        }
    }

    private static long watchdogs() {
        return Thread.getAllStackTraces().keySet().stream().filter(each -> each.getName().equals("flyring-watchdog"))
            .count();
    }

    private static Duration millis(long millis) {
        return Duration.ofMillis(millis);
    }

    private static void busyForEver(CountDownLatch goOn) {
        try {
            goOn.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void aThreadThatMissesItsPromiseIsNamed() throws Exception {
        Told told = new Told();
        CountDownLatch goOn = new CountDownLatch(1);
        Missed missed;
        try (Channel one = channel(); Watchdog watchdog = new Watchdog(one, told::add, OFTEN, SELDOM)) {
            Thread thread = new Thread(() -> {
                try (Heartbeat heart = new Heartbeat(one, "loop", millis(100))) {
                    heart.beat();
                    busyForEver(goOn);
                }
            });
            thread.start();
            missed = told.first(Missed.Kind.HEARTBEAT);
            goOn.countDown();
            thread.join();
        }
        assertEquals(List.of("loop", PID, 100_000_000L, 1L, true),
            List.of(missed.label(), missed.pid(), missed.interval(), missed.times(), missed.running()));
        assertTrue(missed.late() > 0 && missed.late() < LIMIT_NANOS);
        assertTrue(missed.stack().contains("WatchdogTest.busyForEver"), missed.stack());
    }

    @Test
    void aHeartbeatOfAnotherProcessIsNamed() throws Exception {
        Told told = new Told();
        try (Channel one = channel(); Watchdog watchdog = new Watchdog(one, told::add, OFTEN, SELDOM)) {
            Process child = Rings.java(Child.class, "beat", one.path()).start();
            assertEquals("ready", child.inputReader().readLine());
            Missed missed = told.first(Missed.Kind.HEARTBEAT);
            assertEquals(List.of("loop", (int) child.pid(), 250_000_000L, ""),
                List.of(missed.label(), missed.pid(), missed.interval(), missed.stack()));
            child.destroyForcibly().waitFor();
        }
    }

    @Test
    void threadsThatBeatOrPromiseNothingAreNotNamed() throws Exception {
        Told told = new Told();
        try (Channel one = channel(); Heartbeat heart = new Heartbeat(one, "loop", Duration.ofSeconds(5));
             Heartbeat idle = new Heartbeat(one, "idle", Duration.ZERO);
             Heartbeat late = new Heartbeat(one, "late", millis(50));
             Watchdog watchdog = new Watchdog(one, told::add, OFTEN, SELDOM)) {
            for (int i = 0; i < 50; i++) {
                heart.beat();
                Thread.sleep(10);
            }
            told.first(Missed.Kind.HEARTBEAT);
        }
        assertEquals(Set.of("late"), told.hearts().stream().map(Missed::label).collect(Collectors.toSet()));
    }

    @Test
    void aThreadThatBeatsAgainIsNamedOnlyWhenItIsLateAgain() throws Exception {
        Told told = new Told();
        try (Channel one = channel(); Heartbeat heart = new Heartbeat(one, "loop", millis(400));
             Watchdog watchdog = new Watchdog(one, told::add, OFTEN, Duration.ZERO)) {
            told.first(Missed.Kind.HEARTBEAT);
            heart.beat();
            Thread.sleep(100);
            int many = told.hearts().size();
            Thread.sleep(100);
            heart.beat();
            assertEquals(many, told.hearts().size());
            until(() -> told.hearts().size() > many);
        }
    }

    @Test
    void theSameIsNotToldAgainForAWhile() throws Exception {
        Told told = new Told();
        Told often = new Told();
        List<Long> at = new CopyOnWriteArrayList<>();
        try (Channel one = channel(); Heartbeat heart = new Heartbeat(one, "loop", millis(50));
             Watchdog seldom = new Watchdog(one, told::add, OFTEN, SELDOM);
             Watchdog watchdog = new Watchdog(one, missed -> {
                 if (missed.kind() == Missed.Kind.HEARTBEAT) {
                     at.add(System.nanoTime());
                 }
                 often.add(missed);
             }, OFTEN, millis(100))) {
            until(() -> often.hearts().size() >= 4 && !told.hearts().isEmpty());
        }
        assertEquals(1, told.hearts().size());
        assertTrue(at.get(3) - at.get(0) >= 250_000_000L);
    }

    @Test
    void aSlowStretchIsNamedWhileItRuns() throws Exception {
        Told told = new Told();
        Missed missed;
        try (Channel one = channel(); Watchdog watchdog = new Watchdog(one, told::add, OFTEN, SELDOM)) {
            Canary canary = new Canary(watchdog, "parse", millis(50));
            try (Canary stretch = canary.begin()) {
                missed = told.first(Missed.Kind.CANARY);
            }
        }
        assertEquals(List.of("parse", PID, 50_000_000L, 1L, true),
            List.of(missed.label(), missed.pid(), missed.interval(), missed.times(), missed.running()));
        assertTrue(missed.late() > 0);
        assertTrue(missed.stack().contains("WatchdogTest.aSlowStretchIsNamedWhileItRuns"), missed.stack());
        // close tells that it has ended
        assertEquals(List.of(true, false), told.canaries().stream().map(Missed::running).toList());
    }

    private static void run(Canary canary, long millis) throws InterruptedException {
        try (Canary stretch = canary.begin()) {
            Thread.sleep(millis);
        }
    }

    @Test
    void slowStretchesAreNamedWhenTheyHaveEnded() throws Exception {
        Told told = new Told();
        Missed first;
        try (Channel one = channel(); Watchdog watchdog = new Watchdog(one, told::add, OFTEN, SELDOM)) {
            Canary canary = new Canary(watchdog, "parse", millis(1));
            run(canary, 5);
            first = told.first(Missed.Kind.CANARY);
            for (int millis : new int[] {3, 12, 3}) {
                run(canary, millis);
            }
            Thread.sleep(100);
            assertEquals(1, told.canaries().size());
        }
        assertEquals(List.of("parse", 1_000_000L), List.of(first.label(), first.interval()));
        Missed last = told.canaries().get(1);
        assertEquals(List.of(first.running() ? 4L : 3L, false, ""),
            List.of(last.times(), last.running(), last.stack()));
        assertTrue(last.late() >= 11_000_000);
    }

    @Test
    void aStretchInTimeIsNotNamed() throws Exception {
        Told told = new Told();
        try (Channel one = channel(); Watchdog watchdog = new Watchdog(one, told::add, OFTEN, SELDOM)) {
            Canary canary = new Canary(watchdog, "parse", Duration.ofSeconds(5));
            for (int i = 0; i < 10; i++) {
                run(canary, 10);
            }
            assertThrows(IllegalStateException.class, () -> {
                try (Canary stretch = canary.begin()) {
                    throw new IllegalStateException("ends the stretch");
                }
            });
        }
        assertEquals(List.of(), told.canaries());
    }

    private static void signal(String name, Process process) throws IOException, InterruptedException {
        assertEquals(0, new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor());
    }

    @Test
    void aWatchdogThatSleptTooLongReportsItself() throws Exception {
        try (Channel one = channel()) {
            Process child = Rings.java(Child.class, "watch", one.path()).start();
            BufferedReader lines = child.inputReader();
            while (!lines.readLine().equals("ready")) {
                assertTrue(child.isAlive());
            }
            signal("STOP", child);
            Thread.sleep(3000);
            signal("CONT", child);
            Map<String, Long> late = new HashMap<>();
            while (!late.keySet().containsAll(Set.of("loop", "stretch"))) {
                String[] words = lines.readLine().split(" ");
                assertEquals("1", words[2]);
                long millis = Long.parseLong(words[3]);
                late.merge(words[1], millis, words[0].equals("WATCHDOG") ? Math::max : (before, then) -> then);
                assertTrue(late.containsKey("watchdog"), "a thread is accused of the time of the stop");
            }
            assertTrue(late.get("watchdog") >= 2_000 && late.get("watchdog") <= 20_000, late.toString());
            // the 3 s of the stop do not count: else it is 1200 or more
            assertTrue(late.get("loop") < 900 && late.get("stretch") < 900, late.toString());
            child.destroyForcibly().waitFor();
        }
    }

    @Test
    void closeEndsTheThread() throws Exception {
        Told told = new Told();
        long before = watchdogs();
        try (Channel one = channel(); Heartbeat heart = new Heartbeat(one, "loop", millis(50))) {
            Watchdog watchdog = new Watchdog(one, told::add, Duration.ofSeconds(30), SELDOM);
            assertEquals(before + 1, watchdogs());
            long began = System.nanoTime();
            watchdog.close();
            watchdog.close();
            assertTrue(System.nanoTime() - began < LIMIT_NANOS);
            assertEquals(before, watchdogs());
            assertThrows(ClosedException.class, () -> new Canary(watchdog, "parse", millis(1)));
        }
        assertEquals(List.of(), told.all);
    }

    @Test
    void theCallbackMayClose() throws Exception {
        long before = watchdogs();
        AtomicReference<Watchdog> itself = new AtomicReference<>();
        CountDownLatch closed = new CountDownLatch(1);
        try (Channel one = channel(); Heartbeat heart = new Heartbeat(one, "loop", millis(50))) {
            itself.set(new Watchdog(one, missed -> {
                if (itself.get() != null) {
                    itself.get().close();
                    closed.countDown();
                }
            }, millis(100), Duration.ZERO));
            assertTrue(closed.await(20, TimeUnit.SECONDS));
            itself.get().close();
            assertEquals(before, watchdogs());
        }
    }

    @Test
    void theChannelIsClosedFirst() throws Exception {
        Told told = new Told();
        long before = watchdogs();
        Channel one = channel();
        Watchdog watchdog = new Watchdog(one, told::add, OFTEN, SELDOM);
        one.close();
        until(() -> watchdogs() == before);
        watchdog.close();
        assertThrows(ClosedException.class, () -> new Watchdog(one));
        assertThrows(ClosedException.class, () -> new Canary(watchdog, "parse", millis(1)));
        assertEquals(List.of(), told.all);
    }

    /** What the action writes to standard error. */
    private static String standardError(Action action) throws Exception {
        PrintStream old = System.err;
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        System.setErr(new PrintStream(written, true, StandardCharsets.UTF_8));
        try {
            action.run();
        } finally {
            System.setErr(old);
        }
        return written.toString(StandardCharsets.UTF_8);
    }

    private interface Action {
        void run() throws Exception;
    }

    @Test
    void aCallbackThatThrows() throws Exception {
        Told told = new Told();
        String written = standardError(() -> {
            Consumer<Missed> addAndThrow = missed -> {
                told.add(missed);
                throw new IllegalStateException("thrown by the callback");
            };
            try (Channel one = channel();
                 Heartbeat heart = new Heartbeat(one, "loop", millis(50));
                 Watchdog watchdog = new Watchdog(one, addAndThrow, OFTEN, Duration.ZERO)) {
                until(() -> told.hearts().size() >= 2);
            }
        });
        assertTrue(written.contains("thrown by the callback"), written);
    }

    @Test
    void arguments() {
        Told told = new Told();
        try (Channel one = channel(); Watchdog watchdog = new Watchdog(one, told::add)) {
            for (Duration every : List.of(Duration.ZERO, millis(-1))) {
                assertEquals("every", assertThrows(InvalidArgumentException.class,
                    () -> new Watchdog(one, told::add, every, SELDOM)).argument());
            }
            assertEquals("repeat", assertThrows(InvalidArgumentException.class,
                () -> new Watchdog(one, told::add, OFTEN, millis(-1))).argument());
            for (Duration expected : List.of(Duration.ZERO, millis(-1))) {
                assertEquals("expected", assertThrows(InvalidArgumentException.class,
                    () -> new Canary(watchdog, "parse", expected)).argument());
            }
        }
    }

    @Test
    void theLine() throws Exception {
        assertEquals("flyring: a b of process 7 has not beaten for 1.250 s; it promises a beat every 1.000 s",
            new Missed(Missed.Kind.HEARTBEAT, "a\nb", 7, 1_000_000_000, 250_000_000, 1, true, "").toString());
        assertEquals("flyring: parse of process 7 has run for 1.500 ms; expected 1.000 ms\n  a stack",
            new Missed(Missed.Kind.CANARY, "parse", 7, 1_000_000, 500_000, 1, true, "  a stack").toString());
        assertEquals("flyring: parse of process 7 took 1.500 ms; expected 1.000 ms (the worst of 3)",
            new Missed(Missed.Kind.CANARY, "parse", 7, 1_000_000, 500_000, 3, false, "").toString());
        assertEquals("flyring: watchdog of process 7 slept 1.500 s too long; that time counts against no thread",
            new Missed(Missed.Kind.WATCHDOG, "watchdog", 7, 100_000_000, 1_500_000_000, 1, false, "").toString());
        String written = standardError(() -> {
            try (Channel one = channel();
                 Watchdog watchdog = new Watchdog(one)) {
                run(new Canary(watchdog, "parse", millis(1)), 5);
            }
        });
        assertTrue(written.contains("flyring: parse of process " + PID + " "), written);
    }

    @Test
    void offDoesNothing() {
        try (Canary stretch = Canary.OFF.begin()) {
            Canary.OFF.begin().end();
            assertEquals(0, stretch.times());
            assertEquals(0, stretch.started());
        }
        assertNull(Canary.OFF.thread());
    }
}
