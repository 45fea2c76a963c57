// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace demo {

const char* const usage =
    "flyring-demo [counter|line] ping|pong [options]\n"
    "  --channel NAME      channel name or path (demo)\n"
    "  --size BYTES        message size, at least 32 (32)\n"
    "  --count N           measured round trips (1000000)\n"
    "  --warmup N          round trips before those (100000)\n"
    "  --rate R            messages per second; 0 = as fast as answers come (0)\n"
    "  --core N            pin to this core; -1 = do not (-1)\n"
    "  --wait HOW          spin, yield, backoff or, ping and pong only, block (spin)\n"
    "  --capacity BYTES    of a ring, if this side creates the channel (1048576)\n"
    "  --alignment 64|8    of a record, if this side creates the channel (64)\n"
    "  --timeout S         give up after S seconds of silence (30)\n"
    "  --histogram FILE    ping: write the raw samples, int64 nanoseconds\n"
    "  --json              print one line of JSON instead of the table\n"
    "  --untimed           only the mean: the clock is read before the first and after the last round trip\n"
#ifdef FLYRING_TYPED
    "  --typed             ping, pong: PriceUpdate of spec/sbe/prices.xml, field by field; takes no --size\n"
#endif
    ;

const char* name(Program program) {
    switch (program) {
        case Program::ping:
            return "ping";
        case Program::counter:
            return "counter";
        case Program::line:
            return "line";
    }
    return "";
}

const char* name(Wait wait) {
    switch (wait) {
        case Wait::spin:
            return "spin";
        case Wait::yield:
            return "yield";
        case Wait::backoff:
            return "backoff";
        case Wait::block:
            return "block";
    }
    return "";
}

static std::int64_t number(std::string_view option, std::string_view text, std::int64_t least,
                           std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
        throw std::invalid_argument(std::string(option) + " takes a number from " + std::to_string(least) + ", not " +
                                    std::string(text));
    }
    return value;
}

static Wait wait_of(std::string_view text) {
    for (const Wait wait : {Wait::spin, Wait::yield, Wait::backoff, Wait::block}) {
        if (text == name(wait)) return wait;
    }
    throw std::invalid_argument("--wait takes spin, yield, backoff or block, not " + std::string(text));
}

static double seconds(const std::string& text) {
    std::size_t used = 0;
    double value = -1;
    try {
        value = std::stod(text, &used);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used == 0 || used != text.size() || !(value > 0)) {
        throw std::invalid_argument("--timeout takes seconds, not " + text);
    }
    return value;
}

static void check_typed(Options& options, bool sized) {
#ifndef FLYRING_TYPED
    throw std::invalid_argument("this demo was built without --typed: its codecs need Java and sbe-tool");
#endif
    if (options.program != Program::ping) throw std::invalid_argument("--typed is for ping and pong only");
    if (sized) throw std::invalid_argument("--size cannot be given with --typed, whose message has 70 bytes");
    // Sequences have 32 bits; 0 and 2^32 - 1 have special meanings.
    constexpr std::int64_t most = (std::int64_t{1} << 32) - 2;
    if (options.warmup > most || options.count > most - options.warmup) {
        throw std::invalid_argument("--typed has at most 4294967294 round trips, --warmup and --count together");
    }
    options.size = 70;
}

Options parse(int count, const char* const* words) {
    Options options;
    int at = 1;
    if (at < count && std::string_view(words[at]) == "counter") {
        options.program = Program::counter;
        ++at;
    } else if (at < count && std::string_view(words[at]) == "line") {
        options.program = Program::line;
        ++at;
    }
    const std::string_view side = at < count ? words[at++] : "";
    if (side != "ping" && side != "pong") throw std::invalid_argument("say ping or pong");
    options.ping = side == "ping";
    bool sized = false;
    while (at < count) {
        const std::string_view option = words[at++];
        if (option == "--json") {
            options.json = true;
        } else if (option == "--untimed") {
            options.untimed = true;
        } else if (option == "--typed") {
            options.typed = true;
        } else {
            if (at == count) throw std::invalid_argument(std::string(option) + " is unknown or lacks its value");
            const std::string_view value = words[at++];
            if (option == "--channel") {
                options.channel = value;
            } else if (option == "--size") {
                options.size = static_cast<std::size_t>(number(option, value, 32));
                sized = true;
            } else if (option == "--count") {
                options.count = number(option, value, 1);
            } else if (option == "--warmup") {
                options.warmup = number(option, value, 0);
            } else if (option == "--rate") {
                options.rate = number(option, value, 0, 1'000'000'000);
            } else if (option == "--core") {
                options.core = static_cast<int>(number(option, value, -1, 1'000'000));
            } else if (option == "--wait") {
                options.wait = wait_of(value);
            } else if (option == "--capacity") {
                options.capacity = static_cast<std::uint32_t>(number(option, value, 0, 1U << 30));
            } else if (option == "--alignment") {
                options.alignment = static_cast<std::uint32_t>(number(option, value, 0, 64));
            } else if (option == "--timeout") {
                options.timeout = seconds(std::string(value));
            } else if (option == "--histogram") {
                options.histogram = value;
            } else {
                throw std::invalid_argument("unknown option " + std::string(option));
            }
        }
    }
    if (options.wait == Wait::block && options.program != Program::ping) {
        throw std::invalid_argument("--wait block is for ping and pong only");
    }
    if (options.typed) check_typed(options, sized);
    return options;
}

}  // namespace demo
