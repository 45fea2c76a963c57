// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.openjdk.jcstress.JCStress;
import org.openjdk.jcstress.Options;
import org.openjdk.jcstress.infra.Status;
import org.openjdk.jcstress.infra.collectors.DiskReadCollector;
import org.openjdk.jcstress.infra.collectors.InProcessCollector;
import org.openjdk.jcstress.infra.collectors.TestResult;

/**
 * Runs the stress tests of this folder and prints "N passed, N failed". A test passes if it saw no forbidden outcome
 * and saw both acceptable outcomes: a race that did not take place proves nothing. A mutant passes if its forbidden
 * outcome was seen; otherwise the tests would not detect the fault in the shipped classes either.
 */
public final class StressMain {
    /** The short run, about half a minute: each test in one JVM with default settings. */
    private static final List<String> SHORT = List.of("-f", "1", "-iters", "2", "-time", "250", "-sc", "false",
        "-jvmArgs", "-Xmx256m");
    /**
     * The long run, a quarter of an hour: every combination of interpreter and compilers, with randomised compilation.
     */
    private static final List<String> LONG = List.of("-f", "1", "-fsm", "2", "-iters", "5", "-time", "500");
    private static final Map<String, List<String>> EXPECTED = expected();

    private StressMain() {
    }

    private static Map<String, List<String>> expected() {
        Map<String, List<String>> all = new TreeMap<>();
        all.put("StressPublish.Whole", List.of("0, 1", "1, 1"));
        all.put("StressPublish.Batch", List.of("0, 3", "3, 3"));
        all.put("StressPublish.LengthFirstMutant", List.of("-1, -1"));
        all.put("StressGate.Room", List.of("0, 1", "1, 1"));
        all.put("StressGate.GateFirstMutant", List.of("1, -1"));
        all.put("StressLossy.Poll", List.of("0, 1", "1, 1"));
        all.put("StressLossy.Peek", List.of("0, 1", "1, 1"));
        all.put("StressLossy.NotAskedMutant", List.of("-1, 1"));
        all.put("StressJoin.Suffix", List.of("0, 1", "1, 1"));
        all.put("StressJoin.AtClaimedMutant", List.of("-1, 1"));
        return all;
    }

    /**
     * Runs the tests.
     *
     * @param args {@code --long} for the long run; other arguments are passed to jcstress, such as {@code -t Join}.
     * @throws Exception if jcstress cannot run.
     */
    public static void main(String[] args) throws Exception {
        List<String> arguments = new ArrayList<>(List.of(args));
        boolean isLong = arguments.remove("--long");
        Path folder = Files.createTempDirectory("flyring-jcstress-");
        List<String> all = new ArrayList<>(isLong ? LONG : SHORT);
        // Few states at a time, because each has its own channel.
        all.addAll(List.of("-strideSize", "100", "-strideCount", "10", "-r", folder + "/html", "-v"));
        all.addAll(arguments);
        Options options = new Options(all.toArray(String[]::new));
        if (!options.parse()) {
            System.exit(2);
        }
        int failed = 0;
        int passed = 0;
        try {
            JCStress stress = new JCStress(options);
            Collection<String> chosen = stress.getTests();
            try {
                stress.run();
            } catch (AssertionError e) {
                System.out.println(e.getMessage()); // judged below
            }
            InProcessCollector results = new InProcessCollector();
            new DiskReadCollector(options.getResultFile(), results).dump();
            for (String test : chosen) {
                boolean good = judge(test, results.getTestResults());
                passed += good ? 1 : 0;
                failed += good ? 0 : 1;
            }
        } finally {
            Files.deleteIfExists(Path.of(options.getResultFile()));
            try (Stream<Path> report = Files.walk(folder)) {
                report.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 && passed > 0 ? 0 : 1);
    }

    private static boolean judge(String test, Collection<TestResult> results) {
        Map<String, Long> seen = new TreeMap<>();
        String reason = "";
        for (TestResult result : results) {
            if (!result.getName().equals(test)) {
                continue;
            }
            for (String state : result.getStateKeys()) {
                seen.merge(state, result.getCount(state), Long::sum);
            }
            if (result.status() != Status.NORMAL) {
                reason = " " + result.status() + " " + result.getMessages() + result.getVmErr();
            } else if (!result.grading().isPassed) {
                reason = " " + result.grading().failureMessages;
            }
        }
        List<String> must = EXPECTED.get(test.substring("io.flyring.".length()));
        if (must == null) {
            reason += " StressMain does not know what must be seen";
        } else if (!seen.keySet().containsAll(must)) {
            reason += " not seen: " + must.stream().filter(outcome -> !seen.containsKey(outcome)).toList();
        }
        System.out.println((reason.isEmpty() ? "ok   " : "FAIL ") + test + " " + seen + reason);
        return reason.isEmpty();
    }
}
