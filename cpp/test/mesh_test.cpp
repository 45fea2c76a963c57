// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"

namespace {

using flyring::Channel;
using flyring::Mesh;
using support::code_of;
using namespace std::chrono_literals;
namespace layout = flyring::layout;

class Meshes : public support::ChannelTest {};

Channel mesh_channel(std::uint32_t publishers = 3, const char* name = "m") {
    flyring::Options options = support::broadcast();
    options.capacity = 16384;
    options.publishers = publishers;
    options.subscribers = 0;
    return Channel::create(name, options);
}

std::int64_t field(const flyring::Message& message, std::size_t offset) {
    return flyring::detail::get<std::int64_t>(message.data() + offset);
}

template <typename Done>
void until(Done done) {
    for (int i = 0; i < 3000 && !done(); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(done());
}

TEST_F(Meshes, the_bytes_are_as_the_spec_says) {
    std::ifstream file(support::spec_folder() + "/golden/mesh.json");
    const nlohmann::json golden = nlohmann::json::parse(file);
    const nlohmann::json& one = golden["beat"];
    const flyring::detail::Beat beat{one["sequence"], one["every"], one["due"], one["woke"], one["sent"]};
    std::vector<flyring::detail::Receipt> receipts;
    for (const nlohmann::json& each : golden["receipts"]) {
        receipts.push_back({each["ring"], each["sequence"], each["sent"], each["received"]});
    }
    std::string hex;
    for (const std::byte each : beat.encode(receipts)) {
        hex += "0123456789abcdef"[std::to_integer<unsigned>(each) >> 4U];
        hex += "0123456789abcdef"[std::to_integer<unsigned>(each) & 15U];
    }
    EXPECT_EQ(hex, golden["bytes"].get<std::string>());
    EXPECT_EQ(layout::BEAT_TYPE, 1111834964U);
}

TEST_F(Meshes, members_beat_and_note_receipts) {
    Channel channel = mesh_channel();
    flyring::LossySubscriber reader = channel.lossy_subscriber();
    const Mesh a(channel, "a", 5ms);
    const Mesh b(channel, "b", 5ms);
    std::map<std::uint32_t, std::map<std::int64_t, std::int64_t>> sent;
    std::map<std::uint32_t, std::int64_t> expected;  // the next sequence that each notes
    std::map<std::uint32_t, int> noted;
    until([&] {
        reader.poll(
            [&](const flyring::Message& message) {
                EXPECT_EQ(message.type(), 1111834964);
                EXPECT_EQ(field(message, layout::BEAT_EVERY), 5'000'000);
                EXPECT_LE(field(message, layout::BEAT_DUE), field(message, layout::BEAT_WOKE));
                EXPECT_LE(field(message, layout::BEAT_WOKE), field(message, layout::BEAT_SENT));
                const auto sequence = field(message, layout::BEAT_SEQUENCE);
                EXPECT_EQ(sequence, static_cast<std::int64_t>(sent[message.ring()].size()));
                sent[message.ring()][sequence] = field(message, layout::BEAT_SENT);
                const auto count = flyring::detail::get<std::int32_t>(message.data() + layout::BEAT_RECEIPTS);
                EXPECT_EQ(message.size(), layout::BEAT_LENGTH + layout::RECEIPT_LENGTH * static_cast<unsigned>(count));
                for (int i = 0; i < count; ++i) {
                    const std::size_t at = layout::BEAT_LENGTH + layout::RECEIPT_LENGTH * static_cast<unsigned>(i);
                    const auto of = flyring::detail::get<std::int32_t>(message.data() + at);
                    EXPECT_EQ(static_cast<std::uint32_t>(of), message.ring() == a.ring() ? b.ring() : a.ring());
                    const auto number = field(message, at + layout::RECEIPT_SEQUENCE);
                    if (noted[message.ring()]++ > 0) {
                        EXPECT_EQ(number, expected[message.ring()]);
                    }
                    expected[message.ring()] = number + 1;
                    EXPECT_LE(field(message, at + layout::RECEIPT_SENT), field(message, at + layout::RECEIPT_RECEIVED));
                    const auto known = sent[static_cast<std::uint32_t>(of)].find(number);
                    if (known != sent[static_cast<std::uint32_t>(of)].end()) {
                        EXPECT_EQ(known->second, field(message, at + layout::RECEIPT_SENT));
                    }
                }
            },
            1000, 10ms);
        return noted[a.ring()] > 10 && noted[b.ring()] > 10;
    });
    EXPECT_GT(a.beats(), 10);
    EXPECT_EQ(a.name(), "a");
    EXPECT_EQ(a.every(), 5ms);
}

TEST_F(Meshes, close_leaves_the_mesh) {
    Channel channel = mesh_channel();
    Mesh one(channel, "a");
    EXPECT_EQ(channel.stats().publishers[one.ring()].state, flyring::SlotState::live);
    one.close();
    one.close();
    EXPECT_EQ(channel.stats().publishers[one.ring()].state, flyring::SlotState::closed);
}

TEST_F(Meshes, the_close_of_the_channel_ends_the_thread) {
    Channel channel = mesh_channel();
    const Mesh one(channel, "a", 1ms);
    until([&] { return one.beats() > 3; });
    channel.close();
    std::this_thread::sleep_for(300ms);
    const std::int64_t beats = one.beats();
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(one.beats(), beats);
}

TEST_F(Meshes, a_forked_child_is_no_member) {
    Channel channel = mesh_channel();
    auto one = std::make_unique<Mesh>(channel, "a", 1ms);
    support::Child child([&](const support::Child::Ready&) {
        one->close();
        one.reset();
        return true;
    });
    EXPECT_EQ(child.wait(), 0);
    const std::int64_t beats = one->beats();
    until([&] { return one->beats() > beats + 3; });
    EXPECT_EQ(channel.stats().publishers[one->ring()].state, flyring::SlotState::live);
}

TEST_F(Meshes, what_is_refused) {
    Channel channel = mesh_channel(2);
    Channel single = mesh_channel(1, "one");
    Channel inbox = Channel::create("i", support::inbox());
    EXPECT_EQ(code_of([&] { Mesh(channel, ""); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { Mesh(channel, "a b"); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { Mesh(channel, "a", 0ns); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { Mesh(inbox, "a"); }), "invalid-argument");
    EXPECT_EQ(code_of([&] { Mesh(single, "a"); }), "invalid-argument");
    {
        const Mesh a(channel, "a");
        const Mesh b(channel, "b");
        EXPECT_EQ(code_of([&] { Mesh(channel, "c"); }), "no-free-slot");
    }
    channel.close();
    EXPECT_EQ(code_of([&] { Mesh(channel, "a"); }), "closed");
}

}  // namespace
