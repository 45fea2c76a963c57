// SPDX-License-Identifier: Apache-2.0
// A gateway sends orders to an engine, which answers each with a report.
//
// order_gateway gateway COUNT    sends so many orders, and prints what became of each
// order_gateway engine           fills orders until the gateway closes
#include <chrono>
#include <cstdint>
#include <flyring/flyring.hpp>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct Order {
    std::int64_t number;
    std::int64_t quantity;
    std::int64_t price;
};

struct Report {
    std::int64_t number;
    std::int64_t filled;
};

constexpr std::int64_t fill_price = 100;  // the engine fills orders at this price or above

// Both rings are small, so that they are often full.
constexpr std::uint32_t order_capacity = 8192;
constexpr std::uint32_t report_capacity = 4096;

flyring::Channel open_channel(const std::string& name, std::uint32_t capacity) {
    flyring::Options options;
    options.kind = flyring::Kind::inbox;
    options.capacity = capacity;
    options.publishers = 1;
    return flyring::Channel::open_or_create(name, options);
}

template <typename T>
bool offer(flyring::Publisher& publisher, const T& message) {
    return publisher.offer({reinterpret_cast<const std::byte*>(&message), sizeof message}) != flyring::back_pressured;
}

void gateway(std::int64_t count) {
    flyring::Channel orders = open_channel("orders", order_capacity);
    flyring::Channel reports = open_channel("reports", report_capacity);
    flyring::Publisher publisher = orders.publisher("gateway");
    flyring::Subscriber subscriber = reports.subscriber("gateway");
    flyring::WaitSet waits;
    waits.add(publisher);
    waits.add(subscriber);
    auto show = [](const flyring::Message& message) {
        const auto report = message.as<Report>();
        std::cout << "order " << report.number << (report.filled > 0 ? ": filled\n" : ": rejected\n");
    };
    std::int64_t sent = 0, received = 0;
    while (sent < count) {
        if (offer(publisher, Order{sent, 10, fill_price - 1 + sent % 2})) {
            ++sent;
        } else if (const int reported = subscriber.poll(show); reported > 0) {
            received += reported;
        } else {
            waits.wait();  // sleeps until there is room for an order, or a report
        }
    }
    while (received < count) received += subscriber.poll(show, 256, flyring::forever);  // sleeps until there is one
}

void engine() {
    flyring::Channel orders = open_channel("orders", order_capacity);
    flyring::Channel reports = open_channel("reports", report_capacity);
    flyring::Subscriber subscriber = orders.subscriber("engine");
    flyring::Publisher publisher = reports.publisher("engine");
    flyring::WaitSet room;
    room.add(publisher);
    bool is_full = false;
    auto fill = [&](const flyring::Message& message) {
        const auto order = message.as<Order>();
        const std::int64_t filled = order.price >= fill_price ? order.quantity : 0;
        if (offer(publisher, Report{order.number, filled})) return flyring::Action::CONTINUE;
        is_full = true;
        return flyring::Action::ABORT;  // the order stays in the ring, and the next poll begins with it
    };
    std::int64_t filled = 0, waited = 0;
    while (filled == 0 || !subscriber.ended(0)) {
        filled += subscriber.poll(fill, 256, std::chrono::milliseconds(100));  // sleeps while there is nothing
        if (is_full) {
            room.wait();  // sleeps until there is room for a report
            is_full = false;
            ++waited;
        }
    }
    std::cout << filled << " orders; waited " << waited << " times for room\n";
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 2 && words[0] == "gateway") {
        gateway(std::stoll(words[1]));
    } else if (words == std::vector<std::string>{"engine"}) {
        engine();
    } else {
        std::cerr << "Use order_gateway with: gateway COUNT, or engine.\n";
        return 1;
    }
    return 0;
}
