// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__SANITIZE_THREAD__)
#define FLYRING_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLYRING_THREAD_SANITIZER
#endif
#endif

#include "flyring/detail/memory.hpp"
#include "flyring/detail/table_file.hpp"
#include "flyring/detail/xxhash64.hpp"
#include "flyring/errors.hpp"

// Finding a key and reading a cell (spec/table.md 6). A reader takes no lock and stores nothing. Numbers in parentheses
// are sections of spec/table.md; 'write 5' is step 5 of its operation write.

namespace flyring::detail {

/// Copies a value or a key. From 4 to 64 bytes, it makes two copies of a fixed size, which may overlap. A loop over
/// words would fill the processor's instruction window, so that fewer finds run at the same time.
[[gnu::always_inline]] inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    const auto twice = [&](auto half) __attribute__((always_inline)) {
        constexpr std::size_t length = decltype(half)::value;
        std::memcpy(to, from, length);
        std::memcpy(to + size - length, from + size - length, length);
    };
    if (FLYRING_UNLIKELY(size > 64)) {
        std::memcpy(to, from, size);
    } else if (size >= 32) {
        twice(std::integral_constant<std::size_t, 32>{});
    } else if (size >= 16) {
        twice(std::integral_constant<std::size_t, 16>{});
    } else if (size >= 8) {
        twice(std::integral_constant<std::size_t, 8>{});
    } else if (size >= 4) {
        twice(std::integral_constant<std::size_t, 4>{});
    } else {
        for (std::size_t at = 0; at < size; ++at) to[at] = from[at];
    }
}

/// Stands for no cell.
inline constexpr std::uint64_t no_cell = ~std::uint64_t{0};
/// Of find_undisturbed: the key is not there, unless the table has left the file meanwhile (TableState, rule 2).
inline constexpr std::uint64_t absent = no_cell - 1;

/// Entries of the index in one cache line. Their number in a copy is a multiple of it, and a copy begins at a page.
inline constexpr unsigned line_entries = 8;
/// Which entries of one line have a fingerprint, and which are empty: a bit for each, the lowest for the first.
struct LineMasks {
    unsigned same;
    unsigned empty;
};
/// Looks at a line without a branch (find 2).
[[gnu::always_inline]] inline LineMasks look_at_line(const std::uint64_t* line, std::uint32_t fingerprint) noexcept {
    LineMasks masks{0, 0};
#if defined(__SSE2__) && !defined(FLYRING_THREAD_SANITIZER)
    // Each aligned half of such a load is one access, as a load of 8 bytes is. ThreadSanitizer does not know that.
    const __m128i wanted = _mm_set1_epi32(static_cast<int>(fingerprint));
    for (unsigned i = 0; i < line_entries; i += 4) {
        const __m128 one = _mm_load_ps(reinterpret_cast<const float*>(line + i));
        const __m128 two = _mm_load_ps(reinterpret_cast<const float*>(line + i + 2));
        const __m128i high = _mm_castps_si128(_mm_shuffle_ps(one, two, 0xdd));
        const __m128i low = _mm_castps_si128(_mm_shuffle_ps(one, two, 0x88));
        const auto bits = [](__m128i equal) { return static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(equal))); };
        masks.same |= bits(_mm_cmpeq_epi32(high, wanted)) << i;
        masks.empty |= bits(_mm_cmpeq_epi32(_mm_or_si128(high, low), _mm_setzero_si128())) << i;
    }
#else
    for (unsigned i = 0; i < line_entries; ++i) {
        const std::uint64_t entry = load_relaxed(line + i);
        masks.same |= static_cast<unsigned>(entry >> 32 == fingerprint) << i;
        masks.empty |= static_cast<unsigned>(entry == 0) << i;
    }
#endif
    acquire_fence();  // pairs with remove 3
    return masks;
}

/// Whether `size` bytes are the same. Short ones are compared without a call.
inline bool same_bytes(const std::byte* one, const std::byte* other, std::size_t size) noexcept {
    if (size >= 8) {
        std::uint64_t wrong = get<std::uint64_t>(one + size - 8) ^ get<std::uint64_t>(other + size - 8);
        for (std::size_t at = 0; at + 8 < size; at += 8) {
            wrong |= get<std::uint64_t>(one + at) ^ get<std::uint64_t>(other + at);
        }
        return wrong == 0;
    }
    if (size >= 4) {
        return ((get<std::uint32_t>(one) ^ get<std::uint32_t>(other)) |
                (get<std::uint32_t>(one + size - 4) ^ get<std::uint32_t>(other + size - 4))) == 0;
    }
    for (std::size_t at = 0; at < size; ++at) {
        if (one[at] != other[at]) return false;
    }
    return true;
}

