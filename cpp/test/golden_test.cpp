// SPDX-License-Identifier: Apache-2.0
#include "golden.hpp"

#include <thread>
#include <tuple>

// The golden files (spec/golden/README.md): the same operations write the same bytes, and every stored file reads as
// expected.

namespace {

using namespace golden;

Json job_facts(const flyring::Job& job) {
    return {{"ring", job.ring()},     {"position", job.position()}, {"attempts", job.attempts()},
            {"repeat", job.repeat()}, {"type", job.type()},         {"data", hex(job.payload())}};
}

/// Sorted by the ring that each job was taken from, then by its identity.
Json sorted_jobs(const Json& jobs) {
    std::vector<Json> sorted = jobs;
    const auto key = [](const Json& job) {
        return std::tuple(job.at("from").get<int>(), job.at("ring").get<int>(), job.at("position").get<std::int64_t>());
    };
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const Json& one, const Json& next) { return key(one) < key(next); });
    return sorted;
}

/// The job that a worker has in hand, and all jobs that it then gets; each is finished. `adopts`: jobs of dead workers,
/// too.
Json jobs_left(const flyring::Channel& channel, flyring::Worker& worker, std::optional<flyring::Job> job, bool adopts) {
    const flyring::detail::ChannelFile file = flyring::detail::open_file(channel.path(), {});
    const flyring::detail::Fd description = flyring::detail::open_description(file.fd, file.path);
    std::optional<flyring::detail::ControlLock> control;
    if (!adopts) control.emplace(description, file);  // without this lock no worker can adopt
    Json found = Json::array();
    for (int vain = 0; vain < 3;) {
        if (!job || !*job) job = worker.take();
        if (!job) {
            ++vain;
            if (!adopts) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(6));  // until it looks for dead workers again
            continue;
        }
        Json facts = job_facts(*job);
        for (std::uint32_t ring = 0; ring < file.header.publishers; ++ring) {
            if (*file.ring(ring).gate(worker.slot()) >= 0) facts["from"] = ring;
        }
        found.push_back(facts);
        job->done();
    }
    return sorted_jobs(found);
}

/// Does the operations of a golden file and compares their results.
class Replay {
  public:
    explicit Replay(flyring::Channel& channel) : channel_(channel) {}

    void run(const Json& operation) {
        SCOPED_TRACE(operation.dump().substr(0, 200));
        const std::string op = operation.at("op");
        if (op.rfind("counter", 0) == 0) return counter(op, operation);
        if (op == "foreign_store") return foreign_store(channel_.path(), operation);
        if (op == "evict") {
            EXPECT_EQ(channel_.evict(operation.at("slot")), operation.at("messages"));
            return;
        }
        if (operation.contains("as")) return make(op, operation);
        if (operation.contains("subscriber")) return subscriber(op, operation);
        if (operation.contains("worker")) return worker(op, operation);
        publisher(op, operation);
    }

    /// All messages or jobs that the last subscriber or worker gets, by ring.
    Json finds(const std::string& name) {
        std::vector<Json> found;
        if (workers_.count(name) != 0) return jobs_left(channel_, workers_.at(name), std::move(jobs_[name]), false);
        while (const auto message = subscribers_.at(name).take()) {
            found.push_back({{"ring", message->ring()},
                             {"type", message->type()},
                             {"position", message->position()},
                             {"data", hex(message->payload())}});
        }
        std::stable_sort(found.begin(), found.end(),
                         [](const Json& one, const Json& next) { return one.at("ring") < next.at("ring"); });
        return found;
    }

