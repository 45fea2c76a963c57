// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * An allocated counter at one moment.
 *
 * @param id its index in the section, from 0.
 * @param label its label, for people.
 * @param typeId its type, as given to allocate.
 * @param key its key, for programs, zero-filled to 112 bytes.
 * @param value its value.
 */
public record CounterStats(int id, String label, int typeId, byte[] key, long value) {
}
