// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * The subscriber that holds a publisher back.
 *
 * @param slot the subscriber slot.
 * @param name the slot's name, empty if it has none.
 * @param pid process id of the slot's owner, in the owner's pid namespace; for people.
 * @param live whether a live process owns the slot.
 * @param kept whether publishers wait for the slot's next owner when its owner goes.
 * @param position the position up to which the slot has read the publisher's ring, in bytes.
 */
public record Holder(int slot, String name, int pid, boolean live, boolean kept, long position) {
}
