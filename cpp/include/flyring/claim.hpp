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
class TypedSpace;
}  // namespace detail

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
    friend class detail::TypedSpace;

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

namespace detail {

/// The claim of a publisher's typed claims, in a place of its own: the publisher has its address, and if it had a part
/// of a TypedClaim, no compiler would keep the encoder in registers. The publisher owns it, or, if that goes first, the
/// typed claim that is open.
class TypedSpace {
  public:
    /// Null: back-pressured.
    [[gnu::always_inline]] inline std::byte* claim(PublisherCore& core, std::size_t length, std::int32_t type);
    [[gnu::always_inline]] inline std::int64_t commit() {
        const std::int64_t end = claim_.commit();
        taken_ = false;
        return end;
    }
    std::int64_t abort() {
        const std::int64_t end = claim_.abort();
        taken_ = false;
        return end;
    }

    /// The typed claim goes.
    [[gnu::noinline]] static void give_up(TypedSpace* space) noexcept {
        space->claim_ = Claim();
        space->taken_ = false;
        if (space->left_) delete space;
    }

    /// The publisher goes, before its core.
    struct Leave {
        void operator()(TypedSpace* space) const noexcept {
            if (space->taken_) {
                space->left_ = true;
            } else {
                delete space;
            }
        }
    };

  private:
    Claim claim_;
    bool taken_ = false;  // by a typed claim
    bool left_ = false;   // by the publisher
};

}  // namespace detail
}  // namespace flyring
