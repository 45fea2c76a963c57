// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "tables.hpp"

// What is left of a writer that is killed or stopped at any moment (spec/table.md 1, 5.1).

namespace {

using flyring::Table;
using flyring::TableWriter;
using support::Child;
using support::code_of;
using tables::content;
using tables::number_of;
using tables::numbered;
using tables::options;
using namespace std::chrono_literals;
namespace layout = flyring::layout;

class TableSurvivors : public tables::TableTest {
  protected:
    /// Puts and removes keys at full speed, until it is killed.
    static bool write_for_ever(bool held, unsigned seed, const Child::Ready& ready) {
        Table table = Table::open("t");
        std::mt19937 random(seed);
        std::optional<TableWriter> writer;
        if (held) writer = table.writer("feed");
        ready();
        for (std::uint64_t number = 1;; ++number) {
            const std::string key = std::to_string(random() % keys);
            const std::string value = numbered(number);
            if (random() % 3 == 0) {
                held ? writer->remove(key) : table.remove(key);
            } else {
                held ? writer->put(key, value) : table.put(key, value);
            }
        }
        return true;
    }

    /// Checks each rule of table.md 3 to 7 that holds between two changes. The slot must be free, and the next owner
    /// must have finished what its predecessor began.
    void check_all(const std::string& where) {
        const flyring::detail::TableFile file = tables::raw("t");
        flyring::detail::TableChanges changes(file);
        const flyring::detail::TableView& view = changes.view();
        std::vector<int> entries(view.cell_count());
        std::vector<int> free(view.cell_count());
        const std::int64_t generation = *view.generation();
        std::int64_t filled = 0;
        for (std::uint64_t at = 0; at < view.entries(); ++at) {
            const std::uint64_t entry = view.copy(generation)[at];
            if (entry != 0) ++filled;
            if (view.cell_of(entry) != flyring::detail::no_cell) ++entries[view.cell_of(entry)];
        }
        ASSERT_LE(filled, *changes.filled(generation)) << where;
        std::uint64_t length = 0;
        for (std::uint32_t next = *changes.top(); next != 0; next = *changes.next(next - 1)) {
            ASSERT_LT(length++, view.cell_count()) << where << ": the stack has a circle";
            ++free[next - 1];
        }
        std::int64_t size = 0;
        for (std::uint64_t cell = 0; cell < view.cell_count(); ++cell) {
            const bool live = changes.is_live(cell);
            size += live ? 1 : 0;
            ASSERT_EQ(entries[cell], live ? 1 : 0) << where << ": entries of cell " << cell;
            ASSERT_EQ(free[cell], live || cell >= view.fresh() ? 0 : 1) << where << ": cell " << cell << " is lost";
            ASSERT_TRUE(!live || cell < view.fresh()) << where;
        }
        ASSERT_EQ(*changes.size(), size) << where;
        ASSERT_EQ(*changes.intent(), 0U) << where;
        ASSERT_EQ(*view.changed(), *changes.stamp()) << where;
    }

