// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <flyring/table.hpp>
#include <functional>
#include <set>
#include <vector>

#include "torture.hpp"

// The workers of tables in the SIGKILL torture (interop-tests/torture/WORKER.md): putters and lookers.

namespace torture {

enum Change : std::int64_t { put = 1, if_absent, compare, removal, clear, grow };
enum How : std::int64_t { get = 1, walk, snapshot, held_snapshot, left_snapshot };

inline void create_table(const Orders& orders) {
    flyring::TableOptions options;
    options.key = orders.at("key") == "text" ? flyring::KeyType::text : flyring::KeyType::integer;
    options.capacity = std::stoull(orders.at("capacity"));
    options.value_bytes = static_cast<std::uint32_t>(std::stoul(orders.at("value_bytes")));
    options.checked = orders.at("checked") == "1";
    flyring::Table::create(orders.at("channel"), options);
}

class TableWorker : public AnyWorker {
  public:
    explicit TableWorker(Orders orders)
        : AnyWorker(std::move(orders)), table_(flyring::Table::open(orders_.at("channel"))), next_(first()) {}

  protected:
    static constexpr std::int64_t keys = 20;
    struct ValueHeader {
        std::uint32_t checksum;  // of all bytes after it
        std::uint32_t length;
        std::int64_t key;
        std::int64_t number;
    };
    struct Seen {
        std::int64_t key;
        std::int64_t number;  // -1: absent
        std::int64_t version;
        std::int64_t fault;  // 1: torn, 2: busy
    };

    template <typename Use>
    static auto with_key(const flyring::Table& table, std::int64_t key, Use&& use) {
        const std::string text = "key " + std::to_string(key);
        return table.key_type() == flyring::KeyType::text ? use(flyring::Key(text)) : use(flyring::Key(key));
    }
    template <typename Use>
    auto with_key(std::int64_t key, Use&& use) {
        return with_key(table_, key, use);
    }
    std::int64_t some_key() { return static_cast<std::int64_t>(below(keys)); }

    /// What a value says.
    static Seen what_of(std::int64_t key, const std::string& value, std::int64_t version) {
        ValueHeader header{};
        if (value.size() < sizeof header) return {key, 0, version, 1};
        std::memcpy(&header, value.data(), sizeof header);
        const bool right = header.length == value.size() && header.key == key &&
                           header.checksum == checksum(reinterpret_cast<const std::byte*>(value.data()), value.size());
        return {key, header.number, version, right ? 0 : 1};
    }

    Seen look(std::int64_t key) {
        try {
            const auto found = with_key(key, [&](const flyring::Key& at) { return table_.get_versioned(at); });
            return found ? what_of(key, found->value, found->version) : Seen{key, -1, 0, 0};
        } catch (const flyring::Busy&) {
            return {key, 0, 0, 2};
        }
    }
    void note(const Seen& seen, std::int64_t begin, std::int64_t end, How how) {
        side_.log(saw, seen.key, seen.number, seen.version, seen.fault, begin, end, how);
    }

    /// All keys of a table by iteration, and those that it has not met.
    static std::vector<Seen> all_of(const flyring::Table& table) {
        std::vector<Seen> all;
        std::set<std::int64_t> met;
        table.for_each([&](const flyring::TableItem& item) {
            const std::int64_t key = table.key_type() == flyring::KeyType::text
                                         ? std::stoll(std::string(item.key).substr(4))
                                         : item.integer();
            met.insert(key);
            all.push_back(what_of(key, std::string(item.value), item.version));
        });
        for (std::int64_t key = 0; key < keys; ++key)
            if (met.count(key) == 0) all.push_back({key, -1, 0, 0});
        return all;
    }
    void walk_of(const flyring::Table& table, How how, std::int64_t begin, std::int64_t end, std::int64_t stamp,
                 std::int64_t size) {
        const auto all = all_of(table);
        if (end == 0) end = now();
        for (const Seen& seen : all) note(seen, begin, end, how);
        side_.log(walked, how, static_cast<std::int64_t>(all.size()), begin, end, stamp, size);
    }

    std::string copy_path() { return orders_.at("channel") + "." + orders_.at("name") + ".table"; }
    /// Makes a copy and opens it.
    void copy(const std::function<std::uint64_t(const std::string&)>& make, How how) {
        enter(copying, 2);
        const std::string path = copy_path();
        const std::int64_t begin = now();
        const auto size = static_cast<std::int64_t>(make(path));
        const std::int64_t end = now();
        linger(2);
        flyring::OpenTableOptions options;
        options.read_only = below(2) == 0;
        const auto copied = flyring::Table::open(path, options);
        walk_of(copied, how, begin, end, copied.version(), size);
        side_.phase(working);
    }
    /// Looks at the copy that a process of this name has left, which may have been killed in the next one.
    void left_copy() {
        const std::string path = copy_path();
        if (::access(path.c_str(), F_OK) != 0) return;
        const auto copied = flyring::Table::open(path);
        walk_of(copied, left_snapshot, 0, now(), copied.version(), 0);
    }

