// SPDX-License-Identifier: Apache-2.0
// Events that are kept: read them live, or later from a time on.
//
// event_history write LAST PER_SECOND    appends events up to number LAST, behind those in the journal
// event_history tail LAST                prints each event as it comes, up to number LAST
// event_history since TIME               prints the events from TIME on: ns since 1970, as of `date +%s%N`
#include <chrono>
#include <cstdint>
#include <flyring/flyring.hpp>
#include <flyring/journal.hpp>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

// A reader or a writer may come first: whichever does creates the journal. A power loss takes at most the events of
// about 10 ms, and the newest 64 MiB are kept.
flyring::Journal open_events() {
    flyring::JournalOptions options;
    options.segment_size = 1 << 20;
    options.sync = flyring::JournalSync::every(std::chrono::milliseconds(10));
    options.max_size = 64 << 20;
    return flyring::Journal::open_or_create("event-history", options);
}

// There is one writer. A second one waits, and goes on when the first one has ended or was killed.
flyring::JournalWriter take_writer(flyring::Journal& journal) {
    try {
        return journal.writer("recorder");
    } catch (const flyring::NoFreeSlot& error) {
        std::cout << "waiting: the writer is process " << error.owners()[0].pid << std::endl;
        return journal.writer("recorder", true, 1, flyring::forever);
    }
}

std::string_view text_of(const flyring::OwnedJournalMessage& message) {
    return {reinterpret_cast<const char*>(message.data()), message.size()};
}

void write(std::int64_t last, double per_second) {
    flyring::Journal journal = open_events();
    flyring::JournalWriter writer = take_writer(journal);
    std::cout << "begins behind event " << writer.number() << std::endl;
    while (writer.number() < last) {
        writer.append("event " + std::to_string(writer.number() + 1));
        std::this_thread::sleep_for(std::chrono::duration<double>(1 / per_second));
    }
}

void tail(std::int64_t last) {
    flyring::Journal journal = open_events();
    flyring::JournalReader reader = journal.reader(flyring::JournalStart::newest());
    std::cout << "waits behind event " << reader.number() << std::endl;
    while (reader.number() < last) {
        std::cout << text_of(*reader.take(flyring::forever)) << std::endl;  // sleeps until there is one
    }
}

void since(std::int64_t when) {
    flyring::Journal journal = open_events();
    flyring::JournalReader reader = journal.reader(flyring::JournalStart::time(when));
    while (const auto message = reader.take()) std::cout << text_of(*message) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "write") {
        write(std::stoll(words[1]), std::stod(words[2]));
    } else if (words.size() == 2 && words[0] == "tail") {
        tail(std::stoll(words[1]));
    } else if (words.size() == 2 && words[0] == "since") {
        since(std::stoll(words[1]));
    } else {
        std::cerr << "Use event_history with: write LAST PER_SECOND, tail LAST, or since TIME.\n";
        return 1;
    }
    return 0;
}
