// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace steps {

namespace layout = flyring::layout;
using flyring::Publisher;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience(3);  // for a whole check, which takes a few milliseconds

[[noreturn]] void fail(const std::string& what) {
    throw Wrong(what);
}

/// Publishes the next default message of a ring; while there is no room, lets the subscribers read.
void publish(Publisher& publisher, std::vector<Party>& parties, Party& live, Streams& streams,
             Clock::time_point deadline) {
    const std::uint32_t ring = publisher.ring();
    const auto sequence = static_cast<std::int64_t>(streams[ring].size());
    const Expected message{length_of(sequence), type_of(sequence)};
    const std::vector<std::byte> bytes = payload(ring, sequence, message.length);
    while (publisher.offer({bytes.data(), bytes.size()}, message.type) < 0) {
        for (Party& party : parties) party.poll(streams);
        live.poll(streams);
        if (Clock::now() > deadline) {
            const auto holder = publisher.held_by();
            fail("the publisher of ring " + std::to_string(ring) + ": expected room within 3 s, found none" +
                 (holder ? ", held back by subscriber slot " + std::to_string(holder->slot) : ""));
        }
    }
    streams[ring].push_back(message);
}

/// Takes a kept slot again. It goes on where its owner was, `consumed` by ring or up to `done` messages more; if it was
/// given up, with what comes next.
Party come_back(Stage& stage, const Verdict& verdict, const std::string& name, Counts consumed, Counts done,
                const Image& image) {
    Party party(stage.channel.subscriber(name, true), name, {});
    if (party.subscriber().rings().size() != image.publishers())
        fail("\"" + name + "\": expected " + std::to_string(image.publishers()) + " rings, found " +
             std::to_string(party.subscriber().rings().size()));
    const auto& given_up = verdict.given_up;
    const bool gave_up = std::find(given_up.begin(), given_up.end(), name) != given_up.end();
    if (image.waits_for(name) && !(gave_up && verdict.joined)) {
        party.set_next({consumed[0] + done[0], consumed[1] + done[1]}, consumed);
        return party;
    }
    if (!gave_up) fail("\"" + name + "\": expected to resume, found a slot that is not kept");
    const Counts next = image.published(counts(verdict.streams));
    party.set_next(next, next);
    return party;
}

/// Reads without a slot, and counts what it lost: together they are all.
class LossyParty {
  public:
    LossyParty(flyring::Channel& channel, const Streams& streams, flyring::Start start)
        : subscriber_(channel.lossy_subscriber(start)), begin_(counts(streams)) {}

    /// All that is there, and it is the last that was published. Returns how many messages.
    int poll(const Streams& streams) {
        std::array<std::vector<flyring::OwnedMessage>, 2> got;
        while (subscriber_.poll([&](const flyring::Message& message) { got[message.ring()].emplace_back(message); }) >
               0) {
        }
        for (std::uint32_t ring = 0; ring < 2; ++ring) {
            std::size_t sequence = streams[ring].size() - got[ring].size();
            for (const flyring::OwnedMessage& message : got[ring]) {
                const Expected& expected = streams[ring].at(sequence);
                const auto bytes = payload(ring, static_cast<std::int64_t>(sequence++), expected.length);
                if (message.type() != expected.type ||
                    !std::equal(bytes.begin(), bytes.end(), message.payload().begin(), message.payload().end())) {
                    fail("a lossy subscriber, ring " + std::to_string(ring) + ": expected message " +
                         std::to_string(sequence - 1) + " of type " + std::to_string(expected.type) + ", found type " +
                         std::to_string(message.type()) + ", or other bytes");
                }
            }
            delivered_[ring] += static_cast<std::int64_t>(got[ring].size());
        }
        return static_cast<int>(got[0].size() + got[1].size());
    }

