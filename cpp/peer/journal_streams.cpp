// SPDX-License-Identifier: Apache-2.0
#include "journal.hpp"
#include "streams.hpp"

// append_stream and read_stream of interop-tests/PEER.md.

namespace peer {

namespace {

std::optional<std::uint64_t> optional_number(const Json& request, const char* key) {
    const auto found = request.find(key);
    if (found == request.end() || found->is_null()) return std::nullopt;
    return found->get<std::uint64_t>();
}

class Appender {
  public:
    Appender(flyring::JournalWriter& writer, const Json& request)
        : writer_(writer),
          stream_(request),
          how_(request.value("how", "append")),
          die_at_(optional_number(request, "die_at")),
          patience_(request.value("seconds", 60.0)) {
        if (how_ != "append" && how_ != "claim" && how_ != "many" && how_ != "mix") throw BadRequest("how: " + how_);
        if (!stream_.first) throw BadRequest("a writer needs to know its first message");
    }

    Json run() {
        std::uint64_t i = *stream_.first;
        for (; i < stream_.end() && !patience_.over();) {
            const std::string& how = how_ == "mix" ? mixed_[i % 3] : how_;
            if (die_at_ == i) {
                die_in(i);
            } else if (how == "many") {
                i += many(i, die_at_ && *die_at_ > i ? std::min(stream_.end(), *die_at_) : stream_.end());
            } else if (how == "claim") {
                claim(i++);
            } else {
                const StreamMessage message(stream_, i++);
                bytes_.resize(message.length());
                message.write(bytes_.data());
                writer_.append(bytes_, message.type());
            }
        }
        return {{"count", i - *stream_.first},
                {"seconds", patience_.passed()},
                {"position", writer_.position()},
                {"number", writer_.number()}};
    }

  private:
    void claim(std::uint64_t sequence) {
        const StreamMessage message(stream_, sequence);
        if (how_ == "mix" && sequence % 30 == 1) writer_.claim(message.length(), message.type()).abort();
        flyring::JournalClaim claim = writer_.claim(message.length(), message.type());
        message.write(claim.data());
        claim.commit();
    }

    /// Kills this process while half of a claimed message is written.
    [[noreturn]] void die_in(std::uint64_t sequence) {
        const StreamMessage message(stream_, sequence);
        const flyring::JournalClaim claim = writer_.claim(message.length(), message.type());
        message.write(claim.data(), message.length() / 2);
        kill_this_process();
    }

    std::uint64_t many(std::uint64_t sequence, std::uint64_t end) {
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
        if (writer_.append_many(views, type) != views.size()) {
            throw Failed({{"error", "mismatch"}, {"message", "append_many took less than it was given"}});
        }
        return views.size();
    }

    flyring::JournalWriter& writer_;
    Stream stream_;
    std::string how_;
    std::optional<std::uint64_t> die_at_;
    const std::string mixed_[3] = {"append", "claim", "many"};
    std::vector<std::byte> bytes_;
    Patience patience_;
};

/// Verifies the messages that a reader or consumer gets.
template <typename Reading>
class StreamReader {
  public:
    StreamReader(Reading& reading, const Json& request)
        : reading_(reading),
          stream_(request),
          how_(request.value("how", "poll")),
          wait_(says_block(request) ? std::chrono::milliseconds(200) : std::chrono::milliseconds(0)),
          die_at_(optional_number(request, "die_at")),
          next_(stream_.first.value_or(0)),
          lost_(reading.lost()),
          number_(reading.number()),
          position_(reading.position()),
          patience_(request.value("seconds", 60.0)) {
        set_spin(reading, request);
        if (how_ != "poll" && how_ != "take" && how_ != "mix") throw BadRequest("how: " + how_);
        if (!stream_.first) throw BadRequest("a reader needs to know its first message");
    }

    Json run() {
        for (std::uint64_t turn = 0; next_ < stream_.end(); ++turn) {
            // Not take for the one to die in, which consumes its message before it returns.
            const bool taking = die_at_ != seen_ && (how_ == "take" || (how_ == "mix" && turn % 2 == 1));
            const auto most = static_cast<int>(std::min<std::uint64_t>(stream_.end() - next_, 256));
            const std::uint64_t before = seen_;
            if (taking) {
                if (const auto message = reading_.take(wait_)) check(flyring::JournalMessage(*message));
            } else {
                reading_.poll([&](const flyring::JournalMessage& message) { check(message); }, most, wait_);
            }
            if (seen_ > before) {
                patience_.reset();
            } else if (wait_.count() == 0) {
                patience_.idle();
            }
            const bool over = wait_.count() == 0 ? patience_.over() : patience_.left().count() == 0;
            if (over && next_ < stream_.end()) {
                throw Failed({{"error", "timeout"}, {"message", "not all messages came in time"}, {"counts", {seen_}}});
            }
        }
        return {{"count", seen_},
                {"seconds", patience_.passed()},
                {"verified", true},
                {"position", reading_.position()},
                {"number", reading_.number()},
                {"lost", reading_.lost()}};
    }

  private:
    [[noreturn]] void wrong(const std::string& what) const {
        throw Failed({{"error", "mismatch"},
                      {"message", "message " + std::to_string(next_) + ": " + what},
                      {"sequence", next_},
                      {"what", what}});
    }

    void check(const flyring::JournalMessage& message) {
        if (die_at_ && seen_ == *die_at_) kill_this_process();
        const std::int64_t gap = reading_.lost() - lost_;
        lost_ += gap;
        number_ += gap;
        next_ += static_cast<std::uint64_t>(gap);
        if (next_ >= stream_.end()) wrong("behind the stream's end");
        const StreamMessage expected(stream_, next_);
        if (message.type() != expected.type()) wrong("type " + std::to_string(message.type()));
        if (!expected.matches(message.payload())) wrong("payload");
        if (message.number() != number_) wrong("number " + std::to_string(message.number()));
        if (message.position() < position_) wrong("position " + std::to_string(message.position()));
        if (message.time() <= 0) wrong("time " + std::to_string(message.time()));
        position_ = message.position() + 1;
        ++number_;
        ++next_;
        ++seen_;
    }

    Reading& reading_;
    Stream stream_;
    std::string how_;
    std::chrono::nanoseconds wait_;
    std::optional<std::uint64_t> die_at_;
    std::uint64_t next_;
    std::int64_t lost_;
    std::int64_t number_;
    std::int64_t position_;
    std::uint64_t seen_ = 0;
    Patience patience_;
};

}  // namespace

Json append_stream(flyring::JournalWriter& writer, const Json& request) {
    return Appender(writer, request).run();
}

Json read_stream(flyring::JournalReader& reader, const Json& request) {
    return StreamReader<flyring::JournalReader>(reader, request).run();
}

Json read_stream(flyring::JournalConsumer& consumer, const Json& request) {
    return StreamReader<flyring::JournalConsumer>(consumer, request).run();
}

}  // namespace peer
