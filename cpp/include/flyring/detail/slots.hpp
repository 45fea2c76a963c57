// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "flyring/detail/file.hpp"
#include "flyring/detail/memory.hpp"

// Owning a slot: locks, epochs, names (spec/channel.md 5).

namespace flyring::detail {

// Publisher and subscriber slots have these fields at the same offsets.
static_assert(layout::PUBLISHER_SLOT_EPOCH == layout::SUBSCRIBER_SLOT_EPOCH);
static_assert(layout::PUBLISHER_SLOT_NAME_LENGTH == layout::SUBSCRIBER_SLOT_NAME_LENGTH);
static_assert(layout::PUBLISHER_SLOT_NAME == layout::SUBSCRIBER_SLOT_NAME);
static_assert(layout::PUBLISHER_SLOT_PID == layout::SUBSCRIBER_SLOT_PID);
static_assert(layout::PUBLISHER_SLOT_ATTACHED_AT == layout::SUBSCRIBER_SLOT_ATTACHED_AT);

/// Whether a value from the file is a valid epoch; any other value counts as 0 (section 9).
inline bool is_epoch(std::int64_t epoch) noexcept {
    return epoch >= 1 && epoch <= layout::MAX_POSITION;
}

/// The epoch of a slot's next owner.
inline std::int64_t next_epoch(std::int64_t epoch) noexcept {
    return is_epoch(epoch) ? epoch + 1 : 1;
}

/// The words of one publisher or subscriber slot in this process.
class SlotWords {
  public:
    explicit SlotWords(std::byte* slot) noexcept : slot_(slot) {}

    std::int64_t* epoch() const noexcept { return word_at<std::int64_t>(slot_, layout::SUBSCRIBER_SLOT_EPOCH); }
    std::int64_t* start() const noexcept { return word_at<std::int64_t>(slot_, layout::PUBLISHER_SLOT_START); }
    std::int32_t* closed() const noexcept { return word_at<std::int32_t>(slot_, layout::PUBLISHER_SLOT_CLOSED); }
    std::int32_t* evicting() const noexcept { return word_at<std::int32_t>(slot_, layout::SUBSCRIBER_SLOT_EVICTING); }
    std::int32_t* kept() const noexcept { return word_at<std::int32_t>(slot_, layout::SUBSCRIBER_SLOT_KEPT); }
    std::int32_t* name_length() const noexcept {
        return word_at<std::int32_t>(slot_, layout::SUBSCRIBER_SLOT_NAME_LENGTH);
    }

    /// The name; empty if there is none, or if its owner died while writing it. To be called under the control lock.
    std::string name() const {
        const std::int32_t length = load_acquire(name_length());  // pairs with take 4
        if (length <= 0 || static_cast<std::uint64_t>(length) > layout::MAX_NAME_LENGTH) return {};
        char letters[layout::MAX_NAME_LENGTH];
        std::memcpy(letters, slot_ + layout::SUBSCRIBER_SLOT_NAME, sizeof letters);
        return {letters, static_cast<std::size_t>(length)};
    }

    // Only in a publisher slot.
    std::int64_t* blocked_since() const noexcept {
        return word_at<std::int64_t>(slot_, layout::PUBLISHER_SLOT_BLOCKED_SINCE);
    }
    std::int64_t* blocked_length() const noexcept {
        return word_at<std::int64_t>(slot_, layout::PUBLISHER_SLOT_BLOCKED_LENGTH);
    }
    // Only in a subscriber slot.
    std::int64_t* busy_since() const noexcept {
        return word_at<std::int64_t>(slot_, layout::SUBSCRIBER_SLOT_BUSY_SINCE);
    }
    std::int64_t* discarded() const noexcept { return word_at<std::int64_t>(slot_, layout::SUBSCRIBER_SLOT_DISCARDED); }

    /// The owner's epoch if the owner wakes sleepers, otherwise another value (6.16).
    std::int64_t* wakes() const noexcept { return word_at<std::int64_t>(slot_, layout::SUBSCRIBER_SLOT_WAKES); }
    const std::int32_t* pid() const noexcept { return word_at<std::int32_t>(slot_, layout::SUBSCRIBER_SLOT_PID); }
    const std::int64_t* attached_at() const noexcept {
        return word_at<std::int64_t>(slot_, layout::SUBSCRIBER_SLOT_ATTACHED_AT);
    }
    /// Word number `word` of the eight words of the name.
    const std::uint64_t* letters(std::size_t word) const noexcept {
        return word_at<std::uint64_t>(slot_, layout::SUBSCRIBER_SLOT_NAME + word * sizeof(std::uint64_t));
    }

