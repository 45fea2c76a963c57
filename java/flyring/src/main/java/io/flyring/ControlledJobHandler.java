// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Gets the jobs of a controlled poll. */
@FunctionalInterface
public interface ControlledJobHandler {
    /**
     * One job, in place: it is valid until this method returns, and so is its buffer. A job whose handler throws is
     * released.
     *
     * @param job the job; one object per worker, used again for each.
     * @return what becomes of it and of the poll: CONTINUE and COMMIT: it is done; BREAK: it is done, and the poll
     *     ends; ABORT: it is released, and the poll ends. Null is {@link InvalidArgumentException}, and the job
     *     released.
     */
    Action onJob(Job job);
}
