// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <limits>

#include "queues.hpp"

// What a worker does with a queue whose words, records or prefixes are wrong (spec/queue.md 3, 5, 8).

namespace {

using flyring::Channel;
using flyring::Job;
using flyring::Publisher;
using flyring::Worker;
using flyring::detail::ChannelFile;
using queues::work_off_counting;
using support::bytes;
using support::code_of;
using support::queue;
using support::text;
using support::work_off;
namespace layout = flyring::layout;

class QueueHostile : public queues::QueueTest {};

TEST_F(QueueHostile, hostile_gates_of_others_crash_no_worker) {
    const std::int64_t least = std::numeric_limits<std::int64_t>::min();
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const std::int64_t words[] = {least, -2, -1, 0, 1, 7, 64, 128, 192, 4096, 1 << 20, layout::MAX_POSITION, most};
    for (const std::int64_t gate : words) {
        for (const std::int64_t end : words) {
            Channel channel = Channel::replace("c", queue(1, 2));
            Publisher publisher = channel.publisher();
            for (const char* letter : {"a", "b"}) publisher.offer(bytes(letter));
            Worker other = worker_of_slot_2(channel);
            EXPECT_EQ(work_off(other), "a b ");
            const ChannelFile file = support::raw("c");
            *file.handovers() = most;
            forge(file, 0, gate, end, static_cast<std::int32_t>(gate));
            pause_for_a_look();
            int seen = 0;
            const std::string code = code_of([&] {
                while (other.poll(
                           [&](Job& job) {
                               EXPECT_GE(job.attempts(), 1);
                               ++seen;
                           },
                           3) > 0) {
                }
            });
            EXPECT_TRUE(code == "none" || code == "corrupt-ring") << gate << " " << end << " " << code;
            EXPECT_LE(seen, 2);
            EXPECT_LT(*file.ring(0).gate(1), 0) << gate << " " << end;
            EXPECT_EQ(*file.ring(0).gate(2), -1);
            publisher.offer(bytes("c"));
            if (code == "none") {
                EXPECT_EQ(work_off(other), "c ");
            }
            // The next owner of a slot with these words.
            forge(file, 0, gate, end, 0);
            Worker next = channel.worker();
            (void)code_of([&] { work_off(next); });
            EXPECT_EQ(*file.ring(0).gate(1), gate < -1 ? gate : -1) << gate << " " << end;
        }
    }
}

TEST_F(QueueHostile, a_hostile_position_or_record_is_a_corrupt_ring_and_the_others_go_on) {
    const auto spoil = [&](const std::function<void(const ChannelFile&)>& change) {
        Channel channel = Channel::replace("c", queue(2, 1));
        Publisher a = channel.publisher();
        Publisher b = channel.publisher();
        a.offer(bytes("a"));
        b.offer(bytes("b"));
        Worker worker = channel.worker();
        change(support::raw("c"));
        std::string seen;
        std::string codes;
        for (int i = 0; i < 10; ++i) {
            try {
                worker.poll([&](Job& job) { seen += text(job); });
            } catch (const flyring::CorruptRing& error) {
                codes += std::to_string(error.ring());
            }
        }
        EXPECT_EQ(code_of([&] { worker.close(); }), "none");
        return seen + codes;
    };
    EXPECT_EQ(spoil([](const ChannelFile&) {}), "ab");
    EXPECT_EQ(spoil([](const ChannelFile& file) { *file.ring(0).gate(0) = 1; }), "b0");
    EXPECT_EQ(spoil([](const ChannelFile& file) { *file.ring(0).gate(0) = -5 * 64; }), "b0");
    EXPECT_EQ(spoil([](const ChannelFile& file) { *file.ring(0).gate(0) = layout::MAX_POSITION; }), "b0");
    for (const std::int32_t length : {1, 7, 5000, std::numeric_limits<std::int32_t>::max()}) {
        EXPECT_EQ(spoil([=](const ChannelFile& file) { *file.ring(0).length_at(64) = length; }), "b0") << length;
    }
    for (const std::int32_t type : {0, -3, std::numeric_limits<std::int32_t>::min()}) {
        EXPECT_EQ(spoil([=](const ChannelFile& file) { *file.ring(0).type_at(64) = type; }), "b0") << type;
    }
    // A ring of nothing but padding: the other rings get their turn.
    EXPECT_EQ(spoil([](const ChannelFile& file) {
                  for (std::int64_t at = 0; at < 4096; at += 64) {
                      *file.ring(0).length_at(at) = 64;
                      *file.ring(0).type_at(at) = layout::TYPE_PADDING;
                  }
              }),
              "b");
}

TEST_F(QueueHostile, an_overwritten_record_of_a_job_in_hand_is_a_corrupt_ring) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    for (const char* letter : {"a", "b"}) publisher.offer(bytes(letter));
    Worker worker = channel.worker();
    const ChannelFile file = support::raw("c");
    try {
        worker.poll([&](Job&) { *file.ring(0).type_at(128) = 0; }, 2);
        FAIL();
    } catch (const flyring::CorruptRing& error) {
        EXPECT_EQ(error.reason(), "the record of a job in hand was overwritten with something that is no job");
        EXPECT_EQ(error.position(), 128);
    }
}

