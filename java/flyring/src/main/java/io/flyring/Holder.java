// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Who holds a publisher back.
 *
 * @param slot the subscriber slot.
 * @param name its name, empty if it has none.
 * @param pid process id of its owner, in the owner's pid namespace; for people to read.
 * @param live whether a live process owns the slot.
 * @param kept whether the slot waits for its owner to come back.
 * @param position up to where it has read, in bytes of the publisher's ring.
 */
public record Holder(int slot, String name, int pid, boolean live, boolean kept, long position) {
}
