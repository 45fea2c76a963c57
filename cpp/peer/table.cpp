// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "requests.hpp"
#include "table_keys.hpp"

// The ops of a table (interop-tests/PEER.md).

namespace peer {

namespace {

/// The number of a key. Throws the library's InvalidArgument for a number outside 0 to `most`.
std::optional<std::uint64_t> number(const Json& request, const char* key, std::uint64_t most) {
    const auto found = request.find(key);
    if (found == request.end() || found->is_null()) return std::nullopt;
    const auto value = found->get<std::int64_t>();
    if (value < 0 || static_cast<std::uint64_t>(value) > most) {
        throw flyring::InvalidArgument(key, std::to_string(value) + " is out of range");
    }
    return static_cast<std::uint64_t>(value);
}

std::optional<std::uint32_t> small_number(const Json& request, const char* key) {
    const auto value = number(request, key, std::numeric_limits<std::uint32_t>::max());
    return value ? std::optional<std::uint32_t>(static_cast<std::uint32_t>(*value)) : std::nullopt;
}

flyring::TableOptions table_options(const Json& request) {
    flyring::TableOptions made;
    const std::string key = request.value("key", "");
    if (key == "bytes") {
        made.key = flyring::KeyType::bytes;
    } else if (key == "text") {
        made.key = flyring::KeyType::text;
    } else if (key == "integer") {
        made.key = flyring::KeyType::integer;
    } else if (!key.empty()) {
        throw flyring::InvalidArgument("key", key + " is none of bytes, text and integer");
    }
    made.capacity = number(request, "capacity", std::numeric_limits<std::int64_t>::max());
    made.key_bytes = small_number(request, "key_bytes");
    made.value_bytes = small_number(request, "value_bytes");
    if (request.contains("checked")) made.checked = request.at("checked").get<bool>();
    made.mode = small_number(request, "mode").value_or(made.mode);
    made.any_file_system = request.value("any_file_system", false);
    made.wake = request.value("wake", true);
    return made;
}

Json stats_json(const flyring::TableStats& stats) {
    return {{"path", stats.path},
            {"id", uuid_text(stats.id)},
            {"capacity", stats.capacity},
            {"size", stats.size},
            {"version", stats.version},
            {"entries", stats.entries},
            {"filled", stats.filled},
            {"rebuild", stats.rebuild},
            {"writing", stats.writing},
            {"closed", stats.closed},
            {"unfinished", stats.unfinished},
            {"writer", stats.writer},
            {"pid", stats.pid},
            {"attached_at", stats.attached_at},
            {"epoch", stats.epoch},
            {"successor", stats.successor},
            {"needs_recovery", stats.needs_recovery},
            {"clean", stats.clean},
            {"damaged", stats.damaged},
            {"busy", stats.busy}};
}

}  // namespace

flyring::Table& Peer::table_of(const Json& request) {
    return find(tables_, request, "table");
}

/// Calls use(target, key type, limit...) with the handle's writer, or with its table and the time-out of a change.
template <typename Use>
auto Peer::with_changer(const Json& request, Use&& use) {
    if (request.contains("writer")) {
        HeldWriter& held = find(writers_, request, "writer");
        return use(held.writer, tables_.at(held.table).key_type());
    }
    flyring::Table& table = table_of(request);
    return use(table, table.key_type(), timeout(request).value_or(flyring::forever));
}

Json Peer::make_table(const Json& request, const std::string& op) {
    const std::string name = request.at("name");
    const flyring::detail::TableInEnvironment in{environment(request)};
    if (op == "open") {
        flyring::OpenTableOptions chosen;
        chosen.read_only = request.value("read_only", false);
        chosen.any_file_system = request.value("any_file_system", false);
        chosen.wake = request.value("wake", true);
        const auto time = timeout(request);
        keep(tables_, request.at("table"),
             time ? flyring::Table::wait_for(name, *time, chosen) : in.open(name, chosen));
    } else {
        const flyring::TableOptions options = table_options(request);
        keep(tables_, request.at("table"),
             op == "create"    ? in.create(name, options)
             : op == "replace" ? flyring::Table::replace(name, options)
                               : in.open_or_create(name, options));
    }
    return table_info(request);
}

Json Peer::table_info(const Json& request) {
    const flyring::Table& table = table_of(request);
    return {{"path", table.path()},
            {"table_id", uuid_text(table.id())},
            {"key_type", flyring::detail::key_type_name(table.key_type())},
            {"key_bytes", table.key_bytes()},
            {"value_bytes", table.value_bytes()},
            {"capacity", table.capacity()},
            {"checked", table.checked()},
            {"file_length", table.file_length()}};
}

Json Peer::table_stats(const Json& request) {
    return {{"stats", stats_json(table_of(request).stats())}};
}

void Peer::close_table(const Json& request) {
    if (request.contains("writer")) {
        find(writers_, request, "writer").writer.close();
    } else {
        table_of(request).close(request.value("sync", false));
    }
}

Json Peer::writer(const Json& request) {
    HeldWriter made{table_of(request).writer(request.value("name", ""), timeout(request).value_or(no_time)),
                    request.at("table")};
    const std::string handle = request.at("writer");
    writers_.erase(handle);
    return {{"epoch", writers_.emplace(handle, std::move(made)).first->second.writer.epoch()}};
}

Json Peer::entry(const Json& request) {
    flyring::Table& table = table_of(request);
    auto made =
        with_key(table.key_type(), request.at("key"), [&](const flyring::Key& key) { return table.entry(key); });
    entries_.erase(request.at("entry"));
    const bool found = made.has_value();
    if (found) entries_.emplace(request.at("entry"), *std::move(made));
    return {{"found", found}};
}

Json Peer::get(const Json& request) {
    const auto in_place = [](flyring::Bytes value) { return to_hex(value); };
    const auto text = [](const std::string& value) {
        return to_hex({reinterpret_cast<const std::byte*>(value.data()), value.size()});
    };
    const bool reads = request.value("in_place", false);
    std::optional<std::string> hex;
    std::optional<flyring::Versioned> got;
    if (request.contains("entry")) {
        flyring::Entry& entry = find(entries_, request, "entry");
        if (reads) {
            hex = entry.read(in_place);
        } else {
            got = entry.get_versioned();
        }
    } else {
        const flyring::Table& table = table_of(request);
        with_key(table.key_type(), request.at("key"), [&](const flyring::Key& key) {
            if (reads) {
                hex = table.read(key, in_place);
            } else {
                got = table.get_versioned(key);
            }
            return 0;
        });
    }
    if (reads) return {{"value", hex ? Json(*hex) : Json(nullptr)}};
    return {{"value", got ? Json(text(got->value)) : Json(nullptr)}, {"version", got ? got->version : 0}};
}

Json Peer::put(const Json& request) {
    const std::vector<std::byte> data = from_hex(request.at("value"));
    const flyring::Bytes value(data.data(), data.size());
    if (request.contains("entry")) {
        return {{"version", find(writers_, request, "writer").writer.put(find(entries_, request, "entry"), value)}};
    }
    return with_changer(request, [&](auto& target, flyring::KeyType type, auto... limit) -> Json {
        return with_key(type, request.at("key"), [&](const flyring::Key& key) -> Json {
            if (request.value("if_absent", false)) return {{"version", target.put_if_absent(key, value, limit...)}};
            if (!request.contains("version")) return {{"version", target.put(key, value, limit...)}};
            const std::int64_t version = request.at("version");
            return {{"version", target.compare_and_put(key, version, value, limit...)}};
        });
    });
}

Json Peer::remove(const Json& request) {
    return with_changer(request, [&](auto& target, flyring::KeyType type, auto... limit) -> Json {
        return with_key(type, request.at("key"),
                        [&](const flyring::Key& key) -> Json { return {{"removed", target.remove(key, limit...)}}; });
    });
}

Json Peer::update(const Json& request) {
    struct Thrown {};
    const std::vector<std::byte> bits = from_hex(request.value("xor", ""));
    const auto handler = [&](std::string& value) {
        if (request.value("throw", false)) throw Thrown();
        for (std::size_t i = 0; i < std::min(bits.size(), value.size()); ++i) {
            value[i] = static_cast<char>(value[i] ^ static_cast<char>(bits[i]));
        }
    };
    try {
        return with_changer(request, [&](auto& target, flyring::KeyType type, auto... limit) -> Json {
            return with_key(type, request.at("key"), [&](const flyring::Key& key) -> Json {
                return {{"version", target.update(key, handler, limit...)}, {"threw", false}};
            });
        });
    } catch (const Thrown&) {
        return {{"version", 0}, {"threw", true}};
    }
}

Json Peer::clear(const Json& request) {
    return with_changer(request, [](auto& target, flyring::KeyType, auto... limit) -> Json {
        return {{"removed", target.clear(limit...)}};
    });
}

Json Peer::size(const Json& request) {
    const flyring::Table& table = table_of(request);
    return {{"size", table.size()}, {"version", table.version()}};
}

Json Peer::each(const Json& request) {
    const flyring::Table& table = table_of(request);
    const auto bytes = [](const std::string& text) {
        return flyring::Bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
    };
    Json items = Json::array();
    table.for_each([&](const flyring::TableItem& item) {
        Json key = item.key;
        if (table.key_type() == flyring::KeyType::integer) key = item.integer();
        if (table.key_type() == flyring::KeyType::bytes) key = to_hex(bytes(item.key));
        items.push_back({{"key", key}, {"value", to_hex(bytes(item.value))}, {"version", item.version}});
    });
    return {{"items", items}};
}

Json Peer::wait_changed(const Json& request) {
    const std::int64_t version = request.at("version");
    const std::chrono::nanoseconds limit = timeout(request).value_or(flyring::forever);
    if (request.contains("entry")) {
        return {{"version", find(entries_, request, "entry").wait_changed(version, limit)}};
    }
    const flyring::Table& table = table_of(request);
    if (!request.contains("key")) return {{"version", table.wait_changed(version, limit)}};
    return with_key(table.key_type(), request.at("key"), [&](const flyring::Key& key) -> Json {
        return {{"version", table.wait_changed(key, version, limit)}};
    });
}

Json Peer::snapshot(const Json& request) {
    const std::string path = request.at("path");
    if (request.contains("writer")) return {{"keys", find(writers_, request, "writer").writer.snapshot(path)}};
    return {{"keys", table_of(request).snapshot(path)}};
}

Json Peer::grow(const Json& request) {
    const std::uint64_t capacity = *number(request, "capacity", std::numeric_limits<std::int64_t>::max());
    return with_changer(request, [&](auto& target, flyring::KeyType, auto... limit) -> Json {
        target.grow(capacity, limit...);
        return Json::object();
    });
}

Json Peer::sync(const Json& request) {
    table_of(request).sync();
    return Json::object();
}

Json Peer::put_many(const Json& request) {
    if (!request.contains("writer")) return peer::put_many(table_of(request), nullptr, request);
    HeldWriter& held = find(writers_, request, "writer");
    return peer::put_many(tables_.at(held.table), &held.writer, request);
}

Json Peer::get_many(const Json& request) {
    return peer::get_many(table_of(request), request);
}

}  // namespace peer
