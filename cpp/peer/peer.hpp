// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <flyring/flyring.hpp>
#include <flyring/table.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

namespace peer {

using Json = nlohmann::json;

/// A request that the peer does not understand.
class BadRequest : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// An answer that reports a failure which is no library error: `error` and further fields.
class Failed : public std::runtime_error {
  public:
    explicit Failed(Json answer) : std::runtime_error(answer.dump()), answer_(std::move(answer)) {}
    const Json& answer() const noexcept { return answer_; }

  private:
    Json answer_;
};

std::string to_hex(flyring::Bytes bytes);
std::vector<std::byte> from_hex(const std::string& text);
std::string uuid_text(const flyring::Uuid& uuid);
Json message_json(const flyring::Message& message);
Json job_json(const flyring::Job& job);
Json foreign_json(flyring::Foreign foreign);
/// The values of `inject`.
flyring::detail::Environment environment(const Json& request);
Json holder_json(const std::optional<flyring::Holder>& holder);
/// The fields that an error carries besides its text.
Json carried(const flyring::FlyringError& error);

/// A client, its calls by their handles, and the events that poll_client has to report.
struct Caller {
    explicit Caller(flyring::Client made) : client(std::move(made)) {}
    /// The callback of a call: notes what happened to the call.
    void hear(const std::string& name, flyring::Call& call, bool is_stream);

    std::map<std::string, flyring::Call> calls;
    std::map<std::string, bool> is_stream;
    std::vector<std::string> heard;  // calls with events that came in other verbs than poll_client
    std::set<std::string> told;      // calls whose end is reported
    bool telling = false;
    Json found = Json::array();
    flyring::Client client;  // destroyed first: its callbacks use the members above
};

/// The writer of a table, and the handle of that table.
struct HeldWriter {
    flyring::TableWriter writer;
    std::string table;
};

class Journals;

/// The ops of interop-tests/PEER.md.
class Peer {
  public:
    Peer();
    ~Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    /// The answer to one request, without its id.
    Json answer(const Json& request);

  private:
    using Op = Json (Peer::*)(const Json&);
    static const std::map<std::string, Op>& ops();

    Json hello(const Json& request);
    Json create(const Json& request);
    Json open_or_create(const Json& request);
    Json replace(const Json& request);
    Json open(const Json& request);
    Json info(const Json& request);
    Json stats(const Json& request);
    Json unlink(const Json& request);
    Json publisher(const Json& request);
    Json subscriber(const Json& request);
    Json lossy_subscriber(const Json& request);
    Json worker(const Json& request);
    Json take_job(const Json& request);
    Json done(const Json& request);
    Json release(const Json& request);
    Json poll_jobs(const Json& request);
    Json drain(const Json& request);
    Json jobs_ended(const Json& request);
    Json server(const Json& request);
    Json client(const Json& request);
    Json serve(const Json& request);
    Json later(const Json& request);
    Json request(const Json& request);
    Json held(const Json& request);
    Json call(const Json& request);
    Json start(const Json& request);
    Json result(const Json& request);
    Json next(const Json& request);
    Json cancel(const Json& request);
    Json poll_client(const Json& request);
    Json calls(const Json& request);
    Json serve_many(const Json& request);
    Json call_many(const Json& request);
    Json evict(const Json& request);
    Json offer(const Json& request);
    Json flush(const Json& request);
    Json offer_batch(const Json& request);
    Json claim(const Json& request);
    Json commit(const Json& request);
    Json abort(const Json& request);
    Json held_by(const Json& request);
    Json take(const Json& request);
    Json poll(const Json& request);
    Json peek(const Json& request);
    Json valid(const Json& request);
    Json lost(const Json& request);
    Json ended(const Json& request);
    Json positions(const Json& request);
    Json publish_stream(const Json& request);
    Json verify_stream(const Json& request);
    Json ping_pong(const Json& request);
    Json die(const Json& request);
    Json counter_allocate(const Json& request);
    Json counter_find(const Json& request);
    Json counter_get(const Json& request);
    Json counter_set(const Json& request);
    Json counter_add(const Json& request);
    Json counter_cas_loop(const Json& request);
    Json counter_free(const Json& request);
    Json counters(const Json& request);
    Json close(const Json& request);
    Json forget(const Json& request);
    Json mesh(const Json& request);
    Json make_table(const Json& request, const std::string& op);
    Json table_info(const Json& request);
    Json table_stats(const Json& request);
    void close_table(const Json& request);
    Json writer(const Json& request);
    Json entry(const Json& request);
    Json get(const Json& request);
    Json put(const Json& request);
    Json remove(const Json& request);
    Json update(const Json& request);
    Json clear(const Json& request);
    Json size(const Json& request);
    Json each(const Json& request);
    Json wait_changed(const Json& request);
    Json snapshot(const Json& request);
    Json grow(const Json& request);
    Json sync(const Json& request);
    Json put_many(const Json& request);
    Json get_many(const Json& request);
    Json beside(const Json& request);

    Json keep_channel(const Json& request, flyring::Channel channel);
    flyring::Channel& channel_of(const Json& request);
    template <typename Use>
    auto with_subscriber(const Json& request, Use&& use);
    flyring::Job& job_of(const Json& request);
    flyring::Call& call_of(const Json& request);
    flyring::Counter counter_of(const Json& request);
    flyring::Table& table_of(const Json& request);
    template <typename Use>
    auto with_changer(const Json& request, Use&& use);

    // Destroyed from last to first: publishers and subscribers before their channel.
    std::map<std::string, flyring::Channel> channels_;
    std::map<std::string, flyring::Publisher> publishers_;
    std::map<std::string, flyring::Subscriber> subscribers_;
    std::map<std::string, flyring::LossySubscriber> lossy_;
    std::map<std::string, flyring::Claim> claims_;
    std::map<std::string, flyring::Worker> workers_;
    std::map<std::string, flyring::Job> jobs_;  // the job in hand of each worker; destroyed before it
    std::map<std::string, flyring::Server> servers_;
    std::map<std::string, std::unique_ptr<Caller>> clients_;
    std::map<std::string, flyring::Request> requests_;  // kept requests
    std::map<std::string, std::unique_ptr<flyring::Mesh>> meshes_;
    std::map<std::string, flyring::Table> tables_;
    std::map<std::string, HeldWriter> writers_;
    std::map<std::string, flyring::Entry> entries_;
    std::unique_ptr<Journals> journals_;
};

Json publish_stream(flyring::Publisher& publisher, const Json& request);
Json verify_stream(flyring::Subscriber& subscriber, const Json& request);
Json verify_stream(flyring::LossySubscriber& subscriber, const Json& request);
Json put_many(flyring::Table& table, flyring::TableWriter* writer, const Json& request);
Json get_many(flyring::Table& table, const Json& request);
Json ping_pong(flyring::Table& table, const Json& request);
Json ping_pong(flyring::Publisher& publisher, flyring::Subscriber& subscriber, const Json& request);
Json ping_pong(flyring::Publisher& publisher, flyring::LossySubscriber& subscriber, const Json& request);

}  // namespace peer
