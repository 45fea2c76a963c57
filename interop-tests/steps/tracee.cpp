// SPDX-License-Identifier: Apache-2.0
#include "tracee.hpp"

#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#if !defined(__x86_64__)
#error "Breakpoints and the program counter are those of x86-64; another processor needs its own here"
#endif

namespace steps {

namespace {

constexpr std::size_t rip = offsetof(user_regs_struct, rip);
constexpr std::size_t rsp = offsetof(user_regs_struct, rsp);
constexpr std::uint64_t word = sizeof(std::uint64_t);
constexpr long breakpoint = 0xcc;

long trace(__ptrace_request request, pid_t pid, std::uint64_t address, std::uint64_t data) {
    errno = 0;
    const long result = ::ptrace(request, pid, address, data);
    if (result == -1 && errno != 0) throw std::system_error(errno, std::generic_category(), "ptrace");
    return result;
}

/// Where the places of a file begin: the same number in every run.
std::uint64_t first_place(const std::string& file) {
    static std::map<std::string, std::uint64_t> known;
    return known.emplace(file, (known.size() + 1) << 40).first->second;
}

}  // namespace

void use_one_processor(int first) {
    cpu_set_t all;
    if (::sched_getaffinity(0, sizeof all, &all) != 0) throw std::runtime_error("sched_getaffinity");
    auto processor = static_cast<unsigned>(first);
    while (!CPU_ISSET(processor % CPU_SETSIZE, &all)) ++processor;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor % CPU_SETSIZE, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) throw std::runtime_error("sched_setaffinity");
}

Tracee::Tracee(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) {
        ::ptrace(PTRACE_TRACEME, 0, 0, 0);
        ::execv(words[0], words.data());
        ::_exit(127);
    }
    wait_for_trap();  // exec stops it once
    hide_clock();
    align_stack();
    trace(PTRACE_SETOPTIONS, pid_, 0, PTRACE_O_EXITKILL);
    resume(PTRACE_CONT);
    if (!wait_for_trap()) throw std::runtime_error("the child stopped before its first mark");
    read_code();
}

Tracee::~Tracee() {
    kill();
}

void Tracee::resume(int request) {
    trace(static_cast<__ptrace_request>(request), pid_, 0, 0);
}

bool Tracee::wait_for_trap() {
    int status = 0;
    if (::waitpid(pid_, &status, 0) < 0) throw std::runtime_error("waitpid");
    if (!WIFSTOPPED(status)) {
        pid_ = -1;
        throw std::runtime_error("the child ended with status " + std::to_string(status) + " before its second mark");
    }
    if (WSTOPSIG(status) != SIGTRAP)
        throw std::runtime_error("the child got signal " + std::to_string(WSTOPSIG(status)));
    siginfo_t info{};
    trace(PTRACE_GETSIGINFO, pid_, 0, reinterpret_cast<std::uint64_t>(&info));
    return info.si_code == SI_KERNEL || info.si_code == SI_TKILL;  // int3, or raised; a step has a code of its own
}

bool Tracee::step() {
    resume(PTRACE_SINGLESTEP);
    return !wait_for_trap();
}

std::uint64_t Tracee::program_counter() const {
    return static_cast<std::uint64_t>(trace(PTRACE_PEEKUSER, pid_, rip, 0));
}

std::uint64_t Tracee::next_instruction() const {
    const std::uint64_t address = program_counter();
    for (const Code& code : code_) {
        const std::uint64_t place = code.places.begin + address - code.address;
        if (address >= code.address && code.places.contains(place)) return place;
    }
    throw std::runtime_error("the child executes something that is in no file");
}

bool Tracee::run_to(std::uint64_t place, std::size_t times) {
    std::uint64_t address = 0;
    for (const Code& code : code_) {
        if (code.places.contains(place)) address = code.address + place - code.places.begin;
    }
    const long instruction = trace(PTRACE_PEEKTEXT, pid_, address, 0);
    for (std::size_t i = 0; i < times; ++i) {
        if (i > 0 && !step()) return false;
        trace(PTRACE_POKETEXT, pid_, address, static_cast<std::uint64_t>((instruction & ~0xffL) | breakpoint));
        resume(PTRACE_CONT);
        wait_for_trap();
        if (program_counter() != address + 1) return false;
        trace(PTRACE_POKETEXT, pid_, address, static_cast<std::uint64_t>(instruction));
        trace(PTRACE_POKEUSER, pid_, rip, address);
    }
    return true;
}

