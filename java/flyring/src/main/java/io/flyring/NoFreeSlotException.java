// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.ArrayList;
import java.util.List;

/** Live processes own all slots that could be taken. Code {@code no-free-slot}. */
public final class NoFreeSlotException extends FlyringException {
    private static final long serialVersionUID = 1L;
    private static final int MOST = 8;

    /** {@code publisher} or {@code subscriber}. */
    private final String kind;

    /** The number of slots of that kind in the channel. */
    private final int slots;

    /** The owners of the slots. */
    private final transient List<Owner> owners;

    /**
     * The owner of a slot.
     *
     * @param slot the slot, from 0.
     * @param name the slot's name, empty if it has none.
     * @param pid process id of the owner, in the owner's pid namespace; for people.
     */
    public record Owner(int slot, String name, int pid) {
    }

    NoFreeSlotException(String kind, int slots, List<Owner> owners, String message) {
        super("no-free-slot", message);
        this.kind = kind;
        this.slots = slots;
        this.owners = List.copyOf(owners);
    }

    static String text(String path, String kind, int slots, List<Owner> owners, List<String> kept, boolean oneName) {
        if (oneName && owners.size() == 1) {
            Owner owner = owners.get(0);
            return path + ": " + kind + " slot " + owner.slot + " ('" + owner.name + "') is owned by pid " + owner.pid
                + ". Close it, or take another name.";
        }
        List<String> parts = new ArrayList<>();
        for (Owner owner : owners.subList(0, Math.min(MOST, owners.size()))) {
            parts.add(owner.slot + (owner.name.isEmpty() ? "" : " by '" + owner.name + "'") + " (pid " + owner.pid
                + ")");
        }
        if (owners.size() > MOST) {
            parts.add("and " + (owners.size() - MOST) + " more");
        }
        StringBuilder text = new StringBuilder(path).append(": ");
        if (owners.size() == slots) {
            text.append("all ").append(slots).append(' ').append(kind).append(" slots are owned");
        } else {
            text.append("none of ").append(slots).append(' ').append(kind).append(" slots is free");
        }
        if (!parts.isEmpty()) {
            text.append(": ").append(String.join(", ", parts));
        }
        kept.forEach(one -> text.append("; ").append(one));
        return text.append(". Close one, or create the channel with more.").toString();
    }

    /**
     * The kind of slot.
     *
     * @return {@code publisher} or {@code subscriber}.
     */
    public String kind() {
        return kind;
    }

    /**
     * The number of slots of that kind in the channel.
     *
     * @return the number.
     */
    public int slots() {
        return slots;
    }

    /**
     * The owners of the slots that could have been taken.
     *
     * @return the owners, in ascending order of their slots.
     */
    public List<Owner> owners() {
        return owners;
    }
}
