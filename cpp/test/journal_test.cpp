// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <fstream>

#include "faults.hpp"
#include "journals.hpp"

// Journals: verbs, options, errors (spec/journal.md 2, 3.1, 3.2).

namespace {

using namespace journals;
using flyring::JournalOptions;
using flyring::JournalSync;
using support::bytes;
using support::code_of;

class JournalVerbs : public JournalTest {};

/// The text of the FlyringError that `action` throws.
std::string text_of_error(const std::function<void()>& action) {
    try {
        action();
    } catch (const flyring::FlyringError& error) {
        return error.what();
    }
    return "none";
}

TEST_F(JournalVerbs, create_makes_the_folder_with_a_control_file_and_a_segment) {
    JournalOptions made = options();
    made.consumers = 3;
    made.schema = "<x/>";
    made.schema_id = 7;
    made.schema_version = 2;
    Journal journal = Journal::create("j", made);
    EXPECT_EQ(journal.path(), journal_folder());
    EXPECT_EQ(journal.segment_size(), 65536U);
    EXPECT_EQ(journal.consumers(), 3U);
    EXPECT_EQ(journal.schema(), "<x/>");
    struct stat status{};
    ASSERT_EQ(::stat(journal_folder().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
    ASSERT_EQ(::stat(segment_file(0).c_str(), &status), 0);
    EXPECT_EQ(status.st_size, 4096 + 65536);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    EXPECT_EQ(control_word<std::int64_t>(layout::JOURNAL_CONTROL_PUBLISHED), 64);
    EXPECT_EQ(control_word<std::int64_t>(layout::JOURNAL_CONTROL_READY), 65536);
    EXPECT_EQ(support::peek<std::int32_t>(segment_file(0), 4096), 64);
    EXPECT_EQ(support::peek<std::int32_t>(segment_file(0), 4100), layout::JOURNAL_TYPE_CHECK);
    EXPECT_EQ(code_of([&] { Journal::create("j", made); }), "exists");
    Journal again = Journal::open("j");
    EXPECT_EQ(again.id(), journal.id());
    EXPECT_EQ(again.schema_id(), 7U);
    Journal::unlink("j");
    EXPECT_NE(::stat(journal_folder().c_str(), &status), 0);
    EXPECT_EQ(code_of([] { Journal::open("j"); }), "no-such-channel");
    EXPECT_EQ(code_of([] { Journal::unlink("j"); }), "no-such-channel");
    EXPECT_EQ(code_of([&] { again.writer(); }), "no-such-channel");
    EXPECT_EQ(code_of([&] { again.reader(); }), "no-such-channel");
    EXPECT_EQ(again.stats().successor, 2);
    EXPECT_EQ(again.stats().segments, 0U);
}

TEST_F(JournalVerbs, the_folder_is_open_to_those_that_may_use_the_files) {
    const std::vector<std::pair<mode_t, mode_t>> modes = {
        {0600, 0700}, {0640, 0750}, {0660, 0770}, {0664, 0775}, {0620, 0730}};
    for (const auto& [mode, wanted] : modes) {
        for (const mode_t bits : {mode_t{0}, mode_t{02000}}) {
            if (bits != 0) {  // the user's own folder keeps the bits that it has
                ASSERT_EQ(::mkdir(journal_folder().c_str(), 0700), 0);
                ASSERT_EQ(::chmod(journal_folder().c_str(), bits | 0700), 0);
            }
            JournalOptions made = options();
            made.mode = mode;
            Journal::create("j", made);
            struct stat status{};
            ASSERT_EQ(::stat(journal_folder().c_str(), &status), 0);
            EXPECT_EQ(status.st_mode & 07777, wanted | bits);
            ASSERT_EQ(::stat(segment_file(0).c_str(), &status), 0);
            EXPECT_EQ(status.st_mode & 07777, mode);
            Journal::unlink("j");
        }
    }
}

TEST_F(JournalVerbs, options_are_checked_and_compared) {
    const auto invalid = [](const std::function<void(JournalOptions&)>& change) {
        JournalOptions made = options();
        change(made);
        return code_of([&] { Journal::create("k", made); });
    };
    EXPECT_EQ(invalid([](auto& o) { o.segment_size = 65535; }), "invalid-argument");
    EXPECT_EQ(invalid([](auto& o) { o.segment_size = 32768; }), "invalid-argument");
    EXPECT_EQ(invalid([](auto& o) { o.segment_size = std::uint64_t{1} << 31; }), "invalid-argument");
    EXPECT_EQ(invalid([](auto& o) { o.consumers = 1025; }), "invalid-argument");
    EXPECT_EQ(invalid([](auto& o) { o.sync = JournalSync::every(std::chrono::nanoseconds(5)); }), "invalid-argument");
    EXPECT_EQ(invalid([](auto& o) { o.max_age = -1ns; }), "invalid-argument");
    EXPECT_EQ(invalid([](auto& o) { o.schema_id = 1; }), "invalid-argument");
    EXPECT_EQ(invalid([](auto& o) { o.mode = 01777; }), "invalid-argument");
    JournalOptions made = options();
    made.sync = JournalSync::every(10ms);
    made.max_size = 1 << 20;
    Journal::create("j", made);
    Journal::open_or_create("j", made);
    Journal::open_or_create("j", options());
    Journal::open_or_create("j");
    const auto differs = [](const JournalOptions& asked) {
        try {
            Journal::open_or_create("j", asked);
        } catch (const flyring::ChannelDiffers& error) {
            return error.field() + ": " + error.expected() + ", " + error.actual();
        }
        return std::string();
    };
    made.segment_size = 1 << 17;
    made.sync = JournalSync::each();
    EXPECT_EQ(differs(made), "segment_size: 131072, 65536");
    made.segment_size = smallest;
    EXPECT_EQ(differs(made), "sync: each, 10000000 ns");
    made.sync = JournalSync::every(10ms);
    made.trim_consumed = true;
    EXPECT_EQ(differs(made), "trim_consumed: true, false");
    Journal journal = Journal::open("j");
    flyring::JournalChange change;
    change.trim_consumed = true;
    change.sync = JournalSync::never();
    journal.change(change);
    made.sync = JournalSync::never();
    EXPECT_EQ(differs(made), "");
    EXPECT_EQ(journal.stats().sync, 0);
    EXPECT_EQ(journal.stats().max_size, 1 << 20);
    change.max_age = -1s;
    EXPECT_EQ(code_of([&] { journal.change(change); }), "invalid-argument");
}

TEST_F(JournalVerbs, a_folder_with_other_files_is_no_journal) {
    ASSERT_EQ(::mkdir(journal_folder().c_str(), 0700), 0);
    support::write_file(journal_folder() + "/notes", {});
    EXPECT_EQ(code_of([] { Journal::create("j", options()); }), "not-a-channel");
    EXPECT_EQ(code_of([] { Journal::open("j"); }), "no-such-channel");
    std::filesystem::remove(journal_folder() + "/notes");
    // What a create left that was killed is no hindrance.
    support::write_file(segment_file(0), std::vector<std::byte>(100));
    support::write_file(journal_folder() + "/.control.123.tmp", {});
    Journal journal = Journal::create("j", options());
    EXPECT_EQ(std::filesystem::file_size(segment_file(0)), 4096U + 65536U);
    support::write_file(control_file(), std::vector<std::byte>(100));
    EXPECT_EQ(code_of([] { Journal::open("j"); }), "not-a-channel");
    EXPECT_EQ(code_of([] { Journal::unlink("j"); }), "not-a-channel");
}

TEST_F(JournalVerbs, appends_are_read_with_time_position_and_number) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    const std::int64_t before = flyring::detail::clock_ns(CLOCK_REALTIME);
    EXPECT_EQ(writer.append("first"), 64);
    EXPECT_EQ(writer.append("", 7), 128);
    EXPECT_EQ(writer.append(bytes("third"), 8, 12345), 192);
    EXPECT_EQ(writer.position(), 256);
    EXPECT_EQ(writer.number(), 3);
    JournalReader reader = journal.reader();
    const auto first = reader.take();
    ASSERT_TRUE(first);
    EXPECT_EQ(support::text(*first), "first");
    EXPECT_EQ(first->position(), 64);
    EXPECT_EQ(first->number(), 0);
    EXPECT_EQ(first->type(), 1);
    EXPECT_GE(first->time(), before);
    EXPECT_LE(first->time(), flyring::detail::clock_ns(CLOCK_REALTIME));
    EXPECT_EQ(reader.take()->type(), 7);
    const auto third = reader.take();
    EXPECT_EQ(third->time(), 12345);
    EXPECT_EQ(third->number(), 2);
    EXPECT_FALSE(reader.take());
    EXPECT_EQ(reader.number(), 3);

    // Over some milliseconds, in which most appends read the processor's counter.
    constexpr std::int64_t near = 2000;
    for (int i = 0; i < 400; ++i) {
        const std::int64_t earlier = flyring::detail::clock_ns(CLOCK_REALTIME);
        writer.append("again");
        const std::int64_t later = flyring::detail::clock_ns(CLOCK_REALTIME);
        const std::int64_t time = reader.take()->time();
        EXPECT_GE(time, earlier - near);
        EXPECT_LE(time, later + near);
        while (flyring::detail::clock_ns(CLOCK_REALTIME) < later + 10'000) {
        }
    }
    EXPECT_EQ(code_of([&] { writer.append(bytes("x"), 0); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { writer.append(std::string(65536 / 4 - 15, 'x')); }), "too-large");
    writer.append(std::string(65536 / 4 - 16, 'x'));
    EXPECT_EQ(reader.take()->size(), 65536U / 4 - 16);
}

TEST_F(JournalVerbs, it_rolls_to_the_next_segment_with_a_check_at_its_start) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 1000);
    EXPECT_EQ(writer.number(), 1000);
    EXPECT_GT(writer.position(), 5 * smallest);
    for (std::int64_t at = 0; at < writer.position(); at += smallest) {
        EXPECT_EQ(support::peek<std::int32_t>(segment_file(at), 4100), layout::JOURNAL_TYPE_CHECK) << at;
    }
    JournalReader reader = journal.reader();
    EXPECT_EQ(read_all(reader), 1000);
    EXPECT_EQ(reader.position(), writer.position());
    EXPECT_EQ(reader.lost(), 0);
    EXPECT_EQ(reader.cuts(), 0);
    EXPECT_EQ(journal.stats().messages, 1000);
}

TEST_F(JournalVerbs, checks_come_after_64_kib_and_prove_their_spans) {
    Journal journal = Journal::create("j", options(1 << 20));
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 1000);
    writer.sync();
    flyring::detail::JournalFile file = flyring::detail::open_journal("j", {});
    flyring::detail::SpanReader reader(file);
    std::int64_t at = 0;
    std::int64_t count = 0;
    int checks = 0;
    for (;;) {
        const auto end = reader.read(at, writer.position());
        count += reader.messages;
        if (end != flyring::detail::SpanEnd::check) break;
        ++checks;
        EXPECT_EQ(reader.check().count, count);
        EXPECT_LT(reader.records_end() - at, 65536 + 1024);
        at = reader.next();
    }
    EXPECT_EQ(at, writer.position());
    EXPECT_GE(checks, 6);
    EXPECT_EQ(count, 1000);
}

