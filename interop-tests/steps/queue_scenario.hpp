// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "file.hpp"
#include "scenario.hpp"

namespace steps {

/// One thing that a child does in a queue between its marks. The files of the dead have the same names.
struct QueueScenario {
    std::string name;
    std::string operation;
    std::uint32_t alignment = 64;
    /// The slot of the child's worker, which can be stopped and evicted; 0: it has none, or its operation ends it.
    std::uint32_t slot = 2;
    /// The first job that slot has in hand at the first mark was finished by then.
    bool finished = false;
    /// An eviction that comes in the middle may come before the child owns the slot.
    bool takes_slot = false;
    /// Another worker of the child has a job in hand as long as it lives.
    bool beside = false;
    /// It holds the lock of the returns ring's writer itself, on purpose.
    bool holds_returns = false;
    /// The producer's first job is committed by it.
    bool publishes = false;
    /// All jobs of the base are done.
    bool drained = false;
    /// A worker sleeps, and the child must wake it.
    bool wakes = false;
    /// While it is stopped the worker that lives adopts a job, from a higher slot.
    bool adopted_from = false;
    /// The slot of the worker that lives.
    std::uint32_t live = 4;
    bool python = false;
    /// It takes so long that only --full does it.
    bool only_full = false;
};

const std::vector<QueueScenario>& queue_scenarios();

/// The queue's file before an operation: two producers, of which the second never came; the first is in its second lap,
/// and left five jobs behind, or none.
Bytes make_queue_base(const std::string& path, std::uint32_t alignment, bool drained);

/// As faults(), of these scenarios.
const std::vector<Fault>& queue_faults();

}  // namespace steps
