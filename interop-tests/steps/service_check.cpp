// SPDX-License-Identifier: Apache-2.0
#include "service_check.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

namespace steps {

namespace layout = flyring::layout;
using namespace std::chrono_literals;
using flyring::Call;
using flyring::Client;
using flyring::Request;
using flyring::Server;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience(3);  // for a whole check, which takes some milliseconds

void require(bool good, const std::string& what) {
    if (!good) throw Wrong(what);
}

std::uint32_t clients_of(const Image& image) {
    return image.publishers() / 2;
}

/// Calls use(position, type, place of the payload, its length) for each message from there on.
template <typename Use>
void each_message(const Image& image, std::uint32_t ring, std::int64_t from, Use&& use) {
    const std::int64_t end = image.walk(ring, from).end;
    for (std::int64_t p = from; p < end;) {
        const std::uint64_t at = image.record(ring, p);
        const auto length = image.get<std::int32_t>(at + layout::RECORD_LENGTH);
        const auto type = image.get<std::int32_t>(at + layout::RECORD_TYPE);
        if (type > 0) use(p, type, at + layout::RECORD_PAYLOAD, static_cast<std::uint64_t>(length) - 8);
        p += image.align(length);
    }
}

std::vector<RequestIn> requests_in(const Image& image, std::uint32_t ring, std::int64_t from) {
    std::vector<RequestIn> all;
    each_message(image, ring, from, [&](std::int64_t p, std::int32_t type, std::uint64_t at, std::uint64_t length) {
        require(length >= layout::REQUEST_LENGTH, "a request at " + std::to_string(p) + " has no prefix");
        RequestIn one;
        one.position = p;
        one.type = type;
        one.sequence = image.get<std::uint32_t>(at + layout::REQUEST_SEQUENCE);
        one.operation = image.get<std::uint16_t>(at + layout::REQUEST_OPERATION);
        one.client_epoch = image.get<std::uint32_t>(at + layout::REQUEST_CLIENT_EPOCH);
        one.server_epoch = image.get<std::uint32_t>(at + layout::REQUEST_SERVER_EPOCH);
        for (std::uint64_t i = layout::REQUEST_LENGTH; i < length; ++i) {
            one.payload.push_back(image.get<std::byte>(at + i));
        }
        require(one.operation <= layout::REQUEST_OPERATION_CREDIT, "a request has another operation");
        all.push_back(std::move(one));
    });
    return all;
}

std::vector<ReplyIn> replies_in(const Image& image, std::uint32_t ring, std::int64_t from) {
    std::vector<ReplyIn> all;
    each_message(image, ring, from, [&](std::int64_t p, std::int32_t, std::uint64_t at, std::uint64_t length) {
        require(length >= layout::REPLY_LENGTH, "a reply at " + std::to_string(p) + " has no prefix");
        ReplyIn one;
        one.client_epoch = image.get<std::uint32_t>(at + layout::REPLY_CLIENT_EPOCH);
        one.sequence = image.get<std::uint32_t>(at + layout::REPLY_SEQUENCE);
        one.status = image.get<std::int32_t>(at + layout::REPLY_STATUS);
        one.final = (image.get<std::int32_t>(at + layout::REPLY_FLAGS) & layout::REPLY_FLAG_MORE) == 0;
        all.push_back(one);
    });
    return all;
}

/// Where the next server does not begin before, of at most once: what lies below was given to a handler.
std::int64_t taken(const Image& image, std::uint32_t ring) {
    const std::int64_t gate = image.gate(ring, 0);
    const std::int64_t end = image.taken_end(ring, 0);
    const std::int64_t claimed = image.trailer(ring, layout::TRAILER_CLAIMED);
    return end >= gate && end <= claimed ? end : gate;
}

std::int64_t published(const Image& image, std::uint32_t ring) {
    return image.trailer(ring, layout::TRAILER_PUBLISHED);
}

std::string at(const RequestIn& request) {
    return "the request at " + std::to_string(request.position) + " (type " + std::to_string(request.type) + ") ";
}

/// Looks as a process with only read permission can.
void look(const std::string& path) {
    flyring::OpenOptions options;
    options.read_only = true;
    const flyring::Stats stats = fixed(tracer_pid).open(path, options).stats();
    require(stats.clients == 3 && stats.max_outstanding == 64, "stats: clients, max_outstanding");
    for (std::uint32_t k = 0; k < 3; ++k) {
        require(stats.subscribers.at(1 + k).outstanding >= 0, "stats: outstanding below 0");
        require(stats.subscribers.at(1 + k).gates.size() <= 1, "stats: a client has one gate");
    }
}

/// All processes that live or come after the death.
class Everybody {
  public:
    Everybody(ServiceStage& stage, const Image& before, bool least) : stage_(stage), before_(before), least_(least) {
        for (std::uint32_t ring = 0; ring < clients_of(before); ++ring) {
            const std::int64_t begin = least ? before.gate(ring, 0) : taken(before, ring);
            for (RequestIn& one : requests_in(before, ring, begin)) {
                if (one.operation != layout::REQUEST_OPERATION_CALL) continue;
                const bool repeat = one.position < taken(before, ring);
                due_[{ring, one.position}] = {std::move(one), repeat};
            }
        }
    }

