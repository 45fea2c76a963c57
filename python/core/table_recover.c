/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery after a reboot (spec/table.md 9), and copies of a table for snapshot and grow. No other process writes or
   reads these words meanwhile. "recover 1" is step 1 of the operation recover there. */
#include "table.h"

#include <errno.h>

#define WORD64(name) LOAD64_RELAXED(map->control + (name))
#define SET64(name, value) STORE64_RELAXED(map->control + (name), value)
#define SET32(name, value) STORE32_RELAXED(map->control + (name), value)

/* Get the key of a cell. False: its length is not valid. */
static bool key_of(const table_map *map, uint8_t *cell, table_key *key)
{
    int32_t length = LOAD32_RELAXED(cell + TABLE_CELL_KEY_LENGTH);
    if (length < 0 || length > map->key_bytes)
        return false;
    *key = table_key_make(cell + TABLE_CELL_KEY, length);
    return true;
}

/* The seq of a body if the body is good (recover 1); else 0. */
static int64_t good_seq(const table_map *map, uint8_t *cell, int number)
{
    uint8_t *body = body_at(map, cell, number);
    int64_t seq = LOAD64_RELAXED(body + TABLE_BODY_SEQ);
    int32_t length = LOAD32_RELAXED(body + TABLE_BODY_LENGTH);
    int32_t key_length = LOAD32_RELAXED(cell + TABLE_CELL_KEY_LENGTH);
    if (seq <= 0 || (seq & 1) != number || length < TABLE_REMOVED || length > map->value_bytes || key_length < 0 ||
        key_length > map->key_bytes)
        return 0;
    uint32_t crc = body_crc(cell + TABLE_CELL_KEY, key_length, seq, body + TABLE_BODY_VALUE, length);
    return crc == (uint32_t)LOAD32_RELAXED(body + TABLE_BODY_CRC) ? seq : 0;
}

/* Make a cell one that holds no key, and no body that a later recovery could use. */
static void clear_cell(const table_map *map, uint8_t *cell)
{
    STORE64_RELAXED(cell + TABLE_CELL_VERSION, 0);
    STORE64_RELAXED(body_at(map, cell, 0) + TABLE_BODY_SEQ, 0);
    STORE64_RELAXED(body_at(map, cell, 1) + TABLE_BODY_SEQ, 0);
}

/* Recover 1 and 2: choose the body of a cell that counts, and set the version to its seq. False: no body is good. */
static bool decide(table_recovery *self, uint8_t *cell)
{
    const table_map *map = self->map;
    int64_t version = LOAD64_RELAXED(cell + TABLE_CELL_VERSION), chosen = 0;
    for (int number = 0; number < 2; number++) {
        int64_t seq = good_seq(map, cell, number);
        self->stamp = seq >> 1 > self->stamp ? seq >> 1 : self->stamp;
        if (version != 0 && seq != 0 && chosen != version && (seq == version || seq > chosen))
            chosen = seq;
    }
    if (chosen != 0) {
        STORE64_RELAXED(cell + TABLE_CELL_VERSION, chosen);
        return true;
    }
    self->damaged += version != 0;
    clear_cell(map, cell); /* recover 3 */
    return false;
}

/* Whether the cell holds no key. */
static bool is_removed(const table_map *map, uint8_t *cell)
{
    int64_t version = LOAD64_RELAXED(cell + TABLE_CELL_VERSION);
    return version <= 0 || LOAD32_RELAXED(body_at(map, cell, version) + TABLE_BODY_LENGTH) < 0;
}

/* The cell with this key, by a search in a copy of the index; -1: none. *place: the place of the empty entry at which
   the search ended; -1: none. */
static int64_t cell_with(const table_map *map, int copy, const table_key *key, int64_t *place)
{
    int64_t at = entry_home(map, key->fingerprint);
    *place = -1;
    for (int64_t looked = 0; looked < map->entries; looked++, at = entry_next(map, at)) {
        uint64_t entry = (uint64_t)LOAD64_RELAXED(map->index[copy] + 8 * at);
        if (entry == 0) {
            *place = at;
            return -1;
        }
        int64_t cell = entry_cell(map, entry);
        table_key other;
        if (cell >= 0 && entry >> 32 == key->fingerprint && key_of(map, cell_at(map, cell), &other) &&
            other.length == key->length && memcmp(other.bytes, key->bytes, (size_t)key->length) == 0)
            return cell;
    }
    return -1;
}

/* Recover 3 and 4: enter a live cell into the index. */
static void enter(table_recovery *self, int64_t number, uint8_t *cell)
{
    const table_map *map = self->map;
    int64_t place = -1;
    table_key key;
    int64_t other = key_of(map, cell, &key) ? cell_with(map, 0, &key, &place) : -1;
    if (other < 0 && place < 0) { /* no room, or a broken process has changed the key since `decide` */
        clear_cell(map, cell);
        return;
    }
    if (other < 0) {
        STORE64_RELAXED(map->index[0] + 8 * place, entry_make(key.fingerprint, number));
        self->size++;
        return;
    }
    if (LOAD64_RELAXED(cell_at(map, other) + TABLE_CELL_VERSION) > LOAD64_RELAXED(cell + TABLE_CELL_VERSION)) {
        clear_cell(map, cell); /* recover 3: one cell a key */
        return;
    }
    clear_cell(map, cell_at(map, other));
    int64_t at = entry_home(map, key.fingerprint);
    uint64_t old = entry_make(key.fingerprint, other);
    for (int64_t looked = 0; looked < map->entries; looked++, at = entry_next(map, at)) {
        if ((uint64_t)LOAD64_RELAXED(map->index[0] + 8 * at) == old) {
            STORE64_RELAXED(map->index[0] + 8 * at, entry_make(key.fingerprint, number));
            return;
        }
    }
}

