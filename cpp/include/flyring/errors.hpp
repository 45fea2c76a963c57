// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "flyring/holder.hpp"
#include "flyring/options.hpp"

// The errors of spec/api.md: one class for each code. Each text says what is wrong, where, and what to do.

namespace flyring {

/// The base of all errors that Flyring throws. code() is stable and the same in every language.
class FlyringError : public std::runtime_error {
  public:
    std::string_view code() const noexcept { return code_; }

  protected:
    FlyringError(std::string_view code, const std::string& text) : std::runtime_error(text), code_(code) {}

  private:
    std::string_view code_;  // always a string literal
};

namespace detail {

/// What a path names, for a text.
inline std::string noun(const std::string& path) {
    const auto ends_in = [&](std::string_view end) {
        return path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
    };
    if (ends_in(".journal") || ends_in(".journal/control") || ends_in(".seg")) return "journal";
    return ends_in(".table") ? "table" : "channel";
}

// Base classes for what several errors carry.

class WithPath {
  public:
    /// The path of the channel's file, or of the folder in question.
    const std::string& path() const noexcept { return path_; }

  protected:
    explicit WithPath(std::string path) noexcept : path_(std::move(path)) {}

  private:
    std::string path_;
};

class WithReason {
  public:
    const std::string& reason() const noexcept { return reason_; }

  protected:
    explicit WithReason(std::string reason) noexcept : reason_(std::move(reason)) {}

  private:
    std::string reason_;
};

class WithField {
  public:
    /// The name of the wrong field, option or property, as in spec/layout.toml or spec/api.md.
    const std::string& field() const noexcept { return field_; }

  protected:
    explicit WithField(std::string field) noexcept : field_(std::move(field)) {}

  private:
    std::string field_;
};

class WithPosition {
  public:
    std::uint32_t ring() const noexcept { return ring_; }
    /// The position at which the record starts: bytes since the ring's creation.
    std::int64_t position() const noexcept { return position_; }

  protected:
    WithPosition(std::uint32_t ring, std::int64_t position) noexcept : ring_(ring), position_(position) {}

  private:
    std::uint32_t ring_;
    std::int64_t position_;
};

}  // namespace detail

/// Thrown by create: a file of that name exists.
class ChannelExists : public FlyringError, public detail::WithPath {
  public:
    explicit ChannelExists(std::string path)
        : FlyringError("exists",
                       detail::noun(path) + " " + path + " exists; open it, or use open_or_create or replace"),
          WithPath(std::move(path)) {}
};

/// Thrown by open and unlink: there is no file of that name.
class NoSuchChannel : public FlyringError, public detail::WithPath {
  public:
    explicit NoSuchChannel(std::string path)
        : FlyringError("no-such-channel",
                       "there is no " + detail::noun(path) + " " + path +
                           "; create it first, and check that FLYRING_DIR and the user are the same"),
          WithPath(std::move(path)) {}
};

/// Thrown by open_or_create, and by open with a schema: the channel is not what the caller asked for. field() is the
/// first property that differs.
class ChannelDiffers : public FlyringError, public detail::WithField {
  public:
    ChannelDiffers(const std::string& path, std::string field, const std::string& expected, const std::string& actual)
        : FlyringError("differs", detail::noun(path) + " " + path + " has " + field + " " + cut(actual) +
                                      ", asked for was " + cut(expected) + "; ask for what it has, or replace it"),
          WithField(std::move(field)),
          expected_(cut(expected)),
          actual_(cut(actual)) {}
    // At most 200 characters: a longer text is cut and ends in "...".
    const std::string& expected() const noexcept { return expected_; }
    const std::string& actual() const noexcept { return actual_; }

  private:
    static std::string cut(const std::string& text) {
        constexpr std::size_t most = 200;
        return text.size() <= most ? text : text.substr(0, most - 3) + "...";
    }

