// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "setup.hpp"

// One function for each contender, in the source file of its family. The files are compiled apart, because each
// contender is a few dozen template instances.

namespace bench {

// flyring.cpp
void run_flyring_offer(const Setup&);
void run_flyring_claim(const Setup&);

// block.cpp
void run_flyring_block(const Setup&);
void run_beside(const Setup&);

// typed.cpp
void run_flyring_typed(const Setup&);

// queue.cpp
void run_flyring_queue(const Setup&);

// service.cpp
void run_flyring_service(const Setup&);

// journal.cpp, recovery.cpp, recorded.cpp
void run_flyring_journal(const Setup&);
void run_recovery(const Setup&);
void run_recorded(const Setup&);

// map.cpp
void run_flyring_table(const Setup&);
void run_flyring_table_entry(const Setup&);
void run_flyring_server(const Setup&);
void run_heap_map(const Setup&);

// floors.cpp
void run_raw_line(const Setup&);
void run_bare_ring(const Setup&);
void run_cas_counter(const Setup&);
void run_memcpy(const Setup&);

// pipe.cpp, unix_socket.cpp, file.cpp, message_queue.cpp, futex.cpp, bell.cpp
void run_file(const Setup&);
void run_pipe(const Setup&);
void run_unix_stream(const Setup&);
void run_unix_seqpacket(const Setup&);
void run_posix_mq(const Setup&);
void run_sysv_mq(const Setup&);
void run_futex(const Setup&);
void run_futex_barrier(const Setup&);
void run_eventfd(const Setup&);

// boost.cpp, zeromq.cpp: BENCH_PEERS only
void run_boost_mq(const Setup&);
void run_boost_spsc(const Setup&);
void run_boost_queue(const Setup&);
void run_zeromq_ipc(const Setup&);
void run_zeromq_jobs(const Setup&);
void run_zeromq_req(const Setup&);

// databases.cpp, sqlite_log.cpp: BENCH_DATABASES only
void run_lmdb(const Setup&);
void run_sqlite(const Setup&);
void run_sqlite_log(const Setup&);
void run_redis_map(const Setup&);

// grpc.cpp: BENCH_GRPC only
void run_grpc(const Setup&);

}  // namespace bench
