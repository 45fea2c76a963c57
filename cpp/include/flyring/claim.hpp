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

namespace detail {
class SharedClaim;
}
namespace sbe {
template <typename T>
class TypedClaim;
}

/// Space in the ring to be filled in place, from Publisher::claim or try_claim; false, and empty, if try_claim found no
/// room. Valid until commit or abort; the destructor aborts a claim that is still open.
class Claim {
  public:
    Claim() noexcept = default;
    Claim(Claim&& other) noexcept { take(other); }
    Claim& operator=(Claim&& other) noexcept {
        if (this != &other) {
            if (core_ != nullptr) abandon();
            take(other);
        }
        return *this;
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() {
        if (core_ != nullptr) abandon();
    }

    explicit operator bool() const noexcept { return core_ != nullptr; }
    std::byte* data() const noexcept { return data_; }
    /// Bytes.
    std::size_t size() const noexcept { return size_; }
    MutableBytes payload() const noexcept { return {data_, size_}; }

    /// Publishes the message. Returns the ring's new end position, bytes. Throws Closed, also for a claim that is not
    /// open any more, BackPressured for an empty one, and SlotLost; the message is not published then.
    [[gnu::always_inline]] inline std::int64_t commit() {
        const std::int64_t end = open_core().commit_claim();
        core_ = nullptr;
        return end;
    }

    /// Gives the space up; it becomes padding. Returns and throws as commit does.
    std::int64_t abort() {
        const std::int64_t end = open_core().abort_claim();
        core_ = nullptr;
        return end;
    }

  private:
    friend class Publisher;
    friend class detail::SharedClaim;
    template <typename T>
    friend class sbe::TypedClaim;

    /// Waits for room.
    [[gnu::always_inline]] inline Claim(detail::PublisherCore& core, std::size_t length, std::int32_t type,
                                        std::chrono::nanoseconds timeout)
        : data_(core.claim(length, type, &core_)), size_(length) {
        if (FLYRING_UNLIKELY(data_ == nullptr)) data_ = core.claim_waiting(length, type, &core_, timeout);
        core_ = &core;
    }
    /// Empty if there is no room.
    [[gnu::always_inline]] inline Claim(detail::PublisherCore& core, std::size_t length, std::int32_t type)
        : data_(core.claim(length, type, &core_)), size_(length) {
        if (FLYRING_LIKELY(data_ != nullptr)) {
            core_ = &core;
        } else {
            size_ = 0;
        }
    }

    detail::PublisherCore& open_core() const {
        if (core_ == nullptr) throw_not_open(data_ == nullptr);
        return *core_;
    }
    [[noreturn, gnu::cold, gnu::noinline]] static void throw_not_open(bool empty) {
        if (empty) throw BackPressured(std::nullopt);
        throw Closed("this claim is not open: it was committed or aborted, or its publisher was closed");
    }
    void take(Claim& other) noexcept {
        core_ = std::exchange(other.core_, nullptr);
        data_ = other.data_;
        size_ = other.size_;
        if (core_ != nullptr) core_->set_claim(&core_);
    }
    void abandon() noexcept {
        detail::PublisherCore& core = *std::exchange(core_, nullptr);
        if (core.usable()) {
            core.abort_claim();
        } else {
            core.set_claim(nullptr);
        }
    }

    detail::PublisherCore* core_ = nullptr;  // null: not open; the publisher sets it to null when it closes
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail {

/// The claim of a publisher's typed claims, on the heap. The publisher has its address; if it were a part of
/// TypedClaim, no compiler would keep the encoder in registers. The publisher owns it. If the publisher ends first, the
/// typed claim that is open owns it.
class SharedClaim {
  public:
    /// Null: back-pressured.
    [[gnu::always_inline]] inline std::byte* claim(PublisherCore& core, std::size_t length, std::int32_t type) {
        std::byte* const data = core.claim(length, type, &claim_.core_);
        if (data == nullptr) return nullptr;
        claim_.core_ = &core;
        in_typed_claim_ = true;
        return data;
    }
    /// claim has found no room.
    [[gnu::cold, gnu::noinline]] std::byte* claim_waiting(PublisherCore& core, std::size_t length, std::int32_t type,
                                                          std::chrono::nanoseconds timeout) {
        std::byte* const data = core.claim_waiting(length, type, &claim_.core_, timeout);
        claim_.core_ = &core;
        in_typed_claim_ = true;
        return data;
    }
    [[gnu::always_inline]] inline std::int64_t commit() {
        if (claim_.core_ == nullptr) Claim::throw_not_open(false);
        const std::int64_t end = claim_.core_->commit_claim();
        claim_.core_ = nullptr;
        in_typed_claim_ = false;
        return end;
    }
    std::int64_t abort() {
        if (claim_.core_ == nullptr) Claim::throw_not_open(false);
        const std::int64_t end = claim_.core_->abort_claim();
        claim_.core_ = nullptr;
        in_typed_claim_ = false;
        return end;
    }

    /// The typed claim ends; what is open is aborted.
    [[gnu::noinline]] static void end_typed_claim(SharedClaim* shared) noexcept {
        shared->claim_ = Claim();
        shared->in_typed_claim_ = false;
        if (shared->publisher_ended_) delete shared;
    }

    /// The publisher ends, before its core.
    struct EndPublisher {
        void operator()(SharedClaim* shared) const noexcept {
            if (shared->in_typed_claim_) {
                shared->publisher_ended_ = true;
            } else {
                delete shared;
            }
        }
    };

  private:
    Claim claim_;
    bool in_typed_claim_ = false;  // a typed claim has this object
    bool publisher_ended_ = false;
};

}  // namespace detail
}  // namespace flyring
