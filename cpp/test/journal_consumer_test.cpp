// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <functional>

#include "faults.hpp"
#include "journals.hpp"

// Named consumers and the deque that they make of a journal (spec/journal.md 6).

namespace {

using namespace journals;
using support::code_of;

class JournalConsumers : public JournalTest {
  protected:
    static constexpr std::uint64_t first_consumer = layout::JOURNAL_CONTROL_CONSUMERS;

    /// Opens a consumer of a new name, and calls `last` between the walk to its start, which needs no lock, and the
    /// control lock.
    static JournalConsumer open_beside(Journal& journal, const JournalStart& start, const std::function<void()>& last) {
        int locks = 0;
        int reads = 0;
        const faults::Hook hook([&](const faults::Call& call) {
            const std::string name = call.name;
            const bool control = name == "fcntl" && call.command == F_OFD_SETLK &&
                                 call.offset == layout::HEADER_LENGTH + layout::CONTROL_CONTROL_LOCK;
            if (control && call.lock == F_WRLCK && ++locks == 2) {
                EXPECT_GT(reads, 0);
                last();
            }
            if (control && call.lock == F_UNLCK) reads = 0;
            if (name == "pread") ++reads;
            return 0;
        });
        return journal.consumer("c", start);
    }
};

TEST_F(JournalConsumers, a_consumer_goes_on_where_it_stopped) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 500);
    for (int round = 0; round < 10; ++round) {
        JournalConsumer consumer = Journal::open("j").consumer("c", JournalStart::newest());
        if (round == 0) {
            EXPECT_EQ(consumer.number(), 500);
            consumer.forget();
            EXPECT_EQ(code_of([&] { consumer.take(); }), "closed");
            continue;
        }
        if (round == 1) {  // the name is new again
            EXPECT_EQ(consumer.number(), 500);
            append(writer, 500, 300);
        }
        EXPECT_EQ(consumer.number(), 500 + 20 * (round - 1));
        EXPECT_EQ(consumer.size(), 800 - consumer.number());
        EXPECT_EQ(
            consumer.poll([](const JournalMessage& message) { EXPECT_EQ(number_in(message), message.number()); }, 20),
            20);
    }
}

/// So that nothing waits for a long walk. A trim may come in between: then the messages are lost, and counted.
TEST_F(JournalConsumers, the_start_of_a_new_name_is_walked_to_without_the_control_lock) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 1000);
    writer.sync();
    bool trimmed = false;
    JournalConsumer consumer = open_beside(journal, JournalStart::number(10), [&] {
        EXPECT_GT(journal.trim(JournalTrim::size(smallest)), 0U);
        trimmed = true;
    });
    EXPECT_TRUE(trimmed);
    EXPECT_EQ(consumer.position(), journal.stats().trimmed);
    EXPECT_GT(consumer.lost(), 0);
    EXPECT_EQ(consumer.lost(), consumer.number() - 10);
    EXPECT_EQ(consumer.lost(), journal.stats().consumers[0].lost);
    EXPECT_EQ(consumer.take()->number(), 10 + consumer.lost());
}

TEST_F(JournalConsumers, a_consumer_of_the_same_name_may_come_first_during_the_walk) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 20);
    JournalConsumer consumer =
        open_beside(journal, JournalStart::number(10), [&] { journal.consumer("c", JournalStart::number(3)).take(); });
    EXPECT_EQ(consumer.number(), 4);
    EXPECT_EQ(consumer.epoch(), 2);
    EXPECT_EQ(read_all(consumer), 16);
    consumer.forget();
    std::optional<JournalConsumer> first;
    EXPECT_EQ(
        code_of([&] { open_beside(journal, JournalStart::number(10), [&] { first.emplace(journal.consumer("c")); }); }),
        "no-free-slot");
}

TEST_F(JournalConsumers, an_unlink_during_the_walk_is_no_such_channel) {
    Journal journal = Journal::create("j", options());
    {
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 20);
    }
    EXPECT_EQ(code_of([&] { open_beside(journal, JournalStart::number(10), [] { Journal::unlink("j"); }); }),
              "no-such-channel");
}

