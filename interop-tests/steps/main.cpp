// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "case.hpp"
#include "journal_scenario.hpp"
#include "queue_case.hpp"
#include "service_case.hpp"
#include "states.hpp"
#include "table_scenario.hpp"

// Kills a child after each of its instructions; README.md says how, and what the columns mean.

namespace {

using steps::Case;
using steps::JournalCase;
using steps::JournalScenario;
using steps::QueueCase;
using steps::QueueScenario;
using steps::Recording;
using steps::Scenario;
using steps::ServiceCase;
using steps::ServiceScenario;
using steps::Setup;
using steps::TableCase;
using steps::TableScenario;

constexpr const char* usage =
    "usage: steps [--quick | --full] [--only PREFIX] [--python PYTHON] [--seed N] [--states FOLDER]\n"
    "             [--keep FOLDER] [--child PROGRAM] [--jobs N] [--part K/N]\n";

struct Arguments {
    Setup setup;
    bool quick = false;
    bool full = false;
    std::string only;
    std::string states;
    std::string keep;
    std::uint64_t seed = std::random_device{}();
    int jobs = 1;
    std::size_t part = 0;
    std::size_t parts = 1;
};

/// What the processes of `--jobs` share. Each goes through the same list of tests and takes the next one that no other
/// process has.
struct Shared {
    static constexpr int most_jobs = 64;

    std::atomic<std::size_t> next{0};
    std::atomic<int> passed{0};
    std::atomic<int> failed{0};
    char doing[most_jobs][64] = {};  // the test that each process does
};

constexpr std::size_t stopping_short =
    100;  // instructions of a short scenario of a queue or a service, which stops children, too

/// The kill points at which a child is really killed: all of them; or, in the short form, all of a short C++ scenario,
/// else those that change the file, both ends, and some at random; the quick form has no short scenarios.
std::set<std::size_t> choose(const Recording& recording, const Arguments& arguments, bool python,
                             std::mt19937_64& random, std::size_t short_length = 500) {
    const std::size_t short_scenario = arguments.quick ? 0 : short_length;
    const std::size_t some = arguments.quick ? 5 : python ? 10 : 40;
    const std::vector<std::size_t>& all = recording.kill_points;
    if (arguments.full || (!python && all.size() <= short_scenario)) return {all.begin(), all.end()};
    std::set<std::size_t> chosen{all.front(), all.back()};
    for (const std::size_t k : all) {
        if (recording.changed(k)) chosen.insert(k);
    }
    std::uniform_int_distribution<std::size_t> any(0, all.size() - 1);
    for (std::size_t i = 0; i < some; ++i) chosen.insert(all[any(random)]);
    return chosen;
}

class Program {
  public:
    Program(Arguments arguments, int job, Shared& shared)
        : arguments_(std::move(arguments)), journal_setup_(arguments_.setup), shared_(shared), job_(job) {
        journal_setup_.path = std::filesystem::path(journal_setup_.path).replace_extension(".journal");
    }

