// SPDX-License-Identifier: Apache-2.0
//
// The journal's words, and what really happened, which each delivery is compared with.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "journal_disk.hpp"

namespace model {

using Position = std::int64_t;

// A word stands for 16 bytes, so a record's unit of 64 bytes has 4. A record's first word: words << 8 | type.
constexpr int unit = 4, segment_words = 48, check_every = 24, consumers = 2;
enum Type : int { none = 0, message = 1, padding = 2, check_type = 3, cut_type = 4 };
// Of a check: head, count, span crc, crc.   Of a cut: head, count, next, crc.   Of a message: head, then its payload.
enum Control : int { boot_id, failed, trimmed, synced, checked, ready, claimed, published, first_consumer };
// A pair is two words: position; count and crc.
enum Consumer : int { kept, gate, pair_0, pair_1 = pair_0 + 2, consumer_words = pair_1 + 2 };

constexpr int consumer_word(int consumer, int field) {
    return first_consumer + consumer * consumer_words + field;
}
constexpr Word head(int type, int words) {
    return static_cast<Word>(words) << 8 | static_cast<Word>(type);
}
constexpr int type_of(Word head) {
    return static_cast<int>(head & 255);
}
constexpr int words_of(Word head) {
    return static_cast<int>(head >> 8);
}
constexpr int align(int words) {
    return (words + unit - 1) / unit * unit;
}
constexpr Position segment_of(Position p) {
    return p / segment_words * segment_words;
}
constexpr Word mix(Word a, Word b) {  // a crc of 60 bits
    Word h = (a ^ (b + 0x9E3779B97F4A7C15 + (a << 6) + (a >> 2))) * 0xBF58476D1CE4E5B9;
    return (h ^ (h >> 29)) >> 4;
}
inline bool sound(Word h, Position p) {
    const int type = type_of(h), words = words_of(h);
    if (type < message || type > cut_type || words < 1 || p % segment_words + align(words) > segment_words)
        return false;
    return type == message || type == padding || words == unit;
}

// What really happened. It survives everything.
class Truth {
  public:
    // The first invariant that broke, or null.
    const char* broken = nullptr;
    std::string why;
    std::vector<int> words;                            // of each message that was ever begun
    std::map<Position, int> committed;                 // position and message of all that was committed and not cut
    std::map<Position, long> pushed_at;                // steps
    Position acknowledged = unit;                      // what a sync that returned has covered
    std::vector<std::pair<Position, int>> handed_out;  // positions that a reader keeps outside

    void check(bool good, const char* invariant, const char* reason) {
        if (good || broken) return;
        broken = invariant;
        why = reason;
    }
    long before(Position p) const {
        return static_cast<long>(std::distance(committed.begin(), committed.lower_bound(p)));
    }
    // A reader takes the record at p of the file for a message. Returns which one it is, -1: none.
    int deliver(const File& file, Position p) {
        const Position at = p % segment_words;
        const auto found = committed.find(p);
        check(found != committed.end(), "J1", "a record is handed out that was cut off, or never was");
        if (broken) return -1;
        const int id = found->second;
        bool whole = words[static_cast<size_t>(id)] == words_of(file[at]);
        for (int k = 1; whole && k < words_of(file[at]); ++k)
            whole = file[at + k] == mix(static_cast<Word>(id), static_cast<Word>(k));
        check(whole, "J1", "a record is handed out that is not whole");
        return id;
    }
    // All from p on is gone, and every reader is told so.
    void cut(Position p) {
        check(p >= acknowledged, "J3", "a power loss took what a sync had covered");
        committed.erase(committed.lower_bound(p), committed.end());
    }
};

}  // namespace model
