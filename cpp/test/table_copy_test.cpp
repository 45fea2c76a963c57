// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "faults.hpp"
#include "tables.hpp"

// Whole copies: snapshot and grow (spec/table.md 7 and 9).

namespace {

using flyring::Table;
using flyring::TableWriter;
using support::code_of;
using tables::content;
using tables::options;
using namespace std::chrono_literals;

class TableCopies : public tables::TableTest {
  protected:
    /// How many descriptors and mappings of files in the test's folder this process has.
    std::pair<long, long> held() const {
        std::pair<long, long> found{0, 0};
        for (const auto& link : std::filesystem::directory_iterator("/proc/self/fd")) {
            std::error_code gone;  // the listing's own descriptor
            if (std::filesystem::read_symlink(link, gone).string().rfind(folder(), 0) == 0) ++found.first;
        }
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) found.second += line.find(folder()) != std::string::npos;
        return found;
    }
};

TEST_F(TableCopies, a_snapshot_holds_every_key_with_its_version) {
    Table table = Table::create("t", options());
    for (int i = 0; i < 60; ++i) table.put(std::to_string(i), tables::numbered(static_cast<std::uint64_t>(i)));
    for (int i = 0; i < 60; i += 3) table.remove(std::to_string(i));
    EXPECT_EQ(table.snapshot("copy"), 40U);
    Table copy = Table::open("copy");
    EXPECT_EQ(content(copy), content(table));
    EXPECT_EQ(copy.size(), 40U);
    EXPECT_EQ(copy.version(), table.version());
    EXPECT_EQ(copy.get_versioned("1")->version, table.get_versioned("1")->version);
    EXPECT_NE(copy.id(), table.id());
    EXPECT_GT(copy.put("0", "goes on"), table.get_versioned("59")->version);
    EXPECT_EQ(table.get("0"), std::nullopt);
    EXPECT_EQ(code_of([&] { table.snapshot("t"); }), "invalid-argument");
    EXPECT_EQ(table.snapshot("copy"), 40U);  // in the place of the older one
    EXPECT_EQ(Table::open("copy").get("0"), std::nullopt);
    EXPECT_EQ(code_of([&] { copy.put("0", "too late"); }), "replaced");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder()), {}), 2);
}

TEST_F(TableCopies, a_snapshot_is_clean_and_needs_no_recovery_after_another_boot) {
    flyring::TableOptions asked = options();
    asked.checked = true;
    Table table = Table::create("t", asked);
    table.put("a", "1");
    table.snapshot("copy");
    flyring::detail::TableInEnvironment later;
    later.environment.boot_id = flyring::detail::new_uuid();
    EXPECT_EQ(code_of([&] { later.open("t").get("a"); }), "needs-recovery");
    Table copy = later.open("copy");
    EXPECT_EQ(copy.get("a"), "1");
    EXPECT_EQ(copy.put("a", "2") >> 1, 2);  // no jump of the stamp
    EXPECT_EQ(copy.stats().damaged, 0);
}

TEST_F(TableCopies, a_snapshot_beside_a_writer_has_each_value_whole_and_each_key_once) {
    Table table = Table::create("t", options(200));
    std::atomic<bool> end{false};
    for (std::uint64_t i = 0; i < 50; ++i) table.put("kept " + std::to_string(i), tables::numbered(i));
    std::thread feed([&] {
        TableWriter writer = table.writer();
        for (std::uint64_t i = 0; !end.load(); ++i) {
            writer.put("comes and goes " + std::to_string(i % 100), tables::numbered(i));
            writer.remove("comes and goes " + std::to_string((i + 50) % 100));
            writer.put("kept " + std::to_string(i % 50), tables::numbered(i));
        }
    });
    for (int i = 0; i < 30; ++i) {
        table.snapshot("copy");
        const auto found = content(Table::open("copy"));
        int kept = 0;
        for (const auto& [key, value] : found) {
            ASSERT_GE(tables::number_of(value), 0) << key;
            if (key.rfind("kept", 0) == 0) ++kept;
        }
        ASSERT_EQ(kept, 50);
    }
    end = true;
    feed.join();
}