/// The walk to it is made under the control lock: it must not be made again and again.
TEST_F(JournalConsumers, a_gate_in_a_segment_that_is_gone_is_damaged) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 1000);
    journal.consumer("c").close();
    std::filesystem::remove(segment_file(2 * smallest));
    for (const std::int64_t gate : {2 * smallest, 2 * smallest + 64, 3 * smallest - 64}) {
        set_control_word(first_consumer + layout::JOURNAL_CONSUMER_GATE, gate);
        int reads = 0;
        const faults::Hook hook([&](const faults::Call& call) {
            reads += std::string(call.name) == "pread" ? 1 : 0;
            return 0;
        });
        EXPECT_EQ(code_of([&] { journal.consumer("c").take(); }), "damaged");
        EXPECT_LT(reads, 100);
    }
}

/// Behind the next right check, and the pair tells how many messages are lost.
TEST_F(JournalConsumers, a_gate_in_what_is_damaged_can_be_skipped) {
    for (const bool whole_segment : {true, false}) {
        Journal journal = Journal::create("j", options());
        JournalWriter writer = journals::writer(journal);
        append(writer, 0, 1000);
        writer.sync();
        std::int64_t gate = 0;
        std::int64_t number = 0;
        {
            JournalConsumer consumer = journal.consumer("c");
            while (consumer.position() < 2 * smallest + 320) consumer.pop();
            gate = consumer.position();
            number = consumer.number();
        }
        if (whole_segment) {
            std::filesystem::remove(segment_file(2 * smallest));
        } else {
            // In front of the gate: no walk leads there.
            support::poke<std::int64_t>(segment_file(2 * smallest), offset_in_segment(2 * smallest + 64), -1);
        }
        std::int64_t to = 0;
        std::int64_t gone = 0;
        try {
            journal.consumer("c");
            ADD_FAILURE();
        } catch (const flyring::Damaged& error) {
            EXPECT_EQ(error.from(), gate);
            to = error.to();
            gone = error.messages();
        }
        EXPECT_GT(to, gate);
        EXPECT_LE(to, 3 * smallest);
        {
            JournalConsumer consumer = journal.consumer("c", JournalStart::oldest(), true);
            EXPECT_EQ(consumer.position(), to + 64);
            EXPECT_GT(gone, 0);
            EXPECT_EQ(consumer.lost(), gone);
            EXPECT_EQ(consumer.number() - number, gone);
            EXPECT_EQ(journal.stats().consumers[0].lost, gone);
            const std::int64_t size = consumer.size();
            std::int64_t read = 0;
            while (consumer.take()) ++read;
            EXPECT_EQ(read, size);
        }
        JournalConsumer again = journal.consumer("c");
        EXPECT_EQ(again.lost(), gone);
        EXPECT_EQ(again.size(), 0);
        try {
            journal.reader(JournalStart::position(gate));
            ADD_FAILURE();
        } catch (const flyring::Damaged& error) {
            EXPECT_EQ(error.from(), gate);
            EXPECT_EQ(error.to(), to);
            EXPECT_EQ(error.messages(), -1);
        }
        const JournalReader reader = journal.reader(JournalStart::position(gate), false, true);
        EXPECT_EQ(reader.position(), to + 64);
        EXPECT_EQ(reader.lost(), 0);
        again.close();
        writer.close();
        journal.close();
        Journal::unlink("j");
    }
}

