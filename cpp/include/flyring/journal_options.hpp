// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "flyring/detail/layout.hpp"
#include "flyring/errors.hpp"
#include "flyring/schema.hpp"

namespace flyring {

/// What the messages of a journal are.
enum class JournalContent : std::int32_t {
    /// Those that a program appends.
    messages = layout::JOURNAL_CONTENT_MESSAGES,
    /// Those of `flyring record` (spec/journal.md 9).
    recording = layout::JOURNAL_CONTENT_RECORDING,
};

/// When what was appended is made durable (spec/journal.md 5).
class JournalSync {
  public:
    /// When the writer has left a segment, by the helper or a push. A power loss may take what came since the last such
    /// sync.
    static constexpr JournalSync never() noexcept { return JournalSync(layout::JOURNAL_SYNC_NEVER); }
    /// Before each append returns.
    static constexpr JournalSync each() noexcept { return JournalSync(layout::JOURNAL_SYNC_EACH); }
    /// The helper, or a push, syncs at this interval, while there are appends: a writer that stops appending calls sync
    /// itself. 1 ms to 1 h; create and change throw InvalidArgument for another time.
    static constexpr JournalSync every(std::chrono::nanoseconds time) noexcept { return JournalSync(time.count()); }

    /// The word in the file: 0 never, -1 each, else ns.
    constexpr std::int64_t word() const noexcept { return word_; }
    bool is_valid() const noexcept {
        constexpr std::int64_t least = 1'000'000;
        constexpr std::int64_t most = 3'600'000'000'000;
        return word_ == layout::JOURNAL_SYNC_NEVER || word_ == layout::JOURNAL_SYNC_EACH ||
               (word_ >= least && word_ <= most);
    }
    /// "never", "each", or the interval as "N ns".
    std::string text() const { return text_of(word_); }
    static std::string text_of(std::int64_t word) {
        if (word == layout::JOURNAL_SYNC_NEVER) return "never";
        return word == layout::JOURNAL_SYNC_EACH ? "each" : std::to_string(word) + " ns";
    }
    friend constexpr bool operator==(JournalSync a, JournalSync b) noexcept { return a.word_ == b.word_; }
    friend constexpr bool operator!=(JournalSync a, JournalSync b) noexcept { return a.word_ != b.word_; }

  private:
    explicit constexpr JournalSync(std::int64_t word) noexcept : word_(word) {}

    std::int64_t word_;
};

/// Called while a journal is mended after a power loss: how many bytes of about how many are checked.
using JournalProgress = std::function<void(std::uint64_t checked, std::uint64_t bytes)>;

/// The properties of a new journal (spec/api.md, "Journal").
struct JournalOptions {
    /// Bytes of one segment: a power of two, 64 KiB to 1 GiB. Default: 64 MiB.
    std::optional<std::uint64_t> segment_size{};
    /// How many names of consumers, 0 to 1024. Default: 16.
    std::optional<std::uint32_t> consumers{};
    /// Default: messages.
    std::optional<JournalContent> content{};
    /// When what is appended is made durable. Default: never.
    std::optional<JournalSync> sync{};
    /// Segments whose messages are all older than this are removed, whatever consumers need. Default, and 0: no limit.
    std::optional<std::chrono::nanoseconds> max_age{};
    /// The oldest segments beyond this many bytes are removed, whatever consumers need. Default, and 0: no limit.
    std::optional<std::uint64_t> max_size{};
    /// Segments that all consumers have consumed are removed. Default: false. These three are carried out by the helper
    /// of a writer, and without one by a push.
    std::optional<bool> trim_consumed{};
    /// UTF-8 text, at most 16 MiB.
    std::string schema{};
    /// 0 to 65535; 0 without a schema.
    std::uint32_t schema_id = 0;
    std::uint32_t schema_version = 0;
    /// Permission bits of the files.
    mode_t mode = 0600;
    /// True: do not require a file system from the allow-list of spec/channel.md 3.1.
    bool any_file_system = false;
    /// False: this process wakes no sleeping reader, so each looks every millisecond.
    bool wake = true;
    /// Called while a writer of this object recovers the journal.
    JournalProgress recovery_progress{};

    /// Sets schema, schema_id and schema_version.
    JournalOptions& use(const Schema& one) {
        schema = one.text;
        schema_id = one.id;
        schema_version = one.version;
        return *this;
    }
};

/// How to open a journal, and what it must have.
struct OpenJournalOptions {
    /// Opens and maps the files for reading only; any call that would write throws AccessDenied.
    bool read_only = false;
    /// As in JournalOptions.
    bool any_file_system = false;
    bool wake = true;
    /// The journal must have a schema with the same id (spec/messages.md 2).
    std::optional<Schema> schema{};
    /// The journal's schema must have at least this version, 0 to 65535; 0: any.
    std::uint32_t min_schema_version = 0;
    JournalProgress recovery_progress{};
};

/// What Journal::change changes; what is empty stays.
struct JournalChange {
    std::optional<JournalSync> sync{};
    std::optional<std::chrono::nanoseconds> max_age{};
    std::optional<std::uint64_t> max_size{};
    std::optional<bool> trim_consumed{};
};

/// Where a reader begins. Positions are bytes since the journal's creation.
class JournalStart {
  public:
    enum class Kind { oldest, newest, position, number, time };

    /// At the oldest message that is there.
    static constexpr JournalStart oldest() noexcept { return {Kind::oldest, 0}; }
    /// Behind the newest message.
    static constexpr JournalStart newest() noexcept { return {Kind::newest, 0}; }
    /// At a position that append returned, or that a message has.
    static constexpr JournalStart position(std::int64_t position) noexcept { return {Kind::position, position}; }
    /// At the message before which `number` messages were appended.
    static constexpr JournalStart number(std::int64_t number) noexcept { return {Kind::number, number}; }
    /// At the first message whose time is not below this one: ns since 1970. If there is none: as newest.
    static constexpr JournalStart time(std::int64_t time) noexcept { return {Kind::time, time}; }

    constexpr Kind kind() const noexcept { return kind_; }
    constexpr std::int64_t value() const noexcept { return value_; }

  private:
    constexpr JournalStart(Kind kind, std::int64_t value) noexcept : kind_(kind), value_(value) {}

    Kind kind_;
    std::int64_t value_;
};

/// What Journal::trim removes. Never more than what is synced, and never what a consumer still needs.
class JournalTrim {
  public:
    enum class Kind { consumed, position, before, size };

    /// What all consumers have consumed. Without a consumer: nothing.
    static constexpr JournalTrim consumed() noexcept { return {Kind::consumed, 0}; }
    /// The segments that end at or below this position.
    static constexpr JournalTrim position(std::int64_t position) noexcept { return {Kind::position, position}; }
    /// The segments whose messages are all older than this time: ns since 1970.
    static constexpr JournalTrim before(std::int64_t time) noexcept { return {Kind::before, time}; }
    /// The oldest segments, until at most this many bytes of segments are left.
    static constexpr JournalTrim size(std::uint64_t bytes) noexcept {
        return {Kind::size, static_cast<std::int64_t>(bytes < max ? bytes : max)};
    }

    constexpr Kind kind() const noexcept { return kind_; }
    constexpr std::int64_t value() const noexcept { return value_; }

  private:
    static constexpr std::uint64_t max = static_cast<std::uint64_t>(layout::MAX_POSITION);
    constexpr JournalTrim(Kind kind, std::int64_t value) noexcept : kind_(kind), value_(value) {}

    Kind kind_;
    std::int64_t value_;
};

}  // namespace flyring