    void run() {
        for (const Scenario& scenario : steps::scenarios()) {
            if ((scenario.python && arguments_.setup.python.empty()) || !chosen(scenario.name)) continue;
            test(scenario.name, [&] { one(scenario); });
        }
        for (const QueueScenario& scenario : steps::queue_scenarios()) {
            if ((scenario.python && arguments_.setup.python.empty()) || !chosen(scenario.name)) continue;
            if (scenario.only_full && !arguments_.full && arguments_.only != scenario.name) continue;
            test(scenario.name, [&] { one(scenario); });
        }
        for (const ServiceScenario& scenario : steps::service_scenarios()) {
            if ((scenario.python && arguments_.setup.python.empty()) || !chosen(scenario.name)) continue;
            if (scenario.only_full && !arguments_.full && arguments_.only != scenario.name) continue;
            test(scenario.name, [&] { one(scenario); });
        }
        for (const TableScenario& scenario : steps::table_scenarios()) {
            if ((scenario.python && arguments_.setup.python.empty()) || !chosen(scenario.name)) continue;
            test(scenario.name, [&] { one(scenario); });
        }
        for (const JournalScenario& scenario : steps::journal_scenarios()) {
            if (!arguments_.states.empty()) break;  // --keep writes them beside the kills: they take long to record
            if ((scenario.python && arguments_.setup.python.empty()) || !chosen(scenario.name)) continue;
            if (scenario.only_full && !arguments_.full && arguments_.only != scenario.name) continue;
            test(scenario.name, [&] { one(scenario); });
        }
        if (arguments_.states.empty()) {
            for (const Scenario& scenario : steps::scenarios()) {
                const std::string name = "recover-all-of-" + scenario.name;
                if (!arguments_.full || !scenario.publishes || scenario.python || !chosen(name)) continue;
                test(name, [&] { recover_all(name, scenario); });
            }
            for (const steps::Fault& fault : steps::faults()) {
                if (chosen("fault-" + fault.name)) test("fault-" + fault.name, [&] { see(fault); });
            }
            for (const steps::Fault& fault : steps::queue_faults()) {
                if (!chosen("fault-" + fault.name)) continue;
                test("fault-" + fault.name, [&] { see_in<QueueCase>(fault, steps::queue_scenarios()); });
            }
            for (const steps::Fault& fault : steps::service_faults()) {
                if (!chosen("fault-" + fault.name)) continue;
                test("fault-" + fault.name, [&] { see_in<ServiceCase>(fault, steps::service_scenarios()); });
            }
            for (const steps::Fault& fault : steps::table_faults()) {
                if (chosen("fault-" + fault.name)) test("fault-" + fault.name, [&] { see_table(fault); });
            }
            for (const steps::Fault& fault : steps::journal_faults()) {
                if (chosen("fault-" + fault.name)) test("fault-" + fault.name, [&] { see_journal(fault); });
            }
        }
    }

  private:
    bool chosen(const std::string& name) const { return name.rfind(arguments_.only, 0) == 0; }

    /// With `--part K/N`: whether it is a test of Python or of a fault that is not in this part. These take long.
    bool in_other_part(const std::string& name) {
        if (name.rfind("python-", 0) != 0 && name.rfind("fault-", 0) != 0) return false;
        return long_++ % arguments_.parts != arguments_.part;
    }

    template <typename Action>
    void test(const std::string& name, Action&& action) {
        if (in_other_part(name) || number_++ != mine_) return;
        mine_ = shared_.next++;
        std::vector<std::uint64_t> seed(name.begin(), name.end());  // a test's own: --only makes the same choice
        seed.insert(seed.end(), {arguments_.seed, arguments_.seed >> 32});
        std::seed_seq sequence(seed.begin(), seed.end());
        random_.seed(sequence);
        start_ = std::chrono::steady_clock::now();
        at_ = 0;
        std::snprintf(shared_.doing[job_], sizeof shared_.doing[job_], "%s", name.c_str());
        try {
            action();
            ++shared_.passed;
        } catch (const std::exception& error) {
            std::printf("%-26s FAILED after instruction %zu: %s\n", name.c_str(), at_, error.what());
            ++shared_.failed;
        }
        std::fflush(stdout);
    }

    const steps::Situation& made_base(const Scenario& scenario) {
        const auto key = std::make_pair(scenario.base, scenario.alignment);
        const auto found = bases_.find(key);
        if (found != bases_.end()) return found->second;
        return bases_[key] =
                   steps::make_base(arguments_.setup.path, scenario.base, scenario.alignment, arguments_.setup.child);
    }

    steps::Situation base(const Scenario& scenario) {
        if (scenario.base_of.empty()) return made_base(scenario);
        for (const Scenario& other : steps::scenarios()) {
            if (other.name != scenario.base_of) continue;
            const Case before(arguments_.setup, other, made_base(other));
            return before.situation(before.find(scenario.base_at));
        }
        throw std::runtime_error("there is no scenario " + scenario.base_of);
    }

