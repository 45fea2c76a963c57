// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "flyring/detail/memory.hpp"
#include "flyring/detail/table_file.hpp"
#include "flyring/detail/xxhash64.hpp"
#include "flyring/errors.hpp"

// Finding and reading (spec/table.md 6). A reader takes nothing and stores nothing.

namespace flyring::detail {

/// Where a cell is not known.
inline constexpr std::uint64_t no_cell = ~std::uint64_t{0};

/// A key with its hash.
struct HashedKey {
    const std::byte* data;
    std::size_t size;
    std::uint32_t fingerprint;

    HashedKey(const std::byte* bytes, std::size_t length) noexcept
        : data(bytes), size(length), fingerprint(static_cast<std::uint32_t>(xxhash64(bytes, length) >> 32)) {}
    /// The entry of the index that leads to a cell.
    std::uint64_t entry(std::uint64_t cell) const noexcept { return std::uint64_t{fingerprint} << 32 | (cell + 1); }
};

/// Whether `size` bytes are the same; inline for short ones.
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

/// A cell as a validated read found it.
struct Seen {
    std::int64_t version = 0;      // 0: never written
    std::int32_t key_length = -1;  // not looked at
    std::int32_t length = layout::TABLE_REMOVED;
    bool same_key = false;

    bool live() const noexcept { return version > 0 && length >= 0; }
};

/// Offsets and words of one mapped table, with the operations of readers.
class TableView {
  public:
    /// `base`: a mapping of the file. Only the words that the caller may write are ever written. `owner`: of the owner
    /// of the slot, for which a body that does not fit its version is no matter of time.
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
          body_offset_(file.header.body_offset()),
          body_length_(file.header.body_length()),
          key_bytes_(static_cast<std::int32_t>(file.header.key_bytes)),
          value_bytes_(static_cast<std::int32_t>(file.header.value_bytes)) {}

    const TableFile& file() const noexcept { return *file_; }
    template <typename T>
    T* control(std::uint64_t offset) const noexcept {
        return word_at<T>(control_, offset);
    }
    std::int64_t* generation() const noexcept { return control<std::int64_t>(layout::TABLE_CONTROL_GENERATION); }
    std::int64_t* changed() const noexcept { return control<std::int64_t>(layout::TABLE_CONTROL_CHANGED); }
    std::uint64_t entries() const noexcept { return entries_; }
    std::uint64_t cell_count() const noexcept { return cell_count_; }
    std::uint64_t* copy(std::int64_t generation) const noexcept {
        return word_at<std::uint64_t>(index_, (generation & 1) != 0 ? index_stride_ : 0);
    }
    std::byte* cell(std::uint64_t number) const noexcept { return cells_ + number * stride_; }
    std::byte* body(std::uint64_t number, std::int64_t version) const noexcept {
        return cell(number) + body_offset_ + ((version & 1) != 0 ? body_length_ : 0);
    }
    std::int64_t* version(std::uint64_t number) const noexcept {
        return word_at<std::int64_t>(cell(number), layout::TABLE_CELL_VERSION);
    }
    std::uint64_t home(std::uint32_t fingerprint) const noexcept { return (fingerprint * entries_) >> 32; }
    std::uint64_t after(std::uint64_t at) const noexcept { return at + 1 == entries_ ? 0 : at + 1; }

    /// Whether a cell with this number can be used: it is there, and does not cross a multiple of 1 GiB.
    bool usable(std::uint64_t number) const noexcept {
        const std::uint64_t start = number * stride_;
        return number < cell_count_ && (start ^ (start + stride_ - 1)) < layout::TABLE_PIECE;
    }
    /// The cell to which an entry leads; no_cell if the entry is empty, a tombstone, or not valid.
    std::uint64_t cell_of(std::uint64_t entry) const noexcept {
        const std::uint64_t number = (entry & 0xffffffff) - 1;
        return FLYRING_LIKELY(usable(number)) ? number : no_cell;
    }
    std::uint64_t fresh() const noexcept {
        return std::min<std::uint64_t>(load_relaxed(control<std::uint32_t>(layout::TABLE_CONTROL_FRESH)), cell_count_);
    }
    [[noreturn, gnu::cold, gnu::noinline]] void corrupt(std::uint64_t number, const char* reason) const {
        throw CorruptTable(file_->path, static_cast<std::int64_t>(number), reason);
    }

    /// Reads a cell (6, read): calls look(cell, body) between the two looks at seq, again until both agree. look
    /// returns a Seen without version. Throws Busy, CorruptTable.
    template <typename Look>
    [[gnu::always_inline]] inline Seen read(std::uint64_t number, Look&& look) const {
        std::byte* const at = cell(number);
        Patience patience;
        for (;;) {
            const std::int64_t version = load_acquire(this->version(number));  // read 1; pairs with write 5
            if (version <= 0) return {};
            std::byte* const body = this->body(number, version);
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

    /// Reads a cell and compares its key. `take(value, length)` is called between the two looks if the key is the same
    /// and there is a value.
    template <typename Take>
    [[gnu::always_inline]] inline Seen read_key(std::uint64_t number, const HashedKey& key, Take&& take) const {
        return read(number, [&](std::byte* cell, std::byte* body) __attribute__((always_inline)) {
            Seen seen;
            seen.key_length = load_relaxed(word_at<std::int32_t>(cell, layout::TABLE_CELL_KEY_LENGTH));
            seen.same_key = static_cast<std::size_t>(seen.key_length) == key.size &&
                            same_bytes(cell + layout::TABLE_CELL_KEY, key.data, key.size);
            if (!seen.same_key) return seen;
            seen.length = load_relaxed(word_at<std::int32_t>(body, layout::TABLE_BODY_LENGTH));
            if (seen.length >= 0 && seen.length <= value_bytes_) {
                take(body + layout::TABLE_BODY_VALUE, static_cast<std::size_t>(seen.length));
            }
            return seen;
        });
    }

    /// Finds a key (6, find). Returns its cell, or no_cell, and what was read there. `take`: as for read_key.
    template <typename Take>
    [[gnu::always_inline]] inline std::uint64_t find(const HashedKey& key, Seen& seen, Take&& take) const {
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
                        prefetch(number);
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
        return find(key, seen, [](const std::byte*, std::size_t) {});
    }

    /// Reads any cell: key and value are copied. Returns whether it is live.
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
        if (owner_) corrupt(number, "the number of its value never fits its version");
        throw Busy(file_->path, static_cast<std::int64_t>(number));
    }
    /// Fetches the first line of both bodies beside that of the cell, because the cell's version tells which of them is
    /// read.
    [[gnu::always_inline]] inline void prefetch(std::uint64_t number) const noexcept {
        const std::byte* const body = cell(number) + body_offset_;
        __builtin_prefetch(body);
        __builtin_prefetch(body + body_length_);
    }
    /// How long a read or a search begins again.
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

    /// Calls look(). What it throws counts only if what it saw was whole.
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
    std::uint64_t body_offset_;
    std::uint64_t body_length_;
    std::int32_t key_bytes_;
    std::int32_t value_bytes_;
};

}  // namespace flyring::detail
