// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "file.hpp"
#include "scenario.hpp"

namespace steps {

/// One thing that a child does in a service between its marks. The files of the dead have the same names.
struct ServiceScenario {
    std::string name;
    std::string operation;
    std::uint32_t alignment = 64;
    bool least = false;  // at least once
    /// The slot that is taken from the child while it stands: 0 its server's, 1 its client's; -1: its operation ends
    /// it.
    int slot = 0;
    /// An eviction that comes in the middle may come before the child owns the slot.
    bool takes_slot = false;
    bool python = false;
    bool only_full = false;
};

const std::vector<ServiceScenario>& service_scenarios();

/// The service's file before an operation: a server and client 0 have talked until its rings were in their second lap,
/// and went.
Bytes make_service_base(const std::string& path, std::uint32_t alignment, bool least);

/// As faults(), of these scenarios.
const std::vector<Fault>& service_faults();

}  // namespace steps
