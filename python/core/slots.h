/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on slots during the data path (spec/channel.md 5.4, 6.6, 6.7, 6.11, 6.14). flyring/slots.py takes and
   gives back slots. */
#ifndef FLYRING_SLOTS_H
#define FLYRING_SLOTS_H

#include "file.h"
#include "geometry.h"

/* The epoch of a slot. Its owner watches it to see that the slot was taken away. */
typedef struct {
    _Atomic(const int64_t *) word; /* in the slot; after closed, forked or lost, a word that never matches */
    int64_t value; /* the value while the slot has this owner */
} slot_epoch;

extern const int64_t dead_epoch_word;

static inline bool epoch_holds(const slot_epoch *epoch)
{
    const int64_t *word = atomic_load_explicit(&epoch->word, memory_order_relaxed);
    return LIKELY(LOAD64_RELAXED((void *)word) == epoch->value); /* 5.4 */
}

static inline void epoch_watch(slot_epoch *epoch, const uint8_t *word, int64_t value)
{
    epoch->value = value;
    atomic_store_explicit(&epoch->word, (const int64_t *)(const void *)word, memory_order_relaxed);
}

/* Make the epoch never match again: the owner is closed, forked or has lost the slot. */
static inline void epoch_drop(slot_epoch *epoch)
{
    atomic_store_explicit(&epoch->word, &dead_epoch_word, memory_order_relaxed);
}

/* Set all gates of a subscriber slot to -1 (release), and wake publishers that wait for room (6.6, 6.7, 6.11). */
void stop_gating(const geometry *shape, uint8_t *base, int32_t slot);
/* Evict the owner of a subscriber slot (6.11). The caller holds the control lock. */
void evict_slot(const geometry *shape, uint8_t *base, int32_t slot);
/* Evict the slots whose gate in the ring with this trailer is below `needed` (6.2, 3). Returns whether any was. */
bool evict_laggards(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed);
/* Set the gates of such slots that were evicted to -1 again (6.11, take back). Returns whether any was changed. */
bool take_back(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed);
/* Retire such slots whose owners died (6.7). Returns whether any was. */
bool retire_dead(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed);
/* Whether the ring's publisher has closed and the cursor is at the end (6.14). False for a foreign publisher. */
bool ring_ended(const geometry *shape, const uint8_t *base, int32_t ring, int64_t cursor);

#endif
