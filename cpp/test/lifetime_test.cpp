// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/wait.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "faults.hpp"
#include "support.hpp"

// Close, fork, two threads: objects used too late, too early, or in the wrong place.

namespace {

using flyring::Channel;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
namespace layout = flyring::layout;

class Lifetime : public support::ChannelTest {};

TEST_F(Lifetime, after_close_everything_is_closed_and_closing_again_is_fine) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    flyring::Publisher publisher = channel.publisher();
    flyring::Publisher other = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Counter counter = channel.counters().allocate("n");
    flyring::Claim claim = other.claim(3);
    publisher.close();
    publisher.close();
    EXPECT_EQ(support::peek<std::int32_t>(file("c"), 4096 + layout::CONTROL_SLOTS + layout::PUBLISHER_SLOT_CLOSED), 1);
    EXPECT_EQ(code_of([&] { publisher.offer(bytes("x")); }), "closed");
    EXPECT_EQ(code_of([&] { publisher.claim(1); }), "closed");
    EXPECT_EQ(code_of([&] { publisher.held_by(); }), "closed");
    channel.close();
    channel.close();
    EXPECT_EQ(code_of([&] { claim.commit(); }), "closed");
    EXPECT_EQ(code_of([&] { other.offer(bytes("x")); }), "closed");
    EXPECT_EQ(code_of([&] { subscriber.poll([](const flyring::Message&) {}); }), "closed");
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "closed");
    EXPECT_EQ(code_of([&] { subscriber.forget(); }), "closed");
    EXPECT_EQ(code_of([&] { counter.get_and_add(1); }), "closed");
    EXPECT_EQ(code_of([&] { channel.publisher(); }), "closed");
    EXPECT_EQ(code_of([&] { channel.subscriber(); }), "closed");
    EXPECT_EQ(code_of([&] { channel.counters(); }), "closed");
    subscriber.close();
    other.close();
    Channel again = Channel::open("c");
    EXPECT_EQ(again.publisher().ring(), 0U);
    EXPECT_EQ(again.subscriber().slot(), 0U);
}

TEST_F(Lifetime, objects_survive_their_channel_object) {
    std::optional<Channel> channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel->subscriber();
    flyring::Publisher publisher = channel->publisher();
    channel.reset();
    publisher.offer(bytes("x"));
    EXPECT_TRUE(subscriber.take());
}

TEST_F(Lifetime, a_closed_publisher_aborts_its_open_claim) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    std::optional<flyring::Publisher> publisher = channel.publisher("p");
    flyring::Claim claim = publisher->claim(10);
    publisher.reset();
    EXPECT_FALSE(claim);
    EXPECT_EQ(code_of([&] { claim.abort(); }), "closed");
    channel.publisher("p").offer(bytes("next"));
    EXPECT_EQ(drain(subscriber), "next ");
}

TEST_F(Lifetime, a_claim_that_outlives_its_publisher_and_its_channel_is_closed) {
    std::optional<Channel> channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel->subscriber();
    std::optional<flyring::Publisher> publisher = channel->publisher();
    flyring::Claim claim = publisher->claim(100);
    publisher.reset();
    flyring::Claim moved = std::move(claim);
    claim = std::move(moved);
    channel->close();
    channel.reset();
    std::memset(claim.data(), 1, claim.size());  // still valid memory
    EXPECT_FALSE(claim);
    EXPECT_EQ(code_of([&] { claim.commit(); }), "closed");
    EXPECT_EQ(code_of([&] { claim.commit(); }), "closed");

    // The publisher is closed, then destroyed, and the claim is never ended.
    channel = Channel::open("c");
    publisher = channel->publisher();
    claim = publisher->claim(100);
    publisher->close();
    EXPECT_EQ(code_of([&] { publisher->claim(1); }), "closed");
    publisher.reset();
    flyring::Claim dropped = std::move(claim);
    EXPECT_FALSE(dropped);
    subscriber = channel->subscriber();
    channel->publisher().offer(bytes("next"));
    EXPECT_EQ(drain(subscriber), "next ");
}

TEST_F(Lifetime, a_handler_may_neither_close_nor_poll_its_own_subscriber) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    channel.publisher().offer(bytes("x"));
    int handled = 0;
    subscriber.poll([&](const flyring::Message&) {
        ++handled;
        EXPECT_EQ(code_of([&] { subscriber.take(); }), "two-threads");
        EXPECT_EQ(code_of([&] { subscriber.close(); }), "view-alive");
        EXPECT_EQ(code_of([&] { subscriber.forget(); }), "view-alive");
        EXPECT_EQ(code_of([&] { channel.close(); }), "view-alive");
    });
    EXPECT_EQ(handled, 1);
    EXPECT_FALSE(subscriber.take());
}

