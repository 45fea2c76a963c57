// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "requests.hpp"
#include "streams.hpp"
#include "table_keys.hpp"

// put_many, get_many, and ping_pong of a table (interop-tests/PEER.md).

namespace peer {

namespace {

std::int64_t now() noexcept {
    return flyring::detail::clock_ns(CLOCK_MONOTONIC);
}

std::int64_t end_of(const Json& request) {
    return now() + static_cast<std::int64_t>(request.value("seconds", 60.0) * 1e9);
}

Stream stream_of(Json request) {
    request["numbered"] = true;
    request["count"] = 0;
    request["first"] = 0;
    return Stream(request);
}

/// The keys with the numbers 0 to `count` - 1.
class Keys {
  public:
    Keys(flyring::KeyType type, std::uint64_t count) : type_(type) {
        for (std::uint64_t k = 0; k < count; ++k) {
            std::string text = "key-" + std::to_string(k);
            if (type == flyring::KeyType::bytes) text.assign(reinterpret_cast<const char*>(&k), sizeof k);
            texts_.push_back(std::move(text));
        }
    }
    std::uint64_t count() const noexcept { return texts_.size(); }
    flyring::Key operator[](std::uint64_t k) const {
        return type_ == flyring::KeyType::integer ? flyring::Key(k) : flyring::Key(texts_[k]);
    }

  private:
    flyring::KeyType type_;
    std::vector<std::string> texts_;
};

[[noreturn]] void mismatch(std::uint64_t key, const std::string& what) {
    throw Failed(
        {{"error", "mismatch"}, {"message", "key " + std::to_string(key) + ": " + what}, {"key", key}, {"what", what}});
}

/// What get_many knows of a key.
struct Known {
    std::int64_t version = 0;  // of the last read that told one
    std::uint64_t number = 0;  // the put that this version is of
    bool there = false;        // the last read found it
};

/// The checks and counts of one get_many.
class Reader {
  public:
    Reader(flyring::Table& table, const Json& request)
        : table_(table),
          stream_(stream_of(request)),
          keys_(table.key_type(), request.at("keys")),
          known_(keys_.count()),
          may_be_removed_(request.value("removes", false)) {
        entries_.resize(keys_.count());
    }

    void round(const std::string& how, std::uint64_t turn) {
        if (how == "each") return each();
        for (std::uint64_t k = 0; k < keys_.count(); ++k) {
            static const char* const ways[] = {"get", "read", "entry"};
            const std::string way = how == "mix" ? ways[(turn + k) % 3] : how;
            ++reads_;
            try {
                if (way == "read") {
                    in_place(k);
                } else if (way == "entry") {
                    by_entry(k);
                } else {
                    check(k, table_.get_versioned(keys_[k]));
                }
            } catch (const flyring::Busy&) {
                ++busy_;
            }
        }
        if (how == "mix" && turn % 3 == 2) each();
    }
    Json answer(std::int64_t version) const {
        return {{"reads", reads_}, {"changes", changes_}, {"absent", absent_}, {"busy", busy_}, {"version", version}};
    }

