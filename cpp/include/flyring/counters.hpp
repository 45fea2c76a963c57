// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/detail/slots.hpp"
#include "flyring/detail/state.hpp"
#include "flyring/errors.hpp"
#include "flyring/span.hpp"
#include "flyring/stats.hpp"

namespace flyring {

namespace detail {
class Watch;
}

/// One counter of a channel: a signed 64-bit value that wraps on overflow, shared by any number of processes and
/// threads. Thread-safe. Everything but id() throws Closed if the channel was closed, or if any process freed the
/// counter. Writing throws AccessDenied if the channel is read-only. (spec/channel.md 4.8 and 8)
class Counter {
  public:
    std::int32_t id() const noexcept { return id_; }
    std::string label() const {
        check_allocated();
        return any_label();
    }
    std::int32_t type_id() const {
        check_allocated();
        return detail::get<std::int32_t>(metadata() + layout::COUNTER_METADATA_TYPE_ID);
    }
    /// All 112 bytes of the key; bytes that the caller did not give are 0.
    std::vector<std::byte> key() const {
        check_allocated();
        const std::byte* key = metadata() + layout::COUNTER_METADATA_KEY;
        return {key, key + layout::COUNTER_METADATA_KEY_LENGTH};
    }

    /// Relaxed: no ordering with other memory accesses.
    std::int64_t get() const { return detail::load_relaxed(value()); }
    /// Sequentially consistent.
    std::int64_t get_volatile() const { return __atomic_load_n(value(), __ATOMIC_SEQ_CST); }
    /// Relaxed: no ordering with other memory accesses.
    void set(std::int64_t value) { detail::store_relaxed(writable(), value); }
    /// Sequentially consistent.
    void set_volatile(std::int64_t value) { __atomic_store_n(writable(), value, __ATOMIC_SEQ_CST); }
    void set_release(std::int64_t value) { detail::store_release(writable(), value); }
    /// Adds `delta` and returns the value before. Sequentially consistent.
    std::int64_t get_and_add(std::int64_t delta) { return __atomic_fetch_add(writable(), delta, __ATOMIC_SEQ_CST); }
    /// Sets `desired` if the value is `expected`. Returns whether it did. Sequentially consistent.
    bool compare_and_set(std::int64_t expected, std::int64_t desired) {
        return __atomic_compare_exchange_n(writable(), &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }

    /// Frees the counter for all processes; it may be allocated again at once. Throws as above, IoError.
    void free();

  private:
    friend class Counters;
    friend class Channel;
    friend class Heartbeat;
    CounterStats stats() const {
        const std::byte* record = metadata();
        const std::byte* key = record + layout::COUNTER_METADATA_KEY;
        return {id_,
                any_label(),
                detail::get<std::int32_t>(record + layout::COUNTER_METADATA_TYPE_ID),
                {key, key + layout::COUNTER_METADATA_KEY_LENGTH},
                detail::load_acquire(value_word(layout::COUNTER_VALUE_VALUE))};
    }
    /// A handle of counter `id` as it is allocated now.
    Counter(std::shared_ptr<detail::ChannelState> state, std::int32_t id)
        : state_(std::move(state)), id_(id), allocation_(detail::load_relaxed(registration_id())) {}

    std::byte* metadata() const {
        state_->check_open();
        return state_->file.mapping.data() + state_->file.header.counter_metadata_offset() +
               layout::COUNTER_METADATA_STRIDE * static_cast<std::uint64_t>(id_);
    }
    std::int64_t* value_word(std::uint64_t offset) const {
        state_->check_open();
        return detail::word_at<std::int64_t>(state_->file.mapping.data() + state_->file.header.counter_values_offset(),
                                             layout::COUNTER_VALUE_STRIDE * static_cast<std::uint64_t>(id_) + offset);
    }
    /// Grows with each free, so it tells one allocation of the counter from the next.
    std::int64_t* registration_id() const { return value_word(layout::COUNTER_VALUE_REGISTRATION_ID); }

    void check_allocated() const {
        if (FLYRING_UNLIKELY(detail::load_relaxed(registration_id()) != allocation_)) throw_freed();
    }
    [[noreturn, gnu::cold, gnu::noinline]] void throw_freed() const {
        throw Closed("counter " + std::to_string(id_) + " of channel " + state_->file.path +
                     " is used after it was freed");
    }
    std::int64_t* value() const {
        check_allocated();
        return value_word(layout::COUNTER_VALUE_VALUE);
    }
    /// The label, even of a counter that was freed meanwhile. A length outside its range counts as 0 (section 9).
    std::string any_label() const {
        const std::byte* record = metadata();
        const std::int32_t length = detail::load_acquire(
            detail::word_at<std::int32_t>(record, layout::COUNTER_METADATA_LABEL_LENGTH));  // pairs with allocate
        if (length <= 0 || static_cast<std::uint64_t>(length) > layout::COUNTER_METADATA_LABEL_MAX_LENGTH) return {};
        return {reinterpret_cast<const char*>(record + layout::COUNTER_METADATA_LABEL),
                static_cast<std::size_t>(length)};
    }
    std::int64_t* writable() const {
        std::int64_t* word = value();
        state_->file.check_writable();
        return word;
    }
    std::int32_t* state_word() const {
        return detail::word_at<std::int32_t>(metadata(), layout::COUNTER_METADATA_STATE);
    }

    std::shared_ptr<detail::ChannelState> state_;
    std::int32_t id_;
    std::int64_t allocation_;
};

/// The counters of a channel, from Channel::counters.
class Counters {
  public:
    /// The number of counters that the channel has room for.
    std::uint32_t size() const noexcept { return state_->file.header.counters; }

