// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <flyring/journal.hpp>
#include <functional>
#include <sstream>
#include <vector>

#include "torture.hpp"

// The workers of journals in the SIGKILL torture (interop-tests/torture/WORKER.md): appenders, followers and consumers.

namespace torture {

inline void create_journal(const Orders& orders) {
    flyring::JournalOptions options;
    options.segment_size = std::stoull(orders.at("segment_size"));
    options.consumers = static_cast<std::uint32_t>(std::stoul(orders.at("consumers")));
    options.max_size = std::stoull(orders.at("max_size"));
    auto journal = flyring::Journal::create(orders.at("channel"), options);
    std::istringstream names(orders.at("names"));
    for (std::string name; std::getline(names, name, ',');) journal.consumer(name).close();
}

class JournalWorker : public AnyWorker {
  public:
    explicit JournalWorker(Orders orders) : AnyWorker(std::move(orders)), journal_(open()) {}

  protected:
    struct MessageHeader {
        std::uint32_t checksum;  // of all bytes after it
        std::uint32_t length;
        std::int64_t id;
    };

    void be_idle(std::uint64_t most = 4'000'000) {
        side_.phase(idle);
        side_.nap(below(most));
        side_.phase(working);
    }
    std::chrono::milliseconds some_timeout() {
        static constexpr std::array<int, 4> all{0, 2, 20, 400};
        return std::chrono::milliseconds(all.at(below(4)));
    }

    flyring::Journal journal_;

  private:
    flyring::Journal open() {
        flyring::OpenJournalOptions options;
        options.read_only = orders_.at("role") == "follower" && below(2) == 0;
        return flyring::Journal::open(orders_.at("channel"), options);
    }
};

/// Appends, syncs and trims.
class Appender final : public JournalWorker {
  public:
    explicit Appender(Orders orders)
        : JournalWorker(std::move(orders)), next_(static_cast<std::int64_t>(std::stoull(orders_.at("seed")) << 24U)) {}

    void run() override {
        while (!side_.stopped() && !side_.full()) {
            const auto dice = below(12);
            if (dice < 6) {
                hold();
            } else if (dice < 8) {
                const std::array<int, 3> timeouts{0, 20, 2000};
                const std::chrono::milliseconds timeout(timeouts.at(below(3)));
                for (auto left = below(40); left > 0 && !side_.stopped() && !side_.full(); --left) push(timeout);
            } else if (dice < 11) {
                trim();
            } else {
                change_sync();
            }
            be_idle();
        }
        journal_.close();
    }

  private:
    static constexpr std::size_t most_in_batch = 16;

    void hold() {
        const auto asked = now();
        enter(seating, 2);
        std::optional<flyring::JournalWriter> writer;
        try {
            writer.emplace(journal_.writer(orders_.at("name"), below(3) != 0, static_cast<std::uint32_t>(1 + below(2)),
                                           std::chrono::milliseconds(below(200))));
        } catch (const flyring::NoFreeSlot&) {
            return side_.phase(working);
        }
        linger(2);
        side_.log(seated, 0, writer->epoch(), now(), asked);
        for (auto left = below(300); left > 0 && !side_.stopped() && !side_.full(); --left) {
            if (below(10) == 0) be_idle();
            some(*writer);
        }
        const auto leaves = now();
        enter(leaving, 2);
        writer->close(below(2) == 0);
        linger(2);
        side_.log(Kind::left, 0, 0, 0, leaves);
        side_.phase(working);
    }

    void some(flyring::JournalWriter& writer) {
        const auto dice = below(100);
        if (dice < 55) {
            const std::string message = next_message(dice == 0 ? writer.max_message_length() : 700);
            one([&] { return writer.append(message); }, appending_one, message);
            if (fault("twice")) writer.append(message);
        } else if (dice < 70) {
            batch(writer);
        } else if (dice < 95) {
            claim(writer, dice >= 85);
        } else {
            enter(syncing, 4);
            writer.sync();
            linger(4);
        }
        side_.phase(working);
    }

