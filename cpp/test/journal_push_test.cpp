// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "faults.hpp"
#include "journals.hpp"

// What a push does without a helper: syncs and trims (spec/journal.md 5, 8).

namespace {

using namespace journals;
using flyring::JournalOptions;
using flyring::JournalSync;
using support::code_of;

constexpr std::int64_t hour = 3'600'000'000'000;
constexpr std::int64_t start = 1'000'000 * hour;  // the wall clock

class JournalPushes : public JournalTest {
  protected:
    /// Pushes at this time.
    std::int64_t push_at(std::int64_t time, const std::string& text = "x") const {
        flyring::detail::JournalInEnvironment made;
        made.environment.now = time;
        return made.open("j").push(text);
    }
    std::int64_t synced() const { return control_word<std::int64_t>(layout::JOURNAL_CONTROL_SYNCED); }
    std::int64_t published() const { return control_word<std::int64_t>(layout::JOURNAL_CONTROL_PUBLISHED); }
    std::int64_t trimmed() const { return control_word<std::int64_t>(layout::JOURNAL_CONTROL_TRIMMED); }
    bool all_is_synced() const { return synced() == published() - 64; }
    static JournalOptions every_hour() {
        JournalOptions made = options();
        made.sync = JournalSync::every(1h);
        return made;
    }
    /// Pushes until a message lies in this segment.
    static void push_to(Journal& journal, std::int64_t segment) {
        const std::string text(4000, 'x');
        while (journal.push(text) < segment) {
        }
    }
    static std::string text_of(const flyring::Message& message) {
        return {reinterpret_cast<const char*>(message.data()), message.size()};
    }
    /// The helper lock, as another process has it.
    static flyring::detail::Fd helper() {
        const auto file = flyring::detail::open_journal("j", {});
        flyring::detail::Fd description = flyring::detail::open_description(file.fd, file.control);
        EXPECT_TRUE(flyring::detail::lock_byte(description, file.helper_lock(), file.control));
        return description;
    }
};

TEST_F(JournalPushes, a_push_syncs_when_the_interval_has_passed_since_the_last_sync) {
    Journal::create("j", every_hour());
    EXPECT_EQ(push_at(start), 64);  // there was no sync yet
    EXPECT_TRUE(all_is_synced());
    EXPECT_EQ(control_word<std::int64_t>(layout::JOURNAL_CONTROL_SYNCED_AT), start);
    const std::int64_t first = synced();
    EXPECT_EQ(push_at(start + 1), 192);  // behind the check of the sync
    EXPECT_EQ(push_at(start + hour - 1), 256);
    EXPECT_EQ(published(), 320);  // and no check
    EXPECT_EQ(synced(), first);
    EXPECT_EQ(push_at(start + hour), 320);
    EXPECT_TRUE(all_is_synced());
    EXPECT_EQ(control_word<std::int64_t>(layout::JOURNAL_CONTROL_SYNCED_AT), start + hour);
    EXPECT_EQ(push_at(start + hour + 1), 448);
    EXPECT_FALSE(all_is_synced());
}

TEST_F(JournalPushes, a_clock_that_was_set_makes_one_sync) {
    Journal::create("j", every_hour());
    for (const std::int64_t time : {start, start - 10 * hour, start + 10 * hour, std::int64_t{1}}) {
        push_at(time);
        EXPECT_TRUE(all_is_synced()) << time;
        for (int i = 1; i < 4; ++i) {
            push_at(time + i);
            EXPECT_FALSE(all_is_synced()) << time;
        }
    }
    for (const std::int64_t hostile :
         {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
        set_control_word(layout::JOURNAL_CONTROL_SYNCED_AT, hostile);
        push_at(start);
        EXPECT_TRUE(all_is_synced()) << hostile;
    }
}

TEST_F(JournalPushes, a_push_syncs_when_it_enters_another_segment) {
    for (const JournalSync sync : {JournalSync::never(), JournalSync::every(1h)}) {
        JournalOptions made = options();
        made.sync = sync;
        Journal journal = Journal::create("j", made);
        journal.push("x");
        const std::int64_t before = synced();  // with an interval the first push syncs
        while (published() < smallest - 5000) {
            journal.push(std::string(4000, 'x'));
            ASSERT_EQ(synced(), before);
        }
        push_to(journal, smallest);
        EXPECT_TRUE(all_is_synced());
        const std::int64_t entered = synced();
        journal.push("x");
        EXPECT_EQ(synced(), entered);
        journal.close();
        Journal::unlink("j");
    }
}

TEST_F(JournalPushes, a_push_syncs_what_a_writer_has_left) {
    Journal journal = Journal::create("j", options());
    {
        JournalWriter writer = journals::writer(journal);
        while (writer.position() < 2 * smallest + 100) writer.append(std::string(4000, 'x'));
        writer.close(false);  // as one that is killed
    }
    EXPECT_EQ(synced(), 0);
    journal.push("x");
    EXPECT_TRUE(all_is_synced());
}

TEST_F(JournalPushes, a_close_by_another_thread_waits_for_a_push_that_has_the_slot) {
    JournalOptions made = options();
    made.sync = JournalSync::each();
    Journal journal = Journal::create("j", made);
    std::thread closer;
    std::atomic<bool> closed{false};
    std::int64_t position = 0;
    {
        const faults::Hook in_its_sync([&](const faults::Call& call) {
            if (std::string(call.name) == "fdatasync" && !closer.joinable()) {
                closer = std::thread([&] {
                    journal.close();
                    closed = true;
                });
                std::this_thread::sleep_for(20ms);
                EXPECT_FALSE(closed);
            }
            return 0;
        });
        position = journal.push("x");
    }
    closer.join();
    EXPECT_EQ(position, 64);
    EXPECT_TRUE(closed);
    EXPECT_EQ(code_of([&] { journal.push("y"); }), "closed");
    EXPECT_TRUE(all_is_synced());
}

TEST_F(JournalPushes, a_close_within_a_push_is_refused) {
    {
        Journal journal = boot(1).create("j", options());
        journal.push("x");
    }
    std::string code;
    flyring::OpenJournalOptions opening;
    Journal* within = nullptr;
    opening.recovery_progress = [&](std::uint64_t, std::uint64_t) { code = code_of([&] { within->close(); }); };
    Journal journal = boot(2).open("j", opening);
    within = &journal;
    journal.push("y");
    EXPECT_EQ(code, "view-alive");
    journal.close();
}

TEST_F(JournalPushes, a_push_that_waits_for_the_slot_ends_with_a_close_by_another_thread) {
    Journal journal = Journal::create("j", options());
    const auto file = flyring::detail::open_journal("j", {});
    const auto other = flyring::detail::open_description(file.fd, file.control);
    ASSERT_TRUE(flyring::detail::lock_byte(other, file.writer_lock(), file.control));
    std::string code;
    std::thread pusher([&] { code = code_of([&] { journal.push("x"); }); });
    std::this_thread::sleep_for(20ms);
    journal.close();
    pusher.join();
    EXPECT_EQ(code, "closed");
    EXPECT_EQ(published(), 64);
}

TEST_F(JournalPushes, a_push_trims_when_it_enters_another_segment) {
    Journal journal = Journal::create("j", options());
    JournalConsumer consumer = journal.consumer("c");
    push_to(journal, 2 * smallest);
    while (consumer.pop()) {
    }
    flyring::JournalChange change;
    change.trim_consumed = true;
    journal.change(change);
    journal.push("x");
    EXPECT_EQ(trimmed(), 0);  // within a segment
    push_to(journal, 3 * smallest);
    EXPECT_EQ(trimmed(), 2 * smallest);
    push_to(journal, 4 * smallest);
    EXPECT_EQ(trimmed(), 2 * smallest);  // that of the gate
    EXPECT_EQ(consumer.lost(), 0);
    change.trim_consumed = false;
    change.max_size = 2 * smallest;
    journal.change(change);
    push_to(journal, 5 * smallest);
    EXPECT_EQ(trimmed(), 4 * smallest);
    change.max_size = 0;
    change.max_age = 1ns;
    journal.change(change);
    push_to(journal, 6 * smallest);
    EXPECT_EQ(trimmed(), 6 * smallest);
    EXPECT_FALSE(std::filesystem::exists(segment_file(5 * smallest)));
}

TEST_F(JournalPushes, a_push_leaves_syncs_and_trims_to_a_helper) {
    JournalOptions made = every_hour();
    made.max_size = smallest;
    Journal journal = Journal::create("j", made);
    flyring::detail::Fd lock = helper();
    push_at(start);
    EXPECT_EQ(synced(), 0);
    EXPECT_GT(control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED), 0);  // which the helper would sync
    set_control_word(layout::JOURNAL_CONTROL_WORK_ASLEEP, std::uint32_t{1});
    push_at(start + hour);
    EXPECT_EQ(control_word<std::uint32_t>(layout::JOURNAL_CONTROL_WORK_ASLEEP), 0U);  // it is woken
    push_to(journal, 2 * smallest);
    EXPECT_EQ(synced(), 0);
    EXPECT_EQ(trimmed(), 0);
    lock.reset();
    push_to(journal, 3 * smallest);
    EXPECT_TRUE(all_is_synced());
    EXPECT_EQ(trimmed(), 3 * smallest);
}

TEST_F(JournalPushes, a_push_whose_sync_fails_is_io_and_has_appended) {
    Journal journal = Journal::create("j", every_hour());
    {
        const faults::Hook broken(
            [](const faults::Call& call) { return std::string(call.name) == "fdatasync" ? EIO : 0; });
        EXPECT_EQ(code_of([&] { journal.push("one"); }), "io");
        EXPECT_TRUE(journal.stats().failed);
        EXPECT_EQ(code_of([&] { journal.push("two"); }), "io");  // it cannot write again what was before
    }
    EXPECT_EQ(synced(), 0);
    journal.push("three");  // writes again, and syncs
    EXPECT_FALSE(journal.stats().failed);
    EXPECT_GT(synced(), 0);
    JournalReader reader = journal.reader();
    EXPECT_EQ(text_of(*reader.take()), "one");
    EXPECT_EQ(text_of(*reader.take()), "three");
    EXPECT_FALSE(reader.take());
}

TEST_F(JournalPushes, a_push_on_a_full_disk_trims) {
    JournalOptions made = options();
    made.trim_consumed = true;
    Journal journal = Journal::create("j", made);
    JournalConsumer consumer = journal.consumer("c");
    push_to(journal, 2 * smallest);
    const std::string text(4000, 'x');
    while (published() % smallest < smallest - 5000) journal.push(text);
    const faults::Hook full([&](const faults::Call& call) {
        const bool room = !std::filesystem::exists(segment_file(0));
        return std::string(call.name) == "posix_fallocate" && !room ? ENOSPC : 0;
    });
    const std::int64_t end = published();
    EXPECT_EQ(code_of([&] {
                  while (journal.push(text) < 3 * smallest) {
                  }
              }),
              "no-space");  // the consumer needs it all
    EXPECT_LT(published(), 3 * smallest);
    EXPECT_GE(published(), end);
    while (consumer.pop()) {
    }
    {
        const flyring::detail::Fd lock = helper();
        EXPECT_EQ(code_of([&] { push_to(journal, 3 * smallest); }), "no-space");  // the helper trims
        EXPECT_EQ(trimmed(), 0);
    }
    push_to(journal, 3 * smallest);
    EXPECT_EQ(consumer.lost(), 0);
}

TEST_F(JournalPushes, a_trim_that_fails_is_no_error_of_a_push) {
    JournalOptions made = options();
    made.max_size = smallest;
    Journal journal = Journal::create("j", made);
    {
        const faults::Hook broken(
            [](const faults::Call& call) { return std::string(call.name) == "unlink" ? EIO : 0; });
        push_to(journal, smallest);
        EXPECT_TRUE(std::filesystem::exists(segment_file(0)));
    }
    push_to(journal, 2 * smallest);
    EXPECT_FALSE(std::filesystem::exists(segment_file(0)));
    EXPECT_EQ(trimmed(), 2 * smallest);
}

TEST_F(JournalPushes, a_new_owner_counts_the_interval_from_the_last_sync) {
    Journal::create("j", every_hour());
    const auto checks_at = [&](std::int64_t time) {
        flyring::detail::JournalInEnvironment made;
        made.environment.now = time;
        Journal journal = made.open("j");
        JournalWriter writer = journals::writer(journal);
        const auto before = control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED);
        writer.append("x");
        writer.close(false);
        return control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED) > before;
    };
    EXPECT_TRUE(checks_at(start));  // there was no sync yet
    push_at(start);
    EXPECT_FALSE(checks_at(start + hour / 2));
    EXPECT_TRUE(checks_at(start + hour));
    EXPECT_TRUE(checks_at(start - 1));  // the clock was set back
}

}  // namespace
