// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * How far a subscriber slot has read one ring.
 *
 * @param ring the ring.
 * @param position the gate, in bytes.
 * @param lag bytes from the gate to the published position: messages, padding and owner records.
 * @param lagMessages messages from the gate to the published position; -1 if not known.
 */
public record GateStats(int ring, long position, long lag, long lagMessages) {
}
