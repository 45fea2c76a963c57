/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping until there is a message or room, and waking sleepers (spec/channel.md 6.16). Does not use Python. */
#ifndef FLYRING_WAITING_H
#define FLYRING_WAITING_H

#include "file.h"
#include "geometry.h"

/* The words of one direction: readers that wait for data, publishers that wait for room, or workers that wait for jobs.
   */
typedef struct {
    uint8_t *sequence;
    uint8_t *asleep; /* a mask: the waiting_bit of each ring for which a process sleeps */
} waiting_words;

#define ALL_RINGS UINT32_C(0xFFFFFFFF)

static inline uint32_t waiting_bit(int32_t ring)
{
    return UINT32_C(1) << (ring % 32);
}

/* `base`: the address of the mapping. */
static inline waiting_words data_words(const geometry *shape, uint8_t *base)
{
    uint8_t *control = base + shape->control;
    return (waiting_words){control + CONTROL_DATA_SEQUENCE, control + CONTROL_DATA_ASLEEP};
}

static inline waiting_words room_words(const geometry *shape, uint8_t *base)
{
    uint8_t *control = base + shape->control;
    return (waiting_words){control + CONTROL_ROOM_SEQUENCE, control + CONTROL_ROOM_ASLEEP};
}

static inline waiting_words jobs_words(const geometry *shape, uint8_t *base)
{
    uint8_t *control = base + shape->control;
    return (waiting_words){control + CONTROL_JOBS_SEQUENCE, control + CONTROL_JOBS_ASLEEP};
}

/* Waking */

/* Register this process (6.16): false if the sleepers' membarrier does not reach it. The registration survives a fork
   but not an exec, and a repeated call is cheap, so this is called for each object. */
bool register_waker(void);
/* Do only the futex call of a wake. */
void wake_sleepers(const uint8_t *sequence, uint32_t bits);
/* Wake all sleepers of these words. */
void wake_all(waiting_words words);

/* The state of an object that wakes sleepers (publish 10, and poll 6). */
typedef struct {
    const uint8_t *watched; /* `asleep`; or a word of zeros (opted out) or ones (it needs a fence before the load) */
    waiting_words words;
    bool registered;
} waker;

waker waker_make(waiting_words words, bool wakes);
void wake_now(const waker *self, uint32_t bits);

/* Wake sleepers, after a message or gate of the ring with this bit. Costs one load if no process sleeps. */
ALWAYS_INLINE void wake_if_asleep(const waker *self, uint32_t bit)
{
    FENCE_COMPILER(); /* 6.16: the sleeper's membarrier makes this a full fence */
    if (UNLIKELY(((uint32_t)LOAD32_RELAXED(self->watched) & bit) != 0))
        wake_now(self, bit);
}

/* Whether a process sleeps for one of these bits. Exact: has the seq_cst fence if this process is not registered. */
bool sleeps(const waker *self, uint32_t bits);
/* Wake one worker, after a check that found a sleeper (queue.md 10, wake one(jobs)). */
void wake_one_now(const waker *self);

/* Wake one worker if one sleeps, after a job that a worker released or passes on (queue.md 10). */
ALWAYS_INLINE void wake_one_if_asleep(const waker *self)
{
    FENCE_COMPILER(); /* as above */
    if (UNLIKELY(((uint32_t)LOAD32_RELAXED(self->watched) & JOBS_BIT) != 0))
        wake_one_now(self);
}

/* Sleeping */

#define DATA_CAP_NS INT64_C(100000000)
#define ROOM_CAP_NS INT64_C(20000000)
#define FIRST_ROOM_CAP_NS INT64_C(4000000) /* during the first second of a wait */
#define SHORT_CAP_NS INT64_C(1000000)

/* The target of a wait. The functions run without the GIL. */
typedef struct {
    waiting_words words;
    uint32_t mask; /* the bits of the rings */
    bool writable; /* the mapping is writable, so the bits can be set */
    bool room; /* it waits for room; else for data */
    int pauses; /* how often it pauses between two looks; 0: once */
    bool (*ready)(void *context); /* whether it must not sleep, because there is something to do */
    bool (*others_wake)(void *context); /* whether all owners on the other side wake sleepers */
    bool (*nameless)(void *context); /* whether the file has no name any more; NULL: the waiting thread checks that */
    bool (*due)(void *context); /* whether there is something to do at a cap; NULL: never */
    void (*pass_on)(void *context); /* passes a worker's wake on if it may take no job (queue.md 10); or NULL */
    int64_t until; /* the latest time at which it is ready, by now_ns; 0: not known */
    void *context;
} wait_target;

int64_t now_ns(void); /* CLOCK_MONOTONIC */
/* The cap of a wait that began at `began`, if the other side wakes sleepers. */
int64_t wait_cap(bool room, int64_t began);
/* Set the bits in `asleep` (sleep 2). */
void set_asleep(const wait_target *target);
/* Call membarrier (sleep 3). Returns whether it reaches all registered processes. */
bool reach_wakers(void);
/* Do both (sleep 2 and 3). False also if the bits cannot be set. */
bool announce_sleep(const wait_target *target);
/* Sleep while the sequence has this value, at most until a time by now_ns (sleep 6). */
void sleep_while(const uint8_t *sequence, uint32_t value, uint32_t mask, int64_t until);
/* One round of a sleep (sleep 1 to 6), at most until the deadline (by now_ns). */
void sleep_once(const wait_target *target, int64_t deadline, int64_t cap);
/* Sleep until a time by now_ns, unless the target is ready. No bit is set, so the other side wakes no process. */
void rest_once(const wait_target *target, int64_t until);

/* Whether the owner of a ring, if it has one, wakes readers. */
bool publisher_wakes(const geometry *shape, const uint8_t *base, int32_t ring);
/* Whether the subscribers that gate a ring wake its publisher. */
bool subscribers_wake(const geometry *shape, const uint8_t *base, int32_t ring);
/* Whether the workers of all slots of a queue wake sleepers. Includes workers without a job, because these may take the
   next one. `lock` is a description of the file. */
bool workers_wake(const geometry *shape, const uint8_t *base, const File *lock);

#endif
