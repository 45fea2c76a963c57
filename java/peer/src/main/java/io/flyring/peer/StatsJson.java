// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.CounterStats;
import io.flyring.Foreign;
import io.flyring.GateStats;
import io.flyring.HeartbeatStats;
import io.flyring.InHandStats;
import io.flyring.JournalConsumerStats;
import io.flyring.JournalStats;
import io.flyring.PublisherStats;
import io.flyring.Stats;
import io.flyring.SubscriberStats;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;

/** Writes {@code Channel.stats()} as JSON, with the field names of spec/api.md, Stats. */
final class StatsJson {
    private StatsJson() {
    }

    static JsonObject of(Stats stats) {
        JsonObject json = new JsonObject();
        json.addProperty("path", stats.path());
        json.addProperty("id", stats.id().toString());
        json.addProperty("kind", stats.kind().toString());
        json.addProperty("capacity", stats.capacity());
        json.addProperty("alignment", stats.alignment());
        json.addProperty("foreign", stats.foreign() == Foreign.NONE ? null : stats.foreign().toString());
        json.addProperty("created_at", stats.createdAt());
        if (stats.clients() > 0) {
            json.addProperty("clients", stats.clients());
            json.addProperty("delivery", stats.delivery().toString());
            json.addProperty("max_outstanding", stats.maxOutstanding());
            json.addProperty("serving", stats.serving());
        }
        json.addProperty("successor", stats.successor());
        json.add("publishers", array(stats.publishers(), StatsJson::publisher));
        json.add("subscribers", array(stats.subscribers(), StatsJson::subscriber));
        json.add("counters", array(stats.counters(), StatsJson::counter));
        json.add("heartbeats", array(stats.heartbeats(), StatsJson::heartbeat));
        return json;
    }

    static JsonObject of(JournalStats stats) {
        JsonObject json = new JsonObject();
        json.addProperty("path", stats.path());
        json.addProperty("id", stats.id().toString());
        json.addProperty("segment_size", stats.segmentSize());
        json.addProperty("content", stats.content());
        json.addProperty("sync", stats.sync().nanos());
        json.addProperty("max_age", stats.maxAge());
        json.addProperty("max_size", stats.maxSize());
        json.addProperty("trim_consumed", stats.trimConsumed());
        json.addProperty("published", stats.published());
        json.addProperty("messages", stats.messages());
        json.addProperty("synced", stats.synced());
        json.addProperty("synced_at", stats.syncedAt());
        json.addProperty("unsynced_since", stats.unsyncedSince());
        json.addProperty("trimmed", stats.trimmed());
        json.addProperty("ready", stats.ready());
        json.addProperty("segments", stats.segments());
        json.addProperty("bytes", stats.bytes());
        json.addProperty("oldest", stats.oldest());
        json.addProperty("newest", stats.newest());
        json.addProperty("writer", stats.writer());
        json.addProperty("pid", stats.pid());
        json.addProperty("attached_at", stats.attachedAt());
        json.addProperty("epoch", stats.epoch());
        json.addProperty("writing", stats.writing());
        json.addProperty("helping", stats.helping());
        json.addProperty("failed", stats.failed());
        json.addProperty("needs_recovery", stats.needsRecovery());
        json.addProperty("successor", stats.successor());
        json.add("consumers", array(stats.consumers(), StatsJson::consumer));
        return json;
    }

    private static JsonObject consumer(JournalConsumerStats stats) {
        JsonObject json = new JsonObject();
        json.addProperty("name", stats.name());
        json.addProperty("position", stats.position());
        json.addProperty("behind", stats.behind());
        json.addProperty("behind_bytes", stats.behindBytes());
        json.addProperty("lost", stats.lost());
        json.addProperty("live", stats.live());
        json.addProperty("pid", stats.pid());
        json.addProperty("attached_at", stats.attachedAt());
        return json;
    }

    private static <T> JsonArray array(List<T> list, Function<T, JsonObject> made) {
        JsonArray array = new JsonArray();
        list.forEach(one -> array.add(made.apply(one)));
        return array;
    }

    private static JsonObject publisher(PublisherStats publisher) {
        JsonObject json = new JsonObject();
        json.addProperty("slot", publisher.slot());
        json.addProperty("state", publisher.state().toString());
        json.addProperty("name", publisher.name());
        json.addProperty("pid", publisher.pid());
        json.addProperty("epoch", publisher.epoch());
        json.addProperty("attached_at", publisher.attachedAt());
        json.addProperty("start", publisher.start());
        json.addProperty("published", publisher.published());
        json.addProperty("claimed", publisher.claimed());
        json.addProperty("messages", publisher.messages());
        json.addProperty("blocked_since", publisher.blockedSince());
        json.addProperty("blocked_for", publisher.blockedFor());
        json.addProperty("blocked_length", publisher.blockedLength());
        JsonArray holders = new JsonArray();
        publisher.blockedBy().forEach(holders::add);
        json.add("blocked_by", holders);
        json.addProperty("readers", publisher.readers());
        return json;
    }

    private static JsonObject subscriber(SubscriberStats subscriber) {
        JsonObject json = new JsonObject();
        json.addProperty("slot", subscriber.slot());
        json.addProperty("state", subscriber.state().toString());
        json.addProperty("name", subscriber.name());
        json.addProperty("pid", subscriber.pid());
        json.addProperty("epoch", subscriber.epoch());
        json.addProperty("attached_at", subscriber.attachedAt());
        json.addProperty("kept", subscriber.kept());
        json.addProperty("evicting", subscriber.evicting());
        json.addProperty("discarded", subscriber.discarded());
        json.add("in_hand", subscriber.inHand() == null ? JsonNull.INSTANCE : inHand(subscriber.inHand()));
        json.addProperty("outstanding", subscriber.outstanding());
        json.addProperty("expired", subscriber.expired());
        json.add("gates", array(subscriber.gates(), StatsJson::gate));
        return json;
    }

    private static JsonObject inHand(InHandStats job) {
        JsonObject json = new JsonObject();
        json.addProperty("ring", job.ring());
        json.addProperty("position", job.position());
        json.addProperty("end", job.end());
        json.addProperty("attempts", job.attempts());
        json.addProperty("busy_since", job.busySince());
        json.addProperty("busy_for", job.busyFor());
        return json;
    }

    private static JsonObject gate(GateStats gate) {
        JsonObject json = new JsonObject();
        json.addProperty("ring", gate.ring());
        json.addProperty("position", gate.position());
        json.addProperty("lag", gate.lag());
        json.addProperty("lag_messages", gate.lagMessages());
        return json;
    }

    private static JsonObject heartbeat(HeartbeatStats heartbeat) {
        JsonObject json = new JsonObject();
        json.addProperty("id", heartbeat.id());
        json.addProperty("name", heartbeat.name());
        json.addProperty("pid", heartbeat.pid());
        json.addProperty("interval", heartbeat.interval());
        json.addProperty("started_at", heartbeat.startedAt());
        json.addProperty("beats", heartbeat.beats());
        return json;
    }

    /** A counter as JSON; its key without the zeros at the end. */
    private static JsonObject counter(CounterStats counter) {
        byte[] key = counter.key();
        int length = key.length;
        while (length > 0 && key[length - 1] == 0) {
            length--;
        }
        JsonObject json = new JsonObject();
        json.addProperty("id", counter.id());
        json.addProperty("label", counter.label());
        json.addProperty("type_id", counter.typeId());
        json.addProperty("key", Request.hex(Arrays.copyOf(key, length)));
        json.addProperty("value", counter.value());
        return json;
    }
}
