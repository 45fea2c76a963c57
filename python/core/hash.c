/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#include <stdbool.h>
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

static uint32_t crc_by_tables(uint32_t crc, const uint8_t *at, size_t length)
{
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

typedef uint32_t crc_function(uint32_t crc, const uint8_t *at, size_t length);

static crc_function *crc_here = crc_by_tables; /* the fastest on this machine */

#if defined(__x86_64__)
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_WORD(crc, word) (uint32_t)__builtin_ia32_crc32di((crc), (word))
#define CRC_BYTE(crc, byte) __builtin_ia32_crc32qi((crc), (byte))
#elif defined(__aarch64__)
#include <sys/auxv.h>
#define HAS_CRC 128 /* HWCAP_CRC32 */
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC_WORD(crc, word) __builtin_aarch64_crc32cx((crc), (word))
#define CRC_BYTE(crc, byte) __builtin_aarch64_crc32cb((crc), (byte))
#endif

#ifdef CRC_TARGET

#define LANE 1024 /* bytes: the instruction takes three cycles, so three lanes are computed at once */

static uint32_t shifts[4][256]; /* shifts[k][b]: what byte k of a crc becomes behind LANE zeros */

static inline uint32_t behind_a_lane(uint32_t crc)
{
    return shifts[0][crc & 255] ^ shifts[1][crc >> 8 & 255] ^ shifts[2][crc >> 16 & 255] ^ shifts[3][crc >> 24];
}

CRC_TARGET static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *at, size_t length)
{
    for (; length >= 3 * LANE; length -= 3 * LANE, at += 3 * LANE) {
        uint32_t a = crc, b = 0, c = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            a = CRC_WORD(a, eight(at + i));
            b = CRC_WORD(b, eight(at + LANE + i));
            c = CRC_WORD(c, eight(at + 2 * LANE + i));
        }
        crc = behind_a_lane(behind_a_lane(a) ^ b) ^ c;
    }
    for (; length >= 8; length -= 8, at += 8)
        crc = CRC_WORD(crc, eight(at));
    for (; length > 0; length--, at++)
        crc = CRC_BYTE(crc, *at);
    return crc;
}

static bool has_instruction(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
#else
    return (getauxval(AT_HWCAP) & HAS_CRC) != 0;
#endif
}

static void load_shifts(void)
{
    static const uint8_t zeros[LANE];
    for (int k = 0; k < 4; k++) {
        for (int bit = 0; bit < 8; bit++)
            shifts[k][1 << bit] = crc_by_tables(UINT32_C(1) << (8 * k + bit), zeros, sizeof zeros);
        for (int byte = 1; byte < 256; byte++) /* a crc without its ends is linear */
            if ((byte & (byte - 1)) != 0)
                shifts[k][byte] = shifts[k][byte & (byte - 1)] ^ shifts[k][byte & -byte];
    }
}

#endif

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
#ifdef CRC_TARGET
    if (has_instruction()) {
        load_shifts();
        crc_here = crc_by_instruction;
    }
#endif
}

uint32_t crc_add(uint32_t crc, const void *bytes, size_t length)
{
    return crc_here(crc, bytes, length);
}
