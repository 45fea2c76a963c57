// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Where a journal ends.
 *
 * @param end behind the last record.
 * @param count how many messages lie before it.
 * @param time the largest time of these; 0 if there is none.
 * @param spanStart behind the last check.
 */
record JournalTail(long end, long count, long time, long spanStart) {
}
