// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.hpp"

// Helpers of the tests of services.

namespace services {

using namespace std::chrono_literals;
using flyring::Answer;
using flyring::Call;
using flyring::Channel;
using flyring::Client;
using flyring::Delivery;
using flyring::Kind;
using flyring::Options;
using flyring::Request;
using flyring::Server;
using support::bytes;
using support::code_of;
using support::text;
using clock_type = std::chrono::steady_clock;
namespace layout = flyring::layout;

inline Options service(std::uint32_t clients = 2, std::uint32_t capacity = 4096, std::uint32_t alignment = 64,
                       std::uint32_t max_outstanding = 64, Delivery delivery = Delivery::at_most_once) {
    Options options;
    options.kind = Kind::service;
    options.clients = clients;
    options.capacity = capacity;
    options.alignment = alignment;
    options.max_outstanding = max_outstanding;
    options.delivery = delivery;
    options.counters = 4;
    return options;
}

inline Options least(std::uint32_t clients = 2, std::uint32_t capacity = 4096) {
    return service(clients, capacity, 64, 64, Delivery::at_least_once);
}

inline const auto echo = [](Request& request) { request.reply(request.payload(), request.type()); };

/// A channel "c" with a server and a client, in one thread.
struct Pair {
    explicit Pair(const Options& options = service()) : channel(Channel::replace("c", options)) {}

    /// The answer to one call; `handler` gets its request.
    std::string answered_by(const std::function<void(Request&)>& handler) {
        Call call = client.start(bytes("price?"), 7);
        EXPECT_EQ(server.poll(handler), 1);
        EXPECT_EQ(client.poll(), 1);
        return text(call.result());
    }
    /// The text of the error with which such a call ends.
    std::string error_of(const std::function<void(Request&)>& handler) {
        Call call = client.start(bytes("price?"), 7);
        EXPECT_EQ(server.poll(handler), 1);
        EXPECT_EQ(client.poll(), 1);
        try {
            call.result();
        } catch (const flyring::ServiceError& error) {
            return error.text();
        }
        return "none";
    }
    /// The code of the error that `action` throws, with its may_have_run.
    static std::string may_have_run(const std::function<void()>& action) {
        const auto said = [](const char* code, bool may) { return code + std::string(may ? " true" : " false"); };
        try {
            action();
        } catch (const flyring::Expired& error) {
            return said("expired", error.may_have_run());
        } catch (const flyring::ServerGone& error) {
            return said("server-gone", error.may_have_run());
        } catch (const flyring::FlyringError& error) {
            return std::string(error.code());
        }
        return "none";
    }

    Channel channel;
    Server server{channel.server("pricing")};
    Client client{channel.client("desk")};
};

}  // namespace services
