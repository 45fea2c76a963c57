// SPDX-License-Identifier: Apache-2.0
package sbetool;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * sbe-tool behind a line protocol: one JSON object a line from standard input, one JSON object back. One process for a whole run.
 *
 * <pre>
 * {"do": "load", "path": "a.xml", "version": 1}      the schema (as of that version, if given): {"handle": 0, "schema": {...}}
 * {"do": "encode", "handle": 0, "message": "Quote", "values": {...}}     by the generated encoder: {"bytes": "..."}
 * {"do": "decode", "handle": 0, "bytes": "..."}      by the generated decoder: {"message", "values", "length"}
 * {"do": "print", "handle": 0, "bytes": "..."}       by the JSON printer: {"json"}
 * </pre>
 *
 * What sbe-tool or a codec throws is {"error": "..."}.
 */
public final class Server {
    private Server() {}

    public static void main(String[] arguments) throws IOException {
        Path folder = Path.of(arguments[0]); // for what is generated
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever sbe-tool prints is not an answer
        System.setProperty("sbe.validation.stop.on.error", "true");
        System.setProperty("sbe.xinclude.aware", "true");
        System.setProperty("sbe.keyword.append.token", "_");
        List<Codecs> loaded = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject answer;
            try {
                answer = answer(JsonParser.parseString(line).getAsJsonObject(), loaded, folder);
            } catch (Throwable thrown) {
                Throwable cause = thrown;
                while (cause instanceof InvocationTargetException && cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer = new JsonObject();
                answer.addProperty("error", cause.toString());
            }
            out.println(answer);
        }
    }

    private static JsonObject answer(JsonObject request, List<Codecs> loaded, Path folder) throws Exception {
        JsonObject answer = new JsonObject();
        String verb = request.get("do").getAsString();
        if (verb.equals("load")) {
            int handle = loaded.size();
            Path generated = Files.createDirectories(folder.resolve(Integer.toString(handle)));
            String version = request.has("version") ? request.get("version").getAsString() : null;
            Codecs codecs = new Codecs(request.get("path").getAsString(), version, generated);
            loaded.add(codecs);
            answer.addProperty("handle", handle);
            answer.add("schema", new Describe(codecs.ir).schema());
            if (codecs.notGenerated != null) {
                answer.addProperty("not_generated", codecs.notGenerated);
            }
            return answer;
        }
        Codecs codecs = loaded.get(request.get("handle").getAsInt());
        if (verb.equals("encode")) {
            byte[] bytes = new Encode(codecs).message(request.get("message").getAsString(), request.getAsJsonObject("values"));
            answer.addProperty("bytes", Hex.of(bytes));
        } else if (verb.equals("decode")) {
            new Decode(codecs).message(Hex.bytes(request.get("bytes").getAsString()), answer);
        } else if (verb.equals("print")) {
            answer.addProperty("json", new Decode(codecs).json(Hex.bytes(request.get("bytes").getAsString())));
        } else {
            throw new IllegalArgumentException("no such verb: " + verb);
        }
        return answer;
    }
}
