// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "flyring/detail/journal_consumer_core.hpp"
#include "flyring/detail/journal_reader_core.hpp"
#include "flyring/journal_message.hpp"

namespace flyring {

class WaitSet;

/// What a reader and a consumer have in common.
template <typename Core>
class JournalReading {
  public:
    /// Calls handler(const JournalMessage&) for up to `limit` messages and returns how many were consumed. Does not
    /// wait. A message is valid until its handler returns. The handler may return an Action. If it throws, its message
    /// counts as consumed. Throws Closed, TwoThreads, SlotLost (a consumer), CorruptJournal, Damaged (a reader that
    /// does not skip stays where it is). (spec/journal.md 3.3)
    template <typename Handler>
    int poll(Handler&& handler, int limit = layout::DEFAULT_POLL_LIMIT) {
        return core_->poll(handler, limit);
    }
    /// Like poll above, but waits for the first message until the time-out, then returns 0. A close by another thread
    /// ends the wait with Closed. (spec/channel.md 6.16)
    template <typename Handler>
    int poll(Handler&& handler, int limit, std::chrono::nanoseconds timeout) {
        return core_->poll(handler, limit, timeout);
    }
    /// The next message, with its own copy of the bytes; empty if there is none at the time-out. Throws as poll does.
    std::optional<OwnedJournalMessage> take(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        std::optional<OwnedJournalMessage> taken;
        poll([&](const JournalMessage& message) { taken.emplace(message); }, 1, timeout);
        return taken;
    }
    /// Whether the writer has closed and all its messages are consumed. Becomes false again when there are more.
    bool ended() { return core_->ended(); }

    /// How far it has read: bytes since the journal's creation.
    std::int64_t position() const noexcept { return core_->position(); }
    /// How many messages lie before that.
    std::int64_t number() const noexcept { return core_->number(); }
    /// Messages that were trimmed before they were read, or skipped as damaged.
    std::int64_t lost() const noexcept { return core_->lost(); }
    /// How many places it has met at which a power loss, or a sync that failed, took the end.
    std::int64_t cuts() const noexcept { return core_->cuts(); }
    /// How long a wait spins before it sleeps; 20 microseconds by default. 0: it looks once.
    void set_spin(std::chrono::nanoseconds time) { core_->set_spin(time); }
    /// Does nothing if closed already. Throws ViewAlive from inside a handler.
    void close() { core_->close_checked(); }

  protected:
    friend class WaitSet;
    explicit JournalReading(std::unique_ptr<Core> core) noexcept : core_(std::move(core)) {}

    std::unique_ptr<Core> core_;
};

/// Reads a journal without a slot, made by Journal::reader. Read permission is enough. Not thread-safe.
class JournalReader : public JournalReading<detail::JournalPlainReader> {
  public:
    /// Goes to another place. Throws InvalidArgument, Damaged.
    void seek(const JournalStart& start) { core_->seek(start); }

  private:
    friend class Journal;
    explicit JournalReader(std::unique_ptr<detail::JournalPlainReader> core) noexcept
        : JournalReading(std::move(core)) {}
};

/// A named consumer, made by Journal::consumer. Its place stays when it goes: the next owner of the name goes on there.
/// If an owner is killed, the next one gets again what was consumed since the last store of the gate: at most the
/// messages of one poll. Not thread-safe.
class JournalConsumer : public JournalReading<detail::JournalConsumerCore> {
  public:
    /// Takes the oldest message; empty if there is none at the time-out. The same as take.
    std::optional<OwnedJournalMessage> pop(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero()) {
        return take(timeout);
    }
    /// A copy of the oldest message, which is not consumed; empty if there is none.
    std::optional<OwnedJournalMessage> peek() {
        std::optional<OwnedJournalMessage> seen;
        poll(
            [&](const JournalMessage& message) {
                seen.emplace(message);
                return Action::ABORT;
            },
            1);
        return seen;
    }
    /// How many messages are not consumed.
    std::int64_t size() { return core_->size(); }
    /// What was consumed is durable when it returns.
    void sync() { core_->sync(); }
    /// Gives up the name, and closes.
    void forget() { core_->forget(); }
    const std::string& name() const noexcept { return core_->name(); }
    std::uint32_t slot() const noexcept { return core_->slot(); }
    std::int64_t epoch() const noexcept { return core_->epoch(); }

  private:
    friend class Journal;
    explicit JournalConsumer(std::unique_ptr<detail::JournalConsumerCore> core) noexcept
        : JournalReading(std::move(core)) {}
};

}  // namespace flyring
