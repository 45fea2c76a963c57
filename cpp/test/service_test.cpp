// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <set>

#include "allocations.hpp"
#include "services.hpp"

// The verbs of a service: what a caller gets, what a handler may do with a request, and which calls are refused.

namespace {

using namespace services;

/// The argument for which a create with these options throws InvalidArgument; "none" if it succeeds.
std::string refused(const std::function<void(Options&)>& change, Options options = service()) {
    change(options);
    try {
        Channel::replace("refused", options);
    } catch (const flyring::InvalidArgument& error) {
        return error.argument();
    }
    return "none";
}

class Service : public support::ChannelTest {};

TEST_F(Service, a_call_gets_its_answer) {
    Pair pair;
    EXPECT_EQ(pair.server.epoch(), 1);
    EXPECT_EQ(pair.client.number(), 0U);
    EXPECT_EQ(pair.client.slot(), 1U);
    const std::string seen = pair.answered_by([&](Request& request) {
        EXPECT_EQ(request.type(), 7);
        EXPECT_EQ(request.client(), 0U);
        EXPECT_EQ(request.sender().name, "desk");
        EXPECT_FALSE(request.repeat());
        EXPECT_FALSE(request.is_stream());
        EXPECT_FALSE(request.cancelled());
        EXPECT_FALSE(request.remaining());
        EXPECT_EQ(text(request.message()), "price?");
        request.reply(bytes("42"), 9);
    });
    EXPECT_EQ(seen, "42");
}

TEST_F(Service, what_it_is_made_of) {
    EXPECT_EQ(refused([](Options&) {}), "none");
    EXPECT_EQ(refused([](Options& o) { o.publishers = 4; }), "publishers");
    EXPECT_EQ(refused([](Options& o) { o.subscribers = 4; }), "subscribers");
    EXPECT_EQ(refused([](Options& o) { o.producers = 4; }), "producers");
    EXPECT_EQ(refused([](Options& o) { o.workers = 4; }), "workers");
    EXPECT_EQ(refused([](Options& o) { o.clients = 0; }), "clients");
    EXPECT_EQ(refused([](Options& o) { o.clients = 513; }), "clients");
    EXPECT_EQ(refused([](Options& o) { o.max_outstanding = 0; }), "max_outstanding");
    EXPECT_EQ(refused([](Options& o) { o.max_outstanding = 65536; }), "max_outstanding");
    EXPECT_EQ(refused([](Options& o) { o.delivery = static_cast<flyring::Delivery>(2); }), "delivery");
    EXPECT_EQ(refused([](Options& o) { o.clients = 2; }, support::inbox()), "clients");
    EXPECT_EQ(refused([](Options& o) { o.delivery = flyring::Delivery::at_most_once; }, support::inbox()), "delivery");
    EXPECT_EQ(refused([](Options& o) { o.max_outstanding = 2; }, support::inbox()), "max_outstanding");

    Options plain;
    plain.kind = Kind::service;
    Channel channel = Channel::create("plain", plain);
    EXPECT_EQ(channel.capacity(), 65536U);
    EXPECT_EQ(channel.clients(), 16U);
    EXPECT_EQ(channel.publishers(), 32U);
    EXPECT_EQ(channel.subscribers(), 17U);
    EXPECT_EQ(channel.max_outstanding(), 64U);
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.subscriber(); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.worker(); }), "invalid-argument");
    Channel other = Channel::create("other", support::queue());
    EXPECT_EQ(code_of([&] { other.server(); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { other.client(); }), "invalid-argument");

    const auto differs = [&](const std::function<void(Options&)>& change) -> std::string {
        Options asked = plain;
        change(asked);
        try {
            Channel::open_or_create("plain", asked);
        } catch (const flyring::ChannelDiffers& error) {
            return error.field();
        }
        return "none";
    };
    EXPECT_EQ(differs([](Options&) {}), "none");
    EXPECT_EQ(differs([](Options& o) { o.clients = 3; }), "clients");
    EXPECT_EQ(differs([](Options& o) { o.delivery = flyring::Delivery::at_least_once; }), "delivery");
    EXPECT_EQ(differs([](Options& o) { o.max_outstanding = 3; }), "max_outstanding");
}

