// SPDX-License-Identifier: Apache-2.0
#include <prices/PriceUpdate.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>
#include <string>
#include <vector>

// flyring-count offer|claim|poll|batch|typed_claim|typed_poll N: passes N messages of 32 bytes (typed: the 70 of a
// PriceUpdate, every field written, and read), publisher and subscriber in one thread, 256 at a time. instructions.py
// has callgrind count what happens inside of measured_*, and takes the difference of two N.

namespace {

constexpr std::size_t size = 32, batch = 256;

constexpr std::uint64_t symbol_of_all = 0x52594c46 ^ 0x594c4658 ^ 0x525545;  // FLYR, XFLY, EUR

struct Ring {
    flyring::Publisher publisher;
    flyring::Subscriber subscriber;
    std::vector<std::byte> message;
    std::vector<flyring::Bytes> messages;
};

[[noreturn]] void fail(const char* why) {
    std::fprintf(stderr, "flyring-count: %s\n", why);
    std::exit(1);
}

}  // namespace

// Not inlined, not cloned: their names are what callgrind looks for.

extern "C" [[gnu::noipa]] void measured_offer(Ring& ring) {
    const std::byte* const message = ring.message.data();
    for (std::size_t i = 0; i < batch; ++i) {
        if (ring.publisher.offer({message, size}) < 0) fail("no room");
    }
}

extern "C" [[gnu::noipa]] void measured_claim(Ring& ring) {
    const std::byte* const message = ring.message.data();
    for (std::size_t i = 0; i < batch; ++i) {
        flyring::Claim claim = ring.publisher.claim(size);
        if (!claim) fail("no room");
        std::memcpy(claim.data(), message, size);
        claim.commit();
    }
}

extern "C" [[gnu::noipa]] void measured_batch(Ring& ring) {
    if (ring.publisher.offer_batch({ring.messages.data(), batch}) != batch) fail("no room");
}

extern "C" [[gnu::noipa]] std::uint64_t measured_poll(Ring& ring) {
    std::uint64_t sum = 0;
    std::size_t polled = 0;
    while (polled < batch) {  // once more than it seems: a poll ends where the ring ends
        polled += static_cast<std::size_t>(
            ring.subscriber.poll([&](const flyring::Message& message) { sum += message.as<std::uint64_t>(); }));
    }
    return sum;
}

extern "C" [[gnu::noipa]] void measured_typed_claim(Ring& ring) {
    for (std::size_t i = 0; i < batch; ++i) {
        auto update = ring.publisher.claim<prices::PriceUpdate>();
        if (!update) fail("no room");
        update->instrument().id(i).putSymbol("FLYR\0\0\0").putExchange("XFLY").putCurrency("EUR");
        update->instrument().kind(prices::InstrumentKind::STOCK);
        update->timestamp(i + 1).bid(1).ask(2).bidSize(3).askSize(4).sequence(5);
        update->flags().clear().opening(true);
        update->lastSide(prices::Side::BUY);
        update.commit();
    }
}

extern "C" [[gnu::noipa]] std::uint64_t measured_typed_poll(Ring& ring) {
    std::uint64_t sum = 0;
    std::size_t polled = 0;
    while (polled < batch) {
        polled += static_cast<std::size_t>(
            ring.subscriber.poll(flyring::sbe::dispatch(flyring::sbe::on<prices::PriceUpdate>([&](auto& update) {
                auto& instrument = update.instrument();
                std::uint64_t symbol = 0;
                std::uint32_t exchange = 0, currency = 0;
                instrument.getSymbol(reinterpret_cast<char*>(&symbol), 8);
                instrument.getExchange(reinterpret_cast<char*>(&exchange), 4);
                instrument.getCurrency(reinterpret_cast<char*>(&currency), 3);
                sum += (instrument.id() ^ update.timestamp()) + (symbol ^ exchange ^ currency ^ symbol_of_all) +
                       static_cast<std::uint64_t>(instrument.kind() + update.bid() + update.ask()) + update.bidSize() +
                       update.askSize() + update.sequence() + update.flags().opening() + update.flags().halted() +
                       (update.lastSide() == prices::Side::BUY);
            }))));
    }
    return sum;
}

int main(int count, char** words) {
    const std::string operation = count == 3 ? words[1] : "";
    const std::size_t rounds = count == 3 ? std::strtoul(words[2], nullptr, 10) / batch : 0;
    const bool typed = operation == "typed_claim" || operation == "typed_poll";
    const auto fill = typed                  ? measured_typed_claim
                      : operation == "claim" ? measured_claim
                      : operation == "batch" ? measured_batch
                                             : measured_offer;
    const bool known =
        typed || operation == "offer" || operation == "claim" || operation == "batch" || operation == "poll";
    if (rounds == 0 || !known) {
        fail("usage: flyring-count offer|claim|poll|batch|typed_claim|typed_poll N (a multiple of 256)");
    }
    std::uint64_t sum = batch * 0x0101010101010101;
    if (typed) {
        sum = batch * (1 + 2 + 3 + 4 + 5 + 1 + 1);
        for (std::size_t i = 0; i < batch; ++i) sum += i ^ (i + 1);
    }
    char folder[] = "/dev/shm/flyring-count-XXXXXX";
    if (mkdtemp(folder) == nullptr) fail("cannot make a folder on /dev/shm");
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    options.capacity = 1 << 20;
    options.publishers = 1;
    options.subscribers = 1;
    options.counters = 0;
    flyring::Channel channel = flyring::Channel::create(std::string(folder) + "/ring", options);
    flyring::Channel::unlink(channel.path());
    rmdir(folder);
    Ring ring{channel.publisher("a"), channel.subscriber(), std::vector<std::byte>(size, std::byte{1}), {}};
    ring.messages.assign(batch, {ring.message.data(), size});
    for (std::size_t i = 0; i < rounds; ++i) {
        fill(ring);
        if ((typed ? measured_typed_poll : measured_poll)(ring) != sum) fail("wrong bytes");
    }
    return 0;
}
