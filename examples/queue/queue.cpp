// SPDX-License-Identifier: Apache-2.0
// Shares jobs out to several workers, and gives up a job that failed three times.
//
// queue produce    each line of standard input is a job
// queue work       does jobs until all producers have gone and nothing is left; a text that
//                  begins with "bad" fails, one with "slow" takes a minute the first time
// queue dead       prints the jobs that were given up
#include <chrono>
#include <flyring/flyring.hpp>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

constexpr int give_up_after = 3;

flyring::Channel jobs() {
    flyring::Options options;
    options.kind = flyring::Kind::queue;
    options.producers = 2;
    options.workers = 3;
    return flyring::Channel::open_or_create("jobs", options);
}

flyring::Channel dead_letters() {
    flyring::Options options;
    options.kind = flyring::Kind::inbox;
    return flyring::Channel::open_or_create("dead-letters", options);
}

template <typename Message>
std::string text_of(const Message& message) {
    return {reinterpret_cast<const char*>(message.data()), message.size()};
}

void produce() {
    flyring::Channel queue = jobs();
    flyring::Publisher producer = queue.publisher();
    for (std::string line; std::getline(std::cin, line);) {
        producer.send(flyring::as_bytes(line));  // sleeps while the ring is full
    }
}

void handle(const std::string& text, int attempts) {
    if (text.rfind("bad", 0) == 0) throw std::runtime_error(text);
    if (text.rfind("slow", 0) == 0 && attempts == 0) std::this_thread::sleep_for(std::chrono::seconds(60));
}

void work() {
    flyring::Channel queue = jobs();
    flyring::Channel letters = dead_letters();
    flyring::Worker worker = queue.worker();
    flyring::Publisher given_up = letters.publisher();
    while (!worker.ended()) {
        // Sleeps while there is no job. A job is done when the handler returns, and given back if it throws.
        const auto handler = [&](flyring::Job& job) {
            const std::string text = text_of(job);
            if (job.attempts() >= give_up_after) {
                given_up.send(flyring::as_bytes(text), std::chrono::seconds(5));
                std::cout << "given up: " << text << std::endl;
                return;
            }
            std::cout << "begun: " << text << std::endl;
            handle(text, job.attempts());
            std::cout << "done: " << text << std::endl;
        };
        try {
            worker.poll(handler, 1, std::chrono::milliseconds(100));
        } catch (const std::runtime_error& failed) {
            if (dynamic_cast<const flyring::FlyringError*>(&failed) != nullptr) throw;
            // The job failed, and goes to the next worker.
        }
    }
}

void dead() {
    flyring::Channel letters = dead_letters();
    flyring::Subscriber reader = letters.subscriber();
    while (const auto letter = reader.take()) std::cout << text_of(*letter) << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string verb = argc == 2 ? argv[1] : "";
    if (verb == "produce") {
        produce();
    } else if (verb == "work") {
        work();
    } else if (verb == "dead") {
        dead();
    } else {
        std::cerr << "Use queue produce, queue work, or queue dead.\n";
        return 1;
    }
    return 0;
}