TEST_F(JournalConsumers, pop_peek_and_size_make_a_deque) {
    Journal journal = Journal::create("j", options());
    JournalConsumer consumer = journal.consumer("c");
    EXPECT_FALSE(consumer.pop());
    EXPECT_FALSE(consumer.peek());
    for (int i = 0; i < 5; ++i) journal.push(std::to_string(i));
    EXPECT_EQ(consumer.size(), 5);
    EXPECT_EQ(support::text(*consumer.peek()), "0");
    EXPECT_EQ(support::text(*consumer.peek()), "0");
    EXPECT_EQ(support::text(*consumer.pop()), "0");
    EXPECT_EQ(support::text(*consumer.pop(1s)), "1");
    EXPECT_EQ(consumer.size(), 3);
    consumer.sync();
    EXPECT_EQ(support::text(*consumer.peek()), "2");
}

TEST_F(JournalConsumers, a_name_has_one_owner_and_slots_are_limited) {
    flyring::JournalOptions made = options();
    made.consumers = 2;
    Journal journal = Journal::create("j", made);
    JournalConsumer one = journal.consumer("one");
    try {
        journal.consumer("one");
        FAIL();
    } catch (const flyring::NoFreeSlot& error) {
        EXPECT_EQ(error.kind(), "consumer");
        EXPECT_EQ(error.slots(), 2U);
        EXPECT_EQ(error.owners()[0].name, "one");
    }
    EXPECT_EQ(code_of([&] { journal.forget("one"); }), "busy");
    EXPECT_EQ(code_of([&] { journal.forget("two"); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { journal.consumer(""); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { journal.consumer("a b"); }), "invalid-argument");
    journal.consumer("two");
    EXPECT_EQ(code_of([&] { journal.consumer("three"); }), "no-free-slot");  // "two" is kept
    journal.forget("two");
    journal.consumer("three");
    one.close();
    EXPECT_EQ(journal.consumer("one").slot(), 0U);
}

TEST_F(JournalConsumers, the_gate_is_stored_within_a_long_poll_and_at_its_end) {
    Journal journal = Journal::create("j", options(1 << 20));
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 1000);
    JournalConsumer consumer = journal.consumer("c");
    const auto gate = [&] { return control_word<std::int64_t>(first_consumer + layout::JOURNAL_CONSUMER_GATE); };
    EXPECT_EQ(gate(), 0);
    std::int64_t furthest = 0;
    consumer.poll(
        [&](const JournalMessage& message) {
            furthest = std::max(furthest, message.position() - gate());
            EXPECT_LE(message.position() - gate(), 65536 + 1024);
        },
        1000);
    EXPECT_GT(furthest, 65000);
    EXPECT_EQ(gate(), consumer.position());
    append(writer, 1000, 3);
    consumer.poll([&](const JournalMessage& message) {
        if (message.number() == 1001) {
            EXPECT_EQ(gate(), message.position());
        }
        return message.number() == 1000 ? flyring::Action::COMMIT : flyring::Action::CONTINUE;
    });
    EXPECT_EQ(gate(), consumer.position());
}

TEST_F(JournalConsumers, a_gate_may_lie_behind_a_record_that_is_not_yet_published) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 500);
    writer.sync();
    const std::int64_t last = writer.append("the last one");
    const std::int64_t end = writer.position();
    {
        JournalConsumer consumer = journal.consumer("c");
        consumer.poll([](const JournalMessage&) {}, 1000);
        EXPECT_EQ(consumer.position(), end);
    }
    set_control_word(layout::JOURNAL_CONTROL_PUBLISHED, last);  // as a writer that is stopped behind append 5
    for (int i = 0; i < 2; ++i) {
        JournalConsumer consumer = journal.consumer("c");
        EXPECT_EQ(consumer.position(), end);
        EXPECT_EQ(consumer.number(), 501);
        EXPECT_EQ(consumer.lost(), 0);
        EXPECT_FALSE(consumer.take());
    }
    EXPECT_GT(journal.trim(JournalTrim::consumed()), 0U);
    const std::uint64_t gate = first_consumer + layout::JOURNAL_CONSUMER_GATE;
    const auto claimed = control_word<std::int64_t>(layout::JOURNAL_CONTROL_CLAIMED);
    for (const std::int64_t wrong : {end + 64, claimed, claimed + 64}) {
        set_control_word(gate, wrong);
        EXPECT_EQ(code_of([&] { journal.consumer("c"); }), "corrupt-journal") << wrong;
    }
    set_control_word(gate, end);
    set_control_word(layout::JOURNAL_CONTROL_PUBLISHED, end);
    writer.append("another");
    EXPECT_EQ(support::text(*journal.consumer("c").take()), "another");
}

