// SPDX-License-Identifier: Apache-2.0
#include "map.hpp"

#include <flyring/flyring.hpp>
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

/// A Flyring table. Puts are those of a writer that holds the slot. ThroughEntries: each place of the sequence has an
/// entry of its own.
template <bool ThroughEntries>
class FlyringTable {
  public:
    explicit FlyringTable(const Setup& setup)
        : path_(setup.path("map")), keys_(setup.option("keys", std::size_t{0})), writes_(!setup.client()) {
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

}  // namespace

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
