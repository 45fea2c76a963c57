// SPDX-License-Identifier: Apache-2.0
/**
 * Flyring for Java: flyweight messages between processes of one machine through memory-mapped files.
 *
 * <p>The way in is {@link io.flyring.Channel}. Bytes and orderings are those of spec/channel.md, the shape of the
 * interface is that of spec/api.md. No JVM flag is needed on 17 and newer.
 *
 * <p>Methods with a time-out sleep in the kernel; a garbage collection does not wait for them. They may be called from
 * virtual threads. One that sleeps keeps its carrier thread: if as many sleep as there are carriers, which is the
 * number of cores, all other virtual threads stand still until one of them wakes, and the flight recorder's event
 * VirtualThreadPinned does not say so. So let platform threads wait where there are many.
 */
package io.flyring;