TEST_F(Service, there_is_one_server_and_so_many_clients) {
    Channel channel = Channel::create("c", service(2));
    Server server = channel.server("first");
    try {
        channel.server("second");
        FAIL();
    } catch (const flyring::NoFreeSlot& error) {
        ASSERT_EQ(error.owners().size(), 1U);
        EXPECT_EQ(error.owners()[0].name, "first");
        EXPECT_EQ(error.owners()[0].pid, ::getpid());
    }
    Client a = channel.client();
    Client b = channel.client();
    EXPECT_EQ(code_of([&] { channel.client(); }), "no-free-slot");
    a.close();
    EXPECT_EQ(channel.client("late").number(), 0U);
    std::thread closes([&] {
        std::this_thread::sleep_for(30ms);
        server.close();
    });
    EXPECT_EQ(channel.server("second", 10s).epoch(), 2);
    closes.join();
    EXPECT_EQ(b.epoch(), 1);
}

TEST_F(Service, requests_and_answers_of_every_length_wrap_around_the_rings) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Pair pair(service(1, 4096, alignment));
        ASSERT_EQ(pair.client.max_message_length(), 4096U / 4 - 32);
        ASSERT_EQ(pair.server.max_message_length(), 4096U / 4 - 24);
        std::vector<std::byte> message(pair.client.max_message_length());
        for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(7 * i);
        for (std::size_t length = 0; length <= message.size(); length += 13) {
            Call call = pair.client.start({message.data(), length}, 3);
            ASSERT_EQ(pair.server.poll([&](Request& request) { request.reply(request.payload(), request.type()); }), 1);
            ASSERT_EQ(pair.client.poll(), 1);
            const Answer& answer = call.result();
            ASSERT_EQ(answer.size(), length);
            ASSERT_EQ(std::memcmp(answer.data(), message.data(), length), 0);
            EXPECT_EQ(answer.type(), 3);
        }
        const std::vector<std::byte> large(pair.server.max_message_length() + 1);
        EXPECT_EQ(code_of([&] { pair.client.start({large.data(), message.size() + 1}); }), "too-large");
        EXPECT_EQ(pair.error_of([&](Request& request) { request.reply(large); }).substr(0, 12), "a message of");
        EXPECT_EQ(pair.error_of([&](Request& request) {
            EXPECT_EQ(code_of([&] { request.reply(large); }), "too-large");
            request.fail("as you like");
        }),
                  "as you like");
    }
}

TEST_F(Service, a_handler_may_answer_fail_throw_or_forget) {
    Pair pair;
    EXPECT_EQ(pair.error_of([](Request& request) { request.fail("no such item"); }), "no such item");
    EXPECT_EQ(pair.error_of([](Request&) { throw std::runtime_error("out of stock"); }), "out of stock");
    EXPECT_EQ(pair.error_of([](Request&) { throw 5; }), "the handler threw something");
    EXPECT_EQ(pair.error_of([](Request&) {}), "no answer");
    std::string umlauts = "x";
    for (int i = 0; i < 1000; ++i) umlauts += "\xC3\xA4";
    const std::string sent = pair.error_of([&](Request& request) { request.fail(umlauts); });
    EXPECT_EQ(sent.size(), 999U) << "as many whole letters as fit in 4096 / 4 - 24 bytes";
    EXPECT_EQ(sent, umlauts.substr(0, sent.size()));
    EXPECT_EQ(pair.answered_by([&](Request& request) {
        request.reply(bytes("once"));
        EXPECT_EQ(code_of([&] { request.reply(bytes("twice")); }), "invalid-argument");
        EXPECT_EQ(code_of([&] { request.fail("twice"); }), "invalid-argument");
        EXPECT_EQ(code_of([&] { request.keep(); }), "invalid-argument");
        throw std::runtime_error("too late");
    }),
              "once");
    EXPECT_EQ(pair.error_of([&](Request& request) { request.reply(bytes("x"), 0); }).substr(0, 12), "invalid type");
    EXPECT_EQ(pair.server.held().in_hand, 0U);
}

