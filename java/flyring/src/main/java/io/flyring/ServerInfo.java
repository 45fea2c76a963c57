// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * The live server of a service, as {@link Client#server()} returns it.
 *
 * @param name its name, empty if it has none.
 * @param epoch the number of this server, from 1.
 */
public record ServerInfo(String name, long epoch) {
}
