// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "queue_check.hpp"
#include "queue_scenario.hpp"
#include "recording.hpp"

namespace steps {

/// A queue's scenario with its recording, and what it says must be true after each instruction.
class QueueCase {
  public:
    /// `child` instead of the setup's, if not empty. `alone`: no other process lives, as in the files of the dead.
    QueueCase(const Setup& setup, const QueueScenario& scenario, const Bytes& base, bool alone = false,
              const std::string& child = "");

    const Recording& recording() const { return recorder_.recording(); }

    /// Copies the file's bytes after instruction k and checks them: the next owners of all slots go on.
    void check_copy(std::size_t k) const;
    /// Runs a child to instruction k, kills it there and checks what it left: the worker that lives goes on.
    void check_kill(std::size_t k) const;
    /// Stops a child at instruction k. Others take all jobs, or it is evicted and its job adopted and done; then it
    /// goes on. False: nothing of this can happen there.
    bool check_stop(std::size_t k) const;

  private:
    std::vector<std::string> command() const;
    void say_disturbed() const;
    /// What is to be handed out after the death at k.
    Ledger ledger(std::size_t k) const;
    void overtake(std::size_t k) const;
    bool evict(std::size_t k) const;
    void hand_over(std::size_t k) const;
    void wake(std::size_t k) const;
    bool is_committed(std::size_t k) const;
    /// How often the child has finished the job of a type.
    int finished(std::int32_t type) const;
    std::uint64_t lock_of(std::uint32_t slot) const;

    const Setup& setup_;
    const QueueScenario& scenario_;
    const Bytes& base_;
    std::string child_;
    std::uint32_t live_;
    Recorder recorder_;
    QueueJobs jobs_;  // at the first mark
    JobId finished_{0, -1};
    std::int64_t published_ = 0;  // of ring 0, at the first mark
};

}  // namespace steps
