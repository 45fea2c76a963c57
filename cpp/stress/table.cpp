// SPDX-License-Identifier: Apache-2.0
// A table whose keys change, come and go at full speed, whose index is rebuilt again and again, and which grows:
// table [SECONDS]. Readers check that each value is whole and under its key, that the version and the value of a key
// never go back, that a key that is there all the time is always found, and that a snapshot has it.
//
// Each thread has a table object of its own, so this is what processes see; two threads change through one object. With
// ThreadSanitizer it shows that what the threads of one object share is ordered: the files that a table has had, its
// writers, and single changes. Values are read while they are written, by design, but through another mapping.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <flyring/table.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "message.hpp"

namespace {

using flyring::Table;
using flyring::TableWriter;

constexpr std::int64_t stable = 8;    // keys that are there all the time, from 0 on
constexpr std::int64_t passing = 40;  // keys that come and go, behind them
constexpr std::int64_t once = 20;     // keys that are there once, for a while: they fill the index, so it is rebuilt
constexpr std::int64_t words = 12;    // the longest value

std::atomic<bool> stop{false};
std::atomic<std::uint64_t> next_number{1};

/// A value: its number, its key, and words that follow from both.
struct Value {
    std::array<std::uint64_t, words> word;
    std::size_t size;
};
Value value_of(std::int64_t key, std::uint64_t number) {
    Value value{};
    const std::uint64_t count = 2 + number % (words - 1);
    value.word[0] = number;
    value.word[1] = static_cast<std::uint64_t>(key);
    for (std::uint64_t at = 2; at < count; ++at) value.word[at] = stress::mix(number + at) ^ value.word[1];
    value.size = count * sizeof(std::uint64_t);
    return value;
}
flyring::Bytes bytes_of(const Value& value) {
    return {reinterpret_cast<const std::byte*>(value.word.data()), value.size};
}

/// What a reader has seen of each key.
class Seen {
  public:
    void check(std::int64_t key, const std::optional<flyring::Versioned>& found) {
        if (!found) {
            if (key < stable) stress::fail("a key that is there is not found", static_cast<std::uint64_t>(key));
            ++absent_;
            return;
        }
        Value value{};
        value.size = found->value.size();
        if (value.size < 16 || value.size > sizeof value.word)
            stress::fail("a value has not its length", 0, value.size);
        std::memcpy(value.word.data(), found->value.data(), value.size);
        if (value.word[1] != static_cast<std::uint64_t>(key)) {
            stress::fail("a value of another key", static_cast<std::uint64_t>(key), value.word[1]);
        }
        const Value whole = value_of(key, value.word[0]);
        if (whole.size != value.size || whole.word != value.word) stress::fail("a value is torn", value.word[0]);
        auto& [version, number] = last_[static_cast<std::size_t>(key)];
        if (found->version < version) {
            stress::fail("a version goes back", static_cast<std::uint64_t>(version),
                         static_cast<std::uint64_t>(found->version));
        }
        if (value.word[0] < number) stress::fail("a value goes back", number, value.word[0]);
        if ((found->version == version) != (value.word[0] == number)) {
            stress::fail("one version of two values, or two of one", number, value.word[0]);
        }
        version = found->version;
        number = value.word[0];
        ++reads_;
    }
    std::uint64_t reads() const { return reads_; }
    std::uint64_t absent() const { return absent_; }

