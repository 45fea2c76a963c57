// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <fstream>

#include "faults.hpp"
#include "journals.hpp"

// Removing what is not needed any more (spec/journal.md 8).

namespace {

using namespace journals;
using support::code_of;

class JournalTrims : public JournalTest {
  protected:
    Journal filled(const flyring::JournalOptions& made = options()) {
        Journal journal = Journal::create("j", made);
        JournalWriter writer = journals::writer(journal);
        const std::string text(1000, 'x');
        for (int i = 0; i < 600; ++i) writer.append(support::bytes(text), 1, i);
        return journal;
    }
    std::vector<std::int64_t> segments() const {
        return flyring::detail::list_segments(flyring::detail::open_journal("j", {}));
    }
};

TEST_F(JournalTrims, only_whole_segments_that_are_synced_and_consumed_go) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    const std::string text(1000, 'x');
    for (int i = 0; i < 200; ++i) writer.append(text);
    EXPECT_EQ(journal.trim(JournalTrim::position(2 * smallest)), 0U);  // nothing is synced
    writer.sync();
    EXPECT_EQ(journal.trim(JournalTrim::consumed()), 0U);  // there is no consumer
    JournalConsumer consumer = journal.consumer("c");
    EXPECT_EQ(journal.trim(JournalTrim::position(2 * smallest)), 0U);
    EXPECT_EQ(journal.trim(JournalTrim::size(0)), 0U);
    while (consumer.position() < smallest + 5000) consumer.take();
    EXPECT_EQ(journal.trim(JournalTrim::consumed()), 4096U + 65536U);
    EXPECT_EQ(segments().front(), smallest);
    EXPECT_EQ(journal.stats().trimmed, smallest);
    EXPECT_EQ(journal.trim(JournalTrim::consumed()), 0U);
    while (consumer.take()) {
    }
    consumer.close();
    journal.trim(JournalTrim::consumed());
    EXPECT_EQ(segments().front(), writer.position() / smallest * smallest);
    EXPECT_EQ(journal.reader().number() + journal.reader().poll([](const JournalMessage&) {}, 1000), 200);
}

TEST_F(JournalTrims, by_position_time_and_size) {
    Journal journal = filled();
    EXPECT_EQ(code_of([&] { journal.trim(JournalTrim::position(-5)); }), "invalid-argument");
    journal.trim(JournalTrim::position(smallest + 6400));
    EXPECT_EQ(segments().front(), smallest);
    journal.trim(JournalTrim::before(200));
    JournalReader reader = journal.reader();
    EXPECT_LE(reader.take()->time(), 200);  // no message that is younger went
    EXPECT_GT(journal.stats().trimmed, 2 * smallest);
    const std::int64_t trimmed = journal.stats().trimmed;
    journal.trim(JournalTrim::before(200));
    EXPECT_EQ(journal.stats().trimmed, trimmed);
    journal.trim(JournalTrim::size(3 * smallest));
    EXPECT_EQ(segments().size(), 3U);
    journal.trim(JournalTrim::size(0));
    EXPECT_EQ(segments().size(), 1U);  // that of the end stays
    EXPECT_GT(journal.reader().poll([](const JournalMessage&) {}, 1000), 0);
}

TEST_F(JournalTrims, limits_of_the_file_do_not_look_at_consumers_who_are_told) {
    flyring::JournalOptions made = options();
    made.max_size = 3 * smallest;
    Journal journal = Journal::create("j", made);
    JournalConsumer consumer = journal.consumer("c");
    {
        JournalWriter writer = journal.writer();
        for (std::int64_t i = 0; i < 1000; ++i) writer.append(numbered(static_cast<std::uint64_t>(i)), 1);
        writer.sync();
        for (int i = 0; i < 3000 && segments().size() > 3; ++i) std::this_thread::sleep_for(1ms);
    }
    EXPECT_LE(segments().size(), 4U);
    EXPECT_GT(journal.stats().trimmed, 0);
    const std::int64_t read = read_all(consumer);
    EXPECT_EQ(read + consumer.lost(), 1000);
    EXPECT_GT(consumer.lost(), 0);
    const std::int64_t lost = consumer.lost();
    consumer.close();
    JournalConsumer next = journal.consumer("c");
    EXPECT_EQ(next.lost(), lost);  // it is counted once
    EXPECT_EQ(next.size(), 0);
    EXPECT_EQ(journal.stats().consumers[0].lost, lost);
}

TEST_F(JournalTrims, what_was_lost_while_a_consumer_was_away_is_counted_once) {
    Journal journal = filled();
    {
        JournalConsumer consumer = journal.consumer("c");
        for (int i = 0; i < 10; ++i) consumer.take();
    }
    flyring::detail::JournalFile file = flyring::detail::open_journal("j", {});
    const flyring::detail::Fd description = flyring::detail::open_description(file.fd, file.control);
    EXPECT_GT(flyring::detail::trim_journal(file, description, 2 * smallest, false), 0U);
    std::int64_t lost = 0;
    {
        JournalConsumer consumer = journal.consumer("c");
        lost = consumer.lost();
        EXPECT_EQ(lost, consumer.number() - 10);
        EXPECT_GT(lost, 0);
    }
    JournalConsumer consumer = journal.consumer("c");
    EXPECT_EQ(consumer.lost(), lost);
}

