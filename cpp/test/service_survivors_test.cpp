// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "services.hpp"

// Killed, stopped, evicted, closed and hostile servers and clients, and what the others see. The tests of
// spec/service.md 12 have the names given there.

namespace {

using namespace services;

class ServiceSurvivors : public support::ChannelTest {
  protected:
    std::uint64_t trailer(std::uint32_t ring, std::uint64_t offset) const {
        const flyring::detail::ChannelFile file = support::raw("c");
        return file.header.rings_offset() + ring * file.header.ring_stride() + file.header.capacity + offset;
    }
    template <typename T>
    void poke_trailer(std::uint32_t ring, std::uint64_t offset, T value) const {
        support::poke(file("c"), trailer(ring, offset), value);
    }
    void poke_closed(std::uint32_t slot, std::int32_t value) const {
        const std::uint64_t at = 4096 + layout::CONTROL_SLOTS + slot * layout::CONTROL_SLOT_LENGTH;
        support::poke(file("c"), at + layout::PUBLISHER_SLOT_CLOSED, value);
    }
    /// The file offset of a ring's position.
    std::uint64_t at(std::uint32_t ring, std::int64_t position) const {
        const flyring::detail::ChannelFile raw = support::raw("c");
        return raw.header.rings_offset() + ring * raw.header.ring_stride() +
               static_cast<std::uint64_t>(position & (raw.header.capacity - 1));
    }
};

/// A child process that serves until it is killed.
support::Child serving_child(const std::function<void(Request&)>& handler) {
    return support::Child([handler](const support::Child::Ready& ready) {
        Channel channel = Channel::open("c");
        Server server = channel.server("child", 10s);
        ready();
        server.serve(handler);
        return true;
    });
}

TEST_F(ServiceSurvivors, dead_server_is_seen) {
    Channel channel = Channel::create("c", service());
    Client client = channel.client();
    for (const bool is_asleep : {true, false}) {
        support::Child child = serving_child([](Request& request) {
            if (text(request.message()) == "answer") return request.reply(bytes("here"));
            for (;;) ::pause();
        });
        child.wait_until_ready();
        ASSERT_TRUE(client.server());
        EXPECT_EQ(client.server()->name, "child");
        EXPECT_EQ(text(client.call(bytes("answer"), 10s)), "here");
        client.set_spin(is_asleep ? 0ns : std::chrono::nanoseconds(20s));
        Call taken = client.start(bytes("hang"), 1);
        std::this_thread::sleep_for(30ms);
        Call lies = client.start(bytes("behind it"), 1);
        const pid_t pid = child.pid();
        std::thread killer([&] {
            std::this_thread::sleep_for(20ms);
            child.kill();
        });
        const auto start = clock_type::now();
        EXPECT_EQ(Pair::may_have_run([&] { taken.result(); }), "server-gone true");
        EXPECT_LT(clock_type::now() - start, 20ms + 100ms + 60ms);
        killer.join();
        try {
            lies.result();
            ADD_FAILURE();
        } catch (const flyring::ServerGone& error) {
            EXPECT_FALSE(error.may_have_run());
            EXPECT_EQ(error.name(), "child");
            EXPECT_EQ(error.pid(), pid);
        }
        EXPECT_FALSE(client.server());
        EXPECT_EQ(client.outstanding(), 0U);
        EXPECT_EQ(Pair::may_have_run([&] { client.call(bytes("nobody"), 20ms); }), "expired false");
    }
}

TEST_F(ServiceSurvivors, polls_that_do_not_wait_see_a_dead_server) {
    Channel channel = Channel::create("c", service());
    Client client = channel.client();
    support::Child child = serving_child([](Request&) {
        for (;;) ::pause();
    });
    child.wait_until_ready();
    Call call = client.start(bytes("hang"), 1);
    std::this_thread::sleep_for(30ms);
    child.kill();
    const auto start = clock_type::now();
    while (!call.done() && clock_type::now() - start < 20s) {
        client.poll();
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_EQ(Pair::may_have_run([&] { call.result(); }), "server-gone true");
    EXPECT_LT(clock_type::now() - start, 100ms + 60ms);
}

TEST_F(ServiceSurvivors, a_server_that_was_killed_in_a_reply_was_read_before) {
    // Its last answer is in the ring: the call ends with that answer, not as server gone.
    Pair pair;
    Call call = pair.client.start(bytes("x"), 1);
    Call other = pair.client.start(bytes("y"), 1);
    pair.server.poll(echo, 1);
    pair.server.close();
    EXPECT_EQ(text(call.result(10s)), "x");
    EXPECT_EQ(Pair::may_have_run([&] { other.result(10s); }), "server-gone false");
}

TEST_F(ServiceSurvivors, old_reply_never_reaches_the_next_client) {
    Pair pair;
    std::vector<Request> kept;
    pair.client.start(bytes("old"), 1);
    pair.server.poll([&](Request& request) { kept.push_back(request.keep()); });
    pair.client.close();
    Client next = pair.channel.client();
    ASSERT_EQ(next.number(), 0U);
    Call call = next.start(bytes("new"), 1);  // it has the same sequence as the old client's call
    kept[0].reply(bytes("for the old one"));
    EXPECT_EQ(next.poll(), 0);
    EXPECT_EQ(pair.server.client_gone(), 1);
    pair.server.poll(echo);
    EXPECT_EQ(text(call.result(10s)), "new");

    // A reply that was published before its client was evicted.
    Call lost = next.start(bytes("old"), 1);
    pair.server.poll(echo);
    pair.channel.evict(1);
    EXPECT_EQ(code_of([&] { next.poll(); }), "slot-lost");
    EXPECT_EQ(code_of([&] { lost.result(); }), "slot-lost");
    next.close();
    Client third = pair.channel.client();
    ASSERT_EQ(third.number(), 0U);
    Call again = third.start(bytes("third"), 1);
    pair.server.poll(echo);
    EXPECT_EQ(text(again.result(10s)), "third");
    // A cancel of the old client does not reach the new client's call either, because it carries the old epoch.

    // A reply that is published while the next client takes the place: closed is 0, the epoch is still the old one.
    kept.clear();
    third.start(bytes("old"), 1);
    pair.server.poll([&](Request& request) { kept.push_back(request.keep()); });
    third.close();
    poke_closed(0, 0);
    kept[0].reply(bytes("for the third one"));
    EXPECT_EQ(pair.server.client_gone(), 1);
    Client fourth = pair.channel.client();
    ASSERT_EQ(fourth.number(), 0U);
    Call last = fourth.start(bytes("fourth"), 1);
    EXPECT_EQ(fourth.poll(), 0);
    pair.server.poll(echo);
    EXPECT_EQ(text(last.result(10s)), "fourth");

    // A server that looked at the slot before the next client came, and publishes the reply after that (reply 2).
    fourth.start(bytes("late"), 1);
    pair.server.poll([&](Request& request) { kept.push_back(request.keep()); });
    const std::int64_t before = fourth.epoch();
    fourth.close();
    Client fifth = pair.channel.client();
    ASSERT_EQ(fifth.number(), 0U);
    Call first = fifth.start(bytes("first"), 1);
    pair.server.poll(echo);
    EXPECT_EQ(text(first.result(10s)), "first");
    Call latest = fifth.start(bytes("fifth"), 1);  // it has the same sequence as the late call
    const flyring::detail::ChannelFile raw = support::raw("c");
    std::int64_t* const epoch = flyring::detail::subscriber_slot(raw, 1).epoch();
    __atomic_store_n(epoch, before, __ATOMIC_RELEASE);
    kept[1].reply(bytes("for the old one"));
    __atomic_store_n(epoch, fifth.epoch(), __ATOMIC_RELEASE);
    EXPECT_EQ(fifth.poll(), 0);
    EXPECT_EQ(fifth.late(), 1);
    pair.server.poll(echo);
    EXPECT_EQ(text(latest.result(10s)), "fifth");
}

TEST_F(ServiceSurvivors, a_reply_looks_at_closed_and_not_at_the_gate) {
    // A client stores its gate at each call, so a look at the gate would cost a transfer of its line (reply 2).
    Pair pair;
    EXPECT_EQ(pair.answered_by(echo), "price?");
    Call call = pair.client.start(bytes("x"), 1);
    poke_trailer(2, layout::TRAILER_GATE, layout::NOT_GATING);
    pair.server.poll(echo);
    EXPECT_EQ(pair.server.client_gone(), 0);
    EXPECT_EQ(text(call.result(10s)), "x");
    // A client that was killed in its close, in front of the store of its gate.
    pair.client.start(bytes("y"), 1);
    poke_closed(0, 1);
    pair.server.poll(echo);
    EXPECT_EQ(pair.server.client_gone(), 1);
    EXPECT_EQ(pair.server.held().in_hand, 0U);
    EXPECT_EQ(pair.client.poll(), 0);
}

TEST_F(ServiceSurvivors, a_stream_ends_when_its_client_leaves) {
    for (const bool is_closed : {true, false}) {
        Pair pair;
        pair.client.stream(bytes("x"), 1, 64);
        const std::string large(pair.server.max_message_length(), 'x');
        pair.server.poll([&](Request& request) { request.stream([&] { return std::optional<std::string>(large); }); });
        EXPECT_EQ(pair.server.held().in_hand, 1U) << "it found no room";
        if (is_closed) {
            pair.client.close();
        } else {
            pair.channel.evict(1);
        }
        pair.server.poll(echo);
        EXPECT_EQ(pair.server.held().in_hand, 0U);
        EXPECT_GE(pair.server.client_gone(), 1);
    }
}

TEST_F(ServiceSurvivors, a_poll_with_limit_0_sends_waiting_replies_and_takes_no_request) {
    Pair pair;
    const std::vector<std::byte> large(pair.server.max_message_length());
    std::vector<Call> calls;
    for (int i = 0; i < 12; ++i) calls.push_back(pair.client.start(bytes("x"), 1));
    EXPECT_EQ(pair.server.poll([&](Request& request) { request.reply(large); }), 12);
    EXPECT_GT(pair.server.held().waiting, 0U);
    Call last = pair.client.start(bytes("last"), 1);
    const auto end = clock_type::now() + 10s;
    while (pair.server.held().in_hand != 0 && clock_type::now() < end) {
        pair.client.poll();
        EXPECT_EQ(pair.server.poll(echo, 0), 0);
    }
    EXPECT_EQ(pair.server.held().waiting, 0U);
    pair.client.poll();
    for (Call& call : calls) EXPECT_EQ(call.result(1s).size(), large.size());
    EXPECT_EQ(pair.server.poll(echo, 0, flyring::forever), 0);  // does not wait
    EXPECT_FALSE(last.done());
    pair.server.poll(echo);
    EXPECT_EQ(text(last.result(1s)), "last");
}

TEST_F(ServiceSurvivors, reply_without_room_leaks_nothing) {
    Pair pair;
    const std::vector<std::byte> large(pair.server.max_message_length());
    std::vector<Call> calls;
    for (int round = 0; round < 50; ++round) {
        calls.clear();
        for (int i = 0; i < 12; ++i) calls.push_back(pair.client.start(bytes("x"), 1));
        EXPECT_EQ(pair.server.poll([&](Request& request) { request.reply(large); }), 12);
        EXPECT_GT(pair.server.held().waiting, 0U);
        EXPECT_EQ(pair.server.held().in_hand, pair.server.held().waiting);
        for (int i = 0; i < 12; ++i) {
            pair.client.poll();
            pair.server.poll(echo);
        }
        for (Call& call : calls) EXPECT_EQ(call.result(1s).size(), large.size());
        EXPECT_EQ(pair.server.held().in_hand, 0U);
        EXPECT_EQ(pair.server.held().waiting, 0U);
    }
    // Replies to a client that closes while they wait for room.
    for (int i = 0; i < 12; ++i) calls.push_back(pair.client.start(bytes("x"), 1));
    pair.server.poll([&](Request& request) { request.reply(large); });
    EXPECT_GT(pair.server.held().waiting, 0U);
    pair.client.close();
    pair.server.poll(echo);
    EXPECT_EQ(pair.server.held().in_hand, 0U);
}

TEST_F(ServiceSurvivors, clients_come_and_go) {
    Channel channel = Channel::create("c", service(2));
    Server server = channel.server();
    for (int i = 0; i < 400; ++i) {
        Client client = channel.client();
        Call call = client.start(bytes("x"), 1);
        ASSERT_GE(server.poll(echo), 1) << i;  // with the requests that were left behind
        ASSERT_EQ(text(call.result(10s)), "x") << i;
        if (i % 3 == 0) client.start(bytes("left behind"), 1);
    }
    server.poll(echo);
    EXPECT_EQ(server.held().in_hand, 0U);
    EXPECT_EQ(channel.client().epoch(), 401);
}

TEST_F(ServiceSurvivors, request_of_a_client_that_left_is_run) {
    Pair pair;
    std::string run;
    {
        Client brief = pair.channel.client();
        for (const char* what : {"a", "b", "c"}) brief.start(bytes(what), 1);
    }
    support::Child child([](const support::Child::Ready& ready) {
        Channel channel = Channel::open("c");
        Client client = channel.client();
        client.start(bytes("d"), 1);
        ready();
        for (;;) ::pause();
        return true;
    });
    child.wait_until_ready();
    child.kill();
    EXPECT_EQ(pair.server.poll([&](Request& request) {
        run += text(request.message());
        request.reply(request.payload());
    }),
              4);
    EXPECT_EQ(run, "abcd");
    EXPECT_EQ(pair.server.held().in_hand, 0U);
    EXPECT_GE(pair.server.client_gone(), 3);
}

TEST_F(ServiceSurvivors, slow_client_delays_no_other) {
    Pair pair;
    Client slow = pair.channel.client();
    const std::vector<std::byte> large(pair.server.max_message_length());
    std::vector<Call> calls;
    for (int i = 0; i < 30; ++i) calls.push_back(slow.start(bytes("s"), 1));
    std::atomic<bool> stop{false};
    std::thread server([&] {
        while (!stop) pair.server.poll([&](Request& request) { request.reply(large); }, 256, 10ms);
    });
    for (int i = 0; i < 200; ++i) {
        const auto start = clock_type::now();
        EXPECT_EQ(pair.client.call(bytes("quick"), 10s).size(), large.size());
        EXPECT_LT(clock_type::now() - start, 2s);
    }
    EXPECT_GT(pair.server.held().waiting, 0U);
    for (Call& call : calls) EXPECT_EQ(call.result(20s).size(), large.size()) << "nothing of the slow one is lost";
    stop = true;
    server.join();
    EXPECT_EQ(pair.server.held().waiting, 0U);
}

TEST_F(ServiceSurvivors, no_call_ends_in_silence) {
    // Whatever is full, each call ends, and each that ends without an answer reports why.
    Pair pair(service(1, 4096, 64, 1000));
    const std::vector<std::byte> large(pair.client.max_message_length());
    int started = 0;
    int refused = 0;
    int ended = 0;
    for (int i = 0; i < 40; ++i) {
        try {
            pair.client.start(large, 1, 5ms, [&](Call& call) {
                EXPECT_EQ(Pair::may_have_run([&] { call.result(); }).substr(0, 7), "expired");
                ++ended;
            });
            ++started;
        } catch (const flyring::Expired& error) {
            EXPECT_FALSE(error.may_have_run());
            ++refused;
        }
    }
    EXPECT_GT(started, 0);
    EXPECT_GT(refused, 0);
    std::this_thread::sleep_for(10ms);
    while (pair.server.poll(echo) > 0 || pair.client.poll() > 0) {
    }
    EXPECT_EQ(ended, started);
    EXPECT_EQ(pair.server.expired(), started);
    EXPECT_EQ(pair.client.late(), started) << "replies that nobody waited for are counted";
    EXPECT_EQ(pair.client.outstanding(), 0U);
}

TEST_F(ServiceSurvivors, dead_client_does_not_stop_the_server) {
    Pair pair;
    const std::vector<std::byte> large(pair.server.max_message_length());
    for (int i = 0; i < 20; ++i) {
        support::Child child([](const support::Child::Ready& ready) {
            Channel channel = Channel::open("c");
            Client client = channel.client();
            for (int k = 0; k < 20; ++k) client.start(bytes("x"), 1);
            client.stream(bytes("x"), 1, 3);
            ready();
            for (;;) ::pause();
            return true;
        });
        child.wait_until_ready();
        if (i % 2 == 0) child.kill();
        pair.server.poll([&](Request& request) {
            if (request.is_stream()) return request.stream([] { return std::optional<std::string>("endless"); });
            request.reply(large);
        });
        if (i % 2 == 1) child.kill();
        const auto end = clock_type::now() + 10s;
        while (pair.server.held().in_hand != 0 && clock_type::now() < end) {
            pair.server.poll(echo, 256, 20ms);
        }
        ASSERT_EQ(pair.server.held().in_hand, 0U) << i;
        Call call = pair.client.start(bytes("still here?"), 1);
        pair.server.poll(echo);
        ASSERT_EQ(text(call.result(10s)), "still here?");
    }
}

TEST_F(ServiceSurvivors, evicting_a_server_tells_its_callers) {
    Pair pair;
    Call taken = pair.client.start(bytes("a"), 1);
    std::optional<Request> kept;
    pair.server.poll([&](Request& request) { kept.emplace(request.keep()); });
    Call lies = pair.client.start(bytes("b"), 1);
    EXPECT_EQ(pair.channel.evict(0), 1);
    EXPECT_EQ(Pair::may_have_run([&] { taken.result(10s); }), "server-gone true");
    EXPECT_EQ(Pair::may_have_run([&] { lies.result(10s); }), "server-gone true") << "it may take it before it knows";
    EXPECT_EQ(code_of([&] { kept->reply(bytes("late")); }), "slot-lost");
    EXPECT_EQ(code_of([&] { pair.channel.server(); }), "no-free-slot") << "before the victim knows";
    EXPECT_EQ(Pair::may_have_run([&] { pair.client.call(bytes("c"), 5ms); }), "expired false");
    EXPECT_EQ(code_of([&] { pair.server.poll(echo); }), "slot-lost");
    Server next = pair.channel.server("next");
    Call again = pair.client.start(bytes("d"), 1);
    std::string handed;
    next.poll([&](Request& request) {
        handed += text(request.message());
        request.reply(request.payload());
    });
    EXPECT_EQ(handed, "d") << "what was asked of the one before is not run";
    EXPECT_EQ(next.not_run(), 1);
    EXPECT_EQ(text(again.result(10s)), "d");
}

TEST_F(ServiceSurvivors, at_least_once_the_next_server_answers) {
    Pair pair(least());
    std::vector<Call> calls;
    for (const char* what : {"a", "b", "c", "d"}) calls.push_back(pair.client.start(bytes(what), 1));
    std::vector<Request> kept;
    pair.server.poll([&](Request& request) { kept.push_back(request.keep()); }, 3);
    kept[1].reply(bytes("b1"));
    pair.server.close();
    EXPECT_EQ(text(calls[1].result(10s)), "b1");
    EXPECT_EQ(code_of([&] { calls[0].result(150ms); }), "timed-out") << "it does not end with its server";
    Server next = pair.channel.server();
    std::string handed;
    next.poll([&](Request& request) {
        handed += text(request.message()) + (request.repeat() ? "! " : " ");
        request.reply(bytes(text(request.message()) + "2"));
    });
    EXPECT_EQ(handed, "a! b! c! d ");
    EXPECT_EQ(text(calls[0].result(10s)), "a2");
    EXPECT_TRUE(calls[0].repeat());
    EXPECT_EQ(text(calls[2].result(10s)), "c2");
    EXPECT_EQ(text(calls[3].result(10s)), "d2");
    EXPECT_FALSE(calls[3].repeat());
    EXPECT_EQ(pair.client.late(), 1) << "the second answer to b";
    EXPECT_EQ(code_of([&] { pair.client.stream(bytes("x"), 1); }), "invalid-argument");
}

TEST_F(ServiceSurvivors, at_least_once_no_request_is_lost_and_what_was_begun_says_repeat) {
    Channel channel = Channel::create("c", least());
    Client client = channel.client();
    std::vector<std::unique_ptr<support::Child>> children;
    for (int i = 0; i < 20; ++i) {
        children.push_back(std::make_unique<support::Child>([](const support::Child::Ready& ready) {
            Channel own = Channel::open("c");
            Server server = own.server("", 20s);
            ready();
            int done = 0;
            server.serve([&](Request& request) {
                if (!request.repeat() && ++done == 3) ::kill(::getpid(), SIGKILL);
                request.reply(bytes(request.repeat() ? "again" : "first"));
            });
            return true;
        }));
    }
    std::string seen;
    for (int i = 0; i < 30; ++i) seen += text(client.call(bytes("x"), 20s)).substr(0, 1);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 'a'), 10);
    EXPECT_EQ(seen.substr(0, 6), "ffaffa");
}

