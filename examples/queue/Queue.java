// SPDX-License-Identifier: Apache-2.0

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Job;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import io.flyring.Worker;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * Shares jobs out to several workers, and gives up a job that failed three times.
 *
 * <pre>
 * Queue produce    each line of standard input is a job
 * Queue work       does jobs until all producers have gone and nothing is left; a text that
 *                  begins with "bad" fails, one with "slow" takes a minute the first time
 * Queue dead       prints the jobs that were given up
 * </pre>
 */
public final class Queue {
    private static final int GIVE_UP_AFTER = 3;

    public static void main(String[] args) throws IOException, InterruptedException {
        switch (args.length == 1 ? args[0] : "") {
            case "produce":
                produce();
                break;
            case "work":
                work();
                break;
            case "dead":
                dead();
                break;
            default:
                System.err.println("Use Queue produce, Queue work, or Queue dead.");
                System.exit(1);
        }
    }

    private static Channel jobs() {
        return Channel.openOrCreate("jobs", ChannelOptions.queue().producers(2).workers(3));
    }

    private static Channel deadLetters() {
        return Channel.openOrCreate("dead-letters", ChannelOptions.inbox());
    }

    private static void produce() throws IOException {
        try (Channel queue = jobs(); Publisher producer = queue.publisher()) {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                producer.send(line.getBytes(StandardCharsets.UTF_8)); // sleeps while the ring is full
            }
        }
    }

    private static void work() throws InterruptedException {
        try (Channel queue = jobs();
            Channel letters = deadLetters();
            Worker worker = queue.worker();
            Publisher givenUp = letters.publisher()) {
            while (!worker.ended()) {
                // Sleeps while there is no job. One that is not done at the end of the block is given back.
                try (Job job = worker.take(Duration.ofMillis(100))) {
                    if (job != null) {
                        work(job, givenUp);
                    }
                } catch (IllegalStateException failed) {
                    continue; // the job failed, and goes to the next worker
                }
            }
        }
    }

    private static void work(Job job, Publisher givenUp) throws InterruptedException {
        byte[] bytes = job.toByteArray();
        String text = new String(bytes, StandardCharsets.UTF_8);
        if (job.attempts() >= GIVE_UP_AFTER) {
            givenUp.send(bytes, Duration.ofSeconds(5));
            System.out.println("given up: " + text);
        } else {
            System.out.println("begun: " + text);
            handle(text, job.attempts());
            System.out.println("done: " + text);
        }
        job.done();
    }

    private static void handle(String text, int attempts) throws InterruptedException {
        if (text.startsWith("bad")) {
            throw new IllegalStateException(text);
        }
        if (text.startsWith("slow") && attempts == 0) {
            Thread.sleep(60_000);
        }
    }

    private static void dead() {
        try (Channel letters = deadLetters(); Subscriber reader = letters.subscriber()) {
            reader.poll(letter -> System.out.println(new String(letter.toByteArray(), StandardCharsets.UTF_8)));
        }
    }
}