    void require_all(const Streams& streams) {
        for (std::uint32_t ring = 0; ring < 2; ++ring) {
            const std::int64_t lost = subscriber_.lost_messages(ring);
            if (delivered_[ring] == 0 || lost == 0) {
                fail("a lossy subscriber: expected messages and a loss, found " + std::to_string(delivered_[ring]) +
                     " messages and " + std::to_string(lost) + " lost");
            }
            if (begin_[ring] + delivered_[ring] + lost != counts(streams)[ring]) {
                fail("a lossy subscriber got " + std::to_string(delivered_[ring]) + " and lost " +
                     std::to_string(lost) + " of " + std::to_string(counts(streams)[ring] - begin_[ring]) +
                     " messages");
            }
        }
    }

  private:
    flyring::LossySubscriber subscriber_;
    Counts begin_;
    Counts delivered_{};
};

/// The owner of an evicted slot must hear of it, and let the slot go.
void require_lost(Party& party) {
    try {
        party.subscriber().poll([](const flyring::Message&) {});
    } catch (const flyring::SlotLost&) {
        party.subscriber().close();
        return;
    }
    fail("an evicted subscriber: expected SlotLost, found a poll that works");
}

}  // namespace

Counts counts(const Streams& streams) {
    return {static_cast<std::int64_t>(streams[0].size()), static_cast<std::int64_t>(streams[1].size())};
}

Party::Party(flyring::Subscriber subscriber, std::string name, Counts next)
    : subscriber_(std::move(subscriber)), name_(std::move(name)), next_(next) {}

void Party::poll(const Streams& streams) {
    const auto verify = [&](const flyring::Message& message) {
        std::int64_t& next = next_[message.ring()];
        const std::string where =
            "\"" + name_ + "\", ring " + std::to_string(message.ring()) + ", message " + std::to_string(next) + ": ";
        std::int64_t& earliest = earliest_[message.ring()];
        if (earliest >= 0) {
            const std::int64_t first = message.type() - 1;
            if (first < earliest || first > next) {
                fail(where + "expected to resume at " + std::to_string(earliest) + " to " + std::to_string(next) +
                     ", found message " + std::to_string(first));
            }
            next = first;
            earliest = -1;
        }
        if (next >= static_cast<std::int64_t>(streams[message.ring()].size()))
            fail(where + "expected none, as nobody committed it, found type " + std::to_string(message.type()));
        const Expected& expected = streams[message.ring()][static_cast<std::size_t>(next)];
        if (message.type() != expected.type)
            fail(where + "expected type " + std::to_string(expected.type) + ", found " +
                 std::to_string(message.type()));
        const std::vector<std::byte> bytes = payload(message.ring(), next, expected.length);
        if (!std::equal(bytes.begin(), bytes.end(), message.payload().begin(), message.payload().end())) {
            fail(where + "expected the " + std::to_string(bytes.size()) + " bytes that were sent, found " +
                 std::to_string(message.payload().size()) + " bytes, or others");
        }
        ++next;
    };
    while (subscriber_.poll(verify) > 0) {
    }
}

void Party::require_all(const Streams& streams) const {
    for (std::uint32_t ring = 0; ring < 2; ++ring) {
        const auto all = static_cast<std::int64_t>(streams[ring].size());
        if (next_[ring] != all) {
            fail("\"" + name_ + "\", ring " + std::to_string(ring) + ": got " + std::to_string(next_[ring]) + " of " +
                 std::to_string(all) + " messages");
        }
    }
}

Stage::Stage(const std::string& at, const Situation& situation)
    : path((write_file(at, situation.bytes), at)),
      channel(fixed(tracer_pid).open(path)),
      live(channel.subscriber(live_name, true), live_name, situation.live) {
    const Image image(situation.bytes);
    if (!image.waits_for(live_name)) {  // evicted
        const Counts next = image.published(counts(situation.streams));
        live.set_next(next, next);
    }
}

