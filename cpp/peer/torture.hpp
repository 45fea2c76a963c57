// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <flyring/flyring.hpp>
#include <map>
#include <optional>
#include <random>
#include <string>

// What all workers of the SIGKILL torture (interop-tests/torture/WORKER.md) share: the side file, random choices, naps,
// faults, and counters.

namespace torture {

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
    evicting,
    counting,
    seating,
    fetching,
    finishing,
    giving_back,
    replying,
    calling,
    awaiting,
    putting,
    removing,
    comparing,
    clearing,
    growing,
    copying,
    looking,
    walking,
    sleeping,
    appending_one,
    pushing,
    syncing,
    trimming
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
    lost,
    counter,
    first,
    seated,
    job,
    done_at,
    giving,
    given,
    idle_span,
    request,
    called,
    ended,
    begun,
    changed,
    saw,
    walked,
    slept,
    appending,
    appended,
    following,
    read,
    polled
};

inline std::int64_t now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

/// How long this thread has waited for a processor, in ns.
inline std::int64_t run_delay() {
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    if (std::FILE* file = std::fopen("/proc/thread-self/schedstat", "re")) {
        if (std::fscanf(file, "%ld %ld", &ran, &waited) != 2) waited = 0;
        std::fclose(file);
    }
    return waited;
}

struct Moment {
    std::int64_t time;   // as of now()
    std::int64_t delay;  // as of run_delay()
};

/// Reads both values of one moment: repeats if this thread waited for a processor in between.
inline Moment moment() {
    for (;;) {
        const auto delay = run_delay();
        const auto time = now();
        if (run_delay() == delay) return {time, delay};
    }
}

/// The worker's log and state in a mapped file, which outlives this process. WORKER.md describes its words.
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
    void counting(std::int64_t count) { put(4, count); }
    void counted(std::int64_t count) { put(5, count); }

    void nap(std::uint64_t nanoseconds) {
        const timespec time{0, static_cast<long>(nanoseconds)};
        put(6, 1);
        ::nanosleep(&time, nullptr);
        put(6, 0);
    }

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
    std::uint32_t checksum;  // of all bytes after it
    std::uint32_t length;
    std::int64_t publisher;  // publisher_number() of the publisher's name
    std::int64_t epoch;
    std::int64_t sequence;  // negative for an aborted claim
};

inline std::uint32_t checksum(const std::byte* message, std::size_t length) {
    return flyring::detail::crc32c(message + 4, length - 4);
}

/// The number that stands for a publisher in its messages. Derived from the name, so that a reader can compare it with
/// the sender.
inline std::int64_t publisher_number(const std::string& name) {
    return flyring::detail::crc32c(reinterpret_cast<const std::byte*>(name.data()), name.size());
}

using Orders = std::map<std::string, std::string>;

/// What all workers share, also those of tables.
class AnyWorker {
  public:
    explicit AnyWorker(Orders orders)
        : orders_(std::move(orders)), side_(orders_.at("side")), random_(std::stoull(orders_.at("seed"))) {}
    virtual ~AnyWorker() = default;
    virtual void run() = 0;

  protected:
    // Random choices.

    std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
    /// Enters a phase, and sometimes stays in it for a while, so that the driver's kill can hit it.
    void enter(Phase phase, std::uint64_t odds = 200) {
        side_.phase(phase);
        linger(odds);
    }
    void linger(std::uint64_t odds = 200) {
        if (below(odds) == 0) side_.nap(below(400'000));
    }

    bool fault(const char* name, int every = 20) { return orders_["fault"] == name && ++faults_ % every == 0; }

    Orders orders_;
    Side side_;
    std::mt19937_64 random_;

  private:
    int faults_ = 0;
};

class Worker : public AnyWorker {
  public:
    explicit Worker(Orders orders) : AnyWorker(std::move(orders)), channel_(open(orders_)) {}

    void run() override {
        const std::string& role = orders_.at("role");
        if (role == "operator") return session();
        const bool counts = role != "lossy" && role != "server" && role != "caller";
        if (counts) begin_counting();
        while (!side_.stopped() && !side_.full()) session();
        if (counts) end_counting();
    }

  protected:
    /// Takes a slot, works, and gives the slot back.
    virtual void session() = 0;

    /// Spins for 20 us. The thread does nothing else then, so a gap is time that the machine gave to others.
    void spin() {
        const auto begin = now();
        for (auto last = begin; last - begin < 20'000;) {
            const auto time = now();
            if (time - last > 50'000) lost_to_the_machine_ += time - last;
            last = time;
        }
    }

    // Counters: one of this worker, and one that all workers of the channel add to.

    void begin_counting() {
        auto counters = channel_.counters();
        enter(Phase::counting, 2);
        own_ = counters.allocate(orders_.at("name") + " " + std::to_string(::getpid()));
        linger(2);
        side_.log(Kind::counter, own_->id());
        side_.phase(working);
        common_ = counters.find("common").value();
    }

    void count(std::int64_t n) {
        total_ += n;
        side_.counting(total_);
        own_->get_and_add(n);
        if (below(2) == 0) {
            common_->get_and_add(n);
        } else {
            std::int64_t old = common_->get_volatile();
            while (!common_->compare_and_set(old, old + n)) old = common_->get_volatile();
        }
        side_.counted(total_);
        if (fault("count")) common_->get_and_add(1);
    }

    void end_counting() {
        if (own_->get_volatile() != total_) {
            throw std::runtime_error("its own counter is " + std::to_string(own_->get_volatile()) + ", not " +
                                     std::to_string(total_));
        }
        side_.log(Kind::counter, -1);  // from here on the driver ignores the counter
        enter(Phase::counting, 2);
        own_->free();
        linger(2);
        side_.phase(working);
    }

    flyring::Channel channel_;
    std::int64_t lost_to_the_machine_ = 0;

  private:
    static flyring::Channel open(const Orders& orders) {
        flyring::OpenOptions options;
        options.read_only = orders.at("role") == "lossy";
        return flyring::Channel::open(orders.at("channel"), options);
    }

    std::int64_t total_ = 0;
    std::optional<flyring::Counter> own_;
    std::optional<flyring::Counter> common_;
};

}  // namespace torture