TEST_F(ServiceSurvivors, a_call_of_another_boot_is_dropped) {
    {
        flyring::detail::InEnvironment before;
        before.environment.boot_id = flyring::detail::parse_uuid("11111111-1111-1111-1111-111111111111");
        Channel channel = before.create("c", least());
        Client client = channel.client();
        Server server = channel.server();
        client.start(bytes("old"), 1);
        server.poll([](Request&) {}, 0);
    }
    Channel channel = Channel::open("c");
    Server server = channel.server();
    EXPECT_EQ(server.poll(echo), 0);
    Client client = channel.client();
    Call call = client.start(bytes("new"), 1);
    EXPECT_EQ(server.poll(echo), 1);
    EXPECT_EQ(text(call.result(10s)), "new");
}

TEST_F(ServiceSurvivors, a_hostile_client_is_evicted_and_the_others_go_on) {
    Pair pair;
    Client hostile = pair.channel.client();
    ASSERT_EQ(hostile.number(), 1U);
    const auto others_go_on = [&] {
        Call call = pair.client.start(bytes("fine"), 1);
        EXPECT_EQ(pair.server.poll(echo), 1);
        EXPECT_EQ(text(call.result(10s)), "fine");
    };
    struct Harm {
        const char* what;
        std::uint64_t offset;  // in the record
        std::int32_t value;
    };
    std::int64_t damaged = 0;
    for (const Harm& harm : {Harm{"length", 0, 3}, Harm{"long", 0, 5000}, Harm{"type", 4, -7}, Harm{"short", 0, 20}}) {
        SCOPED_TRACE(harm.what);
        const std::int64_t position = pair.channel.stats().publishers.at(1).published;
        std::vector<Call> calls;
        calls.push_back(hostile.start(bytes("first"), 1));  // with its owner record in front
        const std::int64_t end = pair.channel.stats().publishers.at(1).published;
        std::optional<Request> kept;
        pair.server.poll([&](Request& request) { kept.emplace(request.keep()); });
        calls.push_back(hostile.start(bytes("second"), 1));
        ASSERT_GT(end, position);
        support::poke(file("c"), at(1, end + static_cast<std::int64_t>(harm.offset) - 0), harm.value);
        pair.server.poll(echo);
        EXPECT_EQ(pair.server.damaged(), ++damaged);
        EXPECT_TRUE(kept->cancelled());
        EXPECT_EQ(code_of([&] { hostile.poll(); }), "slot-lost");
        EXPECT_EQ(code_of([&] { calls[0].result(); }), "slot-lost");
        kept->reply(bytes("for nobody"));
        others_go_on();
        hostile.close();
        hostile = pair.channel.client();
        ASSERT_EQ(hostile.number(), 1U);
        Call call = hostile.start(bytes("better"), 1);
        EXPECT_EQ(pair.server.poll(echo), 1);
        EXPECT_EQ(text(call.result(10s)), "better");
    }
}

