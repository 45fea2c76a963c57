// SPDX-License-Identifier: Apache-2.0
// A hostile or broken table may lead to typed errors only in a process that attaches it (spec/table.md 10).
//
// An input names a golden file of a table and lists changes to it and a program: verbs of the public API, with more
// changes in between and inside of handlers. If its first byte is 255, the input is a whole file of arbitrary bytes. A
// fixed program that does each verb once ends each run.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <flyring/table.hpp>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../stress/private_folder.hpp"
#include "check.hpp"
#include "guarded_map.hpp"
#include "input.hpp"

namespace {

using namespace flyring;
using fuzz::attempt;
using fuzz::found;
using fuzz::Input;

constexpr std::size_t largest = std::size_t{1} << 20;
constexpr std::chrono::milliseconds soon(2);  // a writer of this program may have the slot

[[noreturn]] void stop(const char* what) {
    std::perror(what);
    std::abort();
}

/// The table's file in the hands of a hostile process, which may write anything at any time. One file in shared memory
/// serves all inputs, until a table that has grown takes its name.
class TableInFile {
  public:
    TableInFile() : folder_(private_folder::make("flyring-fuzz")), path_(folder_ + "/t.table") {
        if (folder_.empty()) stop("mkdtemp");
        make();
        std::vector<std::filesystem::path> paths;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(FLYRING_SPEC_DIR "/golden/table")) {
            if (entry.path().extension() == ".table") paths.push_back(entry.path());
        }
        std::sort(paths.begin(), paths.end());
        for (const auto& path : paths) {
            std::ifstream stream(path, std::ios::binary);
            goldens_.emplace_back((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
        }
        if (goldens_.empty()) stop("no golden files in " FLYRING_SPEC_DIR "/golden/table");
    }
    TableInFile(const TableInFile&) = delete;
    TableInFile& operator=(const TableInFile&) = delete;
    ~TableInFile() { std::filesystem::remove_all(folder_); }

    const std::string& path() const noexcept { return path_; }
    std::string other_path() const { return folder_ + "/copy.table"; }
    const detail::TableHeader& shape() const noexcept { return shape_; }
    std::byte* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

    void load(const std::uint8_t* bytes, std::size_t size) {
        struct stat named{};
        struct stat own{};
        if (::stat(path_.c_str(), &named) != 0 || ::fstat(fd_, &own) != 0 || named.st_ino != own.st_ino) {
            ::syscall(SYS_munmap, data_, largest);
            ::close(fd_);
            std::filesystem::remove(path_);
            make();
        }
        resize(size);
        if (size_ != 0) std::memcpy(data_, bytes, size_);
        note_shape();
    }
    void load_golden(std::size_t index) {
        const std::string& golden = goldens_[index % goldens_.size()];
        load(reinterpret_cast<const std::uint8_t*>(golden.data()), golden.size());
    }
    void resize(std::size_t size) {
        size_ = std::min(size, largest);
        if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0) stop("ftruncate");
    }
    void note_shape() {
        shape_ = {};
        try {
            shape_ = detail::TableHeaderReader(data_, std::min<std::size_t>(size_, 4096), size_, path_).read();
        } catch (const FlyringError&) {
            // Not a table: pokes then go anywhere.
        }
    }
    void mend_crc() {
        if (size_ < layout::HEADER_LENGTH) return;
        detail::put(data_ + layout::TABLE_HEADER_CRC, detail::crc32c(data_, layout::HEADER_CRC_LENGTH));
    }

    /// Writes one word that the input chooses, mostly a word that the library reads.
    void poke(Input& input) {
        if (size_ < 16) return;
        Place place = this->place(input);
        place.offset = std::min<std::uint64_t>(place.offset, size_ - 8);
        std::int64_t now = 0;
        std::memcpy(&now, data_ + place.offset, place.size);
        const std::int64_t written = value(input, now);
        std::memcpy(data_ + place.offset, &written, place.size);
        if (place.body != 0 && input.below(2) == 1) mend_body(place.body);
    }

    std::uint64_t cell(std::uint64_t number) const noexcept {
        return shape_.cells_offset() + number * shape_.cell_stride();
    }
    std::uint64_t some_cell(Input& input) const noexcept {
        return input.below(static_cast<std::uint32_t>(std::min<std::uint64_t>(shape_.cells(), 12)));
    }

