// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "flyring/errors.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace detail {
class PublisherCore;
}

/// Space in the ring to be filled in place, from Publisher::claim; false if the publisher was back-pressured. Valid
/// until commit or abort; the destructor aborts a claim that is still open.
class Claim {
  public:
    Claim() noexcept = default;
    Claim(Claim&& other) noexcept { take(other); }
    Claim& operator=(Claim&& other) noexcept;
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() {
        if (core_ != nullptr) give_up();
    }

    explicit operator bool() const noexcept { return core_ != nullptr; }
    std::byte* data() const noexcept { return data_; }
    /// Bytes.
    std::size_t size() const noexcept { return size_; }
    MutableBytes payload() const noexcept { return {data_, size_}; }

    /// Publishes the message. Returns the ring's new end position, bytes. Throws Closed, also for a claim that is not
    /// open, and SlotLost; the message is not published then.
    [[gnu::always_inline]] inline std::int64_t commit();

    /// Gives the space up; it becomes padding. Returns and throws as commit does.
    std::int64_t abort();

  private:
    friend class Publisher;
    friend class detail::PublisherCore;

    Claim(detail::PublisherCore& core, std::size_t length, std::int32_t type);
    detail::PublisherCore& open_core() const {
        if (core_ == nullptr) not_open();
        return *core_;
    }
    [[noreturn, gnu::cold, gnu::noinline]] static void not_open() {
        throw Closed("this claim is not open: it was committed, aborted, back-pressured, or its publisher was closed");
    }
    void take(Claim& other) noexcept;
    void give_up() noexcept;

    detail::PublisherCore* core_ = nullptr;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace flyring