    /// An append of one message, logged before and after it.
    void one(const std::function<std::int64_t()>& make, Phase phase, const std::string& message) {
        side_.log(appending, id_of(message), 1, now());
        enter(phase);
        std::int64_t position = -1;
        std::int64_t count = 1;
        try {
            if (!fault("lost", 5)) position = make();
        } catch (const flyring::NoFreeSlot&) {
            count = 0;
        } catch (const flyring::NoSpace&) {
            count = 0;
        }
        linger();
        side_.log(appended, position, count, now());
        if (position >= 0) last_ = position;
    }

    void batch(flyring::JournalWriter& writer) {
        const std::int64_t first_id = next_;
        std::vector<std::string> messages;
        for (auto left = 1 + below(most_in_batch); left > 0; --left) messages.push_back(next_message(400));
        std::vector<flyring::Bytes> views;
        for (const auto& each : messages) {
            views.emplace_back(reinterpret_cast<const std::byte*>(each.data()), each.size());
        }
        side_.log(appending, first_id, static_cast<std::int64_t>(views.size()), now());
        enter(in_batch);
        std::int64_t count = 0;
        try {
            count = static_cast<std::int64_t>(writer.append_many({views.data(), views.size()}));
        } catch (const flyring::NoSpace&) {
        }
        linger();
        side_.log(appended, -1, count, now());
    }

    void claim(flyring::JournalWriter& writer, bool abort) {
        const std::string message = next_message(700);
        side_.log(appending, id_of(message), 1, now());
        enter(claiming);
        flyring::JournalClaim claim;
        try {
            claim = writer.claim(message.size());
        } catch (const flyring::NoSpace&) {
            return side_.log(appended, -1, 0, now());
        }
        std::memcpy(claim.data(), message.data(), message.size());
        linger();
        enter(abort ? aborting : committing);
        const std::int64_t position = abort ? claim.abort() : claim.commit();
        linger();
        side_.log(appended, abort ? -1 : position, abort ? 0 : 1, now());
    }

    void push(std::chrono::milliseconds timeout) {
        if (below(10) == 0) be_idle();
        const std::string message = next_message(700);
        one([&] { return journal_.push(message, timeout); }, pushing, message);
        side_.phase(working);
    }

    void trim() {
        using flyring::JournalTrim;
        const std::array<JournalTrim, 4> limits{
            JournalTrim::consumed(), JournalTrim::position(last_),
            JournalTrim::before(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)),
            JournalTrim::size(journal_.segment_size() * (1 + below(4)))};
        enter(trimming, 2);
        journal_.trim(limits.at(below(4)));
        linger(2);
        side_.phase(working);
    }

    void change_sync() {
        using flyring::JournalSync;
        const std::array<JournalSync, 3> policies{JournalSync::never(), JournalSync::each(),
                                                  JournalSync::every(std::chrono::milliseconds(1 + below(20)))};
        flyring::JournalChange change;
        change.sync = policies.at(below(3));
        enter(syncing, 4);
        journal_.change(change);
        linger(4);
        side_.phase(working);
    }

    std::string next_message(std::size_t most) {
        const std::size_t length = sizeof(MessageHeader) + below(most - sizeof(MessageHeader) + 1);
        std::string message(length, '\0');
        MessageHeader header{0, static_cast<std::uint32_t>(length), next_};
        std::memcpy(message.data(), &header, sizeof header);
        for (std::size_t i = sizeof header; i < length; ++i)
            message[i] = static_cast<char>(next_ + 7 * static_cast<std::int64_t>(i));
        header.checksum = checksum(reinterpret_cast<const std::byte*>(message.data()), length);
        std::memcpy(message.data(), &header, sizeof header);
        if (fault("torn")) message[4] = static_cast<char>(message[4] ^ 1);
        ++next_;
        return message;
    }
    static std::int64_t id_of(const std::string& message) {
        MessageHeader header{};
        std::memcpy(&header, message.data(), sizeof header);
        return header.id;
    }

    std::int64_t next_;      // the id of the next message
    std::int64_t last_ = 0;  // the position of its last append
};

