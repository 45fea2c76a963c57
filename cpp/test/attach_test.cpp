// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <flyring/detail/crc32c.hpp>
#include <flyring/detail/layout.hpp>

#include "support.hpp"

// Attaching to files that are not channels, to broken ones, and to other versions.

namespace {

using flyring::Channel;
namespace layout = flyring::layout;

struct Found {
    std::string code;
    std::string field;
};

Found attach(const std::string& path) {
    try {
        Channel::open(path);
    } catch (const flyring::VersionTooNew& error) {
        return {std::string(error.code()), error.field()};
    } catch (const flyring::CorruptHeader& error) {
        return {std::string(error.code()), error.field()};
    } catch (const flyring::FlyringError& error) {
        return {std::string(error.code()), ""};
    }
    return {"none", ""};
}

class Attach : public support::ChannelTest {
  protected:
    void put_crc(std::vector<std::byte>& content) const {
        flyring::detail::put(content.data() + layout::HEADER_CRC,
                             flyring::detail::crc32c(content.data(), layout::HEADER_CRC_LENGTH));
    }

    /// The bytes of a channel with default dimensions.
    std::vector<std::byte> default_inbox() const {
        flyring::Options options;
        options.kind = flyring::Kind::inbox;
        Channel::create("default", options);
        return support::read_file(file("default"));
    }
};

TEST_F(Attach, crc32c_gives_the_known_check_value) {
    EXPECT_EQ(flyring::detail::crc32c(support::bytes("123456789").data(), 9), 0xe3069283U);
}

TEST_F(Attach, each_flipped_header_byte_gives_the_error_of_layout_toml) {
    int flips = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(support::spec_folder() + "/golden")) {
        if (entry.path().extension() != ".ring" || entry.path().parent_path().filename() == "refused") continue;
        std::vector<std::byte> content = support::read_file(entry.path());
        support::write_file(file("flipped"), content);
        ASSERT_EQ(attach("flipped").code, "none") << entry.path();
        const auto length = static_cast<std::int64_t>(content.size());
        for (const support::Table& table : support::read_layout()) {
            if (table.name != "flip") continue;
            for (std::int64_t at = table.number("first"); at <= table.number("last"); ++at) {
                const auto byte = static_cast<std::uint64_t>(at);
                const std::byte flipped = content[byte] ^ std::byte{0xff};
                support::poke(file("flipped"), byte, flipped);
                std::string code = table.values.at("error");
                std::string field = table.values.count("field") != 0 ? table.values.at("field") : "";
                if (code == "file_length") {
                    const auto says = support::peek<std::int64_t>(file("flipped"), layout::HEADER_FILE_LENGTH);
                    code = says > length ? "truncated" : "corrupt-header";
                    field = says > length ? "" : "file_length";
                }
                const Found found = attach("flipped");
                ASSERT_EQ(found.code, code) << entry.path() << " byte " << at;
                ASSERT_EQ(found.field, field) << entry.path() << " byte " << at;
                support::poke(file("flipped"), byte, content[byte]);
                ++flips;
            }
        }
    }
    EXPECT_GE(flips, 10 * 4096);
}

TEST_F(Attach, each_bad_field_of_layout_toml_is_named_when_the_crc_is_right) {
    const std::vector<std::byte> good = default_inbox();
    std::map<std::string, std::uint64_t> offsets;
    int fields = 0;
    for (const support::Table& table : support::read_layout()) {
        if (table.name == "header") {
            for (const auto& [key, value] : table.values) offsets[key] = std::stoull(value);
        }
        if (table.name != "bad_field") continue;
        const std::string& name = table.values.at("field");
        SCOPED_TRACE(name + " = " + table.values.at("value"));
        std::vector<std::byte> bad = good;
        const std::int64_t value = table.number("value");
        std::memcpy(bad.data() + offsets.at(name), &value, static_cast<std::size_t>(table.number("size")));
        put_crc(bad);
        support::write_file(file("bad"), bad);
        const Found found = attach("bad");
        EXPECT_EQ(found.code, table.values.at("error"));
        EXPECT_EQ(found.field, found.code == "truncated" ? "" : table.values.at("names"));
        ++fields;
    }
    EXPECT_GT(fields, 50);
}

TEST_F(Attach, a_newer_minor_version_is_read) {
    std::vector<std::byte> content = default_inbox();
    flyring::detail::put(content.data() + layout::HEADER_MINOR, std::uint16_t{7});
    flyring::detail::put(content.data() + layout::HEADER_OPTIONAL_FEATURES, ~std::uint64_t{0});
    put_crc(content);
    support::write_file(file("newer"), content);
    EXPECT_EQ(attach("newer").code, "none");
}

TEST_F(Attach, another_major_version_and_an_unknown_required_feature_are_version_too_new) {
    const std::vector<std::byte> good = default_inbox();
    const auto said = [&] {
        try {
            Channel::open("newer");
        } catch (const flyring::VersionTooNew& error) {
            return error.field() + " " + std::to_string(error.found()) + " " + std::to_string(error.supported());
        }
        return std::string("none");
    };
    std::vector<std::byte> content = good;
    flyring::detail::put(content.data() + layout::HEADER_MAJOR, std::uint16_t{2});
    support::write_file(file("newer"), content);
    EXPECT_EQ(said(), "major 2 1");
    std::filesystem::resize_file(file("newer"), 10);
    EXPECT_EQ(said(), "major 2 1");
    content = good;
    flyring::detail::put(content.data() + layout::HEADER_REQUIRED_FEATURES, std::uint64_t{1} << 40U);
    put_crc(content);
    support::write_file(file("newer"), content);
    EXPECT_EQ(said(), "required_features 1099511627776 6");
}

TEST_F(Attach, a_file_that_is_no_channel_is_refused) {
    support::write_file(file("empty"), {});
    EXPECT_EQ(attach("empty").code, "not-a-channel");
    const flyring::Bytes prose = support::bytes("Dear diary, this is no channel.");
    support::write_file(file("text"), {prose.begin(), prose.end()});
    EXPECT_EQ(attach("text").code, "not-a-channel");
    std::filesystem::create_directory(file("folder"));
    EXPECT_EQ(attach("folder").code, "not-a-channel");
    EXPECT_EQ(attach("missing").code, "no-such-channel");
    EXPECT_EQ(attach("/no/such/folder/x.ring").code, "no-such-channel");
    EXPECT_EQ(attach(file("text") + "/x.ring").code, "no-such-channel");
    default_inbox();
    std::filesystem::create_symlink(file("default"), file("link"));
    EXPECT_EQ(attach("link").code, "not-a-channel");
    ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
    EXPECT_EQ(attach("pipe").code, "not-a-channel");
    EXPECT_EQ(support::code_of([] { Channel::unlink("text"); }), "not-a-channel");
    EXPECT_TRUE(std::filesystem::exists(file("text")));
}

TEST_F(Attach, an_invalid_name_is_refused) {
    EXPECT_EQ(attach("").code, "invalid-argument");
    EXPECT_EQ(attach("two words").code, "invalid-argument");
    EXPECT_EQ(attach(std::string(65, 'x')).code, "invalid-argument");
    EXPECT_EQ(attach(std::string(64, 'x')).code, "no-such-channel");
}

}  // namespace
