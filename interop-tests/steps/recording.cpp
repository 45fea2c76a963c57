// SPDX-License-Identifier: Apache-2.0
#include "recording.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <flyring/flyring.hpp>
#include <set>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace steps {

namespace {

constexpr const char* extension = "/_core.abi3.so";

/// The file, or a journal's folder, as it is at any time. The files of a folder are mapped, and listed again when a
/// name comes or goes.
class Watched {
  public:
    explicit Watched(const std::string& path) : path_(path) { list(); }
    bool differs(const Bytes& bytes) {
        if (is_folder(path_) && stamp() != listed_) {
            list();
            return read_file(path_) != bytes;
        }
        std::size_t at = 0;
        for (const flyring::detail::Mapping& file : files_) {
            if (is_folder(path_)) at += file_head;
            if (std::memcmp(file.data(), bytes.data() + at, file.size()) != 0) return true;
            at += file.size();
        }
        return false;
    }

  private:
    using Stamp = std::tuple<off_t, time_t, long>;

    /// Of a folder of a tmpfs: its length is that of the list of names.
    Stamp stamp() const {
        struct stat found{};
        if (::stat(path_.c_str(), &found) != 0) throw std::runtime_error("cannot look at " + path_);
        return {found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
    }
    void list() {
        listed_ = stamp();
        files_.clear();
        for (const std::string& path : is_folder(path_) ? paths_in(path_) : std::vector<std::string>{path_}) {
            const flyring::detail::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
            files_.emplace_back(fd, std::filesystem::file_size(path), flyring::detail::Access::read, path);
        }
    }

    std::string path_;
    Stamp listed_;
    std::vector<flyring::detail::Mapping> files_;
};

}  // namespace

std::string difference(const Bytes& expected, const Bytes& found) {
    const auto at = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
    return "from byte " + std::to_string(at.first - expected.begin()) + " on";
}

bool locked(const std::string& path, std::uint64_t byte) {
    const flyring::detail::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    return flyring::detail::byte_is_locked(file, byte, path);
}

std::size_t Recording::distinct() const {
    return std::set<Bytes>(states.begin(), states.end()).size();
}

std::vector<std::uint64_t> Recording::path() const {
    std::vector<std::uint64_t> places;
    for (const std::size_t k : kill_points) places.push_back(next[k - 1]);
    return places;
}

Recorder::Recorder(const Setup& setup, std::vector<std::string> command, bool python, const Stage& stage)
    : setup_(setup), command_(std::move(command)), python_(python) {
    record(stage);
    const Recording before = recording_;
    record(stage);
    const std::vector<std::uint64_t> one = before.path(), two = recording_.path();
    if (one != two || before.states != recording_.states) {
        const auto differ = std::mismatch(
            one.begin(), one.begin() + static_cast<std::ptrdiff_t>(std::min(one.size(), two.size())), two.begin());
        throw std::runtime_error(
            "two runs of the child differ: " + std::to_string(one.size()) + " and " + std::to_string(two.size()) +
            " kill points, the first " + std::to_string(differ.first - one.begin()) + " are equal; " +
            std::to_string(before.states.size()) + " and " + std::to_string(recording_.states.size()) + " states");
    }
    find_anchors();
}

void Recorder::clear_page() const {
    write_file(setup_.path + ".done", Bytes(page_length));
}

/// A stop at a breakpoint costs as much as a step, and all but the first need another to go on. Only the library's
/// instructions are counted on: a child is never stepped from one call of the library to the next.
void Recorder::find_anchors() {
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

void Recorder::record(const Stage& stage) {
    clear_page();
    const std::shared_ptr<void> staged = stage();
    Watched file(setup_.path);
    const flyring::detail::Fd done_fd(::open((setup_.path + ".done").c_str(), O_RDONLY | O_CLOEXEC));
    const flyring::detail::Mapping page(done_fd, page_length, flyring::detail::Access::read, setup_.path);

    recording_ = {};
    recording_.opened = read_file(setup_.path);
    Tracee child(command_);
    core_ = python_ ? child.code_of(extension) : Range{0, UINT64_MAX};
    for (bool more = true; more; more = child.step()) {
        const std::size_t k = recording_.next.size();
        if (recording_.states.empty() || file.differs(recording_.states.back())) {
            recording_.states.push_back(read_file(setup_.path));
        }
        recording_.state.push_back(recording_.states.size() - 1);
        if (recording_.pages.empty() || std::memcmp(page.data(), recording_.pages.back().data(), page_length) != 0) {
            recording_.pages.emplace_back(page.data(), page.data() + page_length);
        }
        recording_.page.push_back(recording_.pages.size() - 1);
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

void Recorder::reach(Tracee& child, std::size_t k) const {
    const std::size_t anchor = anchor_[k];
    const std::uint64_t address = recording_.next[anchor];
    const std::size_t times = visits_[anchor] - (address == recording_.next[0] ? 1 : 0);
    bool there = anchor == 0 || child.run_to(address, times);
    for (std::size_t i = anchor; i < k && there; ++i) there = child.step();
    if (!there || child.next_instruction() != recording_.next[k]) {
        throw std::runtime_error("this child goes another way than the recorded one");
    }
}

}  // namespace steps