TEST_F(JournalVerbs, each_amount_of_room_at_a_segments_end_is_used) {
    for (std::int64_t rest = 64; rest <= 320; rest += 64) {
        const std::string name = "r" + std::to_string(rest);
        Journal journal = Journal::create(name, options());
        JournalWriter writer = journals::writer(journal);
        while (writer.position() < smallest - rest) {
            const std::int64_t room = smallest - rest - writer.position();
            writer.append(std::string(static_cast<std::size_t>(std::min<std::int64_t>(room, 1024)) - 16, 'a'));
        }
        // A check may have come in between; fill up to the wanted rest again.
        EXPECT_LE(smallest - writer.position(), rest);
        const std::int64_t before = writer.number();
        writer.append(std::string(100, 'b'));
        writer.append("c");
        writer.sync();
        JournalReader reader = journal.reader();
        std::string seen;
        while (reader.poll([&](const JournalMessage& message) { seen += support::text(message).substr(0, 1); }) > 0) {
        }
        EXPECT_EQ(seen, std::string(static_cast<std::size_t>(before), 'a') + "bc") << rest;
    }
}

TEST_F(JournalVerbs, claims_are_committed_aborted_or_dropped) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    flyring::JournalClaim claim = writer.claim(5, 9);
    EXPECT_EQ(code_of([&] { writer.append("x"); }), "view-alive");
    EXPECT_EQ(code_of([&] { writer.sync(); }), "view-alive");
    std::memcpy(claim.data(), "hello", 5);
    EXPECT_EQ(claim.commit(), 64);
    EXPECT_EQ(code_of([&] { claim.commit(); }), "closed");
    {
        flyring::JournalClaim dropped = writer.claim(1000);
    }
    EXPECT_EQ(writer.claim(10).abort(), 128 + 1024);
    writer.append("after");
    JournalReader reader = journal.reader();
    const auto first = reader.take();
    EXPECT_EQ(support::text(*first), "hello");
    EXPECT_GT(first->time(), 1'000'000'000'000'000'000);  // that of its commit
    EXPECT_EQ(first->type(), 9);
    const auto second = reader.take();
    EXPECT_EQ(support::text(*second), "after");
    EXPECT_EQ(second->number(), 1);
    // Aborted claims count for the distance of checks, but their bytes do not for its CRC.
    for (int i = 0; i < 20; ++i) {
        flyring::JournalClaim aborted = writer.claim(16000);
        std::memset(aborted.data(), i, aborted.size());
        aborted.abort();
    }
    writer.append("last");
    writer.sync();
    JournalReader cold = journal.reader();
    std::string seen;
    while (cold.poll([&](const JournalMessage& message) { seen += support::text(message) + " "; }) > 0) {
    }
    EXPECT_EQ(seen, "hello after last ");
    // A claim outlives its writer.
    auto* other = new JournalWriter(std::move(writer));
    flyring::JournalClaim orphan = other->claim(8);
    delete other;
    EXPECT_EQ(code_of([&] { orphan.commit(); }), "closed");
    EXPECT_EQ(journals::writer(journal).number(), 3);
}

