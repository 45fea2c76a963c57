// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>
#include <sys/syscall.h>

#include "contenders.hpp"
#include "raw.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// A count that one process raises and another process sleeps on: futex(2), without spinning. Bit 0 of the word says
/// that the other process sleeps, so that the system call to wake it is made only then, and once. The other bits are
/// the count, modulo 2^31.
class FutexCount {
  public:
    std::uint32_t get() const { return word_.load(std::memory_order_acquire) >> 1; }

    void raise(std::uint32_t to) {
        if ((word_.exchange(to << 1, std::memory_order_release) & 1) != 0)
            syscall(SYS_futex, &word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }

    /// Waits while the count is `seen`; may return earlier.
    void wait(std::uint32_t seen) {
        std::uint32_t word = seen << 1;
        if (word_.compare_exchange_strong(word, word | 1, std::memory_order_relaxed) || word == (seen << 1 | 1)) {
            syscall(SYS_futex, &word_, FUTEX_WAIT, seen << 1 | 1, nullptr, nullptr, 0);
        }
    }

    static std::uint32_t difference(std::uint32_t a, std::uint32_t b) { return (a - b) & 0x7fffffff; }

  private:
    std::atomic<std::uint32_t> word_;
};

/// A ring of slots each way, used in place at both ends, with two such counts: sent and received.
class Futex {
  public:
    explicit Futex(const Setup& setup)
        : slot_((setup.size + 63) & ~std::size_t{63}), slots_(static_cast<std::uint32_t>(queue_length(slot_))) {
        if (!setup.block) cannot(setup, "it is what sleeping costs; raw-line and bare-ring spin (--wait block)");
        only_one_to_one(setup);
        out_ = ring(setup, setup.producer() ? "to-b" : "to-a");
        in_ = ring(setup, setup.producer() ? "to-a" : "to-b");
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        for (std::uint32_t received; FutexCount::difference(sent_, received = out_->received.get()) == slots_;) {
            out_->received.wait(received);
        }
        write(at(out_, sent_));
        out_->sent.raise(++sent_);
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const std::uint32_t sent = in_->sent.get();
        const std::uint32_t n = std::min(FutexCount::difference(sent, received_), slots_ / 4);
        if (n == 0) return in_->sent.wait(sent);
        for (std::uint32_t i = 0; i < n; ++i) read(at(in_, received_ + i));
        in_->received.raise(received_ += n);
    }
    static std::string version() { return linux_version(); }

  private:
    struct Ring {
        alignas(64) FutexCount sent;
        alignas(64) FutexCount received;
    };

    Ring* ring(const Setup& setup, const std::string& name) const {
        return reinterpret_cast<Ring*>(map_file(setup, name, 4096 + slots_ * slot_));
    }
    std::byte* at(Ring* ring, std::uint32_t number) const {
        return reinterpret_cast<std::byte*>(ring) + 4096 + (number & (slots_ - 1)) * slot_;
    }

    std::size_t slot_;
    std::uint32_t slots_;  // a power of two
    Ring *out_, *in_;
    std::uint32_t sent_ = 0, received_ = 0;
};

}  // namespace

void run_futex(const Setup& setup) {
    run<Futex>(setup);
}

}  // namespace bench