    std::string expected_;
    std::string actual_;
};

/// The ring had no room: send or claim reached its time-out, or an empty claim of try_claim was used. Subscribers have
/// not yet read the bytes that the message would overwrite.
class BackPressured : public FlyringError {
  public:
    explicit BackPressured(std::optional<Holder> holder)
        : FlyringError("back-pressured", text(holder)), holder_(std::move(holder)) {}
    /// The subscriber that is furthest behind. Empty if that subscriber has gone meanwhile, or is not known.
    const std::optional<Holder>& holder() const noexcept { return holder_; }

  private:
    static std::string text(const std::optional<Holder>& holder) {
        const std::string what_to_do = "; try again later, or use offer or try_claim, which say so without an error";
        if (!holder) return "there was no room for the message" + what_to_do;
        const std::string name = holder->name.empty() ? "" : " '" + holder->name + "'";
        const std::string who =
            holder->live ? " (pid " + std::to_string(holder->pid) + ")" : ", which is not attached,";
        return "there is no room for the message: subscriber slot " + std::to_string(holder->slot) + name + who +
               " has read up to position " + std::to_string(holder->position) + " only" + what_to_do;
    }

    std::optional<Holder> holder_;
};

/// Four cases. In a table: a read could not end. In a journal: a process has the consumer that is to be forgotten, or a
/// writer made from the same object is open. In a queue: send, claim, send_batch or flush would wait for a job
/// that the calling thread itself works on, so the wait could never end. In a service: a client has as many calls under
/// way as it may have.
class Busy : public FlyringError {
  public:
    explicit Busy(Holder holder) : FlyringError("busy", text(holder)), holder_(std::move(holder)) {}
    explicit Busy(std::uint32_t outstanding)
        : FlyringError("busy", "there are " + std::to_string(outstanding) +
                                   " calls under way, and max_outstanding allows no more; poll this client until one "
                                   "ends (a call that expired or was cancelled counts until the server answered it), "
                                   "or create the service with more"),
          outstanding_(outstanding) {}
    /// In a table: a read began again and again for a millisecond, because its cell (-1: the index) kept changing.
    Busy(const std::string& path, std::int64_t cell)
        : FlyringError("busy", (cell < 0 ? "the index" : "cell " + std::to_string(cell)) + " of table " + path +
                                   " changes faster than it can be read; read it again") {}
    /// In a table or journal: that object has a writer open, for which the call would wait.
    static Busy own_writer(const std::string& path, const std::string& what = "table") {
        return Busy(what + " " + path +
                    " has a writer open that was made from this very object, so the change would wait for it; use "
                    "that writer, or close it first");
    }
    /// In a journal: a process has the consumer whose name is to be forgotten.
    static Busy consumer(const std::string& path, const std::string& name, std::int32_t pid) {
        return Busy("consumer '" + name + "' of journal " + path + " is in the hand of process " + std::to_string(pid) +
                    "; close it there first");
    }
    /// In a queue: the caller's own worker. Empty elsewhere.
    const std::optional<Holder>& holder() const noexcept { return holder_; }
    /// In a service: the number of calls under way. Otherwise 0.
    std::uint32_t outstanding() const noexcept { return outstanding_; }

  private:
    explicit Busy(const std::string& text) : FlyringError("busy", text) {}
    static std::string text(const Holder& holder) {
        return "there is no room for the message, and there will be none: the job at position " +
               std::to_string(holder.position) + " is in the hand of worker slot " + std::to_string(holder.slot) +
               (holder.name.empty() ? "" : " '" + holder.name + "'") +
               ", which is this very thread's; finish or release that job first, or use offer or try_claim";
    }

    std::optional<Holder> holder_;
    std::uint32_t outstanding_ = 0;
};

/// The server died, closed, or was evicted before it answered the call.
class ServerGone : public FlyringError {
  public:
    ServerGone(bool may_have_run, std::string name, std::int32_t pid)
        : FlyringError("server-gone",
                       "the server" + (name.empty() ? std::string() : " '" + name + "'") + " (pid " +
                           std::to_string(pid) + ") is gone; " +
                           (may_have_run ? "the request may have run: call again only if it does no harm to run twice"
                                         : "no handler was given the request: call again")),
          may_have_run_(may_have_run),
          name_(std::move(name)),
          pid_(pid) {}
    /// False: no handler got the request, and none will get it.
    bool may_have_run() const noexcept { return may_have_run_; }
    /// The server's name; empty if it has none.
    const std::string& name() const noexcept { return name_; }
    std::int32_t pid() const noexcept { return pid_; }

