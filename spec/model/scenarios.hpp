// SPDX-License-Identifier: Apache-2.0
//
// The configurations that are explored completely. Each starts with a ring that has been filled once; a plan publishes
// one lap and more.
#pragma once
#include <vector>

#include "scenario.hpp"

namespace model {

inline Scenario with_plan(const char* name, std::vector<int> plan, std::vector<int> plan1 = {}) {
    Scenario s;
    s.name = name;
    for (size_t i = 0; i < plan.size(); ++i) s.plan[0][i] = static_cast<int8_t>(plan[i]);
    for (size_t i = 0; i < plan1.size(); ++i) s.plan[1][i] = static_cast<int8_t>(plan1[i]);
    if (!plan1.empty()) s.rings = 2;
    return s;
}

// Small ones run in a minute with all mutants; large ones are the same with longer plans, more kills, more readers.
inline std::vector<Scenario> scenarios(bool large) {
    std::vector<Scenario> all;
    auto add = [&](Scenario s) { all.push_back(s); };
    Scenario s;

    s = with_plan("join", large ? std::vector{1, 2, 1, 1, 2, 2, 1, 2} : std::vector{1, 2, 1, 1, 2});
    s.slots = 1;
    add(s);
    s.name = "join, x86";
    s.memory = Memory::tso;
    add(s);
    s.name = "join, sequentially consistent";
    s.memory = Memory::sc;
    add(s);

    s = with_plan("publisher killed", large ? std::vector{1, 2, 1, 1, 2} : std::vector{1, 2, 1, 1});
    s.slots = 1;
    s.kill_publisher = true;
    s.kills = large ? 2 : 1;
    add(s);
    s = with_plan("publisher killed twice", large ? std::vector{2, 1, 1} : std::vector{2, 1});
    s.slots = 1;
    s.kill_publisher = true;
    s.kills = large ? 3 : 2;
    add(s);

    s = with_plan("window", large ? std::vector{1, 2, 1, 1, -1, 1} : std::vector{1, 2, 1, -1});
    s.slots = 1;
    s.window = 2;
    s.kill_publisher = true;
    s.kills = 1;
    add(s);

    s = with_plan("window, publisher killed twice", large ? std::vector{1, 1, 2} : std::vector{1, 1});
    s.lossy = From::now;
    s.window = 2;
    s.kill_publisher = true;
    s.kills = 2;
    add(s);

    s = with_plan("batch", large ? std::vector{11, 12, 1, 11} : std::vector{11, 12, 1});
    s.slots = 1;
    s.window = 2;
    s.kill_publisher = true;
    s.kills = large ? 2 : 1;
    add(s);

    s = with_plan("lossy", large ? std::vector{1, 1, 2, 2, 1, 2} : std::vector{1, 1, 2, 2, 1});
    s.lossy = From::now;
    add(s);
    s.name = "lossy, x86";
    s.memory = Memory::tso;
    add(s);
    s = with_plan("lossy, publisher killed", large ? std::vector{1, 2, 1, 2, 2} : std::vector{2, 2});
    s.lossy = From::now;
    s.kill_publisher = true;
    s.kills = large ? 2 : 1;
    add(s);
    s = with_plan("lossy, window", large ? std::vector{1, 2, 1, 1, 1, 1} : std::vector{1, 2, 1, 1});
    s.lossy = From::now;
    s.window = 2;
    add(s);
    s = with_plan("lossy, eight cells", large ? std::vector{2, 2, 2, 1, 2, 2, 1} : std::vector{2, 2, 2, 1, 2});
    s.lossy = From::now;
    s.cells = 8;
    s.window = 1;
    add(s);
    s = with_plan("lossy, oldest", large ? std::vector{2, 1, 1, 2} : std::vector{2, 1, 1});
    s.lossy = From::oldest;
    s.cells = 8;
    s.boundaries = true;
    s.kill_publisher = large;
    s.kills = large;
    add(s);

    s = with_plan("lossy, jump to a boundary", large ? std::vector{2, 2, 2, 1, 2, 2} : std::vector{2, 2, 2, 2});
    s.lossy = From::now;
    s.cells = 8;
    s.boundaries = true;
    add(s);

    s = with_plan("1 x 2", large ? std::vector{1, 2, 1, 2} : std::vector{1, 2});
    s.slots = 2;
    add(s);
    s = with_plan("2 x 1", {1, large ? 2 : 1}, {large ? 2 : 1});
    s.slots = 1;
    s.memory = large ? Memory::weak : Memory::tso;
    add(s);
    s = with_plan("readers counted", large ? std::vector{1, 30, 1, 2, 30, 1} : std::vector{1, 30, 1, 1});
    s.slots = 1;
    s.kill_subscriber = true;
    s.kills = 1;
    add(s);
    s = with_plan("leave and join again", large ? std::vector{1, 2, 1, 1, 2, 1} : std::vector{1, 2, 1, 1});
    s.slots = 1;
    s.joins = 2;
    add(s);

    s = with_plan("retire", large ? std::vector{1, 2, 1, 1, 2, 1} : std::vector{2, 1, 2, 2});
    s.slots = 1;
    s.kill_subscriber = true;
    s.kills = 1;
    add(s);
    s.name = "retire, nobody comes";
    s.next_subscriber = false;
    add(s);
    s = with_plan("retire, next owner killed too", large ? std::vector{1, 2, 1, 1, 2} : std::vector{2, 2});
    s.slots = 1;
    s.kill_subscriber = true;
    s.kills = 2;
    add(s);

    s = with_plan("kept", large ? std::vector{1, 2, 1, 1} : std::vector{1, 2, 1});
    s.slots = 1;
    s.kept = s.kill_subscriber = true;
    s.joins = 2;
    s.kills = large ? 2 : 1;
    add(s);
    s = with_plan("kept, publisher killed", large ? std::vector{1, 2, 1} : std::vector{1, 1});
    s.slots = 1;
    s.kept = s.kill_subscriber = s.kill_publisher = true;
    s.kills = 2;
    add(s);
    s = with_plan("kept without a gate, 2 rings", {1}, {large ? 1 : 0});
    s.slots = 1;
    s.memory = Memory::tso;
    s.kept = s.kept_at_start = s.kill_subscriber = true;
    s.kills = large ? 2 : 1;
    add(s);
    s = with_plan("kept, evict", large ? std::vector{1, 2, 1} : std::vector{1, 2, 1});
    s.slots = 1;
    s.kept = s.kill_subscriber = true;
    s.kill_evictor = large;
    s.evicts = 1;
    s.joins = 2;
    s.kills = large ? 2 : 1;
    add(s);
    s = with_plan("kept, evictor killed", large ? std::vector{1, 2, 1, 1} : std::vector{1, 1});
    s.slots = 1;
    s.kept = s.kill_evictor = true;
    s.evicts = s.kills = 1;
    s.joins = 2;
    add(s);
    s = with_plan("kept, evict, nobody comes", large ? std::vector{1, 2, 1, 1} : std::vector{2, 2, 2});
    s.slots = 1;
    s.kept = s.kill_subscriber = true;
    s.evicts = s.kills = 1;
    s.next_subscriber = false;
    add(s);
    s = with_plan("kept, evict, 2 rings", {1}, {large ? 1 : 0});
    s.slots = 1;
    s.memory = Memory::tso;
    s.kept = s.kill_subscriber = s.kill_evictor = true;
    s.evicts = 1;
    s.joins = 2;
    s.kills = 2;
    add(s);

    s = with_plan("evict", large ? std::vector{1, 2, 1, 2, 1} : std::vector{1, 2, 1, 2});
    s.slots = 1;
    s.joins = large ? 2 : 1;
    s.evicts = 1;
    s.kill_evictor = large;
    s.kills = large;
    add(s);
    s = with_plan("evict, the victim hangs", large ? std::vector{1, 2, 1, 2, 1, 2} : std::vector{1, 2, 2, 1});
    s.slots = 1;
    s.evicts = s.hangs = 1;
    s.poll_limit = 2;
    s.next_subscriber = false;
    add(s);
    s = with_plan("two owners", large ? std::vector{1, 2, 1, 2} : std::vector{2, 1, 2});
    s.slots = 1;
    s.memory = Memory::tso;
    s.heirs = true;
    s.joins = 2;
    add(s);
    s = with_plan("two owners, evict", large ? std::vector{1, 2, 1, 2} : std::vector{2, 2});
    s.slots = 1;
    s.memory = Memory::tso;
    s.heirs = true;
    s.evicts = 1;
    add(s);
    s = with_plan("two owners of a ring", large ? std::vector{1, 9, 1, 9} : std::vector{1, 9, 1});
    s.slots = 1;
    s.memory = large ? Memory::weak : Memory::tso;
    s.heirs = s.senders = true;
    add(s);

    s = with_plan("max_lag", large ? std::vector{1, 2, 1, 1, 2} : std::vector{1, 2, 1, 1});
    s.slots = 1;
    s.lag = 3;
    s.joins = 2;
    add(s);
    s = with_plan("max_lag, kept, publisher killed", large ? std::vector{1, 2, 1, 1} : std::vector{2, 1, 1});
    s.slots = 1;
    s.lag = 3;
    s.joins = 2;
    s.kept = s.kill_publisher = true;
    s.kills = 1;
    add(s);
    s = with_plan("hostile gate", large ? std::vector{1, 2, 1, 1} : std::vector{1, 2, 1});
    s.slots = 2;
    s.hostile = large ? 2 : 1;
    s.everybody_ends = false;  // "at worst without end", section 9
    add(s);

    s = with_plan("sender and ended", large ? std::vector{1, 9, 1, 9, 1, 9} : std::vector{1, 9, 1, 9});
    s.slots = 1;
    s.senders = true;
    s.joins = large ? 2 : 1;
    add(s);
    s.name = "sender and ended, one name";
    s.same_name = true;
    add(s);
    s = with_plan("sender, publisher killed", large ? std::vector{1, 1, 1} : std::vector{1, 1});
    s.slots = 1;
    s.senders = s.kill_publisher = true;
    s.kills = large ? 2 : 1;
    add(s);
    s.name = "sender, publisher killed, one name";
    s.same_name = true;
    add(s);
    s = with_plan("sender, publisher killed, nobody comes", large ? std::vector{1, 9, 1, 9, 1} : std::vector{1, 9, 1});
    s.slots = 1;
    s.senders = s.kill_publisher = true;
    s.kills = 1;
    s.next_publisher = false;
    add(s);
    return all;
}

}  // namespace model
