// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.HexFormat;
import java.util.function.Consumer;

/** Typed access to the fields of a request; a field that is missing or of another type is a bad request. */
record Request(JsonObject json) {
    static final double NANOS = 1e9;

    /** Thrown for a request that the peer does not understand. */
    static final class Bad extends RuntimeException {
        private static final long serialVersionUID = 1L;

        /** "bad-request", or the code that another binding raises where Java's types exclude the error. */
        private final String code;

        Bad(String message) {
            this("bad-request", message);
        }

        Bad(String code, String message) {
            super(message);
            this.code = code;
        }

        String code() {
            return code;
        }
    }

    boolean has(String name) {
        return json.has(name) && !json.get(name).isJsonNull();
    }

    /** Whether a field is present and null. */
    boolean isNull(String name) {
        return json.has(name) && json.get(name).isJsonNull();
    }

    private JsonElement get(String name) {
        if (!has(name)) {
            throw new Bad("The field " + name + " is missing.");
        }
        return json.get(name);
    }

    String text(String name) {
        return get(name).getAsString();
    }

    String text(String name, String absent) {
        return has(name) ? text(name) : absent;
    }

    long number(String name) {
        return get(name).getAsLong();
    }

    long number(String name, long absent) {
        return has(name) ? number(name) : absent;
    }

    int integer(String name, int absent) {
        return Math.toIntExact(number(name, absent));
    }

    int integer(String name) {
        return Math.toIntExact(number(name));
    }

    /** The message in which the peer dies; a number that never comes if the request has none. */
    long dieAt() {
        if (has("die_at")) {
            Sigkill.prepare();
        }
        return number("die_at", -1);
    }

    double seconds() {
        return has("seconds") ? get("seconds").getAsDouble() : 60;
    }

    /** Whether the request asks for a verb with a time-out. */
    boolean waits() {
        return json.has("timeout");
    }

    /** The request's time-out in ns; null in JSON is no limit. */
    long timeout() {
        return has("timeout") ? (long) (get("timeout").getAsDouble() * NANOS) : Long.MAX_VALUE;
    }

    /** Whether the stream waits with verbs that sleep. */
    boolean blocks() {
        String how = text("wait", "backoff");
        if (!how.equals("backoff") && !how.equals("block")) {
            throw new Bad("wait is backoff or block.");
        }
        return how.equals("block");
    }

    /** Passes the request's spin time on, if it has one. */
    void spin(Consumer<Duration> set) {
        if (has("spin")) {
            set.accept(Duration.ofNanos(number("spin")));
        }
    }

    boolean flag(String name) {
        return flag(name, false);
    }

    boolean flag(String name, boolean absent) {
        return has(name) ? get(name).getAsBoolean() : absent;
    }

    byte[] bytes(String name) {
        return hex(get(name));
    }

    static byte[] hex(JsonElement element) {
        return HexFormat.of().parseHex(element.getAsString());
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    Request object(String name) {
        return new Request(get(name).getAsJsonObject());
    }

    Iterable<JsonElement> list(String name) {
        return get(name).getAsJsonArray();
    }
}