/* Empty the index, and take the stamp to begin with. */
static void begin(table_recovery *self)
{
    const table_map *map = self->map;
    int64_t stamp = WORD64(TABLE_CONTROL_STAMP);
    self->stamp = stamp >= 0 && stamp <= TABLE_MOST_STAMP ? stamp : 0;
    for (int copy = 0; copy < 2; copy++) {
        for (int64_t at = 0; at < map->entries; at++)
            STORE64_RELAXED(map->index[copy] + 8 * at, 0);
    }
    SET64(TABLE_CONTROL_GENERATION, 0);
    SET64(TABLE_CONTROL_REBUILD, 0);
}

/* Recover 4: set `fresh`, and empty the stack. Then the free cells are pushed, the last one first. */
static void begin_stack(table_recovery *self)
{
    const table_map *map = self->map;
    int64_t end = map->cells;
    while (end > 0 &&
           (!cell_is_usable(map, end - 1) || LOAD64_RELAXED(cell_at(map, end - 1) + TABLE_CELL_VERSION) == 0))
        end--;
    self->end = end;
    while (end < map->cells && !cell_is_usable(map, end))
        end++;
    SET32(TABLE_CONTROL_FRESH, (uint32_t)end);
    SET32(TABLE_CONTROL_TOP, 0);
}

/* Recover 4 and 5: the other words of the control section. */
static void store_control(table_recovery *self)
{
    const table_map *map = self->map;
    SET64(TABLE_CONTROL_FILLED, self->size);
    SET64(TABLE_CONTROL_FILLED_OTHER, 0);
    SET64(TABLE_CONTROL_SIZE, self->size);
    SET64(TABLE_CONTROL_INTENT, 0);
    SET64(TABLE_CONTROL_INTENT_SIZE, 0);
    SET64(TABLE_CONTROL_DAMAGED, self->damaged);
    int64_t stamp = self->stamp + TABLE_RECOVERY_JUMP;
    SET64(TABLE_CONTROL_STAMP, stamp);
    STORE64_RELEASE(map->control + TABLE_CONTROL_CHANGED, stamp);
    if (!table_sync_control(map))
        self->error = errno;
}

bool table_recover_some(table_recovery *self, int64_t cells)
{
    const table_map *map = self->map;
    if (self->phase == 0 && self->at == 0)
        begin(self);
    for (; self->phase == 0 && cells > 0; cells--) {
        uint8_t *cell = cell_at(map, self->at);
        if (cell_is_usable(map, self->at) && decide(self, cell) && !is_removed(map, cell))
            enter(self, self->at, cell);
        if (++self->at == map->cells) {
            if (self->stamp > TABLE_MOST_STAMP - TABLE_RECOVERY_JUMP) {
                self->wrong = "the number of the last change (stamp) is too large to go on";
                return true;
            }
            self->phase = 1;
            begin_stack(self);
            self->at = self->end;
        }
    }
    for (; self->phase == 1 && self->at > 0 && cells > 0; cells--) {
        int64_t number = --self->at;
        if (cell_is_usable(map, number) && is_removed(map, cell_at(map, number)))
            table_free_cell(map, number);
    }
    if (self->phase == 1 && self->at == 0) {
        store_control(self);
        self->phase = 2;
    }
    return self->phase == 2;
}

bool table_add(const table_map *map, const table_key *key, const void *value, int32_t length, int64_t version)
{
    int64_t place, cell = cell_with(map, 0, key, &place);
    int64_t fresh = (uint32_t)LOAD32_RELAXED(map->control + TABLE_CONTROL_FRESH);
    bool is_new = cell < 0;
    if (is_new && (fresh >= map->cells || place < 0))
        return false;
    cell = is_new ? fresh : cell;
    uint8_t *at = cell_at(map, cell), *body = body_at(map, at, version);
    int64_t before = LOAD64_RELAXED(at + TABLE_CELL_VERSION);
    if (!is_new && before >= version)
        return true;
    if (!is_new)
        STORE64_RELAXED(body_at(map, at, before) + TABLE_BODY_SEQ, 0); /* else a recovery could bring it back */
    STORE32_RELAXED(at + TABLE_CELL_KEY_LENGTH, key->length);
    memcpy(at + TABLE_CELL_KEY, key->bytes, (size_t)key->length);
    memset(body + TABLE_BODY_VALUE, 0, (size_t)(map->body_stride - TABLE_BODY_VALUE));
    memcpy(body + TABLE_BODY_VALUE, value, (size_t)length);
    STORE32_RELAXED(body + TABLE_BODY_LENGTH, length);
    STORE32_RELAXED(body + TABLE_BODY_CRC,
                    map->checked ? body_crc(key->bytes, key->length, version, value, length) : 0);
    STORE64_RELAXED(body + TABLE_BODY_SEQ, version);
    STORE64_RELEASE(at + TABLE_CELL_VERSION, version);
    int64_t stamp = version >> 1;
    if (stamp > WORD64(TABLE_CONTROL_STAMP)) {
        SET64(TABLE_CONTROL_STAMP, stamp);
        SET64(TABLE_CONTROL_CHANGED, stamp);
    }
    if (is_new) {
        STORE64_RELAXED(map->index[0] + 8 * place, entry_make(key->fingerprint, cell));
        do
            fresh++;
        while (fresh < map->cells && !cell_is_usable(map, fresh));
        SET32(TABLE_CONTROL_FRESH, (uint32_t)fresh);
        SET64(TABLE_CONTROL_FILLED, WORD64(TABLE_CONTROL_FILLED) + 1);
        SET64(TABLE_CONTROL_SIZE, WORD64(TABLE_CONTROL_SIZE) + 1);
    }
    return true;
}