  private:
    void each() {
        try {
            std::vector<bool> met(keys_.count());
            table_.for_each([&](const flyring::TableItem& item) {
                ++reads_;
                const std::uint64_t k = number_of(flyring::Bytes(reinterpret_cast<const std::byte*>(item.value.data()),
                                                                 item.value.size())) %
                                        keys_.count();
                const flyring::Key key = keys_[k];
                if (item.key.size() != key.size() || std::memcmp(item.key.data(), key.data(), key.size()) != 0) {
                    mismatch(k, "its value lies under another key, of " + std::to_string(item.key.size()) + " bytes");
                }
                if (met[k] && !may_be_removed_) mismatch(k, "an iteration met it twice");
                met[k] = true;
                check(k, flyring::Versioned{item.value, item.version});
            });
            for (std::uint64_t k = 0; k < keys_.count(); ++k) {
                if (!met[k] && known_[k].there && !may_be_removed_) mismatch(k, "an iteration did not meet it");
            }
        } catch (const flyring::Busy&) {
            ++busy_;
        }
    }
    void in_place(std::uint64_t k) {
        std::string value;
        const bool there = table_.read(keys_[k], [&](flyring::Bytes bytes) {
            value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        });
        if (!there) return none(k);
        (void)whole(k, value);
        known_[k].there = true;
    }
    void by_entry(std::uint64_t k) {
        if (!entries_[k]) {
            auto made = table_.entry(keys_[k]);
            if (!made) return none(k);
            entries_[k] = std::make_unique<flyring::Entry>(*std::move(made));
        }
        check(k, entries_[k]->get_versioned());
    }
    void none(std::uint64_t k) {
        ++absent_;
        if (known_[k].there && !may_be_removed_) mismatch(k, "it was there, and is absent");
        known_[k].there = false;
    }
    static std::uint64_t number_of(flyring::Bytes value) {
        std::uint64_t number = std::numeric_limits<std::uint64_t>::max();
        if (value.size() >= sizeof number) std::memcpy(&number, value.data(), sizeof number);
        return number;
    }
    /// Returns the number of the put that the value is of.
    std::uint64_t whole(std::uint64_t k, const std::string& value) const {
        const flyring::Bytes bytes(reinterpret_cast<const std::byte*>(value.data()), value.size());
        const std::uint64_t number = number_of(bytes);
        if (value.size() < sizeof number) mismatch(k, std::to_string(value.size()) + " bytes");
        if (number % keys_.count() != k) mismatch(k, "a value of put " + std::to_string(number));
        if (!StreamMessage(stream_, number).matches(bytes)) mismatch(k, "not whole: put " + std::to_string(number));
        return number;
    }
    void check(std::uint64_t k, const std::optional<flyring::Versioned>& found) {
        if (!found) return none(k);
        Known& known = known_[k];
        const std::uint64_t number = whole(k, found->value);
        if (found->version < known.version) {
            mismatch(k, "version " + std::to_string(found->version) + " behind " + std::to_string(known.version));
        }
        if (found->version == known.version && number != known.number) {
            mismatch(k, "version " + std::to_string(found->version) + " with the values of two puts");
        }
        changes_ += found->version != known.version ? 1 : 0;
        known = {found->version, number, true};
    }