TEST_F(QueueHostile, a_hostile_prefix_is_a_corrupt_ring) {
    const auto spoil = [&](const std::function<void(const flyring::detail::Ring&, std::int64_t)>& change) {
        Channel channel = Channel::replace("c", queue(1, 2));
        Publisher publisher = channel.publisher();
        publisher.offer(bytes("a"));
        Worker worker = channel.worker();
        EXPECT_TRUE(worker.take()->release());
        const ChannelFile file = support::raw("c");
        change(file.ring(1), *file.ring(1).gate(0));
        std::string seen;
        try {
            seen = work_off_counting(worker);
        } catch (const flyring::CorruptRing& error) {
            seen = "ring " + std::to_string(error.ring());
        }
        EXPECT_EQ(*file.ring(1).gate(1), -1);
        publisher.offer(bytes("b"));
        return seen + "|" + work_off_counting(worker);
    };
    using flyring::detail::put;
    using flyring::detail::Ring;
    EXPECT_EQ(spoil([](const Ring&, std::int64_t) {}), "a1 |b0 ");
    EXPECT_EQ(spoil([](const Ring& ring, std::int64_t at) { *ring.length_at(at) = 23; }), "ring 1|b0 ");
    for (const std::int32_t origin : {-1, 1, 2, std::numeric_limits<std::int32_t>::max()}) {
        EXPECT_EQ(spoil([=](const Ring& ring, std::int64_t at) {
                      put(ring.payload_at(at) + layout::RELEASED_ORIGIN_RING, origin);
                  }),
                  "ring 1|b0 ");
    }
    for (const std::int64_t position : {std::int64_t{-1}, std::int64_t{1}, layout::MAX_POSITION}) {
        EXPECT_EQ(spoil([=](const Ring& ring, std::int64_t at) {
                      put(ring.payload_at(at) + layout::RELEASED_ORIGIN_POSITION, position);
                  }),
                  "ring 1|b0 ");
    }
    for (const std::int32_t attempts : {std::numeric_limits<std::int32_t>::min(), -1, 0}) {
        EXPECT_EQ(spoil([=](const Ring& ring, std::int64_t at) {
                      put(ring.payload_at(at) + layout::RELEASED_ATTEMPTS, attempts);
                  }),
                  "a1 |b0 ");
    }
    EXPECT_EQ(spoil([=](const Ring& ring, std::int64_t at) {
                  put(ring.payload_at(at) + layout::RELEASED_ATTEMPTS, std::numeric_limits<std::int32_t>::max());
              }),
              "a2147483647 |b0 ");
}

TEST_F(QueueHostile, an_adopted_job_that_was_overwritten_is_dropped) {
    Channel channel = Channel::create("c", queue(1, 2));
    Publisher publisher = channel.publisher();
    Worker other = worker_of_slot_2(channel);
    int sent = 0;
    while (publisher.position() < 3 * 4096) {  // some laps, with all jobs done
        sent += publisher.offer(flyring::bytes_of(sent)) > 0 ? 1 : 0;
        other.poll([](Job&) {}, 100);
    }
    const ChannelFile file = support::raw("c");
    forge(file, 0, 4096, 4096 + 128, 0);  // as if a worker had announced it late, and died
    pause_for_a_look();
    EXPECT_FALSE(other.take());
    EXPECT_EQ(*file.ring(0).gate(1), -1);
    EXPECT_EQ(*file.ring(0).gate(2), -1);
}

}  // namespace
