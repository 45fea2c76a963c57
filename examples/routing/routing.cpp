// SPDX-License-Identifier: Apache-2.0
// All messages of one key go to one inbox, and so to one process, in their order.
//
// routing send      each line of standard input is a key, a space and a text
// routing read K    prints what comes into inbox K, until the text is "stop"
// routing where     each line is "text KEY" or "integer KEY": prints the hash and the inbox
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <flyring/flyring.hpp>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t inboxes = 3;  // every program must have the same number

// Key bytes: UTF-8 of a text, which is what a std::string holds here; of an integer 8 bytes, the lowest first.
std::string integer_key(std::int64_t key) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(key) >> (8 * i));
    return bytes;
}

std::uint64_t hash_of(const std::string& key) {
    return XXH64(key.data(), key.size(), 0);
}

std::uint64_t inbox_of(const std::string& key) {
    return hash_of(key) % inboxes;
}

flyring::Channel inbox(std::uint64_t number) {
    flyring::Options options;
    options.kind = flyring::Kind::inbox;
    return flyring::Channel::open_or_create("orders." + std::to_string(number), options);
}

void send() {
    std::vector<flyring::Channel> channels;
    std::vector<flyring::Publisher> publishers;
    for (std::uint64_t number = 0; number < inboxes; ++number) {
        channels.push_back(inbox(number));
        publishers.push_back(channels.back().publisher());
    }
    for (std::string line; std::getline(std::cin, line);) {
        const std::string key = line.substr(0, line.find(' '));
        publishers[inbox_of(key)].send(flyring::as_bytes(line));  // sleeps while the ring is full
    }
}

void read(std::uint64_t number) {
    flyring::Channel channel = inbox(number);
    flyring::Subscriber subscriber = channel.subscriber();
    while (true) {
        const auto message = subscriber.take(flyring::forever);  // sleeps while there is none
        const std::string text(reinterpret_cast<const char*>(message->data()), message->size());
        if (text.size() >= 5 && text.compare(text.size() - 5, 5, " stop") == 0) break;
        std::cout << text << std::endl;
    }
}

void where() {
    for (std::string line; std::getline(std::cin, line);) {
        const std::size_t space = line.find(' ');
        const std::string key = line.substr(space + 1);
        const std::string bytes = line.substr(0, space) == "integer" ? integer_key(std::stoll(key)) : key;
        std::printf("%016llx %llu\n", static_cast<unsigned long long>(hash_of(bytes)),
                    static_cast<unsigned long long>(inbox_of(bytes)));
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words == std::vector<std::string>{"send"}) {
        send();
    } else if (words == std::vector<std::string>{"where"}) {
        where();
    } else if (words.size() == 2 && words[0] == "read" &&
               words[1].find_first_not_of("0123456789") == std::string::npos && std::stoul(words[1]) < inboxes) {
        read(std::stoul(words[1]));
    } else {
        std::cerr << "Use routing send, routing read K (below " << inboxes << "), or routing where.\n";
        return 1;
    }
    return 0;
}
