// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import io.flyring.BadMessageException;
import io.flyring.InvalidArgumentException;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import java.util.Objects;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.sbe.MessageDecoderFlyweight;

/** Checks the messages of one template and calls their handler. */
final class Route<D extends MessageDecoderFlyweight> {
    private static final int USUAL_LENGTH = 8;
    private static final int TEMPLATE_AT = 16;
    private static final int SCHEMA_AT = 32;
    private static final int VERSION_AT = 48;
    private static final int UINT16 = 0xffff;
    private static final int NONE = Integer.MAX_VALUE;

    final int template;
    private final int schema;
    private final D decoder;
    private final TypedHandler<? super D> handler;
    /** The schema's message header; null for the usual one. */
    private final MessageHeader header;
    /** The window on the message; unwrapped when the handler returns, which invalidates the decoder. */
    private final PayloadBuffer view = new PayloadBuffer();

    /**
     * The usual header of the last good message: a message with the same header and enough bytes needs no more checks.
     */
    private long goodHeader;
    /** The length of that header and its block, in bytes; {@link #NONE} if there was no good message. */
    private int goodLength = NONE;
    /** The last message's block, as its header describes it. */
    private int blockAt;
    private int block;
    private int version;

    Route(D decoder, TypedHandler<? super D> handler, MessageHeader header) {
        this.template = decoder.sbeTemplateId();
        this.schema = decoder.sbeSchemaId();
        this.decoder = decoder;
        this.handler = Objects.requireNonNull(handler, "handler");
        this.header = header;
    }

    /** Registers the handler of a template's messages. */
    static <D extends MessageDecoderFlyweight> void add(Int2ObjectHashMap<Route<?>> routes, D decoder,
        TypedHandler<? super D> handler, MessageHeader header) {
        if (decoder.sbeTemplateId() < 1) {
            throw new InvalidArgumentException("decoder", decoder.getClass().getSimpleName() + " has the template id "
                + decoder.sbeTemplateId() + ", and a message's type, which it would be, is 1 or more.");
        }
        if (routes.putIfAbsent(decoder.sbeTemplateId(), new Route<>(decoder, handler, header)) != null) {
            throw new InvalidArgumentException("decoder", decoder.getClass().getSimpleName() + " has the template id "
                + decoder.sbeTemplateId() + ", which has a handler already.");
        }
    }

    /**
     * Checks the message and calls the handler. This is one long method on purpose: HotSpot does not inline methods of
     * more than 325 bytecodes. So it compiles a handler with its codec separately from the poll. Both together would
     * exceed the compiler's limits on Java 22 and newer, where each field access takes many steps.
     */
    void onMessage(Message message) {
        final PayloadBuffer payload = message.buffer();
        final int length = payload.capacity();
        if (length < goodLength || payload.getLong(0) != goodHeader) {
            final int headerLength = header == null ? USUAL_LENGTH : header.length();
            if (length < headerLength) {
                throw new BadMessageException(message, "its " + length + " bytes are less than a message header of "
                    + headerLength + ", for " + decoder.getClass().getSimpleName());
            }
            final int itsSchema;
            final int itsTemplate;
            if (header == null) {
                final long fields = payload.getLong(0);
                block = (int) fields & UINT16;
                itsTemplate = (int) (fields >>> TEMPLATE_AT) & UINT16;
                itsSchema = (int) (fields >>> SCHEMA_AT) & UINT16;
                version = (int) (fields >>> VERSION_AT);
            } else {
                block = header.blockLength(payload);
                itsTemplate = header.templateId(payload);
                itsSchema = header.schemaId(payload);
                version = header.version(payload);
            }
            goodLength = NONE; // until all checks have passed
            if (itsSchema != schema) {
                throw new BadMessageException(message, "its header has the schema id " + itsSchema + ", "
                    + decoder.getClass().getSimpleName() + " the schema id " + schema);
            }
            if (itsTemplate != template) {
                throw new BadMessageException(message, "its header has the template id " + itsTemplate + ", "
                    + decoder.getClass().getSimpleName() + " the template id " + template);
            }
            if (block < 0 || block > length - headerLength) {
                throw new BadMessageException(message, "its " + length + " bytes are less than the header's "
                    + headerLength + " and the block's " + Integer.toUnsignedString(block));
            }
            if (block < decoder.sbeBlockLength() && Integer.compareUnsigned(version, decoder.sbeSchemaVersion()) >= 0) {
                throw new BadMessageException(message, "its block of " + block + " bytes is too short for version "
                    + Integer.toUnsignedString(version) + ", which has at least " + decoder.sbeBlockLength());
            }
            blockAt = headerLength;
            if (header == null) {
                goodHeader = payload.getLong(0);
                goodLength = headerLength + block;
            }
        }
        view.wrap(payload);
        try {
            decoder.wrap(view, blockAt, block, version);
            handler.onMessage(decoder, message);
        } finally {
            view.unwrap();
        }
    }
}
