// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "torture.hpp"

namespace torture {

class PublishingWorker final : public Worker {
  public:
    explicit PublishingWorker(Orders orders)
        : Worker(std::move(orders)),
          number_(publisher_number(orders_.at("name"))),
          max_lag_(std::stoull(orders_.at("max_lag"))) {
        for (std::byte& each : filler_) each = static_cast<std::byte>(random_());
    }

  private:
    std::size_t length() {
        const auto dice = below(100);
        return sizeof(Header) + (dice < 25   ? 0
                                 : dice < 75 ? below(100)
                                 : dice < 97 ? below(most_ / 4)
                                             : most_ - sizeof(Header) - below(2) * below(9));
    }

    void fill(std::byte* to, std::size_t length, std::int64_t sequence) {
        Header header{0, static_cast<std::uint32_t>(length), number_ + fault("name"), epoch_ + fault("epoch"),
                      sequence};
        for (std::size_t at = sizeof header; at < length; at += sizeof filler_) {
            std::memcpy(to + at, filler_ + 0, std::min(sizeof filler_, length - at));
        }
        for (std::size_t at = sizeof header; at + 8 <= length; at += 64) std::memcpy(to + at, &sequence, 8);
        std::memcpy(to, &header, sizeof header);
        header.checksum = checksum(to, length);
        std::memcpy(to, &header, 4);
        if (fault("torn")) to[length - 1] ^= std::byte{1};
    }

    void session() override {
        side_.attempted(0);
        enter(orders_["recovering"] == "1" ? recovering : taking, 2);
        flyring::Publisher publisher = channel_.publisher(orders_.at("name"), max_lag_);
        linger(2);
        orders_["recovering"] = "0";
        epoch_ = publisher.epoch();
        sequence_ = 0;
        most_ = publisher.max_message_length();
        side_.log(taken, publisher.ring(), epoch_, publisher.position(), now(), number_,
                  static_cast<std::int64_t>(max_lag_));
        side_.phase(working);
        for (auto n = below(10) == 0 ? below(20) : below(600); n > 0 && !side_.stopped() && !side_.full(); --n) {
            const auto dice = below(10);
            if (dice < 4) {
                offer(publisher);
            } else if (dice < 8) {
                claim(publisher, dice == 7);
            } else {
                batch(publisher, 1 + below(16));
            }
            side_.phase(working);
            if (below(max_lag_ != 0 ? 2 : 16) == 0) side_.nap(below(1'000'000));
            if (fault("skip")) ++sequence_;
            if (fault("lost")) {
                side_.attempted(sequence_ + 1);
                acknowledge(1, publisher.position());
            }
        }
        const auto leaves = now();
        enter(closing, 2);
        publisher.close();
        linger(2);
        side_.log(closed, sequence_, 0, 0, leaves);
        side_.phase(working);
    }

    /// A span of time in which a dead subscriber holds the publisher back.
    struct DeadWait {
        std::int64_t slot = -1;  // -1: no dead subscriber holds it back
        std::int64_t begin = 0;
        std::int64_t delay = 0;
        std::int64_t offers = 0;
        std::int64_t looks = 0;  // attempts in which the binding must test for dead owners
        std::int64_t due = 0;    // earliest time of the next of these attempts
        std::int64_t tried = 0;  // start of the last attempt

        void count() {
            ++offers;
            if (tried >= due) ++looks, due = tried + 1'000'000;  // channel.md 6.2, 4
        }
    };

    /// Calls attempt() until it succeeds, or until it is time to stop. Spins while a dead subscriber holds the
    /// publisher back.
    template <typename Attempt>
    void insist(flyring::Publisher& publisher, Attempt&& attempt) {
        std::int64_t since = 0, slot = -1, live = 0, kept = 0;
        DeadWait dead;
        for (;; dead.tried = now()) {
            const bool done = attempt();
            if (dead.slot >= 0) dead.count();
            if (done) break;
            side_.phase(held_back);
            const auto asked = moment();
            const auto holder = publisher.held_by();
            if (since == 0) {
                since = now();
                if (holder) slot = holder->slot, live = holder->live, kept = holder->kept;
            }
            const bool is_dead = holder && !holder->live && !holder->kept;
            const std::int64_t now_dead = is_dead ? std::int64_t{holder->slot} : -1;
            if (now_dead != dead.slot) {
                end(dead);
                dead = DeadWait{now_dead, asked.time, asked.delay};
                dead.due = dead.begin + 1'000'000;
                lost_to_the_machine_ = 0;
            }
            if (side_.stopped()) break;
            if (dead.slot < 0) {
                side_.nap(20'000);
            } else if (fault("asleep", 1)) {
                ::usleep(80'000);
            } else {
                spin();
            }
        }
        end(dead);
        if (since != 0 && now() - since > 2'000'000) side_.log(held, slot, since, now(), live, kept);
    }

    void end(const DeadWait& dead) {
        if (dead.slot < 0) return;
        const auto over = moment();
        const auto lost = std::max(over.delay - dead.delay, lost_to_the_machine_);
        side_.log(dead_wait, dead.slot, dead.begin, over.time, lost, dead.offers, dead.looks);
    }

    void acknowledge(std::int64_t count, std::int64_t position) {
        sequence_ += count;
        side_.log(acknowledged, sequence_, position, count, now());
        this->count(count);
    }

    void offer(flyring::Publisher& publisher) {
        std::vector<std::byte> bytes(length());
        fill(bytes.data(), bytes.size(), sequence_);
        insist(publisher, [&] {
            side_.attempted(sequence_ + 1);
            enter(offering);
            const auto position = publisher.offer(bytes, 1 + static_cast<std::int32_t>(below(9)));
            linger();
            if (position > 0) acknowledge(1, position);
            side_.attempted(sequence_);
            return position > 0;
        });
    }

    void claim(flyring::Publisher& publisher, bool abort) {
        const auto size = length();
        insist(publisher, [&] {
            enter(claiming);
            flyring::Claim claim = publisher.try_claim(size);
            if (!claim) return false;
            enter(writing);
            fill(claim.data(), size, abort ? -1 - sequence_ : sequence_);
            if (abort) {
                enter(aborting, 50);
                claim.abort();
                linger(50);
                return true;
            }
            side_.attempted(sequence_ + 1);
            enter(committing);
            const auto position = claim.commit();
            linger();
            acknowledge(1, position);
            return true;
        });
    }

    void batch(flyring::Publisher& publisher, std::size_t count) {
        std::vector<std::vector<std::byte>> messages(count);
        std::vector<flyring::Bytes> views;
        for (auto& each : messages) {
            each.resize(sizeof(Header) + below(200));
            fill(each.data(), each.size(), sequence_ + (&each - messages.data()));
            views.emplace_back(each);
        }
        std::size_t done = 0;
        insist(publisher, [&] {
            side_.attempted(sequence_ + static_cast<std::int64_t>(count - done));
            enter(in_batch);
            const auto more = publisher.offer_batch({views.data() + done, count - done}, 7);
            linger();
            done += more;
            if (more > 0) acknowledge(static_cast<std::int64_t>(more), publisher.position());
            side_.attempted(sequence_);
            return done == count;
        });
    }

    std::int64_t number_;
    std::uint64_t max_lag_;
    std::int64_t epoch_ = 0;
    std::int64_t sequence_ = 0;
    std::size_t most_ = 0;  // largest message, bytes
    std::byte filler_[4096];
};

}  // namespace torture
