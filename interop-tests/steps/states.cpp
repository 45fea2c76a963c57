// SPDX-License-Identifier: Apache-2.0
#include "states.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace steps {

void write_states(const std::string& stem, const Recording& recording) {
    constexpr const char* digits = "0123456789abcdef";
    std::filesystem::create_directories(std::filesystem::path(stem).parent_path());
    write_file(stem + ".base", recording.opened);
    write_file(stem + ".ring", recording.states[0]);
    std::ofstream out(stem + ".stores");
    for (std::size_t state = 1; state < recording.states.size(); ++state) {
        const Bytes& before = recording.states[state - 1];
        const Bytes& after = recording.states[state];
        std::size_t first = 0;
        while (before[first] == after[first]) ++first;
        std::size_t last = after.size() - 1;
        while (before[last] == after[last]) --last;
        out << first << ' ';
        for (std::size_t i = first; i <= last; ++i) {
            const auto byte = std::to_integer<unsigned>(after[i]);
            out << digits[byte >> 4] << digits[byte & 15];
        }
        out << '\n';
    }
    if (!out.flush()) throw std::runtime_error("cannot write " + stem + ".stores");
}

}  // namespace steps
