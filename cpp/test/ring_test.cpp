// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <numeric>
#include <thread>

#include "support.hpp"

// Publishing and polling, within one process.

namespace {

using flyring::Channel;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::inbox;
using support::text;
namespace layout = flyring::layout;

class Ring : public support::ChannelTest {};

std::vector<std::byte> pattern(std::size_t length, std::size_t seed) {
    std::vector<std::byte> content(length);
    for (std::size_t i = 0; i < length; ++i) content[i] = static_cast<std::byte>(seed + 31 * i);
    return content;
}

TEST_F(Ring, a_message_arrives_with_payload_type_ring_and_position) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher first = channel.publisher();
    flyring::Publisher second = channel.publisher();
    const std::int64_t end = second.offer(bytes("hello"), 42);
    EXPECT_EQ(end, 192);  // ring 1 starts at 64; owner record and message take 64 each
    int seen = 0;
    EXPECT_EQ(subscriber.poll([&](const flyring::Message& message) {
        ++seen;
        EXPECT_EQ(text(message), "hello");
        EXPECT_EQ(message.type(), 42);
        EXPECT_EQ(message.ring(), 1U);
        EXPECT_EQ(message.position(), 128);
    }),
              1);
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(subscriber.position(1), 192);
    EXPECT_EQ(subscriber.position(0), 0);
    EXPECT_EQ(second.position(), 192);
    EXPECT_EQ(first.ring(), 0U);
}

TEST_F(Ring, messages_of_0_1_and_maximum_bytes_arrive_and_one_more_is_too_large) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
        flyring::Subscriber subscriber = channel.subscriber();
        flyring::Publisher publisher = channel.publisher();
        const std::size_t most = publisher.max_message_length();
        EXPECT_EQ(most, 1016U);
        for (const std::size_t length : {std::size_t{0}, std::size_t{1}, most}) {
            const std::vector<std::byte> content = pattern(length, length);
            ASSERT_GT(publisher.offer(content), 0);
            const auto message = subscriber.take();
            ASSERT_TRUE(message);
            EXPECT_TRUE(
                std::equal(content.begin(), content.end(), message->payload().begin(), message->payload().end()));
        }
        const std::int64_t before = publisher.position();
        const std::vector<std::byte> large(most + 1);
        try {
            publisher.offer(large);
            FAIL() << "a message of more than the maximum was taken";
        } catch (const flyring::MessageTooLarge& error) {
            EXPECT_EQ(error.length(), most + 1);
            EXPECT_EQ(error.limit(), most);
        }
        EXPECT_EQ(code_of([&] { publisher.claim(most + 1); }), "too-large");
        for (std::size_t below = 1; below <= 72; ++below) {
            EXPECT_EQ(code_of([&] { publisher.claim(std::size_t{0} - below); }), "too-large");
        }
        EXPECT_EQ(code_of([&] { publisher.offer_batch(std::vector<flyring::Bytes>{bytes("x"), large}); }), "too-large");
        EXPECT_EQ(publisher.position(), before);
        EXPECT_FALSE(subscriber.take());
    }
}

TEST_F(Ring, types_below_1_are_invalid) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Publisher publisher = channel.publisher();
    for (const std::int32_t type : {0, -1, -2, std::numeric_limits<std::int32_t>::min()}) {
        EXPECT_EQ(code_of([&] { publisher.offer(bytes("x"), type); }), "invalid-argument");
        EXPECT_EQ(code_of([&] { publisher.claim(1, type); }), "invalid-argument");
        EXPECT_EQ(code_of([&] { publisher.offer_batch(std::vector<flyring::Bytes>{bytes("x")}, type); }),
                  "invalid-argument");
    }
    EXPECT_GT(publisher.offer(bytes("x"), std::numeric_limits<std::int32_t>::max()), 0);
}

