// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

#include "faults.hpp"
#include "support.hpp"

// How long a publisher waits for dead readers; joins and leaves at full speed; wait strategies.

namespace {

using flyring::Channel;
using flyring::Message;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::number_of;
using support::numbered;
using clock_type = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
namespace layout = flyring::layout;

std::int64_t now() {
    return flyring::detail::clock_ns(CLOCK_MONOTONIC);
}

class Wait : public support::ChannelTest {
  protected:
    static constexpr std::uint64_t reader_lock = 4096 + 256 + 256;

    /// A process that owns subscriber slot 0 and never polls.
    static std::unique_ptr<support::Child> reader() {
        auto child = std::make_unique<support::Child>([](const auto& ready) {
            Channel own = Channel::open("c");
            const flyring::Subscriber subscriber = own.subscriber();
            ready();
            ::pause();
            return true;
        });
        child->wait_until_ready();
        return child;
    }

    /// Waits until the kernel has freed the dead reader's lock. Returns the time.
    std::int64_t wait_for_free_lock() const {
        while (support::is_locked(file("c"), reader_lock)) {
        }
        return now();
    }
};

/// Measures the time that the machine takes from ready threads: a thread sleeps 0.1 ms at a time and notes when it
/// wakes too late.
class Canary {
  public:
    ~Canary() {
        stop_ = true;
        thread_.join();
    }
    /// The ns lost between two times.
    std::int64_t lost(std::int64_t from, std::int64_t to) {
        const std::lock_guard<std::mutex> guard(mutex_);
        std::int64_t sum = 0;
        for (const auto& [begin, end] : gaps_)
            sum += std::max<std::int64_t>(0, std::min(end, to) - std::max(begin, from));
        return sum;
    }

