// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "golden.hpp"
#include "journals.hpp"

// The golden files of journals (spec/golden/README.md, "Journals").

namespace {

using flyring::Journal;
using flyring::JournalClaim;
using flyring::JournalConsumer;
using flyring::JournalMessage;
using flyring::JournalStart;
using flyring::JournalWriter;
using golden::Json;
using support::code_of;
namespace layout = flyring::layout;

using Files = std::map<std::string, std::vector<std::byte>>;

std::string golden_folder(const std::string& folder) {
    return support::spec_folder() + "/golden/journal/" + folder + "/";
}

std::vector<std::string> names(const std::string& folder) {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(golden_folder(folder))) {
        if (entry.path().extension() == ".json") found.push_back(entry.path().stem());
    }
    std::sort(found.begin(), found.end());
    return found;
}

Json json_of(const std::string& folder, const std::string& name) {
    std::ifstream stream(golden_folder(folder) + name + ".json");
    return Json::parse(stream);
}

flyring::JournalOptions options(const Json& create) {
    flyring::JournalOptions made;
    made.segment_size = create.value("segment_size", std::uint64_t{65536});
    made.consumers = create.value("consumers", 16U);
    if (create.value("content", 0) == 1) made.content = flyring::JournalContent::recording;
    const auto every = create.value("sync_every", std::int64_t{0});
    if (every == -1) made.sync = flyring::JournalSync::each();
    if (every > 0) made.sync = flyring::JournalSync::every(std::chrono::nanoseconds(every));
    if (create.contains("max_age")) made.max_age = std::chrono::nanoseconds(create.at("max_age").get<std::int64_t>());
    if (create.contains("max_size")) made.max_size = create.at("max_size").get<std::uint64_t>();
    if (create.contains("trim_consumed")) made.trim_consumed = create.at("trim_consumed") == 1;
    made.schema = create.value("schema", "");
    made.schema_id = create.value("schema_id", 0U);
    made.schema_version = create.value("schema_version", 0U);
    return made;
}

flyring::detail::JournalInEnvironment environment(const Json& content) {
    return {golden::in_environment(content).environment};
}

/// All files of a folder.
Files files_of(const std::string& folder) {
    Files found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        found[entry.path().filename()] = support::read_file(entry.path());
    }
    return found;
}

void write(const std::string& folder, const Files& files) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    for (const auto& [name, bytes] : files) support::write_file(folder + "/" + name, bytes);
}

/// The files with the changes of a JSON file.
Files changed(Files files, const Json& changes) {
    for (const auto& [name, change] : changes.items()) {
        if (change.is_null()) {
            files.erase(name);
            continue;
        }
        files[name].resize(change.at("length").get<std::size_t>());
        files[name] = golden::with_runs(files[name], change.at("runs"));
    }
    return files;
}

void expect_files(const Files& found, const Files& expected, const std::string& what) {
    std::vector<std::string> names;
    std::vector<std::string> wanted;
    for (const auto& [name, bytes] : found) names.push_back(name);
    for (const auto& [name, bytes] : expected) wanted.push_back(name);
    ASSERT_EQ(names, wanted) << what;
    for (const auto& [name, bytes] : found) {
        const std::vector<std::byte>& other = expected.at(name);
        ASSERT_EQ(bytes.size(), other.size()) << what << ", " << name;
        for (std::size_t at = 0; at < bytes.size(); ++at) {
            ASSERT_EQ(static_cast<int>(bytes[at]), static_cast<int>(other[at]))
                << what << ", " << name << ", byte " << at;
        }
    }
}

Json facts(const JournalMessage& message) {
    return {{"position", message.position()}, {"number", message.number()},
            {"type", message.type()},         {"time", message.time()},
            {"length", message.size()},       {"crc", flyring::detail::crc32c(message.data(), message.size())}};
}

template <typename Reader>
Json read(Reader& reader, int limit = 256) {
    Json found = Json::array();
    reader.poll([&](const JournalMessage& message) { found.push_back(facts(message)); }, limit);
    return found;
}

void expect_messages(const Journal& journal, const Json& messages, const std::string& what) {
    auto reader = journal.reader();
    EXPECT_EQ(read(reader), messages) << what;
}

