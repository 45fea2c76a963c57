// SPDX-License-Identifier: Apache-2.0
#include "recording.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>
#include <unordered_map>

namespace steps {

namespace layout = flyring::layout;

namespace {

constexpr const char* extension = "/_core.abi3.so";

/// Where the first difference of two files is.
std::string difference(const Bytes& expected, const Bytes& found) {
    const auto at = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
    return "from byte " + std::to_string(at.first - expected.begin()) + " on";
}

bool locked(const Stage& stage, std::uint64_t byte) {
    const flyring::detail::Fd file(::open(stage.path.c_str(), O_RDWR | O_CLOEXEC));
    return flyring::detail::byte_is_locked(file, byte, stage.path);
}

}  // namespace

std::size_t Recording::distinct() const {
    return std::set<Bytes>(states.begin(), states.end()).size();
}

std::vector<std::uint64_t> Recording::path() const {
    std::vector<std::uint64_t> places;
    for (const std::size_t k : kill_points) places.push_back(next[k - 1]);
    return places;
}

Case::Case(const Setup& setup, const Scenario& scenario, const Situation& base, const std::string& child)
    : setup_(setup), scenario_(scenario), base_(base), child_(child.empty() ? setup.child : child) {
    record();
    const Recording before = recording_;
    record();
    const std::vector<std::uint64_t> one = before.path(), two = recording_.path();
    if (one != two || before.states != recording_.states) {
        const auto differ = std::mismatch(
            one.begin(), one.begin() + static_cast<std::ptrdiff_t>(std::min(one.size(), two.size())), two.begin());
        throw std::runtime_error(
            "two runs of the child differ: " + std::to_string(one.size()) + " and " + std::to_string(two.size()) +
            " kill points, the first " + std::to_string(differ.first - one.begin()) + " are equal; " +
            std::to_string(before.states.size()) + " and " + std::to_string(recording_.states.size()) + " states");
    }
    const Image image(recording_.states[0]);
    published_ = image.trailer(0, layout::TRAILER_PUBLISHED);
    committed_ = committed(recording_.states[0]);
    streams_ = base_.streams;
    if (scenario_.base_of.empty()) {
        const std::int64_t begun = image.trailer(0, layout::TRAILER_MESSAGES_BEGUN);
        while (static_cast<std::int64_t>(streams_[0].size()) < begun) {  // what the child sent before its mark
            const auto sequence = static_cast<std::int64_t>(streams_[0].size());
            streams_[0].push_back({length_of(sequence), type_of(sequence)});
        }
    }
    find_anchors();
}

/// A stop at a breakpoint costs as much as a step, and all but the first need another to go on. Only the library's
/// instructions are counted on: a child is never stepped from one call of the library to the next.
void Case::find_anchors() {
    std::unordered_map<std::uint64_t, std::size_t> visits;
    std::size_t cost = 0;
    for (std::size_t k = 0; k < recording_.next.size(); ++k) {
        visits_.push_back(++visits[recording_.next[k]]);
        const bool here = core_.contains(recording_.next[k]);
        const bool entered = here && k > 0 && !core_.contains(recording_.next[k - 1]);
        const bool better = k == 0 || entered || (here && 2 * visits_[k] <= cost + 1);
        anchor_.push_back(better ? k : anchor_.back());
        cost = k == 0 ? 0 : better ? 2 * visits_[k] : cost + 1;
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

Counts Case::done_now() const {
    const Bytes page = read_file(setup_.path + ".done");
    Counts done{};
    std::memcpy(done.data(), page.data(), sizeof done);
    return done;
}

void Case::record() {
    write_file(setup_.path + ".done", Bytes(4096));
    const Stage stage(setup_.path, base_);
    const flyring::detail::Fd fd(::open(setup_.path.c_str(), O_RDONLY | O_CLOEXEC));
    const flyring::detail::Mapping file(fd, base_.bytes.size(), flyring::detail::Access::read, setup_.path);
    const flyring::detail::Fd done_fd(::open((setup_.path + ".done").c_str(), O_RDONLY | O_CLOEXEC));
    const flyring::detail::Mapping page(done_fd, 4096, flyring::detail::Access::read, setup_.path);
    const auto* done = reinterpret_cast<const volatile std::int64_t*>(page.data());

    recording_ = {};
    recording_.opened.assign(file.data(), file.data() + base_.bytes.size());
    Tracee child(command());
    core_ = scenario_.python ? child.code_of(extension) : Range{0, UINT64_MAX};
    for (bool more = true; more; more = child.step()) {
        const std::size_t k = recording_.next.size();
        if (recording_.states.empty() ||
            std::memcmp(file.data(), recording_.states.back().data(), base_.bytes.size()) != 0) {
            recording_.states.emplace_back(file.data(), file.data() + base_.bytes.size());
        }
        recording_.state.push_back(recording_.states.size() - 1);
        recording_.done.push_back({done[0], done[1]});
        if (k > 0 && (core_.contains(recording_.next[k - 1]) || recording_.changed(k))) {
            recording_.kill_points.push_back(k);
        }
        recording_.next.push_back(child.next_instruction());
    }
    if (recording_.kill_points.empty()) throw std::runtime_error("the child executed nothing between its marks");
    if (const int status = child.finish(); status != 0) {
        throw std::runtime_error("the child ended with status " + std::to_string(status));
    }
}

std::int64_t Case::committed(const Bytes& bytes) const {
    return Image(bytes).walk(0, published_).messages;
}

void Case::check_commit_point() const {
    const auto whole = committed_ + (scenario_.commits ? static_cast<std::int64_t>(scenario_.lengths.size()) : 0);
    std::int64_t before = committed_;
    for (std::size_t state = 0; state < recording_.states.size(); ++state) {
        const std::int64_t now = committed(recording_.states[state]);
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
        while (recording_.state.at(k) == 0) ++k;
        return k;
    }
    while (committed(recording_.bytes(k)) == committed_) ++k;
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
    situation.bytes = recording_.bytes(k);
    situation.streams = verdict(situation.bytes, {}).streams;
    return situation;
}

void Case::check_copy(std::size_t k) const {
    Situation left = base_;
    left.bytes = recording_.bytes(k);
    Stage stage(setup_.path, left);
    check(stage, verdict(left.bytes, recording_.done[k]), read_file(setup_.path));
}

void Case::reach(Tracee& child, std::size_t k) const {
    const std::size_t anchor = anchor_[k];
    const std::uint64_t address = recording_.next[anchor];
    const std::size_t times = visits_[anchor] - (address == recording_.next[0] ? 1 : 0);
    bool there = anchor == 0 || child.run_to(address, times);
    for (std::size_t i = anchor; i < k && there; ++i) there = child.step();
    if (!there || child.next_instruction() != recording_.next[k]) {
        throw std::runtime_error("this child goes another way than the recorded one");
    }
}

void Case::check_kill(std::size_t k) {
    write_file(setup_.path + ".done", Bytes(4096));
    Stage stage(setup_.path, base_);
    Tracee child(command());
    reach(child, k);
    const Bytes left = read_file(setup_.path);
    std::unique_ptr<flyring::Publisher> contender;
    if (scenario_.contested) contender = contend(stage, child);
    child.kill();
    if (!scenario_.contested && read_file(setup_.path) != left)
        throw Wrong("expected the file as before the kill, found it changed " +
                    difference(left, read_file(setup_.path)));
    if (left != recording_.bytes(k))
        throw Wrong("expected the file as after this instruction of the recording, found it changed " +
                    difference(recording_.bytes(k), left));
    check(stage, verdict(left, done_now()), left, std::move(contender));
}

/// Somebody else tries to get the child's slot: at once if the child has no lock yet, else when it is killed.
std::unique_ptr<flyring::Publisher> Case::contend(Stage& stage, Tracee& child) {
    using Clock = std::chrono::steady_clock;
    const Image image(recording_.states[0]);
    const bool must_wait = locked(stage, layout::HEADER_LENGTH) || locked(stage, image.publisher_slot(0));
    std::unique_ptr<flyring::Publisher> got;
    std::atomic<bool> done{false};
    std::thread other([&] {
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
        other.join();
        if (stolen)
            throw Wrong("expected another publisher to wait while the child has a lock, found that it got the slot");
        ++contender_waited_;
    } else {
        other.join();
        ++contender_first_;
    }
    if (!got) throw Wrong("expected another publisher to get the slot within 2 s, found that it did not");
    return got;
}

}  // namespace steps
