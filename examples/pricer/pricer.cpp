// SPDX-License-Identifier: Apache-2.0
// A service that knows prices, and a caller with a time-out.
//
// pricer serve                      answers until it is killed
// pricer ask FRUIT COUNT SECONDS    prints what so many cost, in cents; waits no longer than that
#include <chrono>
#include <flyring/flyring.hpp>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

flyring::Channel pricer() {
    flyring::Options options;
    options.kind = flyring::Kind::service;
    return flyring::Channel::open_or_create("pricer", options);
}

template <typename Message>
std::string text_of(const Message& message) {
    return {reinterpret_cast<const char*>(message.data()), message.size()};
}

int price(const std::string& question) {
    static const std::map<std::string, int> cents = {{"apples", 120}, {"pears", 95}, {"plums", 210}};
    std::istringstream words(question);
    std::string fruit;
    int count = 0;
    if (!(words >> fruit >> count)) throw std::invalid_argument("ask for a fruit and a count, not: " + question);
    const auto found = cents.find(fruit);
    if (found == cents.end()) throw std::invalid_argument("there is no price for " + fruit);
    return found->second * count;
}

int serve() {
    flyring::Channel service = pricer();
    flyring::Server server = service.server("pricer");
    // Sleeps while there is no request. If the handler throws, the caller gets the text, and the server goes on.
    server.serve([](flyring::Request& request) {
        const std::string answer = std::to_string(price(text_of(request)));
        request.reply(flyring::as_bytes(answer));
    });
    return 0;
}

int ask(const std::string& fruit, const std::string& count, double seconds) {
    flyring::Channel service = pricer();
    flyring::Client client = service.client();
    const std::string question = fruit + " " + count;
    const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
    try {
        std::cout << text_of(client.call(flyring::as_bytes(question), timeout)) << '\n';
        return 0;
    } catch (const flyring::ServiceError& refused) {
        std::cerr << "refused: " << refused.text() << '\n';
    } catch (const flyring::Expired& late) {
        std::cerr << "no answer in time\n";
    } catch (const flyring::ServerGone& gone) {
        std::cerr << (gone.may_have_run() ? "the server has gone, and may have seen the question\n"
                                          : "the server has gone, and never saw the question\n");
    }
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "serve" && argc == 2) return serve();
    if (verb == "ask" && argc == 5) return ask(argv[2], argv[3], std::stod(argv[4]));
    std::cerr << "Use pricer serve, or pricer ask FRUIT COUNT SECONDS.\n";
    return 2;
}
