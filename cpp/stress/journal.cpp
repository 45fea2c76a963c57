// SPDX-License-Identifier: Apache-2.0
// A journal at full speed: journal [SECONDS]. A writer with a helper appends one by one, by claims and in batches, and
// rolls again and again, while the helper makes segments, syncs, and removes the oldest beyond `max_size`. Readers
// follow it at its end, from the beginning on, and durably; a consumer stores its gate. Each checks that no message is
// torn, doubled or out of order, and that what it lost is counted to the last message.
//
// With ThreadSanitizer all objects see one mapping of each file, so it shows each order that the page asks for.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <flyring/journal.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "message.hpp"

#ifdef FLYRING_STRESS_ONE_MAPPING
// ThreadSanitizer identifies memory by its address: the first mapping of a file serves all of its users.
static std::mutex mappings_mutex;
struct OneMapping {
    void* at;
    int users;
};
static std::map<std::pair<dev_t, ino_t>, OneMapping>& mappings() {
    static auto* const all = new std::map<std::pair<dev_t, ino_t>, OneMapping>;
    return *all;
}

extern "C" {
void* __real_mmap(void* at, std::size_t length, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* at, std::size_t length);

void* __wrap_mmap(void* at, std::size_t length, int protection, int flags, int fd, off_t offset) {
    struct stat status{};
    if (fd < 0 || flags != MAP_SHARED || ::fstat(fd, &status) != 0) {
        return __real_mmap(at, length, protection, flags, fd, offset);
    }
    const std::lock_guard<std::mutex> guard(mappings_mutex);
    OneMapping& one = mappings()[{status.st_dev, status.st_ino}];
    if (one.users++ == 0) {  // a reader may come first, whose descriptor is not for writing
        const int own = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
        one.at = __real_mmap(at, length, PROT_READ | PROT_WRITE, flags, own, offset);
        ::close(own);
    }
    return one.at;
}

int __wrap_munmap(void* at, std::size_t length) {
    const std::lock_guard<std::mutex> guard(mappings_mutex);
    for (auto one = mappings().begin(); one != mappings().end(); ++one) {
        if (one->second.at != at) continue;
        if (--one->second.users > 0) return 0;
        mappings().erase(one);
        break;
    }
    return __real_munmap(at, length);
}
}
#endif

namespace {

using flyring::Journal;
using flyring::JournalMessage;
using flyring::JournalStart;

std::atomic<bool> stop{false};
std::atomic<bool> done{false};  // the appender has ended, and `appended` is stored
std::atomic<std::uint64_t> appended{0};
std::atomic<std::uint64_t> read_in_all{0};
std::atomic<std::uint64_t> lost_in_all{0};

/// What a reader has seen: each message's number is its sequence.
class Seen {
  public:
    void operator()(const JournalMessage& message, std::int64_t lost) {
        if (const char* wrong = stress::what_is_wrong(message)) stress::fail(wrong, next_);
        const auto sequence = message.as<std::uint64_t>();
        if (sequence != static_cast<std::uint64_t>(message.number())) {
            stress::fail("a message has not its number", static_cast<std::uint64_t>(message.number()), sequence);
        }
        const auto gone = static_cast<std::uint64_t>(lost);
        if (sequence != next_ + (gone - lost_)) stress::fail("a message out of order", next_ + gone - lost_, sequence);
        lost_ = gone;
        next_ = sequence + 1;
        read_in_all.fetch_add(1, std::memory_order_relaxed);
    }
    std::uint64_t next() const { return next_; }
    std::uint64_t lost() const { return lost_; }