TEST_F(ServiceSurvivors, hostile_words) {
    for (const std::int64_t value : {std::int64_t{-5}, std::int64_t{3}, std::int64_t{1} << 62, std::int64_t{1} << 40}) {
        SCOPED_TRACE(value);
        // A new server finds ring 0 damaged; client 1's ring is intact.
        for (const std::uint64_t word : {layout::TRAILER_PUBLISHED, layout::TRAILER_GATE, layout::TRAILER_CLAIMED,
                                         layout::TRAILER_GATE + layout::GATE_TAKEN_END}) {
            Channel channel = Channel::replace("c", service());
            Client client = channel.client();
            Client whole = channel.client();
            poke_trailer(0, word, value);
            Server server = channel.server();
            Call call = whole.start(bytes("whole"), 1);
            EXPECT_EQ(server.poll(echo), 1);
            EXPECT_EQ(text(call.result(10s)), "whole");
        }
        // Rings of replies.
        for (const std::uint64_t word : {layout::TRAILER_PUBLISHED, layout::TRAILER_CLAIMED}) {
            Channel channel = Channel::replace("c", service());
            poke_trailer(3, word, value);
            EXPECT_EQ(code_of([&] { channel.server(); }), "corrupt-ring");
            EXPECT_FALSE(support::is_locked(file("c"), support::raw("c").subscriber_lock(0)));
        }
        // The word `serving`, and the words that a client stores about itself.
        Pair pair;
        support::poke(file("c"), 4096 + layout::CONTROL_SERVING, value);
        EXPECT_EQ(Pair::may_have_run([&] { pair.client.call(bytes("x"), 5ms); }), "expired false");
        support::poke(file("c"), 4096 + layout::CONTROL_SERVING, pair.server.epoch());
        poke_trailer(2, layout::TRAILER_GATE + layout::GATE_EXPIRED, value);
        EXPECT_EQ(pair.channel.stats().subscribers.at(1).expired, std::max<std::int64_t>(0, value));
        EXPECT_EQ(pair.answered_by(echo), "price?");
    }
}

