// SPDX-License-Identifier: Apache-2.0
#include "agrona.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

// A line-by-line port of Agrona's OneToOneRingBuffer.java, with the same memory orderings.

namespace agrona {

namespace {

constexpr std::int32_t header_length = 8;
constexpr std::int32_t padding_type = -1;
constexpr std::int64_t tail_offset = 128;
constexpr std::int64_t head_cache_offset = 256;
constexpr std::int64_t head_offset = 384;

std::int32_t align(std::int32_t length) {
    return (length + 7) & -8;
}

template <typename T>
T* word(std::byte* at) {
    return reinterpret_cast<T*>(at);
}

}  // namespace

RingBuffer::RingBuffer(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status{};
    if (fd < 0 || ::fstat(fd, &status) != 0) throw std::runtime_error("cannot open " + path);
    file_length_ = static_cast<std::size_t>(status.st_size);
    void* mapped = ::mmap(nullptr, file_length_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (mapped == MAP_FAILED) throw std::runtime_error("cannot map " + path);
    file_ = static_cast<std::byte*>(mapped);
    capacity_ = *word<std::int32_t>(file_ + 72);
    data_ = file_ + *word<std::int64_t>(file_ + 136);
}

RingBuffer::~RingBuffer() {
    ::munmap(file_, file_length_);
}

std::int64_t RingBuffer::position(std::int64_t offset) const {
    return __atomic_load_n(word<std::int64_t>(data_ + capacity_ + offset), __ATOMIC_ACQUIRE);
}
void RingBuffer::put_position(std::int64_t offset, std::int64_t position) {
    __atomic_store_n(word<std::int64_t>(data_ + capacity_ + offset), position, __ATOMIC_RELEASE);
}
void RingBuffer::set_head(std::int64_t head) {
    put_position(head_offset, head);
}
std::int32_t RingBuffer::length_at(std::int64_t position) const {
    return __atomic_load_n(word<std::int32_t>(data_ + (position & (capacity_ - 1))), __ATOMIC_ACQUIRE);
}
std::int32_t RingBuffer::type_at(std::int64_t position) const {
    return __atomic_load_n(word<std::int32_t>(data_ + (position & (capacity_ - 1)) + 4), __ATOMIC_RELAXED);
}
void RingBuffer::put_length(std::int32_t index, std::int32_t length) {
    __atomic_store_n(word<std::int32_t>(data_ + index), length, __ATOMIC_RELEASE);
}
void RingBuffer::put_type(std::int32_t index, std::int32_t type) {
    __atomic_store_n(word<std::int32_t>(data_ + index + 4), type, __ATOMIC_RELAXED);
}
void RingBuffer::zero_header(std::int32_t index) {
    __atomic_store_n(word<std::int64_t>(data_ + index), 0, __ATOMIC_RELAXED);
}

std::int32_t RingBuffer::claim_capacity(std::int32_t length) {
    const std::int32_t aligned = align(length);
    const std::int32_t required = aligned + header_length;
    const std::int32_t mask = capacity_ - 1;
    std::int64_t head = position(head_cache_offset);
    const std::int64_t tail = position(tail_offset);
    // In 32 bits, as Agrona does: an old head cache makes this difference overflow after 2 GiB.
    if (required > capacity_ - static_cast<std::int32_t>(tail - head)) {
        head = position(head_offset);
        if (required > capacity_ - static_cast<std::int32_t>(tail - head)) return no_room;
        put_position(head_cache_offset, head);
    }
    std::int32_t padding = 0;
    const std::int32_t record = static_cast<std::int32_t>(tail) & mask;
    const std::int32_t to_end = capacity_ - record;
    std::int32_t index = record;
    std::int64_t next_tail = tail + aligned;
    if (aligned == to_end) {
        put_position(tail_offset, next_tail);
        zero_header(0);
        return record;
    }
    if (required > to_end) {
        index = 0;
        std::int32_t head_index = static_cast<std::int32_t>(head) & mask;
        if (required > head_index) {
            head = position(head_offset);
            head_index = static_cast<std::int32_t>(head) & mask;
            if (required > head_index) {
                index = no_room;
                next_tail = tail;
            }
            put_position(head_cache_offset, head);
        }
        padding = to_end;
        next_tail += padding;
    }
    put_position(tail_offset, next_tail);
    if (padding != 0) {
        zero_header(0);
        put_length(record, -padding);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        put_type(record, padding_type);
        put_length(record, padding);
    }
    if (index != no_room) zero_header(index + aligned);
    return index;
}

std::int32_t RingBuffer::try_claim(std::int32_t type, std::int32_t length) {
    if (type < 1 || length < 0 || length > max_length()) throw std::invalid_argument("type or length");
    const std::int32_t record = claim_capacity(length + header_length);
    if (record == no_room) return no_room;
    put_length(record, -(length + header_length));
    __atomic_thread_fence(__ATOMIC_RELEASE);
    put_type(record, type);
    return record + header_length;
}

std::int32_t RingBuffer::claimed_length(std::int32_t index) const {
    const std::int32_t length = length_at(index - header_length);
    if (length >= 0) throw std::logic_error("claimed space previously aborted or committed");
    return length;
}

void RingBuffer::commit(std::int32_t index) {
    put_length(index - header_length, -claimed_length(index));
}

void RingBuffer::abort(std::int32_t index) {
    const std::int32_t length = claimed_length(index);
    put_type(index - header_length, padding_type);
    put_length(index - header_length, -length);
}

bool RingBuffer::write(std::int32_t type, const std::string& message) {
    const std::int32_t index = try_claim(type, static_cast<std::int32_t>(message.size()));
    if (index == no_room) return false;
    std::memcpy(at(index), message.data(), message.size());
    commit(index);
    return true;
}

int RingBuffer::read(const Handler& handler, int limit) {
    const std::int64_t head = position(head_offset);
    const std::int32_t first = static_cast<std::int32_t>(head) & (capacity_ - 1);
    std::int32_t done = 0;
    int messages = 0;
    while (done < capacity_ - first && messages < limit) {
        const std::int32_t record = first + done;
        const std::int32_t length = length_at(record);
        if (length <= 0) break;
        done += align(length);
        const std::int32_t type = type_at(record);
        if (type == padding_type) continue;
        handler(type, std::string(reinterpret_cast<const char*>(data_ + record + header_length),
                                  static_cast<std::size_t>(length - header_length)));
        ++messages;
    }
    if (done > 0) put_position(head_offset, head + done);
    return messages;
}

std::string RingBuffer::read_all() {
    std::string seen;
    std::int64_t before = -1;
    while (before != head()) {
        before = head();
        read([&](std::int32_t, const std::string& message) { seen += message + " "; });
    }
    return seen;
}

}  // namespace agrona
