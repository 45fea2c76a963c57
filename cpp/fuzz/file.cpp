// SPDX-License-Identifier: Apache-2.0
#include "file.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../stress/private_folder.hpp"

namespace fuzz {

using namespace flyring;

static constexpr std::size_t largest = std::size_t{1} << 20;

[[noreturn]] static void stop(const char* what) {
    std::perror(what);
    std::abort();
}

File::File() : folder_(private_folder::make("flyring-fuzz")) {
    if (folder_.empty()) stop("mkdtemp");
    path_ = folder_ + "/c.ring";
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) stop("open");
    // A bare system call, because mmap is wrapped for the library (guarded_map.cpp).
    const long address = ::syscall(SYS_mmap, nullptr, largest, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (address == -1) stop("mmap");
    data_ = reinterpret_cast<std::byte*>(address);

    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(FLYRING_SPEC_DIR "/golden")) {
        if (entry.path().extension() == ".ring") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
        std::ifstream stream(path, std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
        const auto* first = reinterpret_cast<const std::byte*>(text.data());
        goldens_.emplace_back(first, first + text.size());
    }
    if (goldens_.empty()) stop("no golden files in " FLYRING_SPEC_DIR "/golden");
}

File::~File() {
    std::filesystem::remove_all(folder_);
}

void File::resize(std::size_t size) {
    size_ = std::min(size, largest);
    if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0) stop("ftruncate");
}

void File::load(const std::uint8_t* bytes, std::size_t size) {
    resize(size);
    if (size_ != 0) std::memcpy(data_, bytes, size_);
    note_shape();
}

void File::load_golden(std::size_t index) {
    const auto& golden = goldens_[index % goldens_.size()];
    load(reinterpret_cast<const std::uint8_t*>(golden.data()), golden.size());
}

void File::note_shape() {
    shape_ = {};
    try {
        shape_ = detail::HeaderReader(data_, std::min<std::size_t>(size_, 4096), size_, path_).read();
    } catch (const FlyringError&) {
        // Not a channel: pokes then go anywhere.
    }
}

void File::mend_crc() {
    if (size_ < layout::HEADER_LENGTH) return;
    detail::put(data_ + layout::HEADER_CRC, detail::crc32c(data_, layout::HEADER_CRC_LENGTH));
}

detail::Ring File::ring(std::uint32_t index) const noexcept {
    return {data_ + shape_.rings_offset() + index * shape_.ring_stride(), shape_.capacity, shape_.alignment, index};
}

File::Place File::place(Input& input) const {
    const auto anywhere = [&]() -> Place { return {input.below(static_cast<std::uint32_t>(size_)), 8}; };
    if (shape_.capacity == 0) return anywhere();
    const std::uint32_t slots = shape_.publishers + shape_.subscribers;
    const detail::Ring ring = this->ring(input.below(shape_.publishers));
    const auto in_file = [&](const void* word) {
        return static_cast<std::uint64_t>(static_cast<const std::byte*>(word) - data_);
    };
    switch (input.below(8)) {
        case 0:
            return {input.below(22) * 8, 8};  // one header field, or two
        case 1: {
            constexpr Place fields[] = {{layout::SUBSCRIBER_SLOT_EPOCH, 8},       {layout::SUBSCRIBER_SLOT_EVICTING, 4},
                                        {layout::PUBLISHER_SLOT_START, 8},        {layout::SUBSCRIBER_SLOT_KEPT, 4},
                                        {layout::SUBSCRIBER_SLOT_NAME_LENGTH, 4}, {layout::SUBSCRIBER_SLOT_NAME, 1}};
            const Place field = fields[input.below(6)];
            return {shape_.control_offset() + layout::CONTROL_SLOTS + layout::CONTROL_SLOT_LENGTH * input.below(slots) +
                        field.offset,
                    field.size};
        }
        case 2: {
            const std::int64_t eighth = input.below(8);
            std::int64_t* const words[] = {ring.claimed(),       ring.published(),      ring.messages_begun(),
                                           ring.messages_done(), ring.boundary(eighth), ring.boundary_count(eighth)};
            return {in_file(words[input.below(6)]), 8};
        }
        case 3: {  // a gate, or what stands beside it
            constexpr Place beside[] = {{0, 8},
                                        {0, 8},
                                        {layout::GATE_COUNT, 8},
                                        {layout::GATE_TAKEN_END, 8},
                                        {layout::GATE_ATTEMPTS, 4},
                                        {layout::GATE_OUTSTANDING, 4},
                                        {layout::GATE_EXPIRED, 8}};
            const Place word = beside[input.below(7)];
            const std::uint32_t gate = input.below(shape_.kind == Kind::service ? 1 : shape_.subscribers);
            return {in_file(ring.gate(gate)) + word.offset, word.size};
        }
        case 4: {  // a record's length or type, or a word of a prefix, at a position that means something
            const std::int64_t from[] = {*ring.published(), *ring.claimed(), *ring.gate(0), 0};
            const auto position =
                static_cast<std::int64_t>(static_cast<std::uint64_t>(from[input.below(4)]) +
                                          ring.alignment() * input.below(input.below(2) == 0 ? 3 : 256));
            return {in_file(ring.record(position)) + 4 * input.below(shape_.kind == Kind::service ? 8 : 2), 4};
        }
        case 5: {
            constexpr Place fields[] = {{layout::COUNTER_METADATA_STATE, 4},
                                        {layout::COUNTER_METADATA_LABEL_LENGTH, 4},
                                        {layout::COUNTER_METADATA_FREE_FOR_REUSE, 8}};
            const Place field = fields[input.below(3)];
            return {shape_.counter_metadata_offset() +
                        layout::COUNTER_METADATA_STRIDE * input.below(input.below(2) == 0 ? 2 : shape_.counters) +
                        field.offset,
                    field.size};
        }
        case 6: {
            constexpr Place words[] = {{layout::CONTROL_HANDOVERS, 8},
                                       {layout::CONTROL_JOBS_SEQUENCE, 4},
                                       {layout::CONTROL_JOBS_ASLEEP, 4},
                                       {layout::CONTROL_SUCCESSOR, 4},
                                       {layout::CONTROL_SERVING, 8}};
            const Place word = words[input.below(5)];
            return {shape_.control_offset() + word.offset, word.size};
        }
        default:
            return anywhere();
    }
}

