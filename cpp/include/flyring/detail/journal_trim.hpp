// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "flyring/detail/journal_seek.hpp"
#include "flyring/detail/journal_span.hpp"
#include "flyring/errors.hpp"
#include "flyring/journal_options.hpp"

// Removing what is not needed any more (spec/journal.md 8). Numbers in parentheses are sections of that page; 'trim 3'
// is step 3 of its operation trim.

namespace flyring::detail {

/// The lowest gate of a consumer; `none` if there is no consumer. An impossible gate counts as 0 (10).
inline std::int64_t lowest_gate(const JournalFile& file, std::int64_t none) noexcept {
    std::int64_t lowest = none;
    for (std::uint32_t slot = 0; slot < file.header.consumers; ++slot) {
        const ConsumerWords words = file.consumer(slot);
        if (!words.kept()) continue;
        const std::int64_t gate = load_acquire(words.gate());           // pairs with store_gate
        const std::int64_t published = load_acquire(file.published());  // pairs with append 6
        // A gate may lie after a record that is committed and not yet published.
        const std::int64_t most = std::max(published, load_acquire(file.claimed()));
        lowest = std::min(lowest, is_journal_position(gate) && gate <= most ? gate : 0);
    }
    return lowest;
}
inline bool has_consumer(const JournalFile& file) noexcept {
    for (std::uint32_t slot = 0; slot < file.header.consumers; ++slot) {
        if (file.consumer(slot).kept()) return true;
    }
    return false;
}

/// Finds the limit of a trim: the position up to which it wants to remove. Whether that is synced, and whether a
/// consumer needs it, is looked at later.
class TrimLimits {
  public:
    explicit TrimLimits(const JournalFile& file) : file_(file), reader_(file) {}

    std::int64_t of(const JournalTrim& trim) {
        switch (trim.kind()) {
            case JournalTrim::Kind::consumed:
                return has_consumer(file_) ? lowest_gate(file_, layout::MAX_POSITION) : 0;
            case JournalTrim::Kind::position:
                return trim.value();
            case JournalTrim::Kind::before:
                return older_than(trim.value());
            case JournalTrim::Kind::size:
                break;
        }
        return beyond(trim.value());
    }

    /// The first segment that may have a message of this time or a later one, as the first check record of the next
    /// segment says; at the latest the last segment.
    std::int64_t older_than(std::int64_t time) {
        const std::vector<std::int64_t> all = segments();
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (i + 1 == all.size()) return all[i];
            const std::optional<std::int64_t> largest = time_before(all[i + 1]);
            if (!largest || *largest >= time) return all[i];
        }
        return 0;
    }
    /// The oldest of the newest segments that have at most this many bytes together. The last one always stays.
    std::int64_t beyond(std::int64_t bytes) {
        const std::vector<std::int64_t> all = segments();
        const auto fit = static_cast<std::size_t>(bytes / file_.header.size());
        if (all.empty()) return 0;
        return all[all.size() - std::min(std::max<std::size_t>(fit, 1), all.size())];
    }

  private:
    std::vector<std::int64_t> segments() const {
        const std::int64_t trimmed = beginning(file_);
        std::vector<std::int64_t> all = list_segments(file_);
        all.erase(all.begin(), std::lower_bound(all.begin(), all.end(), trimmed));
        return all;
    }
    /// The largest time of a message before a segment; empty if the segment's first record does not tell.
    std::optional<std::int64_t> time_before(std::int64_t segment) {
        for (int cuts = 0; cuts < 1000; ++cuts) {
            const auto first = landmark_at(reader_, segment);
            if (!first || first->time) return first ? first->time : std::nullopt;
            segment = first->next;  // a cut: no message of this segment comes after it
        }
        return std::nullopt;
    }

    const JournalFile& file_;
    SpanReader reader_;
};

/// Removes the segments below `trimmed`, the lowest first. Returns their bytes.
inline std::uint64_t unlink_trimmed(const JournalFile& file, std::int64_t trimmed) {
    std::uint64_t freed = 0;
    for (const std::int64_t one : list_segments(file)) {
        if (one >= trimmed) break;
        unlink_if_there(file.segment_path(one));
        freed += file.header.segment_file_length();
    }
    return freed;
}

/// Removes the segments below `limit`, as far as they are synced and, with `looks_at_gates`, consumed (8).
/// `description`: takes the control lock. Returns the bytes that became free.
inline std::uint64_t trim_journal(const JournalFile& file, const Fd& description, std::int64_t limit,
                                  bool looks_at_gates) {
    const JournalHeader& header = file.header;
    const auto lowest = [&](std::int64_t most) {
        return header.segment_of(looks_at_gates ? lowest_gate(file, most) : most);
    };
    std::int64_t x = lowest(std::min(limit, end_of_reading(file, true)));  // trim 1
    const std::optional<std::int64_t> whole = segment_below(file, x);      // it may lie in the gap of a recovery
    if (!whole || *whole <= beginning(file)) {
        const std::vector<std::int64_t> all = list_segments(file);
        if (all.empty() || all.front() >= beginning(file)) return 0;
        file.sync_control();  // trim 5, which a killed process has not done
        return unlink_trimmed(file, beginning(file));
    }
    x = *whole;
    file.sync_control();  // trim 2
    {
        const ControlLock lock(description, file.control_lock(), file.control);  // trim 3
        const std::int64_t now = lowest(x);
        if (now < x) {
            const std::optional<std::int64_t> below = segment_below(file, now);
            if (!below) return 0;
            x = *below;
        }
        if (x <= beginning(file)) return 0;
        store_release(file.trimmed(), x);  // trim 4; pairs with readers that miss a segment
    }
    file.sync_control();  // trim 5
    return unlink_trimmed(file, x);
}

/// Trims by the options of the file (8). `by_age`: also by max_age, for which it reads the folder. Returns the bytes
/// that became free.
inline std::uint64_t trim_by_options(const JournalFile& file, const Fd& description, bool by_age) {
    std::uint64_t freed = 0;
    const std::int64_t age = load_relaxed(file.max_age());
    if (by_age && age > 0) {
        const std::int64_t since = wall_clock(file.environment) - age;
        freed += trim_journal(file, description, TrimLimits(file).older_than(since), false);
    }
    const std::int64_t size = load_relaxed(file.max_size());
    if (size > 0 && wrapping_subtract(load_relaxed(file.ready()), load_relaxed(file.trimmed())) > size) {
        freed += trim_journal(file, description, TrimLimits(file).beyond(size), false);
    }
    if (load_relaxed(file.trim_consumed()) == 1 && has_consumer(file)) {
        const std::int64_t lowest = lowest_gate(file, layout::MAX_POSITION);
        if (file.header.segment_of(lowest) > load_relaxed(file.trimmed())) {
            freed += trim_journal(file, description, lowest, true);
        }
    }
    return freed;
}

}  // namespace flyring::detail
