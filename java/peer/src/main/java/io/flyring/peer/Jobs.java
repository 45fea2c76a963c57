// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.Action;
import io.flyring.Channel;
import io.flyring.Job;
import io.flyring.Worker;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** The operations on workers of a queue. */
final class Jobs {
    private final Function<Request, Channel> channel;
    private final Map<String, Worker> workers = new HashMap<>();
    /** The job of each worker's last take, which may be done by now. */
    private final Map<String, Job> taken = new HashMap<>();

    /** The exception that a handler throws on request. */
    private static final class Thrown extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    Jobs(Function<Request, Channel> channel) {
        this.channel = channel;
    }

    void addTo(Map<String, BiConsumer<Request, JsonObject>> operations) {
        operations.put("worker", this::make);
        operations.put("take_job", this::take);
        operations.put("done", (request, answer) -> job(request).done());
        operations.put("release", (request, answer) -> answer.addProperty("released", job(request).release()));
        operations.put("poll_jobs", this::poll);
        operations.put("drain", (request, answer) -> worker(request).drain());
        operations.put("jobs_ended", (request, answer) -> answer.addProperty("ended", worker(request).ended()));
    }

    void clear() {
        workers.clear();
        taken.clear();
    }

    void close(Request request) {
        String handle = Operations.known(workers, request, "worker");
        workers.remove(handle).close();
        taken.remove(handle);
    }

    private Worker worker(Request request) {
        return workers.get(Operations.known(workers, request, "worker"));
    }

    /** Returns the job of the worker's last take. If it is done already, its own methods throw. */
    private Job job(Request request) {
        worker(request);
        Job job = taken.get(request.text("worker"));
        if (job == null) {
            throw new Request.Bad("closed", "There is no job in hand.");
        }
        return job;
    }

    private void make(Request request, JsonObject answer) {
        String name = request.text("name", "");
        Worker worker = request.waits()
            ? channel.apply(request).worker(name, Duration.ofNanos(request.timeout()))
            : channel.apply(request).worker(name);
        workers.put(request.text("worker"), worker);
        taken.remove(request.text("worker"));
        request.spin(worker::setSpin);
        answer.addProperty("slot", worker.slot());
        answer.addProperty("epoch", worker.epoch());
    }

    private void take(Request request, JsonObject answer) {
        Worker worker = worker(request);
        Job job = worker.take(request.waits() ? request.timeout() : 0);
        answer.add("job", JsonNull.INSTANCE);
        if (job != null) {
            taken.put(request.text("worker"), job);
            answer.add("job", json(job));
        }
    }

    private void poll(Request request, JsonObject answer) {
        JsonArray jobs = new JsonArray();
        answer.add("jobs", jobs);
        String action = request.text("action", "CONTINUE");
        long timeout = request.waits() ? request.timeout() : 0;
        try {
            worker(request).controlledPoll(job -> {
                jobs.add(json(job));
                if (action.equals("throw")) {
                    throw new Thrown();
                }
                return Action.valueOf(action);
            }, request.integer("limit", 1), timeout);
        } catch (Thrown e) {
            answer.addProperty("threw", true);
        }
    }

    private static JsonObject json(Job job) {
        JsonObject json = new JsonObject();
        json.addProperty("data", Request.hex(job.toByteArray()));
        json.addProperty("type", job.type());
        json.addProperty("ring", job.ring());
        json.addProperty("position", job.position());
        json.addProperty("attempts", job.attempts());
        json.addProperty("repeat", job.repeat());
        JsonObject sender = new JsonObject();
        sender.addProperty("name", job.sender().name());
        sender.addProperty("epoch", job.sender().epoch());
        json.add("sender", sender);
        return json;
    }
}
