// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <random>

#include "faults.hpp"
#include "journals.hpp"

// What a power loss, or a sync that fails, leaves of a journal, and the recovery (spec/journal.md 5, 7).

namespace {

using namespace journals;
using support::code_of;

class JournalRecoveries : public JournalTest {};

TEST_F(JournalRecoveries, another_boot_is_recovered_by_a_writer) {
    {
        Journal journal = boot(1).create("j", options());
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 200);
        writer.sync();
        append(writer, 200, 50);
        journal.consumer("c");
        JournalConsumer far = journal.consumer("far");
        read_all(far);
        EXPECT_EQ(far.number(), 250);
        writer.close(false);
    }
    Journal journal = boot(2).open("j");
    EXPECT_TRUE(journal.stats().needs_recovery);
    JournalReader reader = journal.reader();
    EXPECT_EQ(read_all(reader), 200);  // what is proven
    EXPECT_EQ(code_of([&] { journal.consumer("c"); }), "needs-recovery");
    EXPECT_EQ(code_of([&] { journal.trim(JournalTrim::consumed()); }), "needs-recovery");
    EXPECT_EQ(code_of([&] { journal.forget("c"); }), "needs-recovery");
    EXPECT_EQ(journal.reader(JournalStart::newest()).number(), 200);
    JournalWriter writer = journals::writer(journal);
    ASSERT_TRUE(writer.recovery());
    EXPECT_EQ(writer.recovery()->messages, 200);
    EXPECT_EQ(writer.recovery()->position, reader.position());
    EXPECT_GT(writer.recovery()->reached, writer.recovery()->position);
    EXPECT_EQ(writer.recovery()->next % smallest, 0);
    EXPECT_EQ(writer.position(), writer.recovery()->next + 64);
    EXPECT_EQ(writer.number(), 200);
    append(writer, 200, 30);
    EXPECT_EQ(read_all(reader), 30);
    EXPECT_EQ(reader.cuts(), 1);
    JournalReader late = journal.reader();
    EXPECT_EQ(read_all(late), 230);
    EXPECT_EQ(journal.consumer("c").number(), 0);
    JournalConsumer far = journal.consumer("far");
    EXPECT_EQ(far.number(), 200);  // it had confirmed what is gone
    EXPECT_EQ(read_all(far), 30);
    // A position in the cut leads on.
    JournalReader within = journal.reader(JournalStart::position(writer.recovery()->position + 64));
    EXPECT_EQ(within.number(), 200);
    EXPECT_EQ(within.position(), writer.recovery()->next);
    writer.close();
    EXPECT_FALSE(journals::writer(journal).recovery());
}

// Below `synced` it loses what is damaged, exactly. What is not proven behind it is not damaged: it waits there, and
// the recovery cuts it off.
TEST_F(JournalRecoveries, a_reader_that_skips_in_another_boot_loses_only_what_was_durable) {
    std::vector<std::int64_t> positions;
    {
        Journal journal = boot(1).create("j", options());
        JournalWriter writer = journals::writer(journal);
        positions = append(writer, 0, 1000);
        writer.sync();
        const std::vector<std::int64_t> more = append(writer, 1000, 1000);
        positions.insert(positions.end(), more.begin(), more.end());
        writer.close(false);
    }
    for (const std::size_t message : {std::size_t{300}, std::size_t{1500}}) {
        const std::string file = segment_file(positions[message] & ~(smallest - 1));
        const std::uint64_t at = offset_in_segment(positions[message]) + 20;
        support::poke<std::uint8_t>(file, at, static_cast<std::uint8_t>(~support::peek<std::uint8_t>(file, at)));
    }
    Journal journal = boot(2).open("j");
    JournalReader reader = journal.reader(JournalStart::oldest(), false, true);
    const std::int64_t read = read_all(reader);
    const std::int64_t lost = reader.lost();
    EXPECT_GT(lost, 0);
    EXPECT_LE(positions[300 + static_cast<std::size_t>(lost)] - positions[300], 65536 + 1024);
    EXPECT_EQ(reader.number(), read + lost);
    EXPECT_GT(reader.number(), 1000);
    EXPECT_LE(reader.number(), 1500);
    JournalWriter writer = journals::writer(journal);
    ASSERT_TRUE(writer.recovery());
    EXPECT_EQ(writer.recovery()->messages, reader.number());
    append(writer, reader.number(), 10);
    EXPECT_EQ(read_all(reader), 10);
    EXPECT_EQ(reader.lost(), lost);
    EXPECT_EQ(reader.cuts(), 1);
}

