// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Receives the jobs of a controlled poll. */
@FunctionalInterface
public interface ControlledJobHandler {
    /**
     * Handles one job in place: the job and its buffer are valid until this method returns. If this method throws, the
     * job is released.
     *
     * @param job the job; each worker has one object and uses it again for each job.
     * @return CONTINUE or COMMIT: the job is done. BREAK: the job is done, and the poll ends. ABORT: the job is
     *     released, and the poll ends. With null the job is done, and the poll throws {@link InvalidArgumentException}.
     */
    Action onJob(Job job);
}
