// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.BatchSpinIdleStrategy;
import io.flyring.Claim;
import io.flyring.Job;
import io.flyring.JobHandler;
import io.flyring.Publisher;
import io.flyring.SpinIdleStrategy;
import io.flyring.Worker;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.NoOpIdleStrategy;

/**
 * A queue, its producer, and one or two workers. Option {@code limit}: the jobs of a poll. Option {@code by=take}: one
 * job a call, by take and done.
 */
final class FlyringQueue extends FlyringChannel {
    private final Publisher producer;
    private final Worker worker;
    private final boolean sleeps;
    private final boolean byTake;
    private final int limit;
    private final IdleStrategy idle;
    private final JobHandler handler = job -> receiver.onMessage(job.buffer(), 0);

    FlyringQueue(Setup setup, Messages messages) {
        super(needJobs(setup), messages);
        sleeps = setup.scenario == Setup.Scenario.JOBS;
        byTake = setup.option("by", "poll").equals("take");
        limit = setup.option("limit", 1);
        idle = sleeps ? NoOpIdleStrategy.INSTANCE : limit > 1 ? new BatchSpinIdleStrategy() : new SpinIdleStrategy();
        producer = setup.producer() ? channel.publisher() : null;
        worker = setup.producer() ? null : channel.worker();
    }

    private static Setup needJobs(Setup setup) {
        if (!setup.streaming()) {
            throw new IllegalArgumentException("cannot: flyring-queue: jobs go one way");
        }
        return setup;
    }

    @Override
    void send(long tag) {
        Claim claim = sleeps ? producer.claim(messages.size) : producer.tryClaim(messages.size);
        while (claim == null) {
            claim = producer.tryClaim(messages.size);
        }
        messages.write(claim.buffer(), 0, tag);
        claim.commit();
    }

    @Override
    void receive() {
        idle.idle(byTake ? take() : worker.poll(handler, limit));
    }

    private int take() {
        Job job = worker.take();
        if (job == null) {
            return 0;
        }
        receiver.onMessage(job.buffer(), 0);
        job.done();
        return 1;
    }

    @Override
    void receiveWithin(long ns) {
        worker.poll(handler, limit, ns);
    }
}
