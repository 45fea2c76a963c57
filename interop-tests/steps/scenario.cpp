// SPDX-License-Identifier: Apache-2.0
#include "scenario.hpp"

#include <unistd.h>

#include <stdexcept>

#include "tracee.hpp"

namespace steps {

using flyring::Channel;
using flyring::Publisher;

namespace {

constexpr std::int64_t capacity = 4096;

void send(Publisher& publisher, Streams& streams, std::size_t length) {
    std::vector<Expected>& stream = streams[publisher.ring()];
    const auto sequence = static_cast<std::int64_t>(stream.size());
    const std::vector<std::byte> bytes = payload(publisher.ring(), sequence, length);
    if (publisher.offer({bytes.data(), bytes.size()}, type_of(sequence)) < 0)
        throw std::runtime_error("the base is full");
    stream.push_back({length, type_of(sequence)});
}

void send(Publisher& publisher, Streams& streams) {
    send(publisher, streams, length_of(static_cast<std::int64_t>(streams[publisher.ring()].size())));
}

}  // namespace

Situation make_base(const std::string& path, Base base, std::uint32_t alignment, const std::string& child) {
    ::unlink(path.c_str());
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    options.capacity = capacity;
    options.publishers = 2;
    options.subscribers = 5;
    options.alignment = alignment;
    options.counters = 0;
    Situation situation;
    Streams& streams = situation.streams;
    {
        Channel channel = fixed(tracer_pid).create(path, options);
        Party keeper(channel.subscriber(keeper_name, true), keeper_name, {});
        Party live(channel.subscriber(live_name, true), live_name, {});
        Party reader(channel.subscriber(reader_name, true), reader_name, {});
        Publisher pub = channel.publisher(publisher_name);
        Publisher other = channel.publisher(other_name);
        const auto all_poll = [&] {
            keeper.poll(streams);
            live.poll(streams);
            reader.poll(streams);
            situation.keeper = situation.reader = counts(streams);
        };
        for (int i = 0; i < 3; ++i) send(other, streams);
        while (pub.position() < capacity + 5 * capacity / 8) {  // so that old records lie everywhere
            send(pub, streams);
            all_poll();
        }
        if (base == Base::dead) {
            Tracee dead({child, "join", path, "0"});
            while (dead.step()) {
            }
            dead.kill();
            for (int i = 0; i < 20; ++i) send(pub, streams);
            all_poll();
        } else {
            for (int i = 0; i < 5; ++i) send(pub, streams);
            for (int i = 0; i < 2; ++i) send(other, streams);
        }
        if (base == Base::wrapped) {
            constexpr std::size_t length = 200;
            const auto before_end = [&](std::int64_t bytes) { return pub.position() % capacity + bytes <= capacity; };
            while (before_end(500)) {
                send(pub, streams);
                all_poll();
            }
            while (before_end(208)) send(pub, streams);
            send(pub, streams, length);  // with padding before it
            pub.close();
            Publisher next = channel.publisher(publisher_name);  // an owner record
            for (int i = 0; i < 3; ++i) send(next, streams);
        }
        live.poll(streams);
        situation.live = counts(streams);
    }
    situation.bytes = read_file(path);
    return situation;
}

const std::vector<Scenario>& scenarios() {
    using At = Scenario::At;
    static const std::vector<Scenario> all = [] {
        std::vector<Scenario> list;
        const auto add = [&](std::string name, std::vector<std::size_t> lengths = {}) -> Scenario& {
            Scenario scenario;
            scenario.operation = name;
            scenario.name = std::move(name);
            scenario.lengths = std::move(lengths);
            list.push_back(std::move(scenario));
            return list.back();
        };
        add("offer", {30});
        add("first-offer", {30});
        add("offer-boundary", {30});
        add("offer-to-end", {30});
        add("offer-padding", {200});
        add("wake", {30});
        add("sleep-for-room");
        add("claim", {30}).commits = false;
        add("commit", {30});
        add("abort");
        add("batch", {10, 60, 0, 90});
        add("batch-padding", {200, 5, 300});
        add("offer", {500}).name = "offer-long";  // nothing is cleared ahead of it
        add("claim", {500}).name = "claim-long";
        list.back().commits = false;
        add("offer-retire", {30}).base = Base::dead;
        add("offer-lag", {30}).gives_up = {keeper_name, reader_name};
        for (Scenario& scenario : list) scenario.publishes = true;
        for (std::size_t i = 0, count = list.size(); i < count; ++i) {
            Scenario compact = list[i];
            if (compact.operation == "offer-to-end" || compact.base == Base::dead || !compact.gives_up.empty())
                continue;
            compact.name += "-compact";
            compact.alignment = 8;
            list.push_back(compact);
        }
        add("poll").base = Base::wrapped;
        add("poll-waking").base = Base::wrapped;
        add("sleep");
        add("join");
        add("join-kept");
        add("join-evicted").gives_up = {reader_name};
        add("resume");
        add("leave");
        add("close-kept");
        add("forget").gives_up = {reader_name};
        add("lossy-poll").base = Base::wrapped;
        add("evict").gives_up = {reader_name};
        add("evict-live").gives_up = {live_name};
        add("take-publisher");
        add("take-publisher-renamed");
        add("close-publisher");
        add("close-claiming");
        add("close-channel");
        const auto recover = [&](const char* name, const char* of, At at) -> Scenario& {
            Scenario& scenario = add("take-publisher");
            scenario.name = name;
            scenario.base_of = of;
            scenario.base_at = at;
            return scenario;
        };
        recover("recover-claim", "first-offer", At::first_change);
        recover("recover-uncommitted", "batch", At::before_commit);
        recover("recover-committed", "offer", At::commit);
        recover("recover-batch", "batch-compact", At::commit).alignment = 8;
        recover("recover-contested", "batch", At::commit).contested = true;
        for (const char* operation :
             {"offer", "first-offer", "offer-padding", "claim", "commit", "abort", "batch", "poll"}) {
            for (const Scenario& scenario : list) {
                if (scenario.name != operation) continue;
                Scenario python = scenario;
                python.name = std::string("python-") + operation;
                python.python = true;
                list.push_back(python);
                break;
            }
        }
        return list;
    }();
    return all;
}

const std::vector<Fault>& faults() {
    static const std::vector<Fault> all = {
        {"commit-before-payload", "offer"}, {"commit-before-clear", "offer-long"},
        {"count-after-published", "offer"}, {"recover-without-zero", "recover-claim"},
        {"name-rewritten", "resume"},       {"evict-unmarked", "evict"},
    };
    return all;
}

}  // namespace steps
