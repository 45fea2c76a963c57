// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * What a recovery after another boot, or after a sync that failed, has found. Spec journal.md 7.
 *
 * @param position where the journal was cut: all before it is there, and nothing behind it.
 * @param next where the journal goes on: positions between the two are never used.
 * @param messages how many messages there are.
 * @param reached how far the records reached that were found and not proven: {@code reached - position} bytes were cut
 *     off.
 * @param reason 1 power loss, 2 a sync failed.
 */
public record JournalRecovery(long position, long next, long messages, long reached, int reason) {
}
