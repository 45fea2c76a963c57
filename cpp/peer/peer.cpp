// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

#include <unistd.h>

#include <flyring/file.hpp>

namespace peer {

namespace {

template <typename Map>
auto& find(Map& objects, const Json& request, const char* kind) {
    const std::string handle = request.at(kind);
    const auto found = objects.find(handle);
    if (found == objects.end()) throw BadRequest(std::string("there is no ") + kind + " " + handle);
    return found->second;
}

template <typename Map, typename Object>
auto& keep(Map& objects, const std::string& handle, Object object) {
    return objects.insert_or_assign(handle, std::move(object)).first->second;
}

std::string uuid_text(const flyring::Uuid& uuid) {
    std::string text = to_hex({uuid.data(), uuid.size()});
    for (const std::size_t dash : {8U, 13U, 18U, 23U}) text.insert(dash, 1, '-');
    return text;
}

flyring::Environment environment(const Json& request) {
    flyring::Environment values;
    const auto found = request.find("inject");
    if (found == request.end() || found->is_null()) return values;
    for (const auto& [key, value] : found->items()) {
        if (value.is_null()) continue;
        if (key == "channel_id") {
            values.channel_id = flyring::detail::parse_uuid(value.get<std::string>());
        } else if (key == "boot_id") {
            values.boot_id = flyring::detail::parse_uuid(value.get<std::string>());
        } else if (key == "created_at") {
            values.created_at = value.get<std::int64_t>();
        } else if (key == "now") {
            values.now = value.get<std::int64_t>();
        } else if (key == "pid") {
            values.pid = value.get<std::int32_t>();
        } else {
            throw BadRequest("inject: " + key);
        }
    }
    return values;
}

/// A number that fits, or the library's own error for one that is far out of range.
std::uint32_t number(const Json& request, const char* key, std::uint32_t otherwise) {
    const auto found = request.find(key);
    if (found == request.end() || found->is_null()) return otherwise;
    const auto value = found->get<std::int64_t>();
    if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
        throw flyring::InvalidArgument(key, std::to_string(value) + " is out of range");
    }
    return static_cast<std::uint32_t>(value);
}

flyring::Options options(const Json& request) {
    flyring::Options made;
    const std::string kind = request.value("kind", "");
    if (kind == "inbox") {
        made.kind = flyring::Kind::inbox;
    } else if (kind == "broadcast") {
        made.kind = flyring::Kind::broadcast;
    } else if (!kind.empty()) {
        throw flyring::InvalidArgument("kind", kind + " is neither inbox nor broadcast");
    }
    made.capacity = number(request, "capacity", made.capacity);
    made.publishers = number(request, "publishers", made.publishers);
    made.subscribers = number(request, "subscribers", made.subscribers);
    made.alignment = number(request, "alignment", made.alignment);
    made.counters = number(request, "counters", made.counters);
    made.schema = request.value("schema", "");
    made.schema_id = number(request, "schema_id", made.schema_id);
    made.schema_version = number(request, "schema_version", made.schema_version);
    made.mode = number(request, "mode", made.mode);
    made.any_file_system = request.value("any_file_system", false);
    made.environment = environment(request);
    return made;
}

Json message_json(const flyring::Message& message) {
    return {{"data", to_hex(message.payload())},
            {"type", message.type()},
            {"ring", message.ring()},
            {"position", message.position()}};
}

/// What an error carries besides its text.
Json carried(const flyring::FlyringError& error) {
    using namespace flyring;
    if (const auto* e = dynamic_cast<const ChannelExists*>(&error)) return {{"path", e->path()}};
    if (const auto* e = dynamic_cast<const NoSuchChannel*>(&error)) return {{"path", e->path()}};
    if (const auto* e = dynamic_cast<const NotAChannel*>(&error)) return {{"path", e->path()}};
    if (const auto* e = dynamic_cast<const ChannelDiffers*>(&error)) {
        return {{"field", e->field()}, {"expected", e->expected()}, {"actual", e->actual()}};
    }
    if (const auto* e = dynamic_cast<const VersionTooNew*>(&error)) {
        return {{"field", e->field()}, {"found", e->found()}, {"supported", e->supported()}};
    }
    if (const auto* e = dynamic_cast<const Truncated*>(&error)) {
        return {{"expected", e->expected()}, {"actual", e->actual()}};
    }
    if (const auto* e = dynamic_cast<const CorruptHeader*>(&error)) return {{"field", e->field()}};
    if (const auto* e = dynamic_cast<const CorruptRing*>(&error)) {
        return {{"ring", e->ring()}, {"position", e->position()}, {"reason", e->reason()}};
    }
    if (const auto* e = dynamic_cast<const NoSpace*>(&error)) return {{"needed", e->needed()}, {"free", e->free()}};
    if (const auto* e = dynamic_cast<const UnsuitableFileSystem*>(&error)) {
        return {{"path", e->path()}, {"reason", e->reason()}};
    }
    if (const auto* e = dynamic_cast<const AccessDenied*>(&error))
        return {{"path", e->path()}, {"reason", e->reason()}};
    if (const auto* e = dynamic_cast<const NoFreeSlot*>(&error)) return {{"kind", e->kind()}, {"slots", e->slots()}};
    if (const auto* e = dynamic_cast<const MessageTooLarge*>(&error)) {
        return {{"length", e->length()}, {"limit", e->limit()}};
    }
    if (const auto* e = dynamic_cast<const InvalidArgument*>(&error)) return {{"argument", e->argument()}};
    if (const auto* e = dynamic_cast<const SlotLost*>(&error)) return {{"slot", e->slot()}};
    if (const auto* e = dynamic_cast<const IoError*>(&error)) {
        return {{"call", e->call()}, {"errno", e->error()}, {"path", e->path()}};
    }
    return Json::object();
}

}  // namespace

