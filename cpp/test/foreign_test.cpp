// SPDX-License-Identifier: Apache-2.0
#include <flyring/detail/crc32c.hpp>

#include "support.hpp"

// Channels with a foreign slot (spec/channel.md 6.15): how they are made and opened, and what is refused.

namespace {

using flyring::Channel;
using flyring::Foreign;
using support::code_of;
using support::inbox;
namespace layout = flyring::layout;

flyring::Options options(Foreign foreign) {
    flyring::Options made = inbox(1, 1, 4096, 8);
    made.foreign = foreign;
    return made;
}

/// The argument of the InvalidArgument, or the field of the CorruptHeader or VersionTooNew, that `action` throws.
std::string named(const std::function<void()>& action) {
    try {
        action();
    } catch (const flyring::InvalidArgument& error) {
        return error.argument();
    } catch (const flyring::CorruptHeader& error) {
        return "corrupt " + error.field();
    } catch (const flyring::VersionTooNew& error) {
        return "new " + error.field();
    } catch (const flyring::FlyringError& error) {
        return std::string(error.code());
    }
    return "none";
}

class ForeignChannel : public support::ChannelTest {
  protected:
    template <typename T>
    void set(std::uint64_t offset, T value) {
        support::poke(file("c"), offset, value);
        const std::vector<std::byte> content = support::read_file(file("c"));
        support::poke(file("c"), layout::HEADER_CRC,
                      flyring::detail::crc32c(content.data(), layout::HEADER_CRC_LENGTH));
    }
    std::string opened() {
        return named([] { Channel::open("c"); });
    }
};

TEST_F(ForeignChannel, the_header_says_which_end_is_foreign) {
    EXPECT_EQ(Channel::create("none", inbox(1, 1, 4096, 8)).foreign(), Foreign::none);
    EXPECT_EQ(support::peek<std::uint64_t>(file("none"), 16), 0U);
    EXPECT_EQ(Channel::create("p", options(Foreign::publisher)).foreign(), Foreign::publisher);
    EXPECT_EQ(support::peek<std::uint64_t>(file("p"), 16), 2U);
    EXPECT_EQ(Channel::create("s", options(Foreign::subscriber)).foreign(), Foreign::subscriber);
    EXPECT_EQ(support::peek<std::uint64_t>(file("s"), 16), 4U);
    EXPECT_EQ(Channel::open("none").foreign(), Foreign::none);
    EXPECT_EQ(Channel::open("p").foreign(), Foreign::publisher);
    EXPECT_EQ(Channel::open("s", {true, false, {}}).foreign(), Foreign::subscriber);
    for (const char* name : {"none", "p", "s"}) {
        // The one ring of an inbox: Agrona's head is a position from the start.
        EXPECT_EQ(*support::raw(name).ring(0).gate(0), 0);
        EXPECT_EQ(*support::raw(name).ring(0).head_cache(), 0);
    }
}

TEST_F(ForeignChannel, needs_one_ring_of_alignment_8_between_two_ends) {
    const auto made = [](auto change) {
        flyring::Options asked = options(Foreign::subscriber);
        change(asked);
        return named([&] { Channel::create("bad", asked); });
    };
    EXPECT_EQ(made([](auto& asked) { asked.kind = flyring::Kind::broadcast; }), "foreign");
    EXPECT_EQ(made([](auto& asked) { asked.publishers = 2; }), "foreign");
    EXPECT_EQ(made([](auto& asked) { asked.subscribers = 2; }), "subscribers");
    EXPECT_EQ(made([](auto& asked) { asked.alignment = 64; }), "foreign");
    EXPECT_EQ(made([](auto& asked) { asked.foreign = static_cast<Foreign>(6); }), "foreign");
    EXPECT_EQ(made([](auto& asked) { asked.foreign = static_cast<Foreign>(1); }), "foreign");
    // open_or_create compares in the order alignment, foreign, counters.
    EXPECT_EQ(made([](auto& asked) { asked.alignment = 16; }), "alignment");
    EXPECT_EQ(made([](auto& asked) { asked.alignment = 64, asked.counters = 70000; }), "foreign");
    EXPECT_EQ(made([](auto&) {}), "none");
}

TEST_F(ForeignChannel, open_or_create_compares_it_between_alignment_and_counters) {
    Channel::create("c", options(Foreign::publisher));
    const auto differs = [](const flyring::Options& asked) -> std::string {
        try {
            Channel::open_or_create("c", asked);
        } catch (const flyring::ChannelDiffers& error) {
            return error.field() + " " + error.expected() + " " + error.actual();
        }
        return "none";
    };
    EXPECT_EQ(differs(options(Foreign::publisher)), "none");
    flyring::Options other = options(Foreign::subscriber);
    other.counters = 9;
    EXPECT_EQ(differs(other), "foreign subscriber publisher");
    other = options(Foreign::none);
    EXPECT_EQ(differs(other), "foreign none publisher");
    other.alignment = 64;
    EXPECT_EQ(differs(other), "alignment 64 8");
}

TEST_F(ForeignChannel, an_impossible_combination_is_reported_after_all_other_fields) {
    Channel::create("c", options(Foreign::publisher));
    for (const std::uint64_t features : {1, 3, 8, 9, 15}) {
        set(layout::HEADER_REQUIRED_FEATURES, features);
        EXPECT_EQ(opened(), "new required_features") << features;
    }
    set<std::uint64_t>(layout::HEADER_REQUIRED_FEATURES, 6);
    EXPECT_EQ(opened(), "corrupt required_features");
    for (const std::uint64_t features : {2, 4}) {
        set(layout::HEADER_REQUIRED_FEATURES, features);
        EXPECT_EQ(opened(), "none");
        set(layout::HEADER_KIND, 2);
        EXPECT_EQ(opened(), "corrupt required_features");
        set(layout::HEADER_KIND, 3);
        EXPECT_EQ(opened(), "corrupt publishers");
        set(layout::HEADER_KIND, 4);
        EXPECT_EQ(opened(), "corrupt publishers");
        set(layout::HEADER_KIND, 5);
        EXPECT_EQ(opened(), "corrupt kind");
        set(layout::HEADER_KIND, 1);
        set(layout::HEADER_ALIGNMENT, 64);
        EXPECT_EQ(opened(), "corrupt required_features");
        set(layout::HEADER_SCHEMA_VERSION, 65536);  // the last field
        EXPECT_EQ(opened(), "corrupt schema_version");
        set(layout::HEADER_SCHEMA_VERSION, 0);
        set(layout::HEADER_ALIGNMENT, 8);
        EXPECT_EQ(opened(), "none");
    }
    Channel::create("wide", inbox(2, 1, 4096, 8));
    Channel::create("loose", support::broadcast(1, 1, 4096, 8));
    for (const char* name : {"wide", "loose"}) {
        support::write_file(file("c"), support::read_file(file(name)));
        set<std::uint64_t>(layout::HEADER_REQUIRED_FEATURES, 4);
        EXPECT_EQ(opened(), "corrupt required_features") << name;
        set<std::uint64_t>(layout::HEADER_REQUIRED_FEATURES, 0);
        EXPECT_EQ(opened(), "none") << name;
    }
}

TEST_F(ForeignChannel, what_a_foreign_publisher_rules_out_is_an_invalid_argument) {
    Channel channel = Channel::create("c", options(Foreign::publisher));
    EXPECT_EQ(named([&] { channel.publisher(); }), "foreign");
    EXPECT_EQ(named([&] { channel.lossy_subscriber(); }), "foreign");
    EXPECT_EQ(named([&] { channel.lossy_subscriber(flyring::Start::oldest); }), "foreign");
    EXPECT_EQ(named([&] { channel.evict(0); }), "foreign");
    flyring::Subscriber subscriber = channel.subscriber("reader");
    EXPECT_EQ(named([&] { subscriber.forget(); }), "foreign");
    EXPECT_FALSE(subscriber.take());  // it is still open
    EXPECT_TRUE(subscriber.kept());
    subscriber.close();
    EXPECT_EQ(*support::raw("c").ring(0).gate(0), 0);
    Channel only_reads = Channel::open("c", {true, false, {}});
    EXPECT_EQ(named([&] { only_reads.lossy_subscriber(); }), "foreign");
    EXPECT_EQ(code_of([&] { only_reads.subscriber(); }), "access-denied");
    channel.close();
    EXPECT_EQ(code_of([&] { channel.lossy_subscriber(); }), "closed");
}

TEST_F(ForeignChannel, what_a_foreign_subscriber_rules_out_is_an_invalid_argument) {
    Channel channel = Channel::create("c", options(Foreign::subscriber));
    EXPECT_EQ(named([&] { channel.subscriber(); }), "foreign");
    EXPECT_EQ(named([&] { channel.subscriber("name", true); }), "foreign");
    EXPECT_EQ(named([&] { channel.publisher("", 4096); }), "foreign");
    EXPECT_EQ(named([&] { channel.evict(0); }), "foreign");
    EXPECT_EQ(*support::raw("c").ring(0).gate(0), 0);
    EXPECT_EQ(channel.publisher().ring(), 0U);
    EXPECT_FALSE(channel.lossy_subscriber().take());
}

}  // namespace