TEST_F(Ring, a_ring_wraps_at_every_possible_offset) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        for (std::uint32_t before_end = alignment; before_end <= 1024; before_end += alignment) {
            Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
            flyring::Subscriber subscriber = channel.subscriber();
            flyring::Publisher publisher = channel.publisher();
            const auto drain = [&] {
                while (subscriber.poll([](const flyring::Message&) {}) > 0) {
                }
            };
            // Fill up to `before_end` bytes before the ring's end with records of one alignment unit.
            while (4096 - publisher.position() > before_end) {
                ASSERT_GT(publisher.offer(pattern(alignment - 8, 0)), 0);
                drain();
            }
            if (4096 - publisher.position() != before_end) continue;  // the owner record lies there
            const std::vector<std::byte> content = pattern(1016, before_end);
            ASSERT_EQ(publisher.offer(content), before_end == 1024 ? 4096 : 4096 + 1024) << before_end;
            const auto message = subscriber.take();
            ASSERT_TRUE(message) << before_end;
            ASSERT_EQ(message->position(), before_end == 1024 ? 3072 : 4096);
            ASSERT_TRUE(std::equal(content.begin(), content.end(), message->data(), message->data() + message->size()));
            ASSERT_GT(publisher.offer(bytes("next")), 0);
            ASSERT_EQ(text(*subscriber.take()), "next");
        }
    }
}

TEST_F(Ring, verbs_report_errors_in_the_order_of_the_spec) {
    Channel channel = Channel::create("c", broadcast());
    const auto words = support::raw("c");
    std::int64_t* const epoch = flyring::detail::publisher_slot(words, 0).epoch();
    flyring::Publisher publisher = channel.publisher();
    const std::vector<std::byte> large(2000);
    // The verbs with this type and this length.
    const auto codes = [&](std::int32_t type, std::size_t length) {
        const flyring::Bytes message(large.data(), length);
        const flyring::Bytes messages[] = {message};
        std::string all = code_of([&] { publisher.offer(message, type); });
        for (const std::string& code :
             {code_of([&] { publisher.claim(length, type); }), code_of([&] { publisher.try_claim(length, type); }),
              code_of([&] { publisher.offer_batch({messages, 1}, type); })}) {
            if (code != all) all += " " + code;
        }
        return all;
    };
    EXPECT_EQ(codes(0, 2000), "invalid-argument");
    EXPECT_EQ(codes(1, 2000), "too-large");
    flyring::Claim claim = publisher.claim(1);
    EXPECT_EQ(codes(0, 2000), "view-alive");
    claim.abort();
    const std::int64_t end = publisher.position();
    *epoch += 1;
    EXPECT_EQ(codes(0, 1), "invalid-argument");
    EXPECT_EQ(codes(1, 2000), "too-large");
    EXPECT_EQ(codes(1, 1), "slot-lost");
    *epoch -= 1;
    support::fill_up_to(publisher, 4032);
    EXPECT_EQ(code_of([&] { publisher.claim(2000); }), "too-large");  // although there is no room either
    EXPECT_GT(publisher.position(), end);
    *epoch += 1;
    publisher.close();
    EXPECT_EQ(codes(0, 2000), "closed");
}

TEST_F(Ring, many_laps_of_mixed_sizes_by_offer_claim_and_batch_arrive_in_order) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(1, 2, 4096, alignment));
        flyring::Subscriber subscriber = channel.subscriber();
        flyring::Subscriber other = channel.subscriber();
        flyring::Publisher publisher = channel.publisher();
        std::size_t sent = 0;
        std::size_t received = 0;
        const auto length = [](std::size_t i) { return i * 37 % 1017; };
        while (received < 20000) {
            bool room = true;
            while (room) {
                const std::vector<std::byte> content = pattern(length(sent), sent);
                if (sent % 3 == 0) {
                    room = publisher.offer(content) != flyring::back_pressured;
                } else if (sent % 3 == 1) {
                    flyring::Claim claim = publisher.try_claim(content.size());
                    room = static_cast<bool>(claim);
                    if (room) std::copy(content.begin(), content.end(), claim.data());
                    if (room) claim.commit();
                } else {
                    room = publisher.offer_batch(std::vector<flyring::Bytes>{content}) == 1;
                }
                if (room) ++sent;
            }
            while (subscriber.poll([&](const flyring::Message& message) {
                const std::vector<std::byte> expected = pattern(length(received), received);
                ASSERT_TRUE(
                    std::equal(expected.begin(), expected.end(), message.data(), message.data() + message.size()));
                ++received;
            }) > 0) {
            }
            other.poll([](const flyring::Message&) {}, 1000);
        }
        EXPECT_EQ(received, sent);
    }
}