TEST_F(JournalVerbs, a_close_with_an_open_claim_syncs_what_was_appended) {
    Journal journal = Journal::create("j", options());
    for (const bool all : {false, true}) {
        JournalWriter writer = journals::writer(journal);
        append(writer, writer.number(), 3);
        flyring::JournalClaim claim = writer.claim(100);
        if (all) {
            journal.close();
            journal = Journal::open("j");
        } else {
            writer.close();
        }
        EXPECT_EQ(code_of([&] { claim.commit(); }), "closed");
        const flyring::JournalStats stats = journal.stats();
        EXPECT_EQ(stats.synced, stats.published - 64);
        EXPECT_EQ(stats.unsynced_since, 0);
        JournalReader reader = journal.reader();
        EXPECT_EQ(read_all(reader), all ? 6 : 3);
    }
}

TEST_F(JournalVerbs, batches_are_of_any_length) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    std::vector<std::string> texts;
    std::vector<flyring::Bytes> messages;
    for (std::uint64_t i = 0; i < 700; ++i) texts.push_back(numbered(i));
    for (const std::string& text : texts) messages.push_back(flyring::as_bytes(std::string_view(text)));
    EXPECT_EQ(writer.append_many(messages, 3, 5), 700U);
    EXPECT_EQ(writer.append_many({}, 3), 0U);
    JournalReader reader = journal.reader();
    EXPECT_EQ(read_all(reader), 700);
    writer.sync();
    JournalReader cold = journal.reader();
    EXPECT_EQ(read_all(cold), 700);
    std::string large(65536 / 4, 'x');
    messages.push_back(flyring::as_bytes(std::string_view(large)));
    EXPECT_EQ(code_of([&] { writer.append_many(messages, 1); }), "too-large");
    EXPECT_EQ(writer.number(), 700);
}

