/* SPDX-License-Identifier: Apache-2.0 */
/* The C core's publisher and (poll.c) subscriber as two threads on one memory,
   for ThreadSanitizer: race.py builds and runs it. Under Python the GIL would
   order them, and two processes are beyond ThreadSanitizer: so the core's own
   files are part of this program, and their inner functions are called. The
   publisher's thread is Python's (offers return Python integers); the other one
   never comes near it.

   What it proves: every plain access to the ring is ordered by publish 6 / poll
   1 (the length) and by poll 4 / recompute 2 (the gate), the relaxed stores of
   publish 4 and 9 (clearing) into bytes that the other thread has read as
   payload included. ThreadSanitizer does not model fences: join and lossy reads
   are not in here. */
#include "publisher.h"

/* The clock stands still: no publisher is held back long enough to look for the dead,
 * which would need a file and locks. */
static int64_t no_time(void)
{
    return 0;
}
#define now_ns no_time
#include "batch.c"
#include "claim.c"
#include "offer.c"
#include "reserve.c"
#include "writer.c"

#include "race.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Alignas(4096) uint8_t ring_memory[CAPACITY + 4096];
static int64_t epoch_word = 1;
static Publisher publisher;
/* The header, the control section and the slots, all zero: no successor. */
static _Alignas(8) uint8_t control_memory[8192];
static Memory control = {.base = control_memory, .length = sizeof control_memory};

void stop(const char *what, int64_t wanted, int64_t got)
{
    fprintf(stderr, "FOUND: %s (wanted %lld, got %lld)\n", what, (long long)wanted, (long long)got);
    _Exit(1);
}

static void take_ring(int64_t alignment)
{
    memset(ring_memory, 0, sizeof ring_memory);
    memset(&publisher, 0, sizeof publisher);
    for (int64_t e = 0; e < BOUNDARIES; e++)
        *(int64_t *)(ring_memory + CAPACITY + TRAILER_BOUNDARY + e * TRAILER_BOUNDARY_STRIDE) = e == 0 ? 0 : -1;
    epoch_watch(&publisher.epoch, (const uint8_t *)&epoch_word, 1);
    publisher.waker = waker_make((waiting_words){NULL, NULL}, false);
    publisher.also = publisher.waker.watched;
    publisher.writer.owner_pending = true;
    publisher.memory = &control;
    publisher.shape.control = 4096;
    publisher.writer.name = publisher.name = PyBytes_FromString("race");
    publisher.writer.epoch = 1;
    publisher.writer.base = control_memory;
    publisher.writer.shape = &publisher.shape;
    publisher.writer.look = publisher_look;
    ring_writer *ring = &publisher.writer.ring;
    ring->data = ring_memory;
    ring->trailer = ring_memory + CAPACITY;
    ring->capacity = ring->lag = CAPACITY; /* no lag limit */
    ring->mask = CAPACITY - 1;
    ring->alignment = alignment;
    ring->window = ring_window(CAPACITY, alignment);
    ring->longest = ring->together = CAPACITY / MAX_MESSAGE_DIVISOR;
    ring->boundary_shift = __builtin_ctz(CAPACITY) - 3;
    ring->subscribers = 1;
}

static int64_t number(PyObject *position)
{
    if (position == NULL) {
        PyErr_Print();
        stop("an exception", 0, 0);
    }
    int64_t value = PyLong_AsLongLong(position);
    Py_DECREF(position);
    return value;
}

/* As publisher_claim, without the arguments. */
static bool claim_and_end(int64_t sequence, bool commit)
{
    static Claim claim;
    ring_writer *ring = &publisher.writer.ring;
    int64_t length = length_of(sequence), n = ring_record_size(ring, RECORD_HEADER_LENGTH + length);
    if (publisher_reserve_within(&publisher, n, WAIT_NOT) != 1)
        return false;
    ring_announce(ring, n);
    ring_set_type(ring, type_of(sequence));
    claim = (Claim){.publisher = &publisher, .length = length};
    claim.data = ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD;
    publisher.claim = &claim;
    fill(claim.data, sequence);
    number(publisher_close_claim(&publisher, commit));
    return true;
}

/* How many messages from `sequence` on were published, in one of the ways. */
static int64_t publish(int64_t sequence)
{
    static uint8_t bytes[8][LONGEST];
    if (sequence % 7 == 0)
        claim_and_end(sequence, false);
    if (sequence % 7 <= 1)
        return claim_and_end(sequence, true);
    if (sequence % 7 == 2) {
        Py_buffer views[8];
        batch messages = {views, 0};
        for (int64_t each = sequence; type_of(each) == type_of(sequence); each++, messages.count++) {
            fill(bytes[messages.count], each);
            views[messages.count].buf = bytes[messages.count];
            views[messages.count].len = length_of(each);
        }
        return offer_all(&publisher, &messages, type_of(sequence), WAIT_NOT);
    }
    fill(bytes[0], sequence);
    return number(offer_bytes(&publisher, bytes[0], length_of(sequence), type_of(sequence), WAIT_NOT)) > 0;
}

int main(void)
{
    Py_InitializeEx(0);
    for (int64_t alignment = 8; alignment <= 64; alignment += 56) {
        take_ring(alignment);
        reader_start start = {ring_memory, ring_memory + CAPACITY + gate_offset(0), &epoch_word, alignment};
        *(int64_t *)start.gate = 0;
        pthread_t reader;
        if (pthread_create(&reader, NULL, read_all, &start) != 0)
            stop("no thread", 0, 0);
        for (int64_t sequence = 0; sequence < MESSAGES;) {
            int64_t published = publish(sequence);
            sequence += published;
            if (published == 0)
                usleep(10); /* not sched_yield: a busy machine would take it at its word */
        }
        pthread_join(reader, NULL);
        printf("alignment %lld: %d messages, %lld laps\n", (long long)alignment, MESSAGES,
               (long long)(publisher.writer.ring.end / CAPACITY));
    }
    return 0;
}
