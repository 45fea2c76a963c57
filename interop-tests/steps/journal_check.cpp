// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <flyring/detail/crc32c.hpp>
#include <flyring/detail/layout.hpp>

#include "journal_scenario.hpp"

// What a journal's files must be between two changes, by journal.md 2 to 6 alone.

namespace steps {

namespace {

namespace layout = flyring::layout;
using flyring::detail::crc32c;

void require(bool good, const std::string& what) {
    if (!good) throw Wrong(what);
}

template <typename T>
T at(const Bytes& bytes, std::uint64_t offset) {
    T value;
    std::memcpy(&value, &bytes.at(offset), sizeof value);
    return value;
}

class Files {
  public:
    explicit Files(const std::string& path) : path_(path), control_(read_file(path + "/control")) {}

    std::int64_t word(std::uint64_t offset) const { return at<std::int64_t>(control_, layout::HEADER_LENGTH + offset); }
    std::int64_t size() const { return at<std::int64_t>(control_, layout::JOURNAL_HEADER_SEGMENT_SIZE); }
    std::uint64_t consumers() const { return at<std::uint32_t>(control_, layout::JOURNAL_HEADER_CONSUMERS); }
    const Bytes& control() const { return control_; }
    /// The segment at a multiple of Z, whole; empty if there is none.
    const Bytes& segment(std::int64_t base) {
        if (base == base_) return segment_;
        base_ = base;
        char name[32];
        std::snprintf(name, sizeof name, "/%019lld.seg", static_cast<long long>(base));
        segment_ = std::filesystem::exists(path_ + name) ? read_file(path_ + name) : Bytes();
        const auto length = layout::HEADER_LENGTH + static_cast<std::uint64_t>(size());
        require(segment_.empty() || segment_.size() == length, "a segment has another length");
        require(
            segment_.empty() || at<std::uint32_t>(segment_, 4092) == crc32c(segment_.data(), layout::HEADER_CRC_LENGTH),
            "a segment's header");
        return segment_;
    }

  private:
    std::string path_;
    Bytes control_;
    std::int64_t base_ = -1;
    Bytes segment_;
};

}  // namespace

void check_journal(const std::string& path) {
    Files files(path);
    const std::int64_t size = files.size();
    const std::int64_t published = files.word(layout::JOURNAL_CONTROL_PUBLISHED);
    const std::int64_t trimmed = files.word(layout::JOURNAL_CONTROL_TRIMMED);
    require(trimmed % size == 0, "trimmed");
    std::int64_t count = -1;
    std::int64_t check = -1;
    std::int64_t position = trimmed;
    std::int64_t last_check = -1;
    std::uint32_t crc = 0;
    while (position < published) {
        const Bytes& segment = files.segment(position - position % size);
        require(!segment.empty(), "the segment of " + std::to_string(position) + " is missing");
        const auto offset = layout::HEADER_LENGTH + static_cast<std::uint64_t>(position % size);
        const auto length = at<std::int32_t>(segment, offset);
        const auto type = at<std::int32_t>(segment, offset + 4);
        const std::string where = " at " + std::to_string(position);
        require(length >= 8, "no record" + where);
        const std::int64_t end = position + (length + 63) / 64 * 64;
        require(position % size + (end - position) <= size, "a record beyond its segment" + where);
        if (position % size == 0) require(type == -3 || type == -4, "a segment without a check" + where);
        if (type == -3 || type == -4) {
            require(length == 64 && at<std::int64_t>(segment, offset + 8) == position &&
                        at<std::uint32_t>(segment, offset + 60) == crc32c(&segment.at(offset), 60),
                    "a check or cut is not right" + where);
            const auto counted = at<std::int64_t>(segment, offset + 16);
            require(count < 0 || counted == count, "a check counts otherwise" + where);
            count = counted;
        }
        if (type == -4) {
            const auto next = at<std::int64_t>(segment, offset + 24);
            require(next > position && next % size == 0, "a cut leads nowhere" + where);
            position = next;
            crc = 0;
            check = -1;
            continue;
        }
        if (type == -3) {
            if (check >= 0) require(at<std::uint32_t>(segment, offset + 32) == crc, "the CRC of a span" + where);
            check = last_check = position;
            crc = 0;
        } else {
            require(type == -1 || (type > 0 && length >= 16 && length <= size / 4), "no sound record" + where);
            const auto bytes = static_cast<std::size_t>(type == -1 ? 8 : end - position);
            crc = crc32c(&segment.at(offset), bytes, crc);
            if (type > 0) ++count;
        }
        position = end;
    }
    require(position == published, "published lies within a record");
    require(files.word(layout::JOURNAL_CONTROL_MESSAGES) == count, "messages is wrong");
    require(files.word(layout::JOURNAL_CONTROL_CHECKED) == last_check, "checked is not the last check");
    require(files.word(layout::JOURNAL_CONTROL_SYNCED) <= last_check, "synced lies behind checked");
    require(files.word(layout::JOURNAL_CONTROL_CLAIMED) >= published, "claimed lies before published");
    // Nothing lies where the next record goes.
    const Bytes& segment = files.segment(published - published % size);
    if (segment.empty()) return;
    require(std::all_of(segment.begin() + static_cast<std::ptrdiff_t>(layout::HEADER_LENGTH) + published % size,
                        segment.end(), [](std::byte byte) { return byte == std::byte{0}; }),
            "bytes behind published are not zero");
}

void check_gates(const std::string& path) {
    Files files(path);
    const Bytes& control = files.control();
    for (std::uint64_t slot = 0; slot < files.consumers(); ++slot) {
        const std::uint64_t base =
            layout::HEADER_LENGTH + layout::JOURNAL_CONTROL_CONSUMERS + layout::JOURNAL_CONSUMER_SIZE * slot;
        if (at<std::int32_t>(control, base + layout::SUBSCRIBER_SLOT_KEPT) == 0) continue;
        const auto gate = at<std::int64_t>(control, base + layout::JOURNAL_CONSUMER_GATE);
        const auto proves = [&](std::uint64_t pair) {
            return at<std::int64_t>(control, base + pair) == gate &&
                   at<std::uint32_t>(control, base + pair + layout::JOURNAL_PAIR_CRC) ==
                       crc32c(&control.at(base + pair), layout::JOURNAL_PAIR_CRC);
        };
        require(proves(layout::JOURNAL_CONSUMER_PAIR_0) || proves(layout::JOURNAL_CONSUMER_PAIR_1),
                "no pair proves the gate of consumer " + std::to_string(slot));
    }
}

}  // namespace steps
