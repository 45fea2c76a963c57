// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recording.hpp"
#include "scenario.hpp"

namespace steps {

/// A scenario with its base, its recording, and what they say must be true after each instruction.
class Case {
  public:
    /// `child` instead of the setup's, if not empty.
    Case(const Setup& setup, const Scenario& scenario, const Situation& base, const std::string& child = "");

    const Recording& recording() const { return recorder_.recording(); }
    const Scenario& scenario() const { return scenario_; }
    /// The file as it is after k instructions, and what is committed in it: another scenario's base.
    Situation situation(std::size_t k) const;
    /// The k that the scenario's `base_at` means.
    std::size_t find(Scenario::At at) const;
    /// Throws unless what is committed comes into being at one store, and is there at the end.
    void check_commit_point() const;

    /// Copies the file's bytes after instruction k and checks them.
    void check_copy(std::size_t k) const;
    /// Runs a child to instruction k, kills it there and checks what it left.
    void check_kill(std::size_t k);

    std::size_t contender_first() const { return contender_first_; }
    std::size_t contender_waited() const { return contender_waited_; }

  private:
    std::vector<std::string> command() const;
    static Counts counts_of(const Bytes& page);
    /// Messages reachable in ring 0 from where it was published at the first mark.
    std::int64_t committed(const Bytes& bytes) const;
    Verdict verdict(const Bytes& bytes, Counts done) const;
    std::unique_ptr<flyring::Publisher> contend(Stage& stage, Tracee& child);

    const Setup& setup_;
    const Scenario& scenario_;
    const Situation& base_;
    std::string child_;
    Recorder recorder_;
    std::vector<Counts> done_;    // by k: what a polling child's handler has seen
    Streams streams_;             // committed at the first mark
    std::int64_t published_ = 0;  // of ring 0, at the first mark
    std::int64_t committed_ = 0;  // committed(), at the first mark
    std::size_t contender_first_ = 0;
    std::size_t contender_waited_ = 0;
};

}  // namespace steps
