// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * An allocated counter at one moment.
 *
 * @param id its index in the section, from 0.
 * @param label what people read.
 * @param typeId what kind of counter it is.
 * @param key what programs read, zero-filled to 112 bytes.
 * @param value its value.
 */
public record CounterStats(int id, String label, int typeId, byte[] key, long value) {
}