  private:
    std::uint64_t next_ = 0;
    std::uint64_t lost_ = 0;
};

template <typename Reader>
void follow(Reader& reader, bool slowly) {
    Seen seen;
    for (;;) {
        const bool last = done.load();  // before the look: what was appended by then must be found
        const int handed = reader.poll([&](const JournalMessage& message) { seen(message, reader.lost()); }, 64,
                                       std::chrono::milliseconds(1));
        if (handed == 0 && last) break;
        if (slowly) std::this_thread::sleep_for(std::chrono::microseconds(seen.next() % 3 == 0 ? 2000 : 50));
    }
    if (static_cast<std::uint64_t>(reader.number()) != appended) {
        stress::fail("a reader has not come to the end", appended, static_cast<std::uint64_t>(reader.number()));
    }
    lost_in_all += seen.lost();
}

void append(flyring::JournalWriter& writer) {
    std::array<std::array<std::byte, stress::longest>, stress::most_at_once> buffers;
    std::uint64_t sequence = 0;
    while (!stop.load(std::memory_order_relaxed)) {
        const std::int32_t type = stress::type_of(sequence);
        const std::size_t length = stress::length_of(sequence);
        if (sequence % 7 == 0) writer.claim(length, type).abort();
        if (sequence % 7 <= 1) {
            flyring::JournalClaim claim = writer.claim(length, type);
            stress::write(claim.data(), sequence++);
            claim.commit();
        } else if (sequence % 7 == 2) {
            std::array<flyring::Bytes, stress::most_at_once> messages;
            std::size_t count = 0;
            for (std::uint64_t each = sequence; stress::type_of(each) == type; ++each, ++count) {
                stress::write(buffers[count].data(), each);
                messages[count] = {buffers[count].data(), stress::length_of(each)};
            }
            sequence += writer.append_many({messages.data(), count}, type);
        } else {
            stress::write(buffers[0].data(), sequence++);
            writer.append({buffers[0].data(), length}, type);
        }
        if (sequence % 5000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that readers sleep
    }
    appended = sequence;
    done = true;
}

}  // namespace

int main(int count, char** arguments) {
    const std::chrono::duration<double> seconds(count > 1 ? std::atof(arguments[1]) : 3);
    const stress::Folder folder;
    flyring::JournalOptions options;
    options.segment_size = 1 << 16;
    options.max_size = 40 << 16;
    options.sync = flyring::JournalSync::every(std::chrono::milliseconds(2));
    Journal journal = Journal::create("stress", options);
    std::vector<Journal> others;
    for (int i = 0; i < 4; ++i) others.push_back(Journal::open("stress"));
    // All stay until the end: a close would take the one mapping from the others.
    flyring::JournalReader tail = others[0].reader();
    flyring::JournalReader slow = others[1].reader();
    flyring::JournalReader durable = others[2].reader(JournalStart::oldest(), true);
    flyring::JournalConsumer consumer = others[3].consumer("one");
    flyring::JournalWriter writer = journal.writer("w", true, 2);

    std::vector<std::thread> threads;
    threads.emplace_back([&] { follow(tail, false); });
    threads.emplace_back([&] { follow(slow, true); });
    threads.emplace_back([&] { follow(consumer, false); });
    std::atomic<bool> all_durable{false};
    threads.emplace_back([&] {
        Seen seen;
        for (;;) {
            const bool last = all_durable.load();
            const int handed = durable.poll([&](const JournalMessage& message) { seen(message, durable.lost()); }, 64,
                                            std::chrono::milliseconds(1));
            if (handed == 0 && last) break;
        }
        if (static_cast<std::uint64_t>(durable.number()) != appended) {
            stress::fail("a durable reader has not come to the end", appended,
                         static_cast<std::uint64_t>(durable.number()));
        }
    });
    std::thread looker([&] {
        while (!stop.load(std::memory_order_relaxed)) {
            const flyring::JournalStats stats = journal.stats();
            if (stats.synced > stats.ready || stats.trimmed > stats.synced) stress::fail("words out of order");
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
        }
    });
    std::thread appender([&] { append(writer); });
    std::this_thread::sleep_for(seconds);
    stop = true;
    appender.join();
    looker.join();
    writer.sync();
    all_durable = true;
    for (std::thread& thread : threads) thread.join();
    const flyring::JournalStats stats = journal.stats();
    std::printf("%llu messages appended, %llu read, %llu lost, trimmed up to %lld of %lld\n",
                static_cast<unsigned long long>(appended), static_cast<unsigned long long>(read_in_all),
                static_cast<unsigned long long>(lost_in_all), static_cast<long long>(stats.trimmed),
                static_cast<long long>(stats.published));
    if (appended < 1000 || stats.trimmed == 0) stress::fail("it hardly ran");
    return 0;
}
