// SPDX-License-Identifier: Apache-2.0
#include <odd/Empty.h>
#include <odd/Tree.h>
#include <orders_v1/Ack.h>
#include <orders_v1/Fill.h>
#include <orders_v3/Ack.h>
#include <orders_v3/Fill.h>

#include <flyring/sbe.hpp>
#include <long_text/schema.hpp>
#include <odd/schema.hpp>
#include <orders_v1/schema.hpp>
#include <orders_v3/schema.hpp>
#include <prices/schema.hpp>

#include "../support.hpp"

// Publishers and readers of different versions in one channel, unusual schemas, and schemas in channels.

namespace {

namespace v1 = orders::v1;
namespace v3 = orders::v3;
using flyring::sbe::dispatch;
using flyring::sbe::on;

class Versions : public support::ChannelTest {
  protected:
    template <typename T, typename Handler>
    int poll(Handler&& handler) {
        return subscriber.poll(dispatch(on<T>(handler)));
    }

    flyring::Channel channel = flyring::Channel::create("c", support::broadcast());
    flyring::Publisher publisher = channel.publisher();
    flyring::Subscriber subscriber = channel.subscriber();
};

template <typename Fill>
void write_parts(Fill& fill) {
    auto& parts = fill.partsCount(2);
    parts.next().size(1);
    parts.next().size(2);
    fill.putVenue(std::string_view("XFLY"));
}

TEST_F(Versions, an_older_reader_skips_what_it_does_not_know) {
    auto ack = publisher.claim<v3::Ack>();
    ASSERT_TRUE(ack);
    ack->order(1).delay(2).hops(3);
    ack.commit();
    EXPECT_EQ(poll<v1::Ack>([](v1::Ack& seen) {
                  EXPECT_EQ(seen.order(), 1U);
                  EXPECT_EQ(seen.actingVersion(), 3U);
                  EXPECT_EQ(seen.sbePosition(), 8U + 14);  // the end of the publisher's block, not of the codec's
              }),
              1);
    auto fill = publisher.claim<v3::Fill>(4 + 2 * 12 + 2 + 4 + 2 + 4);
    fill->order(1).fee(-5);
    write_parts(*fill);
    fill->putRemark(std::string_view("rest"));
    fill.commit();
    EXPECT_EQ(poll<v1::Fill>([](v1::Fill& seen) {
                  auto& parts = seen.parts();
                  EXPECT_EQ(parts.next().size(), 1U);
                  EXPECT_EQ(parts.next().size(), 2U);
                  EXPECT_EQ(seen.getVenueAsString(), "XFLY");
              }),
              1);
}

TEST_F(Versions, a_newer_reader_sees_null_where_an_older_publisher_has_nothing) {
    auto ack = publisher.claim<v1::Ack>();
    ASSERT_TRUE(ack);
    ack->order(1);
    ack.commit();
    int seen = 0;
    poll<v3::Ack>([&](v3::Ack& each) {
        EXPECT_EQ(each.order(), 1U);
        EXPECT_EQ(each.delay(), v3::Ack::delayNullValue());
        EXPECT_EQ(each.hops(), v3::Ack::hopsNullValue());
        EXPECT_EQ(each.actingVersion(), 1U);
        ++seen;
    });
    auto fill = publisher.claim<v1::Fill>(4 + 2 * 4 + 2 + 4);
    fill->order(1);
    write_parts(*fill);
    fill.commit();
    poll<v3::Fill>([&](v3::Fill& each) {
        EXPECT_EQ(each.fee(), v3::Fill::feeNullValue());
        auto& parts = each.parts();
        EXPECT_EQ(parts.count(), 2U);
        parts.forEach([&](v3::Fill::Parts& part) {
            EXPECT_EQ(part.size(), static_cast<std::uint32_t>(++seen - 1));
            EXPECT_EQ(part.price(), v3::Fill::Parts::priceNullValue());
        });
        EXPECT_EQ(each.getVenueAsString(), "XFLY");
        EXPECT_FALSE(each.remarkInActingVersion());
        EXPECT_EQ(each.getRemarkAsString(), "");
    });
    EXPECT_EQ(seen, 3);
}

TEST_F(Versions, a_shorter_message_of_an_older_version_is_read_in_front_of_zeros) {
    // A header that claims version 2 with a block of 8 bytes: version 2's `delay` would lie behind the payload.
    const std::uint16_t lying[8] = {8, 1, 21, 2, 0xffff, 0xffff, 0xffff, 0xffff};
    ASSERT_GT(publisher.offer({reinterpret_cast<const std::byte*>(lying), sizeof lying}, 1), 0);
    EXPECT_EQ(poll<v3::Ack>([](v3::Ack& each) {
                  EXPECT_EQ(each.order(), ~std::uint64_t{0});
                  EXPECT_EQ(each.delay(), 0U);
                  EXPECT_EQ(each.hops(), v3::Ack::hopsNullValue());
              }),
              1);
}

TEST_F(Versions, groups_and_data_that_reach_behind_the_payload_are_the_codecs_error) {
    struct {
        std::uint16_t header[4] = {16, 2, 21, 3};
        std::uint64_t order[2] = {1, 2};
        std::uint16_t group[2] = {12, 1};
        std::uint8_t entry[12] = {};
        std::uint16_t venue = 0;
        std::uint16_t remark = 0;
    } message;
    static_assert(sizeof message == 48);
    const auto outcome = [&](std::size_t size, auto&& read) {
        EXPECT_GT(publisher.offer({reinterpret_cast<const std::byte*>(&message), size}, 2), 0);
        std::string what = "none";
        try {
            poll<v3::Fill>([&](v3::Fill& fill) {
                auto& parts = fill.parts();
                while (parts.hasNext()) {
                    EXPECT_EQ(parts.next().price(), fill.actingVersion() < 3 ? v3::Fill::Parts::priceNullValue() : 0);
                }
                read(fill);
            });
        } catch (const std::runtime_error& error) {
            what = error.what();
        }
        return what;
    };
    const auto as_string = [](v3::Fill& fill) { return fill.getVenueAsString(); };
    const auto as_view = [](v3::Fill& fill) { return fill.getVenueAsStringView(); };
    const auto as_pointer = [](v3::Fill& fill) { return fill.venue(); };
    const auto length = [](v3::Fill& fill) { return fill.venueLength(); };
    const auto skip = [](v3::Fill& fill) { return fill.skipVenue(); };
    const auto copy = [](v3::Fill& fill) {
        char bytes[4];
        return fill.getVenue(bytes, sizeof bytes);
    };
    const auto all = [&](std::size_t size) {
        return outcome(size, as_string) + "|" + outcome(size, as_view) + "|" + outcome(size, as_pointer) + "|" +
               outcome(size, skip) + "|" + outcome(size, copy);
    };
    const std::string short_buffer = "buffer too short [E100]";
    const std::string five =
        short_buffer + "|" + short_buffer + "|" + short_buffer + "|" + short_buffer + "|" + short_buffer;
    EXPECT_EQ(all(44), "none|none|none|none|none");
    EXPECT_EQ(outcome(44, length), "none");
    EXPECT_EQ(all(41), five);
    EXPECT_EQ(outcome(41, length), short_buffer);
    message.venue = 5;
    EXPECT_EQ(all(46), five);
    EXPECT_EQ(outcome(46, length), "none");
    message.venue = 0;
    EXPECT_EQ(outcome(39, [](v3::Fill&) {}), "buffer too short for next group index [E108]");
    EXPECT_EQ(outcome(27, [](v3::Fill&) {}), "buffer too short for flyweight [E107]");
    message.group[0] = 11;  // price ends at 12
    EXPECT_EQ(outcome(48, [](v3::Fill&) {}), "group entry too short for its version [E108]");
    message.group[1] = 0;
    EXPECT_EQ(outcome(48, [](v3::Fill&) {}), "none");
    message.group[0] = 4;
    message.group[1] = 1;
    message.header[3] = 2;  // no price there
    EXPECT_EQ(outcome(48, [](v3::Fill&) {}), "none");
}

TEST_F(Versions, big_endian_and_a_header_of_its_own) {
    const std::vector<std::byte> dirt(1000, std::byte{0xff});
    for (int i = 0; i < 8; ++i) {  // bytes of a claim that are not written keep this
        ASSERT_GT(publisher.offer({dirt.data(), dirt.size()}), 0);
        ASSERT_EQ(subscriber.poll(dispatch()), 1);
    }
    auto tree = publisher.claim<odd::Tree>(300);
    ASSERT_TRUE(tree);
    tree->root(0x01020304).class_(-2);
    auto& made = tree->branchesCount(2);
    for (int i = 0; i < 2; ++i) {
        made.next().weight(0.5 + i);
        auto& leaves = made.leavesCount(static_cast<std::uint8_t>(i + 1));
        for (int j = 0; j <= i; ++j) {
            leaves.next().colour(static_cast<std::uint16_t>(0x0a0b + j));
            leaves.putNote(std::string_view("note"));
        }
        made.putLabel(std::string_view("label"));
    }
    tree->putPicture(std::string_view("picture"));
    tree.commit();
    EXPECT_EQ(poll<odd::Tree>([](odd::Tree& seen, const flyring::Message& message) {
                  EXPECT_EQ(message.type(), 65535);
                  const unsigned char expected[18] = {0, 0, 0, 0, 2, 1, 255, 255, 255, 255, 0, 6, 1, 2, 3, 4, 255, 254};
                  EXPECT_EQ(std::memcmp(message.data(), expected, sizeof expected), 0);
                  EXPECT_EQ(seen.root(), 0x01020304U);
                  EXPECT_EQ(seen.class_(), -2);
                  auto& branches = seen.branches();
                  for (int i = 0; i < 2; ++i) {
                      EXPECT_EQ(branches.next().weight(), 0.5 + i);
                      auto& leaves = branches.leaves();
                      EXPECT_EQ(leaves.count(), static_cast<std::uint64_t>(i + 1));
                      for (int j = 0; j <= i; ++j) {
                          EXPECT_EQ(leaves.next().colour(), 0x0a0b + j);
                          EXPECT_EQ(leaves.getNoteAsStringView(), "note");
                      }
                      EXPECT_EQ(branches.getLabelAsString(), "label");
                  }
                  EXPECT_EQ(seen.getPictureAsString(), "picture");
              }),
              1);
    publisher.claim<odd::Empty>().commit();
    publisher.claim<odd::Empty>(3).commit();
    EXPECT_EQ(poll<odd::Empty>([](odd::Empty& empty) { EXPECT_EQ(empty.sbePosition(), 12U); }), 2);
    const std::byte bad[12] = {};
    publisher.offer({bad, sizeof bad}, 65535);
    EXPECT_THROW(poll<odd::Tree>([](odd::Tree&) {}), flyring::BadMessage);
    publisher.offer({bad, 11}, 7);
    EXPECT_THROW(poll<odd::Empty>([](odd::Empty&) {}), flyring::BadMessage);
}

std::string read(const std::string& path) {
    const auto bytes = support::read_file(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SchemaConstant, is_the_text_as_it_was_written_if_it_includes_nothing) {
    EXPECT_EQ(prices::schema.text, read(support::spec_folder() + "/sbe/prices.xml"));
    EXPECT_EQ(prices::schema.id, 7U);
    EXPECT_EQ(prices::schema.version, 1U);
    static_assert(prices::schema.id == 7);
}

TEST(SchemaConstant, may_be_longer_than_a_compiler_must_take) {
    EXPECT_GT(long_text::schema.text.size(), 300'000U);
    EXPECT_EQ(long_text::schema.text, read(FLYRING_LONG_SCHEMA));
}

TEST(SchemaConstant, has_no_include) {
    const std::string_view text = odd::schema.text;
    EXPECT_EQ(text.find("include"), std::string_view::npos);
    EXPECT_NE(text.find("<composite name=\"frame\""), std::string_view::npos);
    EXPECT_NE(text.find("\u201cquotes\u201d"), std::string_view::npos);
    EXPECT_EQ(odd::schema.id, 65535U);
    EXPECT_EQ(odd::schema.version, 513U);
}

class SchemaOptions : public support::ChannelTest {
  protected:
    static std::string differs(const flyring::OpenOptions& options) {
        try {
            flyring::Channel::open("c", options);
        } catch (const flyring::ChannelDiffers& error) {
            EXPECT_EQ(error.code(), "differs");
            return error.field() + " expected " + error.expected() + " actual " + error.actual();
        }
        return "none";
    }
    static flyring::OpenOptions require(std::optional<flyring::Schema> schema, std::uint32_t version = 0) {
        flyring::OpenOptions options;
        options.schema = schema;
        options.min_schema_version = version;
        return options;
    }
};

TEST_F(SchemaOptions, use_puts_the_schema_into_the_channel) {
    const flyring::Channel channel = flyring::Channel::create("c", support::broadcast().use(v3::schema));
    EXPECT_EQ(channel.schema(), v3::schema.text);
    EXPECT_EQ(channel.schema_id(), 21U);
    EXPECT_EQ(channel.schema_version(), 3U);
    EXPECT_NO_THROW(flyring::Channel::open_or_create("c", support::broadcast().use(v3::schema)));
    EXPECT_NO_THROW(flyring::Channel::open_or_create("c", support::broadcast().use(v1::schema)));
    flyring::Channel::create("old", support::broadcast().use(v1::schema));
    EXPECT_EQ(support::code_of([] { flyring::Channel::open_or_create("old", support::broadcast().use(v3::schema)); }),
              "differs");
}

TEST_F(SchemaOptions, open_may_require_a_schema_of_the_same_id) {
    flyring::Channel::create("c", support::broadcast().use(v3::schema));
    EXPECT_EQ(differs(require(v3::schema)), "none");
    EXPECT_EQ(differs(require(v1::schema)), "none");  // versions need not be equal
    EXPECT_EQ(differs(require(prices::schema)), "schema_id expected 7 actual 21");
    EXPECT_EQ(differs(require(v1::schema, 3)), "none");
    EXPECT_EQ(differs(require(v1::schema, 4)), "schema_version expected 4 actual 3");
    EXPECT_EQ(differs(require({}, 4)), "schema_version expected 4 actual 3");
    EXPECT_EQ(differs(require({}, 3)), "none");
    flyring::OpenOptions read_only = require(prices::schema);
    read_only.read_only = true;
    EXPECT_EQ(differs(read_only), "schema_id expected 7 actual 21");
}

TEST_F(SchemaOptions, a_channel_without_a_schema_is_not_one_with_it) {
    flyring::Channel::create("c", support::broadcast());
    EXPECT_EQ(differs(require(v3::schema)), "schema expected 21 actual none");
    EXPECT_EQ(differs(require(v3::schema, 9)), "schema expected 21 actual none");
    EXPECT_EQ(differs(require({}, 1)), "schema_version expected 1 actual 0");
    EXPECT_EQ(differs(require({})), "none");
    EXPECT_THROW(differs(require({}, 65536)), flyring::InvalidArgument);
}

}  // namespace
