// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <map>
#include <optional>

#include "golden.hpp"

// The golden files of services (spec/golden/README.md).

namespace {

using namespace golden;
using flyring::Call;
using flyring::Client;
using flyring::Request;
using flyring::Server;

Json request_facts(const Request& request) {
    return {{"client", request.client()},
            {"type", request.type()},
            {"repeat", request.repeat()},
            {"data", hex(request.payload())}};
}

/// Sorted by client, in order within each; without the fields that a handler does not see.
Json by_client(const Json& requests) {
    std::vector<Json> sorted = requests;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Json& one, const Json& next) { return one.at("client") < next.at("client"); });
    for (Json& one : sorted) one.erase("sequence");
    return sorted;
}

/// Does the operations of a golden file and compares their results.
class ServiceReplay {
  public:
    explicit ServiceReplay(flyring::Channel& channel) : channel_(channel) {}

    void run(const Json& operation) {
        SCOPED_TRACE(operation.dump().substr(0, 300));
        const std::string op = operation.at("op");
        if (op == "server") {
            servers_.erase(operation.at("as"));
            const Server& made =
                servers_.emplace(operation.at("as"), channel_.server(operation.at("name"))).first->second;
            EXPECT_EQ(made.epoch(), operation.at("epoch"));
        } else if (op == "client") {
            clients_.erase(operation.at("as"));
            const Client& made =
                clients_.emplace(operation.at("as"), channel_.client(operation.at("name"))).first->second;
            EXPECT_EQ(made.number(), operation.at("number"));
            EXPECT_EQ(made.epoch(), operation.at("epoch"));
        } else if (op == "start") {
            EXPECT_EQ(start(operation), operation.at("started").get<bool>());
        } else if (op == "poll_client") {
            found_ = Json::array();
            clients_.at(operation.at("client")).poll();
            EXPECT_EQ(found_, operation.at("found"));
        } else if (op == "cancel") {
            calls_.at(operation.at("call")).cancel();
        } else if (op == "serve") {
            EXPECT_EQ(serve(servers_.at(operation.at("server")), operation.at("limit"), operation.at("handler")),
                      by_client(operation.at("requests")));
        } else if (op == "later") {
            Request request = std::move(kept_.at(operation.at("request")));
            answer(request, operation.at("handler"));
        } else if (op == "clock") {
            flyring::detail::InEnvironment::set_clock(channel_, operation.at("monotonic"));
        } else if (op == "evict") {
            EXPECT_EQ(channel_.evict(operation.at("slot")), operation.at("messages"));
        } else if (op == "foreign_store") {
            foreign_store(channel_.path(), operation);
        } else {
            ASSERT_EQ(op, "close");
            if (operation.contains("server")) {
                servers_.at(operation.at("server")).close();
            } else {
                clients_.at(operation.at("client")).close();
            }
        }
    }

    /// The requests that a poll of this server hands out. All are kept.
    Json finds(const std::string& name) {
        if (servers_.count(name) == 0) return Json::array();
        return serve(servers_.at(name), 256, {{"keep", "found"}});
    }

  private:
    bool start(const Json& operation) {
        Client& client = clients_.at(operation.at("client"));
        const std::string name = operation.at("as");
        const std::int64_t time = operation.at("timeout");
        const auto timeout = time == 0 ? flyring::forever : std::chrono::nanoseconds(time);
        const std::uint32_t credit = operation.at("credit");
        const auto heard = [this, name, credit](Call& call) { hear(name, call, credit != 0); };
        const std::vector<std::byte> data = payload(operation.at("data"));
        calls_.erase(name);
        try {
            calls_.emplace(name, credit == 0 ? client.start(data, operation.at("type"), timeout, heard)
                                             : client.stream(data, operation.at("type"), credit, timeout, heard));
            return true;
        } catch (const flyring::Busy&) {
            return false;
        }
    }

