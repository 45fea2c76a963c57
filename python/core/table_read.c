/* SPDX-License-Identifier: Apache-2.0 */
/* Find and read (spec/table.md 6). "find 5" is step 5 of the operation find there. */
#include "table_reading.h"

COLD bool table_read_is_over(int64_t *began)
{
    int64_t now = now_ns();
    *began = *began == 0 ? now : *began;
    pause_cpu();
    return now - *began > TABLE_READ_LIMIT;
}

table_result table_read(const table_map *map, int64_t number, const table_key *key, table_reading *reading)
{
    return table_read_inline(map, number, key, reading, reading->take);
}

table_result table_find(const table_map *map, const table_key *key, table_reading *reading)
{
    for (int64_t began = 0;;) {
        int64_t generation = LOAD64_ACQUIRE(map->control + TABLE_CONTROL_GENERATION); /* find 1; pairs with rebuild 3 */
        const uint8_t *copy = map->index[generation & 1];
        int64_t at = entry_home(map, key->fingerprint);
        for (int64_t looked = 0; looked < map->entries; looked++, at = entry_next(map, at)) {
            uint64_t entry = (uint64_t)LOAD64_ACQUIRE((void *)(copy + 8 * at)); /* find 2; pairs with remove 3 */
            if (entry == 0)
                break;
            int64_t cell;
            if ((uint32_t)(entry >> 32) != key->fingerprint || (cell = entry_cell(map, entry)) < 0)
                continue;
            table_result result = table_read(map, cell, key, reading); /* find 3 */
            if (result != TABLE_ABSENT)
                return result; /* else find 4: the next entry */
        }
        FENCE_ACQUIRE();
        if (LIKELY(LOAD64_RELAXED(map->control + TABLE_CONTROL_GENERATION) == generation)) /* find 5 */
            return TABLE_ABSENT;
        if (table_read_is_over(&began)) {
            reading->cell = -1;
            return TABLE_BUSY;
        }
    }
}

bool table_writer_wakes(const table_map *map)
{
    const uint8_t *slot = map->control + TABLE_CONTROL_SLOT;
    int64_t epoch = LOAD64_ACQUIRE((void *)(slot + PUBLISHER_SLOT_EPOCH)); /* pairs with take 3 */
    return epoch <= 0 || epoch > MAX_EPOCH || LOAD32_RELAXED((void *)(slot + PUBLISHER_SLOT_CLOSED)) != 0 ||
           LOAD64_RELAXED((void *)(slot + PUBLISHER_SLOT_WAKES)) == epoch;
}
