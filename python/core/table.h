/* SPDX-License-Identifier: Apache-2.0 */
/* The table in mapped memory: cells, the index, finding, reading and changing. The functions here do not use Python.
   Numbers in parentheses are sections of spec/table.md; "write 5" is step 5 of its operation write. */
#ifndef FLYRING_TABLE_H
#define FLYRING_TABLE_H

#include "atomics.h"
#include "hash.h"
#include "layout.h"
#include "waiting.h"

/* A mapped table. Its dimensions come from the checked header. */
typedef struct {
    uint8_t *base; /* the address of the mapping */
    uint8_t *control, *cells_at; /* the addresses of these sections */
    uint8_t *index[2]; /* the addresses of the two copies */
    int32_t key_type, key_bytes, value_bytes;
    bool checked;
    bool one_piece; /* the section of the cells has at most 2^30 bytes */
    int64_t capacity, cells, stride, entries; /* stride: the length of a cell; entries: of one copy of the index */
    int64_t body, body_stride; /* the offset of body 0 in a cell; the distance from body 0 to body 1 */
    int64_t length; /* of the file up to the end of the cells */
} table_map;

/* A key as bytes, with its hash. */
typedef struct {
    const uint8_t *bytes;
    int32_t length;
    uint32_t fingerprint;
} table_key;

static inline table_key table_key_make(const void *bytes, int32_t length)
{
    return (table_key){bytes, length, (uint32_t)(hash_of(bytes, (size_t)length) >> 32)};
}

/* Whether the cell may be used: all its bytes lie in one piece of 2^30 bytes of the section (2). */
static inline bool cell_is_usable(const table_map *map, int64_t cell)
{
    int64_t begin = cell * map->stride;
    return map->one_piece || begin / TABLE_PIECE == (begin + map->stride - 1) / TABLE_PIECE;
}

static inline uint8_t *cell_at(const table_map *map, int64_t cell)
{
    return map->cells_at + cell * map->stride;
}

/* The body that holds, or gets, this version. */
static inline uint8_t *body_at(const table_map *map, uint8_t *cell, int64_t version)
{
    return cell + map->body + (version & 1) * map->body_stride;
}

/* The cell of an entry; -1 if the entry leads nowhere, or to a cell that is never used or does not exist (10). */
static inline int64_t entry_cell(const table_map *map, uint64_t entry)
{
    int64_t cell = (int64_t)(entry & UINT32_MAX) - 1;
    return cell >= 0 && cell < map->cells && cell_is_usable(map, cell) ? cell : -1;
}

static inline uint64_t entry_make(uint32_t fingerprint, int64_t cell)
{
    return (uint64_t)fingerprint << 32 | (uint64_t)(cell + 1);
}

/* The place at which a search for a fingerprint begins, and the place at which it goes on (2.4). */
static inline int64_t entry_home(const table_map *map, uint64_t fingerprint)
{
    return (int64_t)(fingerprint * (uint64_t)map->entries >> 32);
}

static inline int64_t entry_next(const table_map *map, int64_t at)
{
    return at + 1 == map->entries ? 0 : at + 1;
}

static inline waiting_words cell_words(uint8_t *cell)
{
    return (waiting_words){cell + TABLE_CELL_SEQUENCE, cell + TABLE_CELL_ASLEEP};
}

static inline waiting_words table_words(const table_map *map)
{
    return (waiting_words){map->control + TABLE_CONTROL_DATA_SEQUENCE, map->control + TABLE_CONTROL_DATA_ASLEEP};
}

/* Reading (table_read.c) */

typedef enum {
    TABLE_FOUND,
    TABLE_ABSENT,
    TABLE_BUSY, /* the cell or the index changed for a millisecond */
    TABLE_CORRUPT, /* the length of a key or value is not valid; `cell` says where */
    TABLE_FAILED, /* `take` failed */
} table_result;

/* One reading of a cell. `take`, if it is not NULL, is called with the value in place, which another process may be
   overwriting. If the value changed meanwhile, it is called again; only its last call counts. It returns false if it
   failed. */
typedef struct table_reading table_reading;
typedef bool (*table_taker)(table_reading *self, const uint8_t *value, int32_t length);
struct table_reading {
    table_taker take;
    uint8_t *key; /* NULL, or a buffer of key_bytes, rounded up to 8: gets the key of the cell */
    void *context;
    bool slow; /* `take` may take long: the clock is read after each try */
    int64_t cell, version; /* the result */
    int32_t key_length, length; /* the result */
};