TEST_F(JournalVerbs, there_is_one_writer) {
    Journal journal = Journal::create("j", options());
    Journal other = Journal::open("j");
    {
        JournalWriter writer = journal.writer("feed", false);
        EXPECT_EQ(writer.name(), "feed");
        try {
            other.writer("x", false, 1, 5ms);
            FAIL();
        } catch (const flyring::NoFreeSlot& error) {
            EXPECT_EQ(error.kind(), "writer");
            ASSERT_EQ(error.owners().size(), 1U);
            EXPECT_EQ(error.owners()[0].name, "feed");
        }
        EXPECT_EQ(code_of([&] { other.push("x", 1ms); }), "no-free-slot");
        EXPECT_EQ(code_of([&] { journal.push("x"); }), "busy");
        EXPECT_EQ(code_of([] { Journal::unlink("j"); }), "no-free-slot");
        writer.append("one");
    }
    EXPECT_EQ(other.push("two"), 192);  // after the writer's close, which made a check
    EXPECT_EQ(journal.stats().writer, "feed");
    EXPECT_FALSE(journal.stats().writing);
    EXPECT_EQ(journal.push("three"), 256);
    JournalReader reader = journal.reader();
    EXPECT_EQ(reader.poll([](const JournalMessage&) {}), 3);
}