TEST_F(Lifetime, two_threads_in_one_subscriber_are_noticed) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    channel.publisher().offer(bytes("x"));
    std::mutex mutex;
    std::condition_variable changed;
    bool inside = false;
    bool leave = false;
    std::thread first([&] {
        subscriber.poll([&](const flyring::Message&) {
            std::unique_lock<std::mutex> lock(mutex);
            inside = true;
            changed.notify_all();
            changed.wait(lock, [&] { return leave; });
        });
    });
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return inside; });
        EXPECT_EQ(code_of([&] { subscriber.take(); }), "two-threads");
        leave = true;
    }
    changed.notify_all();
    first.join();
    EXPECT_EQ(code_of([&] { subscriber.take(); }), "none");
}

TEST_F(Lifetime, a_forked_child_can_use_nothing_of_its_parent_and_keeps_no_lock) {
    std::optional<Channel> channel = Channel::create("c", broadcast());
    std::optional<flyring::Subscriber> subscriber = channel->subscriber();
    std::optional<flyring::Publisher> publisher = channel->publisher();
    flyring::Counter counter = channel->counters().allocate("n");
    publisher->offer(bytes("parent"));
    flyring::Claim claim = publisher->claim(4);
    support::Child child([&](const auto& ready) {
        const bool closed = code_of([&] { claim.commit(); }) == "closed" &&
                            code_of([&] { publisher->offer(bytes("child")); }) == "closed" &&
                            code_of([&] { subscriber->take(); }) == "closed" &&
                            code_of([&] { counter.get(); }) == "closed" &&
                            code_of([&] { channel->publisher(); }) == "closed";
        publisher.reset();
        const bool still_closed = code_of([&] { claim.commit(); }) == "closed";  // although its publisher is destroyed
        subscriber.reset();
        channel->close();
        const bool owned = code_of([] { Channel::open("c").publisher(); }) == "no-free-slot";
        ready();
        ::pause();
        return closed && still_closed && owned;
    });
    child.wait_until_ready();
    std::memcpy(claim.data(), "late", 4);
    claim.commit();
    EXPECT_EQ(drain(*subscriber), "parent late ");
    publisher.reset();
    subscriber.reset();
    channel.reset();
    Channel again = Channel::open("c");
    EXPECT_EQ(again.publisher().epoch(), 2);  // the child, still alive, holds no lock
    EXPECT_EQ(again.subscriber().epoch(), 2);
    child.kill();
}

TEST_F(Lifetime, what_a_forked_child_found_is_reported_to_its_parent) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    publisher.offer(bytes("x"));
    support::Child child([&](const auto&) {
        return code_of([&] { publisher.offer(bytes("child")); }) == "closed" &&
               code_of([&] { subscriber.take(); }) == "closed" &&
               code_of([] { Channel::open("c").publisher(); }) == "no-free-slot";
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(drain(subscriber), "x ");
}

TEST_F(Lifetime, a_child_forked_in_a_handler_does_not_move_the_parents_gate) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    channel.publisher().offer(bytes("x"));
    pid_t child = -1;
    const std::string code = code_of([&] { subscriber.poll([&](const flyring::Message&) { child = ::fork(); }); });
    if (child == 0) ::_exit(code == "closed" && code_of([&] { subscriber.take(); }) == "closed" ? 0 : 1);
    EXPECT_EQ(code, "none");
    EXPECT_EQ(support::status_of(child), 0);
    EXPECT_EQ(subscriber.position(0), 128);
}

/// Polls ten messages; the first one's handler forks. Returns whether the child got no other message, and its poll
/// threw Closed.
template <typename Subscriber>
bool child_of_a_handler_stops(Subscriber& subscriber, flyring::Publisher& publisher) {
    for (int i = 0; i < 10; ++i) publisher.offer(bytes("x"));
    pid_t child = -1;
    int handled = 0;
    const std::string code = code_of([&] {
        subscriber.poll([&](const flyring::Message&) {
            if (++handled == 1) child = ::fork();
        });
    });
    if (child == 0) ::_exit(handled == 1 && code == "closed" ? 0 : 1);
    EXPECT_EQ(handled, 10);
    EXPECT_EQ(code, "none");
    int status = -1;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST_F(Lifetime, a_child_forked_in_a_handler_is_handed_nothing_more) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    flyring::Publisher publisher = channel.publisher();
    EXPECT_TRUE(child_of_a_handler_stops(subscriber, publisher));
    EXPECT_EQ(drain(lossy).size(), 20U);
    EXPECT_TRUE(child_of_a_handler_stops(lossy, publisher));
}

