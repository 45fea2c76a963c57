// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <sstream>

#include "torture_calls.hpp"
#include "torture_jobs.hpp"
#include "torture_journals.hpp"
#include "torture_publisher.hpp"
#include "torture_subscriber.hpp"
#include "torture_tables.hpp"

// A worker of the SIGKILL torture. interop-tests/torture/WORKER.md describes what it does and logs.

namespace torture {
namespace {

void create(const Orders& orders) {
    if (orders.at("kind") == "table") return create_table(orders);
    if (orders.at("kind") == "journal") return create_journal(orders);
    const auto number = [&](const char* name) { return static_cast<std::uint32_t>(std::stoul(orders.at(name))); };
    flyring::Options options;
    options.capacity = number("capacity");
    options.alignment = number("alignment");
    if (orders.at("kind") == "queue") {
        options.kind = flyring::Kind::queue;
        options.producers = number("publishers");
        options.workers = number("subscribers");
    } else if (orders.at("kind") == "service") {
        options.kind = flyring::Kind::service;
        options.clients = number("clients");
        options.max_outstanding = number("max_outstanding");
        options.delivery = orders.at("delivery") == "at-least-once" ? flyring::Delivery::at_least_once
                                                                    : flyring::Delivery::at_most_once;
    } else {
        options.kind = orders.at("kind") == "inbox" ? flyring::Kind::inbox : flyring::Kind::broadcast;
        options.publishers = number("publishers");
        options.subscribers = number("subscribers");
    }
    options.counters = number("counters");
    flyring::Channel::create(orders.at("channel"), options).counters().allocate("common");
}

/// Evicts one slot, once.
class Operator final : public Worker {
  public:
    using Worker::Worker;

  private:
    void session() override {
        const auto slot = std::stol(orders_.at("slot"));
        const auto begins = now();
        side_.log(evicted, slot, begins);
        enter(evicting, 2);
        channel_.evict(static_cast<std::uint32_t>(slot));
        linger(2);
        side_.log(evicted, slot, begins, now());
        side_.phase(working);
    }
};

std::unique_ptr<AnyWorker> worker(const Orders& orders) {
    if (orders.at("role") == "putter") return std::make_unique<Putter>(orders);
    if (orders.at("role") == "looker") return std::make_unique<Looker>(orders);
    if (orders.at("role") == "appender") return std::make_unique<Appender>(orders);
    if (orders.at("role") == "follower") return std::make_unique<Follower>(orders);
    if (orders.at("role") == "consumer") return std::make_unique<ConsumingWorker>(orders);
    if (orders.at("role") == "publisher") return std::make_unique<PublishingWorker>(orders);
    if (orders.at("role") == "worker") return std::make_unique<JobWorker>(orders);
    if (orders.at("role") == "server") return std::make_unique<ServingWorker>(orders);
    if (orders.at("role") == "caller") return std::make_unique<CallingWorker>(orders);
    if (orders.at("role") == "operator") return std::make_unique<Operator>(orders);
    return std::make_unique<ReadingWorker>(orders);
}

}  // namespace
}  // namespace torture

int main() {
    std::cout << "ready" << std::endl;
    std::string line;
    if (!std::getline(std::cin, line)) return 0;
    torture::Orders orders;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
        const auto equals = word.find('=');
        orders[word.substr(0, equals)] = word.substr(equals + 1);
    }
    try {
        if (orders.at("role") == "creator") {
            torture::create(orders);
        } else {
            torture::worker(orders)->run();
        }
    } catch (const std::exception& error) {
        std::cerr << "flyring-torture: " << error.what() << "\n";
        return 3;
    }
    return 0;
}
