// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.RequestHandler;
import io.flyring.Server;
import java.util.Map;

/** Answers requests by their own bytes: serve_many of interop-tests/PEER.md. */
final class ServeMany {
    private static final int LIMIT = 256;

    private final Server server;
    private final Map<String, io.flyring.Request> kept;
    private final long end;
    private final long most;
    private final long dieAt;
    private final boolean silent;
    private long count;

    ServeMany(Server server, Request request, Map<String, io.flyring.Request> kept) {
        this.server = server;
        this.kept = kept;
        this.end = System.nanoTime() + (long) (request.seconds() * Request.NANOS);
        this.most = request.number("count", Long.MAX_VALUE);
        this.silent = request.flag("silent");
        this.dieAt = silent ? request.number("die_at", -1) : request.dieAt();
    }

    void run(JsonObject answer) {
        RequestHandler handler = this::handle;
        for (long left = end - System.nanoTime(); count < most && left > 0; left = end - System.nanoTime()) {
            server.poll(handler, (int) Math.min(most - count, LIMIT), left);
        }
        answer.addProperty("count", count);
    }

    private void handle(io.flyring.Request request) {
        final long number = count++;
        if (silent && dieAt >= 0 && number >= dieAt) {
            request.keep();
            kept.put("silent" + number, request);
            return;
        }
        if (number == dieAt) {
            Sigkill.now();
        }
        request.reply(request.buffer(), 0, request.length(), request.type());
    }
}
