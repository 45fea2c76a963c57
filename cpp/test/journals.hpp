// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <flyring/journal.hpp>
#include <string>
#include <vector>

#include "support.hpp"

// What the tests of journals share.

namespace journals {

using namespace std::chrono_literals;
using flyring::Journal;
using flyring::JournalConsumer;
using flyring::JournalMessage;
using flyring::JournalReader;
using flyring::JournalStart;
using flyring::JournalTrim;
using flyring::JournalWriter;
namespace layout = flyring::layout;

inline constexpr std::int64_t smallest = 65536;  // a segment

class JournalTest : public support::ChannelTest {
  protected:
    std::string journal_folder(const std::string& name = "j") const { return folder() + "/" + name + ".journal"; }
    std::string control_file(const std::string& name = "j") const { return journal_folder(name) + "/control"; }
    std::string segment_file(std::int64_t position, const std::string& name = "j") const {
        return journal_folder(name) + "/" + flyring::detail::segment_name(position);
    }
    /// A copy of the whole folder: what a kill leaves at this moment.
    std::string copy(const std::string& to) const {
        std::filesystem::copy(journal_folder(), journal_folder(to), std::filesystem::copy_options::recursive);
        return to;
    }
    template <typename T>
    T control_word(std::uint64_t word, const std::string& name = "j") const {
        return support::peek<T>(control_file(name), layout::HEADER_LENGTH + word);
    }
    template <typename T>
    void set_control_word(std::uint64_t word, T value, const std::string& name = "j") const {
        support::poke<T>(control_file(name), layout::HEADER_LENGTH + word, value);
    }
};

inline flyring::JournalOptions options(std::uint64_t segment_size = smallest) {
    flyring::JournalOptions made;
    made.segment_size = segment_size;
    return made;
}
/// The machine's boot with this number.
inline flyring::detail::JournalInEnvironment boot(std::uint8_t number) {
    flyring::detail::JournalInEnvironment made;
    made.environment.boot_id = flyring::Uuid{};
    made.environment.boot_id->fill(static_cast<std::byte>(number));
    return made;
}
/// The offset of a position in its segment's file.
inline std::uint64_t offset_in_segment(std::int64_t position, std::int64_t segment_size = smallest) {
    return layout::HEADER_LENGTH + static_cast<std::uint64_t>(position & (segment_size - 1));
}

/// A writer without a helper, for tests in which nothing else may happen.
inline JournalWriter writer(Journal& journal) {
    return journal.writer("", false);
}
/// Message `number`: of 8 to 800 bytes, in which each word tells the number.
inline std::string numbered(std::uint64_t number) {
    const std::vector<std::uint64_t> words = support::numbered(number, 100);
    return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::uint64_t)};
}
inline std::int64_t number_in(const flyring::Message& message) {
    const auto number = support::number_of(message, 100);
    return number ? static_cast<std::int64_t>(*number) : -1;
}
/// Appends the messages first, first + 1, ... Returns their positions.
inline std::vector<std::int64_t> append(JournalWriter& writer, std::int64_t first, std::int64_t count) {
    std::vector<std::int64_t> positions;
    for (std::int64_t i = first; i < first + count; ++i) {
        positions.push_back(writer.append(numbered(static_cast<std::uint64_t>(i)), 1));
    }
    return positions;
}
/// Reads all that is there. Each message must be the one with its number. Returns how many.
template <typename Reader>
std::int64_t read_all(Reader& reader) {
    std::int64_t count = 0;
    while (reader.poll([&](const JournalMessage& message) {
        EXPECT_EQ(number_in(message), message.number()) << "at " << message.position();
        ++count;
    }) > 0) {
    }
    return count;
}

}  // namespace journals