TEST_F(TableCopies, a_writer_takes_a_snapshot_of_one_instant) {
    Table table = Table::create("t", options());
    TableWriter writer = table.writer();
    writer.put("a", "1");
    EXPECT_EQ(writer.snapshot("copy"), 1U);
    EXPECT_EQ(Table::open("copy").get("a"), "1");
    EXPECT_GT(writer.put("a", "2"), 0);
}

TEST_F(TableCopies, grow_keeps_keys_and_versions_and_everyone_follows) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    flyring::OpenTableOptions opening;
    opening.read_only = true;
    Table reader = Table::open("t", opening);
    for (int i = 0; i < 4; ++i) table.put(std::to_string(i), std::to_string(i));
    auto entry = other.entry("2");
    const auto version = entry->version();
    EXPECT_EQ(code_of([&] { table.grow(3); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { table.grow((1U << 30) + 1); }), "invalid-argument");
    const flyring::detail::TableFile old = tables::raw("t");
    table.grow(4);  // packs it
    EXPECT_EQ(other.get("2"), "2");
    EXPECT_EQ(*old.successor(), flyring::layout::SUCCESSOR_REPLACED);
    table.grow(1000);
    EXPECT_EQ(table.capacity(), 1000U);
    EXPECT_EQ(*old.successor(), flyring::layout::SUCCESSOR_REPLACED);
    EXPECT_EQ(Table::open("t").id(), old.header.table_id);
    EXPECT_EQ(Table::open("t").created_at(), old.header.created_at);
    EXPECT_EQ(table.version(), 4);
    EXPECT_EQ(table.get_versioned("2")->version, version);
    EXPECT_GT(table.put("2", "later"), version);
    EXPECT_EQ(other.get("2"), "later");
    EXPECT_EQ(other.capacity(), 1000U);
    EXPECT_EQ(reader.get("2"), "later");
    EXPECT_EQ(entry->get(), "later");
    for (int i = 4; i < 900; ++i) other.put(std::to_string(i), "x");
    EXPECT_EQ(reader.size(), 900U);
    EXPECT_EQ(Table::open_or_create("t", options(4)).size(), 900U);
    EXPECT_EQ(table.put_if_absent("2", "there"), 0);
}

TEST_F(TableCopies, a_writer_grows_and_goes_on_and_others_put_after_it) {
    Table table = Table::create("t", options(2));
    Table other = Table::open("t");
    TableWriter writer = table.writer("feed");
    writer.put("a", "1");
    writer.put("b", "1");
    EXPECT_EQ(code_of([&] { writer.put("c", "1"); }), "no-space");
    EXPECT_EQ(code_of([&] { other.grow(10, 1ms); }), "no-free-slot");
    writer.grow(10);
    EXPECT_GT(writer.put("c", "1"), 0);
    EXPECT_EQ(code_of([&] { other.put("d", "1", 5ms); }), "no-free-slot");  // it has followed: the new slot is held
    EXPECT_EQ(other.stats().writer, "feed");
    EXPECT_EQ(other.get("c"), "1");
    writer.close();
    EXPECT_GT(other.put("d", "1"), 0);
    EXPECT_EQ(table.get("d"), "1");
}

TEST_F(TableCopies, a_table_that_grows_lets_its_old_files_go) {
    Table table = Table::create("t", options(2));
    Table other = Table::open("t");
    flyring::OpenTableOptions opening;
    opening.read_only = true;
    Table reader = Table::open("t", opening);
    table.put("a", "1");
    auto entry = other.entry("a");
    TableWriter writer = table.writer();
    const auto before = held();
    EXPECT_GE(before.first, 5);
    EXPECT_EQ(before.second, 5);
    for (std::uint64_t i = 0; i < 200; ++i) {
        writer.grow(3 + i);
        EXPECT_EQ(other.size(), 1U);
        EXPECT_EQ(reader.get("a"), "1");
        EXPECT_EQ(held(), before) << i;
        EXPECT_EQ(entry->get(), "1");
    }
    writer.close();
    const auto after = held();
    EXPECT_EQ(after, std::make_pair(before.first - 1, before.second));
    for (std::uint64_t i = 200; i < 300; ++i) other.grow(3 + i);
    EXPECT_EQ(table.get("a"), "1");
    EXPECT_EQ(reader.get("a"), "1");
    EXPECT_EQ(held(), after);
    table.close();
    other.close();
    reader.close();
    EXPECT_EQ(held(), std::make_pair(0L, 0L));
}

