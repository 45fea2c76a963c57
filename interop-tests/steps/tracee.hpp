// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace steps {

/// Places [begin, end).
struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool contains(std::uint64_t place) const { return begin <= place && place < end; }
};

/// A program under ptrace, stopped. It marks where it is by SIGTRAPs of its own (int3, or a signal to itself).
/// The kernel may map its files at other addresses in every run. An instruction is named by its place: a number of its
/// own for each mapped file, plus the offset in the file.
class Tracee {
  public:
    /// Starts `command` and runs it to its first mark.
    explicit Tracee(const std::vector<std::string>& command);
    Tracee(const Tracee&) = delete;
    Tracee& operator=(const Tracee&) = delete;
    ~Tracee();

    /// Executes one instruction, or one iteration of a repeated one; false: it was a mark.
    bool step();
    /// Runs until the instruction at `place` would be executed next for the `times`-th time from here; false: a mark
    /// came first. Not for where it is now.
    bool run_to(std::uint64_t place, std::size_t times);
    /// The place of the next instruction.
    std::uint64_t next_instruction() const;
    /// Lets it run to its next mark; or to its end: its exit status, as of finish.
    std::optional<int> run_to_mark();
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
    void align_stack();
    std::uint64_t program_counter() const;
    void read_code();

    /// The executable part of a mapped file.
    struct Code {
        std::string file;
        std::uint64_t address;
        Range places;
    };

    pid_t pid_ = -1;
    std::vector<Code> code_;  // at the first mark
};

/// One processor for both sides, where a step costs a third: `first`, or the next that this process may use.
void use_one_processor(int first);

}  // namespace steps
