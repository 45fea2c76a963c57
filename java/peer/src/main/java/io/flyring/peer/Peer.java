// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.flyring.FlyringException;
import io.flyring.Holder;
import io.flyring.NoFreeSlotException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/** The test peer of interop-tests/PEER.md: one JSON request a line in, one JSON answer a line out. */
public final class Peer {
    private final Operations operations = new Operations();

    private Peer() {
    }

    /**
     * Serves standard input, or with {@code --socket PATH} a Unix socket, until its end or a quit.
     *
     * @param arguments none, or --socket and a path.
     * @throws IOException if input or output fails.
     */
    public static void main(String[] arguments) throws IOException {
        if (arguments.length == 2 && arguments[0].equals("--socket")) {
            try (SocketChannel socket = SocketChannel.open(UnixDomainSocketAddress.of(Path.of(arguments[1])))) {
                new Peer().serve(Channels.newInputStream(socket), Channels.newOutputStream(socket));
            }
        } else if (arguments.length == 0) {
            new Peer().serve(System.in, System.out);
        } else {
            System.err.println("usage: Peer [--socket PATH]");
            System.exit(2);
        }
    }

    private void serve(InputStream in, OutputStream out) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(out, true, StandardCharsets.UTF_8);
        try {
            boolean more = true;
            for (String line = lines.readLine(); more && line != null; line = more ? lines.readLine() : null) {
                JsonObject answer = new JsonObject();
                more = answer(line, answer);
                answers.print(answer + "\n");
                answers.flush();
            }
        } finally {
            operations.closeAll();
        }
    }

    /** Handles one request and fills in the answer; false after a quit. */
    private boolean answer(String line, JsonObject answer) {
        String op = "";
        try {
            JsonObject json = JsonParser.parseString(line).getAsJsonObject();
            JsonElement id = json.get("id");
            if (id != null) {
                answer.add("id", id);
            }
            Request request = new Request(json);
            op = request.text("op");
            answer.addProperty("ok", true);
            if (!op.equals("quit")) {
                operations.perform(op, request, answer);
            }
        } catch (Operations.Refused e) {
            answer.addProperty("ok", false);
        } catch (FlyringException e) {
            answer.addProperty("ok", false);
            answer.addProperty("error", e.code());
            answer.addProperty("message", e.getMessage());
            carried(e, answer);
        } catch (Request.Bad e) {
            answer.addProperty("ok", false);
            answer.addProperty("error", e.code());
            answer.addProperty("message", e.getMessage());
        } catch (ArithmeticException e) {
            // A number that does not fit into Java's type cannot be passed to the binding at all.
            answer.addProperty("ok", false);
            answer.addProperty("error", "invalid-argument");
            answer.addProperty("message", e.toString());
        } catch (JsonParseException | IllegalStateException | IllegalArgumentException
            | UnsupportedOperationException | IndexOutOfBoundsException e) {
            answer.addProperty("ok", false);
            answer.addProperty("error", "bad-request");
            answer.addProperty("message", e.toString());
        } catch (RuntimeException | Error e) {
            answer.addProperty("ok", false);
            answer.addProperty("error", "unexpected");
            answer.addProperty("message", e.toString());
        }
        return !op.equals("quit");
    }

    private static JsonArray owners(List<?> owners) {
        JsonArray json = new JsonArray();
        for (Object one : owners) {
            if (one instanceof NoFreeSlotException.Owner owner) {
                JsonObject fields = new JsonObject();
                fields.addProperty("slot", owner.slot());
                fields.addProperty("name", owner.name());
                fields.addProperty("pid", owner.pid());
                json.add(fields);
            }
        }
        return json;
    }

    /** Adds what the error carries besides its text: the values of its accessors. */
    static void carried(FlyringException error, JsonObject answer) {
        for (Method method : error.getClass().getDeclaredMethods()) {
            if (!Modifier.isPublic(method.getModifiers()) || method.getParameterCount() > 0) {
                continue;
            }
            String name = method.getName().replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT);
            try {
                Object value = method.invoke(error);
                if (value instanceof List<?> owners) {
                    answer.add(name, owners(owners));
                } else if (method.getReturnType() == Holder.class) {
                    answer.add(name, Operations.json((Holder) value));
                } else if (value instanceof Number number) {
                    answer.addProperty(name, number);
                } else if (value instanceof Boolean flag) {
                    answer.addProperty(name, flag);
                } else {
                    answer.addProperty(name, String.valueOf(value));
                }
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