  private:
    bool may_have_run_;
    std::string name_;
    std::int32_t pid_;
};

/// The call's time-out passed before the answer came.
class Expired : public FlyringError {
  public:
    explicit Expired(bool may_have_run)
        : FlyringError("expired",
                       std::string("the call's time is over, and no answer came; ") +
                           (may_have_run ? "the request may have run: call again only if it does no harm to run twice"
                                         : "no handler was given the request: call again, with more time")),
          may_have_run_(may_have_run) {}
    /// False: the server reported that no handler got the request, or the request was never published.
    bool may_have_run() const noexcept { return may_have_run_; }

  private:
    bool may_have_run_;
};

/// The server's handler failed; text() says how.
class ServiceError : public FlyringError {
  public:
    explicit ServiceError(std::string text)
        : FlyringError("service-error", "the server's handler failed: " + text + "; see its log"),
          text_(std::move(text)) {}
    /// UTF-8, at most 1024 bytes.
    const std::string& text() const noexcept { return text_; }

  private:
    std::string text_;
};

/// The file does not begin with the magic of a channel, or is not a regular file.
class NotAChannel : public FlyringError, public detail::WithPath {
  public:
    NotAChannel(std::string path, const std::string& reason)
        : FlyringError("not-a-channel",
                       path + " is not a Flyring " + detail::noun(path) + ": " + reason + "; check the name"),
          WithPath(std::move(path)) {}
};

/// The file needs a newer Flyring. field() is `major` or `required_features`.
class VersionTooNew : public FlyringError, public detail::WithField {
  public:
    VersionTooNew(const std::string& path, std::string field, std::uint64_t found, std::uint64_t supported)
        : FlyringError("version-too-new", detail::noun(path) + " " + path + " has " + field + " " +
                                              std::to_string(found) + ", supported is " + std::to_string(supported) +
                                              "; update Flyring in this process"),
          WithField(std::move(field)),
          found_(found),
          supported_(supported) {}
    std::uint64_t found() const noexcept { return found_; }
    std::uint64_t supported() const noexcept { return supported_; }

  private:
    std::uint64_t found_;
    std::uint64_t supported_;
};

/// The file is shorter than its header says. Both lengths are in bytes.
class Truncated : public FlyringError {
  public:
    Truncated(const std::string& path, std::uint64_t expected, std::uint64_t actual)
        : FlyringError("truncated", detail::noun(path) + " " + path + " is cut off: it has " + std::to_string(actual) +
                                        " of " + std::to_string(expected) + " bytes; create it again"),
          expected_(expected),
          actual_(actual) {}
    std::uint64_t expected() const noexcept { return expected_; }
    std::uint64_t actual() const noexcept { return actual_; }

