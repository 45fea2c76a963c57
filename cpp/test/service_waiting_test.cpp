// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <thread>

#include "services.hpp"
#include "waits.hpp"

// The waits of a service: what they sleep on, what wakes them, and what else ends them (spec/service.md 6, channel.md
// 6.16).

namespace {

using namespace services;
using waits::InsteadOfSleep;
using waits::Sleeps;
using waits::soon;
using waits::WakeCalls;

class ServiceWaiting : public waits::Test {
  protected:
    /// Serves in its own thread until its destructor.
    struct Serving {
        explicit Serving(Server& of, const std::function<void(Request&)>& handler = echo)
            : server(of), thread([this, handler] { server.serve(handler); }) {}
        ~Serving() {
            server.stop();
            thread.join();
        }
        Server& server;
        std::thread thread;
    };
};

TEST_F(ServiceWaiting, a_caller_sleeps_until_its_answer_comes_and_a_server_until_a_request) {
    Pair pair;
    pair.client.set_spin(0ns);
    pair.server.set_spin(0ns);
    std::vector<std::chrono::nanoseconds> times;
    {
        const Serving serving(pair.server, [](Request& request) {
            std::this_thread::sleep_for(5ms);  // so that the caller sleeps, too
            request.reply(request.payload());
        });
        Sleeps sleeps;
        for (int i = 0; i < 20; ++i) {
            std::this_thread::sleep_for(5ms);
            times.push_back(waits::time_of([&] { EXPECT_EQ(text(pair.client.call(bytes("x"), 10s)), "x"); }));
        }
        EXPECT_GE(sleeps.count(), 20);
    }
    EXPECT_LT(waits::median(times), soon / 2);
    const std::uint32_t bits = flyring::detail::waiting_bit(2);  // N + k
    EXPECT_EQ(word(waits::data_asleep) & ~std::uint32_t{3}, word(waits::data_asleep) & bits);
}

TEST_F(ServiceWaiting, a_call_without_a_deadline_whose_answer_comes_soon_reads_no_clock) {
    Pair pair(service(1, 65536));
    // The server answers inside the call's own wake, before the caller looks for the first time.
    bool answers = false;
    const faults::Hook hook([&](const faults::Call& call) {
        if (answers && waits::is_futex(call, FUTEX_WAKE_BITSET)) pair.server.poll(echo);
        return 0;
    });
    const auto reads = [&](std::chrono::nanoseconds timeout) {
        support::poke(file("c"), waits::data_asleep, std::uint32_t{1});
        answers = true;
        const long before = faults::clock_reads();
        EXPECT_EQ(text(pair.client.call(bytes("x"), timeout)), "x");
        answers = false;
        return faults::clock_reads() - before;
    };
    reads(flyring::forever);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(reads(flyring::forever), 0);
    EXPECT_GT(reads(1s), 0) << "it counts";
}

TEST_F(ServiceWaiting, a_call_waits_for_a_server) {
    Channel channel = Channel::create("c", service());
    Client client = channel.client();
    client.set_spin(0ns);
    std::string answer;
    std::thread caller([&] { answer = text(client.call(bytes("x"), 20s)); });
    wait_until_asleep(waits::data_asleep);
    Server server = channel.server();
    const auto start = clock_type::now();
    {
        const Serving serving(server);
        caller.join();
    }
    EXPECT_EQ(answer, "x");
    EXPECT_LT(clock_type::now() - start, soon);
}

TEST_F(ServiceWaiting, a_call_waits_for_room_and_takes_replies_meanwhile) {
    Pair pair(service(1, 4096, 64, 1000));
    const std::vector<std::byte> large(pair.client.max_message_length());
    int started = 0;
    std::string ended;
    std::thread caller([&] {
        pair.client.set_spin(0ns);
        std::vector<Call> calls;
        for (; started < 20; ++started) calls.push_back(pair.client.start(large, 1, 20s));
        for (Call& call : calls) ended += code_of([&] { call.result(20s); }) == "none" ? "." : "!";
    });
    wait_until_asleep(waits::room_asleep);
    EXPECT_GT(pair.channel.stats().publishers.at(0).blocked_since, 0);
    EXPECT_EQ(pair.channel.stats().publishers.at(0).blocked_by, std::vector<std::uint32_t>{0});
    // The answers are as large as the requests, so the ring of replies fills up, too, until the caller drains it.
    const auto end = clock_type::now() + 20s;
    int answered = 0;
    while (answered < 20 && clock_type::now() < end) {
        answered += pair.server.poll(echo, 256, 10ms);
    }
    while (pair.server.held().waiting != 0 && clock_type::now() < end) pair.server.poll(echo, 256, 10ms);
    caller.join();
    EXPECT_EQ(ended, std::string(20, '.'));
}

TEST_F(ServiceWaiting, what_ends_a_call_that_sleeps) {
    for (const bool is_all : {false, true}) {
        Pair pair;
        pair.client.set_spin(0ns);
        const Ended ended = ended_by(
            waits::data_asleep, [&] { pair.client.call(bytes("x")); },
            [&] { is_all ? pair.channel.close() : pair.client.close(); });
        EXPECT_EQ(ended.code, "closed");
        EXPECT_LT(ended.within, soon);
    }
    struct Ends {
        const char* code;
        std::function<void(Pair&)> action;
    };
    for (const Ends& one : {Ends{"slot-lost", [](Pair& pair) { pair.channel.evict(1); }},
                            Ends{"server-gone", [](Pair& pair) { pair.channel.evict(0); }},
                            Ends{"server-gone", [](Pair& pair) { pair.server.close(); }},
                            Ends{"service-error", [](Pair& pair) { pair.server.poll([](Request&) {}); }}}) {
        Pair pair;
        pair.client.set_spin(0ns);
        const Ended ended =
            ended_by(waits::data_asleep, [&] { pair.client.call(bytes("x")); }, [&] { one.action(pair); });
        EXPECT_EQ(ended.code, one.code);
        EXPECT_LT(ended.within, soon);
    }
}

TEST_F(ServiceWaiting, replaced_ends_the_wait_and_not_the_call) {
    Pair pair;
    pair.client.set_spin(0ns);
    Call call = pair.client.start(bytes("x"), 1);
    const Ended ended = ended_by(waits::data_asleep, [&] { call.result(); }, [&] { Channel::replace("c", service()); });
    EXPECT_EQ(ended.code, "replaced");
    EXPECT_LT(ended.within, soon);
    EXPECT_FALSE(call.done());
    pair.server.poll(echo);
    EXPECT_EQ(text(call.result(10s)), "x");
}

TEST_F(ServiceWaiting, what_ends_a_server_that_sleeps) {
    struct Ends {
        const char* code;
        std::function<void(Pair&)> action;
    };
    for (const Ends& one :
         {Ends{"none", [](Pair& pair) { pair.server.stop(); }}, Ends{"none", [](Pair& pair) { pair.server.close(); }},
          Ends{"slot-lost", [](Pair& pair) { pair.channel.evict(0); }},
          Ends{"replaced", [](Pair&) { Channel::replace("c", service()); }}}) {
        Pair pair;
        pair.server.set_spin(0ns);
        const Ended ended = ended_by(waits::data_asleep, [&] { pair.server.serve(echo); }, [&] { one.action(pair); });
        EXPECT_EQ(ended.code, one.code);
        EXPECT_LT(ended.within, soon);
    }
    Pair pair;
    pair.server.stop();
    pair.server.serve(echo);  // stopped before it began
    EXPECT_EQ(pair.server.poll(echo, 256, 1ms), 0);
    EXPECT_EQ(code_of([&] {
                  pair.client.start(bytes("x"), 1);
                  pair.server.poll([&](Request& request) {
                      EXPECT_EQ(code_of([&] { pair.server.close(); }), "view-alive");
                      EXPECT_EQ(code_of([&] { pair.channel.close(); }), "view-alive");
                      EXPECT_EQ(code_of([&] { pair.server.poll(echo); }), "two-threads");
                      request.reply(bytes("y"));
                  });
              }),
              "none");
}

TEST_F(ServiceWaiting, a_reply_that_waits_goes_when_its_client_reads) {
    Pair pair;
    pair.server.set_spin(0ns);
    const std::vector<std::byte> large(pair.server.max_message_length());
    std::vector<Call> calls;
    for (int i = 0; i < 12; ++i) calls.push_back(pair.client.start(bytes("x"), 1));
    const Serving serving(pair.server, [&](Request& request) { request.reply(large); });
    const auto end = clock_type::now() + 20s;
    while (pair.server.held().waiting == 0 && clock_type::now() < end) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(30ms);
    const auto start = clock_type::now();
    for (Call& call : calls) EXPECT_EQ(call.result(20s).size(), large.size());
    EXPECT_LT(clock_type::now() - start, 12 * 30ms);
}

TEST_F(ServiceWaiting, an_item_that_finds_no_room_goes_when_its_client_reads) {
    Pair pair;
    pair.client.set_spin(0ns);
    pair.server.set_spin(0ns);
    const std::string large(pair.server.max_message_length(), 'x');
    std::vector<Request> kept;
    std::vector<std::thread> others;
    const Serving serving(pair.server, [&](Request& request) {
        int made = 0;
        const auto next = [large, made]() mutable -> std::optional<std::string> {
            if (made++ == 60) return std::nullopt;
            return large;
        };
        if (text(request.message()) == "at once") return request.stream(next);
        kept.push_back(request.keep());
        others.emplace_back([&kept, next] {  // while the server sleeps
            std::this_thread::sleep_for(20ms);
            kept.front().stream(next);
        });
    });
    for (const char* when : {"at once", "later"}) {
        const auto start = clock_type::now();
        Call call = pair.client.stream(bytes(when), 1, 64, 60s);  // more credit than fits into the ring
        int seen = 0;
        while (call.next(20s)) ++seen;
        EXPECT_EQ(seen, 60);
        EXPECT_LT(clock_type::now() - start, 800ms) << when;  // 4 fit into the ring at once
    }
    others.front().join();
}

TEST_F(ServiceWaiting, a_stream_that_is_held_back_and_ends_lets_the_server_sleep) {
    Pair pair;
    pair.server.set_spin(0ns);
    const std::string large(pair.server.max_message_length(), 'x');
    Call stream = pair.client.stream(bytes("stream"), 1, 64);
    pair.client.start(bytes("call"), 1);
    // The stream finds no room, and ends later in the same poll, so that nothing is in hand at the next one.
    EXPECT_EQ(pair.server.poll([&](Request& request) {
        if (request.is_stream()) return request.stream([&] { return std::optional<std::string>(large); });
        pair.client.poll();
        stream.cancel();
        request.reply(bytes("y"));
    }),
              2);
    EXPECT_EQ(pair.server.held().in_hand, 0U);
    const Sleeps sleeps;
    EXPECT_EQ(pair.server.poll(echo, 256, 350ms), 0);
    EXPECT_LE(sleeps.count(), 8) << "with the cap of room it sleeps for 4 ms at a time";
}

TEST_F(ServiceWaiting, a_cancel_that_finds_no_room_goes_when_there_is_some) {
    std::vector<std::chrono::nanoseconds> times;
    for (int i = 0; i < 5; ++i) {
        Pair pair;
        pair.client.set_spin(0ns);
        std::vector<Request> kept;
        const auto keep = [&](Request& request) { kept.push_back(request.keep()); };
        Call call = pair.client.start(bytes("x"), 1);
        EXPECT_EQ(pair.server.poll(keep), 1);
        const std::vector<std::byte> large(pair.client.max_message_length());
        std::vector<Call> others;
        for (int n = 0; n < 3; ++n) others.push_back(pair.client.start(large, 1));
        // After an owner record and a request, 14 lines of the ring are left; the gate gave back two. After the last
        // record a length must be stored, too.
        others.push_back(pair.client.start(flyring::Bytes(large.data(), 14 * 64 - 32), 1));
        others.push_back(pair.client.start(flyring::Bytes(large.data(), 64 - 32), 1));
        call.cancel();
        std::thread waits([&] { EXPECT_EQ(pair.client.poll(300ms), 0); });
        wait_until_asleep(waits::data_asleep);
        const auto start = clock_type::now();
        EXPECT_EQ(pair.server.poll(keep), 5);
        EXPECT_FALSE(kept.front().cancelled());
        while (!kept.front().cancelled() && clock_type::now() - start < 10s) {
            pair.server.poll(keep);
            std::this_thread::sleep_for(1ms);
        }
        times.push_back(clock_type::now() - start);
        waits.join();
    }
    EXPECT_LT(waits::median(times), 50ms);  // less than its cap of 100 ms
}

TEST_F(ServiceWaiting, an_answer_of_another_thread_lets_a_full_server_go_on) {
    Pair pair(service(1, 4096, 64, 2));
    std::vector<Request> kept;
    std::mutex mutex;
    pair.server.set_spin(0ns);
    const Serving serving(pair.server, [&](Request& request) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (kept.size() < 2) {
            kept.push_back(request.keep());
        } else {
            request.reply(bytes("at once"));
        }
    });
    Call first = pair.client.start(bytes("a"), 1);
    Call second = pair.client.start(bytes("b"), 1);
    while (pair.server.held().in_hand < 2) std::this_thread::sleep_for(1ms);
    first.cancel();  // the cancel lies behind them, and is handled all the same
    const auto end = clock_type::now() + 10s;
    bool cancelled = false;
    while (!cancelled && clock_type::now() < end) {
        const std::lock_guard<std::mutex> lock(mutex);
        cancelled = kept[0].cancelled();
    }
    EXPECT_TRUE(cancelled);
    {
        const std::lock_guard<std::mutex> lock(mutex);
        kept[0].reply(bytes("late"));
        kept[1].reply(bytes("b"));
    }
    EXPECT_EQ(text(second.result(10s)), "b");
    EXPECT_EQ(text(pair.client.call(bytes("c"), 10s)), "at once");
}

