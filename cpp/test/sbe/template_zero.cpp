// SPDX-License-Identifier: Apache-2.0
// Must not compile; the error must say why.
#include <odd/Zero.h>

#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>

void zero(flyring::Publisher& publisher) {
#ifdef CLAIM
    publisher.claim<odd::Zero>().commit();
#else
    flyring::sbe::on<odd::Zero>([](odd::Zero&) {});
#endif
}