  private:
    void make(const std::string& op, const Json& operation) {
        const std::string handle = operation.at("as");
        if (op == "publisher") {
            const auto& made =
                publishers_.insert_or_assign(handle, channel_.publisher(operation.at("name"), operation.at("max_lag")))
                    .first->second;
            EXPECT_EQ(made.ring(), operation.at("ring"));
            EXPECT_EQ(made.epoch(), operation.at("epoch"));
            EXPECT_EQ(made.position(), operation.at("position"));
            return;
        }
        if (op == "worker") {
            const auto& made = workers_.insert_or_assign(handle, channel_.worker(operation.at("name"))).first->second;
            EXPECT_EQ(made.slot(), operation.at("slot"));
            EXPECT_EQ(made.epoch(), operation.at("epoch"));
            return;
        }
        ASSERT_EQ(op, "subscriber");
        std::optional<flyring::Rings> rings;
        if (!operation.at("rings").is_null()) rings = operation.at("rings").get<std::vector<std::uint32_t>>();
        const auto& made =
            subscribers_
                .insert_or_assign(handle, channel_.subscriber(operation.at("name"), operation.at("kept"), rings))
                .first->second;
        EXPECT_EQ(made.slot(), operation.at("slot"));
        EXPECT_EQ(made.epoch(), operation.at("epoch"));
        Json positions = Json::object();
        for (const std::uint32_t ring : made.rings()) positions[std::to_string(ring)] = made.position(ring);
        EXPECT_EQ(positions, operation.at("positions"));
    }

    void publisher(const std::string& op, const Json& operation) {
        const std::string handle = operation.at("publisher");
        flyring::Publisher& publisher = publishers_.at(handle);
        const std::int32_t type = operation.value("type", 1);
        if (op == "offer") {
            EXPECT_EQ(publisher.offer(payload(operation.at("data")), type), operation.at("position"));
        } else if (op == "claim") {
            claims_[handle] = publisher.try_claim(operation.at("length").get<std::size_t>(), type);
            EXPECT_EQ(static_cast<bool>(claims_[handle]), operation.at("claimed").get<bool>());
        } else if (op == "commit") {
            const std::vector<std::byte> data = payload(operation.at("data"));
            ASSERT_EQ(data.size(), claims_[handle].size());
            std::copy(data.begin(), data.end(), claims_[handle].data());
            EXPECT_EQ(claims_[handle].commit(), operation.at("position"));
        } else if (op == "abort") {
            EXPECT_EQ(claims_[handle].abort(), operation.at("position"));
        } else if (op == "offer_batch") {
            std::vector<std::vector<std::byte>> payloads;
            for (const Json& data : operation.at("data")) payloads.push_back(payload(data));
            const std::vector<flyring::Bytes> views(payloads.begin(), payloads.end());
            EXPECT_EQ(publisher.offer_batch(views, type), operation.at("taken"));
        } else {
            ASSERT_EQ(op, "close");
            publisher.close();
        }
    }

    void subscriber(const std::string& op, const Json& operation) {
        flyring::Subscriber& subscriber = subscribers_.at(operation.at("subscriber"));
        if (op == "poll") {
            EXPECT_EQ(subscriber.poll([](const flyring::Message&) {}, operation.at("limit")), operation.at("expect"));
        } else if (op == "close") {
            subscriber.close();
        } else {
            ASSERT_EQ(op, "forget");
            subscriber.forget();
        }
    }

    void worker(const std::string& op, const Json& operation) {
        flyring::Worker& worker = workers_.at(operation.at("worker"));
        std::optional<flyring::Job>& job = jobs_[operation.at("worker")];
        if (op == "take_job") {
            job = worker.take();
            EXPECT_EQ(job ? job_facts(*job) : Json(nullptr), operation.at("job"));
        } else if (op == "done") {
            job->done();
        } else if (op == "release") {
            EXPECT_EQ(job->release(), operation.at("released").get<bool>());
        } else if (op == "poll_jobs") {
            Json jobs = Json::array();
            worker.poll([&](flyring::Job& one) { jobs.push_back(job_facts(one)); }, operation.at("limit"));
            EXPECT_EQ(jobs, operation.at("jobs"));
        } else {
            ASSERT_EQ(op, "close");
            worker.close();
        }
    }

