// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.JournalReader;
import io.flyring.JournalStart;
import io.flyring.Message;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;

/** Reads a journal without a slot in the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TortureFollower extends TortureJournal {
    private static final int ELSEWHERE = 0;
    private static final int NEWEST = 1;
    private static final int AT_POSITION = 2;

    TortureFollower(Map<String, String> orders) throws IOException {
        super(orders);
    }

    /**
     * Where it begins.
     *
     * @param start the place.
     * @param wanted the number that it asks for; -1: none.
     * @param how ELSEWHERE, NEWEST or AT_POSITION.
     */
    private record Begin(JournalStart start, long wanted, int how) {
    }

    private Begin someBegin(boolean durable) {
        return switch (below(seenNumber < 0 || durable ? 2 : 5)) {
            case 0 -> new Begin(JournalStart.OLDEST, -1, ELSEWHERE);
            case 1 -> new Begin(JournalStart.NEWEST, -1, NEWEST);
            case 2 -> new Begin(JournalStart.position(seenPosition), seenNumber, AT_POSITION);
            case 3 -> new Begin(JournalStart.number(seenNumber), seenNumber, ELSEWHERE);
            default -> new Begin(JournalStart.time(seenTime), -1, ELSEWHERE);
        };
    }

    @Override
    void session() {
        boolean durable = !stopped() && below(4) == 0;
        Begin begin = someBegin(durable);
        long asked = System.nanoTime();
        enter(Phase.STARTING, 2);
        JournalReader reader = journal.reader(begin.start, durable, false);
        linger(2);
        log(Entry.FOLLOWING, reader.number(), reader.lost(), System.nanoTime(), asked, begin.wanted, begin.how,
            number(durable));
        for (int polls = below(300); !full() && !drained && (polls > 0 || stopped()); polls--) {
            boolean last = stopped(); // read before the poll: after it, nothing is appended
            if (last && durable) {
                break;
            }
            int count = read(reader, last ? Duration.ZERO : someTimeout());
            drained = last && count == 0;
            rest(count);
            if (!last && below(60) == 0) {
                begin = someBegin(durable);
                asked = System.nanoTime();
                enter(Phase.STARTING, 2);
                reader.seek(begin.start);
                log(Entry.FOLLOWING, reader.number(), reader.lost(), System.nanoTime(), asked, -1,
                    begin.how % AT_POSITION, number(durable));
            }
        }
        leave(reader::close);
    }

    private int read(JournalReader reader, Duration timeout) {
        enter(Phase.POLLING, 200);
        long begin = System.nanoTime();
        int count = 0;
        if (below(8) == 0) {
            Message one = reader.take(timeout);
            if (one != null) {
                handle(one, reader.lost());
                count = 1;
            }
        } else {
            count = reader.poll(each -> handle(each, reader.lost()), someLimit(), timeout);
        }
        if (count == 0) {
            noteIdle(begin, timeout);
        }
        return count;
    }
}
