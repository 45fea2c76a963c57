// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Stops one operation on a journal after its k-th store, for every k, copies the files as they are then, and checks
 * from the copy that each append that returned is there, that nothing is torn or doubled, and that the next writer and
 * consumer go on. Run by {@link JournalSurvivorsTest} with counting copies of the memory classes:
 * {@code JournalStores FOLDER}.
 */
final class JournalStores {
    private static final int Z = Journals.SMALL;

    private final String folder;
    private int points;

    /**
     * An operation.
     *
     * @param size the segments' size.
     * @param prepare what is there before.
     * @param arm opens what the operation needs, which is not counted, and returns the operation.
     * @param boot the boot in which the operation runs; the preparation runs in boot 1.
     */
    private record Scenario(String name, int size, Consumer<Journal> prepare, Function<Armed, Runnable> arm, int boot) {
    }

    /** What a victim has open. */
    private static final class Armed {
        final Journal journal;
        JournalWriter writer;

        Armed(Journal journal) {
            this.journal = journal;
        }

        JournalWriter writer() {
            writer = Journals.writer(journal);
            return writer;
        }

        void drop() {
            try {
                if (writer != null) {
                    writer.abandon();
                }
                journal.close();
            } catch (FlyringException | Stores.Death e) {
                return; // it died in the middle
            }
        }
    }

    private JournalStores(String folder) {
        this.folder = folder;
    }

    public static void main(String[] arguments) {
        JournalStores all = new JournalStores(arguments[0]);
        try (Journal first = Journal.create(arguments[0] + "/first.journal", Journals.small())) {
            first.push(new byte[1]); // initializes classes, which store, too
            Journals.texts(first.consumer("c"));
        }
        List<Scenario> scenarios = scenarios();
        for (Scenario scenario : scenarios) {
            System.out.println(scenario.name + ": " + all.run(scenario) + " stores");
        }
        System.out.println("done: " + scenarios.size() + " scenarios, " + all.points + " points");
    }

    private static void hold(Journal journal, Consumer<JournalWriter> act) {
        try (JournalWriter writer = Journals.writer(journal)) {
            act.accept(writer);
        }
    }

    private static List<Scenario> scenarios() {
        List<Scenario> all = new ArrayList<>();
        Consumer<Journal> three = journal -> hold(journal, writer -> {
            Journals.append(writer, 0, 3);
            writer.sync();
            Journals.append(writer, 3, 4);
        });
        Consumer<Journal> atEnd = journal -> hold(journal, writer -> Journals.fill(writer, Z - 300, 100));
        all.add(new Scenario("append", Z, three, armed -> {
            JournalWriter writer = armed.writer();
            return () -> writer.append("a new one, of more than 32 bytes".getBytes());
        }, 1));
        all.add(new Scenario("append with a check", 2 * Z, journal -> hold(journal,
            writer -> Journals.fill(writer, Z - 300, 100)), armed -> {
                JournalWriter writer = armed.writer();
                return () -> writer.append(new byte[900]);
            }, 1));
        all.add(new Scenario("append in the next segment", Z, atEnd, armed -> {
            JournalWriter writer = armed.writer();
            return () -> writer.append(new byte[900]);
        }, 1));
        all.add(new Scenario("claim and commit", Z, three, armed -> {
            JournalWriter writer = armed.writer();
            return () -> {
                JournalClaim claim = writer.claim(5000);
                claim.buffer().putLong(4000, 77);
                claim.commit();
            };
        }, 1));
        all.add(new Scenario("claim and abort", Z, three, armed -> {
            JournalWriter writer = armed.writer();
            return () -> writer.claim(5000).abort();
        }, 1));
        all.add(new Scenario("batch", Z, three, armed -> {
            JournalWriter writer = armed.writer();
            return () -> writer.appendMany(TableTest.text("b0"), TableTest.text("b1"), TableTest.text("b2"));
        }, 1));
        all.add(new Scenario("sync", Z, three, armed -> {
            JournalWriter writer = armed.writer();
            Journals.append(writer, "s");
            return writer::sync;
        }, 1));
        all.add(new Scenario("append and sync", Z, three, armed -> {
            armed.journal.change(new JournalOptions().sync(JournalSync.EACH));
            JournalWriter writer = armed.writer();
            return () -> Journals.append(writer, "s");
        }, 1));
        all.add(new Scenario("push", Z, three, armed -> () -> armed.journal.push(new byte[20]), 1));
        all.add(new Scenario("take and close", Z, three, armed -> () -> armed.writer().close(), 1));
        all.add(new Scenario("close with a claim", Z, three, armed -> {
            JournalWriter writer = armed.writer();
            writer.claim(100);
            return writer::close;
        }, 1));
        all.add(new Scenario("recover", Z, journal -> {
            three.accept(journal);
            Journals.texts(journal.consumer("c"));
            hold(journal, writer -> {
                Journals.append(writer, "unproven");
                writer.close(false);
            });
        }, armed -> () -> armed.writer(), 2));
        all.add(new Scenario("write again", Z, journal -> {
            three.accept(journal);
            JournalFile.open(journal.path(), Journals.boot(1)).failed(1);
        }, armed -> () -> armed.writer(), 1));
        all.add(new Scenario("trim", Z, journal -> hold(journal, writer -> {
            Journals.fill(writer, 3L * Z, 2000);
            writer.sync();
            try (JournalConsumer consumer = journal.consumer("c")) {
                Journals.texts(consumer);
            }
        }), armed -> () -> armed.journal.trimConsumed(), 1));
        all.add(new Scenario("consume", Z, three, armed -> {
            JournalConsumer consumer = armed.journal.consumer("c");
            consumer.take();
            return consumer::take;
        }, 1));
        all.add(new Scenario("join", Z, three, armed -> () -> armed.journal.consumer("c", JournalStart.number(2)), 1));
        all.add(new Scenario("resume a consumer and forget it", Z, three, armed -> {
            armed.journal.consumer("c").close();
            return () -> {
                armed.journal.consumer("c").close();
                armed.journal.forget("c");
            };
        }, 1));
        return all;
    }

