// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "flyring/detail/journal_writer_core.hpp"
#include "flyring/errors.hpp"
#include "flyring/span.hpp"

namespace flyring {

namespace sbe {
template <typename T>
class TypedJournalClaim;
}

/// Space in a journal that the caller fills in place, made by JournalWriter::claim. The bytes are valid until commit or
/// abort; the destructor aborts an open claim.
class JournalClaim {
  public:
    JournalClaim() noexcept = default;
    JournalClaim(JournalClaim&& other) noexcept
        : core_(std::exchange(other.core_, nullptr)), data_(other.data_), size_(other.size_) {}
    JournalClaim& operator=(JournalClaim&& other) noexcept {
        if (this == &other) return *this;
        if (core_ != nullptr) detail::JournalWriterCore::drop_claim(core_, size_);
        core_ = std::exchange(other.core_, nullptr);
        data_ = other.data_;
        size_ = other.size_;
        return *this;
    }
    JournalClaim(const JournalClaim&) = delete;
    JournalClaim& operator=(const JournalClaim&) = delete;
    ~JournalClaim() {
        if (core_ != nullptr) detail::JournalWriterCore::drop_claim(core_, size_);
    }

    /// Whether the claim is open and its writer is, too.
    explicit operator bool() const noexcept { return core_ != nullptr && core_->open(); }
    std::byte* data() const noexcept { return data_; }
    /// The payload length in bytes.
    std::size_t size() const noexcept { return size_; }
    MutableBytes payload() const noexcept { return {data_, size_}; }

    /// Appends the message, with the time of this call. Returns its position. Throws Closed (the claim is not open any
    /// more, or its writer was closed), SlotLost, IoError; the message is then not appended. (With sync each an IoError
    /// says that it was appended and is not durable.)
    std::int64_t commit() { return take_core().commit_claim(size_); }
    /// Discards the claimed space, which becomes padding. Returns its position, and throws as commit does.
    std::int64_t abort() { return take_core().abort_claim(size_); }

  private:
    friend class JournalWriter;
    template <typename T>
    friend class sbe::TypedJournalClaim;

    JournalClaim(detail::JournalWriterCore& core, std::size_t length, std::int32_t type)
        : core_(&core), data_(core.claim(length, type)), size_(length) {}
    /// Marks the claim as not open, whatever the caller's operation then does.
    detail::JournalWriterCore& take_core() {
        if (core_ == nullptr) throw_not_open();
        return *std::exchange(core_, nullptr);
    }
    [[noreturn, gnu::cold, gnu::noinline]] static void throw_not_open() {
        throw Closed("this claim is not open: it was committed or aborted");
    }

    detail::JournalWriterCore* core_ = nullptr;  // null: not open
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// The one writer of a journal, made by Journal::writer. It never waits for a reader. Not thread-safe. Each verb throws
/// Closed, TwoThreads, ViewAlive (a claim is open), InvalidArgument, MessageTooLarge, SlotLost, NoSpace and IoError
/// (both change nothing). After a sync that failed, also one of another process, it is IoError for good: close it, and
/// take a new one, which writes once more what may not be durable.
class JournalWriter {
    using Core = detail::JournalWriterCore;

  public:
    /// Copies one message to the journal's end. `type` defaults to 1; in a journal with a schema to 65536, which no
    /// message of a schema has. Returns the position of its record, at which a reader can begin. (spec/journal.md 3.1)
    [[gnu::always_inline]] inline std::int64_t append(Bytes message, std::int32_t type) {
        return core_->append(message.data(), message.size(), type, Core::now);
    }
    [[gnu::always_inline]] inline std::int64_t append(Bytes message) { return append(message, core_->raw_type()); }
    std::int64_t append(std::string_view message) { return append(as_bytes(message)); }
    std::int64_t append(std::string_view message, std::int32_t type) { return append(as_bytes(message), type); }
    /// The same with a time of the caller's, ns since 1970. Times need not grow.
    std::int64_t append(Bytes message, std::int32_t type, std::int64_t time) {
        return core_->append(message.data(), message.size(), type, time);
    }

    /// Reserves space for a message of `length` bytes, which the caller writes in place. Until the claim's commit or
    /// abort, every other verb that appends throws ViewAlive.
    JournalClaim claim(std::size_t length, std::int32_t type) { return {*core_, length, type}; }
    JournalClaim claim(std::size_t length) { return {*core_, length, core_->raw_type()}; }
    /// Reserves space for a message of the SBE codec T, with the message header written. `variable_length`: bytes for
    /// groups and variable-length data. Include flyring/sbe.hpp.
    template <typename T>
    sbe::TypedJournalClaim<T> claim(std::size_t variable_length = 0);

    /// Copies messages in order, with one read of the clock and one wake-up. Returns how many were appended: all. After
    /// MessageTooLarge, none was appended. After NoSpace or IoError those before it are; number() tells how many.
    std::size_t append_many(span<const Bytes> messages, std::int32_t type) {
        return core_->append_many(messages, type, Core::now);
    }
    std::size_t append_many(span<const Bytes> messages) { return append_many(messages, core_->raw_type()); }
    std::size_t append_many(span<const Bytes> messages, std::int32_t type, std::int64_t time) {
        return core_->append_many(messages, type, time);
    }

    /// What was appended is durable when it returns. Throws IoError if the sync failed, which ends this writer; or if a
    /// segment was removed by hand: then this writer goes on. (spec/journal.md 5)
    void sync() { core_->sync(); }

    /// Where the next record begins: bytes since the journal's creation.
    std::int64_t position() const noexcept { return core_->position(); }
    /// How many messages were ever appended to the journal.
    std::int64_t number() const noexcept { return core_->number(); }
    const std::string& name() const noexcept { return core_->name(); }
    /// The slot's epoch: it tells this writer from all others.
    std::int64_t epoch() const noexcept { return core_->epoch(); }
    /// How many segments this writer had to make itself, because none was ready when it needed one: each took it
    /// milliseconds. A larger `ahead` makes them fewer.
    std::int64_t unprepared() const noexcept { return core_->unprepared(); }
    /// The largest payload, in bytes.
    std::size_t max_message_length() const noexcept { return core_->max_length(); }
    /// What this writer had to mend when it was made; empty if nothing.
    const std::optional<JournalRecovery>& recovery() const noexcept { return core_->recovery(); }

    /// Makes all durable, if `sync`, and gives the slot back. Does nothing if closed already. An IoError of the sync
    /// comes after the close. The destructor does the same, without an error.
    void close(bool sync = true) { core_->close_synced(sync); }

  private:
    friend class Journal;
    template <typename T>
    friend class sbe::TypedJournalClaim;
    explicit JournalWriter(std::unique_ptr<Core> core) noexcept : core_(core.release()) {}

    std::unique_ptr<Core, Core::EndWriter> core_;
};

}  // namespace flyring
