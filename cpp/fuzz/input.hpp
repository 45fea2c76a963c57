// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fuzz {

/// The fuzzer's bytes, read from the front. Missing bytes are 0.
class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) noexcept : at_(data), left_(size) {}

    bool empty() const noexcept { return left_ == 0; }
    const std::uint8_t* rest() const noexcept { return at_; }
    std::size_t left() const noexcept { return left_; }

    template <typename T>
    T next() noexcept {
        T value{};
        const std::size_t size = std::min(sizeof value, left_);
        if (size != 0) std::memcpy(&value, at_, size);
        at_ += size;
        left_ -= size;
        return value;
    }

    /// A number from 0 to below - 1.
    std::uint32_t below(std::uint32_t below) noexcept {
        const std::uint32_t value = below <= 256 ? next<std::uint8_t>() : next<std::uint32_t>();
        return below == 0 ? 0 : value % below;
    }

  private:
    const std::uint8_t* at_;
    std::size_t left_;
};

}  // namespace fuzz
