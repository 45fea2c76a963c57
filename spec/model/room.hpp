// SPDX-License-Identifier: Apache-2.0
//
// How a publisher gets room: recompute 6.2, retire 6.7; and evict 6.11. A cell stands for A bytes, so "+ 8 bytes" is
// "the next cell too": t + n + 8 > limit is t + n + 1 > limit.
#pragma once
#include "world.hpp"

namespace model {

// 6.11, by the holder of the control lock.
inline bool evict(World& w, Process& me, uint16_t& counter, int8_t& ring, int slot) {
    SlotTruth& truth = w.s.slot[slot];
    auto raise_epoch = [&] {  // seq_cst read-modify-write
        w.fence(me, Order::seq_cst);
        w.s.memory[at_slot(slot, word::epoch)]++;
        truth.evicted = 1;
        truth.hold[0] = truth.hold[1] = -1;
    };
    BEGIN(counter)
    w.now = "6.11 evict: epoch";
    if (!w.off(Site::evict_epoch_behind) && !w.off(Site::evict_flag_first)) {
        raise_epoch();
        STEP("6.11 evict: evicting");
    }
    if (!w.off(Site::evict_evicting)) w.store(me, at_slot(slot, word::evicting), 1, Order::release);
    if (w.off(Site::evict_flag_first)) {
        if (w.s.slot_lock[slot] == 0) truth.evicted = 1;  // no live owner has to learn of it
        STEP("6.11 evict: epoch (mutant)");
        raise_epoch();
    }
    for (ring = 0; ring < w.c.rings; ++ring) {
        STEP("6.11 evict: gates");
        w.store(me, at_ring(ring, word::gate, slot), -1, Order::release);
    }
    if (w.off(Site::evict_epoch_behind)) {
        STEP("6.11 evict: epoch (mutant)");
        raise_epoch();
    }
    if (w.off(Site::evict_ends)) {
        STEP("6.11 evict: evicting := 0 (mutant)");
        w.store(me, at_slot(slot, word::evicting), 0, Order::release);
    }
    ring = 0;
    END
}

inline int needed(const World& w, const Publisher& me) {
    return me.t + me.n + (w.off(Site::publish_limit_margin) ? 0 : 1);
}

inline bool recompute(World& w, Publisher& me, int r) {  // 6.2, 6.7
    BEGIN(me.sub_pc)
    w.now = "6.2 recompute 1";
    w.fence(me, Order::seq_cst, Site::recompute1_fence);
    me.low = w.off(Site::recompute2_bound) ? 127 : me.t;
    for (me.slot = 0; me.slot < w.c.slots; ++me.slot) {
        STEP("6.2 recompute 2");
        LOAD(me.held[me.slot], at_ring(r, word::gate, me.slot), Order::acquire, Site::recompute2_acquire);
        if (me.held[me.slot] >= 0) me.low = std::min(me.low, me.held[me.slot]);
    }
    if (me.low == 127) me.low = me.t;
    {
        auto limit = static_cast<int8_t>(std::min(w.c.cells + me.low, 120));
        for (int j = 0; w.c.lag > 0 && j < w.c.slots; ++j)
            if (me.held[j] >= 0) limit = std::min<int8_t>(limit, static_cast<int8_t>(me.held[j] + w.c.lag));
        me.limit = std::max(me.limit, limit);
    }
    if (w.c.lag > 0) {
        for (me.slot = 0; needed(w, me) > me.limit && me.slot < w.c.slots; ++me.slot) {
            if (me.held[me.slot] < 0 || needed(w, me) <= me.held[me.slot] + w.c.lag) continue;
            STEP("6.2 recompute 3: control lock");
            if (!w.off(Site::evict_control_lock)) w.lock(w.s.control_lock);
            if (!w.off(Site::lag_gate_again)) {
                STEP("6.2 recompute 3: gate again");
                LOAD(me.held[me.slot], at_ring(r, word::gate, me.slot), Order::acquire);
            }
            if (me.held[me.slot] >= 0 && needed(w, me) > me.held[me.slot] + w.c.lag)
                CALL(evict(w, me, me.evict_pc, me.ring, me.slot));
            STEP("6.2 recompute 3: control unlock");
            if (!w.off(Site::evict_control_lock)) w.unlock(me, w.s.control_lock);
        }
    }
    for (me.slot = 0; needed(w, me) > me.limit && me.slot < w.c.slots; ++me.slot) {
        if (me.held[me.slot] < 0 || needed(w, me) <= me.held[me.slot] + w.c.cells) continue;
        if (w.s.slot_lock[me.slot] != 0 && !w.off(Site::retire_lock)) continue;  // its owner lives
        STEP("6.7 retire: try-lock");
        if (w.s.slot_lock[me.slot] != 0 && !w.off(Site::retire_lock)) continue;
        if (!w.off(Site::retire_lock)) w.lock(w.s.slot_lock[me.slot]);
        STEP("6.7 retire: kept");
        LOAD(me.x, at_slot(me.slot, word::kept), Order::acquire, Site::retire_kept_acquire,
             {at_ring(r, word::gate, me.slot)});
        if (me.x == 0 || w.off(Site::retire_kept)) {
            if (!w.off(Site::retire_gate_again)) {
                STEP("6.7 retire: gate again");
                LOAD(me.held[me.slot], at_ring(r, word::gate, me.slot), Order::acquire);
            }
            if (me.held[me.slot] >= 0 && needed(w, me) > me.held[me.slot] + w.c.cells) {
                if (w.off(Site::retire_unlock_early)) {
                    STEP("6.7 retire (mutant): unlock");
                    w.unlock(me, w.s.slot_lock[me.slot]);
                }
                STEP("6.7 retire: epoch");
                if (!w.off(Site::retire_epoch))
                    w.store(me, at_slot(me.slot, word::epoch), w.peek(at_slot(me.slot, word::epoch)) + 1,
                            Order::release);
                for (me.ring = 0; me.ring < w.c.rings; ++me.ring) {
                    STEP("6.7 retire: gates");
                    w.store(me, at_ring(me.ring, word::gate, me.slot), -1, Order::release);
                }
            }
        }
        STEP("6.7 retire: unlock");
        w.unlock(me, w.s.slot_lock[me.slot]);
        me.x = 0;
    }
    // 6.2, 4: takes back the gates that a reader stored after it was evicted, whether the reader lives or not.
    for (me.slot = 0; needed(w, me) > me.limit && me.slot < w.c.slots; ++me.slot) {
        if (me.held[me.slot] < 0 || needed(w, me) <= me.held[me.slot] + w.c.cells) continue;
        if (w.off(Site::take_back)) continue;
        STEP("6.11 take back: evicting, before the lock");
        if (w.peek(at_slot(me.slot, word::evicting)) == 0) continue;
        STEP("6.11 take back: control lock, tried once");
        if (w.s.control_lock != 0 && !w.off(Site::take_back_lock)) continue;
        if (!w.off(Site::take_back_lock)) w.lock(w.s.control_lock);
        STEP("6.11 take back: evicting");
        LOAD(me.evicting, at_slot(me.slot, word::evicting), Order::acquire, Site::take_back_acquire);
        if (me.evicting || w.off(Site::take_back_evicting)) {
            for (me.ring = 0; me.ring < w.c.rings; ++me.ring) {
                STEP("6.11 take back: gates");
                w.store(me, at_ring(me.ring, word::gate, me.slot), -1, Order::release);
            }
        }
        STEP("6.11 take back: control unlock");
        if (!w.off(Site::take_back_lock)) w.unlock(me, w.s.control_lock);
        me.evicting = me.ring = 0;
    }
    me.slot = me.low = me.ring = 0;
    for (int8_t& held : me.held) held = 0;
    END
}

}  // namespace model