/// What followers and consumers have in common.
class JournalReadingWorker : public JournalWorker {
  public:
    using JournalWorker::JournalWorker;

  protected:
    /// Logs a message.
    void handle(const flyring::JournalMessage& message, std::int64_t lost) {
        enter(handling);
        MessageHeader header{};
        bool right = message.size() >= sizeof header;
        if (right) {
            std::memcpy(&header, message.data(), sizeof header);
            right = header.length == message.size() && header.checksum == checksum(message.data(), message.size());
        }
        last_number_ = message.number();
        last_position_ = message.position();
        last_time_ = message.time();
        const int times = fault("drop") ? 0 : fault("again") ? 2 : 1;
        for (int i = 0; i < times; ++i) {
            side_.log(read, message.number(), header.id, message.position(), lost, right ? 0 : 1, now());
        }
        side_.phase(polling);
    }
    /// A poll, or a take. Returns how many messages it got.
    template <typename Reading, typename Handler>
    int poll(Reading& reading, Handler&& handler, std::chrono::milliseconds timeout) {
        enter(polling);
        const auto begin = now();
        const int count = reading.poll(handler, below(4) == 0 ? 256 : 1 + static_cast<int>(below(8)), timeout);
        if (count == 0 && timeout.count() >= 20) {
            if (fault("deaf", 1)) side_.nap(600'000'000);
            idle_for(begin);
        }
        return count;
    }
    void idle_for(std::int64_t begin) { side_.log(idle_span, begin, now()); }
    void rest(int count) {
        side_.phase(idle);
        if (count == 0 || below(20) == 0) side_.nap(count == 0 ? 100'000 : below(4'000'000));
        side_.phase(working);
    }

    std::int64_t last_number_ = -1;  // of the last message that it read
    std::int64_t last_position_ = 0;
    std::int64_t last_time_ = 0;
};

/// Reads without a slot.
class Follower final : public JournalReadingWorker {
  public:
    using JournalReadingWorker::JournalReadingWorker;

    void run() override {
        while (!drained_ && !side_.full()) session();
        journal_.close();
    }

  private:
    enum Beginning : std::int64_t { elsewhere = 0, newest, at_position };
    struct Begin {
        flyring::JournalStart start = flyring::JournalStart::oldest();
        std::int64_t wanted = -1;  // the number that it asks for
        Beginning how = elsewhere;
    };

    Begin some_begin(bool durable) {
        using flyring::JournalStart;
        switch (last_number_ < 0 || durable ? below(2) : below(5)) {
            case 0:
                return {JournalStart::oldest(), -1, elsewhere};
            case 1:
                return {JournalStart::newest(), -1, newest};
            case 2:
                return {JournalStart::position(last_position_), last_number_, at_position};
            case 3:
                return {JournalStart::number(last_number_), last_number_, elsewhere};
            default:
                return {JournalStart::time(last_time_), -1, elsewhere};
        }
    }

    void session() {
        const bool durable = !side_.stopped() && below(4) == 0;
        Begin begin = some_begin(durable);
        auto asked = now();
        enter(starting, 2);
        auto reader = journal_.reader(begin.start, durable);
        linger(2);
        side_.log(following, reader.number(), reader.lost(), now(), asked, begin.wanted, begin.how, durable);
        for (auto polls = below(300); !side_.full() && !drained_ && (polls > 0 || side_.stopped()); --polls) {
            const bool last = side_.stopped();  // read before the poll: after it, nothing is appended
            const auto timeout = last ? std::chrono::milliseconds(0) : some_timeout();
            int count = 0;
            if (below(8) == 0) {
                side_.phase(polling);
                const auto began = now();
                if (const auto one = reader.take(timeout)) {
                    handle(*one, reader.lost());
                    count = 1;
                } else if (timeout.count() >= 20) {
                    idle_for(began);
                }
            } else {
                count =
                    poll(reader, [&](const flyring::JournalMessage& each) { handle(each, reader.lost()); }, timeout);
            }
            drained_ = last && count == 0 && !durable;
            if (last && durable) return;
            rest(count);
            if (!last && below(60) == 0) {
                begin = some_begin(durable);
                asked = now();
                enter(starting, 2);
                reader.seek(begin.start);
                side_.log(following, reader.number(), reader.lost(), now(), asked, -1, begin.how % at_position,
                          durable);
            }
        }
        const auto leaves = now();
        enter(leaving, 2);
        reader.close();
        linger(2);
        side_.log(Kind::left, 0, drained_, 0, leaves);
        side_.phase(working);
    }

