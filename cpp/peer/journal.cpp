// SPDX-License-Identifier: Apache-2.0
#include "journal.hpp"

#include <chrono>
#include <limits>

#include "requests.hpp"

namespace peer {

namespace {

constexpr auto largest = std::numeric_limits<std::int64_t>::max();

/// The number of a key. Throws the library's InvalidArgument for a number outside 0 to `most`.
std::optional<std::int64_t> number(const Json& request, const char* key, std::int64_t most) {
    const auto found = request.find(key);
    if (found == request.end() || found->is_null()) return std::nullopt;
    const auto value = found->get<std::int64_t>();
    if (value < 0 || value > most) throw flyring::InvalidArgument(key, std::to_string(value) + " is out of range");
    return value;
}

template <typename T>
std::optional<T> small_number(const Json& request, const char* key) {
    const auto value = number(request, key, std::numeric_limits<std::uint32_t>::max());
    return value ? std::optional<T>(static_cast<T>(*value)) : std::nullopt;
}

/// "never", "each", or an interval in ns.
std::optional<flyring::JournalSync> sync_of(const Json& request) {
    const auto found = request.find("sync");
    if (found == request.end() || found->is_null()) return std::nullopt;
    if (*found == "never") return flyring::JournalSync::never();
    if (*found == "each") return flyring::JournalSync::each();
    return flyring::JournalSync::every(std::chrono::nanoseconds(found->get<std::int64_t>()));
}

/// Options and changes have these four in common.
template <typename Options>
void policy(const Json& request, Options& made) {
    made.sync = sync_of(request);
    if (request.contains("max_age")) made.max_age = std::chrono::nanoseconds(request.at("max_age").get<std::int64_t>());
    if (const auto bytes = number(request, "max_size", largest)) made.max_size = static_cast<std::uint64_t>(*bytes);
    if (request.contains("trim_consumed")) made.trim_consumed = request.at("trim_consumed").get<bool>();
}

flyring::JournalOptions options(const Json& request) {
    flyring::JournalOptions made;
    if (const auto bytes = number(request, "segment_size", largest)) {
        made.segment_size = static_cast<std::uint64_t>(*bytes);
    }
    made.consumers = small_number<std::uint32_t>(request, "consumers");
    if (request.contains("content")) made.content = flyring::JournalContent{request.at("content").get<std::int32_t>()};
    policy(request, made);
    made.schema = request.value("schema", "");
    made.schema_id = small_number<std::uint32_t>(request, "schema_id").value_or(0);
    made.schema_version = small_number<std::uint32_t>(request, "schema_version").value_or(0);
    made.mode = small_number<mode_t>(request, "mode").value_or(made.mode);
    made.any_file_system = request.value("any_file_system", false);
    made.wake = request.value("wake", true);
    return made;
}

flyring::JournalStart start(const Json& request) {
    const auto found = request.find("start");
    if (found == request.end() || found->is_null() || *found == "oldest") return flyring::JournalStart::oldest();
    if (*found == "newest") return flyring::JournalStart::newest();
    if (found->contains("position")) return flyring::JournalStart::position(found->at("position"));
    if (found->contains("number")) return flyring::JournalStart::number(found->at("number"));
    return flyring::JournalStart::time(found->at("time"));
}

std::optional<std::int32_t> type_of(const Json& request) {
    const auto found = request.find("type");
    return found == request.end() ? std::nullopt : std::optional<std::int32_t>(found->get<std::int32_t>());
}

Json journal_message(const flyring::JournalMessage& message) {
    Json json = message_json(message);
    json["time"] = message.time();
    json["number"] = message.number();
    return json;
}

template <typename Optional>
Json one(const Optional& message) {
    return {{"message", message ? journal_message(flyring::JournalMessage(*message)) : Json(nullptr)}};
}

Json recovery_json(const std::optional<flyring::JournalRecovery>& recovery) {
    if (!recovery) return nullptr;
    return {{"position", recovery->position},
            {"next", recovery->next},
            {"messages", recovery->messages},
            {"reached", recovery->reached},
            {"reason", recovery->reason}};
}

Json consumer_json(const flyring::JournalConsumerStats& one) {
    return {{"name", one.name}, {"position", one.position}, {"behind", one.behind}, {"behind_bytes", one.behind_bytes},
            {"lost", one.lost}, {"live", one.live},         {"pid", one.pid},       {"attached_at", one.attached_at}};
}

Json stats_json(const flyring::JournalStats& stats) {
    Json consumers = Json::array();
    for (const auto& one : stats.consumers) consumers.push_back(consumer_json(one));
    return {{"path", stats.path},
            {"id", uuid_text(stats.id)},
            {"segment_size", stats.segment_size},
            {"content", static_cast<std::int32_t>(stats.content)},
            {"sync", stats.sync},
            {"max_age", stats.max_age},
            {"max_size", stats.max_size},
            {"trim_consumed", stats.trim_consumed},
            {"published", stats.published},
            {"messages", stats.messages},
            {"synced", stats.synced},
            {"synced_at", stats.synced_at},
            {"unsynced_since", stats.unsynced_since},
            {"trimmed", stats.trimmed},
            {"ready", stats.ready},
            {"segments", stats.segments},
            {"bytes", stats.bytes},
            {"oldest", stats.oldest},
            {"newest", stats.newest},
            {"writer", stats.writer},
            {"pid", stats.pid},
            {"attached_at", stats.attached_at},
            {"epoch", stats.epoch},
            {"writing", stats.writing},
            {"helping", stats.helping},
            {"failed", stats.failed},
            {"needs_recovery", stats.needs_recovery},
            {"successor", stats.successor},
            {"consumers", consumers}};
}

template <typename Reading>
Json place(const Reading& reading) {
    return {{"position", reading.position()},
            {"number", reading.number()},
            {"lost", reading.lost()},
            {"cuts", reading.cuts()}};
}

}  // namespace

const std::map<std::string, Journals::Op>& Journals::ops() {
    static const std::map<std::string, Op> all = {
        {"create", &Journals::create},
        {"open_or_create", &Journals::open_or_create},
        {"open", &Journals::open},
        {"info", &Journals::info},
        {"stats", &Journals::stats},
        {"unlink", &Journals::unlink},
        {"writer", &Journals::writer},
        {"append", &Journals::append},
        {"append_many", &Journals::append_many},
        {"claim", &Journals::claim},
        {"commit", &Journals::commit},
        {"abort", &Journals::abort},
        {"push", &Journals::push},
        {"sync", &Journals::sync},
        {"reader", &Journals::reader},
        {"consumer", &Journals::consumer},
        {"positions", &Journals::positions},
        {"seek", &Journals::seek},
        {"poll", &Journals::poll},
        {"take", &Journals::take},
        {"pop", &Journals::pop},
        {"peek", &Journals::peek},
        {"ended", &Journals::ended},
        {"size", &Journals::size},
        {"forget", &Journals::forget},
        {"trim", &Journals::trim},
        {"change", &Journals::change},
        {"close", &Journals::close},
        {"append_stream", &Journals::append_stream},
        {"read_stream", &Journals::read_stream},
    };
    return all;
}

std::vector<std::string> Journals::names() {
    std::vector<std::string> found;
    for (const auto& [name, op] : ops()) found.push_back(name);
    return found;
}

bool Journals::concerns(const Json& request) const {
    if (request.contains("journal") || request.contains("reader") || request.contains("consumer")) return true;
    const auto handle = request.find("writer");
    return handle != request.end() && writers_.count(handle->get<std::string>()) != 0;
}

Json Journals::answer(const std::string& op, const Json& request) {
    const auto found = ops().find(op);
    if (found == ops().end()) throw BadRequest("unknown op of a journal " + op);
    return (this->*found->second)(request);
}

flyring::Journal& Journals::journal_of(const Json& request) {
    return find(journals_, request, "journal");
}

flyring::JournalWriter& Journals::writer_of(const Json& request) {
    return find(writers_, request, "writer");
}

template <typename Use>
Json Journals::with_reading(const Json& request, Use&& use) {
    if (request.contains("consumer")) return use(find(consumers_, request, "consumer"));
    return use(find(readers_, request, "reader"));
}

Json Journals::kept(const Json& request, flyring::Journal journal) {
    keep(journals_, request.at("journal"), std::move(journal));
    return info(request);
}

Json Journals::create(const Json& request) {
    const flyring::detail::JournalInEnvironment in{environment(request)};
    return kept(request, in.create(request.at("name"), options(request)));
}

Json Journals::open_or_create(const Json& request) {
    const flyring::detail::JournalInEnvironment in{environment(request)};
    return kept(request, in.open_or_create(request.at("name"), options(request)));
}

Json Journals::open(const Json& request) {
    flyring::OpenJournalOptions chosen;
    chosen.read_only = request.value("read_only", false);
    chosen.any_file_system = request.value("any_file_system", false);
    chosen.wake = request.value("wake", true);
    chosen.min_schema_version = small_number<std::uint32_t>(request, "min_schema_version").value_or(0);
    if (const auto time = timeout(request)) {
        return kept(request, flyring::Journal::wait_for(request.at("name"), *time, chosen));
    }
    return kept(request, flyring::detail::JournalInEnvironment{environment(request)}.open(request.at("name"), chosen));
}

Json Journals::info(const Json& request) {
    const flyring::Journal& journal = journal_of(request);
    return {{"path", journal.path()},
            {"journal_id", uuid_text(journal.id())},
            {"segment_size", journal.segment_size()},
            {"consumers", journal.consumers()},
            {"content", static_cast<std::int32_t>(journal.content())},
            {"created_at", journal.created_at()},
            {"schema", journal.schema()},
            {"schema_id", journal.schema_id()},
            {"schema_version", journal.schema_version()}};
}

Json Journals::stats(const Json& request) {
    return {{"stats", stats_json(journal_of(request).stats())}};
}

Json Journals::unlink(const Json& request) {
    flyring::Journal::unlink(request.at("name"));
    return Json::object();
}

Json Journals::writer(const Json& request) {
    const std::int64_t ahead = request.value("ahead", 1);
    if (ahead < 0) throw flyring::InvalidArgument("ahead", std::to_string(ahead) + " is out of range");
    const std::string handle = request.at("writer");
    flyring::JournalWriter made =
        journal_of(request).writer(request.value("name", ""), request.value("helper", true),
                                   static_cast<std::uint32_t>(ahead), timeout(request).value_or(no_time));
    claims_.erase(handle);
    const flyring::JournalWriter& writer = keep(writers_, handle, std::move(made));
    return {{"epoch", writer.epoch()},
            {"position", writer.position()},
            {"number", writer.number()},
            {"recovery", recovery_json(writer.recovery())}};
}

Json Journals::append(const Json& request) {
    flyring::JournalWriter& writer = writer_of(request);
    const std::vector<std::byte> data = from_hex(request.at("data"));
    const auto type = type_of(request);
    if (request.contains("time")) return {{"position", writer.append(data, type.value_or(1), request.at("time"))}};
    return {{"position", type ? writer.append(data, *type) : writer.append(data)}};
}

Json Journals::append_many(const Json& request) {
    flyring::JournalWriter& writer = writer_of(request);
    std::vector<std::vector<std::byte>> payloads;
    for (const Json& data : request.at("data")) payloads.push_back(from_hex(data));
    const std::vector<flyring::Bytes> views(payloads.begin(), payloads.end());
    const auto type = type_of(request);
    if (request.contains("time")) return {{"taken", writer.append_many(views, type.value_or(1), request.at("time"))}};
    return {{"taken", type ? writer.append_many(views, *type) : writer.append_many(views)}};
}

Json Journals::claim(const Json& request) {
    flyring::JournalWriter& writer = writer_of(request);
    const std::size_t length = request.at("length");
    const auto type = type_of(request);
    flyring::JournalClaim claim = type ? writer.claim(length, *type) : writer.claim(length);
    keep(claims_, request.at("writer"), std::move(claim));
    return Json::object();
}

Json Journals::commit(const Json& request) {
    flyring::JournalClaim& claim = find(claims_, request, "writer");
    const std::vector<std::byte> data = from_hex(request.value("data", ""));
    if (data.size() > claim.size()) throw BadRequest("data is longer than the claim");
    if (claim) std::copy(data.begin(), data.end(), claim.data());
    return {{"position", claim.commit()}};
}

Json Journals::abort(const Json& request) {
    return {{"position", find(claims_, request, "writer").abort()}};
}

Json Journals::push(const Json& request) {
    const std::vector<std::byte> data = from_hex(request.at("data"));
    const auto limit = timeout(request).value_or(flyring::forever);
    const auto type = type_of(request);
    flyring::Journal& journal = journal_of(request);
    return {{"position", type ? journal.push(data, *type, limit) : journal.push(data, limit)}};
}

Json Journals::sync(const Json& request) {
    if (request.contains("consumer")) {
        find(consumers_, request, "consumer").sync();
    } else {
        writer_of(request).sync();
    }
    return Json::object();
}

Json Journals::reader(const Json& request) {
    flyring::JournalReader made = journal_of(request).reader(start(request), request.value("durable", false),
                                                             request.value("skip_damaged", false));
    return place(keep(readers_, request.at("reader"), std::move(made)));
}

Json Journals::consumer(const Json& request) {
    flyring::JournalConsumer made =
        journal_of(request).consumer(request.at("name"), start(request), request.value("skip_damaged", false));
    const flyring::JournalConsumer& consumer = keep(consumers_, request.at("consumer"), std::move(made));
    Json answer = place(consumer);
    answer["epoch"] = consumer.epoch();
    return answer;
}

Json Journals::positions(const Json& request) {
    if (request.contains("writer")) {
        const flyring::JournalWriter& writer = writer_of(request);
        return {{"position", writer.position()}, {"number", writer.number()}};
    }
    return with_reading(request, [](auto& reading) { return place(reading); });
}

Json Journals::seek(const Json& request) {
    flyring::JournalReader& reader = find(readers_, request, "reader");
    reader.seek(start(request));
    return place(reader);
}

Json Journals::poll(const Json& request) {
    const std::map<std::string, flyring::Action> actions = {{"CONTINUE", flyring::Action::CONTINUE},
                                                            {"COMMIT", flyring::Action::COMMIT},
                                                            {"BREAK", flyring::Action::BREAK},
                                                            {"ABORT", flyring::Action::ABORT},
                                                            {"throw", flyring::Action::CONTINUE}};
    const std::string name = request.value("action", "CONTINUE");
    const auto action = actions.find(name);
    if (action == actions.end()) throw BadRequest("action: " + name);
    struct Thrown {};
    Json answer = {{"messages", Json::array()}};
    try {
        with_reading(request, [&](auto& reading) -> Json {
            return reading.poll(
                [&](const flyring::JournalMessage& message) {
                    answer["messages"].push_back(journal_message(message));
                    if (name == "throw") throw Thrown();
                    return action->second;
                },
                request.value("limit", flyring::layout::DEFAULT_POLL_LIMIT), timeout(request).value_or(no_time));
        });
    } catch (const Thrown&) {
        answer["threw"] = true;
    }
    return answer;
}

Json Journals::take(const Json& request) {
    return with_reading(request, [&](auto& reading) { return one(reading.take(timeout(request).value_or(no_time))); });
}

Json Journals::pop(const Json& request) {
    flyring::JournalConsumer& consumer = find(consumers_, request, "consumer");
    const auto limit = timeout(request);
    return one(limit ? consumer.pop(*limit) : consumer.pop());
}

Json Journals::peek(const Json& request) {
    return one(find(consumers_, request, "consumer").peek());
}

Json Journals::ended(const Json& request) {
    return with_reading(request, [](auto& reading) -> Json { return {{"ended", reading.ended()}}; });
}

Json Journals::size(const Json& request) {
    return {{"size", find(consumers_, request, "consumer").size()}};
}

Json Journals::forget(const Json& request) {
    if (request.contains("consumer")) {
        find(consumers_, request, "consumer").forget();
    } else {
        journal_of(request).forget(request.at("name"));
    }
    return Json::object();
}

Json Journals::trim(const Json& request) {
    flyring::Journal& journal = journal_of(request);
    std::uint64_t freed = 0;
    if (request.value("consumed", false)) {
        freed = journal.trim(flyring::JournalTrim::consumed());
    } else if (request.contains("position")) {
        freed = journal.trim(flyring::JournalTrim::position(request.at("position")));
    } else if (request.contains("before")) {
        freed = journal.trim(flyring::JournalTrim::before(request.at("before")));
    } else if (const auto bytes = number(request, "size", largest)) {
        freed = journal.trim(flyring::JournalTrim::size(static_cast<std::uint64_t>(*bytes)));
    } else {
        throw BadRequest("trim needs consumed, position, before or size");
    }
    return {{"freed", freed}};
}

Json Journals::change(const Json& request) {
    flyring::JournalChange made;
    policy(request, made);
    journal_of(request).change(made);
    return Json::object();
}

Json Journals::close(const Json& request) {
    if (request.contains("writer")) {
        writer_of(request).close(request.value("sync", true));
    } else if (request.contains("journal")) {
        journal_of(request).close();
    } else {
        with_reading(request, [](auto& reading) -> Json {
            reading.close();
            return nullptr;
        });
    }
    return Json::object();
}

Json Journals::append_stream(const Json& request) {
    return peer::append_stream(writer_of(request), request);
}

Json Journals::read_stream(const Json& request) {
    return with_reading(request, [&](auto& reading) { return peer::read_stream(reading, request); });
}

}  // namespace peer
