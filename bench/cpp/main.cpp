// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <string>

#include "flyring.hpp"
#include "harness.hpp"
#include "raw.hpp"

namespace bench {

static Setup parse(int count, char** words) {
    Setup setup;
    for (int at = 1; at + 1 < count; at += 2) {
        const std::string name = words[at], value = words[at + 1];
        if (name == "--contender") {
            setup.contender = value;
        } else if (name == "--side") {
            setup.side = value == "a" ? Side::a : value == "b" ? Side::b : value == "a2" ? Side::a2 : Side::b2;
        } else if (name == "--scenario") {
            setup.scenario = value == "rtt" ? Scenario::rtt : value == "schedule" ? Scenario::schedule : Scenario::stream;
        } else if (name == "--size") {
            setup.size = std::stoul(value);
        } else if (name == "--mode") {
            setup.whole = value == "write";
        } else if (name == "--wait") {
            setup.block = value == "block";
        } else if (name == "--core") {
            setup.core = std::stoi(value);
        } else if (name == "--dir") {
            setup.dir = value;
        } else if (name == "--sides") {
            setup.sides = std::stoi(value);
        } else if (name == "--rate") {
            setup.rate = std::stod(value);
        } else if (name == "--time-slice") {
            setup.time_slice = std::stod(value);
        } else if (name == "--option") {
            const auto equals = value.find('=');
            setup.options[value.substr(0, equals)] = equals == std::string::npos ? "" : value.substr(equals + 1);
        } else {
            throw std::runtime_error("unknown option " + name);
        }
    }
    return setup;
}

static void run(const Setup& setup) {
    const std::string& name = setup.contender;
    if (setup.core >= 0 && bench_pin(setup.core) != 0) throw std::runtime_error("cannot pin to core " + std::to_string(setup.core));
    if (name == "flyring-offer") return run<FlyringOffer>(setup);
    if (name == "flyring-claim") return run<FlyringClaim>(setup);
    if (name == "raw-line") return run<RawLine>(setup);
    if (name == "bare-ring") return run<BareRing>(setup);
    throw std::runtime_error("no contender is called " + name);
}

}  // namespace bench

int main(int count, char** words) {
    try {
        bench::run(bench::parse(count, words));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "flyring-bench: %s\n", error.what());
        return 1;
    }
    return 0;
}