    std::int64_t first() { return static_cast<std::int64_t>(std::stoull(orders_.at("seed")) << 24U); }

    flyring::Table table_;
    std::int64_t next_;  // the number of the next value
};

/// Changes a table.
class Putter final : public TableWorker {
  public:
    using TableWorker::TableWorker;

    void run() override {
        left_copy();
        while (!side_.stopped() && !side_.full()) {
            if (below(2) == 0) {
                hold();
            } else {
                const std::array<std::chrono::milliseconds, 3> timeouts{
                    std::chrono::milliseconds(0), std::chrono::milliseconds(20), std::chrono::milliseconds(2000)};
                const auto timeout = timeouts.at(below(3));
                for (auto left = below(60); left > 0 && !side_.stopped() && !side_.full(); --left) single(timeout);
            }
            be_idle();
        }
        table_.close();
    }

  private:
    void be_idle() {
        side_.phase(idle);
        side_.nap(below(4'000'000));
    }

    void hold() {
        const auto asked = now();
        enter(seating, 2);
        std::optional<flyring::TableWriter> writer;
        try {
            writer.emplace(table_.writer(orders_.at("name"), std::chrono::milliseconds(below(200))));
        } catch (const flyring::NoFreeSlot&) {
            return side_.phase(working);
        }
        linger(2);
        side_.log(seated, 0, writer->epoch(), now(), asked);
        for (auto left = below(300); left > 0 && !side_.stopped() && !side_.full(); --left) {
            if (below(20) == 0) be_idle();
            if (below(200) == 0) {
                copy([&](const std::string& path) { return writer->snapshot(path); }, held_snapshot);
            } else {
                held(*writer);
            }
        }
        const auto leaves = now();
        enter(leaving, 2);
        writer->close();
        linger(2);
        side_.log(Kind::left, 0, 0, 0, leaves);
        side_.phase(working);
    }

    /// A change, logged before and after it. `make` returns its result; -1: it was not made.
    void change(Change what, Phase phase, std::int64_t key, std::int64_t number, std::int64_t expected,
                const std::function<std::int64_t()>& make) {
        side_.log(begun, what, key, number, expected, 0, now());
        enter(phase, what == grow || what == clear ? 2 : 200);
        std::int64_t result = -1;
        const bool lost = what == put && fault("lost");
        try {
            if (lost) {
                result = last_ + 2;
            } else {
                result = make();
            }
        } catch (const flyring::NoFreeSlot&) {
        } catch (const flyring::NoSpace&) {
        } catch (const flyring::InvalidArgument&) {
            if (what != grow) throw;  // another process has made the table larger
        }
        linger();
        side_.log(changed, result, now());
        if (what <= compare && result > 0) last_ = result;
        side_.phase(working);
    }

    std::string value_of(std::int64_t key) {
        const std::size_t length = sizeof(ValueHeader) + below(table_.value_bytes() - sizeof(ValueHeader) + 1);
        std::string value(length, '\0');
        ValueHeader header{0, static_cast<std::uint32_t>(length), key, next_};
        std::memcpy(value.data(), &header, sizeof header);
        for (std::size_t i = sizeof header; i < length; ++i)
            value[i] = static_cast<char>(next_ + 7 * static_cast<std::int64_t>(i));
        header.checksum = checksum(reinterpret_cast<const std::byte*>(value.data()), length);
        std::memcpy(value.data(), &header, sizeof header);
        if (fault("torn")) value[sizeof header - 1] = static_cast<char>(value[sizeof header - 1] ^ 1);
        return value;
    }

