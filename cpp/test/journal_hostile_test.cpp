// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "journals.hpp"

// Journals whose words or records are wrong: an error, and no crash, no hang, no read beyond a mapping (spec/journal.md
// 10).

namespace {

using namespace journals;
using support::code_of;

class JournalHostile : public JournalTest {
  protected:
    /// Uses everything; each verb may fail with an error of Flyring's.
    void use(const std::string& name) {
        const auto attempt = [](const std::function<void()>& action) {
            const std::string code = code_of(action);
            EXPECT_NE(code, "timed-out");
        };
        attempt([&] {
            Journal journal = Journal::open(name);
            attempt([&] { journal.stats(); });
            for (const bool skip : {false, true}) {
                for (const JournalStart start :
                     {JournalStart::oldest(), JournalStart::newest(), JournalStart::number(50), JournalStart::time(1),
                      JournalStart::position(64), JournalStart::position(smallest)}) {
                    attempt([&] {
                        JournalReader reader = journal.reader(start, false, skip);
                        const auto look = [](const JournalMessage& message) { EXPECT_LE(message.size(), 65536U); };
                        for (int i = 0; i < 20 && reader.poll(look) > 0; ++i) {
                        }
                    });
                }
                attempt([&] { journal.reader(JournalStart::oldest(), true, skip).take(); });
                attempt([&] {
                    JournalConsumer consumer = journal.consumer("c", JournalStart::oldest(), skip);
                    consumer.pop();
                    consumer.size();
                });
            }
            attempt([&] { journal.trim(JournalTrim::size(smallest)); });
            attempt([&] {
                JournalWriter writer = journals::writer(journal);
                append(writer, 0, 100);
                writer.sync();
            });
            attempt([&] { journal.trim(JournalTrim::consumed()); });
        });
    }
    void make() {
        Journal journal = Journal::create("j", options());
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 300);
        JournalConsumer consumer = journal.consumer("c");
        for (int i = 0; i < 100; ++i) consumer.take();
    }
};

TEST_F(JournalHostile, each_word_of_the_control_section_may_be_anything) {
    make();
    const std::int64_t values[] = {0,
                                   -1,
                                   1,
                                   64,
                                   63,
                                   smallest,
                                   7 * smallest,
                                   std::int64_t{1} << 40,
                                   std::int64_t{1} << 62,
                                   std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min()};
    for (std::uint64_t word = 0; word < 1024 + 256; word += 8) {
        if (word >= 544 && word < 768) continue;  // nothing is there
        for (const std::int64_t value : values) {
            copy("k");
            set_control_word(word, value, "k");
            use("k");
            std::filesystem::remove_all(journal_folder("k"));
            if (word < 64 || (word >= 768 && word < 1024)) break;  // flags, slots: one value is enough here
        }
    }
}

TEST_F(JournalHostile, each_part_of_a_header_is_checked) {
    make();
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        copy("k");
        const std::string file = round % 2 == 0 ? control_file("k") : segment_file(0, "k");
        const std::uint64_t at = random() % 128;
        const auto was = support::peek<std::uint8_t>(file, at);
        support::poke<std::uint8_t>(file, at, static_cast<std::uint8_t>(was ^ (1 + random() % 255)));
        use("k");
        std::filesystem::remove_all(journal_folder("k"));
    }
    copy("k");
    std::filesystem::resize_file(control_file("k"), 4096);
    EXPECT_EQ(code_of([] { Journal::open("k"); }), "truncated");
}

TEST_F(JournalHostile, records_may_be_anything) {
    make();
    std::mt19937 random(11);
    for (int round = 0; round < 300; ++round) {
        copy("k");
        const std::string file = segment_file(smallest * static_cast<std::int64_t>(random() % 2), "k");
        for (int i = 0; i < 5; ++i) {
            const std::uint64_t at = 4096 + 64 * (random() % 1024) + (random() % 4) * 4;
            const std::int32_t values[] = {0,         -1, 64, 16, 17,      65536,
                                           65536 / 4, -3, -4, 7,  1 << 30, std::numeric_limits<std::int32_t>::min()};
            support::poke<std::int32_t>(file, at, values[random() % std::size(values)]);
        }
        use("k");
        std::filesystem::remove_all(journal_folder("k"));
    }
}

TEST_F(JournalHostile, cuts_that_lead_back_or_nowhere_end) {
    make();
    const auto write_cut = [&](std::int64_t position, std::int64_t next, std::int64_t count) {
        std::byte bytes[64];
        flyring::detail::write_cut(bytes, {position, count, next, position, 1});
        const flyring::detail::Fd fd(
            ::open(segment_file(position / smallest * smallest, "k").c_str(), O_RDWR | O_CLOEXEC));
        ASSERT_EQ(::pwrite(fd.get(), bytes, 64, static_cast<off_t>(offset_in_segment(position))), 64);
    };
    for (const std::int64_t next : {std::int64_t{0}, std::int64_t{64}, smallest, 5 * smallest, std::int64_t{1} << 61}) {
        copy("k");
        write_cut(smallest, next, 50);
        write_cut(0, smallest, 0);
        use("k");
        std::filesystem::remove_all(journal_folder("k"));
    }
}

TEST_F(JournalHostile, a_segment_that_is_too_short_is_never_mapped) {
    make();
    for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{100}, std::uintmax_t{4096},
                                      std::uintmax_t{4096 + 65535}, std::uintmax_t{4096 + 65537}}) {
        for (const std::int64_t segment : {std::int64_t{0}, smallest, 2 * smallest}) {
            copy("k");
            if (std::filesystem::exists(segment_file(segment, "k"))) {
                std::filesystem::resize_file(segment_file(segment, "k"), size);
            }
            use("k");
            std::filesystem::remove_all(journal_folder("k"));
        }
    }
}

}  // namespace
