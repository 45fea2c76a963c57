// SPDX-License-Identifier: Apache-2.0
#include "service_scenario.hpp"

#include <unistd.h>

#include <flyring/flyring.hpp>
#include <stdexcept>
#include <utility>

#include "plan.hpp"

namespace steps {

Bytes make_service_base(const std::string& path, std::uint32_t alignment, bool least) {
    constexpr std::int64_t capacity = 4096;
    ::unlink(path.c_str());
    flyring::Options options;
    options.kind = flyring::Kind::service;
    options.capacity = capacity;
    options.clients = 3;
    options.alignment = alignment;
    options.delivery = least ? flyring::Delivery::at_least_once : flyring::Delivery::at_most_once;
    options.counters = 0;
    {
        flyring::Channel channel = fixed(tracer_pid).create(path, options);
        flyring::Server server = channel.server("first");
        flyring::Client client = channel.client("desk");
        const auto published = [&] {
            return Image(read_file(path)).trailer(client.number(), flyring::layout::TRAILER_PUBLISHED);
        };
        for (std::int64_t sequence = 0; published() < capacity + 5 * capacity / 8; ++sequence) {
            const auto bytes = payload(0, sequence, length_of(sequence));
            client.start({bytes.data(), bytes.size()}, type_of(sequence));
            server.poll([](flyring::Request& request) {
                std::string text = "answer to ";
                text.append(reinterpret_cast<const char*>(request.data()), request.size());
                request.reply({reinterpret_cast<const std::byte*>(text.data()), text.size()}, 7);
            });
            if (client.poll() != 1) throw std::runtime_error("the base: a call without an answer");
        }
        client.close();
        server.close();
    }
    return read_file(path);
}

const std::vector<ServiceScenario>& service_scenarios() {
    static const std::vector<ServiceScenario> all = [] {
        std::vector<ServiceScenario> list;
        const auto add = [&](std::string name, std::string operation = "", int slot = 0) -> ServiceScenario& {
            ServiceScenario scenario;
            scenario.operation = operation.empty() ? name : std::move(operation);
            scenario.name = std::move(name);
            scenario.slot = slot;
            list.push_back(std::move(scenario));
            return list.back();
        };
        add("service-call", "", 1);
        add("service-call-compact", "service-call", 1).alignment = 8;
        add("service-call-first", "", 1);
        add("service-serve");
        add("service-serve-compact", "service-serve").alignment = 8;
        for (const char* serve : {"service-serve-first", "service-serve-three", "service-serve-kept",
                                  "service-serve-error", "service-serve-expired", "service-serve-stream",
                                  "service-serve-not-run", "service-later", "service-items"}) {
            add(serve);
        }
        add("service-serve-least", "service-serve").least = true;
        add("service-serve-least-three", "service-serve-three").least = true;
        add("service-serve-least-repeat", "service-serve-not-run").least = true;
        add("service-later-least", "service-later-first").least = true;
        add("service-later-least-second", "service-later").least = true;
        for (const char* call :
             {"service-drain", "service-expire", "service-gone", "service-cancel", "service-credit"}) {
            add(call, "", 1);
        }
        add("service-take-client", "", 1).takes_slot = true;
        add("service-take-client-evicted", "", 1).takes_slot = true;
        add("service-take-server").takes_slot = true;
        ServiceScenario& least = add("service-take-server-least", "service-take-server");
        least.least = least.takes_slot = true;
        for (const char* end :
             {"service-close-client", "service-close-server", "service-evict-server", "service-evict-client"}) {
            add(end, "", -1);
        }
        const auto python = [&](const std::string& name, bool only_full) {
            for (const ServiceScenario& scenario : list) {
                if (scenario.name != name) continue;
                ServiceScenario same = scenario;
                same.name = "python-" + name;
                same.python = true;
                same.only_full = only_full;
                list.push_back(std::move(same));
                return;
            }
            throw std::logic_error("there is no scenario " + name);
        };
        for (const char* name : {"service-call", "service-drain", "service-serve", "service-later-least",
                                 "service-close-client", "service-close-server"}) {
            python(name, false);
        }
        for (const char* name : {"service-serve-three", "service-serve-kept", "service-serve-least",
                                 "service-serve-error", "service-serve-expired", "service-serve-stream",
                                 "service-later", "service-later-least-second", "service-cancel", "service-credit"}) {
            python(name, true);
        }
        return list;
    }();
    return all;
}

const std::vector<Fault>& service_faults() {
    static const std::vector<Fault> all = {
        {"taken-late", "service-serve"},
        {"gate-before-reply", "service-later-least-second"},
        {"not-run-is-run", "service-serve-not-run"},
        {"outstanding-stays", "service-take-client"},
        {"evicting-stays", "service-take-client-evicted"},
    };
    return all;
}

}  // namespace steps
