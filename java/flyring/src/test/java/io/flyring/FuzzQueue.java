// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Does with a queue of any bytes what its workers can do, and what happens to workers. */
final class FuzzQueue extends FuzzKind {
    private final Worker[] workers = new Worker[2];
    private Job job;

    FuzzQueue(FuzzDrive drive) {
        super(drive);
    }

    @Override
    void step(boolean full) {
        int which = random.nextInt(workers.length);
        Worker worker = workers[which];
        if (worker == null) {
            if (!full) {
                attempt(() -> {
                    workers[which] = channel.worker(random.nextBoolean() ? "" : "w");
                    count("worker");
                });
            }
            return;
        }
        switch (random.nextInt(16)) {
            case 0 -> end(which);
            case 1 -> attempt(() -> count("ended " + worker.ended()));
            case 2 -> attempt(() -> channel.evict(worker.slot()));
            case 3 -> attempt(worker::drain);
            case 4, 5, 6, 7, 8 -> take(worker);
            case 9, 10 -> attempt(() -> worker.controlledPoll(each -> {
                handle(each);
                return random.nextInt(8) == 0 ? null : Action.values()[random.nextInt(Action.values().length)];
            }, random.nextInt(20)));
            default -> attempt(() -> worker.poll(this::handle, random.nextInt(20)));
        }
    }

    /** Ends a worker by a close, or as the death of its process does. */
    private void end(int which) {
        Worker worker = workers[which];
        workers[which] = null;
        if (random.nextBoolean()) {
            attempt(worker::close);
        } else {
            worker.seat().abandon();
            count("worker died");
        }
    }

    private void take(Worker worker) {
        attempt(() -> {
            job = null;
            job = worker.take();
        });
        if (job == null) {
            return;
        }
        attempt(() -> look(job));
        switch (random.nextInt(5)) {
            case 0 -> attempt(() -> count(job.release() ? "released" : "not released"));
            case 1 -> attempt(job::close);
            case 2 -> file.scribble(random); // the job stays open
            default -> attempt(() -> {
                job.done();
                count("done");
            });
        }
    }

    private void handle(Job each) {
        look(each);
        switch (random.nextInt(32)) {
            case 0 -> throw new FuzzDrive.Thrown();
            case 1 -> file.scribble(random);
            case 2 -> each.release();
            case 3 -> each.done();
            default -> { }
        }
    }

    private void look(Job each) {
        count(each.repeat() ? "repeated job" : "job");
        int length = each.length();
        if (length < 0 || length > channel.capacity() - Layout.RECORD_HEADER_LENGTH || each.type() < 1
            || each.attempts() < 0 || each.ring() < 0 || each.ring() >= channel.producers()
            || !Recovery.isPosition(each.position(), channel.alignment()) || each.sender() == null
            || each.toByteArray().length != length) {
            throw new IllegalStateException("a job of type " + each.type() + " with " + length + " bytes, ring "
                + each.ring() + " position " + each.position() + " attempts " + each.attempts());
        }
        FuzzDrive.read(each.buffer(), length);
    }

    @Override
    void end() {
        // The channel closes its workers.
    }
}
