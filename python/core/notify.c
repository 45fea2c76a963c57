/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* syscall, pthread_setname_np */
#include "notify.h"
#include "errors.h"
#include "fork.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FUTEX_WAITV_CALL 449
#define WORD_IS_U32 2
#define WORD_IS_PRIVATE 128
#define HELPER_STACK (128 * 1024)

/* All following variables change only under fork_lock, which the helper does not hold while it sleeps. */

struct notifier {
    struct notifier *next, *previous; /* of the circular list; NULL: not in it */
    int fd; /* an eventfd */
    wait_target target;
    uint32_t sequence; /* the sequence (s) at the last arming */
    uint32_t listed; /* the sequence with which the helper sleeps */
    int64_t until, cap; /* of the last arming: end of the sleep by now_ns, and cap in ns */
    int64_t looked; /* when the helper last checked that the file has a name */
    bool nameless; /* the file has no name, and notifier_found_nameless has not said so yet */
    bool armed; /* else the descriptor is readable */
};

static notifier all = {.next = &all, .previous = &all};
static bool running; /* whether the helper runs; it ends when there is nothing to watch */
static bool has_waitv;
static int64_t helper_until; /* when the helper wakes without being woken */
static _Atomic uint32_t helper_word; /* raising and waking it makes the helper look again */

/* Sleeping on several words */

futex_word futex_word_of(const void *address, uint32_t value, bool own)
{
    return (futex_word){value, (uint64_t)(uintptr_t)address, WORD_IS_U32 | (own ? WORD_IS_PRIVATE : 0), 0};
}