    /// Checks a copy of the file as it is after each instruction that changed it, and a child killed at each of
    /// `points`.
    void check_all(Case& test, const std::set<std::size_t>& points) {
        for (const std::size_t k : test.recording().kill_points) {
            at_ = k;
            if (test.recording().changed(k) && !test.scenario().contested) test.check_copy(k);
            if (points.count(k) != 0) test.check_kill(k);
        }
    }

    void report(const std::string& name, std::size_t executed, std::size_t points, std::size_t killed,
                std::size_t states) const {
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
        std::printf("%-26s %12zu %11zu %7zu %7zu %8.1f\n", name.c_str(), executed, points, killed, states,
                    seconds.count());
    }

    void one(const Scenario& scenario) {
        const steps::Situation begin = base(scenario);
        Case test(arguments_.setup, scenario, begin);
        const Recording& recording = test.recording();
        if (!arguments_.states.empty()) {
            steps::write_states(arguments_.states + "/" + scenario.name, recording);
            report(scenario.name, recording.executed(), recording.kill_points.size(), 0, recording.distinct());
            return;
        }
        test.check_commit_point();
        const std::set<std::size_t> points = choose(recording, arguments_, scenario.python, random_);
        check_all(test, points);
        if (scenario.contested && (test.contender_first() == 0 || test.contender_waited() == 0)) {
            throw std::runtime_error("the other publisher never had to wait, or always");
        }
        report(scenario.name, recording.executed(), recording.kill_points.size(), points.size(), recording.distinct());
        if (scenario.contested) {
            std::printf("%-26s the slot was free at once %zu times, not yet %zu times\n", "  for the other publisher",
                        test.contender_first(), test.contender_waited());
        }
    }

    const steps::Bytes& made_base(const QueueScenario& scenario) {
        const auto key = std::make_pair(scenario.drained, scenario.alignment);
        const auto found = queue_bases_.find(key);
        if (found != queue_bases_.end()) return found->second;
        return queue_bases_[key] = steps::make_queue_base(arguments_.setup.path, scenario.alignment, scenario.drained);
    }

    const steps::Bytes& made_base(const ServiceScenario& scenario) {
        const auto key = std::make_pair(scenario.least, scenario.alignment);
        const auto found = service_bases_.find(key);
        if (found != service_bases_.end()) return found->second;
        return service_bases_[key] =
                   steps::make_service_base(arguments_.setup.path, scenario.alignment, scenario.least);
    }

    /// As check_all, of a queue or a service. Returns how often a child was stopped and went on. A Python child takes
    /// long to start; only the full form stops it at each point.
    template <typename AnyCase>
    std::size_t check_and_stop(const AnyCase& test, const std::set<std::size_t>& points, bool python) {
        std::size_t stopped = 0;
        for (const std::size_t k : test.recording().kill_points) {
            at_ = k;
            if (test.recording().changed(k)) test.check_copy(k);
            if (points.count(k) == 0) continue;
            test.check_kill(k);
            if (python && !arguments_.full && random_() % 3 != 0) continue;
            if (test.check_stop(k)) ++stopped;
        }
        return stopped;
    }

    /// Where the child is killed, and stopped: anywhere, if the scenario is about a stop where it only looks.
    std::set<std::size_t> points_of(const QueueScenario& scenario, const Recording& recording) {
        const std::vector<std::size_t>& all = recording.kill_points;
        if (scenario.adopted_from) return {all.begin(), all.end()};
        return choose(recording, arguments_, scenario.python, random_, stopping_short);
    }
    std::set<std::size_t> points_of(const ServiceScenario& scenario, const Recording& recording) {
        return choose(recording, arguments_, scenario.python, random_, stopping_short);
    }

    void one(const QueueScenario& scenario) { check_one<QueueCase>(scenario, made_base(scenario)); }
    void one(const ServiceScenario& scenario) { check_one<ServiceCase>(scenario, made_base(scenario)); }

