// SPDX-License-Identifier: Apache-2.0
// Threads that use one table object while the table grows again and again: table_grow [GROWS]. Two threads grow it, one
// through this object and one through another. Readers check that a key that is there is always found, with a whole
// value and a version that does not go back, that size and version do not go back, that a walk has each key once, and
// that a wait ends. In the end the process must hold as many descriptors and mappings as before.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <flyring/table.hpp>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "message.hpp"

// Zero pages take the place of an old file while other threads read it: what they find is checked afterwards.
extern "C" const char* __tsan_default_suppressions() {
    return "race:detach\n";
}

namespace {

using flyring::Table;

constexpr std::int64_t keys = 40;

std::atomic<bool> stop{false};

/// A value of 12 words that follow from its number.
std::array<std::uint64_t, 12> value_of(std::uint64_t number) {
    std::array<std::uint64_t, 12> words{};
    for (std::size_t at = 0; at < words.size(); ++at) words[at] = at == 0 ? number : stress::mix(number + at);
    return words;
}
void put(Table& table, std::int64_t key, std::uint64_t number) {
    const auto words = value_of(number);
    table.put(key, flyring::Bytes(reinterpret_cast<const std::byte*>(words.data()), sizeof words));
}

/// What one thread has seen of each key.
class Seen {
  public:
    void check(std::int64_t key, const std::optional<flyring::Versioned>& found) {
        if (!found) stress::fail("a key that is there is not found", static_cast<std::uint64_t>(key));
        check(key, found->value, found->version);
    }
    void check(std::int64_t key, const std::string& value, std::int64_t version) {
        std::array<std::uint64_t, 12> words{};
        if (value.size() != sizeof words) stress::fail("a value has not its length", sizeof words, value.size());
        std::memcpy(words.data(), value.data(), sizeof words);
        if (words != value_of(words[0])) stress::fail("a value is torn", words[0]);
        if (version < last_[static_cast<std::size_t>(key)]) {
            stress::fail("a version goes back", static_cast<std::uint64_t>(key));
        }
        last_[static_cast<std::size_t>(key)] = version;
    }

  private:
    std::array<std::int64_t, keys> last_{};
};

/// The descriptors and mappings of files in the test's folder.
std::pair<long, long> held() {
    const std::string folder = std::getenv("FLYRING_DIR");
    std::pair<long, long> found{0, 0};
    for (const auto& link : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;  // the listing's own descriptor
        if (std::filesystem::read_symlink(link, gone).string().rfind(folder, 0) == 0) ++found.first;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) found.second += line.find(folder) != std::string::npos;
    return found;
}

}  // namespace

int main(int count, char** arguments) {
    const long grows = count > 1 ? std::atol(arguments[1]) : 2000;
    std::set_terminate([] {  // an exception in a thread
        try {
            std::rethrow_exception(std::current_exception());
        } catch (const std::exception& error) {
            std::fprintf(stderr, "FOUND: %s\n", error.what());
        }
        std::fflush(nullptr);
        std::_Exit(1);
    });
    const stress::Folder folder;
    flyring::TableOptions options;
    options.capacity = keys + 1;
    options.key = flyring::KeyType::integer;
    options.value_bytes = 96;
    Table table = Table::create("stress", options);
    Table other = Table::open("stress");
    for (std::int64_t key = 0; key < keys; ++key) put(table, key, 1);
    const auto before = held();

    std::atomic<std::uint64_t> reads{0};
    std::vector<std::thread> threads;
    const auto again = [&](auto use) {
        threads.emplace_back([use]() mutable {
            for (std::uint64_t turn = 0; !stop.load(std::memory_order_relaxed); ++turn) use(turn);
        });
    };
    for (int i = 0; i < 2; ++i) {
        again([&, seen = Seen()](std::uint64_t turn) mutable {
            const auto key = static_cast<std::int64_t>(turn % keys);
            seen.check(key, table.get_versioned(key));
            if (table.contains(-1)) stress::fail("a key that is not there is found");
            reads.fetch_add(1, std::memory_order_relaxed);
        });
    }
    again([&, entry = *table.entry(3), seen = Seen()](std::uint64_t) mutable {
        seen.check(3, entry.get_versioned());
        if (!table.entry(5)) stress::fail("there is no entry of a key that is there", 5);
    });
    again([&, changed = std::int64_t{0}](std::uint64_t) mutable {
        const std::int64_t now = table.version();
        if (now < changed) {
            stress::fail("the number of the last change goes back", static_cast<std::uint64_t>(changed),
                         static_cast<std::uint64_t>(now));
        }
        changed = now;
        if (table.size() != keys) stress::fail("the table has not its size", keys, table.size());
        if (table.stats().size != keys) stress::fail("the statistics have not its size");
    });
    again([&, seen = Seen()](std::uint64_t) mutable {
        std::int64_t found = 0;
        table.for_each([&](const flyring::TableItem& item) {
            seen.check(item.integer(), item.value, item.version);
            ++found;
        });
        if (found != keys) stress::fail("a walk has not each key once", keys, static_cast<std::uint64_t>(found));
    });
    again([&](std::uint64_t turn) {
        put(table, static_cast<std::int64_t>(turn % keys), turn);
        table.sync();
    });
    again([&, version = std::int64_t{0}](std::uint64_t turn) mutable {
        try {
            version = table.wait_changed(7, version, std::chrono::milliseconds(turn % 3));
        } catch (const flyring::TimedOut&) {
        }
    });
    const auto grow = [&](Table& one, long times) {
        for (long i = 0; i < times;) {
            try {
                one.grow(one.capacity() + 1);
                ++i;
            } catch (const flyring::InvalidArgument&) {
                // The other thread was faster: the capacity is below the present one.
            }
        }
    };
    std::thread second([&] { grow(other, grows / 4); });
    grow(table, grows - grows / 4);
    second.join();
    stop = true;
    for (std::thread& thread : threads) thread.join();
    table.get(0);
    other.get(0);
    if (held() != before)
        stress::fail("old files are held", static_cast<std::uint64_t>(before.second),
                     static_cast<std::uint64_t>(held().second));
    std::printf("%llu reads, capacity %llu\n", static_cast<unsigned long long>(reads.load()),
                static_cast<unsigned long long>(table.capacity()));
    if (reads < 1000) stress::fail("it hardly ran");
    return 0;
}