    void counter(const std::string& op, const Json& operation) {
        flyring::Counters counters = channel_.counters();
        if (op == "counter_allocate") {
            const std::vector<std::byte> key = from_hex(operation.at("key"));
            EXPECT_EQ(counters.allocate(operation.at("label"), operation.at("type_id"), key).id(),
                      operation.at("counter"));
            return;
        }
        flyring::Counter counter = counters.counter(operation.at("counter"));
        if (op == "counter_set") {
            counter.set(operation.at("value"));
        } else if (op == "counter_add") {
            EXPECT_EQ(counter.get_and_add(operation.at("delta")), operation.at("previous"));
        } else {
            ASSERT_EQ(op, "counter_free");
            counter.free();
        }
    }

    flyring::Channel& channel_;
    std::map<std::string, flyring::Publisher> publishers_;
    std::map<std::string, flyring::Subscriber> subscribers_;
    std::map<std::string, flyring::Claim> claims_;
    std::map<std::string, flyring::Worker> workers_;
    std::map<std::string, std::optional<flyring::Job>> jobs_;  // in hand, by worker
};

class Golden : public support::ChannelTest {};

TEST_F(Golden, the_same_operations_write_the_same_bytes) {
    const std::vector<std::string> names =  // of the implemented layout version
        golden_names(std::to_string(flyring::layout::MAJOR) + "." + std::to_string(flyring::layout::MINOR),
                     Which::others);
    ASSERT_GE(names.size(), 23U);
    for (const std::string& name : names) {
        SCOPED_TRACE(name);
        const Json golden = golden_json(name);
        flyring::Channel channel = in_environment(golden).create(channel_name(name), options(golden));
        Replay replay(channel);
        for (const Json& operation : golden.at("operations")) replay.run(operation);
        const std::vector<std::byte> written = support::read_file(file(channel_name(name)));
        const std::vector<std::byte> expected = support::read_file(golden_file(name, ".ring"));
        ASSERT_EQ(written.size(), expected.size());
        const auto [first, other] = std::mismatch(written.begin(), written.end(), expected.begin());
        EXPECT_TRUE(first == written.end()) << "the first byte that differs is at " << first - written.begin();
    }
}

/// The files of the dead: each has the state after a kill at one store, the operation of the next owner, the bytes that
/// it leaves, and what a reader finds.
TEST_F(Golden, the_next_owner_takes_over_the_dead) {
    int points = 0;
    for (const auto& entry : std::filesystem::directory_iterator(support::spec_folder() + "/golden/dead")) {
        if (entry.path().stem().string().rfind("service", 0) == 0) continue;  // golden_service_test.cpp
        std::ifstream stream(entry.path());
        const Json golden = Json::parse(stream);
        const std::vector<std::byte> empty(golden.at("file_length").get<std::size_t>());
        const std::vector<std::byte> base = with_runs(empty, golden.at("base"));
        for (const Json& point : golden.at("dead")) {
            SCOPED_TRACE(entry.path().stem().string() + ", last store: " + std::string(point.at("last_store")));
            const std::vector<std::byte> left = with_runs(base, point.at("left"));
            support::write_file(file("dead"), left);
            flyring::Channel channel = in_environment(golden).open("dead");
            Replay replay(channel);
            for (const Json& operation : point.at("operations")) replay.run(operation);
            const std::vector<std::byte> expected = with_runs(left, point.at("after"));
            const std::vector<std::byte> written = support::read_file(file("dead"));
            const auto [first, other] = std::mismatch(written.begin(), written.end(), expected.begin(), expected.end());
            EXPECT_TRUE(first == written.end()) << "the first byte that differs is at " << first - written.begin();
            const bool queue = channel.kind() == flyring::Kind::queue;
            EXPECT_EQ(replay.finds("reader"), queue ? sorted_jobs(point.at("finds")) : point.at("finds"));
            ++points;
        }
    }
    EXPECT_GE(points, 270);
}

