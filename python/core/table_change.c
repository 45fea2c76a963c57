/* SPDX-License-Identifier: Apache-2.0 */
/* Taking the writer's slot, put, insert, remove and rebuild. Only the slot's owner writes these words. A broken process
   may have written others, so each word is checked before it is used (10). Numbers in parentheses are sections of
   spec/table.md; "write 5" is step 5 of its operation write. */
#define _DEFAULT_SOURCE /* msync */
#include "table.h"

#include <sys/mman.h>
#include <unistd.h>

#define WORD64(name) LOAD64_RELAXED(map->control + (name))
#define SET64(name, value) STORE64_RELAXED(map->control + (name), value)
#define WORD32(name) ((uint32_t)LOAD32_RELAXED(map->control + (name)))
#define SET32(name, value) STORE32_RELAXED(map->control + (name), value)

static change_result corrupt(table_change *change, int64_t cell, const char *reason)
{
    change->corrupt = cell;
    change->reason = reason;
    return CHANGE_CORRUPT;
}

bool table_sync_control(const table_map *map)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = (size_t)(map->control - map->base) / page * page;
    return msync(map->base + begin, (size_t)(map->control - map->base) + TABLE_CONTROL_LENGTH - begin, MS_SYNC) == 0;
}

bool table_set_clean(const table_map *map, int32_t clean)
{
    SET32(TABLE_CONTROL_CLEAN, clean != 0 ? 1 : 2);
    if (!table_sync_control(map))
        return false;
    if (clean == 0) /* only after 2 is synced, because this process may be killed in between (take 2) */
        SET32(TABLE_CONTROL_CLEAN, 0);
    return true;
}

uint32_t body_crc(const uint8_t *key, int32_t key_length, int64_t seq, const void *value, int32_t length)
{
    uint32_t crc = crc_add(CRC_BEGIN, &key_length, sizeof key_length);
    crc = crc_add(crc, key, (size_t)key_length);
    crc = crc_add(crc, &seq, sizeof seq);
    crc = crc_add(crc, &length, sizeof length);
    return crc_end(length > 0 ? crc_add(crc, value, (size_t)length) : crc);
}

/* Store bytes as words of 8 bytes; the last word is padded with zeros. */
static void store_words(uint8_t *to, const uint8_t *from, int64_t length)
{
    int64_t at = 0, word;
    for (; at + 8 <= length; at += 8) {
        memcpy(&word, from + at, 8);
        STORE64_RELAXED(to + at, word);
    }
    if (at < length) {
        word = 0;
        memcpy(&word, from + at, (size_t)(length - at));
        STORE64_RELAXED(to + at, word);
    }
}

/* The index */

/* The next step of a rebuild; 0: none is under way. */
static int64_t rebuild_at(const table_map *map)
{
    int64_t rebuild = WORD64(TABLE_CONTROL_REBUILD);
    return rebuild >= 0 && rebuild <= 2 * map->entries + 1 ? rebuild : 0; /* a wrong word counts as 0 (10) */
}

/* Which copy of the index is current. */
static int current(const table_map *map)
{
    return (int)(WORD64(TABLE_CONTROL_GENERATION) & 1);
}

/* How many copies of the index a change must store into: both while a rebuild moves entries (5). */
static int copies(const table_map *map)
{
    return rebuild_at(map) > map->entries ? 2 : 1;
}

static uint64_t entry_at(const table_map *map, int copy, int64_t at)
{
    return (uint64_t)LOAD64_RELAXED(map->index[copy] + 8 * at);
}

/* The place of an entry in a copy of the index; -1: it is not there. */
static int64_t entry_place(const table_map *map, int copy, uint64_t entry)
{
    int64_t at = entry_home(map, entry >> 32);
    for (int64_t looked = 0; looked < map->entries; looked++, at = entry_next(map, at)) {
        uint64_t found = entry_at(map, copy, at);
        if (found == 0)
            return -1;
        if (found == entry)
            return at;
    }
    return -1;
}

/* The place of the first empty entry (with `reuse` also: tombstone) in the search for this entry; -1: none. */
static int64_t free_place(const table_map *map, int copy, uint64_t entry, bool reuse)
{
    int64_t at = entry_home(map, entry >> 32);
    for (int64_t looked = 0; looked < map->entries; looked++, at = entry_next(map, at)) {
        uint64_t found = entry_at(map, copy, at);
        if (found == 0 || (reuse && found == TABLE_TOMBSTONE))
            return at;
    }
    return -1;
}

