// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

// The peer's ops on counters.

namespace peer {

flyring::Counter Peer::counter_of(const Json& request) {
    return channel_of(request).counters().counter(request.at("counter"));
}

Json Peer::counter_allocate(const Json& request) {
    flyring::Counters counters = channel_of(request).counters();
    const std::vector<std::byte> key = from_hex(request.value("key", ""));
    return {{"counter", counters.allocate(request.at("label"), request.value("type_id", 0), key).id()}};
}

Json Peer::counter_find(const Json& request) {
    const auto found = channel_of(request).counters().find(request.at("label"));
    return {{"counter", found ? Json(found->id()) : Json(nullptr)}};
}

Json Peer::counter_get(const Json& request) {
    const flyring::Counter counter = counter_of(request);
    const std::string order = request.value("order", "volatile");
    if (order != "plain" && order != "volatile") throw BadRequest("order: " + order);
    return {{"value", order == "plain" ? counter.get() : counter.get_volatile()}};
}

Json Peer::counter_set(const Json& request) {
    flyring::Counter counter = counter_of(request);
    const std::string order = request.value("order", "volatile");
    const std::int64_t value = request.at("value");
    if (order == "plain") {
        counter.set(value);
    } else if (order == "volatile") {
        counter.set_volatile(value);
    } else if (order == "release") {
        counter.set_release(value);
    } else {
        throw BadRequest("order: " + order);
    }
    return {{"value", counter.get_volatile()}};
}

Json Peer::counter_add(const Json& request) {
    flyring::Counter counter = counter_of(request);
    const std::int64_t delta = request.at("delta");
    const std::int64_t times = request.value("times", std::int64_t{1});
    for (std::int64_t i = 0; i < times; ++i) counter.get_and_add(delta);
    return {{"value", counter.get_volatile()}};
}

Json Peer::counter_cas_loop(const Json& request) {
    flyring::Counter counter = counter_of(request);
    const std::int64_t times = request.at("times");
    std::int64_t failed = 0;
    for (std::int64_t i = 0; i < times; ++i) {
        for (std::int64_t value = counter.get_volatile(); !counter.compare_and_set(value, value + 1);
             value = counter.get_volatile()) {
            ++failed;
        }
    }
    return {{"failed", failed}};
}

Json Peer::counter_free(const Json& request) {
    counter_of(request).free();
    return Json::object();
}

Json Peer::counters(const Json& request) {
    Json list = Json::array();
    channel_of(request).counters().for_each([&](const flyring::Counter& counter) {
        const std::vector<std::byte> key = counter.key();
        list.push_back({{"id", counter.id()},
                        {"label", counter.label()},
                        {"type_id", counter.type_id()},
                        {"key", to_hex(key)},
                        {"value", counter.get_volatile()}});
    });
    return {{"counters", list}};
}

}  // namespace peer