    template <typename Verbs, typename... Timeout>
    void some(Verbs& verbs, Timeout... timeout) {
        const std::int64_t key = some_key();
        const auto dice = below(400);
        const auto with = [&](auto&& use) {
            return [&, use] { return with_key(key, [&](const flyring::Key& at) -> std::int64_t { return use(at); }); };
        };
        if (dice < 2) {
            change(clear, clearing, -1, 0, 0, [&] { return static_cast<std::int64_t>(verbs.clear(timeout...)); });
        } else if (dice < 4 && orders_.at("name") != "one" && orders_.at("name") != "two") {
            change(grow, growing, -1, 0, 0,
                   [&]() -> std::int64_t { return verbs.grow(table_.capacity() + 1, timeout...), 1; });
        } else if (dice < 120) {
            change(removal, removing, key, 0, 0,
                   with([&](const flyring::Key& at) { return verbs.remove(at, timeout...) ? 1 : 0; }));
        } else {
            const std::int64_t begin = now();
            const Seen seen = dice < 200 ? look(key) : Seen{};
            if (dice < 200) note(seen, begin, now(), get);
            const std::string value = value_of(key);
            const std::int64_t number = next_++;
            if (dice < 200 && seen.fault == 0) {
                change(compare, comparing, key, number, seen.version, with([&](const flyring::Key& at) {
                           return verbs.compare_and_put(at, seen.version, value, timeout...);
                       }));
            } else if (dice < 240) {
                change(if_absent, comparing, key, number, 0,
                       with([&](const flyring::Key& at) { return verbs.put_if_absent(at, value, timeout...); }));
            } else {
                change(put, putting, key, number, 0,
                       with([&](const flyring::Key& at) { return verbs.put(at, value, timeout...); }));
            }
        }
    }
    void held(flyring::TableWriter& writer) { some(writer); }
    void single(std::chrono::milliseconds timeout) {
        if (below(20) == 0) be_idle();
        some(table_, std::chrono::nanoseconds(timeout));
    }

    std::int64_t last_ = 0;  // the version of its last put
};

/// Reads a table.
class Looker final : public TableWorker {
  public:
    using TableWorker::TableWorker;

    void run() override {
        left_copy();
        bool last = false;
        while (!last && !side_.full()) {
            last = side_.stopped();  // read before the look: after it, nothing is changed
            if (last) {
                for (std::int64_t key = 0; key < keys; ++key) get_one(key);
                walk_one();
                break;
            }
            const auto dice = below(300);
            if (dice == 0) {
                copy([&](const std::string& path) { return table_.snapshot(path); }, snapshot);
            } else if (dice < 10) {
                walk_one();
            } else if (dice < 16) {
                sleep();
            } else {
                get_one(some_key());
            }
            if (below(20) == 0) {
                side_.phase(idle);
                side_.nap(below(4'000'000));
            }
        }
        table_.close();
    }

  private:
    void get_one(std::int64_t key) {
        side_.phase(looking);
        const std::int64_t begin = now();
        Seen seen = look(key);
        if (below(4) == 0 && seen.fault == 0) seen = in_place(key);
        const std::int64_t end = now();
        linger();
        auto& old = before_.at(static_cast<std::size_t>(key));
        if (fault("stale", 50) && old.version != 0) seen = old;
        if (fault("blind", 50)) seen = {key, -1, 0, 0};
        if (seen.version != 0 && old.version == 0) old = seen;
        note(seen, begin, end, get);
        side_.phase(working);
    }
    Seen in_place(std::int64_t key) {
        try {
            const auto found = with_key(key, [&](const flyring::Key& at) {
                return table_.read(at, [&](flyring::Bytes value) {
                    return what_of(key, std::string(reinterpret_cast<const char*>(value.data()), value.size()), 0);
                });
            });
            return found ? *found : Seen{key, -1, 0, 0};
        } catch (const flyring::Busy&) {
            return {key, 0, 0, 2};
        }
    }
    void walk_one() {
        enter(walking, 2);
        const std::int64_t begin = now();
        try {
            walk_of(table_, walk, begin, 0, table_.version(), 0);
        } catch (const flyring::Busy&) {
        }
        side_.phase(working);
    }
    void sleep() {
        const bool any = below(3) == 0;
        const std::int64_t key = any ? -1 : some_key();
        const Seen seen = any ? Seen{} : look(key);
        if (seen.fault != 0) return;
        const std::int64_t before = any ? table_.version() : seen.version;
        const std::chrono::milliseconds timeout(below(2) == 0 ? 20 : 400);
        side_.phase(sleeping);
        const std::int64_t begin = now();
        std::int64_t result = -1;
        try {
            result =
                any ? table_.wait_changed(before, timeout)
                    : with_key(key, [&](const flyring::Key& at) { return table_.wait_changed(at, before, timeout); });
        } catch (const flyring::TimedOut&) {
        } catch (const flyring::Busy&) {
        }
        if (fault("deaf", 1)) side_.nap(600'000'000);
        side_.log(slept, key, before, result, begin, now());
        side_.phase(working);
    }

    std::array<Seen, keys> before_{};
};

}  // namespace torture