  private:
    std::uint64_t expected_;
    std::uint64_t actual_;
};

/// A header field breaks a rule of the spec. field() is its name in spec/layout.toml.
class CorruptHeader : public FlyringError, public detail::WithField {
  public:
    CorruptHeader(const std::string& path, std::string field, const std::string& reason)
        : FlyringError("corrupt-header", "the header of " + detail::noun(path) + " " + path + " is corrupt: " + field +
                                             " " + reason + "; remove this " + detail::noun(path) +
                                             " and create it again"),
          WithField(std::move(field)) {}
};

/// A ring breaks a rule of the spec at position() (bytes since the ring's creation). The channel's other rings stay
/// usable.
class CorruptRing : public FlyringError, public detail::WithPosition, public detail::WithReason {
  public:
    CorruptRing(const std::string& path, std::uint32_t ring, std::int64_t position, std::string reason)
        : FlyringError("corrupt-ring", "ring " + std::to_string(ring) + " of channel " + path +
                                           " is corrupt at position " + std::to_string(position) + ": " + reason +
                                           "; replace the channel"),
          WithPosition(ring, position),
          WithReason(std::move(reason)) {}
};

/// A table breaks a rule of the spec. Other cells stay usable.
class CorruptTable : public FlyringError, public detail::WithPath, public detail::WithReason {
  public:
    CorruptTable(std::string path, std::int64_t cell, std::string reason)
        : FlyringError("corrupt-table",
                       (cell < 0 ? std::string("table ") : "cell " + std::to_string(cell) + " of table ") + path +
                           " is corrupt: " + reason +
                           "; run flyring table check, which lists all that is broken, then replace the table"),
          WithPath(std::move(path)),
          WithReason(std::move(reason)),
          cell_(cell) {}
    /// The number of the cell; -1: a word of the control section.
    std::int64_t cell() const noexcept { return cell_; }

  private:
    std::int64_t cell_;
};

/// A journal breaks a rule of the spec at position() (bytes since the journal's creation).
class CorruptJournal : public FlyringError, public detail::WithPath, public detail::WithReason {
  public:
    CorruptJournal(std::string path, std::int64_t position, std::string reason)
        : FlyringError("corrupt-journal", "journal " + path + " is corrupt at position " + std::to_string(position) +
                                              ": " + reason +
                                              "; copy what a reader with skip_damaged can read, and create it again"),
          WithPath(std::move(path)),
          WithReason(std::move(reason)),
          position_(position) {}
    std::int64_t position() const noexcept { return position_; }

  private:
    std::int64_t position_;
};

/// A part of a journal is lost: its bytes are not those that were written, or its file is missing. What lies behind it
/// can be read.
class Damaged : public FlyringError, public detail::WithPath {
  public:
    Damaged(std::string path, std::int64_t from, std::int64_t to, std::int64_t messages)
        : FlyringError("damaged",
                       "journal " + path + " is damaged from position " + std::to_string(from) + " to " +
                           std::to_string(to) + ": " +
                           (messages < 0 ? std::string("it is not known how many") : std::to_string(messages)) +
                           " messages are lost; read on behind them with skip_damaged"),
          WithPath(std::move(path)),
          from_(from),
          to_(to),
          messages_(messages) {}
    /// The position of the first message that is lost.
    std::int64_t from() const noexcept { return from_; }
    /// The position where a reader that skips goes on.
    std::int64_t to() const noexcept { return to_; }
    /// How many messages are lost; -1: not known.
    std::int64_t messages() const noexcept { return messages_; }

  private:
    std::int64_t from_;
    std::int64_t to_;
    std::int64_t messages_;
};

/// The machine stopped, and no writer has mended the table or the journal yet. (A table: before it was closed by a
/// synced close.)
class NeedsRecovery : public FlyringError, public detail::WithPath, public detail::WithReason {
  public:
    /// Of a table.
    NeedsRecovery(std::string path, std::string reason)
        : FlyringError("needs-recovery",
                       "table " + path + " was last changed before a reboot, and not closed with sync: " + reason),
          WithPath(std::move(path)),
          WithReason(std::move(reason)) {}
    /// Of a journal, however it was closed.
    static NeedsRecovery journal(const std::string& path) {
        const std::string reason = "no writer has recovered it yet; take a writer, which recovers it";
        return {"journal " + path + " was written in another boot, and " + reason, path, reason};
    }

  private:
    NeedsRecovery(const std::string& text, std::string path, std::string reason)
        : FlyringError("needs-recovery", text), WithPath(std::move(path)), WithReason(std::move(reason)) {}
};

/// The file system has too little room (both numbers are bytes), or no counter is free (both numbers are counters), or
/// a table is full (both numbers are keys).
class NoSpace : public FlyringError {
  public:
    NoSpace(const std::string& text, std::uint64_t needed, std::uint64_t free)
        : FlyringError("no-space", text), needed_(needed), free_(free) {}
    std::uint64_t needed() const noexcept { return needed_; }
    std::uint64_t free() const noexcept { return free_; }