  private:
    struct Place {
        std::uint64_t offset;
        std::size_t size;
        std::uint64_t body = 0;  // whose word this is
    };

    void make() {
        fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd_ < 0) stop("open");
        // A bare system call, because mmap is wrapped for the library (guarded_map.cpp).
        const long address = ::syscall(SYS_mmap, nullptr, largest, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
        if (address == -1) stop("mmap");
        data_ = reinterpret_cast<std::byte*>(address);
    }

    /// Makes the crc of a body right, so that a recovery takes it for a whole one.
    void mend_body(std::uint64_t body) noexcept {
        std::byte* const at = data_ + body;
        const std::uint64_t number = (body - shape_.cells_offset()) / shape_.cell_stride();
        const std::byte* const from = data_ + cell(number);
        const auto clamped = [](std::int32_t length, std::uint32_t most) {
            return std::min(std::max(length, 0), static_cast<std::int32_t>(most));
        };
        const auto key_length = detail::get<std::int32_t>(from + layout::TABLE_CELL_KEY_LENGTH);
        const auto length = detail::get<std::int32_t>(at + layout::TABLE_BODY_LENGTH);
        detail::put(at + layout::TABLE_BODY_CRC,
                    detail::body_crc(from + layout::TABLE_CELL_KEY, clamped(key_length, shape_.key_bytes),
                                     detail::get<std::int64_t>(at + layout::TABLE_BODY_SEQ),
                                     at + layout::TABLE_BODY_VALUE, clamped(length, shape_.value_bytes)));
    }

    Place place(Input& input) const {
        if (shape_.capacity == 0) return {input.below(static_cast<std::uint32_t>(size_)), 8};
        switch (input.below(8)) {
            case 0:
                return {input.below(22) * 8, 8};  // one header field, or two
            case 1:
            case 2: {
                constexpr Place words[] = {{layout::TABLE_CONTROL_SUCCESSOR, 4},
                                           {layout::TABLE_CONTROL_STAMP, 8},
                                           {layout::TABLE_CONTROL_CHANGED, 8},
                                           {layout::TABLE_CONTROL_SIZE, 8},
                                           {layout::TABLE_CONTROL_GENERATION, 8},
                                           {layout::TABLE_CONTROL_INTENT, 8},
                                           {layout::TABLE_CONTROL_INTENT_SIZE, 8},
                                           {layout::TABLE_CONTROL_TOP, 4},
                                           {layout::TABLE_CONTROL_FRESH, 4},
                                           {layout::TABLE_CONTROL_REBUILD, 8},
                                           {layout::TABLE_CONTROL_FILLED, 8},
                                           {layout::TABLE_CONTROL_FILLED_OTHER, 8},
                                           {layout::TABLE_CONTROL_CLEAN, 4},
                                           {layout::TABLE_CONTROL_SLOT + layout::SUBSCRIBER_SLOT_EPOCH, 8},
                                           {layout::TABLE_CONTROL_SLOT + layout::SUBSCRIBER_SLOT_NAME_LENGTH, 4},
                                           {layout::TABLE_CONTROL_SLOT + layout::SUBSCRIBER_SLOT_WAKES, 8}};
                const Place word = words[input.below(std::size(words))];
                return {shape_.control_offset() + word.offset, word.size};
            }
            case 3: {
                const std::uint64_t copy = input.below(2) * shape_.index_stride();
                const auto entries = static_cast<std::uint32_t>(shape_.entries());
                return {shape_.index_offset() + copy + std::uint64_t{8} * input.below(std::min(entries, 256U)), 8};
            }
            case 4: {
                constexpr Place words[] = {{layout::TABLE_CELL_VERSION, 8},
                                           {layout::TABLE_CELL_NEXT, 4},
                                           {layout::TABLE_CELL_KEY_LENGTH, 4},
                                           {layout::TABLE_CELL_KEY, 8}};
                const Place word = words[input.below(4)];
                return {cell(some_cell(input)) + word.offset, word.size};
            }
            case 5:
            case 6: {
                constexpr Place words[] = {{layout::TABLE_BODY_SEQ, 8},
                                           {layout::TABLE_BODY_LENGTH, 4},
                                           {layout::TABLE_BODY_LENGTH, 4},
                                           {layout::TABLE_BODY_CRC, 4}};
                const Place word = words[input.below(4)];
                const std::uint64_t body =
                    cell(some_cell(input)) + shape_.body_offset() + input.below(2) * shape_.body_length();
                return {body + word.offset, word.size, body};
            }
            default:
                return {input.below(static_cast<std::uint32_t>(size_)), 8};
        }
    }