    bool drained_ = false;
};

/// A named consumer.
class ConsumingWorker final : public JournalReadingWorker {
  public:
    using JournalReadingWorker::JournalReadingWorker;

    void run() override {
        while (!drained_ && !side_.full()) {
            session();
            be_idle();
        }
        journal_.close();
    }

  private:
    static constexpr std::int64_t patience = 5'000'000'000;

    void session() {
        const auto asked = now();
        enter(seating, 2);
        std::optional<flyring::JournalConsumer> consumer;
        try {
            consumer.emplace(journal_.consumer(orders_.at("name")));
        } catch (const flyring::NoFreeSlot&) {
            if (side_.stopped()) {  // another process has the name, and reads the rest
                if (since_ == 0) since_ = asked;
                drained_ = asked - since_ > patience;
            }
            return side_.phase(working);
        }
        linger(2);
        side_.log(following, consumer->number(), consumer->lost(), now(), asked, -1, 0, 0);
        for (auto polls = below(300); !side_.full() && !drained_ && (polls > 0 || side_.stopped()); --polls) {
            const bool last = side_.stopped();
            const int count = consume(*consumer, last ? std::chrono::milliseconds(0) : some_timeout());
            side_.log(polled, consumer->number(), consumer->lost());
            drained_ = last && count == 0;
            if (below(50) == 0) consumer->sync();
            rest(count);
        }
        const bool forget = !drained_ && fault("forget", 1);
        const auto leaves = now();
        enter(leaving, 2);
        forget ? consumer->forget() : consumer->close();
        linger(2);
        side_.log(Kind::left, 0, drained_, 0, leaves);
        side_.phase(working);
    }

    /// Returns -1 if its handler ended the poll before a message was consumed.
    int consume(flyring::JournalConsumer& consumer, std::chrono::milliseconds timeout) {
        // A size limit could take the message between the two.
        if (orders_.at("name") != "slow" && below(8) == 0) return pop(consumer);
        bool ended = false;
        int got = 0;
        const auto each = [&](const flyring::JournalMessage& message) {
            const auto dice = below(100);
            if (dice < 2) {
                ended = true;
                return flyring::Action::ABORT;
            }
            handle(message, consumer.lost());
            ++got;
            if (dice < 3) throw std::domain_error("a handler throws");
            if (dice < 6) return flyring::Action::BREAK;
            return dice < 10 ? flyring::Action::COMMIT : flyring::Action::CONTINUE;
        };
        int count = 0;
        enter(polling);
        const auto begin = now();
        try {
            count = consumer.poll(each, below(4) == 0 ? 256 : 1 + static_cast<int>(below(8)), timeout);
        } catch (const std::domain_error&) {
            count = got;
        }
        if (count != got)
            throw std::runtime_error("a poll counts " + std::to_string(count) + ", not " + std::to_string(got));
        if (count == 0 && !ended && timeout.count() >= 20) {
            if (fault("deaf", 1)) side_.nap(600'000'000);
            idle_for(begin);
        }
        return count == 0 && ended ? -1 : count;
    }

    int pop(flyring::JournalConsumer& consumer) {
        enter(polling);
        const auto seen = consumer.peek();
        if (!seen) return 0;
        handle(*seen, consumer.lost());
        const auto popped = consumer.pop();
        if (!popped) throw std::runtime_error("a message that peek returned is not there");
        if (popped->number() != seen->number()) handle(*popped, consumer.lost());
        return 1;
    }

    bool drained_ = false;
    std::int64_t since_ = 0;  // when it was told to end, and another process had the name
};

}  // namespace torture