  private:
    std::uint64_t needed_;
    std::uint64_t free_;
};

/// Channels do not work on this file system: it is not on the allow-list, or its locks failed the self-test.
class UnsuitableFileSystem : public FlyringError, public detail::WithPath, public detail::WithReason {
  public:
    UnsuitableFileSystem(std::string path, std::string reason)
        : FlyringError("file-system", "the file system of " + path + " does not suit: " + reason +
                                          "; use /dev/shm or another local one"),
          WithPath(std::move(path)),
          WithReason(std::move(reason)) {}
};

/// The process lacks the permission, or the folder is not safe to use.
class AccessDenied : public FlyringError, public detail::WithPath, public detail::WithReason {
  public:
    AccessDenied(std::string path, std::string reason)
        : FlyringError("access-denied", "no access to " + path + ": " + reason),
          WithPath(std::move(path)),
          WithReason(std::move(reason)) {}
};

/// The owner of a slot, as NoFreeSlot reports it.
struct SlotOwner {
    std::uint32_t slot;
    /// Empty if the owner has no name.
    std::string name;
    /// The process id in the owner's own pid namespace.
    std::int32_t pid;
};

/// No slot of that kind can be taken: each has a living owner, or is kept for an absent name. Or the slot with the
/// wanted name has an owner.
class NoFreeSlot : public FlyringError {
  public:
    NoFreeSlot(const std::string& path, std::string kind, std::uint32_t slots, std::vector<SlotOwner> owners,
               const std::string& reason)
        : FlyringError("no-free-slot", detail::noun(path) + " " + path + ": " + reason),
          kind_(std::move(kind)),
          slots_(slots),
          owners_(std::move(owners)) {}
    /// "publisher", "subscriber", "writer" of a table or journal, or "consumer" of a journal.
    const std::string& kind() const noexcept { return kind_; }
    /// The number of slots of this kind in the channel.
    std::uint32_t slots() const noexcept { return slots_; }
    /// The owners of the slots that the call could have taken.
    const std::vector<SlotOwner>& owners() const noexcept { return owners_; }

  private:
    std::string kind_;
    std::uint32_t slots_;
    std::vector<SlotOwner> owners_;
};

/// A message is longer than the ring allows. Both numbers are payload bytes.
class MessageTooLarge : public FlyringError {
  public:
    MessageTooLarge(std::uint64_t length, std::uint64_t limit)
        : FlyringError("too-large", "a message of " + std::to_string(length) + " bytes is too large, the limit is " +
                                        std::to_string(limit) + "; create the channel with a larger capacity"),
          length_(length),
          limit_(limit) {}
    /// In a table: of a key or a value (`what`), or of a buffer that is shorter than the value.
    MessageTooLarge(const std::string& what, std::uint64_t length, std::uint64_t limit)
        : FlyringError("too-large", what + " of " + std::to_string(length) + " bytes is too large, the limit is " +
                                        std::to_string(limit)),
          length_(length),
          limit_(limit) {}
    /// In a journal.
    static MessageTooLarge in_journal(std::uint64_t length, std::uint64_t limit) {
        return {length, limit,
                "a message of " + std::to_string(length) + " bytes is too large: this journal takes " +
                    std::to_string(limit) + "; split it, or create the journal with a greater segment_size"};
    }
    std::uint64_t length() const noexcept { return length_; }
    std::uint64_t limit() const noexcept { return limit_; }

  private:
    MessageTooLarge(std::uint64_t length, std::uint64_t limit, const std::string& text)
        : FlyringError("too-large", text), length_(length), limit_(limit) {}

    std::uint64_t length_;
    std::uint64_t limit_;
};

/// A wait reached its time-out.
class TimedOut : public FlyringError {
  public:
    explicit TimedOut(std::string what)
        : FlyringError("timed-out", "waited in vain for " + what + "; wait longer, or see why it does not come"),
          what_for_(std::move(what)) {}
    /// What was waited for.
    const std::string& what_for() const noexcept { return what_for_; }

