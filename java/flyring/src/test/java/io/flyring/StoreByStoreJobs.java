// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/** The workers and producers of a queue, stopped after each of their stores: {@code StoreByStoreJobs FOLDER}. */
final class StoreByStoreJobs extends StoreDeaths<StoreByStoreJobs.Crew> {
    private static final int CAPACITY = 4096;
    private static final int WAITING = 5; // jobs in the ring that no worker has taken
    private static final Duration LONG = Duration.ofSeconds(5);

    /** The number of jobs that were published before the operation. */
    private int before;

    private StoreByStoreJobs(Path folder, int alignment) {
        super(folder, alignment);
    }

    /** A process with a worker. A job is known by its type, 1 + its number. */
    static final class Crew extends StoreDeaths.Process {
        private Publisher publisher;
        private Worker worker;
        private Job job;
        /** The jobs that handlers got, in this process or in one that died before. */
        private final Set<Integer> begun = new HashSet<>();
        private final Set<Integer> finished = new HashSet<>();
        /** The job that it was finishing, or releasing, when it died; 0: none. */
        private int finishing;
        private int releasing;
        /** Whether the operation takes jobs: only then may a job come as a repeat. */
        private boolean takes;
        /** Whether the operation adopts jobs: before its last store the gates of both workers stand for the job. */
        private boolean adopts;
        private int published;

        Crew(Channel channel) {
            super(channel);
        }

        private void take() {
            job = worker.take();
            need(job != null, "no job");
            begun.add(job.type());
        }

        private void handle(Job each) {
            finished.add(finishing); // the poll has gone on
            begun.add(each.type());
            finishing = each.type();
        }

        private void poll(int limit) {
            finishing = 0;
            need(worker.poll(this::handle, limit) == limit, "another batch");
            finished.add(finishing);
            finishing = 0;
        }

        private void done() {
            finishing = job.type();
            job.done();
            finished.add(finishing);
            finishing = 0;
        }

        private void release() {
            releasing = job.type();
            need(job.release(), "the release found no room");
        }

