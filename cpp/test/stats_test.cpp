// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "support.hpp"

// Channel::stats(): the readers of a ring, and what a call costs.

namespace {

using flyring::Channel;
using support::broadcast;

class Stats : public support::ChannelTest {};

std::vector<std::int32_t> readers(const Channel& channel) {
    std::vector<std::int32_t> found;
    for (const flyring::PublisherStats& ring : channel.stats().publishers) found.push_back(ring.readers);
    return found;
}

TEST_F(Stats, readers_are_the_owned_slots_that_read_a_ring) {
    Channel channel = Channel::create("c", broadcast(2, 3));
    EXPECT_EQ(readers(channel), (std::vector<std::int32_t>{0, 0}));
    flyring::Subscriber one = channel.subscriber("one", false, {1});
    flyring::Subscriber kept = channel.subscriber("kept", true);
    EXPECT_EQ(readers(channel), (std::vector<std::int32_t>{1, 2}));
    kept.close();  // its gates stay
    EXPECT_EQ(readers(channel), (std::vector<std::int32_t>{0, 1}));
    one.close();
    EXPECT_EQ(readers(channel), (std::vector<std::int32_t>{0, 0}));
}

/// The slots whose state is live: publishers, then subscribers.
std::vector<bool> live(const Channel& channel) {
    const flyring::Stats stats = channel.stats();
    std::vector<bool> found;
    for (const auto& slot : stats.publishers) found.push_back(slot.state == flyring::SlotState::live);
    for (const auto& slot : stats.subscribers) found.push_back(slot.state == flyring::SlotState::live);
    return found;
}

TEST_F(Stats, each_owner_is_found_however_many_there_are) {
    Channel channel = Channel::create("c", broadcast(8, 8));
    std::vector<flyring::Publisher> publishers;
    std::vector<flyring::Subscriber> subscribers;
    for (int i = 0; i < 8; ++i) publishers.push_back(channel.publisher());
    for (int i = 0; i < 8; ++i) subscribers.push_back(channel.subscriber());
    std::vector<bool> expected(16, true);
    EXPECT_EQ(live(channel), expected);
    for (const std::size_t slot : {3U, 11U, 4U, 0U, 15U, 9U, 10U, 8U, 7U, 1U, 14U, 6U, 2U, 13U, 5U, 12U}) {
        if (slot < 8) {
            publishers[slot].close();
        } else {
            subscribers[slot - 8].close();
        }
        expected[slot] = false;
        EXPECT_EQ(live(channel), expected);
    }
}

TEST_F(Stats, a_lock_of_another_program_is_no_owner) {
    Channel channel = Channel::create("c", broadcast(4, 4));
    const flyring::Subscriber one = channel.subscriber();
    const int fd = ::open(channel.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    struct flock range{};
    range.l_type = F_WRLCK;
    // The lock ends with the lock byte of publisher slot 2; it contains no other byte that stands for an owner.
    const auto at = static_cast<off_t>(flyring::layout::HEADER_LENGTH + flyring::layout::CONTROL_SLOTS +
                                       flyring::layout::CONTROL_SLOT_LOCK);
    range.l_start = at + static_cast<off_t>(flyring::layout::CONTROL_SLOT_LENGTH) + 1;
    range.l_len = static_cast<off_t>(flyring::layout::CONTROL_SLOT_LENGTH);
    ASSERT_EQ(::fcntl(fd, F_OFD_SETLK, &range), 0);
    EXPECT_EQ(live(channel), (std::vector<bool>{false, false, true, false, true, false, false, false}));
    ::close(fd);
    EXPECT_EQ(live(channel), (std::vector<bool>{false, false, false, false, true, false, false, false}));
}

TEST_F(Stats, are_cheap) {
    Channel channel = Channel::create("c", broadcast(16, 16));
    std::vector<flyring::Publisher> publishers;
    std::vector<flyring::Subscriber> subscribers;
    for (int i = 0; i < 16; ++i) {
        publishers.push_back(channel.publisher());
        subscribers.push_back(channel.subscriber());
    }
    double best = 1;
    for (int i = 0; i < 200; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const flyring::Stats stats = channel.stats();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        ASSERT_EQ(stats.subscribers.back().gates.size(), 16U);
    }
    EXPECT_LT(best, 0.0002);  // 14 us on an idle core of 2023, of which the 32 tests of locks are 10
}

}  // namespace
