// SPDX-License-Identifier: Apache-2.0
//
// The table's scenarios and mutants. README.md, "The table", has the rows.
#pragma once
#include "search.hpp"

namespace model::table_model {

enum class Mutant {
    none,
    seq_stays,
    no_fence,
    key_before_fence,
    version_relaxed,
    version_early,
    one_body,
    stamp_late,
    stamp_of_cell,
    no_second_look,
    key_after_second_look,
    key_not_compared,
    no_version_compare,
    entry_late,
    entry_relaxed,
    tombstone_first,
    tombstone_relaxed,
    free_first,
    empty_not_tombstone,
    no_intent,
    intent_late,
    intent_cleared_early,
    intent_forgotten,
    intent_keeps_entry,
    push_twice,
    push_fresh,
    next_of_free_late,
    changed_early,
    changed_relaxed,
    changed_not_by_next,
    miss_ends,
    no_generation_look,
    entries_behind_look,
    change_in_one_copy,
    move_without_look,
    no_fence_before_clear,
    flip_relaxed,
    flip_first,
    epoch_not_compared,
    live_writer_evicted,
    without_lock,
};

struct Scenario {
    const char* name;
    int cells, entries;
    // What the writers do, one after the other: x, y put the key; d, e remove it; r one step of a rebuild, R a whole
    // one.
    const char* plan;
    // What each reader does: X, Y get the key; L, M get key 1, 2 and load all entries before the first cell, in any
    // order (find 2); W a walk over the cells (iteration, snapshot).
    const char* gets[2];
    int kills, losses;  // losses: a writer loses its lock between two changes
    bool large;
};
inline const Scenario scenarios[] = {
    {"updates", 1, 1, "xxx", {"XX", ""}, 0, 0, false},
    {"updates, killed", 1, 1, "xxx", {"XX", ""}, 1, 0, false},
    {"reuse", 1, 1, "xdye", {"Y", ""}, 0, 0, false},
    {"reuse, killed", 1, 1, "xdy", {"XY", ""}, 1, 0, false},
    {"removed, killed", 1, 2, "xdx", {"XX", ""}, 1, 0, false},
    {"two keys", 2, 2, "xydx", {"YX", ""}, 0, 0, false},
    {"two keys, killed", 2, 2, "xydx", {"X", ""}, 1, 0, false},
    {"freed twice, killed", 2, 2, "xydex", {"", ""}, 1, 0, false},
    {"rebuild", 2, 2, "xRdx", {"XX", ""}, 0, 0, false},
    {"rebuilt twice", 1, 1, "xRR", {"X", ""}, 0, 0, false},
    {"rebuild, changes", 2, 3, "xyrrrrrdxrrrre", {"X", ""}, 0, 0, false},
    {"rebuild, killed", 2, 3, "xrrrrryrrrrx", {"Y", ""}, 1, 0, false},
    {"rebuild, removed, killed", 2, 3, "xyrrrrrrdrrry", {"", ""}, 1, 0, false},
    {"line", 2, 2, "xydx", {"ML", ""}, 0, 0, false},
    {"line, killed", 2, 2, "xydx", {"L", ""}, 1, 0, false},
    {"line, removed, killed", 1, 2, "xdx", {"LL", ""}, 1, 0, false},
    {"line, rebuilt twice", 1, 2, "xRR", {"L", ""}, 0, 0, false},
    {"line, rebuild, changes", 2, 3, "xyrrrrrdxrrrre", {"L", ""}, 0, 0, false},
    {"walk", 2, 2, "xydx", {"W", ""}, 0, 0, false},
    {"walk, killed", 1, 1, "xdy", {"W", ""}, 1, 0, false},
    {"lock lost", 1, 1, "xx", {"X", ""}, 0, 1, false},
    {"two readers", 1, 1, "xd", {"X", "X"}, 1, 0, false},
    {"large: reuse, killed twice", 1, 1, "xdyexd", {"XYX", ""}, 2, 0, true},
    {"large: two keys, killed twice", 2, 3, "xydxeyd", {"XYX", ""}, 2, 0, true},
    {"large: two readers", 2, 2, "xydxe", {"XY", "YX"}, 1, 0, true},
    {"large: rebuild", 2, 3, "xyrrrrrrdrrrxrrrrrrrrye", {"XY", ""}, 1, 0, true},
    {"large: rebuilt twice", 2, 2, "xRdRyRx", {"XY", ""}, 1, 0, true},
    {"large: line, killed", 2, 3, "xydxey", {"LM", ""}, 1, 0, true},
    {"large: line, rebuild", 2, 3, "xyrrrrrrdrrrxrrrrrrrrye", {"L", ""}, 0, 0, true},
    {"large: walk", 2, 3, "xydyxe", {"WX", ""}, 2, 0, true},
    {"large: lock lost, killed", 2, 2, "xydxy", {"XY", ""}, 1, 1, true},
};

inline const Row<Mutant> rows[] = {
    {Mutant::seq_stays, "table write 2", "seq of the body is not set to 0 first", "T1", "", "updates"},
    {Mutant::no_fence, "table write 2", "no release fence behind seq := 0", "T1", "", "updates"},
    {Mutant::key_before_fence, "table write 3", "the key is stored before the fence", "T1", "", "reuse"},
    {Mutant::version_relaxed, "table write 5", "version is relaxed", "T1", "", "updates"},
    {Mutant::version_early, "table write 5", "version is stored before the body", "T4", "", "updates, killed"},
    {Mutant::one_body, "table write", "one body", "T4", "", "updates, killed"},
    {Mutant::stamp_late, "table write 1", "the stamp is stored behind version", "T7", "", "updates, killed"},
    {Mutant::stamp_of_cell, "table write 1", "each cell counts its own writes", "T3", "", "two keys"},
    {Mutant::no_second_look, "table read 4", "no second look at seq", "T1", "", "updates"},
    {Mutant::key_after_second_look, "table read 3", "the key is compared behind the second look", "T1", "", "reuse"},
    {Mutant::key_not_compared, "table read 3", "the fingerprint decides", "T1", "", "two keys"},
    {Mutant::no_version_compare, "table read 4", "seq is compared with itself, not with version", "T1", "", "updates"},
    {Mutant::entry_late, "table insert 3", "the entry is stored behind the cell", "T3", "", "removed, killed"},
    {Mutant::entry_relaxed, "table insert 3", "the entry is relaxed", "", "version is released behind it", "two keys"},
    {Mutant::tombstone_first, "table remove 3", "the tombstone is stored before the cell is written", "T3", "",
     "removed, killed"},
    {Mutant::tombstone_relaxed, "table remove 3", "the tombstone is relaxed", "T3", "", "two keys"},
    {Mutant::free_first, "table remove 4", "the cell is freed before the tombstone", "T6", "", "removed, killed"},
    {Mutant::empty_not_tombstone, "table remove 3", "the entry becomes empty", "T3", "", "two keys"},
    {Mutant::no_intent, "table insert 1", "no intent", "T6", "", "reuse, killed"},
    {Mutant::intent_late, "table insert 1", "the intent is stored behind the pop", "T6", "", "reuse, killed"},
    {Mutant::intent_cleared_early, "table insert 5", "the intent is cleared before the cell is written", "T6", "",
     "reuse, killed"},
    {Mutant::intent_forgotten, "table take 3", "the intent is forgotten", "T6", "", "updates, killed"},
    {Mutant::intent_keeps_entry, "table take 3", "the entry is not removed", "T6", "", "updates, killed"},
    {Mutant::push_twice, "table take 3", "the cell is pushed though it is the top", "T6", "", "removed, killed"},
    {Mutant::push_fresh, "table take 3", "the cell is pushed though it is not yet in use", "T6", "", "updates, killed"},
    {Mutant::next_of_free_late, "table remove 4", "top is stored before the cell's next", "T6", "",
     "freed twice, killed"},
    {Mutant::changed_early, "table write 6", "changed is stored before version", "T3", "", "updates"},
    {Mutant::changed_relaxed, "table write 6", "changed is relaxed", "T3", "", "updates"},
    {Mutant::changed_not_by_next, "table take 4", "the next writer does not store changed", "T7", "",
     "updates, killed"},
    {Mutant::miss_ends, "table find 4", "another key in the cell ends the search", "T3", "", "two keys"},
    {Mutant::no_generation_look, "table find 5", "the generation is not loaded again", "T3", "", "rebuilt twice"},
    {Mutant::entries_behind_look, "table find 2", "an entry is loaded behind the look of find 5", "T3", "",
     "line, rebuilt twice"},
    {Mutant::change_in_one_copy, "table rebuild", "a change goes into the current copy only", "T6", "",
     "rebuild, changes"},
    {Mutant::move_without_look, "table rebuild 2", "an entry is moved that is there already", "T6", "",
     "rebuild, killed"},
    {Mutant::no_fence_before_clear, "table rebuild 1", "no release fence before the other copy is cleared", "T3", "",
     "rebuilt twice"},
    {Mutant::flip_relaxed, "table rebuild 3", "generation is relaxed", "T3", "", "rebuild"},
    {Mutant::flip_first, "table rebuild 3", "generation is stored before rebuild := 0", "",
     "changes go into both copies as long as rebuild is not 0", "rebuild, killed"},
    {Mutant::epoch_not_compared, "table write", "the epoch is not compared before a change", "T1", "", "lock lost"},
    {Mutant::live_writer_evicted, "table take", "a stopped writer is evicted, and another takes its place", "T1", "",
     "lock lost"},
    {Mutant::without_lock, "table take 1", "without the slot's lock", "T1", "", "lock lost"},
};

}  // namespace model::table_model