    void hear(const std::string& name, Call& call, bool stream) {
        const auto add = [&](const char* is, Json more) {
            more["call"] = name;
            more["is"] = is;
            found_.push_back(more);
        };
        const auto bytes = [](const flyring::Answer& answer) -> Json {
            return {{"type", answer.type()}, {"data", hex(answer.payload())}, {"repeat", answer.repeat()}};
        };
        try {
            if (const auto item = call.next(std::chrono::nanoseconds(0))) return add("item", bytes(*item));
            const flyring::Answer& answer = call.result();
            stream ? add("end-of-stream", Json::object()) : add("answer", bytes(answer));
        } catch (const flyring::ServiceError& error) {
            add("service-error", {{"text", error.text()}});
        } catch (const flyring::Expired& error) {
            add("expired", {{"may_have_run", error.may_have_run()}});
        } catch (const flyring::ServerGone& error) {
            add("server-gone", {{"may_have_run", error.may_have_run()}});
        } catch (const flyring::FlyringError& error) {  // a call of a closed client
            add(std::string(error.code()).c_str(), Json::object());
        }
    }

    Json serve(Server& server, int limit, const Json& handler) {
        Json handed = Json::array();
        server.poll(
            [&](Request& request) {
                if (handler.contains("keep")) {
                    const std::string name = handler.at("keep").get<std::string>() + std::to_string(handed.size());
                    kept_.erase(name);
                    kept_.emplace(name, request.keep());
                } else {
                    answer(request, handler);
                }
                handed.push_back(request_facts(request));
            },
            limit);
        return by_client(handed);
    }

    static void answer(Request& request, const Json& handler) {
        if (handler.contains("reply")) {
            request.reply(payload(handler.at("reply")), handler.at("type"));
        } else if (handler.contains("fail")) {
            request.fail(handler.at("fail").get<std::string>());
        } else {
            std::deque<std::vector<std::byte>> items;
            for (const Json& item : handler.at("stream")) items.push_back(payload(item));
            request.stream(
                [items]() mutable -> std::optional<std::vector<std::byte>> {
                    if (items.empty()) return std::nullopt;
                    std::vector<std::byte> item = items.front();
                    items.pop_front();
                    return item;
                },
                handler.at("type").get<std::int32_t>());
        }
    }

    flyring::Channel& channel_;
    Json found_;
    std::map<std::string, Server> servers_;
    std::map<std::string, Client> clients_;
    std::map<std::string, Call> calls_;
    std::map<std::string, Request> kept_;
};

class GoldenService : public support::ChannelTest {};

TEST_F(GoldenService, the_same_operations_write_the_same_bytes) {
    const std::vector<std::string> names =  // of the implemented layout version
        golden_names(std::to_string(flyring::layout::MAJOR) + "." + std::to_string(flyring::layout::MINOR),
                     Which::services);
    ASSERT_GE(names.size(), 8U);
    for (const std::string& name : names) {
        SCOPED_TRACE(name);
        const Json golden = golden_json(name);
        flyring::Channel channel = in_environment(golden).create(channel_name(name), options(golden));
        ServiceReplay replay(channel);
        for (const Json& operation : golden.at("operations")) replay.run(operation);
        const std::vector<std::byte> written = support::read_file(file(channel_name(name)));
        const std::vector<std::byte> expected = support::read_file(golden_file(name, ".ring"));
        ASSERT_EQ(written.size(), expected.size());
        const auto [first, other] = std::mismatch(written.begin(), written.end(), expected.begin());
        EXPECT_TRUE(first == written.end()) << "the first byte that differs is at " << first - written.begin();
    }
}