void expect_words(const flyring::detail::ChannelFile& channel, const Json& expected) {
    using flyring::detail::SlotWords;
    for (const Json& publisher : expected.at("publishers")) {
        const std::uint32_t index = publisher.at("ring");
        const SlotWords words = flyring::detail::publisher_slot(channel, index);
        EXPECT_EQ(*words.epoch(), publisher.at("epoch"));
        EXPECT_EQ(*words.start(), publisher.at("start"));
        EXPECT_EQ(*words.closed(), publisher.at("closed"));
        EXPECT_EQ(words.name(), publisher.at("name"));
        EXPECT_EQ(*words.pid(), publisher.at("pid"));
        EXPECT_EQ(*words.blocked_since(), publisher.at("blocked_since"));
        EXPECT_EQ(*words.blocked_length(), publisher.at("blocked_length"));
        const flyring::detail::Ring ring = channel.ring(index);
        EXPECT_EQ(*ring.claimed(), publisher.at("claimed"));
        EXPECT_EQ(*ring.published(), publisher.at("published"));
        EXPECT_EQ(*ring.messages_done(), publisher.at("messages"));
        for (std::int64_t eighth = 0; eighth < 8; ++eighth) {
            const Json& boundary = publisher.at("boundaries").at(static_cast<std::size_t>(eighth));
            EXPECT_EQ(*ring.boundary(eighth), boundary.at(0));
            EXPECT_EQ(*ring.boundary_count(eighth), boundary.at(1));
        }
    }
    if (channel.is_queue()) {
        EXPECT_EQ(*channel.handovers(), expected.at("handovers"));
    }
    for (const Json& subscriber : expected.at("subscribers")) {
        const std::uint32_t slot = subscriber.at("slot");
        const SlotWords words = flyring::detail::subscriber_slot(channel, slot);
        EXPECT_EQ(*words.epoch(), subscriber.at("epoch"));
        EXPECT_EQ(*words.evicting(), subscriber.at("evicting"));
        EXPECT_EQ(*words.kept(), subscriber.at("kept"));
        EXPECT_EQ(*words.discarded(), subscriber.at("discarded"));
        EXPECT_EQ(words.name(), subscriber.at("name"));
        for (std::uint32_t ring = 0; ring < channel.header.publishers; ++ring) {
            EXPECT_EQ(*channel.ring(ring).gate(slot), subscriber.at("gates").at(ring));
            EXPECT_EQ(*channel.ring(ring).gate_count(slot), subscriber.at("counts").at(ring));
            if (!channel.is_queue()) continue;
            EXPECT_EQ(*flyring::detail::taken_end_beside(channel.ring(ring).gate(slot)),
                      subscriber.at("taken_ends").at(ring));
            EXPECT_EQ(*flyring::detail::attempts_beside(channel.ring(ring).gate(slot)),
                      subscriber.at("attempts").at(ring));
        }
        if (channel.is_queue()) {
            EXPECT_EQ(*words.busy_since(), subscriber.at("busy_since"));
        }
    }
}

void expect_counters(const flyring::Channel& channel, const Json& expected) {
    Json found = Json::array();
    channel.counters().for_each([&](const flyring::Counter& counter) {
        const std::vector<std::byte> key = counter.key();
        found.push_back({{"id", counter.id()},
                         {"label", counter.label()},
                         {"type_id", counter.type_id()},
                         {"key", hex(key)},
                         {"value", counter.get_volatile()}});
    });
    EXPECT_EQ(found, expected);
}

/// The foreign end's slot cannot be taken (6.15).
void expect_foreign(flyring::Channel& channel, std::uint64_t features) {
    const flyring::Foreign foreign = channel.foreign();
    EXPECT_EQ(foreign == flyring::Foreign::publisher, features == flyring::layout::FEATURE_FOREIGN_PUBLISHER);
    EXPECT_EQ(foreign == flyring::Foreign::subscriber, features == flyring::layout::FEATURE_FOREIGN_SUBSCRIBER);
    if (foreign == flyring::Foreign::none) return;
    try {
        if (foreign == flyring::Foreign::publisher) {
            channel.publisher();
        } else {
            channel.subscriber();
        }
        ADD_FAILURE() << "the foreign slot was taken";
    } catch (const flyring::InvalidArgument& error) {
        EXPECT_EQ(error.argument(), "foreign");
    }
}

