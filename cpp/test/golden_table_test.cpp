// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "golden.hpp"
#include "tables.hpp"

// The golden files of tables (spec/golden/README.md, "Tables").

namespace {

using flyring::Key;
using flyring::Table;
using flyring::TableWriter;
using golden::Json;
using support::code_of;
namespace layout = flyring::layout;

std::string golden_folder(const std::string& folder) {
    return support::spec_folder() + "/golden/table/" + folder + "/";
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

flyring::TableOptions options(const Json& create) {
    flyring::TableOptions made;
    made.key = create.at("key") == "bytes"  ? flyring::KeyType::bytes
               : create.at("key") == "text" ? flyring::KeyType::text
                                            : flyring::KeyType::integer;
    made.capacity = create.at("capacity").get<std::uint64_t>();
    made.value_bytes = create.at("value_bytes").get<std::uint32_t>();
    if (create.contains("key_bytes")) made.key_bytes = create.at("key_bytes").get<std::uint32_t>();
    made.checked = create.value("checked", false);
    made.schema = create.value("schema", "");
    made.schema_id = create.value("schema_id", 0U);
    made.schema_version = create.value("schema_version", 0U);
    made.value_template = create.value("value_template", 0U);
    return made;
}

flyring::detail::TableInEnvironment environment(const Json& content) {
    return {golden::in_environment(content).environment};
}

/// A key of a JSON file, with the bytes to which it refers.
class JsonKey {
  public:
    JsonKey(const Json& key, flyring::KeyType type) : integer_(type == flyring::KeyType::integer) {
        if (integer_) {
            number_ = key.get<std::int64_t>();
        } else if (type == flyring::KeyType::text) {
            text_ = key.get<std::string>();
        } else {
            for (const std::byte byte : golden::from_hex(key)) text_ += static_cast<char>(byte);
        }
    }
    Key key() const { return integer_ ? Key(number_) : Key(text_); }
    std::string bytes() const {
        return integer_ ? std::string(reinterpret_cast<const char*>(&number_), sizeof number_) : text_;
    }

  private:
    bool integer_;
    std::int64_t number_ = 0;
    std::string text_;
};

class GoldenTable : public tables::TableTest {
  protected:
    std::string path() const { return table_file("t"); }

    /// Does one operation, and compares its result.
    void operate(const Json& operation, flyring::detail::TableInEnvironment& in, std::optional<Table>& table,
                 std::optional<TableWriter>& writer) {
        const std::string op = operation.at("op");
        if (op == "foreign_store") return golden::foreign_store(path(), operation);
        if (op == "close_synced") {
            table->close(true);
            table.emplace(in.open("t"));
            return;
        }
        if (op == "reboot") {
            in.environment.boot_id = flyring::detail::parse_uuid(operation.at("boot_id"));
            table->close();
            table.emplace(in.open("t"));
            return;
        }
        if (op == "writer") {
            writer.emplace(table->writer(operation.at("name").get<std::string>()));
            EXPECT_EQ(operation.at("epoch"), writer->epoch()) << operation;
            return;
        }
        if (op == "close_writer") return writer->close();
        if (operation.contains("error")) {
            EXPECT_EQ(operation.at("error"), code_of([&] { change(operation, *table, writer); })) << operation;
            return;
        }
        change(operation, *table, writer);
    }

    void change(const Json& operation, Table& table, std::optional<TableWriter>& writer) {
        const std::string op = operation.at("op");
        const bool held = operation.at("held");
        if (op == "clear") {
            EXPECT_EQ(operation.at("count"), held ? writer->clear() : table.clear()) << operation;
            return;
        }
        const JsonKey key(operation.at("key"), table.key_type());
        if (op == "remove") {
            const bool removed = held ? writer->remove(key.key()) : table.remove(key.key());
            EXPECT_EQ(operation.at("removed"), removed) << operation;
            return;
        }
        const std::vector<std::byte> value = golden::payload(operation.at("value"));
        std::int64_t version = 0;
        if (op == "put") {
            version =
                held ? writer->put(key.key(), flyring::Bytes(value)) : table.put(key.key(), flyring::Bytes(value));
        } else if (op == "compare_and_put") {
            const auto expected = operation.at("expected").get<std::int64_t>();
            version = held ? writer->compare_and_put(key.key(), expected, flyring::Bytes(value))
                           : table.compare_and_put(key.key(), expected, flyring::Bytes(value));
        } else {
            FAIL() << op;
        }
        EXPECT_EQ(operation.value("version", std::int64_t{-1}), version) << operation;
    }

    static void expect_keys(const Table& table, const Json& keys) {
        std::map<std::string, std::pair<std::string, std::int64_t>> expected;
        std::map<std::string, std::pair<std::string, std::int64_t>> found;
        for (const Json& one : keys) {
            const JsonKey key(one.at("key"), table.key_type());
            const std::vector<std::byte> value = golden::from_hex(one.at("value"));
            const std::string text(reinterpret_cast<const char*>(value.data()), value.size());
            expected[key.bytes()] = {text, one.at("version").get<std::int64_t>()};
            const auto got = table.get_versioned(key.key());
            ASSERT_TRUE(got.has_value()) << one;
            EXPECT_EQ(got->value, text) << one;
            EXPECT_EQ(got->version, one.at("version").get<std::int64_t>());
        }
        table.for_each([&](const flyring::TableItem& item) { found[item.key] = {item.value, item.version}; });
        EXPECT_EQ(found, expected);
    }

    static void expect_bytes(const std::vector<std::byte>& found, const std::vector<std::byte>& expected,
                             const std::string& what) {
        ASSERT_EQ(found.size(), expected.size()) << what;
        for (std::size_t at = 0; at < found.size(); ++at) {
            ASSERT_EQ(static_cast<int>(found[at]), static_cast<int>(expected[at])) << what << ", byte " << at;
        }
    }
};

TEST_F(GoldenTable, the_same_operations_write_the_same_bytes) {
    int files = 0;
    for (const std::string& name : names("1.0")) {
        SCOPED_TRACE(name);
        const Json content = json_of("1.0", name);
        auto in = environment(content);
        std::optional<Table> table(in.create("t", options(content.at("create"))));
        std::optional<TableWriter> writer;
        for (const Json& operation : content.at("operations")) operate(operation, in, table, writer);
        expect_bytes(support::read_file(path()), support::read_file(golden_folder("1.0") + name + ".table"), name);
        expect_keys(*table, content.at("expected").at("keys"));
        writer.reset();
        table.reset();
        Table::unlink("t");
        ++files;
    }
    EXPECT_GE(files, 16);
}

TEST_F(GoldenTable, a_reader_finds_what_is_in_the_file) {
    for (const std::string& name : names("1.0")) {
        SCOPED_TRACE(name);
        const Json content = json_of("1.0", name);
        const Json& expected = content.at("expected");
        support::write_file(path(), support::read_file(golden_folder("1.0") + name + ".table"));
        auto in = environment(content);
        in.environment.boot_id.emplace();
        const auto boot = support::peek<flyring::Uuid>(path(), tables::control(layout::TABLE_CONTROL_BOOT_ID));
        in.environment.boot_id = boot;
        for (const bool read_only : {true, false}) {
            flyring::OpenTableOptions opening;
            opening.read_only = read_only;
            const Table table = in.open("t", opening);
            expect_keys(table, expected.at("keys"));
            EXPECT_EQ(expected.at("control").at("size"), table.size());
            EXPECT_EQ(expected.at("control").at("changed"), table.version());
            const flyring::TableStats stats = table.stats();
            EXPECT_EQ(expected.at("control").at("rebuild"), stats.rebuild);
            EXPECT_EQ(expected.at("control").at("damaged"), stats.damaged);
            EXPECT_EQ(expected.at("writer").at("name"), stats.writer);
            EXPECT_EQ(expected.at("writer").at("pid"), stats.pid);
            EXPECT_EQ(expected.at("header").at("key_bytes"), table.key_bytes());
            EXPECT_EQ(expected.at("header").at("value_bytes"), table.value_bytes());
            EXPECT_EQ(expected.at("header").at("capacity"), table.capacity());
            EXPECT_EQ(expected.at("header").at("checked"), table.checked() ? 1 : 0);
            EXPECT_EQ(expected.at("header").at("schema_id"), table.schema_id());
            EXPECT_EQ(expected.at("header").at("value_template"), table.value_template());
            EXPECT_EQ(content.at("create").value("schema", ""), table.schema());
        }
    }
}

TEST_F(GoldenTable, the_next_owner_goes_on_after_a_writer_that_died_in_each_step) {
    int points = 0;
    for (const std::string& name : names("dead")) {
        const Json content = json_of("dead", name);
        std::vector<std::byte> base(content.at("file_length").get<std::size_t>());
        base = golden::with_runs(base, content.at("base"));
        for (const Json& point : content.at("dead")) {
            const std::string what = name + ", " + point.at("last_store").get<std::string>();
            SCOPED_TRACE(what);
            const std::vector<std::byte> left = golden::with_runs(base, point.at("left"));
            support::write_file(path(), left);
            auto in = environment(content);
            std::optional<Table> table(in.open("t"));
            if (point.contains("finds")) {
                expect_keys(*table, point.at("finds"));
            } else {
                EXPECT_EQ(code_of([&] { table->get(1); }), "needs-recovery");
            }
            std::optional<TableWriter> writer;
            std::vector<std::byte> expected = left;
            for (const Json& operation : point.at("operations")) {
                operate(operation, in, table, writer);
                if (operation.at("op") != "writer") continue;
                expected = golden::with_runs(expected, point.at("after_take"));
                expect_bytes(support::read_file(path()), expected, what + ", after the take");
                expect_keys(*table, point.at("keys"));
            }
            expect_bytes(support::read_file(path()), golden::with_runs(expected, point.at("after")), what);
            ++points;
            if (HasFatalFailure()) return;
        }
    }
    EXPECT_GT(points, 200);
}

TEST_F(GoldenTable, bad_headers_give_the_error_of_layout_toml) {
    const std::vector<std::byte> whole = support::read_file(golden_folder("1.0") + "empty-text.table");
    const auto attach = [&](const std::vector<std::byte>& content) -> std::string {
        support::write_file(path(), content);
        try {
            Table::open("t");
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
        if (row.name == "table_header") {
            for (const auto& [key, value] : row.values) offsets[key] = std::stoull(value.substr(value.find('=') + 1));
        } else if (row.name == "table_bad_field") {
            std::vector<std::byte> content = whole;
            const std::int64_t value = row.number("value");
            std::memcpy(content.data() + offsets.at(row.values.at("field")), &value,
                        static_cast<std::size_t>(row.number("size")));
            flyring::detail::put(content.data() + layout::TABLE_HEADER_CRC,
                                 flyring::detail::crc32c(content.data(), layout::HEADER_CRC_LENGTH));
            EXPECT_EQ(attach(content), row.values.at("error") + " " + row.values.at("names"))
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
    EXPECT_GT(rows, 30);
    for (std::size_t size = 0; size < whole.size(); size += 512) {
        const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        ASSERT_EQ(attach(cut), size < 8 ? "not-a-channel" : "truncated") << size;
    }
    std::vector<std::byte> longer = whole;
    longer.resize(whole.size() + 1);
    EXPECT_EQ(attach(longer), "corrupt-header file_length");
}

}  // namespace
