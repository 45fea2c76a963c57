// SPDX-License-Identifier: Apache-2.0
#include "journals.hpp"

// Reading a journal: at its end, below it, where to begin, what is damaged (spec/journal.md 3.3).

namespace {

using namespace journals;
using support::code_of;

class JournalRead : public JournalTest {
  protected:
    /// A journal of several segments with `count` messages, closed and synced. positions_ has theirs.
    Journal filled(std::int64_t count = 1000, std::uint64_t segment = smallest) {
        Journal journal = Journal::create("j", options(segment));
        JournalWriter writer = journals::writer(journal);
        positions_ = append(writer, 0, count);
        return journal;
    }
    /// Flips a byte of a message's payload.
    void damage(std::size_t message, std::int64_t segment_size = smallest) const {
        const std::int64_t position = positions_[message];
        const std::string file = segment_file(position & ~(segment_size - 1));
        const std::uint64_t at = offset_in_segment(position, segment_size) + 20;
        support::poke<std::uint8_t>(file, at, static_cast<std::uint8_t>(~support::peek<std::uint8_t>(file, at)));
    }

    std::vector<std::int64_t> positions_;
};

TEST_F(JournalRead, a_reader_follows_the_writer_over_many_segments) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    JournalReader reader = journal.reader();
    JournalReader from_newest = journal.reader(JournalStart::newest());
    for (int round = 0; round < 300; ++round) {
        append(writer, 5 * round, 5);
        EXPECT_EQ(read_all(reader), 5) << round;
        if (round % 7 == 0) writer.sync();
        EXPECT_EQ(reader.position() == writer.position() || read_all(reader) == 0, true);
        EXPECT_EQ(read_all(from_newest), 5) << round;
    }
}

