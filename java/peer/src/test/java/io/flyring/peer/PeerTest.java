// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.flyring.Channel;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PeerTest {
    private static final String STREAM = "'seed':3,'min':8,'max':100,'numbered':true";

    private Path folder;
    private Process peer;
    private PrintStream requests;
    private BufferedReader answers;

    @BeforeEach
    void makeFolder() throws Exception {
        folder = Files.createTempDirectory(Path.of("/dev/shm"), "flyring-java-peer-");
    }

    @AfterEach
    void removeFolder() throws Exception {
        if (peer != null) {
            peer.destroyForcibly().waitFor();
        }
        try (java.util.stream.Stream<Path> files = Files.list(folder)) {
            files.forEach(file -> file.toFile().delete());
        }
        Files.delete(folder);
    }

    private void start() throws Exception {
        ProcessBuilder builder = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-cp",
            System.getProperty("java.class.path"), Peer.class.getName());
        builder.environment().put("FLYRING_DIR", folder.toString());
        peer = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        requests = new PrintStream(peer.getOutputStream(), true, StandardCharsets.UTF_8);
        answers = new BufferedReader(new InputStreamReader(peer.getInputStream(), StandardCharsets.UTF_8));
    }

    /** Sends a request, with ' instead of ", and returns the answer. */
    private String ask(String request) throws Exception {
        requests.println(request.replace('\'', '"'));
        return answers.readLine();
    }

    private JsonObject ok(String request) throws Exception {
        String answer = ask(request);
        JsonObject json = JsonParser.parseString(answer).getAsJsonObject();
        assertTrue(json.get("ok").getAsBoolean(), request + " -> " + answer);
        return json;
    }

    private String error(String request) throws Exception {
        return JsonParser.parseString(ask(request)).getAsJsonObject().get("error").getAsString();
    }

    private void diesOf(String request) throws Exception {
        assertNull(ask(request));
        assertEquals(128 + 9, peer.waitFor(), "SIGKILL");
    }

    private Channel open() {
        return Channel.open(folder.resolve("c.ring").toString());
    }

    @Test
    void theStreamIsTheOneOfTheDescription() throws Exception {
        Path file = Path.of(System.getProperty("flyring.interop"), "stream.json");
        int seen = 0;
        for (JsonElement element : JsonParser.parseString(Files.readString(file)).getAsJsonArray()) {
            Request stream = new Request(element.getAsJsonObject());
            Stream ours = new Stream(stream.number("seed"), stream.number("min"), stream.number("max"),
                stream.integer("type", 0), false);
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
    void theMessagesOfANumberedStreamBeginWithTheirNumber() {
        Stream plain = new Stream(3, 8, 100, 0, false);
        Stream numbered = new Stream(3, 8, 100, 0, true);
        for (long i = 0; i < 100; i++) {
            PayloadBuffer expected = new PayloadBuffer();
            PayloadBuffer actual = new PayloadBuffer();
            plain.at(i);
            numbered.at(i);
            assertEquals(plain.length() + " " + plain.type(), numbered.length() + " " + numbered.type());
            expected.wrap(new byte[plain.length()]);
            actual.wrap(new byte[plain.length()]);
            plain.write(expected, 0);
            expected.putLong(0, i);
            numbered.write(actual, 0);
            assertEquals(HexFormat.of().formatHex(expected.byteArray()),
                HexFormat.of().formatHex(actual.byteArray()));
            numbered.at(i);
            assertNull(numbered.check(actual, actual.capacity(), numbered.type()));
            numbered.at(i + 1);
            assertNotNull(numbered.check(actual, numbered.length(), numbered.type()));
        }
        assertThrows(Request.Bad.class, () -> new Stream(3, 7, 100, 0, true));
    }

    @ParameterizedTest
    @ValueSource(strings = {"offer", "claim", "batch", "mix"})
    void aPublisherDiesInAClaimWithHalfOfItsPayload(String how) throws Exception {
        start();
        ok("{'op':'create','channel':'c','name':'c','kind':'inbox','capacity':65536,'counters':0}");
        ok("{'op':'publisher','channel':'c','publisher':'p'}");
        diesOf("{'op':'publish_stream','publisher':'p','first':5,'count':1000,'die_at':123,'type':9," + STREAM
            + ",'how':'" + how + "'}");
        Stream stream = new Stream(3, 8, 100, 9, true);
        PayloadBuffer last = new PayloadBuffer();
        stream.at(123);
        last.wrap(new byte[stream.length()]);
        stream.write(last, 0);
        String file = HexFormat.of().formatHex(Files.readAllBytes(folder.resolve("c.ring")));
        String payload = HexFormat.of().formatHex(last.byteArray());
        String half = payload.substring(0, stream.length() / 2 * 2);
        assertEquals(-1, file.indexOf(payload), "not all of it");
        int at = file.indexOf("00000000" + "09000000" + half);
        assertTrue(at > 0, "half of it, and no length");
        assertEquals(-1, file.indexOf(half, at + 1000));
        try (Channel channel = open(); Subscriber subscriber = channel.subscriber()) {
            channel.publisher().close(); // recovers the ring
            for (long i = 5; i < 123; i++) {
                assertEquals(i, subscriber.take().buffer().getLong(0));
            }
            assertNull(subscriber.take());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"poll", "take", "mix"})
    void aSubscriberDiesWhileItLooksAtAMessage(String how) throws Exception {
        start();
        ok("{'op':'create','channel':'c','name':'c','kind':'inbox','capacity':65536,'counters':0}");
        ok("{'op':'publisher','channel':'c','publisher':'p'}");
        ok("{'op':'publish_stream','publisher':'p','count':300," + STREAM + "}");
        ok("{'op':'subscriber','channel':'c','subscriber':'s','name':'j'}");
        diesOf("{'op':'verify_stream','subscriber':'s','how':'" + how + "','die_at':150,'streams':[{'ring':0,"
            + "'first':0,'count':300," + STREAM + "}]}");
        try (Channel channel = open(); Subscriber heir = channel.subscriber("j", true)) {
            long first = heir.take().buffer().getLong(0);
            assertTrue(how.equals("poll") ? first <= 150 : first == 150 || how.equals("mix") && first < 150,
                "the heir begins with " + first);
        }
        start();
        ok("{'op':'open','channel':'c','name':'c'}");
        ok("{'op':'subscriber','channel':'c','subscriber':'s','name':'j'}");
        JsonObject rest = ok("{'op':'verify_stream','subscriber':'s','streams':[{'ring':0,'first':null,'count':300,"
            + STREAM + "}]}");
        JsonObject ring = rest.getAsJsonObject("rings").getAsJsonObject("0");
        assertEquals(300, ring.get("next").getAsLong());
        assertEquals(300 - ring.get("first").getAsLong(), ring.get("seen").getAsLong());
        assertEquals(rest.get("count"), ring.get("seen"));
        diesOf("{'op':'die'}");
    }

    @Test
    void whatALossySubscriberMissesMustBeWhatItCounts() throws Exception {
        start();
        ok("{'op':'create','channel':'c','name':'c','kind':'broadcast','capacity':4096,'publishers':1,"
            + "'subscribers':0,'counters':0}");
        ok("{'op':'publisher','channel':'c','publisher':'p'}");
        ok("{'op':'lossy_subscriber','channel':'c','subscriber':'l','when_lapped':'newest'}");
        String verify = "{'op':'verify_stream','subscriber':'l','how':'mix','seconds':1,'streams':[{'ring':0,"
            + "'first':FIRST,'count':COUNT," + STREAM + "}]}";
        ok("{'op':'publish_stream','publisher':'p','count':500," + STREAM + "}");
        assertEquals("{\"0\":{\"first\":null,\"next\":500,\"seen\":0,\"lost\":500}}", // jumps to the end
            ok(verify.replace("FIRST", "0").replace("COUNT", "500")).get("rings").toString());
        ok("{'op':'publish_stream','publisher':'p','first':500,'count':10," + STREAM + "}");
        assertEquals("{\"0\":{\"first\":500,\"next\":510,\"seen\":10,\"lost\":0}}",
            ok(verify.replace("FIRST", "null").replace("COUNT", "510")).get("rings").toString());
        ok("{'op':'lossy_subscriber','channel':'c','subscriber':'u','when_lapped':'newest'}");
        // Messages that were never published, and so not lost.
        ok("{'op':'publish_stream','publisher':'p','first':513,'count':10," + STREAM + "}");
        String answer = ask(verify.replace("FIRST", "510").replace("COUNT", "13"));
        assertTrue(answer.contains("\"error\":\"mismatch\"") && answer.contains("\"sequence\":510"), answer);
        // A loss of messages outside the stream: more are lost than the stream has.
        ok("{'op':'publish_stream','publisher':'p','first':0,'count':500," + STREAM + "}");
        String unnumbered = "{'op':'verify_stream','subscriber':'u','seconds':1,'streams':[{'ring':0,'seed':1,'min':0,"
            + "'max':9,'count':5}]}";
        answer = ask(unnumbered);
        assertTrue(answer.contains("'sequence':0,'what':'510 messages of a stream without".replace('\'', '"')), answer);
        answer = ask(verify.replace("FIRST", "523").replace("COUNT", "10"));
        assertTrue(answer.contains(" messages were lost, more than there were"), answer);
    }

    @Test
    void aPeerAnswersEachLine() throws Exception {
        start();
        String verify = "{'op':'verify_stream','subscriber':'s','how':'mix','streams':"
            + "[{'ring':0,'seed':3,'count':2000,'min':0,'max':200}]}";
        String publish = "{'op':'publish_stream','publisher':'p','seed':3,'count':2000,'min':0,'max':200,"
            + "'how':'mix'}";
        String foreign = "'name':'f','kind':'inbox','publishers':1,'subscribers':1,'alignment':8,'foreign':";
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
            {"{'op':'info','channel':'c'}", "\"foreign\":null"},
            {"{'op':'create','channel':'f'," + foreign + "'publisher'}", "\"foreign\":\"publisher\""},
            {"{'op':'subscriber','channel':'f','subscriber':'f'}", "\"ok\":true"},
            {"{'op':'forget','subscriber':'f'}", "\"argument\":\"foreign\""},
            {"{'op':'take','subscriber':'f'}", "\"message\":null"},
            {"{'op':'open_or_create','channel':'g'," + foreign + "'subscriber'}", "\"field\":\"foreign\""},
            {"{'op':'create','channel':'g','name':'g','kind':'inbox','foreign':'both'}",
                "\"error\":\"invalid-argument\""},
            {"{'op':'unlink','name':'f'}", "\"ok\":true"},
            {"{'op':'dance'}", "\"error\":\"bad-request\""},
            {"{'op':'offer'}", "\"error\":\"bad-request\""},
            {"nonsense", "\"error\":\"bad-request\""},
            {"{'op':'unlink','name':'c'}", "\"ok\":true"},
            {"{'op':'quit'}", "\"ok\":true"}};
        for (String[] line : talk) {
            String answer = ask(line[0]);
            assertTrue(answer.contains(line[1]), line[0] + " -> " + answer);
            JsonObject json = JsonParser.parseString(answer).getAsJsonObject();
            assertEquals(line[0].contains("'id':5"), json.has("id"));
        }
        assertEquals(0, peer.waitFor());
        assertEquals(0, folder.toFile().list().length);
    }

    @Test
    void verbsWaitAsLongAsTheyAreTold() throws Exception {
        start();
        String create = "{'op':'create','channel':'c','name':'c','kind':'broadcast','capacity':4096,'publishers':1,"
            + "'subscribers':1,'counters':0}";
        String publish = "{'op':'publish_stream','publisher':'p','seconds':0.02,'wait':'block','spin':0," + STREAM;
        String[][] talk = {
            {"{'op':'open','channel':'c','name':'c','timeout':0.01}", "\"error\":\"timed-out\""},
            {create, "\"ok\":true"},
            {"{'op':'open','channel':'d','name':'c','timeout':null,'wake':false}", "\"ok\":true"},
            {"{'op':'publisher','channel':'c','publisher':'p'}", "\"ok\":true"},
            {"{'op':'subscriber','channel':'d','subscriber':'s','timeout':0}", "\"slot\":0"},
            {"{'op':'subscriber','channel':'c','subscriber':'t','timeout':0.01}", "\"error\":\"no-free-slot\""},
            {"{'op':'lossy_subscriber','channel':'c','subscriber':'l'}", "\"ok\":true"},
            {"{'op':'take','subscriber':'s','timeout':0.01}", "\"message\":null"},
            {"{'op':'poll','subscriber':'l','timeout':0.01}", "\"messages\":[]"},
            {"{'op':'take','subscriber':'s','timeout':-1}", "\"argument\":\"timeout\""},
            {"{'op':'offer','publisher':'p','data':'0102','timeout':null}", "\"position\":"},
            {"{'op':'flush','publisher':'p','timeout':0.01}", "\"what_for\":\"subscriber slot 0\""},
            {"{'op':'take','subscriber':'s','timeout':null}", "\"data\":\"0102\""},
            {"{'op':'flush','publisher':'p'}", "\"ok\":true"}};
        answersContain(talk);
        String offer = "{'op':'offer','publisher':'p','data':''}";
        for (int i = 0; i < 100 && ok(offer).get("position").getAsLong() > 0; i++) {
            assertTrue(i < 99, "a ring of 4096 bytes has no room for so many");
        }
        answersContain(new String[][] {
            {publish + ",'count':9}", "\"error\":\"timeout\""},
            {publish + ",'count':9,'how':'mix'}", "\"error\":\"timeout\""},
            {"{'op':'offer','publisher':'p','data':'" + "00".repeat(900) + "','timeout':0.01}",
                "\"error\":\"back-pressured\"", "\"holder\":{\"slot\":0,"},
            {"{'op':'claim','publisher':'p','length':900,'timeout':0.01}", "\"error\":\"back-pressured\""},
            {"{'op':'offer_batch','publisher':'p','data':['" + "00".repeat(900) + "'],'timeout':0.01}",
                "\"taken\":0"},
            {publish.replace("block", "sleep") + ",'count':9}", "\"error\":\"bad-request\""},
            {"{'op':'quit'}", "\"ok\":true"}});
        assertEquals(0, peer.waitFor());
    }

    private void answersContain(String[][] talk) throws Exception {
        for (String[] line : talk) {
            String answer = ask(line[0]);
            for (int i = 1; i < line.length; i++) {
                assertTrue(answer.contains(line[i]), line[0] + " -> " + answer);
            }
        }
    }

    @Test
    void streamsAndOneMessageToAndFroSleepOnBothSides() throws Exception {
        start();
        ok("{'op':'create','channel':'c','name':'c','kind':'broadcast','capacity':4096,'publishers':2,"
            + "'subscribers':2,'counters':0}");
        ok("{'op':'publisher','channel':'c','publisher':'p'}");
        ok("{'op':'subscriber','channel':'c','subscriber':'s','rings':[1]}");
        final int count = 500;
        try (Channel channel = open(); Publisher publisher = channel.publisher();
            Subscriber subscriber = channel.subscriber("", false, 0)) {
            publisher.setSpin(Duration.ZERO);
            subscriber.setSpin(Duration.ZERO);
            requests.println("{'op':'ping_pong','publisher':'p','subscriber':'s','count':COUNT,'first':true}"
                .replace('\'', '"').replace("COUNT", "" + count));
            byte[] last = null;
            for (int i = 0; i < count; i++) {
                Message message = subscriber.take(Publisher.FOREVER);
                assertEquals(i, message.buffer().getLong(0));
                last = message.toByteArray();
                publisher.send(last);
            }
            JsonObject answer = JsonParser.parseString(answers.readLine()).getAsJsonObject();
            assertTrue(answer.get("ok").getAsBoolean(), answer.toString());
            assertEquals(List.of(count, 0), List.of(answer.get("count").getAsInt(), answer.get("late").getAsInt()));
            assertTrue(answer.get("longest").getAsLong() > 0);
            publisher.send(last);
            assertEquals("mismatch", error("{'op':'ping_pong','publisher':'p','subscriber':'s','count':1}"));
            assertEquals("timeout",
                error("{'op':'ping_pong','publisher':'p','subscriber':'s','count':1,'seconds':0.01}"));

            requests.println(("{'op':'publish_stream','publisher':'p','count':1000,'how':'mix','wait':'block','spin':0,"
                + STREAM + "}").replace('\'', '"'));
            int got = 0;
            while (got < 1000) {
                got += subscriber.poll(message -> { }, 7, Publisher.FOREVER);
            }
            assertEquals(1000, JsonParser.parseString(answers.readLine()).getAsJsonObject().get("count").getAsInt());
            for (String how : List.of("poll", "take", "mix")) {
                requests.println(("{'op':'verify_stream','subscriber':'s','how':'" + how + "','wait':'block','spin':0,"
                    + "'streams':[{'ring':1,'seed':3,'count':100,'min':0,'max':200}]}").replace('\'', '"'));
                Stream stream = new Stream(3, 0, 200, 0, false);
                for (long i = 0; i < 100; i++) {
                    stream.at(i);
                    PayloadBuffer buffer = new PayloadBuffer();
                    buffer.wrap(new byte[stream.length()]);
                    stream.write(buffer, 0);
                    publisher.send(buffer, 0, stream.length(), stream.type(), Publisher.FOREVER);
                }
                String verified = answers.readLine();
                assertTrue(verified.contains("\"verified\":true"), verified);
            }
            assertEquals("timeout", error("{'op':'verify_stream','subscriber':'s','wait':'block','seconds':0.01,"
                + "'streams':[{'ring':1,'seed':3,'count':100,'min':0,'max':200}]}"));
        }
        diesOf("{'op':'die'}");
    }

    @Test
    void whatNeedsAClaimIsRefusedWithoutOne() throws Exception {
        start();
        ok("{'op':'create','channel':'c','name':'c','kind':'broadcast','capacity':4096,'publishers':1,"
            + "'subscribers':0,'counters':0}");
        ok("{'op':'publisher','channel':'c','publisher':'p'}");
        for (String op : List.of("{'op':'abort','publisher':'p'}", "{'op':'commit','publisher':'p','data':''}")) {
            assertEquals("bad-request", error(op));
        }
        ok("{'op':'prefetch','publisher':'p'}");
        ok("{'op':'claim','publisher':'p','length':8}");
        ok("{'op':'abort','publisher':'p'}");
        assertEquals("closed", error("{'op':'abort','publisher':'p'}"));
        diesOf("{'op':'die'}");
    }
}