TEST_F(JournalRecoveries, what_is_synced_to_the_end_is_not_cut) {
    {
        Journal journal = boot(1).create("j", options());
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 100);
    }
    std::uint64_t checked = 0;
    std::uint64_t bytes = 0;
    flyring::OpenJournalOptions opening;
    opening.recovery_progress = [&](std::uint64_t done, std::uint64_t all) { checked = done, bytes = all; };
    Journal journal = boot(2).open("j", opening);
    JournalWriter writer = journals::writer(journal);
    ASSERT_TRUE(writer.recovery());
    EXPECT_EQ(writer.recovery()->reached, writer.recovery()->position);
    EXPECT_EQ(writer.number(), 100);
    EXPECT_GT(bytes, 0U);
    EXPECT_EQ(checked, bytes);
    append(writer, 100, 10);
    JournalReader reader = journal.reader();
    EXPECT_EQ(read_all(reader), 110);
}

TEST_F(JournalRecoveries, a_recovery_that_is_killed_is_done_again) {
    {
        Journal journal = boot(1).create("j", options());
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 300);
        writer.sync();
        append(writer, 300, 100);
        writer.close(false);
    }
    // Each system call of the recovery is its last one once.
    for (int last = 0;; ++last) {
        copy("k");
        int calls = 0;
        bool ended = false;
        {
            const faults::Hook kill([&](const faults::Call& call) {
                const std::string name = call.name;
                const bool counts = name == "fdatasync" || name == "fsync" || name == "linkat" || name == "unlink" ||
                                    name == "posix_fallocate" || name == "rename";
                return counts && calls++ >= last ? EIO : 0;
            });
            try {
                Journal journal = boot(2).open("k");
                journals::writer(journal);
                ended = calls <= last;
            } catch (const flyring::FlyringError&) {
            }
        }
        Journal journal = boot(3).open("k");
        JournalWriter writer = journals::writer(journal);
        EXPECT_EQ(writer.number(), 300) << last;
        append(writer, 300, 200);
        JournalReader reader = journal.reader();
        EXPECT_EQ(read_all(reader), 500) << last;
        std::filesystem::remove_all(journal_folder("k"));
        if (ended) break;
        ASSERT_LT(last, 60);
    }
}

TEST_F(JournalRecoveries, a_sync_that_fails_ends_the_writer_and_the_next_one_writes_again) {
    Journal journal = Journal::create("j", options());
    JournalReader reader = journal.reader();
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 150);
    {
        const faults::Hook fail(
            [](const faults::Call& call) { return std::string(call.name) == "fdatasync" ? ENOSPC : 0; });
        try {
            writer.sync();
            FAIL();
        } catch (const flyring::IoError& error) {
            EXPECT_EQ(error.error(), ENOSPC);
        }
    }
    try {
        writer.append("x");
        FAIL();
    } catch (const flyring::IoError& error) {
        EXPECT_EQ(error.error(), ENOSPC);
    }
    EXPECT_EQ(code_of([&] { writer.sync(); }), "io");
    EXPECT_TRUE(journal.stats().failed);
    EXPECT_EQ(journal.stats().synced, 0);
    EXPECT_EQ(read_all(reader), 150);  // readers go on
    EXPECT_EQ(code_of([&] { writer.close(); }), "none");
    {
        const faults::Hook fail(
            [](const faults::Call& call) { return std::string(call.name) == "fdatasync" ? EIO : 0; });
        EXPECT_EQ(code_of([&] { journals::writer(journal); }), "io");
        EXPECT_TRUE(journal.stats().failed);
    }
    JournalWriter next = journals::writer(journal);
    EXPECT_FALSE(next.recovery());
    EXPECT_FALSE(journal.stats().failed);
    EXPECT_EQ(journal.stats().synced, next.position() - 64);
    EXPECT_EQ(next.number(), 150);
    append(next, 150, 10);
    EXPECT_EQ(read_all(reader), 10);
}