TEST_F(JournalRead, it_begins_at_each_position_and_number) {
    Journal journal = filled(600);
    for (std::size_t i = 0; i < positions_.size(); i += 7) {
        JournalReader by_position = journal.reader(JournalStart::position(positions_[i]));
        EXPECT_EQ(by_position.number(), static_cast<std::int64_t>(i));
        const auto first = by_position.take();
        ASSERT_TRUE(first);
        EXPECT_EQ(first->number(), static_cast<std::int64_t>(i));
        EXPECT_EQ(first->position(), positions_[i]);
        EXPECT_EQ(number_in(*first), static_cast<std::int64_t>(i));
        JournalReader by_number = journal.reader(JournalStart::number(static_cast<std::int64_t>(i)));
        EXPECT_EQ(by_number.take()->position(), positions_[i]);
        EXPECT_EQ(read_all(by_number), static_cast<std::int64_t>(positions_.size() - i - 1));
    }
    EXPECT_FALSE(journal.reader(JournalStart::number(600)).take());
    EXPECT_EQ(code_of([&] { journal.reader(JournalStart::number(601)); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { journal.reader(JournalStart::number(-1)); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { journal.reader(JournalStart::position(63)); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { journal.reader(JournalStart::position(-64)); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { journal.reader(JournalStart::position(std::int64_t{1} << 40)); }), "invalid-argument");
    for (std::size_t i = 0; i + 1 < positions_.size(); ++i) {  // within a record
        if (positions_[i + 1] - positions_[i] <= 64) continue;
        EXPECT_EQ(code_of([&] { journal.reader(JournalStart::position(positions_[i] + 64)); }), "invalid-argument");
        break;
    }
    JournalReader reader = journal.reader();
    reader.seek(JournalStart::number(100));
    EXPECT_EQ(reader.take()->number(), 100);
    reader.seek(JournalStart::oldest());
    EXPECT_EQ(read_all(reader), 600);
    reader.seek(JournalStart::newest());
    EXPECT_FALSE(reader.take());
    EXPECT_EQ(reader.number(), 600);
}

// A writer is stopped, or was killed, between the commit of a batch and its store of `published` (append 5 and 6). A
// tail hands out such messages: what it says of them must be a start.
TEST_F(JournalRead, it_begins_at_what_is_committed_and_not_yet_published) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    positions_ = append(writer, 0, 600);
    const std::int64_t last = 599;
    const std::int64_t end = writer.position();
    const std::int64_t time = journal.reader(JournalStart::number(last)).take()->time();
    for (const std::int64_t published : {positions_[595], positions_[599]}) {
        set_control_word(layout::JOURNAL_CONTROL_PUBLISHED, published);
        for (const JournalStart& start : {JournalStart::position(positions_[599]), JournalStart::number(last)}) {
            JournalReader reader = journal.reader(start);
            EXPECT_EQ(reader.number(), last);
            EXPECT_EQ(reader.lost(), 0);
            EXPECT_EQ(read_all(reader), 1);
        }
        JournalReader behind = journal.reader(JournalStart::position(end));
        EXPECT_EQ(behind.number(), 600);
        EXPECT_FALSE(behind.take());
        behind.seek(JournalStart::number(600));
        EXPECT_EQ(behind.position(), end);
        behind.seek(JournalStart::time(time + 1));
        EXPECT_EQ(behind.position(), end);
        EXPECT_EQ(journal.consumer("c" + std::to_string(published), JournalStart::position(end)).number(), 600);
        for (const JournalStart& none :
             {JournalStart::position(end + 64), JournalStart::position(end - 64), JournalStart::number(601)}) {
            EXPECT_EQ(code_of([&] { journal.reader(none); }), "invalid-argument");
        }
        EXPECT_EQ(code_of([&] { journal.reader(JournalStart::position(end), true); }), "invalid-argument");
    }
    set_control_word(layout::JOURNAL_CONTROL_PUBLISHED, end);
}

TEST_F(JournalRead, it_begins_at_a_time) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    const std::string text(1000, 'x');
    for (int i = 0; i < 400; ++i) writer.append(support::bytes(text), 1, 10 * i);
    for (const int wanted : {0, 1, 10, 999, 1000, 1001, 3990}) {
        JournalReader reader = journal.reader(JournalStart::time(wanted));
        EXPECT_EQ(reader.take()->time(), (wanted + 9) / 10 * 10) << wanted;
    }
    EXPECT_FALSE(journal.reader(JournalStart::time(3991)).take());
}

TEST_F(JournalRead, a_flipped_byte_is_damage_with_exact_numbers) {
    Journal journal = filled();
    damage(300);
    JournalReader reader = journal.reader();
    std::int64_t read = 0;
    std::int64_t from = 0;
    try {
        for (;;) {
            const int now = reader.poll([&](const JournalMessage& message) {
                EXPECT_EQ(number_in(message), message.number());
                ++read;
            });
            ASSERT_GT(now, 0);
        }
    } catch (const flyring::Damaged& error) {
        from = error.from();
        EXPECT_EQ(error.from(), reader.position());
        EXPECT_GT(error.to(), positions_[300]);
        EXPECT_LE(error.from(), positions_[300]);
        EXPECT_GT(error.messages(), 0);
        // The numbers are exact: the messages of this span.
        std::int64_t between = 0;
        for (const std::int64_t position : positions_) between += position >= error.from() && position < error.to();
        EXPECT_EQ(error.messages(), between);
    }
    EXPECT_LE(read, 300);
    EXPECT_EQ(code_of([&] { reader.take(); }), "damaged");  // it stays where it is
    EXPECT_EQ(reader.position(), from);
    JournalReader skipping = journal.reader(JournalStart::oldest(), false, true);
    const std::int64_t all = read_all(skipping);
    EXPECT_EQ(all + skipping.lost(), 1000);
    EXPECT_GT(skipping.lost(), 0);
    EXPECT_EQ(skipping.number(), 1000);
}

TEST_F(JournalRead, a_missing_segment_is_damage) {
    Journal journal = filled();
    std::filesystem::remove(segment_file(2 * smallest));
    JournalReader reader = journal.reader();
    EXPECT_EQ(code_of([&] { read_all(reader); }), "damaged");
    JournalReader skipping = journal.reader(JournalStart::oldest(), false, true);
    const std::int64_t all = read_all(skipping);
    EXPECT_EQ(all + skipping.lost(), 1000);
    EXPECT_GT(all, 500);
    // A file that is not whole counts as missing.
    support::write_file(segment_file(2 * smallest), std::vector<std::byte>(1000));
    EXPECT_EQ(code_of([&] {
                  JournalReader again = journal.reader();
                  read_all(again);
              }),
              "damaged");
}

TEST_F(JournalRead, the_first_check_of_the_oldest_segment_is_damaged) {
    Journal journal = filled();
    support::poke<std::uint8_t>(segment_file(0), layout::HEADER_LENGTH + 30, 0xff);
    std::int64_t to = 0;
    try {
        journal.reader();
        ADD_FAILURE();
    } catch (const flyring::Damaged& error) {
        EXPECT_EQ(error.from(), 0);
        EXPECT_EQ(error.messages(), -1);
        to = error.to();
    }
    JournalReader skipping = journal.reader(JournalStart::oldest(), false, true);
    EXPECT_EQ(skipping.position(), to + 64);
    const std::int64_t first = skipping.number();
    EXPECT_GT(first, 0);
    EXPECT_EQ(read_all(skipping) + first, 1000);
}

/// An error of a walk to the end names the place where the damage begins, one of a walk to a position that position.
TEST_F(JournalRead, damage_up_to_the_end_is_named_from_where_it_begins) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 3);  // behind the last check
    const std::int64_t end = writer.position();
    support::poke<std::int64_t>(segment_file(0), offset_in_segment(64), -1);
    for (const JournalStart& start : {JournalStart::newest(), JournalStart::number(2), JournalStart::position(end)}) {
        try {
            journal.reader(start);
            ADD_FAILURE();
        } catch (const flyring::Damaged& error) {
            EXPECT_EQ(error.from(), start.kind() == JournalStart::Kind::position ? end : 64);
            EXPECT_EQ(error.to(), end);
            EXPECT_EQ(error.messages(), -1);
        }
    }
}

