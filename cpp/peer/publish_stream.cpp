// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

// publish_stream of interop-tests/PEER.md.

namespace peer {

namespace {

class Sender {
  public:
    Sender(flyring::Publisher& publisher, const Json& request)
        : publisher_(publisher),
          stream_(request),
          how_(request.value("how", "offer")),
          blocks_(says_block(request)),
          patience_(request.value("seconds", 60.0)) {
        set_spin(publisher, request);
        if (how_ != "offer" && how_ != "claim" && how_ != "batch" && how_ != "mix") throw BadRequest("how: " + how_);
        if (!stream_.first) throw BadRequest("a publisher needs to know its first message");
        if (const auto at = request.find("die_at"); at != request.end() && !at->is_null()) die_at_ = *at;
    }

    Json run() {
        const std::uint64_t end = stream_.end();
        for (std::uint64_t i = *stream_.first; i < end;) {
            const std::string& how = how_ == "mix" ? mixed_[i % 3] : how_;
            if (die_at_ == i) {
                die_in(i);
            } else if (how == "batch") {
                i += batch(i, die_at_ && *die_at_ > i ? std::min(end, *die_at_) : end);
            } else if (how == "claim") {
                claim(i++);
            } else {
                offer(i++);
            }
        }
        return {{"count", stream_.count},
                {"seconds", patience_.passed()},
                {"back_pressured", back_pressured_},
                {"position", publisher_.position()}};
    }

  private:
    [[noreturn]] static void no_room() {
        throw Failed({{"error", "timeout"}, {"message", "no room for the stream in time"}});
    }

    /// One turn of waiting for room; throws when the time is over.
    void wait() {
        ++back_pressured_;
        patience_.idle();
        if (patience_.over()) no_room();
    }

    void offer(std::uint64_t sequence) {
        const StreamMessage message(stream_, sequence);
        bytes_.resize(message.length());
        message.write(bytes_.data());
        if (blocks_) {
            try {
                publisher_.send(bytes_, message.type(), patience_.left());
            } catch (const flyring::BackPressured&) {
                no_room();
            }
            return;
        }
        while (publisher_.offer(bytes_, message.type()) == flyring::back_pressured) wait();
        patience_.reset();
    }

    void claim(std::uint64_t sequence) {
        const StreamMessage message(stream_, sequence);
        if (how_ == "mix" && sequence % 30 == 1) open_claim(message).abort();
        flyring::Claim claim = open_claim(message);
        message.write(claim.data());
        claim.commit();
    }

    /// Kills this process while half of a claimed message is written.
    [[noreturn]] void die_in(std::uint64_t sequence) {
        const StreamMessage message(stream_, sequence);
        const flyring::Claim claim = open_claim(message);
        message.write(claim.data(), message.length() / 2);
        kill_this_process();
    }

    flyring::Claim open_claim(const StreamMessage& message) {
        if (blocks_) {
            try {
                return publisher_.claim(message.length(), message.type(), patience_.left());
            } catch (const flyring::BackPressured&) {
                no_room();
            }
        }
        for (;;) {
            flyring::Claim claim = publisher_.try_claim(message.length(), message.type());
            if (claim) {
                patience_.reset();
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
        if (blocks_ && publisher_.send_batch(all, type, patience_.left()) < all.size()) no_room();
        for (std::size_t taken = blocks_ ? all.size() : 0; taken < all.size();) {
            const std::size_t now = publisher_.offer_batch(all.subspan(taken), type);
            taken += now;
            if (now == 0) wait();
        }
        patience_.reset();
        return all.size();
    }

    flyring::Publisher& publisher_;
    Stream stream_;
    std::string how_;
    bool blocks_;
    std::optional<std::uint64_t> die_at_;
    const std::string mixed_[3] = {"offer", "claim", "batch"};
    std::vector<std::byte> bytes_;
    std::uint64_t back_pressured_ = 0;
    Patience patience_;
};

}  // namespace

Json publish_stream(flyring::Publisher& publisher, const Json& request) {
    return Sender(publisher, request).run();
}

}  // namespace peer
