// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.Counter;
import io.flyring.Delivery;
import io.flyring.Foreign;
import io.flyring.Holder;
import io.flyring.InjectedIdentity;
import io.flyring.LossySubscriber;
import io.flyring.Mesh;
import io.flyring.Message;
import io.flyring.MessageHandler;
import io.flyring.OpenOptions;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.Start;
import io.flyring.Subscriber;
import io.flyring.WhenLapped;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.BiConsumer;
import java.util.function.IntToLongFunction;
import org.agrona.DirectBuffer;

/** The peer's operations by name. */
final class Operations {
    private final Map<String, BiConsumer<Request, JsonObject>> operations = new LinkedHashMap<>();
    private final Map<String, Channel> channels = new LinkedHashMap<>();
    private final Map<String, Publisher> publishers = new HashMap<>();
    private final Map<String, Subscriber> subscribers = new HashMap<>();
    private final Map<String, LossySubscriber> lossySubscribers = new HashMap<>();
    private final Map<String, Claim> claims = new HashMap<>();
    private final Map<String, Mesh> meshes = new HashMap<>();
    private final Jobs jobs = new Jobs(this::channel);
    private final Servers servers = new Servers(this::channel);
    private final Clients clients = new Clients(this::channel);
    private final Tables tables = new Tables();
    private final Journals journals = new Journals();

    /** Thrown when the answer is complete and negative. */
    static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    Operations() {
        operations.put("hello", this::hello);
        operations.put("create", (request, answer) ->
            attached(request, answer, Channel.create(request.text("name"), options(request))));
        operations.put("open_or_create", (request, answer) ->
            attached(request, answer, Channel.openOrCreate(request.text("name"), options(request))));
        operations.put("replace", (request, answer) ->
            attached(request, answer, Channel.replace(request.text("name"), options(request))));
        operations.put("open", this::open);
        operations.put("info", (request, answer) -> info(channel(request), answer));
        operations.put("stats", (request, answer) -> answer.add("stats", StatsJson.of(channel(request).stats())));
        operations.put("beside", (request, answer) ->
            Beside.start(channel(request), request.text("do"), request.text("fifo")));
        operations.put("unlink", (request, answer) -> Channel.unlink(request.text("name")));
        operations.put("publisher", this::makePublisher);
        operations.put("subscriber", this::makeSubscriber);
        operations.put("lossy_subscriber", this::lossySubscriber);
        operations.put("evict", (request, answer) ->
            answer.addProperty("messages", channel(request).evict(request.integer("slot"))));
        operations.put("mesh", this::mesh);
        jobs.addTo(operations);
        servers.addTo(operations);
        clients.addTo(operations);
        operations.put("offer", this::offer);
        operations.put("offer_batch", this::offerBatch);
        operations.put("flush", this::flush);
        operations.put("claim", this::claim);
        operations.put("commit", this::commit);
        operations.put("abort", (request, answer) -> answer.addProperty("position", open(request).abort()));
        operations.put("prefetch", (request, answer) ->
            publisher(request).prefetch());
        operations.put("held_by", this::heldBy);
        operations.put("take", this::take);
        operations.put("poll", this::poll);
        operations.put("peek", (request, answer) -> message(lossy(request).peek(), answer));
        operations.put("valid", (request, answer) -> answer.addProperty("valid", lossy(request).valid()));
        operations.put("lost", this::lost);
        operations.put("ended", (request, answer) -> answer.addProperty("ended", isLossy(request)
            ? lossy(request).ended(request.integer("ring")) : subscriber(request).ended(request.integer("ring"))));
        operations.put("positions", this::positions);
        operations.put("publish_stream", (request, answer) ->
            new PublishStream(publisher(request), request).run(answer));
        operations.put("verify_stream", (request, answer) -> (isLossy(request)
            ? new VerifyStream(lossy(request), request) : new VerifyStream(subscriber(request), request)).run(answer));
        operations.put("ping_pong", (request, answer) -> (isLossy(request)
            ? new PingPong(publisher(request), lossy(request), request)
            : new PingPong(publisher(request), subscriber(request), request)).run(answer));
        operations.put("counter_allocate", (request, answer) -> answer.addProperty("counter",
            channel(request).counters().allocate(request.text("label"), request.integer("type_id", 0),
                request.has("key") ? request.bytes("key") : new byte[0]).id()));
        operations.put("counter_find", this::counterFind);
        operations.put("counter_get", this::counterGet);
        operations.put("counter_set", this::counterSet);
        operations.put("counter_add", this::counterAdd);
        operations.put("counter_cas_loop", this::counterCasLoop);
        operations.put("counter_free", (request, answer) -> counter(request).free());
        operations.put("counters", this::counters);
        operations.put("close", this::close);
        operations.put("forget", this::forget);
        tables.addTo(operations);
        operations.put("die", (request, answer) -> Sigkill.now());
        operations.put("quit", (request, answer) -> { });
        journals.addTo(operations);
    }

