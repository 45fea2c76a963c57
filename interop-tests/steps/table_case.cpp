// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "table_plan.hpp"
#include "table_scenario.hpp"

namespace steps {

namespace layout = flyring::layout;
using flyring::Key;
using flyring::Table;

namespace {

constexpr std::int32_t heir_pid = 1003;

void require(bool good, const std::string& what) {
    if (!good) throw Wrong(what);
}

std::int64_t key_of(const flyring::TableItem& item) {
    return item.integer();
}

/// What a reader finds: by iteration, and each key by a search.
Contents read_all(const Table& table) {
    Contents found;
    table.for_each([&](const flyring::TableItem& item) {
        const bool first = found.emplace(key_of(item), std::make_pair(std::string(item.value), item.version)).second;
        require(first, "the iteration meets key " + std::to_string(key_of(item)) + " twice");
    });
    for (std::int64_t key = -1; key < 1600; ++key) {
        const auto one = table.get_versioned(Key(key));
        const auto same = found.find(key);
        require(one.has_value() == (same != found.end()),
                "a search and the iteration differ about key " + std::to_string(key));
        if (one)
            require(one->value == same->second.first && one->version == same->second.second,
                    "a search finds another value of key " + std::to_string(key) + " than the iteration");
    }
    return found;
}

/// The words of a table between two changes, by table.md 2 to 5 alone.
void check_words(const Bytes& file) {
    const auto at = [&](std::uint64_t offset, auto kind) {
        decltype(kind) value;
        std::copy_n(&file.at(offset), sizeof value, reinterpret_cast<std::byte*>(&value));
        return value;
    };
    const auto word = [&](std::uint64_t offset) { return at(4096 + offset, std::int64_t{}); };
    const auto cells = at(layout::TABLE_HEADER_CELLS, std::uint64_t{});
    const auto stride = at(layout::TABLE_HEADER_CELL_STRIDE, std::uint64_t{});
    const auto first = at(layout::TABLE_HEADER_CELLS_OFFSET, std::uint64_t{});
    const auto entries = at(layout::TABLE_HEADER_ENTRIES, std::uint64_t{});
    const std::uint64_t index = at(layout::TABLE_HEADER_INDEX_OFFSET, std::uint64_t{}) +
                                (static_cast<std::uint64_t>(word(layout::TABLE_CONTROL_GENERATION)) & 1) *
                                    at(layout::TABLE_HEADER_INDEX_STRIDE, std::uint64_t{});
    const auto fresh = at(4096 + layout::TABLE_CONTROL_FRESH, std::uint32_t{});
    std::set<std::uint64_t> live;
    for (std::uint64_t c = 0; c < cells; ++c) {
        const std::uint64_t cell = first + c * stride;
        const auto version = at(cell, std::int64_t{});
        if (version <= 0) continue;
        const std::uint64_t body = cell + 64 + (static_cast<std::uint64_t>(version) & 1) * ((stride - 64) / 2);
        if (at(body + layout::TABLE_BODY_LENGTH, std::int32_t{}) >= 0) live.insert(c);
        require(at(body, std::int64_t{}) == version, "cell " + std::to_string(c) + ": seq is not version");
        if (live.count(c) == 0)
            require(at(cell + 64 + (1 - (static_cast<std::uint64_t>(version) & 1)) * ((stride - 64) / 2),
                       std::int64_t{}) == 0,
                    "cell " + std::to_string(c) + " is free, and its old body has a seq");
    }
    std::multiset<std::uint64_t> led;
    std::int64_t filled = 0;
    for (std::uint64_t i = 0; i < entries; ++i) {
        const auto entry = at(index + 8 * i, std::uint64_t{});
        filled += entry != 0;
        if (entry != 0 && entry != layout::TABLE_TOMBSTONE) led.insert((entry & 0xffffffffU) - 1);
    }
    require(std::multiset<std::uint64_t>(live.begin(), live.end()) == led, "not one entry leads to each live cell");
    std::set<std::uint64_t> free;
    for (std::uint32_t top = at(4096 + layout::TABLE_CONTROL_TOP, std::uint32_t{}); top != 0;) {
        require(top <= fresh && free.insert(top - 1).second && live.count(top - 1) == 0, "the stack of free cells");
        top = at(first + (top - 1) * stride + layout::TABLE_CELL_NEXT, std::uint32_t{});
    }
    require(free.size() + live.size() == fresh, "a cell below fresh is neither live nor on the stack");
    require(word(layout::TABLE_CONTROL_SIZE) == static_cast<std::int64_t>(live.size()), "size is wrong");
    require(word(layout::TABLE_CONTROL_INTENT) == 0, "an intent is left");
    require(word(layout::TABLE_CONTROL_CHANGED) == word(layout::TABLE_CONTROL_STAMP), "changed is not stamp");
    const std::uint64_t own = (static_cast<std::uint64_t>(word(layout::TABLE_CONTROL_GENERATION)) & 1) != 0
                                  ? layout::TABLE_CONTROL_FILLED_OTHER
                                  : layout::TABLE_CONTROL_FILLED;
    require(word(own) >= filled, "filled is too low");
}

std::byte boot_of(const TableScenario& scenario) {
    return scenario.torn ? next_boot : std::byte{0x22};
}

}  // namespace

Bytes make_table_base(const std::string& path, const TableScenario& scenario) {
    ::unlink(path.c_str());
    flyring::TableOptions options;
    options.key = flyring::KeyType::integer;
    options.capacity = table_capacity;
    options.value_bytes = table_value_bytes;
    options.checked = scenario.checked;
    {
        Table table = fixed_table(tracer_pid).create(path, options);
        flyring::TableWriter writer = table.writer("feed");
        for (std::int64_t key = 1; key < 9; ++key) writer.put(Key(key), table_value(key));
        writer.put(Key(std::int64_t{2}), table_value(22, 24));
        writer.remove(Key(std::int64_t{7}));
        writer.remove(Key(std::int64_t{8}));
        writer.close();
        if (scenario.closed) table.close(true);
    }
    Bytes bytes = read_file(path);
    if (scenario.torn) {  // the newest value of key 3
        std::uint64_t first = 0;
        std::uint64_t stride = 0;
        std::copy_n(&bytes.at(layout::TABLE_HEADER_CELLS_OFFSET), 8, reinterpret_cast<std::byte*>(&first));
        std::copy_n(&bytes.at(layout::TABLE_HEADER_CELL_STRIDE), 8, reinterpret_cast<std::byte*>(&stride));
        const std::uint64_t cell = first + 2 * stride;
        const auto body = static_cast<std::uint64_t>(bytes.at(cell)) & 1;
        bytes.at(cell + 64 + body * ((stride - 64) / 2) + layout::TABLE_BODY_VALUE) ^= std::byte{1};
    }
    return bytes;
}

TableCase::TableCase(const Setup& setup, const TableScenario& scenario, const Bytes& base, const std::string& child)
    : setup_(setup), scenario_(scenario), base_(base), child_(child.empty() ? setup.child : child) {
    const auto contents_of = [&](const Bytes& bytes) {
        write_file(setup_.path, bytes);
        return read_all(fixed_table(heir_pid, boot_of(scenario_)).open(setup_.path));
    };
    if (scenario_.grows) {
        before_ = after_ = seen_ = contents_of(base_);
        write_file(setup_.path, base_);
        Tracee whole(command());
        while (whole.step()) ++instructions_;
        if (const int status = whole.finish(); status != 0) {
            throw std::runtime_error("the child ended with status " + std::to_string(status));
        }
        return;
    }
    recorder_.emplace(setup, command(), scenario.python, [this] {
        write_file(setup_.path, base_);
        return std::shared_ptr<void>();
    });
    instructions_ = recording().executed();
    after_ = contents_of(recording().states.back());
    before_ = scenario_.torn ? after_ : contents_of(recording().states.front());
    seen_ = before_;
}

/// Most of it writes and syncs the other file; the name changes at the end.
std::set<std::size_t> TableCase::some_points(std::mt19937_64& random, std::size_t count) const {
    std::set<std::size_t> points{1, instructions_};
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t last = i % 2 == 0 ? instructions_ : instructions_ / 10;
        points.insert(instructions_ - std::uniform_int_distribution<std::size_t>(0, last - 1)(random));
    }
    return points;
}

