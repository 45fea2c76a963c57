// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Action;
import io.flyring.JournalConsumer;
import io.flyring.Message;
import io.flyring.NoFreeSlotException;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;

/** A named consumer of a journal in the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TortureConsumer extends TortureJournal {
    private static final long PATIENCE = 5_000_000_000L;

    /** When it was told to end, and another process had the name. */
    private long since;
    private boolean ended;
    private int got;

    TortureConsumer(Map<String, String> orders) throws IOException {
        super(orders);
    }

    /** A handler throws. */
    private static final class HandlerException extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    @Override
    void session() {
        use();
        beIdle();
    }

    private void use() {
        long asked = System.nanoTime();
        enter(Phase.SEATING, 2);
        JournalConsumer consumer;
        try {
            consumer = journal.consumer(orders.get("name"));
        } catch (NoFreeSlotException e) {
            if (stopped()) { // another process has the name, and reads the rest
                since = since == 0 ? asked : since;
                drained = asked - since > PATIENCE;
            }
            phase(Phase.WORKING);
            return;
        }
        linger(2);
        log(Entry.FOLLOWING, consumer.number(), consumer.lost(), System.nanoTime(), asked, -1, 0, 0);
        for (int polls = below(300); !full() && !drained && (polls > 0 || stopped()); polls--) {
            boolean last = stopped();
            int count = consume(consumer, last ? Duration.ZERO : someTimeout());
            log(Entry.POLLED, consumer.number(), consumer.lost());
            drained = last && count == 0;
            if (below(50) == 0) {
                consumer.sync();
            }
            rest(count);
        }
        leave(!drained && fault("forget", 1) ? consumer::forget : consumer::close);
    }

    /** Returns -1 if its handler ended the poll before a message was consumed. */
    private int consume(JournalConsumer consumer, Duration timeout) {
        // A size limit could take the message between the two.
        if (!orders.get("name").equals("slow") && below(8) == 0) {
            return pop(consumer);
        }
        ended = false;
        got = 0;
        enter(Phase.POLLING, 200);
        long begin = System.nanoTime();
        int count;
        try {
            count = consumer.controlledPoll(message -> actionFor(message, consumer), someLimit(), timeout);
        } catch (HandlerException e) {
            count = got;
        }
        if (count != got) {
            throw new IllegalStateException("a poll counts " + count + ", not " + got);
        }
        if (count == 0 && !ended) {
            noteIdle(begin, timeout);
        }
        return count == 0 && ended ? -1 : count;
    }

    private Action actionFor(Message message, JournalConsumer consumer) {
        int dice = below(100);
        if (dice < 2) {
            ended = true;
            return Action.ABORT;
        }
        handle(message, consumer.lost());
        got++;
        if (dice < 3) {
            throw new HandlerException();
        }
        if (dice < 6) {
            return Action.BREAK;
        }
        return dice < 10 ? Action.COMMIT : Action.CONTINUE;
    }

    private int pop(JournalConsumer consumer) {
        enter(Phase.POLLING, 200);
        Message seen = consumer.peek();
        if (seen == null) {
            return 0;
        }
        handle(seen, consumer.lost());
        long number = seen.number();
        Message popped = consumer.pop();
        if (popped == null) {
            throw new IllegalStateException("a message that peek returned is not there");
        }
        if (popped.number() != number) {
            handle(popped, consumer.lost());
        }
        return 1;
    }
}
