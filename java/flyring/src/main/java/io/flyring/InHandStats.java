// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * What a worker of a queue has in hand.
 *
 * @param ring the ring that it was taken from.
 * @param position where the job's record begins.
 * @param end where its batch ends.
 * @param attempts how often it was handed out since that record was published.
 * @param busySince since when its batch is in hand, ns of CLOCK_MONOTONIC; 0: not known.
 * @param busyFor for how long it has been in hand, ns.
 */
public record InHandStats(int ring, long position, long end, int attempts, long busySince, long busyFor) {
}
