// SPDX-License-Identifier: Apache-2.0
#include "flyring.hpp"

#include "contenders.hpp"
#include "harness.hpp"

namespace bench {

void run_flyring_offer(const Setup& setup) {
    run<FlyringOffer>(setup);
}
void run_flyring_claim(const Setup& setup) {
    if (setup.option("clock", std::size_t{0}) != 0) return Runner<FlyringClaiming<true>, 32, true>(setup).run();
    run<FlyringClaim, 70, 72>(setup);
}

}  // namespace bench
