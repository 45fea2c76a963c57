/* SPDX-License-Identifier: Apache-2.0 */
/* The table in mapped memory (spec/table.md): cells, the index, finding, reading and changing. "write 3", "find 5" and
   so on are steps of that page. The functions here do not use Python. */
#ifndef FLYRING_TABLE_H
#define FLYRING_TABLE_H

#include "atomics.h"
#include "hash.h"
#include "layout.h"
#include "waiting.h"

/* A mapped table. Its dimensions come from the checked header. */
typedef struct {
    uint8_t *base; /* the address of the mapping */
    uint8_t *control, *cells_at; /* of these sections */
    uint8_t *index[2]; /* the two copies */
    int32_t key_type, key_bytes, value_bytes;
    bool checked;
    bool one_piece; /* the cells' section has at most 2^30 bytes */
    int64_t capacity, cells, stride, entries; /* stride: of a cell */
    int64_t body, body_stride; /* of body 0 in a cell; from body 0 to body 1 */
    int64_t length; /* up to the end of the cells */
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

/* Whether all bytes of this cell lie in one piece of the section (2). */
static inline bool cell_is_usable(const table_map *map, int64_t cell)
{
    int64_t begin = cell * map->stride;
    return map->one_piece || begin / TABLE_PIECE == (begin + map->stride - 1) / TABLE_PIECE;
}

static inline uint8_t *cell_at(const table_map *map, int64_t cell)
{
    return map->cells_at + cell * map->stride;
}

static inline uint8_t *body_at(const table_map *map, uint8_t *cell, int64_t version)
{
    return cell + map->body + (version & 1) * map->body_stride;
}

/* The cell of an entry; -1 if it leads nowhere, or to a cell that there is not (10). */
static inline int64_t entry_cell(const table_map *map, uint64_t entry)
{
    int64_t cell = (int64_t)(entry & UINT32_MAX) - 1;
    return cell >= 0 && cell < map->cells && cell_is_usable(map, cell) ? cell : -1;
}

static inline uint64_t entry_make(uint32_t fingerprint, int64_t cell)
{
    return (uint64_t)fingerprint << 32 | (uint64_t)(cell + 1);
}

/* The home of a fingerprint, and the entry behind an entry (2.4). */
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
    TABLE_BUSY, /* the cell changed for a millisecond */
    TABLE_CORRUPT, /* a length that cannot be; `cell` says where */
    TABLE_FAILED, /* the reading's function failed */
} table_result;

/* One reading of a cell. `take`, if there is one, gets the value where it lies, which another process may be
   overwriting; it may be called again with another value if the value changed meanwhile. False: it failed. */
typedef struct table_reading table_reading;
typedef bool (*table_taker)(table_reading *self, const uint8_t *value, int32_t length);
struct table_reading {
    table_taker take;
    uint8_t *key; /* a buffer of key_bytes, rounded up to 8, that gets the cell's key; or NULL */
    void *context;
    bool slow; /* `take` may take long: the clock is read after each try */
    int64_t cell, version; /* the result */
    int32_t key_length, length; /* the result */
};

/* Read a cell (read 1 to 4). key: the key that the cell must have; NULL: any. ABSENT: it has another key, or is not
   live. */
table_result table_read(const table_map *map, int64_t cell, const table_key *key, table_reading *reading);
/* Find a key and read its cell (find 1 to 5). */
table_result table_find(const table_map *map, const table_key *key, table_reading *reading);
/* The first cell that was never used; at most `cells`. For walks. */
static inline int64_t table_fresh(const table_map *map)
{
    int64_t fresh = (uint32_t)LOAD32_RELAXED(map->control + TABLE_CONTROL_FRESH);
    return fresh < map->cells ? fresh : map->cells;
}

/* Whether the slot's owner, if it has one, wakes sleepers (8). */
bool table_writer_wakes(const table_map *map);

/* Changing (table_change.c): only the owner of the slot may call these. */

typedef struct {
    table_map *map;
    int64_t epoch; /* of this owner */
    bool wakes, registered;
    /* The result. */
    int64_t version; /* of a put; 0: the condition was not met, or a removed key was not there */
    int64_t corrupt; /* the cell; -1: no cell's word */
    const char *reason;
} table_change;

typedef enum {
    CHANGE_DONE,
    CHANGE_NOT, /* the condition was not met: nothing was changed */
    CHANGE_LOST, /* another epoch: nothing was changed */
    CHANGE_FULL, /* no space: nothing was changed */
    CHANGE_CORRUPT, /* corrupt table: nothing was changed */
    CHANGE_UNSYNCED, /* the disk did not take the control section (errno): nothing was changed */
} change_result;

#define ANY_VERSION INT64_C(-1)
#define TABLE_MOST_STAMP ((INT64_C(1) << 62) - 2) /* 10 */
/* Put a value (4). expected: the version that the key must have, 0: it must be absent, or ANY_VERSION. */
change_result table_put(table_change *change, const table_key *key, const void *value, int32_t length,
                        int64_t expected);
change_result table_remove(table_change *change, const table_key *key);
/* Remove the key of a cell, whatever it is. NOT: it is not live. */
change_result table_remove_cell(table_change *change, int64_t cell);
/* Take 3 and 4, under the slot's lock; `held`: of a writer that holds the slot, which wakes all. Sets the epoch. */
change_result table_take(table_change *change, bool held);
/* Store `clean`, and write the control section to the disk. False with errno. */
bool table_set_clean(const table_map *map, int32_t clean);
bool table_sync_control(const table_map *map);
/* Put a cell on the stack of free cells (remove 4). */
void table_free_cell(const table_map *map, int64_t cell);

/* Recovery and copies (table_recover.c) */

/* The state of a recovery (9), which goes on where it was stopped. */
typedef struct {
    const table_map *map;
    int phase; /* 0: bodies and index, 1: the stack, 2: has ended */
    int64_t at; /* the next cell */
    int64_t stamp; /* the largest */
    int64_t end; /* behind the last cell whose version is not 0 */
    int64_t size, damaged;
    const char *wrong; /* why it cannot be recovered; NULL: it can */
    int error; /* errno if the disk did not take it; 0: it did */
} table_recovery;

/* Do the next `cells` cells. Returns whether it has ended, but for the boot id. */
bool table_recover_some(table_recovery *recovery, int64_t cells);
/* Put a key with a value and a version into a new table that no process reads: for snapshot and grow. NULL: no room; or
   the cell. Of two values of one key the larger version stays. */
bool table_add(const table_map *map, const table_key *key, const void *value, int32_t length, int64_t version);
/* The crc of a body (9). */
uint32_t body_crc(const uint8_t *key, int32_t key_length, int64_t seq, const void *value, int32_t length);

#endif