TEST_F(Service, kept_requests_are_answered_from_any_thread_in_any_order) {
    Pair pair(service(2, 65536));
    std::vector<Call> calls;
    std::vector<Request> kept;
    for (int i = 0; i < 60; ++i) calls.push_back(pair.client.start(bytes("call " + std::to_string(i)), 1));
    ASSERT_EQ(pair.server.poll([&](Request& request) { kept.push_back(request.keep()); }), 60);
    EXPECT_EQ(pair.server.held().in_hand, 60U);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            for (std::size_t i = 3 * 20; i-- > 0;) {
                if (i % 3 == t) kept[i].reply(kept[i].payload());
            }
        });
    }
    // Meanwhile the poll goes on.
    Client other = pair.channel.client();
    for (int i = 0; i < 200; ++i) {
        Call call = other.start(bytes("other"), 1);
        pair.server.poll([](Request& request) { request.reply(request.payload()); });
        EXPECT_EQ(text(call.result(20s)), "other");
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(text(calls[i].result(20s)), "call " + std::to_string(i));
    EXPECT_EQ(pair.server.held().in_hand, 0U);
    EXPECT_EQ(code_of([&] { kept[0].reply(bytes("again")); }), "invalid-argument");
}

TEST_F(Service, a_kept_request_that_is_dropped_fails_and_one_may_outlive_its_server) {
    Pair pair;
    std::optional<Request> kept;
    Call call = pair.client.start(bytes("x"), 1);
    pair.server.poll([&](Request& request) { kept.emplace(request.keep()); });
    kept.reset();
    EXPECT_EQ(code_of([&] { call.result(20s); }), "service-error");
    Call again = pair.client.start(bytes("y"), 1);
    pair.server.poll([&](Request& request) { kept.emplace(request.keep()); });
    pair.server.close();
    EXPECT_EQ(code_of([&] { kept->reply(bytes("late")); }), "closed");
    EXPECT_EQ(text(kept->message()), "y");
    EXPECT_EQ(code_of([&] { again.result(20s); }), "server-gone");
    {
        Server next = pair.channel.server();
        Call third = pair.client.start(bytes("z"), 1);
        next.poll([&](Request& request) { kept.emplace(request.keep()); });
    }
    EXPECT_EQ(code_of([&] { kept->reply(bytes("late")); }), "closed");
}

TEST_F(Service, no_more_than_max_outstanding) {
    Pair pair(service(1, 65536, 64, 3));
    std::vector<Call> calls;
    for (int i = 0; i < 3; ++i) calls.push_back(pair.client.start(bytes("x"), 1));
    try {
        pair.client.start(bytes("x"), 1);
        FAIL();
    } catch (const flyring::Busy& error) {
        EXPECT_EQ(error.outstanding(), 3U);
        EXPECT_FALSE(error.holder());
    }
    EXPECT_EQ(code_of([&] { pair.client.call(bytes("x"), 1ms); }), "busy");
    calls[0].cancel();
    EXPECT_EQ(code_of([&] { pair.client.start(bytes("x"), 1); }), "busy") << "it counts until its final reply";
    EXPECT_EQ(pair.channel.stats().subscribers.at(1).outstanding, 3);
    EXPECT_EQ(pair.server.poll(echo), 3);
    calls.push_back(pair.client.start(bytes("x"), 1));
    EXPECT_EQ(pair.client.outstanding(), 1U);
    EXPECT_EQ(pair.client.late(), 1) << "the answer of the one that was cancelled";
    EXPECT_EQ(code_of([&] { calls[0].result(); }), "cancelled");
    EXPECT_EQ(text(calls[1].result()), "x");
}

