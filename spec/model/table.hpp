// SPDX-License-Identifier: Apache-2.0
//
// The models of the table (table.cpp) and of its recovery after a power loss (table_pages.cpp), as model.cpp sees them.
#pragma once
#include "queue.hpp"

namespace model {

// Explores each scenario and mutant whose name is `wanted`. large: longer plans, more kills.
void explore_table(bool large, Wanted wanted, Report report);
void explore_table_pages(bool large, Wanted wanted, Report report);
// The rows of README.md.
void print_table_table();
void print_table_pages_table();

}  // namespace model