TEST_F(Ring, a_prefetch_changes_no_byte_whatever_the_publisher_is_doing) {
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
        flyring::Subscriber subscriber = channel.subscriber();
        flyring::Publisher publisher = channel.publisher();
        const auto prefetch_changes_nothing = [&] {
            const std::vector<std::byte> before = support::read_file(channel.path());
            publisher.prefetch();
            EXPECT_EQ(support::read_file(channel.path()), before);
        };
        prefetch_changes_nothing();
        for (std::size_t i = 0; i < 300; ++i) {
            ASSERT_GT(publisher.offer(pattern(i * 37 % 1017, i), 7), 0);
            prefetch_changes_nothing();
            ASSERT_EQ(subscriber.take()->type(), 7);
        }
        flyring::Claim claim = publisher.claim(8, 9);
        prefetch_changes_nothing();
        claim.commit();
        EXPECT_EQ(subscriber.take()->type(), 9);
        publisher.close();
        prefetch_changes_nothing();
        subscriber.close();
        channel.close();
        publisher.prefetch();  // of a file that is unmapped
    }
}

TEST_F(Ring, a_slow_subscriber_holds_the_publisher_back_and_is_named) {
    Channel channel = Channel::create("c", broadcast(1, 2));
    flyring::Subscriber quick = channel.subscriber("quick");
    flyring::Subscriber slow = channel.subscriber("slow");
    flyring::Publisher publisher = channel.publisher();
    EXPECT_EQ(publisher.held_by()->position, 0);
    int sent = 0;
    while (publisher.offer(bytes("x")) != flyring::back_pressured) {
        ++sent;
        quick.poll([](const flyring::Message&) {});
    }
    EXPECT_EQ(sent, 62);  // 4096 bytes, less the owner record and the room for one zeroed length
    const std::int64_t before = publisher.position();
    EXPECT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
    EXPECT_FALSE(publisher.try_claim(1));
    EXPECT_EQ(publisher.try_claim(1).payload().size(), 0U);
    EXPECT_EQ(code_of([&] { publisher.try_claim(1).commit(); }), "back-pressured");
    try {
        publisher.claim(1, std::chrono::milliseconds(1));
        FAIL() << "a claim without room";
    } catch (const flyring::BackPressured& error) {
        EXPECT_EQ(error.holder()->name, "slow");
        EXPECT_NE(std::string(error.what()).find("subscriber slot 1 'slow'"), std::string::npos) << error.what();
    }
    EXPECT_EQ(publisher.offer_batch(std::vector<flyring::Bytes>{bytes("x")}), 0U);
    EXPECT_EQ(publisher.position(), before);
    const auto holder = publisher.held_by();
    ASSERT_TRUE(holder);
    EXPECT_EQ(holder->name, "slow");
    EXPECT_EQ(holder->slot, slow.slot());
    EXPECT_EQ(holder->pid, ::getpid());
    EXPECT_TRUE(holder->live);
    EXPECT_FALSE(holder->kept);
    EXPECT_EQ(holder->position, 0);
    EXPECT_EQ(slow.poll([](const flyring::Message&) {}, 10), 10);
    EXPECT_GT(publisher.offer(bytes("x")), 0);
}

