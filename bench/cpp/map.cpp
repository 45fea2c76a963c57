// SPDX-License-Identifier: Apache-2.0
#include "map.hpp"

#include <flyring/flyring.hpp>
#include <flyring/table.hpp>
#include <optional>
#include <unordered_map>

#include "contenders.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// std::unordered_map in the memory of the process, without a reserve.
class UnorderedMap {
  public:
    explicit UnorderedMap(const Setup& setup) {
        if (setup.option("beside", std::size_t{0}) != 0) cannot(setup, "the map of one process");
    }
    void fill(std::int64_t key, const MapValue& value) { map_.emplace(key, value); }
    void ready(const std::vector<std::int64_t>&) {}
    void join() {}
    bool get(std::size_t, std::int64_t key, MapValue& to) {
        const auto found = map_.find(key);
        if (found == map_.end()) return false;
        to = found->second;
        return true;
    }
    void put(std::size_t, std::int64_t key, const MapValue& value) { map_[key] = value; }
    static std::string version() { return "libstdc++ " + std::to_string(__GLIBCXX__); }

  private:
    std::unordered_map<std::int64_t, MapValue> map_;
};

/// A Flyring table. Puts are those of a writer that holds the slot.
/// ThroughEntries: each place of the sequence has an entry of its own.
template <bool ThroughEntries>
class FlyringTable {
  public:
    explicit FlyringTable(const Setup& setup)
        : path_(setup.path("map.table")), keys_(setup.option("keys", std::size_t{0})), writes_(!setup.client()) {
        puts_ = setup.option("operation", std::string("get")) == "put";
        if (!setup.client()) return;
        flyring::TableOptions options;
        options.capacity = keys_;
        options.key = flyring::KeyType::integer;
        options.value_bytes = sizeof(MapValue);
        table_ = flyring::Table::create(path_, options);
        writer_ = table_->writer("bench");
    }
    void fill(std::int64_t key, const MapValue& value) { writer_->put(key, bytes(value)); }
    void ready(const std::vector<std::int64_t>& sequence) {
        if (!puts_) writer_.reset();
        if (!ThroughEntries) return;
        entries_.reserve(sequence.size());
        for (const std::int64_t key : sequence) entries_.push_back(table_->entry(key).value());
    }
    void join() {
        table_ = flyring::Table::open(path_);
        writer_ = table_->writer("bench");
    }
    bool get(std::size_t at, std::int64_t key, MapValue& to) {
        const flyring::MutableBytes buffer(reinterpret_cast<std::byte*>(&to), sizeof to);
        if (ThroughEntries) return entries_[at].get(buffer) == sizeof to;
        return table_->get(key, buffer) == sizeof to;
    }
    void put(std::size_t at, std::int64_t key, const MapValue& value) {
        if (ThroughEntries && !writes_) {
            writer_->put(entries_[at], bytes(value));
        } else {
            writer_->put(key, bytes(value));
        }
    }
    static std::string version() { return "0.1.0"; }

  private:
    static flyring::Bytes bytes(const MapValue& value) {
        return {reinterpret_cast<const std::byte*>(&value), sizeof value};
    }

    std::string path_;
    std::size_t keys_;
    bool writes_;
    bool puts_ = false;
    std::optional<flyring::Table> table_;
    std::optional<flyring::TableWriter> writer_;
    std::vector<flyring::Entry> entries_;
};

/// A key-value server: a Flyring service in front of a table, which the
/// server's process alone opens. The client has up to `--option outstanding=N`
/// calls under way. Both sides spin. An absent key has an empty answer.
class FlyringServer {
  public:
    explicit FlyringServer(const Setup& setup)
        : table_path_(setup.path("map.table")),
          service_path_(setup.path("service.ring")),
          under_way_(static_cast<std::uint32_t>(setup.option("outstanding", std::size_t{64}))) {
        if (!setup.client()) return;
        flyring::TableOptions options;
        options.capacity = setup.option("keys", std::size_t{0});
        options.key = flyring::KeyType::integer;
        options.value_bytes = sizeof(MapValue);
        table_ = flyring::Table::create(table_path_, options);
        writer_ = table_->writer("bench");
        flyring::Options service;
        service.kind = flyring::Kind::service;
        channel_ = flyring::Channel::create(service_path_, service);
        client_.emplace(channel_->client());
        client_->set_spin(spin);
    }
    void fill(std::int64_t key, const MapValue& value) {
        writer_->put(key, {reinterpret_cast<const std::byte*>(&value), sizeof value});
    }
    void ready(const std::vector<std::int64_t>&) {
        writer_.reset();
        table_.reset();
    }
    void join() {
        table_ = flyring::Table::open(table_path_);
        channel_ = flyring::Channel::open(service_path_);
        server_.emplace(channel_->server());
        server_->set_spin(spin);
    }
    bool get(std::size_t, std::int64_t, MapValue&) { throw std::logic_error("a server is asked by lookup"); }
    void put(std::size_t, std::int64_t, const MapValue&) { throw std::logic_error("a server is asked by lookup"); }
    template <class Next, class Took>
    void lookup(std::uint64_t n, Next&& next, Took&& took) {
        for (std::uint64_t i = 0; i < n; ++i) {
            while (client_->outstanding() == under_way_) client_->poll(no_time);
            const std::int64_t key = next();
            client_->start({reinterpret_cast<const std::byte*>(&key), sizeof key}, 1, flyring::forever,
                           [key, &took](flyring::Call& call) {
                               const flyring::Answer& answer = call.result();
                               MapValue value;
                               if (answer.size() != 0 && answer.size() != sizeof value)
                                   throw std::runtime_error("an answer of another size");
                               if (answer.size() != 0) std::memcpy(&value, answer.data(), sizeof value);
                               took(key, answer.size() == 0 ? nullptr : &value);
                           });
        }
        while (client_->outstanding() != 0) client_->poll(no_time);
    }
    void serve() {
        server_->poll(
            [this](flyring::Request& request) {
                std::int64_t key = 0;
                std::memcpy(&key, request.data(), sizeof key);
                std::byte value[sizeof(MapValue)];
                const auto length = table_->get(key, flyring::MutableBytes(value, sizeof value));
                request.reply({value, length.value_or(0)});
            },
            flyring::layout::DEFAULT_POLL_LIMIT, no_time);
    }
    static std::string version() { return "0.1.0"; }

  private:
    static constexpr std::chrono::nanoseconds no_time = std::chrono::nanoseconds::zero();
    static constexpr std::chrono::nanoseconds spin = std::chrono::hours(1);  // a wait never sleeps

    std::string table_path_;
    std::string service_path_;
    std::uint32_t under_way_;
    std::optional<flyring::Table> table_;
    std::optional<flyring::TableWriter> writer_;
    std::optional<flyring::Channel> channel_;
    std::optional<flyring::Client> client_;
    std::optional<flyring::Server> server_;
};

}  // namespace

void run_flyring_server(const Setup& setup) {
    MapRunner<FlyringServer>(setup).run();
}
void run_heap_map(const Setup& setup) {
    MapRunner<UnorderedMap>(setup).run();
}
void run_flyring_table(const Setup& setup) {
    MapRunner<FlyringTable<false>>(setup).run();
}
void run_flyring_table_entry(const Setup& setup) {
    MapRunner<FlyringTable<true>>(setup).run();
}

}  // namespace bench