/// The helper has mapped it already: what is appended there would be lost.
TEST_F(JournalRead, a_prepared_segment_that_is_removed_by_hand_is_made_again) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journal.writer();
    for (std::int64_t segment = smallest; segment <= 3 * smallest; segment += smallest) {
        while (control_word<std::int64_t>(layout::JOURNAL_CONTROL_READY) < segment + smallest) {
            std::this_thread::sleep_for(1ms);
        }
        std::this_thread::sleep_for(20ms);  // it maps the segment by now, which no word shows
        EXPECT_TRUE(std::filesystem::remove(segment_file(segment)));
        while (writer.position() < segment + smallest / 2) append(writer, writer.number(), 1);
        EXPECT_TRUE(std::filesystem::exists(segment_file(segment)));
    }
    EXPECT_EQ(writer.unprepared(), 3);
    JournalReader reader = journal.reader();
    EXPECT_EQ(read_all(reader), writer.number());
}

TEST_F(JournalRead, each_damaged_byte_of_a_segment_is_found) {
    Journal journal = filled(200);
    const std::vector<std::byte> whole = support::read_file(segment_file(0));
    std::int64_t found = 0;
    for (std::size_t at = 4096 + 64; at < whole.size(); at += 509) {
        support::poke<std::uint8_t>(segment_file(0), at, static_cast<std::uint8_t>(~static_cast<unsigned>(whole[at])));
        JournalReader skipping = journal.reader(JournalStart::oldest(), false, true);
        const std::int64_t all = read_all(skipping);  // each is the one with its number
        EXPECT_EQ(all + skipping.lost(), 200) << at;
        found += skipping.lost() != 0;
        support::write_file(segment_file(0), whole);
    }
    EXPECT_GT(found, 100);
}

TEST_F(JournalRead, a_durable_reader_never_passes_synced) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    JournalReader reader = journal.reader(JournalStart::oldest(), true);
    append(writer, 0, 10);
    EXPECT_EQ(read_all(reader), 0);
    writer.sync();
    append(writer, 10, 200);
    EXPECT_EQ(read_all(reader), 10);
    EXPECT_LE(reader.position(), journal.stats().synced);
    writer.sync();
    EXPECT_EQ(read_all(reader), 200);
    EXPECT_LE(reader.position(), journal.stats().synced);
    EXPECT_EQ(journal.reader(JournalStart::newest(), true).number(), 210);
}

