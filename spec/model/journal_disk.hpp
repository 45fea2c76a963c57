// SPDX-License-Identifier: Apache-2.0
//
// Files and a folder as a power loss leaves them. Memory holds the last store. The disk holds, of each sector, any
// state that it had since the last sync of its file, and of each name in the folder any file that it had since the
// folder's last sync. A file that was never synced may be empty.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace model {

using Word = std::uint64_t;

// xorshift64*: the same numbers with every compiler.
class Random {
  public:
    explicit Random(std::uint64_t seed) : x(seed * 0x9E3779B97F4A7C15 + 88172645463325252) {
        for (int i = 0; i < 8; ++i) below(2);
    }
    std::uint64_t below(std::uint64_t n) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        return (x >> 11) % n;
    }
    bool one_in(std::uint64_t n) { return below(n) == 0; }

  private:
    std::uint64_t x;
};

class File {
  public:
    bool synced = false;  // once at least
    bool broken = false;  // a power loss left it empty

    // sector: how many words change together.
    File(int words, int sector) : sector(sector), now(static_cast<size_t>(words)), sectors(now.size() / sector) {
        for (size_t i = 0; i < sectors.size(); ++i) sectors[i].past.push_back(snapshot(i));
    }
    Word operator[](std::int64_t i) const { return now[static_cast<size_t>(i)]; }
    int words() const { return static_cast<int>(now.size()); }
    void set(std::int64_t i, Word w) {
        now[static_cast<size_t>(i)] = w;
        Sector& s = sectors[static_cast<size_t>(i) / sector];
        s.past.push_back(snapshot(static_cast<size_t>(i) / sector));
        s.unwritten = false;
    }
    // What a sync that begins now makes durable.
    std::vector<std::int64_t> mark() const {
        std::vector<std::int64_t> marks;
        for (const Sector& s : sectors) marks.push_back(s.first + static_cast<std::int64_t>(s.past.size()) - 1);
        return marks;
    }
    void make_durable(const std::vector<std::int64_t>& marks) {
        for (size_t i = 0; i < sectors.size(); ++i) {
            Sector& s = sectors[i];
            if (s.unwritten || marks[i] <= s.first) continue;
            s.past.erase(s.past.begin(), s.past.begin() + (marks[i] - s.first));
            s.first = marks[i];
        }
        synced = true;
    }
    // A sync fails: of some sectors the kernel forgets that they were not written.
    void fail_to_write(Random& random) {
        for (Sector& s : sectors) s.unwritten = s.unwritten || (s.past.size() > 1 && random.one_in(2));
    }
    // mode 0: any state of each sector, 1: mostly the oldest, 2: mostly the newest.
    void lose_power(Random& random, int mode) {
        if (!synced && random.one_in(2)) broken = true;
        synced = true;
        for (size_t i = 0; i < sectors.size(); ++i) {
            Sector& s = sectors[i];
            const size_t n = s.past.size();
            size_t kept = random.below(n);
            if (mode != 0 && !random.one_in(6)) kept = mode == 1 ? 0 : n - 1;
            const std::array<Word, 4> words = s.past[kept];
            s = Sector{{words}, 0, false};
            for (int k = 0; k < sector; ++k) now[i * sector + k] = words[k];
        }
    }

  private:
    struct Sector {
        std::vector<std::array<Word, 4>> past;  // since the last sync
        std::int64_t first = 0;                 // the number of past.front()
        bool unwritten = false;                 // a sync passes it by until the next store
    };
    std::array<Word, 4> snapshot(size_t i) const {
        std::array<Word, 4> words{};
        for (int k = 0; k < sector; ++k) words[k] = now[i * sector + k];
        return words;
    }

    int sector;
    std::vector<Word> now;
    std::vector<Sector> sectors;
};

class Folder {
  public:
    struct Entry {
        std::int64_t name;
        std::vector<File*> past;  // since the folder's last sync; null: not there

        File* file() const { return past.back(); }
    };
    std::vector<Entry> entries;

    // The whole file of that name, or null.
    File* find(std::int64_t name) const {
        for (const Entry& e : entries)
            if (e.name == name) return e.file() && !e.file()->broken ? e.file() : nullptr;
        return nullptr;
    }
    void link(std::int64_t name, File* file) {
        for (Entry& e : entries)
            if (e.name == name) return e.past.push_back(file);
        entries.push_back({name, {nullptr, file}});
    }
    std::vector<File*> mark() const {
        std::vector<File*> marks;
        for (const Entry& e : entries) marks.push_back(e.file());
        return marks;
    }
    void make_durable(const std::vector<File*>& marks) {
        for (size_t i = 0; i < marks.size(); ++i) {
            auto& past = entries[i].past;
            while (past.size() > 1 && past.front() != marks[i]) past.erase(past.begin());
        }
    }
    void lose_power(Random& random) {
        for (Entry& e : entries) e.past.assign(1, e.past[random.below(e.past.size())]);
    }
};

}  // namespace model