class GoldenJournal : public journals::JournalTest {
  protected:
    /// Does one operation, and compares its result.
    void operate(const Json& operation) {
        const std::string op = operation.at("op");
        if (op == "foreign_store") {
            golden::foreign_store(path() + "/" + operation.at("file").get<std::string>(), operation);
        } else if (op == "reboot") {
            const Files files = files_of(path());
            end();
            write(path(), files);
            in_.environment.boot_id = flyring::detail::parse_uuid(operation.at("boot_id"));
            journal_.emplace(in_.open("j"));
        } else if (op == "writer") {
            writer_.emplace(journal_->writer(operation.at("name").get<std::string>(), false));
            EXPECT_EQ(operation.at("epoch"), writer_->epoch()) << operation;
            expect_recovery(operation.at("recovery"));
        } else if (op == "trim") {
            trim(operation);
        } else if (op == "push") {
            EXPECT_EQ(operation.at("position"),
                      journal_->push(golden::payload(operation.at("data")), operation.at("type").get<std::int32_t>()))
                << operation;
        } else if (op == "consumer" || operation.contains("consumer")) {
            consume(operation, op);
        } else {
            append(operation, op);
        }
    }

    void append(const Json& operation, const std::string& op) {
        const std::int32_t type = operation.value("type", 1);
        if (op == "close_writer") return writer_->close();
        if (op == "sync") return writer_->sync();
        if (op == "claim") {
            claim_.emplace(writer_->claim(operation.at("length").get<std::size_t>(), type));
        } else if (op == "abort") {
            claim_->abort();
            claim_.reset();
        } else if (op == "commit") {
            const std::vector<std::byte> data = golden::payload(operation.at("data"));
            std::copy(data.begin(), data.end(), claim_->data());
            EXPECT_EQ(operation.at("position"), claim_->commit()) << operation;
            claim_.reset();
        } else if (op == "append_many") {
            std::vector<std::vector<std::byte>> all;
            for (const Json& data : operation.at("data")) all.push_back(golden::payload(data));
            const std::vector<flyring::Bytes> views(all.begin(), all.end());
            EXPECT_EQ(operation.at("count"), writer_->append_many(views, type)) << operation;
        } else if (op == "append") {
            const std::vector<std::byte> data = golden::payload(operation.at("data"));
            const auto once = [&] {
                return operation.contains("time")
                           ? writer_->append(data, type, operation.at("time").get<std::int64_t>())
                           : writer_->append(data, type);
            };
            if (operation.contains("error")) {
                EXPECT_EQ(operation.at("error"), code_of([&] { once(); })) << operation;
            } else {
                EXPECT_EQ(operation.at("position"), once()) << operation;
            }
        } else {
            FAIL() << op;
        }
    }

    void consume(const Json& operation, const std::string& op) {
        if (op == "consumer") {
            const std::string name = operation.at("name");
            const bool oldest = operation.at("start") == "oldest";
            auto made = journal_->consumer(name, oldest ? JournalStart::oldest() : JournalStart::newest());
            EXPECT_EQ(operation.at("slot"), made.slot()) << operation;
            EXPECT_EQ(operation.at("position"), made.position()) << operation;
            EXPECT_EQ(operation.at("number"), made.number()) << operation;
            EXPECT_EQ(operation.at("lost"), made.lost()) << operation;
            consumers_.insert_or_assign(name, std::move(made));
            return;
        }
        const std::string name = operation.at("consumer");
        JournalConsumer& consumer = consumers_.at(name);
        if (op == "poll") {
            Json numbers = Json::array();
            for (const Json& message : read(consumer, operation.at("limit"))) numbers.push_back(message.at("number"));
            EXPECT_EQ(numbers, operation.at("numbers")) << operation;
            return;
        }
        op == "forget" ? consumer.forget() : consumer.close();
        consumers_.erase(name);
    }

    void trim(const Json& operation) {
        const std::size_t before = files_of(path()).size();
        const Json& limit = operation.at("position");
        const std::uint64_t freed =
            journal_->trim(limit.is_null() ? flyring::JournalTrim::consumed() : flyring::JournalTrim::position(limit));
        EXPECT_EQ(operation.at("segments"), before - files_of(path()).size()) << operation;
        EXPECT_GE(freed, operation.at("segments").get<std::uint64_t>() * journal_->segment_size()) << operation;
    }

