/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor that becomes readable when something may be there: for select, epoll and the loops of asyncio and trio.
   One helper thread of the process sleeps for all of them (spec 6.16). It knows nothing of Python. */
#ifndef FLYRING_NOTIFY_H
#define FLYRING_NOTIFY_H

#include "waiting.h"

typedef struct notifier notifier;

/* NULL with an exception. It is readable. */
notifier *notifier_new(void);
int notifier_fd(const notifier *self);
/* Sleep 1 to 4 for the target, whose words must be mapped until notifier_stop: from now on the descriptor becomes
   readable when somebody wakes, or after the cap of a wait that began then. 1 armed; 0 it is there, and the descriptor
   stays readable; -1 an exception. */
int notifier_arm(notifier *self, const wait_target *target, int64_t began);
/* Whether it became readable because the file has lost its name, since the last call: then 6.13 is due. */
bool notifier_found_nameless(notifier *self);
/* Whether it is not readable. */
bool notifier_is_armed(notifier *self);
/* It is readable from now on, and looks at nothing any more. */
void notifier_stop(notifier *self);
/* Closes the descriptor. */
void notifier_free(notifier *self);

/* futex_waitv, which older headers do not have: several words at once. */
typedef struct {
    uint64_t value, address;
    uint32_t flags, reserved;
} futex_word;

#define MOST_FUTEX_WORDS 128
/* A word of the file, or (`own`) of this process. */
futex_word futex_word_of(const void *address, uint32_t value, bool own);
/* Wakes who sleeps on a word of this process. */
void wake_own(const _Atomic uint32_t *word);
/* Whether the kernel, and the sandbox, know it. */
bool knows_futex_waitv(void);
/* Sleeps until one of the words is woken or has another value, or until then (by now_ns). The first word alone, for a
   millisecond at most, if `naps`. False: the kernel does not know the call any more (a sandbox). */
bool sleep_on_words(const futex_word *words, int count, int64_t until, bool naps);

#endif
