// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import io.flyring.BadMessageException;
import io.flyring.InvalidArgumentException;
import io.flyring.PayloadBuffer;
import io.flyring.Table;
import io.flyring.TableWriter;
import io.flyring.ValueHandler;
import io.flyring.ValueUpdate;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Function;
import org.agrona.DirectBuffer;
import org.agrona.sbe.MessageDecoderFlyweight;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * A table whose values are messages of its schema, written and read by codecs that sbe-tool generated with
 * {@code sbe.java.generate.interfaces=true}. For one thread at a time.
 *
 * <pre>{@code
 * TypedTable<PriceUpdateEncoder, PriceUpdateDecoder> prices =
 *     new TypedTable<>(table, new PriceUpdateEncoder(), new PriceUpdateDecoder());
 * prices.put("FLYR", price -> price.bid(1).ask(2));
 * Long bid = prices.read("FLYR", PriceUpdateDecoder::bid);
 * }</pre>
 *
 * @param <E> the encoder's class.
 * @param <D> the decoder's class.
 */
public final class TypedTable<E extends MessageEncoderFlyweight, D extends MessageDecoderFlyweight> {
    private static final int USUAL_LENGTH = 8;
    private static final int UINT16 = 0xffff;

    private final Table table;
    /** Null: each change takes the slot. */
    private final TableWriter writer;
    private final E encoder;
    private final D decoder;
    private final int template;
    private final MessageHeader header;
    private final int headerLength;
    private final PayloadBuffer value = new PayloadBuffer();
    private final PayloadBuffer view = new PayloadBuffer();

    /**
     * For schemas with the usual message header: four uint16, little endian.
     *
     * @param table a table that was created with this schema and message.
     * @param encoder writes values.
     * @param decoder reads values.
     * @throws InvalidArgumentException if the table has another schema or message.
     */
    public TypedTable(Table table, E encoder, D decoder) {
        this(table, null, encoder, decoder, null);
    }

    /**
     * For schemas with another message header.
     *
     * @param table a table that was created with this schema and message.
     * @param encoder writes values.
     * @param decoder reads values.
     * @param header the schema's message header.
     * @throws InvalidArgumentException if the table has another schema or message.
     */
    public TypedTable(Table table, E encoder, D decoder, MessageHeader header) {
        this(table, null, encoder, decoder, Objects.requireNonNull(header, "header"));
    }

    private TypedTable(Table table, TableWriter writer, E encoder, D decoder, MessageHeader header) {
        this.table = table;
        this.writer = writer;
        this.encoder = encoder;
        this.decoder = decoder;
        this.template = encoder.sbeTemplateId();
        this.header = header;
        this.headerLength = header == null ? USUAL_LENGTH : header.length();
        if (decoder.sbeTemplateId() != template || decoder.sbeSchemaId() != encoder.sbeSchemaId()) {
            throw new InvalidArgumentException("decoder", decoder.getClass().getSimpleName() + " and "
                + encoder.getClass().getSimpleName() + " are not of the same message.");
        }
        same("schema_id", encoder.sbeSchemaId(), table.schemaId());
        same("value_template", template, table.valueTemplate());
        value.wrap(new byte[table.valueBytes()]);
    }

    private void same(String field, int expected, int actual) {
        if (expected != actual) {
            throw new InvalidArgumentException("encoder", table.path() + " has values whose " + field + " is " + actual
                + "; that of " + encoder.getClass().getSimpleName() + " is " + expected + ".");
        }
    }

    /**
     * The same table; its changes go through a writer, which holds the slot.
     *
     * @param held a writer of the table.
     * @return the table.
     */
    public TypedTable<E, D> with(TableWriter held) {
        return new TypedTable<>(table, Objects.requireNonNull(held, "held"), encoder, decoder, header);
    }

    private int encode(Consumer<? super E> fill) {
        value.setMemory(0, value.capacity(), (byte) 0);
        if (header == null) {
            value.putLong(0, encoder.sbeBlockLength() | (long) template << 16 | (long) encoder.sbeSchemaId() << 32
                | (long) encoder.sbeSchemaVersion() << 48);
        } else {
            header.encode(value, encoder.sbeBlockLength(), template, encoder.sbeSchemaId(),
                encoder.sbeSchemaVersion());
        }
        encoder.wrap(value, headerLength);
        fill.accept(encoder);
        return headerLength + encoder.encodedLength();
    }