    void take_server() {
        server_.emplace(stage_.channel.server("next", 1s));
        server_->set_spin(0ns);
        for (int i = 0; i < 3; ++i) poll();
        if (least_) {
            for (const auto& [id, one] : due_) require(one.seen == 1, at(one.request) + "was not handed out again");
        } else {
            require(server_->not_run() == static_cast<std::int64_t>(due_.size()),
                    "expected that " + std::to_string(due_.size()) + " requests are told not to run, found " +
                        std::to_string(server_->not_run()));
        }
        old_ = false;
    }

    void take_clients() {
        for (std::uint32_t k = 0; k < (stage_.live ? 2U : 3U); ++k) {
            clients_.push_back(stage_.channel.client("heir" + std::to_string(k), 1s));
            require(clients_.back().number() == k, "client " + std::to_string(k) + ": another place");
        }
        const Bytes there = read_file(stage_.path);
        for (std::uint32_t k = 0; k < clients_.size(); ++k) {
            const Image image(there);
            const flyring::detail::ChannelFile file = flyring::detail::open_file(stage_.path, {});
            const std::int64_t* const gate = file.ring(clients_of(image) + k).gate(0);
            require(*flyring::detail::outstanding_beside(const_cast<std::int64_t*>(gate)) == 0,
                    "a client that has just come: outstanding is not 0");
        }
        try {
            const Client more = stage_.channel.client();
            throw Wrong("expected that all places are taken, found one more");
        } catch (const flyring::NoFreeSlot&) {
        }
    }

    /// Of a service whose calls do not end with their server.
    void answer_live() {
        if (!stage_.live) return;
        if (stage_.called) {
            until([&] { return (poll(), stage_.live->poll(), stage_.called->done()); }, "the call of who lives to end");
            require(stage_.end_of_call() == "answer", "the call of who lives: expected its answer");
        }
        clients_.push_back(std::move(*stage_.live));
        stage_.live.reset();
    }

    /// Two laps of all rings.
    void run(int calls) {
        for (int i = 0; i < calls; ++i) {
            std::vector<Call> under_way;
            std::vector<std::vector<std::byte>> sent;
            for (std::size_t n = 0; n < clients_.size(); ++n) {
                sent.push_back(payload(static_cast<std::uint32_t>(n), i, length_of(i)));
                under_way.push_back(clients_[n].start({sent[n].data(), sent[n].size()}, type_of(i)));
            }
            until(
                [&] {
                    poll();
                    for (Client& client : clients_) client.poll();
                    return std::all_of(under_way.begin(), under_way.end(), [](Call& call) { return call.done(); });
                },
                "answers");
            for (std::size_t n = 0; n < clients_.size(); ++n) {
                const flyring::Answer& answer = under_way[n].result(0ns);
                require(answer.type() == type_of(i) && answer.size() == sent[n].size() &&
                            std::equal(sent[n].begin(), sent[n].end(), answer.data()),
                        "an answer that is another one's");
                require(!answer.repeat(), "an answer that says repeat");
            }
        }
        if (least_) return;
        Call stream = clients_[0].stream({}, 1, 2);
        int items = 0;
        until(
            [&] {
                poll();
                while (stream.next(0ns)) ++items;
                return stream.done();
            },
            "a stream");
        require(items == 5, "a stream: another number of items");
    }

