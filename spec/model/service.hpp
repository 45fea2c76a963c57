// SPDX-License-Identifier: Apache-2.0
//
// The model of the service (service.cpp), as model.cpp sees it.
#pragma once
#include "queue.hpp"

namespace model {

// Explores each scenario and mutant whose name is `wanted`. large: longer plans, more kills.
void explore_service(bool large, Wanted wanted, Report report);
// The rows of README.md.
void print_service_table();

}  // namespace model