TEST_F(JournalVerbs, an_unlink_that_cannot_look_at_the_journal_removes_nothing) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journal.writer("feed", false);
    const std::vector<std::pair<std::string, int>> faults = {
        {"open", EMFILE}, {"mmap", ENOMEM}, {"pread", EIO}, {"fstat", EIO}, {"getrandom", EIO}};
    for (const auto& [name, error] : faults) {
        int tried = 0;
        for (bool reached = true; reached; ++tried) {
            int calls = 0;
            const faults::Hook fail([&, call = name, number = error](const faults::Call& made) {
                return call == made.name && calls++ >= tried ? number : 0;
            });
            const std::string code = code_of([] { Journal::unlink("j"); });
            reached = calls > tried;
            ASSERT_EQ(code, reached ? "io" : "no-free-slot") << name << " " << tried;
            ASSERT_TRUE(std::filesystem::exists(control_file())) << name << " " << tried;
        }
        EXPECT_GT(tried, 1) << name << " is not called";
    }
    writer.append("x");
    writer.close();
    Journal::unlink("j");
    EXPECT_FALSE(std::filesystem::exists(journal_folder()));
}

TEST_F(JournalVerbs, a_broken_journal_is_removed_only_without_a_writer) {
    const std::vector<std::pair<std::uint64_t, std::string>> broken = {
        {layout::JOURNAL_HEADER_MAJOR, "version-too-new"}, {layout::JOURNAL_HEADER_CRC, "corrupt-header"}};
    for (const auto& [offset, code] : broken) {
        Journal journal = Journal::create("j", options());
        {
            JournalWriter writer = journals::writer(journal);
            support::poke<std::uint16_t>(
                control_file(), offset,
                static_cast<std::uint16_t>(support::peek<std::uint16_t>(control_file(), offset) + 1));
            EXPECT_EQ(code_of([] { Journal::open("j"); }), code);
            EXPECT_EQ(code_of([] { Journal::unlink("j"); }), "no-free-slot") << code;
            EXPECT_TRUE(std::filesystem::exists(control_file()));
            writer.append("x");
        }
        Journal::unlink("j");
        EXPECT_FALSE(std::filesystem::exists(journal_folder()));
    }
    Journal::create("j", options());
    std::filesystem::resize_file(control_file(), 100);
    EXPECT_EQ(code_of([] { Journal::open("j"); }), "truncated");
    Journal::unlink("j");
    EXPECT_FALSE(std::filesystem::exists(journal_folder()));
}

TEST_F(JournalVerbs, a_look_at_the_folder_that_fails_is_an_error) {
    Journal::create("j", options());
    const std::vector<std::byte> segment = support::read_file(segment_file(0));
    for (const auto& [error, code] : {std::pair{EIO, "io"}, std::pair{EACCES, "access-denied"}}) {
        int looks = 0;
        const faults::Hook fail([&, number = error](const faults::Call& call) {
            return std::string(call.name) == "lstat" && ++looks < 100 ? number : 0;
        });
        EXPECT_EQ(code_of([] { Journal::unlink("j"); }), code);
        EXPECT_EQ(code_of([] { Journal::create("j", options()); }), code);
        EXPECT_EQ(code_of([] { Journal::create("k", options()); }), code);
        EXPECT_LT(looks, 100) << "it looked again and again";
        if (error != EIO) continue;
        try {
            Journal::unlink("j");
            FAIL();
        } catch (const flyring::IoError& failed) {
            EXPECT_EQ(failed.error(), EIO);
        }
    }
    {  // only the look for the control file fails
        bool first = true;
        const faults::Hook fail([&](const faults::Call& call) {
            return std::string(call.name) == "lstat" && std::exchange(first, false) ? EIO : 0;
        });
        EXPECT_EQ(code_of([] { Journal::create("j", options()); }), "exists");
    }
    EXPECT_EQ(support::read_file(segment_file(0)), segment);
    Journal::unlink("j");
    EXPECT_FALSE(std::filesystem::exists(journal_folder()));
}

