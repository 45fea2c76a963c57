// SPDX-License-Identifier: Apache-2.0
//
// The model of the journal (journal.cpp), as model.cpp sees it.
#pragma once
#include "queue.hpp"

namespace model {

// Runs each scenario and mutant whose name is `wanted`. large: ten times as many runs.
void explore_journal(bool large, Wanted wanted, Report report);
// The rows of README.md.
void print_journal_table();

}  // namespace model
