// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <flyring/flyring.hpp>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

// A worker of the SIGKILL torture: interop-tests/torture/WORKER.md says what it does and what it writes down.

namespace {

enum Phase : std::int64_t {
    working = 1,
    taking,
    recovering,
    offering,
    claiming,
    writing,
    committing,
    aborting,
    in_batch,
    held_back,
    closing,
    joining,
    resuming,
    polling,
    handling,
    idle,
    leaving,
    forgetting,
    starting,
    reading,
    evicting
};
enum Kind : std::int64_t {
    taken = 1,
    acknowledged,
    closed,
    dead_wait,
    held,
    joined,
    message,
    left,
    evicted,
    slot_lost,
    lost
};

std::int64_t now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void nap(std::uint64_t nanoseconds) {
    const timespec time{0, static_cast<long>(nanoseconds)};
    ::nanosleep(&time, nullptr);
}

/// What this thread waited for a processor, ns.
std::int64_t run_delay() {
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    if (std::FILE* file = std::fopen("/proc/thread-self/schedstat", "re")) {
        if (std::fscanf(file, "%ld %ld", &ran, &waited) != 2) waited = 0;
        std::fclose(file);
    }
    return waited;
}

/// The file that outlives this process.
class Side {
  public:
    explicit Side(const std::string& path) {
        const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        struct stat status{};
        if (fd < 0 || ::fstat(fd, &status) != 0) throw std::runtime_error("no side file " + path);
        const auto size = static_cast<std::size_t>(status.st_size);
        void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ::close(fd);
        if (at == MAP_FAILED) throw std::runtime_error("cannot map " + path);
        words_ = static_cast<std::int64_t*>(at);
        room_ = static_cast<std::int64_t>((size - 4096) / 64) - 300;
    }

    void phase(Phase phase) { put(0, phase); }
    bool stopped() const { return __atomic_load_n(words_ + 1, __ATOMIC_ACQUIRE) != 0; }
    bool full() const { return words_[2] >= room_; }
    void attempted(std::int64_t count) { put(3, count); }

    void log(Kind kind, std::int64_t a = 0, std::int64_t b = 0, std::int64_t c = 0, std::int64_t d = 0,
             std::int64_t e = 0, std::int64_t f = 0, std::int64_t g = 0) {
        std::int64_t* entry = words_ + 512 + 8 * words_[2];
        const std::int64_t values[] = {kind, a, b, c, d, e, f, g};
        std::memcpy(entry, values, sizeof values);
        put(2, words_[2] + 1);
    }

  private:
    void put(int word, std::int64_t value) {
        __atomic_store_n(words_ + word, value, __ATOMIC_RELEASE);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }

    std::int64_t* words_;
    std::int64_t room_;
};

struct Header {
    std::uint32_t checksum;  // of all that follows
    std::uint32_t length;
    std::int64_t publisher;
    std::int64_t epoch;
    std::int64_t sequence;  // negative: an aborted claim's
};

std::uint32_t checksum(const std::byte* message, std::size_t length) {
    return flyring::detail::crc32c(message + 4, length - 4);
}

class Worker {
  public:
    Worker(std::map<std::string, std::string> orders)
        : orders_(std::move(orders)),
          side_(orders_.at("side")),
          random_(std::stoull(orders_.at("seed"))),
          channel_(open(orders_)),
          id_(std::stoll(orders_.at("id"))) {
        for (std::size_t i = 0; i < sizeof filler_; ++i) filler_[i] = static_cast<std::byte>(random_());
    }

    void run() {
        const std::string& role = orders_.at("role");
        while (!side_.stopped() && !side_.full()) {
            if (role == "creator") return;
            if (role == "operator") return evict();
            if (role == "publisher") {
                publish();
            } else if (role == "lossy") {
                read_lossy();
            } else {
                subscribe(role == "kept");
            }
        }
    }

