// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

// The behaviour of stock Agrona 2.6.0 at the other end of a channel: its OneToOneRingBuffer, in C++. It treats the
// channel's file only as a ring buffer of C + 768 bytes at rings_offset. It uses Agrona's numbers and nothing of
// Flyring.

namespace agrona {

class RingBuffer {
  public:
    /// Maps the file of a channel.
    explicit RingBuffer(const std::string& path);
    RingBuffer(const RingBuffer&) = delete;
    RingBuffer& operator=(const RingBuffer&) = delete;
    ~RingBuffer();

    static constexpr std::int32_t no_room = -2;  // INSUFFICIENT_CAPACITY

    /// Returns false if there is no room.
    bool write(std::int32_t type, const std::string& message);
    /// Returns the index at which the payload goes, or no_room.
    std::int32_t try_claim(std::int32_t type, std::int32_t length);
    void commit(std::int32_t index);
    void abort(std::int32_t index);
    std::byte* at(std::int32_t index) { return data_ + index; }

    using Handler = std::function<void(std::int32_t type, const std::string& message)>;
    /// Reads up to the ring's end; another call continues there. Returns the number of messages.
    int read(const Handler& handler, int limit = INT32_MAX);
    /// Reads until there is nothing. Returns all messages, each followed by a space.
    std::string read_all();

    std::int32_t capacity() const { return capacity_; }
    std::int32_t max_length() const { return capacity_ / 8; }
    std::int64_t tail() const { return position(128); }
    std::int64_t head_cache() const { return position(256); }
    std::int64_t head() const { return position(384); }
    void set_head(std::int64_t head);
    std::int32_t length_at(std::int64_t position) const;
    std::int32_t type_at(std::int64_t position) const;

  private:
    std::int64_t position(std::int64_t offset) const;
    void put_position(std::int64_t offset, std::int64_t position);
    void put_length(std::int32_t index, std::int32_t length);
    void put_type(std::int32_t index, std::int32_t type);
    void zero_header(std::int32_t index);
    std::int32_t claim_capacity(std::int32_t length);
    std::int32_t claimed_length(std::int32_t index) const;

    std::size_t file_length_ = 0;
    std::byte* file_ = nullptr;
    std::byte* data_ = nullptr;
    std::int32_t capacity_ = 0;
};

}  // namespace agrona
