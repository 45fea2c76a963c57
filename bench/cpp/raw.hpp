// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "setup.hpp"

// The limits of the hardware: no library, no recovery, no checks.

namespace bench {

/// A mapped file of zeros in the run's folder. The first side creates it.
inline std::byte* map_file(const Setup& setup, const std::string& name, std::size_t length) {
    const int fd = open(setup.path(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, static_cast<off_t>(length)) != 0)
        throw std::runtime_error("cannot make " + setup.path(name));
    void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (at == MAP_FAILED) throw std::runtime_error("cannot map " + setup.path(name));
    return static_cast<std::byte*>(at);
}

/// One message at a time: a sequence word, then the payload. Round trips only.
class RawLine {
  public:
    explicit RawLine(const Setup& setup) : setup_(setup) {
        const std::size_t gap = (setup.size + 8 + 4095) & ~std::size_t{4095};
        std::byte* const file = map_file(setup, "line", 2 * gap);
        out_ = file + (setup.client() ? 0 : gap);
        in_ = file + (setup.client() ? gap : 0);
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(out_ + 8);
        sequence(out_)->store(++sent_, std::memory_order_release);
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        if (sequence(in_)->load(std::memory_order_acquire) != received_ + 1) return;
        ++received_;
        read(in_ + 8);
    }
    static std::string version() { return "raw"; }

  private:
    static std::atomic<std::uint64_t>* sequence(std::byte* at) {
        return reinterpret_cast<std::atomic<std::uint64_t>*>(at);
    }

    const Setup& setup_;
    std::byte* out_;
    std::byte* in_;
    std::uint64_t sent_ = 0;
    std::uint64_t received_ = 0;
};

/// Fixed slots of whole cache lines, each with a sequence word. Slots are read in place; the reader frees them by a
/// shared head.
class BareRing {
  public:
    explicit BareRing(const Setup& setup) : slot_((setup.size + 8 + 63) & ~std::size_t{63}) {
        slots_ = 64;
        while (slots_ * slot_ < (std::size_t{1} << 20)) slots_ *= 2;
        const std::size_t length = 4096 + slots_ * slot_;
        out_ = {map_file(setup, setup.producer() ? "a" : "b", length)};
        in_ = {map_file(setup, setup.producer() ? "b" : "a", length)};
    }
    void connect() {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        while (__builtin_expect(sent_ - freed_ == slots_, 0)) freed_ = out_.head()->load(std::memory_order_acquire);
        std::byte* const at = out_.base + 4096 + (sent_ & (slots_ - 1)) * slot_;
        write(at + 8);
        sequence(at)->store(++sent_, std::memory_order_release);
    }
    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        const std::uint64_t before = received_;
        while (received_ - before < 256) {
            std::byte* const at = in_.base + 4096 + (received_ & (slots_ - 1)) * slot_;
            if (sequence(at)->load(std::memory_order_acquire) != received_ + 1) break;
            ++received_;
            read(at + 8);
        }
        if (received_ != before) in_.head()->store(received_, std::memory_order_release);
    }
    static std::string version() { return "raw"; }

  private:
    struct Ring {
        std::byte* base = nullptr;
        std::atomic<std::uint64_t>* head() const { return sequence(base); }
    };
    static std::atomic<std::uint64_t>* sequence(std::byte* at) {
        return reinterpret_cast<std::atomic<std::uint64_t>*>(at);
    }

    std::size_t slot_;
    std::size_t slots_ = 0;
    Ring out_, in_;
    std::uint64_t sent_ = 0, freed_ = 0, received_ = 0;
};

}  // namespace bench
