// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * What a worker of a queue has in hand.
 *
 * @param ring the ring that the job was taken from.
 * @param position the position of the job's record, in bytes.
 * @param end the end of the job's batch, in bytes.
 * @param attempts how often the job was handed out since that record was published.
 * @param busySince since when the batch is in hand, in ns of CLOCK_MONOTONIC; 0 if not known.
 * @param busyFor how long the batch has been in hand, in ns.
 */
public record InHandStats(int ring, long position, long end, int attempts, long busySince, long busyFor) {
}
