// SPDX-License-Identifier: Apache-2.0
//
// Explores every state of a scenario, breadth first, so that the first counterexample is a shortest one.
//
// Of a state seen before only a 64-bit hash is kept (two of 10 million states share one with a probability of 3e-6); a
// trace is found by doing the actions again from the start.
#pragma once
#include <string>
#include <vector>

#include "world.hpp"

namespace model {

struct Result {
    size_t states = 0;
    double seconds = 0;
    std::string broken;  // the invariant, empty if all hold; "limit" if not everything was explored
    std::vector<std::string> trace;
};

Result explore(const Scenario& scenario, Site mutant, size_t limit);
State initial(const Scenario& scenario);

}  // namespace model
