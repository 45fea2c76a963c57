// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PARTS = 5, SPEED_TURNS = 20000 };

typedef struct {
    _Alignas(64) _Atomic uint64_t sequence;
    uint64_t payload[3];
} Line;

typedef struct {
    Line ping;
    char gap[192 - sizeof(Line)];  // not the neighbour that the prefetcher brings along
    Line pong;
    _Alignas(512) _Atomic uint32_t arrived;
    _Atomic uint32_t generation;
    struct {
        _Alignas(BENCH_SPEEDS) uint32_t noted;
        float speeds[BENCH_SPEEDS_KEPT];
    } side[2];
} Shared;

_Static_assert(sizeof(Shared) <= BENCH_SHARED_LENGTH, "does not fit");
_Static_assert(offsetof(Shared, side) == BENCH_SPEEDS, "not where probe.h says");

void* bench_map(const char* folder) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/shared", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    void* shared = mmap(NULL, BENCH_SHARED_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return shared == MAP_FAILED ? NULL : shared;
}

int bench_pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno;
}

int64_t bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void send_line(Line* line, uint64_t sequence) {
    for (int i = 0; i < 3; ++i) line->payload[i] = sequence + (uint64_t)i;
    atomic_store_explicit(&line->sequence, sequence, memory_order_release);
}

static void receive_line(Line* line, uint64_t sequence) {
    while (atomic_load_explicit(&line->sequence, memory_order_acquire) != sequence) {
    }
    uint64_t wrong = 0;
    for (int i = 0; i < 3; ++i) wrong |= line->payload[i] ^ (sequence + (uint64_t)i);
    if (wrong != 0) _exit(3);
}

static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return x < y ? -1 : x > y;
}

// Instructions per nanosecond: the best of five parts of some microseconds each. Eight chains keep every unit busy.
static float core_speed(void) {
    double best = 0;
    for (int part = 0; part < PARTS; ++part) {
        uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
        const int64_t start = bench_now();
        for (int i = 0; i < SPEED_TURNS; ++i) {
            ++a, ++b, ++c, ++d, ++e, ++f, ++g, ++h;
            __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
        }
        const double speed = 10.0 * SPEED_TURNS / (double)(bench_now() - start);
        if (speed > best) best = speed;
    }
    return (float)best;
}

double bench_probe(void* shared_, int side, int round_trips) {
    Shared* shared = shared_;
    shared->side[side].speeds[shared->side[side].noted % BENCH_SPEEDS_KEPT] = core_speed();
    ++shared->side[side].noted;
    uint64_t sequence =
        atomic_load_explicit(side == 0 ? &shared->ping.sequence : &shared->pong.sequence, memory_order_relaxed);
    double parts[PARTS];
    for (int part = 0; part < PARTS; ++part) {
        int64_t start = 0;
        for (int i = 0; i <= round_trips / PARTS; ++i) {  // one more: the first waits for the other side
            ++sequence;
            if (side == 0) {
                send_line(&shared->ping, sequence);
                receive_line(&shared->pong, sequence);
                if (i == 0) start = bench_now();
            } else {
                receive_line(&shared->ping, sequence);
                send_line(&shared->pong, sequence);
            }
        }
        parts[part] = (double)(bench_now() - start) / (round_trips / PARTS);
    }
    if (side != 0) return 0;
    qsort(parts, PARTS, sizeof parts[0], compare);
    return parts[PARTS / 2];
}

void bench_barrier(void* shared_, int parties) {
    Shared* shared = shared_;
    const uint32_t generation = atomic_load(&shared->generation);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == (uint32_t)parties) {
        atomic_store(&shared->arrived, 0);
        atomic_fetch_add(&shared->generation, 1);
        syscall(SYS_futex, &shared->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return;
    }
    while (atomic_load(&shared->generation) == generation) {
        syscall(SYS_futex, &shared->generation, FUTEX_WAIT, generation, NULL, NULL, 0);
    }
}
