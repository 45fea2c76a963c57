// SPDX-License-Identifier: Apache-2.0
//
// Explores every state of a scenario, breadth first, so that the first counterexample is a shortest one.
//
// Only a 64-bit hash is kept of each state (among 10 million states two share a hash with a probability of 3e-6). A
// trace is found by doing the actions again from the start.
#pragma once
#include <string>
#include <vector>

#include "world.hpp"

namespace model {

struct Result {
    size_t states = 0;
    double seconds = 0;
    std::string broken;  // the invariant, empty if all hold; "limit" if the exploration was cut off
    std::vector<std::string> trace;
};

Result explore(const Scenario& scenario, Site mutant, size_t limit);
State initial(const Scenario& scenario);

}  // namespace model