  private:
    void run() {
        while (!stop_) {
            const std::int64_t due = now() + 100'000;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            const std::int64_t woke = now();
            if (woke - due < 200'000) continue;
            const std::lock_guard<std::mutex> guard(mutex_);
            gaps_.emplace_back(due, woke);
        }
    }

    std::mutex mutex_;
    std::vector<std::pair<std::int64_t, std::int64_t>> gaps_;
    std::atomic<bool> stop_{false};
    std::thread thread_{[this] { run(); }};
};

/// The ns that this thread was ready to run while other threads ran.
std::int64_t time_in_queue() {
    std::ifstream stream("/proc/thread-self/schedstat");
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    stream >> ran >> waited;
    return waited;
}

TEST_F(Wait, a_spinning_publisher_gets_on_within_5_ms_after_a_readers_death) {
    constexpr std::size_t deaths = 60;
    Channel channel = Channel::create("c", broadcast(1, 1));
    std::vector<double> waits;  // ms
    Canary canary;
    for (std::size_t i = 0; i < deaths; ++i) {
        const auto victim = reader();
        std::atomic<bool> held{false};
        std::int64_t went_on = 0;
        std::int64_t queued = 0;
        std::thread spinner([&] {
            flyring::Publisher publisher = channel.publisher();
            support::fill(publisher);
            held = true;
            const std::int64_t before = time_in_queue();
            while (publisher.offer(bytes("x")) == flyring::back_pressured) {
            }
            went_on = now();
            queued = time_in_queue() - before;
        });
        while (!held) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        victim->signal(SIGKILL);
        const std::int64_t free = wait_for_free_lock();
        spinner.join();
        const std::int64_t lost = std::max(canary.lost(free, went_on), queued);
        waits.push_back(static_cast<double>(std::max<std::int64_t>(0, went_on - free - lost)) / 1e6);
        victim->wait();
    }
    std::sort(waits.begin(), waits.end());
    const double p99 = waits[(waits.size() * 99 + 99) / 100 - 1];
    RecordProperty("median_us", static_cast<int>(waits[waits.size() / 2] * 1000));
    RecordProperty("p99_us", static_cast<int>(p99 * 1000));
    std::cout << deaths << " deaths: median " << waits[waits.size() / 2] << " ms, p99 " << p99 << " ms\n";
    EXPECT_LT(p99, 5.0);
}

TEST_F(Wait,
       a_publisher_that_offers_every_millisecond_gets_on_at_the_second_offer_after_a_readers_death_at_the_latest) {
    Channel channel = Channel::create("c", broadcast(1, 1));
    int most = 0;
    for (int i = 0; i < 30; ++i) {
        const auto victim = reader();
        flyring::Publisher publisher = channel.publisher();
        support::fill(publisher);
        for (int offer = 0; offer < i % 4; ++offer) {  // varies the times of the first failure and of the last test
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ASSERT_EQ(publisher.offer(bytes("x")), flyring::back_pressured);
        }
        victim->signal(SIGKILL);
        wait_for_free_lock();
        int offers = 0;
        do {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ++offers;
        } while (publisher.offer(bytes("x")) == flyring::back_pressured && offers < 100);
        most = std::max(most, offers);
        victim->wait();
    }
    EXPECT_LE(most, 2);
}

TEST_F(Wait, retire_never_takes_the_gates_of_the_slots_next_owner) {
    Channel channel = Channel::create("c", broadcast(2, 1));
    flyring::Publisher publisher = channel.publisher();
    const auto words = support::raw("c");
    int retired = 0;  // rounds in which retire came before the next owner
    int refused = 0;  // rounds in which the next owner was faster
    for (int i = 0; i < 400 || ((retired == 0 || refused == 0) && i < 4000); ++i) {
        // A dead owner that never read: the gate holds publishers back, and the lock is free.
        *words.ring(0).gate(0) = publisher.position();
        const std::int64_t epoch = *flyring::detail::subscriber_slot(words, 0).epoch();
        support::fill(publisher);
        std::optional<flyring::Subscriber> next;
        support::race(
            [&] {
                while (publisher.offer(bytes("x")) == flyring::back_pressured) {
                }
            },
            [&] {
                std::this_thread::sleep_for(std::chrono::microseconds(600 + i % 40 * 20));
                next = channel.subscriber();
            });
        ++(next->epoch() == epoch + 1 ? refused : retired);
        ASSERT_GE(*words.ring(0).gate(0), 0) << i;
        ASSERT_GE(*words.ring(1).gate(0), 0) << i;
        next->poll([](const Message&) {});
        ASSERT_GT(publisher.offer(bytes("mine")), 0);
        const auto message = next->take();
        ASSERT_TRUE(message);
        ASSERT_EQ(support::text(*message), "mine");
    }
    EXPECT_GT(retired, 0);
    EXPECT_GT(refused, 0);
}

TEST_F(Wait, a_subscriber_that_joins_and_leaves_at_full_speed_sees_a_gapless_suffix) {
    constexpr std::uint64_t most = 12;
    for (const std::uint32_t alignment : {8U, 64U}) {
        Channel channel = Channel::replace("c", broadcast(2, 2, 16384, alignment));
        support::Child child([](const auto& ready) {
            Channel own = Channel::open("c");
            flyring::Publisher first = own.publisher();
            flyring::Publisher second = own.publisher();
            ready();
            for (std::uint64_t i = 0, j = 0;;) {
                if (first.offer(bytes(numbered(i, most))) > 0) ++i;
                if (second.offer(bytes(numbered(j, most))) > 0) ++j;
                if (i == ~std::uint64_t{0}) return false;
            }
        });
        child.wait_until_ready();
        std::int64_t laps = 0;
        for (int round = 0; round < 150; ++round) {
            flyring::Subscriber subscriber = channel.subscriber();
            const std::int64_t joined = subscriber.position(0);
            std::optional<std::uint64_t> next[2];
            std::uint64_t seen[2] = {0, 0};
            const std::uint64_t wanted = static_cast<std::uint64_t>(round) * 5 % 700;
            const std::int64_t end = now() + 20'000'000'000;
            while ((seen[0] < wanted || seen[1] < wanted) && now() < end) {
                const int done = subscriber.poll([&](const Message& message) {
                    const auto number = number_of(message, most);
                    ASSERT_TRUE(number) << "not whole";
                    const std::uint32_t ring = message.ring();
                    if (!next[ring]) next[ring] = *number;
                    ASSERT_EQ(*number, *next[ring]) << "a gap, or a ghost";
                    ++*next[ring];
                    ++seen[ring];
                });
                if (done == 0) std::this_thread::yield();
            }
            ASSERT_FALSE(HasFailure());
            ASSERT_GE(std::min(seen[0], seen[1]), wanted) << "in time";
            laps = std::max(laps, joined / 16384);
        }
        EXPECT_GT(laps, 10) << "the publishers hardly ran";
        child.kill();
    }
}

// Wait strategies of a caller's loop.

constexpr nanoseconds stand_back = microseconds(2000);

/// The time of one idle turn.
nanoseconds look(flyring::BatchSpinWait& wait) {
    const auto start = clock_type::now();
    wait.idle(0);
    return clock_type::now() - start;
}

/// The time of the first idle turn after a poll of `messages` messages.
nanoseconds after_run_of(flyring::BatchSpinWait& wait, int messages) {
    wait.idle(messages);
    return look(wait);
}

/// The shortest of many, because a thread may lose its core at any time.
nanoseconds shortest(flyring::BatchSpinWait& wait, int messages) {
    nanoseconds found = nanoseconds::max();
    for (int i = 0; i < 50; ++i) found = std::min(found, after_run_of(wait, messages));
    return found;
}

TEST(WaitStrategy, batch_spin_stands_back_as_long_as_it_is_told_after_a_run_and_not_after_a_few_messages) {
    flyring::BatchSpinWait wait(stand_back);
    for (int i = 0; i < 3; ++i) EXPECT_GE(after_run_of(wait, 4), stand_back);
    EXPECT_LT(shortest(wait, 3), stand_back / 2);
}

TEST(WaitStrategy, batch_spin_stands_back_once_per_run) {
    flyring::BatchSpinWait wait(stand_back);
    nanoseconds found = nanoseconds::max();
    for (int i = 0; i < 20; ++i) {
        EXPECT_GE(after_run_of(wait, 256), stand_back);
        found = std::min(found, look(wait));
    }
    EXPECT_LT(found, stand_back / 2);
}

TEST(WaitStrategy, batch_spin_forgets_a_run_when_it_is_reset) {
    flyring::BatchSpinWait wait(stand_back);
    nanoseconds found = nanoseconds::max();
    for (int i = 0; i < 50; ++i) {
        wait.idle(256);
        wait.reset();
        found = std::min(found, look(wait));
    }
    EXPECT_LT(found, stand_back / 2);
}

TEST(WaitStrategy, batch_spin_stands_back_for_five_microseconds_unless_it_is_told) {
    flyring::BatchSpinWait wait;
    const nanoseconds found = shortest(wait, 256);
    EXPECT_GE(found, microseconds(5));
    EXPECT_LT(found, microseconds(1000));
}

TEST(WaitStrategy, batch_spin_takes_a_time_above_zero_only) {
    for (const nanoseconds time : {nanoseconds(0), nanoseconds(-1), nanoseconds::min()}) {
        try {
            flyring::BatchSpinWait wait(time);
            FAIL() << time.count();
        } catch (const flyring::InvalidArgument& refused) {
            EXPECT_EQ(refused.argument(), "stand_back");
        }
    }
}

/// Offers until it succeeds, or until long after a dead reader must have been found. Throws as offer does.
bool goes_in_the_end(flyring::Publisher& publisher) {
    for (const std::int64_t start = now(); now() - start < 100'000'000;) {
        if (publisher.offer(bytes("x")) > 0) return true;
        std::this_thread::sleep_for(microseconds(200));
    }
    return false;
}

void die_as_a_subscriber() {
    support::Child child([](const auto&) -> bool {
        Channel own = Channel::open("c");
        const flyring::Subscriber subscriber = own.subscriber();
        ::_exit(0);
    });
    ASSERT_EQ(child.wait(), 0);
}

TEST_F(Wait, a_dead_reader_is_found_without_a_new_descriptor_or_permission) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Publisher publisher = channel.publisher();
    for (const int error : {EMFILE, ENFILE, EACCES}) {
        die_as_a_subscriber();
        support::fill(publisher);
        const faults::Hook hook(
            [&](const faults::Call& call) { return std::string_view(call.name) == "open" ? error : 0; });
        EXPECT_TRUE(goes_in_the_end(publisher)) << error;
    }
}

TEST_F(Wait, a_lock_that_cannot_be_tried_is_back_pressure_and_no_error) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Publisher publisher = channel.publisher();
    die_as_a_subscriber();
    support::fill(publisher);
    {
        const faults::Hook hook([&](const faults::Call& call) { return call.command == F_OFD_SETLK ? ENOLCK : 0; });
        EXPECT_EQ(code_of([&] { EXPECT_FALSE(goes_in_the_end(publisher)); }), "none");
    }
    EXPECT_TRUE(goes_in_the_end(publisher));
}

TEST_F(Wait, the_test_of_a_readers_lock_leaves_the_publishers_own_lock) {
    Channel channel = Channel::create("c", broadcast());
    flyring::Publisher publisher = channel.publisher();
    die_as_a_subscriber();
    support::fill(publisher);
    EXPECT_TRUE(goes_in_the_end(publisher));
    EXPECT_TRUE(support::is_locked(channel.path(), 4096 + layout::CONTROL_SLOTS));
    EXPECT_FALSE(support::is_locked(channel.path(), 4096 + layout::CONTROL_SLOTS + layout::CONTROL_SLOT_LENGTH));
}

}  // namespace
