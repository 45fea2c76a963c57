// SPDX-License-Identifier: Apache-2.0
// The latest price of each symbol, in a table that other processes read.
//
// latest_prices feed LAST PER_SECOND    puts updates up to number LAST of each symbol, behind those in the table
// latest_prices wait SYMBOL LAST        sleeps until the symbol has a new price, and prints it, up to update LAST
// latest_prices show                    prints all prices
#include <prices/Price.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>
#include <flyring/table.hpp>
#include <iostream>
#include <prices/schema.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using prices::Price;

const std::array<std::string, 4> symbols = {"APPLES", "PEARS", "PLUMS", "QUINCES"};

// A reader or the feed may come first: whichever does creates the table.
flyring::Table open_table() {
    flyring::TableOptions options;
    options.key = flyring::KeyType::text;
    options.capacity = 1000;
    options.use<Price>(prices::schema);
    return flyring::Table::open_or_create("prices", options);
}

std::string text_of(const std::string& symbol, Price& price) {
    return symbol + ' ' + std::to_string(price.bid()) + '/' + std::to_string(price.ask()) + ", update " +
           std::to_string(price.number());
}

// There is one writer. A second feed waits, and goes on when the first one has ended or was killed.
flyring::TableWriter take_writer(flyring::Table& table) {
    try {
        return table.writer("feed");
    } catch (const flyring::NoFreeSlot& error) {
        std::cout << "waiting: the writer is process " << error.owners()[0].pid << std::endl;
        return table.writer("feed", flyring::forever);
    }
}

void feed(std::int64_t last, double per_second) {
    flyring::Table table = open_table();
    flyring::TableWriter writer = take_writer(table);
    std::array<std::int64_t, symbols.size()> done;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        done[i] = table.get<Price>(symbols[i], [](Price& price) { return price.number(); }).value_or(0);
    }
    const std::int64_t behind = *std::min_element(done.begin(), done.end());
    std::cout << "begins behind update " << behind << std::endl;
    for (std::int64_t number = behind + 1; number <= last; ++number) {
        for (std::size_t i = 0; i < symbols.size(); ++i) {
            if (number <= done[i]) continue;
            const std::int64_t bid = 100 + static_cast<std::int64_t>(i) + number % 10;
            writer.put<Price>(symbols[i], [&](Price& price) { price.number(number).bid(bid).ask(bid + 1); });
        }
        std::this_thread::sleep_for(std::chrono::duration<double>(1 / per_second));
    }
}

void wait(const std::string& symbol, std::int64_t last) {
    flyring::Table table = open_table();
    std::int64_t version = 0, number = 0;
    while (number < last) {
        version = table.wait_changed(symbol, version);  // sleeps until it has another version
        // The latest price: newer than that version, if the feed is fast.
        table.get<Price>(symbol, [&](Price& price) {
            if (price.number() > number) std::cout << text_of(symbol, price) << std::endl;
            number = price.number();
        });
    }
}

void show() {
    flyring::Table table = open_table();
    std::set<std::string> keys;
    table.for_each([&](const flyring::TableItem& item) { keys.insert(item.key); });
    for (const std::string& symbol : keys) {
        table.get<Price>(symbol, [&](Price& price) { std::cout << text_of(symbol, price) << '\n'; });
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "feed") {
        feed(std::stoll(words[1]), std::stod(words[2]));
    } else if (words.size() == 3 && words[0] == "wait") {
        wait(words[1], std::stoll(words[2]));
    } else if (words == std::vector<std::string>{"show"}) {
        show();
    } else {
        std::cerr << "Use latest_prices with: feed LAST PER_SECOND, wait SYMBOL LAST, or show.\n";
        return 1;
    }
    return 0;
}
