// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A request, an answer or an item of a service in the SIGKILL torture (interop-tests/torture/WORKER.md): what it says
 * of itself.
 *
 * @param whole whether its length and checksum are right; what follows says nothing if not.
 * @param publisher made from the name of the client that asked.
 * @param epoch of that client.
 * @param call its number.
 * @param server epoch of the server; of an answer or item.
 * @param item which of its stream it is, from 0; of an answer or item.
 */
record TortureMessage(boolean whole, long publisher, long epoch, long call, long server, long item) {
    /** Bytes of an answer or item before its payload. */
    static final int ANSWER = TortureWorker.HEADER + 2 * Long.BYTES;
    private static final int LENGTH_AT = 4;
    private static final int PUBLISHER_AT = 8;
    private static final int EPOCH_AT = 16;
    private static final int CALL_AT = 24;
    private static final int STREAM_LENGTHS = 7;

    /** How many items the stream of a call has. */
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

    /** Of the call that this request is of. */
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
