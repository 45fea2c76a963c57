// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <cstdio>

// The program that is stepped and killed: child OP PATH SEQUENCE LENGTH... It prepares, then does one thing between two
// marks. SEQUENCE: how many messages ring 0 has had; LENGTH...: of the messages that OP publishes, bytes.

int main(int count, char** arguments) {
    try {
        const std::vector<std::string> words(arguments + 1, arguments + count);
        steps::Run run{words.at(1), std::stoll(words.at(2)), {}};
        for (std::size_t i = 3; i < words.size(); ++i) run.lengths.push_back(std::stoul(words[i]));
        steps::Operations operations = steps::publishing();
        operations.merge(steps::owning());
        operations.at(words[0])(run);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
        return 1;
    }
}
