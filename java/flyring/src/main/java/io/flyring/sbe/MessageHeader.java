// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * A schema's message header, at the start of a payload. Only schemas with another header than the usual four
 * little-endian uint16 need this. Use {@link #BIG_ENDIAN}, or implement it over the generated
 * {@code MessageHeaderEncoder} and {@code MessageHeaderDecoder}, with one object per thread.
 */
public interface MessageHeader {
    /** Four big-endian uint16, for a schema with {@code byteOrder="bigEndian"}. */
    MessageHeader BIG_ENDIAN = new BigEndianHeader();

    /**
     * The length of the header.
     *
     * @return the length, in bytes.
     */
    int length();

    /**
     * Writes a header.
     *
     * @param buffer a payload.
     * @param blockLength the length of the message's block, in bytes.
     * @param templateId the message's template id.
     * @param schemaId the schema's id.
     * @param version the schema's version.
     */
    void encode(MutableDirectBuffer buffer, int blockLength, int templateId, int schemaId, int version);

    /**
     * Reads the length of the block.
     *
     * @param buffer a payload that is long enough for a header.
     * @return the length, in bytes.
     */
    int blockLength(DirectBuffer buffer);

    /**
     * Reads the template id.
     *
     * @param buffer a payload that is long enough for a header.
     * @return the template id.
     */
    int templateId(DirectBuffer buffer);

    /**
     * Reads the schema id.
     *
     * @param buffer a payload that is long enough for a header.
     * @return the schema id.
     */
    int schemaId(DirectBuffer buffer);

    /**
     * Reads the schema version.
     *
     * @param buffer a payload that is long enough for a header.
     * @return the schema version.
     */
    int version(DirectBuffer buffer);
}
