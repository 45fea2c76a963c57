// SPDX-License-Identifier: Apache-2.0
/**
 * Flyring for Java: flyweight messages between processes of one machine through memory-mapped files.
 *
 * <p>Start with {@link io.flyring.Channel}. The byte layout and memory orderings are those of spec/channel.md, the
 * shape of the API is that of spec/api.md. Java 17 or newer is needed, and no JVM flag.
 *
 * <p>Methods with a time-out sleep in the kernel; a garbage collection does not wait for them. Virtual threads may call
 * them, but a virtual thread that sleeps pins its carrier thread. If as many virtual threads sleep as there are
 * carriers (the number of cores), all other virtual threads stop until one of them wakes. The flight recorder's event
 * VirtualThreadPinned does not show this. So use platform threads if many threads wait.
 */
package io.flyring;