// A walk, a snapshot, a wait and an open writer keep the file in which they began.
TEST_F(TableCopies, what_is_under_way_keeps_the_old_file) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    for (int i = 0; i < 4; ++i) table.put(std::to_string(i), std::to_string(i));
    const auto before = held();
    std::map<std::string, std::string> found;
    table.for_each([&](const flyring::TableItem& item) {
        found.emplace(item.key, item.value);
        if (found.size() != 1) return;
        other.grow(10);
        other.put("4", "4");
        EXPECT_EQ(table.get("4"), "4");
        table.grow(20);
        EXPECT_EQ(other.get("4"), "4");
        const auto now = held();
        EXPECT_EQ(now.first, before.first + 2);
        EXPECT_EQ(now.second, before.second + 2);
    });
    EXPECT_EQ(found, (std::map<std::string, std::string>{{"0", "0"}, {"1", "1"}, {"2", "2"}, {"3", "3"}}));
    EXPECT_EQ(held(), before);
    EXPECT_EQ(content(table).size(), 5U);
}

// Threads of one object: what they read may be the zeros that take the place of an old file.
TEST_F(TableCopies, threads_read_on_while_another_grows_their_table) {
    Table table = Table::create("t", options(60));
    Table other = Table::open("t");
    for (std::uint64_t i = 0; i < 50; ++i) table.put(std::to_string(i), tables::numbered(i));
    const auto before = held();
    std::atomic<bool> end{false};
    std::vector<std::thread> threads;
    const auto again = [&](auto use) {
        threads.emplace_back([&end, use]() mutable {
            for (std::uint64_t i = 0; !end.load(); ++i) use(i);
        });
    };
    again([&](std::uint64_t i) {
        const auto value = table.get(std::to_string(i % 50));
        EXPECT_TRUE(value);
        EXPECT_GE(value ? tables::number_of(*value) : -1, 0);
        EXPECT_FALSE(table.contains("absent"));
    });
    again([&, entry = *table.entry("7"), version = std::int64_t{0}](std::uint64_t) mutable {
        EXPECT_TRUE(entry.get());
        EXPECT_GE(entry.version(), version);
        version = entry.version();
    });
    again([&, version = std::int64_t{0}](std::uint64_t) mutable {
        EXPECT_GE(table.version(), version);
        version = table.version();
        EXPECT_EQ(table.size(), 50U);
        EXPECT_EQ(table.stats().size, 50);
        EXPECT_TRUE(table.entry("3"));
    });
    again([&](std::uint64_t) { EXPECT_EQ(content(table).size(), 50U); });
    again([&](std::uint64_t i) {
        EXPECT_GT(table.put(std::to_string(i % 50), tables::numbered(i)), 0);
        table.sync();
    });
    again([&, version = std::int64_t{0}](std::uint64_t) mutable {
        try {
            version = table.wait_changed("7", version, 5ms);
            EXPECT_GT(version, 0);
        } catch (const flyring::TimedOut&) {
        }
    });
    for (std::uint64_t i = 0; i < 300; ++i) (i % 2 == 0 ? table : other).grow(61 + i);
    end = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(content(table).size(), 50U);
    EXPECT_EQ(content(other).size(), 50U);
    EXPECT_EQ(held(), before);
}

/// A signal stops a thread anywhere in what it does.
namespace paused {
std::atomic<bool> now{false};
std::atomic<bool> enough{false};
std::atomic<bool> over{false};
void until_enough(int) {
    now = true;
    const auto end = std::chrono::steady_clock::now() + 5ms;  // the thread may hold a lock that a grow needs
    while (!enough && std::chrono::steady_clock::now() < end) {
    }
    over = true;
}
/// Handles the signal as long as it exists.
class Handler {
  public:
    Handler() {
        struct sigaction pause{};
        pause.sa_handler = until_enough;
        pause.sa_flags = SA_RESTART;
        EXPECT_EQ(::sigaction(SIGUSR1, &pause, &before_), 0);
    }
    ~Handler() { ::sigaction(SIGUSR1, &before_, nullptr); }
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;

