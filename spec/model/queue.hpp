// SPDX-License-Identifier: Apache-2.0
//
// The models of the queue (queue.cpp) and of its waiting (queue_wait.cpp), as model.cpp sees them.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace model {

struct QueueResult {
    const char* kind;  // scenario, mutant
    std::string name, broken, expected, because;
    size_t states;
    double seconds;
    std::vector<std::string> trace;
};
using Wanted = bool (*)(const std::string& name);
using Report = void (*)(const QueueResult&);

// Explores each scenario and mutant whose name is `wanted`. large: longer plans, more workers too.
void explore_queue(bool large, Wanted wanted, Report report);
void explore_queue_waiting(bool large, Wanted wanted, Report report);
// The rows of README.md.
void print_queue_table();
void print_queue_waiting_table();

}  // namespace model