  private:
    std::string what_for_;
};

/// A call was cancelled. Waits in C++ are never cancelled; a binding on top of this one may throw it for a cancelled
/// wait.
class Cancelled : public FlyringError {
  public:
    explicit Cancelled(std::string what)
        : FlyringError("cancelled", "the wait for " + what + " was cancelled; nothing was done"),
          what_for_(std::move(what)) {}
    /// What was waited for.
    const std::string& what_for() const noexcept { return what_for_; }

  private:
    std::string what_for_;
};

class InvalidArgument : public FlyringError {
  public:
    InvalidArgument(std::string argument, const std::string& reason)
        : FlyringError("invalid-argument", "invalid " + argument + ": " + reason), argument_(std::move(argument)) {}
    const std::string& argument() const noexcept { return argument_; }

  private:
    std::string argument_;
};

/// The object was used after its close, or in a forked child process although the parent opened it.
class Closed : public FlyringError {
  public:
    explicit Closed(const std::string& text) : FlyringError("closed", text) {}
};

/// This object no longer owns its slot: the slot was evicted, retired, or taken by another owner.
class SlotLost : public FlyringError {
  public:
    SlotLost(const std::string& kind, std::uint32_t slot)
        : FlyringError("slot-lost", kind + " slot " + std::to_string(slot) +
                                        " was taken from this process; close this object and make a new one"),
          slot_(slot) {}
    std::uint32_t slot() const noexcept { return slot_; }

  private:
    std::uint32_t slot_;
};

class TwoThreads : public FlyringError {
  public:
    explicit TwoThreads(const std::string& object)
        : FlyringError("two-threads", object +
                                          " is in use by another thread, or by its own handler; give each thread "
                                          "an object of its own") {}
};

/// The call would invalidate memory that is still in use.
class ViewAlive : public FlyringError {
  public:
    explicit ViewAlive(const std::string& text) : FlyringError("view-alive", text) {}
};

/// A typed message does not match its schema (spec/messages.md 1). The message counts as consumed; polling can go on.
class BadMessage : public FlyringError, public detail::WithPosition, public detail::WithReason {
  public:
    BadMessage(std::uint32_t ring, std::int64_t position, std::int32_t type, std::string reason)
        : FlyringError("bad-message", "the message of type " + std::to_string(type) + " at position " +
                                          std::to_string(position) + " of ring " + std::to_string(ring) +
                                          " is bad: " + reason + "; publish and read it with codecs of one schema"),
          WithPosition(ring, position),
          WithReason(std::move(reason)),
          type_(type) {}
    std::int32_t type() const noexcept { return type_; }

  private:
    std::int32_t type_;
};

/// Another channel now has the name of this one; channel_id() is the new channel's id. The error is not sticky: the old
/// channel still works, and the error comes again later.
class ChannelReplaced : public FlyringError, public detail::WithPath {
  public:
    ChannelReplaced(std::string path, const Uuid& channel_id)
        : FlyringError("replaced", detail::noun(path) + " " + path +
                                       " was replaced: another one has its name now; close this one and open that"),
          WithPath(std::move(path)),
          channel_id_(channel_id) {}
    const Uuid& channel_id() const noexcept { return channel_id_; }

  private:
    Uuid channel_id_;
};

/// A system call failed, and no other error class describes the failure.
class IoError : public FlyringError, public detail::WithPath {
  public:
    IoError(std::string call, int error, std::string path)
        : FlyringError("io", call + " failed for " + path + ": " + std::generic_category().message(error)),
          WithPath(std::move(path)),
          call_(std::move(call)),
          error_(error) {}
    const std::string& call() const noexcept { return call_; }
    /// The errno of the system call.
    int error() const noexcept { return error_; }

  private:
    std::string call_;
    int error_;
};

}  // namespace flyring