    /// Writes the fields of a new owner (5.2, 4 and 5.3, 4) and returns the new epoch. more() writes the fields that
    /// only this kind of slot has.
    template <typename More>
    std::int64_t take(const std::string& name, const Environment& environment, bool wakes, More&& more) const {
        // An equal name is not touched: an owner killed in between would leave a kept slot without its name (5.3, 4).
        const bool renamed =
            load_relaxed(name_length()) != static_cast<std::int32_t>(name.size()) || this->name() != name;
        if (renamed) store_relaxed(name_length(), -1);  // readers retry (6.12)
        release_fence();
        more();
        put(slot_ + layout::SUBSCRIBER_SLOT_PID, process_id(environment));
        put(slot_ + layout::SUBSCRIBER_SLOT_ATTACHED_AT, wall_clock(environment));
        if (renamed) write_name(name);
        const std::int64_t epoch = next_epoch(load_relaxed(this->epoch()));
        store_relaxed(this->wakes(), wakes ? epoch : 0);
        store_release(this->epoch(), epoch);
        if (renamed) store_release(name_length(), static_cast<std::int32_t>(name.size()));  // pairs with 6.12
        return epoch;
    }

    void clear_name() const noexcept {
        store_relaxed(name_length(), -1);  // readers retry (6.12)
        release_fence();
        write_name({});
        store_release(name_length(), 0);
    }

  private:
    void write_name(const std::string& name) const noexcept {
        char letters[layout::MAX_NAME_LENGTH]{};
        std::copy(name.begin(), name.end(), letters);
        std::memcpy(slot_ + layout::SUBSCRIBER_SLOT_NAME, letters, sizeof letters);
    }

    std::byte* slot_;
};

inline SlotWords publisher_slot(const ChannelFile& file, std::uint32_t slot) noexcept {
    return SlotWords(file.mapping.data() + file.publisher_slot_offset(slot));
}

inline SlotWords subscriber_slot(const ChannelFile& file, std::uint32_t slot) noexcept {
    return SlotWords(file.mapping.data() + file.subscriber_slot_offset(slot));
}

/// The fields of a slot, as another process reads them (6.12).
struct SlotFields {
    std::int64_t epoch = 0;  // 0 also if the word is no epoch (section 9)
    std::int64_t start = 0;  // only in a publisher slot
    std::int32_t pid = 0;
    std::size_t name_length = 0;
    char letters[layout::MAX_NAME_LENGTH]{};
};

/// Reads a consistent set of a slot's fields (6.12). False: they keep changing, because an owner was killed while it
/// wrote them.
inline bool read_fields(const SlotWords& slot, SlotFields& fields) noexcept {
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const std::int64_t epoch = load_acquire(slot.epoch());         // pairs with take
        const std::int32_t length = load_acquire(slot.name_length());  // pairs with take
        fields.start = load_relaxed(slot.start());
        fields.pid = load_relaxed(slot.pid());
        for (std::size_t word = 0; word < sizeof fields.letters / sizeof(std::uint64_t); ++word) {
            const std::uint64_t letters = load_relaxed(slot.letters(word));
            std::memcpy(fields.letters + word * sizeof letters, &letters, sizeof letters);
        }
        acquire_fence();  // pairs with take: -1 in name_length before the fields change
        // The length before the epoch: a length that is valid again implies that the new epoch is visible.
        if (length == -1 || load_acquire(slot.name_length()) != length || load_relaxed(slot.epoch()) != epoch) continue;
        fields.epoch = is_epoch(epoch) ? epoch : 0;
        const bool fits = static_cast<std::uint64_t>(length) <= layout::MAX_NAME_LENGTH;
        fields.name_length = fits ? static_cast<std::size_t>(length) : 0;
        return true;
    }
    return false;
}

/// Throws NoFreeSlot for the one writer's slot of a table or journal, with the last object of `kind` that held it: a
/// single change and a push do not store their names. `slot`: empty if its words cannot be used.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_writer_not_free(const std::string& path,
                                                                         const std::optional<SlotWords>& slot,
                                                                         const std::string& kind) {
    std::vector<SlotOwner> owners;
    SlotFields fields;
    std::string last;
    if (slot && read_fields(*slot, fields)) {
        owners.push_back({0, std::string(fields.letters, fields.name_length), fields.pid});
        if (fields.pid != 0) {
            last = "the last " + kind + " was " +
                   (owners[0].name.empty() ? "without a name" : "'" + owners[0].name + "'") + " (pid " +
                   std::to_string(fields.pid) + "); ";
        }
    }
    throw NoFreeSlot(
        path, "writer", 1, std::move(owners),
        "the writer's slot is taken; " + last + "wait longer, close that writer, or kill its process if it is stopped");
}

