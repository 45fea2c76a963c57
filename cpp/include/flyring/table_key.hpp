// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "flyring/span.hpp"

namespace flyring {

/// A key of a table, as the caller gives it: text or bytes, or an integer. It refers to the caller's bytes, and lives
/// as long as one call.
class Key {
  public:
    Key(std::string_view text) noexcept : data_(reinterpret_cast<const std::byte*>(text.data())), size_(text.size()) {}
    Key(const std::string& text) noexcept : Key(std::string_view(text)) {}
    Key(const char* text) noexcept : Key(std::string_view(text)) {}
    Key(Bytes bytes) noexcept : data_(bytes.data()), size_(bytes.size()) {}
    template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer>>>
    Key(Integer integer) noexcept : integer_(static_cast<std::int64_t>(integer)), size_(sizeof integer_) {
        static_assert(!std::is_same_v<Integer, bool> && !std::is_same_v<Integer, char>, "an integer, or text");
    }

    bool is_integer() const noexcept { return data_ == nullptr && size_ == sizeof integer_; }
    const std::byte* data() const noexcept {
        return is_integer() ? reinterpret_cast<const std::byte*>(&integer_) : data_;
    }
    std::size_t size() const noexcept { return size_; }

  private:
    const std::byte* data_ = nullptr;  // null: the key is integer_
    std::int64_t integer_ = 0;
    std::size_t size_;
};

}  // namespace flyring
