// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import io.flyring.sbe.MessageHeader;
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
        final int block = encoder.sbeBlockLength();
        final int template = encoder.sbeTemplateId();
        final int schema = encoder.sbeSchemaId();
        final int version = encoder.sbeSchemaVersion();
        if (template == 0 || variableLength < 0 || ((block | template | schema | version) & ~MOST) != 0) {
            throw refusal(encoder, variableLength);
        }
        final Claim claim = claim(length(HEADER_LENGTH + block, variableLength), template);
        if (claim != null) {
            claim.buffer().putLong(0, block | (long) template << TEMPLATE_AT | (long) schema << SCHEMA_AT
                | (long) version << VERSION_AT);
            encoder.wrap(claim.buffer(), HEADER_LENGTH);
        }
        return claim;
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
        if (encoder.sbeTemplateId() == 0 || variableLength < 0) {
            throw refusal(encoder, variableLength);
        }
        Claim claim = claim(length(header.length() + encoder.sbeBlockLength(), variableLength),
            encoder.sbeTemplateId());
        if (claim != null) {
            try {
                header.encode(claim.buffer(), encoder.sbeBlockLength(), encoder.sbeTemplateId(), encoder.sbeSchemaId(),
                    encoder.sbeSchemaVersion());
                encoder.wrap(claim.buffer(), header.length());
            } catch (Throwable e) {
                claim.abort();
                throw e;
            }
        }
        return claim;
    }

    /** If the sum overflows it is too large anyway, and so is the one part of it. */
    private static int length(int fixed, int variable) {
        return Math.max(fixed + variable, variable);
    }

    private static InvalidArgumentException refusal(MessageEncoderFlyweight encoder, int variableLength) {
        String message = encoder.getClass().getSimpleName();
        if (variableLength < 0) {
            return new InvalidArgumentException("variable_length", "The length " + variableLength
                + " of the groups and data of " + message + " is negative.");
        }
        if (encoder.sbeTemplateId() == 0) {
            return new InvalidArgumentException("type", message + " has the template id 0, and a message's type, which"
                + " it is to be, is 1 or more. Give it another id in the schema.");
        }
        return new InvalidArgumentException("encoder", message + " has block length " + encoder.sbeBlockLength()
            + ", template id " + encoder.sbeTemplateId() + ", schema id " + encoder.sbeSchemaId() + " and version "
            + encoder.sbeSchemaVersion() + ", which the usual message header cannot hold, in 0 to 65535 each."
            + " Claim with the schema's own header.");
    }
}
