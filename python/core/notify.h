/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor that becomes readable when there may be a message or room: for select, epoll, asyncio and trio. One
   helper thread per process sleeps for all descriptors (spec/channel.md 6.16). This file does not use Python. */
#ifndef FLYRING_NOTIFY_H
#define FLYRING_NOTIFY_H

#include "waiting.h"

typedef struct notifier notifier;

/* Make a notifier; its descriptor is readable. NULL with an exception. */
notifier *notifier_new(void);
int notifier_fd(const notifier *self);
/* Do sleep 1 to 4 for the target, whose words must stay mapped until notifier_stop. Then the descriptor becomes
   readable at the next wake, or at the cap of a wait that began at `began`. Returns 1 armed; 0 the target is ready, and
   the descriptor stays readable; -1 an exception. */
int notifier_arm(notifier *self, const wait_target *target, int64_t began);
/* Whether the descriptor became readable since the last call because the file has no name any more: 6.13 is due then.
   */
bool notifier_found_nameless(notifier *self);
/* Whether the descriptor is armed, which means not readable. */
bool notifier_is_armed(notifier *self);
/* Stop watching the target. The descriptor is readable from now on. */
void notifier_stop(notifier *self);
/* Closes the descriptor. */
void notifier_free(notifier *self);

/* futex_waitv, which sleeps on several words at once; older headers do not have it. */
typedef struct {
    uint64_t value, address;
    uint32_t flags, reserved;
} futex_word;

#define MOST_FUTEX_WORDS 128
/* Describe a word of the file, or (`own`) of this process. */
futex_word futex_word_of(const void *address, uint32_t value, bool own);
/* Wake the threads that sleep on a word of this process. */
void wake_own(const _Atomic uint32_t *word);
/* Whether the kernel has futex_waitv, and a sandbox allows it. */
bool knows_futex_waitv(void);
/* Sleep until one of the words is woken or has another value, or until the time `until` (by now_ns). With `naps`, sleep
   on the first word only, for at most a millisecond. False: the call is no longer available (a sandbox). */
bool sleep_on_words(const futex_word *words, int count, int64_t until, bool naps);

#endif