    template <typename AnyCase, typename AnyScenario>
    void check_one(const AnyScenario& scenario, const steps::Bytes& base) {
        const bool states = !arguments_.states.empty();
        const AnyCase test(arguments_.setup, scenario, base, states);
        const Recording& recording = test.recording();
        std::set<std::size_t> points;
        std::size_t stopped = 0;
        if (states) {
            steps::write_states(arguments_.states + "/" + scenario.name, recording);
        } else {
            points = points_of(scenario, recording);
            stopped = check_and_stop(test, points, scenario.python);
        }
        report(scenario.name, recording.executed(), recording.kill_points.size(), points.size(), recording.distinct());
        if (stopped != 0) std::printf("%-26s and goes on: %zu times\n", "  stopped", stopped);
    }

    /// A table's file before the operation; of `base_of`, what a child left that was killed in its middle.
    steps::Bytes made_base(const TableScenario& scenario) {
        const steps::Bytes made = steps::make_table_base(arguments_.setup.path, scenario);
        for (const TableScenario& other : steps::table_scenarios()) {
            if (other.name != scenario.base_of) continue;
            const TableCase before(arguments_.setup, other, made);
            return before.recording().states.at(before.recording().states.size() / 2);
        }
        return made;
    }

    std::size_t check_table(TableCase& test, const TableScenario& scenario) {
        if (scenario.grows) {
            const std::set<std::size_t> points = test.some_points(random_, arguments_.full    ? 2000
                                                                           : arguments_.quick ? 4
                                                                                              : 20);
            for (const std::size_t k : points) test.check_kill(at_ = k);
            return points.size();
        }
        const Recording& recording = test.recording();
        const std::set<std::size_t> points = choose(recording, arguments_, scenario.python, random_, stopping_short);
        for (const std::size_t k : recording.kill_points) {
            at_ = k;
            if (recording.changed(k)) test.check_copy(k);
            if (points.count(k) != 0) test.check_kill(k);
        }
        return points.size();
    }

    void one(const TableScenario& scenario) {
        const steps::Bytes base = made_base(scenario);
        const bool states = !arguments_.states.empty();
        if (scenario.grows && states) return;
        TableCase test(arguments_.setup, scenario, base);
        const std::size_t killed = states ? 0 : check_table(test, scenario);
        if (scenario.grows) return report(scenario.name, test.instructions(), test.instructions(), killed, 0);
        const Recording& recording = test.recording();
        if (states) steps::write_states(arguments_.states + "/" + scenario.name, recording);
        report(scenario.name, recording.executed(), recording.kill_points.size(), killed, recording.distinct());
    }

    void see_table(const steps::Fault& fault) {
        for (const TableScenario& scenario : steps::table_scenarios()) {
            if (scenario.name != fault.scenario) continue;
            const steps::Bytes base = made_base(scenario);
            try {
                TableCase test(arguments_.setup, scenario, base, arguments_.setup.child + "-" + fault.name);
                check_table(test, scenario);
            } catch (const steps::Wrong& wrong) {
                std::printf("%-26s seen after instruction %zu of %s: %s\n", ("fault-" + fault.name).c_str(), at_,
                            scenario.name.c_str(), wrong.what());
                return;
            }
            throw std::runtime_error("the fault was not seen");
        }
        throw std::runtime_error("there is no scenario " + fault.scenario);
    }

    /// As made_base of a table: the files of a journal, where `base_at` says.
    steps::Bytes made_base(const JournalScenario& scenario) {
        const steps::Bytes made = steps::make_journal_base(journal_setup_.path, scenario);
        for (const JournalScenario& other : steps::journal_scenarios()) {
            if (other.name != scenario.base_of) continue;
            const JournalCase before(journal_setup_, other, made);
            return before.state(scenario.base_at);
        }
        return made;
    }

    std::size_t check_journal(JournalCase& test, const JournalScenario& scenario) {
        const Recording& recording = test.recording();
        const std::set<std::size_t> points = choose(recording, arguments_, scenario.python, random_, stopping_short);
        for (const std::size_t k : recording.kill_points) {
            at_ = k;
            if (recording.changed(k)) test.check_copy(k);
            if (points.count(k) != 0) test.check_kill(k);
        }
        return points.size();
    }