void check(Stage& stage, Verdict verdict, const Bytes& before, std::unique_ptr<Publisher> contender) {
    const Clock::time_point deadline = Clock::now() + patience;
    const Image image(before);
    Streams& streams = verdict.streams;

    // The live processes go on, before a new owner repairs anything. One that the child evicted learns of it, and comes
    // back.
    const auto live_slot = image.subscriber_slot(stage.live.subscriber().slot());
    if (image.get<std::int64_t>(live_slot) == stage.live.subscriber().epoch()) {
        stage.live.poll(streams);
        stage.live.require_all(streams);
    } else {
        require_lost(stage.live);
        const Bytes now = read_file(stage.path);
        stage.live = come_back(stage, verdict, live_name, counts(streams), {}, Image(now));
    }

    // Who was away comes back.
    std::vector<Party> parties;
    parties.push_back(come_back(stage, verdict, keeper_name, verdict.keeper, {}, image));
    parties.push_back(come_back(stage, verdict, reader_name, verdict.reader, verdict.reader_done, image));
    if (!verdict.fourth.empty())
        parties.push_back(come_back(stage, verdict, verdict.fourth, counts(streams), {}, image));
    for (Party& party : parties) party.poll(streams);

    // Every ring takes a new publisher, by name and without, and is whole then.
    std::vector<Publisher> publishers;
    publishers.push_back(contender ? std::move(*contender) : stage.channel.publisher(publisher_name));
    const bool named = image.name(image.publisher_slot(0)) == publisher_name;
    if (named && publishers[0].ring() != 0)
        fail("the name \"pub\": expected ring 0, found " + std::to_string(publishers[0].ring()));
    publishers.push_back(stage.channel.publisher());
    // A waker that dies between clearing `asleep` and its futex call wakes no process. So the slot's next owner wakes
    // all.
    const Bytes taken = read_file(stage.path);
    for (const auto& [name, at] : {std::pair("data_sequence", layout::CONTROL_DATA_SEQUENCE),
                                   std::pair("room_sequence", layout::CONTROL_ROOM_SEQUENCE)}) {
        if (Image(taken).get<std::uint32_t>(layout::HEADER_LENGTH + at) ==
            image.get<std::uint32_t>(layout::HEADER_LENGTH + at)) {
            fail(std::string(name) + ": expected the new owners to move it, found it as the dead left it");
        }
    }
    for (Publisher& publisher : publishers) {
        const std::uint32_t ring = publisher.ring();
        const auto before_epoch = image.get<std::int64_t>(image.publisher_slot(ring));
        if (publisher.epoch() <= before_epoch) {
            fail("ring " + std::to_string(ring) + ": expected an epoch above " + std::to_string(before_epoch) +
                 ", found " + std::to_string(publisher.epoch()));
        }
        Image(read_file(stage.path)).check_ring(ring, counts(streams)[ring], true);
    }
    LossyParty oldest(stage.channel, {}, flyring::Start::oldest);
    if (oldest.poll(streams) == 0)
        fail("a lossy subscriber that starts at the oldest message: expected messages, found none");

    // Two laps: no process waits for the dead.
    const auto run = [&](int messages) {
        for (int i = 0; i < messages; ++i) {
            for (Publisher& publisher : publishers) publish(publisher, parties, stage.live, streams, deadline);
        }
        for (Party& party : parties) party.poll(streams);
        stage.live.poll(streams);
    };
    LossyParty lapped(stage.channel, streams, flyring::Start::now);
    run(130);
    lapped.poll(streams);

    // Every subscriber slot can be taken again.
    for (std::size_t slots = parties.size() + 1; slots < image.subscribers(); ++slots) {
        parties.emplace_back(stage.channel.subscriber(), "newcomer", counts(streams));
    }
    run(20);
    lapped.poll(streams);
    lapped.require_all(streams);
    for (Party& party : parties) party.require_all(streams);
    stage.live.require_all(streams);
    const Bytes after = read_file(stage.path);
    for (std::uint32_t ring = 0; ring < 2; ++ring) Image(after).check_ring(ring, counts(streams)[ring], false);
    if (Clock::now() > deadline) fail("expected the check to end within 3 s, found that it does not");
}

}  // namespace steps
