// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <prices/PriceUpdate.h>
#include <stdlib.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <flyring/flyring.hpp>
#include <flyring/sbe.hpp>
#include <string>
#include <vector>

// What one call costs without a second core: publisher and subscriber alternate in one thread. One iteration is a batch
// of 256 messages; only the calls in question are timed, by two clock readings around all of them, so that a reading
// adds well under a nanosecond to a message. JSON: --benchmark_out=FILE --benchmark_out_format=json

namespace {

constexpr std::size_t batch = 256;

std::string path() {
    std::string folder = "/dev/shm/flyring-micro-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make " + folder);
    return folder + "/ring";
}

class Ring {
  public:
    explicit Ring(std::size_t size)
        : size_(size),
          channel_(flyring::Channel::create(path(), options())),
          publisher_(channel_.publisher("a")),
          subscriber_(channel_.subscriber()),
          message_(size) {
        std::filesystem::remove_all(std::filesystem::path(channel_.path()).parent_path());  // it stays mapped
        for (std::size_t i = 0; i < batch; ++i) messages_.push_back({message_.data(), size});
    }

    void offer() {
        for (std::size_t i = 0; i < batch; ++i) {
            if (publisher_.offer({message_.data(), size_}) < 0) throw std::runtime_error("no room");
        }
    }
    void claim() {
        for (std::size_t i = 0; i < batch; ++i) {
            flyring::Claim claim = publisher_.claim(size_);
            if (!claim) throw std::runtime_error("no room");
            std::memcpy(claim.data(), message_.data(), size_);
            claim.commit();
        }
    }
    void typed_claim() {
        for (std::size_t i = 0; i < batch; ++i) {
            auto update = publisher_.claim<prices::PriceUpdate>();
            if (!update) throw std::runtime_error("no room");
            update->instrument().id(i).putSymbol("FLYR\0\0\0").putExchange("XFLY").putCurrency("EUR");
            update->instrument().kind(prices::InstrumentKind::STOCK);
            update->timestamp(i).bid(1).ask(2).bidSize(3).askSize(4).sequence(5);
            update->flags().clear().opening(true);
            update->lastSide(prices::Side::BUY);
            update.commit();
        }
    }
    void typed_poll() {
        std::size_t polled = 0;
        auto look = flyring::sbe::dispatch(flyring::sbe::on<prices::PriceUpdate>([](prices::PriceUpdate& update) {
            auto& instrument = update.instrument();
            char chars[15];
            instrument.getSymbol(chars, 8);
            instrument.getExchange(chars + 8, 4);
            instrument.getCurrency(chars + 12, 3);
            benchmark::DoNotOptimize(chars);
            benchmark::DoNotOptimize(instrument.id() ^ update.timestamp());
            benchmark::DoNotOptimize(instrument.kind() + update.bid() + update.ask());
            benchmark::DoNotOptimize(update.bidSize() + update.askSize() + update.sequence());
            benchmark::DoNotOptimize(update.flags().opening());
            benchmark::DoNotOptimize(update.lastSide());
        }));
        while (polled < batch) polled += static_cast<std::size_t>(subscriber_.poll(look));
    }
    void offer_batch() {
        if (publisher_.offer_batch({messages_.data(), batch}) != batch) throw std::runtime_error("no room");
    }
    void poll(int limit) {
        std::size_t polled = 0;
        const auto look = [](const flyring::Message& message) { benchmark::DoNotOptimize(*message.data()); };
        while (polled < batch) polled += static_cast<std::size_t>(subscriber_.poll(look, limit));
    }
    void take() {
        for (std::size_t i = 0; i < batch; ++i) {
            auto taken = subscriber_.take();
            if (!taken) throw std::runtime_error("no message");
            benchmark::DoNotOptimize(*taken->data());
        }
    }

  private:
    static flyring::Options options() {
        flyring::Options options;
        options.kind = flyring::Kind::broadcast;
        options.capacity = 1 << 20;
        options.publishers = 1;
        options.subscribers = 1;
        options.counters = 0;
        return options;
    }

    std::size_t size_;
    flyring::Channel channel_;
    flyring::Publisher publisher_;
    flyring::Subscriber subscriber_;
    std::vector<std::byte> message_;
    std::vector<flyring::Bytes> messages_;
};

template <typename Fill, typename Drain>
void measure(benchmark::State& state, bool filling, Fill fill, Drain drain) {
    using clock = std::chrono::steady_clock;
    Ring ring(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        const auto start = clock::now();
        fill(ring);
        const auto filled = clock::now();
        drain(ring);
        const auto drained = clock::now();
        state.SetIterationTime(std::chrono::duration<double>(filling ? filled - start : drained - filled).count());
    }
    const auto messages = static_cast<double>(state.iterations() * batch);
    state.SetItemsProcessed(static_cast<std::int64_t>(messages));
    state.counters["per_message"] =
        benchmark::Counter(messages, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

const auto offer = [](Ring& ring) { ring.offer(); };
const auto claim = [](Ring& ring) { ring.claim(); };
const auto offer_batch = [](Ring& ring) { ring.offer_batch(); };
const auto poll_1 = [](Ring& ring) { ring.poll(1); };
const auto poll_256 = [](Ring& ring) { ring.poll(batch); };
const auto typed_claim = [](Ring& ring) { ring.typed_claim(); };
const auto typed_poll = [](Ring& ring) { ring.typed_poll(); };
const auto take = [](Ring& ring) { ring.take(); };

/// stats() of 16 rings and 16 slots, which all have an owner.
void stats(benchmark::State& state) {
    flyring::Options options;
    options.kind = flyring::Kind::broadcast;
    options.capacity = 1 << 16;
    options.publishers = options.subscribers = 16;
    flyring::Channel channel = flyring::Channel::create(path(), options);
    std::filesystem::remove_all(std::filesystem::path(channel.path()).parent_path());  // it stays mapped
    std::vector<flyring::Publisher> publishers;
    std::vector<flyring::Subscriber> subscribers;
    for (int i = 0; i < 16; ++i) {
        publishers.push_back(channel.publisher());
        subscribers.push_back(channel.subscriber());
    }
    for (auto _ : state) benchmark::DoNotOptimize(channel.stats());
}

void add(const char* name, void (*run)(benchmark::State&), const std::vector<std::int64_t>& sizes = {32, 1024}) {
    auto* const benchmark = benchmark::RegisterBenchmark(name, run)->ArgName("bytes")->UseManualTime();
    for (const std::int64_t size : sizes) benchmark->Arg(size);
    benchmark->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int count, char** words) {
    add("offer", [](benchmark::State& state) { measure(state, true, offer, poll_256); });
    add("claim_commit", [](benchmark::State& state) { measure(state, true, claim, poll_256); }, {32, 70, 1024});
    add("offer_batch_256", [](benchmark::State& state) { measure(state, true, offer_batch, poll_256); });
    add("poll_1", [](benchmark::State& state) { measure(state, false, offer, poll_1); });
    add("poll_256", [](benchmark::State& state) { measure(state, false, offer, poll_256); });
    add("take", [](benchmark::State& state) { measure(state, false, offer, take); });
    // The PriceUpdate of spec/sbe/prices.xml, every field.
    add("typed_claim_commit", [](benchmark::State& state) { measure(state, true, typed_claim, poll_256); }, {70});
    add("typed_poll_256", [](benchmark::State& state) { measure(state, false, typed_claim, typed_poll); }, {70});
    benchmark::RegisterBenchmark("stats_16x16", stats)->Unit(benchmark::kMicrosecond);
    benchmark::Initialize(&count, words);
    if (benchmark::ReportUnrecognizedArguments(count, words)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