TEST_F(ServiceWaiting, without_wakes_each_looks_every_millisecond) {
    Channel::create("c", service());
    Channel channel = Channel::open("c", waits::silent());
    Server server = channel.server();
    Client client = channel.client();
    client.set_spin(0ns);
    server.set_spin(0ns);
    const WakeCalls wakes;
    std::vector<std::chrono::nanoseconds> times;
    const Serving serving(server);
    for (int i = 0; i < 20; ++i) {
        times.push_back(waits::time_of([&] { EXPECT_EQ(text(client.call(bytes("x"), 10s)), "x"); }));
    }
    EXPECT_LT(waits::median(times), 20ms);
    EXPECT_EQ(wakes.count(), 0);
}

TEST_F(ServiceWaiting, a_wait_set_has_servers_and_clients) {
    Pair pair;
    flyring::WaitSet set;
    set.add(pair.server);
    set.add(pair.client);
    EXPECT_TRUE(set.wait(5ms).empty());
    Call call = pair.client.start(bytes("x"), 1);
    auto ready = set.wait(10s);
    ASSERT_EQ(ready.size(), 1U);
    EXPECT_EQ(std::get<Server*>(ready[0]), &pair.server);
    pair.server.poll(echo);
    ready = set.wait(10s);
    ASSERT_EQ(ready.size(), 1U);
    EXPECT_EQ(std::get<Client*>(ready[0]), &pair.client);
    EXPECT_EQ(pair.client.poll(), 1);
    // A deadline makes the client ready.
    Call timed = pair.client.start(bytes("y"), 1, 30ms);
    set.remove(pair.server);
    const auto start = clock_type::now();
    ready = set.wait(10s);
    ASSERT_EQ(ready.size(), 1U);
    EXPECT_GE(clock_type::now() - start, 20ms);
    EXPECT_LT(clock_type::now() - start, 30ms + soon);
    EXPECT_EQ(pair.client.poll(), 1);
    EXPECT_EQ(pair.may_have_run([&] { timed.result(); }), "expired true");
    // So does a server that closes.
    Call lost = pair.client.start(bytes("z"), 1);
    std::thread closes([&] {
        std::this_thread::sleep_for(20ms);
        pair.server.close();
    });
    const auto then = clock_type::now();
    while (!lost.done() && clock_type::now() - then < 10s) {
        set.wait(10s);
        pair.client.poll();
    }
    EXPECT_LT(clock_type::now() - then, 20ms + 100ms + soon);
    closes.join();
    EXPECT_EQ(pair.may_have_run([&] { lost.result(); }), "server-gone false");
}