        /** Lets another worker take up to {@code limit} jobs and die while it handles the first. */
        private void dieInAJob(int limit) {
            Worker other = channel.worker();
            IllegalStateException killed = new IllegalStateException("killed");
            try {
                other.poll(each -> {
                    begun.add(each.type());
                    other.seat().abandon();
                    throw killed;
                }, limit);
                need(false, "it did not die");
            } catch (IllegalStateException e) {
                need(e == killed, "it died of " + e);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        int points = 0;
        for (int alignment : new int[] {64, 8}) {
            StoreByStoreJobs all = new StoreByStoreJobs(Path.of(arguments[0]), alignment);
            for (Scenario<Crew> scenario : scenarios()) {
                all.run(scenario);
            }
            points += all.points();
        }
        System.out.println("done: " + points + " points");
    }

    private static List<Scenario<Crew>> scenarios() {
        Consumer<Crew> attach = crew -> crew.worker = crew.channel.worker();
        Consumer<Crew> take = crew -> {
            crew.takes = true;
            crew.take();
        };
        Consumer<Crew> holding = attach.andThen(take);
        Consumer<Crew> dead = crew -> {
            crew.takes = true;
            crew.adopts = true;
            crew.dieInAJob(2);
        };
        return List.of(
            new Scenario<>("take a worker's slot", crew -> { }, attach),
            new Scenario<>("take", attach, take),
            new Scenario<>("poll of a batch", attach, crew -> {
                crew.takes = true;
                crew.poll(3);
            }),
            new Scenario<>("done", holding, Crew::done),
            new Scenario<>("release", holding, Crew::release),
            new Scenario<>("release again", holding.andThen(crew -> {
                crew.release();
                crew.releasing = 0;
                for (crew.take(); crew.job.attempts() == 0; crew.take()) {
                    crew.done();
                }
            }), Crew::release),
            new Scenario<>("close with a job in hand", holding, crew -> {
                crew.releasing = crew.job.type();
                crew.worker.close();
            }),
            new Scenario<>("adopt", dead.andThen(attach), take),
            new Scenario<>("adopt of one that was evicted", attach.andThen(crew -> {
                Worker other = crew.channel.worker();
                crew.adopts = true;
                crew.begun.add(other.take().type());
                crew.channel.evict(other.slot());
            }), take),
            new Scenario<>("take the slot of a dead worker", dead, crew -> {
                crew.worker = crew.channel.worker();
                need(crew.worker.slot() == 1, "another slot");
            }),
            new Scenario<>("evict", holding, crew -> crew.channel.evict(crew.worker.slot())),
            new Scenario<>("done after an evict", holding.andThen(
                crew -> crew.channel.evict(crew.worker.slot())), crew -> {
                    try {
                        crew.job.done();
                        need(false, "it has not lost its slot");
                    } catch (SlotLostException e) {
                        need(e.slot() == crew.worker.slot(), "another slot");
                    }
                }),
            new Scenario<>("offer", crew -> crew.publisher = crew.channel.publisher("pub"), crew -> {
                crew.published = 1;
                need(crew.publisher.offer(Rings.pattern(3, 30), 0, 30, 999) > 0, "back-pressured");
            }));
    }

    @Override
    Crew process(Channel opened) {
        return new Crew(opened);
    }

    @Override
    void base() {
        before = 0;
        try (Channel channel = Channel.create(path.toString(), ChannelOptions.queue().capacity(CAPACITY).producers(2)
            .workers(3).counters(0).alignment(alignment)); Publisher publisher = channel.publisher("pub");
            Worker worker = channel.worker()) {
            while (publisher.position() < CAPACITY * 3 / 2) {
                offer(publisher, before++);
                if (publisher.position() < CAPACITY * 3 / 2 - 6 * 64) {
                    need(worker.poll(job -> { }, 1) == 1, "nothing to take");
                }
            }
            while (waiting(channel) > WAITING) {
                worker.poll(job -> { }, 1);
            }
            need(waiting(channel) == WAITING, "jobs that wait: " + waiting(channel));
        }
    }

    private static long waiting(Channel channel) {
        return channel.stats().subscribers().get(0).gates().get(0).lagMessages();
    }

    private static void offer(Publisher publisher, int sequence) {
        byte[] bytes = Rings.pattern(sequence, usual(sequence));
        need(publisher.offer(bytes, 0, bytes.length, 1 + sequence) > 0, "back-pressured");
    }

    private static void needWhole(Job job) {
        int number = job.type() - 1;
        byte[] expected = job.type() == 999 ? Rings.pattern(3, 30) : Rings.pattern(number, usual(number));
        need(Arrays.equals(expected, job.toByteArray()), "job " + number + " is not whole");
    }

    @Override
    void check(Crew left, Channel channel) throws IOException, InterruptedException {
        try (Worker one = channel.worker(); Worker two = channel.worker(); Worker three = channel.worker()) {
            Map<Integer, Integer> seen = new HashMap<>();
            for (int idle = 0; idle < 3; idle++) {
                Thread.sleep(2); // then each looks for the dead
                for (Worker worker : List.of(one, two, three)) {
                    for (Job job = worker.take(); job != null; job = worker.take()) {
                        needWhole(job);
                        need(job.repeat() || !left.begun.contains(job.type()),
                            "job " + job.type() + " was begun, and does not say so");
                        need(!job.repeat() || left.takes, "job " + job.type() + " says repeat, and no worker took it");
                        seen.merge(job.type(), 1, Integer::sum);
                        job.done();
                        idle = 0;
                    }
                }
            }
            for (int type = before - WAITING + 1; type <= before; type++) {
                int times = seen.getOrDefault(type, 0);
                boolean good = left.finished.contains(type) ? times == 0
                    : type == left.finishing ? times <= 1
                    : times == 1 || times == 2 && !left.ended && (left.adopts || type == left.releasing);
                need(good, "job " + type + " was handed out " + times + " times");
                seen.remove(type);
            }
            int extra = seen.getOrDefault(999, 0);
            need(extra <= left.published && (extra == left.published || !left.ended), "published: " + extra);
            seen.remove(999);
            need(seen.isEmpty(), "more jobs than there were: " + seen);
            goOn(channel, one, two);
        }
    }

    /** Passes a lap and a half of jobs of the next producer, one of which is released. Then the queue has ended. */
    private void goOn(Channel channel, Worker one, Worker two) {
        try (Publisher next = channel.publisher("pub")) {
            long end = next.position() + CAPACITY * 3 / 2;
            for (int i = before; next.position() < end; i++) {
                byte[] bytes = Rings.pattern(i, usual(i));
                next.send(bytes, 0, bytes.length, 1 + i, LONG);
                Job job = one.take();
                need(job != null && job.type() == 1 + i && job.attempts() == 0, "job " + i + " does not come");
                need(job.sender().epoch() == next.epoch(), "its sender: " + job.sender());
                needWhole(job);
                if (i == before) {
                    need(job.release(), "the release found no room");
                    job = two.take();
                    need(job != null && job.attempts() == 1 && job.type() == 1 + i, "what was released");
                }
                job.done();
            }
        }
        need(one.take() == null && two.take() == null && one.ended(), "it has not ended");
    }
}
