// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.sbe.MessageEncoderFlyweight;

/** Finds the message that an sbe-tool encoder has written behind the usual message header (messages.md 3). */
final class Encoded {
    private static final int HEADER_LENGTH = 8;

    private Encoded() {
    }

    static int offset(MessageEncoderFlyweight encoder) {
        if (encoder.offset() < HEADER_LENGTH) {
            throw new InvalidArgumentException("encoder", encoder.getClass().getSimpleName() + " has no message header"
                + " in front of its block. Call wrapAndApplyHeader.");
        }
        return encoder.offset() - HEADER_LENGTH;
    }

    static int length(MessageEncoderFlyweight encoder) {
        return HEADER_LENGTH + encoder.encodedLength();
    }

    static int type(MessageEncoderFlyweight encoder) {
        if (encoder.sbeTemplateId() == 0) {
            throw new InvalidArgumentException("type", encoder.getClass().getSimpleName() + " has the template id 0,"
                + " but a message's type is its template id, and must be 1 or more. Give it another id in the schema.");
        }
        return encoder.sbeTemplateId();
    }
}