    void expect_recovery(const Json& expected) {
        const auto& found = writer_->recovery();
        if (!found) {
            EXPECT_TRUE(expected.is_null()) << expected;
            return;
        }
        EXPECT_EQ(expected, Json({{"position", found->position},
                                  {"next", found->next},
                                  {"messages", found->messages},
                                  {"reached", found->reached},
                                  {"reason", static_cast<int>(found->reason)}}));
    }

    void end() {
        claim_.reset();
        writer_.reset();
        consumers_.clear();
        journal_.reset();
    }
    void TearDown() override {
        end();
        JournalTest::TearDown();
    }
    std::string path() const { return journal_folder("j"); }

    flyring::detail::JournalInEnvironment in_;
    std::optional<Journal> journal_;
    std::optional<JournalWriter> writer_;
    std::optional<JournalClaim> claim_;
    std::map<std::string, JournalConsumer> consumers_;
};

TEST_F(GoldenJournal, the_same_operations_write_the_same_bytes) {
    int journals = 0;
    for (const std::string& name : names("1.0")) {
        SCOPED_TRACE(name);
        const Json content = json_of("1.0", name);
        in_ = environment(content);
        journal_.emplace(in_.create("j", options(content.at("create"))));
        for (const Json& operation : content.at("operations")) operate(operation);
        expect_files(files_of(path()), files_of(golden_folder("1.0") + name), name);
        expect_messages(*journal_, content.at("expected").at("messages"), name);
        end();
        std::filesystem::remove_all(path());
        ++journals;
    }
    EXPECT_GE(journals, 12);
}

TEST_F(GoldenJournal, a_reader_finds_what_is_in_the_file) {
    for (const std::string& name : names("1.0")) {
        SCOPED_TRACE(name);
        const Json content = json_of("1.0", name);
        const Json& expected = content.at("expected");
        const Json& control = expected.at("control");
        const Json& header = expected.at("header");
        const Files files = files_of(golden_folder("1.0") + name);
        write(path(), files);
        in_ = environment(content);
        std::copy_n(files.at("control").begin() + layout::HEADER_LENGTH, 16, in_.environment.boot_id->begin());
        for (const bool read_only : {true, false}) {
            flyring::OpenJournalOptions opening;
            opening.read_only = read_only;
            const Journal journal = in_.open("j", opening);
            const Json& messages = expected.at("messages");
            expect_messages(journal, messages, name);
            for (std::size_t i = 0; i < messages.size(); i += 3) {  // from each third one, by position and number
                const Json rest(Json::array_t(messages.begin() + static_cast<std::ptrdiff_t>(i), messages.end()));
                auto by_position = journal.reader(JournalStart::position(messages[i].at("position")));
                EXPECT_EQ(read(by_position), rest);
                auto by_number = journal.reader(JournalStart::number(messages[i].at("number")));
                EXPECT_EQ(read(by_number), rest);
            }
            EXPECT_EQ(header.at("segment_size"), journal.segment_size());
            EXPECT_EQ(header.at("consumers"), journal.consumers());
            EXPECT_EQ(header.at("content"), static_cast<int>(journal.content()));
            EXPECT_EQ(header.at("created_at"), journal.created_at());
            EXPECT_EQ(flyring::detail::parse_uuid(header.at("journal_id")), journal.id());
            EXPECT_EQ(header.at("schema_id"), journal.schema_id());
            EXPECT_EQ(content.at("create").value("schema", ""), journal.schema());
            const flyring::JournalStats stats = journal.stats();
            EXPECT_EQ(control.at("messages"), stats.messages);
            EXPECT_EQ(control.at("published"), stats.published);
            EXPECT_EQ(control.at("synced"), stats.synced);
            EXPECT_EQ(control.at("trimmed"), stats.trimmed);
            EXPECT_EQ(control.at("ready"), stats.ready);
            EXPECT_EQ(control.at("sync_every"), stats.sync);
            EXPECT_EQ(expected.at("writer").at("name"), stats.writer);
            EXPECT_EQ(expected.at("writer").at("pid"), stats.pid);
            EXPECT_EQ(expected.at("writer").at("epoch"), stats.epoch);
            ASSERT_EQ(expected.at("consumers").size(), stats.consumers.size());
            for (std::size_t i = 0; i < stats.consumers.size(); ++i) {
                EXPECT_EQ(expected.at("consumers")[i].at("slot"), stats.consumers[i].slot);
                EXPECT_EQ(expected.at("consumers")[i].at("name"), stats.consumers[i].name);
                EXPECT_EQ(expected.at("consumers")[i].at("gate"), stats.consumers[i].position);
                EXPECT_EQ(expected.at("consumers")[i].at("lost"), stats.consumers[i].lost);
            }
        }
        expect_files(files_of(path()), files, "a reader changes nothing");
    }
}

