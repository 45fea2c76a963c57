// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <flyring/journal.hpp>
#include <string>

#include "plan.hpp"

// What the tracer and the child agree on about journals. The messages are those of spec/golden/journal_files.py, so
// that what a child stores can be compared with the files of the dead.

namespace steps {

inline std::string journal_value(std::int64_t seed, std::size_t length = 20) {
    std::string value(length, '\0');
    for (std::size_t i = 0; i < length; ++i) value[i] = static_cast<char>(seed + 7 * static_cast<std::int64_t>(i));
    return value;
}

/// As fixed(), of a journal.
inline flyring::detail::JournalInEnvironment fixed_journal(std::int32_t pid, std::byte boot = std::byte{0x22}) {
    flyring::detail::Environment environment = fixed(pid).environment;
    environment.channel_id = flyring::Uuid{std::byte{0x33}};
    environment.boot_id = flyring::Uuid{boot};
    return {environment};
}

/// Appends messages of zeros up to a place of the segment.
inline void fill_journal(flyring::JournalWriter& writer, std::int64_t segment_size, std::int64_t until) {
    while (writer.position() % segment_size < until) {
        const auto rest = static_cast<std::size_t>(until - writer.position() % segment_size);
        writer.append(std::string(std::min(rest, writer.max_message_length()), '\0'), 1);
    }
}
/// So that 128 bytes are left of the segment before its last 64; by padding, which a walk is fast over.
inline void pad_near_end(flyring::JournalWriter& writer, std::int64_t segment_size) {
    for (std::int64_t until = segment_size - 128 - 64; writer.position() % segment_size < until;) {
        const auto rest = static_cast<std::size_t>(until - writer.position() % segment_size);
        writer.claim(std::min(rest, writer.max_message_length()), 1).abort();
    }
}
/// So that `left` bytes are left of the segment before its last 64.
inline void fill_near_end(flyring::JournalWriter& writer, std::int64_t segment_size, std::int64_t left = 128) {
    fill_journal(writer, segment_size, segment_size - left - 64);
}

}  // namespace steps
