// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "recording.hpp"
#include "service_check.hpp"
#include "service_scenario.hpp"

namespace steps {

/// A service's scenario with its recording, and what it says must be true after each instruction.
class ServiceCase {
  public:
    /// `child` instead of the setup's, if not empty. `alone`: no other process lives, as in the files of the dead.
    ServiceCase(const Setup& setup, const ServiceScenario& scenario, const Bytes& base, bool alone = false,
                const std::string& child = "");

    const Recording& recording() const { return recorder_.recording(); }

    /// Copies the file's bytes after instruction k and checks them: the next server and the next clients go on.
    void check_copy(std::size_t k) const;
    /// Runs a child to instruction k, kills it there and checks what it left: the client that lives is told.
    void check_kill(std::size_t k) const;
    /// Stops a child at instruction k; it goes on. Stops one, and its server or client is evicted; then it goes on.
    /// False: nothing of this can happen there.
    bool check_stop(std::size_t k) const;

  private:
    std::vector<std::string> command() const;
    void check_left(const Bytes& left, const Bytes& begun) const;
    void go_on(std::size_t k) const;
    bool evict(std::size_t k) const;
    bool heirs_first(std::size_t k) const { return k % 2 == 0; }

    const Setup& setup_;
    const ServiceScenario& scenario_;
    const Bytes& base_;
    std::string child_;
    bool alone_;
    Recorder recorder_;
};

}  // namespace steps