std::string to_hex(flyring::Bytes bytes) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    text.reserve(2 * bytes.size());
    for (const std::byte byte : bytes) {
        text += digits[static_cast<unsigned>(byte) >> 4];
        text += digits[static_cast<unsigned>(byte) & 15];
    }
    return text;
}

std::vector<std::byte> from_hex(const std::string& text) {
    const auto digit = [](char letter) -> unsigned {
        if (letter >= '0' && letter <= '9') return static_cast<unsigned>(letter - '0');
        if ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'f') return static_cast<unsigned>((letter | 0x20) - 'a' + 10);
        throw BadRequest("not hex");
    };
    if (text.size() % 2 != 0) throw BadRequest("hex of odd length");
    std::vector<std::byte> bytes;
    bytes.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(digit(text[i]) << 4 | digit(text[i + 1])));
    }
    return bytes;
}

const std::map<std::string, Peer::Op>& Peer::ops() {
    static const std::map<std::string, Op> all = {
        {"hello", &Peer::hello},
        {"create", &Peer::create},
        {"open_or_create", &Peer::open_or_create},
        {"replace", &Peer::replace},
        {"open", &Peer::open},
        {"info", &Peer::info},
        {"unlink", &Peer::unlink},
        {"publisher", &Peer::publisher},
        {"subscriber", &Peer::subscriber},
        {"offer", &Peer::offer},
        {"offer_batch", &Peer::offer_batch},
        {"claim", &Peer::claim},
        {"commit", &Peer::commit},
        {"abort", &Peer::abort},
        {"held_by", &Peer::held_by},
        {"take", &Peer::take},
        {"poll", &Peer::poll},
        {"positions", &Peer::positions},
        {"publish_stream", &Peer::publish_stream},
        {"verify_stream", &Peer::verify_stream},
        {"counter_allocate", &Peer::counter_allocate},
        {"counter_find", &Peer::counter_find},
        {"counter_get", &Peer::counter_get},
        {"counter_set", &Peer::counter_set},
        {"counter_add", &Peer::counter_add},
        {"counter_cas_loop", &Peer::counter_cas_loop},
        {"counter_free", &Peer::counter_free},
        {"counters", &Peer::counters},
        {"close", &Peer::close},
        {"forget", &Peer::forget},
    };
    return all;
}

Json Peer::answer(const Json& request) {
    Json answer;
    try {
        const std::string name = request.at("op");
        const auto op = ops().find(name);
        if (op == ops().end()) throw BadRequest("unknown op " + name);
        answer = (this->*op->second)(request);
        answer["ok"] = true;
        return answer;
    } catch (const flyring::FlyringError& error) {
        answer = carried(error);
        answer["error"] = error.code();
        answer["message"] = error.what();
    } catch (const Failed& error) {
        answer = error.answer();
    } catch (const BadRequest& error) {
        answer = {{"error", "bad-request"}, {"message", error.what()}};
    } catch (const Json::exception& error) {
        answer = {{"error", "bad-request"}, {"message", error.what()}};
    }
    answer["ok"] = false;
    return answer;
}

