// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

#include "child.hpp"

// Operations that write into ring 0.

namespace steps {

namespace {

using flyring::Bytes;

void offer_once(Sender& sender, std::size_t length) {
    const auto bytes = payload(0, sender.sequence, length);
    const std::int32_t type = type_of(sender.sequence);
    mark();
    const std::int64_t end = sender.publisher.offer({bytes.data(), bytes.size()}, type);
    mark();
    require(end > 0, "the offer was back-pressured");
}

void offer(Run& run) {
    Sender sender = run.sender();
    sender.fill_to([&](std::int64_t at) { return !run.crosses_boundary(at); });
    offer_once(sender, run.lengths.at(0));
}

void wake(Run& run) {
    Sender sender = run.sender();
    sender.fill_to([&](std::int64_t at) { return !run.crosses_boundary(at); });
    fall_asleep(run);
    offer_once(sender, run.lengths.at(0));
}

/// Finds no room, and sleeps.
void sleep_for_room(Run& run) {
    Sender sender = run.sender();
    while (sender.offer()) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // so that it looks for the dead, in every run
    sender.publisher.set_spin(std::chrono::nanoseconds::zero());
    stop_at_sleep();
    const auto bytes = payload(0, sender.sequence, 30);
    mark();
    sender.publisher.send({bytes.data(), bytes.size()}, type_of(sender.sequence));
    require(false, "there was room");
}

/// The first offer of a new owner: limit and owner record, too.
void first_offer(Run& run) {
    Sender sender = run.sender();
    offer_once(sender, run.lengths.at(0));
}

void offer_boundary(Run& run) {
    Sender sender = run.sender();
    sender.fill_to([&](std::int64_t at) {
        return run.crosses_boundary(at) && at % run.capacity() + run.record() < run.capacity();
    });
    offer_once(sender, run.lengths.at(0));
}

void offer_to_end(Run& run) {
    Sender sender = run.sender();
    sender.fill_to([&](std::int64_t at) { return at % run.capacity() + run.record() == run.capacity(); });
    offer_once(sender, run.lengths.at(0));
}

void fill_to_padding(Sender& sender, const Run& run) {
    sender.fill_to([&](std::int64_t at) { return at % run.capacity() + run.record() > run.capacity(); });
}

void offer_padding(Run& run) {
    Sender sender = run.sender();
    fill_to_padding(sender, run);
    offer_once(sender, run.lengths.at(0));
}

void claim(Run& run) {
    Sender sender = run.sender();
    require(sender.offer(), "back-pressured");
    mark();
    flyring::Claim claim = sender.publisher.try_claim(run.lengths.at(0), 7);
    mark();
    require(static_cast<bool>(claim), "the claim was back-pressured");
}

void commit(Run& run) {
    Sender sender = run.sender();
    require(sender.offer(), "back-pressured");
    flyring::Claim claim = claim_one(sender, run.lengths.at(0));
    mark();
    const std::int64_t end = claim.commit();
    mark();
    require(end > 0, "commit");
}

void abort_claim(Run& run) {
    Sender sender = run.sender();
    require(sender.offer(), "back-pressured");
    flyring::Claim claim = claim_one(sender, 40);
    mark();
    const std::int64_t end = claim.abort();
    mark();
    require(end > 0, "abort");
}

void batch_once(Sender& sender, const std::vector<std::size_t>& lengths) {
    std::vector<std::vector<std::byte>> all;
    std::vector<Bytes> messages;
    for (const std::size_t length : lengths) {
        all.push_back(payload(0, sender.sequence + static_cast<std::int64_t>(all.size()), length));
    }
    for (const auto& bytes : all) messages.emplace_back(bytes.data(), bytes.size());
    const std::int32_t type = type_of(sender.sequence);
    const flyring::span<const Bytes> batch(messages.data(), messages.size());
    mark();
    const std::size_t taken = sender.publisher.offer_batch(batch, type);
    mark();
    require(taken == lengths.size(), "the batch was back-pressured");
}

void batch(Run& run) {
    Sender sender = run.sender();
    require(sender.offer(), "back-pressured");
    batch_once(sender, run.lengths);
}

void batch_padding(Run& run) {
    Sender sender = run.sender();
    fill_to_padding(sender, run);
    batch_once(sender, run.lengths);
}

/// Held back by a subscriber that died: looks again after 1 ms, then retires it.
void offer_retire(Run& run) {
    Sender sender = run.sender();
    while (sender.offer()) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    offer_once(sender, run.lengths.at(0));
}

/// With a lag limit: a subscriber that is further behind is evicted. The mark is before the first offer that does so.
void offer_lag(Run& run) {
    constexpr std::int64_t limit = 2048;
    const std::int64_t header = 8;
    Publisher publisher = run.channel.publisher(publisher_name, limit);
    Sender sender{std::move(publisher), run.sequence};
    sender.fill_to(
        [&](std::int64_t at) { return at + run.record() + header > sender.publisher.held_by()->position + limit; });
    offer_once(sender, run.lengths.at(0));
}

}  // namespace

Operations publishing() {
    return {
        {"offer", offer},
        {"wake", wake},
        {"sleep-for-room", sleep_for_room},
        {"first-offer", first_offer},
        {"offer-boundary", offer_boundary},
        {"offer-to-end", offer_to_end},
        {"offer-padding", offer_padding},
        {"claim", claim},
        {"commit", commit},
        {"abort", abort_claim},
        {"batch", batch},
        {"batch-padding", batch_padding},
        {"offer-retire", offer_retire},
        {"offer-lag", offer_lag},
    };
}

}  // namespace steps
