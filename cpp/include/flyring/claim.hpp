// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "flyring/detail/publisher_core.hpp"
#include "flyring/errors.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace sbe {
template <typename T>
class TypedClaim;
}

/// Space in the ring that the caller fills in place, made by Publisher::claim or try_claim. Without room, try_claim
/// returns an empty claim, which converts to false. The bytes are valid until commit or abort; the destructor aborts an
/// open claim.
class Claim {
  public:
    Claim() noexcept = default;
    Claim(Claim&& other) noexcept
        : core_(std::exchange(other.core_, nullptr)), data_(other.data_), size_(other.size_) {}
    Claim& operator=(Claim&& other) noexcept {
        if (this == &other) return *this;
        if (core_ != nullptr) detail::PublisherCore::drop_claim(core_);
        core_ = std::exchange(other.core_, nullptr);
        data_ = other.data_;
        size_ = other.size_;
        return *this;
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    // Inlined everywhere: a call would need the claim's address, which would force the claim into memory.
    [[gnu::always_inline]] inline ~Claim() {
        if (core_ != nullptr) detail::PublisherCore::drop_claim(core_);
    }

    /// Whether the claim is open and its publisher is, too.
    explicit operator bool() const noexcept { return core_ != nullptr && core_->open(); }
    std::byte* data() const noexcept { return data_; }
    /// The payload length in bytes.
    std::size_t size() const noexcept { return size_; }
    MutableBytes payload() const noexcept { return {data_, size_}; }

    /// Publishes the message. Returns the ring's new end position in bytes. Throws Closed (the claim is not open any
    /// more, or its publisher was closed), BackPressured (the claim is empty), SlotLost; the message is then not
    /// published.
    [[gnu::always_inline]] inline std::int64_t commit() { return take_core().commit_claim(data_, size_); }

    /// Discards the claimed space, which becomes padding. Returns and throws as commit does.
    std::int64_t abort() { return take_core().abort_claim(); }

  private:
    friend class Publisher;
    template <typename T>
    friend class sbe::TypedClaim;

    /// Used by claim: waits for room.
    template <typename Type>
    [[gnu::always_inline]] inline Claim(detail::PublisherCore& core, std::size_t length, Type type,
                                        std::chrono::nanoseconds timeout)
        : core_(&core), data_(core.accept(type, timeout).claim(length, type)), size_(length) {
        if (FLYRING_UNLIKELY(data_ == nullptr)) data_ = core.claim_waiting(length, type, timeout);
    }
    /// Used by try_claim: the claim is empty if there is no room.
    template <typename Type>
    [[gnu::always_inline]] inline Claim(detail::PublisherCore& core, std::size_t length, Type type)
        : core_(&core), data_(core.claim(length, type)), size_(length) {
        if (FLYRING_LIKELY(data_ != nullptr)) return;
        core_ = nullptr;
        size_ = 0;
    }

    /// Returns the publisher's core and marks the claim as not open, whatever the caller's operation then does.
    [[gnu::always_inline]] inline detail::PublisherCore& take_core() {
        if (core_ == nullptr) throw_not_open(data_ == nullptr);
        return *std::exchange(core_, nullptr);
    }
    [[noreturn, gnu::cold, gnu::noinline]] static void throw_not_open(bool empty) {
        if (empty) throw BackPressured(std::nullopt);
        throw Closed("this claim is not open: it was committed or aborted, or its publisher was closed");
    }

    detail::PublisherCore* core_ = nullptr;  // null: not open
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace flyring
