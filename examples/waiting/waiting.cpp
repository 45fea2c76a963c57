// SPDX-License-Identifier: Apache-2.0
// Sleeps until a message comes on either of two channels.
//
// waiting                 prints what comes; the text "stop" on the channel "control" ends it
// waiting CHANNEL TEXT    sends TEXT to the channel "orders" or "control"
#include <chrono>
#include <flyring/flyring.hpp>
#include <iostream>
#include <string>
#include <variant>

namespace {

flyring::Channel inbox(const char* name) {
    flyring::Options options;
    options.kind = flyring::Kind::inbox;
    return flyring::Channel::open_or_create(name, options);
}

void read() {
    flyring::Channel orders = inbox("orders");
    flyring::Channel control = inbox("control");
    flyring::Subscriber order_reader = orders.subscriber();
    flyring::Subscriber control_reader = control.subscriber();
    flyring::WaitSet waits;
    waits.add(order_reader);
    waits.add(control_reader);
    for (bool stopped = false; !stopped;) {
        // Sleeps in the kernel. Those that are ready may have a message; poll() does not wait.
        for (const flyring::WaitSet::Member& ready : waits.wait()) {
            flyring::Subscriber& reader = *std::get<flyring::Subscriber*>(ready);
            const bool is_control = &reader == &control_reader;
            reader.poll([&](const flyring::Message& message) {
                const std::string text(reinterpret_cast<const char*>(message.data()), message.size());
                std::cout << (is_control ? "control: " : "orders: ") << text << std::endl;
                if (is_control && text == "stop") stopped = true;
            });
        }
    }
}

int send(const std::string& name, const char* text) {
    if (name != "orders" && name != "control") {
        std::cerr << "There is no channel \"" << name << "\". Use orders or control.\n";
        return 1;
    }
    flyring::Channel channel = inbox(name.c_str());
    try {
        channel.publisher().send(flyring::as_bytes(text), std::chrono::seconds(5));  // sleeps while the ring is full
    } catch (const flyring::BackPressured& error) {
        std::cerr << "The ring was full for 5 seconds: " << error.what() << '\n';
        return 1;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 1) {
        read();
        return 0;
    }
    if (argc == 3) return send(argv[1], argv[2]);
    std::cerr << "Use waiting, or waiting CHANNEL TEXT.\n";
    return 1;
}