void wake_own(const _Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool knows_futex_waitv(void)
{
    /* A call without words: a kernel that has the call refuses it with EINVAL. */
    return syscall(FUTEX_WAITV_CALL, NULL, 0, 0, NULL, CLOCK_MONOTONIC) == -1 && errno == EINVAL;
}

bool sleep_on_words(const futex_word *words, int count, int64_t until, bool naps)
{
    if (naps) {
        int64_t end = now_ns() + SHORT_CAP_NS;
        until = until < end ? until : end;
    }
    struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    if (naps || count == 1) { /* the first word always belongs to this process */
        syscall(SYS_futex, words[0].address, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, (uint32_t)words[0].value, &time,
                NULL, ALL_RINGS);
        return true;
    }
    if (syscall(FUTEX_WAITV_CALL, words, count, 0, &time, CLOCK_MONOTONIC) >= 0)
        return true;
    return errno != ENOSYS && errno != EPERM;
}

/* The helper */

static void make_readable(notifier *self)
{
    uint64_t one = 1;
    if (!self->armed)
        return;
    self->armed = false;
    if (self->target.pass_on != NULL)
        self->target.pass_on(self->target.context); /* because its owner may look late, or never */
    while (write(self->fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void wake_helper(void)
{
    atomic_fetch_add_explicit(&helper_word, 1, memory_order_release);
    wake_own(&helper_word);
}

/* Check whether the file has a name, as often as waits do (6.13), because programs other than Flyring replace a file
   without a hint. */
static bool is_nameless(notifier *self, int64_t now)
{
    if (self->target.nameless == NULL || now - self->looked < DATA_CAP_NS)
        return false;
    self->looked = now;
    return self->nameless = self->target.nameless(self->target.context);
}

/* Look at one notifier: makes it readable if it is due. Returns when to look again. */
static int64_t look_at(notifier *self, int64_t now)
{
    self->listed = (uint32_t)LOAD32_ACQUIRE(self->target.words.sequence); /* pairs with wake 2 */
    if (!self->armed)
        return now + DATA_CAP_NS; /* not longer, so that a notifier that is armed meanwhile need not wake the helper */
    /* At its cap a publisher tests the locks of the subscribers that hold it back. */
    if (self->listed != self->sequence ||
        (now >= self->until &&
         (self->target.room || (self->target.due != NULL && self->target.due(self->target.context)) ||
          self->target.ready(self->target.context) || is_nameless(self, now)))) {
        make_readable(self);
        return now + DATA_CAP_NS;
    }
    if (now >= self->until)
        self->until = now + self->cap;
    if (self->target.until > now && self->target.until < self->until)
        self->until = self->target.until;
    return self->until;
}

/* List the words of all notifiers, each once. Returns how many; MOST_FUTEX_WORDS + 1 if there are more. */
static int list_words(futex_word *words)
{
    int count = 1;
    for (notifier *one = all.next; one != &all; one = one->next) {
        futex_word word = futex_word_of(one->target.words.sequence, one->listed, false);
        int i = 1;
        while (i < count && words[i].address != word.address)
            i++;
        if (i < count) /* the first value stays: if the word has changed since, the call returns at once */
            continue;
        if (count == MOST_FUTEX_WORDS)
            return count + 1;
        words[count++] = word;
    }
    return count;
}

static void *help(void *ignored)
{
    futex_word words[MOST_FUTEX_WORDS];
    (void)ignored;
    fork_lock();
    while (all.next != &all) {
        int64_t now = now_ns(), until = INT64_MAX;
        bool any = false;
        words[0] = futex_word_of(&helper_word, atomic_load_explicit(&helper_word, memory_order_acquire), true);
        for (notifier *one = all.next; one != &all; one = one->next) {
            int64_t next = look_at(one, now);
            until = next < until ? next : until;
            any |= one->armed;
        }
        int count = list_words(words);
        bool naps = (!has_waitv && count > 1) || count > MOST_FUTEX_WORDS;
        /* A helper that naps does not sleep on their words, so the first arming must wake it. */
        helper_until = naps && !any ? INT64_MAX : until;
        fork_unlock();
        bool known = sleep_on_words(words, naps ? 1 : count, until, naps && any);
        fork_lock();
        if (!known)
            has_waitv = false;
    }
    running = false;
    fork_unlock();
    return NULL;
}

static void helper_forked(fork_node *node)
{
    (void)node;
    running = false;
    while (all.next != &all) {
        notifier *one = all.next;
        all.next = one->next;
        one->next = one->previous = NULL;
        one->armed = false; /* the parent shares the descriptor, so it is left unchanged */
    }
    all.previous = &all;
}

/* Start the helper thread, under fork_lock. Returns 0 or errno. */
static int start_helper(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t every, before;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, HELPER_STACK);
    has_waitv = knows_futex_waitv();
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before); /* signals must go to Python's threads */
    error = pthread_create(&thread, &attributes, help, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    running = error == 0;
    if (running)
        pthread_setname_np(thread, "flyring-waits");
    return error;
}

/* One descriptor */

notifier *notifier_new(void)
{
    notifier *self = calloc(1, sizeof *self);
    if (self == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    self->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->fd >= 0)
        return self;
    PyErr_SetFromErrno(PyExc_OSError);
    free(self);
    return NULL;
}

int notifier_fd(const notifier *self)
{
    return self->fd;
}

static void link_in(notifier *self)
{
    self->next = &all;
    self->previous = all.previous;
    self->previous->next = all.previous = self;
}

static void take_out(notifier *self)
{
    self->next->previous = self->previous;
    self->previous->next = self->next;
    self->next = self->previous = NULL;
}

int notifier_arm(notifier *self, const wait_target *target, int64_t began)
{
    static fork_node node;
    if (node.next == NULL)
        fork_add(&node, helper_forked);
    uint32_t sequence = (uint32_t)LOAD32_ACQUIRE(target->words.sequence); /* sleep 1; pairs with wake 2 */
    bool reached = announce_sleep(target); /* sleep 2 and 3 */
    if (target->ready(target->context)) /* sleep 4 */
        return 0;
    int64_t cap = reached && target->others_wake(target->context) ? wait_cap(target->room, began) : SHORT_CAP_NS;
    uint64_t count;
    int error = 0;
    fork_lock();
    bool listed = self->next != NULL;
    if (!listed)
        link_in(self);
    if (!running && (error = start_helper()) != 0) {
        take_out(self);
    } else {
        if (!self->armed) {
            while (read(self->fd, &count, sizeof count) < 0 && errno == EINTR) {
            }
            self->armed = true;
        }
        self->target = *target;
        self->sequence = sequence;
        self->cap = cap;
        self->until = now_ns() + cap;
        if (target->until != 0 && target->until < self->until)
            self->until = target->until;
        if (!listed || self->listed != sequence || self->until < helper_until)
            wake_helper();
    }
    fork_unlock();
    if (error == 0)
        return 1;
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

bool notifier_found_nameless(notifier *self)
{
    fork_lock();
    bool found = self->nameless;
    self->nameless = false;
    fork_unlock();
    return found;
}

bool notifier_is_armed(notifier *self)
{
    fork_lock();
    bool armed = self->armed;
    fork_unlock();
    return armed;
}

void notifier_stop(notifier *self)
{
    fork_lock();
    if (self->next != NULL)
        take_out(self);
    make_readable(self);
    if (running && all.next == &all)
        wake_helper(); /* so that it ends */
    fork_unlock();
}

void notifier_free(notifier *self)
{
    if (self == NULL)
        return;
    notifier_stop(self);
    close(self->fd);
    free(self);
}
