// SPDX-License-Identifier: Apache-2.0
//
// Explores every scenario, then every mutant. README.md says how to read it.
#include <cstdio>
#include <cstring>

#include "explorer.hpp"
#include "journal.hpp"
#include "mutants.hpp"
#include "queue.hpp"
#include "scenarios.hpp"
#include "service.hpp"
#include "table.hpp"
#include "wait.hpp"

using namespace model;

namespace {

const char* const invariants[][2] = {
    {"I1", "what a reliable subscriber gets is what was committed there: whole, in order"},
    {"I2", "nothing uncommitted is delivered"},
    {"I3", "a reader begins at a record boundary; with I1 and I2 it then sees every record from there on"},
    {"I4", "no byte that a gate protects is overwritten"},
    {"I5", "each message that a lossy subscriber gets is of this lap, and whole"},
    {"I6", "from every state, every process can still come to the end: none waits for a dead one"},
    {"I7", "a kept slot goes on where it was, on all of its rings; it loses its place only if its epoch was raised"},
    {"I8", "message counts are exact"},
    {"I9", "an evicted reader gets slot lost before it can rely on bytes that were overwritten"},
    {"I10", "an honest ring is never called corrupt"},
    {"I11", "sender and ended tell the truth"},
    {"I12", "a reader that its publisher has counted gets all that is published afterwards"},
    {"W1", "no process sleeps to a long cap while there is something for it, unless a waker was killed"},
    {"W2", "no waking call is in vain: a sleeper has set a bit since the last waking call"},
    {"Q1", "queue: no job is lost: at the end each was done"},
    {"Q2", "queue: a job is handed out again only with a reason, and says so, and only then"},
    {"Q3", "queue: the job that a worker has is whole, until the worker learns that it lost its slot"},
    {"Q4", "queue: of a worker's gates at most one is >= 0"},
    {"Q5", "queue: from every state, the end can be reached by the steps on which other processes may count"},
    {"Q6", "queue: no worker sleeps to a long cap while there is a job, unless a waker was killed"},
    {"Q7", "queue: when the answer is that the queue has ended, each job was done"},
    {"S1", "service: a call ends once"},
    {"S2", "service, at most once: a request is run at most once, and never if its call ended as not run"},
    {"S3", "service: no request is lost; at least once: a repeat says so, and only a repeat"},
    {"S4", "service: a reply, and a cancel, reach their own call only"},
    {"S5", "service: from every state, every call can end by the steps on which other processes may count"},
    {"S6", "service: bounds hold: calls outstanding, requests in hand, credit"},
    {"S7", "service: no call ends as server gone while its answer lies on the ring"},
    {"S8", "service: a server is refused its slot only by another server"},
    {"T1", "table: a value is whole, and was written for this key"},
    {"T2", "table: what a reader has seen is not undone"},
    {"T3", "table: changed is true: each change up to it is seen"},
    {"T4", "table: a reader ends while the writer is stopped or dead"},
    {"T5", "table: no two changes have one stamp, and stamps never fall back"},
    {"T6", "table: between two changes each cell has one entry, or is free once, or was never used"},
    {"T7", "table: between two changes, changed is the last one that stands"},
    {"T8", "table: a walk meets each key that is there all the time once"},
    {"T9", "table: what was not changed since the last sync is there after a power loss"},
    {"T10", "table: after a recovery no two cells have one key"},
};

// The rows of README.md.
void print_table() {
    for (const Mutant& m : mutants) {
        const SiteText& text = site_texts[static_cast<int>(m.site)];
        std::printf("| %s | %s | %s%s | %s |\n", text.step, text.what,
                    *m.breaks ? m.breaks : "holds all the same: ", m.because, m.scenario);
    }
    print_waiting_table();
    print_queue_table();
    print_queue_waiting_table();
    print_service_table();
    print_table_table();
    print_table_pages_table();
    print_journal_table();
}

int passed = 0, failed = 0;
bool traces = false;
const char* only = "";
int part = 0, every = 1, number = 0;  // of the scenarios and mutants: number part, part + every ...

void report(const char* kind, const std::string& name, const Result& r, const std::string& expected,
            const char* because) {
    bool good = r.broken == expected;
    ++(good ? passed : failed);
    std::string verdict = r.broken.empty()      ? "holds"
                          : r.broken == "limit" ? "not explored whole"
                                                : "breaks " + r.broken;
    if (!good) verdict += expected.empty() ? ", FAIL" : ", FAIL: should break " + expected;
    if (good && *because) verdict += std::string(": ") + because;
    std::printf("%-8s %-66s %9zu states %6.2f s  %s\n", kind, name.c_str(), r.states, r.seconds, verdict.c_str());
    if (traces || !good)
        for (const std::string& line : r.trace) std::printf("    %s\n", line.c_str());
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    bool large = false;
    size_t limit = 3'000'000;
    for (int i = 1; i < argc; ++i) {
        if (!std::strcmp(argv[i], "--large"))
            large = true, limit = 60'000'000;
        else if (!std::strcmp(argv[i], "--trace"))
            traces = true;
        else if (!std::strcmp(argv[i], "--table"))
            return print_table(), 0;
        else if (!std::strcmp(argv[i], "--part") && i + 1 < argc &&
                 std::sscanf(argv[i + 1], "%d/%d", &part, &every) == 2)
            ++i;
        else if (argv[i][0] != '-')
            only = argv[i];
        else
            return std::fprintf(stderr, "usage: model [--large] [--trace] [--table] [--part K/N] [part of a name]\n"),
                   2;
    }
    for (auto& [name, meaning] : invariants) std::printf("%-4s %s\n", name, meaning);
    for (const Scenario& s : scenarios(large))
        if (std::strstr(s.name, only) && number++ % every == part)
            report("scenario", s.name, explore(s, Site::none, limit), "", "");
    bool tried[sites] = {};
    for (const Mutant& m : mutants) {  // on the small scenarios, in which each mutant is known to break
        const SiteText& text = site_texts[static_cast<int>(m.site)];
        tried[static_cast<int>(m.site)] = true;
        std::string name = std::string(text.step) + ": " + text.what + " (" + m.scenario + ")";
        if (!std::strstr(text.name, only) && !std::strstr(m.scenario, only)) continue;
        if (number++ % every != part) continue;
        bool found = false;
        for (const Scenario& s : scenarios(false))
            if (!std::strcmp(s.name, m.scenario))
                found = true, report("mutant", name, explore(s, m.site, limit), m.breaks, m.because);
        if (!found) ++failed, std::printf("FAIL: no scenario %s\n", m.scenario);
    }
    const Wanted wanted = [](const std::string& name) {
        return name.find(only) != std::string::npos && number++ % every == part;
    };
    for (const WaitingResult& r : explore_waiting(wanted))
        report(r.kind, r.name, Result{r.states, 0, r.broken, {}}, r.expected, "");
    const Report report_queue = [](const QueueResult& r) {
        report(r.kind, r.name, Result{r.states, r.seconds, r.broken, r.trace}, r.expected, r.because.c_str());
    };
    explore_queue(large, wanted, report_queue);
    explore_queue_waiting(large, wanted, report_queue);
    explore_service(large, wanted, report_queue);
    explore_table(large, wanted, report_queue);
    explore_table_pages(large, wanted, report_queue);
    explore_journal(large, wanted, report_queue);
    for (int i = 1; i < sites; ++i)
        if (!tried[i]) ++failed, std::printf("FAIL: site %s has no mutant\n", site_texts[i].name);
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
