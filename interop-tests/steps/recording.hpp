// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "file.hpp"
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
    std::vector<std::size_t> page;         // by k: index into `pages`
    std::vector<Bytes> pages;              // what the child says in PATH.done, whenever it had changed
    std::vector<std::size_t> kill_points;  // the k where a kill can make a difference; see README.md

    std::size_t executed() const { return next.size() - 1; }
    /// The places of the instructions after which a kill can make a difference: the same in every run.
    std::vector<std::uint64_t> path() const;
    bool changed(std::size_t k) const { return state[k] != state[k - 1]; }
    const Bytes& bytes(std::size_t k) const { return states[state[k]]; }
    const Bytes& done(std::size_t k) const { return pages[page[k]]; }
    std::size_t distinct() const;
};

/// Records a child twice, which must do the same, and brings others to the same instructions.
class Recorder {
  public:
    /// Writes the file again from its first bytes. The result is valid as long as the child runs.
    using Stage = std::function<std::shared_ptr<void>()>;

    Recorder(const Setup& setup, std::vector<std::string> command, bool python, const Stage& stage);

    const Recording& recording() const { return recording_; }
    const std::vector<std::string>& command() const { return command_; }
    /// Brings a child from its first mark to instruction k.
    void reach(Tracee& child, std::size_t k) const;
    /// The page PATH.done, empty.
    void clear_page() const;
    Bytes page() const { return read_file(setup_.path + ".done"); }

    static constexpr std::size_t page_length = 4096;

  private:
    void record(const Stage& stage);
    void find_anchors();

    const Setup& setup_;
    std::vector<std::string> command_;
    bool python_;
    Range core_;  // the library's instructions; what the interpreter does in between may differ from run to run
    Recording recording_;
    std::vector<std::size_t> visits_;  // by k: how often recording_.next[k] was next up to there
    std::vector<std::size_t> anchor_;  // by k: the j <= k from which to step, when run to by a breakpoint
};

/// Where the first difference of two files is.
std::string difference(const Bytes& expected, const Bytes& found);
/// Whether a process holds the lock on a byte of the file.
bool locked(const std::string& path, std::uint64_t byte);

}  // namespace steps
