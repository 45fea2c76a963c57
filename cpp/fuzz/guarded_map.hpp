// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Mappings of files between pages that nobody may touch. AddressSanitizer knows nothing of what lies behind a mapping:
// without them a read behind its end would just read what happens to be there.

namespace fuzz {

struct Mapped {
    const std::byte* data = nullptr;
    std::size_t length = 0;
};

/// The mapping made by the library in which `at` lies; none: length 0.
Mapped mapping_of(const void* at) noexcept;

}  // namespace fuzz