    /// Allocates a free counter; its value is 0. Throws InvalidArgument (label over 380 bytes, key over 112), NoSpace
    /// (no counter is free; `needed` and `free` count counters), AccessDenied (read-only), Closed, IoError.
    Counter allocate(const std::string& label, std::int32_t type_id = 0, Bytes key = {});

    /// The first allocated counter with that label; empty if there is none.
    std::optional<Counter> find(const std::string& label) const {
        std::optional<Counter> found;
        walk([&](const Counter& counter) {
            if (counter.any_label() != label) return true;
            found = counter;
            return false;
        });
        return found;
    }

    /// The counter of that id. Throws InvalidArgument if it is not allocated.
    Counter counter(std::int32_t id) const {
        if (id >= 0 && static_cast<std::uint32_t>(id) < size()) {
            Counter counter(state_, id);
            if (detail::load_acquire(counter.state_word()) == layout::COUNTER_METADATA_STATE_ALLOCATED) return counter;
        }
        throw InvalidArgument("id", "there is no counter " + std::to_string(id));
    }

    /// Calls visit(Counter) for each allocated counter, in ascending order of ids.
    template <typename Visitor>
    void for_each(Visitor&& visit) const {
        walk([&](const Counter& counter) {
            visit(counter);
            return true;
        });
    }

  private:
    friend class Channel;
    friend class Heartbeat;
    friend class detail::Watch;
    /// The counters that are heartbeats.
    std::vector<HeartbeatStats> heartbeats() const {
        Stats found;
        state_->check_open();
        walk([&](const Counter& counter) {
            found.counters.push_back(counter.stats());
            return true;
        });
        return found.heartbeats();
    }
    Counter allocate_alone(const std::string& label, std::int32_t type_id, Bytes key);
    explicit Counters(std::shared_ptr<detail::ChannelState> state) noexcept : state_(std::move(state)) {}

    /// Calls visit(Counter) for each allocated counter until it returns false (spec/channel.md 8).
    template <typename Visitor>
    void walk(Visitor&& visit) const {
        for (std::uint32_t id = 0; id < size(); ++id) {
            const Counter counter(state_, static_cast<std::int32_t>(id));
            const std::int32_t state = detail::load_acquire(counter.state_word());  // pairs with allocate
            if (state == layout::COUNTER_METADATA_STATE_UNUSED) return;
            if (state == layout::COUNTER_METADATA_STATE_ALLOCATED && !visit(counter)) return;
        }
    }

