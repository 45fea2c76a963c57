// SPDX-License-Identifier: Apache-2.0
#include <flyring/flyring.hpp>
#include <iostream>
#include <string_view>

int count_messages(flyring::Subscriber& subscriber);

int main() {
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    auto channel = flyring::Channel::create("consumer", options);
    auto subscriber = channel.subscriber();
    auto publisher = channel.publisher();
    publisher.offer(flyring::as_bytes(std::string_view("hello")));
    const int messages = count_messages(subscriber);
    flyring::Channel::unlink("consumer");
    std::cout << "messages: " << messages << "\n";
    return messages == 1 ? 0 : 1;
}
