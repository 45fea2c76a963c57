// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "support.hpp"

// The layout header's values are literals. So comparing its text with spec/layout.toml compares each value, in both
// directions.

static std::map<std::string, std::string> read_header() {
    std::ifstream stream(FLYRING_INCLUDE_DIR "/flyring/detail/layout.hpp");
    std::map<std::string, std::string> values;
    for (std::string line; std::getline(stream, line);) {
        std::istringstream words(line);
        std::string keywords[2], type, name, equals, value;
        words >> keywords[0] >> keywords[1] >> type >> name >> equals >> value;
        if (keywords[0] != "inline" || keywords[1] != "constexpr") continue;
        values[name] = value.substr(0, value.find(';'));
    }
    return values;
}

TEST(Layout, every_value_of_layout_toml_is_in_the_header_and_nothing_else_is) {
    std::map<std::string, std::string> header = read_header();
    ASSERT_EQ(header["MAGIC"], "0x00474e4952594c46");
    ASSERT_EQ(header["TABLE_MAGIC"], "0x004c424154594c46");
    ASSERT_EQ(header["JOURNAL_MAGIC"], "0x004c4e524a594c46");
    ASSERT_EQ(header["JOURNAL_SEGMENT_MAGIC_WORD"], "0x004d474553594c46");
    for (const char* magic : {"MAGIC", "TABLE_MAGIC", "JOURNAL_MAGIC", "JOURNAL_SEGMENT_MAGIC_WORD"}) {
        header.erase(magic);
    }
    std::map<std::string, std::string> spec;
    for (const support::Table& table : support::read_layout()) {
        if (table.name == "flip" || table.name == "bad_field") continue;
        if (table.name == "table_bad_field" || table.name == "journal_bad_field") continue;
        for (const auto& [key, value] : table.values) {
            std::string name = table.name == "constants" ? key : table.name + "_" + key;
            for (char& letter : name) letter = static_cast<char>(std::toupper(letter));
            spec[name] = value;
        }
    }
    ASSERT_EQ(spec["MAGIC_HEX"], "464c5952494e4700");
    ASSERT_EQ(spec["TABLE_MAGIC_HEX"], "464c595441424c00");
    ASSERT_EQ(spec["JOURNAL_MAGIC_HEX"], "464c594a524e4c00");
    ASSERT_EQ(spec["JOURNAL_SEGMENT_MAGIC_HEX"], "464c595345474d00");
    for (const char* magic : {"MAGIC_HEX", "TABLE_MAGIC_HEX", "JOURNAL_MAGIC_HEX", "JOURNAL_SEGMENT_MAGIC_HEX"}) {
        spec.erase(magic);
    }
    EXPECT_GT(spec.size(), 100U);
    EXPECT_EQ(header, spec);
}
