// SPDX-License-Identifier: Apache-2.0
#include "states.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace steps {

namespace {

void write_hex(std::ostream& out, const Bytes& bytes, std::size_t first, std::size_t end) {
    constexpr const char* digits = "0123456789abcdef";
    for (std::size_t i = first; i < end; ++i) {
        const auto byte = std::to_integer<unsigned>(bytes[i]);
        out << digits[byte >> 4] << digits[byte & 15];
    }
}

/// Where two files differ: from the first byte to behind the last one, from `at` on. Differences that are at least so
/// far from each other are two.
std::pair<std::size_t, std::size_t> next_run(const Bytes& before, const Bytes& after, std::size_t at,
                                             std::size_t apart) {
    while (at < after.size() && before[at] == after[at]) ++at;
    std::size_t end = at;
    for (std::size_t i = at; i < after.size() && i - end < apart; ++i) {
        if (before[i] != after[i]) end = i + 1;
    }
    return {at, end};
}

/// What differs in a folder: null for a file that is gone, else its length and the runs that differ from what was
/// there, or from zeros.
void write_changes(std::ostream& out, const std::map<std::string, Bytes>& before,
                   const std::map<std::string, Bytes>& after) {
    constexpr std::size_t apart = 16;
    const char* separator = "{";
    for (const auto& [name, bytes] : before) {
        if (after.count(name) != 0) continue;
        out << separator << '"' << name << "\": null";
        separator = ", ";
    }
    for (const auto& [name, bytes] : after) {
        const auto same = before.find(name);
        if (same != before.end() && same->second == bytes) continue;
        Bytes old = same == before.end() ? Bytes() : same->second;
        old.resize(bytes.size());
        out << separator << '"' << name << "\": {\"length\": " << bytes.size() << ", \"runs\": [";
        separator = "";
        for (auto [first, end] = next_run(old, bytes, 0, apart); first < end;) {
            out << separator << '[' << first << ", \"";
            write_hex(out, bytes, first, end);
            out << "\"]";
            separator = ", ";
            std::tie(first, end) = next_run(old, bytes, end, apart);
        }
        out << "]}";
        separator = ", ";
    }
    out << "}\n";
}

}  // namespace

void write_states(const std::string& stem, const Recording& recording) {
    std::filesystem::create_directories(std::filesystem::path(stem).parent_path());
    write_file(stem + ".base", recording.opened);
    write_file(stem + ".ring", recording.states[0]);
    std::ofstream out(stem + ".stores");
    for (std::size_t state = 1; state < recording.states.size(); ++state) {
        const Bytes& after = recording.states[state];
        const auto [first, end] = next_run(recording.states[state - 1], after, 0, after.size());
        out << first << ' ';
        write_hex(out, after, first, end);
        out << '\n';
    }
    if (!out.flush()) throw std::runtime_error("cannot write " + stem + ".stores");
}

void write_journal_states(const std::string& stem, const Recording& recording) {
    std::filesystem::create_directories(std::filesystem::path(stem).parent_path());
    std::ofstream out(stem + ".states");
    std::map<std::string, Bytes> before;
    for (const Bytes& state : recording.states) {
        std::map<std::string, Bytes> after = files_in(state);
        write_changes(out, before, after);
        before = std::move(after);
    }
    if (!out.flush()) throw std::runtime_error("cannot write " + stem + ".states");
}

}  // namespace steps