TEST_F(JournalRecoveries, pages_that_the_kernel_dropped_are_cut_off) {
    Journal journal = Journal::create("j", options());
    JournalReader reader = journal.reader();
    {
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 100);
        writer.sync();
        append(writer, 100, 200);
        EXPECT_EQ(read_all(reader), 300);
        const faults::Hook fail(
            [](const faults::Call& call) { return std::string(call.name) == "fdatasync" ? EIO : 0; });
        EXPECT_EQ(code_of([&] { writer.sync(); }), "io");
    }
    const std::int64_t synced = journal.stats().synced;
    // A page behind `synced` is as it was on the disk: empty.
    std::vector<std::byte> bytes = support::read_file(segment_file(0));
    const std::size_t page = (offset_in_segment(synced) / 4096 + 2) * 4096;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(page), 4096, std::byte{0});
    {
        const flyring::detail::Fd fd(::open(segment_file(0).c_str(), O_RDWR | O_CLOEXEC));
        ASSERT_EQ(::pwrite(fd.get(), bytes.data() + page, 4096, static_cast<off_t>(page)), 4096);
    }
    JournalWriter next = journals::writer(journal);
    ASSERT_TRUE(next.recovery());
    EXPECT_EQ(next.recovery()->reason, flyring::JournalRecovery::Reason::failed_sync);
    EXPECT_GE(next.number(), 100);
    EXPECT_LT(next.number(), 300);
    const std::int64_t kept = next.number();
    append(next, kept, 50);
    JournalReader late = journal.reader();
    EXPECT_EQ(read_all(late), kept + 50);
    // The reader had read what is gone; it goes on behind the cut.
    std::int64_t seen = 0;
    for (int i = 0; i < 2000 && seen < 50; ++i) seen += read_all(reader);
    EXPECT_EQ(seen, 50);
    EXPECT_EQ(reader.cuts(), 1);
}

TEST_F(JournalRecoveries, a_spinning_reader_finds_the_cut) {
    Journal journal = Journal::create("j", options());
    std::optional<JournalWriter> writer = journals::writer(journal);
    append(*writer, 0, 3);
    writer->sync();
    append(*writer, 3, 20);
    JournalReader reader = journal.reader();
    JournalReader member = journal.reader();
    ASSERT_EQ(read_all(reader), 23);
    ASSERT_EQ(read_all(member), 23);
    {
        const faults::Hook fail(
            [](const faults::Call& call) { return std::string(call.name) == "fdatasync" ? EIO : 0; });
        EXPECT_EQ(code_of([&] { writer->sync(); }), "io");
    }
    writer.reset();
    read_all(reader);  // past the check of that sync
    read_all(member);
    reader.set_spin(1h);
    flyring::WaitSet set;
    set.add(member);
    set.set_spin(1h);
    std::optional<std::int64_t> found;
    std::thread spins([&] {
        if (const auto message = reader.take(20s)) found = message->number();
    });
    std::size_t ready = 0;
    std::thread spins_in_set([&] { ready = set.wait(20s).size(); });
    std::this_thread::sleep_for(20ms);
    // A page behind `synced` is as it was on the disk: empty.
    const std::int64_t page = (static_cast<std::int64_t>(offset_in_segment(journal.stats().synced)) / 4096 + 1) * 4096;
    {
        const flyring::detail::Fd fd(::open(segment_file(0).c_str(), O_RDWR | O_CLOEXEC));
        const std::vector<std::byte> empty(4096);
        ASSERT_EQ(::pwrite(fd.get(), empty.data(), empty.size(), page), 4096);
    }
    JournalWriter next = journals::writer(journal);
    EXPECT_TRUE(next.recovery());
    const std::int64_t number = next.number();
    append(next, number, 1);
    spins.join();
    spins_in_set.join();
    EXPECT_EQ(found, number);
    EXPECT_EQ(reader.cuts(), 1);
    EXPECT_EQ(ready, 1U);
    EXPECT_EQ(read_all(member), 1);
    EXPECT_EQ(member.cuts(), 1);
}

/// A disk that writes the pages of a journal's files in any order. Of each file it holds what the last sync of that
/// file wrote, and each state of each sector since then may have reached it.
class Disk {
  public:
    explicit Disk(std::string folder) : folder_(std::move(folder)) {}