TEST_F(JournalRead, trimmed_messages_are_counted_as_lost) {
    Journal journal = filled();
    JournalReader reader = journal.reader();
    for (int i = 0; i < 5; ++i) reader.take();
    ASSERT_GT(journal.trim(JournalTrim::position(3 * smallest)), 0U);
    EXPECT_EQ(journal.stats().trimmed, 3 * smallest);
    // It holds its segment open: it may read on there, and then misses the next one.
    const std::int64_t rest = read_all(reader);
    EXPECT_EQ(rest + reader.lost() + 5, 1000);
    EXPECT_GT(reader.lost(), 0);
    JournalReader late = journal.reader(JournalStart::number(0));
    EXPECT_EQ(late.lost(), late.number());
    EXPECT_EQ(read_all(late) + late.lost(), 1000);
    JournalReader below = journal.reader(JournalStart::position(positions_[10]));
    EXPECT_EQ(below.position(), 3 * smallest);
}

TEST_F(JournalRead, actions_end_a_poll) {
    Journal journal = filled(10);
    JournalReader reader = journal.reader();
    int seen = 0;
    const auto until = [&](int last, flyring::Action action) {
        return reader.poll(
            [&, last, action](const JournalMessage&) { return ++seen == last ? action : flyring::Action::CONTINUE; });
    };
    EXPECT_EQ(until(3, flyring::Action::BREAK), 3);
    EXPECT_EQ(reader.number(), 3);
    EXPECT_EQ(until(5, flyring::Action::ABORT), 1);
    EXPECT_EQ(reader.number(), 4);
    EXPECT_EQ(code_of([&] { until(6, static_cast<flyring::Action>(9)); }), "invalid-argument");
    EXPECT_EQ(reader.number(), 5);
    EXPECT_EQ(reader.poll([](const JournalMessage&) {}, 2), 2);
    EXPECT_EQ(reader.poll([](const JournalMessage&) {}, 0), 0);
    EXPECT_THROW(reader.poll([](const JournalMessage&) { throw std::logic_error("x"); }), std::logic_error);
    EXPECT_EQ(reader.number(), 8);
    EXPECT_TRUE(reader.poll([](const JournalMessage&) {}) == 2 && reader.ended());
}

/// Of a segment whose first check is damaged only what lies up to its next check cannot be found.
TEST_F(JournalRead, a_seek_passes_a_segment_without_its_first_check) {
    constexpr std::int64_t size = 1 << 17;  // two spans
    constexpr std::size_t messages = 700;
    for (std::int64_t segment = 1; segment < 6; ++segment) {
        Journal journal = Journal::create("j", options(size));
        std::vector<std::int64_t> positions;
        {
            JournalWriter writer = journals::writer(journal);
            for (std::size_t i = 0; i < messages; ++i) {
                positions.push_back(
                    writer.append(flyring::as_bytes(std::string(900, 'x')), 1, static_cast<std::int64_t>(10 * i)));
            }
        }
        const std::int64_t base = segment * size;
        for (std::uint64_t i = 0; i < 64; i += 8) support::poke<std::int64_t>(segment_file(base), 4096 + i, 0);
        std::size_t first = 0;
        while (positions[first] < base) ++first;
        std::size_t next = first;
        while (next < messages && positions[next] - positions[first] < 1 << 16) ++next;
        for (std::size_t wanted = 0; wanted < messages; wanted += 3) {
            SCOPED_TRACE("segment " + std::to_string(segment) + ", message " + std::to_string(wanted));
            const auto found = static_cast<std::int64_t>(wanted >= first && wanted < next ? next : wanted);
            const auto number = static_cast<std::int64_t>(wanted);
            const JournalReader reader = journal.reader(JournalStart::number(number));
            ASSERT_EQ(reader.number(), found);
            ASSERT_EQ(reader.lost(), found - number);
            ASSERT_EQ(journal.reader(JournalStart::time(10 * number - 9)).number(), found);
        }
        journal.close();
        Journal::unlink("j");
    }
}

}  // namespace
