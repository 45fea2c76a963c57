// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Reading schemas completely and safely, storing them, and requiring them at open (messages.md 2). */
class SchemaTest {
    private static final String NAMESPACE = "xmlns:sbe=\"http://fixprotocol.io/2016/sbe\"";
    private static final String XI = "xmlns:xi=\"http://www.w3.org/2001/XInclude\"";

    @RegisterExtension
    final Rings rings = new Rings();

    private static String schema(String attributes) {
        return "<sbe:messageSchema " + NAMESPACE + " package=\"p\" " + attributes + "/>";
    }

    private static String including(String file) {
        return schema("id=\"1\"").replace("/>",
            ' ' + XI + "><xi:include href=\"" + file + "\"/></sbe:messageSchema>");
    }

    private static Schema stream(String text) {
        return Schema.of(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
    }

    private Path write(String name, String text) throws IOException {
        return Files.writeString(rings.folder().resolve(name), text);
    }

    private static String refused(Runnable action) {
        InvalidArgumentException error = assertThrows(InvalidArgumentException.class, action::run);
        assertEquals("schema", error.argument(), error.getMessage());
        return error.getMessage();
    }

    @Test
    void textIdAndVersionAreThoseOfTheFile() throws IOException {
        Path file = Rings.spec("sbe/prices.xml");
        Schema schema = Schema.load(file);
        assertEquals(Files.readString(file), schema.text());
        assertEquals(7, schema.id());
        assertEquals(1, schema.version());
        assertEquals("Schema{id=7, version=1}", schema.toString());
        Schema parsed = Schema.parse(schema.text());
        assertEquals(schema.text(), parsed.text());
        assertEquals(7, parsed.id());
        assertEquals(schema.text(), stream("\uFEFF" + schema.text()).text(), "a byte order mark is no text");
        assertEquals(0, Schema.parse(schema("id=\"65535\"")).version(), "a schema without a version has 0");
    }

    @Test
    void whatIsIncludedBecomesPartOfTheText() throws IOException {
        Schema schema = Schema.load(Path.of("src/test/sbe/wide-big.xml"));
        assertEquals(101, schema.id());
        assertTrue(schema.text().contains("name=\"Outer\"") && schema.text().contains("name=\"blob\""));
        assertFalse(schema.text().contains("include"), schema.text());
        assertFalse(schema.text().contains("base="), "no place of ours");
        assertEquals(schema.text(), Schema.parse(schema.text()).text());
        String text = including("gone.xml");
        assertTrue(refused(() -> Schema.parse(text)).contains("loaded from a file"));
        assertTrue(refused(() -> stream(text)).contains("loaded from a file"));
        Path file = write("a.xml", text);
        assertTrue(refused(() -> Schema.load(file)).contains("gone.xml"));
        Path network = write("b.xml", text.replace("gone.xml", "http://127.0.0.1:9/types.xml"));
        assertTrue(refused(() -> Schema.load(network)).contains("which is no file"));
    }

    @Test
    void otherEncodingsBecomeUtf8() throws IOException {
        for (String encoding : new String[] {"ISO-8859-1", "UTF-16", "UTF-16LE"}) {
            String text = "<?xml version=\"1.0\" encoding=\"" + encoding + "\"?>\n"
                + schema("id=\"3\" description=\"\u00e9t\u00e9\"");
            Path file = rings.folder().resolve(encoding);
            Files.write(file, text.getBytes(Charset.forName(encoding)));
            for (Schema schema : new Schema[] {Schema.load(file), Schema.parse(text)}) {
                assertTrue(schema.text().contains("\u00e9t\u00e9"), schema.text());
                assertTrue(schema.text().contains("encoding=\"UTF-8\""), schema.text());
                assertEquals(3, stream(schema.text()).id());
            }
        }
    }

    @Test
    void aDocumentTypeThatDefinesNothingIsHarmless() throws IOException {
        String type = "<!DOCTYPE xml>";
        String text = "<?xml version=\"1.0\"?><!-- as B3 has it -->" + type + schema("id=\"1\"");
        assertEquals(text, Schema.parse(text).text());
        assertEquals(text, Schema.load(write("a.xml", text)).text());
        write("types.xml", type + "<types/>");
        Schema both = Schema.load(write("b.xml", type + including("types.xml")));
        assertTrue(both.text().contains("types") && !both.text().contains("DOCTYPE"), both.text());
        assertTrue(refused(() -> Schema.parse(type + schema("id=\"&a;\""))).contains("\"a\" was referenced"));
    }

    @Test
    void noDocumentTypeIsRead() throws IOException {
        Path secret = write("secret", "secret");
        Path dtd = write("other.dtd", "<!ENTITY e \"9\">");
        String id = schema("id=\"1\"");
        String entity = schema("id=\"&e;\"");
        for (String type : new String[] {"SYSTEM \"" + secret.toUri() + "\">" + id, "SYSTEM \"none\">" + id,
            "SYSTEM \"" + dtd.toUri() + "\">" + entity, "PUBLIC \"p\" \"http://127.0.0.1:9/other.dtd\">" + id,
            "[<!ENTITY e SYSTEM \"" + secret.toUri() + "\">]>" + id, "[<!ENTITY e \"9\">]>" + entity,
            "[<!ELEMENT a ANY>]>" + id, "[<!ENTITY % p SYSTEM \"" + dtd.toUri() + "\"> %p;]>" + id}) {
            assertTrue(refused(() -> Schema.parse("<!DOCTYPE a " + type)).contains("DOCTYPE"), type);
        }
        for (String entityOf : new String[] {"[<!ENTITY e SYSTEM \"" + secret.toUri() + "\">]", "[<!ENTITY e \"x\">]",
            "SYSTEM \"" + dtd.toUri() + "\""}) {
            Path types = write("types.xml", "<!DOCTYPE types " + entityOf + "><types>&e;</types>");
            Path file = write("c.xml", including(types.getFileName().toString()));
            assertTrue(refused(() -> Schema.load(file)).contains("DOCTYPE"), entityOf);
            write("between.xml", including(types.getFileName().toString()));
            Path outer = write("d.xml", including("between.xml"));
            assertTrue(refused(() -> Schema.load(outer)).contains("DOCTYPE"), entityOf);
        }
    }

    @Test
    void whatIsNoSchemaIsRefusedWithTheReason() {
        assertTrue(refused(() -> Schema.parse("<a>\n<b></a>")).contains("line 2"));
        assertTrue(refused(() -> Schema.parse("")).contains("no SBE schema"));
        assertTrue(refused(() -> Schema.parse("<types/>")).contains("its root is <types>"));
        assertTrue(refused(() -> Schema.parse(schema(""))).contains("no id"));
        for (String bad : new String[] {"x", "-1", "65536", "1.5", "99999999999"}) {
            assertTrue(refused(() -> Schema.parse(schema("id=\"" + bad + "\""))).contains("\"" + bad + "\""), bad);
            assertTrue(refused(() -> Schema.parse(schema("id=\"1\" version=\"" + bad + "\""))).contains("version"));
        }
        assertTrue(assertThrows(InvalidArgumentException.class,
            () -> Schema.of(getClass().getResourceAsStream("/none"))).getMessage().contains("no resource"));
        IoException error = assertThrows(IoException.class, () -> Schema.load(rings.folder().resolve("none.xml")));
        assertTrue(error.getMessage().contains("none.xml") && error.getMessage().contains("no such file"));
    }

    @Test
    void aChannelHoldsItAndCanBeRequiredToHaveIt() {
        Schema schema = Schema.load(Rings.spec("sbe/prices.xml"));
        Schema other = Schema.parse(schema("id=\"8\" version=\"1\""));
        Schema newer = Schema.parse(schema("id=\"7\" version=\"9\""));
        ChannelOptions options = ChannelOptions.broadcast().schema(schema);
        String with = rings.path("with.ring");
        String without = rings.path("without.ring");
        Channel.create(without, ChannelOptions.broadcast()).close();
        try (Channel channel = Channel.create(with, options)) {
            assertEquals(schema.text(), channel.schema());
            assertEquals(7, channel.schemaId());
            assertEquals(1, channel.schemaVersion());
            assertEquals(7, Schema.parse(channel.schema()).id());
        }
        Channel.open(with, new OpenOptions()).close();
        Channel.open(without, new OpenOptions()).close();
        for (Schema good : new Schema[] {schema, newer}) {
            for (int version = 0; version < 2; version++) {
                Channel.open(with, new OpenOptions().schema(good).minSchemaVersion(version)).close();
            }
        }
        try (Channel channel = Channel.open(with, new OpenOptions().schema(schema).readOnly(true))) {
            assertTrue(channel.readOnly());
        }
        differs("schema", "7", "none", without, new OpenOptions().schema(schema));
        differs("schema_id", "8", "7", with, new OpenOptions().schema(other));
        differs("schema_version", "2", "1", with, new OpenOptions().schema(schema).minSchemaVersion(2));
        differs("schema_version", "1", "0", without, new OpenOptions().minSchemaVersion(1));
        Channel.openOrCreate(with, options).close();
        ChannelDiffersException error = assertThrows(ChannelDiffersException.class,
            () -> Channel.openOrCreate(with, ChannelOptions.broadcast().schema(newer)));
        assertEquals("schema_version", error.field(), "open-or-create compares exactly");
        for (int bad : new int[] {-1, 65536}) {
            assertEquals("min_schema_version", assertThrows(InvalidArgumentException.class,
                () -> new OpenOptions().minSchemaVersion(bad)).argument());
        }
    }

    private static void differs(String field, String expected, String actual, String path, OpenOptions options) {
        ChannelDiffersException error = assertThrows(ChannelDiffersException.class, () -> Channel.open(path, options));
        assertEquals("differs", error.code());
        assertEquals(field, error.field());
        assertEquals(expected, error.expected());
        assertEquals(actual, error.actual());
        assertTrue(error.getMessage().contains(path), error.getMessage());
    }
}
