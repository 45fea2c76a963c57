// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.flyring.Call;
import io.flyring.CallListener;
import io.flyring.Client;
import io.flyring.FlyringException;
import io.flyring.Message;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A client, its calls by their handles, and their events for {@code poll_client}. */
final class Caller {
    final Client client;
    /** Whether an answer may be a repeat. */
    final boolean atLeastOnce;
    private final Map<String, Call> calls = new HashMap<>();
    private final Set<String> streams = new HashSet<>();
    /** Calls with an event in a verb that does not report events. */
    private final List<String> heard = new ArrayList<>();
    /** Calls with an end that was reported. */
    private final Set<String> told = new HashSet<>();
    private boolean telling;
    private JsonArray found = new JsonArray();

    Caller(Client client, boolean atLeastOnce) {
        this.client = client;
        this.atLeastOnce = atLeastOnce;
    }

    /** The call of this name; null if there is none. */
    Call call(String name) {
        return calls.get(name);
    }

    void forget(String name) {
        calls.remove(name);
    }

    void add(String name, Call call, boolean stream) {
        told.remove(name);
        if (stream) {
            streams.add(name);
        } else {
            streams.remove(name);
        }
        calls.put(name, call);
        CallListener.add(call, one -> {
            if (one != calls.get(name)) {
                return; // its handle belongs to a newer call
            }
            if (telling) {
                hear(name, one);
            } else {
                heard.add(name);
            }
        });
    }

    /** Cancels a call; the end is not reported, because the caller knows it. */
    void cancel(String name) {
        if (!calls.get(name).done()) {
            told.add(name);
        }
        calls.get(name).cancel();
    }

    /** Polls, and returns the events since the last call, in order. */
    JsonArray poll(long timeout) {
        for (String name : heard) {
            if (calls.containsKey(name)) {
                hear(name, calls.get(name));
            }
        }
        heard.clear();
        telling = true;
        try {
            client.poll(Duration.ofNanos(found.isEmpty() ? timeout : 0));
        } finally {
            telling = false;
        }
        JsonArray all = found;
        found = new JsonArray();
        return all;
    }

    private void hear(String name, Call call) {
        if (told.contains(name)) {
            return;
        }
        JsonObject tells = new JsonObject();
        tells.addProperty("call", name);
        try {
            Message item = call.next(Duration.ZERO);
            if (item != null) {
                tells.addProperty("is", "item");
                put(tells, item, false);
            } else if (call.done()) {
                told.add(name);
                Message answer = call.result();
                tells.addProperty("is", streams.contains(name) ? "end-of-stream" : "answer");
                if (!streams.contains(name)) {
                    put(tells, answer, call.repeat());
                }
            } else {
                return; // result or next has returned it already
            }
        } catch (FlyringException e) {
            told.add(name);
            Peer.carried(e, tells);
            tells.addProperty("is", e.code());
        }
        found.add(tells);
    }

    static void put(JsonObject json, Message message, boolean repeat) {
        json.addProperty("type", message.type());
        json.addProperty("data", Request.hex(message.toByteArray()));
        json.addProperty("repeat", repeat);
    }
}
