// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "torture.hpp"

// The server and the callers of a service in the SIGKILL torture (interop-tests/torture/WORKER.md).

namespace torture {

using namespace std::chrono_literals;

/// How a call ended, as it is logged.
enum End : std::int64_t { answer, service_error, expired, server_gone, cancelled, client_closed, client_lost, refused };

/// Follows the header of an answer or item: the server that gave it, and its index in the stream.
struct Given {
    std::int64_t server_epoch;
    std::int64_t item;  // from 0
};

/// A message of `length` bytes with this header and a checksum.
inline std::vector<std::byte> message_of(Header header, std::size_t length, const Given* given = nullptr) {
    std::vector<std::byte> bytes(length);
    for (std::size_t i = sizeof header; i < length; ++i) {
        bytes[i] = static_cast<std::byte>(header.sequence + static_cast<std::int64_t>(i));
    }
    header.length = static_cast<std::uint32_t>(length);
    std::memcpy(bytes.data(), &header, sizeof header);
    if (given != nullptr) std::memcpy(bytes.data() + sizeof header, given, sizeof *given);
    header.checksum = checksum(bytes.data(), length);
    std::memcpy(bytes.data(), &header.checksum, sizeof header.checksum);
    return bytes;
}

inline bool is_whole(const std::byte* data, std::size_t size, Header& header) {
    if (size < sizeof header) return false;
    std::memcpy(&header, data, sizeof header);
    return header.length == size && header.checksum == checksum(data, size);
}

/// The number of items of stream `number`.
inline std::int64_t items_of(std::int64_t number) {
    return number % 7;
}

/// A server that answers calls.
class ServingWorker final : public Worker {
  public:
    using Worker::Worker;

  private:
    static constexpr std::chrono::milliseconds longest{400};   // longer than any delay that a death may cause
    static constexpr std::int64_t shortest_idle = 20'000'000;  // ns; shorter idle spans are not logged
    static constexpr std::size_t most_kept = 20;

    struct Kept {
        flyring::Request request;
        Header header;
    };

    void session() override {
        const auto asked = now();
        enter(seating, 2);
        std::optional<flyring::Server> server;
        try {
            server.emplace(channel_.server(orders_.at("name"), 200ms));
        } catch (const flyring::NoFreeSlot&) {
            side_.phase(working);
            return;
        }
        linger(2);
        epoch_ = server->epoch();
        side_.log(seated, 0, epoch_, now(), asked);
        std::vector<Kept> kept;
        try {
            work(*server, kept);
        } catch (const flyring::SlotLost&) {
            side_.log(slot_lost, 0, 0, now(), begun_);
        }
        server->close();  // before `kept` is destroyed, which would answer the requests
        side_.phase(working);
    }

    void work(flyring::Server& server, std::vector<Kept>& kept) {
        auto polls = below(10) == 0 ? below(10) : below(400);
        bool drained = false;
        while (!side_.full() && !drained && (polls > 0 || side_.stopped())) {
            polls -= polls > 0 ? 1 : 0;
            // Read before the poll: once told to end, the worker polls until a poll that began afterwards is empty.
            const bool last = side_.stopped();
            const std::array<std::chrono::milliseconds, 4> timeouts{0ms, 2ms, 20ms, longest};
            const auto timeout = !kept.empty() ? 0ms : last ? longest : timeouts.at(below(4));
            side_.phase(fetching);
            begun_ = now();
            const int limit = below(2) == 0 ? 1 : 64;
            const int handed = server.poll([&](flyring::Request& one) { handle(one, kept); }, limit, timeout);
            const auto end = now();
            if (handed == 0 && end - begun_ > shortest_idle) side_.log(idle_span, begun_, end);
            side_.phase(idle);
            drained = last && handed == 0 && kept.empty();
            while (!kept.empty() && (last || below(3) != 0)) answer_later(kept);
            if ((timeout.count() == 0 && handed == 0) || below(100) == 0) side_.nap(below(2'000'000));
        }
        const auto begins = now();
        enter(leaving, 2);
        server.close();
        linger(2);
        side_.log(left, 0, drained, 0, begins);
    }

    /// Logs a request, with `state` 0 (right), 1 (torn), 2 (wrong sender) or 3 (sender not known), and answers it.
    void handle(flyring::Request& one, std::vector<Kept>& kept) {
        side_.phase(handling);
        Header header{};
        const bool whole = is_whole(one.data(), one.size(), header);
        std::int64_t state = whole ? 0 : 1;
        if (whole && (one.sender().epoch == 0)) {
            state = 3;
        } else if (whole && publisher_number(one.sender().name) != header.publisher) {
            state = 2;
        }
        if (!fault("drop")) {
            side_.log(Kind::request, one.client(), header.epoch, header.sequence, one.repeat(), state, now());
        }
        if (fault("twice")) {
            side_.log(Kind::request, one.client(), header.epoch, header.sequence, one.repeat(), state, now());
        }
        linger(30);
        if (below(500) == 0) side_.nap(30'000'000);
        if (one.is_stream()) return stream(one, header);
        const auto dice = below(32);
        if (dice < 2) {
            enter(replying, 50);
            one.fail("not this one");
        } else if (dice == 2) {
            throw std::runtime_error("not this one");
        } else if (dice == 3) {
            return;  // no answer
        } else if (dice < 9 && kept.size() < most_kept) {
            kept.push_back({one.keep(), header});
        } else {
            reply(one, header);
        }
    }

