// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace steps {

/// Addresses [begin, end).
struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool contains(std::uint64_t address) const { return begin <= address && address < end; }
};

/// A program under ptrace, stopped. It marks where it is by SIGTRAPs of its own (int3, or a signal to itself).
/// Everything of it is at the same addresses in every run.
class Tracee {
  public:
    /// Starts `command` and runs it to its first mark.
    explicit Tracee(const std::vector<std::string>& command);
    Tracee(const Tracee&) = delete;
    Tracee& operator=(const Tracee&) = delete;
    ~Tracee();

    /// Executes one instruction, or one iteration of a repeated one; false: it was a mark.
    bool step();
    /// Runs until the instruction at `address` would be executed next for the `times`-th time from here; false: a mark
    /// came first. Not for where it is now.
    bool run_to(std::uint64_t address, std::size_t times);
    /// Where the next instruction is.
    std::uint64_t next_instruction() const;
    /// Lets it end by itself. Returns its exit status, or 128 + the signal.
    int finish();
    /// SIGKILL, and waits until it is dead: the kernel has dropped its locks then.
    void kill();
    /// The executable part of the first mapped file whose path ends so.
    Range code_of(const std::string& file) const;

  private:
    /// Waits for a stop by SIGTRAP; true if it is a mark or a breakpoint.
    bool wait_for_trap();
    void resume(int request);
    void hide_clock();

    pid_t pid_ = -1;
};

/// For all children of this process: no address randomisation. And one processor for both sides, where a step costs a
/// third.
void make_deterministic();

}  // namespace steps
