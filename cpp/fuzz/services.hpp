// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "input.hpp"

namespace fuzz {

/// What servers and clients do with a service of any bytes: two places for each, made when they are first used.
class Services {
  public:
    /// `channel` stays as long as this.
    Services(File& file, Input& input, flyring::Channel& channel)
        : file_(file), input_(input), channel_(channel), clients_in_all_(channel.clients()) {}

    static constexpr std::uint32_t steps = 14;

    void step() {
        switch (input_.below(steps)) {
            case 0:
                return serve(servers_[input_.below(2)], name());
            case 1:
                return with_server([&](flyring::Server& server) { poll(server); });
            case 2:
                return answer_later();
            case 3:
                return with_server([&](flyring::Server& server) { server.close(); });
            case 4: {
                const std::uint32_t number = input_.below(2);
                return seat(number, name());
            }
            case 5:
                return with_client([&](flyring::Client& client, std::vector<flyring::Call>& calls) {
                    calls.push_back(client.start(payload(), type(), timeout(), heard()));
                });
            case 6:
                return with_client([&](flyring::Client& client, std::vector<flyring::Call>& calls) {
                    calls.push_back(client.stream(payload(), type(), input_.below(9), timeout(), heard()));
                });
            case 7:
                return with_client([&](flyring::Client& client, std::vector<flyring::Call>&) {
                    read(client.call(payload(), type(), timeout()));
                });
            case 8:
                return with_client([&](flyring::Client& client, std::vector<flyring::Call>&) {
                    client.poll(input_.below(4) == 0 ? timeout() : nanoseconds{0});
                });
            case 9:
                return with_client([&](flyring::Client&, std::vector<flyring::Call>& calls) { handle_a_call(calls); });
            case 10:
                return with_client([&](flyring::Client& client, std::vector<flyring::Call>&) {
                    if (client.outstanding() > channel_.max_outstanding()) found("more calls under way than may be");
                    if (client.late() < 0) found("less than no late replies");
                    const auto server = client.server();
                    if (server && (server->name.size() > 64 || server->epoch < 1)) found("a server that cannot be");
                });
            case 11: {
                const std::uint32_t number = input_.below(2);
                if (clients_[number]) attempt([&] { clients_[number]->close(); });
                return end_calls(number);
            }
            case 12:
                return with_server([&](flyring::Server& server) { look(server); });
            default:
                return file_.poke_unread(input_);
        }
    }

    /// Everything is closed; each call has ended then.
    void end() {
        for (std::uint32_t number : {0U, 1U}) {
            if (clients_[number]) attempt([&] { clients_[number]->close(); });
            end_calls(number);
            clients_[number].reset();
        }
        for (auto& server : servers_) {
            if (server) attempt([&] { server->close(); });
            server.reset();
        }
        kept_.clear();
    }

  private:
    using nanoseconds = std::chrono::nanoseconds;
    static constexpr std::size_t most = 8;  // calls of a client, requests that were kept

    // Places

    void serve(std::optional<flyring::Server>& place, const std::string& name) {
        place.reset();
        as_server([&] { place.emplace(channel_.server(name)); });
    }
    template <typename Action>
    void with_server(Action&& action) {
        auto& place = servers_[input_.below(2)];
        if (!place) serve(place, "");
        as_server([&] { action(*place); });
    }
    /// A server writes no request, whatever the file says.
    template <typename Action>
    void as_server(Action&& action) {
        const auto replies = [n = clients_in_all_](std::uint32_t ring) { return ring >= n; };
        writes_no_other(file_, replies, "a server wrote a request", action);
    }

    void seat(std::uint32_t number, const std::string& name) {
        calls_[number].clear();
        clients_[number].reset();
        as_client(number, [&] { clients_[number].emplace(channel_.client(name)); });
    }
    template <typename Action>
    void with_client(Action&& action) {
        const std::uint32_t number = input_.below(2);
        if (!clients_[number]) seat(number, "");
        auto& calls = calls_[number];
        if (calls.size() == most) calls.erase(calls.begin());
        as_client(number, [&] { action(*clients_[number], calls); });
    }
    /// A client writes no other's request, and no reply. One that takes its place does not know yet which ring it has.
    template <typename Action>
    void as_client(std::uint32_t number, Action&& action) {
        const auto own = [&](std::uint32_t ring) {
            return clients_[number] ? ring == clients_[number]->number() : ring < clients_in_all_;
        };
        writes_no_other(file_, own, "a client wrote what is not its own", action);
    }

    // The server

    void poll(flyring::Server& server) {
        const int limit = 1 + static_cast<int>(input_.below(32));
        const std::int64_t before = server.epoch();
        int handed = 0;
        const int returned = server.poll(
            [&](flyring::Request& request) {
                ++handed;
                handle(request);
            },
            limit, input_.below(8) == 7 ? timeout() : nanoseconds{0});
        if (returned != handed || handed > limit) found("a poll of requests miscounted");
        if (server.epoch() != before) found("a server has another epoch");
    }

