// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "torture.hpp"

namespace torture {

/// A subscriber of the SIGKILL torture (interop-tests/torture/WORKER.md): reliable, kept or lossy.
class ReadingWorker final : public Worker {
  public:
    using Worker::Worker;

  private:
    void session() override {
        if (orders_.at("role") == "lossy") {
            read_lossy();
        } else {
            subscribe(orders_.at("role") == "kept");
        }
    }

    void subscribe(bool kept) {
        std::vector<std::uint32_t> rings;
        if (!kept && channel_.kind() != flyring::Kind::inbox && below(3) == 0) {
            for (std::uint32_t ring = 0; ring < channel_.publishers(); ++ring) {
                if (below(2) == 0) rings.push_back(ring);
            }
        }
        const auto asked = now();
        enter(orders_["resuming"] == "1" ? resuming : joining, 2);
        flyring::Subscriber subscriber = channel_.subscriber(kept ? orders_.at("name") : "", kept,
                                                             rings.empty() ? std::nullopt : std::optional(rings));
        linger(2);
        for (const auto ring : subscriber.rings()) {
            side_.log(joined, ring, subscriber.slot(), subscriber.position(ring), subscriber.epoch(), subscriber.kept(),
                      now(), asked);
        }
        orders_["resuming"] = kept ? "1" : "0";
        try {
            read(subscriber);
        } catch (const flyring::SlotLost&) {
            side_.log(slot_lost, subscriber.slot(), handled_, now(), polled_);
            orders_["resuming"] = "0";
        }
        side_.phase(working);
    }

    void read(flyring::Subscriber& subscriber) {
        auto polls = below(10) == 0 ? below(10) : below(500);
        bool drained = false;
        while (!side_.full() && !drained && (polls-- > 0 || side_.stopped())) {
            // Read before the poll: once told to end, the worker polls until a poll that began afterwards is empty.
            const bool last = side_.stopped();
            side_.phase(polling);
            handled_ = 0;
            polled_ = now();
            int count = 0;
            if (!subscriber.kept() && below(8) == 0) {
                if (const auto one = subscriber.take()) handle(*one, handling), count = 1;
            } else {
                count = subscriber.poll([&](const flyring::Message& each) { handle(each, handling); },
                                        below(4) == 0 ? 256 : 1 + static_cast<int>(below(8)));
            }
            drained = last && count == 0;
            side_.phase(idle);
            if (count == 0 || below(100) == 0) side_.nap(count == 0 ? 20'000 : below(3'000'000));
        }
        const bool may_forget = subscriber.kept() && channel_.kind() != flyring::Kind::inbox;
        const bool forget = may_forget && !drained && below(4) == 0;
        const auto leaves = now();
        enter(forget ? forgetting : leaving, 2);
        if (forget) {
            subscriber.forget();
            orders_["resuming"] = "0";
        } else {
            subscriber.close();
        }
        linger(2);
        side_.log(left, forget, drained, 0, leaves);
    }

    void read_lossy() {
        const auto asked = now();
        enter(starting, 2);
        auto subscriber = channel_.lossy_subscriber(below(2) == 0 ? flyring::Start::oldest : flyring::Start::now);
        linger(2);
        for (const auto ring : subscriber.rings()) {
            side_.log(joined, ring, 0, subscriber.position(ring), 0, 0, now(), asked);
        }
        auto polls = below(500);
        bool drained = false;
        std::vector<bool> began(subscriber.rings().back() + 1);
        while (!side_.full() && !drained && (polls-- > 0 || side_.stopped())) {
            const bool last = side_.stopped();
            side_.phase(reading);
            const auto each = [&](const flyring::Message& one) {
                if (!began[one.ring()]) side_.log(first, one.ring(), subscriber.lost_bytes(one.ring()));
                began[one.ring()] = true;
                handle(one, reading, subscriber.lost_messages(one.ring()) + fault("miscount"));
            };
            drained = subscriber.poll(each, 1 + static_cast<int>(below(20))) == 0 && last;
            side_.phase(idle);
            if (below(4) == 0) side_.nap(below(2'000'000));
        }
        for (const auto ring : subscriber.rings()) {
            side_.log(lost, ring, subscriber.lost_messages(ring), subscriber.position(ring),
                      subscriber.lost_bytes(ring));
        }
        side_.log(left, 0, drained, 0, now());
        side_.phase(working);
    }

    /// Checks a message and logs it, with `state` 0 (right), 1 (torn), 2 (wrong sender) or 3 (sender not known).
    void handle(const flyring::Message& message, Phase phase, std::int64_t lost = 0) {
        enter(phase);
        ++handled_;
        Header header{};
        std::int64_t state = 1;
        if (message.size() >= sizeof header) {
            header = message.as<Header>();
            state = header.length != message.size() || header.checksum != checksum(message.data(), message.size());
            const auto& sender = message.sender();
            if (state == 0 && sender.epoch == 0) {
                state = 3;
            } else if (state == 0 &&
                       (sender.epoch != header.epoch || publisher_number(sender.name) != header.publisher)) {
                state = 2;
            }
        }
        if (!fault("drop")) {
            side_.log(Kind::message, message.ring(), message.position(), header.epoch, header.sequence,
                      header.publisher, state, lost);
        }
        if (phase == handling) count(1);
        side_.phase(phase == handling ? polling : phase);
    }

    std::int64_t handled_ = 0;  // messages handled in this poll
    std::int64_t polled_ = 0;   // start of this poll, ns
};

}  // namespace torture