    void stream(flyring::Request& one, const Header& header) {
        side_.phase(replying);
        one.stream([this, header, item = std::int64_t{0}]() mutable -> std::optional<std::vector<std::byte>> {
            if (item == items_of(header.sequence)) return std::nullopt;
            const Given given{epoch_, item++};
            return message_of(header, sizeof header + sizeof given + below(200), &given);
        });
    }

    void reply(flyring::Request& one, Header header) {
        if (fault("answer")) ++header.sequence;
        const Given given{epoch_, 0};
        const auto bytes = message_of(header, sizeof header + sizeof given + below(400), &given);
        enter(replying, 50);
        one.reply(bytes, 1);
        linger(50);
    }

    /// Answers the oldest or the newest kept request, in this thread or another one.
    void answer_later(std::vector<Kept>& kept) {
        const auto which = below(2) == 0 ? kept.begin() : kept.end() - 1;
        Kept one = std::move(*which);
        kept.erase(which);
        if (below(8) == 0) {
            bool lost = false;
            std::thread([&] {
                try {
                    reply(one.request, one.header);
                } catch (const flyring::SlotLost&) {
                    lost = true;
                }
            }).join();
            if (lost) throw flyring::SlotLost("subscriber", 0);
        } else {
            reply(one.request, one.header);
        }
        side_.phase(idle);
    }

    std::int64_t begun_ = 0;  // start of the current poll, ns
    std::int64_t epoch_ = 0;
};

/// A client that makes calls.
class CallingWorker final : public Worker {
  public:
    using Worker::Worker;

  private:
    void session() override {
        const auto asked = now();
        enter(seating, 2);
        flyring::Client client = channel_.client(orders_.at("name"), 5s);
        linger(2);
        epoch_ = client.epoch();
        number_ = 0;
        side_.log(seated, client.slot(), epoch_, now(), asked);
        open_.clear();
        gone_.clear();
        ended_.clear();
        try {
            work(client);
        } catch (const flyring::SlotLost&) {
            const auto when = now();
            client.close();
            side_.log(slot_lost, client.slot(), 0, when, begun_);
        }
        open_.clear();
        side_.phase(working);
    }

    void work(flyring::Client& client) {
        auto steps = below(10) == 0 ? below(10) : below(600);
        while (!side_.full() && !side_.stopped() && steps > 0) {
            --steps;
            begun_ = now();
            const auto dice = below(32);
            if (dice < 8) {
                call(client);
            } else if (dice < 20) {
                start(client, dice < 11 && channel_.delivery() == flyring::Delivery::at_most_once);
            } else if (dice == 20 && !open_.empty()) {
                cancel();
            } else {
                const std::array<std::chrono::milliseconds, 3> timeouts{0ms, 2ms, 20ms};
                wait(client, timeouts.at(below(3)));
            }
            if (below(50) == 0) side_.nap(below(3'000'000));
        }
        while (!open_.empty() && (side_.stopped() || below(20) != 0)) wait(client, 100ms);
        const auto begins = now();
        enter(leaving, 2);
        client.close();
        linger(2);
        side_.log(left, 0, 0, 0, begins);
    }

    void wait(flyring::Client& client, std::chrono::milliseconds timeout) {
        if (fault("deaf")) side_.nap(600'000'000);
        enter(Phase::awaiting, 200);
        begun_ = now();
        client.poll(timeout);
        forget_ended();
        side_.phase(idle);
    }

    struct Asked {
        std::vector<std::byte> bytes;
        std::chrono::nanoseconds timeout;
        std::int64_t number;
    };

    /// Makes and logs the next call.
    Asked next(const flyring::Client& client, bool stream) {
        const std::array<std::chrono::nanoseconds, 3> timeouts{2s, 20ms, 1ms};
        Asked asked;
        asked.number = number_++;
        asked.timeout = below(4) == 0 ? timeouts.at(below(3)) : flyring::forever;
        const Header header{0, 0, publisher_number(orders_.at("name")), epoch_, asked.number};
        const std::size_t most = std::min<std::size_t>(client.max_message_length(), 500) - sizeof header;
        asked.bytes = message_of(header, sizeof header + below(most));
        if (fault("torn")) asked.bytes.back() ^= std::byte{1};
        const bool timed = asked.timeout != flyring::forever;
        side_.log(called, asked.number, timed ? asked.timeout.count() : 0, now(), stream);
        return asked;
    }