/* Read a cell (read 1 to 4). key: the key that the cell must have; NULL: any. ABSENT: the cell has another key or
   none. */
table_result table_read(const table_map *map, int64_t cell, const table_key *key, table_reading *reading);
/* Find a key and read its cell (find 1 to 5). */
table_result table_find(const table_map *map, const table_key *key, table_reading *reading);
/* The first cell that was never used, at most `cells`: where walks over the cells end. */
static inline int64_t table_fresh(const table_map *map)
{
    int64_t fresh = (uint32_t)LOAD32_RELAXED(map->control + TABLE_CONTROL_FRESH);
    return fresh < map->cells ? fresh : map->cells;
}

/* Whether sleepers are woken: true unless the owner of the writer's slot has opted out (8). */
bool table_writer_wakes(const table_map *map);

/* Changing (table_change.c): only the owner of the writer's slot may call these. */

typedef struct {
    table_map *map;
    int64_t epoch; /* of this owner of the slot */
    bool wakes, registered; /* whether changes wake sleepers; the result of register_waker */
    /* The result. */
    int64_t version; /* CHANGE_DONE: the new version of the key */
    int64_t corrupt; /* CHANGE_CORRUPT: the damaged cell, or -1 if the damaged word is in no cell */
    const char *reason; /* CHANGE_CORRUPT: what is damaged */
} table_change;

typedef enum {
    CHANGE_DONE,
    /* No key was changed, because: */
    CHANGE_NOT, /* the condition was not met, or the key to be removed is absent */
    CHANGE_LOST, /* another writer has taken the slot (another epoch) */
    CHANGE_FULL, /* there is no free cell */
    CHANGE_CORRUPT, /* a word of the table is not valid */
    CHANGE_UNSYNCED, /* the control section could not be synced (errno) */
} change_result;

#define ANY_VERSION INT64_C(-1)
#define TABLE_MOST_STAMP ((INT64_C(1) << 62) - 2) /* the largest valid stamp (10) */
/* Put a value (4). expected: the version that the key must have (0: the key must be absent), or ANY_VERSION. */
change_result table_put(table_change *change, const table_key *key, const void *value, int32_t length,
                        int64_t expected);
change_result table_remove(table_change *change, const table_key *key);
/* Remove the key that the cell holds. CHANGE_NOT: it holds none. */
change_result table_remove_cell(table_change *change, int64_t cell);
/* Take 3 and 4; the caller has locked the slot. Sets the epoch. `held`: the writer serves more than one change; all
   sleepers of the table are woken then. */
change_result table_take(table_change *change, bool held);
/* Store `clean`, and sync the control section. False with errno. */
bool table_set_clean(const table_map *map, int32_t clean);
/* Sync the control section. False with errno. */
bool table_sync_control(const table_map *map);
/* Push a cell on the stack of free cells (remove 4). */
void table_free_cell(const table_map *map, int64_t cell);

/* Recovery and copies (table_recover.c) */

/* The state of a recovery (9), which is made in parts. */
typedef struct {
    const table_map *map;
    int phase; /* 0: checks bodies and makes the index, 1: makes the stack, 2: has ended */
    int64_t at; /* the next cell */
    int64_t stamp; /* the largest that was found */
    int64_t end; /* 1 + the last cell whose version is not 0 */
    int64_t size, damaged; /* what these words of the control section become */
    const char *wrong; /* why the table cannot be recovered; NULL: it can */
    int error; /* errno if the control section could not be synced; else 0 */
} table_recovery;

/* Recover the next `cells` cells. Returns whether the recovery has ended; the caller stores the boot id then. */
bool table_recover_some(table_recovery *recovery, int64_t cells);
/* Copy a key with its value and version into a new table, which no process reads yet (for snapshot and grow). If the
   key is there already, the larger version stays. False: no room. */
bool table_add(const table_map *map, const table_key *key, const void *value, int32_t length, int64_t version);
/* The crc of a body (9): of key length and key, seq, value length, and value. */
uint32_t body_crc(const uint8_t *key, int32_t key_length, int64_t seq, const void *value, int32_t length);

#endif
