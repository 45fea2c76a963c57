// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Receives the jobs of a poll. */
@FunctionalInterface
public interface JobHandler {
    /**
     * Handles one job in place: the job and its buffer are valid until this method returns. Then the job is done; if
     * this method throws, the job is released. This method may also call {@link Job#done()} or {@link Job#release()}
     * itself.
     *
     * @param job the job; each worker has one object and uses it again for each job.
     */
    void onJob(Job job);
}
