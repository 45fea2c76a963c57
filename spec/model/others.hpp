// SPDX-License-Identifier: Apache-2.0
//
// A lossy subscriber (6.10), an evicting operator (6.11), a hostile process that writes anything into a gate (9).
#pragma once
#include "room.hpp"
#include "subscriber.hpp"

namespace model {

inline bool lapped(const World& w, const Lossy& me) {
    return me.p + w.c.cells < me.claimed + (w.off(Site::lossy4_margin) ? 0 : 1);
}

// 6.10, 5: the consistent count from d, s and b. The result is me.s; me.e: it was not consistent.
inline bool consistent_count(World& w, Lossy& me) {
    BEGIN(me.sub_pc)
    w.now = "6.10 lossy: messages_done";
    LOAD(me.d_count, at_ring(0, word::done), Order::acquire, Site::count_done_acquire,
         {at_ring(0, word::published), at_ring(0, word::begun)});
    STEP("6.10 lossy: published");
    LOAD(me.s, at_ring(0, w.off(Site::lossy5_claimed) ? word::claimed : word::published), Order::acquire,
         Site::count_published_acquire,
         {at_ring(0, word::begun), w.at_length(0, 0), w.at_length(0, 1), w.at_length(0, 2), w.at_length(0, 3)});
    STEP("6.10 lossy: messages_begun");
    LOAD(me.b, at_ring(0, word::begun), Order::relaxed);
    me.e = me.d_count != me.b && !w.off(Site::count_compare);
    if (!me.e) w.check(me.b == w.messages_before(0, me.s), "I8");
    END
}

// The smallest boundary that is still there; after a lap (me.lap) the smallest within three quarters of the ring, so
// that the reader does not begin where it is lapped at once. me.e: there is none.
inline bool oldest(World& w, Lossy& me) {
    BEGIN(me.sub_pc)
    me.s = -1;
    me.from = me.p;
    for (me.e = 0; me.e < parts; ++me.e) {
        STEP("6.10 lossy: boundary");
        LOAD(me.p, at_ring(0, word::boundary, me.e), Order::acquire, Site::boundary_acquire,
             {at_ring(0, word::boundary_count, me.e)});
        if (me.p < 0 || (me.s >= 0 && me.s < me.p)) continue;
        STEP("6.10 lossy: boundary_count");
        LOAD(me.b, at_ring(0, word::boundary_count, me.e), Order::relaxed, Site::none,
             {at_ring(0, word::boundary, me.e)});
        STEP("6.10 lossy: boundary, fence");
        w.fence(me, Order::acquire, Site::boundary_fence);
        STEP("6.10 lossy: boundary again");
        LOAD(me.d, at_ring(0, word::boundary, me.e), Order::relaxed);
        if (me.d != me.p && !w.off(Site::boundary_again)) continue;
        STEP("6.10 lossy: boundary, claimed");
        LOAD(me.claimed, at_ring(0, word::claimed), Order::acquire);
        if (lapped(w, me) && !w.off(Site::boundary_lapped)) continue;
        if (me.lap && me.p + 3 * w.c.cells / 4 < me.claimed) continue;
        if (me.lap && me.p <= me.from) w.check(false, "I10");  // it would go back
        w.check(me.b == w.messages_before(0, me.p), "I8");
        me.s = me.p;
        me.d2 = me.b;
    }
    me.e = me.s < 0;
    if (!me.e) me.before = me.d2;
    me.p = me.lap ? me.from : 0;
    me.claimed = me.d = me.b = me.d2 = me.from = 0;
    END
}

inline bool lossy(World& w, Lossy& me) {
    BEGIN(me.pc)
    if (w.c.lossy == From::oldest) CALL(oldest(w, me));
    if (w.c.lossy == From::now || me.e) {
        do CALL(consistent_count(w, me));
        while (me.e);
        me.before = me.b;
    }
    me.p = me.s;
    for (;;) {
        me.s = me.b = me.d_count = me.claimed = me.len = me.d = me.d2 = me.e = 0;
        STEP("idle");
        w.wait_until(w.off(Site::lossy1_acquire) || w.peek(w.at_length(0, me.p)) != 0 ||
                     me.p + w.c.cells < w.peek(at_ring(0, word::claimed)) + 1);
        STEP("6.10 lossy 1");
        LOAD(me.len, w.at_length(0, me.p), Order::acquire, Site::lossy1_acquire,
             {w.at_data(0, me.p), w.at_length(0, me.p + 1)});
        if (me.len <= 0 && w.off(Site::lossy2_empty)) continue;
        if (me.len > 0 && (me.p & w.mask()) + me.len <= w.c.cells) {
            STEP("6.10 lossy 4: type and payload");
            LOAD(me.d, w.at_data(0, me.p), Order::relaxed, Site::none, {at_ring(0, word::claimed)});
            if (me.len == 2 && me.d > 0) {
                STEP("6.10 lossy 4: payload, cell 2");
                LOAD(me.d2, w.at_length(0, me.p + 1), Order::relaxed, Site::none, {at_ring(0, word::claimed)});
            }
        }
        STEP("6.10 lossy 2-4: fence");
        w.fence(me, Order::acquire, Site::lossy4_fence);
        STEP("6.10 lossy 2-4: claimed");
        LOAD(me.claimed, at_ring(0, word::claimed), Order::acquire, Site::lossy4_claimed,
             {at_ring(0, word::done), at_ring(0, word::published), at_ring(0, word::begun)});
        if (!lapped(w, me)) {
            if (me.len <= 0) continue;
            w.check((me.p & w.mask()) + me.len <= w.c.cells || w.off(Site::lossy3_lapped), "I10");
            if (wrong(w, 0, me.p, me.len, me.d, me.d2)) w.check(false, "I5");
            if (me.d > 0) ++me.before;
            me.p = static_cast<int8_t>(me.p + me.len);
            continue;
        }
        if (w.off(Site::lossy3_lapped) && me.len > 0 && (me.p & w.mask()) + me.len > w.c.cells) w.check(false, "I10");
        me.e = 1;
        if (w.c.boundaries) {
            me.lap = 1;
            CALL(oldest(w, me));
            me.lap = 0;
            if (!me.e) me.p = me.s;
        }
        if (me.e) {
            CALL(consistent_count(w, me));
            if (me.e) continue;  // nothing new behind s: the next poll tries again
            w.check(me.s > me.p, "I10");
            me.p = me.s;
            me.before = me.b;
        }
    }
    END
}

inline bool evictor(World& w, Evictor& me) {
    BEGIN(me.pc)
    for (; me.times < w.c.evicts; ++me.times) {
        STEP("6.11 evict: control lock");
        w.wait_until(w.s.hangs == 0);  // otherwise its store may come too early to help
        if (!w.c.next_subscriber && w.c.kept) w.wait_until(w.peek(at_slot(0, word::kept)));
        if (!w.off(Site::evict_control_lock)) w.lock(w.s.control_lock);
        CALL(evict(w, me, me.evict_pc, me.r, 0));
        STEP("6.11 evict: control unlock");
        if (!w.off(Site::evict_control_lock)) w.unlock(me, w.s.control_lock);
    }
    me.r = 0;
    STEP("gone");
    me.waits = 1;
    STEP("end");
    w.wait_until(false);
    END
}

inline bool hostile(World& w, Hostile& me) {
    static const int8_t anything[] = {-1, 0, 3, 30, 100};
    BEGIN(me.pc)
    for (; me.times < w.c.hostile; ++me.times) {
        STEP("hostile: a gate");
        w.s.memory[at_ring(0, word::gate, w.c.slots - 1)] = anything[w.choose(sizeof anything)];
    }
    STEP("gone");
    me.waits = 1;
    STEP("end");
    w.wait_until(false);
    END
}

}  // namespace model
