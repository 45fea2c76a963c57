// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "flyring/detail/memory.hpp"
#include "flyring/message.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace detail {
class ClientCore;
}

/// A server's reply: an answer, or an item of a stream. Owns its bytes; up to 192 bytes need no heap memory.
class Answer {
  public:
    Answer() noexcept = default;
    Answer(const Answer& other) { *this = other; }
    Answer(Answer&& other) noexcept { *this = std::move(other); }
    Answer& operator=(const Answer& other) {
        if (this == &other) return *this;
        assign(other.payload());
        copy_facts(other);
        return *this;
    }
    Answer& operator=(Answer&& other) noexcept {
        if (this == &other) return *this;
        if (other.size_ > small) {
            large_.swap(other.large_);
            size_ = other.size_;
        } else {
            assign(other.payload());
        }
        copy_facts(other);
        return *this;
    }
    ~Answer() = default;

    const std::byte* data() const noexcept { return size_ > small ? large_.data() : small_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    Bytes payload() const noexcept { return {data(), size_}; }
    /// The type that the server gave the reply.
    std::int32_t type() const noexcept { return type_; }
    /// The position of the reply's record, in bytes since the ring's creation.
    std::int64_t position() const noexcept { return position_; }
    /// True if a handler got the request more than once; only with at-least-once delivery (spec/service.md 8).
    bool repeat() const noexcept { return repeat_; }

    /// A view of this answer, valid until this object changes or is destroyed. The view's sender has no name.
    operator Message() const noexcept { return {data(), size_, type_, position_, sender_}; }

    /// A copy of the first sizeof(T) bytes. Throws InvalidArgument if there are fewer.
    template <typename T>
    T as() const {
        return Message(*this).as<T>();
    }

  private:
    friend class detail::ClientCore;
    static constexpr std::size_t small = 192;  // bytes

    void set(Bytes payload, std::int32_t type, std::int64_t position, bool repeat, std::uint32_t ring) {
        assign(payload);
        type_ = type;
        position_ = position;
        repeat_ = repeat;
        sender_.ring = ring;
    }
    void assign(Bytes bytes) {
        if (bytes.size() > small) {
            large_.assign(bytes.begin(), bytes.end());
        } else if (bytes.size() <= detail::small) {
            detail::copy_small(small_, bytes.data(), bytes.size());
        } else {
            std::memcpy(small_, bytes.data(), bytes.size());
        }
        size_ = bytes.size();
    }
    void copy_facts(const Answer& other) noexcept {
        type_ = other.type_;
        position_ = other.position_;
        repeat_ = other.repeat_;
        sender_.ring = other.sender_.ring;
    }

    std::size_t size_ = 0;
    std::int64_t position_ = 0;
    std::int32_t type_ = 0;
    bool repeat_ = false;
    std::byte small_[small];
    std::vector<std::byte> large_;
    Sender sender_;
};

}  // namespace flyring
