// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scenario.hpp"
#include "tracee.hpp"

namespace steps {

/// Where the programs are, and where files go.
struct Setup {
    std::string child;
    std::string python;
    std::string script;
    std::string folder;  // of the faulty children: the child's own
    std::string path;    // of the channel
};

/// One run of a child from mark to mark, an instruction at a time. State k: when k instructions were executed.
struct Recording {
    Bytes opened;                          // the file that the child opened
    std::vector<std::uint64_t> next;       // by k: the place of the next instruction
    std::vector<std::size_t> state;        // by k: index into `states`
    std::vector<Bytes> states;             // the file whenever its bytes had changed; 0: at the first mark
    std::vector<Counts> done;              // by k: what a polling child's handler has seen
    std::vector<std::size_t> kill_points;  // the k where a kill can make a difference; see README.md

    std::size_t executed() const { return next.size() - 1; }
    /// The places of the instructions after which a kill can make a difference: the same in every run.
    std::vector<std::uint64_t> path() const;
    bool changed(std::size_t k) const { return state[k] != state[k - 1]; }
    const Bytes& bytes(std::size_t k) const { return states[state[k]]; }
    std::size_t distinct() const;
};

/// A scenario with its base, its recording, and what they say must be true after each instruction.
class Case {
  public:
    /// `child` instead of the setup's, if not empty.
    Case(const Setup& setup, const Scenario& scenario, const Situation& base, const std::string& child = "");

    const Recording& recording() const { return recording_; }
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
    void record();
    void find_anchors();
    void reach(Tracee& child, std::size_t k) const;
    /// Messages reachable in ring 0 from where it was published at the first mark.
    std::int64_t committed(const Bytes& bytes) const;
    Verdict verdict(const Bytes& bytes, Counts done) const;
    std::unique_ptr<flyring::Publisher> contend(Stage& stage, Tracee& child);
    Counts done_now() const;

    const Setup& setup_;
    const Scenario& scenario_;
    const Situation& base_;
    std::string child_;
    Range core_;  // the library's instructions; what the interpreter does in between may differ from run to run
    Recording recording_;
    std::vector<std::size_t> visits_;  // by k: how often recording_.next[k] was next up to there
    std::vector<std::size_t> anchor_;  // by k: the j <= k from which to step, when run to by a breakpoint
    Streams streams_;                  // committed at the first mark
    std::int64_t published_ = 0;       // of ring 0, at the first mark
    std::int64_t committed_ = 0;       // committed(), at the first mark
    std::size_t contender_first_ = 0;
    std::size_t contender_waited_ = 0;
};

}  // namespace steps
