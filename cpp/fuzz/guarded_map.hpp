// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Mappings of files between inaccessible pages. AddressSanitizer does not know what lies behind a mapping: without
// guard pages, a read behind its end would read whatever is there.

namespace fuzz {

struct Mapped {
    const std::byte* data = nullptr;
    std::size_t length = 0;
};

/// The library's mapping that contains `at`; length 0 if there is none.
Mapped mapping_of(const void* at) noexcept;

}  // namespace fuzz