/* Store an entry at an empty place or a tombstone of a copy. */
static void enter(const table_map *map, int copy, int64_t at, uint64_t entry)
{
    int64_t filled = copy == 0 ? TABLE_CONTROL_FILLED : TABLE_CONTROL_FILLED_OTHER;
    if (entry_at(map, copy, at) == 0)
        SET64(filled, (int64_t)((uint64_t)WORD64(filled) + 1)); /* before the entry is used; any number is valid (10) */
    STORE64_RELEASE(map->index[copy] + 8 * at, entry);
}

/* Replace the entry by a tombstone wherever it is (remove 3, take 3). */
static void bury(const table_map *map, uint64_t entry)
{
    int first = current(map), count = copies(map);
    for (int i = 0; i < count; i++) {
        int copy = first ^ i;
        int64_t at = entry_home(map, entry >> 32);
        for (int64_t looked = 0; looked < map->entries; looked++, at = entry_next(map, at)) {
            uint64_t found = entry_at(map, copy, at);
            if (found == 0)
                break;
            if (found == entry)
                STORE64_RELEASE(map->index[copy] + 8 * at, TABLE_TOMBSTONE); /* pairs with find 2 */
        }
    }
}

/* Do one step of a rebuild (7). Returns whether the rebuild goes on. */
static bool rebuild_step(const table_map *map)
{
    int64_t rebuild = rebuild_at(map), n = map->entries;
    int old = current(map), other = old ^ 1;
    if (rebuild == 0) {
        FENCE_RELEASE(); /* rebuild 0: after the last flip; pairs with find 5 */
        SET64(other == 0 ? TABLE_CONTROL_FILLED : TABLE_CONTROL_FILLED_OTHER, 0);
        SET64(TABLE_CONTROL_REBUILD, 1);
    } else if (rebuild <= n) {
        STORE64_RELAXED(map->index[other] + 8 * (rebuild - 1), 0);
        SET64(TABLE_CONTROL_REBUILD, rebuild + 1);
    } else if (rebuild <= 2 * n) {
        uint64_t entry = entry_at(map, old, rebuild - n - 1);
        if (entry_cell(map, entry) >= 0 && entry_place(map, other, entry) < 0) {
            int64_t at = free_place(map, other, entry, false);
            if (at >= 0)
                enter(map, other, at, entry);
        }
        SET64(TABLE_CONTROL_REBUILD, rebuild + 1);
    } else {
        SET64(TABLE_CONTROL_REBUILD, 0);
        STORE64_RELEASE(map->control + TABLE_CONTROL_GENERATION,
                        (int64_t)((uint64_t)WORD64(TABLE_CONTROL_GENERATION) + 1)); /* pairs with find 1 */
        return false;
    }
    return true;
}

/* Do some steps of a rebuild if one is under way or must begin (7). */
static void rebuild_some(const table_map *map)
{
    int64_t filled = WORD64(current(map) == 0 ? TABLE_CONTROL_FILLED : TABLE_CONTROL_FILLED_OTHER);
    if (LIKELY(rebuild_at(map) == 0 && filled <= map->entries / 4 * 3)) /* N is a multiple of 8 */
        return;
    for (int i = 0; i < TABLE_REBUILD_STEPS && rebuild_step(map); i++) {
    }
}

/* Cells */

/* Whether the cell holds a key. For the writer, which no process disturbs. */
static bool is_live(const table_map *map, int64_t number)
{
    uint8_t *cell = cell_at(map, number);
    int64_t version = LOAD64_RELAXED(cell + TABLE_CELL_VERSION);
    return version > 0 && LOAD32_RELAXED(body_at(map, cell, version) + TABLE_BODY_LENGTH) >= 0;
}

/* Push a cell that is not live, and that no entry leads to, on the stack of free cells (remove 4). */
void table_free_cell(const table_map *map, int64_t cell)
{
    uint8_t *at = cell_at(map, cell);
    int64_t version = LOAD64_RELAXED(at + TABLE_CELL_VERSION);
    STORE64_RELAXED(body_at(map, at, ~version) + TABLE_BODY_SEQ, 0); /* else a removal that was synced is undone */
    STORE32_RELAXED(cell_at(map, cell) + TABLE_CELL_NEXT, WORD32(TABLE_CONTROL_TOP));
    STORE32_RELEASE(map->control + TABLE_CONTROL_TOP, (uint32_t)(cell + 1)); /* remove 4: after next */
}

/* The next cell that may be used; `cells` if there is none. */
static int64_t next_usable(const table_map *map, int64_t cell)
{
    do
        cell++;
    while (cell < map->cells && !cell_is_usable(map, cell));
    return cell;
}