    void perform(String op, Request request, JsonObject answer) {
        BiConsumer<Request, JsonObject> operation = operations.get(op);
        if (operation == null) {
            throw new Request.Bad("There is no op " + op + ".");
        }
        operation.accept(request, answer);
    }

    void closeAll() {
        channels.values().forEach(Channel::close);
        tables.closeAll();
        journals.closeAll();
    }

    /** The handle in a request; throws unless it belongs to an object. */
    static String known(Map<String, ?> objects, Request request, String kind) {
        String handle = request.text(kind);
        if (!objects.containsKey(handle)) {
            throw new Request.Bad("There is no " + kind + " with the handle " + handle + ".");
        }
        return handle;
    }

    private Publisher publisher(Request request) {
        return publishers.get(known(publishers, request, "publisher"));
    }

    private Subscriber subscriber(Request request) {
        return subscribers.get(known(subscribers, request, "subscriber"));
    }

    private LossySubscriber lossy(Request request) {
        return lossySubscribers.get(known(lossySubscribers, request, "subscriber"));
    }

    private boolean isLossy(Request request) {
        return lossySubscribers.containsKey(request.text("subscriber"));
    }

    private Channel channel(Request request) {
        return channels.get(known(channels, request, "channel"));
    }

    private void hello(Request request, JsonObject answer) {
        Thread.interrupted(); // clears the interrupt of an earlier request
        if (request.flag("collect")) {
            journals.clear();
            if (channels.isEmpty()) {
                publishers.clear();
                subscribers.clear();
                lossySubscribers.clear();
                claims.clear();
                jobs.clear();
                servers.clear();
                clients.clear();
            }
            System.gc();
        }
        answer.addProperty("language", "java");
        answer.addProperty("version", "0.1.0");
        answer.addProperty("layout", "1.0");
        answer.addProperty("pid", ProcessHandle.current().pid());
        JsonArray names = new JsonArray();
        operations.keySet().forEach(names::add);
        answer.add("ops", names);
    }

    private static ChannelOptions options(Request request) {
        ChannelOptions options = switch (request.text("kind", "")) {
            case "inbox" -> ChannelOptions.inbox();
            case "broadcast" -> ChannelOptions.broadcast();
            case "queue" -> ChannelOptions.queue();
            case "service" -> ChannelOptions.service();
            default -> throw new Request.Bad("invalid-argument", "The kind is inbox, broadcast, queue or service.");
        };
        if (request.has("capacity")) {
            options.capacity(request.integer("capacity"));
        }
        if (request.has("publishers")) {
            options.publishers(request.integer("publishers"));
        }
        if (request.has("subscribers")) {
            options.subscribers(request.integer("subscribers"));
        }
        if (request.has("producers")) {
            options.producers(request.integer("producers"));
        }
        if (request.has("workers")) {
            options.workers(request.integer("workers"));
        }
        if (request.has("clients")) {
            options.clients(request.integer("clients"));
        }
        if (request.has("delivery")) {
            options.delivery(delivery(request.text("delivery")));
        }
        if (request.has("max_outstanding")) {
            options.maxOutstanding(request.integer("max_outstanding"));
        }
        if (request.has("alignment")) {
            options.alignment(request.integer("alignment"));
        }
        if (request.has("foreign")) {
            options.foreign(foreign(request.text("foreign")));
        }
        if (request.has("counters")) {
            options.counters(request.integer("counters"));
        }
        if (request.has("mode")) {
            options.mode(request.integer("mode"));
        }
        options.schema(request.text("schema", ""), request.integer("schema_id", 0),
            request.integer("schema_version", 0));
        options.anyFileSystem(request.flag("any_file_system")).wake(request.flag("wake", true));
        return request.has("inject") ? identity(request.object("inject")).in(options) : options;
    }