TEST_F(JournalTrims, what_a_killed_trim_left_goes_with_the_next_one) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    while (writer.position() < 3 * smallest) append(writer, writer.number(), 1);
    writer.sync();
    const std::vector<std::byte> first = support::read_file(segment_file(0));
    EXPECT_EQ(journal.trim(JournalTrim::position(smallest)), smallest + 4096);
    EXPECT_EQ(journal.trim(JournalTrim::position(smallest)), 0);
    support::write_file(segment_file(0), first);  // as if the kill had come before the unlink
    EXPECT_EQ(journal.trim(JournalTrim::position(smallest)), smallest + 4096);
    EXPECT_FALSE(std::filesystem::exists(segment_file(0)));
    EXPECT_EQ(code_of([&] { journal.trim(JournalTrim::position(-1)); }), "invalid-argument");
    EXPECT_EQ(journal.trim(JournalTrim::position(2 * smallest + 1)), smallest + 4096);
}

TEST_F(JournalTrims, a_reader_goes_over_five_rolls_while_a_trim_removes_what_it_has_read) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    JournalReader reader = journal.reader();
    JournalReader behind = journal.reader();
    EXPECT_FALSE(behind.take());
    for (std::int64_t roll = 1; roll <= 5; ++roll) {
        while (writer.position() < roll * smallest + 1000) append(writer, writer.number(), 1);
        EXPECT_EQ(reader.number() + read_all(reader), writer.number());
        writer.sync();
        journal.trim(JournalTrim::position(reader.position()));
        EXPECT_EQ(journal.stats().trimmed, roll * smallest);
    }
    EXPECT_EQ(reader.lost(), 0);
    EXPECT_EQ(writer.unprepared(), 5);  // without a helper
    const std::int64_t read = read_all(behind);
    EXPECT_EQ(behind.lost() + read, writer.number());
    EXPECT_GT(behind.lost(), 0);
    EXPECT_GT(read, 0);
}

TEST_F(JournalTrims, a_reader_at_the_place_where_the_journal_begins_loses_nothing) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    JournalReader reader = journal.reader();
    for (;;) {
        append(writer, writer.number(), 1);
        if (writer.position() > 2 * smallest) break;
        read_all(reader);  // of the second segment: all messages, and not the padding behind them
    }
    EXPECT_EQ(reader.number(), writer.number() - 1);
    while (writer.position() < 4 * smallest) append(writer, writer.number(), 1);
    writer.sync();
    journal.trim(JournalTrim::position(2 * smallest));
    ASSERT_EQ(journal.stats().trimmed, 2 * smallest);
    EXPECT_EQ(reader.number() + read_all(reader), writer.number());
    EXPECT_EQ(reader.lost(), 0);
}

TEST_F(JournalTrims, a_newest_message_that_is_trimmed_meanwhile_leads_to_the_oldest) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    const auto file = flyring::detail::open_journal("j", {});
    while (writer.position() < smallest + 1000) append(writer, writer.number(), 1);
    const std::int64_t published = writer.position();
    const std::int64_t checked = *file.checked();
    while (writer.position() < 3 * smallest) append(writer, writer.number(), 1);
    writer.sync();
    journal.trim(JournalTrim::position(2 * smallest));
    // As a reader sees them that stands still behind its loads.
    *file.published() = published;
    *file.checked() = checked;
    EXPECT_EQ(journal.reader(JournalStart::newest()).position(), 2 * smallest);
}

/// What a process has that could grow with a journal.
struct Use {
    std::int64_t descriptors = 0;
    std::int64_t mappings = 0;   // of segments
    std::int64_t anonymous = 0;  // KiB of memory
};
Use use_now() {
    Use use;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) use.descriptors += entry.exists();
    std::string line;
    for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) {
        use.mappings += line.find(".seg") != std::string::npos;
    }
    for (std::ifstream status("/proc/self/status"); std::getline(status, line);) {
        if (line.rfind("RssAnon:", 0) == 0) use.anonymous = std::atoll(line.c_str() + 8);
    }
    return use;
}

