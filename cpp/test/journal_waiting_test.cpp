// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "journals.hpp"

// Sleeping until a journal has more, and being woken (spec/journal.md 2.2, spec/channel.md 6.16).

namespace {

using namespace journals;
using support::code_of;

class JournalWaiting : public JournalTest {};

TEST_F(JournalWaiting, a_sleeping_reader_is_woken_by_an_append) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    JournalReader reader = journal.reader();
    JournalConsumer consumer = journal.consumer("c");
    for (int round = 0; round < 200; ++round) {
        std::atomic<std::int64_t> sent{0};
        std::thread other([&] {
            std::this_thread::sleep_for(1ms);
            sent = flyring::detail::clock_ns(CLOCK_MONOTONIC);
            append(writer, round, 1);
        });
        const auto message = round % 2 == 0 ? reader.take(10s) : consumer.pop(10s);
        const std::int64_t now = flyring::detail::clock_ns(CLOCK_MONOTONIC);
        other.join();
        ASSERT_TRUE(message);
        EXPECT_EQ(message->number(), round);
        EXPECT_LT(now - sent, 90'000'000) << "it was not woken";
        if (round % 2 == 0) consumer.take();
        if (round % 2 == 1) reader.take();
    }
}

TEST_F(JournalWaiting, padding_and_checks_wake_no_reader) {
    for (const auto sync : {flyring::JournalSync::never(), flyring::JournalSync::each()}) {
        flyring::JournalOptions made = options();
        made.sync = sync;
        const bool each = sync.word() == layout::JOURNAL_SYNC_EACH;
        const std::string name = each ? "each" : "j";
        Journal journal = Journal::create(name, made);
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 1);
        const auto wakes = [&] { return control_word<std::uint32_t>(layout::JOURNAL_CONTROL_DATA_SEQUENCE, name); };
        const auto asleep = [&] { return control_word<std::uint32_t>(layout::JOURNAL_CONTROL_DATA_ASLEEP, name); };
        const auto synced = [&] { return control_word<std::int64_t>(layout::JOURNAL_CONTROL_SYNCED, name); };
        set_control_word(layout::JOURNAL_CONTROL_DATA_ASLEEP, std::uint32_t{1}, name);
        const std::uint32_t before = wakes();
        const std::int64_t durable = synced();
        for (int i = 0; i < 20; ++i) writer.claim(16000).abort();
        {
            const auto dropped = writer.claim(8);
        }
        EXPECT_GT(control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED, name), 3 * smallest);
        EXPECT_EQ(wakes(), before);
        EXPECT_EQ(asleep(), 1U);
        EXPECT_EQ(synced(), durable) << "no sync is due by an abort";
        writer.sync();
        EXPECT_EQ(wakes(), before + 1) << "all, at its end";
        EXPECT_EQ(asleep(), 1U) << "its check wakes no reader";
        append(writer, 1, 1);
        EXPECT_EQ(wakes(), before + (each ? 3 : 2)) << "the message, and its sync";
        EXPECT_EQ(asleep(), 0U);
    }
}

TEST_F(JournalWaiting, a_check_that_is_due_wakes_the_helper) {
    flyring::JournalOptions made = options();
    made.sync = flyring::JournalSync::every(1ms);
    Journal journal = Journal::create("j", made);
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 1);
    std::this_thread::sleep_for(2ms);
    set_control_word(layout::JOURNAL_CONTROL_WORK_ASLEEP, std::uint32_t{1});
    const std::int64_t checked = control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED);
    append(writer, 1, 1);
    EXPECT_GT(control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED), checked);
    EXPECT_EQ(control_word<std::uint32_t>(layout::JOURNAL_CONTROL_WORK_ASLEEP), 0U);
}

TEST_F(JournalWaiting, a_wait_ends_at_its_time_out_and_by_a_close) {
    Journal journal = Journal::create("j", options());
    JournalReader reader = journal.reader();
    const std::int64_t start = flyring::detail::clock_ns(CLOCK_MONOTONIC);
    EXPECT_FALSE(reader.take(20ms));
    EXPECT_FALSE(reader.take(5ms));
    EXPECT_GE(flyring::detail::clock_ns(CLOCK_MONOTONIC) - start, 25'000'000);
    EXPECT_EQ(code_of([&] { reader.take(-1ns); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { reader.set_spin(-1ns); }), "invalid-argument");
    reader.set_spin(0ns);
    for (const bool all : {false, true}) {
        std::thread other([&] {
            std::this_thread::sleep_for(5ms);
            all ? journal.close() : reader.close();
        });
        EXPECT_EQ(code_of([&] { reader.take(10s); }), "closed");
        other.join();
        if (!all) reader = journal.reader();
    }
}

TEST_F(JournalWaiting, a_durable_reader_sleeps_until_the_sync) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    JournalReader reader = journal.reader(JournalStart::oldest(), true);
    append(writer, 0, 5);
    EXPECT_FALSE(reader.take(5ms));
    std::thread other([&] {
        std::this_thread::sleep_for(5ms);
        writer.sync();
    });
    EXPECT_EQ(reader.poll([](const JournalMessage&) {}, 100, 10s), 5);
    other.join();
}

