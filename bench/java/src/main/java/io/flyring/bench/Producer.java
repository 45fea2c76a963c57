// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** The role {@code stream}, sides a and a2. */
class Producer extends Role {
    /**
     * The messages of a block: so many that the loop over blocks is compiled separately; a block begins with the first
     * tag.
     */
    private static final int BLOCK = 1024 * Messages.TAGS;

    /** The one producer of this process. */
    private static Producer only;

    private final long firstTag;

    Producer(Setup setup, Contender contender) {
        super(setup, contender);
        firstTag = Messages.tag(setup.number(), 0);
        only = this;
    }

    /**
     * Values that are constants for HotSpot, as they are for the C++ compiler. Around rare calls in a loop, HotSpot
     * stores and reloads variables for each message, and how many differs from start to start: 120, 150 or 188 M/s.
     */
    private static final class Fixed {
        static final Contender TO = only.contender;
        static final long FIRST_TAG = only.firstTag;
    }

    @Override
    String slice(boolean timed) {
        long count = count(Long.MAX_VALUE);
        long start = System.nanoTime();
        send(count);
        ran(count, System.nanoTime() - start);
        contender.send(Messages.END);
        contender.flush();
        return "{\"kind\": \"mean\", \"count\": " + count + "}";
    }

    final void send(long count) {
        long sent = 0;
        for (; sent <= count - BLOCK; sent += BLOCK) {
            sendBlock();
        }
        for (; sent < count; sent++) {
            contender.send(firstTag + sent % Messages.TAGS);
        }
    }

    private static void sendBlock() {
        for (int i = 0; i < BLOCK; i++) {
            Fixed.TO.send(Fixed.FIRST_TAG + (i & Messages.TAGS - 1));
        }
    }
}