    std::int64_t value(Input& input, std::int64_t now) const {
        const auto cells = static_cast<std::int64_t>(shape_.capacity == 0 ? 1 : shape_.cells());
        const auto entries = static_cast<std::int64_t>(shape_.entries());
        const std::int64_t known[] = {-1,
                                      0,
                                      1,
                                      2,
                                      3,
                                      cells,
                                      cells + 1,
                                      cells - 1,
                                      entries,
                                      entries + 1,
                                      2 * entries,
                                      2 * entries + 1,
                                      2 * entries + 2,
                                      std::int64_t{shape_.value_bytes},
                                      std::int64_t{shape_.value_bytes} + 1,
                                      std::int64_t{shape_.key_bytes} + 1,
                                      INT32_MAX,
                                      INT32_MIN,
                                      INT64_MAX,
                                      INT64_MIN,
                                      std::int64_t{UINT32_MAX},
                                      std::int64_t{1} << 62,
                                      (std::int64_t{1} << 62) - 2,
                                      -2};
        switch (input.below(6)) {
            case 0:
                return input.next<std::int64_t>();
            case 1:
                return input.next<std::int8_t>();
            case 2:  // a version, seq or entry near the one that is there
                return static_cast<std::int64_t>(static_cast<std::uint64_t>(now) +
                                                 static_cast<std::uint64_t>(std::int64_t{input.next<std::int8_t>()}));
            case 3: {  // an entry: of the fingerprint that is there, or of a key, and of some cell
                auto fingerprint = static_cast<std::uint64_t>(now) >> 32;
                if (shape_.capacity != 0 && input.below(2) == 1) {
                    const std::uint64_t at = cell(some_cell(input));
                    const auto length = detail::get<std::uint32_t>(data_ + at + layout::TABLE_CELL_KEY_LENGTH);
                    fingerprint = detail::HashedKey(data_ + at + layout::TABLE_CELL_KEY,
                                                    std::min<std::size_t>(length, shape_.key_bytes))
                                      .fingerprint;
                }
                return static_cast<std::int64_t>(fingerprint << 32 | (some_cell(input) + 1));
            }
            default:
                return known[input.below(static_cast<std::uint32_t>(std::size(known)))];
        }
    }

    std::string folder_;
    std::string path_;
    int fd_ = -1;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::vector<std::string> goldens_;
    detail::TableHeader shape_;
};

class Program {
  public:
    Program(TableInFile& file, Input input, bool read_only) : file_(file), input_(input), read_only_(read_only) {}

    void run() {
        boot_ = boot_of_file();
        if (input_.below(4) == 3) boot_[0] ^= std::byte{1};
        open(0);
        if (!tables_[0]) return;
        file_.note_shape();
        fuzz::read_all(reinterpret_cast<const std::byte*>(tables_[0]->schema().data()), tables_[0]->schema().size());
        steps();
        // One of everything, in the numbers of step(). The second byte is the table; the rest chooses.
        static constexpr std::uint8_t everything[] = {
            1, 0, 0,  1, 2,  0, 0,  1, 3, 0,  0, 1,  5,  4, 0, 0, 2,  5,  0, 0,  1,  2, 3, 6, 0, 0, 1,  0,
            7, 0, 0,  8, 0,  0, 1,  9, 0, 0,  2, 10, 0,  3, 0, 4, 10, 0,  0, 5,  10, 0, 1, 6, 9, 0, 11, 0,
            0, 1, 0,  0, 12, 0, 14, 0, 1, 14, 0, 3,  1,  0, 9, 3, 1,  1,  1, 17, 0,  0, 1, 0, 1, 3, 0,  0,
            4, 5, 13, 0, 16, 0, 16, 0, 3, 0,  0, 1,  15, 0, 9, 1, 0,  15, 0, 0,  3,  1, 0, 7, 1, 0, 0,  1};
        input_ = Input(everything, sizeof everything);
        steps();
        if (!tables_[0]) open(0);
        if (!tables_[0]) return end();
        for (auto& writer : writers_) writer.reset();
        // Each key of the file, and what a next writer of another boot makes of it all.
        for (std::uint64_t cell = 0; cell < std::min<std::uint64_t>(file_.shape().cells(), 12); ++cell) {
            attempt([&] { tables_[0]->get(key_at(cell)); });
            attempt([&] { tables_[0]->put(key_at(cell), Bytes(value_, std::min<std::size_t>(7, most()))); });
            attempt([&] { tables_[0]->remove(key_at(cell)); });
        }
        end();
        boot_[1] ^= std::byte{1};
        open(0);
        if (!tables_[0]) return;
        attempt([&] { tables_[0]->put(key_at(0), Bytes(value_, 0)); });
        attempt([&] { visit(*tables_[0]); });
        attempt([&] { tables_[0]->grow(tables_[0]->capacity() + 1); });
        attempt([&] { visit(*tables_[0]); });
        end();
    }

