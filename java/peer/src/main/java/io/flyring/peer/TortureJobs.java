// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Action;
import io.flyring.Job;
import io.flyring.Sender;
import io.flyring.SlotLostException;
import io.flyring.Worker;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Map;

/** Takes the jobs of a queue in the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TortureJobs extends TortureWorker {
    private static final long LONGEST = 400_000_000; // ns: a time-out longer than the delay that a death may cause
    private static final long[] TIMEOUTS = {0, 2_000_000, 20_000_000, LONGEST};
    private static final long SHORTEST_IDLE = 20_000_000; // ns: the shortest idle time that gets an entry in the log
    private static final int ATTEMPTS = 4; // of the entry of a job

    private int handed; // jobs handed out in this poll
    private long begun; // when the poll began, ns
    private boolean unfinished; // the last job is neither done nor released yet
    private boolean returned; // the last handler has returned: unless something was thrown since, its job is done
    private boolean silent; // the job is not logged
    private boolean breaks; // this poll ends early
    private long[] last; // the last job, as it is logged

    TortureJobs(Map<String, String> orders) throws IOException {
        super(orders);
    }

    /** The exception that a handler throws. */
    private static final class Broken extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    @Override
    void session() {
        long asked = System.nanoTime();
        enter(Phase.SEATING, 2);
        Worker worker = channel.worker(orders.get("name"), Duration.ofSeconds(5));
        linger(2);
        log(Entry.SEATED, worker.slot(), worker.epoch(), System.nanoTime(), asked);
        unfinished = false;
        try {
            work(worker);
        } catch (SlotLostException e) {
            log(Entry.SLOT_LOST, worker.slot(), number(unfinished && !silent), System.nanoTime(), begun,
                number(unfinished && returned));
            worker.close();
        }
        phase(Phase.WORKING);
    }

    private void work(Worker worker) {
        boolean drained = false;
        boolean leaves = false; // whether it leaves with the job in hand
        for (int polls = below(10) == 0 ? below(10) : below(300);
            !full() && !drained && !leaves && (polls > 0 || stopped()); polls--) {
            boolean told = stopped(); // read before the poll: a job that the poll does not find was never there
            long timeout = told ? LONGEST : TIMEOUTS[below(TIMEOUTS.length)];
            phase(Phase.FETCHING);
            handed = 0;
            begun = System.nanoTime();
            if (below(3) == 0) {
                leaves = take(worker, timeout);
            } else {
                poll(worker, timeout);
            }
            if (handed == 0) {
                idle();
            }
            drained = told && handed == 0;
            phase(Phase.IDLE);
            if (timeout == 0 && handed == 0 || below(100) == 0) {
                nap(below(2_000_000));
            }
        }
        long begins = System.nanoTime();
        enter(Phase.LEAVING, 2);
        worker.close();
        linger(2);
        log(Entry.LEFT, 0, number(drained), 0, begins);
    }

    private void idle() {
        if (fault("deaf", 1)) {
            nap(600_000_000);
        }
        long end = System.nanoTime();
        if (end - begun > SHORTEST_IDLE) {
            log(Entry.IDLE, begun, end);
        }
    }

    /** Takes a job; true if the session ends with the job in hand. */
    private boolean take(Worker worker, long timeout) {
        Job job = worker.take(timeout);
        if (job == null) {
            return false;
        }
        begin(job);
        int dice = below(32);
        if (dice == 0) {
            giveBack();
            return true;
        }
        if (dice < 5) {
            release(job);
        } else {
            done(job);
        }
        return false;
    }

    private void poll(Worker worker, long timeout) {
        int limit = below(2) == 0 ? 1 : 1 + below(8);
        breaks = below(8) == 0;
        try {
            worker.controlledPoll(this::handle, limit, timeout);
        } catch (Broken e) {
            return;
        }
        wentOn();
    }

    private Action handle(Job job) {
        wentOn();
        begin(job);
        int dice = below(32);
        if (dice < 2) {
            release(job);
        } else if (dice == 2) {
            giveBack();
            throw new Broken();
        } else if (dice == 3) {
            giveBack();
            return Action.ABORT;
        } else if (dice == 4) {
            done(job);
        } else {
            enter(Phase.FINISHING, 50);
            returned = true;
        }
        return breaks ? Action.BREAK : Action.CONTINUE;
    }

    private void begin(Job job) {
        phase(Phase.HANDLING);
        handed++;
        byte[] bytes = job.toByteArray();
        ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        boolean whole = bytes.length >= HEADER && words.getInt(4) == bytes.length
            && words.getInt(0) == checksum(bytes);
        Sender sender = job.sender();
        long state = 0;
        if (!whole) {
            state = 1;
        } else if (sender.epoch() == 0) {
            state = 3;
        } else if (sender.epoch() != words.getLong(16) || publisherNumber(sender.name()) != words.getLong(8)) {
            state = 2;
        }
        linger(30); // the job is read, but not done
        silent = fault("drop");
        last = new long[] {job.ring(), job.position(), whole ? words.getLong(16) : 0, whole ? words.getLong(24) : 0,
            job.attempts(), state, System.nanoTime()};
        note(Entry.JOB, last);
        unfinished = true;
        returned = false;
        linger(30);
    }

    private void note(Entry kind, long... values) {
        if (!silent) {
            log(kind, values);
        }
    }

    private void done(Job job) {
        enter(Phase.FINISHING, 50);
        job.done();
        linger(50);
        wentOn();
    }

    /** Logs that the last job is done, if its handler returned. */
    private void wentOn() {
        if (!unfinished) {
            return;
        }
        unfinished = false;
        note(Entry.DONE, System.nanoTime());
        boolean twice = fault("twice");
        if (twice || fault("forget")) {
            last[ATTEMPTS] = twice ? last[ATTEMPTS] + 1 : 0;
            last[last.length - 1] = System.nanoTime();
            note(Entry.JOB, last);
            note(Entry.DONE, System.nanoTime());
        }
    }

    private void giveBack() {
        note(Entry.GIVING, System.nanoTime());
        unfinished = false;
        enter(Phase.GIVING_BACK, 20);
    }

    private void release(Job job) {
        giveBack();
        boolean given = job.release();
        linger(20);
        note(Entry.GIVEN, number(given), System.nanoTime());
    }
}
