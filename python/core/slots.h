/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to slots on the data path (spec 5.4, 6.6, 6.7, 6.11, 6.14); flyring/slots.py takes and gives them. */
#ifndef FLYRING_SLOTS_H
#define FLYRING_SLOTS_H

#include "file.h"
#include "geometry.h"

/* The epoch of a slot, by which its owner sees that the slot was taken away. */
typedef struct {
    _Atomic(const int64_t *) word; /* in the slot; once the owner cannot use it, a word that never matches */
    int64_t value; /* while the slot is ours */
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

/* Closed, forked or lost. */
static inline void epoch_drop(slot_epoch *epoch)
{
    atomic_store_explicit(&epoch->word, &dead_epoch_word, memory_order_relaxed);
}

/* All gates of a subscriber slot := -1 (release), and publishers that wait for room see it: 6.6, 6.7, 6.11. */
void stop_gating(const geometry *shape, uint8_t *base, int32_t slot);
/* 6.11, under the control lock: takes a subscriber slot away from its owner. */
void evict_slot(const geometry *shape, uint8_t *base, int32_t slot);
/* 6.2, 3 for the slots whose gate in the ring with this trailer is below `needed`: true if any was evicted. */
bool evict_laggards(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed);
/* 6.11, take back, for those slots that were evicted: true if any gate was set to -1. */
bool take_back(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed);
/* 6.7 for those slots: true if any was retired. */
bool retire_dead(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed);
/* 6.14: the ring's publisher closed, and the cursor is at the end. Of a foreign publisher that is not known: false. */
bool ring_ended(const geometry *shape, const uint8_t *base, int32_t ring, int64_t cursor);

#endif