/// A key with its hash.
struct HashedKey {
    const std::byte* data;
    std::size_t size;
    std::uint32_t fingerprint;

    HashedKey(const std::byte* bytes, std::size_t length) noexcept
        : data(bytes),
          size(length),
          fingerprint(static_cast<std::uint32_t>(
              (length == 8 ? xxhash64(get<std::uint64_t>(bytes)) : xxhash64(bytes, length)) >> 32)) {}
    /// The index entry that leads from this key to a cell.
    std::uint64_t entry(std::uint64_t cell) const noexcept { return std::uint64_t{fingerprint} << 32 | (cell + 1); }
    /// Whether the bytes at `there`, with this length, are this key.
    bool is_at(const std::byte* there, std::int32_t length) const noexcept {
        return static_cast<std::size_t>(length) == size && same_bytes(there, data, size);
    }
};

/// A key of 8 bytes, such as an integer.
struct HashedWord {
    std::uint64_t word;
    std::uint32_t fingerprint;

    explicit HashedWord(std::uint64_t key) noexcept
        : word(key), fingerprint(static_cast<std::uint32_t>(xxhash64(key) >> 32)) {}
    explicit HashedWord(const HashedKey& key) noexcept
        : word(get<std::uint64_t>(key.data)), fingerprint(key.fingerprint) {}
    bool is_at(const std::byte* there, std::int32_t length) const noexcept {
        return length == sizeof word && get<std::uint64_t>(there) == word;
    }
};

/// What a read found in a cell. It was validated (6, read 4), so it is not torn.
struct Seen {
    std::int64_t version = 0;      // 0: never written
    std::int32_t key_length = -1;  // -1: not looked at
    std::int32_t length = layout::TABLE_REMOVED;
    bool same_key = false;  // the cell holds the key that is looked for

    bool live() const noexcept { return version > 0 && length >= 0; }
};

/// Offsets and words of one mapped table, with the operations of readers.
class TableView {
  public:
    /// `base`: a mapping of the file, which may be read-only: this class stores nothing. `owner`: whether the caller is
    /// the slot's owner. If a body does not fit its version for 1 ms, the owner gets CorruptTable, because no other
    /// process can be writing the body. A reader gets Busy.
    TableView(const TableFile& file, std::byte* base, bool owner = false) noexcept
        : file_(&file),
          owner_(owner),
          control_(base + file.header.control_offset()),
          index_(base + file.header.index_offset()),
          cells_(base + file.header.cells_offset()),
          index_stride_(file.header.index_stride()),
          entries_(file.header.entries()),
          cell_count_(file.header.cells()),
          stride_(file.header.cell_stride()),
          one_piece_(cell_count_ * stride_ <= layout::TABLE_PIECE),
          bodies_{file.header.body_offset(), file.header.body_offset() + file.header.body_length()},
          key_bytes_(static_cast<std::int32_t>(file.header.key_bytes)),
          value_bytes_(static_cast<std::int32_t>(file.header.value_bytes)) {}

    const TableFile& file() const noexcept { return *file_; }
    template <typename T>
    T* control(std::uint64_t offset) const noexcept {
        return word_at<T>(control_, offset);
    }
    std::int64_t* generation() const noexcept { return control<std::int64_t>(layout::TABLE_CONTROL_GENERATION); }
    std::int64_t* changed() const noexcept { return control<std::int64_t>(layout::TABLE_CONTROL_CHANGED); }
    const std::int32_t* successor() const noexcept { return control<std::int32_t>(layout::TABLE_CONTROL_SUCCESSOR); }
    /// Whether no other file has taken the table's name, as far as `successor` tells.
    bool is_current() const noexcept { return load_relaxed(successor()) == 0; }
    std::uint64_t entries() const noexcept { return entries_; }
    std::uint64_t cell_count() const noexcept { return cell_count_; }
    /// The copy of the index that belongs to `generation`.
    std::uint64_t* copy(std::int64_t generation) const noexcept {
        return word_at<std::uint64_t>(index_, (generation & 1) != 0 ? index_stride_ : 0);
    }
    std::byte* cell(std::uint64_t number) const noexcept { return cells_ + number * stride_; }
    std::byte* body(std::uint64_t number, std::int64_t version) const noexcept {
        return body_at(cell(number), version);
    }
    /// The body that a version names. Computed without a branch, because the processor cannot predict which body it is.
    std::byte* body_at(std::byte* cell, std::int64_t version) const noexcept { return cell + bodies_[version & 1]; }
    std::int64_t* version(std::uint64_t number) const noexcept {
        return word_at<std::int64_t>(cell(number), layout::TABLE_CELL_VERSION);
    }
    /// The index entry at which the search for a fingerprint begins.
    std::uint64_t home(std::uint32_t fingerprint) const noexcept { return (fingerprint * entries_) >> 32; }
    /// The index entry at which a search goes on.
    std::uint64_t after(std::uint64_t at) const noexcept { return at + 1 == entries_ ? 0 : at + 1; }

