// SPDX-License-Identifier: Apache-2.0
// Quotes for many readers: each reader gets every quote.
//
// market_data feed COUNT PER_SECOND READERS    waits for so many readers, then publishes COUNT quotes at a steady pace
// market_data read                             counts the quotes until the feed closes
// market_data dashboard SECONDS                shows the newest prices each SECONDS; never slows the feed down
#include <quotes/Quote.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>
#include <iostream>
#include <map>
#include <quotes/schema.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

const std::array<std::string, 4> symbols = {"APPLES", "PEARS", "PLUMS", "QUINCES"};

// The reader or the feed may come first: whichever does creates the channel.
flyring::Channel open_channel() {
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    options.publishers = 1;
    options.subscribers = 8;
    options.use(quotes::schema);
    return flyring::Channel::open_or_create("quotes", options);
}

void feed(std::uint64_t count, double per_second, std::uint32_t readers) {
    flyring::Channel channel = open_channel();
    flyring::Publisher publisher = channel.publisher("feed");
    while (publisher.readers() < readers) std::this_thread::sleep_for(10ms);
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t sent = 0;
    while (sent < count) {  // each millisecond the quotes that are due
        const Seconds passed = std::chrono::steady_clock::now() - start;
        const std::uint64_t due = std::min(count, static_cast<std::uint64_t>(passed.count() * per_second));
        for (; sent < due; ++sent) {
            auto quote = publisher.claim<quotes::Quote>();  // sleeps while the ring is full
            const auto price = static_cast<std::int64_t>(100 + sent % 10);
            quote->sequence(sent).putSymbol(symbols[sent % symbols.size()]).bid(price).ask(price + 1);
            quote.commit();
        }
        std::this_thread::sleep_for(1ms);
    }
}

std::string prices_of(quotes::Quote& quote) {
    return std::to_string(quote.bid()) + '/' + std::to_string(quote.ask());
}

void read() {
    std::uint64_t count = 0, missing = 0, expected = 0;
    std::string last;
    auto show = [&](quotes::Quote& quote) {
        if (count > 0) missing += quote.sequence() - expected;
        expected = quote.sequence() + 1;
        ++count;
        last = quote.getSymbolAsString() + ' ' + prices_of(quote);
    };
    flyring::Channel channel = open_channel();
    flyring::Subscriber subscriber = channel.subscriber("reader");
    auto handler = flyring::sbe::dispatch(flyring::sbe::on<quotes::Quote>(show));
    while (count == 0 || !subscriber.ended(0)) subscriber.poll(handler, 256, 100ms);  // sleeps while there is nothing
    std::cout << count << " quotes, " << missing << " missing, the last one " << last << '\n';
}

void dashboard(double seconds) {
    std::map<std::string, std::string> newest;
    auto show = [&](quotes::Quote& quote) { newest[quote.getSymbolAsString()] = prices_of(quote); };
    flyring::Channel channel = open_channel();
    flyring::LossySubscriber subscriber = channel.lossy_subscriber();
    auto handler = flyring::sbe::dispatch(flyring::sbe::on<quotes::Quote>(show));
    std::uint64_t count = 0;
    while (count == 0 || !subscriber.ended(0)) {
        std::this_thread::sleep_for(Seconds(seconds));  // meanwhile the feed may overwrite quotes
        count += static_cast<std::uint64_t>(subscriber.poll(handler, 1'000'000));
        std::cout << count << " read, " << subscriber.lost_messages(0) << " missed:";
        for (const auto& [symbol, prices] : newest) std::cout << ' ' << symbol << ' ' << prices;
        std::cout << std::endl;
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 4 && words[0] == "feed") {
        feed(std::stoull(words[1]), std::stod(words[2]), static_cast<std::uint32_t>(std::stoul(words[3])));
    } else if (words == std::vector<std::string>{"read"}) {
        read();
    } else if (words.size() == 2 && words[0] == "dashboard") {
        dashboard(std::stod(words[1]));
    } else {
        std::cerr << "Use market_data with: feed COUNT PER_SECOND READERS, read, or dashboard SECONDS.\n";
        return 1;
    }
    return 0;
}
