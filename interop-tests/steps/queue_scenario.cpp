// SPDX-License-Identifier: Apache-2.0
#include "queue_scenario.hpp"

#include <unistd.h>

#include <flyring/flyring.hpp>
#include <stdexcept>
#include <utility>

#include "plan.hpp"

namespace steps {

Bytes make_queue_base(const std::string& path, std::uint32_t alignment, bool drained) {
    constexpr std::int64_t capacity = 4096;
    ::unlink(path.c_str());
    flyring::Options options;
    options.kind = flyring::Kind::queue;
    options.capacity = capacity;
    options.producers = 2;
    options.workers = 4;
    options.alignment = alignment;
    options.counters = 0;
    {
        flyring::Channel channel = fixed(tracer_pid).create(path, options);
        flyring::Publisher pub = channel.publisher(publisher_name);
        flyring::Worker worker = channel.worker();
        std::int64_t sequence = 0;
        const auto send = [&] {
            const auto bytes = payload(0, sequence, length_of(sequence));
            if (pub.offer({bytes.data(), bytes.size()}, type_of(sequence)) < 0) throw std::runtime_error("no room");
            ++sequence;
        };
        const auto work_off = [&] {
            while (worker.poll([](flyring::Job&) {}, 256) > 0) {
            }
        };
        while (pub.position() < capacity + 5 * capacity / 8) {
            send();
            work_off();
        }
        for (int i = 0; i < 5; ++i) send();
        if (drained) work_off();
    }
    return read_file(path);
}

const std::vector<QueueScenario>& queue_scenarios() {
    static const std::vector<QueueScenario> all = [] {
        std::vector<QueueScenario> list;
        const auto add = [&](std::string name, std::string operation = "") -> QueueScenario& {
            QueueScenario scenario;
            scenario.operation = operation.empty() ? name : std::move(operation);
            scenario.name = std::move(name);
            list.push_back(std::move(scenario));
            return list.back();
        };
        add("queue-take");
        add("queue-take-compact", "queue-take").alignment = 8;
        add("queue-take-own").slot = 1;
        add("queue-take-batch");
        add("queue-take-padding");
        add("queue-take-owner");
        add("queue-take-returned");
        add("queue-take-after");
        add("queue-take-beside").beside = true;
        add("queue-sleep").slot = 0;
        for (const char* done :
             {"queue-done", "queue-done-batch", "queue-done-middle", "queue-done-last", "queue-done-stayed"}) {
            add(done).finished = true;
        }
        for (const char* adopt :
             {"queue-adopt", "queue-adopt-again", "queue-adopt-batch", "queue-adopt-evicted", "queue-adopt-untaken"}) {
            add(adopt);
        }
        add("queue-take-worker").takes_slot = true;
        add("queue-take-worker-evicted").takes_slot = true;
        add("queue-release");
        add("queue-release-again");
        add("queue-release-batch").alignment = 8;
        add("queue-release-full");
        add("queue-release-busy").holds_returns = true;
        add("queue-close").slot = 0;
        add("queue-evict").slot = 0;
        QueueScenario& wake = add("queue-wake-one");
        wake.slot = 0;
        wake.publishes = true;
        QueueScenario& sleeper = add("queue-wake-sleeper", "queue-wake-one");
        sleeper.slot = 0;
        sleeper.publishes = sleeper.drained = sleeper.wakes = true;
        QueueScenario& reserve = add("queue-reserve");
        reserve.slot = 0;
        reserve.live = 1;
        reserve.adopted_from = true;
        for (const char* operation : {"queue-take", "queue-take-batch", "queue-done", "queue-adopt", "queue-release",
                                      "queue-close", "queue-take-worker", "queue-evict"}) {
            for (const QueueScenario& scenario : list) {
                if (scenario.name != operation) continue;
                QueueScenario python = scenario;
                python.name = std::string("python-") + operation;
                python.python = true;
                python.only_full = scenario.takes_slot || python.operation == "queue-evict";  // much of it is Python
                list.push_back(python);
                break;
            }
        }
        return list;
    }();
    return all;
}

const std::vector<Fault>& queue_faults() {
    static const std::vector<Fault> all = {
        {"take-stored", "queue-take"},
        {"take-kept", "queue-take"},
        {"adopt-cleared-first", "queue-adopt"},
        {"release-done-first", "queue-release"},
        {"room-without-handovers", "queue-reserve"},
    };
    return all;
}

}  // namespace steps
