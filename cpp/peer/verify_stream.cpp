// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

// verify_stream of interop-tests/PEER.md.

namespace peer {

namespace {

std::uint64_t lost(const flyring::Subscriber&, std::uint32_t) {
    return 0;
}
std::uint64_t lost(const flyring::LossySubscriber& subscriber, std::uint32_t ring) {
    return static_cast<std::uint64_t>(subscriber.lost_messages(ring));
}

/// Verifies the messages that a subscriber gets, reliable or lossy.
template <typename Subscriber>
class Verifier {
  public:
    Verifier(Subscriber& subscriber, const Json& request)
        : subscriber_(subscriber),
          how_(request.value("how", "poll")),
          wait_(says_block(request) ? std::chrono::milliseconds(200) : std::chrono::milliseconds(0)),
          patience_(request.value("seconds", 60.0)) {
        set_spin(subscriber, request);
        if (how_ != "poll" && how_ != "take" && how_ != "mix") throw BadRequest("how: " + how_);
        if (const auto at = request.find("die_at"); at != request.end() && !at->is_null()) die_at_ = *at;
        for (const Json& stream : request.at("streams")) {
            const std::uint32_t ring = stream.at("ring");
            const Stream parsed(stream);
            const std::uint64_t before = lost(subscriber_, ring);
            if (!expected_.insert({ring, {parsed, parsed.first, parsed.first.value_or(0), 0, 0, before}}).second) {
                throw BadRequest("a ring is there twice");
            }
        }
    }

    Json run() {
        for (std::uint64_t turn = 0; !done(); ++turn) {
            const bool taking = how_ == "take" || (how_ == "mix" && turn % 2 == 1);
            if ((taking ? take() : poll()) > 0) {
                patience_.reset();
            } else if (wait_.count() == 0) {
                patience_.idle();
            }
            const bool over = wait_.count() == 0 ? patience_.over() : patience_.left().count() == 0;
            if (over && !done()) throw Failed(timeout());
        }
        Json rings = Json::object();
        for (const auto& [ring, expected] : expected_) {
            rings[std::to_string(ring)] = {{"first", expected.seen > 0 ? Json(*expected.first) : Json(nullptr)},
                                           {"next", expected.next},
                                           {"seen", expected.seen},
                                           {"lost", expected.lost}};
        }
        return {{"count", seen_}, {"seconds", patience_.passed()}, {"verified", true}, {"rings", rings}};
    }

  private:
    struct Expected {
        Stream stream;
        std::optional<std::uint64_t> first;  // sequence of the first message; empty: any may come first
        std::uint64_t next;
        std::uint64_t seen;
        std::uint64_t lost;
        std::uint64_t lost_before;  // lost_messages of the ring when `next` was set
    };

    /// Whether all streams are complete. Counts the messages that a lossy subscriber lost after the last one that it
    /// saw.
    bool done() {
        bool all = true;
        for (auto& [ring, expected] : expected_) {
            const std::uint64_t now = lost(subscriber_, ring);
            const std::uint64_t more = now - expected.lost_before;
            if (more > 0 && !expected.stream.numbered) wrong(ring, expected.next, "lost");
            if (more > 0 && expected.first) {
                const std::uint64_t left = expected.stream.end() - expected.next;
                if (more > left) wrong(ring, expected.next, "lost more than the stream has");
                if (more == left) {
                    expected.next += more;
                    expected.lost += more;
                    expected.lost_before = now;
                }
            }
            all = all && expected.next == expected.stream.end();
        }
        return all;
    }

    int poll(int limit = flyring::layout::DEFAULT_POLL_LIMIT) {
        return subscriber_.poll([this](const flyring::Message& message) { check(message); }, limit, wait_);
    }

    int take() {
        if (seen_ == die_at_) return poll(1);  // checks the message before it is consumed
        const auto message = subscriber_.take(wait_);
        if (message) check(*message);
        return message ? 1 : 0;
    }

    void check(const flyring::Message& message) {
        const std::uint32_t ring = message.ring();
        const auto found = expected_.find(ring);
        if (found == expected_.end()) wrong(ring, 0, "a message of a ring that has no stream");
        if (seen_ == die_at_) kill_this_process();
        Expected& expected = found->second;
        const Stream& stream = expected.stream;
        const std::uint64_t sequence = sequence_of(message, expected);
        if (sequence >= stream.end()) wrong(ring, expected.next, "a message after the last");
        const StreamMessage wanted(stream, sequence);
        if (message.size() != wanted.length()) wrong(ring, sequence, "length");
        if (message.type() != wanted.type()) wrong(ring, sequence, "type");
        if (!wanted.matches(message.payload())) wrong(ring, sequence, "payload");
        if (expected.seen == 0) expected.first = sequence;
        expected.next = sequence + 1;
        ++expected.seen;
        ++seen_;
    }

    /// The message's sequence: checked against the expected one and the losses.
    std::uint64_t sequence_of(const flyring::Message& message, Expected& expected) {
        const std::uint64_t now = lost(subscriber_, message.ring());
        const std::uint64_t more = now - std::exchange(expected.lost_before, now);
        std::uint64_t sequence = expected.next;
        if (expected.stream.numbered) {
            if (message.size() < sizeof sequence) wrong(message.ring(), expected.next, "length");
            sequence = message.as<std::uint64_t>();
        }
        expected.lost += more;
        if (expected.stream.numbered && !expected.first) return sequence;  // any number may come first
        if (sequence < expected.next) wrong(message.ring(), expected.next, "sequence");
        if (sequence - expected.next != more) wrong(message.ring(), expected.next, more == 0 ? "sequence" : "lost");
        return sequence;
    }

    [[noreturn]] static void wrong(std::uint32_t ring, std::uint64_t sequence, const char* what) {
        throw Failed({{"error", "mismatch"},
                      {"message", std::string("wrong ") + what},
                      {"ring", ring},
                      {"sequence", sequence},
                      {"what", what}});
    }

    Json timeout() const {
        Json counts = Json::object();
        for (const auto& [ring, expected] : expected_) counts[std::to_string(ring)] = expected.seen;
        return {{"error", "timeout"}, {"message", "not all messages came in time"}, {"counts", counts}};
    }

    Subscriber& subscriber_;
    std::string how_;
    std::chrono::nanoseconds wait_;  // time-out of one poll
    Patience patience_;
    std::optional<std::uint64_t> die_at_;
    std::map<std::uint32_t, Expected> expected_;
    std::uint64_t seen_ = 0;
};

}  // namespace

Json verify_stream(flyring::Subscriber& subscriber, const Json& request) {
    return Verifier(subscriber, request).run();
}

Json verify_stream(flyring::LossySubscriber& subscriber, const Json& request) {
    return Verifier(subscriber, request).run();
}

}  // namespace peer
