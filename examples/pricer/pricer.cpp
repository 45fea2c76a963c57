// SPDX-License-Identifier: Apache-2.0
// A service that knows prices, and who asks it.
//
// pricer serve          answers until standard input ends; an instrument that begins with "slow" takes
//                       longer than its caller waits, one that begins with "no" has no price
// pricer ask NAME...    prints the price of each, or why there is none; waits half a second for each
#include <algorithm>
#include <chrono>
#include <flyring/flyring.hpp>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

flyring::Channel prices() {
    flyring::Options options;
    options.kind = flyring::Kind::service;
    options.clients = 4;
    return flyring::Channel::open_or_create("prices", options);
}

template <typename Message>
std::string text_of(const Message& message) {
    return {reinterpret_cast<const char*>(message.data()), message.size()};
}

/// Not a real one.
std::string price_of(const std::string& instrument) {
    if (instrument.rfind("no", 0) == 0) throw std::runtime_error("there is no price of " + instrument);
    unsigned sum = 0;
    for (const char letter : instrument) sum += static_cast<unsigned char>(letter);
    return std::to_string(sum) + ".00";
}

void serve() {
    flyring::Channel channel = prices();
    flyring::Server server = channel.server("pricer", 5s);  // another one may still be about to go
    std::thread end([&] {
        std::cin.ignore(std::numeric_limits<std::streamsize>::max());
        server.stop();
    });
    server.serve([](flyring::Request& request) {
        const std::string instrument = text_of(request);
        if (instrument.rfind("slow", 0) == 0) {
            std::this_thread::sleep_for(2 * request.remaining().value_or(1s));  // its caller still waits so long
        }
        request.reply(flyring::as_bytes(price_of(instrument)));  // what it throws, its caller gets
    });
    end.join();
}

void ask(int count, char** instruments) {
    flyring::Channel channel = prices();
    flyring::Client client = channel.client();
    for (int i = 0; i < count; ++i) {
        const std::string instrument = instruments[i];
        try {
            const flyring::Answer answer = client.call(flyring::as_bytes(instrument), 500ms);
            std::cout << instrument << ": " << text_of(answer) << std::endl;
        } catch (const flyring::ServiceError& error) {
            std::cout << instrument << ": " << error.text() << std::endl;
        } catch (const flyring::Expired&) {
            std::cout << instrument << ": no answer in time" << std::endl;
        } catch (const flyring::ServerGone&) {
            std::cout << instrument << ": the server has gone" << std::endl;
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "serve" && argc == 2) {
        serve();
    } else if (verb == "ask" && argc > 2) {
        ask(argc - 2, argv + 2);
    } else {
        std::cerr << "Use pricer serve, or pricer ask NAME...\n";
        return 1;
    }
    return 0;
}