    std::shared_ptr<detail::ChannelState> state_;
};

inline Counter Counters::allocate(const std::string& label, std::int32_t type_id, Bytes key) {
    using namespace layout;
    state_->check_open();
    state_->file.check_writable();
    if (label.size() > COUNTER_METADATA_LABEL_MAX_LENGTH) throw InvalidArgument("label", "it is over 380 bytes long");
    if (key.size() > COUNTER_METADATA_KEY_LENGTH) throw InvalidArgument("key", "it is over 112 bytes long");
    // The state's lock keeps fork out: a child's copy of the lock description would keep the lock held.
    return state_->with_lock([&] { return allocate_alone(label, type_id, key); });
}

inline Counter Counters::allocate_alone(const std::string& label, std::int32_t type_id, Bytes key) {
    using namespace layout;
    state_->check_open();
    const detail::Fd description = detail::open_description(state_->file.fd, state_->file.path);
    const detail::ControlLock control(description, state_->file);
    const std::int64_t now = detail::wall_clock(state_->file.environment) / 1'000'000;  // ms
    for (std::uint32_t id = 0; id < size(); ++id) {
        Counter counter(state_, static_cast<std::int32_t>(id));
        std::byte* record = counter.metadata();
        const std::int32_t state = detail::load_acquire(counter.state_word());
        const auto reusable_from = detail::get<std::int64_t>(record + COUNTER_METADATA_FREE_FOR_REUSE);
        if (state != COUNTER_METADATA_STATE_UNUSED &&
            !(state == COUNTER_METADATA_STATE_RECLAIMED && reusable_from <= now)) {
            continue;
        }
        detail::store_relaxed(counter.value_word(COUNTER_VALUE_OWNER_ID), std::int64_t{0});
        detail::store_relaxed(counter.value_word(COUNTER_VALUE_REFERENCE_ID), std::int64_t{0});
        detail::store_release(counter.value(), std::int64_t{0});
        detail::put(record + COUNTER_METADATA_TYPE_ID, type_id);
        detail::put(record + COUNTER_METADATA_FREE_FOR_REUSE, std::numeric_limits<std::int64_t>::max());
        std::byte padded_key[COUNTER_METADATA_KEY_LENGTH]{};
        std::copy(key.begin(), key.end(), padded_key);
        std::memcpy(record + COUNTER_METADATA_KEY, padded_key, sizeof padded_key);
        std::memcpy(record + COUNTER_METADATA_LABEL, label.data(), label.size());
        detail::store_release(detail::word_at<std::int32_t>(record, COUNTER_METADATA_LABEL_LENGTH),
                              static_cast<std::int32_t>(label.size()));                 // pairs with label()
        detail::store_release(counter.state_word(), COUNTER_METADATA_STATE_ALLOCATED);  // last; pairs with walk
        return counter;
    }
    throw NoSpace("channel " + state_->file.path + " has no free counter (of " + std::to_string(size()) +
                      "); free one, or create the channel with more",
                  1, 0);
}

inline void Counter::free() {
    using namespace layout;
    check_allocated();
    state_->file.check_writable();
    state_->with_lock([this] {  // keeps fork out, as in allocate
        state_->check_open();
        const detail::Fd description = detail::open_description(state_->file.fd, state_->file.path);
        const detail::ControlLock control(description, state_->file);
        if (detail::load_acquire(state_word()) != COUNTER_METADATA_STATE_ALLOCATED) throw_freed();
        check_allocated();  // again, under the lock: another process may have freed it
        std::byte* record = metadata();
        detail::store_release(state_word(), COUNTER_METADATA_STATE_RECLAIMED);  // pairs with walk
        std::memset(record + COUNTER_METADATA_KEY, 0, COUNTER_METADATA_KEY_LENGTH);
        detail::store_release(registration_id(), detail::wrapping_add(allocation_, 1));
        detail::put(record + COUNTER_METADATA_FREE_FOR_REUSE, detail::wall_clock(state_->file.environment) / 1'000'000);
    });
}

}  // namespace flyring