  private:
    void steps() {
        for (int done = 0; done < 64 && !input_.empty(); ++done) attempt([&] { step(); });
    }
    void end() {
        for (auto& entry : entries_) entry.reset();
        for (auto& writer : writers_) writer.reset();
        for (auto& table : tables_) table.reset();
    }

    void step() {
        const std::uint32_t verb = input_.below(18);
        if (verb == 0) return file_.poke(input_);
        const std::uint32_t number = input_.below(2);
        if (!tables_[number]) open(number);
        if (!tables_[number]) return;
        Table& table = *tables_[number];
        std::optional<TableWriter>& writer = writers_[number];
        switch (verb) {
            case 1: {
                const auto value = table.get_versioned(key());
                if (value && (value->value.size() > most() || value->version <= 0)) found("a value too long");
                return;
            }
            case 2:
                table.read(key(), [&](Bytes value) { look(value); });
                return;
            case 3:
                table.put(key(), value(), soon);
                return;
            case 4:
                table.remove(key(), soon);
                return;
            case 5: {
                const Key key = this->key();
                table.compare_and_put(key, input_.below(2) == 0 ? 0 : input_.next<std::int8_t>(), value(), soon);
                return;
            }
            case 6:
                table.update(
                    key(),
                    [&](std::string& value) {
                        if (input_.below(2) == 1) file_.poke(input_);
                        value.resize(std::min<std::size_t>(input_.below(200), most()));
                    },
                    soon);
                return;
            case 7:
                return visit(table);
            case 8: {
                auto& entry = entries_[number];
                if (!entry) entry = table.entry(key());
                if (!entry) return;
                entry->read([&](Bytes value) { look(value); });
                if (writer) writer->put(*entry, value());
                return;
            }
            case 9:
                if (writer) return writer.reset();
                writer.emplace(table.writer(input_.below(2) == 1 ? "name" : ""));
                return;
            case 10:
                if (!writer) return;
                switch (input_.below(5)) {
                    case 0:
                        writer->remove(key());
                        return;
                    case 1:
                        writer->snapshot(file_.other_path());
                        return;
                    case 2:
                        writer->clear();
                        return;
                    default:
                        writer->put(key(), value());
                        return;
                }
            case 11: {
                const Key key = this->key();
                table.wait_changed(key, input_.below(2) == 0 ? 0 : input_.next<std::int8_t>(), timeout());
                return;
            }
            case 12:
                table.wait_changed(input_.below(2) == 0 ? table.version() : 7, timeout());
                return;
            case 13: {
                const TableStats stats = table.stats();
                if (stats.writer.size() > 64) found("a name too long");
                table.size();
                return;
            }
            case 14:
                input_.below(4) == 3 ? static_cast<void>(table.clear(soon))
                                     : static_cast<void>(table.snapshot(file_.other_path()));
                return;
            case 15:
                return table.grow(table.capacity() + 1 + input_.below(table.capacity() < 2000 ? 64 : 1), soon);
            case 16: {
                entries_[number].reset();
                table.close(input_.below(2) == 1);
                writer.reset();
                tables_[number].reset();
                return;
            }
            default:
                return table.sync();
        }
    }

