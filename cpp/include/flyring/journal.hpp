// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "flyring/detail/environment.hpp"
#include "flyring/detail/journal_file.hpp"
#include "flyring/detail/journal_segment.hpp"
#include "flyring/detail/journal_state.hpp"
#include "flyring/detail/journal_trim.hpp"
#include "flyring/detail/journal_writer_core.hpp"
#include "flyring/errors.hpp"
#include "flyring/journal_message.hpp"
#include "flyring/journal_options.hpp"
#include "flyring/journal_reader.hpp"
#include "flyring/journal_stats.hpp"
#include "flyring/journal_writer.hpp"
#include "flyring/options.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace detail {
struct JournalInEnvironment;
}

/// Messages kept in files, in the order in which one writer appended them; larger than memory, and there again when a
/// program starts (spec/journal.md). Readers read it from any place, also while it grows. Thread-safe, unlike the
/// objects made from it. What it throws, in this order: Closed, InvalidArgument, MessageTooLarge, AccessDenied
/// (read-only), NoFreeSlot, CorruptJournal, NoSpace, IoError, Damaged, NeedsRecovery (a journal of another boot, until
/// a writer has mended it).
class Journal {
  public:
    /// Creates the journal's folder and files, and attaches to it. Throws as Channel::create.
    static Journal create(const std::string& name, const JournalOptions& options = {}) {
        return create(name, options, {});
    }
    /// Attaches to an existing journal after full validation. Throws as Channel::open.
    static Journal open(const std::string& name, const OpenJournalOptions& options = {}) {
        return open(name, options, {});
    }
    /// Opens the journal, or creates it if there is none. Throws ChannelDiffers if the existing journal is not what
    /// `options` ask for; what they leave out is not compared.
    static Journal open_or_create(const std::string& name, const JournalOptions& options = {}) {
        return open_or_create(name, options, {});
    }
    /// Opens the journal as soon as there is one of that name. Throws TimedOut.
    static Journal wait_for(const std::string& name, std::chrono::nanoseconds timeout = forever,
                            const OpenJournalOptions& options = {}) {
        detail::check_timeout(timeout);
        const std::int64_t start = detail::clock_ns(CLOCK_MONOTONIC);
        const std::int64_t deadline = detail::later(start, timeout.count());
        for (;;) {
            try {
                return open(name, options);
            } catch (const NoSuchChannel& error) {
                const std::int64_t now = detail::clock_ns(CLOCK_MONOTONIC);
                if (now >= deadline) throw TimedOut("journal " + error.path() + " to be created");
                const std::int64_t nap = now - start < 1'000'000'000 ? 1'000'000 : 10'000'000;
                std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(nap, deadline - now)));
            }
        }
    }
    /// Removes the journal with all that it holds. Throws NoFreeSlot if a process has its writer's slot.
    static void unlink(const std::string& name) { detail::unlink_journal(name); }
    /// The path of the folder that `name` stands for. Throws InvalidArgument.
    static std::string path_of(const std::string& name) { return detail::journal_path(name); }

    /// Takes the writer's slot, until the writer's close; waits for it up to `timeout`. Mends the journal after a kill
    /// or a power loss. `helper`: starts a thread that keeps `ahead` segments ready, syncs and trims, if no other
    /// process does. Without it an append that needs a new segment makes it, which takes milliseconds.
    JournalWriter writer(const std::string& name = "", bool helper = true, std::uint32_t ahead = 1,
                         std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return JournalWriter(std::make_unique<detail::JournalWriterCore>(state_, &name, helper, ahead, timeout));
    }
    /// Reads from `start` on. `durable`: only what is synced. `skip_damaged`: goes on behind what is damaged, and
    /// counts it as lost.
    JournalReader reader(const JournalStart& start = JournalStart::oldest(), bool durable = false,
                         bool skip_damaged = false) const {
        return JournalReader(std::make_unique<detail::JournalPlainReader>(state_, start, durable, skip_damaged));
    }
    /// Takes the consumer of this name, which goes on where it stopped. `start` counts only if the name is new. Throws
    /// NoFreeSlot if a process has the name, or all names are taken; Damaged if what lies before its place is damaged
    /// or missing, unless it skips that.
    JournalConsumer consumer(const std::string& name, const JournalStart& start = JournalStart::oldest(),
                             bool skip_damaged = false) {
        return JournalConsumer(std::make_unique<detail::JournalConsumerCore>(state_, name, start, skip_damaged));
    }
    /// Appends one message, and takes the writer's slot for that only. Returns its position. If no process has a
    /// helper, it syncs when a sync is due, and trims by the options when it has entered another segment. Throws Busy
    /// if a writer made from this object is open; IoError if that sync fails: the message is appended.
    std::int64_t push(Bytes message, std::int32_t type, std::chrono::nanoseconds timeout = forever) {
        state_->check_open();
        if (type < 1) throw InvalidArgument("type", std::to_string(type) + " is not 1 or more");
        const auto most = static_cast<std::size_t>(header().longest() - detail::journal_message_header);
        if (message.size() > most) throw MessageTooLarge::in_journal(message.size(), most);
        detail::check_timeout(timeout);
        state_->check_writable();
        state_->check_no_own_writer();
        detail::JournalWriterCore writer(state_, nullptr, false, 0, timeout);
        const std::int64_t position = writer.push(message.data(), message.size(), type);
        writer.close_synced(false);
        return position;
    }
    std::int64_t push(Bytes message, std::chrono::nanoseconds timeout = forever) {
        return push(message, header().schema_length != 0 ? layout::TYPE_RAW : 1, timeout);
    }
    std::int64_t push(std::string_view message, std::chrono::nanoseconds timeout = forever) {
        return push(as_bytes(message), timeout);
    }
    /// Removes a consumer's name. Throws InvalidArgument (there is none), Busy (a process has it).
    void forget(const std::string& name) { detail::forget_consumer(*state_, name); }
    /// Removes whole segments, never what a consumer still needs, and returns the bytes that became free.
    std::uint64_t trim(const JournalTrim& what) {
        state_->check_open();
        if (what.kind() == JournalTrim::Kind::position && what.value() < 0) {
            throw InvalidArgument("position", std::to_string(what.value()) + " is below 0");
        }
        state_->check_writable();
        file().check_linked();
        state_->check_whole();
        const std::int64_t limit = detail::TrimLimits(file()).of(what);
        const detail::Fd description =
            state_->with_lock([&] { return detail::open_description(file().fd, file().control); });
        return detail::trim_journal(file(), description, limit, true);
    }
    /// Changes options of the journal, for all processes; they are durable when it returns.
    void change(const JournalChange& change) {
        state_->check_open();
        JournalOptions options;
        options.sync = change.sync;
        options.max_age = change.max_age;
        options.max_size = change.max_size;
        detail::check_options(options);
        state_->check_writable();
        const detail::Fd description =
            state_->with_lock([&] { return detail::open_description(file().fd, file().control); });
        const detail::ControlLock lock(description, file().control_lock(), file().control);
        if (change.sync) detail::store_relaxed(file().sync_every(), change.sync->word());
        if (change.max_age) detail::store_relaxed(file().max_age(), std::int64_t{change.max_age->count()});
        if (change.max_size) detail::store_relaxed(file().max_size(), static_cast<std::int64_t>(*change.max_size));
        if (change.trim_consumed) detail::store_relaxed(file().trim_consumed(), std::int32_t{*change.trim_consumed});
        file().sync_control();
        detail::wake_all(file().work());
    }
    /// Takes no lock and stores nothing; also of a journal that needs recovery.
    JournalStats stats() const {
        state_->check_open();
        return detail::stats_of(file());
    }

    const std::string& path() const noexcept { return file().path; }
    const Uuid& id() const noexcept { return header().journal_id; }
    std::uint64_t segment_size() const noexcept { return header().segment_size; }
    std::uint32_t consumers() const noexcept { return header().consumers; }
    JournalContent content() const noexcept { return header().content; }
    std::int64_t created_at() const noexcept { return header().created_at; }
    const std::string& schema() const noexcept { return file().schema; }
    std::uint32_t schema_id() const noexcept { return header().schema_id; }
    std::uint32_t schema_version() const noexcept { return header().schema_version; }
    bool read_only() const noexcept { return file().read_only; }

    /// Closes the journal and all objects made from it; a writer syncs first. If another thread pushes and has the
    /// slot, this waits for it; a push that still waits for the slot throws Closed. Throws ViewAlive if an object is at
    /// work.
    void close() { state_->close_all(); }

  private:
    friend struct detail::JournalInEnvironment;

    Journal(detail::JournalFile file, JournalProgress progress)
        : state_(std::make_shared<detail::JournalState>(std::move(file), std::move(progress))) {}

    static Journal create(const std::string& name, const JournalOptions& options,
                          const detail::Environment& environment) {
        return Journal(detail::create_journal(name, options, environment), options.recovery_progress);
    }
    static Journal open(const std::string& name, const OpenJournalOptions& options,
                        const detail::Environment& environment) {
        if (options.min_schema_version > 65535) {
            throw InvalidArgument("min_schema_version", "it must be 0 to 65535");
        }
        Journal journal(detail::open_journal(name, options, environment), options.recovery_progress);
        journal.check_schema(options);
        return journal;
    }
    static Journal open_or_create(const std::string& name, const JournalOptions& options,
                                  const detail::Environment& environment) {
        detail::check_options(options);
        for (;;) {
            try {
                OpenJournalOptions opening;
                opening.any_file_system = options.any_file_system;
                opening.wake = options.wake;
                opening.recovery_progress = options.recovery_progress;
                Journal journal = open(name, opening, environment);
                journal.compare(options);
                return journal;
            } catch (const NoSuchChannel&) {
                // Create it below; another process may be faster.
            }
            try {
                return create(name, options, environment);
            } catch (const ChannelExists&) {
                // Another process was faster: open its journal.
            }
        }
    }

    void check_schema(const OpenJournalOptions& required) const {
        const auto differs = [this](const char* field, std::uint32_t expected, const std::string& actual) {
            throw ChannelDiffers(path(), field, std::to_string(expected), actual);
        };
        if (required.schema && schema().empty()) differs("schema", required.schema->id, "none");
        if (required.schema && schema_id() != required.schema->id) {
            differs("schema_id", required.schema->id, std::to_string(schema_id()));
        }
        if (schema_version() < required.min_schema_version) {
            differs("schema_version", required.min_schema_version, std::to_string(schema_version()));
        }
    }
    void compare(const JournalOptions& asked) const {
        const auto fail = [this](const char* field, const std::string& expected, const std::string& actual) {
            if (expected != actual) throw ChannelDiffers(path(), field, expected, actual);
        };
        const auto number = [&](const char* field, auto expected, auto actual) {
            fail(field, std::to_string(expected), std::to_string(actual));
        };
        const auto name_of = [](JournalContent content) {
            return content == JournalContent::recording ? "recording" : "messages";
        };
        if (asked.segment_size) number("segment_size", *asked.segment_size, segment_size());
        if (asked.consumers) number("consumers", *asked.consumers, consumers());
        if (asked.content) fail("content", name_of(*asked.content), name_of(content()));
        if (asked.sync) fail("sync", asked.sync->text(), JournalSync::text_of(file().valid_sync_every()));
        if (asked.max_age) number("max_age", asked.max_age->count(), detail::load_relaxed(file().max_age()));
        if (asked.max_size) {
            number("max_size", static_cast<std::int64_t>(*asked.max_size), detail::load_relaxed(file().max_size()));
        }
        if (asked.trim_consumed) {
            fail("trim_consumed", *asked.trim_consumed ? "true" : "false",
                 detail::load_relaxed(file().trim_consumed()) == 1 ? "true" : "false");
        }
        if (!asked.schema.empty() || asked.schema_id != 0) number("schema_id", asked.schema_id, schema_id());
        if (schema_version() < asked.schema_version) {
            number("schema_version", asked.schema_version, schema_version());
        }
    }

    const detail::JournalFile& file() const noexcept { return state_->file; }
    const detail::JournalHeader& header() const noexcept { return state_->file.header; }

    std::shared_ptr<detail::JournalState> state_;
};

namespace detail {

/// Creates and opens journals with injected values; for tests.
struct JournalInEnvironment {
    Environment environment;

    Journal create(const std::string& name, const JournalOptions& options = {}) const {
        return Journal::create(name, options, environment);
    }
    Journal open(const std::string& name, const OpenJournalOptions& options = {}) const {
        return Journal::open(name, options, environment);
    }
    Journal open_or_create(const std::string& name, const JournalOptions& options = {}) const {
        return Journal::open_or_create(name, options, environment);
    }
};

}  // namespace detail
}  // namespace flyring
