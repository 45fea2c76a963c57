// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "journals.hpp"

// What is left of a journal's writer that is killed (spec/journal.md 3.4): each message whose append returned.

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

}  // namespace
