// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <vector>

#include "support.hpp"

namespace bench {

/// Messages of one size over file descriptors that keep no message boundaries. One write for each message; one read
/// takes all that is there.
class ByteStream {
  public:
    explicit ByteStream(std::size_t size)
        : size_(size), message_(size), buffer_(std::max<std::size_t>(65536, 4 * size)) {}

    template <class Write>
    [[gnu::always_inline]] void send(int fd, Write&& write) {
        write(message_.data());
        for (std::size_t sent = 0; sent < size_;) {
            const ssize_t n = ::write(fd, message_.data() + sent, size_ - sent);
            if (n > 0) {
                sent += static_cast<std::size_t>(n);
            } else if (errno != EAGAIN) {
                failed("write");
            }
        }
    }

    template <class Read>
    [[gnu::always_inline]] void receive(int fd, Read&& read) {
        const ssize_t n = ::read(fd, buffer_.data() + filled_, buffer_.size() - filled_);
        if (__builtin_expect(n <= 0, 0)) {
            if (n < 0 && errno == EAGAIN) return;
            if (n == 0) throw std::runtime_error("the other side has closed");
            failed("read");
        }
        filled_ += static_cast<std::size_t>(n);
        for (; filled_ - taken_ >= size_; taken_ += size_) read(buffer_.data() + taken_);
        if (taken_ == filled_) {
            taken_ = filled_ = 0;
        } else if (buffer_.size() - filled_ < size_) {
            filled_ -= taken_;
            std::memmove(buffer_.data(), buffer_.data() + taken_, filled_);
            taken_ = 0;
        }
    }

  private:
    std::size_t size_;
    std::vector<std::byte> message_, buffer_;
    std::size_t filled_ = 0, taken_ = 0;
};

}  // namespace bench
