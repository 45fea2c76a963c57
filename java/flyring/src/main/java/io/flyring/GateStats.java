// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * How far a subscriber slot has read one ring.
 *
 * @param ring the ring.
 * @param position the gate, in bytes.
 * @param lag bytes from there to what is published: messages, padding and owner records.
 * @param lagMessages messages from there to what is published; -1 if that is not known.
 */
public record GateStats(int ring, long position, long lag, long lagMessages) {
}
