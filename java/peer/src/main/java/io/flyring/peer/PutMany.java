// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.PayloadBuffer;
import java.util.concurrent.locks.LockSupport;

/** Runs one put_many operation. */
final class PutMany {
    private final Changer changer;
    private final Stream stream;
    private final Object[] keys;
    private final long first;
    private final long most;
    private final long every;
    private final long pause;
    private final long last;
    private final long begin = System.nanoTime();
    private final long time;
    private final PayloadBuffer value;

    PutMany(Changer changer, Request request) {
        this.changer = changer;
        this.stream = new Stream(request.number("seed"), request.number("min"), request.number("max"), 0, true);
        this.keys = keys(changer, request);
        this.first = request.number("first", 0);
        this.most = request.number("count", Long.MAX_VALUE - first);
        this.every = request.number("remove", 0);
        this.pause = request.number("pause", 0);
        this.last = request.dieAt();
        this.time = (long) (request.seconds() * Request.NANOS);
        this.value = Changer.buffer(new byte[request.integer("max")]);
    }

    static Object[] keys(Changer changer, Request request) {
        Object[] keys = new Object[request.integer("keys")];
        for (int k = 0; k < keys.length; k++) {
            keys[k] = Changer.key(changer.table, k);
        }
        return keys;
    }

    static Request.Bad mismatch(JsonObject answer, long key, String what) {
        answer.addProperty("key", key);
        answer.addProperty("what", what);
        return new Request.Bad("mismatch", "key " + key + ": " + what);
    }

    void run(JsonObject answer) {
        long count = 0;
        long removed = 0;
        long version = 0;
        while (count < most && System.nanoTime() - begin < time) {
            long i = first + count;
            int k = (int) (i % keys.length);
            stream.at(i);
            stream.write(value, 0);
            if (i == last) {
                changer.putIfAbsent(keys[k], value, stream.length());
                changer.update(keys[k], copy -> Sigkill.now());
            }
            long put = changer.put(keys[k], value, stream.length());
            if (put <= version) {
                throw mismatch(answer, k, "version " + put + " behind " + version);
            }
            version = put;
            if (every > 0 && i % every == every - 1) {
                removed += changer.remove(keys[(int) ((i + keys.length / 2) % keys.length)]) ? 1 : 0;
            }
            if (pause > 0) {
                LockSupport.parkNanos(pause);
            }
            count++;
        }
        answer.addProperty("count", count);
        answer.addProperty("removed", removed);
        answer.addProperty("version", version);
        answer.addProperty("seconds", (System.nanoTime() - begin) / Request.NANOS);
    }
}