    void call(flyring::Client& client) {
        const Asked asked = next(client, false);
        enter(calling, 100);
        try {
            const flyring::Answer got = client.call(asked.bytes, 1, asked.timeout);
            note_answer(asked.number, got);
        } catch (const flyring::FlyringError& error) {
            note_error(asked.number, error);
            if (error.code() == flyring::SlotLost("", 0).code()) throw;
        }
        side_.phase(idle);
    }

    void start(flyring::Client& client, bool stream) {
        const Asked asked = next(client, stream);
        enter(calling, 100);
        const auto heard = [this, number = asked.number, stream, item = std::int64_t{0}](flyring::Call& one) mutable {
            hear(number, stream, item, one);
        };
        try {
            open_.emplace(asked.number, stream ? client.stream(asked.bytes, 1, 1 + static_cast<std::uint32_t>(below(4)),
                                                               asked.timeout, heard)
                                               : client.start(asked.bytes, 1, asked.timeout, heard));
        } catch (const flyring::FlyringError& error) {
            note_error(asked.number, error);
            if (error.code() == flyring::SlotLost("", 0).code()) throw;
        }
        forget_ended();
        side_.phase(idle);
    }

    void cancel() {
        auto one = open_.begin();
        std::advance(one, static_cast<std::ptrdiff_t>(below(open_.size())));
        if (!one->second.done()) {
            one->second.cancel();
            gone_.insert({one->first, true});
            note(one->first, cancelled);
        }
        open_.erase(one);
    }

    /// The callback of a call: checks the items that have come, and logs the end. `item` is the next index, below 0
    /// after a wrong item.
    void hear(std::int64_t number, bool stream, std::int64_t& item, flyring::Call& one) {
        while (const auto got = stream ? next_item(one) : std::nullopt) {
            Header header{};
            Given given{};
            const bool whole =
                is_whole(got->data(), got->size(), header) && got->size() >= sizeof header + sizeof given;
            if (whole) std::memcpy(&given, got->data() + sizeof header, sizeof given);
            if (!whole || header.epoch != epoch_ || header.sequence != number || given.item != item++) item = -1'000;
        }
        if (!one.done() || gone_.count(number) != 0) return;
        gone_.insert({number, true});
        try {
            const flyring::Answer& got = one.result(0ns);
            if (stream) {
                note(number, answer, false, item != items_of(number), 0);
            } else {
                note_answer(number, got);
            }
        } catch (const flyring::FlyringError& error) {
            note_error(number, error);
        }
        ended_.push_back(number);
    }

    static std::optional<flyring::Answer> next_item(flyring::Call& one) {
        try {
            return one.next(0ns);
        } catch (const flyring::FlyringError&) {
            return std::nullopt;  // the call's end, which `result` reports
        }
    }

    /// Destroys the calls that have ended. Not to be called in a callback, which uses its call.
    void forget_ended() {
        for (const std::int64_t number : ended_) open_.erase(number);
        ended_.clear();
    }

    void note_answer(std::int64_t number, const flyring::Answer& got) {
        Header header{};
        Given given{};
        const bool whole = is_whole(got.data(), got.size(), header) && got.size() >= sizeof header + sizeof given;
        if (whole) std::memcpy(&given, got.data() + sizeof header, sizeof given);
        const bool right = whole && header.epoch == epoch_ && header.sequence == number &&
                           header.publisher == publisher_number(orders_.at("name"));
        note(number, answer, false, !right, given.server_epoch, got.repeat());
    }

    void note_error(std::int64_t number, const flyring::FlyringError& error) {
        if (const auto* one = dynamic_cast<const flyring::ServerGone*>(&error)) {
            note(number, server_gone, one->may_have_run());
        } else if (const auto* late = dynamic_cast<const flyring::Expired*>(&error)) {
            note(number, expired, late->may_have_run());
        } else if (dynamic_cast<const flyring::ServiceError*>(&error) != nullptr) {
            note(number, service_error);
        } else if (dynamic_cast<const flyring::SlotLost*>(&error) != nullptr) {
            note(number, client_lost);
        } else if (dynamic_cast<const flyring::Closed*>(&error) != nullptr) {
            note(number, client_closed);
        } else if (dynamic_cast<const flyring::Busy*>(&error) != nullptr) {
            note(number, refused);
        } else {
            throw std::runtime_error(std::string("a call ended as ") + std::string(error.code()) + ": " + error.what());
        }
    }

    void note(std::int64_t number, End how, bool may_have_run = false, bool wrong = false, std::int64_t server = 0,
              bool repeat = false) {
        if (fault("forget")) return;
        side_.log(Kind::ended, number, how, may_have_run, wrong, now(), server, repeat);
        if (fault("again")) side_.log(Kind::ended, number, how, may_have_run, wrong, now(), server, repeat);
    }

    std::int64_t begun_ = 0;
    std::int64_t epoch_ = 0;
    std::int64_t number_ = 0;
    std::map<std::int64_t, flyring::Call> open_;
    std::map<std::int64_t, bool> gone_;  // calls whose end is logged
    std::vector<std::int64_t> ended_;    // those of them that are still in open_
};

}  // namespace torture
