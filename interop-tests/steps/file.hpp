// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace steps {

using Bytes = std::vector<std::byte>;
using Counts = std::array<std::int64_t, 2>;  // of messages, by ring

/// Something in the channel is not as it must be; any other exception is about the test itself.
struct Wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Whether a path is that of a journal.
bool is_folder(const std::string& path);
/// Of a journal's folder: all its files, one after another, each behind its name and length.
Bytes read_file(const std::string& path);
/// The paths of a folder's files, in the order of their names.
std::vector<std::string> paths_in(const std::string& folder);
/// What lies before each file in the bytes of a folder: its name and its length.
inline constexpr std::size_t file_head = 64;
/// The files in the bytes of a folder.
std::map<std::string, Bytes> files_in(const Bytes& folder);
/// Writes a new file; a process that has the old one mapped keeps that.
void write_file(const std::string& path, const Bytes& bytes);

/// The bytes of a channel's file, read by the tables of spec/channel.md section 4 and nothing else.
class Image {
  public:
    explicit Image(const Bytes& bytes);

    template <typename T>
    T get(std::uint64_t offset) const {
        return *reinterpret_cast<const T*>(&bytes_.at(offset));
    }
    std::int64_t trailer(std::uint32_t ring, std::uint64_t word) const;
    std::int64_t gate(std::uint32_t ring, std::uint32_t slot) const;
    /// Beside a gate of a queue: GATE_TAKEN_END, GATE_ATTEMPTS (spec/queue.md 2).
    std::int64_t taken_end(std::uint32_t ring, std::uint32_t slot) const;
    std::int32_t attempts(std::uint32_t ring, std::uint32_t slot) const;
    /// Where a record lies in the file.
    std::uint64_t record(std::uint32_t ring, std::int64_t position) const;
    std::int64_t capacity() const { return capacity_; }
    std::int64_t align(std::int64_t length) const { return (length + alignment_ - 1) & -alignment_; }
    std::uint64_t publisher_slot(std::uint32_t slot) const;
    std::uint64_t subscriber_slot(std::uint32_t slot) const;
    /// Empty if there is none, or its owner died while it wrote it.
    std::string name(std::uint64_t slot) const;
    /// Whether a kept slot of this name is to be resumed: 5.3, step 4.
    bool waits_for(const std::string& name) const;
    /// How many of so many committed messages, by ring, lie before `published`.
    Counts published(Counts committed) const;
    std::uint32_t publishers() const { return publishers_; }
    std::uint32_t subscribers() const { return subscribers_; }

    struct Walk {
        std::int64_t messages;
        std::int64_t end;
    };
    /// Goes from one committed record to the next, until there is none or `until` is reached. Throws Wrong if a record
    /// cannot be right.
    Walk walk(std::uint32_t ring, std::int64_t from, std::int64_t until = INT64_MAX) const;
    /// Throws Wrong unless the words of a ring whose owner is between two operations are right (4.7, 6.1 step 8, 6.8).
    /// `recovered`: the ring was recovered, and no publisher has published since.
    void check_ring(std::uint32_t ring, std::int64_t messages, bool recovered) const;

  private:
    std::uint64_t gate_at(std::uint32_t ring, std::uint32_t slot) const;

    const Bytes& bytes_;
    std::int64_t capacity_;
    std::int64_t alignment_;
    std::uint32_t publishers_;
    std::uint32_t subscribers_;
    std::uint64_t rings_;
    std::uint64_t stride_;
};

}  // namespace steps