    Uuid boot_of_file() const {
        Uuid boot{};
        const std::uint64_t at = file_.shape().control_offset() + layout::TABLE_CONTROL_BOOT_ID;
        if (at + boot.size() <= file_.size()) std::memcpy(boot.data(), file_.data() + at, boot.size());
        return boot;
    }
    void open(std::uint32_t number) {
        OpenTableOptions options;
        options.read_only = read_only_ && number == 0;
        options.wake = number == 0;
        detail::TableInEnvironment in;
        in.environment.boot_id = boot_;
        attempt([&] { tables_[number].emplace(in.open(file_.path(), options)); });
    }
    std::chrono::nanoseconds timeout() { return std::chrono::milliseconds(input_.below(2) * 2); }

    /// A value in place: it must lie in the table's mapping.
    void look(Bytes value) {
        const fuzz::Mapped mapped = fuzz::mapping_of(value.data());
        if (mapped.length == 0 || value.size() > most() || value.data() + value.size() > mapped.data + mapped.length) {
            found("a value outside of its table");
        }
        fuzz::read_all(value.data(), value.size());
        if (input_.below(4) == 3) file_.poke(input_);
    }
    void visit(const Table& table) {
        std::uint64_t met = 0;
        table.for_each([&](const TableItem& item) {
            if (++met > table.capacity()) found("more keys than fit");
            if (item.key.size() > table.key_bytes() || item.value.size() > most()) found("an item too long");
            if (input_.below(8) == 7) file_.poke(input_);
        });
    }

    std::size_t most() const { return tables_[0] ? tables_[0]->value_bytes() : file_.shape().value_bytes; }
    Bytes value() { return {value_, std::min<std::size_t>(input_.below(256), most())}; }
    /// A key that is in the file, or a new one.
    Key key() {
        const std::uint32_t which = input_.below(16);
        if (which < 12 && file_.shape().capacity != 0) {
            return key_at(which % std::min<std::uint64_t>(file_.shape().cells(), 12));
        }
        if (file_.shape().key_type == KeyType::integer) return Key(std::int64_t{input_.next<std::int16_t>()});
        key_ = "k" + std::to_string(input_.below(40));
        key_.resize(std::min<std::size_t>(key_.size(), file_.shape().key_bytes));
        return Key(key_);
    }
    Key key_at(std::uint64_t cell) {
        const detail::TableHeader& shape = file_.shape();
        if (shape.capacity == 0) return Key("none");
        const std::byte* const at = file_.data() + file_.cell(cell);
        if (shape.key_type == KeyType::integer) return Key(detail::get<std::int64_t>(at + layout::TABLE_CELL_KEY));
        const auto length = detail::get<std::uint32_t>(at + layout::TABLE_CELL_KEY_LENGTH);
        key_.assign(reinterpret_cast<const char*>(at + layout::TABLE_CELL_KEY),
                    std::min<std::size_t>(length, shape.key_bytes));
        return Key(key_);
    }

    TableInFile& file_;
    Input input_;
    bool read_only_;
    Uuid boot_{};
    std::byte value_[256]{std::byte{1}, std::byte{2}, std::byte{3}};
    std::string key_;
    std::array<std::optional<Table>, 2> tables_;
    std::array<std::optional<TableWriter>, 2> writers_;
    std::array<std::optional<Entry>, 2> entries_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static TableInFile file;
    Input input(data, size);
    const auto kind = input.next<std::uint8_t>();
    const auto how = input.next<std::uint8_t>();
    if (kind == 255) {
        file.load(input.rest(), input.left());
        if ((how & 1) != 0) file.mend_crc();
        file.note_shape();
        Program(file, Input(nullptr, 0), (how & 2) != 0).run();
        return 0;
    }
    file.load_golden(kind);
    for (std::uint32_t changes = how & 15; changes > 0; --changes) file.poke(input);
    if ((how & 16) != 0) file.resize(file.size() + input.next<std::uint16_t>() - 32768U);
    if ((how & 32) == 0) file.mend_crc();
    file.note_shape();
    Program(file, input, (how & 192) == 64).run();
    return 0;
}
