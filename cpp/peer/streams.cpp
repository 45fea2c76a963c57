// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>

#include "peer.hpp"

// The deterministic stream of interop-tests/PEER.md: publishing it, and checking what comes.

namespace peer {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// SplitMix64, started anew for each message.
class Generator {
  public:
    Generator(std::uint64_t seed, std::uint64_t sequence) noexcept
        : state_(seed * 0x9E3779B97F4A7C15 + sequence * 0xD1B54A32D192ED03) {}

    std::uint64_t next() noexcept {
        state_ += 0x9E3779B97F4A7C15;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }

  private:
    std::uint64_t state_;
};

struct Stream {
    std::uint64_t seed;
    std::uint64_t count;
    std::uint64_t first;
    std::uint64_t min;
    std::uint64_t max;
    std::int32_t fixed_type;  // 0: from the generator

    explicit Stream(const Json& request)
        : seed(request.at("seed")),
          count(request.at("count")),
          first(request.value("first", std::uint64_t{0})),
          min(request.at("min")),
          max(request.at("max")),
          fixed_type(request.value("type", 0)) {
        if (min > max) throw BadRequest("min is more than max");
    }
};

/// Message `sequence` of a stream.
class StreamMessage {
  public:
    StreamMessage(const Stream& stream, std::uint64_t sequence) noexcept : generator_(stream.seed, sequence) {
        length_ = static_cast<std::size_t>(stream.min + generator_.next() % (stream.max - stream.min + 1));
        type_ = static_cast<std::int32_t>(1 + generator_.next() % 1000);
        if (stream.fixed_type != 0) type_ = stream.fixed_type;
    }

    std::size_t length() const noexcept { return length_; }
    std::int32_t type() const noexcept { return type_; }

    /// Calls use(offset, piece, size) for the payload's pieces; stops when it returns false.
    template <typename Use>
    bool each_piece(Use&& use) const {
        Generator generator = generator_;
        for (std::size_t at = 0; at < length_; at += sizeof(std::uint64_t)) {
            const std::uint64_t piece = generator.next();
            if (!use(at, &piece, std::min(sizeof piece, length_ - at))) return false;
        }
        return true;
    }

    void write(std::byte* to) const {
        each_piece([&](std::size_t at, const void* piece, std::size_t size) {
            std::memcpy(to + at, piece, size);
            return true;
        });
    }

    bool matches(flyring::Bytes payload) const {
        return payload.size() == length_ && each_piece([&](std::size_t at, const void* piece, std::size_t size) {
                   return std::memcmp(payload.data() + at, piece, size) == 0;
               });
    }

  private:
    Generator generator_;
    std::size_t length_;
    std::int32_t type_;
};

class Sender {
  public:
    Sender(flyring::Publisher& publisher, const Json& request)
        : publisher_(publisher),
          stream_(request),
          how_(request.value("how", "offer")),
          seconds_(request.value("seconds", 60.0)) {
        if (how_ != "offer" && how_ != "claim" && how_ != "batch" && how_ != "mix") throw BadRequest("how: " + how_);
    }

    Json run() {
        const std::uint64_t end = stream_.first + stream_.count;
        for (std::uint64_t i = stream_.first; i < end;) {
            const std::string& how = how_ == "mix" ? mixed_[i % 3] : how_;
            if (how == "batch") {
                i += batch(i, end);
            } else if (how == "claim") {
                claim(i++);
            } else {
                offer(i++);
            }
        }
        return {{"count", stream_.count},
                {"seconds", seconds_since(start_)},
                {"back_pressured", back_pressured_},
                {"position", publisher_.position()}};
    }

  private:
    /// One turn of waiting for room.
    void wait() {
        ++back_pressured_;
        wait_.idle(0);
        if (back_pressured_ % 64 == 0 && seconds_since(start_) > seconds_) {
            throw Failed({{"error", "timeout"}, {"message", "no room for the stream in time"}});
        }
    }

    void offer(std::uint64_t sequence) {
        const StreamMessage message(stream_, sequence);
        bytes_.resize(message.length());
        message.write(bytes_.data());
        while (publisher_.offer(bytes_, message.type()) == flyring::back_pressured) wait();
        wait_.reset();
    }

    void claim(std::uint64_t sequence) {
        const StreamMessage message(stream_, sequence);
        if (how_ == "mix" && sequence % 30 == 1) open_claim(message).abort();
        flyring::Claim claim = open_claim(message);
        message.write(claim.data());
        claim.commit();
    }

    flyring::Claim open_claim(const StreamMessage& message) {
        for (;;) {
            flyring::Claim claim = publisher_.claim(message.length(), message.type());
            if (claim) {
                wait_.reset();
                return claim;
            }
            wait();
        }
    }

