/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping until a message or room is there, and waking those who sleep (spec 6.16), without Python. */
#ifndef FLYRING_WAITING_H
#define FLYRING_WAITING_H

#include "file.h"
#include "geometry.h"

/* The words of one direction: readers that wait for data, publishers that wait for room, or workers that wait for jobs. */
typedef struct {
    uint8_t *sequence;
    uint8_t *asleep; /* a mask: waiting_bit of each ring that somebody waits for */
} waiting_words;

#define ALL_RINGS UINT32_C(0xFFFFFFFF)

static inline uint32_t waiting_bit(int32_t ring)
{
    return UINT32_C(1) << (ring % 32);
}

/* `base` is where the file is mapped. */
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

/* Register: false if the sleepers' membarrier does not reach this process. A call that the kernel has answered before
   costs little, and its answer survives a fork but no exec: so it is asked again for each object. */
bool register_waker(void);
/* The futex call alone. */
void wake_sleepers(const uint8_t *sequence, uint32_t bits);
/* Wake all. */
void wake_all(waiting_words words);

/* Who wakes: publish 10, and poll 6. */
typedef struct {
    const uint8_t *watched; /* `asleep`; or a word of zeros (opted out), or of ones (a fence comes before the look) */
    waiting_words words;
    bool registered;
} waker;

waker waker_make(waiting_words words, bool wakes);
void wake_now(const waker *self, uint32_t bits);

/* Behind a message, or a gate, of the ring that has this bit. Nothing but a load where nobody sleeps. */
ALWAYS_INLINE void wake_if_asleep(const waker *self, uint32_t bit)
{
    FENCE_COMPILER(); /* 6.16: the sleeper's membarrier makes it a whole one */
    if (UNLIKELY(((uint32_t)LOAD32_RELAXED(self->watched) & bit) != 0))
        wake_now(self, bit);
}

/* Whether one of these sleeps, asked exactly: the seq_cst fence is here if the process is not registered. */
bool sleeps(const waker *self, uint32_t bits);
/* queue.md 10, wake one(jobs), behind a look that found somebody asleep. */
void wake_one_now(const waker *self);

/* queue.md 10: behind a job that a worker released, or passes on. */
ALWAYS_INLINE void wake_one_if_asleep(const waker *self)
{
    FENCE_COMPILER(); /* as above */
    if (UNLIKELY(((uint32_t)LOAD32_RELAXED(self->watched) & JOBS_BIT) != 0))
        wake_one_now(self);
}

/* Sleeping */

#define DATA_CAP_NS INT64_C(100000000)
#define ROOM_CAP_NS INT64_C(20000000)
#define FIRST_ROOM_CAP_NS INT64_C(4000000) /* in the first second of a wait */
#define SHORT_CAP_NS INT64_C(1000000)

/* What somebody waits for. The functions run without the GIL. */
typedef struct {
    waiting_words words;
    uint32_t mask; /* of the rings */
    bool writable; /* the bits can be set */
    bool room; /* else data */
    bool (*ready)(void *context); /* whether there is something to do but sleep */
    bool (*others_wake)(void *context); /* whether everybody on the other side wakes those who sleep */
    bool (*nameless)(void *context); /* whether the file has lost its name; NULL: the one who waits looks itself */
    bool (*due)(void *context); /* whether there is something to do at a cap; NULL: nothing ever */
    void (*pass_on)(void *context); /* of a worker that was woken, and may take nothing (queue.md 10); or NULL */
    int64_t until; /* by now_ns: then it is ready at the latest; 0: that is not known */
    void *context;
} wait_target;

int64_t now_ns(void); /* CLOCK_MONOTONIC */
/* The cap of a wait that began then, if the others wake. */
int64_t wait_cap(bool room, int64_t began);
/* Sleep 2. */
void set_asleep(const wait_target *target);
/* Sleep 3: whether those who wake were reached. */
bool reach_wakers(void);
/* Both; false also if the bits cannot be set. */
bool announce_sleep(const wait_target *target);
/* One round of a sleep, 1 to 6, until the deadline (by now_ns) at most. */
void sleep_once(const wait_target *target, int64_t deadline, int64_t cap);

/* Whether the owner of a ring, if it has one, wakes readers. */
bool publisher_wakes(const geometry *shape, const uint8_t *base, int32_t ring);
/* Whether the subscribers that gate a ring wake its publisher. */
bool subscribers_wake(const geometry *shape, const uint8_t *base, int32_t ring);
/* Whether the workers of a queue wake: those of all slots, for one without a job may take the next. `lock` is a
   description of the file. */
bool workers_wake(const geometry *shape, const uint8_t *base, const File *lock);

#endif
