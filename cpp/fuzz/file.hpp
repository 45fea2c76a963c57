// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <flyring/flyring.hpp>
#include <string>
#include <vector>

#include "input.hpp"

namespace fuzz {

/// The channel's file in the hands of a hostile process, which may write anything at any time. One file in shared
/// memory serves all inputs.
class File {
  public:
    File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File();

    const std::string& path() const noexcept { return path_; }
    std::size_t size() const noexcept { return size_; }
    std::byte* data() const noexcept { return data_; }

    /// The number of golden files of spec/golden. Having none is an error.
    std::size_t goldens() const noexcept { return goldens_.size(); }
    void load_golden(std::size_t index);
    void load(const std::uint8_t* bytes, std::size_t size);
    void resize(std::size_t size);
    void mend_crc();

    /// Writes one word that the input chooses, mostly a word that the library reads.
    void poke(Input& input);
    /// The same, in the first record of a ring that was not read (of a service): its header, or its prefix.
    void poke_unread(Input& input);
    /// How often these were done.
    std::uint32_t pokes() const noexcept { return pokes_; }

    /// Notes the file's present dimensions; all are 0 if it is not a channel.
    void note_shape();
    /// The dimensions noted last: when the file was loaded, or attached.
    const flyring::detail::Header& shape() const noexcept { return shape_; }
    flyring::detail::Ring ring(std::uint32_t index) const noexcept;

  private:
    struct Place {
        std::uint64_t offset;
        std::size_t size;
    };
    /// Fills a ring with padding only, so that a reader goes round it without an end.
    void pad_for_ever(std::uint32_t index);
    Place place(Input& input) const;
    std::int64_t value(Input& input, std::int64_t now) const;

    std::string folder_;
    std::string path_;
    int fd_ = -1;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::uint32_t pokes_ = 0;
    std::vector<std::vector<std::byte>> goldens_;
    flyring::detail::Header shape_;
};

}  // namespace fuzz
