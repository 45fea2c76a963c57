// SPDX-License-Identifier: Apache-2.0
//
// A publisher: takes the slot (5.2), publishes what its plan says (6.1, 6.3), closes. Names of steps are the spec's.
#pragma once
#include "recover.hpp"
#include "room.hpp"

namespace model {

// Finds what to publish next: n cells in all, of which the first record takes `first`. False: the plan is at its end.
inline bool next_record(World& w, Publisher& me, int r) {
    const Truth& truth = w.s.truth[r];
    int rest = w.c.cells - (me.t & w.mask()), what = w.c.plan[r][truth.next];
    if (me.owner_record_pending) {
        me.kind = static_cast<int8_t>(Kind::owner);
        me.n = me.first = 1;
        return true;
    }
    if (what == 0 || what == 9 || what == 30) return false;
    me.kind = static_cast<int8_t>(what < 0 ? Kind::padding : Kind::message);
    me.first = static_cast<int8_t>(what < 0 ? -what : what > 10 ? 1 : what);
    me.n = static_cast<int8_t>(what > 10 ? 1 + what - 10 : me.first);
    if (me.n > rest) {  // 6.1, 1
        me.kind = static_cast<int8_t>(Kind::padding);
        me.n = me.first = static_cast<int8_t>(rest);
    }
    return true;
}

inline int lap_end(const World& w, int position) {
    return (position / w.c.cells + 1) * w.c.cells;
}  // E(x)
inline int window(const World& w, const Publisher& me) {
    return me.n <= 1 ? w.c.window : 0;
}  // w(n)

// q of steps 3 and 9. "limit - 8, rounded down to A" is the cell below the limit.
inline int8_t clear_up_to(const World& w, const Publisher& me, int q) {
    if (!w.off(Site::publish_window_lap)) q = std::min(q, lap_end(w, me.t));
    if (!w.off(Site::publish_window_limit)) q = std::min(q, me.limit - 1);
    return static_cast<int8_t>(q);
}

// A record as the checks know it.
inline void commit_record(World& w, const Publisher& me, int r) {
    if (me.first < me.n) w.commit(r, me.t + me.first, me.n - me.first, Kind::message);
    w.commit(r, me.t, me.first, static_cast<Kind>(me.kind));
}

// 6.4, count the readers. Of one slot: what is counted of it must hold.
inline bool count_readers(World& w, Publisher& me, int r) {
    BEGIN(me.sub_pc)
    w.now = "6.4 count the readers: control lock";
    if (!w.off(Site::count_readers_lock)) w.lock(w.s.control_lock);
    STEP("6.4 count the readers: gate");
    LOAD(me.p, at_ring(r, word::gate, 0), Order::acquire);
    STEP("6.4 count the readers: slot's lock");
    if (me.p >= 0 && w.s.slot_lock[0] != 0) w.s.slot[0].counted = me.t;
    if (!w.off(Site::count_readers_lock)) {
        STEP("6.4 count the readers: control unlock");
        w.unlock(me, w.s.control_lock);
    }
    me.p = 0;
    END
}

inline bool publisher(World& w, Publisher& me, int r) {
    Truth& truth = w.s.truth[r];
    const int epoch = w.peek(at_ring(r, word::publisher_epoch));  // its own word
    BEGIN(me.pc)
    for (;;) {
        if (!me.attached) {
            if (w.c.plan[r][truth.next] == 0 && w.s.ring_lock[r] != 0) break;  // another one has done the plan
            w.now = "5.2 take 1 and 2: control lock, slot's lock";             // both are only tried: no deadlock
            w.lock(w.s.ring_lock[r]);
            if (!w.off(Site::take1_control_lock)) w.lock(w.s.control_lock);
            CALL(recover(w, me, r));
            if (w.c.senders) {
                if (!w.c.same_name) {
                    STEP("5.2 take 4: name_length := -1");
                    if (!w.off(Site::take4_changing)) w.store(me, at_ring(r, word::name_length), -1);
                    STEP("5.2 take 4: fence");
                    w.fence(me, Order::release, Site::take4_fence);
                }
                STEP("5.2 take 4: start");
                w.store(me, at_ring(r, word::start), me.t);
                STEP("5.2 take 4: closed := 0");
                w.store(me, at_ring(r, word::closed), 0);
                if (!w.c.same_name) {
                    STEP("5.2 take 4: name");
                    w.store(me, at_ring(r, word::name), epoch + 1);
                }
            }
            STEP("5.2 take 4: epoch");
            w.store(me, at_ring(r, word::publisher_epoch), epoch + 1, Order::release, Site::take4_epoch);
            if (w.c.senders && !w.c.same_name) {
                STEP("5.2 take 4: name_length");
                w.store(me, at_ring(r, word::name_length), 0, Order::release, Site::take4_name);
            }
            STEP("5.2 take 5: control unlock");
            if (!w.off(Site::take1_control_lock)) w.unlock(me, w.s.control_lock);
            me.attached = 1;
            me.owner_record_pending = w.c.senders && !w.off(Site::owner_record);
        }
        while (next_record(w, me, r)) {
            if (needed(w, me) > me.limit) {
                CALL(recompute(w, me, r));
                if (needed(w, me) > me.limit) continue;  // back-pressured: try again
            }
            if (me.t + me.n > me.cleared) {
                me.q = clear_up_to(w, me, me.t + me.n + window(w, me));
                STEP("6.1 publish 3: claimed");
                w.store(me, at_ring(r, word::claimed), me.q);
                STEP("6.1 publish 3: fence");
                w.fence(me, Order::release, Site::publish3_fence);
                for (me.x = std::max<int8_t>(static_cast<int8_t>(me.cleared + 1), static_cast<int8_t>(me.t + me.n));
                     me.x <= me.q; ++me.x) {
                    if (w.off(Site::publish4_zero) || w.off(Site::publish4_before_6)) continue;
                    STEP("6.1 publish 4");
                    w.store_data(me, r, w.at_length(r, me.x), me.x, 0);
                }
                me.cleared = me.q;
            }
            if (me.first < me.n && !w.off(Site::batch_first_last)) {  // 6.3: a second message
                STEP("6.3 batch: length of record 2");
                w.store_data(me, r, w.at_length(r, me.t + me.first), me.t + me.first, me.n - me.first);
                STEP("6.3 batch: payload of record 2");
                w.store_data(me, r, w.at_data(r, me.t + me.first), me.t + me.first,
                             World::payload(me.t + me.first, epoch));
                if (me.n - me.first == 2) {
                    STEP("6.3 batch: payload of record 2, cell 2");
                    w.store_data(me, r, w.at_length(r, me.t + me.n - 1), me.t + me.n - 1,
                                 World::payload(me.t + me.first, epoch));
                }
            }
            if (w.off(Site::publish7_before_6)) {
                STEP("6.1 publish 7 (mutant): messages_begun before 6");
                w.store(me, at_ring(r, word::begun),
                        w.messages_before(r, me.t) + (me.kind == static_cast<int>(Kind::message)));
            }
            STEP("6.1 publish 5");
            w.store_data(me, r, w.at_data(r, me.t), me.t, World::data_of(static_cast<Kind>(me.kind), me.t, epoch));
            if (me.kind == static_cast<int>(Kind::message) && me.first == 2) {
                STEP("6.1 publish 5: cell 2");
                w.store_data(me, r, w.at_length(r, me.t + 1), me.t + 1, World::payload(me.t, epoch));
            }
            STEP("6.1 publish 6");
            w.store_data(me, r, w.at_length(r, me.t), me.t, me.first, Order::release, Site::publish6_release);
            commit_record(w, me, r);
            if (me.kind != static_cast<int>(Kind::padding) || w.c.plan[r][truth.next] < 0)
                truth.next = static_cast<int8_t>(truth.next + !me.owner_record_pending);
            if (w.off(Site::publish4_before_6)) {
                STEP("6.1 publish 4 (mutant), behind 6");
                w.store_data(me, r, w.at_length(r, me.t + me.n), me.t + me.n, 0);
            }
            if (me.first < me.n && w.off(Site::batch_first_last)) {
                STEP("6.3 batch (mutant): record 2 after record 1");
                w.store_data(me, r, w.at_data(r, me.t + me.first), me.t + me.first,
                             World::payload(me.t + me.first, epoch));
                STEP("6.3 batch (mutant): length of record 2");
                w.store_data(me, r, w.at_length(r, me.t + me.first), me.t + me.first, me.n - me.first);
            }
            me.count = static_cast<int8_t>(w.messages_before(r, me.t + me.n));
            if (!w.off(Site::publish7_begun_first)) {
                STEP("6.1 publish 7: messages_begun");
                w.store(me, at_ring(r, word::begun), me.count);
            }
            STEP("6.1 publish 7: published");
            w.store(me, at_ring(r, word::published), me.t + me.n, Order::release, Site::publish7_release);
            if (w.off(Site::publish7_begun_first)) {
                STEP("6.1 publish 7: messages_begun (mutant)");
                w.store(me, at_ring(r, word::begun), me.count);
            }
            STEP("6.1 publish 7: messages_done");
            w.store(me, at_ring(r, word::done), me.count, Order::release, Site::publish7_done);
            me.x = static_cast<int8_t>(w.c.cells / parts);  // cells of an eighth: here of a quarter
            if (w.c.boundaries && me.t / me.x != (me.t + me.n) / me.x) {
                me.x = static_cast<int8_t>((me.t + me.n) / me.x % parts);
                if (!w.off(Site::publish8_clear)) {
                    STEP("6.1 publish 8: boundary := -1");
                    w.store(me, at_ring(r, word::boundary, me.x), -1);
                }
                STEP("6.1 publish 8: fence");
                w.fence(me, Order::release, Site::publish8_fence);
                STEP("6.1 publish 8: boundary_count");
                w.store(me, at_ring(r, word::boundary_count, me.x), me.count);
                STEP("6.1 publish 8: boundary");
                w.store(me, at_ring(r, word::boundary, me.x), me.t + me.n, Order::release, Site::publish8_release);
            }
            me.t = static_cast<int8_t>(me.t + me.n);
            me.owner_record_pending = 0;
            if (2 * (me.cleared - me.t) < window(w, me)) {
                me.q = clear_up_to(w, me, me.t + w.c.window);
                if (me.q > me.cleared) {
                    STEP("6.1 publish 9: claimed");
                    if (!w.off(Site::publish9_claimed)) w.store(me, at_ring(r, word::claimed), me.q);
                    STEP("6.1 publish 9: fence");
                    w.fence(me, Order::release, Site::publish9_fence);
                    for (me.x = static_cast<int8_t>(me.cleared + 1); me.x <= me.q; ++me.x) {
                        STEP("6.1 publish 9: length");
                        w.store_data(me, r, w.at_length(r, me.x), me.x, 0);
                    }
                    me.cleared = me.q;
                }
            }
            me.x = me.q = me.n = me.first = me.kind = me.count = 0;
        }
        if (w.c.plan[r][truth.next] == 0) break;
        if (w.c.plan[r][truth.next] == 30) {
            CALL(count_readers(w, me, r));
            ++truth.next;
            continue;
        }
        if (w.off(Site::close_unlock_early)) {
            STEP("5.2 close (mutant): unlock");
            truth.closed_end = truth.end;
            ++truth.next;
            w.unlock(me, w.s.ring_lock[r]);
        }
        STEP("5.2 close: closed := 1");
        w.store(me, at_ring(r, word::closed), 1, Order::release, Site::close_release);
        if (!w.off(Site::close_unlock_early)) {
            truth.closed_end = truth.end;
            ++truth.next;
            STEP("5.2 close: unlock");
            w.unlock(me, w.s.ring_lock[r]);
        }
        me.attached = me.t = me.limit = me.cleared = 0;
        STEP("5.2 take: the next owner");
    }
    STEP("the plan is done");
    me.waits = 1;
    STEP("end");
    w.wait_until(false);
    END
}

}  // namespace model
