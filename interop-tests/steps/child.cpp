// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

// The program that is stepped and killed: child OP PATH SEQUENCE LENGTH... It prepares, then does one thing between two
// marks. SEQUENCE: how many messages ring 0 has had; LENGTH...: of the messages that OP publishes, bytes.

namespace {

bool stops_at_sleep = false;

}  // namespace

namespace steps {

void stop_at_sleep() {
    stops_at_sleep = true;
}

flyring::detail::ChannelFile raw(const Run& run) {
    return flyring::detail::open_file(run.path, {});
}

volatile unsigned char* done_page(const Run& run) {
    const flyring::detail::Fd fd(::open((run.path + ".done").c_str(), O_RDWR | O_CLOEXEC));
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    require(page != MAP_FAILED, "mmap");
    return static_cast<volatile unsigned char*>(page);
}

pid_t begin_process(const std::function<void()>& what) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);  // or the tracer of this process sees a stop
    const pid_t pid = ::fork();
    require(pid >= 0, "fork");
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // with a mistake in what it does, it may never end
    try {
        what();
        ::_exit(0);
    } catch (const std::exception&) {
        ::_exit(1);
    }
}

void await_death(pid_t pid) {
    int status = 0;
    require(::waitpid(pid, &status, 0) == pid && status == 0, "who was to die did not get there");
}

void fall_asleep(const Run& run) {
    const flyring::detail::ChannelFile file = raw(run);
    for (const auto& words : {file.data(), file.room()}) __atomic_fetch_or(words.asleep, 1U, __ATOMIC_RELAXED);
}

}  // namespace steps

/// In the place of the C library's, which this program does not get then.
extern "C" long syscall(long number, ...) noexcept {
    va_list more;
    va_start(more, number);
    long words[6];
    for (long& word : words) word = va_arg(more, long);
    va_end(more);
    if (stops_at_sleep && number == SYS_futex && (words[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
        steps::mark();
        ::_exit(0);
    }
    long result = number;
    asm volatile("mov %4, %%r10\n\tmov %5, %%r8\n\tmov %6, %%r9\n\tsyscall"
                 : "+a"(result)
                 : "D"(words[0]), "S"(words[1]), "d"(words[2]), "m"(words[3]), "m"(words[4]), "m"(words[5])
                 : "rcx", "r8", "r9", "r10", "r11", "memory");
    if (result >= 0) return result;
    errno = static_cast<int>(-result);
    return -1;
}

int main(int count, char** arguments) {
    try {
        const std::vector<std::string> words(arguments + 1, arguments + count);
        steps::TableOperations tables = steps::tabling();
        tables.merge(steps::journaling());
        if (const auto found = tables.find(words.at(0)); found != tables.end()) {
            found->second(words.at(1));
            return 0;
        }
        steps::Run run{words.at(1), std::stoll(words.at(2)), {}};
        for (std::size_t i = 3; i < words.size(); ++i) run.lengths.push_back(std::stoul(words[i]));
        steps::Operations operations = steps::publishing();
        operations.merge(steps::owning());
        operations.merge(steps::queueing());
        operations.merge(steps::service());
        operations.at(words[0])(run);
        return 0;
    } catch (const flyring::SlotLost&) {
        return steps::lost_status;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
        return 1;
    }
}