    private static Foreign foreign(String end) {
        return switch (end) {
            case "publisher" -> Foreign.PUBLISHER;
            case "subscriber" -> Foreign.SUBSCRIBER;
            default -> throw new Request.Bad("invalid-argument", "Foreign is publisher or subscriber.");
        };
    }

    static Delivery delivery(String text) {
        return switch (text) {
            case "at-most-once" -> Delivery.AT_MOST_ONCE;
            case "at-least-once" -> Delivery.AT_LEAST_ONCE;
            default -> throw new Request.Bad("invalid-argument", "The delivery is at-most-once or at-least-once.");
        };
    }

    static InjectedIdentity identity(Request inject) {
        InjectedIdentity identity = new InjectedIdentity();
        if (inject.has("channel_id")) {
            identity.channelId(UUID.fromString(inject.text("channel_id")));
        }
        if (inject.has("boot_id")) {
            identity.bootId(UUID.fromString(inject.text("boot_id")));
        }
        if (inject.has("created_at")) {
            identity.createdAt(inject.number("created_at"));
        }
        if (inject.has("pid")) {
            identity.pid(inject.integer("pid"));
        }
        if (inject.has("monotonic")) {
            identity.monotonic(inject.number("monotonic"));
        }
        if (inject.has("now")) {
            identity.now(inject.number("now"));
        }
        return identity;
    }

    private void open(Request request, JsonObject answer) {
        String name = request.text("name");
        OpenOptions options =
            new OpenOptions().readOnly(request.flag("read_only")).wake(request.flag("wake", true));
        attached(request, answer, request.waits()
            ? Channel.waitFor(name, Duration.ofNanos(request.timeout()), options) : Channel.open(name, options));
    }

    private void attached(Request request, JsonObject answer, Channel channel) {
        channels.put(request.text("channel"), channel);
        info(channel, answer);
    }

    private static void info(Channel channel, JsonObject answer) {
        answer.addProperty("path", channel.path());
        answer.addProperty("channel_id", channel.id().toString());
        answer.addProperty("kind", channel.kind().toString());
        answer.addProperty("capacity", channel.capacity());
        answer.addProperty("publishers", channel.publishers());
        answer.addProperty("subscribers", channel.subscribers());
        answer.addProperty("alignment", channel.alignment());
        answer.addProperty("foreign", channel.foreign() == Foreign.NONE ? null : channel.foreign().toString());
        answer.addProperty("counters", channel.counterSlots());
        answer.addProperty("file_length", channel.fileLength());
    }

    private void makePublisher(Request request, JsonObject answer) {
        Publisher publisher = channel(request).publisher(request.text("name", ""), request.integer("max_lag", 0));
        publishers.put(request.text("publisher"), publisher);
        answer.addProperty("ring", publisher.ring());
        answer.addProperty("epoch", publisher.epoch());
        answer.addProperty("position", publisher.position());
    }

    private void makeSubscriber(Request request, JsonObject answer) {
        String name = request.text("name", "");
        boolean kept = request.flag("kept");
        Subscriber subscriber = request.waits()
            ? channel(request).subscriber(name, kept, Duration.ofNanos(request.timeout()), rings(request))
            : channel(request).subscriber(name, kept, rings(request));
        lossySubscribers.remove(request.text("subscriber"));
        subscribers.put(request.text("subscriber"), subscriber);
        answer.addProperty("slot", subscriber.slot());
        answer.addProperty("epoch", subscriber.epoch());
        answer.add("rings", json(subscriber.rings()));
        answer.add("positions", positions(subscriber.rings(), subscriber::position));
    }

    private void lossySubscriber(Request request, JsonObject answer) {
        Start start = switch (request.text("start", "now")) {
            case "now" -> Start.NOW;
            case "oldest" -> Start.OLDEST;
            default -> throw new Request.Bad("The start is now or oldest.");
        };
        WhenLapped whenLapped = switch (request.text("when_lapped", "oldest")) {
            case "oldest" -> WhenLapped.OLDEST;
            case "newest" -> WhenLapped.NEWEST;
            default -> throw new Request.Bad("When lapped, go on at the oldest or at the newest.");
        };
        LossySubscriber subscriber = channel(request).lossySubscriber(start, whenLapped, rings(request));
        subscribers.remove(request.text("subscriber"));
        lossySubscribers.put(request.text("subscriber"), subscriber);
        answer.add("rings", json(subscriber.rings()));
        answer.add("positions", positions(subscriber.rings(), subscriber::position));
    }

