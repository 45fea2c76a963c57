/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the race test share: messages that can be checked
 * alone. */
#ifndef FLYRING_RACE_H
#define FLYRING_RACE_H

#include <stdint.h>

enum { CAPACITY = 4096, MESSAGES = 20000, LONGEST = 300 };

typedef struct {
    uint8_t *data, *gate;
    int64_t *epoch;
    int64_t alignment;
} reader_start;

/* The subscriber's thread: reads MESSAGES messages and checks each. */
void *read_all(void *start);
_Noreturn void stop(const char *what, int64_t wanted, int64_t got);

static inline int64_t length_of(int64_t sequence)
{
    return sequence % 4 == 0 ? sequence * 37 % LONGEST : sequence * 7 % 57;
}

/* The same for eight in a row: a batch has one type. */
static inline int32_t type_of(int64_t sequence)
{
    return (int32_t)(1 + sequence / 8 % 1000);
}

static inline uint8_t byte_of(int64_t sequence, int64_t at)
{
    return (uint8_t)(sequence * 31 + at * 7 + (sequence >> 8));
}

static inline void fill(uint8_t *payload, int64_t sequence)
{
    for (int64_t at = 0; at < length_of(sequence); at++)
        payload[at] = byte_of(sequence, at);
}

#endif