    void one(const JournalScenario& scenario) {
        const steps::Bytes base = made_base(scenario);
        JournalCase test(journal_setup_, scenario, base);
        const std::size_t killed = check_journal(test, scenario);
        const Recording& recording = test.recording();
        if (!arguments_.keep.empty()) steps::write_journal_states(arguments_.keep + "/" + scenario.name, recording);
        report(scenario.name, recording.executed(), recording.kill_points.size(), killed, recording.distinct());
    }

    void see_journal(const steps::Fault& fault) {
        for (const JournalScenario& scenario : steps::journal_scenarios()) {
            if (scenario.name != fault.scenario) continue;
            try {
                const steps::Bytes base = made_base(scenario);
                JournalCase test(journal_setup_, scenario, base, arguments_.setup.child + "-" + fault.name);
                check_journal(test, scenario);
            } catch (const steps::Wrong& wrong) {
                std::printf("%-26s seen after instruction %zu of %s: %s\n", ("fault-" + fault.name).c_str(), at_,
                            scenario.name.c_str(), wrong.what());
                return;
            }
            throw std::runtime_error("the fault was not seen");
        }
        throw std::runtime_error("there is no scenario " + fault.scenario);
    }

    template <typename AnyCase, typename AnyScenario>
    void see_in(const steps::Fault& fault, const std::vector<AnyScenario>& scenarios) {
        for (const AnyScenario& scenario : scenarios) {
            if (scenario.name != fault.scenario) continue;
            try {
                const AnyCase test(arguments_.setup, scenario, made_base(scenario), false,
                                   arguments_.setup.child + "-" + fault.name);
                check_and_stop(test, points_of(scenario, test.recording()), scenario.python);
            } catch (const steps::Wrong& wrong) {
                std::printf("%-26s seen after instruction %zu of %s: %s\n", ("fault-" + fault.name).c_str(), at_,
                            scenario.name.c_str(), wrong.what());
                return;
            }
            throw std::runtime_error("the fault was not seen");
        }
        throw std::runtime_error("there is no scenario " + fault.scenario);
    }

    /// Each state that the scenario's death can leave is recovered by a child, which dies in turn wherever it changes
    /// the file.
    void recover_all(const std::string& name, const Scenario& scenario) {
        const Case first(arguments_.setup, scenario, made_base(scenario));
        Scenario recover;
        recover.name = recover.operation = "take-publisher";
        recover.alignment = scenario.alignment;
        recover.base_of = scenario.name;
        recover.gives_up = scenario.gives_up;
        std::size_t executed = 0;
        std::size_t killed = 0;
        std::size_t states = 0;
        for (std::size_t k = 1; k < first.recording().next.size(); ++k) {
            if (!first.recording().changed(k)) continue;
            const steps::Situation left = first.situation(k);
            Case second(arguments_.setup, recover, left);
            second.check_commit_point();
            std::set<std::size_t> points;
            for (const std::size_t i : second.recording().kill_points) {
                if (second.recording().changed(i)) points.insert(i);
            }
            check_all(second, points);
            executed += second.recording().executed();
            killed += points.size();
            states += second.recording().distinct();
        }
        report(name, executed, killed, killed, states);
    }

    /// A child with a planted fault must fail the check.
    void see(const steps::Fault& fault) {
        for (const Scenario& scenario : steps::scenarios()) {
            if (scenario.name != fault.scenario) continue;
            const steps::Situation begin = base(scenario);
            try {
                Case test(arguments_.setup, scenario, begin, arguments_.setup.child + "-" + fault.name);
                const std::vector<std::size_t>& all = test.recording().kill_points;
                check_all(test, arguments_.quick ? choose(test.recording(), arguments_, false, random_)
                                                 : std::set<std::size_t>{all.begin(), all.end()});
                test.check_commit_point();
            } catch (const steps::Wrong& wrong) {
                std::printf("%-26s seen after instruction %zu of %s: %s\n", ("fault-" + fault.name).c_str(), at_,
                            scenario.name.c_str(), wrong.what());
                return;
            }
            throw std::runtime_error("the fault was not seen");
        }
        throw std::runtime_error("there is no scenario " + fault.scenario);
    }

