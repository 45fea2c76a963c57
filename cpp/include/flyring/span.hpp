// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>
#if __has_include(<ranges>) && __cplusplus >= 202002L
#include <ranges>
#endif

namespace flyring {

/// A view of `size()` consecutive objects that it does not own, like std::span of C++20. Made from an array or from any
/// container with data() and size(); converts to std::span where that exists.
template <typename T>
class span {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using iterator = T*;

    constexpr span() noexcept = default;
    constexpr span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}

    template <std::size_t N>
    constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}

    template <typename Container, typename Element = std::remove_pointer_t<decltype(std::declval<Container&>().data())>,
              typename = std::enable_if_t<
                  !std::is_same_v<std::decay_t<Container>, span> && std::is_convertible_v<Element (*)[], T (*)[]> &&
                  std::is_convertible_v<decltype(std::declval<Container&>().size()), std::size_t>>>
    constexpr span(Container&& container) noexcept : data_(container.data()), size_(container.size()) {}

    constexpr T* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T* begin() const noexcept { return data_; }
    constexpr T* end() const noexcept { return data_ + size_; }
    constexpr T& operator[](std::size_t index) const noexcept { return data_[index]; }
    constexpr span first(std::size_t count) const noexcept { return {data_, count}; }
    constexpr span subspan(std::size_t offset) const noexcept { return {data_ + offset, size_ - offset}; }
    constexpr span subspan(std::size_t offset, std::size_t count) const noexcept { return {data_ + offset, count}; }

  private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Read-only bytes, such as a message's payload.
using Bytes = span<const std::byte>;
/// Bytes that the caller may write.
using MutableBytes = span<std::byte>;

/// A view of the bytes of `objects`; valid as long as the objects.
template <typename T>
Bytes as_bytes(span<T> objects) noexcept {
    return {reinterpret_cast<const std::byte*>(objects.data()), objects.size_bytes()};
}

inline Bytes as_bytes(std::string_view text) noexcept {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// A view of the bytes of one trivially copyable object; valid as long as the object.
template <typename T, typename = std::enable_if_t<std::is_trivially_copyable_v<T>>>
Bytes bytes_of(const T& object) noexcept {
    return {reinterpret_cast<const std::byte*>(&object), sizeof(T)};
}

}  // namespace flyring

#if __has_include(<ranges>) && __cplusplus >= 202002L
template <typename T>
inline constexpr bool std::ranges::enable_borrowed_range<flyring::span<T>> = true;
#endif
