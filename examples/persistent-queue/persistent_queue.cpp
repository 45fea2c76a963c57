// SPDX-License-Identifier: Apache-2.0
// A queue on disk: jobs that wait, however many there are, and survive every program.
//
// persistent_queue push TEXT...    each TEXT is a job
// persistent_queue work SECONDS    does jobs one after another, each in SECONDS; ends behind the job "stop"
// persistent_queue show            prints how many jobs are not done
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <flyring/flyring.hpp>
#include <flyring/journal.hpp>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

// With JournalSync::each, a job that was pushed is there after a power loss, too, if FLYRING_DIR is on a disk.
flyring::Journal open_jobs() {
    flyring::JournalOptions options;
    options.segment_size = 1 << 20;
    options.sync = flyring::JournalSync::each();
    return flyring::Journal::open_or_create("jobs", options);
}

void push(const std::vector<std::string>& texts) {
    flyring::Journal journal = open_jobs();
    for (const std::string& text : texts) journal.push(text);  // waits while another process pushes
}

flyring::JournalConsumer take_worker(flyring::Journal& journal) {
    try {
        return journal.consumer("worker");
    } catch (const flyring::NoFreeSlot& error) {
        std::cerr << "process " << error.owners()[0].pid << " is at work\n";
        std::exit(1);
    }
}

void work(double seconds) {
    flyring::Journal journal = open_jobs();
    flyring::JournalConsumer worker = take_worker(journal);
    std::string done;
    const auto work_on = [&](const flyring::JournalMessage& job) {
        const std::string text(reinterpret_cast<const char*>(job.data()), job.size());
        std::cout << "begun: " << text << std::endl;
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        std::cout << "done: " << text << std::endl;
        done = text;
    };
    while (done != "stop") {
        // Sleeps until there is a job. It is consumed when work_on has returned: a killed worker's job comes again.
        worker.poll(work_on, 1, flyring::forever);
        if (worker.number() % 1000 == 0) journal.trim(flyring::JournalTrim::consumed());  // the space of done jobs
    }
}

void show() {
    const flyring::JournalStats stats = open_jobs().stats();
    const std::int64_t left = stats.consumers.empty() ? stats.messages : stats.consumers[0].behind;
    std::cout << left << " of " << stats.messages << " jobs are not done\n";
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() > 1 && words[0] == "push") {
        push({words.begin() + 1, words.end()});
    } else if (words.size() == 2 && words[0] == "work") {
        work(std::stod(words[1]));
    } else if (words == std::vector<std::string>{"show"}) {
        show();
    } else {
        std::cerr << "Use persistent_queue with: push TEXT..., work SECONDS, or show.\n";
        return 1;
    }
    return 0;
}
