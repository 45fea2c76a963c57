// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/** The workers of golden files: performs their operations, and finds the jobs that are left. */
final class GoldenJobs {
    /** Longer than the interval in which a worker looks for jobs to adopt. */
    private static final long LOOK_MILLIS = 3;

    private final Map<String, Worker> workers = new HashMap<>();
    private final Map<String, Job> jobs = new HashMap<>();

    boolean has(String name) {
        return workers.containsKey(name);
    }

    /** Performs an operation of a worker, or takes the worker. */
    void perform(Channel channel, JsonObject operation, String where) {
        if (operation.get("op").getAsString().equals("worker")) {
            Worker made = channel.worker(operation.get("name").getAsString());
            workers.put(operation.get("as").getAsString(), made);
            assertEquals(operation.get("slot").getAsInt(), made.slot(), where);
            assertEquals(operation.get("epoch").getAsLong(), made.epoch(), where);
            return;
        }
        String name = operation.get("worker").getAsString();
        Worker worker = workers.get(name);
        switch (operation.get("op").getAsString()) {
            case "take_job" -> {
                Job job = worker.take();
                jobs.put(name, job);
                assertEquals(operation.get("job"), job == null ? JsonNull.INSTANCE : facts(job), where);
            }
            case "done" -> jobs.get(name).done();
            case "release" -> assertEquals(operation.get("released").getAsBoolean(), jobs.get(name).release(), where);
            case "poll_jobs" -> {
                JsonArray found = new JsonArray();
                worker.poll(job -> found.add(facts(job)), operation.get("limit").getAsInt());
                assertEquals(operation.get("jobs"), found, where);
            }
            case "close" -> worker.close();
            default -> throw new AssertionError(where);
        }
    }

    private static JsonObject facts(Job job) {
        JsonObject facts = new JsonObject();
        facts.addProperty("ring", job.ring());
        facts.addProperty("position", job.position());
        facts.addProperty("attempts", job.attempts());
        facts.addProperty("repeat", job.repeat());
        facts.addProperty("type", job.type());
        facts.addProperty("data", HexFormat.of().formatHex(job.toByteArray()));
        return facts;
    }

    /** Sorts jobs by the ring that they were taken from, then by their identity. */
    static List<JsonObject> sorted(JsonArray jobs) {
        List<JsonObject> sorted = new ArrayList<>();
        for (JsonElement job : jobs) {
            sorted.add(job.getAsJsonObject());
        }
        sorted.sort(Comparator.<JsonObject>comparingInt(job -> job.get("from").getAsInt())
            .thenComparingInt(job -> job.get("ring").getAsInt())
            .thenComparingLong(job -> job.get("position").getAsLong()));
        return sorted;
    }

    /** The jobs that a worker has in hand and then takes, without adopting, until there are none; finishes each. */
    List<JsonObject> left(Channel channel, String name) throws InterruptedException {
        try (Lock control = channel.file().newLock()) {
            control.lockControl(channel.header()); // adopting needs this lock
            return left(channel, workers.get(name), jobs.remove(name), false);
        }
    }

    /** The same for a new worker, which also adopts. */
    static List<JsonObject> left(Channel channel) throws InterruptedException {
        return left(channel, channel.worker(), null, true);
    }

    private static List<JsonObject> left(Channel channel, Worker worker, Job inHand, boolean adopts)
        throws InterruptedException {
        JsonArray found = new JsonArray();
        Job job = inHand;
        for (int vain = 0; vain < (adopts ? 3 : 1);) {
            if (job == null || !job.isOpen()) {
                job = worker.take();
            }
            if (job == null) {
                vain++;
                Thread.sleep(LOOK_MILLIS);
                continue;
            }
            JsonObject facts = facts(job);
            for (int ring = 0; ring < channel.publishers(); ring++) {
                if (channel.trailers().get(ring).getLongAcquire(Header.gate(worker.slot())) >= 0) {
                    facts.addProperty("from", ring);
                }
            }
            found.add(facts);
            job.done();
        }
        return sorted(found);
    }
}