    Arguments arguments_;
    Setup journal_setup_;  // with the path of a journal
    Shared& shared_;
    int job_;
    std::size_t long_ = 0;               // how many tests of Python or of a fault were met
    std::size_t number_ = 0;             // of the test at which the list is
    std::size_t mine_ = shared_.next++;  // of the test that this process does next
    std::mt19937_64 random_;
    std::map<std::pair<steps::Base, std::uint32_t>, steps::Situation> bases_;
    std::map<std::pair<bool, std::uint32_t>, steps::Bytes> queue_bases_;
    std::map<std::pair<bool, std::uint32_t>, steps::Bytes> service_bases_;
    std::chrono::steady_clock::time_point start_;
    std::size_t at_ = 0;
};

bool parse(int count, char** words, Arguments& arguments) {
    for (int i = 1; i < count; ++i) {
        const std::string_view word = words[i];
        if (word == "--full" || word == "--quick") {
            (word == "--full" ? arguments.full : arguments.quick) = true;
            continue;
        }
        if (i + 1 == count) return false;
        const std::string value = words[++i];
        if (word == "--only") {
            arguments.only = value;
        } else if (word == "--python") {
            arguments.setup.python = value;
        } else if (word == "--seed") {
            arguments.seed = std::stoull(value);
        } else if (word == "--child") {
            arguments.setup.child = value;
        } else if (word == "--states") {
            arguments.states = value;
        } else if (word == "--keep") {
            arguments.keep = value;
        } else if (word == "--jobs") {
            arguments.jobs = std::clamp(std::stoi(value), 1, Shared::most_jobs);
        } else if (word == "--part") {
            if (std::sscanf(value.c_str(), "%zu/%zu", &arguments.part, &arguments.parts) != 2) return false;
            if (arguments.part >= arguments.parts) return false;
        } else {
            return false;
        }
    }
    return true;
}

/// Does tests in a process of its own, with files of its own, on one processor.
int work(Arguments arguments, int job, int processor, Shared& shared) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    std::string folder = "/dev/shm/flyring-steps-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) {
        std::perror(folder.c_str());
        return 2;
    }
    arguments.setup.path = folder + "/steps.ring";
    steps::use_one_processor(processor);
    Program(std::move(arguments), job, shared).run();
    std::filesystem::remove_all(folder);
    return 0;
}

}  // namespace

int main(int count, char** words) {
    Arguments arguments;
    if (!parse(count, words, arguments)) {
        std::fputs(usage, stderr);
        return 2;
    }
    const std::filesystem::path here = std::filesystem::canonical("/proc/self/exe").parent_path();
    if (arguments.setup.child.empty()) arguments.setup.child = here / "child";
    arguments.setup.script = STEPS_SCRIPT;
    ::setenv("PYTHONHASHSEED", "0", 1);  // or Python goes another way each time
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    std::printf("seed %llu\n", static_cast<unsigned long long>(arguments.seed));
    std::printf("%-26s %12s %11s %7s %7s %8s\n", "scenario", "instructions", "kill points", "killed", "states",
                "seconds");
    std::fflush(stdout);
    void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        std::perror("mmap");
        return 2;
    }
    Shared& shared = *new (memory) Shared;
    const int processor = ::sched_getcpu();
    std::vector<pid_t> workers;
    for (int worker = 0; worker < arguments.jobs; ++worker) {
        const pid_t pid = ::fork();
        if (pid == 0) return work(std::move(arguments), worker, processor + worker, shared);
        workers.push_back(pid);
    }
    for (std::size_t job = 0; job < workers.size(); ++job) {
        int status = -1;
        if (workers[job] < 0 || ::waitpid(workers[job], &status, 0) != workers[job] || status != 0) {
            std::printf("FAILED: a process of --jobs ended with status %d in %s\n", status, shared.doing[job]);
            ++shared.failed;
        }
    }
    std::printf("%d passed, %d failed\n", shared.passed.load(), shared.failed.load());
    return shared.failed == 0 && shared.passed > 0 ? 0 : 1;
}