  private:
    static flyring::Channel open(const std::map<std::string, std::string>& orders) {
        const auto number = [&](const char* name) { return static_cast<std::uint32_t>(std::stoul(orders.at(name))); };
        if (orders.at("role") != "creator") {
            flyring::OpenOptions options;
            options.read_only = orders.at("role") == "lossy";
            return flyring::Channel::open(orders.at("channel"), options);
        }
        flyring::Options options;
        options.kind = orders.at("kind") == "inbox" ? flyring::Kind::inbox : flyring::Kind::broadcast;
        options.capacity = number("capacity");
        options.alignment = number("alignment");
        options.publishers = number("publishers");
        options.subscribers = number("subscribers");
        options.counters = 0;
        return flyring::Channel::create(orders.at("channel"), options);
    }

    std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
    /// Enters a phase, and now and then stays in it for a while, so that the driver can strike there.
    void enter(Phase phase, std::uint64_t odds = 200) {
        side_.phase(phase);
        linger(odds);
    }
    void linger(std::uint64_t odds = 200) {
        if (below(odds) == 0) nap(below(400'000));
    }

    bool fault(const char* name) { return orders_["fault"] == name && ++faults_ % 100 == 0; }

    // Publisher

    std::size_t length() {
        const std::size_t most = channel_.capacity() / 4 - 8;
        const auto dice = below(100);
        return sizeof(Header) + (dice < 25   ? 0
                                 : dice < 75 ? below(100)
                                 : dice < 97 ? below(most / 4)
                                             : most - sizeof(Header) - below(2) * below(9));
    }

    void fill(std::byte* to, std::size_t length, std::int64_t sequence) {
        Header header{0, static_cast<std::uint32_t>(length), id_, epoch_, sequence};
        for (std::size_t at = sizeof header; at < length; at += sizeof filler_) {
            std::memcpy(to + at, filler_ + 0, std::min(sizeof filler_, length - at));
        }
        for (std::size_t at = sizeof header; at + 8 <= length; at += 64) std::memcpy(to + at, &sequence, 8);
        std::memcpy(to, &header, sizeof header);
        header.checksum = checksum(to, length);
        std::memcpy(to, &header, 4);
        if (fault("torn")) to[length - 1] ^= std::byte{1};
    }

    void publish() {
        side_.attempted(0);
        enter(orders_["recovering"] == "1" ? recovering : taking, 2);
        flyring::Publisher publisher = channel_.publisher(orders_.at("name"));
        linger(2);
        orders_["recovering"] = "0";
        epoch_ = publisher.epoch();
        sequence_ = 0;
        side_.log(taken, publisher.ring(), epoch_, publisher.position(), now(), id_);
        side_.phase(working);
        for (auto n = below(10) == 0 ? below(20) : below(600); n > 0 && !side_.stopped() && !side_.full(); --n) {
            const auto dice = below(10);
            if (dice < 4) {
                offer(publisher);
            } else if (dice < 8) {
                claim(publisher, dice == 7);
            } else {
                batch(publisher, 1 + below(16));
            }
            side_.phase(working);
            if (below(64) == 0) nap(below(1'000'000));
            if (fault("skip")) ++sequence_;
            if (fault("lost"))
                side_.attempted(++sequence_), side_.log(acknowledged, sequence_, publisher.position(), 1);
        }
        const auto leaves = now();
        enter(closing, 2);
        publisher.close();
        linger(2);
        side_.log(closed, sequence_, 0, 0, leaves);
        side_.phase(working);
    }

    /// Calls attempt() until it succeeds, or until it is time to stop.
    template <typename Attempt>
    void insist(flyring::Publisher& publisher, Attempt&& attempt) {
        std::int64_t since = 0, dead_since = 0, delay = 0, dead = -1, slot = -1, live = 0, kept = 0;
        const auto end_of_dead = [&] {
            if (dead >= 0) side_.log(dead_wait, dead, dead_since, now(), run_delay() - delay);
            dead = -1;
        };
        while (!attempt()) {
            side_.phase(held_back);
            const auto holder = publisher.held_by();
            if (since == 0) {
                since = now();
                if (holder) slot = holder->slot, live = holder->live, kept = holder->kept;
            }
            if (!holder || holder->live || holder->kept) {
                end_of_dead();
            } else if (dead != holder->slot) {
                end_of_dead();
                dead = holder->slot, dead_since = now(), delay = run_delay();
            }
            if (side_.stopped()) break;
            nap(20'000);
        }
        end_of_dead();
        if (since != 0 && now() - since > 2'000'000) side_.log(held, slot, since, now(), live, kept);
    }

    void acknowledge(std::int64_t count, std::int64_t position) {
        sequence_ += count;
        side_.log(acknowledged, sequence_, position, count);
    }

    void offer(flyring::Publisher& publisher) {
        std::vector<std::byte> bytes(length());
        fill(bytes.data(), bytes.size(), sequence_);
        insist(publisher, [&] {
            side_.attempted(sequence_ + 1);
            enter(offering);
            const auto position = publisher.offer(bytes, 1 + static_cast<std::int32_t>(below(9)));
            linger();
            if (position > 0) acknowledge(1, position);
            side_.attempted(sequence_);
            return position > 0;
        });
    }

    void claim(flyring::Publisher& publisher, bool abort) {
        const auto size = length();
        insist(publisher, [&] {
            enter(claiming);
            flyring::Claim claim = publisher.claim(size);
            if (!claim) return false;
            enter(writing);
            fill(claim.data(), size, abort ? -1 - sequence_ : sequence_);
            if (abort) {
                enter(aborting, 50);
                claim.abort();
                linger(50);
                return true;
            }
            side_.attempted(sequence_ + 1);
            enter(committing);
            const auto position = claim.commit();
            linger();
            acknowledge(1, position);
            return true;
        });
    }

    void batch(flyring::Publisher& publisher, std::size_t count) {
        std::vector<std::vector<std::byte>> messages(count);
        std::vector<flyring::Bytes> views;
        for (auto& each : messages) {
            each.resize(sizeof(Header) + below(200));
            fill(each.data(), each.size(), sequence_ + (&each - messages.data()));
            views.emplace_back(each);
        }
        std::size_t done = 0;
        insist(publisher, [&] {
            side_.attempted(sequence_ + static_cast<std::int64_t>(count - done));
            enter(in_batch);
            const auto more = publisher.offer_batch({views.data() + done, count - done}, 7);
            linger();
            done += more;
            if (more > 0) acknowledge(static_cast<std::int64_t>(more), publisher.position());
            side_.attempted(sequence_);
            return done == count;
        });
    }

    // Subscribers

    void subscribe(bool kept) {
        std::vector<std::uint32_t> rings;
        if (!kept && channel_.kind() != flyring::Kind::inbox && below(3) == 0) {
            for (std::uint32_t ring = 0; ring < channel_.publishers(); ++ring) {
                if (below(2) == 0) rings.push_back(ring);
            }
        }
        const auto asked = now();
        enter(orders_["resuming"] == "1" ? resuming : joining, 2);
        flyring::Subscriber subscriber = channel_.subscriber(kept ? orders_.at("name") : "", kept, rings);
        linger(2);
        for (const auto ring : subscriber.rings()) {
            side_.log(joined, ring, subscriber.slot(), subscriber.position(ring), subscriber.epoch(), subscriber.kept(),
                      now(), asked);
        }
        orders_["resuming"] = kept ? "1" : "0";
        try {
            read(subscriber);
        } catch (const flyring::SlotLost&) {
            side_.log(slot_lost, subscriber.slot(), handled_, 0, now());
            orders_["resuming"] = "0";
        }
        side_.phase(working);
    }

    void read(flyring::Subscriber& subscriber) {
        auto polls = below(10) == 0 ? below(10) : below(500);
        bool drained = false;
        while (!side_.full() && !drained && (polls-- > 0 || side_.stopped())) {
            const bool last = side_.stopped();  // before the poll: what the poll does not find was never published
            side_.phase(polling);
            handled_ = 0;
            int count = 0;
            if (!subscriber.kept() && below(8) == 0) {
                if (const auto one = subscriber.take()) handle(*one, handling), count = 1;
            } else {
                count = subscriber.poll([&](const flyring::Message& each) { handle(each, handling); },
                                        below(4) == 0 ? 256 : 1 + static_cast<int>(below(8)));
            }
            drained = last && count == 0;
            side_.phase(idle);
            if (count == 0 || below(100) == 0) nap(count == 0 ? 20'000 : below(3'000'000));
        }
        const bool forget = subscriber.kept() && !drained && below(4) == 0;
        const auto leaves = now();
        enter(forget ? forgetting : leaving, 2);
        if (forget) {
            subscriber.forget();
            orders_["resuming"] = "0";
        } else {
            subscriber.close();
        }
        linger(2);
        side_.log(left, forget, drained, 0, leaves);
    }

    void read_lossy() {
        const auto asked = now();
        enter(starting, 2);
        auto subscriber = channel_.lossy_subscriber({}, below(2) == 0 ? flyring::Start::oldest : flyring::Start::now);
        linger(2);
        for (const auto ring : subscriber.rings()) {
            side_.log(joined, ring, 0, subscriber.position(ring), 0, 0, now(), asked);
        }
        auto polls = below(500);
        bool drained = false;
        while (!side_.full() && !drained && (polls-- > 0 || side_.stopped())) {
            const bool last = side_.stopped();
            side_.phase(reading);
            const auto each = [&](const flyring::Message& one) {
                handle(one, reading, subscriber.lost_messages(one.ring()) + fault("miscount"));
            };
            drained = subscriber.poll(each, 1 + static_cast<int>(below(20))) == 0 && last;
            side_.phase(idle);
            if (below(4) == 0) nap(below(2'000'000));
        }
        for (const auto ring : subscriber.rings()) {
            side_.log(lost, ring, subscriber.lost_messages(ring), subscriber.position(ring));
        }
        side_.log(left, 0, drained, 0, now());
        side_.phase(working);
    }

    void evict() {
        const auto slot = std::stol(orders_.at("slot"));
        const auto begins = now();
        side_.log(evicted, slot, begins);
        enter(evicting, 2);
        channel_.evict(static_cast<std::uint32_t>(slot));
        linger(2);
        side_.log(evicted, slot, begins, now());
        side_.phase(working);
    }

    void handle(const flyring::Message& message, Phase phase, std::int64_t lost = 0) {
        enter(phase);
        ++handled_;
        Header header{};
        std::int64_t torn = 1;
        if (message.size() >= sizeof header) {
            header = message.as<Header>();
            torn = header.length != message.size() || header.checksum != checksum(message.data(), message.size());
            const auto sender = message.sender().epoch;
            if (torn == 0 && sender != 0 && sender != header.epoch) torn = 2;
        }
        if (!fault("drop")) {
            side_.log(Kind::message, message.ring(), message.position(), header.epoch, header.sequence,
                      header.publisher, torn, lost);
        }
        side_.phase(phase == handling ? polling : phase);
    }

    std::map<std::string, std::string> orders_;
    Side side_;
    std::mt19937_64 random_;
    flyring::Channel channel_;
    std::int64_t id_;
    std::int64_t epoch_ = 0;
    std::int64_t sequence_ = 0;
    std::int64_t handled_ = 0;
    int faults_ = 0;
    std::byte filler_[4096];
};

}  // namespace

int main() {
    std::cout << "ready" << std::endl;
    std::string line;
    if (!std::getline(std::cin, line)) return 0;
    std::map<std::string, std::string> orders;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
        const auto equals = word.find('=');
        orders[word.substr(0, equals)] = word.substr(equals + 1);
    }
    try {
        Worker(orders).run();
    } catch (const std::exception& error) {
        std::cerr << "flyring-torture: " << error.what() << "\n";
        return 3;
    }
    return 0;
}