    private static int[] rings(Request request) {
        List<Integer> chosen = new ArrayList<>();
        if (request.has("rings")) {
            request.list("rings").forEach(ring -> chosen.add(ring.getAsInt()));
        }
        return request.has("rings") ? chosen.stream().mapToInt(ring -> ring).toArray() : null;
    }

    private static JsonArray json(int[] rings) {
        JsonArray json = new JsonArray();
        for (int ring : rings) {
            json.add(ring);
        }
        return json;
    }

    private static JsonObject positions(int[] rings, IntToLongFunction position) {
        JsonObject positions = new JsonObject();
        for (int ring : rings) {
            positions.addProperty(String.valueOf(ring), position.applyAsLong(ring));
        }
        return positions;
    }

    private void lost(Request request, JsonObject answer) {
        int ring = request.integer("ring");
        answer.addProperty("messages", lossy(request).lostMessages(ring));
        answer.addProperty("bytes", lossy(request).lostBytes(ring));
    }

    private void offer(Request request, JsonObject answer) {
        byte[] data = request.bytes("data");
        int type = request.integer("type", 1);
        answer.addProperty("position", request.waits()
            ? publisher(request).send(data, 0, data.length, type, request.timeout())
            : publisher(request).offer(data, 0, data.length, type));
    }

    private void flush(Request request, JsonObject answer) {
        publisher(request).flush(request.timeout());
    }

    private void offerBatch(Request request, JsonObject answer) {
        List<DirectBuffer> batch = new ArrayList<>();
        for (JsonElement data : request.list("data")) {
            PayloadBuffer buffer = new PayloadBuffer();
            buffer.wrap(Request.hex(data));
            batch.add(buffer);
        }
        DirectBuffer[] messages = batch.toArray(new DirectBuffer[0]);
        int type = request.integer("type", 1);
        answer.addProperty("taken", request.waits()
            ? publisher(request).sendBatch(messages, 0, messages.length, type, request.timeout())
            : publisher(request).offerBatch(messages, 0, messages.length, type));
    }

    private void claim(Request request, JsonObject answer) {
        String handle = known(publishers, request, "publisher");
        int length = request.integer("length");
        int type = request.integer("type", 1);
        Claim claim = request.waits() ? publisher(request).claim(length, type, request.timeout())
            : publisher(request).tryClaim(length, type);
        if (claim != null) {
            claims.put(handle, claim);
        }
        answer.addProperty("claimed", claim != null);
    }

    /** The publisher's last claim, which may be closed by now. */
    private Claim open(Request request) {
        return claims.get(known(claims, request, "publisher"));
    }

    private void commit(Request request, JsonObject answer) {
        Claim claim = open(request);
        claim.buffer().putBytes(0, request.bytes("data"));
        answer.addProperty("position", claim.commit());
    }

    private void heldBy(Request request, JsonObject answer) {
        answer.add("holder", json(publisher(request).heldBy()));
    }

    /** A holder as JSON; null if there is none. */
    static JsonElement json(Holder holder) {
        if (holder == null) {
            return JsonNull.INSTANCE;
        }
        JsonObject json = new JsonObject();
        json.addProperty("slot", holder.slot());
        json.addProperty("name", holder.name());
        json.addProperty("pid", holder.pid());
        json.addProperty("live", holder.live());
        json.addProperty("kept", holder.kept());
        json.addProperty("position", holder.position());
        return json;
    }

    static JsonObject json(Message message) {
        JsonObject json = new JsonObject();
        json.addProperty("data", Request.hex(message.toByteArray()));
        json.addProperty("type", message.type());
        json.addProperty("ring", message.ring());
        json.addProperty("position", message.position());
        JsonObject sender = new JsonObject();
        sender.addProperty("name", message.sender().name());
        sender.addProperty("epoch", message.sender().epoch());
        json.add("sender", sender);
        return json;
    }

    private void take(Request request, JsonObject answer) {
        long timeout = request.waits() ? request.timeout() : 0;
        message(isLossy(request) ? lossy(request).take(timeout) : subscriber(request).take(timeout), answer);
    }