TEST_F(ServiceSurvivors, a_server_that_is_coming_is_not_taken_for_the_last_one) {
    // Section 4, 2: `serving` is 0 before the lock is held. Section 6: a caller that sees this lock finds no server.
    Pair pair;
    EXPECT_EQ(pair.answered_by(echo), "price?");
    Call call = pair.client.start(bytes("x"), 1);
    pair.server.close();
    poke_trailer(2, layout::TRAILER_PUBLISHED, 1);
    EXPECT_EQ(code_of([&] { pair.channel.server(); }), "corrupt-ring");
    EXPECT_EQ(pair.channel.stats().serving, 0);
    const flyring::detail::ChannelFile raw = support::raw("c");
    const flyring::detail::Fd next = flyring::detail::open_description(raw.fd, raw.path);  // as the new server does
    ASSERT_TRUE(flyring::detail::lock_byte(next, raw.subscriber_lock(0), raw.path));
    EXPECT_FALSE(pair.client.server());
    EXPECT_EQ(Pair::may_have_run([&] { call.result(5s); }), "server-gone true");
}

TEST_F(ServiceSurvivors, a_corrupt_ring_of_replies_ends_the_calls_of_its_client) {
    Pair pair;
    Call call = pair.client.start(bytes("x"), 1);
    pair.server.poll(echo);
    support::poke(file("c"), at(2, 128), std::int32_t{5});
    std::string told;
    EXPECT_EQ(code_of([&] { pair.client.poll(); }), "corrupt-ring");
    EXPECT_EQ(code_of([&] { call.result(); }), "corrupt-ring");
    EXPECT_EQ(code_of([&] { pair.client.call(bytes("x")); }), "corrupt-ring");
    EXPECT_EQ(pair.channel.stats().subscribers[1].outstanding, 0);
    pair.client.close();
    Client next = pair.channel.client();
    Call again = next.start(bytes("y"), 1);
    pair.server.poll(echo);
    EXPECT_EQ(text(again.result(10s)), "y");
}

TEST_F(ServiceSurvivors, fork_leaves_the_parent_its_places) {
    Pair pair;
    Call call = pair.client.start(bytes("x"), 1);
    std::optional<Request> kept;
    pair.server.poll([&](Request& request) { kept.emplace(request.keep()); });
    support::Child child([&](const support::Child::Ready&) {
        return code_of([&] { pair.client.call(bytes("y")); }) == "closed" &&
               code_of([&] { pair.server.poll(echo); }) == "closed" &&
               code_of([&] { kept->reply(bytes("z")); }) == "closed" && code_of([&] { call.result(); }) == "closed";
    });
    EXPECT_EQ(child.wait(), 0);
    kept->reply(bytes("the parent's"));
    EXPECT_EQ(text(call.result(10s)), "the parent's");
}

}  // namespace
