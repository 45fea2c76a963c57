// SPDX-License-Identifier: Apache-2.0
#include <my_quotes/Quote.h>

#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>
#include <iostream>
#include <my_quotes/schema.hpp>

void publish(flyring::Publisher& publisher);

int main() {
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    options.use(my::quotes::schema);
    flyring::Channel::create("consumer", options);
    flyring::OpenOptions require;
    require.schema = my::quotes::schema;
    auto channel = flyring::Channel::open("consumer", require);
    flyring::Channel::unlink("consumer");
    auto subscriber = channel.subscriber();
    auto publisher = channel.publisher();
    publish(publisher);
    bool right = false;
    subscriber.poll(flyring::sbe::dispatch(flyring::sbe::on<my::quotes::Quote>(
        [&](my::quotes::Quote& quote) { right = quote.bid() == 1 && quote.ask() == 2; })));
    std::cout << "block: " << my::quotes::Quote::sbeBlockLength() << " schema: " << channel.schema().size() << "\n";
    return right ? 0 : 1;
}