TEST_F(Ring, a_publisher_without_subscribers_is_never_held_back) {
    Channel channel = Channel::create("c", broadcast(1, 0));
    flyring::Publisher publisher = channel.publisher();
    for (int i = 0; i < 1000; ++i) ASSERT_GT(publisher.offer(bytes("nobody listens")), 0);
    EXPECT_FALSE(publisher.held_by());
    EXPECT_EQ(code_of([&] { channel.subscriber(); }), "no-free-slot");
}

TEST_F(Ring, a_subscriber_sees_what_was_published_after_it_joined) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Publisher publisher = channel.publisher();
    publisher.offer(bytes("before"));
    flyring::Subscriber subscriber = channel.subscriber();
    publisher.offer(bytes("after"));
    EXPECT_EQ(text(*subscriber.take()), "after");
    EXPECT_FALSE(subscriber.take());
}

TEST_F(Ring, a_subscriber_reads_only_the_rings_that_it_chose) {
    Channel channel = Channel::create("c", broadcast(3, 1));
    flyring::Subscriber subscriber = channel.subscriber("", false, {2, 0});
    EXPECT_EQ(subscriber.rings(), (std::vector<std::uint32_t>{0, 2}));
    std::vector<flyring::Publisher> publishers;
    for (int i = 0; i < 3; ++i) publishers.push_back(channel.publisher());
    for (flyring::Publisher& publisher : publishers) publisher.offer(bytes(std::to_string(publisher.ring())));
    std::string seen;
    subscriber.poll([&](const flyring::Message& message) { seen += text(message); });
    EXPECT_EQ(seen, "02");
    EXPECT_EQ(code_of([&] { subscriber.position(1); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.subscriber("", false, {3}); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { channel.subscriber("", false, {1, 1}); }), "invalid-argument");
}

TEST_F(Ring, a_poll_hands_out_at_most_its_limit_and_begins_after_the_ring_served_last) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher first = channel.publisher();
    flyring::Publisher second = channel.publisher();
    for (int i = 0; i < 5; ++i) first.offer(bytes("a"));
    for (int i = 0; i < 5; ++i) second.offer(bytes("b"));
    const auto poll = [&](int limit) {
        std::string seen;
        const int count = subscriber.poll([&](const flyring::Message& message) { seen += text(message); }, limit);
        EXPECT_EQ(count, static_cast<int>(seen.size()));
        return seen;
    };
    EXPECT_EQ(poll(0), "");
    EXPECT_EQ(poll(2), "aa");
    EXPECT_EQ(poll(3), "bbb");
    EXPECT_EQ(poll(4), "aaab");
    EXPECT_EQ(poll(256), "b");
}

TEST_F(Ring, a_message_whose_handler_throws_is_consumed) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    publisher.offer(bytes("bad"));
    publisher.offer(bytes("good"));
    EXPECT_THROW(subscriber.poll([](const flyring::Message&) { throw std::runtime_error("mine"); }),
                 std::runtime_error);
    EXPECT_EQ(subscriber.position(0), 128);
    EXPECT_EQ(text(*subscriber.take()), "good");
    EXPECT_EQ(publisher.held_by()->position, publisher.position());
}

TEST_F(Ring, a_claim_is_seen_when_committed_and_never_when_aborted) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    flyring::Claim claim = publisher.claim(5, 7);
    ASSERT_TRUE(claim);
    ASSERT_EQ(claim.size(), 5U);
    std::memcpy(claim.data(), "claim", 5);
    EXPECT_FALSE(subscriber.take());
    EXPECT_EQ(code_of([&] { publisher.offer(bytes("x")); }), "view-alive");
    EXPECT_EQ(code_of([&] { publisher.claim(1); }), "view-alive");
    EXPECT_EQ(code_of([&] { publisher.offer_batch(std::vector<flyring::Bytes>{bytes("x")}); }), "view-alive");
    flyring::Claim moved = std::move(claim);
    const std::int64_t end = moved.commit();
    EXPECT_EQ(end, publisher.position());
    EXPECT_EQ(code_of([&] { moved.commit(); }), "closed");
    const auto message = subscriber.take();
    ASSERT_TRUE(message);
    EXPECT_EQ(text(*message), "claim");
    EXPECT_EQ(message->type(), 7);
    publisher.claim(5).abort();
    {
        const flyring::Claim forgotten = publisher.claim(5);
    }
    publisher.offer(bytes("after"));
    EXPECT_EQ(text(*subscriber.take()), "after");
}