Json Peer::hello(const Json&) {
    Json names = Json::array();
    for (const auto& [name, op] : ops()) names.push_back(name);
    names.push_back("quit");
    return {{"language", "cpp"}, {"version", FLYRING_VERSION}, {"layout", "1.0"}, {"pid", ::getpid()}, {"ops", names}};
}

Json Peer::keep_channel(const Json& request, flyring::Channel channel) {
    keep(channels_, request.at("channel"), std::move(channel));
    return info(request);
}

Json Peer::create(const Json& request) {
    return keep_channel(request, flyring::Channel::create(request.at("name"), options(request)));
}

Json Peer::open_or_create(const Json& request) {
    return keep_channel(request, flyring::Channel::open_or_create(request.at("name"), options(request)));
}

Json Peer::replace(const Json& request) {
    return keep_channel(request, flyring::Channel::replace(request.at("name"), options(request)));
}

Json Peer::open(const Json& request) {
    flyring::OpenOptions chosen;
    chosen.any_file_system = request.value("any_file_system", false);
    chosen.environment = environment(request);
    return keep_channel(request, flyring::Channel::open(request.at("name"), chosen));
}

Json Peer::info(const Json& request) {
    const flyring::Channel& channel = find(channels_, request, "channel");
    return {{"path", channel.path()},
            {"channel_id", uuid_text(channel.id())},
            {"kind", channel.kind() == flyring::Kind::inbox ? "inbox" : "broadcast"},
            {"capacity", channel.capacity()},
            {"publishers", channel.publishers()},
            {"subscribers", channel.subscribers()},
            {"alignment", channel.alignment()},
            {"counters", channel.counter_count()},
            {"file_length", channel.file_length()}};
}

Json Peer::unlink(const Json& request) {
    flyring::Channel::unlink(request.at("name"));
    return Json::object();
}

Json Peer::publisher(const Json& request) {
    flyring::Channel& channel = find(channels_, request, "channel");
    const auto& made = keep(publishers_, request.at("publisher"), channel.publisher(request.value("name", "")));
    return {{"ring", made.ring()}, {"epoch", made.epoch()}, {"position", made.position()}};
}

Json Peer::subscriber(const Json& request) {
    flyring::Channel& channel = find(channels_, request, "channel");
    std::vector<std::uint32_t> rings;
    if (const auto found = request.find("rings"); found != request.end() && found->is_array()) {
        for (const Json& ring : *found) rings.push_back(number({{"rings", ring}}, "rings", 0));
    }
    const auto& made = keep(subscribers_, request.at("subscriber"),
                            channel.subscriber(request.value("name", ""), request.value("kept", false), rings));
    Json answer = positions(request);
    answer["slot"] = made.slot();
    answer["epoch"] = made.epoch();
    answer["rings"] = made.rings();
    return answer;
}

Json Peer::offer(const Json& request) {
    flyring::Publisher& publisher = find(publishers_, request, "publisher");
    return {{"position", publisher.offer(from_hex(request.at("data")), request.value("type", 1))}};
}

Json Peer::offer_batch(const Json& request) {
    flyring::Publisher& publisher = find(publishers_, request, "publisher");
    std::vector<std::vector<std::byte>> payloads;
    for (const Json& data : request.at("data")) payloads.push_back(from_hex(data));
    const std::vector<flyring::Bytes> views(payloads.begin(), payloads.end());
    return {{"taken", publisher.offer_batch(views, request.value("type", 1))}};
}

Json Peer::claim(const Json& request) {
    flyring::Publisher& publisher = find(publishers_, request, "publisher");
    const std::size_t length = request.at("length");
    flyring::Claim claim = publisher.claim(length, request.value("type", 1));
    const bool claimed = static_cast<bool>(claim);
    if (claimed) keep(claims_, request.at("publisher"), std::move(claim));
    return {{"claimed", claimed}};
}

Json Peer::commit(const Json& request) {
    flyring::Claim& claim = find(claims_, request, "publisher");
    const std::vector<std::byte> data = from_hex(request.value("data", ""));
    if (data.size() > claim.size()) throw BadRequest("data is longer than the claim");
    if (claim) std::copy(data.begin(), data.end(), claim.data());
    return {{"position", claim.commit()}};
}

Json Peer::abort(const Json& request) {
    return {{"position", find(claims_, request, "publisher").abort()}};
}

Json Peer::held_by(const Json& request) {
    const auto holder = find(publishers_, request, "publisher").held_by();
    if (!holder) return {{"holder", nullptr}};
    return {{"holder",
             {{"slot", holder->slot},
              {"name", holder->name},
              {"pid", holder->pid},
              {"live", holder->live},
              {"kept", holder->kept},
              {"position", holder->position}}}};
}