TEST_F(Service, deadlines) {
    Pair pair;
    const auto start = clock_type::now();
    EXPECT_EQ(pair.may_have_run([&] { pair.client.call(bytes("x"), 20ms); }), "expired true");
    EXPECT_GE(clock_type::now() - start, 20ms);
    Call call = pair.client.start(bytes("y"), 1, 20ms);
    Call calm = pair.client.start(bytes("z"), 1, 10s);
    std::this_thread::sleep_for(25ms);
    std::string handed;
    pair.server.poll([&](Request& request) {
        handed += text(request.message());
        EXPECT_GT(request.remaining().value(), 5s);
        EXPECT_LE(request.remaining().value(), 10s);
        request.reply(request.payload());
    });
    EXPECT_EQ(handed, "z") << "what comes too late is given to no handler";
    EXPECT_EQ(pair.server.expired(), 2);
    EXPECT_EQ(pair.may_have_run([&] { call.result(); }), "expired false");
    EXPECT_EQ(text(calm.result()), "z");
    EXPECT_EQ(pair.client.outstanding(), 0U);
    EXPECT_EQ(pair.channel.stats().subscribers.at(1).expired, 2);
}

TEST_F(Service, cancel_tells_the_server) {
    Pair pair;
    Call call = pair.client.start(bytes("x"), 1);
    std::optional<Request> kept;
    pair.server.poll([&](Request& request) { kept.emplace(request.keep()); });
    EXPECT_FALSE(kept->cancelled());
    call.cancel();
    EXPECT_TRUE(call.done());
    EXPECT_EQ(code_of([&] { call.result(); }), "cancelled");
    pair.server.poll(echo);
    EXPECT_TRUE(kept->cancelled());
    kept->reply(bytes("all the same"));
    EXPECT_EQ(pair.client.poll(), 0);
    EXPECT_EQ(pair.client.late(), 1);
    EXPECT_EQ(pair.client.outstanding(), 0U);
}

TEST_F(Service, callbacks_may_start_calls_but_not_wait) {
    Pair pair;
    int ended = 0;
    std::function<void(Call&)> heard = [&](Call& call) {
        EXPECT_EQ(text(call.result()), "x");
        EXPECT_EQ(code_of([&] { pair.client.call(bytes("x"), 1ms); }), "two-threads");
        EXPECT_EQ(code_of([&] { pair.client.poll(); }), "two-threads");
        EXPECT_EQ(code_of([&] { pair.client.close(); }), "view-alive");
        if (++ended < 5) pair.client.start(bytes("x"), 1, flyring::forever, heard);
    };
    pair.client.start(bytes("x"), 1, flyring::forever, heard);
    for (int i = 1; i <= 5; ++i) {
        EXPECT_EQ(pair.server.poll(echo), 1);
        EXPECT_EQ(pair.client.poll(), 1);
        EXPECT_EQ(ended, i);
    }
    EXPECT_EQ(pair.client.outstanding(), 0U);
    // An exception of a callback leaves the verb; the next verb runs the other callbacks.
    std::string told;
    for (const char* name : {"a", "b"}) {
        pair.client.start(bytes("x"), 1, flyring::forever, [&told, name](Call&) {
            told += name;
            throw std::runtime_error("stop");
        });
    }
    EXPECT_EQ(pair.server.poll(echo), 2);
    EXPECT_THROW(pair.client.poll(), std::runtime_error);
    EXPECT_EQ(told, "a");
    EXPECT_THROW(pair.client.poll(), std::runtime_error);
    EXPECT_EQ(told, "ab");
}

TEST_F(Service, closed_calls_are_told) {
    Pair pair;
    std::string told;
    const auto heard = [&](Call& call) { told += code_of([&] { call.result(); }) + " "; };
    Call call = pair.client.start(bytes("x"), 1, flyring::forever, heard);
    pair.client.close();
    EXPECT_EQ(told, "closed ");
    EXPECT_EQ(code_of([&] { call.result(); }), "closed");
    EXPECT_EQ(code_of([&] { pair.client.call(bytes("x")); }), "closed");
    {
        Client brief = pair.channel.client();
        brief.start(bytes("y"), 1, flyring::forever, heard);
    }
    EXPECT_EQ(told, "closed closed ");
    std::string handed;
    pair.server.poll([&](Request& request) { handed += text(request.message()); });
    EXPECT_EQ(handed, "xy") << "what was published is run all the same";
    EXPECT_EQ(pair.server.client_gone(), 2);
}

