// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "file.hpp"
#include "plan.hpp"

// What must be true of a queue after a process died in it (spec/queue.md).

namespace steps {

using JobId =
    std::pair<std::uint32_t, std::int64_t>;  // ring and position of the record in which it was published first

/// Where a job is.
struct Place {
    std::uint32_t slot;     // of the worker that has it in hand; 0: it lies on a ring, and no worker has taken it
    std::uint32_t ring;     // on which it lies
    std::int32_t attempts;  // of its record and its worker
};

struct QueueJob {
    std::int32_t type = 0;
    Bytes payload{};
    std::vector<Place> places{};  // more than one: it will be handed out more than once
};
using QueueJobs = std::map<JobId, QueueJob>;

/// All jobs that are in the file, by spec/queue.md 2 and 9 and nothing else. Throws Wrong if a word is not as that page
/// allows.
QueueJobs jobs_in(const Image& image);

/// What is still to be handed out, and how often it was.
class Ledger {
  public:
    struct Due {
        std::int32_t type = 0;
        Bytes payload{};
        int least = 1;
        int most = 1;
        int news = 1;  // how often it may say that no worker had it before
        int seen = 0;
        int seen_new = 0;
    };

    void add(JobId id, Due due) { dues_[id] = std::move(due); }
    std::map<JobId, Due>& dues() { return dues_; }
    /// Throws Wrong if it was never published, has other bytes, comes too often, or if its `repeat` is wrong.
    void hand_out(const flyring::Job& job);
    /// One more release of it.
    void release(const flyring::Job& job);
    bool is_complete() const;
    /// Throws Wrong if one is missing.
    void require_complete() const;

  private:
    std::map<JobId, Due> dues_;
};

/// A queue in the tracer, with the worker that stays alive while the child is killed.
struct QueueStage {
    /// Writes the file again from its first bytes. `live` is the slot of the worker that lives; 0: none does.
    QueueStage(const std::string& path, const Bytes& bytes, std::uint32_t live);

    /// All that it gets now.
    void work_off(Ledger& ledger);

    std::string path;
    flyring::Channel channel;
    std::optional<flyring::Worker> live;
};

/// After the death: the jobs of `ledger` are handed out as it says, live processes go on, slots can be taken again,
/// and at last the queue has ended. `before`: the file's bytes after the kill.
void check_queue(QueueStage& stage, Ledger ledger, const Bytes& before);

}  // namespace steps
