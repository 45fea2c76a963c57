// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Kind;
import io.flyring.LossySubscriber;
import io.flyring.Message;
import io.flyring.Sender;
import io.flyring.SlotLostException;
import io.flyring.Start;
import io.flyring.Subscriber;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;

/** A reliable, kept or lossy subscriber of the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TortureSubscriber extends TortureWorker {
    private int handled; // messages handled in this poll
    private long polled; // when the poll began, ns

    TortureSubscriber(Map<String, String> orders) throws IOException {
        super(orders);
    }

    @Override
    void session() {
        if (orders.get("role").equals("lossy")) {
            readLossy();
        } else {
            subscribe(orders.get("role").equals("kept"));
        }
    }

    private void subscribe(boolean kept) {
        int[] rings = {};
        if (!kept && channel.kind() != Kind.INBOX && below(3) == 0) {
            rings = IntStream.range(0, channel.publishers()).filter(ring -> below(2) == 0).toArray();
        }
        long asked = System.nanoTime();
        enter(orders.get("resuming").equals("1") ? Phase.RESUMING : Phase.JOINING, 2);
        Subscriber subscriber = channel.subscriber(kept ? orders.get("name") : "", kept,
            rings.length == 0 ? null : rings); // all
        linger(2);
        for (int ring : subscriber.rings()) {
            log(Entry.JOINED, ring, subscriber.slot(), subscriber.position(ring), subscriber.epoch(),
                number(subscriber.kept()), System.nanoTime(), asked);
        }
        orders.put("resuming", kept ? "1" : "0");
        try {
            read(subscriber);
        } catch (SlotLostException e) {
            log(Entry.SLOT_LOST, subscriber.slot(), handled, System.nanoTime(), polled);
            subscriber.close();
            orders.put("resuming", "0");
        }
        phase(Phase.WORKING);
    }

    private void read(Subscriber subscriber) {
        boolean drained = false;
        for (int polls = below(10) == 0 ? below(10) : below(500); !full() && !drained && (polls > 0 || stopped());
            polls--) {
            boolean last = stopped(); // read before the poll: a message that the poll does not find was never published
            phase(Phase.POLLING);
            handled = 0;
            polled = System.nanoTime();
            int count = 0;
            if (!subscriber.kept() && below(8) == 0) {
                Message message = subscriber.take();
                if (message != null) {
                    handle(message, Phase.HANDLING, 0);
                    count = 1;
                }
            } else {
                count = subscriber.poll(m -> handle(m, Phase.HANDLING, 0), below(4) == 0 ? 256 : 1 + below(8));
            }
            drained = last && count == 0;
            phase(Phase.IDLE);
            if (count == 0 || below(100) == 0) {
                nap(count == 0 ? 20_000 : below(3_000_000));
            }
        }
        boolean forget = subscriber.kept() && channel.kind() != Kind.INBOX && !drained && below(4) == 0;
        long leaves = System.nanoTime();
        enter(forget ? Phase.FORGETTING : Phase.LEAVING, 2);
        if (forget) {
            subscriber.forget();
            orders.put("resuming", "0");
        } else {
            subscriber.close();
        }
        linger(2);
        log(Entry.LEFT, number(forget), number(drained), 0, leaves);
    }

    private void readLossy() {
        long asked = System.nanoTime();
        enter(Phase.STARTING, 2);
        LossySubscriber subscriber = channel.lossySubscriber(below(2) == 0 ? Start.OLDEST : Start.NOW);
        linger(2);
        for (int ring : subscriber.rings()) {
            log(Entry.JOINED, ring, 0, subscriber.position(ring), 0, 0, System.nanoTime(), asked);
        }
        boolean drained = false;
        Set<Integer> began = new HashSet<>();
        for (int polls = below(500); !full() && !drained && (polls > 0 || stopped()); polls--) {
            boolean last = stopped();
            phase(Phase.READING);
            drained = subscriber.poll(m -> {
                if (began.add(m.ring())) {
                    log(Entry.FIRST, m.ring(), subscriber.lostBytes(m.ring()));
                }
                handle(m, Phase.READING, subscriber.lostMessages(m.ring()) + number(fault("miscount")));
            }, 1 + below(20)) == 0 && last;
            phase(Phase.IDLE);
            if (below(4) == 0) {
                nap(below(2_000_000));
            }
        }
        for (int ring : subscriber.rings()) {
            log(Entry.LOST, ring, subscriber.lostMessages(ring), subscriber.position(ring), subscriber.lostBytes(ring));
        }
        subscriber.close();
        log(Entry.LEFT, 0, number(drained), 0, System.nanoTime());
        phase(Phase.WORKING);
    }

    private void handle(Message message, Phase phase, long lost) {
        enter(phase, 200);
        handled++;
        byte[] bytes = message.toByteArray();
        ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        boolean whole = bytes.length >= HEADER && words.getInt(4) == bytes.length
            && words.getInt(0) == checksum(bytes);
        Sender sender = message.sender();
        long state = 0;
        if (!whole) {
            state = 1;
        } else if (sender.epoch() == 0) {
            state = 3;
        } else if (sender.epoch() != words.getLong(16) || publisherNumber(sender.name()) != words.getLong(8)) {
            state = 2;
        }
        if (!fault("drop")) {
            log(Entry.MESSAGE, message.ring(), message.position(), whole ? words.getLong(16) : 0,
                whole ? words.getLong(24) : 0, whole ? words.getLong(8) : 0, state, lost);
        }
        if (phase == Phase.HANDLING) {
            count(1);
        }
        phase(phase == Phase.HANDLING ? Phase.POLLING : phase);
    }
}
