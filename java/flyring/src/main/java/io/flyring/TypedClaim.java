// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import io.flyring.sbe.MessageHeader;
import org.agrona.sbe.MessageEncoderFlyweight;

/** A claim for a typed message: the message header, and the encoder over the block (spec/messages.md 3). */
final class TypedClaim {
    /** The usual message header, as one word: its length, and where its fields behind the first one begin, in bits. */
    private static final int HEADER_LENGTH = 8;
    private static final int TEMPLATE_AT = 16;
    private static final int SCHEMA_AT = 32;
    private static final int VERSION_AT = 48;
    private static final int MAX_HEADER_FIELD = 0xffff;

    private TypedClaim() {
    }

    /**
     * Claims, writes the header and wraps the encoder over the block; null: there is no room.
     *
     * <p>All in one method because HotSpot inlines none of more than 325 bytecodes, however often it is called: so what
     * fills the message is compiled by itself, and not up to a limit of the compiler that this would bring nearer (22
     * and newer, where a field takes it many steps). Likewise in io.flyring.sbe.Route.
     *
     * @param header null: the usual one.
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
        // If the sum overflows it is too large anyway, and so is the one part of it.
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
