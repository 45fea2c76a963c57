// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "flyring/subscriber_core.hpp"

// How a subscriber comes and goes: join, resume, leave, and what happens to a lost slot. Included by
// subscriber_core.hpp.

namespace flyring::detail {

inline SubscriberCore::SubscriberCore(std::shared_ptr<ChannelState> state, const std::string& name, bool kept,
                                      const std::vector<std::uint32_t>& rings)
    : state_(std::move(state)), name_(name), kept_(kept) {
    if (!name.empty()) check_name("name", name);
    if (kept && name.empty()) throw InvalidArgument("kept", "a kept subscriber needs a name");
    std::vector<std::uint32_t> asked = rings;
    std::sort(asked.begin(), asked.end());
    if (std::adjacent_find(asked.begin(), asked.end()) != asked.end()) {
        throw InvalidArgument("rings", "a ring is named twice");
    }
    if (!asked.empty() && asked.back() >= state_->file.header.publishers) {
        throw InvalidArgument("rings", "there is no ring " + std::to_string(asked.back()) + ", the channel has " +
                                           std::to_string(state_->file.header.publishers));
    }
    state_->enter(*this, [&] { take(name, kept, asked); });
}

/// 5.3
inline void SubscriberCore::take(const std::string& name, bool kept, const std::vector<std::uint32_t>& rings) {
    const ChannelFile& file = state_->file;
    std::uint32_t taken = 0;
    std::int64_t epoch = 0;
    SlotLock lock = take_slot(
        file, "subscriber", file.header.subscribers, name,
        [](const ChannelFile& channel, const std::string& wanted) { return subscriber_candidates(channel, wanted); },
        [&](std::uint32_t slot) { return file.subscriber_slot_offset(slot) + layout::CONTROL_SLOT_LOCK; },
        [&](std::uint32_t slot, const Fd&) {
            const SlotWords words = subscriber_slot(file, slot);
            epoch = words.take(name, file.environment, [] {});
            bool gating = false;
            for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
                gating = gating || load_acquire(file.ring(ring).gate(slot)) >= 0;
            }
            kept_ = load_acquire(words.kept()) != 0;
            if (kept_ && gating) {
                resume(slot, rings);
            } else {
                join(slot, rings);
                if (kept) store_release(words.kept(), 1);  // after its gates; pairs with retire
                kept_ = kept_ || kept;
            }
            taken = slot;
        });
    for (const Reader& reader : readers_) file.readable.prefault(reader.ring.data, reader.ring.capacity);
    own(std::move(lock), taken, subscriber_slot(file, taken).epoch(), epoch);
}

inline void SubscriberCore::add_reader(std::uint32_t slot, std::uint32_t ring, std::int64_t cursor) {
    const ChannelFile& file = state_->file;
    const std::int64_t store_due =
        cursor + file.header.capacity / static_cast<std::int64_t>(layout::CONSTANTS_GATE_STORE_DIVISOR);
    readers_.push_back({file.readable_ring(ring), file.ring(ring).gate(slot), cursor, cursor, store_due, false});
    rings_.push_back(ring);
}

/// 6.4; no rings: all.
inline void SubscriberCore::join(std::uint32_t slot, const std::vector<std::uint32_t>& rings) {
    const ChannelFile& file = state_->file;
    const auto chosen = [&](std::uint32_t ring) {
        return rings.empty() || std::binary_search(rings.begin(), rings.end(), ring);
    };
    const auto published = [&](std::uint32_t index) {
        const Ring ring = file.ring(index);
        const std::int64_t position = load_acquire(ring.published());  // join 2 and 4; pairs with publish 7
        if (ring.believable(position)) return position;
        for (std::uint32_t each = 0; each < file.header.publishers; ++each) {
            store_release(file.ring(each).gate(slot), layout::CONSTANTS_NOT_GATING);
        }
        throw_corrupt(file.path, ring, position, "published is no position");
    };
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        if (!chosen(ring)) store_release(file.ring(ring).gate(slot), layout::CONSTANTS_NOT_GATING);  // join 1
    }
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        if (chosen(ring)) store_release(file.ring(ring).gate(slot), published(ring));  // join 2; pairs with recompute 2
    }
    full_fence();  // join 3; pairs with recompute 1
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        if (!chosen(ring)) continue;
        const std::int64_t cursor = published(ring);
        store_release(file.ring(ring).gate(slot), cursor);  // join 4; pairs with recompute 2
        add_reader(slot, ring, cursor);
    }
}

