// SPDX-License-Identifier: Apache-2.0
//
// Recover, 6.8: the next owner of a publisher's slot mends what the last owner left. It may be killed anywhere; then
// recovery is done again.
#pragma once
#include "world.hpp"

namespace model {

inline bool recover(World& w, Publisher& me, int r) {  // 6.8; no other process writes these words now: peek is a load
    BEGIN(me.sub_pc)
    w.now = "6.8 recover 1";
    me.p = static_cast<int8_t>(w.peek(at_ring(r, word::published)));
    me.q = static_cast<int8_t>(w.peek(at_ring(r, word::claimed)));
    w.check(me.p <= me.q && (me.p & w.mask()) + me.q - me.p <= w.c.cells, "I10");
    if (me.p == me.q || w.peek(w.at_length(r, me.p)) <= 0) {
        me.count = static_cast<int8_t>(w.peek(at_ring(r, word::begun)));
        if (!w.off(Site::recover2_done) && !w.off(Site::recover2_late)) {
            STEP("6.8 recover 2");
            w.store(me, at_ring(r, word::done), me.count, Order::release, Site::recover2_release);
        }
    } else {
        me.count = static_cast<int8_t>(w.peek(at_ring(r, w.off(Site::recover2_count) ? word::begun : word::done)));
    }
    for (me.r = me.p; me.r < me.q && w.peek(w.at_length(r, me.r)) > 0;
         me.r = static_cast<int8_t>(me.r + w.peek(w.at_length(r, me.r)))) {
        w.check(w.peek(w.at_length(r, me.r)) <= me.q - me.r, "I10");
        if (w.broken) return false;
        if (w.peek(w.at_data(r, me.r)) > 0) ++me.count;
        if (w.off(Site::recover3_walk)) break;
    }
    if (me.r < me.q) {
        if (!w.off(Site::recover4_zero)) {
            STEP("6.8 recover 4: length at q");
            w.store_data(me, r, w.at_length(r, me.q), me.q, 0);
        }
        STEP("6.8 recover 4: type at r");
        w.store_data(me, r, w.at_data(r, me.r), me.r, World::data_of(Kind::padding, 0, 0));
        STEP("6.8 recover 4: length at r");
        w.store_data(me, r, w.at_length(r, me.r), me.r, me.q - me.r, Order::release, Site::recover4_release);
        w.commit(r, me.r, me.q - me.r, Kind::padding);
    }
    if (w.off(Site::recover2_late)) {
        STEP("6.8 recover 2 (mutant)");
        w.store(me, at_ring(r, word::done), me.count, Order::release);
    }
    STEP("6.8 recover 5: messages_begun");
    w.store(me, at_ring(r, word::begun), me.count);
    STEP("6.8 recover 5: published");
    w.store(me, at_ring(r, word::published), me.q, Order::release, Site::recover5_published);
    STEP("6.8 recover 5: messages_done");
    w.store(me, at_ring(r, word::done), me.count, Order::release, Site::recover5_done);
    w.check(me.count == w.messages_before(r, me.q), "I8");
    me.t = me.cleared = me.q;
    me.p = me.q = me.r = 0;
    END
}

}  // namespace model