TEST_F(JournalVerbs, error_texts_say_what_is_wrong_and_what_to_do) {
    const std::string path = journal_folder();
    EXPECT_EQ(text_of_error([] { Journal::open("j"); }).find("there is no journal " + path), 0U);
    {
        Journal journal = boot(1).create("j", options());
        EXPECT_EQ(text_of_error([] { Journal::create("j"); }).find("journal " + path + " exists; open it"), 0U);
        const auto taken = [] { return text_of_error([] { boot(1).open("j").writer("", false); }); };
        const std::string pid = std::to_string(::getpid());
        const std::string advice = "wait longer, close that writer, or kill its process if it is stopped";
        {
            JournalWriter writer = journal.writer("feed", false);
            EXPECT_EQ(taken(), "journal " + path +
                                   ": the writer's slot is taken; the last JournalWriter was 'feed' (pid " + pid +
                                   "); " + advice);
        }
        {  // a push leaves the name of the last writer
            const auto file = flyring::detail::open_journal("j", {});
            const auto push = flyring::detail::open_description(file.fd, file.control);
            ASSERT_TRUE(flyring::detail::lock_byte(push, file.writer_lock(), file.control));
            EXPECT_EQ(taken(), "journal " + path +
                                   ": the writer's slot is taken; the last JournalWriter was 'feed' (pid " + pid +
                                   "); " + advice);
        }
        JournalWriter writer = journals::writer(journal);
        EXPECT_EQ(
            text_of_error([&] { writer.append(std::string(16369, 'x')); }),
            "a message of 16369 bytes is too large: this journal takes 16368; split it, or create the journal with "
            "a greater segment_size");
        while (writer.position() < smallest - 1100) writer.append(std::string(1000, 'x'));
        const faults::Hook full(
            [](const faults::Call& call) { return std::string(call.name) == "posix_fallocate" ? ENOSPC : 0; });
        const std::string text = text_of_error([&] { writer.append(std::string(2000, 'y')); });
        EXPECT_NE(text.find("; trim it, or make room on the disk"), std::string::npos) << text;
    }
    Journal journal = boot(2).open("j");  // it was closed with a sync
    EXPECT_EQ(text_of_error([&] { journal.consumer("c"); }),
              "journal " + path +
                  " was written in another boot, and no writer has recovered it yet; take a writer, which recovers it");
    set_control_word(layout::JOURNAL_CONTROL_TRIMMED, std::int64_t{5});
    EXPECT_EQ(
        text_of_error([&] { journal.reader(); }),
        "journal " + path +
            " is corrupt at position 5: trimmed is no segment's position; copy what a reader with skip_damaged can "
            "read, and create it again");
}

TEST_F(JournalVerbs, no_space_changes_nothing_and_it_goes_on_when_there_is_room) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    while (writer.position() < smallest - 1100) writer.append(std::string(1000, 'x'));
    const std::int64_t end = writer.position();
    const std::int64_t count = writer.number();
    {
        const faults::Hook full(
            [](const faults::Call& call) { return std::string(call.name) == "posix_fallocate" ? ENOSPC : 0; });
        EXPECT_EQ(code_of([&] { writer.append(std::string(2000, 'y')); }), "no-space");
        EXPECT_EQ(writer.position(), end);
        writer.append("small");  // there is room for it in this segment
        writer.sync();           // and for the check
    }
    writer.append(std::string(2000, 'y'));
    EXPECT_EQ(writer.number(), count + 2);
    JournalReader reader = journal.reader();
    EXPECT_EQ(reader.poll([](const JournalMessage&) {}, 1000), count + 2);
}

TEST_F(JournalVerbs, errors_come_in_their_order) {
    Journal journal = Journal::create("j", options());
    flyring::OpenJournalOptions opening;
    opening.read_only = true;
    Journal reading = Journal::open("j", opening);
    for (const bool closed : {false, true}) {
        const std::string first = closed ? "closed" : "invalid-argument";
        const std::string second = closed ? "closed" : "access-denied";
        EXPECT_EQ(code_of([&] { reading.writer("a b"); }), first);
        EXPECT_EQ(code_of([&] { reading.writer("", true, 0); }), first);
        EXPECT_EQ(code_of([&] { reading.writer("", true, 17); }), first);
        EXPECT_EQ(code_of([&] { reading.writer("", true, 1, -1ns); }), first);
        EXPECT_EQ(code_of([&] { reading.consumer(""); }), first);
        EXPECT_EQ(code_of([&] { reading.forget("a b"); }), first);
        EXPECT_EQ(code_of([&] { reading.trim(JournalTrim::position(-1)); }), first);
        EXPECT_EQ(code_of([&] { reading.push(bytes("x"), 0); }), first);
        flyring::JournalChange wrong;
        wrong.max_age = -1ns;
        EXPECT_EQ(code_of([&] { reading.change(wrong); }), first);
        EXPECT_EQ(code_of([&] { reading.writer(); }), second);
        EXPECT_EQ(code_of([&] { reading.consumer("c"); }), second);
        EXPECT_EQ(code_of([&] { reading.forget("c"); }), second);
        EXPECT_EQ(code_of([&] { reading.trim(JournalTrim::consumed()); }), second);
        EXPECT_EQ(code_of([&] { reading.push("x"); }), second);
        EXPECT_EQ(code_of([&] { reading.change({}); }), second);
        if (!closed) reading.close();
    }
    JournalWriter writer = journals::writer(journal);
    EXPECT_EQ(code_of([&] { journal.push("x"); }), "busy");  // it would wait for this object's own writer
}