std::int64_t File::value(Input& input, std::int64_t now) const {
    const auto capacity = static_cast<std::int64_t>(shape_.capacity);
    const std::int64_t known[] = {-1,
                                  0,
                                  1,
                                  2,
                                  7,
                                  8,
                                  9,
                                  63,
                                  64,
                                  65,
                                  380,
                                  381,
                                  INT32_MAX,
                                  INT32_MIN,
                                  capacity,
                                  capacity - 8,
                                  capacity / 4,
                                  capacity + 1,
                                  INT64_MAX,
                                  INT64_MIN,
                                  std::int64_t{1} << 62,
                                  (std::int64_t{1} << 62) - 64,
                                  -2,
                                  -3};
    const auto moved = [&](std::int64_t by) {
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(now) + static_cast<std::uint64_t>(by));
    };
    switch (input.below(7)) {
        case 6: {  // a position below gate[0] or `published`: perhaps that of a taken job
            if (shape_.capacity == 0) return 0;
            const detail::Ring ring = this->ring(input.below(shape_.publishers));
            const std::int64_t from = input.below(2) == 0 ? *ring.gate(0) : *ring.published();
            return static_cast<std::int64_t>(static_cast<std::uint64_t>(from) - ring.alignment() * input.below(64));
        }
        case 0:
            return input.next<std::int64_t>();
        case 1:
            return input.next<std::int8_t>();
        case 2:
            return moved(std::int64_t{input.next<std::int8_t>()} * shape_.alignment);
        case 3:
            return moved(std::int64_t{input.next<std::int8_t>()} * capacity);
        case 4:
            return std::int64_t{input.next<std::uint16_t>()};
        default:
            return known[input.below(static_cast<std::uint32_t>(std::size(known)))];
    }
}

void File::pad_for_ever(std::uint32_t index) {
    const detail::Ring ring = this->ring(index);
    const std::int64_t published = *ring.published();
    for (const std::int64_t at : {published & -std::int64_t{ring.alignment()}, std::int64_t{0}}) {
        *ring.length_at(at) = static_cast<std::int32_t>(ring.capacity() - (at & ring.mask()));
        *ring.type_at(at) = layout::TYPE_PADDING;
    }
}

void File::poke_unread(Input& input) {
    ++pokes_;
    const detail::Ring ring = this->ring(input.below(shape_.publishers));
    const auto past = static_cast<std::uint64_t>(ring.alignment()) * input.below(4);
    std::byte* const at = ring.record(static_cast<std::int64_t>(static_cast<std::uint64_t>(*ring.gate(0)) + past));
    std::int32_t now = 0;
    std::byte* const word = at + 4 * input.below(8);
    std::memcpy(&now, word, sizeof now);
    const std::int64_t written = value(input, now);
    std::memcpy(word, &written, sizeof now);
}

void File::poke(Input& input) {
    ++pokes_;
    if (size_ < 16) return;
    if (shape_.capacity != 0 && input.below(16) == 1) return pad_for_ever(input.below(shape_.publishers));
    Place place = this->place(input);
    place.offset = std::min<std::uint64_t>(place.offset, size_ - 8);
    std::int64_t now = 0;
    std::memcpy(&now, data_ + place.offset, place.size);
    const std::int64_t written = value(input, now);
    std::memcpy(data_ + place.offset, &written, place.size);
}

}  // namespace fuzz
