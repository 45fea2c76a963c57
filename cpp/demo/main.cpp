// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <iostream>
#include <stdexcept>

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

static void run(const Options& options) {
    if (options.core >= 0 && !flyring::pin_to_core(options.core)) {
        throw std::invalid_argument("cannot pin to core " + std::to_string(options.core));
    }
    switch (options.wait) {
        case Wait::spin:
            return run<flyring::SpinWait>(options);
        case Wait::yield:
            return run<flyring::YieldWait>(options);
        case Wait::backoff:
            return run<flyring::BackoffWait>(options);
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