TEST_F(JournalVerbs, stats_tell_what_is_there) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journal.writer("w", false);
    writer.append(bytes("a"), 1, 1000);
    writer.append(bytes("b"), 1, 3000);
    writer.append(bytes("c"), 1, 2000);
    flyring::JournalStats stats = journal.stats();
    EXPECT_EQ(stats.published, 256);
    EXPECT_EQ(stats.messages, 3);
    EXPECT_EQ(stats.synced, 0);
    EXPECT_EQ(stats.oldest, 1000);
    EXPECT_EQ(stats.newest, 3000);
    EXPECT_EQ(stats.unsynced_since, 1000);
    EXPECT_EQ(stats.segments, 1U);
    EXPECT_TRUE(stats.writing);
    EXPECT_FALSE(stats.helping);
    EXPECT_EQ(stats.writer, "w");
    EXPECT_EQ(stats.pid, ::getpid());
    writer.sync();
    stats = journal.stats();
    EXPECT_EQ(stats.synced, 256);
    EXPECT_EQ(stats.unsynced_since, 0);
    EXPECT_EQ(stats.newest, 3000);
    EXPECT_GT(stats.synced_at, 0);
    JournalConsumer consumer = journal.consumer("c");
    consumer.take();
    stats = Journal::open("j").stats();
    ASSERT_EQ(stats.consumers.size(), 1U);
    EXPECT_EQ(stats.consumers[0].name, "c");
    EXPECT_EQ(stats.consumers[0].behind, 2);
    EXPECT_EQ(stats.consumers[0].lost, 0);
    EXPECT_TRUE(stats.consumers[0].live);
}

TEST_F(JournalVerbs, read_only_reads) {
    Journal::create("j", options()).push("x");
    flyring::OpenJournalOptions opening;
    opening.read_only = true;
    Journal journal = Journal::open("j", opening);
    JournalReader reader = journal.reader();
    EXPECT_TRUE(reader.take());
    EXPECT_FALSE(reader.take(3ms));
    EXPECT_EQ(code_of([&] { journal.writer(); }), "access-denied");
    EXPECT_EQ(code_of([&] { journal.push("y"); }), "access-denied");
    EXPECT_EQ(code_of([&] { journal.consumer("c"); }), "access-denied");
    EXPECT_EQ(code_of([&] { journal.trim(JournalTrim::consumed()); }), "access-denied");
    EXPECT_EQ(journal.stats().messages, 1);
}

TEST_F(JournalVerbs, close_ends_all_objects) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journal.writer();
    JournalReader reader = journal.reader();
    JournalConsumer consumer = journal.consumer("c");
    writer.append("x");
    EXPECT_EQ(code_of([&] { reader.poll([&](const JournalMessage&) { journal.close(); }); }), "view-alive");
    EXPECT_EQ(code_of([&] { reader.poll([&](const JournalMessage&) { reader.take(); }); }), "none");  // it was consumed
    writer.append("y");
    EXPECT_EQ(code_of([&] { reader.poll([&](const JournalMessage&) { reader.take(); }); }), "two-threads");
    journal.close();
    EXPECT_EQ(code_of([&] { writer.append("z"); }), "closed");
    EXPECT_EQ(code_of([&] { reader.take(); }), "closed");
    EXPECT_EQ(code_of([&] { consumer.take(); }), "closed");
    EXPECT_EQ(code_of([&] { journal.stats(); }), "closed");
    writer.close();
    Journal again = Journal::open("j");
    EXPECT_EQ(again.stats().synced, again.stats().published - 64);  // the writer's last sync
    EXPECT_EQ(again.reader().poll([](const JournalMessage&) {}), 2);
}

TEST_F(JournalVerbs, the_helper_makes_segments_ahead_and_syncs_them) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journal.writer("", true, 2);
    const auto eventually = [&](const std::function<bool()>& is) {
        for (int i = 0; i < 2000 && !is(); ++i) std::this_thread::sleep_for(1ms);
        return is();
    };
    EXPECT_TRUE(eventually([&] { return journal.stats().ready >= 3 * smallest; }));
    EXPECT_TRUE(journal.stats().helping);
    append(writer, 0, 500);
    EXPECT_TRUE(eventually([&] { return journal.stats().synced >= 2 * smallest; }));
    EXPECT_TRUE(eventually([&] { return journal.stats().ready >= (writer.position() / smallest + 3) * smallest; }));
    JournalReader reader = journal.reader();
    EXPECT_EQ(read_all(reader), 500);
    flyring::JournalChange change;
    change.sync = JournalSync::every(1ms);
    journal.change(change);
    std::this_thread::sleep_for(2ms);
    writer.append(numbered(500), 1);  // makes a check
    EXPECT_TRUE(eventually([&] { return journal.stats().unsynced_since == 0; }));
    writer.close();
    EXPECT_FALSE(journal.stats().helping);
}