  private:
    struct sigaction before_{};
};
/// Stops the thread, does the action, and lets the thread go on.
template <typename Action>
void during(std::thread& thread, Action&& action) {
    now = enough = over = false;
    ASSERT_EQ(::pthread_kill(thread.native_handle(), SIGUSR1), 0);
    while (!now) std::this_thread::yield();
    action();
    enough = true;
    while (!over) std::this_thread::yield();
}
}  // namespace paused

// A signal stops a thread anywhere in a get; another thread of the same object grows the table meanwhile.
TEST_F(TableCopies, a_get_that_a_grow_overtakes_finds_its_key) {
    Table table = Table::create("t", options(2, flyring::KeyType::integer, 8));
    std::int64_t value = 3;
    table.put(7, flyring::Bytes(reinterpret_cast<const std::byte*>(&value), sizeof value));
    const paused::Handler handler;
    std::atomic<bool> end{false};
    std::atomic<int> absent{0};
    std::atomic<int> found_absent{0};
    std::thread reader([&] {
        while (!end) {
            std::int64_t seen = 0;
            const flyring::MutableBytes buffer(reinterpret_cast<std::byte*>(&seen), sizeof seen);
            if (!table.get(7, buffer) || seen != 3) ++absent;
            if (table.get(8, buffer)) ++found_absent;
        }
    });
    for (std::uint64_t i = 0; i < 300; ++i) {
        std::this_thread::sleep_for(200us);  // the reader follows the last grow
        paused::during(reader, [&] { table.grow(3 + i); });
    }
    end = true;
    reader.join();
    EXPECT_EQ(absent, 0);
    EXPECT_EQ(found_absent, 0);
}

// The same with more than one rebuild of the index meanwhile: the second one has cleared the copy in which the get
// looks, and not filled it again.
TEST_F(TableCopies, a_get_that_rebuilds_overtake_finds_its_key) {
    Table table = Table::create("t", options(40, flyring::KeyType::integer, 8));
    TableWriter writer = table.writer();
    std::int64_t value = 3;
    writer.put(7, flyring::Bytes(reinterpret_cast<const std::byte*>(&value), sizeof value));  // in cell 0
    const paused::Handler handler;
    std::atomic<bool> end{false};
    std::atomic<int> absent{0};
    std::thread reader([&] {
        while (!end) {
            std::int64_t seen = 0;
            const flyring::MutableBytes buffer(reinterpret_cast<std::byte*>(&seen), sizeof seen);
            if (!table.get(7, buffer) || seen != 3) ++absent;
        }
    });
    const flyring::detail::TableFile file = tables::raw("t");
    const flyring::detail::TableView view(file, file.mapping.data());
    const auto has_key = [&](std::int64_t generation) {
        const std::uint64_t* const entries = view.copy(generation);
        return std::any_of(entries, entries + view.entries(),
                           [](std::uint64_t entry) { return entry << 32 >> 32 == 1; });
    };
    for (int i = 0; i < 300; ++i) {
        paused::during(reader, [&] {
            const std::int64_t first = *view.generation();
            std::int64_t key = 100;
            for (; key < 1000 && (*view.generation() != first + 1 || has_key(first)); ++key) {
                writer.put(key, flyring::Bytes(reinterpret_cast<const std::byte*>(&key), sizeof key));
                writer.remove(key);
            }
            EXPECT_LT(key, 1000);
        });
    }
    end = true;
    reader.join();
    EXPECT_EQ(absent, 0);
}

// The larger file has the name, but the folder cannot be written to the disk.
TEST_F(TableCopies, a_writer_whose_grow_fails_late_is_closed_and_loses_nothing) {
    Table table = Table::create("t", options(2));
    TableWriter writer = table.writer("feed");
    writer.put("a", "1");
    bool renamed = false;
    {
        const faults::Hook hook([&](const faults::Call& call) {
            const bool fails = renamed && std::string(call.name) == "open";
            renamed = renamed || std::string(call.name) == "rename";
            return fails ? EMFILE : 0;
        });
        EXPECT_EQ(code_of([&] { writer.grow(10); }), "io");
    }
    EXPECT_TRUE(renamed);
    EXPECT_EQ(code_of([&] { writer.put("b", "1"); }), "closed");
    EXPECT_GT(table.put("b", "1"), 0);  // the slot is free
    EXPECT_EQ(table.capacity(), 10U);
    EXPECT_EQ(content(Table::open("t")).size(), 2U);
}

