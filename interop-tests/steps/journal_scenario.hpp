// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "file.hpp"
#include "recording.hpp"
#include "scenario.hpp"

namespace steps {

/// One thing that a child does to a journal between its marks. The files of the dead have the same names, without
/// "journal-".
struct JournalScenario {
    std::string name;
    std::string operation;
    std::int64_t segment_size = 65536;
    bool sync_each = false;
    bool trims = false;       // removes segments; by the option, if it is a push
    bool power_loss = false;  // the files are of another boot: they are recovered
    bool whole = false;       // the writer had closed, so all was durable
    bool appends = false;     // what it appends is there at the end
    bool python = false;
    bool only_full = false;
    /// Not empty: begins with what a child left that was killed in this one, at `base_at`.
    std::string base_of;
    /// The last store before the kill: the one before the first length, that length, the first of `published` or the
    /// last into a segment.
    enum class At { before_commit, commit, published, segment };
    At base_at = At::before_commit;
};

const std::vector<JournalScenario>& journal_scenarios();
const std::vector<Fault>& journal_faults();

/// The files before an operation: six messages, two consumers; the writer's process was killed.
Bytes make_journal_base(const std::string& path, const JournalScenario& scenario);

/// A message: number -> (position, payload).
using Messages = std::map<std::int64_t, std::pair<std::int64_t, std::string>>;

/// A scenario with its base, its recording, and what they say must be true after each instruction.
class JournalCase {
  public:
    /// `child` instead of the setup's, if not empty.
    JournalCase(const Setup& setup, const JournalScenario& scenario, const Bytes& base, const std::string& child = "");

    const Recording& recording() const { return recorder_->recording(); }
    /// The files as they are at a store of the recording.
    const Bytes& state(JournalScenario::At at) const;
    /// Checks a copy of the files as they are after instruction k.
    void check_copy(std::size_t k);
    /// Runs a child to instruction k, kills it there and checks what it left.
    void check_kill(std::size_t k) const;

  private:
    std::vector<std::string> command() const;
    Messages found() const;
    void check_left() const;
    void check_heir() const;

    const Setup& setup_;
    const JournalScenario& scenario_;
    const Bytes& base_;
    std::string child_;
    std::optional<Recorder> recorder_;
    Messages before_;
    Messages after_;
    Messages seen_;  // what readers have seen at the earlier instructions
};

/// Checks the files of a journal by the page alone, while no process changes it.
void check_journal(const std::string& path);
/// Whether the gate of each registered consumer is proven by a pair.
void check_gates(const std::string& path);

}  // namespace steps
