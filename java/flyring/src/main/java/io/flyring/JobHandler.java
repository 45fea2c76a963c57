// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Gets the jobs of a poll. */
@FunctionalInterface
public interface JobHandler {
    /**
     * One job, in place: it is valid until this method returns, and so is its buffer; then it is done. A job whose
     * handler throws is released. The handler may call {@link Job#done()} or {@link Job#release()} itself.
     *
     * @param job the job; one object per worker, used again for each.
     */
    void onJob(Job job);
}