    /// To be called after each change.
    void note() {
        for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
            const std::string name = entry.path().filename();
            std::vector<std::byte> now = support::read_file(entry.path());
            auto& states = states_[name];
            if (states.empty() || states.back() != now) states.push_back(std::move(now));
        }
    }
    /// All segments are synced; the control file is not.
    void sync() {
        note();
        for (auto& [name, states] : states_) {
            if (name != "control") states.erase(states.begin(), states.end() - 1);
        }
    }
    void forget_control() { states_.erase("control"); }

    void lose(std::mt19937& random) {
        note();
        const auto mode = random() % 3;  // any state of each page, mostly the oldest, mostly the newest
        for (auto& [name, states] : states_) {
            if (!std::filesystem::exists(folder_ + "/" + name)) continue;
            std::vector<std::byte> left = states.front();
            const std::vector<std::byte>* from = nullptr;
            for (std::size_t sector = 0; sector < left.size(); sector += 512) {
                if (sector % 4096 == 0 || random() % 64 == 0) {
                    std::size_t which = random() % states.size();
                    if (mode != 0 && random() % 6 != 0) which = mode == 1 ? 0 : states.size() - 1;
                    from = &states[which];
                }
                std::copy_n(from->begin() + static_cast<std::ptrdiff_t>(sector), 512,
                            left.begin() + static_cast<std::ptrdiff_t>(sector));
            }
            support::write_file(folder_ + "/" + name, left);
        }
        states_.clear();
    }

  private:
    std::string folder_;
    std::map<std::string, std::vector<std::vector<std::byte>>> states_;
};

TEST_F(JournalRecoveries, any_mix_of_old_and_new_pages_keeps_what_was_synced_and_no_half) {
    int cut_off = 0;
    for (unsigned round = 0; round < 40; ++round) {
        std::mt19937 random(round);
        std::filesystem::remove_all(journal_folder());
        boot(1).create("j", options());
        std::map<std::int64_t, std::string> outside;  // positions that were handed out, and what was there
        std::vector<std::string> all;                 // what the journal has, by number
        std::size_t synced = 0;
        for (std::uint8_t life = 1; life <= 3; ++life) {
            Disk disk(journal_folder());
            disk.note();
            {
                Journal journal = boot(life).open("j");
                JournalWriter writer = journals::writer(journal);
                JournalConsumer consumer = journal.consumer("c");
                ASSERT_EQ(writer.number(), static_cast<std::int64_t>(all.size()));
                disk.sync();
                disk.forget_control();
                disk.note();
                synced = all.size();
                for (int i = 0; i < 30; ++i) {
                    std::string text(random() % 6000, static_cast<char>('a' + random() % 26));
                    text += std::to_string(random());
                    const std::int64_t position = writer.append(text);
                    outside[position] = text;
                    all.push_back(std::move(text));
                    if (random() % 3 == 0) consumer.take();
                    if (random() % 10 == 0) {
                        writer.sync();
                        synced = all.size();
                        disk.sync();
                    } else {
                        disk.note();
                    }
                }
                writer.close(false);
            }
            disk.lose(random);
            const auto next = boot(static_cast<std::uint8_t>(life + 1));
            Journal journal = next.open("j");
            // A reader before the recovery.
            std::int64_t number = 0;
            JournalReader before = journal.reader();
            while (before.poll([&](const JournalMessage& message) {
                ASSERT_LT(static_cast<std::size_t>(message.number()), all.size());
                ASSERT_EQ(support::text(message), all[static_cast<std::size_t>(message.number())]) << round;
                ++number;
            }) > 0) {
            }
            ASSERT_GE(static_cast<std::size_t>(number), synced) << "round " << round;
            JournalWriter writer = journals::writer(journal);
            ASSERT_EQ(writer.number(), number);
            ASSERT_TRUE(writer.recovery());
            cut_off += writer.recovery()->reached > writer.recovery()->position;
            all.resize(static_cast<std::size_t>(number));
            // A position that was handed out never holds another record.
            writer.append("new");
            all.emplace_back("new");
            for (const auto& [position, text] : outside) {
                JournalReader reader = journal.reader(JournalStart::position(position));
                const auto message = reader.take();
                if (message && message->position() == position) {
                    ASSERT_EQ(support::text(*message), text) << "round " << round;
                } else {
                    ASSERT_TRUE(!message || message->position() > position);
                }
            }
            JournalConsumer consumer = journal.consumer("c");
            std::int64_t seen = consumer.number();
            while (const auto message = consumer.pop()) {
                ASSERT_EQ(message->number(), seen++);
                ASSERT_EQ(support::text(*message), all[static_cast<std::size_t>(message->number())]);
            }
            ASSERT_EQ(seen, static_cast<std::int64_t>(all.size()));
            ASSERT_EQ(consumer.lost(), 0);
            outside[writer.recovery()->next + 64] = "new";
            writer.close(false);
            synced = 0;
            // What the next life begins with is durable.
            journals::writer(journal).sync();
        }
    }
    EXPECT_GT(cut_off, 10) << "the disk is too kind";
}

}  // namespace
