// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.flyring.PayloadBuffer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

class PeerTest {
    @Test
    void theStreamIsTheOneOfTheDescription() throws Exception {
        Path file = Path.of(System.getProperty("flyring.interop"), "stream.json");
        int seen = 0;
        for (JsonElement element : JsonParser.parseString(Files.readString(file)).getAsJsonArray()) {
            Request stream = new Request(element.getAsJsonObject());
            Stream ours = new Stream(stream.number("seed"), stream.number("min"), stream.number("max"),
                stream.integer("type", 0));
            for (JsonElement each : stream.list("messages")) {
                Request message = new Request(each.getAsJsonObject());
                ours.at(message.number("sequence"));
                assertEquals(message.integer("length"), ours.length(), message.toString());
                assertEquals(message.integer("type"), ours.type(), message.toString());
                PayloadBuffer buffer = new PayloadBuffer();
                buffer.wrap(new byte[ours.length()]);
                ours.write(buffer, 0);
                assertEquals(message.text("data"), HexFormat.of().formatHex(buffer.byteArray()), message.toString());
                ours.at(message.number("sequence"));
                assertNull(ours.check(buffer, ours.length(), ours.type()));
                ours.at(message.number("sequence") + 1);
                assertNotEquals(null, ours.check(buffer, buffer.capacity(), message.integer("type")));
                seen++;
            }
        }
        assertTrue(seen > 20, "messages compared: " + seen);
    }

    @Test
    void aPeerAnswersEachLine() throws Exception {
        Path folder = Files.createTempDirectory(Path.of("/dev/shm"), "flyring-java-peer-");
        ProcessBuilder builder = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-cp",
            System.getProperty("java.class.path"), Peer.class.getName());
        builder.environment().put("FLYRING_DIR", folder.toString());
        Process peer = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (PrintStream requests = new PrintStream(peer.getOutputStream(), true, StandardCharsets.UTF_8);
            BufferedReader answers = new BufferedReader(
                new InputStreamReader(peer.getInputStream(), StandardCharsets.UTF_8))) {
            String verify = "{'op':'verify_stream','subscriber':'s','how':'mix','streams':"
                + "[{'ring':0,'seed':3,'count':2000,'min':0,'max':200}]}";
            String publish = "{'op':'publish_stream','publisher':'p','seed':3,'count':2000,'min':0,'max':200,"
                + "'how':'mix'}";
            String[][] talk = {
                {"{'op':'hello','id':5}", "\"language\":\"java\""},
                {"{'op':'open','channel':'c','name':'c'}", "\"error\":\"no-such-channel\""},
                {"{'op':'create','channel':'c','name':'c','kind':'inbox'}", "\"capacity\":1048576"},
                {"{'op':'create','channel':'c','name':'c','kind':'inbox'}", "\"error\":\"exists\""},
                {"{'op':'publisher','channel':'c','publisher':'p'}", "\"position\":0"},
                {publish, "\"count\":2000"},
                {"{'op':'subscriber','channel':'c','subscriber':'s'}", "\"positions\":{\"0\":0,"},
                {"{'op':'open','channel':'r','name':'c','read_only':true}", "\"kind\":\"inbox\""},
                {"{'op':'publisher','channel':'r','publisher':'q'}", "\"error\":\"access-denied\""},
                {"{'op':'lossy_subscriber','channel':'r','subscriber':'l','start':'oldest','rings':[0]}",
                    "\"rings\":[0],\"positions\":{\"0\":0}"},
                {"{'op':'lossy_subscriber','channel':'r','subscriber':'n'}", "\"rings\":[0,1,2,3]"},
                {verify, "\"verified\":true"},
                {verify.replace("'s'", "'l'"), "\"verified\":true"},
                {"{'op':'offer','publisher':'p','data':'0102','type':9}", "\"ok\":true"},
                {"{'op':'take','subscriber':'s'}", "\"data\":\"0102\",\"type\":9"},
                {"{'op':'peek','subscriber':'n'}", "\"sender\":{\"name\":\"\",\"epoch\":1}"},
                {"{'op':'valid','subscriber':'n'}", "\"valid\":true"},
                {"{'op':'valid','subscriber':'n'}", "\"error\":\"invalid-argument\""},
                {"{'op':'poll','subscriber':'l'}", "\"data\":\"0102\""},
                {"{'op':'lost','subscriber':'l','ring':0}", "\"messages\":0,\"bytes\":0"},
                {"{'op':'ended','subscriber':'l','ring':0}", "\"ended\":false"},
                {"{'op':'publisher','channel':'c','publisher':'q','max_lag':5}", "\"argument\":\"max_lag\""},
                {"{'op':'close','publisher':'p'}", "\"ok\":true"},
                {"{'op':'ended','subscriber':'l','ring':0}", "\"ended\":true"},
                {"{'op':'ended','subscriber':'s','ring':0}", "\"ended\":true"},
                {"{'op':'publisher','channel':'c','publisher':'p','max_lag':1048576}", "\"ok\":true"},
                {"{'op':'evict','channel':'c','slot':0}", "\"ok\":true"},
                {"{'op':'evict','channel':'c','slot':9}", "\"argument\":\"slot\""},
                {"{'op':'take','subscriber':'s'}", "\"error\":\"slot-lost\""},
                {"{'op':'positions','subscriber':'l'}", "\"positions\":{\"0\":"},
                {"{'op':'close','subscriber':'l'}", "\"ok\":true"},
                {"{'op':'replace','channel':'c2','name':'c','kind':'inbox'}", "\"ok\":true"},
                {"{'op':'verify_stream','subscriber':'n','streams':[{'ring':0,'seed':1,'count':1,'min':0,'max':1}]}",
                    "\"error\":\"replaced\",\"message\""},
                {"{'op':'offer','publisher':'p','data':'01','type':0}", "\"argument\":\"type\""},
                {"{'op':'dance'}", "\"error\":\"bad-request\""},
                {"{'op':'offer'}", "\"error\":\"bad-request\""},
                {"nonsense", "\"error\":\"bad-request\""},
                {"{'op':'unlink','name':'c'}", "\"ok\":true"},
                {"{'op':'quit'}", "\"ok\":true"}};
            for (String[] line : talk) {
                requests.println(line[0].replace('\'', '"'));
                String answer = answers.readLine();
                assertTrue(answer.contains(line[1]), line[0] + " -> " + answer);
                JsonObject json = JsonParser.parseString(answer).getAsJsonObject();
                assertEquals(line[0].contains("'id':5"), json.has("id"));
            }
            assertEquals(0, peer.waitFor());
            assertEquals(0, folder.toFile().list().length);
        } finally {
            peer.destroyForcibly();
            Files.delete(folder);
        }
    }
}
