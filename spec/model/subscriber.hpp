// SPDX-License-Identifier: Apache-2.0
//
// A reliable subscriber: takes the slot (5.3), joins (6.4) or resumes (6.5), polls (6.9), leaves (6.6).
#pragma once
#include "world.hpp"

namespace model {

// Compares what was read at c with what was committed there. 0: the same; else the number of the broken invariant.
inline int wrong(const World& w, int ring, int c, int len, int data, int data2) {
    const Truth& truth = w.s.truth[ring];
    if (len < 0 || (c & w.mask()) + len > w.c.cells) return 10;
    if (c >= max_position || truth.kind[c] == static_cast<int>(Kind::none)) return 2;
    Kind kind = static_cast<Kind>(truth.kind[c]);
    if (len != truth.length[c] || data != World::data_of(kind, c, truth.epoch[c])) return 1;
    if (kind == Kind::message && len == 2 && data2 != World::payload(c, truth.epoch[c])) return 1;
    return 0;
}

// 5.3 up to the end of join or resume, under the control lock.
inline bool take(World& w, Subscriber& me, int j) {
    SlotTruth& truth = w.s.slot[j];
    BEGIN(me.sub_pc)
    w.now = "5.3 take 1 and 2: control lock, slot's lock";  // both are only tried: no deadlock
    w.lock(w.s.control_lock);
    w.lock(w.s.slot_lock[j]);
    truth.counted = -1;
    STEP("5.3 take 3: epoch");
    me.epoch = static_cast<int8_t>(w.peek(at_slot(j, word::epoch)) + 1);
    w.store(me, at_slot(j, word::epoch), me.epoch, Order::release);
    // Its own words, and words that others write under the lock only: peek is a load.
    for (int r = 0; r < w.c.rings; ++r)
        if (w.peek(at_slot(j, word::kept)) && w.peek(at_ring(r, word::gate, j)) >= 0) me.resumed = 1;
    if (w.peek(at_slot(j, word::evicting))) me.resumed = 0;
    if (me.resumed) {
        for (me.r = 0; me.r < w.c.rings; ++me.r) {
            STEP("6.5 resume");
            me.cursor[me.r] = static_cast<int8_t>(w.peek(at_ring(me.r, word::gate, j)));
            if (me.cursor[me.r] < 0) continue;
            w.check(me.cursor[me.r] <=
                            w.peek(at_ring(me.r, w.off(Site::resume_published) ? word::published : word::claimed)) &&
                        me.cursor[me.r] >= w.peek(at_ring(me.r, word::published)) - w.c.cells,
                    "I10");
        }
    } else {
        truth.hold[0] = truth.hold[1] = -1;
        me.d = static_cast<int8_t>(w.peek(at_slot(j, word::evicting)));  // no other process writes it now
        if (w.peek(at_slot(j, word::kept)) && !w.off(Site::join_evicting)) {
            STEP("5.3 take 4: evicting := 1");
            w.store(me, at_slot(j, word::evicting), 1, Order::release);
            me.d = 1;
        }
        if (w.off(Site::join_evicting_early) && me.d) {
            STEP("5.3 take 4 (mutant): evicting := 0");
            w.store(me, at_slot(j, word::evicting), 0, Order::release);
            me.d = 0;
        }
        for (me.r = 0; me.r < w.c.rings; ++me.r) {
            STEP("6.4 join 2: published");
            LOAD(me.c, at_ring(me.r, word::published), Order::acquire, Site::join2_acquire);
            if (w.off(Site::join2_gate)) continue;
            STEP("6.4 join 2: gate");
            w.store(me, at_ring(me.r, word::gate, j), me.c, Order::release, Site::join2_release);
        }
        STEP("6.4 join 3");
        w.fence(me, Order::seq_cst, Site::join3_fence);
        for (me.r = 0; me.r < w.c.rings; ++me.r) {
            if (w.off(Site::join4_published)) {
                STEP("6.4 join 4 (mutant): cursor of step 2");
                me.c = static_cast<int8_t>(w.peek(at_ring(me.r, word::gate, j)));
            } else {
                STEP("6.4 join 4: published");
                LOAD(me.c, at_ring(me.r, w.off(Site::join4_claimed) ? word::claimed : word::published), Order::acquire,
                     Site::join4_acquire,
                     {w.at_length(me.r, 0), w.at_length(me.r, 1), w.at_length(me.r, 2), w.at_length(me.r, 3)});
            }
            STEP("6.4 join 4: gate");
            w.store(me, at_ring(me.r, word::gate, j), me.c, Order::release, Site::join4_release);
            me.cursor[me.r] = me.c;
        }
        STEP("5.3 take 4: kept");
        if (w.c.kept) w.store(me, at_slot(j, word::kept), 1, Order::release);
        if (me.d) {
            STEP("5.3 take 4: evicting := 0");
            w.store(me, at_slot(j, word::evicting), 0, Order::release, Site::join_evicting_last);
        }
    }
    for (int r = 0; r < w.c.rings; ++r) {
        if (truth.member && !truth.evicted) w.check(me.cursor[r] >= 0 && me.cursor[r] <= truth.handed[r], "I7");
        w.check(me.cursor[r] >= 0, "I7");
        if (me.cursor[r] >= 0)
            w.check(me.cursor[r] == w.s.truth[r].end || w.s.truth[r].kind[me.cursor[r]] != static_cast<int>(Kind::none),
                    "I3");
        truth.hold[r] = truth.handed[r] = me.cursor[r];
    }
    w.check(truth.counted < 0 || me.cursor[0] <= truth.counted, "I12");
    truth.member = w.c.kept;
    truth.evicted = 0;
    STEP("5.3 take 5: control unlock");
    w.unlock(me, w.s.control_lock);
    me.c = me.d = me.r = me.resumed = 0;
    END
}

// One poll of at most poll_limit messages. me.wrong: what was handed out is not what was committed.
inline bool poll(World& w, Subscriber& me, int j) {
    SlotTruth& truth = w.s.slot[j];
    BEGIN(me.sub_pc)
    w.now = "6.9 poll: epoch";
    LOAD(me.e1, at_slot(j, word::epoch), Order::relaxed);
    for (me.r = 0; me.e1 == me.epoch && me.r < w.c.rings; ++me.r) {
        me.c = me.cursor[me.r];
        me.gate_early = 0;
        for (me.more = 1; me.more;) {  // a stretch of C / 8 bytes: here one message
            for (me.part = 0; me.part < 1 && me.got < w.c.poll_limit && me.more;) {
                STEP("6.9 poll 1");
                LOAD(me.len, w.at_length(me.r, me.c), Order::acquire, Site::poll1_acquire,
                     {w.at_data(me.r, me.c), w.at_length(me.r, me.c + 1)});
                if (me.len <= 0) {
                    me.more = 0;
                    break;
                }
                if ((me.c & w.mask()) + me.len > w.c.cells) {
                    me.wrong = 10;
                    me.len = me.more = 0;
                    if (w.off(Site::poll2_epoch)) w.check(false, "I10");
                    break;
                }
                if (w.off(Site::poll4_release)) {  // mutant: a relaxed store may pass the loads in front of it
                    STEP("6.9 poll 4 (mutant): gate, early?");
                    if (w.choose(2) == 1) {
                        w.store(me, at_ring(me.r, word::gate, j), me.c + me.len);
                        me.gate_early = 1;
                    }
                }
                STEP("6.9 poll 3: type and payload");
                LOAD(me.d, w.at_data(me.r, me.c), Order::relaxed, Site::none,
                     {w.off(Site::poll5_fence) ? at_slot(j, word::epoch) : w.at_data(me.r, me.c)});
                if (me.len == 2 && me.d > 0) {
                    STEP("6.9 poll 3: payload, cell 2");
                    LOAD(me.d2, w.at_length(me.r, me.c + 1), Order::relaxed, Site::none,
                         {w.off(Site::poll5_fence) ? at_slot(j, word::epoch) : w.at_length(me.r, me.c + 1)});
                }
                if (!me.wrong) me.wrong = static_cast<int8_t>(wrong(w, me.r, me.c, me.len, me.d, me.d2));
                if (me.d < -2) me.sender[me.r] = static_cast<int8_t>(-2 - me.d);
                if (me.d > 0) {
                    ++me.got;
                    ++me.part;
                    if (w.c.senders && !me.wrong && me.sender[me.r] > 0)
                        w.check(me.sender[me.r] == w.s.truth[me.r].epoch[me.c], "I11");
                }
                me.c = static_cast<int8_t>(me.c + me.len);
                if (!truth.evicted) truth.handed[me.r] = me.c;
                me.len = me.d = me.d2 = 0;
            }
            if (me.got == w.c.poll_limit) me.more = 0;
            if (me.c != me.cursor[me.r]) {
                STEP("6.9 poll 4");
                if (!me.gate_early)
                    w.store(me, at_ring(me.r, word::gate, j), me.c, Order::release, Site::poll4_release);
                me.cursor[me.r] = me.c;
                if (!truth.evicted) truth.hold[me.r] = me.c;
            } else if (!me.wrong) {
                break;
            }
            STEP("6.9 poll 5: fence");
            w.fence(me, Order::acquire, Site::poll5_fence);
            STEP("6.9 poll 5: epoch");
            if (!w.off(Site::poll5_epoch)) LOAD(me.e1, at_slot(j, word::epoch), Order::relaxed);
            if (me.e1 != me.epoch) me.more = 0;
            if (me.wrong && me.e1 == me.epoch)
                w.check(false, truth.evicted ? "I9" : me.wrong == 1 ? "I1" : me.wrong == 2 ? "I2" : "I10");
        }
        me.part = me.more = 0;
    }
    me.c = me.r = me.wrong = me.gate_early = 0;
    END
}

// 6.12, 6.14: epoch, name and start of a publisher's slot.
inline bool sender(World& w, Subscriber& me) {
    BEGIN(me.sub_pc)
    for (me.r = 0; me.r < w.c.rings; ++me.r) {
        do {
            STEP("6.12 fields: epoch");
            LOAD(me.sender[me.r], at_ring(me.r, word::publisher_epoch), Order::acquire, Site::sender_epoch_acquire,
                 {at_ring(me.r, word::start), at_ring(me.r, word::name)});
            STEP("6.12 fields: name_length");
            w.wait_until(!w.off(Site::sender_bounded) || w.peek(at_ring(me.r, word::name_length)) >= 0);
            LOAD(me.len, at_ring(me.r, word::name_length), Order::acquire, Site::sender_name_acquire,
                 {at_ring(me.r, word::start), at_ring(me.r, word::name)});
            if (me.len < 0) {  // after this many tries the fields are not known
                w.fence(me, Order::acquire);
                me.sender[me.r] = me.name = 0;
                break;
            }
            STEP("6.12 fields: start");
            LOAD(me.start[me.r], at_ring(me.r, word::start), Order::relaxed);
            STEP("6.12 fields: name");
            LOAD(me.name, at_ring(me.r, word::name), Order::relaxed, Site::none,
                 {at_ring(me.r, word::publisher_epoch), at_ring(me.r, word::name_length)});
            STEP("6.12 fields: fence");
            w.fence(me, Order::acquire, Site::sender_fence);
            if (w.off(Site::sender_again_order)) {
                STEP("6.12 fields (mutant): epoch again");
                LOAD(me.e1, at_ring(me.r, word::publisher_epoch), Order::relaxed);
            }
            STEP("6.12 fields: name_length again");
            LOAD(me.length2, at_ring(me.r, word::name_length), Order::acquire, Site::sender_length_again_acquire,
                 {at_ring(me.r, word::publisher_epoch)});
            if (!w.off(Site::sender_again_order)) {
                STEP("6.12 fields: epoch again");
                LOAD(me.e1, at_ring(me.r, word::publisher_epoch), Order::relaxed);
            }
        } while ((me.e1 != me.sender[me.r] || me.length2 != me.len) && !w.off(Site::sender_again));
        w.check(me.len < 0 || w.c.same_name || me.name == me.sender[me.r], "I11");
        me.name = me.e1 = me.len = me.length2 = 0;
    }
    me.r = 0;
    END
}

inline bool has_ended(World& w, Subscriber& me) {
    BEGIN(me.sub_pc)
    if (!w.off(Site::ended_order)) {
        w.now = "6.14 ended: closed";
        LOAD(me.d, at_ring(0, word::closed), Order::acquire, Site::ended_closed_acquire, {at_ring(0, word::published)});
    }
    me.c = w.s.truth[0].closed_end;  // of the owner that stored `closed`
    STEP("6.14 ended: published");
    LOAD(me.d2, at_ring(0, word::published), Order::acquire);
    if (w.off(Site::ended_order)) {
        STEP("6.14 ended (mutant): closed");
        LOAD(me.d, at_ring(0, word::closed), Order::acquire);
        me.c = w.s.truth[0].closed_end;
    }
    me.ended = me.d == 1 && me.d2 == me.cursor[0];
    if (me.ended) w.check(me.c == me.cursor[0], "I11");
    me.c = me.d = me.d2 = 0;
    END
}

inline bool subscriber(World& w, Subscriber& me, int j) {
    SlotTruth& truth = w.s.slot[j];
    BEGIN(me.pc)
    for (;;) {
        if (w.off(Site::sender_order)) CALL(sender(w, me));
        CALL(take(w, me, j));
        ++me.joins;
        if (w.c.senders && !w.off(Site::sender_order)) CALL(sender(w, me));
        for (int r = 0; r < w.c.rings; ++r) {
            if (me.start[r] > me.cursor[r] && !w.off(Site::sender_start)) me.sender[r] = 0;
            me.start[r] = 0;
        }
        for (;;) {
            STEP("idle");
            w.wait_until(w.off(Site::poll1_acquire) || w.peek(at_slot(j, word::epoch)) != me.epoch ||
                         w.peek(w.at_length(0, me.cursor[0])) > 0 ||
                         (w.c.rings > 1 && w.peek(w.at_length(1, me.cursor[1])) > 0) ||
                         (w.c.senders && !me.ended && w.peek(at_ring(0, word::closed))));
            CALL(poll(w, me, j));
            if (me.e1 != me.epoch) break;
            me.e1 = 0;
            if (me.got > 0) me.ended = 0;
            if (w.c.senders && me.got == 0) CALL(has_ended(w, me));
            if (me.got > 0 && me.joins < w.c.joins) break;
            me.got = 0;
        }
        me.lost = me.e1 != 0;  // slot lost; else it leaves
        me.e1 = me.got = 0;
        if (!me.lost && !w.c.kept) truth.hold[0] = truth.hold[1] = -1;
        if (me.lost && !w.off(Site::lost_evicting)) {
            STEP("5.4 slot lost: evicting");
            w.store(me, at_slot(j, word::evicting), 1, Order::release);
        }
        if (w.off(Site::leave_unlock_early)) {
            STEP("6.6 leave (mutant): unlock");
            w.unlock(me, w.s.slot_lock[j]);
        }
        for (me.r = 0; (me.lost || !w.c.kept) && me.r < w.c.rings; ++me.r) {  // 5.3 close: kept, unlock only
            if (me.lost && w.off(Site::lost_gates)) continue;
            STEP(me.lost ? "5.4 slot lost: gates" : "6.6 leave: gates");
            w.store(me, at_ring(me.r, word::gate, j), -1, Order::release);
        }
        STEP("unlock");
        w.unlock(me, w.s.slot_lock[j]);
        me.r = me.lost = me.epoch = 0;
        me.cursor[0] = me.cursor[1] = me.sender[0] = me.sender[1] = me.ended = 0;
        if (me.joins >= w.c.joins) break;
        STEP("the next owner of the slot");
    }
    STEP("gone");
    me.waits = 1;
    STEP("end");
    w.wait_until(false);
    END
}

}  // namespace model
