// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import io.flyring.sbe.MessageHeader;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * Claims space for a typed message: writes the message header, and wraps the encoder over the block (messages.md 3).
 */
final class TypedClaim {
    /** The usual message header, written as one word: its length in bytes, and the bit offsets of its fields 2 to 4. */
    private static final int HEADER_LENGTH = 8;
    private static final int TEMPLATE_AT = 16;
    private static final int SCHEMA_AT = 32;
    private static final int VERSION_AT = 48;
    private static final int MAX_HEADER_FIELD = 0xffff;

    private TypedClaim() {
    }

    /** Makes the checks for a writer of a journal; returns the message's length. */
    static int length(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header) {
        if (variableLength < 0) {
            throw new InvalidArgumentException("variable_length", "The length " + variableLength
                + " of the groups and data of " + encoder.getClass().getSimpleName() + " is negative.");
        }
        if (encoder.sbeTemplateId() == 0) {
            throw new InvalidArgumentException("type", encoder.getClass().getSimpleName() + " has the template id 0,"
                + " but a message's type is its template id, and must be 1 or more. Give it another id in the schema.");
        }
        final int block = encoder.sbeBlockLength();
        if (header == null && ((block | encoder.sbeTemplateId() | encoder.sbeSchemaId() | encoder.sbeSchemaVersion())
            & ~MAX_HEADER_FIELD) != 0) {
            throw new InvalidArgumentException("encoder", encoder.getClass().getSimpleName() + " has a block length,"
                + " template id, schema id or version which the usual message header cannot hold: its fields are 0 to"
                + " 65535. Claim with the schema's own header.");
        }
        return Math.max((header == null ? HEADER_LENGTH : header.length()) + block + variableLength, variableLength);
    }

    /** Writes the header into claimed space, and wraps the encoder over the block. */
    static void encode(MessageEncoderFlyweight encoder, MessageHeader header, PayloadBuffer buffer) {
        final int block = encoder.sbeBlockLength();
        final int template = encoder.sbeTemplateId();
        final int schema = encoder.sbeSchemaId();
        final int version = encoder.sbeSchemaVersion();
        if (header == null) {
            buffer.putLong(0, block | (long) template << TEMPLATE_AT | (long) schema << SCHEMA_AT
                | (long) version << VERSION_AT);
            encoder.wrap(buffer, HEADER_LENGTH);
        } else {
            header.encode(buffer, block, template, schema, version);
            encoder.wrap(buffer, header.length());
        }
    }

    /**
     * Claims, writes the header and wraps the encoder over the block; null if there is no room.
     *
     * <p>This is one long method on purpose: HotSpot does not inline methods of more than 325 bytecodes. So the caller,
     * which fills the message, is compiled without it. Both together could exceed the compiler's limits on Java 22 and
     * newer, where each field access takes many steps. The same holds for io.flyring.sbe.Route.
     *
     * @param header the schema's message header; null for the usual one.
     */
    static Claim of(Publisher publisher, MessageEncoderFlyweight encoder, int variableLength, MessageHeader header) {
        final int block = encoder.sbeBlockLength();
        final int template = encoder.sbeTemplateId();
        final int schema = encoder.sbeSchemaId();
        final int version = encoder.sbeSchemaVersion();
        if (variableLength < 0) {
            throw new InvalidArgumentException("variable_length", "The length " + variableLength
                + " of the groups and data of " + encoder.getClass().getSimpleName() + " is negative.");
        }
        if (template == 0) {
            throw new InvalidArgumentException("type", encoder.getClass().getSimpleName() + " has the template id 0,"
                + " but a message's type is its template id, and must be 1 or more. Give it another id in the schema.");
        }
        if (header == null && ((block | template | schema | version) & ~MAX_HEADER_FIELD) != 0) {
            String field = (block & ~MAX_HEADER_FIELD) != 0 ? "block length " + block
                : (template & ~MAX_HEADER_FIELD) != 0 ? "template id " + template
                : (schema & ~MAX_HEADER_FIELD) != 0 ? "schema id " + schema : "version " + version;
            throw new InvalidArgumentException("encoder", encoder.getClass().getSimpleName() + " has the " + field
                + ", which the usual message header cannot hold: its fields are 0 to 65535. Claim with the schema's own"
                + " header.");
        }
        final int headerLength = header == null ? HEADER_LENGTH : header.length();
        // If the sum overflows, the message is too large anyway, as variableLength alone is.
        final int length = Math.max(headerLength + block + variableLength, variableLength);
        final Claim open = publisher.tryClaim(length, template);
        if (open == null) {
            return null;
        }
        boolean encoded = false;
        try {
            if (header == null) {
                open.buffer().putLong(0, block | (long) template << TEMPLATE_AT | (long) schema << SCHEMA_AT
                    | (long) version << VERSION_AT);
            } else {
                header.encode(open.buffer(), block, template, schema, version);
            }
            encoder.wrap(open.buffer(), headerLength);
            encoded = true;
            return open;
        } finally {
            if (!encoded) {
                open.abort();
            }
        }
    }
}
