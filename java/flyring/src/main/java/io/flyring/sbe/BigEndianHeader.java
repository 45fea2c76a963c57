// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** SBE's usual message header in big endian: block length, template id, schema id, version; uint16 each. */
final class BigEndianHeader implements MessageHeader {
    private static final int LENGTH = 8;

    private static final int BLOCK_LENGTH = 0;
    private static final int TEMPLATE_ID = 2;
    private static final int SCHEMA_ID = 4;
    private static final int VERSION = 6;

    @Override
    public int length() {
        return LENGTH;
    }

    @Override
    public void encode(MutableDirectBuffer buffer, int blockLength, int templateId, int schemaId, int version) {
        buffer.putShort(BLOCK_LENGTH, (short) blockLength, ByteOrder.BIG_ENDIAN);
        buffer.putShort(TEMPLATE_ID, (short) templateId, ByteOrder.BIG_ENDIAN);
        buffer.putShort(SCHEMA_ID, (short) schemaId, ByteOrder.BIG_ENDIAN);
        buffer.putShort(VERSION, (short) version, ByteOrder.BIG_ENDIAN);
    }

    @Override
    public int blockLength(DirectBuffer buffer) {
        return Short.toUnsignedInt(buffer.getShort(BLOCK_LENGTH, ByteOrder.BIG_ENDIAN));
    }

    @Override
    public int templateId(DirectBuffer buffer) {
        return Short.toUnsignedInt(buffer.getShort(TEMPLATE_ID, ByteOrder.BIG_ENDIAN));
    }

    @Override
    public int schemaId(DirectBuffer buffer) {
        return Short.toUnsignedInt(buffer.getShort(SCHEMA_ID, ByteOrder.BIG_ENDIAN));
    }

    @Override
    public int version(DirectBuffer buffer) {
        return Short.toUnsignedInt(buffer.getShort(VERSION, ByteOrder.BIG_ENDIAN));
    }
}