Json Peer::take(const Json& request) {
    const auto message = find(subscribers_, request, "subscriber").take();
    return {{"message", message ? message_json(*message) : Json(nullptr)}};
}

Json Peer::poll(const Json& request) {
    Json messages = Json::array();
    find(subscribers_, request, "subscriber")
        .poll([&](const flyring::Message& message) { messages.push_back(message_json(message)); },
              request.value("limit", flyring::layout::CONSTANTS_DEFAULT_POLL_LIMIT));
    return {{"messages", messages}};
}

Json Peer::positions(const Json& request) {
    if (request.contains("subscriber")) {
        const flyring::Subscriber& subscriber = find(subscribers_, request, "subscriber");
        Json positions = Json::object();
        for (const std::uint32_t ring : subscriber.rings()) positions[std::to_string(ring)] = subscriber.position(ring);
        return {{"positions", positions}};
    }
    return {{"position", find(publishers_, request, "publisher").position()}};
}

Json Peer::publish_stream(const Json& request) {
    return peer::publish_stream(find(publishers_, request, "publisher"), request);
}

Json Peer::verify_stream(const Json& request) {
    return peer::verify_stream(find(subscribers_, request, "subscriber"), request);
}

flyring::Counter Peer::counter_of(const Json& request) {
    return find(channels_, request, "channel").counters().counter(request.at("counter"));
}

Json Peer::counter_allocate(const Json& request) {
    flyring::Counters counters = find(channels_, request, "channel").counters();
    const std::vector<std::byte> key = from_hex(request.value("key", ""));
    return {{"counter", counters.allocate(request.at("label"), request.value("type_id", 0), key).id()}};
}

Json Peer::counter_find(const Json& request) {
    const auto found = find(channels_, request, "channel").counters().find(request.at("label"));
    return {{"counter", found ? Json(found->id()) : Json(nullptr)}};
}

Json Peer::counter_get(const Json& request) {
    const flyring::Counter counter = counter_of(request);
    const std::string order = request.value("order", "volatile");
    if (order != "plain" && order != "volatile") throw BadRequest("order: " + order);
    return {{"value", order == "plain" ? counter.get() : counter.get_volatile()}};
}

Json Peer::counter_set(const Json& request) {
    flyring::Counter counter = counter_of(request);
    const std::string order = request.value("order", "volatile");
    const std::int64_t value = request.at("value");
    if (order == "plain") {
        counter.set(value);
    } else if (order == "volatile") {
        counter.set_volatile(value);
    } else if (order == "release") {
        counter.set_release(value);
    } else {
        throw BadRequest("order: " + order);
    }
    return {{"value", counter.get_volatile()}};
}

Json Peer::counter_add(const Json& request) {
    flyring::Counter counter = counter_of(request);
    const std::int64_t delta = request.at("delta");
    const std::int64_t times = request.value("times", std::int64_t{1});
    for (std::int64_t i = 0; i < times; ++i) counter.get_and_add(delta);
    return {{"value", counter.get_volatile()}};
}

Json Peer::counter_cas_loop(const Json& request) {
    flyring::Counter counter = counter_of(request);
    const std::int64_t times = request.at("times");
    std::int64_t failed = 0;
    for (std::int64_t i = 0; i < times; ++i) {
        for (std::int64_t value = counter.get_volatile(); !counter.compare_and_set(value, value + 1);
             value = counter.get_volatile()) {
            ++failed;
        }
    }
    return {{"failed", failed}};
}

Json Peer::counter_free(const Json& request) {
    counter_of(request).free();
    return Json::object();
}

Json Peer::counters(const Json& request) {
    Json list = Json::array();
    find(channels_, request, "channel").counters().for_each([&](const flyring::Counter& counter) {
        const std::vector<std::byte> key = counter.key();
        list.push_back({{"id", counter.id()},
                        {"label", counter.label()},
                        {"type_id", counter.type_id()},
                        {"key", to_hex(key)},
                        {"value", counter.get_volatile()}});
    });
    return {{"counters", list}};
}

Json Peer::close(const Json& request) {
    if (request.contains("publisher")) {
        find(publishers_, request, "publisher").close();
    } else if (request.contains("subscriber")) {
        find(subscribers_, request, "subscriber").close();
    } else {
        find(channels_, request, "channel").close();
    }
    return Json::object();
}

Json Peer::forget(const Json& request) {
    find(subscribers_, request, "subscriber").forget();
    return Json::object();
}

}  // namespace peer
