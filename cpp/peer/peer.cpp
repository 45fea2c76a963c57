// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

#include <unistd.h>

#include <chrono>
#include <flyring/detail/file.hpp>

#include "journal.hpp"
#include "requests.hpp"
#include "streams.hpp"

namespace peer {

flyring::detail::Environment environment(const Json& request) {
    flyring::detail::Environment values;
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
        } else if (key == "monotonic") {
            values.monotonic = value.get<std::int64_t>();
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

namespace {

flyring::detail::InEnvironment in_environment(const Json& request) {
    flyring::detail::InEnvironment made;
    made.environment = environment(request);
    return made;
}

/// The number of a key. Throws the library's InvalidArgument for a number that does not fit into 32 bits.
std::uint32_t number(const Json& request, const char* key, std::uint32_t otherwise) {
    const auto found = request.find(key);
    if (found == request.end() || found->is_null()) return otherwise;
    const auto value = found->get<std::int64_t>();
    if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
        throw flyring::InvalidArgument(key, std::to_string(value) + " is out of range");
    }
    return static_cast<std::uint32_t>(value);
}

std::optional<flyring::Rings> rings(const Json& request) {
    const auto found = request.find("rings");
    if (found == request.end() || !found->is_array()) return std::nullopt;
    flyring::Rings chosen;
    for (const Json& ring : *found) chosen.push_back(number({{"rings", ring}}, "rings", 0));
    return chosen;
}

flyring::Options options(const Json& request) {
    flyring::Options made;
    const std::string kind = request.value("kind", "");
    if (kind == "inbox") {
        made.kind = flyring::Kind::inbox;
    } else if (kind == "broadcast") {
        made.kind = flyring::Kind::broadcast;
    } else if (kind == "queue") {
        made.kind = flyring::Kind::queue;
    } else if (kind == "service") {
        made.kind = flyring::Kind::service;
    } else if (!kind.empty()) {
        throw flyring::InvalidArgument("kind", kind + " is none of inbox, broadcast, queue and service");
    }
    if (request.contains("capacity")) made.capacity = number(request, "capacity", 0);
    if (request.contains("publishers")) made.publishers = number(request, "publishers", 0);
    if (request.contains("subscribers")) made.subscribers = number(request, "subscribers", 0);
    if (request.contains("producers")) made.producers = number(request, "producers", 0);
    if (request.contains("workers")) made.workers = number(request, "workers", 0);
    if (request.contains("clients")) made.clients = number(request, "clients", 0);
    if (request.contains("max_outstanding")) made.max_outstanding = number(request, "max_outstanding", 0);
    const auto delivery = request.find("delivery");
    if (delivery != request.end() && !delivery->is_null()) {
        if (*delivery != "at-most-once" && *delivery != "at-least-once") {
            throw flyring::InvalidArgument("delivery", delivery->dump() + " is neither at-most-once nor at-least-once");
        }
        made.delivery =
            *delivery == "at-most-once" ? flyring::Delivery::at_most_once : flyring::Delivery::at_least_once;
    }
    made.alignment = number(request, "alignment", made.alignment);
    const auto foreign = request.find("foreign");
    if (foreign != request.end() && !foreign->is_null()) {
        if (*foreign != "publisher" && *foreign != "subscriber") {
            throw flyring::InvalidArgument("foreign", foreign->dump() + " is neither publisher nor subscriber");
        }
        made.foreign = *foreign == "publisher" ? flyring::Foreign::publisher : flyring::Foreign::subscriber;
    }
    made.counters = number(request, "counters", made.counters);
    made.schema = request.value("schema", "");
    made.schema_id = number(request, "schema_id", made.schema_id);
    made.schema_version = number(request, "schema_version", made.schema_version);
    made.mode = number(request, "mode", made.mode);
    made.any_file_system = request.value("any_file_system", false);
    made.wake = request.value("wake", true);
    return made;
}

}  // namespace

Peer::Peer() : journals_(std::make_unique<Journals>()) {}
Peer::~Peer() = default;

const std::map<std::string, Peer::Op>& Peer::ops() {
    static const std::map<std::string, Op> all = {
        {"hello", &Peer::hello},
        {"create", &Peer::create},
        {"open_or_create", &Peer::open_or_create},
        {"replace", &Peer::replace},
        {"open", &Peer::open},
        {"info", &Peer::info},
        {"stats", &Peer::stats},
        {"unlink", &Peer::unlink},
        {"publisher", &Peer::publisher},
        {"subscriber", &Peer::subscriber},
        {"lossy_subscriber", &Peer::lossy_subscriber},
        {"worker", &Peer::worker},
        {"take_job", &Peer::take_job},
        {"done", &Peer::done},
        {"release", &Peer::release},
        {"poll_jobs", &Peer::poll_jobs},
        {"drain", &Peer::drain},
        {"jobs_ended", &Peer::jobs_ended},
        {"server", &Peer::server},
        {"client", &Peer::client},
        {"serve", &Peer::serve},
        {"later", &Peer::later},
        {"request", &Peer::request},
        {"held", &Peer::held},
        {"call", &Peer::call},
        {"start", &Peer::start},
        {"result", &Peer::result},
        {"next", &Peer::next},
        {"cancel", &Peer::cancel},
        {"poll_client", &Peer::poll_client},
        {"calls", &Peer::calls},
        {"serve_many", &Peer::serve_many},
        {"call_many", &Peer::call_many},
        {"evict", &Peer::evict},
        {"offer", &Peer::offer},
        {"flush", &Peer::flush},
        {"offer_batch", &Peer::offer_batch},
        {"claim", &Peer::claim},
        {"commit", &Peer::commit},
        {"abort", &Peer::abort},
        {"held_by", &Peer::held_by},
        {"take", &Peer::take},
        {"poll", &Peer::poll},
        {"peek", &Peer::peek},
        {"valid", &Peer::valid},
        {"lost", &Peer::lost},
        {"ended", &Peer::ended},
        {"positions", &Peer::positions},
        {"publish_stream", &Peer::publish_stream},
        {"verify_stream", &Peer::verify_stream},
        {"ping_pong", &Peer::ping_pong},
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
        {"mesh", &Peer::mesh},
        {"writer", &Peer::writer},
        {"entry", &Peer::entry},
        {"get", &Peer::get},
        {"put", &Peer::put},
        {"remove", &Peer::remove},
        {"update", &Peer::update},
        {"clear", &Peer::clear},
        {"size", &Peer::size},
        {"each", &Peer::each},
        {"wait_changed", &Peer::wait_changed},
        {"snapshot", &Peer::snapshot},
        {"grow", &Peer::grow},
        {"sync", &Peer::sync},
        {"put_many", &Peer::put_many},
        {"get_many", &Peer::get_many},
        {"beside", &Peer::beside},
        {"die", &Peer::die},
    };
    return all;
}

Json Peer::answer(const Json& request) {
    Json answer;
    try {
        const std::string name = request.at("op");
        if (journals_->concerns(request)) {
            answer = journals_->answer(name, request);
            answer["ok"] = true;
            return answer;
        }
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
    } catch (const std::exception& error) {
        answer = {{"error", "unexpected"}, {"message", error.what()}};
    }
    answer["ok"] = false;
    return answer;
}

Json Peer::hello(const Json&) {
    std::set<std::string> names{"quit"};
    for (const auto& [name, op] : ops()) names.insert(name);
    for (const std::string& name : Journals::names()) names.insert(name);
    return {{"language", "cpp"}, {"version", FLYRING_VERSION}, {"layout", "1.0"}, {"pid", ::getpid()}, {"ops", names}};
}

/// Calls use(subscriber) for the handle's subscriber, reliable or lossy.
template <typename Use>
auto Peer::with_subscriber(const Json& request, Use&& use) {
    const auto lossy = lossy_.find(request.at("subscriber"));
    return lossy != lossy_.end() ? use(lossy->second) : use(find(subscribers_, request, "subscriber"));
}

flyring::Channel& Peer::channel_of(const Json& request) {
    return find(channels_, request, "channel");
}

Json Peer::keep_channel(const Json& request, flyring::Channel channel) {
    keep(channels_, request.at("channel"), std::move(channel));
    return info(request);
}

Json Peer::create(const Json& request) {
    if (request.contains("table")) return make_table(request, "create");
    return keep_channel(request, in_environment(request).create(request.at("name"), options(request)));
}

Json Peer::open_or_create(const Json& request) {
    if (request.contains("table")) return make_table(request, "open_or_create");
    return keep_channel(request, in_environment(request).open_or_create(request.at("name"), options(request)));
}

Json Peer::replace(const Json& request) {
    if (request.contains("table")) return make_table(request, "replace");
    return keep_channel(request, in_environment(request).replace(request.at("name"), options(request)));
}

Json Peer::open(const Json& request) {
    if (request.contains("table")) return make_table(request, "open");
    flyring::OpenOptions chosen;
    chosen.read_only = request.value("read_only", false);
    chosen.any_file_system = request.value("any_file_system", false);
    chosen.wake = request.value("wake", true);
    if (const auto time = timeout(request)) {
        return keep_channel(request, flyring::Channel::wait_for(request.at("name"), *time, chosen));
    }
    return keep_channel(request, in_environment(request).open(request.at("name"), chosen));
}

Json Peer::info(const Json& request) {
    if (request.contains("table")) return table_info(request);
    const flyring::Channel& channel = channel_of(request);
    return {{"path", channel.path()},
            {"channel_id", uuid_text(channel.id())},
            {"kind", flyring::detail::kind_name(channel.kind())},
            {"capacity", channel.capacity()},
            {"publishers", channel.publishers()},
            {"subscribers", channel.subscribers()},
            {"alignment", channel.alignment()},
            {"foreign", foreign_json(channel.foreign())},
            {"counters", channel.counter_count()},
            {"file_length", channel.file_length()}};
}

Json Peer::unlink(const Json& request) {
    if (request.value("table", false)) {
        flyring::Table::unlink(request.at("name"));
    } else {
        flyring::Channel::unlink(request.at("name"));
    }
    return Json::object();
}

Json Peer::publisher(const Json& request) {
    flyring::Channel& channel = channel_of(request);
    const auto& made = keep(publishers_, request.at("publisher"),
                            channel.publisher(request.value("name", ""), number(request, "max_lag", 0)));
    return {{"ring", made.ring()}, {"epoch", made.epoch()}, {"position", made.position()}};
}

Json Peer::subscriber(const Json& request) {
    flyring::Subscriber made = channel_of(request).subscriber(request.value("name", ""), request.value("kept", false),
                                                              rings(request), timeout(request).value_or(no_time));
    lossy_.erase(request.at("subscriber"));
    const auto& kept = keep(subscribers_, request.at("subscriber"), std::move(made));
    Json answer = positions(request);
    answer["slot"] = kept.slot();
    answer["epoch"] = kept.epoch();
    answer["rings"] = kept.rings();
    return answer;
}

Json Peer::lossy_subscriber(const Json& request) {
    const std::string start = request.value("start", "now");
    if (start != "now" && start != "oldest")
        throw flyring::InvalidArgument("start", start + " is neither now nor oldest");
    const std::string lapped = request.value("when_lapped", "oldest");
    if (lapped != "newest" && lapped != "oldest")
        throw flyring::InvalidArgument("when_lapped", lapped + " is neither oldest nor newest");
    flyring::LossySubscriber made = channel_of(request).lossy_subscriber(
        rings(request), start == "now" ? flyring::Start::now : flyring::Start::oldest,
        lapped == "oldest" ? flyring::WhenLapped::oldest : flyring::WhenLapped::newest);
    subscribers_.erase(request.at("subscriber"));
    const auto& kept = keep(lossy_, request.at("subscriber"), std::move(made));
    Json answer = positions(request);
    answer["rings"] = kept.rings();
    return answer;
}

Json Peer::worker(const Json& request) {
    const std::string handle = request.at("worker");
    flyring::Worker made = channel_of(request).worker(request.value("name", ""), timeout(request).value_or(no_time));
    jobs_.erase(handle);
    const auto& kept = keep(workers_, handle, std::move(made));
    return {{"slot", kept.slot()}, {"epoch", kept.epoch()}};
}

Json Peer::take_job(const Json& request) {
    std::optional<flyring::Job> job = find(workers_, request, "worker").take(timeout(request).value_or(no_time));
    if (!job) return {{"job", nullptr}};
    Json answer = {{"job", job_json(*job)}};
    jobs_.erase(request.at("worker"));
    jobs_.emplace(request.at("worker"), *std::move(job));
    return answer;
}

/// The job that the handle's worker has in hand.
flyring::Job& Peer::job_of(const Json& request) {
    find(workers_, request, "worker");
    const auto found = jobs_.find(request.at("worker"));
    if (found == jobs_.end()) throw flyring::Closed("this worker has no job in hand; take one first");
    return found->second;
}

Json Peer::done(const Json& request) {
    job_of(request).done();
    return Json::object();
}

Json Peer::release(const Json& request) {
    return {{"released", job_of(request).release()}};
}

Json Peer::poll_jobs(const Json& request) {
    const std::string name = request.value("action", "CONTINUE");
    const std::map<std::string, flyring::Action> actions = {{"CONTINUE", flyring::Action::CONTINUE},
                                                            {"COMMIT", flyring::Action::COMMIT},
                                                            {"BREAK", flyring::Action::BREAK},
                                                            {"ABORT", flyring::Action::ABORT},
                                                            {"throw", flyring::Action::CONTINUE}};
    const auto action = actions.find(name);
    if (action == actions.end()) throw BadRequest("action: " + name);
    struct Thrown {};
    Json answer = {{"jobs", Json::array()}};
    try {
        find(workers_, request, "worker")
            .poll(
                [&](flyring::Job& job) {
                    answer["jobs"].push_back(job_json(job));
                    if (name == "throw") throw Thrown();
                    return action->second;
                },
                request.at("limit"), timeout(request).value_or(no_time));
    } catch (const Thrown&) {
        answer["threw"] = true;
    }
    return answer;
}

Json Peer::drain(const Json& request) {
    find(workers_, request, "worker").drain();
    return Json::object();
}

Json Peer::jobs_ended(const Json& request) {
    return {{"ended", find(workers_, request, "worker").ended()}};
}

Json Peer::evict(const Json& request) {
    if (!request.contains("slot")) throw BadRequest("evict needs a slot");
    return {{"messages", channel_of(request).evict(number(request, "slot", 0))}};
}

Json Peer::offer(const Json& request) {
    flyring::Publisher& publisher = find(publishers_, request, "publisher");
    const std::vector<std::byte> data = from_hex(request.at("data"));
    const std::int32_t type = request.value("type", 1);
    if (const auto time = timeout(request)) return {{"position", publisher.send(data, type, *time)}};
    return {{"position", publisher.offer(data, type)}};
}

Json Peer::flush(const Json& request) {
    find(publishers_, request, "publisher").flush(timeout(request).value_or(flyring::forever));
    return Json::object();
}

Json Peer::offer_batch(const Json& request) {
    flyring::Publisher& publisher = find(publishers_, request, "publisher");
    std::vector<std::vector<std::byte>> payloads;
    for (const Json& data : request.at("data")) payloads.push_back(from_hex(data));
    const std::vector<flyring::Bytes> views(payloads.begin(), payloads.end());
    const std::int32_t type = request.value("type", 1);
    if (const auto time = timeout(request)) return {{"taken", publisher.send_batch(views, type, *time)}};
    return {{"taken", publisher.offer_batch(views, type)}};
}

Json Peer::claim(const Json& request) {
    flyring::Publisher& publisher = find(publishers_, request, "publisher");
    const std::size_t length = request.at("length");
    const std::int32_t type = request.value("type", 1);
    const auto time = timeout(request);
    flyring::Claim claim = time ? publisher.claim(length, type, *time) : publisher.try_claim(length, type);
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
    return {{"holder", holder_json(find(publishers_, request, "publisher").held_by())}};
}

Json Peer::take(const Json& request) {
    return with_subscriber(request, [&](auto& subscriber) -> Json {
        const auto message = subscriber.take(timeout(request).value_or(no_time));
        return {{"message", message ? message_json(*message) : Json(nullptr)}};
    });
}

Json Peer::poll(const Json& request) {
    return with_subscriber(request, [&](auto& subscriber) -> Json {
        Json messages = Json::array();
        subscriber.poll([&](const flyring::Message& message) { messages.push_back(message_json(message)); },
                        request.value("limit", flyring::layout::DEFAULT_POLL_LIMIT),
                        timeout(request).value_or(no_time));
        return {{"messages", messages}};
    });
}

Json Peer::peek(const Json& request) {
    const auto message = find(lossy_, request, "subscriber").peek();
    return {{"message", message ? message_json(*message) : Json(nullptr)}};
}

Json Peer::valid(const Json& request) {
    return {{"valid", find(lossy_, request, "subscriber").valid()}};
}

Json Peer::lost(const Json& request) {
    const flyring::LossySubscriber& subscriber = find(lossy_, request, "subscriber");
    const std::uint32_t ring = request.at("ring");
    return {{"messages", subscriber.lost_messages(ring)}, {"bytes", subscriber.lost_bytes(ring)}};
}

Json Peer::ended(const Json& request) {
    return with_subscriber(request,
                           [&](auto& subscriber) -> Json { return {{"ended", subscriber.ended(request.at("ring"))}}; });
}

Json Peer::positions(const Json& request) {
    if (!request.contains("subscriber")) {
        return {{"position", find(publishers_, request, "publisher").position()}};
    }
    return with_subscriber(request, [](auto& subscriber) -> Json {
        Json positions = Json::object();
        for (const std::uint32_t ring : subscriber.rings()) positions[std::to_string(ring)] = subscriber.position(ring);
        return {{"positions", positions}};
    });
}

Json Peer::publish_stream(const Json& request) {
    return peer::publish_stream(find(publishers_, request, "publisher"), request);
}

Json Peer::verify_stream(const Json& request) {
    return with_subscriber(request, [&](auto& subscriber) { return peer::verify_stream(subscriber, request); });
}

Json Peer::ping_pong(const Json& request) {
    if (request.contains("table")) return peer::ping_pong(table_of(request), request);
    flyring::Publisher& publisher = find(publishers_, request, "publisher");
    return with_subscriber(request, [&](auto& subscriber) { return peer::ping_pong(publisher, subscriber, request); });
}

Json Peer::close(const Json& request) {
    if (request.contains("table") || request.contains("writer")) {
        close_table(request);
    } else if (request.contains("publisher")) {
        find(publishers_, request, "publisher").close();
    } else if (request.contains("worker")) {
        find(workers_, request, "worker").close();
    } else if (request.contains("server")) {
        find(servers_, request, "server").close();
    } else if (request.contains("client")) {
        find(clients_, request, "client")->client.close();
    } else if (request.contains("mesh")) {
        find(meshes_, request, "mesh")->close();
    } else if (request.contains("subscriber")) {
        with_subscriber(request, [](auto& subscriber) {
            subscriber.close();
            return 0;
        });
    } else {
        channel_of(request).close();
    }
    return Json::object();
}

Json Peer::forget(const Json& request) {
    find(subscribers_, request, "subscriber").forget();
    return Json::object();
}

Json Peer::mesh(const Json& request) {
    auto made = std::make_unique<flyring::Mesh>(channel_of(request), request.at("name").get<std::string>(),
                                                std::chrono::nanoseconds(request.at("every").get<std::int64_t>()));
    const std::uint32_t ring = made->ring();
    meshes_[request.at("mesh")] = std::move(made);
    return {{"ring", ring}};
}

Json Peer::die(const Json&) {
    kill_this_process();
}

}  // namespace peer
