// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * The server of a service that lives: from {@link Client#server()}.
 *
 * @param name its name, empty if it has none.
 * @param epoch which server it is, from 1.
 */
public record ServerInfo(String name, long epoch) {
}