/// The control lock, held as long as this object lives (5.1).
class ControlLock {
  public:
    /// Waits up to 5 s for the lock. Throws IoError.
    ControlLock(const Fd& description, const ChannelFile& file)
        : ControlLock(description, file.header.control_offset() + layout::CONTROL_CONTROL_LOCK, file.path) {}
    /// The same, of any file with a control section. `byte`: the lock's offset in the file.
    ControlLock(const Fd& description, std::uint64_t byte, const std::string& path)
        : description_(description), byte_(byte), held_(try_lock_byte(description, byte) == 0) {
        constexpr std::int64_t patience = 5'000'000'000;  // ns
        const std::int64_t start = clock_ns(CLOCK_MONOTONIC);
        while (!held_) {
            if (clock_ns(CLOCK_MONOTONIC) - start > patience) throw IoError("control lock", EAGAIN, path);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            held_ = lock_byte(description_, byte_, path);
        }
    }
    /// Tries once; converts to false if it did not get the lock, for whatever reason.
    ControlLock(const Fd& description, const ChannelFile& file, std::try_to_lock_t) noexcept
        : description_(description),
          byte_(file.header.control_offset() + layout::CONTROL_CONTROL_LOCK),
          held_(try_lock_byte(description_, byte_) == 0) {}
    ControlLock(const ControlLock&) = delete;
    ControlLock& operator=(const ControlLock&) = delete;
    ~ControlLock() {
        if (held_) unlock_byte(description_, byte_);
    }
    explicit operator bool() const noexcept { return held_; }

  private:
    const Fd& description_;
    std::uint64_t byte_;
    bool held_;
};

/// Sets all gates of a subscriber slot to -1.
inline void clear_gates(const ChannelFile& file, std::uint32_t slot) noexcept {
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        if (!file.has_gate(ring, slot)) continue;
        store_release(file.gate(file.ring(ring), slot), layout::NOT_GATING);  // pairs with recompute 2
    }
}

/// Sets all gates of a subscriber slot to -1 and wakes publishers that wait for room (6.6, 6.7, 6.11).
inline void stop_gating(const ChannelFile& file, std::uint32_t slot) noexcept {
    clear_gates(file, slot);
    wake_all(file.room());
}

