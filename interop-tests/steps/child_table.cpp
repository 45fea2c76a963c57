// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <cstring>
#include <optional>

#include "child.hpp"
#include "table_plan.hpp"

// Operations of a table's writer (spec/table.md), those of spec/golden/table_files.py.

namespace steps {

namespace {

namespace layout = flyring::layout;
using flyring::Key;
using flyring::Table;
using flyring::TableWriter;

/// The file as any process may map it.
class Raw {
  public:
    explicit Raw(const std::string& path)
        : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)),
          map_(fd_, static_cast<std::uint64_t>(::lseek(fd_.get(), 0, SEEK_END)), flyring::detail::Access::write, path) {
    }
    template <typename T>
    T& word(std::uint64_t at) {
        return *table_word<T>(map_.data(), at);
    }
    template <typename T>
    T& at(std::uint64_t offset) {
        return *reinterpret_cast<T*>(map_.data() + offset);
    }
    std::int64_t entries() { return at<std::int64_t>(layout::TABLE_HEADER_ENTRIES); }
    std::int64_t rebuild() { return word<std::int64_t>(layout::TABLE_CONTROL_REBUILD); }
    /// The cell of a key.
    std::uint64_t cell_of(std::int64_t key) {
        const auto cells = at<std::uint64_t>(layout::TABLE_HEADER_CELLS_OFFSET);
        const auto stride = at<std::uint64_t>(layout::TABLE_HEADER_CELL_STRIDE);
        for (std::uint64_t c = 0; c < at<std::uint64_t>(layout::TABLE_HEADER_CELLS); ++c) {
            const std::uint64_t cell = cells + c * stride;
            if (at<std::int64_t>(cell + layout::TABLE_CELL_KEY) == key && at<std::int64_t>(cell) != 0) return cell;
        }
        throw std::runtime_error("no cell has the key");
    }

  private:
    flyring::detail::Fd fd_;
    flyring::detail::Mapping map_;
};

/// A table whose slot the child holds.
struct Held {
    explicit Held(const std::string& path)
        : table(fixed_table(child_pid).open(path)), writer(table.writer("feed")), raw(path) {}

    void put(std::int64_t key, std::int64_t seed, std::size_t length = 20) {
        const std::string value = table_value(seed, length);
        mark();
        writer.put(Key(key), value);
        mark();
    }
    void remove(std::int64_t key) {
        mark();
        writer.remove(Key(key));
        mark();
    }
    /// Changes keys until a condition holds.
    template <typename Condition>
    void until(Condition&& holds) {
        for (std::int64_t key = 1000; key < 1500; ++key) {
            if (holds()) return;
            writer.put(Key(key), table_value(key));
            if (holds()) return;
            writer.remove(Key(key));
        }
        throw std::runtime_error("this state does not come");
    }
    void moving() {
        until([&] { return raw.entries() + 4 < raw.rebuild() && raw.rebuild() <= 2 * raw.entries(); });
    }
    void clearing() {
        until([&] { return 0 < raw.rebuild() && raw.rebuild() <= raw.entries(); });
    }
    void fall_asleep(std::int64_t key) {
        raw.at<std::uint32_t>(raw.cell_of(key) + layout::TABLE_CELL_ASLEEP) = 1;
        raw.word<std::uint32_t>(layout::TABLE_CONTROL_DATA_ASLEEP) = 1;
    }

    Table table;
    TableWriter writer;
    Raw raw;
};

void take(const std::string& path, const char* name, std::byte boot) {
    Table table = fixed_table(child_pid, boot).open(path);
    mark();
    TableWriter writer = table.writer(name);
    mark();
}

}  // namespace

TableOperations tabling() {
    TableOperations all;
    all["table-update"] = [](const std::string& path) { Held(path).put(1, 1); };
    all["table-update-long"] = [](const std::string& path) { Held(path).put(1, 1, 24); };
    all["table-insert"] = [](const std::string& path) { Held(path).put(99, 99); };
    all["table-insert-fresh"] = [](const std::string& path) {
        Held held(path);
        held.writer.put(Key(std::int64_t{70}), table_value(70));
        held.writer.put(Key(std::int64_t{80}), table_value(80));
        held.put(90, 90);
    };
    all["table-remove"] = [](const std::string& path) { Held(path).remove(3); };
    all["table-insert-moving"] = [](const std::string& path) {
        Held held(path);
        held.moving();
        held.put(99, 99);
    };
    all["table-remove-moving"] = [](const std::string& path) {
        Held held(path);
        held.moving();
        held.remove(3);
    };
    all["table-insert-clearing"] = [](const std::string& path) {
        Held held(path);
        held.clearing();
        held.put(99, 99);
    };
    all["table-rebuild-flips"] = [](const std::string& path) {
        Held held(path);
        held.until([&] {
            return 2 * held.raw.entries() + 1 - held.raw.rebuild() < 12 && held.raw.rebuild() > held.raw.entries();
        });
        held.put(1, 99);
    };
    all["table-wake"] = [](const std::string& path) {
        Held held(path);
        held.fall_asleep(1);
        held.put(1, 99);
    };
    all["table-wake-remove"] = [](const std::string& path) {
        Held held(path);
        held.fall_asleep(1);
        held.remove(1);
    };
    all["table-clear"] = [](const std::string& path) {
        Held held(path);
        mark();
        held.writer.clear();
        mark();
    };
    all["table-single"] = [](const std::string& path) {
        Table table = fixed_table(child_pid).open(path);
        const std::string value = table_value(98);
        mark();
        table.put(Key(std::int64_t{1}), value);
        mark();
    };
    all["table-take"] = [](const std::string& path) { take(path, "another", std::byte{0x22}); };
    all["table-close"] = [](const std::string& path) {
        Table table = fixed_table(child_pid).open(path);
        mark();
        table.close(true);
        mark();
    };
    all["table-recovery"] = [](const std::string& path) { take(path, "mender", next_boot); };
    all["table-grow"] = [](const std::string& path) {
        Held held(path);
        mark();
        held.writer.grow(table_capacity + 4);
        mark();
    };
    return all;
}

}  // namespace steps
