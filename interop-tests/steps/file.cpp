// SPDX-License-Identifier: Apache-2.0
#include "file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <flyring/detail/layout.hpp>
#include <fstream>
#include <stdexcept>

namespace steps {

namespace layout = flyring::layout;

namespace {

Bytes read_one(const std::string& path) {
    std::ifstream stream(path, std::ios::binary | std::ios::ate);
    Bytes bytes(static_cast<std::size_t>(stream.tellg()));
    stream.seekg(0);
    if (!stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
        throw std::runtime_error("cannot read " + path);
    }
    return bytes;
}

void write_one(const std::string& path, const std::byte* bytes, std::size_t length) {
    ::unlink(path.c_str());
    std::ofstream stream(path, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(length));
    if (!stream.flush()) throw std::runtime_error("cannot write " + path);
}

constexpr std::size_t name_length = file_head - sizeof(std::uint64_t);

Bytes read_folder(const std::string& folder) {
    Bytes all;
    for (const std::string& path : paths_in(folder)) {
        const std::string name = std::filesystem::path(path).filename();
        const Bytes one = read_one(path);
        const std::uint64_t length = one.size();
        Bytes head(file_head);
        std::memcpy(head.data(), name.data(), std::min(name.size(), name_length));
        std::memcpy(head.data() + name_length, &length, sizeof length);
        all.insert(all.end(), head.begin(), head.end());
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

void write_folder(const std::string& path, const Bytes& bytes) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
    for (const auto& [name, file] : files_in(bytes)) write_one(path + "/" + name, file.data(), file.size());
}

}  // namespace

bool is_folder(const std::string& path) {
    return std::filesystem::path(path).extension() == ".journal";
}

std::vector<std::string> paths_in(const std::string& folder) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::map<std::string, Bytes> files_in(const Bytes& folder) {
    std::map<std::string, Bytes> files;
    for (std::size_t at = 0; at < folder.size();) {
        char name[name_length + 1]{};
        std::uint64_t length = 0;
        std::memcpy(name, &folder.at(at), name_length);
        std::memcpy(&length, &folder.at(at + name_length), sizeof length);
        const auto begin = folder.begin() + static_cast<std::ptrdiff_t>(at + file_head);
        files[name] = Bytes(begin, begin + static_cast<std::ptrdiff_t>(length));
        at += file_head + length;
    }
    return files;
}

Bytes read_file(const std::string& path) {
    return is_folder(path) ? read_folder(path) : read_one(path);
}

void write_file(const std::string& path, const Bytes& bytes) {
    if (is_folder(path)) return write_folder(path, bytes);
    write_one(path, bytes.data(), bytes.size());
}

Image::Image(const Bytes& bytes)
    : bytes_(bytes),
      capacity_(get<std::int32_t>(layout::HEADER_CAPACITY)),
      alignment_(get<std::int32_t>(layout::HEADER_ALIGNMENT)),
      publishers_(get<std::uint32_t>(layout::HEADER_PUBLISHERS)),
      subscribers_(get<std::uint32_t>(layout::HEADER_SUBSCRIBERS)),
      rings_(get<std::uint64_t>(layout::HEADER_RINGS_OFFSET)),
      stride_(get<std::uint64_t>(layout::HEADER_RING_STRIDE)) {}

std::int64_t Image::trailer(std::uint32_t ring, std::uint64_t word) const {
    return get<std::int64_t>(rings_ + ring * stride_ + static_cast<std::uint64_t>(capacity_) + word);
}

std::uint64_t Image::record(std::uint32_t ring, std::int64_t position) const {
    return rings_ + ring * stride_ + static_cast<std::uint64_t>(position & (capacity_ - 1));
}

std::uint64_t Image::gate_at(std::uint32_t ring, std::uint32_t slot) const {
    const std::uint64_t word =
        slot == 0 ? layout::TRAILER_GATE : layout::TRAILER_MORE_GATES + (slot - 1) * layout::TRAILER_GATE_STRIDE;
    return rings_ + ring * stride_ + static_cast<std::uint64_t>(capacity_) + word;
}

std::int64_t Image::gate(std::uint32_t ring, std::uint32_t slot) const {
    return get<std::int64_t>(gate_at(ring, slot));
}

std::int64_t Image::taken_end(std::uint32_t ring, std::uint32_t slot) const {
    return get<std::int64_t>(gate_at(ring, slot) + layout::GATE_TAKEN_END);
}

std::int32_t Image::attempts(std::uint32_t ring, std::uint32_t slot) const {
    return get<std::int32_t>(gate_at(ring, slot) + layout::GATE_ATTEMPTS);
}

std::uint64_t Image::publisher_slot(std::uint32_t slot) const {
    return layout::HEADER_LENGTH + layout::CONTROL_SLOTS + layout::CONTROL_SLOT_LENGTH * slot;
}

std::uint64_t Image::subscriber_slot(std::uint32_t slot) const {
    return publisher_slot(publishers_ + slot);
}

std::string Image::name(std::uint64_t slot) const {
    const auto length = get<std::int32_t>(slot + layout::PUBLISHER_SLOT_NAME_LENGTH);
    if (length < 0 || length > 64) return {};
    return {reinterpret_cast<const char*>(&bytes_.at(slot + layout::PUBLISHER_SLOT_NAME)),
            static_cast<std::size_t>(length)};
}

bool Image::waits_for(const std::string& wanted) const {
    for (std::uint32_t slot = 0; slot < subscribers_; ++slot) {
        const std::uint64_t at = subscriber_slot(slot);
        if (name(at) != wanted || get<std::int32_t>(at + layout::SUBSCRIBER_SLOT_KEPT) != 1) continue;
        if (get<std::int32_t>(at + layout::SUBSCRIBER_SLOT_EVICTING) != 0) return false;
        return gate(0, slot) >= 0 || gate(1, slot) >= 0;
    }
    return false;
}

Counts Image::published(Counts committed) const {
    for (std::uint32_t ring = 0; ring < 2; ++ring) {
        committed[ring] -= walk(ring, trailer(ring, layout::TRAILER_PUBLISHED)).messages;
    }
    return committed;
}

Image::Walk Image::walk(std::uint32_t ring, std::int64_t from, std::int64_t until) const {
    const auto fail = [&](std::int64_t at, const char* what) {
        throw Wrong("ring " + std::to_string(ring) + " at " + std::to_string(at) + ": " + what);
    };
    Walk walk{0, from};
    while (walk.end < until && walk.end < from + capacity_) {
        const std::uint64_t at = record(ring, walk.end);
        const auto length = get<std::int32_t>(at + layout::RECORD_LENGTH);
        const auto type = get<std::int32_t>(at + layout::RECORD_TYPE);
        if (length <= 0) break;
        const std::int64_t size = (length + alignment_ - 1) & -alignment_;
        if (length < 8 || (walk.end & (capacity_ - 1)) + size > capacity_) fail(walk.end, "a length is out of range");
        if (type < -2 || type == 0) fail(walk.end, "a record has no valid type");
        if (type > 0) ++walk.messages;
        walk.end += size;
    }
    if (walk.end > until) fail(walk.end, "a record ends behind the last position");
    return walk;
}

void Image::check_ring(std::uint32_t ring, std::int64_t messages, bool recovered) const {
    const std::int64_t published = trailer(ring, layout::TRAILER_PUBLISHED);
    const std::int64_t claimed = trailer(ring, layout::TRAILER_CLAIMED);
    const std::int64_t begun = trailer(ring, layout::TRAILER_MESSAGES_BEGUN);
    const std::int64_t done = trailer(ring, layout::TRAILER_MESSAGES_DONE);
    const auto require = [&](bool good, const std::string& what) {
        if (!good) throw Wrong("ring " + std::to_string(ring) + ": " + what);
    };
    require(published % alignment_ == 0 && claimed % alignment_ == 0, "a position is not aligned");
    require(recovered ? published == claimed : published <= claimed, "published and claimed do not fit");
    require(begun == messages && done == messages,
            std::to_string(messages) + " messages were published, the trailer says " + std::to_string(begun) +
                " begun, " + std::to_string(done) + " done");
    require(walk(ring, published).end == published, "there is a record behind published");
    for (std::uint64_t eighth = 0; eighth < layout::BOUNDARIES; ++eighth) {
        const std::uint64_t word = layout::TRAILER_BOUNDARY + layout::TRAILER_BOUNDARY_STRIDE * eighth;
        const std::int64_t boundary = trailer(ring, word);
        if (boundary == -1 || boundary + capacity_ < claimed + 8) continue;  // none, or overwritten
        const std::string where = "boundary " + std::to_string(eighth);
        require(boundary >= 0 && boundary % alignment_ == 0 && boundary <= published, where + " is no position");
        require((boundary & (capacity_ - 1)) / (capacity_ / 8) == static_cast<std::int64_t>(eighth),
                where + " is elsewhere");
        const Walk rest = walk(ring, boundary, published);
        require(rest.end == published, where + " does not lead to published");
        require(trailer(ring, word + 8) + rest.messages == messages, where + " has a wrong count");
    }
}

}  // namespace steps