/// Raises the epoch of a slot that is evicted, so that its owner's next verb throws SlotLost.
inline void raise_epoch(const SlotWords& words) noexcept {
    std::int64_t epoch = load_relaxed(words.epoch());  // retire raises it without the control lock
    while (!__atomic_compare_exchange_n(words.epoch(), &epoch, next_epoch(epoch), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {  // pairs with poll 5
    }
}

/// Evicts a subscriber slot, its owner alive or dead (6.11). The control lock must be held, or this could clear the
/// gates of the slot's next owner.
inline void evict_slot(const ChannelFile& file, std::uint32_t slot) noexcept {
    const SlotWords words = subscriber_slot(file, slot);
    raise_epoch(words);
    store_release(words.evicting(), 1);  // until the next join: its gates are no place to resume
    stop_gating(file, slot);
    wake_all(file.data());  // the victim, if it sleeps
}

/// How many messages the owner of a subscriber slot has not read (6.11); -1 if that is not known.
inline std::int64_t count_unread(const ChannelFile& file, std::uint32_t slot) noexcept {
    std::int64_t unread = 0;
    for (std::uint32_t index = 0; index < file.header.publishers; ++index) {
        const Ring ring = file.readable_ring(index);
        if (!file.has_gate(index, slot) || load_acquire(file.gate(ring, slot)) < 0) continue;  // pairs with poll 4
        const std::int64_t read = count_of_gate(ring, file.is_service() ? 0 : slot);
        Counted published{};
        if (read < 0 || !consistent_count(ring, published) || published.count < read) return layout::COUNT_UNKNOWN;
        unread += published.count - read;
    }
    return unread;
}

/// The lock of one slot, on a description of its own. The destructor unlocks, except in a forked child.
class SlotLock {
  public:
    SlotLock() noexcept = default;
    /// `more`: further bytes that the description has locked.
    SlotLock(Fd description, std::uint64_t byte, std::vector<std::uint64_t> more = {}) noexcept
        : description_(std::move(description)), byte_(byte), more_(std::move(more)) {}
    SlotLock(SlotLock&&) noexcept = default;
    SlotLock& operator=(SlotLock&&) noexcept = default;
    ~SlotLock() { release(); }

    void release() noexcept {
        if (description_) {
            for (const std::uint64_t byte : more_) unlock_byte(description_, byte);
            unlock_byte(description_, byte_);
        }
        description_.reset();
    }
    /// For a forked child: closes without unlocking, since the parent shares the description.
    void abandon() noexcept { description_.reset(); }
    const Fd& description() const noexcept { return description_; }
    /// Gives the description away, without unlocking.
    Fd take() noexcept { return std::move(description_); }
    bool still_held() const noexcept { return try_lock_byte(description_, byte_) == 0; }

  private:
    Fd description_;
    std::uint64_t byte_ = 0;
    std::vector<std::uint64_t> more_;
};

/// Publisher slots to try, in order (5.2, 2).
inline std::vector<std::uint32_t> publisher_candidates(const ChannelFile& file, const std::string& name) {
    std::vector<std::uint32_t> named;
    std::vector<std::uint32_t> candidates;
    for (std::uint32_t slot = 0; slot < file.header.producers(); ++slot) {
        const std::string has = publisher_slot(file, slot).name();
        if (!name.empty() && has == name) return {slot};
        (has.empty() ? candidates : named).push_back(slot);
    }
    candidates.insert(candidates.end(), named.begin(), named.end());
    return candidates;
}

/// Subscriber slots to try, in order (5.3, 2).
inline std::vector<std::uint32_t> subscriber_candidates(const ChannelFile& file, const std::string& name) {
    std::vector<std::uint32_t> candidates;
    for (std::uint32_t slot = 0; slot < file.header.subscribers; ++slot) {
        const SlotWords words = subscriber_slot(file, slot);
        const std::string has = words.name();
        const bool kept = load_acquire(words.kept()) != 0;
        if (file.header.kind == Kind::inbox) return {slot};  // its only one, whatever the names are
        if (kept && !name.empty() && has == name) return {slot};
        if (!kept || has.empty()) candidates.push_back(slot);
    }
    return candidates;
}

/// Worker slots to try, in order (spec/queue.md 6): slot 0 is never owned.
inline std::vector<std::uint32_t> worker_candidates(const ChannelFile& file, const std::string&) {
    std::vector<std::uint32_t> candidates;
    for (std::uint32_t slot = 1; slot < file.header.subscribers; ++slot) candidates.push_back(slot);
    return candidates;
}

/// Stores the boot id if the file has another boot's (5.5). Under the control lock.
inline void note_boot(const ChannelFile& file) {
    const Uuid boot = boot_id(file.environment);
    std::byte* noted = file.control() + layout::CONTROL_BOOT_ID;
    if (std::equal(boot.begin(), boot.end(), noted)) return;
    // Requests of an earlier boot have no caller any more, and their deadlines are of another clock
    // (spec/service.md 9).
    for (std::uint32_t k = 0; k < file.header.clients(); ++k) {
        const Ring ring = file.ring(k);
        const std::int64_t published = load_acquire(ring.published());
        if (!ring.is_position(published)) continue;
        store_relaxed(ring.gate_count(0), layout::COUNT_UNKNOWN);
        store_release(ring.gate(0), published);
    }
    std::copy(boot.begin(), boot.end(), noted);
}

/// A lock on one byte, taken through a shared description: unlocked by the destructor unless keep() was called.
class SlotGuard {
  public:
    SlotGuard(const Fd& description, std::uint64_t byte) noexcept : description_(&description), byte_(byte) {}
    SlotGuard(const SlotGuard&) = delete;
    SlotGuard& operator=(const SlotGuard&) = delete;
    ~SlotGuard() {
        if (description_ != nullptr) unlock_byte(*description_, byte_);
    }
    void keep() noexcept { description_ = nullptr; }

  private:
    const Fd* description_;
    std::uint64_t byte_;
};

/// The differences between kinds of slots that take_slot needs.
struct SlotKind {
    const char* name;
    std::uint32_t first;
    std::uint32_t count;
    bool has_kept;
    SlotWords (*words)(const ChannelFile&, std::uint32_t);
    std::uint64_t (ChannelFile::*lock)(std::uint32_t) const noexcept;
    std::vector<std::uint32_t> (*candidates)(const ChannelFile&, const std::string&);
};

inline SlotKind publisher_slots(const ChannelFile& file) noexcept {
    return {"publisher",         0, file.header.producers(), false, publisher_slot, &ChannelFile::publisher_lock,
            publisher_candidates};
}

inline SlotKind subscriber_slots(const ChannelFile& file) noexcept {
    return {"subscriber",         0, file.header.subscribers, true, subscriber_slot, &ChannelFile::subscriber_lock,
            subscriber_candidates};
}

/// The worker slots of a queue: all subscriber slots except slot 0.
inline SlotKind worker_slots(const ChannelFile& file) noexcept {
    return {"subscriber",     1, file.header.workers(), false, subscriber_slot, &ChannelFile::subscriber_lock,
            worker_candidates};
}

/// Throws NoFreeSlot with the owners of the slots. `only`: the one slot that came into question.
[[noreturn, gnu::cold]] inline void throw_no_free_slot(const ChannelFile& file, const SlotKind& kind,
                                                       const Fd& description, std::optional<std::uint32_t> only) {
    constexpr std::size_t most = 8;  // owners that the text names
    std::vector<SlotOwner> owners;
    std::string kept;  // kept slots of absent owners
    for (std::uint32_t slot = only.value_or(kind.first); slot < (only ? *only + 1 : kind.first + kind.count); ++slot) {
        const SlotWords words = kind.words(file, slot);
        SlotFields fields;
        if (!read_fields(words, fields)) fields = {};
        std::string name(fields.letters, fields.name_length);
        if (only || is_locked_by_another(description, (file.*kind.lock)(slot))) {
            owners.push_back({slot, std::move(name), fields.pid});
        } else if (kind.has_kept && load_acquire(words.kept()) != 0) {
            kept += "; slot " + std::to_string(slot) + " is kept for '" + name +
                    "', which is not attached: a subscriber of that name frees it by forget()";
        }
    }
    const auto owner = [](const SlotOwner& holder) {
        const std::string pid = "pid " + std::to_string(holder.pid);
        return holder.name.empty() ? pid : "'" + holder.name + "' (" + pid + ")";
    };
    const std::string noun = std::string(kind.name) + " slot";
    std::string text;
    if (only) {
        text = noun + " " + std::to_string(*only) + (owners[0].name.empty() ? "" : " ('" + owners[0].name + "')") +
               " is owned by pid " + std::to_string(owners[0].pid) + "; close it there" +
               (kind.has_kept && file.header.kind == Kind::inbox ? ": an inbox has one reader"
                                                                 : ", or ask for another name");
    } else {
        if (kind.count == 0) {
            text = "it has no " + noun + "s";
        } else if (owners.size() == kind.count) {
            text = "all " + std::to_string(kind.count) + " " + noun + "s are owned";
        } else {
            text = "no " + noun + " of " + std::to_string(kind.count) + " is free";
        }
        for (std::size_t i = 0; i < std::min(most, owners.size()); ++i) {
            text += (i == 0 ? ": " : ", ") + std::to_string(owners[i].slot) + " by " + owner(owners[i]);
        }
        if (owners.size() > most) text += " and " + std::to_string(owners.size() - most) + " more";
        text += kept + "; close one, or create the channel with more";
    }
    throw NoFreeSlot(file.path, kind.name, kind.count, std::move(owners), text);
}

/// Locks a slot that `name` may have, and calls `use(slot)` while the control lock is also held (5.2 and 5.3, 1 and 2).
/// Tries for 10 ms, then throws NoFreeSlot.
template <typename Use>
SlotLock take_slot(const ChannelFile& file, const SlotKind& kind, const std::string& name, Use&& use) {
    constexpr std::int64_t patience = 10'000'000;  // ns
    Fd description = open_description(file.fd, file.path);
    std::int64_t give_up = 0;  // counted from the first look, because the control lock may take long
    for (;;) {
        std::optional<std::uint32_t> taken;
        std::optional<std::uint32_t> only;
        {
            const ControlLock control(description, file);
            const std::vector<std::uint32_t> order = kind.candidates(file, name);
            const bool inbox = kind.has_kept && file.header.kind == Kind::inbox;
            const bool named = order.size() == 1 && !name.empty() && kind.words(file, order[0]).name() == name;
            if (inbox || named) only = order[0];
            for (auto slot = order.begin(); slot != order.end() && !taken; ++slot) {
                if (lock_byte(description, (file.*kind.lock)(*slot), file.path)) taken = *slot;
            }
            if (taken) {
                SlotGuard guard(description, (file.*kind.lock)(*taken));
                note_boot(file);
                use(*taken);
                guard.keep();
            }
        }
        if (taken) return {std::move(description), (file.*kind.lock)(*taken)};
        const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
        if (give_up == 0) give_up = now + patience;
        if (now > give_up) throw_no_free_slot(file, kind, description, only);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace flyring::detail