TEST_F(JournalWaiting, a_reader_of_another_boot_sleeps_until_the_recovery) {
    boot(1).create("j", options()).push("x");
    Journal journal = boot(2).open("j");
    JournalReader reader = journal.reader();
    EXPECT_FALSE(reader.take(5ms));  // it is not synced, and has no check
    std::thread other([&] {
        std::this_thread::sleep_for(5ms);
        boot(2).open("j").push("y");
    });
    const auto message = reader.take(10s);
    other.join();
    ASSERT_TRUE(message);
    EXPECT_EQ(support::text(*message), "y");
    EXPECT_EQ(reader.cuts(), 1);
}

TEST_F(JournalWaiting, a_wait_set_has_readers_and_consumers) {
    Journal journal = Journal::create("j", options());
    flyring::Channel channel = flyring::Channel::create("c", support::broadcast(1, 1));
    JournalWriter writer = journals::writer(journal);
    JournalReader reader = journal.reader();
    JournalConsumer consumer = journal.consumer("c");
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::WaitSet set;
    set.add(reader);
    set.add(consumer);
    set.add(subscriber);
    EXPECT_EQ(code_of([&] { set.add(reader); }), "invalid-argument");
    EXPECT_FALSE(reader.take());  // it goes behind the first check
    EXPECT_FALSE(consumer.take());
    EXPECT_TRUE(set.wait(3ms).empty());
    using Members = std::vector<flyring::WaitSet::Member>;
    for (int round = 0; round < 50; ++round) {
        std::atomic<std::int64_t> sent{0};
        std::thread other([&] {
            std::this_thread::sleep_for(1ms);
            sent = flyring::detail::clock_ns(CLOCK_MONOTONIC);
            append(writer, round, 1);
        });
        EXPECT_FALSE(set.wait(10s).empty());
        const std::int64_t now = flyring::detail::clock_ns(CLOCK_MONOTONIC);
        other.join();
        EXPECT_LT(now - sent, 90'000'000) << "it was not woken";
        EXPECT_EQ(set.wait(0ns), (Members{&reader, &consumer}));
        EXPECT_EQ(reader.poll([](const JournalMessage&) {}, 1), 1);
        EXPECT_EQ(set.wait(0ns), (Members{&consumer}));
        EXPECT_TRUE(consumer.pop());
        EXPECT_TRUE(set.wait(0ns).empty());
    }
    // Cold, message by message: it is ready as long as there is one.
    append(writer, 50, 400);
    set.remove(consumer);
    int read = 0;
    while (!set.wait(0ns).empty()) {
        read += reader.poll([](const JournalMessage&) {}, 1);
        ASSERT_LE(read, 400);
    }
    EXPECT_EQ(read, 400);
    // A close by another thread ends the wait.
    std::thread other([&] {
        std::this_thread::sleep_for(5ms);
        reader.close();
    });
    EXPECT_EQ(set.wait(10s), (Members{&reader}));
    other.join();
    EXPECT_EQ(code_of([&] { reader.take(); }), "closed");
    set.remove(reader);
    EXPECT_EQ(code_of([&] { set.remove(reader); }), "invalid-argument");
}

TEST_F(JournalWaiting, many_readers_follow_a_fast_writer) {
    Journal journal = Journal::create("j", options(1 << 18));
    constexpr std::int64_t count = 100'000;
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            JournalReader reader = Journal::open("j").reader();
            std::int64_t read = 0;
            while (read < count) {
                const int now = reader.poll(
                    [&](const JournalMessage& message) {
                        if (number_in(message) != read || message.number() != read) throw std::logic_error("order");
                        ++read;
                    },
                    256, 10s);
                if (now == 0) return;
            }
            if (reader.lost() == 0 && reader.cuts() == 0) ++good;
        });
    }
    {
        JournalWriter writer = journal.writer();
        append(writer, 0, count);
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good, 3);
}

}  // namespace
