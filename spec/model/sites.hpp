// SPDX-License-Identifier: Apache-2.0
//
// Every fence, every ordering and every *must* of the spec's sections 5 and 6 that the model covers has a site. A
// mutant is a site that is not obeyed: SITE(name, the spec's step, what the mutant does).
#pragma once
#include <cstdint>

#define SITES                                                                                          \
    SITE(publish3_fence, "6.1 publish 3", "no release fence behind claimed")                           \
    SITE(publish4_zero, "6.1 publish 4", "the next length is not cleared")                             \
    SITE(publish4_before_6, "6.1 publish 4", "the next length is cleared behind the commit")           \
    SITE(publish6_release, "6.1 publish 6", "length is relaxed")                                       \
    SITE(publish7_release, "6.1 publish 7", "published is relaxed")                                    \
    SITE(publish7_begun_first, "6.1 publish 7", "messages_begun is stored behind published")           \
    SITE(publish7_before_6, "6.1 publish 7", "messages_begun is stored before the length")             \
    SITE(publish7_done, "6.1 publish 7", "messages_done is relaxed")                                   \
    SITE(publish8_fence, "6.1 publish 8", "no release fence behind boundary := -1")                    \
    SITE(publish8_clear, "6.1 publish 8", "boundary is not set to -1 first")                           \
    SITE(publish8_release, "6.1 publish 8", "boundary is relaxed")                                     \
    SITE(publish9_fence, "6.1 publish 9", "no release fence behind claimed")                           \
    SITE(publish9_claimed, "6.1 publish 9", "clears ahead without a claim")                            \
    SITE(publish_limit_margin, "6.1 publish 2", "room for the record, none for the zero behind it")    \
    SITE(publish_window_limit, "6.1 publish 3", "clears ahead beyond the limit")                       \
    SITE(publish_window_lap, "6.1 publish 3", "clears ahead beyond the end of the lap")                \
    SITE(batch_first_last, "6.3 batch", "record 1's length before record 2 is whole")                  \
    SITE(recompute1_fence, "6.2 recompute 1", "no seq_cst fence")                                      \
    SITE(recompute2_acquire, "6.2 recompute 2", "gates are loaded relaxed")                            \
    SITE(recompute2_bound, "6.2 recompute 2", "the limit is not bounded by t")                         \
    SITE(lag_gate_again, "6.11 evict", "for lag: the gate is not loaded again under the control lock") \
    SITE(join2_acquire, "6.4 join 2", "published is loaded relaxed")                                   \
    SITE(join2_gate, "6.4 join 2", "no gate before the fence")                                         \
    SITE(join2_release, "6.4 join 2", "gate is stored relaxed")                                        \
    SITE(join3_fence, "6.4 join 3", "no seq_cst fence")                                                \
    SITE(join4_published, "6.4 join 4", "published is not loaded again")                               \
    SITE(join4_claimed, "6.4 join 4", "joins at claimed")                                              \
    SITE(join4_acquire, "6.4 join 4", "published is loaded relaxed")                                   \
    SITE(join4_release, "6.4 join 4", "gate is stored relaxed")                                        \
    SITE(count_readers_lock, "6.4 count the readers", "without the control lock")                      \
    SITE(resume_published, "6.5 resume, 9", "a gate above published is a corrupt ring")                \
    SITE(join_evicting, "5.3 take 4", "a kept slot's join does not set evicting first")                \
    SITE(join_evicting_early, "5.3 take 4", "evicting := 0 before the join instead of behind it")      \
    SITE(join_evicting_last, "5.3 take 4", "evicting := 0 is relaxed")                                 \
    SITE(retire_lock, "6.7 retire", "without the slot's lock")                                         \
    SITE(retire_unlock_early, "6.7 retire", "the slot's lock is tested, not held")                     \
    SITE(retire_kept, "6.7 retire", "of a kept slot")                                                  \
    SITE(retire_kept_acquire, "6.7 retire", "kept is loaded relaxed")                                  \
    SITE(retire_epoch, "6.7 retire", "the epoch is not raised")                                        \
    SITE(retire_gate_again, "6.7 retire", "the gate is not loaded again under the lock")               \
    SITE(recover2_done, "6.8 recover 2", "messages_done is not stored")                                \
    SITE(recover2_late, "6.8 recover 2", "messages_done is stored behind step 4")                      \
    SITE(recover2_release, "6.8 recover 2", "messages_done is relaxed")                                \
    SITE(recover2_count, "6.8 recover 2", "counts from messages_begun though a record lies at p")      \
    SITE(recover3_walk, "6.8 recover 3", "stops behind the first record")                              \
    SITE(recover4_zero, "6.8 recover 4", "length at q is not cleared")                                 \
    SITE(recover4_release, "6.8 recover 4", "length at r is relaxed")                                  \
    SITE(recover5_published, "6.8 recover 5", "published is relaxed")                                  \
    SITE(recover5_done, "6.8 recover 5", "messages_done is relaxed")                                   \
    SITE(take1_control_lock, "5.2 take 1", "a publisher takes its slot without the control lock")      \
    SITE(poll1_acquire, "6.9 poll 1", "length is loaded relaxed")                                      \
    SITE(poll4_release, "6.9 poll 4", "gate is stored relaxed")                                        \
    SITE(poll5_fence, "6.9 poll 5", "no acquire fence")                                                \
    SITE(poll5_epoch, "6.9 poll 5", "the epoch is not compared at the end")                            \
    SITE(poll2_epoch, "6.9 poll 2", "corrupt ring is raised without a look at the epoch")              \
    SITE(lossy1_acquire, "6.10 lossy 1", "length is loaded relaxed")                                   \
    SITE(lossy2_empty, "6.10 lossy 2", "no lap test when it looks empty")                              \
    SITE(lossy3_lapped, "6.10 lossy 3", "corrupt ring without a lap test")                             \
    SITE(lossy4_fence, "6.10 lossy 2-4", "no acquire fence before the lap test")                       \
    SITE(lossy4_claimed, "6.10 lossy", "claimed is loaded relaxed")                                    \
    SITE(lossy4_margin, "6.10 lossy", "lapped is p + C < claimed, without the 8")                      \
    SITE(lossy5_claimed, "6.10 lossy 5", "jumps to claimed")                                           \
    SITE(count_done_acquire, "6.10 lossy 5", "messages_done is loaded relaxed")                        \
    SITE(count_published_acquire, "6.10 lossy 5", "published is loaded relaxed")                       \
    SITE(count_compare, "6.10 lossy 5", "d and b are not compared")                                    \
    SITE(boundary_acquire, "6.10 lossy, oldest", "boundary is loaded relaxed")                         \
    SITE(boundary_fence, "6.10 lossy, oldest", "no acquire fence behind the count")                    \
    SITE(boundary_again, "6.10 lossy, oldest", "boundary is not loaded again")                         \
    SITE(boundary_lapped, "6.10 lossy, oldest", "no lap test")                                         \
    SITE(evict_evicting, "6.11 evict", "evicting is not set")                                          \
    SITE(evict_flag_first, "6.11 evict", "evicting is set before the epoch is raised")                 \
    SITE(evict_epoch_behind, "6.11 evict", "the epoch is raised behind the gates")                     \
    SITE(evict_ends, "6.11 evict", "evicting := 0 at its end")                                         \
    SITE(evict_control_lock, "6.11 evict", "without the control lock")                                 \
    SITE(take_back, "6.11 take back", "nobody does it")                                                \
    SITE(take_back_lock, "6.11 take back", "without the control lock")                                 \
    SITE(take_back_acquire, "6.11 take back", "evicting is loaded relaxed")                            \
    SITE(take_back_evicting, "6.11 take back", "evicting is not loaded again under the control lock")  \
    SITE(lost_evicting, "5.4 slot lost", "the victim takes back its gates without evicting := 1")      \
    SITE(lost_gates, "5.4 slot lost", "the victim does not take back its gates")                       \
    SITE(leave_unlock_early, "6.6 leave", "unlocks before the gates are -1")                           \
    SITE(take4_fence, "5.2 take 4", "no release fence behind name_length := -1")                       \
    SITE(take4_epoch, "5.2 take 4", "epoch is relaxed")                                                \
    SITE(take4_name, "5.2 take 4", "name_length is relaxed")                                           \
    SITE(take4_changing, "5.2 take 4", "name_length is not set to -1")                                 \
    SITE(owner_record, "6.1 owner record", "none is published")                                        \
    SITE(close_release, "5.2 close", "closed is relaxed")                                              \
    SITE(close_unlock_early, "5.2 close", "unlocks before closed is 1")                                \
    SITE(ended_closed_acquire, "6.14 ended", "closed is loaded relaxed")                               \
    SITE(ended_order, "6.14 ended", "published is loaded before closed")                               \
    SITE(sender_epoch_acquire, "6.12 fields", "epoch is loaded relaxed")                               \
    SITE(sender_name_acquire, "6.12 fields", "name_length is loaded relaxed")                          \
    SITE(sender_bounded, "6.12 fields", "retries for ever while name_length is -1")                    \
    SITE(sender_fence, "6.12 fields", "no acquire fence")                                              \
    SITE(sender_again, "6.12 fields", "epoch and name_length are not loaded again")                    \
    SITE(sender_again_order, "6.12 fields", "epoch is loaded again before name_length, not behind it") \
    SITE(sender_length_again_acquire, "6.12 fields", "name_length is loaded again relaxed")            \
    SITE(sender_start, "6.14 sender", "start is not compared with the cursor")                         \
    SITE(sender_order, "6.14 sender", "the publisher's slot is read before the cursor is set")

namespace model {

enum class Site : uint8_t {
    none,
#define SITE(name, step, what) name,
    SITES
#undef SITE
};

struct SiteText {
    const char *name, *step, *what;
};
constexpr SiteText site_texts[] = {{"none", "", ""},
#define SITE(name, step, what) {#name, step, what},
                                   SITES
#undef SITE
};
constexpr int sites = sizeof site_texts / sizeof *site_texts;

}  // namespace model
