// SPDX-License-Identifier: Apache-2.0
// What the two sides of every contender do alike, in every language: the raw cache-line probe between slices, which
// tells where the machine has put the two cores, and the barrier. A C library, so that the floor is the same code
// everywhere.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_SHARED_LENGTH = 4096 };

// Maps <folder>/shared, a file of BENCH_SHARED_LENGTH zero bytes. Null: errno.
void* bench_map(const char* folder);

// Pins the calling thread. 0, or an errno.
int bench_pin(int core);

// Before the raw line, each side notes in the page how fast its core is: instructions that depend on little, per
// nanosecond. On a virtual machine a core often shares its hardware with another guest's thread. It is slower then,
// which the raw line does not show. Side s writes at 1024 (1 + s): a uint32, how many were noted; a ring of 255 floats.
enum { BENCH_SPEEDS = 1024, BENCH_SPEEDS_KEPT = 255 };

// The raw line: side 0 writes a sequence number and 24 bytes of payload to one cache line, side 1 answers in another.
// Both call it; side 0 gets nanoseconds per round trip (the median of five parts' means).
double bench_probe(void* shared, int side, int round_trips);

// Returns when `parties` processes are here. Sleeps in the kernel: a waiting side leaves its core to the others.
void bench_barrier(void* shared, int parties);

// CLOCK_MONOTONIC, nanoseconds.
int64_t bench_now(void);

#ifdef __cplusplus
}
#endif
