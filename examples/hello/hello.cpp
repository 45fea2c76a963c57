// SPDX-License-Identifier: Apache-2.0
#include <flyring/flyring.hpp>
#include <iostream>
#include <string_view>

int main(int argc, char** argv) {
    flyring::Options options;
    options.kind = flyring::Kind::inbox;
    auto channel = flyring::Channel::open_or_create("hello", options);
    if (argc > 1) {
        if (channel.publisher().offer(flyring::as_bytes(argv[1])) == flyring::back_pressured) {
            std::cerr << "The channel is full: no process has read yet.\n";
            return 1;
        }
    } else {
        channel.subscriber().poll([](const flyring::Message& message) {
            std::cout << std::string_view(reinterpret_cast<const char*>(message.data()), message.size()) << '\n';
        });
    }
}
