/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes and checksums: xxHash64 of keys (spec/table.md 2.4), CRC-32C of headers and bodies. */
#ifndef FLYRING_HASH_H
#define FLYRING_HASH_H

#include <stddef.h>
#include <stdint.h>

/* xxHash64 with seed 0 (https://xxhash.com, BSD 2-Clause specification). */
uint64_t hash_of(const void *bytes, size_t length);

#define CRC_BEGIN UINT32_C(0xFFFFFFFF)
/* Add bytes to a CRC-32C (Castagnoli, reflected). It begins with CRC_BEGIN; crc_end gives the result. */
uint32_t crc_add(uint32_t crc, const void *bytes, size_t length);
static inline uint32_t crc_end(uint32_t crc)
{
    return crc ^ CRC_BEGIN;
}
/* Called when the module is loaded. */
void crc_load(void);

#endif
