// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <fstream>
#include <random>

#include "faults.hpp"
#include "journals.hpp"

// What is left of a journal's writer that is killed (spec/journal.md 3.4): each message whose append returned. What is
// left of an object that is closed, and of an operation whose system call fails.

namespace {

using namespace journals;
using support::code_of;

class JournalSurvivors : public JournalTest {
  protected:
    /// Opens a copy, takes a writer, appends one more, and reads everything. `count`: how many messages there must be
    /// before.
    void expect_whole(const std::string& name, std::int64_t count) {
        Journal journal = Journal::open(name);
        JournalReader waiting = journal.reader(JournalStart::newest());
        {
            JournalWriter writer = journals::writer(journal);
            EXPECT_EQ(writer.number(), count);
            EXPECT_FALSE(writer.recovery());
            append(writer, count, 300);
            writer.sync();
        }
        JournalReader reader = journal.reader();
        EXPECT_EQ(read_all(reader), count + 300);
        EXPECT_EQ(reader.lost(), 0);
        const std::int64_t before = waiting.number();
        EXPECT_EQ(before + read_all(waiting), count + 300);
        EXPECT_EQ(read_all(waiting), 0);
        std::filesystem::remove_all(journal_folder(name));
    }
};

TEST_F(JournalSurvivors, an_open_claim_leaves_no_trace) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 20);
    flyring::JournalClaim claim = writer.claim(3000);
    std::memset(claim.data(), 0x40, claim.size());  // 0x40404040 looks like a length
    expect_whole(copy("k"), 20);
}

TEST_F(JournalSurvivors, a_record_that_was_committed_and_not_published_is_there) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 20);
    const std::int64_t before = writer.position();
    append(writer, 20, 1);
    copy("k");
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_PUBLISHED, before, "k");
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_MESSAGES, 20, "k");
    expect_whole("k", 21);
}

TEST_F(JournalSurvivors, a_batch_is_there_whole_or_not_at_all) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 20);
    const std::int64_t before = writer.position();
    std::vector<std::string> texts;
    std::vector<flyring::Bytes> messages;
    for (std::uint64_t i = 20; i < 26; ++i) texts.push_back(numbered(i));
    for (const std::string& text : texts) messages.push_back(flyring::as_bytes(std::string_view(text)));
    writer.append_many(messages);
    copy("k");
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_PUBLISHED, before, "k");
    copy("l");  // of the original
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_PUBLISHED, before, "l");
    support::poke<std::int32_t>(segment_file(0, "l"), offset_in_segment(before), 0);  // before its last store
    expect_whole("k", 26);
    expect_whole("l", 20);
}

TEST_F(JournalSurvivors, a_kill_between_padding_and_check_is_mended_by_the_next_append) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    std::int64_t count = 0;
    while (writer.position() < smallest) append(writer, count++, 1);
    // The last one is the first message of the second segment: behind the check.
    copy("k");
    const std::string second = segment_file(smallest, "k");
    std::vector<std::byte> bytes = support::read_file(second);
    std::fill(bytes.begin() + 4096, bytes.end(), std::byte{0});
    support::write_file(second, bytes);
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_CLAIMED, smallest, "k");
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_PUBLISHED, smallest, "k");
    flyring::detail::JournalFile file = flyring::detail::open_journal("k", {});
    // The last check of the first segment.
    std::int64_t checked = 0;
    flyring::detail::SpanReader reader(file);
    for (std::int64_t at = 0; reader.read(at, smallest) == flyring::detail::SpanEnd::check; at = reader.next()) {
        checked = reader.records_end();
    }
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED, checked, "k");
    expect_whole("k", count - 1);
}

TEST_F(JournalSurvivors, a_check_that_was_written_and_not_noted_is_found) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 20);
    writer.sync();
    append(writer, 20, 5);
    copy("k");
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED, 0, "k");
    expect_whole("k", 25);
}