TEST_F(Ring, a_batch_takes_what_fits_and_keeps_the_order) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    std::vector<std::string> texts;
    for (int i = 0; i < 100; ++i) texts.push_back(std::to_string(i));
    std::vector<flyring::Bytes> messages;
    for (const std::string& each : texts) messages.push_back(bytes(each));
    EXPECT_EQ(publisher.offer_batch(std::vector<flyring::Bytes>{}), 0U);
    const std::size_t taken = publisher.offer_batch(messages, 3);
    EXPECT_EQ(taken, 62U);
    std::size_t next = 0;
    EXPECT_EQ(subscriber.poll([&](const flyring::Message& message) { EXPECT_EQ(text(message), texts[next++]); }), 62);
    EXPECT_EQ(publisher.offer_batch(flyring::span<const flyring::Bytes>(messages).subspan(taken), 3), 38U);
    EXPECT_EQ(subscriber.poll([&](const flyring::Message& message) { EXPECT_EQ(text(message), texts[next++]); }), 38);
    EXPECT_EQ(next, 100U);
}

TEST_F(Ring, two_threads_exchange_a_million_messages_in_order) {
    Channel channel = Channel::create("c", broadcast(1, 1, 65536));
    flyring::Subscriber subscriber = channel.subscriber();
    constexpr std::int64_t count = 1'000'000;
    std::thread sender([&] {
        flyring::Publisher publisher = channel.publisher();
        flyring::BackoffWait wait;
        for (std::int64_t i = 0; i < count; ++i) {
            while (publisher.offer(flyring::bytes_of(i)) == flyring::back_pressured) wait.idle(0);
            wait.reset();
        }
    });
    std::int64_t next = 0;
    std::int64_t wrong = 0;
    flyring::BackoffWait wait;
    while (next < count) {
        wait.idle(subscriber.poll([&](const flyring::Message& message) {
            if (message.as<std::int64_t>() != next) ++wrong;
            ++next;
        }));
    }
    sender.join();
    EXPECT_EQ(wrong, 0);
}

TEST_F(Ring, a_length_beyond_all_memory_is_too_large) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    publisher.offer(bytes("x"));
    const auto* const data = reinterpret_cast<const std::byte*>("x");
    const auto position = static_cast<std::size_t>(publisher.position());
    for (const std::size_t length : {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX - 8, SIZE_MAX - 71, SIZE_MAX - position,
                                     SIZE_MAX - position - 71, SIZE_MAX / 2 + 1}) {
        EXPECT_EQ(code_of([&] { publisher.offer({data, length}); }), "too-large") << length;
        EXPECT_EQ(code_of([&] { publisher.claim(length); }), "too-large") << length;
        EXPECT_EQ(code_of([&] { publisher.offer_batch(std::vector<flyring::Bytes>{{data, length}}); }), "too-large");
    }
    publisher.offer(bytes("y"));
    EXPECT_EQ(support::drain(subscriber), "x y ");
}

TEST_F(Ring, publishing_ends_before_the_last_position) {
    constexpr std::int64_t last = std::int64_t{1} << 62;
    for (const std::uint32_t alignment : {8U, 64U}) {
        for (const std::int64_t before : {64, 640, 4096, 8192 + 64}) {
            Channel channel = Channel::replace("c", broadcast(1, 1, 4096, alignment));
            const auto mapped = support::raw("c");
            const auto words = mapped.ring(0);
            *words.published() = *words.claimed() = last - before;
            flyring::Subscriber subscriber = channel.subscriber();
            flyring::Publisher publisher = channel.publisher();
            int sent = 0;
            int got = 0;
            const std::string code = code_of([&] {
                for (; sent < 10'000; ++sent) {
                    publisher.offer(bytes("x"));
                    got += subscriber.poll([](const flyring::Message&) {});
                }
            });
            EXPECT_EQ(code, "corrupt-ring");
            EXPECT_EQ(code_of([&] { publisher.claim(1); }), "corrupt-ring");
            EXPECT_EQ(code_of([&] { publisher.offer_batch(std::vector<flyring::Bytes>(3, bytes("x"))); }),
                      "corrupt-ring");
            EXPECT_EQ(got, sent);
            EXPECT_LT(publisher.position(), last);
            EXPECT_LT(*words.published(), last);
            EXPECT_LT(*words.claimed(), last);
        }
    }
}

