// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "flyring/span.hpp"

// Messages in encoders that sbe-tool generates for C++ (spec/messages.md 1).

namespace flyring::detail {

template <typename T, typename = void>
struct IsEncoder : std::false_type {};
template <typename T>
struct IsEncoder<T, std::void_t<decltype(T::sbeTemplateId()), decltype(T::messageHeader::encodedLength()),
                                decltype(std::declval<const T&>().encodedLength())>> : std::true_type {};

template <typename T>
using IfEncoder = std::enable_if_t<IsEncoder<T>::value, int>;

/// The bytes of header and message in an encoder, after its wrapAndApplyHeader and all fields.
template <typename T>
Bytes encoded(const T& encoder) {
    static_assert(T::sbeTemplateId() != 0, "a template whose id is 0 cannot be published: types are 1 or more");
    constexpr std::size_t header = T::messageHeader::encodedLength();
    const char* const first = encoder.buffer() + encoder.offset() - header;
    return {reinterpret_cast<const std::byte*>(first), header + static_cast<std::size_t>(encoder.encodedLength())};
}

template <typename T>
inline constexpr std::int32_t type_of = static_cast<std::int32_t>(T::sbeTemplateId());

}  // namespace flyring::detail
