// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "setup.hpp"

namespace bench {

/// The page `words` in the sides' folder (bench/PEER.md, jobs, burst and append): 64-bit words, one in each cache line.
class Words {
  public:
    static constexpr unsigned sent = 0;    // messages sent in all slices
    static constexpr unsigned slices = 1;  // slices all of whose messages or jobs were sent
    static constexpr unsigned first = 2;   // word first + k: messages that consumer k has finished

    explicit Words(const Setup& setup) {
        const std::string path = setup.path("words");
        const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        void* page = fd < 0 || ftruncate(fd, length) != 0
                         ? MAP_FAILED
                         : mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0) ::close(fd);
        if (page == MAP_FAILED) throw std::runtime_error("cannot map " + path);
        lines_ = static_cast<Line*>(page);
    }
    Words(const Words&) = delete;
    ~Words() { munmap(lines_, length); }

    std::uint64_t get(unsigned word) const { return lines_[word].value.load(std::memory_order_acquire); }
    void set(unsigned word, std::uint64_t value) { lines_[word].value.store(value, std::memory_order_release); }

  private:
    struct alignas(64) Line {
        std::atomic<std::uint64_t> value;
    };
    static constexpr std::size_t length = 4096;

    Line* lines_;
};

}  // namespace bench
