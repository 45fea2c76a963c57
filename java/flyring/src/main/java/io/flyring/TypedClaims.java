// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import io.flyring.sbe.MessageHeader;
import java.util.Objects;
import org.agrona.sbe.MessageEncoderFlyweight;

/** What {@link Publisher} does for typed messages: claims with an encoder over them (spec/messages.md 3). */
abstract class TypedClaims {
    private static final int HEADER_LENGTH = 8;
    private static final int TEMPLATE_AT = 16;
    private static final int SCHEMA_AT = 32;
    private static final int VERSION_AT = 48;
    private static final int MOST = 0xffff;

    abstract Claim claim(int length, int type);

    /**
     * Claims space for a message without groups and data, writes the message header and wraps the encoder over the
     * block.
     *
     * @param encoder the message's, generated with {@code sbe.java.generate.interfaces=true}.
     * @return the publisher's one claim, valid until its commit or abort, and the encoder with it; null if
     *     back-pressured.
     * @see #claim(MessageEncoderFlyweight, int)
     */
    public final Claim claim(MessageEncoderFlyweight encoder) {
        return claim(encoder, 0);
    }

    /**
     * Claims space for a message, writes the message header and wraps the encoder over the block, which is not cleared:
     * write every field. The record's type is the template id. The header is the usual one, four uint16, little
     * endian; else see {@link #claim(MessageEncoderFlyweight, int, MessageHeader)}.
     *
     * @param encoder the message's, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, their own headers included; more than they need is fine.
     * @return the publisher's one claim, valid until its commit or abort, and the encoder with it; null if
     *     back-pressured.
     * @throws InvalidArgumentException if the length is negative, or the template id is 0, which no type may be.
     * @throws FlyringException as {@link Publisher#claim(int, int)} does.
     */
    public final Claim claim(MessageEncoderFlyweight encoder, int variableLength) {
        return claimFor(encoder, variableLength, null);
    }

    /**
     * Claims space for a message of a schema with a message header of its own.
     *
     * @param encoder the message's, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, their own headers included; more than they need is fine.
     * @param header the schema's message header.
     * @return the publisher's one claim, valid until its commit or abort, and the encoder with it; null if
     *     back-pressured.
     * @throws InvalidArgumentException if the length is negative, or the template id is 0, which no type may be.
     * @throws FlyringException as {@link Publisher#claim(int, int)} does.
     */
    public final Claim claim(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header) {
        return claimFor(encoder, variableLength, Objects.requireNonNull(header, "header"));
    }

    /**
     * All in one method because HotSpot inlines none of more than 325 bytecodes, however often it is called: so what
     * fills the message is compiled by itself, and not up to a limit of the compiler that this would bring nearer (22
     * and newer, where a field takes it many steps). Likewise in io.flyring.sbe.Route.
     *
     * @param header null: the usual one.
     */
    private Claim claimFor(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header) {
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
                + " and a message's type, which it is to be, is 1 or more. Give it another id in the schema.");
        }
        if (header == null && ((block | template | schema | version) & ~MOST) != 0) {
            String field = (block & ~MOST) != 0 ? "block length " + block : (template & ~MOST) != 0
                ? "template id " + template : (schema & ~MOST) != 0 ? "schema id " + schema : "version " + version;
            throw new InvalidArgumentException("encoder", encoder.getClass().getSimpleName() + " has the " + field
                + ", which the usual message header cannot hold: its fields are 0 to 65535. Claim with the schema's own"
                + " header.");
        }
        final int headerLength = header == null ? HEADER_LENGTH : header.length();
        // If the sum overflows it is too large anyway, and so is the one part of it.
        final Claim claim = claim(Math.max(headerLength + block + variableLength, variableLength), template);
        if (claim == null) {
            return null;
        }
        boolean encoded = false;
        try {
            if (header == null) {
                claim.buffer().putLong(0, block | (long) template << TEMPLATE_AT | (long) schema << SCHEMA_AT
                    | (long) version << VERSION_AT);
            } else {
                header.encode(claim.buffer(), block, template, schema, version);
            }
            encoder.wrap(claim.buffer(), headerLength);
            encoded = true;
            return claim;
        } finally {
            if (!encoded) {
                claim.abort();
            }
        }
    }
}