TEST_F(JournalSurvivors, words_that_do_not_fit_are_corrupt) {
    Journal journal = Journal::create("j", options());
    {
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 20);
    }
    const std::int64_t published = control_word<std::int64_t>(layout::JOURNAL_CONTROL_PUBLISHED);
    const std::int64_t checked = control_word<std::int64_t>(layout::JOURNAL_CONTROL_CHECKED);
    const auto refused = [&](std::uint64_t word, std::int64_t value, std::int64_t good) {
        set_control_word(word, value);
        EXPECT_EQ(code_of([&] { journals::writer(journal); }), "corrupt-journal") << word << " " << value;
        EXPECT_EQ(control_word<std::int64_t>(word), value);
        set_control_word(word, good);
    };
    for (const std::int64_t bad : {std::int64_t{-64}, published - 1, published + 64, std::int64_t{1} << 62}) {
        refused(layout::JOURNAL_CONTROL_PUBLISHED, bad, published);
    }
    for (const std::int64_t bad : {published - 64, published + 7, 2 * smallest, published + 40000}) {
        refused(layout::JOURNAL_CONTROL_CLAIMED, bad, published);
    }
    for (const std::int64_t bad : {published, published + 64, std::int64_t{-1}, std::int64_t{64}}) {
        refused(layout::JOURNAL_CONTROL_CHECKED, bad, checked);
    }
    journals::writer(journal);
}

TEST_F(JournalSurvivors, killed_at_any_moment_what_append_returned_is_there) {
    Journal::create("j", options());
    std::mt19937 random(1);
    std::int64_t last = 0;
    // The child notes how far it is in a file that both have mapped.
    const std::string noted = folder() + "/noted";
    support::write_file(noted, std::vector<std::byte>(4096));
    flyring::detail::Fd fd(::open(noted.c_str(), O_RDWR | O_CLOEXEC));
    const flyring::detail::Mapping mapping(fd, 4096, flyring::detail::Access::write, noted);
    auto* const acknowledged = reinterpret_cast<std::int64_t*>(mapping.data());
    for (int round = 0; round < 25; ++round) {
        support::Child child([&](const support::Child::Ready& ready) {
            Journal journal = Journal::open("j");
            JournalWriter writer = journal.writer("", round % 2 == 0);
            ready();
            std::vector<std::string> texts(5);
            for (std::int64_t i = writer.number();;) {
                if (i % 3 != 0) {
                    writer.append(numbered(static_cast<std::uint64_t>(i++)), 1);
                } else {
                    std::vector<flyring::Bytes> messages;
                    for (std::string& text : texts) {
                        text = numbered(static_cast<std::uint64_t>(i++));
                        messages.push_back(flyring::as_bytes(std::string_view(text)));
                    }
                    writer.append_many(messages, 1);
                }
                flyring::detail::store_release(acknowledged, i);
            }
            return false;
        });
        child.wait_until_ready();
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        child.kill();
        Journal journal = Journal::open("j");
        JournalReader reader = journal.reader(JournalStart::number(last));
        const std::int64_t known = flyring::detail::load_acquire(acknowledged);
        {
            JournalWriter writer = journals::writer(journal);
            EXPECT_GE(writer.number(), known);
            EXPECT_LE(writer.number(), known + 5);
            last = writer.number();
        }
        const std::int64_t from = reader.number();
        EXPECT_EQ(read_all(reader), last - from);
        flyring::detail::store_release(acknowledged, last);
    }
    EXPECT_GT(last, 100);
    Journal journal = Journal::open("j");
    JournalReader reader = journal.reader();
    EXPECT_EQ(read_all(reader), last);
}

TEST_F(JournalSurvivors, a_stopped_writer_keeps_its_slot_until_it_is_killed) {
    Journal journal = Journal::create("j", options());
    support::Child child([&](const support::Child::Ready& ready) {
        Journal own = Journal::open("j");
        JournalWriter writer = own.writer("stopped");
        append(writer, 0, 100);
        ready();
        for (;;) ::pause();
        return false;
    });
    child.wait_until_ready();
    child.signal(SIGSTOP);
    try {
        journal.writer("", false, 1, 20ms);
        FAIL();
    } catch (const flyring::NoFreeSlot& error) {
        EXPECT_EQ(error.owners().at(0).name, "stopped");
        EXPECT_EQ(error.owners().at(0).pid, child.pid());
        EXPECT_NE(std::string(error.what()).find("journal " + journal.path()), std::string::npos) << error.what();
    }
    EXPECT_EQ(code_of([&] { journal.push("x", 20ms); }), "no-free-slot");
    EXPECT_TRUE(journal.stats().writing);
    JournalReader reader = journal.reader();
    EXPECT_EQ(read_all(reader), 100);  // it holds no reader back
    child.kill();
    JournalWriter writer = journals::writer(journal);
    append(writer, 100, 10);
    EXPECT_EQ(read_all(reader), 10);
}