/// The messages that a poll hands out if its handler returns action(message).
template <typename Subscriber>
std::string poll_with(Subscriber& subscriber, const std::function<flyring::Action(const std::string&)>& action) {
    std::string seen;
    const int count = subscriber.poll([&](const flyring::Message& message) {
        seen += text(message);
        return action(text(message));
    });
    return seen + std::to_string(count);
}

template <typename Subscriber>
void actions_end_a_poll(Subscriber subscriber, flyring::Publisher& first, flyring::Publisher& second) {
    using flyring::Action;
    for (const char* one : {"a", "b", "c", "d"}) first.offer(bytes(one));
    second.offer(bytes("e"));
    const auto at = [](const char* wanted, Action action) {
        return [wanted, action](const std::string& text) { return text == wanted ? action : Action::CONTINUE; };
    };
    EXPECT_EQ(poll_with(subscriber, at("b", Action::ABORT)), "ab1");
    EXPECT_EQ(subscriber.position(0), 128);
    EXPECT_EQ(poll_with(subscriber, at("b", Action::ABORT)), "b0");
    EXPECT_EQ(poll_with(subscriber, at("b", Action::BREAK)), "b1");
    EXPECT_EQ(poll_with(subscriber, at("c", Action::COMMIT)), "ecd3");
    first.offer(bytes("x"));
    EXPECT_EQ(code_of([&] { poll_with(subscriber, at("x", static_cast<Action>(4))); }), "invalid-argument");
    EXPECT_FALSE(subscriber.take());  // it counts as consumed
}

TEST_F(Ring, a_handler_may_return_an_action) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::Publisher first = channel.publisher();
    flyring::Publisher second = channel.publisher();
    actions_end_a_poll(channel.subscriber(), first, second);
    Channel other = Channel::create("d", broadcast(2, 1));
    flyring::Publisher third = other.publisher();
    flyring::Publisher fourth = other.publisher();
    actions_end_a_poll(other.lossy_subscriber(), third, fourth);
}

TEST_F(Ring, commit_stores_the_gate_at_once) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    const auto words = support::raw("c");
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    for (int i = 0; i < 3; ++i) publisher.offer(bytes("x"));
    int handled = 0;
    subscriber.poll([&](const flyring::Message& message) {
        ++handled;
        EXPECT_EQ(*words.ring(0).gate(0), handled == 1 ? 0 : message.position());
        EXPECT_EQ(*words.ring(0).gate_count(0), handled - 1);
        return flyring::Action::COMMIT;
    });
    EXPECT_EQ(handled, 3);
}

TEST_F(Ring, bytes_on_a_channel_with_a_schema_are_of_a_type_that_no_message_has) {
    flyring::Options options = broadcast();
    options.schema = "<messageSchema/>";
    Channel channel = Channel::create("c", options);
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    publisher.offer(bytes("x"));
    publisher.claim(1).commit();
    publisher.try_claim(1).commit();
    publisher.offer_batch(std::vector<flyring::Bytes>{bytes("y")});
    int count = 0;
    subscriber.poll([&](const flyring::Message& message) {
        EXPECT_EQ(message.type(), 65536);
        ++count;
    });
    EXPECT_EQ(count, 4);
    publisher.offer(bytes("x"), 1);
    EXPECT_EQ(subscriber.take()->type(), 1);
}

}  // namespace