    /// Whether a cell with this number can be used: it is there, and does not cross a multiple of 1 GiB.
    bool usable(std::uint64_t number) const noexcept {
        if (FLYRING_UNLIKELY(number >= cell_count_)) return false;
        if (one_piece_) return true;
        const std::uint64_t start = number * stride_;
        return (start ^ (start + stride_ - 1)) < layout::TABLE_PIECE;
    }
    /// The cell to which an entry leads; no_cell if the entry is empty, a tombstone, or not valid.
    std::uint64_t cell_of(std::uint64_t entry) const noexcept {
        const std::uint64_t number = (entry & 0xffffffff) - 1;
        return FLYRING_LIKELY(usable(number)) ? number : no_cell;
    }
    /// The first cell that was never used; at most the number of cells.
    std::uint64_t fresh() const noexcept {
        return std::min<std::uint64_t>(load_relaxed(control<std::uint32_t>(layout::TABLE_CONTROL_FRESH)), cell_count_);
    }
    [[noreturn, gnu::cold, gnu::noinline]] void corrupt(std::uint64_t number, const char* reason) const {
        throw CorruptTable(file_->path, static_cast<std::int64_t>(number), reason);
    }

    /// Reads a cell (6, read): loads seq, calls look(cell, body), and loads seq again. Repeats this until both times
    /// seq is the cell's version. look returns a Seen without the version. Throws Busy, CorruptTable.
    template <typename Look>
    [[gnu::always_inline]] inline Seen read(std::uint64_t number, Look&& look) const {
        std::byte* const at = cell(number);
        Patience patience;
        for (;;) {
            const std::int64_t version =
                load_acquire(word_at<std::int64_t>(at, layout::TABLE_CELL_VERSION));  // read 1; pairs with write 5
            if (version <= 0) return {};
            std::byte* const body = body_at(at, version);
            const auto* seq = word_at<std::int64_t>(body, layout::TABLE_BODY_SEQ);
            const std::int64_t holds = load_acquire(seq);
            if (FLYRING_LIKELY(holds == version)) {  // read 2
                Seen seen = guarded(seq, version, [&] { return look(at, body); });
                acquire_fence();  // read 4; pairs with the fence of write 2
                if (FLYRING_LIKELY(load_relaxed(seq) == version)) {
                    seen.version = version;
                    if (FLYRING_UNLIKELY(static_cast<std::uint32_t>(seen.length) + 1 >
                                         static_cast<std::uint32_t>(value_bytes_) + 1)) {
                        corrupt(number, "the length of its value is out of range");
                    }
                    if (FLYRING_UNLIKELY(static_cast<std::uint32_t>(seen.key_length) >
                                         static_cast<std::uint32_t>(key_bytes_))) {
                        corrupt(number, "the length of its key is out of range");
                    }
                    return seen;
                }
            }
            if (FLYRING_UNLIKELY(holds < 0)) return {};  // no writer stores that (10)
            if (patience.over()) throw_unread(number);
        }
    }

    /// Reads a cell and compares its key. If the cell holds this key and a value, calls take(value, length) before seq
    /// is loaded again. So take may be called several times and may see a torn value; only its last call counts.
    template <typename AnyKey, typename Take>
    [[gnu::always_inline]] inline Seen read_key(std::uint64_t number, const AnyKey& key, Take&& take) const {
        return read(number, [&](std::byte* cell, std::byte* body) __attribute__((always_inline)) {
            Seen seen;
            seen.key_length = load_relaxed(word_at<std::int32_t>(cell, layout::TABLE_CELL_KEY_LENGTH));
            seen.same_key = key.is_at(cell + layout::TABLE_CELL_KEY, seen.key_length);
            if (FLYRING_UNLIKELY(!seen.same_key)) return seen;
            seen.length = load_relaxed(word_at<std::int32_t>(body, layout::TABLE_BODY_LENGTH));
            if (seen.length >= 0 && seen.length <= value_bytes_) {
                take(body + layout::TABLE_BODY_VALUE, static_cast<std::size_t>(seen.length));
            }
            return seen;
        });
    }

