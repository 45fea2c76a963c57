// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Changes the value of a key ({@link Table#update}). If it throws, nothing is put. */
@FunctionalInterface
public interface ValueUpdate {
    /**
     * Changes a value.
     *
     * @param value a copy of the value, of the same length, to be changed; valid until this returns.
     */
    void update(PayloadBuffer value);
}