TEST_F(JournalConsumers, a_handler_that_throws_has_consumed_its_message) {
    Journal journal = Journal::create("j", options());
    for (int i = 0; i < 3; ++i) journal.push(std::to_string(i));
    {
        JournalConsumer consumer = journal.consumer("c");
        EXPECT_THROW(consumer.poll([](const JournalMessage&) { throw std::logic_error("x"); }), std::logic_error);
    }
    EXPECT_EQ(support::text(*journal.consumer("c").pop()), "1");
}

TEST_F(JournalConsumers, each_state_of_a_store_of_the_gate_leaves_a_pair_that_proves_it) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 20);
    JournalConsumer consumer = journal.consumer("c");
    const std::string file = control_file();
    for (int round = 0; round < 8; ++round) {
        const std::vector<std::byte> before = support::read_file(file);
        consumer.take();
        const std::vector<std::byte> after = support::read_file(file);
        // The words of the slot change one after the other, the gate last; the pair begins with -1.
        const std::uint64_t slot = layout::HEADER_LENGTH + first_consumer;
        for (std::uint64_t words = 0; words <= 12; ++words) {
            std::vector<std::byte> now = before;
            for (std::uint64_t word = 0; word < words; ++word) {
                const std::uint64_t at = slot + layout::JOURNAL_CONSUMER_PAIR_0 + word * 8;
                std::copy_n(after.begin() + static_cast<std::ptrdiff_t>(at), 8,
                            now.begin() + static_cast<std::ptrdiff_t>(at));
            }
            const std::string name = "k" + std::to_string(round) + "." + std::to_string(words);
            copy(name);
            support::write_file(control_file(name), now);
            JournalConsumer next = Journal::open(name).consumer("c");
            EXPECT_EQ(next.number(), round);
            EXPECT_EQ(next.lost(), 0);
            EXPECT_EQ(read_all(next), 20 - round);
            std::filesystem::remove_all(journal_folder(name));
        }
    }
}

TEST_F(JournalConsumers, a_killed_consumer_gets_again_what_it_had_since_the_last_store) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 100);
    support::Child child([&](const support::Child::Ready& ready) {
        JournalConsumer consumer = Journal::open("j").consumer("c");
        consumer.poll([](const JournalMessage&) {}, 30);
        consumer.poll([&](const JournalMessage& message) {
            if (message.number() == 50) {
                ready();
                ::pause();
            }
        });
        return false;
    });
    child.wait_until_ready();
    EXPECT_EQ(code_of([&] { journal.consumer("c"); }), "no-free-slot");
    child.kill();
    JournalConsumer next = journal.consumer("c");
    EXPECT_EQ(next.number(), 30);
    EXPECT_EQ(read_all(next), 70);
}

TEST_F(JournalConsumers, a_gate_out_of_reach_is_corrupt_for_its_consumer_only) {
    Journal journal = Journal::create("j", options());
    JournalWriter writer = journals::writer(journal);
    append(writer, 0, 100);
    journal.consumer("c");
    for (const std::int64_t gate : {std::int64_t{-64}, std::int64_t{33}, std::int64_t{1} << 40}) {
        set_control_word<std::int64_t>(first_consumer + layout::JOURNAL_CONSUMER_GATE, gate);
        EXPECT_EQ(code_of([&] { journal.consumer("c"); }), "corrupt-journal") << gate;
        EXPECT_EQ(journal.consumer("other").number(), 0);
        journal.forget("other");
    }
    journal.forget("c");
    EXPECT_EQ(journal.consumer("c").number(), 0);
}

}  // namespace