    /// Finds a key in the usual cases: the first entry with its fingerprint leads to it, and no writer is changing its
    /// value; or no entry has its fingerprint. Returns its cell, `absent`, or no_cell: then the caller searches with
    /// all steps. This path is short on purpose: the processor overlaps the cache misses of as many finds as fit into
    /// its instruction window.
    template <typename AnyKey, typename Take>
    [[gnu::always_inline]] inline std::uint64_t find_undisturbed(const AnyKey& key, std::int64_t& version,
                                                                 Take&& take) const {
        const std::int64_t generation = load_acquire(this->generation());  // find 1; pairs with rebuild 3
        const std::uint64_t* const entries = copy(generation);
        std::uint64_t at = home(key.fingerprint);
        // Three of four keys that are there lie at one of these two. That neither is looked at for being empty saves
        // branches that the processor cannot predict.
        std::uint64_t entry = load_acquire(entries + at);  // find 2; pairs with remove 3
        if (entry >> 32 != key.fingerprint) entry = load_acquire(entries + after(at));
        if (FLYRING_UNLIKELY(entry >> 32 != key.fingerprint)) {
            auto before = static_cast<unsigned>(at % line_entries);  // entries of this line that lie before the home
            at -= before;
            for (int lines = 0;;) {
                const LineMasks line = look_at_line(entries + at, key.fingerprint);
                if (line.same != 0) {
                    entry = load_acquire(entries + at + static_cast<unsigned>(__builtin_ctz(line.same)));
                    break;
                }
                if (FLYRING_LIKELY(line.empty >> before != 0)) {
                    acquire_fence();  // find 5; pairs with the fence of rebuild 0
                    return FLYRING_LIKELY(load_relaxed(this->generation()) == generation) ? absent : no_cell;
                }
                if (++lines == 3) return no_cell;
                before = 0;
                at = at + line_entries == entries_ ? 0 : at + line_entries;
            }
        }
        const std::uint64_t number = (entry & 0xffffffff) - 1;
        if (FLYRING_UNLIKELY(!usable(number) || !read_undisturbed(number, key, version, take))) return no_cell;
        return number;
    }
    /// Reads a cell once (read 1 to 4). Returns whether it holds this key, with a value that is not torn. If not, the
    /// caller reads it with read_key, which tells why. take: as for read_key.
    template <typename AnyKey, typename Take>
    [[gnu::always_inline]] inline bool read_undisturbed(std::uint64_t number, const AnyKey& key, std::int64_t& version,
                                                        Take&& take) const {
        std::byte* const cell = this->cell(number);
        // The cell's version says which body is read. Both are fetched now, at the same time as the version.
        __builtin_prefetch(cell + bodies_[0]);
        __builtin_prefetch(cell + bodies_[1]);
        const std::int64_t is = load_acquire(word_at<std::int64_t>(cell, layout::TABLE_CELL_VERSION));  // read 1
        std::byte* const body = cell + bodies_[is & 1];
        const auto* const seq = word_at<std::int64_t>(body, layout::TABLE_BODY_SEQ);
        if (FLYRING_UNLIKELY(is <= 0 || load_acquire(seq) != is)) return false;  // read 2
        const std::int32_t key_length = load_relaxed(word_at<std::int32_t>(cell, layout::TABLE_CELL_KEY_LENGTH));
        if (FLYRING_UNLIKELY(!key.is_at(cell + layout::TABLE_CELL_KEY, key_length))) return false;
        const std::int32_t length = load_relaxed(word_at<std::int32_t>(body, layout::TABLE_BODY_LENGTH));
        if (FLYRING_UNLIKELY(static_cast<std::uint32_t>(length) > static_cast<std::uint32_t>(value_bytes_))) {
            return false;
        }
        try {
            take(body + layout::TABLE_BODY_VALUE, static_cast<std::size_t>(length));
        } catch (...) {
            acquire_fence();
            if (load_relaxed(seq) == is) throw;  // the value that it saw was not torn
            return false;
        }
        acquire_fence();  // read 4; pairs with the fence of write 2
        if (FLYRING_UNLIKELY(load_relaxed(seq) != is)) return false;
        version = is;
        return true;
    }

