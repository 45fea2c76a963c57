// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** {@code stream}, sides a and a2. */
final class Producer extends Role {
    /** So many messages that the loop over blocks is not compiled with it; each begins with the first tag. */
    private static final int BLOCK = 1024 * Messages.TAGS;

    private final long firstTag;

    Producer(Setup setup, Contender contender) {
        super(setup, contender);
        firstTag = Messages.tag(setup.number(), 0);
    }

    @Override
    String slice(boolean timed) {
        long count = count(Long.MAX_VALUE);
        long start = System.nanoTime();
        long sent = 0;
        for (; sent <= count - BLOCK; sent += BLOCK) {
            send(BLOCK);
        }
        send((int) (count - sent));
        ran(count, System.nanoTime() - start);
        contender.send(Messages.END);
        contender.flush();
        return "{\"kind\": \"mean\", \"count\": " + count + "}";
    }

    /** One plain loop. HotSpot would keep the variables of one around it, or of one of long, on the stack. */
    private void send(int count) {
        final Contender to = contender;
        final long first = firstTag;
        for (int i = 0; i < count; i++) {
            to.send(first + (i & Messages.TAGS - 1));
        }
    }
}