    /** Checks a value as messages.md 1 says, and wraps the decoder over it. */
    private D decode(PayloadBuffer bytes) {
        final int length = bytes.capacity();
        if (length < headerLength) {
            throw new BadMessageException(template, "its " + length + " bytes are less than a message header of "
                + headerLength);
        }
        final boolean usual = header == null;
        final long fields = usual ? bytes.getLong(0) : 0;
        final int block = usual ? (int) fields & UINT16 : header.blockLength(bytes);
        final int itsTemplate = usual ? (int) (fields >>> 16) & UINT16 : header.templateId(bytes);
        final int itsSchema = usual ? (int) (fields >>> 32) & UINT16 : header.schemaId(bytes);
        final int version = usual ? (int) (fields >>> 48) : header.version(bytes);
        if (itsSchema != decoder.sbeSchemaId() || itsTemplate != template) {
            throw new BadMessageException(template, "its header has the schema id " + itsSchema
                + " and the template id " + itsTemplate);
        }
        if (block < 0 || block > length - headerLength) {
            throw new BadMessageException(template, "its " + length + " bytes are less than the header's "
                + headerLength + " and the block's " + Integer.toUnsignedString(block));
        }
        if (block < decoder.sbeBlockLength() && Integer.compareUnsigned(version, decoder.sbeSchemaVersion()) >= 0) {
            throw new BadMessageException(template, "its block of " + block + " bytes is too short for version "
                + Integer.toUnsignedString(version) + ", which has at least " + decoder.sbeBlockLength());
        }
        view.wrap(bytes);
        decoder.wrap(view, headerLength, block, version);
        return decoder;
    }

    private <R> ValueHandler<R> reading(Function<? super D, R> handler) {
        return bytes -> {
            try {
                return handler.apply(decode(bytes));
            } finally {
                view.unwrap();
            }
        };
    }

    private ValueUpdate updating(Consumer<? super E> handler) {
        return bytes -> {
            decode(bytes); // checks it
            view.unwrap();
            encoder.wrap(bytes, headerLength);
            handler.accept(encoder);
        };
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key, a signed integer.
     * @param fill writes the message's fields, groups and data; fields that it leaves out are zero.
     * @return the key's new version.
     */
    public long put(long key, Consumer<? super E> fill) {
        final int length = encode(fill);
        return writer != null ? writer.put(key, value, 0, length) : table.put(key, value, 0, length);
    }

    /**
     * Reads the value of a key in place.
     *
     * @param key the key, a signed integer.
     * @param handler reads the message; may be called several times, and may see fields that are torn.
     * @param <R> what the handler returns.
     * @return what the handler's last call returned, which saw a value that is not torn; null if the key is not there.
     * @throws BadMessageException if the value is not such a message.
     */
    public <R> R read(long key, Function<? super D, R> handler) {
        return table.read(key, reading(handler));
    }

    /**
     * Changes fields of the value of a key.
     *
     * @param key the key, a signed integer.
     * @param handler changes fields in a copy of the message.
     * @return the key's new version; 0 if the key is not there.
     * @throws BadMessageException if the value is not such a message.
     */
    public long update(long key, Consumer<? super E> handler) {
        return writer != null ? writer.update(key, updating(handler)) : table.update(key, updating(handler));
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key, text.
     * @param fill writes the message's fields, groups and data; fields that it leaves out are zero.
     * @return the key's new version.
     */
    public long put(CharSequence key, Consumer<? super E> fill) {
        final int length = encode(fill);
        return writer != null ? writer.put(key, value, 0, length) : table.put(key, value, 0, length);
    }

    /**
     * Reads the value of a key in place.
     *
     * @param key the key, text.
     * @param handler reads the message; may be called several times, and may see fields that are torn.
     * @param <R> what the handler returns.
     * @return what the handler's last call returned, which saw a value that is not torn; null if the key is not there.
     * @throws BadMessageException if the value is not such a message.
     */
    public <R> R read(CharSequence key, Function<? super D, R> handler) {
        return table.read(key, reading(handler));
    }

    /**
     * Changes fields of the value of a key.
     *
     * @param key the key, text.
     * @param handler changes fields in a copy of the message.
     * @return the key's new version; 0 if the key is not there.
     * @throws BadMessageException if the value is not such a message.
     */
    public long update(CharSequence key, Consumer<? super E> handler) {
        return writer != null ? writer.update(key, updating(handler)) : table.update(key, updating(handler));
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key, bytes.
     * @param fill writes the message's fields, groups and data; fields that it leaves out are zero.
     * @return the key's new version.
     */
    public long put(DirectBuffer key, Consumer<? super E> fill) {
        final int length = encode(fill);
        return writer != null ? writer.put(key, value, 0, length) : table.put(key, value, 0, length);
    }

    /**
     * Reads the value of a key in place.
     *
     * @param key the key, bytes.
     * @param handler reads the message; may be called several times, and may see fields that are torn.
     * @param <R> what the handler returns.
     * @return what the handler's last call returned, which saw a value that is not torn; null if the key is not there.
     * @throws BadMessageException if the value is not such a message.
     */
    public <R> R read(DirectBuffer key, Function<? super D, R> handler) {
        return table.read(key, reading(handler));
    }

    /**
     * Changes fields of the value of a key.
     *
     * @param key the key, bytes.
     * @param handler changes fields in a copy of the message.
     * @return the key's new version; 0 if the key is not there.
     * @throws BadMessageException if the value is not such a message.
     */
    public long update(DirectBuffer key, Consumer<? super E> handler) {
        return writer != null ? writer.update(key, updating(handler)) : table.update(key, updating(handler));
    }
}
