// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "recording.hpp"

namespace steps {

/// Writes `stem`.base, the file that the child opens, `stem`.ring, the file at the first mark, and `stem`.stores, what
/// each store changed. README.md has the format.
void write_states(const std::string& stem, const Recording& recording);
/// Of a journal: `stem`.states, a line for the files at the first mark and one for each store that changed them.
void write_journal_states(const std::string& stem, const Recording& recording);

}  // namespace steps
