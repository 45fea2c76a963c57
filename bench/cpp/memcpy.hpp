// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "raw.hpp"
#include "support.hpp"

// The rate at which one process can copy. The consumer makes each message and copies it into a region of 1 MiB. When
// the region is full, it copies all messages out again and compares them. The producer only announces the number of
// messages of the slice, far ahead, and sleeps.

namespace bench {

struct MemcpyShared {
    alignas(64) std::atomic<std::uint64_t> granted;
    std::atomic<std::uint64_t> ends;  // value of `granted` at the end of a slice, plus one
    alignas(64) std::atomic<std::uint64_t> done;

    static MemcpyShared* open(const Setup& setup) {
        if (setup.scenario != Scenario::stream) cannot(setup, "streams only");
        only_one_to_one(setup);
        return reinterpret_cast<MemcpyShared*>(map_file(setup, "granted", 4096));
    }
};

/// The producer.
class MemcpyPacer {
  public:
    explicit MemcpyPacer(const Setup& setup)
        : ahead_((std::uint64_t{64} << 20) / setup.size), shared_(MemcpyShared::open(setup)) {}
    void connect() {}

    template <class Write>
    void send(Write&& write) {
        std::byte message[8];
        write(message);
        std::uint64_t word;
        std::memcpy(&word, message, 8);
        if (word == end_word) {
            shared_->ends.store(granted_ + 1, std::memory_order_release);
            return;
        }
        while (granted_ - shared_->done.load(std::memory_order_acquire) >= ahead_) {
            const timespec pause{0, 50'000};
            nanosleep(&pause, nullptr);
        }
        shared_->granted.store(++granted_, std::memory_order_release);
    }
    template <class Read>
    void receive(Read&&) {}
    static std::string version() { return "raw"; }

  private:
    std::uint64_t ahead_;
    MemcpyShared* shared_;
    std::uint64_t granted_ = 0;
};

/// The consumer.
template <std::size_t Size, bool Whole>
class Memcpy {
  public:
    using M = Message<Size, Whole>;

    explicit Memcpy(const Setup& setup)
        : shared_(MemcpyShared::open(setup)), region_(region_length), in_(Size), out_(Size) {}
    void connect() {}

    template <class Write>
    void send(Write&&) {}
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const std::uint64_t ends = shared_->ends.load(std::memory_order_acquire);
        if (done_ == granted_) granted_ = shared_->granted.load(std::memory_order_acquire);
        const std::uint64_t n = std::min<std::uint64_t>(granted_ - done_, region_length / Size);
        if (n == 0) {
            if (ends == done_ + 1 && ends != ended_) {
                ended_ = ends;
                number_ = 0;
                M::write_end(out_.data());
                read(out_.data());
            }
            return;
        }
        for (std::uint64_t i = 0; i < n; ++i) {
            M::write(in_.data(), M::tag(0, number_ + i));
            asm volatile("" ::: "memory");  // keeps the compiler from writing directly into the region
            std::memcpy(region_.data() + i * Size, in_.data(), Size);
        }
        for (std::uint64_t i = 0; i < n; ++i) {
            std::memcpy(out_.data(), region_.data() + i * Size, Size);
            asm volatile("" ::: "memory");
            read(out_.data());
        }
        number_ += n;
        shared_->done.store(done_ += n, std::memory_order_release);
    }
    static std::string version() { return "raw"; }

  private:
    static constexpr std::size_t region_length = std::size_t{1} << 20;

    MemcpyShared* shared_;
    std::vector<std::byte> region_, in_, out_;
    std::uint64_t granted_ = 0, done_ = 0, ended_ = 0;
    std::uint64_t number_ = 0;  // index within the slice
};

}  // namespace bench
