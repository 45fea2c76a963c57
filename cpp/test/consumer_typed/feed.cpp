// SPDX-License-Identifier: Apache-2.0
#include <my_quotes/Quote.h>

#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>

void publish(flyring::Publisher& publisher) {
    auto quote = publisher.claim<my::quotes::Quote>();
    quote->bid(1).ask(2);
    quote.commit();
}