    void end() {
        for (const Client& client : clients_) require(client.outstanding() == 0, "a call is left");
        require(server_->held().in_hand == 0 && server_->held().waiting == 0, "the server holds something");
        for (Client& client : clients_) client.close();
        server_->close();
        const Bytes bytes = read_file(stage_.path);
        const Image image(bytes);
        const std::uint32_t n = clients_of(image);
        for (std::uint32_t ring = 0; ring < 2 * n; ++ring) {
            image.check_ring(ring, image.trailer(ring, layout::TRAILER_MESSAGES_DONE), false);
            const std::int64_t gate = image.gate(ring, 0);
            require(gate == (ring < n ? published(image, ring) : -1), "ring " + std::to_string(ring) + ": its gate");
        }
        for (std::uint32_t slot = 1; slot <= n; ++slot) {
            const std::uint64_t word = image.subscriber_slot(slot) + layout::SUBSCRIBER_SLOT_EVICTING;
            require(image.get<std::int32_t>(word) == 0, "slot " + std::to_string(slot) + " is evicting");
        }
        look(stage_.path);
    }

  private:
    struct Due {
        RequestIn request{};
        bool repeat = false;
        int seen = 0;
    };

    /// One poll of the next server. It answers with what it gets; a stream with five items.
    void poll() {
        server_->poll([&](Request& request) {
            const auto found = due_.find({request.client(), request.message().position()});
            if (old_) {
                require(least_ && found != due_.end(), "a request that was addressed to another server is handed out");
                Due& due = found->second;
                require(++due.seen == 1, at(due.request) + "was handed out twice");
                require(request.repeat() == due.repeat,
                        at(due.request) + (due.repeat ? "does not say" : "says") + " that a handler had it before");
                require(request.type() == due.request.type && request.size() == due.request.payload.size() &&
                            std::equal(due.request.payload.begin(), due.request.payload.end(), request.data()),
                        at(due.request) + "has other bytes");
            } else {
                require(!request.repeat(), "a new request says repeat");
            }
            if (!request.is_stream()) return request.reply(request.payload(), request.type());
            int left = 5;
            request.stream([left]() mutable -> std::optional<std::string> {
                if (left-- == 0) return std::nullopt;
                return "item";
            });
        });
    }

    template <typename Condition>
    void until(Condition&& condition, const std::string& what) const {
        while (!condition()) {
            if (Clock::now() > deadline_) throw Wrong("expected " + what + " within 3 s, found that it does not come");
        }
    }

    ServiceStage& stage_;
    const Image& before_;
    bool least_;
    bool old_ = true;  // what it is given was asked before the death
    std::map<std::pair<std::uint32_t, std::int64_t>, Due> due_;
    std::optional<Server> server_;
    std::vector<Client> clients_;
    Clock::time_point deadline_ = Clock::now() + patience;
};

using CallId = std::pair<std::uint32_t, std::uint32_t>;  // epoch of the client, sequence

/// The prefixes of what was committed after the base: a record with its length has its prefix, too (section 2).
void check_prefixes(const Image& image, const Image& base, const std::vector<RequestIn>& requests,
                    const std::vector<ReplyIn>& replies) {
    const auto is_new = [&](std::uint32_t epoch, std::uint32_t slot) {
        const std::uint64_t word = image.subscriber_slot(slot) + layout::SUBSCRIBER_SLOT_EPOCH;
        return epoch > base.get<std::uint32_t>(word) && epoch <= image.get<std::uint32_t>(word);
    };
    std::map<std::uint32_t, std::uint32_t> last;  // by epoch: the sequence of the last call
    std::set<CallId> calls;
    for (const RequestIn& one : requests) {
        require(is_new(one.client_epoch, 1) && is_new(one.server_epoch, 0), at(one) + "has the epochs of another lap");
        std::uint32_t& sequence = last[one.client_epoch];
        if (one.operation != layout::REQUEST_OPERATION_CALL) {
            require(one.sequence >= 1 && one.sequence <= sequence, at(one) + "is for no call");
            continue;
        }
        ++sequence;
        require(one.sequence == sequence, at(one) + "has another sequence: " + std::to_string(one.sequence));
        require(one.payload == payload(0, one.type - 1, one.payload.size()), at(one) + "has other bytes");
        calls.insert({one.client_epoch, one.sequence});
    }
    for (const ReplyIn& reply : replies) {
        require(calls.count({reply.client_epoch, reply.sequence}) != 0,
                "a reply to call " + std::to_string(reply.sequence) + " of client epoch " +
                    std::to_string(reply.client_epoch) + ", which was not made");
    }
}

}  // namespace

