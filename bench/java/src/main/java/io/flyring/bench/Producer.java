// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** {@code stream}, sides a and a2. */
final class Producer extends Role {
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
        for (; sent <= count - CHUNK; sent += CHUNK) {
            send(CHUNK);
        }
        send((int) (count - sent));
        ran(count, System.nanoTime() - start);
        contender.send(Messages.END);
        contender.flush();
        return "{\"kind\": \"mean\", \"count\": " + count + "}";
    }

    /** CHUNK is the number of tags: each begins with the first. */
    private void send(int count) {
        for (int i = 0; i < count; i++) {
            contender.send(firstTag + i);
        }
    }
}
