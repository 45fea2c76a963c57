// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * The value of a key of a table, with its version.
 *
 * @param value a copy of the value.
 * @param version the value's version; each later version of the key is larger.
 */
public record Versioned(byte[] value, long version) {
}