/// Takes the vDSO out of the auxiliary vector. The C library then asks the kernel for the time: one instruction, where
/// the vDSO starts over whenever the clock ticks, as it does all the time in a child that is stepped.
void Tracee::hide_clock() {
    auto at = static_cast<std::uint64_t>(trace(PTRACE_PEEKUSER, pid_, rsp, 0));
    at += word;                                   // the number of arguments
    for (int lists = 0; lists < 2; at += word) {  // arguments, environment
        if (trace(PTRACE_PEEKDATA, pid_, at, 0) == 0) ++lists;
    }
    for (long type = 0; (type = trace(PTRACE_PEEKDATA, pid_, at, 0)) != AT_NULL; at += 2 * word) {
        if (type == AT_SYSINFO_EHDR) trace(PTRACE_POKEDATA, pid_, at, AT_IGNORE);
    }
}

/// Moves the words on the initial stack (arguments, environment, auxiliary vector) to the next page below. The kernel
/// puts them at any 16 bytes, and what the C library does with a string depends on where in its page it is.
void Tracee::align_stack() {
    constexpr std::uint64_t page = 4096;
    const auto from = static_cast<std::uint64_t>(trace(PTRACE_PEEKUSER, pid_, rsp, 0));
    std::vector<std::uint64_t> words;
    const auto copy = [&] {
        words.push_back(static_cast<std::uint64_t>(trace(PTRACE_PEEKDATA, pid_, from + words.size() * word, 0)));
        return words.back();
    };
    copy();  // the number of arguments
    for (int lists = 0; lists < 2;) {
        if (copy() == 0) ++lists;
    }
    while (copy() != AT_NULL) copy();
    copy();
    const std::uint64_t to = (from - words.size() * word) & ~(page - 1);
    for (std::size_t i = 0; i < words.size(); ++i) trace(PTRACE_POKEDATA, pid_, to + i * word, words[i]);
    trace(PTRACE_POKEUSER, pid_, rsp, to);
}

std::optional<int> Tracee::run_to_mark() {
    int status = 0;
    resume(PTRACE_CONT);
    while (::waitpid(pid_, &status, 0) >= 0 && WIFSTOPPED(status)) {
        if (WSTOPSIG(status) == SIGTRAP) return std::nullopt;
        trace(PTRACE_CONT, pid_, 0, static_cast<std::uint64_t>(WSTOPSIG(status)));
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Tracee::finish() {
    resume(PTRACE_CONT);
    int status = 0;
    while (::waitpid(pid_, &status, 0) >= 0 && WIFSTOPPED(status)) {
        trace(PTRACE_CONT, pid_, 0, static_cast<std::uint64_t>(WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status)));
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Tracee::kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) >= 0 && WIFSTOPPED(status)) {
    }
    pid_ = -1;
}

void Tracee::read_code() {
    std::ifstream maps("/proc/" + std::to_string(pid_) + "/maps");
    for (std::string line; std::getline(maps, line);) {
        std::istringstream words(line);
        Range addresses;
        char dash = 0;
        std::uint64_t offset = 0;
        std::string permissions, device, inode, file;
        words >> std::hex >> addresses.begin >> dash >> addresses.end >> permissions >> offset >> device >> inode;
        std::getline(words >> std::ws, file);
        if (permissions.find('x') == std::string::npos || file.empty()) continue;
        const std::uint64_t begin = first_place(file) + offset;
        code_.push_back({file, addresses.begin, {begin, begin + addresses.end - addresses.begin}});
    }
}

Range Tracee::code_of(const std::string& file) const {
    for (const Code& code : code_) {
        if (code.file.size() >= file.size() &&
            code.file.compare(code.file.size() - file.size(), file.size(), file) == 0)
            return code.places;
    }
    throw std::runtime_error(file + " is not mapped");
}

}  // namespace steps
