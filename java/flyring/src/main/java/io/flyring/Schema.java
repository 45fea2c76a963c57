// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.w3c.dom.Element;

/**
 * An SBE schema: its text, id and version. It can be stored in a channel ({@link ChannelOptions#schema(Schema)}) or
 * required of a channel ({@link OpenOptions#schema(Schema)}). Id and version are read from the text; the rest of the
 * text is not validated. Immutable. Spec messages.md 2.
 */
public final class Schema {
    private static final int MOST = 0xffff;

    private final String text;
    private final int id;
    private final int version;

    private Schema(SchemaXml xml) {
        Element root = xml.root();
        if (!"messageSchema".equals(root.getLocalName())) {
            throw xml.wrong("its root is <" + root.getNodeName() + ">, not <messageSchema>");
        }
        this.text = xml.text();
        this.id = number(xml, "id", "");
        this.version = number(xml, "version", "0");
    }

    /**
     * Reads a schema from a file. Resolves each XInclude relative to the file.
     *
     * @param file the schema's XML.
     * @return the schema.
     * @throws IoException if the file cannot be read.
     * @throws InvalidArgumentException if it is not an SBE schema; the exception's text says where and why.
     */
    public static Schema load(Path file) {
        byte[] bytes;
        try {
            bytes = Files.readAllBytes(file);
        } catch (NoSuchFileException e) {
            throw ChannelFile.io("open", new IOException("there is no such file", e), file.toString());
        } catch (IOException e) {
            throw ChannelFile.io("read", e, file.toString());
        }
        return new Schema(new SchemaXml(file.toString(), bytes, file.toUri().toString()));
    }

    /**
     * Reads a schema from a stream, such as {@code Main.class.getResourceAsStream("prices.xml")}. An XInclude is not
     * allowed.
     *
     * @param stream the schema's XML; read to its end, not closed.
     * @return the schema.
     * @throws IoException if the stream cannot be read.
     * @throws InvalidArgumentException if the stream is not an SBE schema, or is null (as for a resource that does not
     *     exist).
     */
    public static Schema of(InputStream stream) {
        if (stream == null) {
            throw new InvalidArgumentException("stream", "There is no stream. If it is that of a resource: no resource"
                + " has that name.");
        }
        byte[] bytes;
        try {
            bytes = stream.readAllBytes();
        } catch (IOException e) {
            throw ChannelFile.io("read", e, "the schema's stream");
        }
        return new Schema(new SchemaXml("The schema", bytes, null));
    }

    /**
     * Reads a schema from its text. An XInclude is not allowed.
     *
     * @param text the schema's XML.
     * @return the schema.
     * @throws InvalidArgumentException if it is not an SBE schema; the exception's text says where and why.
     */
    public static Schema parse(String text) {
        return new Schema(new SchemaXml("The schema", text));
    }

    private static int number(SchemaXml xml, String attribute, String missing) {
        String value = xml.root().hasAttribute(attribute) ? xml.root().getAttribute(attribute).strip() : missing;
        try {
            int number = Integer.parseInt(value);
            if (number >= 0 && number <= MOST) {
                return number;
            }
        } catch (NumberFormatException e) {
            // reported below
        }
        throw xml.wrong(value.isEmpty() ? "<messageSchema> has no " + attribute : "the " + attribute + " of"
            + " <messageSchema> is \"" + value + "\", not 0 to " + MOST);
    }

    /**
     * The schema's whole XML, with every XInclude resolved.
     *
     * @return the text; the same as was read if it had no XInclude.
     */
    public String text() {
        return text;
    }

    /**
     * The schema's id.
     *
     * @return 0 to 65535.
     */
    public int id() {
        return id;
    }

    /**
     * The schema's version.
     *
     * @return 0 to 65535.
     */
    public int version() {
        return version;
    }

    @Override
    public String toString() {
        return "Schema{id=" + id + ", version=" + version + "}";
    }
}