TEST_F(Service, a_stream_has_at_most_its_credit_under_way_and_ends) {
    Pair pair;
    int made = 0;
    const auto numbers = [&](int last) {
        return [&made, last, i = 0]() mutable -> std::optional<std::string> {
            if (i == last) return std::nullopt;
            ++made;
            return std::to_string(i++);
        };
    };
    for (const std::uint32_t credit : {1U, 2U, 5U, 1000U}) {
        for (const int items : {0, 1, 2, 5, 6, 300}) {
            made = 0;
            Call call = pair.client.stream(bytes("go"), 1, credit);
            pair.server.poll([&](Request& request) {
                EXPECT_TRUE(request.is_stream());
                request.stream(numbers(items), 4);
            });
            EXPECT_LE(made, static_cast<int>(credit) + 1) << "one ahead";
            for (int i = 0; i < items; ++i) {
                std::optional<Answer> item;
                for (int tries = 0; !item && tries < 5; ++tries) {
                    item = call.next(0ns);
                    pair.server.poll(echo);
                }
                ASSERT_TRUE(item) << credit << " of " << items << " at " << i;
                ASSERT_EQ(text(*item), std::to_string(i));
                EXPECT_EQ(item->type(), 4);
            }
            pair.server.poll(echo);
            EXPECT_FALSE(call.next(1s));
            EXPECT_TRUE(call.done());
            EXPECT_EQ(pair.server.held().in_hand, 0U);
            EXPECT_EQ(pair.client.outstanding(), 0U);
        }
    }
    EXPECT_EQ(pair.error_of([&](Request& request) { request.stream(numbers(3)); }).substr(0, 14), "invalid stream");
    EXPECT_EQ(code_of([&] { pair.client.stream(bytes("x"), 1, 0); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { pair.client.stream(bytes("x"), 1, 65536); }), "invalid-argument");
}

TEST_F(Service, a_stream_that_throws_is_cancelled_or_late_ends) {
    Pair pair;
    const auto endless = [] { return std::optional<std::string>("more"); };
    Call throws = pair.client.stream(bytes("go"), 1, 8);
    pair.server.poll([&](Request& request) {
        request.stream([i = 0]() mutable -> std::optional<std::string> {
            if (i++ == 3) throw std::runtime_error("torn");
            return "item";
        });
    });
    EXPECT_EQ(text(throws.next().value()), "item");
    EXPECT_EQ(text(throws.next().value()), "item");
    EXPECT_EQ(text(throws.next().value()), "item");
    EXPECT_EQ(code_of([&] { throws.next(); }), "service-error");

    Call cancelled = pair.client.stream(bytes("go"), 1, 4);
    pair.server.poll([&](Request& request) { request.stream(endless); });
    EXPECT_EQ(text(cancelled.next().value()), "more");
    cancelled.cancel();
    pair.server.poll(echo);
    pair.client.poll();
    EXPECT_EQ(pair.client.outstanding(), 0U);
    EXPECT_EQ(pair.server.held().in_hand, 0U);

    Call late = pair.client.stream(bytes("go"), 1, 2, 20ms);
    pair.server.poll([&](Request& request) { request.stream(endless); });
    std::this_thread::sleep_for(25ms);
    EXPECT_EQ(pair.may_have_run([&] {
        while (late.next(0ns)) {
        }
    }),
              "expired true");
    pair.server.poll(echo);
    pair.client.poll();
    EXPECT_EQ(pair.client.outstanding(), 0U);
}

TEST_F(Service, a_single_call_allocates_nothing) {
    if (!support::counts_allocations()) GTEST_SKIP() << "a sanitizer has its own malloc";
    Pair pair(service(1, 65536));
    pair.client.set_spin(1s);
    std::thread server([&] { pair.server.serve([](Request& request) { request.reply(request.payload(), 5); }); });
    const std::array<std::byte, 32> request{};
    for (int i = 0; i < 100; ++i) pair.client.call(request, 3);
    const long before = support::allocations();
    for (int i = 0; i < 5000; ++i) {
        const Answer answer = pair.client.call(request, 3, i % 2 == 0 ? flyring::forever : 10s);
        ASSERT_EQ(answer.size(), 32U);
    }
    EXPECT_EQ(support::allocations(), before);
    const std::vector<std::byte> large(5000);
    Answer answer;
    pair.client.call_into(answer, large, 3);
    pair.client.call_into(answer, large, 3);
    const long larger = support::allocations();
    for (int i = 0; i < 100; ++i) pair.client.call_into(answer, large, 3);
    EXPECT_EQ(support::allocations(), larger);
    pair.server.stop();
    server.join();
}

TEST_F(Service, callbacks_run_while_another_verb_waits) {
    Pair pair;
    pair.client.set_spin(0ns);
    std::vector<Request> kept;
    std::atomic<bool> told{false};
    pair.client.start(bytes("a"), 1, flyring::forever, [&](Call& call) {
        EXPECT_EQ(text(call.result()), "a");
        told = true;
    });
    std::thread server([&] {
        int seen = 0;
        while (seen < 2) seen += pair.server.poll([&](Request& request) { kept.push_back(request.keep()); }, 256, 10ms);
        kept[0].reply(kept[0].payload());
        const auto end = clock_type::now() + 10s;
        while (!told && clock_type::now() < end) std::this_thread::sleep_for(1ms);
        EXPECT_TRUE(told);
        kept[1].reply(kept[1].payload());
    });
    EXPECT_EQ(text(pair.client.call(bytes("b"), 20s)), "b");
    server.join();
}

TEST_F(Service, calls_that_end_with_their_client_are_told_once) {
    for (const bool is_evicted : {true, false}) {
        Pair pair;
        std::string told;
        for (int i = 0; i < 3; ++i) {
            pair.client.start(bytes("x"), 1, flyring::forever,
                              [&](Call& call) { told += code_of([&] { call.result(); }) + " "; });
        }
        const std::string code = is_evicted ? "slot-lost" : "corrupt-ring";
        if (is_evicted) {
            pair.channel.evict(1);
        } else {
            pair.server.poll(echo);
            support::poke(file("c"),
                          support::raw("c").header.rings_offset() + 2 * support::raw("c").header.ring_stride() + 128,
                          std::int32_t{5});
        }
        EXPECT_EQ(code_of([&] { pair.client.poll(); }), code);
        EXPECT_EQ(told, code + " " + code + " " + code + " ");
        pair.client.close();
        EXPECT_EQ(told, code + " " + code + " " + code + " ");
    }
}

TEST_F(Service, a_lossy_subscriber_looks_on) {
    Pair pair;
    flyring::LossySubscriber lossy = pair.channel.lossy_subscriber();
    EXPECT_EQ(pair.answered_by(echo), "price?");
    std::string seen;
    lossy.poll([&](const flyring::Message& message) {
        const std::size_t prefix = message.ring() < 2 ? layout::REQUEST_LENGTH : layout::REPLY_LENGTH;
        seen += std::to_string(message.ring()) + text(message).substr(prefix) + " ";
    });
    EXPECT_EQ(seen, "0price? 2price? ");
}

TEST_F(Service, stats) {
    Pair pair(service(3, 4096, 64, 9));
    Call call = pair.client.start(bytes("x"), 1);
    const flyring::Stats stats = pair.channel.stats();
    EXPECT_EQ(stats.clients, 3U);
    EXPECT_EQ(stats.max_outstanding, 9U);
    EXPECT_EQ(stats.serving, 1);
    ASSERT_EQ(stats.subscribers.size(), 4U);
    EXPECT_EQ(stats.subscribers[0].state, flyring::SlotState::live);
    EXPECT_EQ(stats.subscribers[0].outstanding, -1);
    ASSERT_EQ(stats.subscribers[0].gates.size(), 3U);
    EXPECT_EQ(stats.subscribers[0].gates[0].lag_messages, 1);
    EXPECT_EQ(stats.subscribers[1].name, "desk");
    EXPECT_EQ(stats.subscribers[1].outstanding, 1);
    EXPECT_EQ(stats.subscribers[1].expired, 0);
    ASSERT_EQ(stats.subscribers[1].gates.size(), 1U);
    EXPECT_EQ(stats.subscribers[1].gates[0].ring, 3U);
    EXPECT_EQ(stats.subscribers[2].state, flyring::SlotState::unused);
    EXPECT_TRUE(stats.subscribers[2].gates.empty());
}

}  // namespace