static change_result check_stamp(table_change *change)
{
    const table_map *map = change->map;
    int64_t stamp = WORD64(TABLE_CONTROL_STAMP);
    if (LIKELY(stamp >= 0 && stamp <= TABLE_MOST_STAMP))
        return CHANGE_DONE;
    return corrupt(change, -1, "the number of the last change (stamp) is out of range");
}

/* Check that the top of the stack of free cells is valid (10). */
static change_result check_top(table_change *change)
{
    const table_map *map = change->map;
    int64_t top = WORD32(TABLE_CONTROL_TOP), fresh = WORD32(TABLE_CONTROL_FRESH);
    if (top == 0)
        return CHANGE_DONE;
    if (top > fresh || fresh > map->cells || !cell_is_usable(map, top - 1))
        return corrupt(change, -1, "the stack of free cells (top) leads to a cell that is not free");
    if (is_live(map, top - 1))
        return corrupt(change, top - 1, "it is on the stack of free cells, but holds a key");
    return CHANGE_DONE;
}

/* Write 1 to 5 of a value, or of a removal (length -1). key: the new key of the cell (insert), else NULL. */
static void write_cell(table_change *change, int64_t number, const table_key *key, const void *value, int32_t length)
{
    const table_map *map = change->map;
    uint8_t *cell = cell_at(map, number);
    int64_t stamp = WORD64(TABLE_CONTROL_STAMP) + 1;
    SET64(TABLE_CONTROL_STAMP, stamp); /* write 1: before version */
    int64_t version = (int64_t)((uint64_t)stamp << 1) | (1 - (LOAD64_RELAXED(cell + TABLE_CELL_VERSION) & 1));
    uint8_t *body = body_at(map, cell, version);
    STORE64_RELAXED(body + TABLE_BODY_SEQ, 0); /* write 2 */
    FENCE_RELEASE(); /* pairs with read 4 */
    if (key != NULL) { /* write 3 */
        STORE32_RELAXED(cell + TABLE_CELL_KEY_LENGTH, key->length);
        store_words(cell + TABLE_CELL_KEY, key->bytes, key->length);
    }
    if (length > 0)
        store_words(body + TABLE_BODY_VALUE, value, length);
    STORE32_RELAXED(body + TABLE_BODY_LENGTH, length);
    uint32_t crc = 0;
    if (map->checked) {
        int32_t key_length = LOAD32_RELAXED(cell + TABLE_CELL_KEY_LENGTH);
        key_length = key_length < 0 ? 0 : key_length > map->key_bytes ? map->key_bytes : key_length;
        crc = key != NULL ? body_crc(key->bytes, key->length, version, value, length)
                          : body_crc(cell + TABLE_CELL_KEY, key_length, version, value, length);
    }
    STORE32_RELAXED(body + TABLE_BODY_CRC, crc);
    STORE64_RELAXED(body + TABLE_BODY_SEQ, version); /* write 4 */
    STORE64_RELEASE(cell + TABLE_CELL_VERSION, version); /* write 5; pairs with read 1 */
    change->version = version;
}

/* Wake the processes that sleep on a pair of words, if there are any. */
static void wake(const table_change *change, waiting_words words)
{
    const waker one = {words.asleep, words, change->registered};
    if (UNLIKELY((LOAD32_RELAXED(words.asleep) & 1) != 0))
        wake_now(&one, 1);
}

static void store_changed(const table_map *map)
{
    STORE64_RELEASE(map->control + TABLE_CONTROL_CHANGED, WORD64(TABLE_CONTROL_STAMP)); /* write 6 */
}

/* End a change: wake the sleepers of the cell, then those of the table (8), and do some steps of a rebuild (7). */
static change_result end_change(table_change *change, int64_t cell)
{
    if (change->wakes) {
        if (change->registered)
            FENCE_COMPILER(); /* channel.md 6.16: the sleeper's membarrier makes this a full fence */
        else
            FENCE_SEQ_CST();
        wake(change, cell_words(cell_at(change->map, cell)));
        wake(change, table_words(change->map));
    }
    rebuild_some(change->map);
    return CHANGE_DONE;
}

/* Check, before a change, that this writer still has the slot (4), and that the stamp is valid. */
static change_result begin_change(table_change *change)
{
    const table_map *map = change->map;
    if (UNLIKELY(LOAD64_RELAXED(map->control + TABLE_CONTROL_SLOT + PUBLISHER_SLOT_EPOCH) != change->epoch))
        return CHANGE_LOST;
    return check_stamp(change);
}

