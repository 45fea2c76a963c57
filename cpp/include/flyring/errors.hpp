// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "flyring/options.hpp"

// The errors of spec/api.md, one class for each code. Every text says what was wrong, where, and what to do.

namespace flyring {

/// The base of all errors that Flyring throws. code() is stable and alike in every language.
class FlyringError : public std::runtime_error {
  public:
    std::string_view code() const noexcept { return code_; }

  protected:
    FlyringError(std::string_view code, const std::string& text) : std::runtime_error(text), code_(code) {}

  private:
    std::string_view code_;  // always a literal
};

/// create: there is a file of that name.
class ChannelExists : public FlyringError {
  public:
    explicit ChannelExists(std::string path)
        : FlyringError("exists", "channel " + path + " exists; open it, or use open_or_create or replace"),
          path_(std::move(path)) {}
    const std::string& path() const noexcept { return path_; }

  private:
    std::string path_;
};

/// open, unlink: there is no file of that name.
class NoSuchChannel : public FlyringError {
  public:
    explicit NoSuchChannel(std::string path)
        : FlyringError("no-such-channel",
                       "there is no channel " + path +
                           "; create it first, and check that FLYRING_DIR and the user are the same"),
          path_(std::move(path)) {}
    const std::string& path() const noexcept { return path_; }

  private:
    std::string path_;
};

/// open_or_create, open with a schema: the channel is not what was asked for; field() is the first that differs.
class ChannelDiffers : public FlyringError {
  public:
    ChannelDiffers(const std::string& path, std::string field, std::string expected, std::string actual)
        : FlyringError("differs", "channel " + path + " has " + field + " " + actual + ", asked for was " + expected +
                                      "; ask for what it has, or replace it"),
          field_(std::move(field)),
          expected_(std::move(expected)),
          actual_(std::move(actual)) {}
    const std::string& field() const noexcept { return field_; }
    const std::string& expected() const noexcept { return expected_; }
    const std::string& actual() const noexcept { return actual_; }

  private:
    std::string field_;
    std::string expected_;
    std::string actual_;
};

/// The file has not the magic of a channel, or is no regular file.
class NotAChannel : public FlyringError {
  public:
    NotAChannel(std::string path, const std::string& reason)
        : FlyringError("not-a-channel", path + " is not a Flyring channel: " + reason + "; check the name"),
          path_(std::move(path)) {}
    const std::string& path() const noexcept { return path_; }

  private:
    std::string path_;
};

/// The file needs a newer Flyring: field() is `major` or `required_features`.
class VersionTooNew : public FlyringError {
  public:
    VersionTooNew(const std::string& path, std::string field, std::uint64_t found, std::uint64_t supported)
        : FlyringError("version-too-new", "channel " + path + " has " + field + " " + std::to_string(found) +
                                              ", supported is " + std::to_string(supported) +
                                              "; update Flyring in this process"),
          field_(std::move(field)),
          found_(found),
          supported_(supported) {}
    const std::string& field() const noexcept { return field_; }
    std::uint64_t found() const noexcept { return found_; }
    std::uint64_t supported() const noexcept { return supported_; }

  private:
    std::string field_;
    std::uint64_t found_;
    std::uint64_t supported_;
};

/// The file is shorter than its header says. Both lengths are bytes.
class Truncated : public FlyringError {
  public:
    Truncated(const std::string& path, std::uint64_t expected, std::uint64_t actual)
        : FlyringError("truncated", "channel " + path + " is cut off: it has " + std::to_string(actual) + " of " +
                                        std::to_string(expected) + " bytes; create it anew"),
          expected_(expected),
          actual_(actual) {}
    std::uint64_t expected() const noexcept { return expected_; }
    std::uint64_t actual() const noexcept { return actual_; }

  private:
    std::uint64_t expected_;
    std::uint64_t actual_;
};

/// A header field breaks a rule of the spec; field() has the name in spec/layout.toml.
class CorruptHeader : public FlyringError {
  public:
    CorruptHeader(const std::string& path, std::string field, const std::string& reason)
        : FlyringError("corrupt-header", "the header of channel " + path + " is corrupt: " + field + " " + reason +
                                             "; create the channel anew"),
          field_(std::move(field)) {}
    const std::string& field() const noexcept { return field_; }

  private:
    std::string field_;
};

/// A ring breaks a rule of the spec at position() (bytes since the ring's start). The other rings go on.
class CorruptRing : public FlyringError {
  public:
    CorruptRing(const std::string& path, std::uint32_t ring, std::int64_t position, std::string reason)
        : FlyringError("corrupt-ring", "ring " + std::to_string(ring) + " of channel " + path +
                                           " is corrupt at position " + std::to_string(position) + ": " + reason +
                                           "; replace the channel"),
          ring_(ring),
          position_(position),
          reason_(std::move(reason)) {}
    std::uint32_t ring() const noexcept { return ring_; }
    std::int64_t position() const noexcept { return position_; }
    const std::string& reason() const noexcept { return reason_; }

  private:
    std::uint32_t ring_;
    std::int64_t position_;
    std::string reason_;
};

/// The file system has too little room (bytes), or all counters are taken (counters).
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
class UnsuitableFileSystem : public FlyringError {
  public:
    UnsuitableFileSystem(std::string path, std::string reason)
        : FlyringError("file-system", "the file system of " + path + " does not suit: " + reason +
                                          "; use /dev/shm or another local one"),
          path_(std::move(path)),
          reason_(std::move(reason)) {}
    const std::string& path() const noexcept { return path_; }
    const std::string& reason() const noexcept { return reason_; }