TEST_F(GoldenJournal, the_next_owner_goes_on_after_a_process_that_died_in_each_step) {
    int points = 0;
    for (const std::string& name : names("dead")) {
        const Json content = json_of("dead", name);
        const Files base = changed({}, content.at("base"));
        for (const Json& point : content.at("dead")) {
            const std::string what = name + ", " + point.at("last_store").get<std::string>();
            SCOPED_TRACE(what);
            const Files left = changed(base, point.at("left"));
            write(path(), left);
            in_ = environment(content);
            journal_.emplace(in_.open("j"));
            expect_messages(*journal_, point.at("finds"), what + ", what was left");
            bool first = true;
            Files taken;
            for (const Json& operation : point.at("operations")) {
                operate(operation);
                if (first) {
                    taken = changed(left, point.at("after_take"));
                    expect_files(files_of(path()), taken, what + ", after the take");
                    expect_messages(*journal_, point.at("finds"), what + ", after the take");
                }
                first = false;
            }
            expect_files(files_of(path()), changed(taken, point.at("after")), what);
            end();
            ++points;
            if (HasFatalFailure()) return;
        }
    }
    EXPECT_GT(points, 240);
}

TEST_F(GoldenJournal, bad_headers_give_the_error_of_layout_toml) {
    const Files files = files_of(golden_folder("1.0") + "empty");
    const std::vector<std::byte>& whole = files.at("control");
    write(path(), files);
    const auto attach = [&](const std::vector<std::byte>& content) -> std::string {
        support::write_file(control_file(), content);
        try {
            Journal::open("j");
        } catch (const flyring::VersionTooNew& error) {
            return std::string(error.code()) + " " + error.field();
        } catch (const flyring::CorruptHeader& error) {
            return std::string(error.code()) + " " + error.field();
        } catch (const flyring::FlyringError& error) {
            return std::string(error.code());
        }
        return "none";
    };
    EXPECT_EQ(attach(whole), "none");
    std::map<std::string, std::uint64_t> offsets;
    int rows = 0;
    for (const support::Table& row : support::read_layout()) {
        if (row.name == "journal_header") {
            for (const auto& [key, value] : row.values) offsets[key] = std::stoull(value.substr(value.find('=') + 1));
        } else if (row.name == "journal_bad_field") {
            std::vector<std::byte> content = whole;
            const std::int64_t value = row.number("value");
            std::memcpy(content.data() + offsets.at(row.values.at("field")), &value,
                        static_cast<std::size_t>(row.number("size")));
            flyring::detail::put(content.data() + layout::JOURNAL_HEADER_CRC,
                                 flyring::detail::crc32c(content.data(), layout::HEADER_CRC_LENGTH));
            const std::string& names = row.values.at("names");
            EXPECT_EQ(attach(content), row.values.at("error") + (names.empty() ? "" : " " + names))
                << row.values.at("field") << " " << value;
            ++rows;
        } else if (row.name == "flip") {
            for (std::int64_t at = row.number("first"); at <= row.number("last"); ++at) {
                std::vector<std::byte> content = whole;
                content[static_cast<std::size_t>(at)] ^= std::byte{0xff};
                const std::string found = attach(content);
                const std::string& error = row.values.at("error");
                if (error == "file_length") {
                    ASSERT_TRUE(found == "truncated" || found == "corrupt-header file_length") << at;
                } else {
                    const std::string field = row.values.count("field") != 0 ? " " + row.values.at("field") : "";
                    ASSERT_EQ(found, error + field) << at;
                }
            }
        }
    }
    EXPECT_GT(rows, 25);
    for (std::size_t size = 0; size < whole.size(); size += 512) {
        const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        ASSERT_EQ(attach(cut), size < 8 ? "not-a-channel" : "truncated") << size;
    }
}

}  // namespace
