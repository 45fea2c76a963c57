// SPDX-License-Identifier: Apache-2.0
/**
 * Flyring for Java: flyweight messages between processes of one machine through memory-mapped files.
 *
 * <p>The way in is {@link io.flyring.Channel}. Bytes and orderings are those of spec/channel.md, the shape of the
 * interface is that of spec/api.md. No JVM flag is needed on 17 and newer.
 */
package io.flyring;