    flyring::Table& table_;
    Stream stream_;
    Keys keys_;
    std::vector<Known> known_;
    std::vector<std::unique_ptr<flyring::Entry>> entries_;
    bool may_be_removed_;
    std::uint64_t reads_ = 0;
    std::uint64_t changes_ = 0;
    std::uint64_t absent_ = 0;
    std::uint64_t busy_ = 0;
};

/// put_many by a table, whose changes have a time-out, or by a writer.
template <typename Target, typename... Limit>
Json put_all(Target& target, flyring::KeyType type, const Json& request, Limit... limit) {
    const Stream stream = stream_of(request);
    const Keys keys(type, request.at("keys"));
    const std::uint64_t first = request.value("first", std::uint64_t{0});
    const std::uint64_t most = request.value("count", std::numeric_limits<std::uint64_t>::max() - first);
    const std::uint64_t every = request.value("remove", std::uint64_t{0});
    const std::chrono::nanoseconds pause(request.value("pause", std::int64_t{0}));
    const std::int64_t die_at = request.value("die_at", std::int64_t{-1});
    const std::int64_t start = now();
    const std::int64_t end = end_of(request);
    std::vector<std::byte> value(stream.max);
    std::uint64_t count = 0;
    std::uint64_t removed = 0;
    std::int64_t version = 0;
    for (std::uint64_t i = first; count < most && now() < end; ++i, ++count) {
        const StreamMessage message(stream, i);
        message.write(value.data());
        const flyring::Bytes bytes(value.data(), message.length());
        const flyring::Key key = keys[i % keys.count()];
        if (static_cast<std::int64_t>(i) == die_at) {
            (void)target.put_if_absent(key, bytes, limit...);
            (void)target.update(key, [](std::string&) { kill_this_process(); }, limit...);
        }
        const std::int64_t put = target.put(key, bytes, limit...);
        if (put <= version) {
            mismatch(i % keys.count(), "version " + std::to_string(put) + " behind " + std::to_string(version));
        }
        version = put;
        if (every != 0 && i % every == every - 1) {
            removed += target.remove(keys[(i + keys.count() / 2) % keys.count()], limit...) ? 1 : 0;
        }
        if (pause.count() > 0) std::this_thread::sleep_for(pause);
    }
    return {{"count", count},
            {"removed", removed},
            {"version", version},
            {"seconds", static_cast<double>(now() - start) / 1e9}};
}

/// The payload of a message of ping_pong.
struct Ball {
    std::uint64_t number;
    std::int64_t sent;  // CLOCK_MONOTONIC, ns
};

}  // namespace

Json put_many(flyring::Table& table, flyring::TableWriter* writer, const Json& request) {
    if (writer != nullptr) return put_all(*writer, table.key_type(), request);
    return put_all(table, table.key_type(), request, timeout(request).value_or(flyring::forever));
}

Json get_many(flyring::Table& table, const Json& request) {
    const std::string how = request.value("how", "get");
    if (how != "get" && how != "read" && how != "entry" && how != "each" && how != "wait" && how != "mix") {
        throw BadRequest("how: " + how);
    }
    Reader reader(table, request);
    const std::int64_t end = end_of(request);
    const std::int64_t until = request.value("until", std::int64_t{-1});
    std::int64_t version = -1;
    for (std::uint64_t turn = 0;; ++turn) {
        if (how == "wait" && turn > 0 && (until < 0 || version < until)) {
            try {
                (void)table.wait_changed(version, std::chrono::nanoseconds(std::max<std::int64_t>(0, end - now())));
            } catch (const flyring::TimedOut&) {
                // The end of the time is looked at below.
            }
        }
        version = table.version();
        reader.round(how, turn);
        if (until >= 0 && version >= until) break;
        if (now() < end) continue;
        if (until < 0) break;
        throw Failed(
            {{"error", "timeout"},
             {"message", "the table's version is " + std::to_string(version) + ", not " + std::to_string(until)}});
    }
    return reader.answer(version);
}

Json ping_pong(flyring::Table& table, const Json& request) {
    const std::string how = request.value("how", "key");
    if (how != "key" && how != "table" && how != "absent") throw BadRequest("how: " + how);
    const std::uint64_t count = request.at("count");
    const bool first = request.value("first", false);
    const std::int64_t late_from = request.value("late", std::int64_t{50'000'000});
    const std::int64_t end = end_of(request);
    std::int64_t longest = 0;
    std::uint64_t late = 0;
    std::int64_t seen = 0;
    const auto left = [&] { return std::chrono::nanoseconds(std::max<std::int64_t>(0, end - now())); };
    const std::int64_t pause = request.value("pause", std::int64_t{0});
    const auto send = [&](std::uint64_t number) {
        for (const std::int64_t busy_until = pause > 0 ? now() + pause : 0; pause > 0 && now() < busy_until;) {
            // As if it worked for its answer.
        }
        const Ball ball{number, now()};
        with_key(table.key_type(), request.at("put"), [&](const flyring::Key& key) {
            return table.put(key, flyring::Bytes(reinterpret_cast<const std::byte*>(&ball), sizeof ball), left());
        });
    };
    const auto await = [&](const flyring::Key& key) -> flyring::Versioned {
        for (;;) {
            const std::int64_t before = table.version();
            const auto got = table.get_versioned(key);
            if (got && got->version != seen) return *got;
            if (how == "table") {
                (void)table.wait_changed(before, left());
            } else {
                (void)table.wait_changed(key, how == "key" ? seen : 0, left());
            }
        }
    };
    const auto take = [&](std::uint64_t number) {
        with_key(table.key_type(), request.at("get"), [&](const flyring::Key& key) {
            const flyring::Versioned got = await(key);
            const std::int64_t taken = now();
            Ball ball{};
            if (got.value.size() == sizeof ball) std::memcpy(&ball, got.value.data(), sizeof ball);
            if (got.value.size() != sizeof ball || ball.number != number) {
                throw Failed(
                    {{"error", "mismatch"},
                     {"message", "message " + std::to_string(number) + " is number " + std::to_string(ball.number)},
                     {"sequence", number},
                     {"what", "number"}});
            }
            seen = got.version;
            longest = std::max(longest, taken - ball.sent);
            late += taken - ball.sent >= late_from ? 1 : 0;
            return how != "absent" || table.remove(key, left());
        });
    };
    const std::int64_t start = now();
    for (std::uint64_t number = 0; number < count; ++number) {
        if (first) send(number);
        take(number);
        if (!first) send(number);
    }
    return {
        {"count", count}, {"seconds", static_cast<double>(now() - start) / 1e9}, {"longest", longest}, {"late", late}};
}

}  // namespace peer
