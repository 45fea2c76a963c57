// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

// The driver's settings for one side (bench/PEER.md).

namespace bench {

enum class Side { a, b, a2, b2 };
enum class Scenario { rtt, schedule, stream, idle, jobs, burst, map, append };

struct Setup {
    std::string contender;
    Side side = Side::a;
    Scenario scenario = Scenario::rtt;
    std::size_t size = 32;
    bool whole = true;  // --mode write: every byte written and compared
    bool block = false;
    int core = -1;
    std::string dir;
    int sides = 2;
    double rate = 0;           // messages per second
    double time_slice = 0.15;  // seconds
    std::map<std::string, std::string> options;

    /// Messages go from a to b only.
    bool one_way() const { return scenario != Scenario::rtt && scenario != Scenario::schedule; }
    bool client() const { return side == Side::a; }
    bool producer() const { return side == Side::a || side == Side::a2; }
    /// The number of this producer or consumer, 0 or 1.
    unsigned number() const { return side == Side::a || side == Side::b ? 0 : 1; }
    std::string option(const std::string& name, const std::string& otherwise) const {
        const auto found = options.find(name);
        return found == options.end() ? otherwise : found->second;
    }
    std::size_t option(const std::string& name, std::size_t otherwise) const {
        const auto found = options.find(name);
        return found == options.end() ? otherwise : std::stoul(found->second);
    }
    std::string path(const std::string& name) const { return dir + "/" + name; }
    /// A unique name, for mechanisms that have their own name space.
    std::string unique(const std::string& name) const { return dir.substr(dir.rfind('/') + 1) + "-" + name; }
};

}  // namespace bench
