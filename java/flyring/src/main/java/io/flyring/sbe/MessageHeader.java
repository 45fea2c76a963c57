// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * A schema's message header, at the start of a payload. The usual one, four uint16 in little endian, needs no such
 * object. For others there is {@link #BIG_ENDIAN}, or an implementation over the generated {@code MessageHeaderEncoder}
 * and {@code MessageHeaderDecoder}, one per thread.
 */
public interface MessageHeader {
    /** Four uint16, as usual, in a schema with {@code byteOrder="bigEndian"}. */
    MessageHeader BIG_ENDIAN = new BigEndianHeader();

    /**
     * How long the header is.
     *
     * @return its bytes.
     */
    int length();

    /**
     * Writes a header.
     *
     * @param buffer a payload.
     * @param blockLength bytes of the message's block.
     * @param templateId which message.
     * @param schemaId of which schema.
     * @param version in which version.
     */
    void encode(MutableDirectBuffer buffer, int blockLength, int templateId, int schemaId, int version);

    /**
     * Reads the length of the block.
     *
     * @param buffer a payload that is long enough for a header.
     * @return bytes.
     */
    int blockLength(DirectBuffer buffer);

    /**
     * Reads which message it is.
     *
     * @param buffer a payload that is long enough for a header.
     * @return the template id.
     */
    int templateId(DirectBuffer buffer);

    /**
     * Reads of which schema the message is.
     *
     * @param buffer a payload that is long enough for a header.
     * @return the schema id.
     */
    int schemaId(DirectBuffer buffer);

    /**
     * Reads in which version the message is.
     *
     * @param buffer a payload that is long enough for a header.
     * @return the schema version.
     */
    int version(DirectBuffer buffer);
}
