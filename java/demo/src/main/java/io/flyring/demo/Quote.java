// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.PayloadBuffer;

/** The message of the demos, little endian: sequence, send time, price, quantity, then filler. */
final class Quote {
    static final int SEQUENCE = 0;
    static final int SEND_TIME = 8;
    static final int PRICE = 16;
    static final int QUANTITY = 24;
    static final int FILLER = 32;
    /** The sequence of a message whose answer has, as its quantity, when pong received it, in ns of CLOCK_MONOTONIC. */
    static final long TIMED = -2;

    private Quote() {
    }

    static double price(long sequence) {
        return 100 + (sequence % 1000) / 8.0;
    }

    static long quantity(long sequence) {
        return sequence * 10;
    }

    static void write(PayloadBuffer buffer, int size, long sequence, long sendTime, double price) {
        buffer.putLong(SEQUENCE, sequence);
        buffer.putLong(SEND_TIME, sendTime);
        buffer.putDouble(PRICE, price);
        buffer.putLong(QUANTITY, quantity(sequence));
        for (int i = FILLER; i < size; i++) {
            buffer.putByte(i, (byte) (sequence + i));
        }
    }

    /** The same message with its quantity negated, or with the time if the sequence is {@link #TIMED}. */
    static void answer(PayloadBuffer question, PayloadBuffer answer, int size) {
        answer.putLong(SEQUENCE, question.getLong(SEQUENCE));
        answer.putLong(SEND_TIME, question.getLong(SEND_TIME));
        answer.putLong(PRICE, question.getLong(PRICE));
        boolean timed = question.getLong(SEQUENCE) == TIMED;
        answer.putLong(QUANTITY, timed ? System.nanoTime() : -question.getLong(QUANTITY));
        if (size > FILLER) {
            answer.putBytes(FILLER, question, FILLER, size - FILLER);
        }
    }

    static void checkAnswer(PayloadBuffer buffer, int length, int size, long sequence, long sendTime, double price) {
        if (length != size) {
            throw wrong("length", sequence, length, size);
        }
        if (buffer.getLong(SEND_TIME) != sendTime) {
            throw wrong("send_time", sequence, buffer.getLong(SEND_TIME), sendTime);
        }
        if (buffer.getDouble(PRICE) != price) {
            throw wrong("price", sequence, buffer.getDouble(PRICE), price);
        }
        if (buffer.getLong(QUANTITY) != -quantity(sequence)) {
            throw wrong("quantity", sequence, buffer.getLong(QUANTITY), -quantity(sequence));
        }
        for (int i = FILLER; i < size; i++) {
            if (buffer.getByte(i) != (byte) (sequence + i)) {
                throw wrong("byte " + i, sequence, buffer.getByte(i), (byte) (sequence + i));
            }
        }
    }

    static Demo.Failed wrong(String field, long sequence, Object found, Object expected) {
        return new Demo.Failed("Wrong answer: " + field + " of sequence " + sequence + " is " + found
            + ", it should be " + expected + ".");
    }
}
