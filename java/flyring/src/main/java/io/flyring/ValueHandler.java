// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Reads a table's value in place. It may be called several times for one value, and may see a value that is torn, with
 * any bytes and any length up to the longest. Only what the last call returned or threw counts.
 *
 * @param <R> what it returns.
 */
@FunctionalInterface
public interface ValueHandler<R> {
    /**
     * Reads a value.
     *
     * @param value the value, in place and read-only; valid until the handler returns.
     * @return any result.
     */
    R onValue(PayloadBuffer value);
}