TEST_F(ServiceWaiting, next_waits_for_items) {
    Pair pair;
    pair.client.set_spin(0ns);
    pair.server.set_spin(0ns);
    std::atomic<int> made{0};
    const Serving serving(pair.server, [&](Request& request) {
        request.stream([&made]() -> std::optional<std::string> {
            if (made == 500) return std::nullopt;
            return std::to_string(made++);
        });
    });
    Call call = pair.client.stream(bytes("go"), 1, 8, 60s);
    int seen = 0;
    while (const std::optional<Answer> item = call.next(20s)) {
        ASSERT_EQ(text(*item), std::to_string(seen));
        ++seen;
    }
    EXPECT_EQ(seen, 500);
    EXPECT_TRUE(call.done());
}

TEST_F(ServiceWaiting, waits_allocate_nothing_and_two_threads_are_told) {
    Pair pair;
    EXPECT_EQ(code_of([&] { pair.client.poll(-1ns); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { pair.server.poll(echo, 1, -1ns); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { pair.client.set_spin(-1ns); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { pair.client.call(bytes("x"), 0); }), "invalid-argument");
    pair.client.set_spin(0ns);
    std::thread caller([&] { EXPECT_EQ(code_of([&] { pair.client.call(bytes("x"), 300ms); }), "expired"); });
    wait_until_asleep(waits::data_asleep);
    EXPECT_EQ(code_of([&] { pair.client.call(bytes("y")); }), "two-threads");
    EXPECT_EQ(code_of([&] { pair.client.poll(); }), "two-threads");
    caller.join();
}

}  // namespace