TEST_F(JournalSurvivors, a_forked_child_has_no_journal) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journal.writer();
    JournalReader reader = journal.reader();
    writer.append("x");
    support::Child child([&](const support::Child::Ready&) {
        return code_of([&] { writer.append("y"); }) == "closed" && code_of([&] { reader.take(); }) == "closed" &&
               code_of([&] { journal.stats(); }) == "closed" &&
               code_of([] { Journal::open("j").writer(); }) == "no-free-slot";
    });
    EXPECT_EQ(child.wait(), 0);
    writer.append("z");
    EXPECT_EQ(reader.poll([](const JournalMessage&) {}), 2);
}

/// How many descriptors and mappings this process has of files in a folder.
int held_in(const std::string& folder) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        count += std::filesystem::read_symlink(entry, error).string().rfind(folder, 0) == 0;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) count += line.find(folder) != std::string::npos;
    return count;
}

TEST_F(JournalSurvivors, a_closed_object_holds_nothing) {
    Journal journal = Journal::create("j", options());
    const int before = held_in(folder());
    for (const bool helper : {false, true}) {
        JournalWriter writer = journal.writer("w", helper);
        append(writer, 0, 500);
        writer.sync();
        if (helper) {  // it has mapped the next segment
            for (int i = 0; i < 1000 && held_in(folder()) < before + 5; ++i) std::this_thread::sleep_for(5ms);
            EXPECT_GE(held_in(folder()), before + 5);
        }
        JournalReader cold = journal.reader();
        JournalReader tail = journal.reader(JournalStart::newest());
        JournalConsumer consumer = journal.consumer("c");
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(cold.take() && consumer.take());
        writer.append("x");
        EXPECT_TRUE(tail.take());
        EXPECT_GT(held_in(folder()), before + 4);
        cold.close();
        tail.close();
        consumer.close();
        writer.close();
        EXPECT_EQ(held_in(folder()), before) << helper;
    }
    JournalReader reader = journal.reader();
    JournalWriter writer = journal.writer();
    EXPECT_TRUE(reader.take());
    journal.close();
    EXPECT_EQ(held_in(folder()), 0);
}

TEST_F(JournalSurvivors, a_recovery_that_cannot_read_fails_and_removes_nothing) {
    {
        Journal journal = boot(1).create("j", options());
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 500);  // several segments, all synced by the close
    }
    bool ended = false;
    for (int last = 0; !ended; ++last) {
        ASSERT_LT(last, 200);
        copy("k");
        int calls = 0;
        {
            const faults::Hook fail([&](const faults::Call& call) {
                return std::string(call.name) == "pread" && calls++ == last ? EIO : 0;
            });
            try {
                Journal journal = boot(2).open("k");
                journals::writer(journal);
                ended = calls <= last;
            } catch (const flyring::FlyringError& error) {
                EXPECT_NE(error.code(), "corrupt-journal") << last;
            }
        }
        Journal journal = boot(2).open("k");
        {
            JournalWriter writer = journals::writer(journal);
            EXPECT_EQ(writer.number(), 500) << last;
        }
        JournalReader reader = journal.reader();
        EXPECT_EQ(read_all(reader), 500) << last;
        EXPECT_EQ(reader.lost(), 0);
        std::filesystem::remove_all(journal_folder("k"));
    }
}

TEST_F(JournalSurvivors, a_batch_on_a_full_disk_says_how_far_it_came) {
    Journal journal = Journal::create("j", options());
    for (const bool each : {false, true}) {
        JournalWriter writer = journals::writer(journal);
        flyring::JournalChange change;
        change.sync = flyring::JournalSync::each();
        if (each) journal.change(change);
        const std::int64_t before = writer.number();
        const std::string text(1000, 'x');
        const std::vector<flyring::Bytes> messages(100, flyring::as_bytes(std::string_view(text)));
        {
            const faults::Hook full(
                [](const faults::Call& call) { return std::string(call.name) == "posix_fallocate" ? ENOSPC : 0; });
            EXPECT_EQ(code_of([&] { writer.append_many(messages); }), "no-space");
            EXPECT_GT(writer.number(), before);
            EXPECT_LT(writer.number(), before + 100);
            EXPECT_EQ(code_of([&] { writer.append_many(messages); }), "no-space");
        }
        const std::int64_t there = writer.number();
        EXPECT_EQ(journal.stats().messages, there);
        if (each) {
            EXPECT_EQ(journal.stats().unsynced_since, 0);
        }
        EXPECT_EQ(writer.append_many(messages), 100U);
        EXPECT_EQ(writer.number(), there + 100);
        JournalReader reader = journal.reader();
        int seen = 0;
        while (const int more = reader.poll([](const JournalMessage&) {})) seen += more;
        EXPECT_EQ(seen, there + 100);
    }
}

}  // namespace
