// SPDX-License-Identifier: Apache-2.0
// Compiled as C++20, which has std::span; the other tests as C++17.
#include <array>
#include <flyring/span.hpp>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace {

TEST(Span, converts_from_containers_and_to_and_from_std_span) {
    std::vector<std::byte> bytes(3, std::byte{7});
    const flyring::Bytes view = bytes;
    EXPECT_EQ(view.size(), 3U);
    EXPECT_EQ(view.data(), bytes.data());
    const std::span<const std::byte> standard = view;
    EXPECT_EQ(standard.data(), bytes.data());
    const flyring::Bytes back = standard;
    EXPECT_EQ(back.size(), 3U);
    flyring::MutableBytes mutable_view = bytes;
    const std::span<std::byte> mutable_standard = mutable_view;
    mutable_standard[1] = std::byte{8};
    EXPECT_EQ(view[1], std::byte{8});
    const flyring::Bytes from_mutable = mutable_view;
    EXPECT_EQ(from_mutable.subspan(1)[0], std::byte{8});
    std::array<int, 2> numbers{1, 2};
    EXPECT_EQ(flyring::as_bytes(flyring::span<int>(numbers)).size(), 8U);
    EXPECT_EQ(flyring::as_bytes("text").size(), 4U);
    EXPECT_EQ(flyring::bytes_of(numbers).size(), 8U);
    static_assert(!std::is_convertible_v<flyring::Bytes, flyring::MutableBytes>);
    static_assert(!std::is_convertible_v<const std::vector<std::byte>&, flyring::MutableBytes>);
    static_assert(!std::is_convertible_v<std::vector<char>, flyring::Bytes>);
}

}  // namespace