TEST_F(TableCopies, a_writer_whose_grow_fails_early_goes_on) {
    Table table = Table::create("t", options(2));
    TableWriter writer = table.writer("feed");
    {
        const faults::Hook hook(
            [](const faults::Call& call) { return std::string(call.name) == "rename" ? EACCES : 0; });
        EXPECT_THROW(writer.grow(10), flyring::FlyringError);
    }
    EXPECT_GT(writer.put("a", "1"), 0);
    EXPECT_EQ(Table::open("t").get("a"), "1");
    writer.grow(10);
    EXPECT_GT(writer.put("b", "1"), 0);
    EXPECT_EQ(content(Table::open("t")).size(), 2U);
}

// One of them reads the id of this boot: a larger file with another one would need a recovery.
TEST_F(TableCopies, a_grow_in_which_a_file_cannot_be_opened_loses_nothing) {
    Table table = Table::create("t", options(2));
    table.put("a", "1");
    for (int failing = 1;; ++failing) {
        int opens = 0;
        {
            const faults::Hook hook([&](const faults::Call& call) {
                opens += std::string(call.name) == "open" ? 1 : 0;
                return std::string(call.name) == "open" && opens == failing ? EMFILE : 0;
            });
            const std::string code = code_of([&] { table.grow(table.capacity() + 1); });
            EXPECT_EQ(code, opens < failing ? "none" : "io") << failing;
        }
        if (opens < failing) break;
        EXPECT_EQ(Table::open("t").get("a"), "1") << failing;
        EXPECT_EQ(table.get("a"), "1") << failing;
        EXPECT_GT(table.put("a", "1", 1s), 0) << failing;
        ASSERT_LT(failing, 20);
    }
}

TEST_F(TableCopies, a_put_that_waits_for_the_slot_goes_into_the_larger_file) {
    Table table = Table::create("t", options(2));
    Table other = Table::open("t");
    TableWriter writer = table.writer();
    std::thread waiter([&] { other.put("waited", "x"); });
    std::this_thread::sleep_for(10ms);
    writer.grow(10);
    writer.close();
    waiter.join();
    EXPECT_EQ(Table::open("t").get("waited"), "x");
}

TEST_F(TableCopies, sleepers_follow_a_table_that_grows) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    const std::int64_t first = table.put("a", "1");
    std::int64_t found = 0;
    std::thread sleeper([&] { found = other.wait_changed("a", first, 10s); });
    std::this_thread::sleep_for(10ms);
    table.grow(10);
    table.put("a", "2");
    sleeper.join();
    EXPECT_EQ(found, table.get_versioned("a")->version);
}

TEST_F(TableCopies, another_table_of_the_same_name_is_not_this_one_grown) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    const std::int64_t first = table.put("a", "1");
    // The same id in a file of other dimensions: a copy that was made by hand, say
    flyring::detail::TableHeader header = tables::raw("t").header;
    for (int round = 0; round < 2; ++round) {
        header.capacity = 1000;
        header.value_bytes = round == 0 ? 40 : 48;
        header.table_id = round == 0 ? table.id() : flyring::detail::new_uuid();
        flyring::detail::NewTable made(table_file("t"), header, options(1000), {}, true);
        {
            const flyring::detail::TableSuccessor successor("t", flyring::layout::SUCCESSOR_REPLACED);
            made.replace();
        }
        EXPECT_EQ(other.get("a"), "1") << round;  // goes on in the old file
        EXPECT_EQ(other.capacity(), 4U) << round;
        EXPECT_EQ(code_of([&] { other.put("a", "2"); }), "replaced") << round;
        EXPECT_EQ(code_of([&] { other.writer(); }), "replaced") << round;
        EXPECT_EQ(code_of([&] { other.wait_changed("a", first, 1s); }), "replaced") << round;
        EXPECT_EQ(other.get("a"), "1") << round;
    }
}

