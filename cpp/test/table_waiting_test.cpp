// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "faults.hpp"
#include "tables.hpp"

// Sleeping until a key or the table has changed (spec/table.md 8).

namespace {

using flyring::Table;
using flyring::TableWriter;
using support::code_of;
using tables::options;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class TableWaiting : public tables::TableTest {
  protected:
    /// Runs `wait` in a thread, `change` some time after it fell asleep, and returns how long the wait took after the
    /// change.
    template <typename Wait, typename Change>
    std::chrono::nanoseconds woken(Wait&& wait, Change&& change) {
        std::atomic<Clock::rep> ended{0};
        std::thread waiter([&] {
            wait();
            ended = Clock::now().time_since_epoch().count();
        });
        std::this_thread::sleep_for(10ms);
        EXPECT_EQ(ended.load(), 0) << "it did not wait";
        const auto start = Clock::now().time_since_epoch().count();
        change();
        waiter.join();
        return std::chrono::nanoseconds(ended.load() - start);
    }

    Table table = Table::create("t", options());
};

TEST_F(TableWaiting, a_wait_for_a_key_ends_with_its_next_change) {
    const std::int64_t first = table.put("a", "1");
    std::int64_t found = 0;
    const auto time = woken([&] { found = table.wait_changed("a", first); }, [&] { table.put("a", "2"); });
    EXPECT_EQ(found, table.get_versioned("a")->version);
    EXPECT_LT(time, 70ms);                             // the cap is 100 ms
    EXPECT_EQ(table.wait_changed("a", first), found);  // at once
    EXPECT_EQ(code_of([&] { table.wait_changed("a", found, 20ms); }), "timed-out");
    EXPECT_EQ(code_of([&] { table.wait_changed("a", found, 0ns); }), "timed-out");
}

TEST_F(TableWaiting, a_change_of_another_key_does_not_end_it) {
    const std::int64_t first = table.put("a", "1");
    table.put("b", "1");
    EXPECT_EQ(code_of([&] {
                  std::thread other([&] {
                      std::this_thread::sleep_for(10ms);
                      table.put("b", "2");
                  });
                  try {
                      table.wait_changed("a", first, 50ms);
                  } catch (...) {
                      other.join();
                      throw;
                  }
              }),
              "timed-out");
}

TEST_F(TableWaiting, a_wait_for_an_absent_key_ends_when_it_is_put) {
    std::int64_t found = 0;
    const auto time = woken([&] { found = table.wait_changed("a", 0); }, [&] { table.put("a", "1"); });
    EXPECT_EQ(found, table.get_versioned("a")->version);
    EXPECT_LT(time, 70ms);
}

TEST_F(TableWaiting, a_removed_key_ends_the_wait_with_0) {
    const std::int64_t first = table.put("a", "1");
    std::int64_t found = 7;
    EXPECT_LT(woken([&] { found = table.wait_changed("a", first); }, [&] { table.remove("a"); }), 70ms);
    EXPECT_EQ(found, 0);
}

TEST_F(TableWaiting, a_wait_for_the_table_ends_with_any_change) {
    table.put("a", "1");
    std::int64_t found = 0;
    EXPECT_LT(woken([&] { found = table.wait_changed(1); }, [&] { table.remove("a"); }), 70ms);
    EXPECT_EQ(found, 2);
    EXPECT_EQ(code_of([&] { table.wait_changed(2, 10ms); }), "timed-out");
}

// The fastest of some closes is far quicker than the cap of 100 ms.
TEST_F(TableWaiting, a_close_ends_the_waits_of_its_object) {
    const std::int64_t first = table.put("a", "1");
    for (int kind = 0; kind < 4; ++kind) {
        std::chrono::nanoseconds fastest = 1h;
        for (int i = 0; i < 5; ++i) {
            Table own = Table::open("t");
            auto entry = *own.entry("a");
            const auto wait = [&] {
                if (kind == 0) own.wait_changed("a", first);
                if (kind == 1) own.wait_changed("b", 0);
                if (kind == 2) own.wait_changed(own.version());
                if (kind == 3) entry.wait_changed(first);
            };
            fastest = std::min(fastest, woken([&] { EXPECT_EQ(code_of(wait), "closed"); }, [&] { own.close(); }));
        }
        EXPECT_LT(fastest, 60ms) << kind;
    }
}

TEST_F(TableWaiting, an_entry_waits_too_and_a_held_writer_wakes) {
    table.put("a", "1");
    auto entry = table.entry("a");
    TableWriter writer = table.writer();
    std::int64_t found = 0;
    const std::int64_t version = entry->version();
    EXPECT_LT(woken([&] { found = entry->wait_changed(version); }, [&] { writer.put("a", "2"); }), 70ms);
    EXPECT_EQ(found, entry->version());
}

TEST_F(TableWaiting, a_writer_that_wakes_no_one_is_looked_at_each_millisecond) {
    flyring::OpenTableOptions opening;
    opening.wake = false;
    Table silent = Table::open("t", opening);
    TableWriter writer = silent.writer();
    const std::int64_t first = writer.put("a", "1");
    EXPECT_LT(woken([&] { table.wait_changed("a", first); }, [&] { writer.put("a", "2"); }), 60ms);
    opening.wake = true;
    opening.read_only = true;
    Table reader = Table::open("t", opening);
    const std::int64_t second = reader.get_versioned("a")->version;
    EXPECT_LT(woken([&] { reader.wait_changed("a", second); }, [&] { writer.put("a", "3"); }), 60ms);
}

TEST_F(TableWaiting, a_single_put_wakes_and_says_so_in_the_slot) {
    table.put("a", "1");
    const flyring::detail::TableFile file = tables::raw("t");
    EXPECT_EQ(*file.slot().wakes(), *file.slot().epoch());
    flyring::OpenTableOptions opening;
    opening.wake = false;
    Table::open("t", opening).put("a", "2");
    EXPECT_EQ(*file.slot().epoch(), 2);
    EXPECT_EQ(*file.slot().wakes(), 0);
}

TEST_F(TableWaiting, a_single_change_opens_the_slot_of_a_writer_that_closed_it) {
    const flyring::detail::TableFile file = tables::raw("t");
    table.writer("feed").close();
    EXPECT_EQ(*file.slot().closed(), 1);
    table.put("a", "1");
    EXPECT_EQ(*file.slot().closed(), 0);
    EXPECT_EQ(*file.slot().wakes(), 2);
    EXPECT_EQ(file.slot().name(), "feed");  // the rest of the slot is the last held writer's
}

TEST_F(TableWaiting, a_sleeper_looks_each_millisecond_only_while_the_slot_has_an_owner_that_does_not_wake) {
    table.put("a", "1");
    const auto longest = [&] {  // of the first sleep
        std::int64_t slept = 0;
        const faults::Hook see([&](const faults::Call& call) {
            if (std::string(call.name) == "futex" && slept == 0 && call.until != 0) {
                slept = call.until - flyring::detail::clock_ns(CLOCK_MONOTONIC);
            }
            return 0;
        });
        EXPECT_EQ(code_of([&] { table.wait_changed("b", 0, 20ms); }), "timed-out");
        return std::chrono::nanoseconds(slept);
    };
    EXPECT_GT(longest(), 10ms);
    flyring::OpenTableOptions opening;
    opening.wake = false;
    Table silent = Table::open("t", opening);
    silent.put("a", "2");
    EXPECT_LE(longest(), 1ms);
    EXPECT_GT(longest(), 0ms);
    silent.writer().close();
    EXPECT_GT(longest(), 10ms);
}

TEST_F(TableWaiting, an_insert_and_a_remove_wake_when_the_size_is_right) {
    const flyring::detail::TableFile file = tables::raw("t");
    auto* const size = flyring::detail::word_at<std::int64_t>(file.control(), flyring::layout::TABLE_CONTROL_SIZE);
    auto* const intent = flyring::detail::word_at<std::uint64_t>(file.control(), flyring::layout::TABLE_CONTROL_INTENT);
    auto* const asleep = flyring::detail::word_at<std::uint32_t>(
        file.mapping.data(), tables::cell_offset(file, 0) + flyring::layout::TABLE_CELL_ASLEEP);
    const auto sizes = [&](auto change) {  // at each wake
        *asleep = *file.data().asleep = 1;
        std::vector<std::int64_t> seen;
        const faults::Hook see([&](const faults::Call& call) {
            if (std::string(call.name) == "futex") seen.push_back(*intent == 0 ? *size : -1);
            return 0;
        });
        change();
        return seen;
    };
    const std::vector<std::int64_t> one{1, 1};
    const std::vector<std::int64_t> none{0, 0};
    EXPECT_EQ(sizes([&] { table.put("a", "1"); }), one);
    EXPECT_EQ(sizes([&] { table.put("a", "2"); }), one);
    EXPECT_EQ(sizes([&] { table.remove("a"); }), none);
}

TEST_F(TableWaiting, sleepers_set_the_bit_and_a_put_clears_it) {
    const std::int64_t first = table.put("a", "1");
    const flyring::detail::TableFile file = tables::raw("t");
    const auto asleep = tables::cell_offset(file, 0) + flyring::layout::TABLE_CELL_ASLEEP;
    woken([&] { table.wait_changed("a", first); },
          [&] {
              EXPECT_EQ(support::peek<std::uint32_t>(table_file("t"), asleep), 1U);
              EXPECT_EQ(*file.data().asleep, 0U);
              table.put("a", "2");
          });
    EXPECT_EQ(support::peek<std::uint32_t>(table_file("t"), asleep), 0U);
}

TEST_F(TableWaiting, a_new_held_writer_wakes_those_that_wait_for_the_table) {
    const auto sequence = tables::control(flyring::layout::TABLE_CONTROL_DATA_SEQUENCE);
    TableWriter writer = table.writer();
    EXPECT_EQ(support::peek<std::uint32_t>(table_file("t"), sequence), 1U);
    writer.close();
    table.put("a", "1");  // a single put is a new owner, too, but wakes no process for that
    EXPECT_EQ(support::peek<std::uint32_t>(table_file("t"), sequence), 1U);
    flyring::OpenTableOptions opening;
    opening.wake = false;
    Table::open("t", opening).put("a", "2");  // the sleepers must look more often from now on
    EXPECT_EQ(support::peek<std::uint32_t>(table_file("t"), sequence), 2U);
}

TEST_F(TableWaiting, a_close_ends_waits) {
    const std::int64_t first = table.put("a", "1");
    std::string code;
    EXPECT_LT(woken([&] { code = code_of([&] { table.wait_changed("a", first); }); }, [&] { table.close(); }), 300ms);
    EXPECT_EQ(code, "closed");
}

}  // namespace