    /// Finds a key (6, find). Returns its cell, or no_cell. `seen`: what was read there. `take`: as for read_key.
    template <typename AnyKey, typename Take>
    [[gnu::always_inline]] inline std::uint64_t find(const AnyKey& key, Seen& seen, Take&& take) const {
        std::int64_t version = 0;
        if (const std::uint64_t number = find_undisturbed(key, version, take); FLYRING_LIKELY(number != no_cell)) {
            if (number == absent) {
                seen = Seen{};
                return no_cell;
            }
            seen.version = version;
            seen.length = 0;
            seen.same_key = true;
            return number;
        }
        Seen found;  // not the caller's `seen`, so that this stays in registers
        const std::uint64_t number = search(key, found, take);
        seen = found;
        return number;
    }
    /// The same, with all steps of find (6).
    template <typename AnyKey, typename Take>
    [[gnu::noinline]] std::uint64_t search(const AnyKey& key, Seen& seen, Take&& take) const {
        Patience patience;
        for (;;) {
            const std::int64_t generation = load_acquire(this->generation());  // find 1; pairs with rebuild 3
            const std::uint64_t* const entries = copy(generation);
            std::uint64_t at = home(key.fingerprint);
            for (std::uint64_t looked = 0; looked < entries_; ++looked) {
                const std::uint64_t entry = load_acquire(entries + at);  // find 2; pairs with remove 3
                if (entry == 0) break;
                if (entry >> 32 == key.fingerprint) {
                    const std::uint64_t number = cell_of(entry);
                    if (FLYRING_LIKELY(number != no_cell)) {
                        seen = read_key(number, key, take);  // find 3
                        if (FLYRING_LIKELY(seen.same_key && seen.live())) return number;
                    }
                }
                at = after(at);
            }
            acquire_fence();  // find 5; pairs with the fence of rebuild 0
            if (FLYRING_LIKELY(load_relaxed(this->generation()) == generation)) return no_cell;
            if (patience.over()) throw_unread(no_cell);
        }
    }
    std::uint64_t find(const HashedKey& key, Seen& seen) const {
        const auto nothing = [](const std::byte*, std::size_t) {};
        return key.size == sizeof(std::uint64_t) ? find(HashedWord(key), seen, nothing) : find(key, seen, nothing);
    }

    /// Reads a cell, whatever its key is, and copies key and value. Returns whether the cell holds a key.
    bool read_any(std::uint64_t number, std::string& key, std::string& value, std::int64_t& version) const {
        const Seen seen = read(number, [&](std::byte* cell, std::byte* body) {
            Seen found;
            found.key_length = load_relaxed(word_at<std::int32_t>(cell, layout::TABLE_CELL_KEY_LENGTH));
            found.length = load_relaxed(word_at<std::int32_t>(body, layout::TABLE_BODY_LENGTH));
            if (found.key_length < 0 || found.key_length > key_bytes_) return found;
            if (found.length < 0 || found.length > value_bytes_) return found;
            key.assign(reinterpret_cast<const char*>(cell + layout::TABLE_CELL_KEY),
                       static_cast<std::size_t>(found.key_length));
            value.assign(reinterpret_cast<const char*>(body + layout::TABLE_BODY_VALUE),
                         static_cast<std::size_t>(found.length));
            return found;
        });
        version = seen.version;
        return seen.live();
    }

  private:
    [[noreturn, gnu::cold, gnu::noinline]] void throw_unread(std::uint64_t number) const {
        if (owner_) {
            corrupt(number, number == no_cell ? "the index changes, although no other process can write"
                                              : "the number of its value (seq) stays different from its version");
        }
        throw Busy(file_->path, static_cast<std::int64_t>(number));
    }
    /// Ends the repetition of a read or a search after 1 ms.
    class Patience {
      public:
        [[gnu::cold, gnu::noinline]] bool over() noexcept {
            cpu_relax();
            if (turns_++ % 64 != 0) return false;
            const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
            if (start_ == 0) start_ = now;
            return now - start_ > static_cast<std::int64_t>(layout::TABLE_READ_LIMIT);
        }

      private:
        std::int64_t start_ = 0;
        std::uint32_t turns_ = 0;
    };

    /// Calls look(). An exception that it throws is passed on only if the value that it saw was not torn.
    template <typename Look>
    [[gnu::always_inline]] static inline Seen guarded(const std::int64_t* seq, std::int64_t version, Look&& look) {
        try {
            return look();
        } catch (...) {
            acquire_fence();
            if (load_relaxed(seq) == version) throw;
            return {};
        }
    }

    const TableFile* file_;
    bool owner_;
    std::byte* control_;
    std::byte* index_;
    std::byte* cells_;
    std::uint64_t index_stride_;
    std::uint64_t entries_;
    std::uint64_t cell_count_;
    std::uint64_t stride_;
    bool one_piece_;           // no cell can cross a multiple of 1 GiB
    std::uint64_t bodies_[2];  // their offsets in a cell
    std::int32_t key_bytes_;
    std::int32_t value_bytes_;
};

}  // namespace flyring::detail
