// SPDX-License-Identifier: Apache-2.0
//
// The model of waiting (wait.cpp), as model.cpp sees it.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace model {

struct WaitingResult {
    const char* kind;  // scenario, mutant
    std::string name, broken, expected;
    size_t states;
};
// Explores each scenario and mutant whose name is `wanted`.
std::vector<WaitingResult> explore_waiting(bool (*wanted)(const std::string& name));
// The rows of README.md.
void print_waiting_table();

}  // namespace model