    std::uint64_t batch(std::uint64_t sequence, std::uint64_t end) {
        constexpr std::uint64_t most = 8;
        std::vector<std::vector<std::byte>> payloads;
        std::int32_t type = 0;
        for (std::uint64_t i = sequence; i < end && payloads.size() < most; ++i) {
            const StreamMessage message(stream_, i);
            if (i == sequence) type = message.type();
            if (message.type() != type) break;
            payloads.emplace_back(message.length());
            message.write(payloads.back().data());
        }
        const std::vector<flyring::Bytes> views(payloads.begin(), payloads.end());
        const flyring::span<const flyring::Bytes> all(views);
        for (std::size_t taken = 0; taken < all.size();) {
            const std::size_t now = publisher_.offer_batch(all.subspan(taken), type);
            taken += now;
            if (now == 0) wait();
        }
        wait_.reset();
        return all.size();
    }

    flyring::Publisher& publisher_;
    Stream stream_;
    std::string how_;
    double seconds_;
    const std::string mixed_[3] = {"offer", "claim", "batch"};
    std::vector<std::byte> bytes_;
    std::uint64_t back_pressured_ = 0;
    flyring::BackoffWait wait_{100, 20, std::chrono::microseconds(1), std::chrono::microseconds(50)};
    Clock::time_point start_ = Clock::now();
};

/// Subscriber: either kind.
template <typename Subscriber>
class Verifier {
  public:
    Verifier(Subscriber& subscriber, const Json& request)
        : subscriber_(subscriber), how_(request.value("how", "poll")), seconds_(request.value("seconds", 60.0)) {
        if (how_ != "poll" && how_ != "take" && how_ != "mix") throw BadRequest("how: " + how_);
        for (const Json& stream : request.at("streams")) {
            const std::uint32_t ring = stream.at("ring");
            const Stream parsed(stream);
            if (!expected_.insert({ring, {parsed, parsed.first}}).second) throw BadRequest("a ring is there twice");
            missing_ += parsed.count;
        }
    }

    Json run() {
        const std::uint64_t all = missing_;
        for (std::uint64_t turn = 0; missing_ > 0; ++turn) {
            const bool taking = how_ == "take" || (how_ == "mix" && turn % 2 == 1);
            if ((taking ? take() : poll()) > 0) {
                wait_.reset();
            } else {
                wait_.idle(0);
                if (turn % 64 == 0 && seconds_since(start_) > seconds_) throw Failed(timeout());
            }
        }
        return {{"count", all}, {"seconds", seconds_since(start_)}, {"verified", true}};
    }

  private:
    struct Expected {
        Stream stream;
        std::uint64_t next;
    };

    int poll() {
        return subscriber_.poll([this](const flyring::Message& message) { check(message); });
    }

    int take() {
        const auto message = subscriber_.take();
        if (message) check(*message);
        return message ? 1 : 0;
    }

    void check(const flyring::Message& message) {
        const auto found = expected_.find(message.ring());
        if (found == expected_.end()) return;  // no stream of ours
        auto& [stream, next] = found->second;
        const StreamMessage wanted(stream, next);
        if (next == stream.first + stream.count) wrong(message, next, "a message after the last");
        if (message.size() != wanted.length()) wrong(message, next, "length");
        if (message.type() != wanted.type()) wrong(message, next, "type");
        if (!wanted.matches(message.payload())) wrong(message, next, "payload");
        ++next;
        --missing_;
    }

    [[noreturn]] static void wrong(const flyring::Message& message, std::uint64_t sequence, const char* what) {
        throw Failed({{"error", "mismatch"},
                      {"message", std::string("wrong ") + what},
                      {"ring", message.ring()},
                      {"sequence", sequence},
                      {"what", what}});
    }

    Json timeout() const {
        Json counts = Json::object();
        for (const auto& [ring, expected] : expected_) {
            counts[std::to_string(ring)] = expected.next - expected.stream.first;
        }
        return {{"error", "timeout"}, {"message", "not all messages came in time"}, {"counts", counts}};
    }

    Subscriber& subscriber_;
    std::string how_;
    double seconds_;
    std::map<std::uint32_t, Expected> expected_;
    std::uint64_t missing_ = 0;
    flyring::BackoffWait wait_{100, 20, std::chrono::microseconds(1), std::chrono::microseconds(50)};
    Clock::time_point start_ = Clock::now();
};

}  // namespace

Json publish_stream(flyring::Publisher& publisher, const Json& request) {
    return Sender(publisher, request).run();
}

Json verify_stream(flyring::Subscriber& subscriber, const Json& request) {
    return Verifier(subscriber, request).run();
}

Json verify_stream(flyring::LossySubscriber& subscriber, const Json& request) {
    return Verifier(subscriber, request).run();
}

}  // namespace peer
