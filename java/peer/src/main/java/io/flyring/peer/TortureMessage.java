// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The content of a request, an answer or an item of a service in the SIGKILL torture test
 * (interop-tests/torture/WORKER.md).
 *
 * @param whole whether length and checksum are correct; if not, the other fields mean nothing.
 * @param publisher a number made from the client's name.
 * @param epoch the client's epoch.
 * @param call the call's number.
 * @param server the server's epoch; only of an answer or item.
 * @param item the index in the stream, from 0; only of an answer or item.
 */
record TortureMessage(boolean whole, long publisher, long epoch, long call, long server, long item) {
    /** The number of bytes of an answer or item in front of its payload. */
    static final int ANSWER = TortureWorker.HEADER + 2 * Long.BYTES;
    private static final int LENGTH_AT = 4;
    private static final int PUBLISHER_AT = 8;
    private static final int EPOCH_AT = 16;
    private static final int CALL_AT = 24;
    private static final int STREAM_LENGTHS = 7;

    /** The number of items of a call's stream. */
    static long items(long call) {
        return call % STREAM_LENGTHS;
    }

    static TortureMessage request(byte[] bytes) {
        return of(bytes, false);
    }

    static TortureMessage answer(byte[] bytes) {
        return of(bytes, true);
    }

    private static TortureMessage of(byte[] bytes, boolean answer) {
        ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        if (bytes.length < (answer ? ANSWER : TortureWorker.HEADER) || words.getInt(LENGTH_AT) != bytes.length
            || words.getInt(0) != TortureWorker.checksum(bytes)) {
            return new TortureMessage(false, 0, 0, 0, 0, 0);
        }
        return new TortureMessage(true, words.getLong(PUBLISHER_AT), words.getLong(EPOCH_AT), words.getLong(CALL_AT),
            answer ? words.getLong(TortureWorker.HEADER) : 0,
            answer ? words.getLong(TortureWorker.HEADER + Long.BYTES) : 0);
    }

    static byte[] request(long publisher, long epoch, long call, int more) {
        return bytes(TortureWorker.HEADER + more, publisher, epoch, call, 0, 0);
    }

    /** The bytes of an answer or item to this request. */
    byte[] answer(long number, long serverEpoch, long itemNumber, int more) {
        return bytes(ANSWER + more, publisher, epoch, number, serverEpoch, itemNumber);
    }

    private static byte[] bytes(int length, long publisher, long epoch, long call, long server, long item) {
        byte[] bytes = new byte[length];
        for (int i = TortureWorker.HEADER; i < length; i++) {
            bytes[i] = (byte) (call + i);
        }
        ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        words.putInt(LENGTH_AT, length);
        words.putLong(PUBLISHER_AT, publisher);
        words.putLong(EPOCH_AT, epoch);
        words.putLong(CALL_AT, call);
        if (server != 0) {
            words.putLong(TortureWorker.HEADER, server);
            words.putLong(TortureWorker.HEADER + Long.BYTES, item);
        }
        words.putInt(0, TortureWorker.checksum(bytes));
        return bytes;
    }
}
