// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "child.hpp"

// Operations of a service's server and clients (spec/service.md), those of spec/golden/dead_service.py. Server and
// client are the child's. Behind the second mark it goes on: until each of its calls has ended, and a third mark. If
// its server or its client was evicted meanwhile it ends with SlotLost instead, and the child with a status of its own
// (child.cpp).

namespace steps {

namespace {

using namespace std::chrono_literals;
using flyring::Call;
using flyring::Client;
using flyring::Request;
using flyring::Server;
using Handler = std::function<void(Request&)>;

constexpr int many = 256;
constexpr std::int64_t second = 1'000'000'000;  // ns

flyring::Bytes bytes_of(const std::string& text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Says in PATH.done how often a handler was given the request of each type, a byte each, and of which server
/// (plan.hpp).
class Begun {
  public:
    explicit Begun(const Run& run) : counts_(done_page(run)) {}
    void add(std::int32_t type, std::int64_t server) const {
        require(type > 0 && type < server_at, "another type");
        counts_[server_at + type] = static_cast<unsigned char>(server);
        volatile unsigned char& count = counts_[type];
        count = static_cast<unsigned char>(count + 1);
    }

  private:
    volatile unsigned char* counts_;
};

void answer(Request& request) {
    std::string text = "answer to ";
    text.append(reinterpret_cast<const char*>(request.data()), request.size());
    request.reply(bytes_of(text), 7);
}

/// A server and a client in one process.
struct Talk {
    explicit Talk(Run& of) : run(of), begun(of), sent(of.sequence) {}

    void take_server(const std::string& name = "second") { server.emplace(run.channel.server(name)); }
    void take_client() { client.emplace(run.channel.client("desk")); }

    Call start(std::size_t length = 30, std::int64_t timeout = 0, std::uint32_t credit = 0) {
        const auto bytes = payload(0, sent, length);
        const auto patience = timeout == 0 ? flyring::forever : std::chrono::nanoseconds(timeout);
        const auto heard = [this, credit, told = std::make_shared<bool>(false)](Call& call) {
            try {
                while (credit != 0 && call.next(0ns)) {  // no other call: throwing takes a million instructions
                }
            } catch (const flyring::FlyringError&) {
                // How it ended.
            }
            if (call.done() && !std::exchange(*told, true)) ++ended;
        };
        const flyring::Bytes request(bytes.data(), bytes.size());
        const std::int32_t type = type_of(sent);
        Call call = credit == 0 ? client->start(request, type, patience, heard)
                                : client->stream(request, type, credit, patience, heard);
        ++sent;
        ++asked;
        return call;
    }
    void ask(std::int64_t timeout = 0, std::uint32_t credit = 0) { start(30, timeout, credit); }

    /// One poll, whose handler says what it is given.
    int serve(const Handler& handler, int limit = many) {
        return server->poll(
            [&](Request& request) {
                begun.add(request.type(), server->epoch());
                handler(request);
            },
            limit);
    }
    int serve() { return serve(answer); }
    Handler keeping() {
        return [this](Request& request) { kept.push_back(request.keep()); };
    }

    void exchange() {
        ask();
        serve();
        client->poll();
    }
    void both(int exchanges = 1) {
        take_server();
        take_client();
        for (int i = 0; i < exchanges; ++i) exchange();
    }
    /// Until the next request and reply note no boundary.
    void no_boundary() {
        const flyring::detail::ChannelFile file = raw(run);
        const auto crosses = [&](std::uint32_t ring, std::int64_t length) {
            const std::int64_t at = *file.ring(ring).published();
            const std::int64_t unit = run.channel.alignment();
            const std::int64_t size = (8 + length + unit - 1) & -unit;
            return size < 512 && at / 512 != (at + size) / 512;
        };
        while (crosses(client->number(), 24 + 30) || crosses(run.channel.clients() + client->number(), 16 + 40)) {
            exchange();
        }
    }
    void set_clock(int seconds) {
        flyring::detail::InEnvironment::set_clock(run.channel, 3 * second + seconds * second);
    }

    /// What it does if it lives on.
    void go_on() {
        const auto refuse = [](Request& request) { request.fail("it goes on"); };
        for (int i = 0; i < 20; ++i) {
            for (Request& request : kept) {
                if (!request.answered()) request.fail("it goes on");
            }
            if (server) serve(refuse);
            if (client) client->poll();
        }
        require(!client || !server || ended == asked, "a call has not ended");
        mark();
    }

    Run& run;
    Begun begun;
    std::int64_t sent;
    int asked = 0;
    int ended = 0;  // that its callback was told of
    std::vector<Request> kept;
    std::optional<Server> server;
    std::optional<Client> client;
};

Handler stream_of(std::deque<std::string> items) {
    return [items](Request& request) {
        request.stream(
            [items]() mutable -> std::optional<std::string> {
                if (items.empty()) return std::nullopt;
                std::string item = std::move(items.front());
                items.pop_front();
                return item;
            },
            5);
    };
}

const std::deque<std::string> three_items = {"one", "two", "three"};

/// As die, of a server "second" and a client that have talked.
template <typename What>
void die_talking(Run& run, What&& what) {
    die([&] {
        Run other{run.path, run.sequence, {}};
        Talk talk(other);
        talk.both();
        what(talk);
        ::_exit(0);  // or destructors close
    });
}

// --- calls ----------------------------------------------------------------------------------------------------------

void call(Run& run, int exchanges) {
    Talk talk(run);
    talk.both(exchanges);
    if (exchanges > 0) talk.no_boundary();
    const auto bytes = payload(0, talk.sent, 30);
    mark();
    talk.client->start({bytes.data(), bytes.size()}, type_of(talk.sent));
    mark();
    talk.go_on();
}

void drain(Run& run) {
    Talk talk(run);
    talk.both();
    for (int i = 0; i < 3; ++i) talk.ask();
    require(talk.serve(answer, 2) == 2, "not two requests");
    mark();
    talk.client->poll();
    mark();
    talk.go_on();
}

void expire(Run& run) {
    Talk talk(run);
    talk.both();
    talk.ask(second);
    talk.set_clock(1);
    talk.serve();
    talk.ask(second);
    talk.set_clock(2);
    mark();
    talk.client->poll();
    mark();
    talk.go_on();
}

void cancel(Run& run) {
    Talk talk(run);
    talk.both();
    Call stream = talk.start(30, 0, 2);
    talk.serve(stream_of(three_items));
    mark();
    stream.cancel();
    mark();
    talk.ended++;
    talk.go_on();
}

void credit(Run& run) {
    Talk talk(run);
    talk.both();
    talk.ask(0, 2);
    talk.serve(stream_of(three_items));
    mark();
    talk.client->poll();
    mark();
    talk.go_on();
}

/// The server of another process, told through a pipe what to do.
class RemoteServer {
  public:
    explicit RemoteServer(const Run& run) {
        int commands[2], answers[2];
        require(::pipe2(commands, O_CLOEXEC) == 0 && ::pipe2(answers, O_CLOEXEC) == 0, "pipe");
        pid_ = begin_process([&] {
            ::close(commands[1]);
            serve(run, commands[0], answers[1]);
        });
        ::close(commands[0]);
        ::close(answers[1]);
        to_ = commands[1];
        from_ = answers[0];
        await();  // it has taken its place
    }
    void tell(char what) {
        require(::write(to_, &what, 1) == 1, "write");
        await();
    }
    void kill() {
        ::close(to_);
        await_death(pid_);
        ::close(from_);
    }

  private:
    void await() const {
        char done = 0;
        require(::read(from_, &done, 1) == 1, "the other server has ended");
    }
    static void serve(const Run& run, int from, int to) {
        Run other{run.path, run.sequence, {}};
        Talk talk(other);
        talk.take_server();
        char what = 0;
        do {
            if (what == 'a') talk.serve();
            if (what == 'k') talk.serve(talk.keeping(), 1);
            require(::write(to, "d", 1) == 1, "write");
        } while (::read(from, &what, 1) == 1);
        ::_exit(0);  // or destructors close
    }

    pid_t pid_ = -1;
    int to_ = -1;
    int from_ = -1;
};

void gone(Run& run) {
    RemoteServer other(run);
    Talk talk(run);
    talk.take_client();
    talk.ask();
    other.tell('a');
    talk.client->poll();
    for (int i = 0; i < 2; ++i) talk.ask();
    other.tell('k');
    other.kill();
    talk.take_server("third");
    mark();
    talk.client->poll();
    mark();
    talk.go_on();
}

// --- the server -----------------------------------------------------------------------------------------------------

struct How {
    Handler handler{};
    int exchanges = 1;
    int asked = 1;
    std::int64_t timeout = 0;
    std::uint32_t credit = 0;
    bool keeps = false;
};

void serve(Run& run, const How& how) {
    Talk talk(run);
    talk.both(how.exchanges);
    if (how.exchanges > 0 && how.asked == 1) talk.no_boundary();
    for (int i = 0; i < how.asked; ++i) talk.ask(how.timeout, how.credit);
    talk.set_clock(1);
    const Handler handler = how.keeps ? talk.keeping() : how.handler;
    mark();
    handler ? talk.serve(handler) : talk.serve();
    mark();
    talk.go_on();
}

/// Asked of the server before.
void serve_not_run(Run& run) {
    die_talking(run, [](Talk& talk) {
        for (int i = 0; i < 2; ++i) talk.ask();
    });
    Talk talk(run);
    talk.take_server("third");
    mark();
    talk.serve();
    mark();
    talk.go_on();
}

void later(Run& run, std::size_t which) {
    Talk talk(run);
    talk.both();
    for (int i = 0; i < 3; ++i) talk.ask();
    require(talk.serve(talk.keeping()) == 3, "not three requests");
    mark();
    talk.kept[which].reply(bytes_of("at last"), 7);
    mark();
    talk.go_on();
}

void items(Run& run) {
    Talk talk(run);
    talk.both();
    talk.ask(0, 2);
    talk.serve(stream_of(three_items));
    talk.client->poll();
    mark();
    talk.serve();
    mark();
    talk.go_on();
}

// --- places ---------------------------------------------------------------------------------------------------------

void take_client(Run& run, bool evicted) {
    die_talking(run, [&](Talk& talk) {
        talk.ask();
        talk.serve();
        if (evicted) talk.run.channel.evict(1);
    });
    Talk talk(run);
    mark();
    talk.client.emplace(run.channel.client("heir"));
    mark();
    talk.go_on();
}

void take_server(Run& run) {
    die_talking(run, [](Talk& talk) {
        for (int i = 0; i < 3; ++i) talk.ask();
        require(talk.serve(talk.keeping(), 2) == 2, "not two requests");
        talk.kept[1].reply(bytes_of("in time"), 7);
        *raw(talk.run).ring(0).gate(0) = talk.kept[0].message().position();
    });
    Talk talk(run);
    mark();
    talk.take_server("third");
    mark();
    talk.go_on();
}

void close_client(Run& run) {
    Talk talk(run);
    talk.both();
    talk.ask();
    mark();
    talk.client->close();
    mark();
}

void close_server(Run& run) {
    Talk talk(run);
    talk.both();
    talk.ask();
    talk.serve(talk.keeping());
    mark();
    talk.server->close();
    mark();
}

void evict(Run& run, std::uint32_t slot) {
    Talk talk(run);
    talk.both();
    talk.ask();
    talk.serve();
    talk.ask();
    mark();
    run.channel.evict(slot);
    mark();
}

}  // namespace

Operations service() {
    const auto serves = [](How how) { return [how = std::move(how)](Run& run) { serve(run, how); }; };
    How first, asks_three, keeps, fails, expires, streams;
    first.exchanges = 0;
    asks_three.asked = 3;
    keeps.keeps = true;
    fails.handler = [](Request& request) { request.fail("it broke"); };
    expires.timeout = second;
    streams.handler = stream_of({"one", "two"});
    streams.credit = 1;
    return {
        {"service-call", [](Run& run) { call(run, 1); }},
        {"service-call-first", [](Run& run) { call(run, 0); }},
        {"service-serve", serves({})},
        {"service-serve-first", serves(first)},
        {"service-serve-three", serves(asks_three)},
        {"service-serve-kept", serves(keeps)},
        {"service-serve-error", serves(fails)},
        {"service-serve-expired", serves(expires)},
        {"service-serve-stream", serves(streams)},
        {"service-serve-not-run", serve_not_run},
        {"service-later", [](Run& run) { later(run, 1); }},
        {"service-later-first", [](Run& run) { later(run, 0); }},
        {"service-items", items},
        {"service-drain", drain},
        {"service-expire", expire},
        {"service-gone", gone},
        {"service-cancel", cancel},
        {"service-credit", credit},
        {"service-take-client", [](Run& run) { take_client(run, false); }},
        {"service-take-client-evicted", [](Run& run) { take_client(run, true); }},
        {"service-take-server", take_server},
        {"service-close-client", close_client},
        {"service-close-server", close_server},
        {"service-evict-server", [](Run& run) { evict(run, 0); }},
        {"service-evict-client", [](Run& run) { evict(run, 1); }},
    };
}

}  // namespace steps