/// 6.5
inline void SubscriberCore::resume(std::uint32_t slot, const std::vector<std::uint32_t>& asked) {
    const ChannelFile& file = state_->file;
    for (std::uint32_t index = 0; index < file.header.publishers; ++index) {
        const Ring ring = file.ring(index);
        const std::int64_t gate = load_acquire(ring.gate(slot));  // its last owner: poll 4
        if (gate < 0) continue;
        const std::int64_t published = load_acquire(ring.published());  // pairs with publish 7
        if (!ring.believable(gate) || !ring.believable(published) || gate > published ||
            gate < published - static_cast<std::int64_t>(ring.capacity)) {
            throw_corrupt(file.path, ring, gate, "a kept slot's gate is out of reach");
        }
        add_reader(slot, index, gate);
    }
    if (!asked.empty() && asked != rings_) {
        const auto list = [](const std::vector<std::uint32_t>& rings) {
            std::string text;
            for (const std::uint32_t ring : rings) text += (text.empty() ? "" : ",") + std::to_string(ring);
            return text;
        };
        throw ChannelDiffers(file.path, "rings", list(asked), list(rings_));
    }
}

/// 6.6 without the unlocking.
inline void SubscriberCore::leave() noexcept {
    for (std::uint32_t ring = 0; ring < state_->file.header.publishers; ++ring) {
        store_release(state_->file.ring(ring).gate(slot_), layout::CONSTANTS_NOT_GATING);  // pairs with recompute 2
    }
}

/// 5.4: a gate that we stored after somebody gave up the slot for us would hold publishers back for ever.
inline void SubscriberCore::take_back_gates() {
    if (!lock_.still_held(state_->file.path)) return;
    for (const Reader& reader : readers_) {
        if (!reader.corrupt && load_acquire(reader.gate) == reader.stored) {
            store_release(reader.gate, layout::CONSTANTS_NOT_GATING);
        }
    }
}

/// 5.3, close. With the channel's mutex held.
inline void SubscriberCore::close() noexcept {
    if (!usable()) {
        try {
            take_back_gates();
        } catch (const FlyringError&) {
            // The lock cannot be tested: then the slot may be another's, and nothing is written.
        }
    } else if (!kept_) {
        leave();
    }
    lock_.release();
    mark("closed");
}

inline void SubscriberCore::forget() {
    check_idle();
    if (!usable()) throw_unusable();
    {
        const ControlLock control(lock_.description(), state_->file);
        const SlotWords words = subscriber_slot(state_->file, slot_);
        store_release(words.kept(), 0);
        leave();
        words.clear_name();
    }
    kept_ = false;
    state_->close(*this, [] {});
}

void SubscriberCore::refuse() {
    if (!usable()) throw_unusable();
    throw TwoThreads("subscriber slot " + std::to_string(slot_));
}

inline void SubscriberCore::throw_unusable() {
    if (open()) {
        take_back_gates();
        throw SlotLost("subscriber", slot_);
    }
    throw Closed("subscriber slot " + std::to_string(slot_) + " of channel " + state_->file.path +
                 " is used after it was " + why_unusable_);
}

/// 6.9, the end: the other rings go on; this one looks empty from now on.
void SubscriberCore::set_corrupt(Reader& reader, std::int64_t position, const char* reason) {
    alignas(layout::RECORD_HEADER_LENGTH) static std::byte nothing[layout::RECORD_HEADER_LENGTH];
    const Ring ring = reader.ring;
    if (kept_) {
        store_gate(reader, position);
    } else if (open()) {
        store_release(reader.gate, layout::CONSTANTS_NOT_GATING);  // pairs with recompute 2
    }
    reader.corrupt = true;
    reader.cursor = position;
    reader.stored = position;
    reader.ring.data = nothing;
    reader.ring.capacity = sizeof nothing;
    throw_corrupt(state_->file.path, ring, position, reason);
}

inline std::int64_t SubscriberCore::position(std::uint32_t ring) const {
    for (const Reader& reader : readers_) {
        if (reader.ring.index == ring) return reader.cursor;
    }
    throw InvalidArgument("ring", "ring " + std::to_string(ring) + " was not chosen by this subscriber");
}

}  // namespace flyring::detail
