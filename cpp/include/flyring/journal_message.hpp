// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "flyring/message.hpp"

namespace flyring {

/// A view of a message of a journal. Valid until the handler that got it returns; copy what you want to keep. Its
/// sender is none, and its ring 0.
class JournalMessage : public Message {
  public:
    JournalMessage(const std::byte* data, std::size_t size, std::int32_t type, std::int64_t position, std::int64_t time,
                   std::int64_t number, const Sender& sender) noexcept
        : Message(data, size, type, position, sender), time_(time), number_(number) {}

    /// When it was appended, or what its writer gave: ns since 1970.
    std::int64_t time() const noexcept { return time_; }
    /// How many messages lie before it.
    std::int64_t number() const noexcept { return number_; }

  private:
    std::int64_t time_;
    std::int64_t number_;
};

/// A message of a journal that owns its bytes, as take returns it.
class OwnedJournalMessage : public OwnedMessage {
  public:
    explicit OwnedJournalMessage(const JournalMessage& message)
        : OwnedMessage(message), time_(message.time()), number_(message.number()) {}

    /// ns since 1970.
    std::int64_t time() const noexcept { return time_; }
    /// How many messages lie before it.
    std::int64_t number() const noexcept { return number_; }

    /// A view of this message; valid as long as this object.
    operator JournalMessage() const noexcept { return {data(), size(), type(), position(), time_, number_, sender()}; }

  private:
    std::int64_t time_;
    std::int64_t number_;
};

}  // namespace flyring
