/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a cell, inline, so that a caller's own `take` is compiled into it. Numbers in parentheses are sections of
   spec/table.md; "read 1" is step 1 of its operation read. */
#ifndef FLYRING_TABLE_READING_H
#define FLYRING_TABLE_READING_H

#include "table.h"

#define TRIES_BEFORE_CLOCK 64 /* the clock is read after each so many tries */

/* Whether a read that begins again has taken longer than TABLE_READ_LIMIT. *began: 0 at the first call. */
bool table_read_is_over(int64_t *began);

/* Whether the cell's key at `at` is `key`. It is read in words, because another process may be overwriting it. */
static inline bool same_key(const uint8_t *at, const table_key *key)
{
    int32_t i = 0;
    for (; i + 8 <= key->length; i += 8) {
        int64_t word;
        memcpy(&word, key->bytes + i, 8);
        if (LOAD64_RELAXED((void *)(at + i)) != word)
            return false;
    }
    if (i == key->length)
        return true;
    int64_t word = LOAD64_RELAXED((void *)(at + i)), wanted = 0;
    memcpy(&wanted, key->bytes + i, (size_t)(key->length - i));
    return (word & (int64_t)(UINT64_MAX >> (8 * (8 - (key->length - i))))) == wanted;
}

/* The same as table_read. */
ALWAYS_INLINE table_result table_read_inline(const table_map *map, int64_t number, const table_key *key,
                                             table_reading *reading, table_taker take)
{
    uint8_t *cell = cell_at(map, number);
    int64_t began = 0;
    /* The cell's version says which body is read. Both are fetched now, at the same time as the version. */
    __builtin_prefetch(body_at(map, cell, 0));
    __builtin_prefetch(body_at(map, cell, 1));
    reading->cell = number;
    for (int tries = 0;; tries++) {
        if (UNLIKELY(tries > 0 && (reading->slow || tries % TRIES_BEFORE_CLOCK == 0)) && table_read_is_over(&began))
            return TABLE_BUSY;
        int64_t version = LOAD64_ACQUIRE(cell + TABLE_CELL_VERSION); /* read 1; pairs with write 5 */
        if (version <= 0)
            return TABLE_ABSENT;
        uint8_t *body = body_at(map, cell, version);
        int64_t seq = LOAD64_ACQUIRE(body + TABLE_BODY_SEQ); /* read 2; pairs with write 4 and 5 */
        if (UNLIKELY(seq < 0))
            return TABLE_ABSENT; /* not valid: the cell counts as not live (10) */
        if (seq != version)
            continue;
        int32_t key_length = LOAD32_RELAXED(cell + TABLE_CELL_KEY_LENGTH); /* read 3 */
        bool same = key == NULL || (key_length == key->length && same_key(cell + TABLE_CELL_KEY, key));
        bool valid_key = key_length >= 0 && key_length <= map->key_bytes;
        int32_t length = LOAD32_RELAXED(body + TABLE_BODY_LENGTH);
        if (LIKELY(same && valid_key && length >= 0 && length <= map->value_bytes)) {
            if (reading->key != NULL)
                copy_words(reading->key, cell + TABLE_CELL_KEY, key_length);
            if (take != NULL && !take(reading, body + TABLE_BODY_VALUE, length))
                return TABLE_FAILED;
        }
        FENCE_ACQUIRE();
        if (UNLIKELY(LOAD64_RELAXED(body + TABLE_BODY_SEQ) != version)) /* read 4 */
            continue;
        if (!valid_key)
            return TABLE_CORRUPT;
        if (!same || length == TABLE_REMOVED)
            return TABLE_ABSENT;
        if (length < 0 || length > map->value_bytes)
            return TABLE_CORRUPT;
        reading->version = version;
        reading->key_length = key_length;
        reading->length = length;
        return TABLE_FOUND;
    }
}

#endif