/// FLYRING_LONG_JOURNAL: how many bytes, for the nightly run (./dev journals).
TEST_F(JournalTrims, a_long_run_keeps_memory_descriptors_and_mappings_flat) {
    const char* const wanted = std::getenv("FLYRING_LONG_JOURNAL");
    const std::int64_t bytes = wanted != nullptr ? std::atoll(wanted) : 64 << 20;
    const std::int64_t segment = wanted != nullptr ? 64 << 20 : 4 << 20;  // a container has 64 MiB of shared memory
    flyring::JournalOptions made = options(segment);
    made.max_size = 2 * segment;
    Journal journal = Journal::create("j", made);
    JournalWriter writer = journal.writer();
    JournalReader reader = journal.reader();
    const std::string payload(static_cast<std::size_t>(segment / 64), 'x');
    std::optional<Use> first;
    while (writer.position() < bytes) {
        writer.append(payload);
        while (reader.poll([](const JournalMessage&) {}) > 0) {
        }
        if (!first && writer.position() > segment + segment / 2) first = use_now();
    }
    EXPECT_EQ(reader.number(), writer.number());
    EXPECT_EQ(reader.lost(), 0);
    const auto most = static_cast<std::uint64_t>(2 * (segment + 4096));
    // The helper makes the next segment, and trims then.
    const auto settled = [&] {
        const flyring::JournalStats stats = journal.stats();
        const std::int64_t last = (stats.published - 1) / segment * segment;
        return stats.ready >= last + 2 * segment && stats.bytes <= most;
    };
    for (int i = 0; i < 5000 && !settled(); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(settled());
    // The helper may be at work: it unmaps what the writer has left when it comes to it.
    Use last = use_now();
    for (int i = 0; i < 5000 && (last.mappings > 4 || last.descriptors > first->descriptors + 2); ++i) {
        std::this_thread::sleep_for(1ms);
        last = use_now();
    }
    EXPECT_LE(last.descriptors, first->descriptors + 2);
    EXPECT_LE(last.mappings, 4);  // the writer's, the next one, one that is being unmapped, the reader's
    EXPECT_LE(last.anonymous, first->anonymous + 8192);
}

TEST_F(JournalTrims, trim_consumed_frees_the_disk_behind_a_deque) {
    flyring::JournalOptions made = options();
    made.trim_consumed = true;
    Journal journal = Journal::create("j", made);
    JournalWriter writer = journal.writer();
    JournalConsumer consumer = journal.consumer("c");
    const std::string text(4000, 'x');
    for (int i = 0; i < 200; ++i) {
        writer.append(text);
        ASSERT_TRUE(consumer.pop());
    }
    writer.sync();
    std::size_t left = segments().size();  // looked at once: the helper may make the next one at any time
    for (int i = 0; i < 3000 && left > 3; ++i) {
        std::this_thread::sleep_for(1ms);
        left = segments().size();
    }
    EXPECT_LE(left, 3U);
    EXPECT_EQ(consumer.lost(), 0);
}

TEST_F(JournalTrims, a_gate_that_cannot_be_holds_everything) {
    Journal journal = filled();
    JournalConsumer consumer = journal.consumer("c");
    while (consumer.take()) {
    }
    set_control_word<std::int64_t>(layout::JOURNAL_CONTROL_CONSUMERS + layout::JOURNAL_CONSUMER_GATE, 7);
    EXPECT_EQ(journal.trim(JournalTrim::consumed()), 0U);
    EXPECT_EQ(journal.trim(JournalTrim::position(3 * smallest)), 0U);
}

TEST_F(JournalTrims, a_sync_passes_over_what_another_process_has_synced_and_trimmed) {
    Journal journal = Journal::create("j", options());
    for (const bool close : {false, true}) {
        JournalWriter writer = journals::writer(journal);
        const std::int64_t first = journal.stats().synced / smallest * smallest;
        append(writer, writer.number(), 400);
        ASSERT_GT(writer.position(), first + 2 * smallest);
        {
            bool other = false;
            const faults::Hook between([&](const faults::Call& call) {
                if (std::string(call.name) != "open" || std::exchange(other, true)) return 0;
                // The writer is about to open its first segment.
                const auto file = flyring::detail::open_journal("j", {});
                const auto lock = flyring::detail::open_description(file.fd, file.control);
                EXPECT_TRUE(flyring::detail::JournalSyncer(file).make_durable());
                flyring::detail::trim_journal(file, lock, layout::MAX_POSITION, true);
                return 0;
            });
            EXPECT_EQ(code_of([&] { close ? writer.close() : writer.sync(); }), "none");
            EXPECT_TRUE(other);
        }
        EXPECT_FALSE(std::filesystem::exists(segment_file(first)));
        EXPECT_EQ(journal.stats().synced, journal.stats().published - 64);
        EXPECT_FALSE(journal.stats().failed);
    }
}

TEST_F(JournalTrims, a_sync_is_io_if_a_segment_was_removed_by_hand) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 400);
    std::filesystem::rename(segment_file(smallest), folder() + "/away");
    for (std::uint64_t i = 0; i < 2; ++i) {
        try {
            writer.sync();
            FAIL();
        } catch (const flyring::IoError& error) {
            EXPECT_EQ(error.call(), "open");
            EXPECT_EQ(error.error(), ENOENT);
            EXPECT_EQ(error.path(), segment_file(smallest));
        }
        EXPECT_EQ(journal.stats().synced, 0);
        EXPECT_FALSE(journal.stats().failed);
        append(writer, 400 + i, 1);  // it goes on
    }
    std::filesystem::rename(folder() + "/away", segment_file(smallest));
    writer.sync();
    EXPECT_EQ(journal.stats().synced, writer.position() - 64);
}

}  // namespace