  private:
    std::array<std::pair<std::int64_t, std::uint64_t>, stable + passing> last_{};
    std::uint64_t reads_ = 0;
    std::uint64_t absent_ = 0;
};

std::atomic<std::uint64_t> reads{0};
std::atomic<std::uint64_t> absent{0};
std::atomic<std::uint64_t> changes{0};
std::atomic<std::uint64_t> grown{0};

void read_keys() {
    const Table table = Table::open("stress");
    Seen seen;
    std::vector<flyring::Entry> entries;
    for (std::int64_t key = 0; key < stable; ++key) entries.push_back(*table.entry(key));
    std::int64_t changed = 0;
    while (!stop.load(std::memory_order_relaxed)) {
        for (std::int64_t key = 0; key < stable + passing; ++key) {
            try {
                seen.check(key, key < stable && key % 2 == 0 ? entries[static_cast<std::size_t>(key)].get_versioned()
                                                             : table.get_versioned(key));
            } catch (const flyring::Busy&) {
                // A thread of this process was not on a core for a while.
            }
        }
        const std::int64_t now = table.version();
        if (now < changed) {
            stress::fail("the number of the last change goes back", static_cast<std::uint64_t>(changed),
                         static_cast<std::uint64_t>(now));
        }
        changed = now;
    }
    reads += seen.reads();
    absent += seen.absent();
}

/// Changes by the one thread that puts and removes keys that come and go, so it knows which of them are there. Numbers
/// grow, so that a value tells whether it is older.
void change(const Table& table, TableWriter& writer, std::uint64_t times) {
    static std::array<bool, stable + passing> there{};
    for (; times > 0 && !stop.load(std::memory_order_relaxed); --times) {
        const std::uint64_t number = next_number.fetch_add(1, std::memory_order_relaxed);
        const std::uint64_t random = stress::mix(number);
        const auto key = static_cast<std::int64_t>(random % (stable + passing));
        if (key >= stable && random >> 32 & 1) {
            writer.remove(key);
            there[static_cast<std::size_t>(key)] = false;
        } else {
            writer.put(key, bytes_of(value_of(key, number)));
            there[static_cast<std::size_t>(key)] = true;
        }
        static std::int64_t newest = 1000;
        ++newest;
        writer.put(newest, bytes_of(value_of(newest, number)));
        writer.remove(newest - once);
        if (newest > 1000 + once && !table.contains(newest - once / 2)) {
            stress::fail("a key is lost", static_cast<std::uint64_t>(newest - once / 2));
        }
        const auto other = stable + static_cast<std::int64_t>((random >> 8) % passing);
        if (table.contains(other) != there[static_cast<std::size_t>(other)]) {
            stress::fail("a key is lost, or was not removed", static_cast<std::uint64_t>(other));
        }
        changes.fetch_add(1, std::memory_order_relaxed);
    }
}

}  // namespace

int main(int count, char** arguments) {
    std::set_terminate([] { stress::fail("an exception, which ends a thread"); });
    const std::chrono::duration<double> seconds(count > 1 ? std::atof(arguments[1]) : 3);
    const stress::Folder folder;
    flyring::TableOptions options;
    options.capacity = stable + passing + once + 1;
    options.key = flyring::KeyType::integer;
    options.value_bytes = words * sizeof(std::uint64_t);
    Table table = Table::create("stress", options);
    for (std::int64_t key = 0; key < stable; ++key) table.put(key, bytes_of(value_of(key, next_number++)));

    std::vector<std::thread> threads;
    threads.emplace_back(read_keys);
    threads.emplace_back(read_keys);
    threads.emplace_back([] {  // a feed, which gives the slot back now and then
        Table own = Table::open("stress");
        while (!stop.load(std::memory_order_relaxed)) {
            TableWriter writer = own.writer("feed", std::chrono::seconds(60));
            change(own, writer, 20'000);
            if (writer.epoch() % 3 == 0 && own.capacity() < 120) {
                writer.grow(own.capacity() + 16);
                grown.fetch_add(1, std::memory_order_relaxed);
                change(own, writer, 1000);
            }
            writer.close();
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
        }
    });
    // Two threads of one object, which they close in the end.
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&table] {
            while (!stop.load(std::memory_order_relaxed)) {
                const auto key = static_cast<std::int64_t>(stress::mix(next_number.load()) % stable);
                table.update(key, [&](std::string& value) {
                    const Value made = value_of(key, next_number.fetch_add(1, std::memory_order_relaxed));
                    value.assign(reinterpret_cast<const char*>(made.word.data()), made.size);
                });
                changes.fetch_add(1, std::memory_order_relaxed);
            }
        });
    }
    threads.emplace_back([] {
        const Table own = Table::open("stress");
        while (!stop.load(std::memory_order_relaxed)) {
            try {
                own.snapshot("copy");
            } catch (const flyring::Busy&) {
                continue;
            }
            const Table copy = Table::open("copy");
            Seen seen;
            for (std::int64_t key = 0; key < stable + passing; ++key) seen.check(key, copy.get_versioned(key));
            std::uint64_t keys = 0;
            copy.for_each([&](const flyring::TableItem&) { ++keys; });
            if (keys != copy.size() || keys < seen.reads())
                stress::fail("a snapshot has not its keys", keys, copy.size());
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    });
    std::this_thread::sleep_for(seconds);
    for (int more = 0; grown == 0 && more < 3000; ++more) {  // a slow machine needs longer, at most 30 s
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    std::printf("%llu reads, %llu of them of absent keys, %llu changes, grown %llu times\n",
                static_cast<unsigned long long>(reads + absent), static_cast<unsigned long long>(absent),
                static_cast<unsigned long long>(changes), static_cast<unsigned long long>(grown));
    if (reads == 0 || absent == 0 || changes < 1000 || grown == 0) stress::fail("it hardly ran");
    return 0;
}
