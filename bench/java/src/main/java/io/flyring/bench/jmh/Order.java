// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench.jmh;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** A message of eight fields, 48 bytes, and the ways to write and read it. */
final class Order implements Serializable {
    static final int LENGTH = 48;

    private static final long serialVersionUID = 1;
    private static final int ID = 0;
    private static final int TIME = 8;
    private static final int PRICE = 16;
    private static final int QUANTITY = 24;
    private static final int ACCOUNT = 32;
    private static final int INSTRUMENT = 36;
    private static final int VENUE = 40;
    private static final int SIDE = 42;

    long id;
    long time;
    double price;
    long quantity;
    int account;
    int instrument;
    short venue;
    byte side;

    /** Changes the fields to those of another message. */
    void next() {
        id++;
        time += 17;
        price += 0.5;
        quantity ^= id;
        account += 3;
        instrument ^= account;
        venue++;
        side ^= 1;
    }

    void copyFrom(Order from) {
        id = from.id;
        time = from.time;
        price = from.price;
        quantity = from.quantity;
        account = from.account;
        instrument = from.instrument;
        venue = from.venue;
        side = from.side;
    }

    /** A sum that needs every field. */
    long sum() {
        return id + time + (long) price + quantity + account + instrument + venue + side;
    }

    void encode(MutableDirectBuffer to) {
        to.putLong(ID, id);
        to.putLong(TIME, time);
        to.putDouble(PRICE, price);
        to.putLong(QUANTITY, quantity);
        to.putInt(ACCOUNT, account);
        to.putInt(INSTRUMENT, instrument);
        to.putShort(VENUE, venue);
        to.putByte(SIDE, side);
    }

    void decode(DirectBuffer from) {
        id = from.getLong(ID);
        time = from.getLong(TIME);
        price = from.getDouble(PRICE);
        quantity = from.getLong(QUANTITY);
        account = from.getInt(ACCOUNT);
        instrument = from.getInt(INSTRUMENT);
        venue = from.getShort(VENUE);
        side = from.getByte(SIDE);
    }

    void write(DataOutputStream to) throws IOException {
        to.writeLong(id);
        to.writeLong(time);
        to.writeDouble(price);
        to.writeLong(quantity);
        to.writeInt(account);
        to.writeInt(instrument);
        to.writeShort(venue);
        to.writeByte(side);
    }

    void read(DataInputStream from) throws IOException {
        id = from.readLong();
        time = from.readLong();
        price = from.readDouble();
        quantity = from.readLong();
        account = from.readInt();
        instrument = from.readInt();
        venue = from.readShort();
        side = from.readByte();
    }

    /** Writes the message by the JDK's serialization. */
    byte[] serialize(ByteArrayOutputStream bytes) throws IOException {
        bytes.reset();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(this);
        }
        return bytes.toByteArray();
    }

    static Order deserialize(byte[] bytes) throws IOException, ClassNotFoundException {
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
            return (Order) in.readObject();
        }
    }
}
