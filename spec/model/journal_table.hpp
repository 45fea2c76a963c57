// SPDX-License-Identifier: Apache-2.0
//
// The journal's mutants: one rule of journal.md each.
#pragma once

namespace model {

enum class JournalMutant {
    none,
    same_segment,
    same_segment_zeroed,
    file_not_synced,
    folder_not_synced,
    found_is_trusted,
    last_segment_synced,
    synced_first,
    check_without_itself,
    check_without_type,
    last_right_check,
    last_whole_record,
    published_believed,
    boot_first,
    cut_not_synced,
    cut_segment_synced,
    leftovers_stay,
    gates_stay,
    used_again,
    position_believed,
    crc_not_looked_at,
    unlinked_before_sync,
    trimmed_before_sync,
    trim_without_lock,
    trim_beyond_synced,
    join_not_synced,
    one_pair,
    pair_without_crc,
    not_counted_again,
    no_trimmed,
    trimmed_looked_at_first,
    claimed_is_padded,
    claimed_stays,
    no_room_for_check,
    no_resume,
    sync_tried_again,
    not_written_again,
    push_never_syncs,
    push_forgets_another,
    push_believes_the_future,
    push_keeps_no_time,
    push_trims_a_gate,
};

struct JournalScenario {
    const char* name;
    int first, runs;  // the seeds first, first + 1, ...
    bool kills, power, sync_errors;
    bool large;
    bool pushes = false;  // no writer holds the slot, and there is no helper
};
const JournalScenario journal_scenarios[] = {
    {"kills", 1, 300, true, false, false, false},
    {"power", 1, 300, false, true, false, false},
    {"kills and power", 1, 600, true, true, false, false},
    {"kills and power: 3600", 3600, 100, true, true, false, false},
    {"kills and power: 8700", 8700, 100, true, true, false, false},
    {"kills and power: 11100", 11100, 100, true, true, false, false},
    {"failed syncs", 1, 600, true, true, true, false},
    {"pushes", 1, 300, true, true, false, false, true},
    {"pushes, failed syncs", 1, 300, true, true, true, false, true},
    {"large: pushes", 1, 10000, true, true, true, true, true},
    {"large: kills and power", 1, 20000, true, true, false, true},
    {"large: failed syncs", 1, 20000, true, true, true, true},
};

}  // namespace model
