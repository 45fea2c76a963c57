// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <deque>
#include <stdexcept>
#include <thread>

#include "requests.hpp"
#include "streams.hpp"

// The ops of a service (interop-tests/PEER.md).

namespace peer {

namespace {

Json request_json(const flyring::Request& request) {
    return {{"client", request.client()},
            {"type", request.type()},
            {"data", to_hex(request.payload())},
            {"repeat", request.repeat()},
            {"cancelled", request.cancelled()},
            {"is_stream", request.is_stream()},
            {"sender", {{"name", request.sender().name}, {"epoch", request.sender().epoch}}}};
}

Json answer_json(const flyring::Answer& answer) {
    return {{"type", answer.type()}, {"data", to_hex(answer.payload())}, {"repeat", answer.repeat()}};
}

/// Treats a request as `handler` says, except for keep.
void act(flyring::Request& request, const Json& handler) {
    if (handler.contains("stream")) {
        std::deque<std::vector<std::byte>> items;
        for (const Json& item : handler.at("stream")) items.push_back(from_hex(item));
        const std::optional<std::string> text =
            handler.contains("throw") ? std::optional<std::string>(handler.at("throw")) : std::nullopt;
        request.stream(
            [items, text]() mutable -> std::optional<std::vector<std::byte>> {
                if (items.empty() && text) throw std::runtime_error(*text);
                if (items.empty()) return std::nullopt;
                std::vector<std::byte> item = std::move(items.front());
                items.pop_front();
                return item;
            },
            handler.at("type").get<std::int32_t>());
    } else if (handler.contains("reply")) {
        request.reply(from_hex(handler.at("reply")), handler.at("type"));
    } else if (handler.contains("echo")) {
        request.reply(request.payload(), request.type());
    } else if (handler.contains("fail")) {
        request.fail(handler.at("fail").get<std::string>());
    } else if (handler.contains("throw")) {
        throw std::runtime_error(handler.at("throw").get<std::string>());
    } else if (!handler.contains("nothing")) {
        throw BadRequest("handler: " + handler.dump());
    }
}

/// Message i of a numbered stream.
struct Sent {
    Sent(const Stream& stream, std::uint64_t i) : payload(stream.max) {
        const StreamMessage message(stream, i);
        type = message.type();
        payload.resize(message.length());
        message.write(payload.data());
    }
    std::int32_t type;
    std::vector<std::byte> payload;
};

std::int64_t now() noexcept {
    return flyring::detail::clock_ns(CLOCK_MONOTONIC);
}

std::int64_t seconds(const Json& request, double otherwise) {
    return static_cast<std::int64_t>(request.value("seconds", otherwise) * 1e9);
}

std::chrono::nanoseconds limit_of(const Json& request) {
    return timeout(request).value_or(flyring::forever);
}

}  // namespace

Json Peer::server(const Json& request) {
    const std::string handle = request.at("server");
    flyring::Server made = channel_of(request).server(request.value("name", ""), timeout(request).value_or(no_time));
    return {{"epoch", keep(servers_, handle, std::move(made)).epoch()}};
}

Json Peer::client(const Json& request) {
    const std::string handle = request.at("client");
    clients_.erase(handle);
    auto made = std::make_unique<Caller>(
        channel_of(request).client(request.value("name", ""), timeout(request).value_or(no_time)));
    const flyring::Client& client = keep(clients_, handle, std::move(made))->client;
    return {{"number", client.number()}, {"epoch", client.epoch()}};
}

Json Peer::serve(const Json& request) {
    const Json handler = request.at("handler");
    Json requests = Json::array();
    find(servers_, request, "server")
        .poll(
            [&](flyring::Request& one) {
                requests.push_back(request_json(one));
                if (!handler.contains("keep")) return act(one, handler);
                const std::string name = handler.at("keep").get<std::string>() + std::to_string(requests.size() - 1);
                requests_.erase(name);
                requests_.emplace(name, one.keep());
            },
            request.value("limit", flyring::layout::DEFAULT_POLL_LIMIT), timeout(request).value_or(no_time));
    return {{"requests", requests}};
}

Json Peer::later(const Json& request) {
    flyring::Request& kept = find(requests_, request, "request");
    const Json handler = request.at("handler");
    if (handler.contains("throw") && !handler.contains("stream")) {
        kept.fail(handler.at("throw").get<std::string>());
    } else {
        act(kept, handler);
    }
    if (kept.answered()) requests_.erase(request.at("request"));
    return Json::object();
}

Json Peer::request(const Json& request) {
    return {{"cancelled", find(requests_, request, "request").cancelled()}};
}

Json Peer::held(const Json& request) {
    const flyring::Server& server = find(servers_, request, "server");
    return {{"in_hand", server.held().in_hand},    {"waiting", server.held().waiting},
            {"client_gone", server.client_gone()}, {"expired", server.expired()},
            {"not_run", server.not_run()},         {"damaged", server.damaged()}};
}

Json Peer::call(const Json& request) {
    return {{"answer", answer_json(find(clients_, request, "client")
                                       ->client.call(from_hex(request.at("data")), request.value("type", 1),
                                                     limit_of(request)))}};
}

Json Peer::start(const Json& request) {
    Caller& caller = *find(clients_, request, "client");
    const std::string name = request.at("call");
    const std::uint32_t credit = request.value("credit", 0U);
    const auto heard = [&caller, name, credit](flyring::Call& call) {
        if (caller.telling) return caller.hear(name, call, credit != 0);
        caller.heard.push_back(name);
    };
    const std::vector<std::byte> data = from_hex(request.at("data"));
    const std::int32_t type = request.value("type", 1);
    for (auto& [handle, other] : clients_) other->calls.erase(name);
    caller.told.erase(name);
    caller.is_stream[name] = credit != 0;
    caller.calls.emplace(name, credit == 0 ? caller.client.start(data, type, limit_of(request), heard)
                                           : caller.client.stream(data, type, credit, limit_of(request), heard));
    return Json::object();
}

flyring::Call& Peer::call_of(const Json& request) {
    for (auto& [handle, caller] : clients_) {
        const auto found = caller->calls.find(request.at("call"));
        if (found != caller->calls.end()) return found->second;
    }
    throw BadRequest("there is no call " + request.at("call").get<std::string>());
}

Json Peer::result(const Json& request) {
    flyring::Call& call = call_of(request);
    return {{"answer", answer_json(call.result(limit_of(request)))}};
}

Json Peer::next(const Json& request) {
    flyring::Call& call = call_of(request);
    const auto item = call.next(limit_of(request));
    if (!item && !call.done()) throw flyring::TimedOut("an item");
    return {{"item", item ? answer_json(*item) : Json(nullptr)}};
}

Json Peer::cancel(const Json& request) {
    call_of(request).cancel();
    return Json::object();
}

void Caller::hear(const std::string& name, flyring::Call& call, bool stream) {
    Json tells = {{"call", name}};
    try {
        if (const auto item = call.next(no_time)) {
            tells.update(answer_json(*item));
            tells["is"] = "item";
        } else if (call.done() && told.insert(name).second) {
            const flyring::Answer& end = call.result();
            tells["is"] = stream ? "end-of-stream" : "answer";
            if (!stream) tells.update(answer_json(end));
        } else {
            return;  // result or next has reported the end already
        }
    } catch (const flyring::FlyringError& error) {
        told.insert(name);
        tells.update(carried(error));
        tells["is"] = error.code();
    }
    found.push_back(tells);
}

Json Peer::poll_client(const Json& request) {
    Caller& caller = *find(clients_, request, "client");
    for (const std::string& name : std::exchange(caller.heard, {})) {
        const auto call = caller.calls.find(name);
        if (call != caller.calls.end()) caller.hear(name, call->second, caller.is_stream[name]);
    }
    caller.telling = true;
    try {
        caller.client.poll(caller.found.empty() ? timeout(request).value_or(no_time) : no_time);
    } catch (...) {
        caller.telling = false;
        throw;
    }
    caller.telling = false;
    return {{"found", std::exchange(caller.found, Json::array())}};
}

Json Peer::calls(const Json& request) {
    flyring::Client& client = find(clients_, request, "client")->client;
    const auto server = client.server();
    return {{"outstanding", client.outstanding()},
            {"late", client.late()},
            {"server", server ? Json{{"name", server->name}, {"epoch", server->epoch}} : Json(nullptr)}};
}

Json Peer::serve_many(const Json& request) {
    flyring::Server& server = find(servers_, request, "server");
    const std::int64_t end = now() + seconds(request, 60);
    const std::int64_t most = request.value("count", std::numeric_limits<std::int64_t>::max());
    const std::int64_t die_at = request.value("die_at", std::int64_t{-1});
    const std::int64_t silent_from = request.value("silent", false) ? die_at : -1;
    set_spin(server, request);
    std::int64_t count = 0;
    while (count < most) {
        const std::int64_t left = end - now();
        if (left <= 0) break;
        const auto limit = static_cast<int>(std::min<std::int64_t>(most - count, 256));
        server.poll(
            [&](flyring::Request& one) {
                const std::int64_t number = count++;
                if (silent_from >= 0 && number >= silent_from) {
                    requests_.insert_or_assign("silent" + std::to_string(number), one.keep());
                    return;
                }
                if (number == die_at) kill_this_process();
                one.reply(one.payload(), one.type());
            },
            limit, std::chrono::nanoseconds(left));
    }
    while (server.held().waiting > 0 && now() < end) {  // polls send the replies that wait for room
        server.poll([](flyring::Request&) {}, 0);
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return {{"count", count}};
}

Json Peer::call_many(const Json& request) {
    flyring::Client& client = find(clients_, request, "client")->client;
    Json numbered = request;
    numbered["numbered"] = true;
    const Stream stream(numbered);
    const std::int64_t die_at = request.value("die_at", std::int64_t{-1});
    const std::size_t window = request.value("window", std::size_t{1});
    const std::chrono::nanoseconds patience = limit_of(request);
    const std::int64_t lateness = request.value("late", std::int64_t{50'000'000});
    set_spin(client, request);
    std::int64_t longest = 0;
    std::int64_t late = 0;
    const std::int64_t began = now();
    const std::int64_t end = began + seconds(request, 60);
    std::map<std::string, std::int64_t> ends;
    std::int64_t may_have_run = 0;
    std::int64_t wrong = 0;
    const auto note = [&](const flyring::FlyringError& error) {
        ++ends[std::string(error.code())];
        may_have_run += carried(error).value("may_have_run", false) ? 1 : 0;
    };
    const auto check = [&](const flyring::Answer& answer, const Sent& sent) {
        ++ends["answer"];
        const bool same = answer.type() == sent.type && answer.size() == sent.payload.size() &&
                          std::equal(sent.payload.begin(), sent.payload.end(), answer.data());
        wrong += same ? 0 : 1;
    };
    std::size_t under_way = 0;
    for (std::uint64_t i = *stream.first; i < stream.end(); ++i) {
        if (now() >= end) throw Failed({{"error", "timeout"}, {"message", "not all calls ended in time"}});
        if (static_cast<std::int64_t>(i) == die_at) kill_this_process();
        const auto sent = std::make_shared<Sent>(stream, i);
        try {
            if (window <= 1) {
                const std::int64_t before = now();
                const flyring::Answer answer = client.call(sent->payload, sent->type, patience);
                const std::int64_t took = now() - before;
                longest = std::max(longest, took);
                late += took >= lateness ? 1 : 0;
                check(answer, *sent);
                continue;
            }
            while (under_way >= window) client.poll(std::chrono::milliseconds(100));
            client.start(sent->payload, sent->type, patience, [&, sent](flyring::Call& call) {
                --under_way;
                try {
                    check(call.result(), *sent);
                } catch (const flyring::FlyringError& error) {
                    note(error);
                }
            });
            ++under_way;
        } catch (const flyring::FlyringError& error) {
            note(error);
        }
    }
    while (under_way > 0) {
        if (now() >= end) throw Failed({{"error", "timeout"}, {"message", "not all calls ended in time"}});
        client.poll(std::chrono::milliseconds(100));
    }
    Json answer = {{"ends", ends},
                   {"may_have_run", may_have_run},
                   {"wrong", wrong},
                   {"seconds", static_cast<double>(now() - began) / 1e9}};
    if (window <= 1) answer.update({{"longest", longest}, {"late", late}});
    return answer;
}

}  // namespace peer
