// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "flyring/errors.hpp"
#include "flyring/span.hpp"

namespace flyring {

/// Who published a message (spec/channel.md 6.14).
struct Sender {
    /// Its publisher slot, and the ring that it writes.
    std::uint32_t ring = 0;
    /// Empty if it has none, or is not known.
    std::string name{};
    /// How often the slot had been taken; 0: the sender is not known, because a subscriber came after it had gone.
    std::int64_t epoch = 0;
};

/// What a handler may return to poll. A handler that returns something else, or nothing, means CONTINUE.
enum class Action {
    CONTINUE,
    /// Store the gate now: what was handled so far counts as read, also if the process dies.
    COMMIT,
    /// This message is consumed; the poll ends.
    BREAK,
    /// This message is not consumed; the poll ends, and the next one begins with it.
    ABORT,
};

/// A message in place in its ring. Valid until the handler that got it returns; copy what you want to keep.
class Message {
  public:
    Message(const std::byte* data, std::size_t size, std::int32_t type, std::int64_t position,
            const Sender& sender) noexcept
        : data_(data), size_(size), position_(position), sender_(&sender), type_(type) {}

    const std::byte* data() const noexcept { return data_; }
    /// Payload length, bytes.
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    Bytes payload() const noexcept { return {data_, size_}; }
    /// The type that its publisher gave it, at least 1.
    std::int32_t type() const noexcept { return type_; }
    /// The ring it came through, that is, its publisher's slot.
    std::uint32_t ring() const noexcept { return sender_->ring; }
    /// Valid as long as the message is.
    const Sender& sender() const noexcept { return *sender_; }
    /// Where its record starts, in bytes since the ring's start.
    std::int64_t position() const noexcept { return position_; }

    /// A copy of the first sizeof(T) payload bytes. Throws InvalidArgument if there are fewer.
    template <typename T>
    T as() const {
        static_assert(std::is_trivially_copyable_v<T>);
        if (size_ < sizeof(T)) too_short(size_, sizeof(T));
        T value;
        std::memcpy(&value, data_, sizeof value);
        return value;
    }

  private:
    // Not told about the object: then a message whose handler is inlined need not exist in memory.
    [[noreturn, gnu::cold, gnu::noinline]] static void too_short(std::size_t size, std::size_t wanted) {
        throw InvalidArgument("T", "a message of " + std::to_string(size) + " bytes holds no object of " +
                                       std::to_string(wanted) + "; look at size() or type() first");
    }

    const std::byte* data_;
    std::size_t size_;
    std::int64_t position_;
    const Sender* sender_;
    std::int32_t type_;
};

/// A message that owns its bytes: what take returns.
class OwnedMessage {
  public:
    explicit OwnedMessage(const Message& message)
        : bytes_(message.payload().begin(), message.payload().end()),
          sender_(message.sender()),
          position_(message.position()),
          type_(message.type()) {}

    const std::byte* data() const noexcept { return bytes_.data(); }
    std::size_t size() const noexcept { return bytes_.size(); }
    bool empty() const noexcept { return bytes_.empty(); }
    Bytes payload() const noexcept { return {bytes_.data(), bytes_.size()}; }
    std::int32_t type() const noexcept { return type_; }
    std::uint32_t ring() const noexcept { return sender_.ring; }
    const Sender& sender() const noexcept { return sender_; }
    std::int64_t position() const noexcept { return position_; }

    /// The same message as a view; valid as long as this object is.
    operator Message() const noexcept { return {data(), size(), type_, position_, sender_}; }

    template <typename T>
    T as() const {
        return Message(*this).as<T>();
    }

  private:
    std::vector<std::byte> bytes_;
    Sender sender_;
    std::int64_t position_;
    std::int32_t type_;
};

}  // namespace flyring