ServiceStage::ServiceStage(const std::string& place, const Bytes& bytes, bool lives)
    : path((write_file(place, bytes), place)), channel(fixed(tracer_pid).open(path)) {
    if (!lives) return;
    const flyring::detail::ChannelFile file = flyring::detail::open_file(path, {});
    const flyring::detail::Fd others = flyring::detail::open_description(file.fd, path);
    for (std::uint32_t k = 0; k < 2; ++k) {  // so that the first place that is free is the last one
        for (const std::uint64_t byte : flyring::detail::client_locks(file, k)) {
            flyring::detail::try_lock_byte(others, byte);
        }
    }
    live.emplace(channel.client("live"));
    require(live->number() == 2, "the client that lives: another place");
    live->set_spin(0ns);
}

void ServiceStage::call() {
    if (!live->server()) return;
    static const std::string question = "who lives asks";
    called.emplace(live->start(flyring::as_bytes(std::string_view(question)), 9));
}

std::string ServiceStage::end_of_call() {
    const auto name = [](const char* code, bool may) { return std::string(code) + (may ? " may-run" : ""); };
    try {
        const flyring::Answer& answer = called->result(1s);
        called.reset();
        (void)answer;
        return "answer";
    } catch (const flyring::TimedOut&) {
        throw Wrong("the call of who lives: expected that it ends within 1 s, found that it does not");
    } catch (const flyring::ServerGone& error) {
        called.reset();
        return name("server-gone", error.may_have_run());
    } catch (const flyring::FlyringError& error) {
        called.reset();
        return std::string(error.code());
    }
}

void check_left(const Image& image, const Image& base, const Bytes& begun, bool least) {
    const std::uint32_t n = clients_of(image);
    for (std::uint32_t ring = 0; ring < n; ++ring) {
        const std::string where = "ring " + std::to_string(ring) + ": ";
        const std::int64_t gate = image.gate(ring, 0);
        require(gate >= 0 && image.align(gate) == gate, where + "its gate is no position");
        require(gate >= base.gate(ring, 0) && taken(image, ring) >= taken(base, ring), where + "went back");
        require(image.walk(ring, gate).end >= published(image, ring), where + "its gate does not lead to published");
    }
    // Of client 0, what the child asked.
    const std::vector<RequestIn> requests = requests_in(image, 0, published(base, 0));
    const std::vector<ReplyIn> replies = replies_in(image, n, published(base, n));
    check_prefixes(image, base, requests, replies);
    std::set<CallId> ended;
    for (const ReplyIn& reply : replies) {
        const CallId id{reply.client_epoch, reply.sequence};
        require(least || ended.count(id) == 0,
                "call " + std::to_string(reply.sequence) + " has a reply behind its last one");
        if (reply.final) ended.insert(id);
    }
    for (const RequestIn& one : requests) {
        if (one.operation != layout::REQUEST_OPERATION_CALL) continue;
        const int given = std::to_integer<int>(begun.at(static_cast<std::size_t>(one.type)));
        const bool replied = ended.count({one.client_epoch, one.sequence}) != 0;
        require(given <= (least ? 2 : 1), at(one) + "was given to a handler " + std::to_string(given) + " times");
        if (given != 0 && one.position >= taken(image, 0)) {
            throw Wrong(at(one) + "was given to a handler, and its caller is told that it was not run");
        }
        if (least) {
            require(replied || one.position >= image.gate(0, 0), at(one) + "has no reply, and lies below the gate");
        } else if (given != 0) {
            const auto server = begun.at(static_cast<std::size_t>(server_at + one.type));
            require(std::to_integer<std::uint32_t>(server) == (one.server_epoch & 0xFF),
                    at(one) + "was given to the handler of another server");
        }
    }
}

void check_idle_client(const std::string& path) {
    const flyring::detail::ChannelFile file = flyring::detail::open_file(path, {});
    const std::int32_t outstanding = *flyring::detail::outstanding_beside(file.ring(file.header.clients()).gate(0));
    require(outstanding == 0, "no call is under way, and outstanding is " + std::to_string(outstanding));
    const std::int32_t evicting = *flyring::detail::subscriber_slot(file, 1).evicting();
    require(evicting == 0, "a client that has its place is evicting");
}

void check_service(ServiceStage& stage, const Bytes& before, bool least, bool heirs_first) {
    const Image image(before);
    look(stage.path);
    Everybody all(stage, image, least);
    if (heirs_first) all.take_clients();
    all.take_server();
    if (!heirs_first) all.take_clients();
    all.answer_live();
    all.run(130);
    all.end();
}

}  // namespace steps
