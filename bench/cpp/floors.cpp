// SPDX-License-Identifier: Apache-2.0
#include "cas_counter.hpp"
#include "contenders.hpp"
#include "harness.hpp"
#include "memcpy.hpp"
#include "raw.hpp"
#include "support.hpp"

namespace bench {

void run_raw_line(const Setup& setup) {
    run<RawLine>(setup);
}
void run_bare_ring(const Setup& setup) {
    run<BareRing>(setup);
}

// 8 bytes: the counter is the whole message, whatever --mode says.
void run_cas_counter(const Setup& setup) {
    Runner<CasCounter, 8, false>(setup).run();
}

namespace {

template <std::size_t Size, bool Whole>
void run_memcpy_of(const Setup& setup) {
    if (setup.producer()) {
        Runner<MemcpyPacer, 8, false>(setup).run();
    } else {
        Runner<Memcpy<Size, Whole>, Size, Whole>(setup).run();
    }
}

}  // namespace

void run_memcpy(const Setup& setup) {
    switch (setup.size) {
        case 32:
            return setup.whole ? run_memcpy_of<32, true>(setup) : run_memcpy_of<32, false>(setup);
        case 1024:
            return setup.whole ? run_memcpy_of<1024, true>(setup) : run_memcpy_of<1024, false>(setup);
        case 65536:
            return setup.whole ? run_memcpy_of<65536, true>(setup) : run_memcpy_of<65536, false>(setup);
        default:
            throw std::runtime_error("--size is 32, 1024 or 65536");
    }
}

}  // namespace bench