    static constexpr unsigned keys = 60;
    Table table = Table::create("t", options(keys));
};

TEST_F(TableSurvivors, a_killed_writer_leaves_whole_values_and_the_next_one_goes_on) {
    std::map<std::string, std::int64_t> versions;
    for (unsigned round = 0; round < 120; ++round) {
        const bool held = round % 2 == 0;
        Child writer([&](const Child::Ready& ready) { return write_for_ever(held, round, ready); });
        writer.wait_until_ready();
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(200 + 37 * round);
        std::map<std::string, std::int64_t> seen;
        while (std::chrono::steady_clock::now() < end) {
            for (unsigned key = 0; key < keys; ++key) {
                const auto found = table.get_versioned(std::to_string(key));
                if (!found) continue;
                ASSERT_GE(number_of(found->value), 0) << "torn";
                std::int64_t& last = versions[std::to_string(key)];
                ASSERT_GE(found->version, last) << "a version fell back";
                last = found->version;
            }
        }
        writer.kill();
        const auto before = content(table);
        for (const auto& [key, value] : before) ASSERT_GE(number_of(value), 0) << key;
        table.remove("none");  // takes the slot, which is free at once
        ASSERT_EQ(content(table), before) << "what readers saw was undone";
        check_all("round " + std::to_string(round));
        table.clear();
    }
}

TEST_F(TableSurvivors, a_stopped_writer_holds_up_writers_only) {
    table.put("a", numbered(1));
    Child writer([](const Child::Ready& ready) {
        Table own = Table::open("t");
        TableWriter held = own.writer("stopped");
        ready();
        for (std::uint64_t number = 1;; ++number) held.put("a", numbered(number));
        return true;
    });
    writer.wait_until_ready();
    std::this_thread::sleep_for(2ms);
    writer.signal(SIGSTOP);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) ASSERT_GE(number_of(*table.get("a")), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
    try {
        table.put("a", "x", 5ms);
        FAIL();
    } catch (const flyring::NoFreeSlot& error) {
        EXPECT_EQ(error.owners().at(0).pid, writer.pid());
    }
    writer.kill();
    EXPECT_GT(table.put("a", numbered(7)), 0);
    EXPECT_EQ(table.get("a"), numbered(7));
}

TEST_F(TableSurvivors, a_writer_that_was_stopped_and_lost_its_lock_stores_nothing_more) {
    TableWriter writer = table.writer();
    writer.put("a", "1");
    // Other code of this process closes every descriptor, and so gives up the lock.
    for (int fd = 3; fd < 64; ++fd) {
        if (::lseek(fd, 0, SEEK_CUR) > (1L << 32)) ::close(fd);
    }
    Table next = Table::open("t");
    next.put("a", "2");
    EXPECT_EQ(code_of([&] { writer.put("a", "3"); }), "slot-lost");
    EXPECT_EQ(next.get("a"), "2");
}

TEST_F(TableSurvivors, readers_and_a_writer_at_full_speed_never_see_torn_values_or_older_ones) {
    for (std::uint64_t key = 0; key < 8; ++key) table.put(std::to_string(key), numbered(0));
    Child writer([](const Child::Ready& ready) {
        Table own = Table::open("t");
        TableWriter held = own.writer();
        ready();
        for (std::uint64_t number = 1;; ++number) held.put(std::to_string(number % 8), numbered(number));
        return true;
    });
    writer.wait_until_ready();
    const auto read = [&] {
        std::map<std::uint64_t, std::int64_t> last;
        auto entry = table.entry("3");
        const auto end = std::chrono::steady_clock::now() + 300ms;
        std::uint64_t reads = 0;
        while (std::chrono::steady_clock::now() < end) {
            for (std::uint64_t key = 0; key < 8; ++key) {
                const auto found = key == 3 ? entry->get_versioned() : table.get_versioned(std::to_string(key));
                ASSERT_TRUE(found.has_value());
                ASSERT_GE(number_of(found->value), 0);
                ASSERT_GE(found->version, last[key]);
                ASSERT_EQ(number_of(found->value) == 0 ? 0 : number_of(found->value) % 8,
                          number_of(found->value) == 0 ? 0 : static_cast<std::int64_t>(key));
                last[key] = found->version;
                ++reads;
            }
        }
        EXPECT_GT(reads, 1000U);
    };
    support::race(read, read);
    writer.kill();
}

TEST_F(TableSurvivors, a_key_that_is_there_is_found_while_the_index_is_rebuilt_all_the_time) {
    Table small = Table::create("small", options(8));
    small.put("stable", "x");
    std::atomic<bool> end{false};
    std::vector<std::thread> readers;
    std::atomic<int> missed{0};
    for (int i = 0; i < 4; ++i) {  // more threads than cores: some are stopped in the middle of a search
        readers.emplace_back([&] {
            while (!end.load()) {
                if (!small.contains("stable")) ++missed;
            }
        });
    }
    TableWriter writer = small.writer();
    const auto stop = std::chrono::steady_clock::now() + 400ms;
    for (std::uint64_t number = 0; std::chrono::steady_clock::now() < stop; ++number) {
        writer.put(std::to_string(number), "y");
        writer.remove(std::to_string(number));
    }
    end = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(missed.load(), 0);
    EXPECT_GT(support::peek<std::int64_t>(table_file("small"), tables::control(layout::TABLE_CONTROL_GENERATION)), 100);
}

TEST_F(TableSurvivors, a_reader_that_is_killed_leaves_nothing) {
    table.put("a", "1");
    for (int i = 0; i < 5; ++i) {
        Child reader([](const Child::Ready& ready) {
            const Table own = Table::open("t");
            ready();
            for (;;) own.get("a");
            return true;
        });
        reader.wait_until_ready();
        reader.kill();
        EXPECT_GT(table.put("a", std::to_string(i)), 0);
    }
    EXPECT_EQ(table.get("a"), "4");
}

TEST_F(TableSurvivors, a_killed_writer_of_a_table_that_grows_loses_nothing) {
    for (unsigned round = 0; round < 20; ++round) {
        const std::uint64_t before = table.size();
        Child writer([&](const Child::Ready& ready) {
            Table own = Table::open("t");
            ready();
            for (std::uint64_t number = 0;; ++number) {
                try {
                    own.put(std::to_string(round) + " " + std::to_string(number), numbered(number));
                } catch (const flyring::NoSpace&) {
                    own.grow(2 * own.capacity());
                }
            }
            return true;
        });
        writer.wait_until_ready();
        std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
        writer.kill();
        EXPECT_GE(Table::open("t").size(), before);
        try {
            table.put("after " + std::to_string(round), numbered(round));
        } catch (const flyring::NoSpace&) {
            table.grow(2 * table.capacity());
        }
        ASSERT_EQ(table.id(), Table::open("t").id());
        ASSERT_EQ(content(table).size(), table.size());
        if (table.capacity() > 10'000) break;
    }
}

}  // namespace
