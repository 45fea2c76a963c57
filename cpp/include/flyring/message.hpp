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

/// The publisher of a message (spec/channel.md 6.14).
struct Sender {
    /// The publisher's slot, which is also the number of its ring.
    std::uint32_t ring = 0;
    /// Empty if the publisher has no name, or is not known.
    std::string name{};
    /// How often the slot had been taken when the message was published. 0: the sender is not known, because the
    /// subscriber came after the sender had gone.
    std::int64_t epoch = 0;
};

namespace detail {

/// The sender of what has none: values of a table, messages of a journal.
inline const Sender& no_sender() noexcept {
    static const Sender none{};
    return none;
}

}  // namespace detail

/// What a handler may return to poll. A handler that returns nothing, or another type, means CONTINUE.
enum class Action {
    CONTINUE,
    /// Store the gate now: the messages handled so far count as read, even if the process dies right after.
    COMMIT,
    /// This message is consumed; the poll ends.
    BREAK,
    /// This message is not consumed; the poll ends, and the next poll begins with it.
    ABORT,
};

/// A view of a message in place in its ring. Valid until the handler that got it returns; copy what you want to keep.
class Message {
  public:
    Message(const std::byte* data, std::size_t size, std::int32_t type, std::int64_t position,
            const Sender& sender) noexcept
        : data_(data), size_(size), position_(position), sender_(&sender), type_(type) {}

    const std::byte* data() const noexcept { return data_; }
    /// Payload length in bytes.
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    Bytes payload() const noexcept { return {data_, size_}; }
    /// The message type that the publisher gave, at least 1.
    std::int32_t type() const noexcept { return type_; }
    /// The ring that the message came through, which is also its publisher's slot.
    std::uint32_t ring() const noexcept { return sender_->ring; }
    /// The reference is valid as long as the message.
    const Sender& sender() const noexcept { return *sender_; }
    /// The position at which the message's record starts, in bytes since the ring's creation.
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
    // Takes the sizes, not the object: so the compiler can keep a message in registers when its handler is inlined.
    [[noreturn, gnu::cold, gnu::noinline]] static void too_short(std::size_t size, std::size_t wanted) {
        throw InvalidArgument("T", "a message of " + std::to_string(size) + " bytes holds no object of " +
                                       std::to_string(wanted) + " bytes; look at size() or type() first");
    }

    const std::byte* data_;
    std::size_t size_;
    std::int64_t position_;
    const Sender* sender_;
    std::int32_t type_;
};

/// A message that owns its bytes, as take returns it.
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

    /// A view of this message; valid as long as this object.
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