std::vector<std::string> TableCase::command() const {
    if (scenario_.python) return {setup_.python, "-s", setup_.script, scenario_.operation, setup_.path, "0"};
    return {child_, scenario_.operation, setup_.path, "0"};
}

/// What a reader finds, then what the next owner of the slot finds and does.
void TableCase::check_left() const {
    const auto in = fixed_table(heir_pid, boot_of(scenario_));
    Contents found;
    bool readable = true;
    {
        flyring::OpenTableOptions options;
        options.read_only = true;
        try {
            found = read_all(in.open(setup_.path, options));
        } catch (const flyring::NeedsRecovery&) {
            readable = false;
        } catch (const flyring::Busy&) {
            throw Wrong("a reader is busy, though no process writes");
        }
    }
    require(readable || scenario_.torn, "a reader needs a recovery");
    if (readable) {
        if (scenario_.one_by_one) {
            for (const auto& [key, one] : found) {
                const auto old = before_.find(key);
                const auto now = after_.find(key);
                require((old != before_.end() && one == old->second) || (now != after_.end() && one == now->second),
                        "key " + std::to_string(key) + " has neither its old value nor its new one");
            }
            for (const auto& [key, one] : before_)
                require(found.count(key) != 0 || after_.count(key) == 0, "key " + std::to_string(key) + " is lost");
        } else {
            require(found == before_ || found == after_, "the keys have neither their old state nor their new one");
        }
        for (const auto& [key, one] : seen_)
            require(found.count(key) == 0 || found.at(key).second >= one.second,
                    "key " + std::to_string(key) + " has an older version than a reader had seen before");
    }
    Table table = in.open(setup_.path);
    flyring::TableWriter writer = table.writer("heir");
    const Contents taken = read_all(table);
    require(taken == (readable ? found : after_), "the next owner has changed what readers had seen");
    check_words(read_file(setup_.path));
    std::int64_t newest = 0;
    for (const auto& [key, one] : taken) newest = std::max(newest, one.second);
    for (const std::int64_t key : {std::int64_t{1}, std::int64_t{99}}) {
        const std::int64_t version = writer.put(Key(key), table_value(key, 11));
        require(version > newest, "a version was used again");
        newest = version;
    }
    writer.remove(Key(std::int64_t{4}));
    check_words(read_file(setup_.path));
    std::int64_t key = 200;
    for (; table.size() < table.capacity(); ++key) writer.put(Key(key), table_value(key));
    try {
        writer.put(Key(key), table_value(key));
        throw Wrong("more keys fit than the capacity");
    } catch (const flyring::NoSpace&) {
    }
    check_words(read_file(setup_.path));
    require(writer.clear() == table.capacity() && table.size() == 0 && read_all(table).empty(), "clear left a key");
    writer.put(Key(std::int64_t{1}), table_value(1));
    check_words(read_file(setup_.path));
}