    private static void message(Message message, JsonObject answer) {
        answer.add("message", message == null ? JsonNull.INSTANCE : json(message));
    }

    private void poll(Request request, JsonObject answer) {
        JsonArray messages = new JsonArray();
        MessageHandler handler = message -> messages.add(json(message));
        int limit = request.integer("limit", 256);
        long timeout = request.waits() ? request.timeout() : 0;
        if (isLossy(request)) {
            lossy(request).poll(handler, limit, timeout);
        } else {
            subscriber(request).poll(handler, limit, timeout);
        }
        answer.add("messages", messages);
    }

    private void positions(Request request, JsonObject answer) {
        if (request.has("subscriber") && isLossy(request)) {
            answer.add("positions", positions(lossy(request).rings(), lossy(request)::position));
        } else if (request.has("subscriber")) {
            answer.add("positions", positions(subscriber(request).rings(), subscriber(request)::position));
        } else {
            answer.addProperty("position", publisher(request).position());
        }
    }

    private Counter counter(Request request) {
        return channel(request).counters().counter(request.integer("counter"));
    }

    private void counterFind(Request request, JsonObject answer) {
        Counter counter = channel(request).counters().find(request.text("label"));
        answer.add("counter", JsonNull.INSTANCE);
        if (counter != null) {
            answer.addProperty("counter", counter.id());
        }
    }

    private void counterGet(Request request, JsonObject answer) {
        Counter counter = counter(request);
        boolean plain = request.text("order", "volatile").equals("plain");
        answer.addProperty("value", plain ? counter.get() : counter.getVolatile());
    }

    private void counterSet(Request request, JsonObject answer) {
        Counter counter = counter(request);
        long value = request.number("value");
        switch (request.text("order", "volatile")) {
            case "plain" -> counter.set(value);
            case "release" -> counter.setRelease(value);
            case "volatile" -> counter.setVolatile(value);
            default -> throw new Request.Bad("The order is plain, volatile or release.");
        }
        answer.addProperty("value", value);
    }

    private void counterAdd(Request request, JsonObject answer) {
        Counter counter = counter(request);
        long delta = request.number("delta");
        long value = counter.getVolatile();
        for (long i = request.number("times", 1); i > 0; i--) {
            value = counter.getAndAdd(delta) + delta;
        }
        answer.addProperty("value", value);
    }

    private void counterCasLoop(Request request, JsonObject answer) {
        Counter counter = counter(request);
        long failed = 0;
        for (long i = request.number("times"); i > 0; i--) {
            long value = counter.getVolatile();
            while (!counter.compareAndSet(value, value + 1)) {
                failed++;
                value = counter.getVolatile();
            }
        }
        answer.addProperty("failed", failed);
    }

    private void counters(Request request, JsonObject answer) {
        JsonArray counters = new JsonArray();
        channel(request).counters().forEach(counter -> {
            JsonObject json = new JsonObject();
            json.addProperty("id", counter.id());
            json.addProperty("label", counter.label());
            json.addProperty("type_id", counter.typeId());
            json.addProperty("key", Request.hex(counter.key()));
            json.addProperty("value", counter.getVolatile());
            counters.add(json);
        });
        answer.add("counters", counters);
    }

    private void close(Request request, JsonObject answer) {
        if (request.has("publisher")) {
            publishers.remove(known(publishers, request, "publisher")).close();
        } else if (request.has("worker")) {
            jobs.close(request);
        } else if (request.has("server")) {
            servers.close(request);
        } else if (request.has("client")) {
            clients.close(request);
        } else if (request.has("mesh")) {
            meshes.remove(known(meshes, request, "mesh")).close();
        } else if (request.has("subscriber")) {
            if (isLossy(request)) {
                lossySubscribers.remove(request.text("subscriber")).close();
            } else {
                subscribers.remove(known(subscribers, request, "subscriber")).close();
            }
        } else {
            channels.remove(known(channels, request, "channel")).close();
        }
    }

    private void mesh(Request request, JsonObject answer) {
        Mesh made = new Mesh(channel(request), request.text("name"), Duration.ofNanos(request.number("every")));
        meshes.put(request.text("mesh"), made);
        answer.addProperty("ring", made.ring());
    }

    private void forget(Request request, JsonObject answer) {
        subscriber(request).forget(); // may throw: then the handle stays
        subscribers.remove(request.text("subscriber"));
    }
}