void expect_unread(flyring::Channel& channel, const Json& expected) {
    if (channel.foreign() == flyring::Foreign::subscriber) return;
    for (const Json& slot : expected.at("subscribers")) {
        if (slot.at("kept") == 0) continue;
        const std::string name = slot.at("name");
        flyring::Subscriber subscriber = channel.subscriber(name, !name.empty());
        EXPECT_EQ(subscriber.slot(), slot.at("slot"));
        std::map<std::uint32_t, Json> found;
        while (subscriber.poll([&](const flyring::Message& message) {
            found[message.ring()].push_back(
                {{"type", message.type()}, {"position", message.position()}, {"data", hex(message.payload())}});
        }) > 0) {
        }
        for (const Json& unread : expected.at("unread")) {
            if (unread.at("slot") != slot.at("slot")) continue;
            const Json& messages = unread.at("messages");
            EXPECT_EQ(messages.empty() ? Json(nullptr) : messages, found[unread.at("ring")]);
            found.erase(unread.at("ring").get<std::uint32_t>());
        }
        EXPECT_TRUE(found.empty()) << "messages of a ring that nobody expected";
    }
}

void expect_still_there(const std::string& name, const Json& expected) {
    flyring::OpenOptions options;
    options.read_only = true;
    flyring::Channel channel = flyring::Channel::open(name, options);
    for (const Json& ring : expected) {
        const std::uint32_t index = ring.at("ring");
        flyring::LossySubscriber reader = channel.lossy_subscriber({index}, flyring::Start::oldest);
        Json found = Json::array();
        while (reader.poll([&](const flyring::Message& message) {
            found.push_back({{"type", message.type()},
                             {"position", message.position()},
                             {"data", hex(message.payload())},
                             {"sender", {{"name", message.sender().name}, {"epoch", message.sender().epoch}}}});
        }) > 0) {
        }
        EXPECT_EQ(found, ring.at("messages")) << "ring " << index;
        EXPECT_EQ(reader.ended(index), ring.at("ended")) << "ring " << index;
        EXPECT_EQ(reader.lost_messages(index), 0);
    }
}

TEST_F(Golden, every_file_is_read_with_its_expected_content) {
    for (const std::string& golden : golden_names("", Which::others)) {
        SCOPED_TRACE(golden);
        const std::string name = channel_name(golden);
        const Json expected = golden_json(golden).at("expected");
        std::filesystem::copy_file(golden_file(golden, ".ring"), file(name));
        flyring::Channel channel = flyring::Channel::open(name);
        const Json& header = expected.at("header");
        EXPECT_EQ(static_cast<std::uint32_t>(channel.kind()), header.at("kind"));
        EXPECT_EQ(channel.capacity(), header.at("capacity"));
        EXPECT_EQ(channel.publishers(), header.at("publishers"));
        EXPECT_EQ(channel.subscribers(), header.at("subscribers"));
        EXPECT_EQ(channel.alignment(), header.at("alignment"));
        EXPECT_EQ(channel.counter_count(), header.at("counters"));
        EXPECT_EQ(channel.created_at(), header.at("created_at"));
        EXPECT_EQ(channel.file_length(), header.at("file_length"));
        EXPECT_EQ(channel.id(), flyring::detail::parse_uuid(header.at("channel_id")));
        EXPECT_EQ(channel.schema(), expected.at("schema"));
        EXPECT_EQ(channel.schema_id(), header.at("schema_id"));
        EXPECT_EQ(channel.schema_version(), header.at("schema_version"));
        expect_words(flyring::detail::open_file(name, {}), expected);
        expect_counters(channel, expected.at("counters"));
        expect_still_there(name, expected.at("still_there"));
        expect_foreign(channel, header.at("required_features"));
        if (channel.kind() == flyring::Kind::queue) {
            flyring::Worker worker = channel.worker();
            EXPECT_EQ(jobs_left(channel, worker, std::nullopt, true), sorted_jobs(expected.at("jobs")));
        } else {
            expect_unread(channel, expected);
        }
        for (const Json& publisher : expected.at("publishers")) {
            if (publisher.at("name") == "") continue;
            const flyring::Publisher again = channel.publisher(publisher.at("name"));
            EXPECT_EQ(again.ring(), publisher.at("ring"));
            EXPECT_EQ(again.position(), publisher.at("claimed"));
        }
    }
}