void TableCase::check_copy(std::size_t k) {
    write_file(setup_.path, recording().bytes(k));
    check_left();
    write_file(setup_.path, recording().bytes(k));
    try {
        seen_ = read_all(fixed_table(heir_pid, boot_of(scenario_)).open(setup_.path));
    } catch (const flyring::NeedsRecovery&) {
    }
}

void TableCase::check_kill(std::size_t k) const {
    write_file(setup_.path, base_);
    if (scenario_.grows) {
        Tracee child(command());
        for (std::size_t i = 0; i < k && child.step();) ++i;
        child.kill();
        check_left();
        return;
    }
    recorder_->clear_page();
    Tracee child(recorder_->command());
    recorder_->reach(child, k);
    const Bytes left = read_file(setup_.path);
    if (left != recording().bytes(k))
        throw Wrong("expected the file as after this instruction of the recording, found it changed " +
                    difference(recording().bytes(k), left));
    child.kill();
    check_left();
}

const std::vector<TableScenario>& table_scenarios() {
    static const std::vector<TableScenario> all = [] {
        std::vector<TableScenario> list;
        const auto add = [&](const std::string& name, const std::string& operation = "") -> TableScenario& {
            TableScenario scenario;
            scenario.name = "table-" + name;
            scenario.operation = "table-" + (operation.empty() ? name : operation);
            list.push_back(std::move(scenario));
            return list.back();
        };
        for (const char* name : {"update", "insert", "insert-fresh", "remove", "insert-moving", "remove-moving",
                                 "insert-clearing", "rebuild-flips", "wake", "wake-remove", "single", "take"}) {
            add(name);
        }
        add("update-checked", "update-long").checked = true;
        add("insert-checked", "insert").checked = true;
        add("remove-checked", "remove").checked = true;
        add("clear").one_by_one = true;
        add("take-clean", "take").closed = true;
        add("close").checked = true;
        TableScenario& recovery = add("recovery");
        recovery.checked = recovery.torn = true;
        add("finish-insert", "take").base_of = "table-insert";
        add("finish-remove", "take").base_of = "table-remove";
        add("finish-insert-moving", "take").base_of = "table-insert-moving";
        add("grow").grows = true;
        for (const char* name : {"update", "insert", "remove", "single"}) {
            TableScenario& python = add(name);
            python.name = std::string("python-table-") + name;
            python.python = true;
        }
        return list;
    }();
    return all;
}

const std::vector<Fault>& table_faults() {
    static const std::vector<Fault> all = {
        {"table-version-before-body", "table-update"},
        {"table-intent-late", "table-insert"},
        {"table-old-body-stays", "table-remove"},
    };
    return all;
}

}  // namespace steps