/* The error of a reading that has failed. No other process can write, so BUSY means that the table is damaged. */
static change_result not_readable(table_change *change, table_result result, const table_reading *reading)
{
    if (result != TABLE_BUSY)
        return corrupt(change, reading->cell, "the length of its key or value is out of range");
    return corrupt(change, reading->cell,
                   reading->cell < 0 ? "the index changes, although no other process can write"
                                     : "the number of its value (seq) stays different from its version");
}

/* Find a key for a change. Sets *there. */
static change_result find_own(table_change *change, const table_key *key, table_reading *reading, bool *there)
{
    table_result result = table_find(change->map, key, reading);
    switch (result) {
    case TABLE_FOUND:
        *there = true;
        return CHANGE_DONE;
    case TABLE_ABSENT:
        *there = false;
        return CHANGE_DONE;
    default:
        return not_readable(change, result, reading);
    }
}

/* Put a key that is absent. */
static change_result insert(table_change *change, const table_key *key, const void *value, int32_t length)
{
    const table_map *map = change->map;
    int64_t top = WORD32(TABLE_CONTROL_TOP), fresh = WORD32(TABLE_CONTROL_FRESH), cell = top > 0 ? top - 1 : fresh;
    int64_t next = 0, size = WORD64(TABLE_CONTROL_SIZE);
    if (fresh > map->cells || (fresh < map->cells && !cell_is_usable(map, fresh)))
        return corrupt(change, -1, "the number of the first unused cell (fresh) is not that of a usable cell");
    change_result result = check_top(change);
    if (result != CHANGE_DONE)
        return result;
    if (cell == map->cells)
        return CHANGE_FULL;
    if (is_live(map, cell))
        return corrupt(change, cell, "it is marked as never used (fresh), but holds a key");
    if (top > 0) {
        next = (uint32_t)LOAD32_RELAXED(cell_at(map, cell) + TABLE_CELL_NEXT);
        if (next > 0 && (next > fresh || !cell_is_usable(map, next - 1)))
            return corrupt(change, cell, "the stack of free cells (next) leads to a cell that is not free");
    }
    uint64_t entry = entry_make(key->fingerprint, cell);
    int first = current(map), count = copies(map);
    int64_t places[2];
    for (int i = 0; i < count; i++) {
        places[i] = free_place(map, first ^ i, entry, true);
        if (places[i] < 0)
            return corrupt(change, -1, "the index has no empty entry");
    }
    SET64(TABLE_CONTROL_INTENT_SIZE, (int64_t)((uint64_t)size + 1)); /* insert 1 */
    STORE64_RELEASE(map->control + TABLE_CONTROL_INTENT, entry);
    if (top > 0) /* insert 2: after the intent */
        STORE32_RELEASE(map->control + TABLE_CONTROL_TOP, (uint32_t)next);
    else
        STORE32_RELEASE(map->control + TABLE_CONTROL_FRESH, (uint32_t)next_usable(map, cell));
    for (int i = 0; i < count; i++) /* insert 3 */
        enter(map, first ^ i, places[i], entry);
    write_cell(change, cell, key, value, length); /* insert 4 */
    store_changed(map);
    SET64(TABLE_CONTROL_SIZE, (int64_t)((uint64_t)size + 1)); /* insert 5 */
    STORE64_RELEASE(map->control + TABLE_CONTROL_INTENT, 0);
    return end_change(change, cell);
}

change_result table_put(table_change *change, const table_key *key, const void *value, int32_t length, int64_t expected)
{
    table_reading reading = {0};
    bool there;
    if (UNLIKELY(LOAD64_RELAXED(change->map->control + TABLE_CONTROL_SLOT + PUBLISHER_SLOT_EPOCH) != change->epoch))
        return CHANGE_LOST;
    change_result result = find_own(change, key, &reading, &there);
    if (result != CHANGE_DONE)
        return result;
    if (expected != ANY_VERSION && expected != (there ? reading.version : 0))
        return CHANGE_NOT;
    if ((result = begin_change(change)) != CHANGE_DONE)
        return result;
    if (!there)
        return insert(change, key, value, length);
    write_cell(change, reading.cell, NULL, value, length);
    store_changed(change->map);
    return end_change(change, reading.cell);
}