TEST_F(TableCopies, a_reader_of_a_replaced_table_looks_at_most_each_millisecond) {
    Table table = Table::create("t", options(4));
    table.put("a", "1");
    Table::replace("t", options(4));
    long looks = 0;
    const faults::Hook count([&](const faults::Call& call) {
        looks += std::string(call.name) == "fstat" ? 1 : 0;
        return 0;
    });
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20'000; ++i) ASSERT_EQ(table.get("a"), "1");
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    EXPECT_GE(looks, 1);
    EXPECT_LE(looks, 2 * (time.count() + 2));  // of the old file, and of the one that has its name
}

TEST_F(TableCopies, a_writer_learns_of_a_replace_although_it_took_the_slot_before_the_name_changed) {
    Table table = Table::create("t", options(4));
    const flyring::detail::TableFile old = tables::raw("t");
    {
        const flyring::detail::TableSuccessor successor("t", flyring::layout::SUCCESSOR_REPLACED);
        EXPECT_EQ(*old.successor(), 1);
        EXPECT_GT(table.put("a", "1"), 0);
        EXPECT_EQ(*old.successor(), 0);  // it still has its name
        std::filesystem::remove(table_file("t"));
        Table::create("t", options(4));
    }
    EXPECT_EQ(code_of([&] { table.put("a", "2"); }), "replaced");
}

TEST_F(TableCopies, a_table_that_lost_its_name_does_not_grow) {
    Table table = Table::create("t", options(4));
    TableWriter writer = table.writer();
    const Table other = Table::replace("t", options(8));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(code_of([&] { writer.grow(10); }), "replaced") << i;
    EXPECT_EQ(Table::open("t").id(), other.id());
    EXPECT_GT(writer.put("a", "1"), 0);  // in the old file
    writer.close();
    EXPECT_EQ(code_of([&] { table.grow(10); }), "replaced");
    Table last = Table::open("t");
    Table::unlink("t");
    EXPECT_EQ(code_of([&] { last.grow(10); }), "no-such-channel");
    TableWriter held = last.writer();
    EXPECT_EQ(code_of([&] { held.grow(10); }), "no-such-channel");
    EXPECT_GT(held.put("a", "1"), 0);
    EXPECT_FALSE(std::filesystem::exists(table_file("t")));
}

TEST_F(TableCopies, grow_says_so_before_it_renames_and_takes_it_back_if_it_cannot) {
    Table table = Table::create("t", options(4));
    Table other = Table::open("t");
    table.put("a", "1");
    const flyring::detail::TableFile old = tables::raw("t");
    int renames = 0;
    {
        const faults::Hook fail([&](const faults::Call& call) {
            if (std::string(call.name) != "rename") return 0;
            ++renames;
            EXPECT_EQ(*old.successor(), 1);
            std::thread([&] {
                EXPECT_EQ(other.get("a"), "1");
                EXPECT_EQ(code_of([&] { other.put("a", "2", 2ms); }), "no-free-slot");
            }).join();
            return EACCES;
        });
        EXPECT_EQ(code_of([&] { table.grow(10); }), "access-denied");
    }
    EXPECT_EQ(renames, 1);
    EXPECT_EQ(*old.successor(), 0);
    EXPECT_EQ(table.capacity(), 4U);
    EXPECT_GT(other.put("a", "2"), 0);
    EXPECT_EQ(table.get("a"), "2");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder()), {}), 1);
}

TEST_F(TableCopies, a_grow_that_was_killed_before_its_rename_leaves_the_table_as_it_is) {
    Table table = Table::create("t", options(4));
    table.put("a", "1");
    const auto successor = tables::control(flyring::layout::TABLE_CONTROL_SUCCESSOR);
    support::poke<std::int32_t>(table_file("t"), successor, flyring::layout::SUCCESSOR_REPLACED);
    EXPECT_EQ(table.get("a"), "1");
    EXPECT_GT(table.put("a", "2"), 0);
    EXPECT_EQ(support::peek<std::int32_t>(table_file("t"), successor), 0);
    EXPECT_EQ(Table::open("t").get("a"), "2");
}

}  // namespace
