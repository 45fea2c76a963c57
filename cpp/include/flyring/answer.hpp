// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "flyring/message.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace detail {
class ClientCore;
}

/// What a server replied: an answer, or an item of a stream. Owns its bytes; small ones take no memory of the heap.
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
    /// The type that the server gave it.
    std::int32_t type() const noexcept { return type_; }
    /// Where its record lay, in bytes since the ring's start.
    std::int64_t position() const noexcept { return position_; }
    /// At least once: a handler was given the request more than once (spec/service.md 8).
    bool repeat() const noexcept { return repeat_; }

    /// The same as a view, valid as long as this object is and stays as it is. Its sender has no name.
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
        } else if (bytes.size() != 0) {
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