TEST_F(Lifetime, what_a_child_writes_into_its_parents_claim_stays_in_the_child) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    flyring::Claim claim = publisher.claim(6);
    std::memcpy(claim.data(), "parent", 6);
    support::Child child([&](const auto&) {
        std::memcpy(claim.data(), "child!", 6);
        return true;
    });
    EXPECT_EQ(child.wait(), 0);
    claim.commit();
    EXPECT_EQ(drain(subscriber), "parent ");
}

TEST_F(Lifetime, a_channel_lets_its_file_go_before_it_gives_its_slots_back) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    Channel other = Channel::open("c");
    flyring::Subscriber reader = other.subscriber();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher("p");
    publisher.offer(bytes("x"));
    flyring::Claim claim = publisher.claim(16);
    const auto words = support::raw("c");
    const std::byte* const record = words.ring(0).payload_at(publisher.position());
    // Simulates a late store of another thread while the channel closes: it may have passed its check just before.
    int unlocked = 0;
    {
        const faults::Hook hook([&](const faults::Call& call) {
            if (call.lock != F_UNLCK || call.command != F_OFD_SETLK) return 0;
            ++unlocked;
            std::memset(claim.data(), 0x11 * unlocked, claim.size());
            return 0;
        });
        channel.close();
    }
    EXPECT_EQ(unlocked, 2);
    EXPECT_EQ(*record, std::byte{0});
    EXPECT_EQ(*words.ring(0).gate(1), -1);
    EXPECT_EQ(*flyring::detail::publisher_slot(words, 0).closed(), 1);
    EXPECT_EQ(code_of([&] { claim.commit(); }), "closed");
    flyring::Publisher next = other.publisher("p");
    next.offer(bytes("next"));
    EXPECT_EQ(drain(reader), "x next ");
}

TEST_F(Lifetime, a_channel_that_refuses_to_close_has_closed_nothing) {
    Channel channel = Channel::create("c", broadcast(2, 2));
    flyring::Publisher first = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher second = channel.publisher();
    flyring::Subscriber idle = channel.subscriber();
    first.offer(bytes("x"));
    int handled = 0;
    subscriber.poll(
        [&](const flyring::Message&) {
            ++handled;
            EXPECT_EQ(code_of([&] { channel.close(); }), "view-alive");
            EXPECT_GT(first.offer(bytes("y")), 0);
            EXPECT_GT(second.offer(bytes("z")), 0);
            EXPECT_EQ(drain(idle).size(), handled == 1 ? 6U : 4U);
        },
        2);
    EXPECT_EQ(handled, 2);
    channel.close();
    EXPECT_EQ(code_of([&] { first.offer(bytes("x")); }), "closed");
}

/// Forks in its constructor, before and after the object is complete, and in its destructor.
class Half final : public flyring::detail::ForkAware {
  public:
    explicit Half(int& told) : told_(told) {
        fork_and_wait();
        enlist();
        fork_and_wait();
    }
    ~Half() {
        delist();
        fork_and_wait();
    }
    Half(const Half&) = delete;
    Half& operator=(const Half&) = delete;

  private:
    void fork_and_wait() const {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(told_);
        statuses.push_back(support::status_of(child));
    }
    void before_fork() noexcept override {}
    void after_fork() noexcept override {}
    void lost_by_fork() noexcept override { told_ = 1; }

    int& told_;

  public:
    static inline std::vector<int> statuses;
};

TEST_F(Lifetime, a_fork_tells_whole_objects_only) {
    int told = 0;
    {
        const Half half(told);
    }
    EXPECT_EQ(Half::statuses, (std::vector<int>{0, 1 << 8, 0}));
}

TEST_F(Lifetime, a_fork_while_another_thread_opens_and_closes_a_channel_does_no_harm) {
    const Channel keep = Channel::create("c", broadcast());
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) Channel::open("c").publisher();
    });
    for (int i = 0; i < 100; ++i) {
        support::Child child([](const auto&) { return code_of([] { Channel::open("c"); }) == "none"; });
        ASSERT_EQ(child.wait(), 0);
    }
    stop = true;
    other.join();
    EXPECT_EQ(code_of([] { Channel::open("c").publisher(); }), "none");
}

}  // namespace