  private:
    std::string path_;
    std::string reason_;
};

/// No permission, or the folder is not safe to use.
class AccessDenied : public FlyringError {
  public:
    AccessDenied(std::string path, std::string reason)
        : FlyringError("access-denied", "no access to " + path + ": " + reason),
          path_(std::move(path)),
          reason_(std::move(reason)) {}
    const std::string& path() const noexcept { return path_; }
    const std::string& reason() const noexcept { return reason_; }

  private:
    std::string path_;
    std::string reason_;
};

/// Every slot of that kind has a living owner.
class NoFreeSlot : public FlyringError {
  public:
    NoFreeSlot(const std::string& path, std::string kind, std::uint32_t slots, const std::string& detail)
        : FlyringError("no-free-slot", "channel " + path + " has no free " + kind + " slot (of " +
                                           std::to_string(slots) + ")" + detail +
                                           "; close one, or create the channel with more"),
          kind_(std::move(kind)),
          slots_(slots) {}
    /// "publisher" or "subscriber".
    const std::string& kind() const noexcept { return kind_; }
    std::uint32_t slots() const noexcept { return slots_; }

  private:
    std::string kind_;
    std::uint32_t slots_;
};

/// A message is longer than the ring takes. Both are payload bytes.
class MessageTooLarge : public FlyringError {
  public:
    MessageTooLarge(std::uint64_t length, std::uint64_t limit)
        : FlyringError("too-large", "a message of " + std::to_string(length) + " bytes is too large, the limit is " +
                                        std::to_string(limit) + "; create the channel with a larger capacity"),
          length_(length),
          limit_(limit) {}
    std::uint64_t length() const noexcept { return length_; }
    std::uint64_t limit() const noexcept { return limit_; }

  private:
    std::uint64_t length_;
    std::uint64_t limit_;
};

class InvalidArgument : public FlyringError {
  public:
    InvalidArgument(std::string argument, const std::string& reason)
        : FlyringError("invalid-argument", "invalid " + argument + ": " + reason), argument_(std::move(argument)) {}
    const std::string& argument() const noexcept { return argument_; }

  private:
    std::string argument_;
};

/// Use after close, or in a child process after fork of what the parent had opened.
class Closed : public FlyringError {
  public:
    explicit Closed(const std::string& text) : FlyringError("closed", text) {}
};

/// Somebody took or gave up our slot: it is no longer ours.
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

/// Something would make memory invalid that is still in use.
class ViewAlive : public FlyringError {
  public:
    explicit ViewAlive(const std::string& text) : FlyringError("view-alive", text) {}
};

/// A typed message is not what its schema says (spec/messages.md 1). It was consumed; polling goes on.
class BadMessage : public FlyringError {
  public:
    BadMessage(std::uint32_t ring, std::int64_t position, std::int32_t type, std::string reason)
        : FlyringError("bad-message", "the message of type " + std::to_string(type) + " at position " +
                                          std::to_string(position) + " of ring " + std::to_string(ring) +
                                          " is bad: " + reason + "; publish and read it with codecs of one schema"),
          ring_(ring),
          position_(position),
          type_(type),
          reason_(std::move(reason)) {}
    std::uint32_t ring() const noexcept { return ring_; }
    /// Where its record starts, in bytes since the ring's start.
    std::int64_t position() const noexcept { return position_; }
    std::int32_t type() const noexcept { return type_; }
    const std::string& reason() const noexcept { return reason_; }

  private:
    std::uint32_t ring_;
    std::int64_t position_;
    std::int32_t type_;
    std::string reason_;
};

/// Another channel has taken the name of the one in use; channel_id() is its. Not sticky: the old one goes on working
/// for who has it, and the error comes again later.
class ChannelReplaced : public FlyringError {
  public:
    ChannelReplaced(std::string path, const Uuid& channel_id)
        : FlyringError("replaced",
                       "channel " + path + " was replaced: another one has its name now; close this one and open that"),
          path_(std::move(path)),
          channel_id_(channel_id) {}
    const std::string& path() const noexcept { return path_; }
    const Uuid& channel_id() const noexcept { return channel_id_; }

  private:
    std::string path_;
    Uuid channel_id_;
};

/// A system call failed in a way that has no error of its own.
class IoError : public FlyringError {
  public:
    IoError(std::string call, int error, std::string path)
        : FlyringError("io", call + " failed for " + path + ": " + std::generic_category().message(error)),
          call_(std::move(call)),
          error_(error),
          path_(std::move(path)) {}
    const std::string& call() const noexcept { return call_; }
    /// The errno of the call.
    int error() const noexcept { return error_; }
    const std::string& path() const noexcept { return path_; }

  private:
    std::string call_;
    int error_;
    std::string path_;
};

namespace detail {

/// Throws what `error`, the errno of `call` on `path`, means: access denied or an I/O error.
[[noreturn, gnu::cold]] inline void throw_errno(const char* call, const std::string& path, int error = errno) {
    if (error == EACCES || error == EPERM) {
        throw AccessDenied(path, std::string(call) + ": " + std::generic_category().message(error) +
                                     "; check owner and mode, and who runs this process");
    }
    throw IoError(call, error, path);
}

}  // namespace detail
}  // namespace flyring
