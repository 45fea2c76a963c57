/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#include <string.h>

#define P1 UINT64_C(0x9E3779B185EBCA87)
#define P2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define P3 UINT64_C(0x165667B19E3779F9)
#define P4 UINT64_C(0x85EBCA77C2B2AE63)
#define P5 UINT64_C(0x27D4EB2F165667C5)
#define CASTAGNOLI UINT32_C(0x82F63B78)

static inline uint64_t rotate(uint64_t word, int by)
{
    return word << by | word >> (64 - by);
}

static inline uint64_t eight(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

static inline uint64_t step(uint64_t lane, uint64_t word)
{
    return rotate(lane + word * P2, 31) * P1;
}

static inline uint64_t merge(uint64_t hash, uint64_t lane)
{
    return (hash ^ step(0, lane)) * P1 + P4;
}

uint64_t hash_of(const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    size_t left = length;
    uint64_t hash = P5;
    if (length >= 32) {
        uint64_t a = P1 + P2, b = P2, c = 0, d = 0 - P1;
        for (; left >= 32; left -= 32, at += 32) {
            a = step(a, eight(at));
            b = step(b, eight(at + 8));
            c = step(c, eight(at + 16));
            d = step(d, eight(at + 24));
        }
        hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
        hash = merge(merge(merge(merge(hash, a), b), c), d);
    }
    hash += length;
    for (; left >= 8; left -= 8, at += 8)
        hash = rotate(hash ^ step(0, eight(at)), 27) * P1 + P4;
    if (left >= 4) {
        uint32_t four;
        memcpy(&four, at, 4);
        hash = rotate(hash ^ four * P1, 23) * P2 + P3;
        left -= 4;
        at += 4;
    }
    for (; left > 0; left--, at++)
        hash = rotate(hash ^ *at * P5, 11) * P1;
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}

static uint32_t tables[8][256]; /* tables[k][b]: what byte b does to the crc of k bytes later */

void crc_load(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (CASTAGNOLI & (0 - (crc & 1)));
        tables[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (int byte = 0; byte < 256; byte++)
            tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 255];
    }
}

uint32_t crc_add(uint32_t crc, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    for (; length >= 8; length -= 8, at += 8) {
        uint64_t word = eight(at) ^ crc;
        crc = tables[7][word & 255] ^ tables[6][word >> 8 & 255] ^ tables[5][word >> 16 & 255] ^
              tables[4][word >> 24 & 255] ^ tables[3][word >> 32 & 255] ^ tables[2][word >> 40 & 255] ^
              tables[1][word >> 48 & 255] ^ tables[0][word >> 56];
    }
    for (; length > 0; length--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 255];
    return crc;
}