TEST_F(Golden, a_file_of_a_newer_minor_version_is_written_to_and_what_is_reserved_stays) {
    const std::vector<std::string> names = golden_names("newer", Which::others);
    ASSERT_GE(names.size(), 7U);
    for (const std::string& golden : names) {
        SCOPED_TRACE(golden);
        const Json content = golden_json(golden);
        const std::uint64_t features = content.at("expected").at("header").at("required_features");
        const std::string name = channel_name(golden);
        const std::vector<std::byte> before = support::read_file(golden_file(golden, ".ring"));
        support::write_file(file(name), before);
        {
            flyring::Channel channel = flyring::Channel::open(name);
            std::string kept;
            for (const Json& slot : content.at("expected").at("subscribers")) {
                if (slot.at("kept") == 1 && kept.empty()) kept = slot.at("name");
            }
            std::optional<flyring::Subscriber> subscriber;
            std::vector<std::uint32_t> rings;
            if (features != flyring::layout::FEATURE_FOREIGN_SUBSCRIBER) {
                subscriber.emplace(channel.subscriber(kept));
                rings = subscriber->rings();
                while (subscriber->take()) {
                }
            }
            std::vector<flyring::Publisher> publishers;
            if (features != flyring::layout::FEATURE_FOREIGN_PUBLISHER) {
                for (std::uint32_t i = 0; i < channel.publishers(); ++i) publishers.push_back(channel.publisher());
            }
            const flyring::Bytes data = support::bytes("from an older version");
            for (flyring::Publisher& publisher : publishers) {
                const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
                while (publisher.offer(data, 77) < 0) ASSERT_LT(std::chrono::steady_clock::now(), end) << "held back";
                if (std::count(rings.begin(), rings.end(), publisher.ring()) == 0) continue;
                const auto message = subscriber->take();
                ASSERT_TRUE(message);
                EXPECT_EQ(hex(message->payload()), hex(data));
            }
            channel.counters().for_each([](flyring::Counter counter) { counter.get_and_add(1); });
        }
        const std::vector<std::byte> after = support::read_file(file(name));
        ASSERT_EQ(before.size(), after.size());
        EXPECT_NE(before, after) << "nothing was written";
        for (const Json& range : content.at("reserved")) {
            const auto first = before.begin() + range.at(0).get<std::ptrdiff_t>();
            const auto length = range.at(1).get<std::ptrdiff_t>();
            EXPECT_TRUE(std::equal(first, first + length, after.begin() + (first - before.begin()))) << range;
        }
    }
}

TEST_F(Golden, a_file_that_needs_a_newer_version_is_refused) {
    const std::vector<std::string> names = golden_names("refused");
    ASSERT_GE(names.size(), 2U);
    for (const std::string& golden : names) {
        const Json expected = golden_json(golden);
        std::filesystem::copy_file(golden_file(golden, ".ring"), file("refused"),
                                   std::filesystem::copy_options::overwrite_existing);
        try {
            flyring::Channel::open("refused");
            ADD_FAILURE() << golden << " was opened";
        } catch (const flyring::VersionTooNew& error) {
            EXPECT_EQ(expected.at("field"), error.field()) << golden;
            EXPECT_EQ(expected.at("found"), error.found()) << golden;
        }
    }
}

TEST_F(Golden, a_file_cut_at_every_64th_byte_is_not_a_channel_or_truncated) {
    for (const std::string& name : golden_names()) {
        const std::vector<std::byte> whole = support::read_file(golden_file(name, ".ring"));
        support::write_file(file("cut"), whole);
        EXPECT_EQ(support::code_of([] { flyring::Channel::open("cut"); }), "none") << name;
        for (std::size_t size = (whole.size() - 1) / 64 * 64;; size -= 64) {
            std::filesystem::resize_file(file("cut"), size);
            const std::string code = support::code_of([] { flyring::Channel::open("cut"); });
            ASSERT_EQ(code, size < 8 ? "not-a-channel" : "truncated") << name << " cut at " << size;
            if (size == 0) break;
        }
    }
}

}  // namespace
