// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "options.hpp"
#include "quote.hpp"
#ifdef FLYRING_TYPED
#include "typed.hpp"
#endif
#include "words.hpp"

namespace demo {

template <typename Strategy>
static void run(const Options& options) {
    Result result;
    switch (options.program) {
        case Program::counter:
            result = counter<Strategy>(options);
            break;
        case Program::line:
            result = line<Strategy>(options);
            break;
        case Program::ping:
#ifdef FLYRING_TYPED
            if (options.typed) {
                options.ping ? static_cast<void>(result = typed_ping<Strategy>(options))
                             : typed_pong<Strategy>(options);
                break;
            }
#endif
            if (options.ping) {
                result = ping<Strategy>(options);
            } else {
                pong<Strategy>(options);
            }
    }
    if (options.ping) report(options, std::move(result));
}

static void pin_to_core(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (core < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(core), &cores);
    if (::sched_setaffinity(0, sizeof cores, &cores) != 0) {
        throw std::invalid_argument("cannot pin to core " + std::to_string(core));
    }
}

static void run(const Options& options) {
    if (options.core >= 0) pin_to_core(options.core);
    switch (options.wait) {
        case Wait::spin:
            return run<flyring::SpinWait>(options);
        case Wait::yield:
            return run<flyring::YieldWait>(options);
        case Wait::backoff:
            return run<flyring::BackoffWait>(options);
        case Wait::block:
            return run<Block>(options);
    }
}

}  // namespace demo

int main(int count, char** words) {
    demo::Options options;
    try {
        options = demo::parse(count, words);
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n" << demo::usage;
        return 2;
    }
    try {
        demo::run(options);
    } catch (const std::exception& error) {
        std::cerr << "flyring-demo: " << error.what() << "\n";
        return 1;
    }
    return 0;
}
