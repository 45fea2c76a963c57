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
    const std::vector<std::uint32_t> asked = sorted_rings(state_->file, rings);
    state_->enter(*this, [&] { take(name, kept, asked); });
}

/// 5.3
inline void SubscriberCore::take(const std::string& name, bool kept, const std::vector<std::uint32_t>& rings) {
    const ChannelFile& file = state_->file;
    const bool foreign = file.header.foreign != Foreign::none;  // its writer needs the gate to stay one (6.15)
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
            kept_ = foreign || load_acquire(words.kept()) != 0;
            if (foreign || (kept_ && gating && load_acquire(words.evicting()) == 0)) {
                resume(slot, rings);
            } else {
                if (kept_) store_release(words.evicting(), 1);  // half a join is nowhere to resume
                join(slot, rings);
                if (kept) store_release(words.kept(), 1);  // after its gates; pairs with retire
                if (load_acquire(words.evicting()) != 0) store_release(words.evicting(), 0);
                kept_ = kept_ || kept;
            }
            taken = slot;
        });
    for (const std::uint32_t ring : rings_) senders_.push_back(unknown_sender(ring));
    for (std::size_t i = 0; i < readers_.size(); ++i) {
        set_sender(senders_[i], file, readers_[i].cursor);
        readers_[i].sender = &senders_[i];
        file.readable.prefault(readers_[i].ring.data, readers_[i].ring.capacity);
    }
    own(std::move(lock), taken, subscriber_slot(file, taken).epoch(), epoch);
}

inline void SubscriberCore::add_reader(std::uint32_t slot, std::uint32_t ring, std::int64_t cursor) {
    const ChannelFile& file = state_->file;
    const std::int64_t store_due =
        cursor + file.header.capacity / static_cast<std::int64_t>(layout::GATE_STORE_DIVISOR);
    readers_.push_back({file.readable_ring(ring), file.ring(ring).gate(slot), cursor, cursor, store_due, nullptr});
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
        clear_gates(file, slot);
        throw_corrupt(file.path, ring, position, "published is no position");
    };
    for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
        if (!chosen(ring)) store_release(file.ring(ring).gate(slot), layout::NOT_GATING);  // join 1
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
    const bool foreign = file.header.foreign != Foreign::none;
    for (std::uint32_t index = 0; index < file.header.publishers; ++index) {
        const Ring ring = file.ring(index);
        const std::int64_t gate = load_acquire(ring.gate(slot));  // its last owner: poll 4
        if (gate < 0 && !foreign) continue;
        // Pairs with publish 7. A foreign writer stores claimed alone.
        const std::int64_t published = load_acquire(foreign ? ring.claimed() : ring.published());
        const std::int64_t claimed = load_acquire(ring.claimed());  // publish 3
        if (!ring.believable(gate) || !ring.believable(published) || !ring.believable(claimed) || gate > claimed ||
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

/// 5.4: a gate that we stored after somebody gave up the slot for us would hold publishers back for ever. While the
/// lock is ours the slot has no other owner.
inline void SubscriberCore::take_back_gates() {
    if (!lock_.still_held(state_->file.path)) return;
    if (state_->file.header.foreign != Foreign::none) return lock_.release();  // nobody evicts; the gate stays
    store_release(subscriber_slot(state_->file, slot_).evicting(), 1);         // nowhere to resume
    clear_gates(state_->file, slot_);
    lock_.release();
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
        clear_gates(state_->file, slot_);  // 6.6
    }
    lock_.release();
    mark("closed");
}

inline void SubscriberCore::forget() {
    check_idle();
    if (!usable()) throw_unusable();
    state_->file.check_foreign(state_->file.header.foreign == Foreign::none, "a foreign writer needs the gate");
    {
        const ControlLock control(lock_.description(), state_->file);
        const SlotWords words = subscriber_slot(state_->file, slot_);
        store_release(words.kept(), 0);
        clear_gates(state_->file, slot_);
        words.clear_name();
    }
    kept_ = false;
    state_->close(*this, [] {});
}

void SubscriberCore::refuse() {
    if (use() != idle && open()) throw TwoThreads("subscriber slot " + std::to_string(slot_));
    throw_unusable();
}

inline void SubscriberCore::throw_unusable() {
    if (open() && use() == idle) lose();
    if (open()) throw SlotLost("subscriber", slot_);  // in a handler: its poll is not done with the gates
    throw Closed("subscriber slot " + std::to_string(slot_) + " of channel " + state_->file.path +
                 " is used after it was " + why_unusable_);
}

/// 5.4
void SubscriberCore::lose() {
    state_->guarded([this] {
        if (open()) take_back_gates();
    });
    throw SlotLost("subscriber", slot_);
}

/// 6.9, the end: the other rings go on; this one looks empty from now on. Slot lost, if it is: who was evicted may see
/// a later lap.
void SubscriberCore::set_corrupt(Reader& reader, std::int64_t position, const char* reason) {
    alignas(layout::RECORD_HEADER_LENGTH) static std::byte nothing[layout::RECORD_HEADER_LENGTH];
    acquire_fence();  // as in poll 5
    if (!usable() && open()) {
        reader.sender = nullptr;  // nothing more is stored
        lose();
    }
    const Ring ring = reader.ring;
    if (kept_) {
        store_gate(reader, position);
    } else if (open()) {
        store_release(reader.gate, layout::NOT_GATING);  // pairs with recompute 2
    }
    reader.sender = nullptr;
    reader.cursor = position;
    reader.stored = position;
    reader.ring.data = nothing;
    reader.ring.capacity = sizeof nothing;
    throw_corrupt(state_->file.path, ring, position, reason);
}

/// Poll 3, of an owner record.
void SubscriberCore::note_sender(Reader& reader, std::int64_t cursor, std::int32_t length) {
    set_sender(*reader.sender, reader.ring.payload_at(cursor),
               static_cast<std::size_t>(length) - layout::RECORD_HEADER_LENGTH);
}

inline bool SubscriberCore::ended(std::uint32_t ring) {
    if (!usable()) throw_unusable();
    return ring_ended(state_->file, ring, reader_of(ring).cursor);
}

inline const SubscriberCore::Reader& SubscriberCore::reader_of(std::uint32_t ring) const {
    for (const Reader& reader : readers_) {
        if (reader.ring.index == ring) return reader;
    }
    throw InvalidArgument("ring", "ring " + std::to_string(ring) + " was not chosen by this subscriber");
}

}  // namespace flyring::detail