TEST_F(GoldenService, the_next_owner_takes_over_the_dead) {
    int points = 0;
    for (const auto& entry : std::filesystem::directory_iterator(support::spec_folder() + "/golden/dead")) {
        if (entry.path().stem().string().rfind("service", 0) != 0) continue;
        std::ifstream stream(entry.path());
        const Json golden = Json::parse(stream);
        const std::vector<std::byte> empty(golden.at("file_length").get<std::size_t>());
        const std::vector<std::byte> base = with_runs(empty, golden.at("base"));
        for (const Json& point : golden.at("dead")) {
            SCOPED_TRACE(entry.path().stem().string() + ", last store: " + std::string(point.at("last_store")));
            const std::vector<std::byte> left = with_runs(base, point.at("left"));
            support::write_file(file("dead"), left);
            flyring::Channel channel = in_environment(golden).open("dead");
            ServiceReplay replay(channel);
            for (const Json& operation : point.at("operations")) replay.run(operation);
            const std::vector<std::byte> expected = with_runs(left, point.at("after"));
            const std::vector<std::byte> written = support::read_file(file("dead"));
            const auto [first, other] = std::mismatch(written.begin(), written.end(), expected.begin(), expected.end());
            EXPECT_TRUE(first == written.end()) << "the first byte that differs is at " << first - written.begin();
            EXPECT_EQ(replay.finds("reader"), by_client(point.at("finds")));
            ++points;
        }
    }
    EXPECT_GE(points, 200);
}

TEST_F(GoldenService, every_file_is_read_with_its_expected_content) {
    for (const std::string& name : golden_names("", Which::services)) {
        SCOPED_TRACE(name);
        const Json golden = golden_json(name);
        const Json expected = golden.at("expected");
        std::filesystem::copy_file(golden_file(name, ".ring"), file(channel_name(name)));
        flyring::detail::InEnvironment same_boot;
        same_boot.environment.boot_id = flyring::detail::parse_uuid(golden.at("inject").at("boot_id"));
        flyring::Channel channel = same_boot.open(channel_name(name));
        EXPECT_EQ(channel.kind(), flyring::Kind::service);
        EXPECT_EQ(channel.publishers(), expected.at("header").at("publishers"));
        EXPECT_EQ(static_cast<std::int32_t>(channel.delivery()), expected.at("header").at("delivery"));
        EXPECT_EQ(channel.max_outstanding(), expected.at("header").at("max_outstanding"));
        const flyring::Stats stats = channel.stats();
        EXPECT_EQ(stats.serving, expected.at("serving"));
        EXPECT_EQ(stats.clients, channel.clients());
        const flyring::detail::ChannelFile file = support::raw(channel_name(name));
        for (const Json& slot : expected.at("subscribers")) {
            const std::uint32_t j = slot.at("slot");
            const flyring::SubscriberStats& found = stats.subscribers.at(j);
            EXPECT_EQ(found.epoch, slot.at("epoch"));
            EXPECT_EQ(found.name, slot.at("name"));
            EXPECT_EQ(found.evicting, slot.at("evicting") == 1);
            Json gates = Json::array();
            Json counts = Json::array();
            Json taken_ends = Json::array();
            for (std::uint32_t ring = 0; ring < channel.publishers(); ++ring) {
                if (!file.has_gate(ring, j)) continue;
                gates.push_back(*file.ring(ring).gate(0));
                counts.push_back(*file.ring(ring).gate_count(0));
                taken_ends.push_back(*flyring::detail::taken_end_of(file.ring(ring)));
            }
            EXPECT_EQ(gates, slot.at("gates"));
            EXPECT_EQ(counts, slot.at("counts"));
            if (j == 0) {
                EXPECT_EQ(taken_ends, slot.at("taken_ends"));
            } else {
                EXPECT_EQ(found.outstanding, slot.at("outstanding"));
                EXPECT_EQ(found.expired, slot.at("expired"));
            }
        }
        ServiceReplay replay(channel);
        replay.run({{"op", "server"}, {"as", "reader"}, {"name", ""}, {"epoch", stats.subscribers.at(0).epoch + 1}});
        EXPECT_EQ(replay.finds("reader"), by_client(expected.at("requests")));
    }
}

}  // namespace
