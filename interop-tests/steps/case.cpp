// SPDX-License-Identifier: Apache-2.0
#include "case.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <stdexcept>
#include <thread>

namespace steps {

namespace layout = flyring::layout;

Case::Case(const Setup& setup, const Scenario& scenario, const Situation& base, const std::string& child)
    : setup_(setup),
      scenario_(scenario),
      base_(base),
      child_(child.empty() ? setup.child : child),
      recorder_(setup, command(), scenario.python, [this] { return std::make_shared<Stage>(setup_.path, base_); }) {
    const Recording& recorded = recording();
    for (std::size_t k = 0; k < recorded.next.size(); ++k) done_.push_back(counts_of(recorded.done(k)));
    const Image image(recorded.states[0]);
    published_ = image.trailer(0, layout::TRAILER_PUBLISHED);
    committed_ = committed(recorded.states[0]);
    streams_ = base_.streams;
    if (scenario_.base_of.empty()) {
        const std::int64_t begun = image.trailer(0, layout::TRAILER_MESSAGES_BEGUN);
        while (static_cast<std::int64_t>(streams_[0].size()) < begun) {  // what the child sent before its mark
            const auto sequence = static_cast<std::int64_t>(streams_[0].size());
            streams_[0].push_back({length_of(sequence), type_of(sequence)});
        }
    }
}

std::vector<std::string> Case::command() const {
    std::vector<std::string> words;
    if (scenario_.python) {
        words = {setup_.python, "-s", setup_.script};
    } else {
        words = {child_};
    }
    words.insert(words.end(), {scenario_.operation, setup_.path, std::to_string(base_.streams[0].size())});
    for (const std::size_t length : scenario_.lengths) words.push_back(std::to_string(length));
    return words;
}

Counts Case::counts_of(const Bytes& page) {
    Counts done{};
    std::memcpy(done.data(), page.data(), sizeof done);
    return done;
}

std::int64_t Case::committed(const Bytes& bytes) const {
    return Image(bytes).walk(0, published_).messages;
}

void Case::check_commit_point() const {
    const auto whole = committed_ + (scenario_.commits ? static_cast<std::int64_t>(scenario_.lengths.size()) : 0);
    std::int64_t before = committed_;
    for (std::size_t state = 0; state < recording().states.size(); ++state) {
        const std::int64_t now = committed(recording().states[state]);
        if (now != before && !(before == committed_ && now == whole)) {
            throw Wrong("store " + std::to_string(state) + ": expected " + std::to_string(committed_) + " or " +
                        std::to_string(whole) + " messages committed, after " + std::to_string(before) + "; found " +
                        std::to_string(now));
        }
        before = now;
    }
    if (before != whole) {
        throw Wrong("at the end: expected " + std::to_string(whole) + " messages committed, found " +
                    std::to_string(before));
    }
}

std::size_t Case::find(Scenario::At at) const {
    std::size_t k = 1;
    if (at == Scenario::At::first_change) {
        while (recording().state.at(k) == 0) ++k;
        return k;
    }
    while (committed(recording().bytes(k)) == committed_) ++k;
    return at == Scenario::At::commit ? k : k - 1;
}

Verdict Case::verdict(const Bytes& bytes, Counts done) const {
    Verdict verdict;
    verdict.streams = streams_;
    verdict.keeper = base_.keeper;
    verdict.reader = base_.reader;
    verdict.reader_done = done;
    verdict.given_up = scenario_.gives_up;
    verdict.joined = scenario_.operation == "join-evicted";
    if (scenario_.operation == "join-kept") verdict.given_up = {verdict.fourth = "new"};
    if (committed(bytes) > committed_) {
        const std::int32_t batch_type = type_of(static_cast<std::int64_t>(streams_[0].size()));
        for (const std::size_t length : scenario_.lengths) verdict.streams[0].push_back({length, batch_type});
    }
    return verdict;
}

Situation Case::situation(std::size_t k) const {
    Situation situation = base_;
    situation.bytes = recording().bytes(k);
    situation.streams = verdict(situation.bytes, {}).streams;
    return situation;
}

void Case::check_copy(std::size_t k) const {
    Situation left = base_;
    left.bytes = recording().bytes(k);
    Stage stage(setup_.path, left);
    check(stage, verdict(left.bytes, done_[k]), read_file(setup_.path));
}

void Case::check_kill(std::size_t k) {
    recorder_.clear_page();
    Stage stage(setup_.path, base_);
    Tracee child(recorder_.command());
    recorder_.reach(child, k);
    const Bytes left = read_file(setup_.path);
    std::unique_ptr<flyring::Publisher> contender;
    if (scenario_.contested) contender = contend(stage, child);
    child.kill();
    if (!scenario_.contested && read_file(setup_.path) != left)
        throw Wrong("expected the file as before the kill, found it changed " +
                    difference(left, read_file(setup_.path)));
    if (left != recording().bytes(k))
        throw Wrong("expected the file as after this instruction of the recording, found it changed " +
                    difference(recording().bytes(k), left));
    check(stage, verdict(left, counts_of(recorder_.page())), left, std::move(contender));
}

/// Another process tries to take the child's slot: at once if the child has no lock yet, else when it is killed.
std::unique_ptr<flyring::Publisher> Case::contend(Stage& stage, Tracee& child) {
    using Clock = std::chrono::steady_clock;
    const Image image(recording().states[0]);
    const bool must_wait = locked(stage.path, layout::HEADER_LENGTH) || locked(stage.path, image.publisher_slot(0));
    std::unique_ptr<flyring::Publisher> got;
    std::atomic<bool> done{false};
    std::future<void> other = std::async(std::launch::async, [&] {  // an exception of it is thrown by get()
        const Clock::time_point deadline = Clock::now() + std::chrono::seconds(2);
        while (!done && Clock::now() < deadline) {
            try {
                got = std::make_unique<flyring::Publisher>(stage.channel.publisher(publisher_name));
                done = true;
            } catch (const flyring::NoFreeSlot&) {
                // The child has it.
            }
        }
    });
    if (must_wait) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const bool stolen = done;
        child.kill();
        other.get();
        if (stolen)
            throw Wrong("expected another publisher to wait while the child has a lock, found that it got the slot");
        ++contender_waited_;
    } else {
        other.get();
        ++contender_first_;
    }
    if (!got) throw Wrong("expected another publisher to get the slot within 2 s, found that it did not");
    return got;
}

}  // namespace steps