TEST_F(JournalVerbs, the_helper_maps_all_segments_that_it_keeps_ahead) {
    Journal journal = Journal::create("j", options());
    const auto mapped = [](std::int64_t position) {
        char name[32];
        std::snprintf(name, sizeof name, "/%019lld.seg", static_cast<long long>(position));
        std::string line;
        for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) {
            if (line.find(name) != std::string::npos) return true;
        }
        return false;
    };
    JournalWriter writer = journal.writer("", true, 3);
    const auto ahead = [&](std::int64_t position) {
        for (int i = 0; i < 2000; ++i) {
            if (mapped(position) && mapped(position + smallest) && mapped(position + 2 * smallest)) return true;
            std::this_thread::sleep_for(1ms);
        }
        return false;
    };
    EXPECT_TRUE(ahead(smallest));
    while (writer.position() < 2 * smallest + 64) writer.append(std::string(200, 'x'));
    EXPECT_TRUE(ahead(3 * smallest));
    for (int i = 0; i < 2000 && (mapped(0) || mapped(smallest)); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(mapped(0) || mapped(smallest)) << "what the writer has left";
    EXPECT_EQ(writer.unprepared(), 0);
    writer.close();
    for (int i = 0; i < 6; ++i) EXPECT_FALSE(mapped(i * smallest)) << i;
}

TEST_F(JournalVerbs, of_two_helpers_one_helps) {
    Journal journal = Journal::create("j", options());
    const auto file = flyring::detail::open_journal("j", {});
    flyring::detail::Fd lock = flyring::detail::open_description(file.fd, file.control);
    ASSERT_TRUE(flyring::detail::lock_byte(lock, file.helper_lock(), file.control));  // as another process has it
    JournalWriter writer = journal.writer("", true, 2);
    flyring::detail::prepare_segment(file, smallest);
    const auto is_mapped = [](std::int64_t position) {
        std::string line;
        for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) {
            if (line.find(flyring::detail::segment_name(position)) != std::string::npos) return true;
        }
        return false;
    };
    for (int i = 0; i < 5000 && !is_mapped(smallest); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(is_mapped(smallest));         // it brings in the pages for its own writer
    EXPECT_EQ(journal.stats().segments, 2U);  // and makes none
    flyring::JournalChange change;
    change.sync = JournalSync::every(1ms);
    journal.change(change);
    writer.append("x");  // makes a check
    std::this_thread::sleep_for(200ms);
    EXPECT_EQ(journal.stats().synced, 0);  // and syncs nothing
    lock.reset();
    for (int i = 0; i < 5000 && !is_mapped(2 * smallest); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(is_mapped(2 * smallest));
}

TEST_F(JournalVerbs, with_sync_each_an_append_is_durable_when_it_returns) {
    JournalOptions made = options();
    made.sync = JournalSync::each();
    Journal journal = Journal::create("j", made);
    JournalWriter writer = journals::writer(journal);
    for (int i = 0; i < 5; ++i) {
        writer.append("x");
        EXPECT_EQ(journal.stats().synced, writer.position() - 64);
    }
    const std::vector<flyring::Bytes> two{bytes("a"), bytes("b")};
    writer.append_many(two);
    EXPECT_EQ(journal.stats().synced, writer.position() - 64);
    EXPECT_EQ(journal.stats().messages, 7);
}

TEST_F(JournalVerbs, the_crc_is_the_same_by_table_and_by_instruction) {
    EXPECT_EQ(flyring::detail::crc32c(bytes("123456789").data(), 9), 0xe3069283U);
    std::vector<std::byte> data(10'000);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * i >> 3);
    for (std::size_t length = 0; length <= data.size(); length += length < 2000 ? 1 : 97) {
        const std::uint32_t by_table = ~flyring::detail::crc32c_by_table(data.data(), length, ~std::uint32_t{0});
        ASSERT_EQ(flyring::detail::crc32c(data.data(), length), by_table) << length;
        const std::size_t half = length / 3;
        const std::uint32_t first = flyring::detail::crc32c(data.data(), half);
        ASSERT_EQ(flyring::detail::crc32c(data.data() + half, length - half, first), by_table) << length;
    }
}

}  // namespace
