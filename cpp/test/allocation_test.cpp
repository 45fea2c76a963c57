// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "allocations.hpp"
#include "faults.hpp"
#include "journals.hpp"
#include "support.hpp"

// Sending and receiving a message allocates nothing. If a sanitizer has replaced malloc, these tests report that they
// were skipped.

namespace {

class Allocation : public support::ChannelTest {
  protected:
    void SetUp() override {
        if (!support::counts_allocations()) GTEST_SKIP() << "a sanitizer has its own malloc";
    }
};

TEST_F(Allocation, the_count_sees_a_seeded_allocation) {
    const long before = support::allocations();
    std::vector<int>* volatile seeded = new std::vector<int>(100);
    EXPECT_EQ(support::allocations() - before, 2);
    delete seeded;
    // take copies the message, so its allocation is counted, too.
    flyring::Channel channel = flyring::Channel::create("c", support::broadcast());
    flyring::Subscriber subscriber = channel.subscriber();
    channel.publisher().offer(support::bytes("x"));
    const long before_take = support::allocations();
    EXPECT_TRUE(subscriber.take());
    EXPECT_GT(support::allocations(), before_take);
}

TEST_F(Allocation, a_million_messages_by_offer_claim_batch_and_poll_allocate_nothing) {
    flyring::Channel channel = flyring::Channel::create("c", support::broadcast(1, 1, 65536));
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    std::int64_t sum = 0;
    std::int64_t sent = 0;
    const auto round = [&](std::int64_t value) {
        const flyring::Bytes batch[2] = {flyring::bytes_of(value), flyring::bytes_of(value)};
        while (publisher.offer(flyring::bytes_of(value)) != flyring::back_pressured) {
            ++sent;
            if (flyring::Claim claim = publisher.try_claim(sizeof value)) {
                std::memcpy(claim.data(), &value, sizeof value);
                if (value % 7 == 0) {
                    claim.abort();
                } else {
                    claim.commit();
                    ++sent;
                }
            }
            sent += static_cast<std::int64_t>(publisher.offer_batch(batch));
        }
        while (subscriber.poll([&](const flyring::Message& message) {
            EXPECT_EQ(message.size(), sizeof value);
            ++sum;
        }) > 0) {
        }
    };
    round(1);
    const long before = support::allocations();
    std::int64_t value = 0;
    while (sum < 1'000'000) round(value++);
    EXPECT_EQ(support::allocations(), before);
    EXPECT_EQ(sum, sent);
}

TEST_F(Allocation, waits_allocate_nothing) {
    flyring::Channel channel = flyring::Channel::create("c", support::broadcast());
    flyring::LossySubscriber lossy = channel.lossy_subscriber();
    flyring::Subscriber subscriber = channel.subscriber();
    flyring::Publisher publisher = channel.publisher();
    const std::vector<flyring::Bytes> batch(100, support::bytes("b"));
    const auto nothing = [](const flyring::Message&) {};
    for (const auto spin : {std::chrono::microseconds(0), std::chrono::microseconds(50)}) {
        lossy.set_spin(spin);
        subscriber.set_spin(spin);
        publisher.set_spin(spin);
        const long before = support::allocations();
        EXPECT_EQ(subscriber.poll(nothing, 10, std::chrono::milliseconds(3)), 0);
        EXPECT_EQ(lossy.poll(nothing, 10, std::chrono::milliseconds(3)), 0);
        EXPECT_LT(publisher.send_batch(batch, std::chrono::milliseconds(10)), batch.size());
        while (subscriber.poll(nothing, 100, std::chrono::milliseconds(1)) > 0) {
        }
        while (lossy.poll(nothing, 100, std::chrono::milliseconds(1)) > 0) {
        }
        EXPECT_EQ(support::allocations(), before);
    }
}

TEST_F(Allocation, lossy_polls_jumps_and_owner_records_allocate_nothing) {
    flyring::Channel channel = flyring::Channel::create("c", support::broadcast());
    flyring::LossySubscriber lossy = channel.lossy_subscriber(flyring::Start::now, flyring::WhenLapped::newest);
    flyring::Subscriber subscriber = channel.subscriber();
    for (int i = 0; i < 20; ++i) {
        flyring::Publisher publisher = channel.publisher(std::string(64, static_cast<char>('a' + i)));
        publisher.offer(support::bytes("first"));
        const auto poll = [&](auto& any) {
            const long before = support::allocations();
            int done = 0;
            while (any.poll([&](const flyring::Message& message) { done += message.sender().name.size() == 64; }) > 0) {
            }
            EXPECT_EQ(support::allocations(), before);
            return done;
        };
        EXPECT_EQ(poll(lossy), 1);
        EXPECT_EQ(poll(subscriber), 1);
        for (int j = 0; j < 100; ++j) {
            publisher.offer(support::bytes("lost"));
            poll(subscriber);
        }
        EXPECT_EQ(poll(lossy), 0);  // lapped: it jumps
    }
    EXPECT_EQ(lossy.lost_messages(0), 2000);
}

TEST_F(Allocation, reads_and_changes_of_a_table_allocate_nothing) {
    flyring::TableOptions options;
    options.capacity = 1000;
    options.key = flyring::KeyType::integer;
    options.value_bytes = 48;
    flyring::Table table = flyring::Table::create("t", options);
    flyring::TableWriter writer = table.writer();
    std::byte value[48]{};
    for (int key = 0; key < 1000; ++key) writer.put(key, value);
    auto entry = table.entry(7);
    std::size_t read = 0;
    const long before = support::allocations();
    for (int i = 0; i < 100'000; ++i) {
        read += *table.get(i % 1000, flyring::MutableBytes(value));
        read += *table.read(i % 1000, [](flyring::Bytes bytes) { return bytes.size(); });
        read += *entry->get(flyring::MutableBytes(value));
        writer.put(i % 1000, value);
        writer.put(*entry, value);
        writer.remove((i + 1) % 1000);
        writer.put((i + 1) % 1000, value);
    }
    writer.close();
    table.put(5, value);
    EXPECT_EQ(support::allocations() - before, 0);
    EXPECT_EQ(read, 3U * 48 * 100'000);
}

TEST_F(Allocation, appends_to_a_journal_and_polls_of_its_end_allocate_nothing_and_read_the_clock_at_most_once) {
    flyring::Journal journal = flyring::Journal::create("j", journals::options(1 << 24));
    flyring::JournalWriter writer = journals::writer(journal);
    flyring::JournalReader reader = journal.reader();
    flyring::JournalConsumer consumer = journal.consumer("c");
    std::int64_t sum = 0;
    const auto round = [&](std::int64_t value) {
        writer.append(flyring::bytes_of(value));
        reader.poll([&](const flyring::JournalMessage& message) { sum += message.as<std::int64_t>(); });
        consumer.poll([&](const flyring::JournalMessage& message) { sum += message.as<std::int64_t>(); });
    };
    round(1);
    const long before = support::allocations();
    const long clocks = faults::clock_reads();
    for (std::int64_t value = 0; value < 100'000; ++value) round(value);
    EXPECT_EQ(support::allocations() - before, 0);
    EXPECT_LE(faults::clock_reads() - clocks, 100'000);
    EXPECT_EQ(sum, 2 * (1 + 99'999LL * 100'000 / 2));
}

}  // namespace
