// SPDX-License-Identifier: Apache-2.0
// A hostile or broken journal may lead to typed errors only in a process that attaches it (spec/journal.md 10).
//
// An input names a journal of this program and lists changes to its files: words of the control section, records, some
// right by their own crc, and segments that are cut or missing. A fixed program that does each verb then runs in the
// journal's boot and in another one.

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <flyring/journal.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../stress/private_folder.hpp"
#include "check.hpp"
#include "guarded_map.hpp"
#include "input.hpp"

namespace {

using namespace flyring;
using fuzz::found;
using fuzz::Input;

constexpr std::int64_t segment = 65536;
constexpr std::size_t header = layout::HEADER_LENGTH;
constexpr int most_polls = 3000;  // of a reader: each journal here has fewer messages
using Files = std::map<std::string, std::string>;

/// Calls action(), which may throw a FlyringError that these files can have led to.
template <typename Action>
void attempt(Action&& action) {
    try {
        action();
    } catch (const FlyringError& error) {
        if (error.code() == "two-threads" || error.code() == "exists" || error.code() == "closed") {
            std::fprintf(stderr, "%s\n", error.what());
            found("an error that these files cannot have led to");
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        found("an exception that is not a FlyringError");
    }
}

detail::JournalInEnvironment boot(std::uint8_t number) {
    detail::JournalInEnvironment made;
    made.environment.boot_id = Uuid{};
    made.environment.boot_id->fill(static_cast<std::byte>(number));
    return made;
}

/// The journals that inputs change, and the folder in which they are laid out.
class Journals {
  public:
    Journals() : folder_(private_folder::make("flyring-fuzz")), path_(folder_ + "/j.journal") {
        if (folder_.empty()) std::abort();
        make();
    }
    Journals(const Journals&) = delete;
    Journals& operator=(const Journals&) = delete;
    ~Journals() { std::filesystem::remove_all(folder_); }

    const std::string& path() const noexcept { return path_; }
    std::size_t size() const noexcept { return seeds_.size(); }
    const Files& seed(std::size_t number) const noexcept { return seeds_[number % seeds_.size()]; }

    void lay_out(const Files& files) const {
        std::filesystem::remove_all(path_);
        std::filesystem::create_directory(path_);
        for (const auto& [name, bytes] : files) {
            std::ofstream stream(path_ + "/" + name, std::ios::binary);
            stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        }
    }

  private:
    void keep() {
        Files files;
        for (const auto& entry : std::filesystem::directory_iterator(path_)) {
            std::ifstream stream(entry.path(), std::ios::binary);
            files[entry.path().filename().string()] =
                std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
        }
        seeds_.push_back(std::move(files));
    }
    /// A small one, one that was cut off in an append, one of several segments, one that was recovered and trimmed.
    void make() {
        JournalOptions options;
        options.segment_size = segment;
        options.consumers = 3;
        {
            Journal journal = boot(1).create(path_, options);
            JournalWriter writer = journal.writer("w", false);
            JournalConsumer one = journal.consumer("one");
            (void)journal.consumer("two");
            for (int i = 0; i < 30; ++i) {
                writer.append(std::string(static_cast<std::size_t>(i) * 7, 'a'));
                if (i % 8 == 0) writer.sync();
                (void)one.take();
            }
            keep();
            JournalClaim claim = writer.claim(1000);
            std::memset(claim.data(), 0x41, 4);
            keep();
            claim.abort();
            for (int i = 0; i < 900; ++i) {
                writer.append(as_bytes(std::string(150, static_cast<char>(i))), 1 + i % 3, 1000 + i);
            }
            writer.close(false);
            keep();
        }
        Journal journal = boot(2).open(path_);
        JournalWriter writer = journal.writer("w", false);
        for (int i = 0; i < 600; ++i) writer.append(std::string(200, 'b'));
        writer.sync();
        keep();
        journal.forget("two");
        {
            JournalConsumer one = journal.consumer("one");
            while (one.take()) {
            }
        }
        (void)journal.trim(JournalTrim::consumed());
        writer.close();
        keep();
    }

    std::string folder_;
    std::string path_;
    std::vector<Files> seeds_;
};

/// Changes that the input chooses.
class Changes {
  public:
    Changes(Files& files, Input& input) : files_(files), input_(input) {
        for (auto& [name, bytes] : files_) {
            if (name != "control") segments_.push_back(name);
        }
    }

    void one() {
        std::string& control = files_["control"];
        const std::string name =
            segments_.empty() ? "" : segments_[input_.below(static_cast<std::uint32_t>(segments_.size()))];
        const auto at = files_.find(name);
        std::string* const bytes = at == files_.end() ? nullptr : &at->second;
        switch (input_.below(10)) {
            case 0:
                return put(control, 4U * input_.below(32), number(), 4);
            case 1:
            case 2:
            case 3: {
                constexpr std::pair<std::uint64_t, std::size_t> words[] = {
                    {layout::JOURNAL_CONTROL_CLAIMED, 8},   {layout::JOURNAL_CONTROL_PUBLISHED, 8},
                    {layout::JOURNAL_CONTROL_MESSAGES, 8},  {layout::JOURNAL_CONTROL_CHECKED, 8},
                    {layout::JOURNAL_CONTROL_READY, 8},     {layout::JOURNAL_CONTROL_SYNCED, 8},
                    {layout::JOURNAL_CONTROL_TRIMMED, 8},   {layout::JOURNAL_CONTROL_SYNC_EVERY, 8},
                    {layout::JOURNAL_CONTROL_MAX_SIZE, 8},  {layout::JOURNAL_CONTROL_MAX_AGE, 8},
                    {layout::JOURNAL_CONTROL_SUCCESSOR, 4}, {layout::JOURNAL_CONTROL_FAILED, 4},
                    {layout::JOURNAL_CONTROL_BOOT_ID, 8}};
                const auto& [word, size] = words[input_.below(std::size(words))];
                return put(control, header + word, number(), size);
            }
            case 4: {
                const std::uint64_t slot = layout::JOURNAL_CONTROL_CONSUMERS + 256U * input_.below(3);
                return put(control, header + slot + 4U * input_.below(52), number(), 8);
            }
            case 5:  // a record's length or type, or a word of a check
                if (bytes != nullptr)
                    put(*bytes, header + 64U * input_.below(1024) + 4U * input_.below(16), number(), 4);
                return;
            case 6:
                if (bytes != nullptr) put(*bytes, input_.below(header + segment), number(), 8);
                return;
            case 7:  // a segment that is cut, longer, or missing
                if (bytes == nullptr) return;
                if (input_.below(2) == 0) {
                    files_.erase(name);
                } else {
                    bytes->resize(input_.below(2) == 0 ? input_.below(header + segment + 2) : bytes->size() + 1);
                }
                return;
            case 8:
                if (bytes != nullptr) place_cut(*bytes, name);
                return;
            default:
                if (bytes != nullptr) place_check(*bytes, name);
                return;
        }
    }

  private:
    /// Mostly a number near a place in these journals.
    std::int64_t number() {
        switch (input_.below(5)) {
            case 0:
                return input_.next<std::int64_t>();
            case 1:
                return static_cast<std::int8_t>(input_.next<std::uint8_t>());
            default:
                return segment * input_.below(6) + 64 * (static_cast<std::int64_t>(input_.below(256)) - 4);
        }
    }
    static void put(std::string& bytes, std::uint64_t at, std::int64_t value, std::size_t size) {
        if (at + size <= bytes.size()) std::memcpy(bytes.data() + at, &value, size);
    }
    std::int64_t base(const std::string& name) const { return detail::position_in_name(name).value_or(0); }
    void place(std::string& bytes, std::uint64_t at, const std::byte* record) {
        if (at + 64 <= bytes.size()) std::memcpy(bytes.data() + at, record, 64);
    }
    void place_cut(std::string& bytes, const std::string& name) {
        const std::int64_t in = 64 * std::int64_t{input_.below(1024)};
        std::byte record[64]{};
        detail::write_cut(record, {base(name) + in, input_.below(1500), number(), 0, 1});
        place(bytes, header + static_cast<std::uint64_t>(in), record);
    }
    void place_check(std::string& bytes, const std::string& name) {
        const std::int64_t in = 64 * std::int64_t{input_.below(1024)};
        std::byte record[64]{};
        detail::write_check(record, {base(name) + in, number(), number(), input_.next<std::uint32_t>()});
        place(bytes, header + static_cast<std::uint64_t>(in), record);
    }

    Files& files_;
    Input& input_;
    std::vector<std::string> segments_;
};

template <typename Reader>
void drain(Reader& reader) {
    for (int polls = 0; polls < most_polls; ++polls) {
        const int handed = reader.poll([](const JournalMessage& message) {
            fuzz::read_all(message.data(), message.size());
            (void)message.time();
        });
        if (handed == 0) return;
    }
    found("a journal without an end");
}

void read(const Journal& journal) {
    attempt([&] { (void)journal.stats(); });
    const JournalStart starts[] = {JournalStart::oldest(),        JournalStart::newest(),
                                   JournalStart::position(6400),  JournalStart::position(segment + 128),
                                   JournalStart::position(70400), JournalStart::number(20),
                                   JournalStart::number(300),     JournalStart::time(1300)};
    for (const JournalStart& start : starts) {
        attempt([&] {
            JournalReader reader = journal.reader(start);
            drain(reader);
            (void)reader.ended();
        });
    }
    attempt([&] {
        JournalReader reader = journal.reader(JournalStart::oldest(), false, true);
        drain(reader);
    });
    attempt([&] {
        JournalReader reader = journal.reader(JournalStart::oldest(), true);
        drain(reader);
    });
}

void run(const Journals& journals, const detail::JournalInEnvironment& environment) {
    attempt([&] {
        Journal journal = environment.open(journals.path());
        read(journal);
        for (const char* name : {"one", "new"}) {
            attempt([&] {
                JournalConsumer consumer = journal.consumer(name);
                (void)consumer.peek();
                (void)consumer.pop();
                drain(consumer);
                (void)consumer.size();
            });
        }
        attempt([&] {
            JournalWriter writer = journal.writer("fuzz", false);
            writer.append("appended");
            const std::string large(1000, 'l');
            const std::vector<Bytes> batch(80, as_bytes(large));
            writer.append_many(batch);
            writer.claim(10).commit();
            writer.sync();
        });
        read(journal);
        const JournalTrim trims[] = {JournalTrim::consumed(), JournalTrim::position(segment + 4464),
                                     JournalTrim::before(1500), JournalTrim::size(segment)};
        for (const JournalTrim& trim : trims) {
            attempt([&] { (void)journal.trim(trim); });
        }
        attempt([&] { journal.forget("one"); });
        attempt([&] { journal.push("x"); });
        read(journal);
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Journals journals;
    Input input(data, size);
    const auto which = input.next<std::uint8_t>();
    const auto how = input.next<std::uint8_t>();
    Files files = journals.seed(which);
    Changes changes(files, input);
    for (int i = how & 7; i > 0; --i) changes.one();
    std::string& control = files["control"];
    if ((how & 8) == 0)
        detail::put(reinterpret_cast<std::byte*>(control.data()) + layout::JOURNAL_HEADER_CRC,
                    detail::crc32c(reinterpret_cast<const std::byte*>(control.data()), layout::JOURNAL_HEADER_CRC));
    if ((how & 48) == 48) control.resize(input.below(static_cast<std::uint32_t>(control.size())));
    // Its own boot: as the control file says, which a change may have made any.
    detail::JournalInEnvironment own = boot(1);
    const std::size_t boot_at = header + layout::JOURNAL_CONTROL_BOOT_ID;
    if (control.size() >= boot_at + 16) std::memcpy(own.environment.boot_id->data(), control.data() + boot_at, 16);
    journals.lay_out(files);
    run(journals, own);
    if ((how & 64) != 0) {
        journals.lay_out(files);
        run(journals, boot(9));
    }
    attempt([&] { Journal::unlink(journals.path()); });
    return 0;
}