    void handle(flyring::Request& request) {
        read_all(request.data(), request.size());
        if (request.type() < 1) found("a request without a type");
        if (request.client() >= clients_in_all_ || request.sender().ring != request.client()) found("nobody's request");
        if (request.sender().name.size() > 64) found("a sender that cannot be");
        if (request.size() > channel_.capacity()) found("a request that is too large");
        if (request.remaining() && request.remaining()->count() < 0) found("less than no time is left");
        const std::uint32_t dice = input_.below(16);
        if (dice == 15) file_.poke(input_);
        if (dice == 14) channel_.evict(1 + request.client());
        if (dice == 13) return;  // no answer
        if (request.is_stream()) return stream(request);
        if (dice >= 8 && kept_.size() < most) {
            kept_.push_back(request.keep());
        } else {
            respond(request, dice);
        }
    }

    void respond(flyring::Request& request, std::uint32_t how) {
        switch (how & 3) {
            case 0:
                return request.fail("not this one");
            case 1:
                return request.reply(request.payload(), request.type());
            default:
                return request.reply(payload(), type());
        }
    }

    void stream(flyring::Request& request) {
        std::uint32_t left = input_.below(8);
        const std::size_t size = input_.below(200);
        request.stream(
            [left, size]() mutable -> std::optional<std::string> {
                if (left-- == 0) return std::nullopt;
                return std::string(size, 'x');
            },
            type());
    }

    /// One that was kept, or drops it.
    void answer_later() {
        if (kept_.empty()) return;
        const auto at = kept_.begin() + static_cast<std::ptrdiff_t>(input_.below(most) % kept_.size());
        flyring::Request one = std::move(*at);
        kept_.erase(at);
        read_all(one.data(), one.size());
        const std::uint32_t how = input_.below(8);
        as_server([&] {
            if (how < 7) respond(one, how);
            flyring::Request gone = std::move(one);  // here: without an answer it answers
        });
    }

    void look(flyring::Server& server) {
        const auto held = server.held();
        if (held.in_hand > clients_in_all_ * channel_.max_outstanding() || held.waiting > held.in_hand) {
            found("more in hand than can be");
        }
        for (const std::int64_t count : {server.client_gone(), server.expired(), server.not_run(), server.damaged()}) {
            if (count < 0) found("a count below 0");
        }
        server.stop();
        server.serve([](flyring::Request&) { found("a server that was stopped hands out a request"); });
    }

    // The client

    flyring::Client::Callback heard() {
        return [this](flyring::Call& call) {
            if (input_.below(32) == 31) file_.poke(input_);
            if (const auto item = call.next(nanoseconds{0})) {
                read(*item);
            } else if (call.done()) {
                read(call.result(nanoseconds{0}));
            }
        };
    }

    void handle_a_call(std::vector<flyring::Call>& calls) {
        const std::uint32_t which = input_.below(most);
        const std::uint32_t how = input_.below(4);
        if (calls.empty()) return;
        flyring::Call& call = calls[which % calls.size()];
        switch (how) {
            case 0:
                call.cancel();
                if (!call.done()) found("a call goes on that was cancelled");
                return;
            case 1:
                if (const auto item = call.next(timeout())) read(*item);
                return;
            case 2:
                return read(call.result(timeout()));
            default:
                calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(which % calls.size()));
        }
    }

    void end_calls(std::uint32_t number) {
        for (const flyring::Call& call : calls_[number]) {
            if (!call.done()) found("a call has no end, and its client is closed");
        }
        calls_[number].clear();
    }

    void read(const flyring::Answer& answer) {
        read_all(answer.data(), answer.size());
        if (answer.size() > channel_.capacity() || answer.position() < 0) found("an answer that cannot be");
    }

    // Chance

    std::string name() { return input_.below(2) == 0 ? "" : "a"; }
    /// Of a clock that goes on while it is looked at (clock.cpp).
    nanoseconds timeout() {
        static constexpr std::chrono::milliseconds times[] = {
            {}, std::chrono::milliseconds(1), std::chrono::milliseconds(100), std::chrono::seconds(3)};
        return times[input_.below(4)];
    }
    flyring::Bytes payload() {
        static const std::vector<std::byte> bytes(8192, std::byte{0x2c});
        const bool small = input_.below(8) != 7;
        return {bytes.data(), small ? input_.below(200) : input_.below(8192)};
    }
    std::int32_t type() { return input_.next<std::int8_t>() + 120; }

    File& file_;
    Input& input_;
    flyring::Channel& channel_;
    std::uint32_t clients_in_all_;
    std::array<std::optional<flyring::Server>, 2> servers_;
    std::array<std::optional<flyring::Client>, 2> clients_;
    std::array<std::vector<flyring::Call>, 2> calls_;
    std::vector<flyring::Request> kept_;
};

}  // namespace fuzz
