// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flyring/channel.hpp"
#include "flyring/counters.hpp"

namespace flyring {

/// A counter of a channel by which one thread shows that it runs. The thread calls beat() in its loop; monitors see the
/// number of beats, and when it last grew. Close or destroy it before the channel. If the channel is closed first, or
/// the process dies, the counter stays allocated. The next heartbeat of the same name frees it, and then beat() of an
/// older one throws Closed. One thread beats; any thread may close. (spec/channel.md 8.1)
class Heartbeat {
  public:
    /// `name`: the thread's name, valid as a channel's name. `interval`: the longest time between two beats that the
    /// thread promises; 0: no promise. Throws InvalidArgument, NoSpace (no counter is free), AccessDenied (the channel
    /// is read-only), Closed, IoError.
    Heartbeat(const Channel& channel, const std::string& name,
              std::chrono::nanoseconds interval = std::chrono::seconds(1))
        : counter_(begin(channel.counters(), name, interval)),
          name_(name),
          interval_(interval),
          value_(counter_.value_word(layout::COUNTER_VALUE_VALUE)),
          registration_(counter_.registration_id()) {}
    Heartbeat(const Heartbeat&) = delete;
    Heartbeat& operator=(const Heartbeat&) = delete;
    ~Heartbeat() {
        try {
            close();
        } catch (const FlyringError&) {  // the counter stays, until the next heartbeat of this name
        }
    }

    /// Shows that the thread runs. Throws Closed after a close of this object or of the channel, in a forked child, and
    /// after another heartbeat has taken the name.
    [[gnu::always_inline]] void beat() {
        counter_.state_->check_open();
        if (FLYRING_UNLIKELY(detail::load_relaxed(registration_) != counter_.allocation_)) counter_.throw_freed();
        detail::store_relaxed(value_, ++beats_);
    }

    const std::string& name() const noexcept { return name_; }
    std::chrono::nanoseconds interval() const noexcept { return interval_; }
    /// How often it has beaten.
    std::int64_t beats() const noexcept { return beats_; }
    /// The id of its counter.
    std::int32_t id() const noexcept { return counter_.id(); }

    /// Frees the counter. A second close does nothing. Throws IoError.
    void close() {
        try {
            counter_.free();
        } catch (const Closed&) {  // freed before, or the channel is closed
        }
    }

  private:
    static Counter begin(Counters counters, const std::string& name, std::chrono::nanoseconds interval) {
        using namespace layout;
        detail::check_name("name", name);
        if (interval.count() < 0) throw InvalidArgument("interval", "it must not be below 0");
        std::vector<Counter> left;
        constexpr auto type = static_cast<std::int32_t>(COUNTER_METADATA_TYPE_HEARTBEAT);
        counters.for_each([&](const Counter& counter) {
            const CounterStats stats = counter.stats();
            if (stats.type_id == type && stats.label == name) left.push_back(counter);
        });
        for (Counter& counter : left) {
            try {
                counter.free();
            } catch (const Closed&) {  // freed meanwhile; if the channel is closed, allocate throws
            }
        }
        std::byte key[HEARTBEAT_KEY_LENGTH]{};
        const detail::Environment& environment = counters.state_->file.environment;
        detail::put(key + HEARTBEAT_KEY_PID, detail::process_id(environment));
        const std::int64_t promised = interval.count();
        detail::put(key + HEARTBEAT_KEY_INTERVAL, promised);
        detail::put(key + HEARTBEAT_KEY_STARTED_AT, detail::wall_clock(environment));
        return counters.allocate(name, type, Bytes(key, sizeof key));
    }

    Counter counter_;
    std::string name_;
    std::chrono::nanoseconds interval_;
    std::int64_t* value_;
    std::int64_t* registration_;
    std::int64_t beats_ = 0;
};

}  // namespace flyring