/* Remove a key that `cell` holds. */
static change_result remove_found(table_change *change, const table_key *key, int64_t cell)
{
    const table_map *map = change->map;
    change_result result = begin_change(change);
    if (result != CHANGE_DONE || (result = check_top(change)) != CHANGE_DONE)
        return result;
    int64_t size = WORD64(TABLE_CONTROL_SIZE);
    uint64_t entry = entry_make(key->fingerprint, cell);
    SET64(TABLE_CONTROL_INTENT_SIZE, size); /* remove 1 */
    STORE64_RELEASE(map->control + TABLE_CONTROL_INTENT, entry);
    write_cell(change, cell, NULL, NULL, TABLE_REMOVED); /* remove 2 */
    bury(map, entry); /* remove 3 */
    table_free_cell(map, cell); /* remove 4 */
    store_changed(map);
    SET64(TABLE_CONTROL_SIZE, (int64_t)((uint64_t)size - 1)); /* remove 5 */
    STORE64_RELEASE(map->control + TABLE_CONTROL_INTENT, 0);
    return end_change(change, cell);
}

change_result table_remove(table_change *change, const table_key *key)
{
    table_reading reading = {0};
    bool there;
    if (UNLIKELY(LOAD64_RELAXED(change->map->control + TABLE_CONTROL_SLOT + PUBLISHER_SLOT_EPOCH) != change->epoch))
        return CHANGE_LOST;
    change_result result = find_own(change, key, &reading, &there);
    if (result != CHANGE_DONE)
        return result;
    return there ? remove_found(change, key, reading.cell) : CHANGE_NOT;
}

change_result table_remove_cell(table_change *change, int64_t cell)
{
    uint8_t bytes[TABLE_MAX_KEY_BYTES];
    table_reading reading = {.key = bytes};
    if (!cell_is_usable(change->map, cell))
        return CHANGE_NOT;
    table_result result = table_read(change->map, cell, NULL, &reading);
    switch (result) {
    case TABLE_FOUND:
        break;
    case TABLE_ABSENT:
        return CHANGE_NOT;
    default:
        return not_readable(change, result, &reading);
    }
    table_key key = table_key_make(bytes, reading.key_length);
    return remove_found(change, &key, cell);
}

/* Complete the change that a dead writer has begun (take 3). */
static change_result finish_intent(table_change *change, uint64_t intent)
{
    const table_map *map = change->map;
    int64_t cell = entry_cell(map, intent), fresh = WORD32(TABLE_CONTROL_FRESH);
    int64_t size = WORD64(TABLE_CONTROL_INTENT_SIZE);
    if (cell < 0)
        return CHANGE_DONE; /* a wrong word counts as 0 (10) */
    if (is_live(map, cell)) {
        SET64(TABLE_CONTROL_SIZE, size);
        return CHANGE_DONE;
    }
    change_result result = check_top(change);
    if (result != CHANGE_DONE)
        return result;
    bury(map, intent);
    if (WORD32(TABLE_CONTROL_TOP) != (uint32_t)(cell + 1) && cell < fresh)
        table_free_cell(map, cell);
    SET64(TABLE_CONTROL_SIZE, (int64_t)((uint64_t)size - 1));
    return CHANGE_DONE;
}

change_result table_take(table_change *change, bool held)
{
    const table_map *map = change->map;
    uint8_t *slot = map->control + TABLE_CONTROL_SLOT;
    int64_t epoch = LOAD64_RELAXED(slot + PUBLISHER_SLOT_EPOCH);
    if (UNLIKELY(WORD32(TABLE_CONTROL_CLEAN) != 0) && !table_set_clean(map, 0)) /* take 2 */
        return CHANGE_UNSYNCED;
    change->epoch = epoch >= 0 && epoch < MAX_EPOCH ? epoch + 1 : 1; /* channel.md 9 */
    STORE32_RELAXED(slot + PUBLISHER_SLOT_CLOSED, 0);
    STORE64_RELAXED(slot + PUBLISHER_SLOT_WAKES, change->wakes ? change->epoch : 0);
    STORE64_RELEASE(slot + PUBLISHER_SLOT_EPOCH, change->epoch); /* take 3 */
    change_result result = check_stamp(change);
    uint64_t intent = (uint64_t)WORD64(TABLE_CONTROL_INTENT);
    if (UNLIKELY(result == CHANGE_DONE && intent != 0))
        result = finish_intent(change, intent);
    if (result != CHANGE_DONE)
        return result;
    bool publish = WORD64(TABLE_CONTROL_CHANGED) != WORD64(TABLE_CONTROL_STAMP);
    if (publish)
        store_changed(map); /* take 4 */
    if (intent != 0)
        STORE64_RELEASE(map->control + TABLE_CONTROL_INTENT, 0);
    /* If this owner does not wake, sleepers must learn of it: they look more often then (8). */
    if (held || publish || !change->wakes)
        wake_all(table_words(map));
    return CHANGE_DONE;
}