    private static void need(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    /** Runs a scenario with every number of stores, each time from the same files; returns how many it makes. */
    private int run(Scenario scenario) {
        String ready = folder + "/" + scenario.name.replace(' ', '-') + ".journal";
        try (Journal journal = Journal.create(ready, Journals.small().segmentSize(scenario.size)
            .identity(Journals.bootId(1)))) {
            scenario.prepare.accept(journal);
        }
        String path = folder + "/steps.journal";
        String dead = folder + "/dead.journal";
        List<String> before = texts(ready, scenario.boot);
        List<String> after = null;
        long most = Long.MAX_VALUE;
        for (long k = Long.MAX_VALUE; k >= 0; k = k == Long.MAX_VALUE ? most - 1 : k - 1) {
            Journals.copy(ready, path);
            Armed armed = new Armed(Journal.open(path, Journals.boot(scenario.boot)));
            Runnable act = scenario.arm.apply(armed);
            if (k == Long.MAX_VALUE) {
                before = texts(path, scenario.boot); // with what was armed
            }
            Stores.live(k);
            boolean died = false;
            try {
                act.run();
            } catch (Stores.Death death) {
                died = true;
            }
            long seen = Stores.seen();
            Stores.live(Long.MAX_VALUE);
            Journals.copy(path, dead);
            armed.drop();
            need(died != (k == Long.MAX_VALUE), scenario.name + " did not die after " + k + " stores");
            if (k == Long.MAX_VALUE) {
                most = seen;
                after = texts(dead, scenario.boot);
            }
            check(scenario.name + " after " + k + " stores", dead, scenario.boot, before, after);
            points++;
        }
        return (int) most;
    }

    private static List<String> texts(String path, int boot) {
        try (Journal journal = Journal.open(path, Journals.boot(boot))) {
            return Journals.texts(journal);
        }
    }

    private static void check(String where, String path, int boot, List<String> before, List<String> after) {
        try {
            List<String> now = texts(path, boot);
            try (Journal journal = Journal.open(path, Journals.boot(boot))) {
                for (JournalConsumerStats each : journal.stats().consumers()) {
                    need(each.behind() >= 0, "no pair proves the gate of " + each);
                }
            }
            need(now.equals(before) || now.equals(after), "it has " + now.size() + ": " + tail(now));
            long number;
            long consumed = 0;
            try (Journal journal = Journal.open(path, Journals.boot(boot))) {
                try (JournalReader waiting = journal.reader(JournalStart.NEWEST);
                    JournalWriter writer = journal.writer("heir", false, 1, Duration.ZERO)) {
                    number = writer.number();
                    Journals.append(writer, "next");
                    List<String> more = Journals.texts(waiting);
                    // before "next" what was committed and not published when it began
                    need(more.get(more.size() - 1).equals("next") && more.size() <= 1 + after.size() - before.size()
                        || more.equals(List.of("next")), "a reader at the end finds " + more);
                }
                List<String> then = Journals.texts(journal);
                List<String> expected = new ArrayList<>(now);
                expected.add("next");
                need(then.equals(expected), "the next writer makes it " + then.size() + ": " + tail(then));
                need(journal.reader().number() + then.size() == number + 1, "numbers: " + number);
                for (JournalConsumerStats each : journal.stats().consumers()) {
                    try (JournalConsumer consumer = journal.consumer(each.name())) {
                        consumed = consumer.number();
                        List<String> rest = Journals.texts(consumer);
                        need(consumed + rest.size() == number + 1, "the consumer gets " + rest.size() + " from "
                            + consumed);
                        need(then.subList(then.size() - rest.size(), then.size()).equals(rest), "the consumer gets "
                            + tail(rest));
                    }
                }
                JournalStats stats = journal.stats();
                need(!stats.failed() && !stats.needsRecovery(), "it is not whole: " + stats);
                need(stats.messages() == number + 1, "messages: " + stats.messages());
            }
            try (Journal later = Journal.open(path, Journals.boot(boot + 1)); JournalWriter writer = later.writer()) {
                need(writer.number() == number + 1, "after another boot: " + writer.number());
            }
        } catch (FlyringException | IllegalStateException e) {
            throw new IllegalStateException(where + ": " + e.getMessage(), e);
        }
    }

    private static String tail(List<String> all) {
        return all.subList(Math.max(0, all.size() - 5), all.size()).toString();
    }
}
