// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "file.hpp"
#include "recording.hpp"
#include "scenario.hpp"

namespace steps {

/// What a table's keys have: key -> (value, version).
using Contents = std::map<std::int64_t, std::pair<std::string, std::int64_t>>;

/// One thing that a child does to a table between its marks. The files of the dead have the same names, without
/// "table-".
struct TableScenario {
    std::string name;
    std::string operation;
    bool checked = false;
    bool closed = false;      // the table was closed, synced
    bool torn = false;        // another boot, with a value that is torn: it is recovered
    bool one_by_one = false;  // more than one change: each key has its old state or its new one
    bool grows = false;       // another file gets the name
    bool python = false;
    /// Not empty: begins with what a child left that was killed in the middle of this one.
    std::string base_of;
};

const std::vector<TableScenario>& table_scenarios();
const std::vector<Fault>& table_faults();

/// The table before an operation: keys 1 to 6, and cells of removed ones.
Bytes make_table_base(const std::string& path, const TableScenario& scenario);

/// A scenario with its recording, and what must be true after each instruction.
class TableCase {
  public:
    TableCase(const Setup& setup, const TableScenario& scenario, const Bytes& base, const std::string& child = "");

    /// Not of a scenario that grows.
    const Recording& recording() const { return recorder_->recording(); }
    /// Where to kill a child that grows the table: its way differs a little from run to run, and is not recorded.
    std::set<std::size_t> some_points(std::mt19937_64& random, std::size_t count) const;
    std::size_t instructions() const { return instructions_; }
    /// Checks a copy of the file as it is after instruction k.
    void check_copy(std::size_t k);
    /// Runs a child to instruction k, kills it there and checks what it left.
    void check_kill(std::size_t k) const;

  private:
    std::vector<std::string> command() const;
    void check_left() const;

    const Setup& setup_;
    const TableScenario& scenario_;
    const Bytes& base_;
    std::string child_;
    std::optional<Recorder> recorder_;
    std::size_t instructions_ = 0;
    Contents before_;
    Contents after_;
    Contents seen_;  // what readers have seen at the earlier instructions
};

}  // namespace steps
